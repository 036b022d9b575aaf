//! One lock from the call that asks for it to the moment it is given up.
//!
//! Every attempt has its own owner token, its own T1 and its own clean-up. What ends leaves through
//! [`Output::CleanUp`]: a [`Release`] that lives on by itself, so that no clean-up depends on
//! anybody waiting for it.
//!
//! ```text
//!            Attempt             won                      Release, Abandon
//!   Waiting ─────────► Acquiring ─────► Held ⟲ Extend ───────────────────► Ended
//!      ▲                   │ lost: CleanUp                                   ▲
//!      └─── pause ─────────┴──── no time or tries left ─────────────────────┘
//! ```
//! The first attempt takes the lock if it is free. If it is not, the second one gets in line, and
//! after that attempts are made when nodes wake us, or now and then in case they could not. The
//! folder `lease` has a file for each phase.

mod acquire;
mod attempt;
mod extend;
mod hold;
mod passing;
pub mod release;
mod renewal;
mod retry;
mod standing;
mod wait;
mod waiter;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use self::attempt::Acquire;
pub use self::attempt::{Cause, NotAcquired};
pub use self::extend::NotExtended;
pub use self::hold::Renewing;
pub(crate) use self::passing::CohortClass;
use self::release::{Ending, Leftovers, Release};
pub use self::renewal::Renewal;
pub use self::retry::Retry;
pub use self::standing::{HandedOver, HoldState, Risk, Standing};
use self::waiter::Waiter;
use crate::command::{Answer, Command, Fault, Reply};
use crate::config::{Term, Terms};
use crate::fence::Fence;
use crate::mode::Mode;
use crate::names::LockKey;
use crate::note::{HeldLock, Note};
use crate::round::{Ballot, NodeIndex, NodeSet, Patience, Quorum, RoundNumber};
use crate::time::Time;
use crate::token::Entropy;
use crate::trust::Proposal;

/// The state of one acquire call and the hold that follows from it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lease {
    key: LockKey,
    /// Shared with other leases, if they have the same.
    terms: Arc<Terms>,
    quorum: Quorum,
    /// When the first attempt began.
    begun: Option<Time>,
    attempts: u32,
    /// How often the present attempt was made again with a larger fence.
    proposals: u32,
    rounds: RoundNumber,
    /// How long nodes may take to answer, by their last round trips.
    patience: Patience,
    /// What is kept beside the lock, for whoever asks who holds it.
    label: Option<Arc<str>>,
    /// The locks that are kept until this one is acquired, as the nodes are told. Boxed: hardly any
    /// of many leases have some.
    holding: Option<Box<Arc<str>>>,
    /// Nothing is left to those outside the line.
    closed: bool,
    /// Its release ends the time for which it was to be kept from others.
    ends_early: bool,
    /// It has waited for another caller of this client, which is a line as well.
    led: bool,
    /// The next attempt joins the holds of its owner, which have this fence; none if it does not.
    /// There are many leases, and few of them join any.
    joins: Fence,
    /// The place in line, if the lock was not free.
    waiter: Option<Box<Waiter>>,
    phase: Phase,
    outputs: VecDeque<Output>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Phase {
    /// Before the first attempt, or between two.
    Waiting {
        until: Option<Time>,
    },
    Acquiring(Box<Acquire>),
    Held(Box<Standing>),
    Ended,
}

