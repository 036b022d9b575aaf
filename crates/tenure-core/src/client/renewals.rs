//! Renewals of many locks, sent and counted together.
//!
//! Every node gets the same batches, and nearly always grants all of one. Its leases then hear of a
//! majority of nodes at once, and of the others together, instead of once for each: a hundred
//! thousand held locks are looked at often enough as it is. Where a node says anything else, the
//! batch is split, and everything is told one by one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::output::Output;
use super::tag::{Addressee, Id, Tag};
use super::timers::Machine;
use super::{Client, LeaseCell};
use crate::command::{Answer, Command, Reply};
use crate::lease::{self, Renewing};
use crate::round::{NodeIndex, NodeSet};
use crate::time::{NodeTime, Time};

/// The most renewals in one batch: a tenth of a millisecond of a server's time, which others wait
/// for.
const BATCH_MAX: usize = 64;

/// A grant waits so long for those of other nodes, so that a lease hears of them together.
const GATHERING: Duration = Duration::from_millis(20);

/// A batch is kept for so long. What a node grants later is told by itself, node by node.
const KEPT: Duration = Duration::from_secs(1);

/// Renewals that are sent together, to every node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Renewals {
    /// What the batch is known by.
    pub batch: u64,
    /// When it was handed out.
    pub sent: Time,
    /// The locks, and the leases that hold them.
    pub locks: Vec<(Id, Renewing)>,
}

/// Batches that not all nodes have answered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Batches {
    /// Renewals that were begun and are not sent yet.
    begun: Vec<(Id, Renewing)>,
    /// How many batches were sent.
    sent: u64,
    under_way: BTreeMap<u64, Batch>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
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

impl Renewals {
    /// What the answers are known by, if they come one by one.
    pub fn tags(&self) -> impl Iterator<Item = Tag> {
        self.locks.iter().map(|(lease, renewing)| Tag {
            to: Addressee::Lease { lease: *lease, round: renewing.round },
            sent: self.sent,
        })
    }

    /// What to send to a node that gets them one by one.
    pub fn commands(&self) -> impl Iterator<Item = (Tag, Command)> {
        self.tags().zip(&self.locks).map(|(tag, (_, lock))| {
            let Renewing { key, token, node_ttl_ms, mode, .. } = lock.clone();
            (tag, Command::Extend { key, token, node_ttl_ms, mode })
        })
    }
}

impl<L: LeaseCell> Client<L> {
    /// Begins the renewal of a lease if that is what its timer was set for.
    pub(super) fn begin_renewal(&mut self, now: Time, id: Id) -> bool {
        let Some(entry) = self.leases.get_mut(id) else { return false };
        let mut lease = entry.lease.open();
        lease.follow(self.fleet.patience());
        let Some(renewing) = lease.begin_renewal(now) else { return false };
        self.timers.set(Machine::Lease(id), &mut entry.timer, lease.poll_timeout());
        drop(lease);
        self.batches.begun.push((entry.outer, renewing));
        if self.batches.begun.len() >= BATCH_MAX {
            self.send_renewals(now);
        }
        true
    }

    /// Sends the renewals that were begun.
    pub(super) fn send_renewals(&mut self, now: Time) {
        self.tell_late_grants(now);
        if self.batches.begun.is_empty() {
            return;
        }
        let batch = self.batches.sent;
        self.batches.sent += 1;
        let locks = std::mem::take(&mut self.batches.begun);
        let renewals = Arc::new(Renewals { batch, sent: now, locks });
        self.outbox.say(Output::Renew(Arc::clone(&renewals)));
        let (granted, told) = (NodeSet::default(), NodeSet::default());
        let state = Batch { renewals, granted, told, untold_since: None, split: false };
        self.batches.under_way.insert(batch, state);
    }

    /// A node granted a whole batch. However late that is, the leases are told: they know whether
    /// it still counts.
    pub(super) fn handle_renewed(
        &mut self,
        now: Time,
        node: NodeIndex,
        renewals: &Renewals,
        time: Option<NodeTime>,
    ) {
        self.fleet.observe(now, node, renewals.sent, &Reply::new(time, Answer::Granted));
        self.drain_fleet(now);
        let (majority, all) = (self.quorum().majority(), self.quorum().nodes());
        let Some(batch) = self.batches.under_way.get_mut(&renewals.batch) else {
            return self.tell_renewed(now, renewals, [node].into_iter().collect());
        };
        batch.granted.insert(node);
        batch.untold_since.get_or_insert(now);
        let decided = batch.told.is_empty() && batch.granted.len() >= majority;
        if decided || batch.split || batch.granted.len() == all {
            self.tell_grants(now, renewals.batch);
        }
    }

    /// A node answers the renewals of a batch one by one: from now on all are told that way.
    pub(super) fn split_batch(&mut self, now: Time, batch: u64) {
        if let Some(state) = self.batches.under_way.get_mut(&batch) {
            state.split = true;
            self.tell_grants(now, batch);
        }
    }

    /// What a node granted that nobody was told of does not count any more: its connection broke,
    /// or it forgot.
    pub(super) fn revoke_renewals(&mut self, now: Time, node: NodeIndex) {
        for batch in self.batches.under_way.values_mut().filter(|batch| !batch.told.contains(node)) {
            batch.granted.remove(node);
            batch.split = true;
        }
        for batch in self.batches.under_way.keys().copied().collect::<Vec<_>>() {
            self.tell_grants(now, batch);
        }
    }

    /// When grants have to be told that wait for others, or a batch is given up.
    pub(super) fn next_late_grants(&self) -> Option<Time> {
        self.batches.under_way.values().map(Batch::due).min()
    }

    fn tell_late_grants(&mut self, now: Time) {
        let due = self.batches.under_way.iter().filter(|(_, batch)| now >= batch.due());
        for batch in due.map(|(batch, _)| *batch).collect::<Vec<_>>() {
            self.tell_grants(now, batch);
            if self.batches.under_way.get(&batch).is_some_and(|state| now >= state.due()) {
                self.batches.under_way.remove(&batch);
            }
        }
    }

    fn tell_grants(&mut self, now: Time, batch: u64) {
        let all = self.quorum().nodes();
        let Some(state) = self.batches.under_way.get_mut(&batch) else { return };
        let told = state.told;
        let nodes: NodeSet = state.granted.iter().filter(|node| !told.contains(*node)).collect();
        (state.told, state.untold_since) = (state.granted, None);
        let renewals = Arc::clone(&state.renewals);
        if state.told.len() == all {
            self.batches.under_way.remove(&batch);
        }
        self.tell_renewed(now, &renewals, nodes);
    }

    fn tell_renewed(&mut self, now: Time, renewals: &Renewals, nodes: NodeSet) {
        if !nodes.is_empty() {
            for (lease, Renewing { round, .. }) in &renewals.locks {
                let lease = self.present(*lease);
                self.advance_lease(now, lease, lease::Input::Granted { round: *round, nodes });
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
