//! A client of the service that speaks HTTP/2, and can take back what it asked for; and frames for
//! those who want to send what no client would.

mod frames;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
pub use h2::{Reason, SendStream};
pub use http::Request;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

pub use self::frames::{Frames, Kind};

/// One connection.
#[derive(Debug)]
pub struct Client {
    /// What can be asked on it.
    pub requests: SendRequest<Bytes>,
    token: String,
    ended: JoinHandle<()>,
}

impl Client {
    /// Connects to a service at an address that its certificate names, which this authority signed.
    pub async fn connect(address: SocketAddr, authority: &Path, token: &str) -> Self {
        let (requests, connection) =
            h2::client::handshake(encrypted(address, authority).await).await.unwrap();
        let ended = tokio::spawn(async move {
            let _ = connection.await;
        });
        Self { requests, token: token.to_owned(), ended }
    }

    /// Sends a call; none if the connection has ended.
    pub async fn send(&mut self, call: &str, body: &Value) -> Option<(ResponseFuture, SendStream<Bytes>)> {
        let request = Request::post(format!("https://127.0.0.1/v1/{call}"))
            .header("authorization", format!("Bearer {}", self.token))
            .header("content-type", "application/json")
            .body(())
            .unwrap();
        self.requests = self.requests.clone().ready().await.ok()?;
        let (answer, mut stream) = self.requests.send_request(request, false).ok()?;
        stream.send_data(body.to_string().into(), true).ok()?;
        Some((answer, stream))
    }

    /// Sends a call, and waits for the answer: its status and body.
    pub async fn post(&mut self, call: &str, body: &Value) -> (u16, Value) {
        let (answer, _stream) = self.send(call, body).await.unwrap();
        let (head, mut body) = answer.await.unwrap().into_parts();
        let mut text = vec![];
        while let Some(part) = body.data().await {
            let part = part.unwrap();
            let _ = body.flow_control().release_capacity(part.len());
            text.extend_from_slice(&part);
        }
        (head.status.as_u16(), serde_json::from_slice(&text).unwrap_or(Value::Null))
    }

    /// Whether the connection ends within this time.
    pub async fn is_closed_within(&mut self, limit: Duration) -> bool {
        timeout(limit, &mut self.ended).await.is_ok()
    }
}

/// A connection on which both agreed to speak HTTP/2, before the first byte of it.
pub async fn encrypted(address: SocketAddr, authority: &Path) -> TlsStream<TcpStream> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(authority).unwrap()).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let stream = TcpStream::connect(address).await.unwrap();
    // A call is several small writes.
    stream.set_nodelay(true).unwrap();
    let name = ServerName::from(address.ip());
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
}
