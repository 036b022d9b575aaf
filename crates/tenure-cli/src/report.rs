//! What is known of locks, as the tool tells it: from the nodes themselves, or from a service.

mod waiting;

use std::time::Duration;

use serde_json::Value;
use tenure::{Circle, Fence, Kind, LockList, LockReport, LockState, NodeAnswer, NodeList, OwnerToken};
use tenure_server::form::kind_word;

pub(crate) use self::waiting::{Waiting, circle};

/// A lock, and what each node says of it.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    pub(crate) name: String,
    pub(crate) state: State,
    pub(crate) label: Option<String>,
    pub(crate) left: Option<Duration>,
    pub(crate) fence: Option<Fence>,
    pub(crate) waiters: Option<u64>,
    /// Who waits, in order.
    pub(crate) line: Vec<Waiting>,
    /// The deadlocks that it is part of.
    pub(crate) circles: Vec<Circle>,
    /// How many share it, if it is shared.
    pub(crate) readers: Option<u64>,
    /// `plain` or `reentrant`, if it is held.
    pub(crate) kind: Option<String>,
    /// Who has it, if it is reentrant.
    pub(crate) owner: Option<String>,
    /// How often its owner has it.
    pub(crate) holds: Option<u64>,
    /// Its holder is a client of another library: what it wrote is no token of ours.
    pub(crate) is_foreign: bool,
    pub(crate) agree: Vec<String>,
    pub(crate) disagree: Vec<String>,
    pub(crate) nodes: Vec<Answer>,
}

/// What becomes of a lock, or of one node's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Free,
    Held,
    /// Its holder is done with it, but it is kept from others.
    Kept,
    Reserved,
    Disputed,
    Unknown,
}

/// What one node says of it.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) node: String,
    pub(crate) votes: bool,
    pub(crate) state: State,
    pub(crate) label: Option<String>,
    pub(crate) left: Option<Duration>,
    pub(crate) waiters: Option<u64>,
    /// Why it did not tell.
    pub(crate) error: Option<String>,
    /// Why it is not counted.
    pub(crate) distrust: Option<String>,
    pub(crate) is_misconfigured: bool,
}

/// All locks, and how many each node told of.
#[derive(Clone, Debug)]
pub(crate) struct List {
    pub(crate) locks: Vec<Report>,
    pub(crate) nodes: Vec<Told>,
}

/// What came of asking one node for its locks.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    pub(crate) node: String,
    pub(crate) votes: bool,
    pub(crate) locks: Result<usize, String>,
    pub(crate) cut_short: bool,
    pub(crate) distrust: Option<String>,
    pub(crate) is_misconfigured: bool,
}

impl State {
    const ALL: [Self; 6] =
        [Self::Free, Self::Held, Self::Kept, Self::Reserved, Self::Disputed, Self::Unknown];

    /// As programs read it.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Held => "held",
            Self::Kept => "kept",
            Self::Reserved => "reserved",
            Self::Disputed => "disputed",
            Self::Unknown => "unknown",
        }
    }
}

impl From<LockReport> for Report {
    fn from(report: LockReport) -> Self {
        let (readers, kind, owner, holds) = match &report.state {
            LockState::Held { kind: Kind::Reentrant, owner, sharers, .. } => {
                (None, Some(Kind::Reentrant), Some(owner.to_string()), *sharers)
            }
            LockState::Held { kind, sharers, .. } => (*sharers, Some(*kind), None, None),
            _ => (None, None, None, None),
        };
        let is_foreign = match &report.state {
            LockState::Held { kind: Kind::Plain, sharers: None, owner, .. } => {
                OwnerToken::parse(owner.split('~').next().unwrap_or_default()).is_err()
            }
            _ => false,
        };
        let (state, label, left, fence) = match report.state {
            LockState::Free => (State::Free, None, None, None),
            LockState::Held { label, left, fence, .. } => (State::Held, label, left, fence),
            LockState::Kept { label, left, fence, .. } => (State::Kept, label, left, fence),
            LockState::Reserved { left, .. } => (State::Reserved, None, left, None),
            LockState::Disputed => (State::Disputed, None, None, None),
            _ => (State::Unknown, None, None, None),
        };
        let addresses = |nodes: &[std::sync::Arc<str>]| nodes.iter().map(ToString::to_string).collect();
        Self {
            name: report.name,
            state,
            label: label.map(|label| label.to_string()),
            left,
            fence,
            waiters: report.waiters,
            line: report.line.iter().map(Waiting::from).collect(),
            circles: vec![],
            readers,
            kind: kind.map(|kind| kind_word(kind).to_owned()),
            owner,
            holds,
            is_foreign,
            agree: addresses(&report.agree),
            disagree: addresses(&report.disagree),
            nodes: report.nodes.into_iter().map(Answer::from).collect(),
        }
    }
}

