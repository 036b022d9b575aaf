//! A lock that is held: what the lease knows about it, and what late votes and extensions change.

use std::time::Duration;

use super::extend::{Extend, NotExtended};
use super::release::{Ending, Leftovers};
use super::renewal;
use crate::command::{Answer, Fault, Next, Refusal, Reply, Vote};
use crate::config::{MaxHold, Term, Terms};
use crate::fence::Fence;
use crate::line;
use crate::mode::Mode;
use crate::round::{Ballot, NodeIndex, NodeSet, Round, RoundNumber, Validity};
use crate::time::{NodeTime, Time};
use crate::token::OwnerToken;

/// A lock that is held: since when, until when, and by whose votes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Standing {
    /// What has to be released in the end. Its nodes are more than the members, because answers get
    /// lost.
    pub(crate) leftovers: Leftovers,
    pub(crate) fence: Option<Fence>,
    /// How many fences above that are reserved, for those that the lock is passed on to.
    pub(crate) span: u32,
    pub(crate) acquired: Time,
    /// It was to be held alone, and is shared since.
    pub(crate) downgraded: bool,
    /// It came to us from the line: nobody outside could have it in between.
    pub(crate) from_line: bool,
    /// How long other processes had held it before, in nanoseconds: there are many of these.
    held_before: u64,
    /// Boxed, because few locks are kept from others for a period.
    pub(crate) period: Option<Box<Period>>,
    pub(crate) validity: Validity,
    /// The last round that won. It still takes late votes, which raise the margin.
    pub(crate) round: Round,
    /// Nodes this lease has counted and that have not said otherwise since.
    pub(crate) members: NodeSet,
    /// Boxed, because a lock is extended for a small part of its life.
    pub(crate) extending: Option<Box<Extend>>,
    /// Nodes that said in a round that was won that they do not have the key.
    pub(crate) missing: NodeSet,
    /// Nodes on which this process put the key back, each with the moment from which it counts
    /// there: a quarantine after it was first seen to be there, by our clock. The node counts by
    /// its own, for everybody; this is in case that jumps.
    healed: Box<[(NodeIndex, Option<Time>)]>,
    /// A majority of nodes said that the lock is no longer ours.
    pub(crate) lost: bool,
    /// The last extension failed, or there will be none any more.
    pub(crate) risk: Option<Risk>,
    /// What the holder was last told.
    told: HoldState,
    /// When the lock is extended by itself next.
    pub(crate) renew_at: Option<Time>,
    pub(crate) renewals: u32,
    /// Others know the token, and may use it at any time.
    pub(crate) disclosed: bool,
    /// Somebody waits for the votes that are late.
    pub(crate) votes_awaited: bool,
}

/// When a lock that is kept from others for a period was granted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Period {
    /// The latest that the clock of a node showed.
    pub(crate) granted_by: NodeTime,
    /// When we knew that a majority had: until then nodes may have been late with it.
    pub(crate) from: Time,
}

/// What another process needs to go on with a lock that is held.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HandedOver {
    /// The owner.
    pub token: OwnerToken,
    /// The fence, if the lock has one.
    pub fence: Option<Fence>,
    /// The nodes that count for this owner: [`Fleet::lives`](crate::Fleet::lives) names them for
    /// other processes.
    pub members: NodeSet,
    /// How long it has been held.
    pub held: Duration,
    /// The latest that the clock of a node showed when it granted the lock, if the lock is kept
    /// from others for a period.
    pub granted_by: Option<NodeTime>,
    /// Whom it keeps out.
    pub mode: Mode,
}

/// The state of a held lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HoldState {
    /// It is held.
    Held,
    /// It is held, but the last renewal did not reach a majority, or no more are allowed: unless
    /// one succeeds, the lock will be lost.
    AtRisk,
    /// It is lost: it has expired or is about to, so work must stop, or a majority of nodes said
    /// that it is not ours. It stays lost.
    Lost,
}

/// Why a held lock is at risk, or was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Risk {
    /// The last extension failed: too few nodes answered in time, or still have the lock.
    NotExtended,
    /// No more extensions are allowed: `max_hold` or `renewals_max` is reached.
    Limit,
    /// A majority of nodes said that the lock is not ours: it was released by force, deleted, or
    /// expired there. Another client may have it.
    Taken,
}

impl Standing {
    pub(crate) fn new(leftovers: Leftovers, fence: Option<Fence>, validity: Validity, round: Round) -> Self {
        let (acquired, members, missing) = (round.started(), round.kept(), NodeSet::default());
        let healed = round.distrusted().iter().map(|node| (node, None)).collect();
        Self {
            leftovers,
            fence,
            span: 0,
            acquired,
            downgraded: false,
            from_line: false,
            held_before: 0,
            period: None,
            validity,
            round,
            members,
            extending: None,
            missing,
            healed,
            lost: false,
            risk: None,
            told: HoldState::Held,
            renew_at: None,
            renewals: 0,
            disclosed: false,
            votes_awaited: false,
        }
    }

