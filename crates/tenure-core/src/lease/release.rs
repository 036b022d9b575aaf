//! The end of an attempt or a lease: take our key off every node.
//!
//! An attempt that was lost is undone, and nobody hears of it. A lock that a majority has granted
//! is released: it goes to whoever is next.
//!
//! The command goes to all nodes, whatever the acquire saw: an acquire whose answer was lost may
//! have set the key all the same. The caller hears as soon as the votes decide; nodes that may
//! still have the key and did not confirm are asked again, with growing pauses, until they confirm
//! or the key has freed itself. So a lost message costs moments, not the ttl.
//!
//! A node that has not answered yet is not asked again: its connection delivers in order, or breaks
//! and says so. A second release would only keep a busy node from catching up.

use std::collections::VecDeque;
use std::time::Duration;

use crate::command::{Command, Fault, Next, Reply, Vote};
use crate::config::Term;
use crate::line::{AFTER_OPENING, NUDGE_AFTER, Ticket};
use crate::names::LockKey;
use crate::round::{Ballot, Deadlines, NodeIndex, NodeSet, Patience, Quorum, Round, RoundNumber};
use crate::time::Time;
use crate::token::OwnerToken;

/// The longest pause between two releases to a node that does not confirm: a node that comes back
/// is clean well within a second.
const PAUSE_MAX: Duration = Duration::from_millis(250);

/// What an attempt or a hold has left on the nodes, which a release takes off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Leftovers {
    /// The owner whose key it is.
    pub token: OwnerToken,
    /// The longest term that was asked for with that token.
    pub term: Term,
    /// The round that acquired, or tried to.
    pub round: RoundNumber,
    /// The nodes that may have the key.
    pub may_hold: NodeSet,
    /// How they are taken off.
    pub ending: Ending,
}

/// How leftovers are taken off the nodes: with which command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ending {
    /// The attempt was lost, or given up: [`Command::Undo`].
    Undo {
        /// We get in line again, and only nodes that may have the key are told.
        requeue: Option<Ticket>,
    },
    /// A majority has granted the lock: [`Command::Release`].
    Release {
        /// Whether there is a label to be removed.
        labelled: bool,
        /// Who is next.
        next: Next,
    },
}

/// A release under way. It needs nobody who waits for it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Release {
    key: LockKey,
    token: OwnerToken,
    ending: Ending,
    /// Until when nobody is to have the lock, if it is kept from others for a period.
    kept_until: Option<Time>,
    acquire_round: RoundNumber,
    round: Round,
    deadlines: Deadlines,
    /// Nodes that may have the key and have not confirmed that it is gone.
    owed: NodeSet,
    /// Nodes that have been asked and have not answered, neither so nor with a fault.
    asked: NodeSet,
    pause: Duration,
    send_again_at: Time,
    /// Whether the first deadline has passed.
    overdue: bool,
    /// When the key has freed itself on every node.
    give_up_at: Time,
    reported: bool,
    passed_on: bool,
    done: bool,
    outputs: VecDeque<Output>,
}

/// What a release is told.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Input {
    /// A node's answer.
    Answer {
        /// Which node.
        node: NodeIndex,
        /// What it said, or why it did not.
        answer: Result<Reply, Fault>,
    },
    /// A node's late answer to the acquire whose key this release takes off, in the round
    /// [`Release::acquire_round`]. If it did not set the key, nothing is owed there.
    AcquireAnswer {
        /// Which node.
        node: NodeIndex,
        /// What it said, or why it did not.
        answer: Result<Reply, Fault>,
    },
    /// A node can be reached again: if it may have the key, it is told at once.
    Connected {
        /// Which node.
        node: NodeIndex,
    },
    /// The time of [`Release::poll_timeout`] has come.
    Timeout,
}

/// What a release asks for or tells.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Output {
    /// Send this command to this node.
    Send {
        /// Which node.
        node: NodeIndex,
        /// What to send.
        command: Command,
    },
    /// The outcome for whoever asked for the release. Comes once.
    Outcome {
        /// What became of the lock.
        outcome: ReleaseOutcome,
    },
    /// Nothing is left to do. Comes once, last.
    Done {
        /// Nodes that may have had the key and never confirmed; it has freed itself there by now.
        unconfirmed: NodeSet,
    },
}

