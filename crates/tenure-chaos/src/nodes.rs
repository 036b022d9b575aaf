//! The five servers, each with a clock of its own, behind two proxies: one for each half of the
//! clients.

use std::collections::VecDeque;
use std::path::PathBuf;

use tenure_testkit::{MovedClock, Proxy, RedisServer};

use super::Kind;
use crate::history::Ns;

/// How many nodes there are.
pub const NODES: usize = 5;

/// How many halves of clients there are: what one cannot reach, the other may.
pub const SIDES: usize = 2;

/// What a server keeps over a SIGKILL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Memory {
    /// Nothing.
    Nothing,
    /// What it has written; not all of it is known to be on disk.
    EverySecond,
    /// Everything that it has answered.
    Always,
}

#[derive(Debug)]
pub(super) struct Node {
    pub(super) server: RedisServer,
    pub(super) clock: MovedClock,
    pub(super) proxies: [Proxy; SIDES],
    /// How long its append-only file was lately.
    log_lengths: VecDeque<(Ns, u64)>,
}

/// Of longer ago than this the length of an append-only file is not needed: `everysec` loses a
/// second, at the worst two.
const TAIL_MAX_NS: Ns = 2_000_000_000;

/// What the nodes keep: of all kinds something, unless the run is about one of them.
pub(super) const fn memory(kind: Kind, node: usize) -> Memory {
    match (kind, node) {
        (Kind::Rolling, _) | (Kind::Mixed, 0 | 1) => Memory::Nothing,
        (Kind::Mixed, 2 | 3) => Memory::EverySecond,
        (Kind::RollingDurable | Kind::Mixed, _) => Memory::Always,
    }
}

impl Node {
    pub(super) fn start(memory: Memory) -> Self {
        let clock = MovedClock::new();
        let options: &[&str] = match memory {
            Memory::Nothing => &[],
            Memory::EverySecond => &["--appendonly", "yes", "--appendfsync", "everysec"],
            Memory::Always => &["--appendonly", "yes", "--appendfsync", "always"],
        };
        let server = RedisServer::start_with_clock(&clock, options);
        let proxies = std::array::from_fn(|_| Proxy::start_forgetful(server.port()));
        Self { server, clock, proxies, log_lengths: VecDeque::new() }
    }

    /// Looks how long its append-only file is, if it has one.
    pub(super) fn measure_log(&mut self, now: Ns) {
        if let Some(length) = self.log().and_then(|log| std::fs::metadata(log).ok()) {
            self.log_lengths.push_back((now, length.len()));
            while self.log_lengths.front().is_some_and(|(at, _)| *at < now - TAIL_MAX_NS) {
                self.log_lengths.pop_front();
            }
        }
    }

    /// Takes from the append-only file what was written since then, as a machine does that loses
    /// power. The server is down. Whether something was lost.
    pub(super) fn cut_log(&mut self, since: Ns) -> bool {
        let then = self.log_lengths.iter().find(|(at, _)| *at >= since).map(|(_, length)| *length);
        let file = self.log().map(|log| std::fs::OpenOptions::new().write(true).open(log));
        let (Some(length), Some(Ok(file))) = (then, file) else { return false };
        let shortens = file.metadata().is_ok_and(|now| now.len() > length);
        shortens && file.set_len(length).is_ok()
    }

    /// The part of the append-only file that is being written.
    fn log(&self) -> Option<PathBuf> {
        let files = std::fs::read_dir(self.server.folder().join("appendonlydir")).ok()?;
        let paths = files.filter_map(|file| Some(file.ok()?.path()));
        paths.filter(|path| path.to_string_lossy().ends_with(".incr.aof")).max()
    }

    /// Whether its record tells everybody that this is not the first start of the fleet.
    pub(super) fn remembers(&self) -> bool {
        let record = self.server.get("tenure~node:{tenure:}");
        record.is_some_and(|record| !record.contains(" new returned=0 "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_forgets_what_was_cut_off_the_end_of_its_data() {
        let mut node = Node::start(Memory::EverySecond);
        node.server.execute(&["SET", "old", "1"]);
        node.measure_log(1_000);
        node.server.execute(&["SET", "new", "1"]);
        node.measure_log(2_000);
        node.server.kill();
        assert!(!node.cut_log(1_500), "nothing was written since then");
        assert!(node.cut_log(1_000));
        node.server.restart();
        assert_eq!(node.server.keys(), ["old"]);
    }
}
