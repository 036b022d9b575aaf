//! What happens in the demo. The words for it are in `output/demo.rs`.

use super::judge::Finding;
use super::keys::Act;
use super::world::CONTENDERS;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Happened {
    /// It has begun, with so many nodes; the dashboard is there.
    Begun {
        nodes: usize,
        dashboard: Option<String>,
    },
    Lock(Finding),
    /// No contender finds a majority.
    NoMajority,
    /// Something was done to a node, counted from zero.
    Done {
        node: usize,
        act: Act,
    },
    /// A node is seen to be so, in words.
    Node {
        node: usize,
        state: String,
    },
    Paused {
        who: usize,
    },
    Resumed {
        who: usize,
    },
    Guard {
        on: bool,
    },
    /// A majority is to be emptied as soon as somebody holds the lock for its whole term.
    Awaited,
    /// These nodes, a majority, were emptied while this one held the lock.
    Emptied {
        nodes: Vec<usize>,
        who: usize,
        guard: bool,
    },
    /// A contender is gone, and nobody of us ended it.
    Ended {
        who: usize,
    },
    /// Why a key did nothing, and the like.
    Note(String),
}

pub(crate) fn name(who: usize) -> &'static str {
    CONTENDERS.get(who).copied().unwrap_or("nobody")
}
