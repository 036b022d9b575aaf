//! Who is there for a lock: the holds that a majority of nodes has, and those whom a majority has
//! in line.
//!
//! One node may still have a waiter in line that has given up, or a key that nobody counts. What a
//! majority says can be relied on.

use std::collections::BTreeMap;

use super::Word;
use crate::line::Ticket;
use crate::note::{HoldId, Note, Waiter};
use crate::round::Quorum;

/// The holds of a lock: one if it is held alone, none if it is free, kept for its period, or
/// another library's.
pub(super) fn holds<'a>(quorum: Quorum, words: impl Iterator<Item = Word<'a>>) -> Vec<HoldId> {
    let mut told: BTreeMap<HoldId, usize> = BTreeMap::new();
    for holding in words.filter_map(|word| word.holding) {
        let sharers = holding.sharers.iter().flatten();
        let mut holds: Vec<_> =
            sharers.chain([&holding.owner]).filter_map(|owner| HoldId::of_owner(owner)).collect();
        holds.sort_unstable();
        holds.dedup();
        holds.into_iter().for_each(|hold| *told.entry(hold).or_default() += 1);
    }
    told.into_iter().filter(|(_, nodes)| *nodes >= quorum.majority()).map(|(hold, _)| hold).collect()
}

/// Those in line, in order. A note counts if any node has it: it is the waiter's own word.
pub(super) fn line<'a>(quorum: Quorum, words: impl Iterator<Item = Word<'a>>) -> Vec<Waiter> {
    let mut told: BTreeMap<Ticket, (usize, Note)> = BTreeMap::new();
    for waiter in words.flat_map(|word| word.line) {
        let (nodes, note) = told.entry(waiter.ticket).or_default();
        *nodes += 1;
        if note.is_empty() {
            *note = waiter.note.clone();
        }
    }
    let enough = told.into_iter().filter(|(_, (nodes, _))| *nodes >= quorum.majority());
    enough.map(|(ticket, (_, note))| Waiter { ticket, note }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::ClientId;
    use crate::note::HeldLock;

    fn waiter(number: u64, label: Option<&str>) -> Waiter {
        let note = Note { label: label.map(Into::into), holds: vec![] };
        Waiter { ticket: Ticket::exclusive(number, ClientId::new(7)), note }
    }

    fn told(lines: [Vec<&Waiter>; 3]) -> Vec<Waiter> {
        let lines = lines.map(|line| line.into_iter().cloned().collect::<Vec<_>>());
        let words = lines.iter().map(|line| Word { line, ..Word::default() });
        line(Quorum::of(3).unwrap(), words)
    }

    #[test]
    fn whoever_is_in_line_on_a_majority_waits_in_the_order_of_tickets() {
        let (first, second) = (waiter(1, None), waiter(2, None));
        let told = told([vec![&second, &first], vec![&second], vec![&first]]);
        assert_eq!(told, [first, second]);
    }

    #[test]
    fn whoever_is_left_in_line_on_a_minority_does_not_wait() {
        assert_eq!(told([vec![&waiter(1, Some("gone"))], vec![], vec![]]), []);
    }

    #[test]
    fn one_node_is_enough_to_know_what_a_waiter_said() {
        let mut said = waiter(1, Some("nightly"));
        let hold = HoldId::of_owner(&"ab".repeat(20)).unwrap();
        said.note.holds.push(HeldLock { name: "a".into(), hold });
        assert_eq!(told([vec![&waiter(1, None)], vec![&said], vec![&waiter(1, None)]]), [said]);
    }
}
