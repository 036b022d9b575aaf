//! A client of the service that can be cut off at any moment, which ready-made ones cannot. It
//! compares each answer with the description of the service.

mod contract;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// One connection.
#[derive(Debug)]
pub struct Client {
    stream: TcpStream,
    /// Lines of the head, beside the usual ones.
    more: String,
    input: Vec<u8>,
    /// The requests that have no answer yet: method and target.
    asked: VecDeque<(String, String)>,
}

/// What the service answered.
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The head, as it came.
    pub head: String,
    /// The body; null if it is no JSON.
    pub body: Value,
}

impl Client {
    /// Connects, without encryption.
    pub async fn connect(address: SocketAddr) -> Self {
        Self {
            stream: TcpStream::connect(address).await.unwrap(),
            more: String::new(),
            input: vec![],
            asked: VecDeque::new(),
        }
    }

    /// With this caller's token from now on.
    #[must_use]
    pub fn token(mut self, token: &str) -> Self {
        self.more = format!("Authorization: Bearer {token}\r\n");
        self
    }

    /// Sends JSON, and waits for the answer.
    pub async fn post(&mut self, path: &str, body: &Value) -> Answer {
        self.send(path, body).await;
        self.receive().await
    }

    /// Sends a request, and waits for nothing.
    pub async fn send(&mut self, path: &str, body: &Value) {
        self.send_text("POST", path, "application/json", &body.to_string()).await;
    }

    /// Asks, and waits for the answer.
    pub async fn get(&mut self, path: &str) -> Answer {
        self.send_text("GET", path, "text/plain", "").await;
        self.receive().await
    }

    /// Sends a request with a body of any kind.
    pub async fn send_text(&mut self, method: &str, path: &str, kind: &str, body: &str) {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\n{}Content-Type: {kind}\r\nContent-Length: {}\r\n\r\n",
            self.more,
            body.len()
        );
        self.write(&format!("{head}{body}")).await;
    }

    /// Sends anything at all.
    pub async fn write(&mut self, text: &str) {
        let mut words = text.lines().next().unwrap_or_default().split(' ').map(str::to_owned);
        self.asked.extend(words.next().zip(words.next()));
        self.stream.write_all(text.as_bytes()).await.unwrap();
    }

    /// Whether the connection ends, without a word, within this time.
    pub async fn is_closed_within(&mut self, limit: Duration) -> bool {
        let read = timeout(limit, self.stream.read_buf(&mut self.input)).await;
        matches!(read, Ok(Ok(0) | Err(_)))
    }

    /// Waits for the answer to the first request that has none. It must be as described.
    pub async fn receive(&mut self) -> Answer {
        let answer = self.receive_any().await;
        let (method, target) = self.asked.pop_front().expect("something was asked");
        contract::is_kept(&method, &target, &answer);
        answer
    }

    /// Waits for an answer, whatever it is.
    pub async fn receive_any(&mut self) -> Answer {
        loop {
            if let Some(answer) = self.take_answer() {
                return answer;
            }
            let count = self.stream.read_buf(&mut self.input).await.unwrap();
            assert!(count > 0, "the connection ended without an answer");
        }
    }

    fn take_answer(&mut self) -> Option<Answer> {
        let text = String::from_utf8_lossy(&self.input).into_owned();
        let (head, rest) = text.split_once("\r\n\r\n")?;
        let length: usize = header(head, "content-length")?.parse().ok()?;
        let body = rest.get(..length)?;
        let answer = Answer {
            status: head.split(' ').nth(1)?.parse().ok()?,
            head: head.to_owned(),
            body: serde_json::from_str(body).unwrap_or(Value::Null),
        };
        self.input.drain(..head.len() + 4 + length);
        Some(answer)
    }
}

impl Answer {
    /// What stands in this header, whose name is in small letters.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<String> {
        header(&self.head, name)
    }
}

fn header(head: &str, name: &str) -> Option<String> {
    let line = head.lines().find(|line| line.to_ascii_lowercase().starts_with(name))?;
    line.split(": ").nth(1).map(str::to_owned)
}