/// What became of a lock that was released.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReleaseOutcome {
    /// Our key is gone from a majority of nodes, and at least one still had it.
    Released,
    /// A majority of nodes did not have our key: the lock had expired or was taken away before.
    NotHeld,
    /// No majority of nodes confirmed; the lock frees itself at the end of its term.
    Unavailable,
}

impl Release {
    /// Begins to take off what is left of the lock `key`, on nodes that are waited for as
    /// `patience` says.
    #[must_use]
    pub fn begin(key: LockKey, leftovers: Leftovers, quorum: Quorum, now: Time, patience: &Patience) -> Self {
        let Leftovers { token, term, round, may_hold, ending } = leftovers;
        let deadlines = Deadlines::new(now, term, patience);
        let again = deadlines.last(quorum).min(now + PAUSE_MAX.max(term.node_timeout()));
        let kept_until = match ending {
            Ending::Release { next: Next::Nobody { for_ms }, .. } => {
                Some(now + Duration::from_millis(for_ms))
            }
            _ => None,
        };
        let mut release = Self {
            key,
            token,
            ending,
            kept_until,
            acquire_round: round,
            round: Round::open(RoundNumber::default(), quorum, quorum.all(), now),
            deadlines,
            owed: may_hold,
            asked: NodeSet::default(),
            // A far node has had its time by then; from there on all are asked alike.
            pause: term.node_timeout() / 2,
            send_again_at: again,
            overdue: false,
            give_up_at: now + Duration::from_millis(term.node_ttl_ms()) + term.drift(),
            reported: false,
            passed_on: false,
            done: false,
            outputs: VecDeque::with_capacity(quorum.nodes()),
        };
        let mut asked = quorum.all();
        if let Ending::Undo { requeue: Some(_) } = ending {
            // A waiter asks again and again. A node that refused it has nothing to undo.
            asked = may_hold;
            for node in quorum.indexes().filter(|node| !may_hold.contains(*node)) {
                release.round.take_vote(now, node, Err(Fault::Unreachable("not asked".into())));
            }
        }
        release.send(now, asked);
        release
    }

    /// Takes one input at `now`; drain [`Release::poll_output`] afterwards.
    pub fn handle(&mut self, now: Time, input: Input) {
        if self.done {
            return;
        }
        match input {
            Input::Answer { node, answer } => {
                self.asked.remove(node);
                if let Ok(reply) = &answer {
                    self.owed.remove(node);
                    self.passed_on |= reply.line.is_some();
                }
                self.round.take_vote(now, node, answer);
            }
            Input::AcquireAnswer { node, answer } => {
                if !Vote::from(answer).may_have_run() {
                    self.owed.remove(node);
                }
            }
            Input::Connected { node } if self.owed.contains(node) => {
                self.send(now, [node].into_iter().collect());
            }
            Input::Connected { .. } => {}
            Input::Timeout => {
                self.round.close_if_due(now, &self.deadlines);
                self.send_again_if_due(now);
            }
        }
        if now >= self.give_up_at {
            // Nobody is waited for any longer, whatever it was that woke us.
            self.round.close_if_due(now, &self.deadlines);
        }
        self.report();
        if now >= self.give_up_at || (self.reported && self.owed.is_empty()) {
            assert!(self.reported, "a release tells its outcome before its end");
            self.done = true;
            self.outputs.push_back(Output::Done { unconfirmed: self.owed });
        }
    }

