//! Who waits for whom.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenure::*;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::Deployment;

/// How long something may take to be seen on the nodes.
const SOON: Duration = Duration::from_secs(5);

/// The report of a lock once so many wait for it.
async fn once_waited_for(locks: &Locks, name: &str, waiters: usize) -> LockReport {
    let look = async {
        loop {
            let report = locks.inspect(name).await.unwrap();
            if report.line.len() == waiters {
                return report;
            }
            sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(SOON, look).await.expect("they wait")
}

pub(crate) async fn whoever_asks_is_told_who_waits_in_order(deployment: &impl Deployment) {
    let (first, second) = (deployment.client().await, deployment.client().await);
    let guard = first.lock("x").acquire().await.unwrap();
    let mut waiting = vec![];
    let locks = [
        second.lock("x").label_for("nightly"),
        first.lock("x"),
        second.lock("x").shared().label_for("a reader"),
        second.lock("x"),
    ];
    for (lock, already) in locks.into_iter().zip(0..) {
        once_waited_for(&first, "x", already).await;
        let acquire = lock.wait(Duration::from_secs(30)).acquire();
        waiting.push(tokio::spawn(async { acquire.await.unwrap().release().await.unwrap() }));
    }
    let report = once_waited_for(&first, "x", 4).await;
    assert_eq!(report.waiters, Some(4));
    let told: Vec<_> = report.line.iter().map(|waiter| (waiter.label.as_deref(), waiter.shares)).collect();
    assert_eq!(told, [(Some("nightly"), false), (None, false), (Some("a reader"), true), (None, false)]);
    let clients: Vec<_> = report.line.iter().map(|waiter| waiter.ticket.client).collect();
    assert_ne!(clients[0], clients[1]);
    assert_eq!(clients[0], clients[3]);
    assert!(report.line.is_sorted_by_key(|waiter| waiter.since));
    assert!(report.line.iter().all(|waiter| waiter.keeps.is_empty()));
    // One that gives up is told of no more, nor is one that has it.
    waiting.remove(0).abort();
    let report = once_waited_for(&first, "x", 3).await;
    assert_eq!(report.line[0].label, None);
    guard.release().await.unwrap();
    for waiting in waiting {
        waiting.await.unwrap();
    }
    assert_eq!(first.inspect("x").await.unwrap().line, []);
}

/// A client that keeps what it is told of circles.
struct Client {
    locks: Locks,
    told: Arc<Mutex<Vec<(String, Circle)>>>,
}

impl Client {
    async fn of(deployment: &impl Deployment) -> Self {
        let told = Arc::<Mutex<Vec<_>>>::default();
        let heard = Arc::clone(&told);
        let observer = move |event: &Event<'_>| {
            if let Event::Circle { name, circle, .. } = event {
                heard.lock().unwrap().push(((*name).to_owned(), (*circle).clone()));
            }
        };
        Self { locks: deployment.client_with(observer).await, told }
    }

    fn circles(&self) -> Vec<String> {
        self.told.lock().unwrap().iter().map(|(_, circle)| ring(circle)).collect()
    }
}

/// A circle in short: who holds what, in the order in which they wait.
fn ring(circle: &Circle) -> String {
    let member = |member: &CircleMember| format!("{}:{}>{}", member.who(), member.holds, member.waits_for);
    circle.members.iter().map(member).collect::<Vec<_>>().join(" ")
}

/// Waits for a lock in the background, as somebody who holds this one.
fn wait_holding(
    locks: &Locks,
    name: &str,
    held: &Guard,
    who: &str,
) -> JoinHandle<Result<Guard, AcquireError>> {
    let lock = locks.lock(name).while_holding(held).label_for(who).wait(Duration::from_secs(60));
    tokio::spawn(lock.acquire())
}

pub(crate) async fn a_wait_that_closes_a_circle_inside_a_manager_fails_at_once(deployment: &impl Deployment) {
    let locks = deployment.client().await;
    let mut guards = vec![];
    for name in ["a", "b", "c"] {
        guards.push(locks.lock(name).acquire().await.unwrap());
    }
    let waiting =
        [wait_holding(&locks, "b", &guards[0], "one"), wait_holding(&locks, "c", &guards[1], "two")];
    once_waited_for(&locks, "b", 1).await;
    once_waited_for(&locks, "c", 1).await;
    let begun = Instant::now();
    let closing = || locks.lock("a").while_holding(&guards[2]).label_for("three").wait_forever();
    let error = closing().acquire().await.unwrap_err();
    let AcquireError::Circle { name, circle, .. } = &error else { panic!("{error}") };
    assert_eq!((name.as_str(), &*ring(circle)), ("a", "three:c>a one:a>b two:b>c"));
    assert!(error.to_string().contains("\"a\" and waits for \"b\""), "{error}");
    assert!(begun.elapsed() < Duration::from_millis(50), "{:?}", begun.elapsed());
    assert!(closing().try_acquire().await.unwrap().is_none(), "whoever does not wait is in no circle");
    let held = |guard: &Guard| locks.lock("a").while_holding(guard).wait(Duration::from_millis(50)).acquire();
    let other = locks.lock("d").acquire().await.unwrap();
    assert!(
        matches!(held(&other).await, Err(AcquireError::Contended { .. })),
        "it holds what nobody waits for"
    );
    // Whoever is told gives way, and the others go on.
    guards.pop().unwrap().release().await.unwrap();
    let [one, two] = waiting;
    drop(two.await.unwrap().unwrap());
    drop(guards.pop());
    drop(one.await.unwrap().unwrap());
    // The same in the work of an outer lock, which is known without being named.
    drop(guards);
    let inner = locks.lock("b").acquire().await.unwrap();
    let (told, name) = (locks.clone(), locks.lock("a").wait_forever());
    let outer = tokio::spawn(async move {
        name.with(async |_| told.lock("b").wait_forever().acquire().await.map(drop)).await.unwrap()
    });
    once_waited_for(&locks, "b", 1).await;
    let error = locks.lock("a").while_holding(&inner).acquire().await.unwrap_err();
    assert!(matches!(error, AcquireError::Circle { .. }), "{error}");
    drop(inner);
    outer.await.unwrap().unwrap();
}

pub(crate) async fn a_lock_is_not_waited_for_by_whoever_holds_it(deployment: &impl Deployment) {
    let locks = deployment.client().await;
    let guard = locks.lock("a").acquire().await.unwrap();
    let error = locks.lock("a").while_holding(&guard).wait_forever().acquire().await.unwrap_err();
    assert!(matches!(&error, AcquireError::Circle { circle, .. } if circle.members.len() == 1), "{error}");
    let set = locks.lock_all(["b", "a"]).while_holding(&guard).wait_forever().acquire().await;
    assert!(matches!(set, Err(AcquireError::Circle { .. })));
    guard.release().await.unwrap();
    // Not even by the work of its own.
    let lock = locks.lock("a").wait_forever();
    let work = lock.with(async |_| lock.acquire().await.map(drop)).await.unwrap();
    assert!(matches!(work, Err(AcquireError::Circle { .. })));
    // Two readers of one lock are in nobody's way, nor is an owner in its own.
    let read = locks.rwlock("t").read().wait_forever();
    read.with(async |_| read.acquire().await.map(drop)).await.unwrap().unwrap();
    let own = locks.lock("o").owner("job").wait_forever();
    own.with(async |_| own.acquire().await.map(drop)).await.unwrap().unwrap();
    // A guard that has gone elsewhere is held by somebody else.
    let guard = locks.lock("a").acquire().await.unwrap();
    let next = locks.lock("a").while_holding(&guard);
    drop(guard);
    next.acquire().await.unwrap().release().await.unwrap();
}

pub(crate) async fn two_and_three_clients_that_wait_in_a_circle_are_told_who_waits_for_whom(
    deployment: &impl Deployment,
) {
    for count in [2, 3] {
        let mut clients = vec![];
        for _ in 0..count {
            clients.push(Client::of(deployment).await);
        }
        let name = |number: usize| format!("{}{}", ["a", "b", "c"][number % count], count);
        let mut guards = vec![];
        for (number, client) in clients.iter().enumerate() {
            guards.push(client.locks.lock(name(number)).acquire().await.unwrap());
        }
        let mut waiting = vec![];
        for (number, client) in clients.iter().enumerate() {
            // The last one closes the circle.
            sleep(Duration::from_millis(700)).await;
            assert_eq!(client.circles(), [] as [&str; 0]);
            let who = ["one", "two", "three"][number];
            waiting.push(wait_holding(&client.locks, &name(number + 1), &guards[number], who));
        }
        let begun = Instant::now();
        let everybody_knows = async {
            while clients.iter().any(|client| client.circles().is_empty()) {
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(SOON, everybody_knows).await.expect("everybody in it is told");
        assert!(begun.elapsed() <= Duration::from_secs(2), "{:?}", begun.elapsed());
        // From one's own place on; by whoever asks; and once.
        let expected = match count {
            2 => ["one:a2>b2 two:b2>a2", "two:b2>a2 one:a2>b2", ""],
            _ => [
                "one:a3>b3 two:b3>c3 three:c3>a3",
                "two:b3>c3 three:c3>a3 one:a3>b3",
                "three:c3>a3 one:a3>b3 two:b3>c3",
            ],
        };
        let asker = deployment.client().await;
        for number in 0..count {
            let circles = asker.circles([name(number)]).await.unwrap();
            assert_eq!(circles.len(), 1, "{circles:?}");
            assert!(expected.contains(&&*ring(&circles[0])), "{circles:?}");
        }
        let all = asker.circles((0..count).map(name)).await.unwrap();
        assert_eq!(all.len(), 1, "one circle, whichever of its locks is asked about: {all:?}");
        let report = asker.inspect(&name(0)).await.unwrap();
        assert_eq!(report.line[0].keeps.iter().map(|name| &**name).collect::<Vec<_>>(), [name(count - 1)]);
        sleep(Duration::from_secs(2)).await;
        for (client, expected) in clients.iter().zip(expected) {
            assert_eq!(client.circles(), [expected]);
            let told = client.told.lock().unwrap();
            assert_eq!(told[0].0, &*told[0].1.members[0].waits_for);
        }
        // They wait on. When one gives up, the others get what they wait for.
        assert!(waiting.iter().all(|waiting| !waiting.is_finished()));
        waiting.pop().unwrap().abort();
        drop(guards.pop());
        while let Some(waiting) = waiting.pop() {
            drop(waiting.await.unwrap().unwrap());
            drop(guards.pop());
        }
        assert_eq!(asker.circles((0..count).map(name)).await.unwrap(), []);
    }
}

pub(crate) async fn readers_sets_and_owners_are_part_of_circles(deployment: &impl Deployment) {
    let (first, second) = (Client::of(deployment).await, Client::of(deployment).await);
    let locks = [
        (first.locks.lock_all(["a", "x"]), second.locks.lock("b").shared(), first.locks.lock("b")),
        (
            first.locks.lock("a").unfenced(),
            second.locks.lock_all(["b", "y"]),
            first.locks.lock_all(["b", "z"]),
        ),
        (first.locks.lock("a").owner("job").cohort(), second.locks.lock("b"), first.locks.lock("b").shared()),
    ];
    for (mine, theirs, wanted) in locks {
        let (a, b) = (mine.acquire().await.unwrap(), theirs.acquire().await.unwrap());
        // Others who read are in the way as well, and go on by themselves.
        let beside = match b.mode() {
            Mode::Shared => Some(second.locks.lock("b").shared().acquire().await.unwrap()),
            _ => None,
        };
        let wanted = wanted.while_holding(&a).label_for("one").wait_forever().acquire();
        let one = tokio::spawn(wanted);
        let back = match mine.clone().try_acquire().await.unwrap() {
            // An owner gets it again, others do not.
            Some(_) => second.locks.lock("a").owner("other"),
            None => second.locks.lock("a"),
        };
        let two = tokio::spawn(back.while_holding(&b).label_for("two").wait_forever().acquire());
        let both_know = async {
            while first.circles().is_empty() || second.circles().is_empty() {
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(SOON, both_know).await.expect("both are told");
        assert_eq!(first.circles(), ["one:a>b two:b>a"]);
        assert_eq!(second.circles(), ["two:b>a one:a>b"]);
        one.abort();
        two.abort();
        drop((a, b, beside));
        for client in [&first, &second] {
            client.told.lock().unwrap().clear();
            // What was given up is gone before the names are used for another kind of lock.
            for name in ["a", "b", "x", "y", "z"] {
                while client.locks.inspect(name).await.unwrap().state != LockState::Free {
                    sleep(Duration::from_millis(5)).await;
                }
            }
        }
    }
}

/// Somebody who releases what it said it holds, who gives up, who is gone, and who only reads is
/// not reported, though what it said is still there.
pub(crate) async fn whoever_goes_on_is_in_no_circle(deployment: &impl Deployment) {
    let (first, second) = (Client::of(deployment).await, Client::of(deployment).await);
    let (a, b) =
        (first.locks.lock("a").acquire().await.unwrap(), second.locks.lock("b").acquire().await.unwrap());
    let waiting = wait_holding(&first.locks, "b", &a, "one");
    once_waited_for(&second.locks, "b", 1).await;
    // What the first one said it holds is another's now, who waits for nobody.
    a.release().await.unwrap();
    let a = first.locks.lock("a").acquire().await.unwrap();
    let back = wait_holding(&second.locks, "a", &b, "two");
    once_waited_for(&second.locks, "a", 1).await;
    sleep(Duration::from_secs(4)).await;
    assert_eq!((first.circles(), second.circles()), (vec![], vec![]));
    assert_eq!(first.locks.circles(["a", "b"]).await.unwrap(), []);
    // It gives up, and waits again with what it holds by now; the other gives up in time.
    waiting.abort();
    let waiting = wait_holding(&first.locks, "b", &a, "one");
    // By now it was seen once, and it is gone before anybody looks again.
    sleep(Duration::from_millis(400)).await;
    back.abort();
    sleep(Duration::from_secs(3)).await;
    assert_eq!((first.circles(), second.circles()), (vec![], vec![]));
    assert_eq!(second.locks.circles(["a", "b"]).await.unwrap(), []);
    drop(b);
    drop(waiting.await.unwrap().unwrap());
    drop(a);
}

/// Many wait for a second and a third lock while they hold others, always in one order, so that no
/// circle can be. Some share them, some move a guard to another task, some give up.
pub(crate) async fn a_thousand_waits_that_end_by_themselves_report_nobody(deployment: &impl Deployment) {
    const WAITS: usize = 1_000;
    const NAMES: u64 = 8;
    let mut clients = vec![];
    for _ in 0..4 {
        clients.push(Client::of(deployment).await);
    }
    let waits = Arc::new(Mutex::new(vec![]));
    let workers: Vec<_> = (0..48_u64)
        .map(|worker| {
            let (locks, waits) = (clients[(worker % 4) as usize].locks.clone(), Arc::clone(&waits));
            tokio::spawn(async move {
                let mut dice = Dice::new(worker);
                while waits.lock().unwrap().len() < WAITS {
                    let own = locks.lock(format!("own{worker}")).acquire().await.unwrap();
                    climb(&locks, own, &mut dice, &waits).await;
                }
            })
        })
        .collect();
    let asker = deployment.client().await;
    while !workers.iter().all(JoinHandle::is_finished) {
        let circles = asker.circles((0..NAMES).map(|name| format!("n{name}"))).await.unwrap();
        assert_eq!(circles, []);
        sleep(Duration::from_millis(100)).await;
    }
    for worker in workers {
        worker.await.unwrap();
    }
    for client in &clients {
        assert_eq!(client.circles(), [] as [&str; 0]);
    }
    let long = waits.lock().unwrap().iter().filter(|waited| **waited > Duration::from_millis(400)).count();
    assert!(long > WAITS / 10, "so long that they have looked for a circle: {long}");

    /// Acquires locks one above the other, and holds all of them for a moment.
    async fn climb(locks: &Locks, own: Guard, dice: &mut Dice, waits: &Mutex<Vec<Duration>>) {
        let (mut held, mut next) = (vec![own], dice.below(NAMES));
        while next < NAMES {
            let lock = locks.lock(format!("n{next}"));
            let lock = if dice.below(4) == 0 { lock.shared() } else { lock };
            let lock = held.iter().fold(lock, |lock, guard: &Guard| lock.while_holding(guard));
            let limit = Duration::from_millis(if dice.below(10) == 0 { 400 } else { 60_000 });
            let begun = Instant::now();
            // Whoever gives up lets go of all it has.
            let Ok(guard) = lock.wait(limit).acquire().await else { return };
            waits.lock().unwrap().push(begun.elapsed());
            if dice.below(5) == 0 {
                // It is another task's from now on, which waits for nobody.
                let lasts = Duration::from_millis(dice.below(100));
                tokio::spawn(async move {
                    sleep(lasts).await;
                    drop(guard);
                });
            } else {
                held.push(guard);
            }
            next += 1 + dice.below(3);
        }
        sleep(Duration::from_millis(dice.below(30))).await;
    }
}

/// Numbers that are the same each time.
struct Dice(u64);

impl Dice {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}
