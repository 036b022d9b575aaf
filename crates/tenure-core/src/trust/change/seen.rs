//! What the record of a node says about a change.

use std::sync::Arc;
use std::time::Duration;

use super::{NodeListChange, Reading};
use crate::trust::record::{Phase, Record, State};

/// What the record of a node says about the change.
#[derive(Clone, Debug)]
pub(super) enum Seen {
    /// There is no record, or one that nobody can have been given anything by.
    Empty,
    /// It was taken out of its last fleet, or that fleet has gone on without it.
    Vacant(Record),
    /// It is switched off, and not looked at.
    Gone,
    Foreign,
    /// It serves the new list, by no doing of ours.
    InUse,
    /// It is being changed to another list.
    Elsewhere {
        to: Arc<str>,
        epoch: u64,
    },
    /// It was in the new list before, and was taken out of it when that was changed to this one.
    Retired {
        to: Arc<str>,
        epoch: u64,
    },
    Ours(Record),
    Closing(Record),
    Closed(Record),
    Prepared(Record),
    Opened(Record),
}

impl Seen {
    /// The epoch of the old list, if the node belongs to that.
    pub(super) fn old_epoch(&self) -> Option<u64> {
        match self {
            Self::Ours(record) | Self::Closing(record) | Self::Closed(record) => Some(record.epoch),
            _ => None,
        }
    }

    /// The epoch that the new list has, as far as this record says.
    pub(super) fn epoch(&self) -> Option<u64> {
        match self {
            Self::Ours(record) | Self::Closing(record) | Self::Closed(record) => {
                Some(record.epoch.saturating_add(1))
            }
            Self::Prepared(record) | Self::Opened(record) => Some(record.epoch),
            Self::Elsewhere { epoch, .. } | Self::Retired { epoch, .. } => Some(*epoch),
            Self::Vacant(record) => Some(record.epoch),
            Self::Empty | Self::Gone | Self::Foreign | Self::InUse => None,
        }
    }
}

impl NodeListChange {
    /// What a node's record says about the change.
    pub(super) fn look(&self, index: usize) -> Seen {
        let node = &self.nodes[index];
        if node.gone {
            return Seen::Gone;
        }
        let Some(Reading { text: Some(text), time }) = &node.read else { return Seen::Empty };
        let Some(record) = Record::parse(text) else { return Seen::Foreign };
        let old = node.old.is_some_and(|node| record.terms == self.from.terms(node));
        let new = node.new.is_some_and(|node| record.terms == self.to.terms(node));
        let age_us = time.as_micros().saturating_sub(record.created.unwrap_or(*time).as_micros());
        let young = Duration::from_micros(age_us) < self.to.quarantine();
        match record.phase.clone() {
            Phase::Vacant => Seen::Vacant(record),
            Phase::Open if old => Seen::Ours(record),
            Phase::Closing(to) | Phase::Closed(to) | Phase::Reclosing(to)
                if old && to != *self.to.roster().list() =>
            {
                Seen::Elsewhere { to, epoch: record.epoch }
            }
            Phase::Closing(_) | Phase::Reclosing(_) if old => Seen::Closing(record),
            Phase::Closed(_) if old => Seen::Closed(record),
            // Prepared from another list than ours, it is foreign: that list may still give locks.
            Phase::Prepared(from) if new && from == *self.from.roster().list() => Seen::Prepared(record),
            Phase::Closed(to) | Phase::Reclosing(to) if new && node.old.is_none() => {
                Seen::Retired { to, epoch: record.epoch }
            }
            Phase::Open if new && record.opened => Seen::Opened(record),
            // A client came with the new list before it was time, and has not been given anything.
            Phase::Open if new && record.state == State::New && young && node.old.is_none() => Seen::Empty,
            Phase::Open if new => Seen::InUse,
            _ => Seen::Foreign,
        }
    }

    /// A node that was switched off when the new list was left behind some time ago still says that
    /// it is open.
    pub(super) fn find_outdated(&self, seen: &mut [Seen]) {
        let mut epochs: Vec<u64> = seen.iter().filter_map(Seen::old_epoch).collect();
        epochs.sort_unstable_by(|a, b| b.cmp(a));
        // One alone may have been forgotten and taken back by a client that still has the old list.
        let now = epochs.get(self.quorum.majority() - 1).copied();
        for seen in seen {
            match seen {
                Seen::Opened(record) if now.is_some_and(|now| record.epoch <= now) => {
                    *seen = Seen::Vacant(record.clone());
                }
                // This change was made long ago, and the new list has been left for another one.
                Seen::Retired { to, epoch } if now.is_none_or(|now| *epoch >= now) => {
                    *seen = Seen::Elsewhere { to: Arc::clone(to), epoch: *epoch };
                }
                Seen::Retired { .. } => *seen = Seen::Empty,
                _ => {}
            }
        }
    }
}
