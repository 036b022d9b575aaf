//! One lock in a list that is kept up to date.

use serde::Serialize;
use tenure::{Fence, Kind, LockView};
use utoipa::ToSchema;

use crate::calls::look::report::{State, shares};
use crate::form::{kind_word, milliseconds};
use crate::lease_key::LeaseKeys;

/// A lock that is held.
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
    /// Its owner, if it is reentrant.
    #[schema(required)]
    owner: Option<String>,
    /// The holder's label.
    #[schema(required)]
    label: Option<String>,
    /// The number of readers, if it is shared.
    #[schema(required)]
    readers: Option<u64>,
    /// Time until it is free unless extended; null if it never expires.
    #[schema(required)]
    left_ms: Option<u64>,
    /// How long its holder has held it.
    age_ms: u64,
    /// Whether that is exact; otherwise it may be longer.
    age_exact: bool,
    #[schema(required)]
    fence: Option<u64>,
    /// The number of nodes that may forget it before someone else can get it, if held.
    #[schema(required)]
    margin: Option<usize>,
    /// The number of waiters in line, including those that were killed.
    #[schema(required)]
    waiters: Option<u64>,
    /// The number of nodes that agree with the majority.
    agree: usize,
    /// The number of nodes that disagree.
    disagree: usize,
    /// The number of these that report another holder.
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
