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
    /// The request whose answer comes bit by bit, and the head of that.
    streamed: Option<(String, String)>,
    head: String,
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
    /// The body as it came.
    pub text: String,
}

impl Client {
    /// Connects, without encryption.
    pub async fn connect(address: SocketAddr) -> Self {
        Self {
            stream: TcpStream::connect(address).await.unwrap(),
            more: String::new(),
            input: vec![],
            asked: VecDeque::new(),
            streamed: None,
            head: String::new(),
        }
    }

    /// With this caller's token from now on.
    #[must_use]
    pub fn token(mut self, token: &str) -> Self {
        self.more = format!("Authorization: Bearer {token}\r\n");
        self
    }

    /// What stands in the head of every request.
    #[must_use]
    pub fn lines(&self) -> String {
        self.more.clone()
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

    /// The same, with these lines in its head.
    pub async fn send_with(&mut self, lines: &str, path: &str, body: &Value) {
        let always = self.more.clone();
        self.more.push_str(lines);
        self.send(path, body).await;
        self.more = always;
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

    /// Ends the connection at once with RST, whatever is under way on it.
    pub fn reset(self) {
        self.stream.set_zero_linger().unwrap();
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

    /// Waits for the head of an answer whose body comes bit by bit.
    pub async fn receive_head(&mut self) -> String {
        self.streamed = self.asked.pop_front();
        assert!(self.streamed.is_some(), "something was asked");
        loop {
            let text = String::from_utf8_lossy(&self.input);
            if let Some((head, _)) = text.split_once("\r\n\r\n") {
                let head = head.to_owned();
                self.input.drain(..head.len() + 4);
                self.head.clone_from(&head);
                return head;
            }
            let count = self.stream.read_buf(&mut self.input).await.unwrap();
            assert!(count > 0, "the connection ended without an answer");
        }
    }

    /// The next chunk of such a body: a line, as the service writes them. `None` at its end, or if
    /// the connection breaks.
    pub async fn next_chunk(&mut self) -> Option<String> {
        loop {
            if let Some((length, rest)) = String::from_utf8_lossy(&self.input).split_once("\r\n") {
                let begin = length.len() + 2;
                let length = usize::from_str_radix(length, 16).unwrap();
                if rest.len() >= length + 2 {
                    let chunk = rest[..length].to_owned();
                    self.input.drain(..begin + length + 2);
                    return (length > 0).then_some(chunk);
                }
            }
            match self.stream.read_buf(&mut self.input).await {
                Ok(count) if count > 0 => {}
                _ => return None,
            }
        }
    }

    /// The same, read as JSON. It must be as described.
    pub async fn next_json(&mut self) -> Option<Value> {
        let text = self.next_chunk().await?;
        Some(self.described(&text))
    }

    /// A part of such a body, as JSON. It must be as described.
    #[track_caller]
    pub fn described(&self, text: &str) -> Value {
        let (method, target) = self.streamed.as_ref().expect("its head was received");
        let (body, text) = (serde_json::from_str(text).unwrap(), text.to_owned());
        let answer = Answer { status: status(&self.head).unwrap(), head: self.head.clone(), body, text };
        contract::is_kept(method, target, &answer);
        answer.body
    }

    fn take_answer(&mut self) -> Option<Answer> {
        let text = String::from_utf8_lossy(&self.input).into_owned();
        let (head, rest) = text.split_once("\r\n\r\n")?;
        let length: usize = header(head, "content-length")?.parse().ok()?;
        let body = rest.get(..length)?;
        let answer = Answer {
            status: status(head)?,
            head: head.to_owned(),
            body: serde_json::from_str(body).unwrap_or(Value::Null),
            text: body.to_owned(),
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

fn status(head: &str) -> Option<u16> {
    head.split(' ').nth(1)?.parse().ok()
}

fn header(head: &str, name: &str) -> Option<String> {
    let line = head.lines().find(|line| line.to_ascii_lowercase().starts_with(name))?;
    line.split(": ").nth(1).map(str::to_owned)
}
