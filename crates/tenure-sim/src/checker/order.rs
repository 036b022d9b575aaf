//! Whoever was in line on a majority of nodes before another one asked is served before that one.

use super::{Holder, Violation};

/// One who waits, and since when a majority of nodes has it in line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InLine {
    pub(crate) waiter: Holder,
    pub(crate) since_ns: Option<u64>,
}

/// `later`, who asked at `called_ns`, gets the lock while these wait.
pub(crate) fn served(
    name: usize,
    later: Holder,
    called_ns: u64,
    waiting: impl IntoIterator<Item = InLine>,
) -> Option<Violation> {
    let overtaken = |in_line: &InLine| in_line.since_ns.is_some_and(|since_ns| since_ns < called_ns);
    let earlier = waiting.into_iter().find(overtaken)?.waiter;
    Some(Violation::Overtaken { name, earlier, later })
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Holder = Holder { client: 0, generation: 0, lease: 0 };
    const B: Holder = Holder { client: 1, generation: 0, lease: 0 };

    #[test]
    fn whoever_asks_when_another_one_is_in_line_must_come_after_it() {
        let waiting = |since_ns| [InLine { waiter: A, since_ns }];
        assert_eq!(served(7, B, 10, waiting(None)), None, "no majority has it in line");
        assert_eq!(served(7, B, 10, waiting(Some(10))), None, "it came at the same time");
        let overtaken = Violation::Overtaken { name: 7, earlier: A, later: B };
        assert_eq!(served(7, B, 10, waiting(Some(9))), Some(overtaken));
        assert_eq!(served(7, B, 10, []), None);
    }
}
