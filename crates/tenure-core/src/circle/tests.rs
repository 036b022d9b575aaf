use std::borrow::Borrow;

use super::*;
use crate::line::ClientId;
use crate::note::Note;
use crate::token::OwnerToken;

/// A line without anybody.
const NOBODY: [Waiter; 0] = [];

/// The hold of this number.
fn hold(number: u8) -> HoldId {
    HoldId::of(&OwnerToken::from_bytes([number; 20]))
}

fn held(&(name, number): &(&str, u8)) -> HeldLock {
    HeldLock { name: name.into(), hold: hold(number) }
}

fn waiter(number: u64, holds: &[(&str, u8)]) -> Waiter {
    let note =
        Note { label: Some(format!("waiter {number}").into()), holds: holds.iter().map(held).collect() };
    Waiter { ticket: Ticket::exclusive(number, ClientId::new(number)), note }
}

fn reader(number: u64, holds: &[(&str, u8)]) -> Waiter {
    let mut waiter = waiter(number, holds);
    waiter.ticket.seeks = Seeks::Shared;
    waiter
}

/// What the nodes say: each lock with the hold it has, and those who wait for it.
#[derive(Clone, Default)]
struct World(BTreeMap<Arc<str>, Presence>);

impl World {
    fn with<W: Borrow<Waiter>>(mut self, name: &str, held_by: u8, line: impl IntoIterator<Item = W>) -> Self {
        let line = line.into_iter().map(|waiter| waiter.borrow().clone()).collect();
        let presence = Presence { holds: vec![hold(held_by)], is_shared: false, line };
        self.0.insert(name.into(), presence);
        self
    }

    fn shared(mut self, name: &str, held_by: &[u8], line: [&Waiter; 1]) -> Self {
        let holds = held_by.iter().map(|number| hold(*number)).collect();
        self.0
            .insert(name.into(), Presence { holds, is_shared: true, line: line.map(Clone::clone).to_vec() });
        self
    }

    /// What a search finds that begins with this waiter, and how many locks it asks about.
    fn search(&self, waiter: &Waiter, waits_for: &[&str]) -> (Option<Circle>, usize) {
        let names = waits_for.iter().map(|name| Arc::from(*name)).collect();
        let mut search = Search::new(Wait { waiter: waiter.clone(), names });
        let mut asked = 0;
        loop {
            match search.step() {
                Step::Ask(names) => {
                    asked += names.len();
                    for name in names {
                        if let Some(presence) = self.0.get(&name) {
                            search.learn(&name, presence.clone());
                        }
                    }
                }
                Step::Found(circle) => return (Some(circle), asked),
                Step::NotFound => return (None, asked),
            }
        }
    }

    /// The circle in words: who keeps what and waits for what.
    fn circle(&self, waiter: &Waiter, waits_for: &str) -> Option<String> {
        let circle = self.search(waiter, &[waits_for]).0?;
        assert!(circle.stands(&self.0), "what was found stands while nothing changes");
        let member =
            |it: &Member| format!("{} keeps {} for {}", it.waiter.ticket.number, it.keeps.name, it.waits_for);
        Some(circle.members.iter().map(member).collect::<Vec<_>>().join(", "))
    }
}

#[test]
fn two_that_wait_for_each_other_are_a_circle_seen_from_either() {
    let (one, two) = (waiter(1, &[("a", 1)]), waiter(2, &[("b", 2)]));
    let world = World::default().with("a", 1, [&two]).with("b", 2, [&one]);
    assert_eq!(world.circle(&one, "b").unwrap(), "1 keeps a for b, 2 keeps b for a");
    assert_eq!(world.circle(&two, "a").unwrap(), "2 keeps b for a, 1 keeps a for b");
    let [seen_by_one, seen_by_two] =
        [(&one, "b"), (&two, "a")].map(|(waiter, name)| world.search(waiter, &[name]).0.unwrap());
    assert!(seen_by_one.is_same(&seen_by_two));
}

#[test]
fn a_circle_of_three_is_told_in_the_order_in_which_they_wait() {
    let [one, two, three] = [waiter(1, &[("a", 1)]), waiter(2, &[("b", 2)]), waiter(3, &[("c", 3)])];
    let world =
        World::default().with("a", 1, [&waiter(9, &[]), &three]).with("b", 2, [&one]).with("c", 3, [&two]);
    assert_eq!(world.circle(&one, "b").unwrap(), "1 keeps a for b, 2 keeps b for c, 3 keeps c for a");
}

#[test]
fn whoever_waits_for_what_it_keeps_is_a_circle_of_one() {
    let one = waiter(1, &[("a", 1)]);
    let world = World::default().with("a", 1, [&one]);
    assert_eq!(world.circle(&one, "a").unwrap(), "1 keeps a for a");
}

#[test]
fn a_chain_without_an_end_that_meets_its_beginning_is_no_circle() {
    let [one, two, three] = [waiter(1, &[("a", 1)]), waiter(2, &[("b", 2)]), waiter(3, &[("d", 4)])];
    let world = World::default()
        .with("a", 1, [&three])
        .with("b", 2, [&one])
        .with("c", 9, [&two])
        .with("d", 4, NOBODY);
    assert_eq!(world.circle(&one, "b"), None);
}

