//! Many runs of the tool count together in one file, which goes wrong at once if two of them ever
//! run at the same time.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};

use crate::deployment::{Deployment, embedded_store, pid};

const PROCESSES: u64 = 32;

/// `TENURE_ROUNDS` makes it a longer run.
fn rounds() -> u64 {
    std::env::var("TENURE_ROUNDS").map_or(5, |rounds| rounds.parse().unwrap())
}

/// A folder with a counter, and a program that counts: it reads, waits for `pause` seconds and
/// writes. Another that does the same meanwhile is overwritten.
fn counter(pause: &str) -> Deployment {
    let deployment = embedded_store();
    deployment.write("counter", "0\n");
    deployment.write(
        "increment",
        &format!("read n < counter; echo $PPID > holder; sleep {pause}; echo $((n + 1)) > $$.new; mv $$.new counter\n"),
    );
    deployment
}

fn count(deployment: &Deployment) -> u64 {
    std::fs::read_to_string(deployment.folder().join("counter")).unwrap().trim().parse().unwrap()
}

const RUN: [&str; 8] = ["run", "counter", "--wait", "forever", "--quiet", "--", "sh", "increment"];

#[test]
fn of_32_processes_that_count_under_a_lock_none_loses_an_increment() {
    let deployment = counter("0");
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..PROCESSES {
            scope.spawn(|| {
                for _ in 0..rounds() {
                    deployment.tenure(&RUN).ends_with(0);
                }
            });
        }
    });
    println!("{PROCESSES} x {} in {:?}", rounds(), begun.elapsed());
    assert_eq!(count(&deployment), PROCESSES * rounds());
}

#[test]
fn tools_that_are_killed_lose_nothing_and_hold_nobody_up_for_longer_than_their_term() {
    let deployment = counter("0.02");
    let (acknowledged, kills) = (AtomicU64::new(0), (2 * rounds()).min(100));
    let (over, begun) = (AtomicBool::new(false), Instant::now());
    let (mut pauses, mut usual): (Vec<Duration>, Vec<Duration>) = (vec![], vec![]);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let mut arguments = RUN.to_vec();
                    arguments.splice(1..1, ["--ttl", "3s"]);
                    match deployment.tenure(&arguments).code {
                        Some(0) => acknowledged.fetch_add(1, Ordering::Relaxed),
                        // Killed.
                        None => 0,
                        code => panic!("{code:?}"),
                    };
                }
            });
        }
        // Whoever is at it is killed now and then, and somebody else goes on soon.
        let holder = || std::fs::read_to_string(deployment.folder().join("holder")).unwrap_or_default();
        let until_another = |than: &str| {
            let start = Instant::now();
            while holder() == than {
                assert!(start.elapsed() < Duration::from_secs(60), "nobody goes on");
                std::thread::sleep(Duration::from_millis(1));
            }
            start.elapsed()
        };
        for index in 0..kills {
            usual.push(until_another(&holder()));
            std::thread::sleep(Duration::from_millis(100 + 37 * (index % 11)));
            let victim = loop {
                let holder = holder();
                if let Ok(process) = holder.trim().parse()
                    && kill(pid(process), Signal::SIGKILL).is_ok()
                {
                    break holder;
                }
            };
            pauses.push(until_another(&victim));
        }
        over.store(true, Ordering::Relaxed);
    });
    let (acknowledged, counted) = (acknowledged.into_inner(), count(&deployment));
    let (longest, usual) = (pauses.iter().max().unwrap(), usual.iter().max().unwrap());
    println!(
        "{counted} counted, {acknowledged} acknowledged, {kills} killed, longest pause {longest:?}, {usual:?} without a kill, in {:?}",
        begun.elapsed()
    );
    // What was counted by a run that was killed before it could say so counts as well.
    assert!(acknowledged <= counted && counted <= acknowledged + kills, "{acknowledged} {counted} {kills}");
    assert!(acknowledged > kills);
    // The ttl and its guard band, and what a busy machine needs.
    assert!(*longest < Duration::from_millis(3_300 + 400) + 3 * *usual, "{longest:?} beside {usual:?}");
}
