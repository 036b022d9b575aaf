//! What everybody is put through.

mod contended;
mod distance;
mod failures;
mod held;
mod nodes;
mod uncontended;

use std::time::Duration;

use anyhow::Result;

use super::contender::{Contender, Peer, Runtime};
use super::figures::Figure;
use super::install::Installed;
use super::results::Section;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Workload {
    Uncontended,
    Contended,
    Failures,
    Held,
    Nodes,
    Distance,
}

/// What a workload is run with.
pub(crate) struct Bench<'a> {
    pub(crate) installed: &'a Installed,
    /// Those that are there.
    pub(crate) peers: Vec<&'static Peer>,
    pub(crate) time: Duration,
    pub(crate) rounds: usize,
    pub(crate) quick: bool,
}

impl Workload {
    pub(crate) const ALL: [Self; 6] =
        [Self::Uncontended, Self::Contended, Self::Failures, Self::Held, Self::Nodes, Self::Distance];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Uncontended => "uncontended",
            Self::Contended => "contended",
            Self::Failures => "failures",
            Self::Held => "held",
            Self::Nodes => "nodes",
            Self::Distance => "distance",
        }
    }

    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Uncontended => "Cycles (acquire, release) that nobody competes for, on five Redis servers",
            Self::Contended => "One lock that 16 workers want, on five Redis servers",
            Self::Failures => "One task while servers fail",
            Self::Held => "10,000 locks held by one process (500 by the Python peers)",
            Self::Nodes => "Cycles on one to nine Redis servers",
            Self::Distance => "One task, five servers at a distance, from the start of its process",
        }
    }

    /// What its table shows; the first is the one that its plot shows.
    pub(crate) const fn columns(self) -> &'static [Figure] {
        use Figure as F;
        match self {
            Self::Uncontended | Self::Nodes => &[
                F::CyclesPerSecond,
                F::CycleP50,
                F::CycleP99,
                F::AcquireP50,
                F::AcquireP99,
                F::ClientCpu,
                F::ServerCpu,
                F::Failed,
            ],
            Self::Contended => &[
                F::HandOverP50,
                F::HandOverP99,
                F::CyclesPerSecond,
                F::AcquireMax,
                F::LeastToMost,
                F::ClientCpu,
                F::ServerCpu,
                F::Failed,
                F::Overlaps,
            ],
            Self::Failures => {
                &[F::AcquireP99, F::AcquireP50, F::AcquireMax, F::CyclesPerSecond, F::ClientCpu, F::Failed]
            }
            Self::Held => &[F::CpuPerRenewal, F::Failed],
            Self::Distance => {
                &[F::AcquireP50, F::AcquireP99, F::CycleP50, F::FirstLock, F::ProcessToFirstLock, F::Failed]
            }
        }
    }

    pub(crate) fn run(self, bench: &Bench<'_>) -> Result<Section> {
        let mut section = Section::new(self);
        let takes_part = |peer: &&'static Peer| self == Self::Contended || !peer.is_for_sharing();
        let bench = &Bench { peers: bench.peers.iter().copied().filter(takes_part).collect(), ..*bench };
        match self {
            Self::Uncontended => uncontended::run(bench, &mut section)?,
            Self::Contended => contended::run(bench, &mut section)?,
            Self::Failures => failures::run(bench, &mut section)?,
            Self::Held => held::run(bench, &mut section)?,
            Self::Nodes => nodes::run(bench, &mut section)?,
            Self::Distance => distance::run(bench, &mut section)?,
        }
        Ok(section)
    }
}

impl Bench<'_> {
    /// All of these, or the few that say most.
    fn cells<T: Copy>(&self, all: &[T], few: &[T]) -> Vec<T> {
        if self.quick { few.to_vec() } else { all.to_vec() }
    }

    /// The peers as they are used where somebody waits, on one runtime.
    fn waiting(&self, runtime: Runtime) -> Vec<Contender> {
        let mut contenders = self.contenders(|peer| peer.waiting(runtime));
        contenders.retain(|contender| !(self.quick && contender.tuned));
        contenders
    }

    /// The peers, each used in these ways.
    fn contenders<I: Iterator<Item = Contender>>(&self, ways: impl Fn(&'static Peer) -> I) -> Vec<Contender> {
        self.peers.iter().flat_map(|peer| ways(peer)).collect()
    }
}