/// A circle that the first waiter only waits for is not its own: its members report it.
#[test]
fn whoever_waits_for_a_circle_is_not_in_it() {
    let [one, two, bystander] = [waiter(1, &[("a", 1)]), waiter(2, &[("b", 2)]), waiter(3, &[("c", 3)])];
    let world = World::default().with("a", 1, [&two, &bystander]).with("b", 2, [&one]).with("c", 3, NOBODY);
    assert_eq!(world.circle(&bystander, "a"), None);
    assert!(world.circle(&one, "b").is_some());
}

#[test]
fn a_note_about_a_hold_that_has_ended_is_no_link() {
    let (one, two) = (waiter(1, &[("a", 1)]), waiter(2, &[("b", 2)]));
    let others = World::default().with("a", 1, [&two]).with("b", 7, [&one]);
    assert_eq!(others.circle(&one, "b"), None, "another has got what the second one kept");
    let mine = World::default().with("a", 8, [&two]).with("b", 2, [&one]);
    assert_eq!(mine.circle(&one, "b"), None, "we do not keep what we did");
}

#[test]
fn whoever_is_in_line_no_more_is_no_link() {
    let (one, two) = (waiter(1, &[("a", 1)]), waiter(2, &[("b", 2)]));
    let gone = World::default().with("a", 1, NOBODY).with("b", 2, [&one]);
    assert_eq!(gone.circle(&one, "b"), None);
    let not_yet = World::default().with("a", 1, [&two]).with("b", 2, NOBODY);
    assert_eq!(not_yet.circle(&one, "b"), None, "it does not wait itself");
}

#[test]
fn a_lock_that_no_majority_tells_of_is_no_link() {
    let (one, two) = (waiter(1, &[("a", 1)]), waiter(2, &[("b", 2)]));
    let unknown = World::default().with("a", 1, [&two]);
    assert_eq!(unknown.circle(&one, "b"), None);
}

#[test]
fn readers_do_not_wait_for_readers() {
    let (one, two) = (reader(1, &[("a", 1)]), waiter(2, &[("b", 2)]));
    let read = World::default().with("a", 1, [&two]).shared("b", &[2, 3], [&one]);
    assert_eq!(read.circle(&one, "b"), None, "it waits behind a writer");
    let written = World::default().with("a", 1, [&two]).with("b", 2, [&one]);
    assert!(written.circle(&one, "b").is_some(), "a writer keeps it out");
    let writes = waiter(1, &[("a", 1)]);
    let read = World::default().with("a", 1, [&two]).shared("b", &[2, 3], [&writes]);
    assert!(read.circle(&writes, "b").is_some(), "one of the readers keeps it out");
}

#[test]
fn whoever_waits_for_several_waits_for_each() {
    let (one, two) = (waiter(1, &[("a", 1)]), waiter(2, &[("c", 2)]));
    let world = World::default().with("a", 1, [&two]).with("b", 5, NOBODY).with("c", 2, [&one]);
    let circle = world.search(&one, &["b", "c"]).0.unwrap();
    assert_eq!(&*circle.members[0].waits_for, "c");
}

#[test]
fn a_circle_of_several_ways_is_found_by_the_shortest() {
    let one = waiter(1, &[("a", 1), ("x", 1)]);
    let (two, three, four) = (waiter(2, &[("y", 2)]), waiter(3, &[("b", 3)]), waiter(4, &[("b", 3)]));
    let world = World::default().with("a", 1, [&two]).with("y", 2, [&three]).with("x", 1, [&four]).with(
        "b",
        3,
        [&one],
    );
    assert_eq!(world.circle(&one, "b").unwrap(), "1 keeps x for b, 4 keeps b for x");
}

#[test]
fn a_circle_that_has_changed_does_not_stand() {
    let (one, two) = (waiter(1, &[("a", 1)]), waiter(2, &[("b", 2)]));
    let world = World::default().with("a", 1, [&two]).with("b", 2, [&one]);
    let circle = world.search(&one, &["b"]).0.unwrap();
    assert!(circle.stands(&world.0));
    let changed = [
        world.clone().with("a", 1, NOBODY),
        world.clone().with("a", 3, [&two]),
        world.clone().with("b", 2, [&waiter(5, &[("a", 1)])]),
        world.clone().with("b", 9, [&one]),
        World::default().with("a", 1, [&two]),
    ];
    for world in changed {
        assert!(!circle.stands(&world.0));
    }
}

/// Many wait for each other in a row, and the walk ends where it may go no further.
#[test]
fn a_search_asks_about_no_more_locks_than_it_may() {
    let line = |lock: u8| -> Vec<Waiter> {
        (0..60).map(|it| waiter(u64::from(lock) * 100 + it, &[(&format!("l{lock}-{it}"), 1)])).collect()
    };
    let one = waiter(1, &[("a", 1)]);
    let world = World::default().with("a", 1, line(1)).with("b", 2, [&one]);
    let mut world = (0..60).fold(world, |world, it| world.with(&format!("l1-{it}"), 1, line(it)));
    let (found, asked) = world.search(&one, &["b"]);
    assert_eq!((found, asked), (None, CIRCLE_LOCKS_MAX));

    let members = u8::try_from(CIRCLE_MEMBERS_MAX).unwrap();
    for (length, is_found) in [(members, true), (members + 1, false)] {
        world = World::default();
        for number in 0..length {
            let next = waiter(
                u64::from(number) + 1,
                &[(&format!("r{}", (number + 1) % length), (number + 1) % length)],
            );
            world = world.with(&format!("r{number}"), number, [next]);
        }
        let first = waiter(1, &[("r1", 1)]);
        assert_eq!(world.search(&first, &["r0"]).0.is_some(), is_found, "a circle of {length}");
    }
}
