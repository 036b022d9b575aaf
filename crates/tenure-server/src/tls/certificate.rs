//! What a certificate says: whose it is, and until when.

use jiff::{SignedDuration, Timestamp};
use x509_cert::der::Decode;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

pub(super) struct Certificate {
    /// Its DNS names and URIs, and the common name of its subject.
    pub(super) names: Vec<String>,
    pub(super) until: Timestamp,
}

impl Certificate {
    pub(super) fn read(der: &impl AsRef<[u8]>) -> Result<Self, String> {
        let read = x509_cert::Certificate::from_der(der.as_ref()).map_err(|error| error.to_string())?;
        let read = read.tbs_certificate();
        let alternative = read.get_extension::<SubjectAltName>().map_err(|error| error.to_string())?;
        let mut names: Vec<String> = vec![];
        for name in alternative.iter().flat_map(|(_, alternative)| &alternative.0) {
            match name {
                GeneralName::DnsName(name) => names.push(name.to_string()),
                GeneralName::UniformResourceIdentifier(name) => names.push(name.to_string()),
                _ => {}
            }
        }
        let common = read.subject().common_name().map_err(|error| error.to_string())?;
        names.extend(common.map(|name| name.value().into_owned()));
        let until = SignedDuration::try_from(read.validity().not_after.to_unix_duration());
        let until = until.and_then(Timestamp::from_duration).map_err(|error| error.to_string())?;
        Ok(Self { names, until })
    }

    /// Whether it is for this host. A star stands for one label.
    pub(super) fn covers(&self, host: &str) -> bool {
        self.names.iter().any(|name| match name.strip_prefix("*.") {
            Some(rest) => host.split_once('.').is_some_and(|(_, domain)| domain.eq_ignore_ascii_case(rest)),
            None => host.eq_ignore_ascii_case(name),
        })
    }
}
