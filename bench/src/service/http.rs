//! A connection that stays, and one call after the other on it.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{CONTENT_TYPE, HOST};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tenure_testkit::certificates::Authority;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::ring};

/// How a server is reached.
#[derive(Clone)]
pub(super) struct Way {
    address: SocketAddr,
    tls: Option<Arc<ClientConfig>>,
}

pub(super) struct Connection(SendRequest<Full<Bytes>>);

impl Way {
    pub(super) const fn plain(address: SocketAddr) -> Self {
        Self { address, tls: None }
    }

    /// With TLS, by a certificate of this authority.
    pub(super) fn by_tls(address: SocketAddr, authority: &Authority) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(authority.file())?)?;
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self { address, tls: Some(Arc::new(config)) })
    }

    pub(super) async fn connect(&self) -> Result<Connection> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        match &self.tls {
            None => begin(stream).await,
            Some(config) => {
                let name = ServerName::from(self.address.ip());
                begin(TlsConnector::from(Arc::clone(config)).connect(name, stream).await?).await
            }
        }
    }
}

async fn begin(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Result<Connection> {
    let (sender, connection) = handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    Ok(Connection(sender))
}

impl Connection {
    /// The answer to a call, which must be a good one.
    pub(super) async fn post(&mut self, path: &str, body: &Value) -> Result<Value> {
        let request = Request::post(path).header(CONTENT_TYPE, "application/json");
        let answer = self.send(request, body.to_string().into()).await?;
        serde_json::from_slice(&answer).context("an answer is no JSON")
    }

    pub(super) async fn get(&mut self, path: &str) -> Result<()> {
        self.send(Request::get(path), Bytes::new()).await.map(drop)
    }

    async fn send(&mut self, request: hyper::http::request::Builder, body: Bytes) -> Result<Bytes> {
        self.0.ready().await?;
        let request = request.header(HOST, "127.0.0.1").body(Full::new(body))?;
        let answer = self.0.send_request(request).await?;
        let status = answer.status();
        let body = answer.into_body().collect().await?.to_bytes();
        ensure!(status.is_success(), "{status}: {}", String::from_utf8_lossy(&body));
        Ok(body)
    }
}
