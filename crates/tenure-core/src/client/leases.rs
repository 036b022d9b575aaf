//! Leases under way: each input goes to one of them, and what it says is done.
//!
//! Where a guard and the client share a lease, it is locked while it is handled. What it says is
//! told afterwards; commands for nodes come before news for callers.

use std::ops::{Deref, DerefMut};

use super::Client;
use super::cohorts::LocalPlace;
use super::outbox::Outbox;
use super::output::{News, Output};
use super::releases::ReleaseId;
use super::tag::{Addressee, Id};
use super::timers::{Machine, Timer};
use crate::command::{Command, Fault};
use crate::lease::release::{self, Release};
use crate::lease::{self, Lease, Standing};
use crate::line::Ticket;
use crate::time::Time;

/// Where a lease lies: in the client itself, or where others can look at it, too.
pub trait LeaseCell {
    /// The lease, to look at.
    fn look(&self) -> impl Deref<Target = Lease>;

    /// The lease, to move it on. Nobody else looks at it meanwhile.
    fn open(&mut self) -> impl DerefMut<Target = Lease>;
}

impl LeaseCell for Lease {
    fn look(&self) -> impl Deref<Target = Lease> {
        self
    }

    fn open(&mut self) -> impl DerefMut<Target = Lease> {
        self
    }
}

/// A lease under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct LeaseEntry<L> {
    pub(super) lease: L,
    pub(super) timer: Option<Timer>,
    /// Its place in line, as the other waiters know it.
    ticket: Option<Ticket>,
    /// Its place among the callers of this client that wait for one of them.
    pub(super) local: Option<LocalPlace>,
    /// What answers to its commands are known by: itself, or whoever acquired the lock that was
    /// passed on to it.
    pub(super) outer: Id,
}

impl<L> LeaseEntry<L> {
    pub(super) const fn of(id: Id, lease: L) -> Self {
        Self { lease, timer: None, ticket: None, local: None, outer: id }
    }
}

impl<L: LeaseCell> Client<L> {
    /// Feeds one input to a lease and does what it says. Returns the clean-up that it began, if
    /// any.
    pub(super) fn advance_lease(&mut self, now: Time, id: Id, input: lease::Input) -> Option<ReleaseId> {
        let entry = self.leases.get_mut(id)?;
        let mut lease = entry.lease.open();
        if lease.is_ended() {
            return None;
        }
        let outer = entry.outer;
        let (mut clean_up, mut told) = (None, std::mem::take(&mut self.told));
        if matches!(input, lease::Input::Release | lease::Input::Abandon) {
            told.push(News::GivenUp { fence: lease.standing().and_then(Standing::fence) });
        }
        lease.swap_outputs(&mut self.room);
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
                    let leaves = matches!(command, Command::Leave { .. });
                    let to = Addressee::Lease { lease: outer, round };
                    let to = if leaves { self.shutdown.note_leaving() } else { to };
                    self.outbox.send(now, to, node, command);
                }
                lease::Output::CleanUp(mut release) => {
                    // Before anything that follows: the next attempt must find the keys of this one
                    // gone.
                    send_release(&mut self.outbox, now, outer, &mut release);
                    let before = clean_up.replace(release);
                    assert!(before.is_none(), "a lease ends one attempt at a time");
                }
                lease::Output::Propose { fenced, ticket, joins } => {
                    let span = if lease.is_cohort() { self.cohorts.begin_round(lease.key(), id) } else { 0 };
                    let mut proposal = match joins {
                        Some(fence) => self.fleet.propose_joining(now, fence),
                        None => self.fleet.propose_range(now, fenced, span),
                    };
                    proposal.ticket = ticket.then(|| self.fleet.draw_ticket(now));
                    self.outbox.say(Output::Draw { lease: id, proposal });
                }
                lease::Output::AllVoted => told.push(News::AllVoted),
                lease::Output::Acquired => told.push(News::Acquired),
                lease::Output::NotAcquired(end) => told.push(News::NotAcquired(end)),
                lease::Output::Waiting { at, free_after } => told.push(News::Waiting { at, free_after }),
                lease::Output::Retrying { cause, at, ballots } => {
                    told.push(News::Retrying { cause, at, ballots });
                }
                lease::Output::Extended => told.push(News::Extended),
                lease::Output::NotExtended(reason) => told.push(News::NotExtended(reason)),
                lease::Output::State(state) => told.push(News::State(state)),
            }
        }
        lease.swap_outputs(&mut self.room);
        self.timers.set(Machine::Lease(id), &mut entry.timer, lease.poll_timeout());
        let (ended, before, ticket) = (lease.is_ended(), entry.ticket, lease.ticket());
        let key = (before != ticket).then(|| lease.key().clone());
        let cohort = lease.is_cohort().then(|| lease.key().clone());
        drop(lease);
        entry.ticket = ticket;
        if let Some(key) = cohort.as_ref().filter(|_| told.contains(&News::Acquired)) {
            self.cohorts.held(now, key, id);
        }
        told.drain(..).for_each(|news| self.outbox.say(Output::Tell { lease: id, news }));
        self.told = told;
        if ended {
            self.outbox.say(Output::Ended { id });
        }
        if let Some(key) = key {
            for (id, behind) in self.waiters.change(&key, id, before, ticket) {
                self.advance_lease(now, id, lease::Input::BehindOwn(behind));
            }
        }
        let opens = clean_up.as_ref().is_some_and(|release| release.opens());
        let release = clean_up.map(|release| self.begin_release(now, outer, *release));
        if let Some(key) = cohort.filter(|_| ended) {
            self.leave_cohort(now, (id, outer), &key, opens);
        }
        release
    }
}

fn send_release<L>(outbox: &mut Outbox<L>, now: Time, lease: Id, release: &mut Release) {
    let to = Addressee::Release { lease, round: release.acquire_round() };
    while let Some(release::Output::Send { node, command }) = release.poll_output() {
        outbox.send(now, to, node, command);
    }
}
