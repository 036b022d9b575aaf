//! One request and its answer, on a connection of their own: so that whatever is cut off ends with
//! it, and the next one may reach another instance.

use std::io;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::rustls::pki_types::ServerName;

use super::{ANSWER_LIMIT, Address, Service, Trouble};
use crate::machine_clock::now;

/// The most that an answer can be: a list of a hundred thousand locks.
const ANSWER_MAX: usize = 256 << 20;

/// A stream of events says something every ten seconds.
const SILENCE_MAX: Duration = Duration::from_secs(25);

/// An answer that is no problem.
pub(super) struct Answer {
    /// When it was asked for: before anything was sent.
    pub(super) sent: Duration,
    pub(super) body: Value,
}

/// An answer that comes line by line. The connection ends with it.
pub(super) struct Lines {
    pub(super) sent: Duration,
    body: Incoming,
    input: Vec<u8>,
    _connection: JoinSet<()>,
}

/// Server-sent events, one after the other.
pub(crate) struct Messages {
    lines: Lines,
    /// What the data is of that comes next.
    event: String,
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

impl Service {
    pub(super) async fn post(&self, path: &str, body: &Value, limit: Duration) -> Result<Answer, Trouble> {
        let exchange = async {
            let (sent, response, _connection) = self.send(Method::POST, path, body.to_string()).await?;
            Ok(Answer { sent, body: self.whole(response).await? })
        };
        self.within(limit, exchange).await
    }

    pub(super) async fn get(&self, path: &str) -> Result<Value, Trouble> {
        self.get_within(path, ANSWER_LIMIT).await
    }

    pub(super) async fn get_within(&self, path: &str, limit: Duration) -> Result<Value, Trouble> {
        let exchange = async {
            let (_, response, _connection) = self.send(Method::GET, path, String::new()).await?;
            self.whole(response).await
        };
        self.within(limit, exchange).await
    }

    /// Server-sent events.
    pub(crate) async fn messages(&self, path: &str) -> Result<Messages, Trouble> {
        let lines = self.streamed(Method::GET, path, String::new()).await?;
        Ok(Messages { lines, event: String::new() })
    }

    /// An answer that is no problem, line by line.
    pub(super) async fn lines(&self, path: &str, body: &Value) -> Result<Lines, Trouble> {
        self.streamed(Method::POST, path, body.to_string()).await
    }

    async fn streamed(&self, method: Method, path: &str, body: String) -> Result<Lines, Trouble> {
        let exchange = async {
            let (sent, response, connection) = self.send(method, path, body).await?;
            if response.status().is_success() {
                return Ok((sent, response, connection));
            }
            let problem = self.whole(response).await.err();
            Err(problem.unwrap_or_else(|| Trouble::not_understood(&self.0.address)))
        };
        let (sent, response, connection) = self.within(ANSWER_LIMIT, exchange).await?;
        Ok(Lines { sent, body: response.into_body(), input: vec![], _connection: connection })
    }

    async fn within<T>(
        &self,
        limit: Duration,
        exchange: impl Future<Output = Result<T, Trouble>>,
    ) -> Result<T, Trouble> {
        let silent = |_| Trouble::unreached(&self.0.address, &format!("no answer within {limit:?}"));
        timeout(limit, exchange).await.map_err(silent)?
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: String,
    ) -> Result<(Duration, Response<Incoming>, JoinSet<()>), Trouble> {
        let address = &self.0.address;
        let unreached = |error: &dyn std::fmt::Display| Trouble::unreached(address, &error.to_string());
        let mut request = Request::builder().method(method).uri(path).header(HOST, address.host());
        request = request.header(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(caller) = &self.0.caller {
            let mut value = HeaderValue::try_from(format!("Bearer {caller}"))
                .map_err(|_| Trouble::misconfigured("the service token must be one line of plain text"))?;
            value.set_sensitive(true);
            request = request.header(AUTHORIZATION, value);
        }
        let request = request.body(Full::new(Bytes::from(body)));
        let request = request.map_err(|error| unreached(&error))?;
        let sent = now();
        let stream = TokioIo::new(self.connect_stream().await?);
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(stream).await.map_err(|error| unreached(&error))?;
        let mut running = JoinSet::new();
        running.spawn(async {
            // What goes wrong on it is told to whoever waits for the answer.
            let _ = connection.await;
        });
        let response = sender.send_request(request).await.map_err(|error| unreached(&reason(&error)))?;
        Ok((sent, response, running))
    }

    async fn connect_stream(&self) -> Result<Box<dyn Stream>, Trouble> {
        let address = &self.0.address;
        let unreached = |error: io::Error| Trouble::unreached(address, &error.to_string());
        let (host, port) = match address {
            Address::Unix(path) => {
                return Ok(Box::new(UnixStream::connect(path).await.map_err(unreached)?));
            }
            Address::Tcp { host, port, .. } => (host, *port),
        };
        let stream = TcpStream::connect((host.as_str(), port)).await.map_err(unreached)?;
        let _ = stream.set_nodelay(true);
        let Some(tls) = &self.0.tls else { return Ok(Box::new(stream)) };
        let name = ServerName::try_from(host.clone())
            .map_err(|_| Trouble::misconfigured(&format!("{host} is not a valid TLS server name")))?;
        match tls.connect(name, stream).await {
            Ok(stream) => Ok(Box::new(stream)),
            // A certificate that is not trusted stays so.
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                Err(Trouble::misconfigured(&format!("cannot trust the service at {address}: {error}")))
            }
            Err(error) => Err(unreached(error)),
        }
    }

    /// The whole answer, or the problem that it is.
    async fn whole(&self, response: Response<Incoming>) -> Result<Value, Trouble> {
        let status = response.status();
        let body = Limited::new(response.into_body(), ANSWER_MAX).collect().await;
        let body = body.map_err(|error| Trouble::unreached(&self.0.address, &error.to_string()))?.to_bytes();
        let told = serde_json::from_slice(&body).unwrap_or(Value::Null);
        if status.is_success() {
            Ok(told)
        } else {
            Err(Trouble::told(&self.0.address, status.as_u16(), told))
        }
    }
}

impl Messages {
    /// The next one, as its event and data; `None` at the end, or when nothing comes for so long
    /// that the service must be gone.
    pub(crate) async fn next(&mut self) -> Option<(String, Value)> {
        loop {
            let line = timeout(SILENCE_MAX, self.lines.line()).await.ok()??;
            let line = String::from_utf8_lossy(&line);
            if let Some(word) = line.strip_prefix("event: ") {
                word.trim_end().clone_into(&mut self.event);
            } else if let Some(data) = line.strip_prefix("data: ") {
                return Some((std::mem::take(&mut self.event), serde_json::from_str(data).ok()?));
            }
        }
    }
}

impl Lines {
    /// The next line; `None` at the end.
    pub(super) async fn next(&mut self) -> Option<Value> {
        serde_json::from_slice(&self.line().await?).ok()
    }

    async fn line(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Some(end) = self.input.iter().position(|byte| *byte == b'\n') {
                return Some(self.input.drain(..=end).collect());
            }
            let frame = self.body.frame().await?.ok()?;
            self.input.extend_from_slice(frame.data_ref()?);
        }
    }
}

/// Why, without the words around it.
fn reason(error: &hyper::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}
