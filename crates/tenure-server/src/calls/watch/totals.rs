//! How many locks are held and waited for, and what this instance's calls came to.

use serde::Serialize;
use tenure::{FleetWatch, LockState};
use utoipa::ToSchema;

use crate::caller::Caller;
use crate::events::{Outcomes, Tally, Waits};
use crate::form::milliseconds;

/// So many of the locks that were waited for are told.
const CONTENDED_MAX: usize = 20;

/// The data of `totals`.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = WatchTotals)]
pub(super) struct Totals {
    /// The number of locks held, of those listed here.
    held: usize,
    /// The number of waiters for them.
    waiting: u64,
    /// How long this instance has been counting.
    since_ms: u64,
    /// The number of acquires served; absent for callers that may not see all locks.
    #[schema(required)]
    acquired: Option<u64>,
    /// The number of acquires that ended without a lock.
    #[schema(required)]
    refused: Option<u64>,
    /// The number of locks lost while it renewed them.
    #[schema(required)]
    lost: Option<u64>,
    /// The locks that callers waited for the longest here, the longest first.
    contended: Vec<Contended>,
}

/// How long callers waited for a lock at this instance.
#[derive(Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = WatchContended)]
struct Contended {
    name: String,
    waited_ms: u64,
    /// The number of waits.
    waits: u64,
    longest_ms: u64,
}

impl Totals {
    pub(super) fn of(watch: &FleetWatch, tally: &Tally, caller: &Caller) -> Self {
        let (mut held, mut waiting) = (0, 0);
        for view in watch.locks().filter(|view| caller.sees(view.name())) {
            held += usize::from(matches!(view.state(), LockState::Held { .. }));
            waiting += view.waiters().unwrap_or(0);
        }
        let contended = |(name, waits): (Box<str>, Waits)| Contended {
            name: name.into(),
            waited_ms: milliseconds(waits.total),
            waits: waits.count,
            longest_ms: milliseconds(waits.longest),
        };
        let begins = watch.begins();
        let is_told = |name: &str| name.starts_with(begins) && caller.sees(name);
        let Outcomes { acquired, refused, lost } = tally.outcomes();
        let all = |count: u64| caller.sees_all().then_some(count);
        Self {
            held,
            waiting,
            since_ms: milliseconds(tally.since()),
            acquired: all(acquired),
            refused: all(refused),
            lost: all(lost),
            contended: tally.contended(CONTENDED_MAX, is_told).into_iter().map(contended).collect(),
        }
    }

    /// Whether it differs in nothing but a running clock.
    pub(super) fn says_the_same(&self, other: &Self) -> bool {
        let of = |totals: &Self| (totals.held, totals.waiting, totals.acquired, totals.refused, totals.lost);
        of(self) == of(other) && self.contended == other.contended
    }
}