    /// A lock that another process held. Nothing is known about its validity until an extension has
    /// succeeded: the key is set once for each owner, so where a node that counts still has it, it
    /// was never gone; and where it was put back, the node says so. Without a fence a node that
    /// does not count may have set it in a memory that nobody had asked, and says nothing: there it
    /// counts as one that was put back.
    pub(crate) fn resumed(round: Round, handover: &HandedOver, now: Time, term: Term) -> Self {
        let HandedOver { token, fence, members, .. } = *handover;
        // It may have a label; removing one that is not there does no harm.
        let ending = Ending::Release { labelled: true, next: Next::InLine };
        let leftovers =
            Leftovers { token, term, round: round.number(), may_hold: round.quorum().all(), ending };
        let presumed = Validity::presumed(now + term.ttl() / 2);
        let others = round.quorum().indexes().filter(|node| fence.is_none() && !members.contains(*node));
        let healed = others.map(|node| (node, None)).collect();
        let standing = Self::new(leftovers, fence, presumed, round);
        let held_before = u64::try_from(handover.held.as_nanos()).unwrap_or(u64::MAX);
        let from = standing.acquired;
        let period = handover.granted_by.map(|granted_by| Box::new(Period { granted_by, from }));
        Self { members, healed, held_before, period, disclosed: true, ..standing }
    }

    pub(crate) fn handover(&mut self, now: Time, mode: Mode) -> HandedOver {
        self.disclosed = true;
        let (token, fence, members) = (self.leftovers.token, self.fence, self.members);
        HandedOver { token, fence, members, held: self.held(now), granted_by: self.granted_by(), mode }
    }

    /// How long it has been held, here and elsewhere.
    fn held(&self, now: Time) -> Duration {
        Duration::from_nanos(self.held_before).saturating_add(now.since(self.acquired))
    }

    /// The latest that the clock of a node showed when it granted the lock, if that is kept from
    /// others for a period.
    pub(crate) fn granted_by(&self) -> Option<NodeTime> {
        self.period.as_ref().map(|period| period.granted_by)
    }

    /// Others have held it for so long, and not for as long as they say.
    pub(crate) fn note_held(&mut self, held: Duration) {
        self.held_before = u64::try_from(held.as_nanos()).unwrap_or(u64::MAX);
    }

    /// How much is left of the time for which nobody else is to have it, whatever happens.
    pub(crate) fn rest_of(&self, at_least: Duration, now: Time) -> Duration {
        if at_least.is_zero() {
            return at_least;
        }
        let here = now.since(self.period.as_ref().map_or(self.acquired, |period| period.from));
        at_least.saturating_sub(Duration::from_nanos(self.held_before).saturating_add(here))
    }

    /// What has to be released when the lock is given up at `now`, and who is next.
    pub(crate) fn end(mut self, now: Time, at_least: Duration) -> Leftovers {
        let rest = self.rest_of(at_least, now);
        if let Ending::Release { next, .. } = &mut self.leftovers.ending
            && !rest.is_zero()
        {
            let for_ms = u64::try_from(rest.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX);
            *next = Next::Nobody { for_ms };
            return self.leftovers;
        }
        // Without a fence our own clock serves: then each client has turns of its own, and holds
        // the lock at a part of them.
        let acquired_us = self.top().map_or(self.acquired.as_nanos() / 1_000, Fence::get);
        if let Ending::Release { next: next @ Next::InLine, .. } = &mut self.leftovers.ending
            && self.from_line
            && line::opens(acquired_us, now.since(self.acquired))
        {
            *next = Next::OutsideLine;
        }
        self.leftovers
    }

    /// How the lock stands at `now`.
    #[must_use]
    pub fn state(&self, now: Time) -> HoldState {
        if self.lost || self.validity.is_lost(now) {
            HoldState::Lost
        } else if self.risk.is_some() {
            HoldState::AtRisk
        } else {
            HoldState::Held
        }
    }

    /// Why it is at risk or lost; `None` if all is well, or if it ended without a failed extension.
    #[must_use]
    pub fn risk(&self) -> Option<Risk> {
        if self.lost { Some(Risk::Taken) } else { self.risk }
    }

    /// The state, if it is another than the holder was last told.
    pub(crate) fn news(&mut self, now: Time) -> Option<HoldState> {
        let state = self.state(now);
        (std::mem::replace(&mut self.told, state) != state).then_some(state)
    }

