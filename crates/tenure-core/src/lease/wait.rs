//! The part of a lease that waits in line. The rules are in `line.rs`.

use std::sync::Arc;
use std::time::Duration;

use super::acquire::PROPOSALS_MAX;
use super::attempt::Cause;
use super::release::Ending;
use super::standing::Standing;
use super::waiter::Waiter;
use super::{Lease, Output, Phase};
use crate::command::{Answer, Command, Next, Refusal, Reply};
use crate::config::Wait;
use crate::line::{Beside, Place, RESERVATION, Ticket};
use crate::names::LockKey;
use crate::round::{NodeIndex, NodeSet, Round, RoundNumber};
use crate::time::Time;

/// Waiters so near the front ask at once when a node is back; the others only get in line there
/// again.
const FRONT: u64 = 4;

impl Lease {
    /// Where we stand in line, as far as the nodes have said.
    #[must_use]
    pub fn place(&self) -> Option<Place> {
        self.waiter.as_ref().and_then(|waiter| waiter.place())
    }

    /// The time of the hand-over: from the release by the previous holder, when a node passed the
    /// lock on to us, to the grant by the same node, by its own clock, in whole milliseconds. The
    /// longest time among the nodes of the majority; `None` if none of them had set the lock aside
    /// for us.
    ///
    /// The longest, because the lock changes hands with the last grant of the majority. This also
    /// hides nodes that had to set the lock aside again: their time starts over.
    #[must_use]
    pub fn passed_on_after(&self) -> Option<Duration> {
        self.waiter.as_ref()?.passed_on.0.filter(|_| self.standing().is_some())
    }

    /// Our place in line, while we wait.
    #[must_use]
    pub fn ticket(&self) -> Option<Ticket> {
        match self.phase {
            Phase::Waiting { .. } | Phase::Acquiring(_) => self.waiter.as_ref()?.ticket,
            Phase::Held(_) | Phase::Ended => None,
        }
    }

    /// What the attempts ask for besides the lock.
    pub(super) fn beside(&mut self, woken: bool, joins: bool) -> Option<Arc<Beside>> {
        let place = self.waiter.as_ref().and_then(|waiter| waiter.place_request());
        let (label, mode) = (self.label.clone(), self.terms.mode.clone());
        // Whoever was woken has its turn.
        let gives_way =
            mode.is_shared() && !woken && self.waiter.as_mut().is_none_or(|waiter| waiter.gives_way());
        let is_needed = place.is_some() || label.is_some() || !mode.is_exclusive();
        let holding = self.holding.as_deref().filter(|_| place.is_some()).cloned();
        is_needed.then(|| Arc::new(Beside { place, label, mode, gives_way, joins, holding }))
    }

    /// Others have the lock. First of all we get in line; then we wait to be woken, but not for
    /// ever.
    pub(super) fn wait_in_line(&mut self, now: Time, free_after: Option<Duration>) {
        let Phase::Acquiring(acquire) = &self.phase else { return };
        let dice = acquire.entropy.dice;
        let waiter = self.waiter.get_or_insert_default();
        if waiter.ticket.is_none() {
            waiter.draws = 1;
            return self.propose_again(0, true);
        }
        if waiter.must_draw_again(self.quorum.majority()) {
            // Others may have been in line before we came, so we begin again behind them. If that
            // never ends, we stay.
            if waiter.draws <= PROPOSALS_MAX {
                waiter.draws += 1;
                waiter.in_line = waiter.draws > PROPOSALS_MAX;
                self.leave_line();
                return self.propose_again(0, true);
            }
        } else if let Some(ticket) = waiter.ticket {
            for node in waiter.overtaken.iter() {
                self.tell_node(node, |key| Command::Enqueue { key, ticket });
            }
        }
        let waiter = self.waiter.get_or_insert_default();
        if waiter.claim() {
            return self.propose_again(0, false);
        }
        let pause = waiter.poll_after(free_after, dice);
        self.wait(now, pause, free_after);
    }

    /// Whether an attempt that is lost and undone waits for the rest of its votes all the same,
    /// because they decide if its ticket can be kept.
    pub(super) fn may_keep_ticket(&self) -> bool {
        let Phase::Acquiring(acquire) = &self.phase else { return false };
        let (majority, missing) = (self.quorum.majority(), acquire.round.missing());
        self.waiter.as_ref().is_some_and(|waiter| waiter.may_keep_ticket(majority, missing))
    }

    fn wait(&mut self, now: Time, pause: Duration, free_after: Option<Duration>) {
        let at = self.next_attempt(now, pause).unwrap_or(now);
        self.phase = Phase::Waiting { until: Some(at) };
        self.outputs.push_back(Output::Waiting { at, free_after });
    }

    /// Whom we must let go first, although a majority has granted us the lock.
    pub(super) fn yields_to(&self) -> Option<Ticket> {
        self.waiter.as_ref().filter(|_| self.waits()).and_then(|waiter| waiter.yields_to())
    }

    /// Passes the lock on to whoever is ahead of us, and waits on.
    pub(super) fn yield_lock(&mut self, now: Time) {
        let Some(ahead) = self.yields_to() else { return };
        let Phase::Acquiring(acquire) = &mut self.phase else { return };
        acquire.cleaned_up = true;
        let waiter = self.waiter.get_or_insert_default();
        waiter.yielded_to(ahead);
        // Nodes that grant do not look who is in line with a larger ticket; only those that put us
        // in line do. A place that none of them gave is not kept: it could be ahead of one who came
        // earlier, and the first node that looks would take it away when others have come behind
        // us.
        let ticket = waiter.ticket.filter(|_| waiter.in_line);
        let next = ticket.map_or(Next::InLine, Next::InLineWith);
        let ending = Ending::Release { labelled: self.label.is_some(), next };
        let leftovers = acquire.leftovers(self.terms.first_term(), ending);
        self.clean_up(now, leftovers);
        if ticket.is_none() {
            self.leave_line();
        }
        let pause = if ticket.is_some() { RESERVATION } else { Duration::ZERO };
        if self.next_attempt(now, pause).is_none() {
            self.retry_or_end(now, Cause::Contended { retry_after: None });
        } else if ticket.is_some() {
            self.wait(now, pause, None);
        } else {
            self.propose_again(0, true);
        }
    }

