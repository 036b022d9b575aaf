//! TLS by rustls.

use std::path::Path;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::ring};

use super::TlsFiles;
use super::handshake::Stream;

/// Puts TLS around a stream to `host`. The files are read anew each time, so they can be changed.
///
/// # Errors
/// Why not, in words for the user.
pub(super) async fn wrap(stream: TcpStream, host: &str, files: &TlsFiles) -> Result<Box<dyn Stream>, String> {
    let name = ServerName::try_from(host.to_owned())
        .map_err(|_| format!("{host} is not a valid TLS server name"))?;
    let connector = TlsConnector::from(Arc::new(config(files)?));
    let stream = connector.connect(name, stream).await.map_err(|error| format!("TLS: {error}"))?;
    Ok(Box::new(stream))
}

fn config(files: &TlsFiles) -> Result<ClientConfig, String> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS: {error}"))?
        .with_root_certificates(roots(files)?);
    match &files.client {
        None => Ok(builder.with_no_client_auth()),
        Some((cert, key)) => {
            let private = PrivateKeyDer::from_pem_file(key).map_err(|error| broken(key, error))?;
            builder.with_client_auth_cert(certificates(cert)?, private).map_err(|error| broken(cert, error))
        }
    }
}

fn roots(files: &TlsFiles) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let (trusted, from) = match &files.ca {
        Some(ca) => (certificates(ca)?, ca.display().to_string()),
        None => (rustls_native_certs::load_native_certs().certs, "this system".to_owned()),
    };
    roots.add_parsable_certificates(trusted);
    if roots.is_empty() {
        return Err(format!("TLS: {from} has no trusted certificates; pass a file with ?ca=PATH"));
    }
    Ok(roots)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let certificates = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    certificates.map_err(|error| broken(path, error))
}

fn broken(path: &Path, error: impl std::fmt::Display) -> String {
    format!("TLS: {}: {error}", path.display())
}