/// What a lease is told.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Input {
    /// Begin an attempt. Answers [`Output::Propose`].
    Attempt {
        /// Fresh randomness.
        entropy: Entropy,
        /// Which nodes to ask, and with which fence.
        proposal: Proposal,
    },
    /// A node's answer to a command.
    Answer {
        /// The round it was sent in.
        round: RoundNumber,
        /// Which node.
        node: NodeIndex,
        /// What it said, or why it did not.
        answer: Result<Reply, Fault>,
    },
    /// Several nodes granted what they were sent in a round.
    Granted {
        /// The round.
        round: RoundNumber,
        /// Which nodes.
        nodes: NodeSet,
    },
    /// The connection to a node broke. What it granted in a round that is not decided does not
    /// count.
    Disconnected {
        /// Which node.
        node: NodeIndex,
    },
    /// What this node grants in an attempt under way must not be counted: its clock cannot be
    /// believed.
    Distrusted {
        /// Which node.
        node: NodeIndex,
    },
    /// A node has set the lock aside for us.
    Woken {
        /// Which node.
        node: NodeIndex,
    },
    /// A node can be reached again. It may have forgotten that we are in line.
    Connected {
        /// Which node.
        node: NodeIndex,
    },
    /// Whether another waiter of this client is ahead of us, which asks for us, too.
    BehindOwn(bool),
    /// Ask the nodes for the lock, after another caller of this client did so for us.
    Lead {
        /// Whether to get in line at once.
        ticket: bool,
        /// After which time: those outside the line have it before.
        pause: Duration,
    },
    /// The time of [`Lease::poll_timeout`] has come.
    Timeout,
    /// Hold the lock for a further term.
    Extend(Term),
    /// Share the lock from now on, for a further term.
    Share,
    /// Give the lock up.
    Release,
    /// The caller is gone: give up whatever there is.
    Abandon,
    /// Another process goes on with the lock ([`Lease::handover`]): leave everything as it is.
    HandOver,
}

/// What a lease asks for or tells.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Output {
    /// Send this command to this node, and bring its answer back with the same round number.
    Send {
        /// The round it belongs to.
        round: RoundNumber,
        /// Which node.
        node: NodeIndex,
        /// What to send.
        command: Command,
    },
    /// It is time for an attempt: hand in fresh randomness and a proposal with [`Input::Attempt`].
    Propose {
        /// Whether the lock has a fence.
        fenced: bool,
        /// Whether a ticket is to be drawn ([`Fleet::draw_ticket`](crate::Fleet::draw_ticket)).
        ticket: bool,
        /// The fence to propose, if the owner holds the lock with it already.
        joins: Option<Fence>,
    },
    /// The lock is held by another, and we wait in line: see [`Lease::place`]. The next attempt is
    /// made when we are woken, or at this time.
    Waiting {
        /// When the next attempt begins at the latest.
        at: Time,
        /// When a majority of nodes would be free if no holder extends.
        free_after: Option<Duration>,
    },
    /// An attempt failed; the next begins after a pause.
    Retrying {
        /// Why it failed.
        cause: Cause,
        /// When the next one begins.
        at: Time,
        /// The votes, in the order of the node list.
        ballots: Vec<Option<Ballot>>,
    },
    /// The lock is held: see [`Lease::standing`].
    Acquired,
    /// The lock could not be had; the lease is over.
    NotAcquired(NotAcquired),
    /// Every node has answered the last round that won. Comes if it was
    /// [asked for](Lease::await_votes).
    AllVoted,
    /// The lock is held for longer: see [`Lease::standing`].
    Extended,
    /// The extension failed; the old validity stands.
    NotExtended(NotExtended),
    /// The lock stands otherwise than the holder was told before.
    State(HoldState),
    /// Drive this release to its end, whoever else is gone. Boxed, because it is far larger than
    /// the rest.
    CleanUp(Box<Release>),
}

impl Lease {
    /// A lease that has not begun. The first input is [`Input::Attempt`].
    #[must_use]
    pub fn new(key: LockKey, terms: impl Into<Arc<Terms>>, quorum: Quorum) -> Self {
        Self {
            key,
            terms: terms.into(),
            quorum,
            begun: None,
            attempts: 0,
            proposals: 0,
            rounds: RoundNumber::default(),
            patience: Patience::default(),
            label: None,
            holding: None,
            closed: false,
            ends_early: false,
            led: false,
            joins: Fence::NONE,
            waiter: None,
            phase: Phase::Waiting { until: None },
            outputs: VecDeque::new(),
        }
    }

    /// Keeps this beside the lock while it is held.
    #[must_use]
    pub fn labelled(mut self, label: Option<Arc<str>>) -> Self {
        self.label = label;
        self
    }

    /// Tells whoever asks who waits that these locks are kept meanwhile.
    #[must_use]
    pub fn holding(mut self, holds: &[HeldLock]) -> Self {
        self.holding = (!holds.is_empty()).then(|| Box::new(Note::text_of_holds(holds).into()));
        self
    }

    /// Waits for the nodes as their round trips suggest, from the next round on: to be called with
    /// [`Fleet::patience`](crate::Fleet::patience) before every input.
    pub fn follow(&mut self, patience: &Patience) {
        if !self.patience.is(patience) {
            self.patience = patience.clone();
        }
    }

