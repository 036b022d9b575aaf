//! The floor: the least that Redlock's messages can cost, to measure Tenure against.
//!
//! Plain sockets, one thread, no code of Tenure's, and nothing that makes a lock safe to use: no
//! deadline, no clean-up, no validity. To acquire, `SET key value NX PX ttl` goes to every server
//! at once; the positive reply that makes a majority decides. To release, the compare-and-delete
//! script of the Redlock page goes the same way. Nobody waits for the other replies. They arrive
//! during a later round and are counted then, so nothing is lost and nothing is taken for a reply
//! of that round.
//!
//! A batch runs many cycles at once: all their commands to a server leave in one write. With fences
//! they are one call of a script: the least that fenced locks can cost.
#![forbid(unsafe_code)]

mod command;
mod holder;
mod pass_on;
mod server;

use std::io;
use std::ops::Range;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::command::{Commands, Fenced};
pub use crate::holder::Holder;
pub use crate::pass_on::Party;
use crate::server::Server;

/// When no server says anything for so long, the measurement is broken.
const SILENCE_MAX: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };

/// Connections to all servers that can be reached.
pub struct Floor {
    servers: Vec<Server>,
    /// So many replies decide, out of all servers that were named.
    majority: usize,
    commands: Commands,
    /// The cycles of the batch that is under way.
    batch: Range<u64>,
}

impl Floor {
    /// Connects to the servers at these loopback ports. Those that refuse are left out. `keys`
    /// begins every key, and must be new: a key that is left of another run would be refused.
    ///
    /// # Errors
    /// If fewer than a majority of the servers can be reached, or one cannot load the script.
    pub fn connect(ports: &[u16], keys: &str) -> io::Result<Self> {
        let majority = majority(ports);
        let mut servers: Vec<Server> = ports.iter().flat_map(|port| Server::connect(*port)).collect();
        if servers.len() < majority {
            return Err(io::Error::other(format!(
                "only {} of {} servers answer",
                servers.len(),
                ports.len()
            )));
        }
        let sha = load(&mut servers, command::RELEASE)?;
        Ok(Self { servers, majority, commands: Commands::new(keys, &sha), batch: 0..0 })
    }

    /// From now on every lock has a fence: a small script sets a second key, which outlives the
    /// lock, for all locks of a batch at once.
    ///
    /// # Errors
    /// If a server cannot load the script.
    pub fn fenced(mut self) -> io::Result<Self> {
        let mut load = |script| load(&mut self.servers, script);
        let scripts =
            Fenced { acquire: load(command::ACQUIRE_FENCED)?, release: load(command::RELEASE_ALL)? };
        self.commands = self.commands.fenced(scripts);
        Ok(self)
    }

    /// Acquires `count` locks that nobody else wants, at once. Returns when each has a
    /// majority of positive replies.
    ///
    /// # Errors
    /// If a server fails, or all are silent.
    pub fn acquire(&mut self, count: usize) -> io::Result<()> {
        self.batch = self.batch.end..self.batch.end + count as u64;
        // Single cycles do not outrun a server that works: one that is so far behind hangs, and is
        // left out. Batches can, so they wait for it.
        if count > 1 {
            self.receive_until(|servers| servers.iter().all(|server| server.has_room(count)))?;
        }
        self.servers.iter_mut().for_each(|server| server.begin(count));
        self.round(Commands::acquire)
    }

    /// Releases the locks of the last [`Floor::acquire`]. Returns when each has a majority of
    /// positive replies.
    ///
    /// # Errors
    /// If a server fails, or all are silent.
    pub fn release(&mut self) -> io::Result<()> {
        self.round(Commands::release)
    }

    /// Waits for the replies that nobody has waited for. Returns how often a server that was too
    /// far behind was left out of a cycle.
    ///
    /// # Errors
    /// If a command was refused, or its reply does not come: then the measurement is worth nothing.
    pub fn finish(mut self) -> io::Result<usize> {
        self.receive_until(|servers| servers.iter().all(Server::is_quiet))?;
        match self.servers.iter().map(Server::refused).sum() {
            0 => Ok(self.servers.iter().map(Server::left_out).sum()),
            refused => Err(io::Error::other(format!("{refused} commands were refused"))),
        }
    }

    fn round(&mut self, command: fn(&mut Commands, Range<u64>) -> usize) -> io::Result<()> {
        self.commands.clear();
        let count = command(&mut self.commands, self.batch.clone());
        for server in &mut self.servers {
            server.send(self.commands.as_bytes(), count)?;
        }
        // Replies come in order, so the last cycle has its deciding reply when a majority has
        // granted all.
        let majority = self.majority;
        let granted = |server: &&Server| server.granted() == count;
        self.receive_until(|servers| servers.iter().filter(granted).count() >= majority)
    }

    fn receive_until(&mut self, done: impl Fn(&[Server]) -> bool) -> io::Result<()> {
        while !done(&self.servers) {
            let watched = self.servers.iter().map(|server| PollFd::new(server, PollFlags::IN));
            let mut watched: Vec<PollFd<'_>> = watched.collect();
            if poll(&mut watched, Some(&SILENCE_MAX))? == 0 {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "the servers are silent"));
            }
            let ready: Vec<bool> = watched.iter().map(|server| !server.revents().is_empty()).collect();
            for (server, _) in self.servers.iter_mut().zip(ready).filter(|(_, ready)| *ready) {
                server.receive()?;
            }
        }
        Ok(())
    }
}

/// Loads a script at all of them, where it has the same name.
fn load(servers: &mut [Server], script: &str) -> io::Result<String> {
    servers.iter_mut().try_fold(String::new(), |_, server| server.load(script))
}

/// How many of these servers decide.
fn majority(ports: &[u16]) -> usize {
    ports.len() / 2 + 1
}