    /// What to do next, if anything.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When to call [`Release::handle`] with [`Input::Timeout`] at the latest.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        if self.done {
            return None;
        }
        let report = if self.reported { None } else { self.round.timeout(&self.deadlines) };
        let again = match (self.owed.is_empty(), self.overdue && self.unasked().is_empty()) {
            (true, _) => None,
            (false, true) => Some(self.give_up_at),
            (false, false) => Some(self.send_again_at.min(self.give_up_at)),
        };
        report.into_iter().chain(again).min()
    }

    /// The round of the acquire whose key this release takes off.
    #[must_use]
    pub const fn acquire_round(&self) -> RoundNumber {
        self.acquire_round
    }

    /// Whether a node has set the lock aside for a waiter.
    #[must_use]
    pub const fn passed_on(&self) -> bool {
        self.passed_on
    }

    /// When the next in line gets a nudge, if the lock was passed on: when it should have come, or
    /// when the moment is over that belongs to others.
    #[must_use]
    pub const fn nudge_after(&self) -> Duration {
        if self.opens() { AFTER_OPENING } else { NUDGE_AFTER }
    }

    /// Whether the lock is left to those outside the line.
    pub(crate) const fn opens(&self) -> bool {
        matches!(self.ending, Ending::Release { next: Next::OutsideLine, .. })
    }

    /// Nodes that may still have the key.
    #[must_use]
    pub const fn owed(&self) -> NodeSet {
        self.owed
    }

    /// When it began.
    #[must_use]
    pub const fn started(&self) -> Time {
        self.round.started()
    }

    /// When the key has freed itself on every node, whatever happens.
    #[must_use]
    pub const fn give_up_at(&self) -> Time {
        self.give_up_at
    }

    /// The votes so far, in the order of the node list.
    #[must_use]
    pub fn ballots(&self) -> &[Option<Ballot>] {
        self.round.ballots()
    }

    /// The lock.
    #[must_use]
    pub const fn key(&self) -> &LockKey {
        &self.key
    }

    /// Whether nodes have let the first deadline pass without confirming.
    #[must_use]
    pub const fn is_overdue(&self) -> bool {
        self.overdue && !self.owed.is_empty()
    }

    /// Nodes that may have the key and wait to be asked again.
    fn unasked(&self) -> NodeSet {
        self.owed.iter().filter(|node| !self.asked.contains(*node)).collect()
    }

    /// A node that answers the second release with "not held" has most likely executed the first,
    /// and must not count as one that did not have the key. So it is sent when the round is closed;
    /// to nodes that are far away a little earlier, whose answer to the first comes before that to
    /// the second.
    fn send_again_if_due(&mut self, now: Time) {
        if now >= self.send_again_at && now < self.give_up_at {
            self.overdue = true;
            self.pause = (self.pause * 2).min(PAUSE_MAX);
            self.send_again_at = now + self.pause;
            self.send(now, self.unasked());
        }
    }

    /// Sent again, it keeps the lock from others for what is left of the period by then.
    fn next(&self, now: Time, next: Next) -> Next {
        let Some(until) = self.kept_until else { return next };
        let left = until.since(now);
        if left.is_zero() {
            return Next::InLine;
        }
        Next::Nobody { for_ms: u64::try_from(left.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX) }
    }

    fn send(&mut self, now: Time, nodes: NodeSet) {
        for node in nodes.iter() {
            self.asked.insert(node);
            let (key, token) = (self.key.clone(), self.token);
            let command = match self.ending {
                Ending::Undo { requeue } => Command::Undo { key, token, requeue },
                Ending::Release { labelled, next } => {
                    Command::Release { key, token, labelled, next: self.next(now, next) }
                }
            };
            self.outputs.push_back(Output::Send { node, command });
        }
    }

    fn report(&mut self) {
        if self.reported {
            return;
        }
        let (tally, majority) = (self.round.tally(), self.round.quorum().majority());
        // Both kinds of answer confirm that our key is gone. The first two cases exclude each other
        // and the third waits for all votes, so the order of arrival does not change the outcome.
        let outcome = if tally.granted >= majority {
            ReleaseOutcome::Released
        } else if tally.refused >= majority {
            ReleaseOutcome::NotHeld
        } else if !self.round.is_complete() {
            return;
        } else if tally.granted + tally.refused >= majority {
            ReleaseOutcome::Released
        } else {
            ReleaseOutcome::Unavailable
        };
        self.reported = true;
        self.outputs.push_back(Output::Outcome { outcome });
    }
}