    /// Leaves nothing to those outside the line. Only there to measure what that costs.
    #[doc(hidden)]
    #[must_use]
    pub const fn closed(mut self, closed: bool) -> Self {
        self.closed = closed;
        self
    }

    /// Takes one input at `now`; drain [`Lease::poll_output`] afterwards.
    pub fn handle(&mut self, now: Time, input: Input) {
        match input {
            Input::Attempt { entropy, proposal } => self.handle_attempt(now, entropy, &proposal),
            Input::Answer { round, node, answer } => self.handle_answer(now, round, node, answer),
            Input::Granted { round, nodes } => self.handle_granted(now, round, nodes),
            Input::Disconnected { node } => self.handle_disconnected(now, node),
            Input::Distrusted { node } => self.handle_distrusted(now, node),
            Input::Woken { node } => self.handle_woken(now, node),
            Input::Connected { node } => self.handle_connected(now, node),
            Input::BehindOwn(behind) => self.handle_behind_own(now, behind),
            Input::Lead { ticket, pause } => self.handle_lead(now, ticket, pause),
            Input::Timeout => self.handle_timeout(now),
            Input::Extend(term) => self.handle_extend(now, term),
            Input::Share => self.handle_share(now),
            Input::Release | Input::Abandon => self.handle_end(now),
            Input::HandOver => self.phase = Phase::Ended,
        }
        if let Phase::Held(standing) = &mut self.phase
            && let Some(state) = standing.news(now)
        {
            self.outputs.push_back(Output::State(state));
        }
    }

    /// What to do next, if anything.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Lends the lease room for its outputs, or takes it back. A caller with many leases keeps one
    /// queue for all of them: swapped in before [`Lease::handle`], and out when the outputs are
    /// drained.
    ///
    /// # Panics
    /// If the lease has outputs: they would be lost.
    pub fn swap_outputs(&mut self, room: &mut VecDeque<Output>) {
        assert!(self.outputs.is_empty() && room.is_empty(), "outputs are drained before");
        std::mem::swap(&mut self.outputs, room);
    }

