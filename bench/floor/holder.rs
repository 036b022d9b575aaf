//! The least that it can cost to keep many locks: bare extensions, many to a message.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::ops::Range;

use crate::command::Commands;
use crate::server;

/// So many locks go into one message.
const MESSAGE: u64 = 64;

/// Locks that are kept by whoever calls [`Holder::extend`] often enough.
pub struct Holder {
    servers: Vec<TcpStream>,
    commands: Commands,
    extend: String,
    input: Box<[u8]>,
}

impl Holder {
    /// Connects to the servers at these loopback ports. `keys` begins every key; `script` extends
    /// locks: its keys are the locks, its arguments the owner and the ttl of each, and it returns a
    /// number if all were extended.
    ///
    /// # Errors
    /// If a server cannot be reached, or cannot load the script.
    pub fn connect(ports: &[u16], keys: &str, script: &str) -> io::Result<Self> {
        let servers: Vec<TcpStream> =
            ports.iter().map(|port| server::open(*port)).collect::<Result<_, _>>()?;
        let (mut sha, mut extend) = (String::new(), String::new());
        for mut server in &servers {
            sha = server::load(&mut server, crate::command::RELEASE)?;
            extend = server::load(&mut server, script)?;
        }
        Ok(Self { servers, commands: Commands::new(keys, &sha), extend, input: vec![0; 64 * 1024].into() })
    }

    /// Sets these locks on all servers.
    ///
    /// # Errors
    /// If one was refused.
    pub fn acquire(&mut self, locks: Range<u64>) -> io::Result<()> {
        self.commands.clear();
        let count = self.commands.acquire(locks);
        self.round(count, b'+')
    }

    /// Extends these locks on all servers, and waits until all have done so.
    ///
    /// # Errors
    /// If one was refused.
    pub fn extend(&mut self, locks: Range<u64>) -> io::Result<()> {
        let (mut messages, mut begin) = (0, locks.start);
        self.commands.clear();
        while begin < locks.end {
            let end = locks.end.min(begin + MESSAGE);
            self.commands.extend(&self.extend, begin..end);
            (messages, begin) = (messages + 1, end);
        }
        self.round(messages, b':')
    }

    /// Sends what was encoded, and reads so many replies of this kind from each server.
    fn round(&mut self, replies: usize, kind: u8) -> io::Result<()> {
        for mut server in &self.servers {
            server.write_all(self.commands.as_bytes())?;
        }
        for mut server in &self.servers {
            let (mut missing, mut at_begin) = (replies, true);
            while missing > 0 {
                let count = server.read(&mut self.input)?;
                if count == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                for byte in &self.input[..count] {
                    if std::mem::replace(&mut at_begin, *byte == b'\n') && *byte != kind {
                        let told = String::from_utf8_lossy(&self.input[..count]);
                        return Err(io::Error::other(format!("a lock was refused: {told}")));
                    }
                    missing -= usize::from(*byte == b'\n');
                }
            }
        }
        Ok(())
    }
}
