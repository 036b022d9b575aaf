//! TLS by rustls: the certificate of the service, and those of its clients.
//!
//! Files are read again on request. New connections have what was read last; those that are there
//! keep what they began with.

mod certificate;

use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use jiff::Timestamp;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig, ServerConnection};

use self::certificate::Certificate;

/// Whoever is neither the owner nor in its group.
const OTHERS: u32 = 0o007;

/// The files.
#[derive(Clone, Debug)]
pub(crate) struct TlsFiles {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
    /// Those who sign clients' certificates.
    pub(crate) client_ca: Option<PathBuf>,
}

/// What was read from them. Clones share it.
#[derive(Clone)]
pub(crate) struct Tls {
    files: Arc<TlsFiles>,
    read: Arc<RwLock<Arc<Read>>>,
}

struct Read {
    config: Arc<ServerConfig>,
    /// Of the service's own certificate.
    own: Certificate,
}

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read, or is something else.
    #[error("{}: {reason}; expected {expected}, as PEM", path.display())]
    #[non_exhaustive]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: String,
        /// What should be in it.
        expected: &'static str,
    },
    /// Others may read the key, and could pass for the service.
    #[error("the private key {} is world-readable; run chmod o= {}", path.display(), path.display())]
    #[non_exhaustive]
    Open {
        /// The file.
        path: PathBuf,
    },
    /// They do not belong together.
    #[error("the certificate in {} cannot be used with the key in {}: {reason}", certificate.display(), key.display())]
    #[non_exhaustive]
    Pair {
        /// The file with the certificate.
        certificate: PathBuf,
        /// The file with the key.
        key: PathBuf,
        /// Why not.
        reason: String,
    },
}

impl Tls {
    pub(crate) fn read(files: TlsFiles) -> Result<Self, TlsError> {
        let read = Arc::new(RwLock::new(Arc::new(Read::of(&files)?)));
        Ok(Self { files: Arc::new(files), read })
    }

    /// Reads the files again. If that fails, everything stays.
    pub(crate) fn reload(&self) -> Result<(), TlsError> {
        let read = Arc::new(Read::of(&self.files)?);
        *self.read.write().unwrap_or_else(PoisonError::into_inner) = read;
        Ok(())
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.now().config))
    }

    /// Whether this name is in the certificate of the service.
    pub(crate) fn is_named(&self, host: &str) -> bool {
        self.now().own.covers(host)
    }

    /// When the certificate of the service ends.
    pub(crate) fn until(&self) -> Timestamp {
        self.now().own.until
    }

    /// The names in the certificate that a client showed, which was checked already.
    pub(crate) fn names_of_client(session: &ServerConnection) -> Arc<[String]> {
        let shown = session.peer_certificates().and_then(<[_]>::first);
        let shown = shown.and_then(|shown| Certificate::read(shown).ok());
        shown.map_or_else(|| Arc::from([]), |shown| shown.names.into())
    }

    fn now(&self) -> Arc<Read> {
        Arc::clone(&self.read.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Read {
    fn of(files: &TlsFiles) -> Result<Self, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let pair = |reason: &dyn fmt::Display| TlsError::Pair {
            certificate: files.certificate.clone(),
            key: files.key.clone(),
            reason: reason.to_string(),
        };
        let chain = certificates(&files.certificate, "the service's certificate chain")?;
        let own = chain.first().map(Certificate::read).transpose().map_err(|reason| pair(&reason))?;
        let own = own.ok_or_else(|| pair(&"no certificate in it"))?;
        if files.key.metadata().is_ok_and(|found| found.mode() & OTHERS != 0) {
            return Err(TlsError::Open { path: files.key.clone() });
        }
        let key = PrivateKeyDer::from_pem_file(&files.key)
            .map_err(|error| wrong(&files.key, &error, "the certificate's private key"))?;
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
        let builder = builder.with_safe_default_protocol_versions().map_err(|error| pair(&error))?;
        let builder = match &files.client_ca {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let signers = "CA certificates that sign client certificates";
                let mut roots = RootCertStore::empty();
                roots.add_parsable_certificates(certificates(path, signers)?);
                // Who shows none may still have a token.
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                    .allow_unauthenticated()
                    .build()
                    .map_err(|error| wrong(path, &error, signers))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let mut config = builder.with_single_cert(chain, key).map_err(|error| pair(&error))?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self { config: Arc::new(config), own })
    }
}

fn certificates(path: &Path, expected: &'static str) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let read = read.map_err(|error| wrong(path, &error, expected))?;
    if read.is_empty() { Err(wrong(path, &"no certificate in it", expected)) } else { Ok(read) }
}

fn wrong(path: &Path, reason: &dyn fmt::Display, expected: &'static str) -> TlsError {
    TlsError::File { path: path.to_owned(), reason: reason.to_string(), expected }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tls").field(&self.files).finish()
    }
}