    /// When to call [`Lease::handle`] with [`Input::Timeout`] at the latest.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        match &self.phase {
            Phase::Waiting { until } => *until,
            Phase::Acquiring(acquire) => acquire.timeout(),
            Phase::Held(standing) => standing.timeout(),
            Phase::Ended => None,
        }
    }

    /// The hold, once the lock is acquired and until it is given up.
    #[must_use]
    pub const fn standing(&self) -> Option<&Standing> {
        match &self.phase {
            Phase::Held(standing) => Some(standing),
            _ => None,
        }
    }

    /// Whether nothing more will come of this lease.
    #[must_use]
    pub const fn is_ended(&self) -> bool {
        matches!(self.phase, Phase::Ended)
    }

    /// The lock.
    #[must_use]
    pub const fn key(&self) -> &LockKey {
        &self.key
    }

    /// Whom it keeps out, or will.
    #[must_use]
    pub fn mode(&self) -> Mode {
        if self.standing().is_some_and(|standing| standing.downgraded) {
            Mode::Shared
        } else {
            self.terms.mode.clone()
        }
    }

    /// It has been held for so long at least, here and elsewhere.
    pub(crate) fn note_held(&mut self, held: Duration) {
        if let Phase::Held(standing) = &mut self.phase {
            standing.note_held(held);
        }
    }

    /// Others may have the lock as soon as it is released, whatever was asked for. Until then the
    /// nodes keep it as they were told.
    pub const fn waive_at_least(&mut self) {
        self.ends_early = true;
    }

    /// Whether the lock has a fence.
    #[must_use]
    pub fn is_fenced(&self) -> bool {
        self.terms.fenced
    }

    /// How many attempts were begun.
    #[must_use]
    pub const fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Tells by [`Output::AllVoted`] when every node has answered the last round that won. Nothing
    /// comes if all have answered already: see [`Standing::has_all_votes`].
    pub fn await_votes(&mut self) {
        if let Phase::Held(standing) = &mut self.phase {
            standing.votes_awaited = !standing.has_all_votes();
        }
    }

    /// The time from the first attempt to `now`.
    #[must_use]
    pub fn elapsed(&self, now: Time) -> Duration {
        self.begun.map_or(Duration::ZERO, |begun| now.since(begun))
    }

    fn handle_answer(
        &mut self,
        now: Time,
        number: RoundNumber,
        node: NodeIndex,
        answer: Result<Reply, Fault>,
    ) {
        match &mut self.phase {
            Phase::Acquiring(acquire) if acquire.round.number() == number => {
                if let Ok(reply) = &answer {
                    wait::learn(&mut self.waiter, node, reply);
                }
                let answer = acquire.believe(answer);
                acquire.note_granted(&answer);
                acquire.round.take_vote(now, node, answer);
                self.advance_acquire(now);
            }
            Phase::Held(standing) if standing.round.number() == number => {
                standing.note_healed(now, self.terms.quarantine, &answer, node);
                let refused = matches!(&answer, Ok(Reply { answer: Answer::Refused(_), .. }));
                standing.take_late_vote(now, node, answer);
                if refused {
                    self.leave_node(number, node);
                }
                self.tell_all_voted();
                self.heal(now);
                self.advance_extend(now);
            }
            Phase::Held(standing) if standing.is_extending(number) => {
                standing.note_healed(now, self.terms.quarantine, &answer, node);
                standing.take_extend_vote(now, node, answer);
                self.advance_extend(now);
            }
            // An answer to a round that is over. Its clean-up, if it needs one, has its own
            // answers.
            _ => {}
        }
    }

    fn handle_disconnected(&mut self, now: Time, node: NodeIndex) {
        match &mut self.phase {
            Phase::Acquiring(acquire) => {
                acquire.round.revoke(node);
                // What was meant for the connection that broke is not sent on the next one.
                if acquire.take_unasked(node).is_some() {
                    acquire.round.take_vote(now, node, Err(Fault::Unreachable("connection lost".into())));
                }
                self.advance_acquire(now);
            }
            Phase::Held(standing) => {
                if let Some(extend) = &mut standing.extending {
                    extend.round.revoke(node);
                    self.advance_extend(now);
                }
            }
            Phase::Waiting { .. } | Phase::Ended => {}
        }
    }

    fn handle_distrusted(&mut self, now: Time, node: NodeIndex) {
        match &mut self.phase {
            Phase::Acquiring(acquire) => {
                acquire.round.distrust(node);
                self.advance_acquire(now);
            }
            // A grant that comes late must not count for the margin either.
            Phase::Held(standing) => standing.distrust(node),
            Phase::Waiting { .. } | Phase::Ended => {}
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        match &mut self.phase {
            Phase::Waiting { until: Some(until) } if now >= *until => {
                self.propose_again(0, false);
            }
            Phase::Acquiring(acquire) => {
                acquire.close_if_due(now);
                if acquire.unasked.as_ref().is_some_and(|unasked| now >= unasked.until) {
                    self.ask_the_rest();
                }
                self.advance_acquire(now);
            }
            Phase::Held(standing) => {
                if let Some(extend) = &mut standing.extending {
                    extend.close_if_due(now);
                }
                self.advance_extend(now);
                self.renew_if_due(now);
            }
            Phase::Waiting { .. } | Phase::Ended => {}
        }
    }

    fn handle_end(&mut self, now: Time) {
        match std::mem::replace(&mut self.phase, Phase::Ended) {
            Phase::Acquiring(acquire) => {
                if !acquire.cleaned_up {
                    self.clean_up(
                        now,
                        acquire.leftovers(self.terms.first_term(), Ending::Undo { requeue: None }),
                    );
                }
                self.leave_line();
            }
            Phase::Held(standing) => {
                let at_least = if self.ends_early { Duration::ZERO } else { self.terms.at_least };
                let leftovers = standing.end(now, at_least);
                self.clean_up(now, leftovers);
            }
            Phase::Waiting { .. } => self.leave_line(),
            Phase::Ended => {}
        }
    }

    fn clean_up(&mut self, now: Time, leftovers: Leftovers) {
        if matches!(leftovers.ending, Ending::Undo { requeue: Some(_) }) && leftovers.may_hold.is_empty() {
            return;
        }
        let release = Release::begin(self.key.clone(), leftovers, self.quorum, now, &self.patience);
        self.outputs.push_back(Output::CleanUp(Box::new(release)));
    }
}
