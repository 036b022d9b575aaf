//! The five servers, each with a clock of its own, behind two proxies: one for each half of the clients.

use super::Kind;
use crate::{MovedClock, Proxy, RedisServer};

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
}

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
        Self { server, clock, proxies }
    }

    /// Whether its record tells everybody that this is not the first start of the fleet.
    pub(super) fn remembers(&self) -> bool {
        let record = self.server.get("tenure~node:{tenure:}");
        record.is_some_and(|record| !record.contains(" new returned=0 "))
    }
}
