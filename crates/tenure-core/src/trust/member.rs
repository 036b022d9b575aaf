//! What a client knows about one node.

use std::collections::BTreeSet;
use std::ops::{Index, IndexMut};
use std::sync::Arc;
use std::time::Duration;

use super::clock_watch::ClockWatch;
use super::memory::{KnownLife, LIVES_MAX};
use super::record::{Lasting, Record, State};
use super::{Distrust, Facts, Life, Nonce, RECORD_TIMEOUT};
use crate::command::Fault;
use crate::fence::Fence;
use crate::round::RoundTrips;
use crate::time::Time;

/// What a client knows about its nodes. Copies share what has not changed since: the model checker
/// keeps millions of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Members(Vec<Arc<Member>>);

/// What a client knows about one node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Member {
    /// While it is connected.
    pub(super) facts: Option<Facts>,
    /// They were told after the last record was accepted.
    pub(super) facts_fresh: bool,
    /// Why there is no connection, or no answer.
    pub(super) fault: Option<Fault>,
    /// While it is connected and the record was told.
    pub(super) record: Option<Known>,
    /// Why it must not be used as it is.
    pub(super) objection: Option<Distrust>,
    /// When its record was asked for without an answer so far.
    pub(super) asked: Option<Time>,
    /// When the question was sent that its last record came in answer to.
    pub(super) read: Option<Time>,
    /// A first answer has come, or has not come in time.
    pub(super) tried: bool,
    /// The last life of its memory that this client saw.
    pub(super) seen: Option<Nonce>,
    /// The lives of its memory in which it was ours, as far as they are known: the newest of them.
    pub(super) lives: BTreeSet<KnownLife>,
    /// Those of them that are written down.
    pub(super) kept: BTreeSet<Nonce>,
    /// The record of another fleet that refused us, until the node is seen to be ours.
    pub(super) foreign: Option<Arc<str>>,
    /// What is written down about that is not the latest.
    pub(super) foreign_unkept: bool,
    /// How often its fleet has been changed, as far as we have seen.
    pub(super) epoch: u64,
    /// What its last record of ours said that goes on when its memory is lost.
    pub(super) lasting: Lasting,
    /// When a record was last accepted.
    pub(super) read_at: Option<Time>,
    pub(super) watch: ClockWatch,
    pub(super) first_seen: Option<Time>,
    /// The last one that told its time.
    pub(super) round_trip: Duration,
    pub(super) trips: RoundTrips,
    pub(super) jumped: Option<(i64, Time)>,
    /// Its server was asked about itself, and the answer is needed.
    pub(super) surveying: bool,
    /// When to look again at a server that may not vote as it is.
    pub(super) recheck_at: Option<Time>,
    /// When to tell it to free the memory of old fences.
    pub(super) trim_at: Option<Time>,
    /// The largest fence that it has shown and could not have granted by its present clock.
    pub(super) shown_ahead: Option<Fence>,
    /// What was last told about it.
    pub(super) told: Option<Distrust>,
}

/// A record and what it means to us.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Known {
    pub(super) record: Record,
    pub(super) text: Arc<str>,
    /// When its quarantine is over, by our clock.
    pub(super) trusted_from: Time,
}

impl Members {
    pub(super) fn new(member: &Member, nodes: usize) -> Self {
        Self((0..nodes).map(|_| Arc::new(member.clone())).collect())
    }

    pub(super) const fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Member> {
        self.0.iter().map(Arc::as_ref)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Member> {
        self.0.iter_mut().map(Arc::make_mut)
    }
}

impl Index<usize> for Members {
    type Output = Member;

    fn index(&self, node: usize) -> &Member {
        &self.0[node]
    }
}

impl IndexMut<usize> for Members {
    fn index_mut(&mut self, node: usize) -> &mut Member {
        Arc::make_mut(&mut self.0[node])
    }
}

impl Member {
    /// The life of its server, while it is connected.
    pub(super) fn life(&self) -> Option<&Life> {
        self.facts.as_ref().and_then(|facts| facts.life.as_ref())
    }

    /// Nothing that was asked of it is still to come, unless it has kept us waiting before.
    pub(super) fn is_settled(&self) -> bool {
        let answered = self.tried && !self.surveying && (self.asked.is_none() || self.fault.is_some());
        self.facts.is_none() || self.objection.is_some() || answered
    }

    /// Keeps the newest lives by the node's clock, and the present one, which that clock may not
    /// call the newest. A server that keeps its memory is in one life with many processes: of those
    /// the oldest are forgotten as well.
    pub(super) fn forget_lives(&mut self, present: Option<Nonce>) {
        while self.lives.len() > LIVES_MAX {
            let mut others = self.lives.iter().filter(|life| Some(life.nonce) != present);
            let Some(oldest) = others.next().or_else(|| self.lives.first()).cloned() else { return };
            self.lives.remove(&oldest);
        }
    }

    /// The record, if nothing about it is under way.
    pub(super) fn idle_record(&self) -> Option<&Known> {
        self.record.as_ref().filter(|_| self.asked.is_none() && self.objection.is_none())
    }

    /// When its record was last read. However busy it is, the record is looked at now and then.
    pub(super) fn silent_since(&self) -> Option<Time> {
        self.read_at.filter(|_| self.record.is_some())
    }

    /// When to look at it again. `barred`: the end of its quarantine changes nothing.
    pub(super) fn timeout(&self, silence_max: Duration, barred: bool) -> Option<Time> {
        self.facts.as_ref()?;
        let asked = self.asked.map(|asked| asked + RECORD_TIMEOUT);
        let silent = self.silent_since().filter(|_| self.asked.is_none()).map(|since| since + silence_max);
        let waited = self
            .idle_record()
            .filter(|known| known.record.state == State::New && !barred)
            .map(|known| known.trusted_from);
        let jumped = self.jumped.map(|(_, until)| until);
        let planned = self.trim_at.into_iter().chain(self.recheck_at);
        asked.into_iter().chain(silent).chain(waited).chain(jumped).chain(planned).min()
    }
}