impl From<NodeAnswer> for Answer {
    fn from(answer: NodeAnswer) -> Self {
        let is_misconfigured = answer.is_misconfigured();
        let (state, label, left, error) = match answer.holding {
            Ok(None) => (State::Free, None, None, None),
            Ok(Some(holding)) if holding.is_reserved() => (State::Reserved, None, holding.left, None),
            Ok(Some(holding)) => {
                let state = if holding.is_kept() { State::Kept } else { State::Held };
                (state, holding.label.map(|label| label.to_string()), holding.left, None)
            }
            Err(fault) => (State::Unknown, None, None, Some(fault.to_string())),
        };
        Self {
            node: answer.node.to_string(),
            votes: answer.votes,
            state,
            label,
            left,
            waiters: answer.waiters,
            error,
            distrust: answer.distrust.map(|distrust| distrust.to_string()),
            is_misconfigured,
        }
    }
}

impl From<LockList> for List {
    fn from(list: LockList) -> Self {
        Self {
            locks: list.locks.into_iter().map(Report::from).collect(),
            nodes: list.nodes.into_iter().map(Told::from).collect(),
        }
    }
}

impl From<NodeList> for Told {
    fn from(list: NodeList) -> Self {
        Self {
            is_misconfigured: list.is_misconfigured(),
            node: list.node.to_string(),
            votes: list.votes,
            locks: list.told.map_err(|fault| fault.to_string()),
            cut_short: list.cut_short,
            distrust: list.distrust.map(|distrust| distrust.to_string()),
        }
    }
}

/// As a service tells it. What it leaves out, or what we do not understand, is unknown.
impl Report {
    pub(crate) fn read(told: &Value) -> Self {
        Self {
            name: text(&told["name"]).unwrap_or_default(),
            state: state(&told["state"]),
            label: text(&told["label"]),
            left: milliseconds(&told["left_ms"]),
            fence: told["fence"].as_u64().map(Fence::new),
            waiters: told["waiters"].as_u64(),
            line: each(&told["line"], Waiting::read),
            circles: each(&told["deadlocks"], circle),
            readers: told["readers"].as_u64(),
            kind: text(&told["kind"]),
            owner: text(&told["owner"]),
            holds: told["holds"].as_u64(),
            // A service does not tell.
            is_foreign: false,
            agree: each(&told["agree"], |node| text(node).unwrap_or_default()),
            disagree: each(&told["disagree"], |node| text(node).unwrap_or_default()),
            nodes: each(&told["nodes"], Answer::read),
        }
    }
}

impl Answer {
    fn read(told: &Value) -> Self {
        Self {
            node: text(&told["node"]).unwrap_or_default(),
            votes: told["votes"] == true,
            state: state(&told["state"]),
            label: text(&told["label"]),
            left: milliseconds(&told["left_ms"]),
            waiters: told["waiters"].as_u64(),
            error: text(&told["error"]),
            distrust: None,
            is_misconfigured: false,
        }
    }
}

impl List {
    pub(crate) fn read(told: &Value) -> Self {
        Self { locks: each(&told["locks"], Report::read), nodes: each(&told["nodes"], Told::read) }
    }
}

impl Told {
    fn read(told: &Value) -> Self {
        let count = told["locks"].as_u64().and_then(|count| usize::try_from(count).ok());
        Self {
            node: text(&told["node"]).unwrap_or_default(),
            votes: told["votes"] == true,
            locks: count.ok_or_else(|| text(&told["error"]).unwrap_or_default()),
            cut_short: told["cut_short"] == true,
            distrust: None,
            is_misconfigured: false,
        }
    }
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

pub(crate) fn state(value: &Value) -> State {
    State::ALL.into_iter().find(|state| value == state.word()).unwrap_or(State::Unknown)
}

fn milliseconds(value: &Value) -> Option<Duration> {
    value.as_u64().map(Duration::from_millis)
}

fn each<T>(list: &Value, read: impl Fn(&Value) -> T) -> Vec<T> {
    list.as_array().map_or_else(Vec::new, |list| list.iter().map(read).collect())
}
