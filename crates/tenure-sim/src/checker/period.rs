//! A lock that was acquired for a period is nobody else's before the period is over: however it is
//! released, and whatever becomes of its holder.

use std::collections::BTreeMap;

use tenure_core::OwnerToken;

use super::{Holder, Violation};
use crate::workload::each;

/// Periods are measured by the nodes' clocks. Those run up to 12 % fast, with the small steps that
/// nobody has to see.
const TRUE_SHARE_PERCENT: u64 = 88;
const STEPS_NS: u64 = 120_000_000;

/// Until when which lock is kept from others.
#[derive(Clone, Debug, Default)]
pub(crate) struct Periods {
    kept: BTreeMap<usize, Kept>,
}

#[derive(Clone, Copy, Debug)]
struct Kept {
    holder: Holder,
    token: OwnerToken,
    until_ns: u64,
}

impl Periods {
    /// A lock was acquired at `now_ns`, in an attempt that began at `begun_ns`, to be kept for
    /// `at_least_ns`.
    pub(crate) fn acquired(
        &mut self,
        (now_ns, begun_ns): (u64, u64),
        name: usize,
        (holder, token): (Holder, OwnerToken),
        at_least_ns: u64,
    ) -> Option<Violation> {
        let true_ns = (at_least_ns / 100 * TRUE_SHARE_PERCENT).saturating_sub(STEPS_NS);
        let kept = Kept { holder, token, until_ns: begun_ns + true_ns };
        let before = each(name).filter_map(|name| Some((name, self.kept.insert(name, kept)?)));
        let early = before.filter(|(_, before)| before.until_ns > now_ns && before.token != token);
        let early = early.map(|(name, Kept { holder: keeper, .. })| Violation::PeriodCut {
            name,
            keeper,
            by: holder,
        });
        // All names are taken note of, whichever of them is cut.
        early.fold(None, |first, next| first.or(Some(next)))
    }

    /// Its holder lets others have it at once.
    pub(crate) fn waive(&mut self, token: OwnerToken) {
        self.kept.retain(|_, kept| kept.token != token);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::set_of;

    const A: Holder = Holder { client: 0, generation: 0, lease: 1 };
    const B: Holder = Holder { client: 1, generation: 0, lease: 2 };
    const ONE: OwnerToken = OwnerToken::from_bytes([1; 20]);
    const OTHER: OwnerToken = OwnerToken::from_bytes([2; 20]);
    const PERIOD_NS: u64 = 1_000_000_000;
    const OVER_NS: u64 = 880_000_000 - STEPS_NS;

    fn kept() -> Periods {
        let mut periods = Periods::default();
        assert_eq!(periods.acquired((20, 10), 7, (A, ONE), PERIOD_NS), None);
        periods
    }

    #[test]
    fn whoever_gets_the_lock_within_the_period_of_another_one_is_seen() {
        assert_eq!(kept().acquired((10 + OVER_NS, 0), 7, (B, OTHER), 0), None, "it is over");
        let cut = Some(Violation::PeriodCut { name: 7, keeper: A, by: B });
        assert_eq!(kept().acquired((9 + OVER_NS, 0), 7, (B, OTHER), 0), cut);
        assert_eq!(kept().acquired((9 + OVER_NS, 0), set_of([6, 7, 8]), (B, OTHER), 0), cut);
        assert_eq!(kept().acquired((30, 0), 8, (B, OTHER), 0), None, "another lock");
    }

    #[test]
    fn what_was_waived_is_in_nobodys_way() {
        let mut periods = kept();
        periods.waive(OTHER);
        assert!(periods.clone().acquired((30, 25), 7, (B, OTHER), 0).is_some());
        periods.waive(ONE);
        assert_eq!(periods.acquired((30, 25), 7, (B, OTHER), 0), None);
    }
}
