//! Releases under way: what ends is told to the nodes until they confirm, whoever else is gone.

use std::time::Duration;

use tenure_core::{NodeSet, Release, ReleaseOutcome, RoundNumber, Time, lease, release};
use tokio::sync::oneshot;

use super::timers::Timer;
use super::{Driver, MachineId, ReleaseReply};
use crate::node::Tag;
use crate::observe::Event;

/// How long the votes of the other nodes are waited for when a majority has decided, for callers who want to know of
/// all: longer than a near node takes, also on an overloaded machine.
const ALL_VOTES_MAX: Duration = Duration::from_millis(150);

pub(super) struct ReleaseEntry {
    pub(super) release: Release,
    undoes: (MachineId, RoundNumber),
    /// The nodes at which this release counts as a debt.
    debt: NodeSet,
    pub(super) timer: Option<Timer>,
    caller: Option<Caller>,
}

/// Who waits for the outcome.
struct Caller {
    reply: oneshot::Sender<ReleaseReply>,
    /// How long the votes of all nodes are waited for when the outcome is known.
    patience: Duration,
    /// The outcome, and until when the other votes are waited for.
    decided: Option<(ReleaseOutcome, Time)>,
}

impl Driver {
    pub(super) fn begin_release(&mut self, id: MachineId, lease: MachineId, release: Release) -> MachineId {
        let undoes = (lease, release.acquire_round());
        self.undoing.insert(undoes, id);
        let debt = NodeSet::default();
        self.releases.insert(id, ReleaseEntry { release, undoes, debt, timer: None, caller: None });
        self.drain_release(id);
        id
    }

    /// Releases what the lease holds, and tells the outcome: at once, or when all nodes had a moment to answer.
    pub(super) fn release(
        &mut self,
        lease: MachineId,
        reply: oneshot::Sender<ReleaseReply>,
        hears_all: bool,
    ) {
        if let Some(release) = self.advance_lease(lease, lease::Input::Release) {
            let patience = if hears_all { ALL_VOTES_MAX } else { Duration::ZERO };
            let caller = Caller { reply, patience, decided: None };
            self.releases.entry(release).and_modify(|entry| entry.caller = Some(caller));
        }
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
                release::Output::Outcome { outcome, .. } => {
                    if entry.release.passed_on() {
                        let nudge_after = entry.release.nudge_after();
                        self.waiters.passed_on(self.now, entry.release.key(), nudge_after);
                    }
                    if let Some(caller) = &mut entry.caller {
                        caller.decided = Some((outcome, self.now + caller.patience));
                    }
                }
                release::Output::Done { unconfirmed } => done = Some(unconfirmed),
            }
        }
        entry.tell(self.now, done.is_some());
        let timeout = entry.timeout();
        self.timers.set(id, &mut entry.timer, timeout);
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

impl ReleaseEntry {
    /// Tells the caller the outcome when it is time. `last`: no more votes will come.
    fn tell(&mut self, now: Time, last: bool) {
        let all = self.release.ballots().iter().all(Option::is_some);
        let is_time =
            |caller: &mut Caller| matches!(caller.decided, Some((_, until)) if all || last || now >= until);
        if let Some(Caller { reply, decided: Some((outcome, _)), .. }) = self.caller.take_if(is_time) {
            let ballots = self.release.ballots().to_vec();
            let frees_within = self.release.give_up_at().since(now);
            let _ = reply.send(ReleaseReply { outcome, ballots, frees_within });
        }
    }

    fn timeout(&self) -> Option<Time> {
        let decided = self.caller.as_ref().and_then(|caller| caller.decided);
        self.release.poll_timeout().into_iter().chain(decided.map(|(_, until)| until)).min()
    }
}
