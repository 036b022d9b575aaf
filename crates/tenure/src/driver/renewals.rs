//! Renewals of many locks, sent and counted together.
//!
//! Every node gets the same batches, and nearly always grants all of one. Its leases then hear of three nodes at once, and
//! of the others together, instead of five times: a hundred thousand held locks are looked at often enough as it is. Where
//! a node says anything else, the batch is split, and everything is told one by one.

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tenure_core::lease::Renewing;
use tenure_core::{Answer, Command, NodeIndex, NodeSet, NodeTime, Reply, Time, lease};

use super::machines::Machines;
use super::{Driver, MachineId};
use crate::node::{Renewals, Tag};

/// The most renewals in one batch: a tenth of a millisecond of a server's time, which others wait for.
const BATCH_MAX: usize = 64;

/// A grant waits so long for those of other nodes, so that a lease hears of them together.
const GATHERING: Duration = Duration::from_millis(20);

/// A batch is kept for so long. What a node grants later is told by itself, node by node.
const KEPT: Duration = Duration::from_secs(1);

/// Batches that not all nodes have answered.
#[derive(Default)]
pub(super) struct Batches {
    /// Renewals that were begun and are not sent yet.
    begun: Vec<(MachineId, Renewing)>,
    under_way: Machines<u64, Batch>,
}

struct Batch {
    renewals: Arc<Renewals>,
    granted: NodeSet,
    /// Those of them that the leases know of.
    told: NodeSet,
    /// When the first of the others granted it.
    untold_since: Option<Time>,
    /// Nodes answer one by one.
    split: bool,
}

impl Driver {
    /// Begins the renewal of a lease if that is what its timer was set for.
    pub(super) fn begin_renewal(&mut self, id: MachineId) -> bool {
        let Some(entry) = self.leases.get_mut(&id) else { return false };
        let mut lease = super::look(&entry.lease);
        lease.follow(self.fleet.patience());
        let Some(renewing) = lease.begin_renewal(self.now) else { return false };
        self.timers.set(id, &mut entry.timer, lease.poll_timeout());
        drop(lease);
        self.batches.begun.push((id, renewing));
        if self.batches.begun.len() >= BATCH_MAX {
            self.send_renewals();
        }
        true
    }

    /// Sends the renewals that were begun.
    pub(super) fn send_renewals(&mut self) {
        self.tell_late_grants();
        if self.batches.begun.is_empty() {
            return;
        }
        self.unsent = true;
        let batch = self.ids.fetch_add(1, Ordering::Relaxed);
        let locks = std::mem::take(&mut self.batches.begun);
        let renewals = Arc::new(Renewals { batch, sent: self.now, locks, encoded: OnceLock::new() });
        let mut split = false;
        for node in self.quorum.indexes() {
            if !self.nodes[node.get()].renew(&renewals) {
                split = true;
                for (tag, (_, lock)) in renewals.tags().zip(&renewals.locks) {
                    let Renewing { key, token, node_ttl_ms, .. } = lock.clone();
                    self.nodes[node.get()].send(tag, Command::Extend { key, token, node_ttl_ms });
                }
            }
        }
        let (granted, told) = (NodeSet::default(), NodeSet::default());
        let state = Batch { renewals, granted, told, untold_since: None, split };
        self.batches.under_way.insert(batch, state);
    }

    /// A node granted a whole batch. However late that is, the leases are told: they know whether it still counts.
    pub(super) fn handle_renewed(&mut self, node: NodeIndex, renewals: &Renewals, time: Option<NodeTime>) {
        self.fleet.observe(self.now, node, renewals.sent, &Reply::new(time, Answer::Granted));
        self.drain_fleet();
        let (majority, all) = (self.quorum.majority(), self.quorum.nodes());
        let Some(batch) = self.batches.under_way.get_mut(&renewals.batch) else {
            return self.tell_renewed(renewals, [node].into_iter().collect());
        };
        batch.granted.insert(node);
        batch.untold_since.get_or_insert(self.now);
        let decided = batch.told.is_empty() && batch.granted.len() >= majority;
        if decided || batch.split || batch.granted.len() == all {
            self.tell_grants(renewals.batch);
        }
    }

    /// A node answers the renewals of a batch one by one: from now on all are told that way.
    pub(super) fn split_batch(&mut self, batch: u64) {
        if let Some(state) = self.batches.under_way.get_mut(&batch) {
            state.split = true;
            self.tell_grants(batch);
        }
    }

    /// What a node granted that nobody was told of does not count any more: its connection broke, or it forgot.
    pub(super) fn revoke_renewals(&mut self, node: NodeIndex) {
        for batch in self.batches.under_way.values_mut().filter(|batch| !batch.told.contains(node)) {
            batch.granted.remove(node);
            batch.split = true;
        }
        for batch in self.batches.under_way.keys().copied().collect::<Vec<_>>() {
            self.tell_grants(batch);
        }
    }

    /// When grants have to be told that wait for others, or a batch is given up.
    pub(super) fn next_late_grants(&self) -> Option<Time> {
        self.batches.under_way.values().map(Batch::due).min()
    }

    pub(super) fn tell_late_grants(&mut self) {
        let now = self.now;
        let due = self.batches.under_way.iter().filter(|(_, batch)| now >= batch.due());
        for batch in due.map(|(batch, _)| *batch).collect::<Vec<_>>() {
            self.tell_grants(batch);
            if self.batches.under_way.get(&batch).is_some_and(|state| now >= state.due()) {
                self.batches.under_way.remove(&batch);
            }
        }
    }

    fn tell_grants(&mut self, batch: u64) {
        let Some(state) = self.batches.under_way.get_mut(&batch) else { return };
        let told = state.told;
        let nodes: NodeSet = state.granted.iter().filter(|node| !told.contains(*node)).collect();
        (state.told, state.untold_since) = (state.granted, None);
        let renewals = Arc::clone(&state.renewals);
        if state.told.len() == self.quorum.nodes() {
            self.batches.under_way.remove(&batch);
        }
        self.tell_renewed(&renewals, nodes);
    }

    fn tell_renewed(&mut self, renewals: &Renewals, nodes: NodeSet) {
        if !nodes.is_empty() {
            for Tag { machine, round, .. } in renewals.tags() {
                self.advance_lease(machine, lease::Input::Granted { round, nodes });
            }
        }
    }
}

impl Batch {
    /// When it has to be looked at.
    fn due(&self) -> Time {
        let kept = self.renewals.sent + KEPT;
        self.untold_since.map_or(kept, |since| kept.min(since + GATHERING))
    }
}