    /// When something has to be done: an extension to be closed, a renewal to be begun, the loss to
    /// be told.
    pub(crate) fn timeout(&self) -> Option<Time> {
        let extending = self.extending.as_ref().and_then(|extend| extend.timeout());
        let loss = (self.told != HoldState::Lost).then(|| self.validity.loss());
        extending.into_iter().chain(self.renew_at).chain(loss).min()
    }

    /// Plans the next renewal after a round that was begun at `started` and was won.
    pub(crate) fn plan_renewal(&mut self, terms: &Terms, started: Time) {
        self.renew_at = terms.renewal.map(|interval| renewal::next(started, interval));
    }

    /// Plans the next renewal after one that failed; none, if it could only fail again.
    pub(crate) fn plan_retry(&mut self, now: Time, terms: &Terms, reason: &NotExtended) {
        self.risk = Some(match reason {
            NotExtended::Lost { .. } => Risk::Taken,
            NotExtended::MaxHold | NotExtended::RenewalsMax => Risk::Limit,
            // What may not be extended is not lost because an extension that was under way fails.
            _ => self.risk.filter(|risk| *risk == Risk::Limit).unwrap_or(Risk::NotExtended),
        });
        let hopeful = matches!(reason, NotExtended::Refused { .. } | NotExtended::Unavailable { .. });
        let interval = terms.renewal.filter(|_| hopeful);
        self.renew_at = interval.map(|interval| renewal::again(now, interval));
    }

    /// The fence, if the lock has one.
    #[must_use]
    pub const fn fence(&self) -> Option<Fence> {
        self.fence
    }

    /// The largest fence that the nodes remember for this hold.
    pub(crate) fn top(&self) -> Option<Fence> {
        self.fence.map(|fence| fence.plus(self.span))
    }

    /// The nodes that count for this hold.
    #[must_use]
    pub const fn members(&self) -> NodeSet {
        self.members
    }

    /// The owner token.
    #[must_use]
    pub const fn token(&self) -> OwnerToken {
        self.leftovers.token
    }

    /// Until when the lock is ours.
    #[must_use]
    pub const fn validity(&self) -> Validity {
        self.validity
    }

    /// Whether a majority of nodes said that the lock is no longer ours.
    #[must_use]
    pub const fn is_lost(&self) -> bool {
        self.lost
    }

    /// How many of the nodes confirmed for the current validity may forget the lock before another
    /// client could win it.
    #[must_use]
    pub fn margin(&self) -> usize {
        let held = self.round.granted().iter().filter(|node| self.members.contains(*node)).count();
        self.round.quorum().margin(held)
    }

    /// The votes of the last round that won.
    #[must_use]
    pub const fn round(&self) -> &Round {
        &self.round
    }

    /// Whether every node has answered that round, or will not any more.
    #[must_use]
    pub fn has_all_votes(&self) -> bool {
        self.round.ballots().iter().all(Option::is_some)
    }

    /// Takes a vote that came after the round was won.
    pub(crate) fn take_late_vote(&mut self, now: Time, node: NodeIndex, answer: Result<Reply, Fault>) {
        // What arrives after the end proves nothing: the key may have been set when others had the
        // lock.
        if !self.validity.is_over(now) {
            let refused = is_refusal(&answer);
            self.note_missing(&answer, node);
            self.round.take_vote(now, node, answer);
            self.count_members();
            if refused {
                self.forget(node);
            }
        }
    }

    /// Takes grants that came after the round was won.
    pub(crate) fn take_late_grants(&mut self, now: Time, nodes: NodeSet) {
        if !self.validity.is_over(now) {
            nodes.iter().for_each(|node| self.round.grant(now, node));
            self.count_members();
        }
    }

    /// Takes grants of the extension under way.
    pub(crate) fn take_extend_grants(&mut self, now: Time, nodes: NodeSet) {
        if let Some(extend) = &mut self.extending {
            nodes.iter().for_each(|node| extend.round.grant(now, node));
        }
    }

    /// These nodes have our key. Where it was put back, they count a quarantine from now.
    pub(crate) fn note_all_healed(&mut self, now: Time, quarantine: Duration, nodes: NodeSet) {
        for (node, from) in &mut self.healed {
            if nodes.contains(*node) {
                from.get_or_insert(now + quarantine);
            }
        }
    }

    fn count_members(&mut self) {
        for node in self.countable(&self.round).iter() {
            self.members.insert(node);
            // It is a member whichever answer is read first.
            if let Some(extend) = &mut self.extending {
                extend.round.count(node);
            }
        }
    }

