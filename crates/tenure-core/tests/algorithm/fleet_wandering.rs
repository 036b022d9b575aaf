//! A list that is changed again and again, there and back, by several people at once.

use crate::support::changing::{Sights, World};

const WAYS: [&[&[usize]]; 4] = [
    &[&[0, 1, 2], &[0, 1, 3], &[0, 1, 4]],
    &[&[0, 1, 2], &[3, 4, 5], &[6, 7, 8]],
    &[&[0, 1, 2], &[0, 3, 4], &[1, 3, 5]],
    &[&[0, 1, 2], &[0, 1, 2, 3, 4], &[0, 1, 2, 3]],
];

/// What a search has shown.
#[derive(Debug, Default)]
struct Found {
    histories: usize,
    changes: usize,
    losses: usize,
    switched_off: usize,
}

#[test]
fn a_list_that_wanders_never_gives_two_holders_and_never_gets_stuck() {
    let found = search(|seed, lists| World::wandering(seed, lists, 0));
    println!("without losses: {found:?}");
    let found = search(|seed, lists| World::wandering(seed, lists, 3));
    println!("with losses: {found:?}");
    assert!(found.losses > 0);
}

#[test]
fn nor_does_one_whose_nodes_are_switched_off_and_emptied_and_whose_changes_stand_still() {
    let found = search(World::troubled);
    println!("troubled: {found:?}");
    assert!(found.losses > 0 && found.switched_off > 0);
}

/// `TENURE_CHANGES` says how many histories of each kind.
fn search(world: impl Fn(u64, &[&[usize]]) -> World) -> Found {
    #[expect(clippy::disallowed_methods, reason = "how long to search is for whoever runs it to say")]
    let seeds = std::env::var("TENURE_CHANGES").map_or(22, |seeds| seeds.parse().unwrap());
    let (mut found, mut broken) = (Found::default(), vec![]);
    for seed in 0..seeds {
        for lists in WAYS {
            let mut world = world(seed, lists);
            if let Err(story) = world.run(4_000).and_then(|()| world.settle()) {
                // The first is told as a whole.
                let story = if broken.is_empty() { &story } else { story.lines().next().unwrap() };
                broken.push(format!("seed {seed}, {lists:?}: {story}"));
            }
            let Sights { done, emptied, switched_off, .. } = world.seen;
            found.histories += 1;
            found.changes += done;
            found.losses += emptied;
            found.switched_off += switched_off;
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    found
}
