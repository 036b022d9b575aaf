//! The records that a change writes, how long it waits before the last of them, and the fences that
//! begin there.

use std::sync::Arc;
use std::time::Duration;

use super::NodeListChange;
use super::seen::Seen;
use crate::fence::Fence;
use crate::round::NodeIndex;
use crate::time::Time;
use crate::trust::Nonce;
use crate::trust::record::{Phase, Record, State};

impl NodeListChange {
    /// How long the last lock of the old list may still be: until a quarantine after its nodes were
    /// closed, by the clock of each, or by ours from when we have seen it so. Clocks that are set
    /// back must hold up nobody.
    pub(super) fn locks_left(&self, now: Time, seen: &[Seen]) -> Duration {
        let left = seen.iter().zip(&self.nodes).filter_map(|(seen, node)| {
            let time = node.read.as_ref()?.time;
            let (record, since) = match seen {
                Seen::Closed(record) => (record, record.closed),
                Seen::Prepared(record) if record.returned => (record, record.created),
                _ => return None,
            };
            let age_us = time.as_micros().saturating_sub(since.unwrap_or(time).as_micros());
            let watched = node.since.filter(|(nonce, _)| *nonce == record.nonce);
            let watched = watched.map_or(Duration::ZERO, |(_, since)| now.since(since));
            Some(record.wait.saturating_sub(Duration::from_micros(age_us).max(watched)))
        });
        left.max().unwrap_or_default()
    }

    /// How far the fences of the old list are ahead. The first one of the new list must be above
    /// them, and not far ahead of its own clocks. A majority of them is enough: a node whose clock
    /// is wrong stays behind.
    pub(super) fn fences_left(&self, seen: &[Seen]) -> Duration {
        let (floor_us, ahead_us) = (self.floor(seen).get(), self.to.bounds().slack_us / 2);
        let of_new = self.nodes.iter().filter(|node| node.new.is_some());
        let fences = of_new.filter_map(|node| {
            let time_us = node.read.as_ref()?.time.as_micros();
            Some(Duration::from_micros(floor_us.saturating_sub(time_us.saturating_add(ahead_us))))
        });
        let mut fences: Vec<Duration> = fences.collect();
        fences.sort_unstable();
        fences.get(fences.len() / 2).copied().unwrap_or_default()
    }

    /// The highest fence that the old list can have granted. A majority has granted it, so one
    /// clock that is far ahead says nothing; of nodes that are gone nobody knows.
    pub(super) fn floor(&self, seen: &[Seen]) -> Fence {
        let carried = |seen: &Seen| match seen {
            Seen::Opened(record) | Seen::Prepared(record) | Seen::Closed(record) => record.floor,
            _ => Fence::NONE,
        };
        let of = |seen: &Seen| match seen {
            Seen::Closed(record) => {
                let before = match (&record.state, record.created) {
                    (State::New | State::Waited, Some(created)) => self.from.floor(created, Duration::ZERO),
                    _ => Fence::NONE,
                };
                let granted = record.closed.map_or(Fence::NONE, |closed| self.from.bounds().highest(closed));
                Some(granted.max(before))
            }
            _ => None,
        };
        let mut granted: Vec<Fence> = seen.iter().filter_map(of).collect();
        granted.sort_unstable_by(|a, b| b.cmp(a));
        let unknown = self.nodes.iter().filter(|node| node.gone).count();
        let granted = granted.get(self.quorum.majority().saturating_sub(1 + unknown)).copied();
        seen.iter().map(carried).chain(granted).max().unwrap_or(Fence::NONE).max(Fence::new(1))
    }

    pub(super) fn quarantine(&self) -> Duration {
        self.from.quarantine().max(self.to.quarantine())
    }

    pub(super) fn record(&mut self, node: usize, new: bool) -> Record {
        let part = &self.nodes[node];
        let facts = part.facts.clone().unwrap_or_default();
        let terms = match (new, part.old, part.new) {
            (false, Some(place), _) => self.from.terms(place),
            (_, _, Some(place)) => self.to.terms(place),
            _ => unreachable!("it is asked for a list that the node is in"),
        };
        Record {
            nonce: self.draw_nonce(),
            continues: vec![],
            life: facts.life,
            state: State::New,
            returned: false,
            durable: facts.durable,
            phase: Phase::Open,
            epoch: 0,
            opened: false,
            wait: self.quarantine(),
            floor: Fence::NONE,
            terms,
            created: None,
            closed: None,
        }
    }

    pub(super) fn prepared(&mut self, node: usize, epoch: u64) -> Record {
        let phase = Phase::Prepared(Arc::clone(self.from.roster().list()));
        Record { phase, epoch, ..self.record(node, true) }
    }

    /// Whoever ran this before may have removed locks already, so it does not matter whether we
    /// found any. Tokens from before do not count any more: of the nonces that the life went by,
    /// only the last is kept.
    pub(super) fn closed(&mut self, record: &Record) -> Record {
        let (nonce, continues, wait) = (self.draw_nonce(), vec![record.nonce], self.quarantine());
        let phase = Phase::Closed(Arc::clone(self.to.roster().list()));
        Record { nonce, continues, phase, wait, closed: None, ..record.clone() }
    }

    pub(super) fn opened(
        &mut self,
        place: NodeIndex,
        record: &Record,
        epoch: u64,
        floor: Fence,
        nonces: &[Nonce],
    ) -> Record {
        Record {
            nonce: self.draw_nonce(),
            continues: vec![record.nonce],
            state: State::Fresh(nonces.to_vec()),
            phase: Phase::Open,
            epoch: epoch.max(record.epoch),
            opened: true,
            wait: self.to.quarantine(),
            floor,
            terms: self.to.terms(place),
            closed: None,
            ..record.clone()
        }
    }
}
