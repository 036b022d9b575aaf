//! When everybody has released and stopped, no lock is left on a node; and one that comes back is
//! told at once what to remove.
//!
//! One thing is allowed: for ttl + guard band after the last fault a key that was set before it may
//! live on. A dead client cannot remove it, a stray command may have set it after the clean-up, or
//! the clean-up could not be delivered.

use super::Violation;

/// What is known when everybody has stopped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Afterwards {
    pub(crate) now_ns: u64,
    /// When the last fault was over.
    pub(crate) calmed_ns: u64,
    /// How long a key lives at most that nobody extends.
    pub(crate) key_ns: u64,
}

impl Afterwards {
    /// Judges a key on a node whose owner drew its token at `drawn_ns`, or that is only set aside.
    pub(crate) fn left(
        &self,
        name: usize,
        node: usize,
        reserved: bool,
        drawn_ns: Option<u64>,
    ) -> Option<Violation> {
        let Self { now_ns, calmed_ns, key_ns } = *self;
        let old = drawn_ns.is_some_and(|drawn_ns| drawn_ns <= calmed_ns);
        let allowed = !reserved && old && now_ns <= calmed_ns + key_ns;
        (!allowed).then_some(Violation::LeftBehind { name, node, reserved })
    }
}

/// A client is connected to a node again that owed it this many clean-ups, and has sent so many
/// there.
pub(crate) fn back(client: usize, node: usize, owed: u64, sent: u64) -> Option<Violation> {
    (sent < owed).then_some(Violation::NotToldAgain { client, node })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_key_from_before_the_last_fault_may_live_on_and_not_for_long() {
        let early = Afterwards { now_ns: 1_050, calmed_ns: 1_000, key_ns: 100 };
        let late = Afterwards { now_ns: 1_101, ..early };
        let (held, aside) = (false, true);
        let left = |reserved| Some(Violation::LeftBehind { name: 7, node: 2, reserved });
        assert_eq!(early.left(7, 2, held, Some(900)), None);
        assert_eq!(late.left(7, 2, held, Some(900)), left(false));
        assert_eq!(early.left(7, 2, held, Some(1_001)), left(false));
        assert_eq!(early.left(7, 2, held, None), left(false), "nobody drew it");
        assert_eq!(early.left(7, 2, aside, None), left(true));
    }

    #[test]
    fn a_node_that_comes_back_and_is_not_told_what_to_remove_is_seen() {
        assert_eq!(back(1, 2, 3, 3), None);
        assert_eq!(back(1, 2, 3, 2), Some(Violation::NotToldAgain { client: 1, node: 2 }));
    }
}
