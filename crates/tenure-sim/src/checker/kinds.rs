//! A name is one kind of lock. Whoever asks for it as another kind is told so, and does not wait.

use tenure_core::Quorum;

use super::{Holder, Violation};

/// A caller waits, or makes another attempt, after so many nodes refused the last one because of
/// the kind.
pub(crate) fn goes_on(name: usize, waiter: Holder, quorum: Quorum, refused: usize) -> Option<Violation> {
    let hopeless = quorum.nodes() - refused < quorum.majority();
    hopeless.then_some(Violation::WaitsForOtherKind { name, waiter })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_waits_for_another_kind_of_lock_is_seen() {
        let (quorum, waiter) = (Quorum::of(5).unwrap(), Holder { client: 0, generation: 0, lease: 0 });
        assert_eq!(goes_on(7, waiter, quorum, 2), None, "a majority is still possible");
        let waits = Violation::WaitsForOtherKind { name: 7, waiter };
        assert_eq!(goes_on(7, waiter, quorum, 3), Some(waits));
    }
}
