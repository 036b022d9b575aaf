//! What is in the file: lives of nodes, and records of other fleets that refused us.
//!
//! An entry concerns a node if the prefix is the same and either the address is, or the server
//! process and the database are: a server may be reached under several addresses, and an address
//! may come to mean another server.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tenure_core::NodeTime;
use tenure_core::trust::{KnownLife, LIVES_MAX, NodeMemory};

/// The most nodes that are remembered, of all prefixes: more than anybody has. Those whose last
/// life began first are forgotten first.
pub(super) const PLACES_MAX: usize = 256;

/// A node of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Subject {
    /// How it is called: its address, and the part of the server.
    pub(super) place: String,
    /// Which part of its server it is, whatever the address: the database.
    pub(super) part: String,
}

/// What is known of all nodes, by prefix and place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Book {
    pub(super) nodes: BTreeMap<(String, String), Entry>,
}

/// What is known of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) lives: BTreeSet<KnownLife>,
    pub(super) foreign: Option<Arc<str>>,
}

impl Book {
    /// What is known of a node, in a client that has met these lives of it.
    pub(super) fn about(&self, prefix: &str, subject: &Subject, met: &NodeMemory) -> NodeMemory {
        let processes: BTreeSet<&str> = met.lives.iter().filter_map(|life| life.process.as_deref()).collect();
        let is_one_of = |life: &&KnownLife| life.process.as_deref().is_some_and(|it| processes.contains(it));
        // What is no part of a server is not reached under several addresses.
        let same_part = |place: &str| !subject.part.is_empty() && place.ends_with(&subject.part);
        let mut known = NodeMemory::default();
        for ((_, place), entry) in self.nodes.iter().filter(|((of, _), _)| of == prefix) {
            if *place == subject.place {
                known.lives.extend(entry.lives.iter().cloned());
                known.foreign.clone_from(&entry.foreign);
            } else if same_part(place) {
                known.lives.extend(entry.lives.iter().filter(is_one_of).cloned());
            }
        }
        known
    }

    /// Adds what a client has met. Whether anything is new.
    pub(super) fn add(&mut self, prefix: &str, subjects: &[Subject], met: &[NodeMemory]) -> bool {
        let before = self.clone();
        let mut ours = BTreeSet::new();
        for (subject, met) in subjects.iter().zip(met) {
            let key = (prefix.to_owned(), subject.place.clone());
            ours.insert(key.clone());
            if met.lives.is_empty() && met.foreign.is_none() && !self.nodes.contains_key(&key) {
                continue;
            }
            let entry = self.nodes.entry(key).or_default();
            entry.lives.extend(met.lives.iter().cloned());
            entry.forget_old(&met.lives);
            if met.foreign.is_some() || met.ours {
                entry.foreign.clone_from(&met.foreign);
            }
        }
        self.forget_old(&ours);
        *self != before
    }

    fn forget_old(&mut self, ours: &BTreeSet<(String, String)>) {
        while self.nodes.len() > PLACES_MAX {
            let others = self.nodes.iter().filter(|(key, _)| !ours.contains(key));
            let Some((oldest, _)) = others.min_by_key(|(_, entry)| entry.newest()) else { return };
            let oldest = oldest.clone();
            self.nodes.remove(&oldest);
        }
    }
}

impl Entry {
    /// What a client has just met counts, however old it looks by a clock that may have been set
    /// back.
    fn forget_old(&mut self, met: &BTreeSet<KnownLife>) {
        while self.lives.len() > LIVES_MAX {
            let Some(oldest) = self.lives.iter().find(|life| !met.contains(life)).cloned() else { return };
            self.lives.remove(&oldest);
        }
    }

    fn newest(&self) -> Option<NodeTime> {
        self.lives.last().map(|life| life.created)
    }
}
