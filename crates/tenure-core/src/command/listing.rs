//! What a node is asked about many locks at once, and what it tells.
//!
//! A node may remember a million names, so nobody asks for all of them in one command: a *slice* is
//! small enough that others hardly notice it. What it cost comes back with it, so that whoever
//! walks through a node can rest between two slices.

use std::sync::Arc;
use std::time::Duration;

use super::Holding;
use crate::names::{LockKey, Prefix};

/// Which locks a node is asked about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Listing {
    /// What their keys begin with.
    pub prefix: Prefix,
    /// What follows the prefix in all of them; empty for all locks.
    pub begins: Arc<str>,
    /// Where the node looks.
    pub part: Part,
    /// Whether it tells labels, fences and waiters, too: three more reads for each lock.
    pub detailed: bool,
}

/// Where a node looks for locks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// Among so many of its keys, of any kind.
    Slice {
        /// Where to begin: 0 at first, then what the last slice said.
        cursor: u64,
        /// How many keys, roughly.
        keys: u32,
    },
    /// At exactly these, wherever they are in a walk.
    These(Vec<LockKey>),
}

/// What a node told of its locks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Listed {
    /// The locks it found.
    pub seen: Vec<Sighting>,
    /// Where the next slice begins; 0 if this was the last.
    pub next: u64,
    /// How far the walk is after this slice, in millionths.
    pub walked_ppm: u32,
    /// How many keys of any kind the node has, if it told.
    pub keys: Option<u64>,
    /// How long the node was busy, by its own clock, if it told.
    pub took: Option<Duration>,
}

/// A lock on a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sighting {
    /// Who has it.
    pub holding: Holding,
    /// How many are in line for it, those that were killed among them; `None` unless details were
    /// asked for.
    pub waiters: Option<u64>,
}

impl Listing {
    /// What all keys of these locks begin with.
    #[must_use]
    pub fn lead(&self) -> String {
        [self.prefix.as_str(), &self.begins].concat()
    }
}

impl Listed {
    /// How many keys the walk has looked at after this slice, roughly, if the node says how many it
    /// has.
    #[must_use]
    pub fn looked_at(&self) -> Option<u64> {
        let keys = self.keys?;
        u64::try_from(u128::from(keys) * u128::from(self.walked_ppm) / 1_000_000).ok()
    }
}
