//! The least that passing a lock on can cost: parties in a ring, and nothing else.
//!
//! One holds the lock, the others listen. The holder's release deletes the key and publishes, in
//! one script on each of five servers; the third message wakes the next one, which acquires with
//! `SET NX` on all five, and has the lock with the third positive reply. Each has one connection to
//! each server, which takes messages as well. Nobody queues: whose turn it is was agreed on before.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};

use crate::{SILENCE_MAX, majority};

const RELEASE: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) \
                       return redis.call('PUBLISH', ARGV[2], '1') end return -1";

/// How long the others may take to come.
const COMING_MAX: Duration = Duration::from_secs(5);

/// One of them.
pub struct Party {
    connections: Vec<Connection>,
    majority: usize,
    /// How often it has acquired, and waited.
    acquired: usize,
    waited: usize,
    acquire: Vec<u8>,
    release: Vec<u8>,
}

struct Connection {
    stream: TcpStream,
    input: Vec<u8>,
    /// How many replies have come, and which of them was the last to grant. Replies to acquires and
    /// releases take turns.
    replies: usize,
    granted: usize,
    messages: usize,
}

impl Party {
    /// Connects to the servers at these loopback ports. Listens to its own name; releases of the
    /// lock `key` tell the `next`.
    ///
    /// # Errors
    /// If a server cannot be reached.
    pub fn connect(ports: &[u16], key: &str, name: &str, next: &str) -> io::Result<Self> {
        let mut connections = vec![];
        for port in ports {
            let stream = TcpStream::connect(("127.0.0.1", *port))?;
            stream.set_nodelay(true)?;
            let mut connection = Connection { stream, input: vec![], replies: 0, granted: 0, messages: 0 };
            connection.stream.write_all(&command(&["HELLO", "3"]))?;
            connection.stream.write_all(&command(&["SUBSCRIBE", name]))?;
            connection.stream.write_all(&command(&["PING"]))?;
            let pong = loop {
                connection.read()?;
                let pong = connection.input.windows(7).position(|bytes| bytes == b"+PONG\r\n");
                if let Some(begin) = pong {
                    break begin + 7;
                }
            };
            // A message may have come behind it already.
            connection.input.drain(..pong);
            connection.take();
            connections.push(connection);
        }
        let acquire = command(&["SET", key, name, "NX", "PX", "30000"]);
        let release = command(&["EVAL", RELEASE, "1", key, name, next]);
        Ok(Self { connections, majority: majority(ports), acquired: 0, waited: 0, acquire, release })
    }

    /// Waits until all of these listen at this server, which each asks last.
    ///
    /// # Errors
    /// If the server fails, or one of them does not come.
    pub fn wait_for(port: u16, names: &[String]) -> io::Result<()> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        let question: Vec<&str> =
            ["PUBSUB", "NUMSUB"].into_iter().chain(names.iter().map(String::as_str)).collect();
        let deadline = Instant::now() + COMING_MAX;
        while Instant::now() < deadline {
            stream.write_all(&command(&question))?;
            let mut answer = [0; 4096];
            let count = stream.read(&mut answer)?;
            // Names and numbers take turns: `:1` for each one that listens.
            if answer[..count].windows(4).filter(|bytes| bytes == b":1\r\n").count() == names.len() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, "the others do not come"))
    }

    /// Acquires. Returns with the third positive reply.
    ///
    /// # Errors
    /// If a server fails, or all are silent.
    pub fn acquire(&mut self) -> io::Result<()> {
        for connection in &mut self.connections {
            connection.stream.write_all(&self.acquire)?;
        }
        self.acquired += 1;
        let reply = 2 * self.acquired - 1;
        self.receive_until(|connection| connection.granted == reply)
    }

    /// Releases and tells the next one. Does not wait for the replies.
    ///
    /// # Errors
    /// If a server fails.
    pub fn release(&mut self) -> io::Result<()> {
        for connection in &mut self.connections {
            connection.stream.write_all(&self.release)?;
        }
        Ok(())
    }

    /// Waits until three servers have told that it is our turn.
    ///
    /// # Errors
    /// If a server fails, or all are silent.
    pub fn wait(&mut self) -> io::Result<()> {
        self.waited += 1;
        let messages = self.waited;
        self.receive_until(|connection| connection.messages >= messages)
    }

    fn receive_until(&mut self, counts: impl Fn(&Connection) -> bool) -> io::Result<()> {
        while self.connections.iter().filter(|connection| counts(connection)).count() < self.majority {
            let watched =
                self.connections.iter().map(|connection| PollFd::new(&connection.stream, PollFlags::IN));
            let mut watched: Vec<PollFd<'_>> = watched.collect();
            if poll(&mut watched, Some(&SILENCE_MAX))? == 0 {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "the servers are silent"));
            }
            let ready: Vec<bool> =
                watched.iter().map(|connection| !connection.revents().is_empty()).collect();
            for (connection, _) in self.connections.iter_mut().zip(ready).filter(|(_, ready)| *ready) {
                connection.read()?;
                connection.take();
            }
        }
        Ok(())
    }
}

impl Connection {
    fn read(&mut self) -> io::Result<()> {
        let mut bytes = [0; 4096];
        match self.stream.read(&mut bytes)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            count => {
                self.input.extend_from_slice(&bytes[..count]);
                Ok(())
            }
        }
    }

    /// Takes whole replies and messages off the front: `+OK`, `_` (refused), `:1` (released), and
    /// `>3` and six lines.
    fn take(&mut self) {
        loop {
            let Some(end) = self.input.windows(2).position(|pair| pair == b"\r\n") else { return };
            let mut length = end + 2;
            match self.input[0] {
                b'+' => self.granted = self.replies + 1,
                b'>' => {
                    let ends: Vec<usize> = (0..self.input.len().saturating_sub(1))
                        .filter(|at| self.input[*at..].starts_with(b"\r\n"))
                        .collect();
                    let Some(last) = ends.get(6) else { return };
                    length = last + 2;
                    self.messages += 1;
                }
                _ => {}
            }
            if self.input[0] != b'>' {
                self.replies += 1;
            }
            self.input.drain(..length);
        }
    }
}

fn command(parts: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", parts.len()).into_bytes();
    for part in parts {
        bytes.extend_from_slice(format!("${}\r\n{part}\r\n", part.len()).as_bytes());
    }
    bytes
}
