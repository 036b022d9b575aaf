//! Releases under way: what ends is told to the nodes until they confirm, whoever else is gone.

use tenure_core::{NodeSet, Release, RoundNumber, release};
use tokio::sync::oneshot;

use super::timers::Timer;
use super::{Driver, MachineId, ReleaseReply};
use crate::node::Tag;
use crate::observe::Event;

pub(super) struct ReleaseEntry {
    pub(super) release: Release,
    undoes: (MachineId, RoundNumber),
    /// The nodes at which this release counts as a debt.
    debt: NodeSet,
    pub(super) timer: Option<Timer>,
    pub(super) reply: Option<oneshot::Sender<ReleaseReply>>,
}

impl Driver {
    pub(super) fn begin_release(&mut self, id: MachineId, lease: MachineId, release: Release) -> MachineId {
        let undoes = (lease, release.acquire_round());
        self.undoing.insert(undoes, id);
        let debt = NodeSet::default();
        self.releases.insert(id, ReleaseEntry { release, undoes, debt, timer: None, reply: None });
        self.drain_release(id);
        id
    }

    pub(super) fn advance_release(&mut self, id: MachineId, input: release::Input) {
        if let Some(entry) = self.releases.get_mut(&id) {
            entry.release.handle(self.now, input);
            self.drain_release(id);
        }
    }

    pub(super) fn drain_release(&mut self, id: MachineId) {
        let Some(entry) = self.releases.get_mut(&id) else { return };
        let mut done = None;
        while let Some(output) = entry.release.poll_output() {
            match output {
                release::Output::Send { node, command } => {
                    self.unsent = true;
                    let tag = Tag { machine: id, round: RoundNumber::default(), sent: self.now };
                    self.nodes[node.get()].send(tag, command);
                }
                release::Output::Outcome { outcome, ballots } => {
                    if entry.release.passed_on() {
                        self.waiters.passed_on(self.now, entry.release.key());
                    }
                    if let Some(reply) = entry.reply.take() {
                        let frees_within = entry.release.give_up_at().since(self.now);
                        let _ = reply.send(ReleaseReply { outcome, ballots, frees_within });
                    }
                }
                release::Output::Done { unconfirmed } => done = Some(unconfirmed),
            }
        }
        self.timers.set(id, &mut entry.timer, entry.release.poll_timeout());
        let debt = if done.is_none() && entry.release.is_overdue() {
            entry.release.owed()
        } else {
            NodeSet::default()
        };
        self.debts.change(&mut entry.debt, debt);
        if let Some(unconfirmed) = done {
            let name = entry.release.key().name();
            self.observer.observe(&match unconfirmed.len() {
                0 => Event::CleanedUp { name },
                nodes => Event::NotCleanedUp { name, nodes },
            });
            self.undoing.remove(&entry.undoes);
            self.releases.remove(&id);
        }
    }
}
