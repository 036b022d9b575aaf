//! TLS to a service: the roots of this system, or those of a file.

use std::path::Path;
use std::sync::Arc;

use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::failure::Failure;

pub(super) fn connector(ca: Option<&Path>) -> Result<TlsConnector, Failure> {
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| Failure::internal(format!("TLS: {error}")))?
        .with_root_certificates(roots(ca)?)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

fn roots(ca: Option<&Path>) -> Result<RootCertStore, Failure> {
    let trusted = match ca {
        Some(path) => {
            let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
            read.map_err(|error| Failure::usage(format!("--service-ca {}: {error}", path.display())))?
        }
        None => rustls_native_certs::load_native_certs().certs,
    };
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(trusted);
    if roots.is_empty() {
        return Err(Failure::usage("no certificates to verify the service with; use --service-ca"));
    }
    Ok(roots)
}
