//! Nodes whose clocks are wrong: their votes are not counted, they are reported, and the others go
//! on.
//!
//! A node expires keys by its wall clock, so one that jumps forward forgets a lock before its time.
//! Here one of five real servers has a clock that can be moved.

use std::time::Duration;

use tenure::*;
use tenure_testkit::{MovedClock, RedisServer};
use tokio::time::{Instant, sleep};

use crate::support::*;

const MAX_TTL: Duration = secs(3);

struct Story {
    servers: [RedisServer; 5],
    clock: MovedClock,
    guard: RestartGuard,
}

impl Story {
    fn begin(guard: RestartGuard) -> Self {
        let clock = MovedClock::new();
        let server = |node| match node {
            2 => RedisServer::start_with_clock(&clock, &[]),
            _ => RedisServer::start(&[]),
        };
        Self { servers: std::array::from_fn(server), clock, guard }
    }

    async fn client(&self) -> Locks {
        let locks = builder(self.servers.iter().map(RedisServer::url));
        let locks = locks.max_ttl(MAX_TTL).restart_guard(self.guard).build().unwrap();
        locks.ready().await;
        locks
    }

    /// Takes the lock on A, B and C alone: D and E are held by others for that moment. It is not
    /// renewed, which would bring it to D and E.
    async fn hold_a_b_c(&self, locks: &Locks) -> Guard {
        for server in &self.servers[3..] {
            server.execute(&["SET", "tenure:x", "another"]);
        }
        let guard = locks.lock("x").renewal(Renewal::Off).acquire().await.unwrap();
        until("C has it", || self.servers[2].get("tenure:x").is_some()).await;
        for server in &self.servers[3..] {
            server.execute(&["DEL", "tenure:x"]);
        }
        guard
    }
}

/// Moves C's clock in small steps while others ask for the lock: clients who have been there, and
/// new ones. Whether one of them got it while the first still held it.
async fn second_holder(story: &Story, unfenced: bool, mut step: impl FnMut(&MovedClock, u32)) -> bool {
    let (first, second) = (story.client().await, story.client().await);
    all_vote(&first).await;
    all_vote(&second).await;
    // A clock is judged by how it moves, so it has to be known.
    sleep(ms(300)).await;
    let held = story.hold_a_b_c(&first).await;
    let mut steps = 0;
    while held.valid_for() > ms(50) {
        step(&story.clock, steps);
        steps += 1;
        for locks in [&second, &story.client().await] {
            let lock = if unfenced { locks.lock("x").unfenced() } else { locks.lock("x") };
            if let Ok(Some(guard)) = lock.try_acquire().await
                && held.is_valid()
            {
                assert!(guard.votes().granted() >= 3);
                return true;
            }
        }
        assert!(second.lock("y").ttl(ms(500)).acquire().await.is_ok(), "the others go on");
        sleep(ms(20)).await;
    }
    assert!(steps > 2, "only {steps} looks");
    let report = second.nodes().await;
    let finding = report[2].findings.iter().find(|finding| finding.kind == FindingKind::Clock);
    assert!(finding.is_some(), "the node is reported: {:?}", report[2]);
    assert!(!report[2].votes, "{:?}", report[2]);
    for (node, report) in report.iter().enumerate().filter(|(node, _)| *node != 2) {
        assert!(report.votes, "node {node}: {report:?}");
    }
    false
}

#[tokio::test]
async fn a_clock_that_jumps_ahead_gives_a_second_holder_without_the_watch() {
    let story = Story::begin(RestartGuard::Off);
    assert!(
        second_holder(&story, true, at_first(|clock| clock.step(60_000))).await,
        "the danger is not shown"
    );
}

fn at_first(change: impl Fn(&MovedClock)) -> impl FnMut(&MovedClock, u32) {
    move |clock, step| {
        if step == 0 {
            change(clock);
        }
    }
}

#[tokio::test]
async fn a_clock_that_jumps_ahead_gives_no_second_holder() {
    for unfenced in [false, true] {
        let story = Story::begin(RestartGuard::Evidence);
        assert!(!second_holder(&story, unfenced, at_first(|clock| clock.step(60_000))).await);
    }
}

#[tokio::test]
async fn a_clock_that_jumps_back_gives_no_second_holder() {
    let story = Story::begin(RestartGuard::Evidence);
    assert!(!second_holder(&story, false, at_first(|clock| clock.step(-60_000))).await);
}

#[tokio::test]
async fn a_clock_that_runs_eight_percent_fast_gives_no_second_holder() {
    let story = Story::begin(RestartGuard::Evidence);
    assert!(!second_holder(&story, false, at_first(|clock| clock.set_rate(1.08))).await);
}

#[tokio::test]
async fn a_clock_that_steps_by_forty_milliseconds_ten_times_gives_no_second_holder() {
    let story = Story::begin(RestartGuard::Evidence);
    let step = |clock: &MovedClock, step| {
        if step < 10 {
            clock.step(40);
        }
    };
    assert!(!second_holder(&story, false, step).await);
}

#[tokio::test]
async fn a_frozen_clock_gives_no_second_holder() {
    let story = Story::begin(RestartGuard::Evidence);
    assert!(!second_holder(&story, false, at_first(MovedClock::freeze)).await);
}

/// It was watched for long enough, and its clock is right again.
#[tokio::test]
async fn a_node_whose_clock_jumped_votes_again_after_the_quarantine() {
    let story = Story::begin(RestartGuard::Evidence);
    let locks = story.client().await;
    all_vote(&locks).await;
    sleep(ms(200)).await;
    story.clock.step(60_000);
    let start = Instant::now();
    // Seen also without a lock being asked for.
    until_not_voting(&locks).await;
    story.clock.correct();
    until_not_voting(&locks).await;
    all_vote(&locks).await;
    assert!(start.elapsed() > ms(3_300), "{:?}", start.elapsed());
}

async fn until_not_voting(locks: &Locks) {
    let start = Instant::now();
    while locks.nodes().await[2].votes {
        assert!(start.elapsed() < secs(30), "the jump is not seen");
        sleep(ms(20)).await;
    }
}

/// Refusals tell when the holder's lock ends and how long it lives; by then it may be another
/// holder's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_contended_lock_is_no_clock_that_jumps() {
    let server = RedisServer::start(&[]);
    let (sender, jumps) = std::sync::mpsc::channel();
    let clients: Vec<Locks> = (0..4)
        .map(|_| {
            let sender = sender.clone();
            let observe = move |event: &Event<'_>| {
                if let Event::NodeDistrusted { distrust: Distrust::ClockJumped { .. }, .. } = event {
                    drop(sender.send(format!("{event:?}")));
                }
            };
            builder([server.url()]).observer(observe).build().unwrap()
        })
        .collect();
    let end = Instant::now() + secs(3);
    let tasks: Vec<_> = clients
        .into_iter()
        .map(|locks| {
            tokio::spawn(async move {
                while Instant::now() < end {
                    match answer_of(&locks.lock("hot").node_timeout(secs(5)).unfenced()).await {
                        Some(guard) => {
                            sleep(ms(60)).await;
                            guard.release().await.unwrap();
                        }
                        None => sleep(Duration::from_micros(200)).await,
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(jumps.try_iter().collect::<Vec<_>>(), [""; 0]);
}
