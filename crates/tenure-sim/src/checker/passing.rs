//! A lock that is passed on inside a client: only to callers that asked before the nodes were, each
//! with a larger fence than the one before, and not for too long.

use std::collections::BTreeMap;

use tenure_core::{COHORT_PASSES_MAX, COHORT_TIME, OwnerToken, Time};

use super::{Holder, Violation};

/// What nodes have given to a client, by its token.
#[derive(Clone, Debug, Default)]
pub(crate) struct Passing {
    holds: BTreeMap<OwnerToken, Hold>,
}

#[derive(Clone, Copy, Debug)]
struct Hold {
    /// When the nodes gave it, by the client's clock.
    acquired: Time,
    /// When the round began, in true time.
    begun_ns: u64,
    holder: Holder,
    /// Its fence, and that of the first one.
    fence: u64,
    first_fence: u64,
    passes: u32,
}

impl Passing {
    /// The nodes have given a lock in a round that began at `begun_ns`.
    pub(crate) fn acquired(
        &mut self,
        token: OwnerToken,
        acquired: Time,
        begun_ns: u64,
        holder: Holder,
        fence: u64,
    ) {
        self.holds.insert(token, Hold { acquired, begun_ns, holder, fence, first_fence: fence, passes: 0 });
    }

    /// When the nodes gave what goes by this token, by the client's clock, and who has it now.
    pub(crate) fn present(&self, token: OwnerToken) -> Option<(Time, Holder)> {
        self.holds.get(&token).map(|hold| (hold.acquired, hold.holder))
    }

    /// The fence that the nodes gave it with.
    pub(crate) fn first_fence(&self, token: OwnerToken) -> Option<u64> {
        self.holds.get(&token).map(|hold| hold.first_fence)
    }

    /// It is passed on at `now` to one who asked for it at `called_ns`.
    pub(crate) fn passed(
        &mut self,
        (name, token): (usize, OwnerToken),
        now: Time,
        called_ns: u64,
        holder: Holder,
        fence: u64,
    ) -> Option<Violation> {
        let Some(hold) = self.holds.get_mut(&token) else {
            return Some(Violation::PassedOnWrongly { name, holder });
        };
        let before = std::mem::replace(hold, Hold { holder, fence, passes: hold.passes + 1, ..*hold });
        if fence <= before.fence {
            let (earlier, later) = ((before.holder, before.fence), (holder, fence));
            return Some(Violation::FenceNotLarger { name, earlier, later });
        }
        let late = now.since(before.acquired) >= COHORT_TIME || before.passes >= COHORT_PASSES_MAX;
        let stranger = before.holder.client != holder.client || called_ns > before.begun_ns;
        (late || stranger).then_some(Violation::PassedOnWrongly { name, holder })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Holder = Holder { client: 0, generation: 0, lease: 1 };
    const B: Holder = Holder { client: 0, generation: 0, lease: 2 };
    const TOKEN: OwnerToken = OwnerToken::from_bytes([7; 20]);
    const WRONG: Option<Violation> = Some(Violation::PassedOnWrongly { name: 3, holder: B });

    fn at(millis: u64) -> Time {
        Time::from_nanos(millis * 1_000_000)
    }

    fn held() -> Passing {
        let mut passing = Passing::default();
        passing.acquired(TOKEN, at(100), 50, A, 1_000);
        passing
    }

    #[test]
    fn it_goes_to_whoever_was_there_before_with_a_larger_fence() {
        let mut passing = held();
        assert_eq!(passing.passed((3, TOKEN), at(105), 50, B, 1_001), None);
        assert_eq!(passing.present(TOKEN), Some((at(100), B)));
        assert!(matches!(
            passing.passed((3, TOKEN), at(105), 50, A, 1_001),
            Some(Violation::FenceNotLarger { .. })
        ));
        assert_eq!(held().passed((3, TOKEN), at(105), 51, B, 1_001), WRONG, "it asked later");
        let unknown = OwnerToken::from_bytes([8; 20]);
        assert_eq!(held().passed((3, unknown), at(105), 50, B, 1_001), WRONG);
    }

    #[test]
    fn it_goes_on_neither_for_too_long_nor_too_often() {
        assert_eq!(held().passed((3, TOKEN), at(110), 50, B, 1_001), WRONG);
        let mut passing = held();
        for pass in 0..COHORT_PASSES_MAX {
            let fence = 1_001 + u64::from(pass);
            assert_eq!(passing.passed((3, TOKEN), at(101), 50, B, fence), None);
        }
        assert_eq!(passing.passed((3, TOKEN), at(101), 50, B, 9_999), WRONG);
    }
}
