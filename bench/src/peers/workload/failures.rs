//! Servers that fail while clients are connected: one hangs, one dies, two die.

use anyhow::Result;

use super::Bench;
use crate::peers::contender::{Contender, Runtime, Stores};
use crate::peers::etcd::Etcd;
use crate::peers::protocol::Names;
use crate::peers::results::Section;
use crate::peers::servers::Servers;
use crate::peers::turns::{Cell, Stage};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    OneHung,
    OneDead,
    TwoDead,
}

pub(crate) fn run(bench: &Bench<'_>, section: &mut Section) -> Result<()> {
    let faults = [Fault::None, Fault::OneHung, Fault::OneDead, Fault::TwoDead];
    for fault in bench.cells(&faults, &faults[..3]) {
        let mut contenders = bench.waiting(Runtime::Threads2);
        contenders.retain(|contender| fault.suits(contender));
        let servers = Servers::start(5, &contenders)?;
        let mut stage = Stage::set(bench.installed, servers, &contenders, 1);
        // The floor does not outlive a connection: it comes when the dead are dead.
        let early = matches!(fault, Fault::None | Fault::OneHung);
        stage.prepare(|contender| early || !contender.peer.is_floor());
        fault.strike(&mut stage.servers)?;
        let cell = Cell::work(fault.title().to_owned(), 1, Names::Once, bench.time);
        stage.take_turns(section, &[cell], bench.rounds, false);
    }
    Ok(())
}

impl Fault {
    const fn title(self) -> &'static str {
        match self {
            Self::None => "healthy",
            Self::OneHung => "one hung",
            Self::OneDead => "one dead",
            Self::TwoDead => "two dead",
        }
    }

    /// Whether a contender could go on at all: one server has no majority to lose, and two of three
    /// members are one.
    fn suits(self, contender: &Contender) -> bool {
        let survives = match contender.peer.stores {
            Stores::Quorum => true,
            Stores::Etcd => self != Self::TwoDead,
            Stores::OneServer => false,
        };
        survives && !contender.peer.is_for_cycles()
    }

    fn strike(self, servers: &mut Servers) -> Result<()> {
        match self {
            Self::None => {}
            Self::OneHung => {
                servers.redis.hang_one_for_good();
                servers.etcd.as_ref().map_or(Ok(()), Etcd::hang_one)?;
            }
            Self::OneDead => {
                servers.redis.kill_one();
                servers.etcd.iter_mut().for_each(Etcd::kill_one);
            }
            Self::TwoDead => (0..2).for_each(|_| servers.redis.kill_one()),
        }
        Ok(())
    }
}
