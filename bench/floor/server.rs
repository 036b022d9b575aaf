//! One server: its connection, and which of its replies belong to which round.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// A server that owes so many replies is not asked before it has caught up: far more than a server
/// that works owes, and few enough that its socket takes the commands without blocking.
const AWAITED_MAX: usize = 2_048;

/// A connection that takes no data for so long, or a server that does not load a script, is broken.
const IO_LIMIT: Duration = Duration::from_secs(5);

pub(crate) struct Server {
    stream: TcpStream,
    input: Box<[u8]>,
    filled: usize,
    /// Whether it is asked in this cycle.
    takes_part: bool,
    /// Cycles that it was not asked in.
    left_out: usize,
    ledger: Ledger,
}

/// Replies come in the order of the commands, so counting them is enough to know whose they are.
#[derive(Default)]
struct Ledger {
    /// Replies under way.
    awaited: usize,
    /// Of these, the last ones: the replies to the round that goes on.
    current: usize,
    /// Positive replies to the round that goes on.
    granted: usize,
    /// Replies that were not positive, of all rounds.
    refused: usize,
}

impl Server {
    pub(crate) fn connect(port: u16) -> io::Result<Self> {
        let stream = open(port)?;
        let input = vec![0; 64 * 1024].into();
        Ok(Self { stream, input, filled: 0, takes_part: true, left_out: 0, ledger: Ledger::default() })
    }

    /// Loads a script and returns its name.
    pub(crate) fn load(&mut self, script: &str) -> io::Result<String> {
        load(&mut self.stream, script)
    }

    /// Whether it can be asked in `count` more cycles.
    pub(crate) const fn has_room(&self, count: usize) -> bool {
        self.ledger.awaited + 2 * count <= AWAITED_MAX
    }

    /// Begins `count` cycles. The server takes part in all of each, or not at all.
    pub(crate) fn begin(&mut self, count: usize) {
        self.takes_part = self.has_room(count);
        self.left_out += usize::from(!self.takes_part) * count;
    }

    /// Begins a round of `count` commands.
    pub(crate) fn send(&mut self, commands: &[u8], count: usize) -> io::Result<()> {
        let count = if self.takes_part { count } else { 0 };
        self.ledger.begin(count);
        if self.takes_part { self.stream.write_all(commands) } else { Ok(()) }
    }

    /// Reads what has come. Blocks if that is nothing.
    pub(crate) fn receive(&mut self) -> io::Result<()> {
        match self.stream.read(&mut self.input[self.filled..])? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => self.filled += count,
        }
        let mut taken = 0;
        while let Some(length) = self.input[taken..self.filled].iter().position(|byte| *byte == b'\n') {
            self.ledger.settle(self.input[taken..taken + length].trim_ascii_end())?;
            taken += length + 1;
        }
        self.input.copy_within(taken..self.filled, 0);
        self.filled -= taken;
        Ok(())
    }

    /// The positive replies to this round so far.
    pub(crate) const fn granted(&self) -> usize {
        self.ledger.granted
    }

    /// The replies that were not positive, of all rounds.
    pub(crate) const fn refused(&self) -> usize {
        self.ledger.refused
    }

    /// The cycles that went on without it.
    pub(crate) const fn left_out(&self) -> usize {
        self.left_out
    }

    /// Whether every reply has come.
    pub(crate) const fn is_quiet(&self) -> bool {
        self.ledger.awaited == 0
    }
}

/// Connects to a loopback port.
pub(crate) fn open(port: u16) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(IO_LIMIT))?;
    stream.set_write_timeout(Some(IO_LIMIT))?;
    Ok(stream)
}

/// Loads a script and returns its name.
pub(crate) fn load(stream: &mut (impl io::Read + io::Write), script: &str) -> io::Result<String> {
    write!(stream, "*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n${}\r\n{script}\r\n", script.len())?;
    let mut reply = [0; "$40\r\n\r\n".len() + 40];
    stream.read_exact(&mut reply)?;
    let reply = String::from_utf8_lossy(&reply);
    let sha = reply.strip_prefix("$40\r\n").ok_or_else(|| io::Error::other(reply.to_string()))?;
    Ok(sha.trim_end().to_owned())
}

impl AsFd for Server {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl Ledger {
    const fn begin(&mut self, count: usize) {
        self.awaited += count;
        self.current = count;
        self.granted = 0;
    }

    /// Enters a reply.
    fn settle(&mut self, reply: &[u8]) -> io::Result<()> {
        let unexpected = || io::Error::other(String::from_utf8_lossy(reply).into_owned());
        let is_late = self.awaited > self.current;
        self.awaited = self.awaited.checked_sub(1).ok_or_else(unexpected)?;
        self.current -= usize::from(!is_late);
        match reply {
            b"+OK" | b":1" => self.granted += usize::from(!is_late),
            b"$-1" | b":0" => self.refused += 1,
            _ => return Err(unexpected()),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_reply_does_not_count_for_the_round_it_arrives_in() {
        let mut ledger = Ledger::default();
        ledger.begin(1);
        ledger.begin(1);
        ledger.settle(b"+OK").unwrap();
        assert_eq!((ledger.awaited, ledger.granted), (1, 0));
        ledger.settle(b":1").unwrap();
        assert_eq!((ledger.awaited, ledger.granted, ledger.refused), (0, 1, 0));
    }

    #[test]
    fn a_refusal_is_remembered_and_anything_else_is_an_error() {
        let mut ledger = Ledger::default();
        ledger.begin(2);
        ledger.settle(b"$-1").unwrap();
        assert_eq!((ledger.granted, ledger.refused), (0, 1));
        assert!(ledger.settle(b"-NOSCRIPT").is_err());
        assert!(ledger.settle(b"+OK").is_err(), "nobody asked for it");
    }
}
