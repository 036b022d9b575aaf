//! A private authority, and certificates of it.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd};
use tempfile::TempDir;

/// Somebody who signs certificates.
#[derive(Debug)]
pub struct Authority {
    folder: TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// The files of a certificate.
#[derive(Clone, Debug)]
pub struct CertificateFiles {
    /// The certificate.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

impl Authority {
    /// A new one, whom nobody trusts by itself.
    #[must_use]
    pub fn new() -> Self {
        let mut authority = CertificateParams::new(vec![]).unwrap();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("ca.pem"), issuer.pem()).unwrap();
        Self { folder, issuer }
    }

    /// The file with its own certificate.
    #[must_use]
    pub fn file(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// A certificate with this common name, and these DNS names and addresses. An earlier one of
    /// the same common name is replaced.
    #[must_use]
    pub fn issue(&self, common: &str, names: &[&str]) -> CertificateFiles {
        self.issue_until(common, names, 2999)
    }

    /// The same, until the beginning of this year.
    #[must_use]
    pub fn issue_until(&self, common: &str, names: &[&str], year: i32) -> CertificateFiles {
        let key = KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut certificate = CertificateParams::new(names).unwrap();
        // With the authority's own name a server would take it for signed by itself.
        certificate.distinguished_name.push(DnType::CommonName, common);
        certificate.not_before = date_time_ymd(2000, 1, 1);
        certificate.not_after = date_time_ymd(year, 1, 1);
        let certificate = certificate.signed_by(&key, &self.issuer).unwrap();
        let write = |end: &str, text: String| {
            let path = self.folder.path().join(format!("{common}{end}"));
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
            path
        };
        CertificateFiles {
            certificate: write(".pem", certificate.pem()),
            key: write(".key.pem", key.serialize_pem()),
        }
    }

    /// Where its files are.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}
