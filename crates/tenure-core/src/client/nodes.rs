//! What is known about the nodes, and which leases and releases have to hear of it.

use super::output::Output;
use super::tag::{Addressee, Tag};
use super::timers::Machine;
use super::{Client, LeaseCell};
use crate::command::{Answer, Command, Fault, Refusal, Reply};
use crate::round::NodeIndex;
use crate::time::Time;
use crate::{lease, query, release, trust};

impl<L: LeaseCell> Client<L> {
    /// Takes the answer to a command: the same as [`Input::Answer`](super::Input::Answer), which is
    /// the most frequent input.
    pub fn answer(&mut self, now: Time, node: NodeIndex, tag: Tag, answer: Result<Reply, Fault>) {
        if let Ok(reply) = &answer {
            self.observe(now, node, tag.sent, reply);
        }
        self.deliver(now, node, tag, answer);
    }

    /// Looks at what a reply tells about its node besides the answer: its clock decides whether the
    /// answer counts. The first half of [`Input::Answer`](super::Input::Answer).
    pub fn observe(&mut self, now: Time, node: NodeIndex, sent: Time, reply: &Reply) {
        assert!(sent <= now, "the time is taken before a command leaves, and never goes back");
        self.shutdown.note_heard(now, node);
        self.fleet.observe(now, node, sent, reply);
        if reply.answer == Answer::Refused(Refusal::Stranger) {
            self.advance_fleet(now, trust::Input::Changed { node });
        }
        self.drain_fleet(now);
    }

    /// Brings an answer to whom it belongs. The second half of
    /// [`Input::Answer`](super::Input::Answer).
    pub fn deliver(&mut self, now: Time, node: NodeIndex, tag: Tag, answer: Result<Reply, Fault>) {
        match tag.to {
            Addressee::Lease { lease, round } => {
                if self.releases.get((lease, round)).is_some() {
                    let input = release::Input::AcquireAnswer { node, answer: answer.clone() };
                    self.advance_release(now, (lease, round), input);
                }
                let lease = self.present(lease);
                self.advance_lease(now, lease, lease::Input::Answer { round, node, answer });
            }
            Addressee::Release { lease, round } => {
                self.advance_release(now, (lease, round), release::Input::Answer { node, answer });
            }
            Addressee::Query(id) => self.advance_query(now, id, query::Input::Answer { node, answer }),
            Addressee::Trim if answer.is_err() => {}
            Addressee::Fleet | Addressee::Trim => {
                self.advance_fleet(now, trust::Input::Answer { node, answer });
            }
            Addressee::Leaving => self.shutdown.handle_left(),
            Addressee::Nobody => {}
        }
    }

    pub(super) fn advance_fleet(&mut self, now: Time, input: trust::Input) {
        self.fleet.handle(now, input);
        self.drain_fleet(now);
        self.set_fleet_timer();
    }

    /// Replies put off the next question to a silent node without an end, so a timer is only ever
    /// set for earlier.
    pub(super) fn set_fleet_timer(&mut self) {
        if let Some(next) = self.fleet.poll_timeout()
            && self.fleet_timer.as_ref().is_none_or(|set| next < set.at())
        {
            self.timers.set(Machine::Fleet, &mut self.fleet_timer, Some(next));
        }
    }

    pub(super) fn drain_fleet(&mut self, now: Time) {
        while let Some(output) = self.fleet.poll_output() {
            match output {
                trust::Output::Send { node, command } => {
                    let trims = matches!(command, Command::Trim { .. });
                    let to = if trims { Addressee::Trim } else { Addressee::Fleet };
                    self.outbox.send(now, to, node, command);
                }
                trust::Output::Survey { node } => self.outbox.say(Output::Survey { node }),
                trust::Output::Distrust { node, forgot } => self.distrust(now, node, forgot),
                trust::Output::Remember { memory } => self.outbox.say(Output::Remember { memory }),
                trust::Output::Life { node, nonce } => self.outbox.say(Output::Life { node, nonce }),
                trust::Output::Notice { node, distrust } => {
                    self.outbox.say(Output::Notice { node, distrust });
                }
                trust::Output::Poisoned { node, fence } => self.outbox.say(Output::Poisoned { node, fence }),
            }
        }
    }

    fn distrust(&mut self, now: Time, node: NodeIndex, forgot: bool) {
        if forgot {
            self.revoke_renewals(now, node);
        }
        for id in self.leases.keys() {
            self.advance_lease(now, id, lease::Input::Distrusted { node });
            if forgot {
                self.advance_lease(now, id, lease::Input::Disconnected { node });
            }
        }
    }

    pub(super) fn handle_connected(&mut self, now: Time, node: NodeIndex) {
        for id in self.releases.keys() {
            self.advance_release(now, id, release::Input::Connected { node });
        }
        for id in self.waiters.ids().collect::<Vec<_>>() {
            self.advance_lease(now, id, lease::Input::Connected { node });
        }
    }

    pub(super) fn handle_disconnected(&mut self, now: Time, node: NodeIndex) {
        self.revoke_renewals(now, node);
        for id in self.leases.keys() {
            self.advance_lease(now, id, lease::Input::Disconnected { node });
        }
    }
}
