//! A list that is changed again and again, there and back, by several people at once.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has to fail")]

#[path = "support/changing.rs"]
#[allow(dead_code, reason = "each test program uses a part")]
mod changing;

use changing::World;

const WAYS: [&[&[usize]]; 4] = [
    &[&[0, 1, 2], &[0, 1, 3], &[0, 1, 4]],
    &[&[0, 1, 2], &[3, 4, 5], &[6, 7, 8]],
    &[&[0, 1, 2], &[0, 3, 4], &[1, 3, 5]],
    &[&[0, 1, 2], &[0, 1, 2, 3, 4], &[0, 1, 2, 3]],
];

/// Seeds that once found something: a change that had not waited, and one that took over nodes which another had
/// prepared.
const FAILED: [u64; 2] = [47, 48];

/// `TENURE_CHANGES` says how many histories of each kind.
#[test]
fn a_list_that_wanders_never_gives_two_holders_and_never_gets_stuck() {
    #[expect(clippy::disallowed_methods, reason = "how long to search is for whoever runs it to say")]
    let seeds = std::env::var("TENURE_CHANGES").map_or(20, |seeds| seeds.parse().unwrap());
    let (mut histories, mut done, mut emptied, mut broken) = (0, 0, 0, 0);
    for seed in (0..seeds).chain(FAILED.into_iter().filter(|seed| *seed >= seeds)) {
        for lists in WAYS {
            for losses in [0, 3] {
                let mut world = World::wandering(seed, lists, losses);
                if let Err(story) = world.run(4_000).and_then(|()| world.settle()) {
                    broken += 1;
                    if broken == 1 {
                        println!("seed {seed}, {lists:?}, {losses} losses: {story}");
                    } else {
                        println!("seed {seed} {lists:?} {losses}: {}", story.lines().next().unwrap());
                    }
                }
                histories += 1;
                (done, emptied) = (done + world.seen.done, emptied + world.seen.emptied);
            }
        }
    }
    println!("{histories} histories, {done} changes, {emptied} losses");
    assert_eq!(broken, 0);
}
