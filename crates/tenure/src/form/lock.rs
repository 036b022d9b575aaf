//! What nodes say about locks, and their votes, as data.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use serde::ser::SerializeSeq;
use serde::{Serialize, Serializer};
use tenure_core::{Fence, Holding, Kind, LockState, Vote};

use super::{kind_word, microseconds, milliseconds, state_word, text};
use crate::error::votes::{NodeVote, Votes};
use crate::guard::Released;
use crate::inspect::{ListProgress, LockList, LockReport, NodeAnswer, NodeList, WaiterReport};

/// What a majority says about a lock, beside the report that it is part of.
#[derive(Serialize)]
pub(super) struct StateForm<'a> {
    state: &'static str,
    kind: Option<&'static str>,
    /// The owner of a reentrant lock. That of another one is a token.
    owner: Option<&'a str>,
    label: Option<&'a str>,
    left_ms: Option<u64>,
    fence: Option<u64>,
    sharers: Option<u64>,
}

#[derive(Serialize)]
#[serde(rename = "LockReport")]
struct ReportForm<'a> {
    name: &'a str,
    #[serde(flatten)]
    state: StateForm<'a>,
    waiters: Option<u64>,
    line: &'a [WaiterReport],
    agree: Vec<&'a str>,
    disagree: Vec<&'a str>,
    held_for_ms: Option<u64>,
    held_here: Option<bool>,
    margin: Option<usize>,
    nodes: &'a [NodeAnswer],
}

#[derive(Serialize)]
#[serde(rename = "NodeAnswer")]
struct AnswerForm<'a> {
    node: &'a str,
    votes: bool,
    distrust: Option<String>,
    /// `null` if it did not tell.
    state: Option<&'static str>,
    label: Option<&'a str>,
    left_ms: Option<u64>,
    fence: Option<u64>,
    waiters: Option<u64>,
    /// Why it did not tell.
    error: Option<String>,
}

#[derive(Serialize)]
#[serde(rename = "WaiterReport")]
struct WaiterForm<'a> {
    client: String,
    since_ms: u64,
    label: Option<&'a str>,
    shares: bool,
    kind: &'static str,
    keeps: Vec<&'a str>,
}

#[derive(Serialize)]
#[serde(rename = "LockList")]
struct ListForm<'a> {
    locks: &'a [LockReport],
    nodes: &'a [NodeList],
}

#[derive(Serialize)]
#[serde(rename = "NodeList")]
struct NodeListForm<'a> {
    node: &'a str,
    votes: bool,
    distrust: Option<String>,
    told: Option<usize>,
    error: Option<String>,
    cut_short: bool,
}

#[derive(Serialize)]
#[serde(rename = "ListProgress")]
struct ProgressForm<'a> {
    node: &'a str,
    looked_at: Option<u64>,
    of: Option<u64>,
    locks: usize,
}

#[derive(Serialize)]
#[serde(rename = "NodeVote")]
struct VoteForm<'a> {
    node: &'a str,
    /// `null` if the round was decided before its answer came.
    vote: Option<&'static str>,
    elapsed_us: Option<u64>,
    message: String,
}

#[derive(Serialize)]
#[serde(rename = "Released")]
struct ReleasedForm<'a> {
    votes: &'a Votes,
}

impl<'a> StateForm<'a> {
    pub(super) fn of(state: &'a LockState) -> Self {
        let (kind, sharers) = match state {
            LockState::Held { kind, sharers, .. } => (Some(*kind), *sharers),
            _ => (None, None),
        };
        Self {
            state: state_word(state),
            kind: kind.map(kind_word),
            owner: state.owner().filter(|_| kind == Some(Kind::Reentrant)).map(|owner| &**owner),
            label: state.label().map(|label| &**label),
            left_ms: state.left().map(milliseconds),
            fence: state.fence().map(Fence::get),
            sharers,
        }
    }

    /// With the time that is left by now.
    pub(super) fn with_left(self, left: Option<Duration>) -> Self {
        Self { left_ms: left.map(milliseconds), ..self }
    }
}

impl Serialize for LockReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        fn names(nodes: &[Arc<str>]) -> Vec<&str> {
            nodes.iter().map(|node| &**node).collect()
        }
        let form = ReportForm {
            name: &self.name,
            state: StateForm::of(&self.state),
            waiters: self.waiters,
            line: &self.line,
            agree: names(&self.agree),
            disagree: names(&self.disagree),
            held_for_ms: self.held_for.map(milliseconds),
            held_here: self.held_here,
            margin: self.margin(),
            nodes: &self.nodes,
        };
        form.serialize(serializer)
    }
}

impl Serialize for NodeAnswer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let holding = self.holding.as_ref().ok().and_then(Option::as_ref);
        let word = |holding: Option<&Holding>| match holding {
            None => "free",
            Some(holding) if holding.is_reserved() => "reserved",
            Some(holding) if holding.is_kept() => "kept",
            Some(_) => "held",
        };
        let form = AnswerForm {
            node: &self.node,
            votes: self.votes,
            distrust: text(self.distrust.as_ref()),
            state: self.holding.is_ok().then(|| word(holding)),
            label: holding.and_then(|holding| holding.label.as_deref()),
            left_ms: holding.and_then(|holding| holding.left).map(milliseconds),
            fence: holding.and_then(|holding| holding.fence).map(Fence::get),
            waiters: self.waiters,
            error: text(self.holding.as_ref().err()),
        };
        form.serialize(serializer)
    }
}

impl Serialize for WaiterReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let form = WaiterForm {
            client: self.ticket.client.to_string(),
            since_ms: milliseconds(self.since.duration_since(UNIX_EPOCH).unwrap_or_default()),
            label: self.label.as_deref(),
            shares: self.shares,
            kind: kind_word(self.kind()),
            keeps: self.keeps.iter().map(|name| &**name).collect(),
        };
        form.serialize(serializer)
    }
}

impl Serialize for LockList {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        ListForm { locks: &self.locks, nodes: &self.nodes }.serialize(serializer)
    }
}

impl Serialize for NodeList {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let form = NodeListForm {
            node: &self.node,
            votes: self.votes,
            distrust: text(self.distrust.as_ref()),
            told: self.told.as_ref().ok().copied(),
            error: text(self.told.as_ref().err()),
            cut_short: self.cut_short,
        };
        form.serialize(serializer)
    }
}

impl Serialize for ListProgress {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { node, looked_at, of, locks } = self;
        ProgressForm { node, looked_at: *looked_at, of: *of, locks: *locks }.serialize(serializer)
    }
}

impl Serialize for Votes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut votes = serializer.serialize_seq(Some(self.nodes()))?;
        self.iter().try_for_each(|vote| votes.serialize_element(vote))?;
        votes.end()
    }
}

impl Serialize for NodeVote {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let vote = self.vote.as_ref().map(|vote| match vote {
            Vote::Granted => "granted",
            Vote::Refused(_) => "refused",
            Vote::Unknown(_) => "unknown",
        });
        let elapsed_us = vote.map(|_| microseconds(self.elapsed));
        // The words without the node, which has a field of its own.
        let said = self.to_string();
        let message = said.strip_prefix(&format!("{}: ", self.node)).unwrap_or(&said).to_owned();
        VoteForm { node: &self.node, vote, elapsed_us, message }.serialize(serializer)
    }
}

impl Serialize for Released {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        ReleasedForm { votes: &self.votes }.serialize(serializer)
    }
}