    pub(super) fn handle_woken(&mut self, now: Time, node: NodeIndex) {
        let Some(waiter) = &mut self.waiter else { return };
        match &mut self.phase {
            // Each node is asked when it has woken us; the slowest do not hold up the others.
            Phase::Waiting { until: Some(_) } => {
                waiter.wake(node);
                waiter.claim();
                self.propose_again(0, false);
            }
            Phase::Acquiring(acquire) => {
                if let Some(command) = acquire.take_unasked(node) {
                    let round = acquire.round.number();
                    self.outputs.push_back(Output::Send { round, node, command });
                } else {
                    // It had refused before. A round that is lost waits no longer for votes that
                    // change nothing.
                    waiter.wake(node);
                    self.advance_acquire(now);
                }
            }
            _ => waiter.wake(node),
        }
    }

    /// Asks the nodes that have not woken us.
    pub(super) fn ask_the_rest(&mut self) {
        let Phase::Acquiring(acquire) = &mut self.phase else { return };
        let round = acquire.round.number();
        for (node, command) in acquire.unasked.take().into_iter().flat_map(|unasked| unasked.commands) {
            self.outputs.push_back(Output::Send { round, node, command });
        }
    }

    /// Whether the lock may be waited for.
    #[must_use]
    pub fn waits(&self) -> bool {
        self.terms.queued && self.terms.wait != Wait::No
    }

    pub(super) fn handle_connected(&mut self, now: Time, node: NodeIndex) {
        let Some(ticket) = self.ticket() else { return };
        // Whoever no node has put in line yet asks for a place; a node that is only told would not
        // look who is there.
        let placed = self.waiter.as_ref().is_some_and(|waiter| waiter.in_line);
        let front = !placed || self.place().is_some_and(|place| place.ahead < FRONT);
        match &mut self.phase {
            Phase::Waiting { until: Some(until) } if front => *until = (*until).min(now + RESERVATION / 4),
            Phase::Waiting { .. } => self.tell_node(node, |key| Command::Enqueue { key, ticket }),
            _ => {}
        }
    }

    pub(super) fn handle_behind_own(&mut self, now: Time, behind: bool) {
        let Some(waiter) = &mut self.waiter else { return };
        let was_behind = std::mem::replace(&mut waiter.behind_own, behind);
        if was_behind
            && !behind
            && let Phase::Waiting { until: Some(until) } = &mut self.phase
        {
            *until = (*until).min(now + waiter.poll_after(None, 0));
        }
    }

    /// The lock is ours. Nodes that refused it have us in line, and must not keep it for us later.
    pub(super) fn leave_refused(&mut self, standing: &Standing) {
        let number = standing.round().number();
        for node in standing.round().refused().iter() {
            self.leave_node(number, node);
        }
    }

    /// Leaves the line on a node that refused us in the round that was won.
    pub(super) fn leave_node(&mut self, round: RoundNumber, node: NodeIndex) {
        let Some(waiter) = &mut self.waiter else { return };
        if let Some(ticket) = waiter.ticket
            && *waiter.won.get_or_insert(round) == round
        {
            self.tell_node(node, |key| Command::Leave { key, ticket });
        }
    }

    /// Nobody is to wait for us any more.
    pub(super) fn leave_line(&mut self) {
        let Some(ticket) = self.waiter.as_mut().and_then(|waiter| waiter.ticket.take()) else { return };
        let all: NodeSet = self.quorum.all();
        for node in all.iter() {
            self.tell_node(node, |key| Command::Leave { key, ticket });
        }
    }

    /// Tells a node something that needs no answer.
    fn tell_node(&mut self, node: NodeIndex, command: impl Fn(LockKey) -> Command) {
        let round = self.rounds.take_next();
        self.outputs.push_back(Output::Send { round, node, command: command(self.key.clone()) });
    }
}

/// Takes in what a node says about those who wait.
pub(super) fn learn(waiter: &mut Option<Box<Waiter>>, node: NodeIndex, reply: &Reply) {
    if let Some(report) = &reply.line {
        waiter.get_or_insert_default().learn(report);
    }
    if reply.answer == Answer::Refused(Refusal::Overtaken)
        && let Some(waiter) = waiter
    {
        waiter.overtaken_at(node);
    }
}

/// Whether an attempt that is lost may wait for the rest of its votes: it is in line, nobody wakes
/// it, and it keeps no node from others. When all nodes have refused it, there is nothing to undo.
pub(super) fn has_time(waiter: Option<&Waiter>, round: &Round) -> bool {
    let in_line = waiter.is_some_and(|waiter| waiter.ticket.is_some() && !waiter.is_woken());
    in_line && !round.is_complete() && round.granted().is_empty()
}

/// How an attempt that was lost is undone. As when yielding, only a place that a node has given is
/// kept.
pub(super) fn undo(waiter: Option<&Waiter>) -> Ending {
    let placed = waiter.filter(|waiter| waiter.in_line);
    Ending::Undo { requeue: placed.and_then(|waiter| waiter.ticket) }
}
