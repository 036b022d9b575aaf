//! Connections for those who need thousands: HTTP/1.1, and no look at whether an answer is as
//! described.

use std::net::SocketAddr;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// What the process opens beside them.
const BESIDE: u64 = 200;

/// Lets this process, and those that it starts, have so many connections.
pub(crate) fn allow_connections(count: usize) {
    let limit = getrlimit(Resource::Nofile);
    let wanted = count as u64 + BESIDE;
    assert!(
        limit.maximum.is_none_or(|most| most >= wanted),
        "{count} connections need {wanted} open files, and a process may have {:?} here: raise the hard limit \
         (`ulimit -Hn {wanted}`)",
        limit.maximum.unwrap_or_default()
    );
    if limit.current.is_some_and(|now| now < wanted) {
        setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), ..limit }).unwrap();
    }
}

pub(crate) struct Wire {
    stream: TcpStream,
    input: Vec<u8>,
}

impl Wire {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, input: vec![] }
    }

    /// Sends a call, and waits for nothing.
    pub(crate) async fn send(&mut self, call: &str, body: &str) {
        let request = format!(
            "POST /v1/{call} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n\
             {body}",
            body.len()
        );
        self.stream.write_all(request.as_bytes()).await.unwrap();
    }

    /// Sends a call, and waits for the answer.
    pub(crate) async fn post(&mut self, call: &str, body: &Value) -> (u16, Value) {
        self.ask(call, &body.to_string()).await
    }

    /// The same, with a body that is written already.
    pub(crate) async fn ask(&mut self, call: &str, body: &str) -> (u16, Value) {
        self.send(call, body).await;
        self.answer().await
    }

    /// The next answer: its status and body. If this is dropped, nothing of it is lost.
    pub(crate) async fn answer(&mut self) -> (u16, Value) {
        loop {
            if let Some((head, status)) = self.head()
                && let Some(length) = length(&self.input[..head])
                && self.input.len() >= head + length
            {
                let body = serde_json::from_slice(&self.input[head..head + length]).unwrap_or(Value::Null);
                self.input.drain(..head + length);
                return (status, body);
            }
            assert!(self.read().await, "the connection ended without an answer");
        }
    }

    /// The status of an answer whose lines follow.
    pub(crate) async fn status(&mut self) -> u16 {
        loop {
            if let Some((head, status)) = self.head() {
                self.input.drain(..head);
                return status;
            }
            assert!(self.read().await, "the connection ended without an answer");
        }
    }

    /// The next of these lines: a chunk, as the service writes them. None at the end.
    pub(crate) async fn line(&mut self) -> Option<Value> {
        loop {
            if let Some(at) = find(&self.input, b"\r\n") {
                let length = std::str::from_utf8(&self.input[..at]).unwrap();
                let (begin, length) = (at + 2, usize::from_str_radix(length, 16).unwrap());
                if self.input.len() >= begin + length + 2 {
                    let line = serde_json::from_slice(&self.input[begin..begin + length]).ok();
                    self.input.drain(..begin + length + 2);
                    return line;
                }
            }
            if !self.read().await {
                return None;
            }
        }
    }

    /// Ends the connection at once with RST, whatever is under way on it.
    pub(crate) fn reset(self) {
        self.stream.set_zero_linger().unwrap();
    }

    /// Where the head ends, and the status in it.
    fn head(&self) -> Option<(usize, u16)> {
        let end = find(&self.input, b"\r\n\r\n")? + 4;
        let status = std::str::from_utf8(self.input.get(9..12)?).unwrap();
        Some((end, status.parse().unwrap()))
    }

    async fn read(&mut self) -> bool {
        matches!(self.stream.read_buf(&mut self.input).await, Ok(count) if count > 0)
    }
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|window| window == what)
}

fn length(head: &[u8]) -> Option<usize> {
    let head = std::str::from_utf8(head).unwrap();
    head.lines().find_map(|line| line.strip_prefix("content-length: ")).map(|length| length.parse().unwrap())
}
