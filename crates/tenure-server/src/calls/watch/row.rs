//! One lock in a list that is kept up to date.

use serde::Serialize;
use tenure::{Fence, Kind, LockView};
use utoipa::ToSchema;

use crate::calls::look::report::{State, shares};
use crate::form::{kind_word, milliseconds};
use crate::lease_key::LeaseKeys;

/// A lock that somebody has.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = WatchRow)]
pub(super) struct Row {
    name: String,
    state: State,
    /// As in `/v1/lock`.
    #[schema(required)]
    kind: Option<&'static str>,
    /// As in `/v1/lock`.
    #[schema(required)]
    holder: Option<String>,
    /// Who has it, if it is reentrant.
    #[schema(required)]
    owner: Option<String>,
    /// What the holder wrote.
    #[schema(required)]
    label: Option<String>,
    /// How many share it, if it is shared.
    #[schema(required)]
    readers: Option<u64>,
    /// After this it is free unless it is extended; null if it never is.
    #[schema(required)]
    left_ms: Option<u64>,
    /// For how long its holder has it.
    age_ms: u64,
    /// Whether that is known; else it may be longer.
    age_exact: bool,
    #[schema(required)]
    fence: Option<u64>,
    /// How many nodes may forget it before somebody else can get it, if it is held.
    #[schema(required)]
    margin: Option<usize>,
    /// How many wait in line, those that were killed among them.
    #[schema(required)]
    waiters: Option<u64>,
    /// How many nodes say the same as the majority.
    agree: usize,
    /// How many say otherwise.
    disagree: usize,
    /// How many of these name another holder.
    others: usize,
    /// How long ago the nodes were asked.
    seen_ms_ago: u64,
}

impl Row {
    pub(super) fn of(view: &LockView, keys: &LeaseKeys) -> Self {
        let state = view.state();
        let (kind, readers, _) = shares(state);
        Self {
            name: view.name().to_owned(),
            state: State::of(state),
            kind: kind.map(kind_word),
            holder: state.owner().map(|owner| keys.holder(owner)),
            owner: state.owner().filter(|_| kind == Some(Kind::Reentrant)).map(ToString::to_string),
            label: state.label().map(ToString::to_string),
            readers,
            left_ms: view.left().map(milliseconds),
            age_ms: milliseconds(view.held_for()),
            age_exact: view.held_for_is_known(),
            fence: state.fence().map(Fence::get),
            margin: view.margin(),
            waiters: view.waiters(),
            agree: view.agree(),
            disagree: view.disagree(),
            others: view.others(),
            seen_ms_ago: milliseconds(view.seen_ago()),
        }
    }
}
