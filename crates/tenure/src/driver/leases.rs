//! Leases under way: each input goes to one of them, and what it says is done.
//!
//! A guard and its driver share the lease, so it is locked while it is handled. Commands for nodes leave at once; news for
//! callers and observers, who may look at the guard, wait until it is unlocked.

use std::sync::atomic::Ordering;

use tenure_core::{Command, Fault, RoundNumber, lease, release};

use super::caller::Facts;
use super::{AcquireFailure, Driver, MachineId, draw_entropy, look};
use crate::node::Tag;
use crate::observe::Event;

impl Driver {
    /// Feeds one input to a lease and does what it says. Returns the clean-up that it began, if any.
    pub(super) fn advance_lease(&mut self, id: MachineId, input: lease::Input) -> Option<MachineId> {
        let entry = self.leases.get_mut(&id)?;
        let mut lease = look(&entry.lease);
        let mut no_randomness = None;
        let (mut clean_ups, mut told) = (vec![], std::mem::take(&mut self.told));
        lease.swap_outputs(&mut self.outputs);
        let given_up = matches!(input, lease::Input::Release | lease::Input::Abandon);
        let now = self.now;
        lease.follow(self.fleet.patience());
        lease.handle(now, input);
        while let Some(output) = lease.poll_output() {
            match output {
                lease::Output::Send { round, node, command: Command::Acquire { .. } }
                    if self.debts.is_full(node) =>
                {
                    lease.handle(now, lease::Input::Answer { round, node, answer: Err(Fault::Busy) });
                }
                lease::Output::Send { round, node, command } => {
                    self.unsent = true;
                    let leaves = matches!(command, Command::Leave { .. });
                    let machine = if leaves { self.shutdown.note_leaving() } else { id };
                    self.nodes[node.get()].send(Tag { machine, round, sent: now }, command);
                }
                lease::Output::CleanUp(mut release) => {
                    // Before anything that follows: the next attempt must find the keys of this one gone.
                    let machine = self.ids.fetch_add(1, Ordering::Relaxed);
                    while let Some(release::Output::Send { node, command }) = release.poll_output() {
                        self.unsent = true;
                        let tag = Tag { machine, round: RoundNumber::default(), sent: now };
                        self.nodes[node.get()].send(tag, command);
                    }
                    clean_ups.push((machine, *release));
                }
                lease::Output::Propose { fenced, ticket } => match draw_entropy() {
                    Ok(entropy) => {
                        let mut proposal = self.fleet.propose(now, fenced);
                        proposal.ticket = ticket.then(|| self.fleet.draw_ticket(now));
                        lease.handle(now, lease::Input::Attempt { entropy, proposal });
                    }
                    Err(error) => {
                        lease.handle(now, lease::Input::Abandon);
                        no_randomness = Some(error);
                    }
                },
                // The guard sees late votes when it looks.
                lease::Output::Widened => {}
                news => told.push(news),
            }
        }
        lease.swap_outputs(&mut self.outputs);
        self.timers.set(id, &mut entry.timer, lease.poll_timeout());
        let (ended, before, ticket) = (lease.is_ended(), entry.ticket, lease.ticket());
        // Most answers are no news for anybody.
        let news = given_up || !told.is_empty() || before != ticket;
        let facts = news.then(|| Facts::of(&lease, now));
        // Observers may look at the guard, so nobody is told while the lease is locked.
        drop(lease);
        entry.ticket = ticket;
        if let Some(error) = no_randomness {
            entry.tell_acquired(Err(AcquireFailure::NoRandomness(error)));
        }
        if let Some(facts) = &facts {
            if given_up {
                self.observer.observe(&Event::GivenUp { name: facts.key.name() });
            }
            for news in told.drain(..) {
                entry.tell((&mut self.observer, &self.addresses), now, facts, news);
            }
        }
        self.told = told;
        if ended {
            entry.tell_ended();
            self.leases.remove(&id);
        }
        if let Some(facts) = facts.filter(|_| before != ticket) {
            for (id, behind) in self.waiters.change(&facts.key, id, before, ticket) {
                self.advance_lease(id, lease::Input::BehindOwn(behind));
            }
        }
        clean_ups.into_iter().map(|(machine, release)| self.begin_release(machine, id, release)).last()
    }
}
