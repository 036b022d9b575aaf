//! Which fleet a name belongs to when there are several. Every client has to say the same, in
//! whatever language it is written: `docs/capacity.md` has the rule and examples to test it with.

use md5::{Digest, Md5};

/// The fleet of a name: the one with the highest score (rendezvous hashing). Of a fleet that comes
/// or goes, only the names it gets or had move. `None` if there are no fleets.
pub(crate) fn fleet_of<'a>(name: &str, fleets: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    fleets.into_iter().max_by_key(|fleet| (score(fleet, name), std::cmp::Reverse(*fleet)))
}

/// The first eight bytes of the MD5 of `fleet`, a line feed and `name`, as a number, the first byte
/// first. Spread evenly is all that it has to be, and every language has it.
fn score(fleet: &str, name: &str) -> u64 {
    let digest = Md5::digest(format!("{fleet}\n{name}"));
    digest[..8].iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const FLEETS: [&str; 4] = ["f1", "f2", "f3", "f4"];

    #[test]
    fn the_examples_of_the_page_are_right() {
        let page = include_str!("../../../../docs/capacity.md");
        for name in ["invoice:42", "invoice:43", "nightly", "naïve"] {
            let row =
                format!("| `{name}` | `{}` | {} |", fleet_of(name, FLEETS).expect("four"), score("f1", name));
            assert!(page.contains(&row), "docs/capacity.md lacks {row}");
        }
    }

    #[test]
    fn names_are_spread_evenly_and_only_those_of_the_new_fleet_move() {
        let names: Vec<String> = (0..20_000).map(|number| format!("order:{number}")).collect();
        let place = |fleets: &[&'static str]| -> Vec<&str> {
            names.iter().filter_map(|name| fleet_of(name, fleets.iter().copied())).collect()
        };
        let (three, four) = (place(&FLEETS[..3]), place(&FLEETS));
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        four.iter().for_each(|fleet| *counts.entry(fleet).or_default() += 1);
        assert!(
            counts.len() == 4 && counts.values().all(|count| (4_700..5_300).contains(count)),
            "{counts:?}"
        );
        let moved = three.iter().zip(&four).filter(|(before, after)| before != after);
        assert!(moved.clone().all(|(_, after)| *after == "f4"));
        assert_eq!(moved.count(), counts["f4"]);
    }

    #[test]
    fn the_order_of_the_list_does_not_matter() {
        let backwards: Vec<&str> = FLEETS.iter().rev().copied().collect();
        for name in ["a", "b", "c"] {
            assert_eq!(fleet_of(name, FLEETS), fleet_of(name, backwards.iter().copied()));
        }
        assert_eq!(fleet_of("a", []), None);
    }
}