    /// The nodes whose grants in this round count from now on: not those that were healed too short
    /// a time before.
    fn countable(&self, round: &Round) -> NodeSet {
        let counts = |from: &Option<Time>| from.is_some_and(|from| round.started() >= from);
        let fresh = |node| self.healed.iter().any(|(healed, from)| *healed == node && !counts(from));
        round.kept().iter().filter(|node| !fresh(*node)).collect()
    }

    fn note_missing(&mut self, answer: &Result<Reply, Fault>, node: NodeIndex) {
        if matches!(answer, Ok(Reply { answer: Answer::Refused(Refusal::NotHeld), .. })) {
            self.missing.insert(node);
        }
    }

    pub(crate) fn is_extending(&self, number: RoundNumber) -> bool {
        self.extending.as_ref().is_some_and(|extend| extend.round.number() == number)
    }

    pub(crate) fn take_extend_vote(&mut self, now: Time, node: NodeIndex, answer: Result<Reply, Fault>) {
        let Some(extend) = &mut self.extending else { return };
        let refused = is_refusal(&answer);
        extend.round.take_vote(now, node, answer);
        if refused {
            self.forget(node);
        }
    }

    /// What this node grants in the round under way must not be counted. If it has not granted the
    /// lock before, it may do so in a memory that is not the one it was asked in: its key counts as
    /// one that was put back there.
    pub(crate) fn distrust(&mut self, node: NodeIndex) {
        self.round.distrust(node);
        if !self.members.contains(node) && !self.healed.iter().any(|(healed, _)| *healed == node) {
            self.put_back(node);
        }
    }

    /// The key was put back on this node, or may have been.
    pub(crate) fn put_back(&mut self, node: NodeIndex) {
        let others = self.healed.iter().filter(|(healed, _)| *healed != node).copied();
        self.healed = others.chain([(node, None)]).collect();
    }

    /// This node has just said that it does not have our key. Said earlier it proves nothing: the
    /// key may have been put back since.
    fn forget(&mut self, node: NodeIndex) {
        self.members.remove(node);
        // Nor does what it granted before: another vote of that round must not bring it back.
        self.round.distrust(node);
        // What puts it back may be under way.
        if !self.healed.iter().any(|(healed, _)| *healed == node) {
            self.leftovers.may_hold.remove(node);
        }
    }

    /// This node has our key. If it was put back there, it counts a quarantine from now.
    pub(crate) fn note_healed(
        &mut self,
        now: Time,
        quarantine: Duration,
        answer: &Result<Reply, Fault>,
        node: NodeIndex,
    ) {
        if matches!(answer, Ok(Reply { answer: Answer::Granted | Answer::PutBack { .. }, .. })) {
            let healed = self.healed.iter_mut().find(|(healed, _)| *healed == node);
            if let Some((_, from @ None)) = healed {
                *from = Some(now + quarantine);
            }
        }
    }

    pub(crate) fn may_extend(&self, now: Time, term: &Term, max_hold: MaxHold) -> Result<(), NotExtended> {
        if self.lost {
            return Err(NotExtended::Lost { ballots: self.round.ballots().to_vec() });
        }
        if self.validity.is_lost(now) {
            return Err(NotExtended::Expired);
        }
        match max_hold {
            MaxHold::AtMost(limit) if now + term.ttl() > self.acquired + limit => Err(NotExtended::MaxHold),
            _ => Ok(()),
        }
    }

    /// A majority of members confirmed the extension. Grants of other nodes count from here on, if
    /// they were not healed just now: the round proves that nobody else had the lock, so a key of
    /// ours that is there is ours without a gap. Returns when the extension was begun.
    pub(crate) fn confirm(&mut self, validity: Validity) -> Time {
        let extend = self.extending.take().expect("only an extension under way is confirmed");
        assert!(validity.end() >= self.validity.end(), "an extension never shortens");
        assert!(!self.lost && self.told != HoldState::Lost, "what is lost stays lost");
        let started = extend.round.started();
        self.risk = None;
        self.countable(&extend.round).iter().for_each(|node| self.members.insert(node));
        for (node, ballot) in extend.round.quorum().indexes().zip(extend.round.ballots()) {
            if matches!(ballot, Some(Ballot { vote: Vote::Refused(Refusal::NotHeld), .. })) {
                self.missing.insert(node);
            }
        }
        // A shorter extension proves less than the round that the end counts from, so that one
        // stays.
        if validity > self.validity {
            self.validity = validity;
            self.round = extend.round;
        }
        started
    }
}

const fn is_refusal(answer: &Result<Reply, Fault>) -> bool {
    matches!(answer, Ok(Reply { answer: Answer::Refused(_), .. }))
}
