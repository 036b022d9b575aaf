//! Nodes that lose their memory: the danger is real, and the restart guard keeps it away.
//!
//! The story that Redlock's critics tell: client 1 holds A, B and C; C forgets; client 2 gets C, D
//! and E. Told here on five real servers, for every way in which C can forget, with the guard off
//! and on.

use std::path::PathBuf;
use std::time::Duration;

use tenure::*;
use tenure_testkit::{Proxy, RedisServer};
use tokio::time::{Instant, sleep};

use crate::support::*;

/// The quarantine is a tenth longer.
const MAX_TTL: Duration = secs(3);
const QUARANTINE: Duration = ms(3_300);

/// A server waits five seconds for further replicas before it lets one copy it, unless it is told
/// not to.
const COPY_AT_ONCE: &[&str] = &["--repl-diskless-sync-delay", "0"];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Loss {
    /// Killed, and started again with nothing.
    Restart,
    /// `FLUSHALL`.
    Flush,
    /// A replica takes over under the same address, without the last write.
    Promotion,
    /// Killed, and started again with an append-only file whose end is missing.
    Tail,
    /// It follows another server that lags behind, then is a master again: same process, same
    /// connections.
    Resync,
}

/// Five servers, the third of them behind an address that can lead elsewhere.
struct Story {
    servers: [RedisServer; 5],
    name_of_c: Proxy,
    /// A copy of C that was made before the lock was taken.
    copy: RedisServer,
    loss: Loss,
    guard: RestartGuard,
    /// Where C's append-only file is, and how long it was before the lock was taken.
    log: (PathBuf, u64),
}

impl Story {
    async fn begin(loss: Loss, guard: RestartGuard) -> (Self, Locks) {
        let third: &[&str] = if loss == Loss::Tail {
            &["--appendonly", "yes", "--appendfsync", "everysec"]
        } else {
            COPY_AT_ONCE
        };
        let servers: [RedisServer; 5] =
            std::array::from_fn(|node| RedisServer::start(if node == 2 { third } else { &[] }));
        let name_of_c = Proxy::start(servers[2].port());
        let log = servers[2].folder().join("appendonlydir/appendonly.aof.1.incr.aof");
        let copy = RedisServer::start(COPY_AT_ONCE);
        let mut story = Self { servers, name_of_c, copy, loss, guard, log: (log, 0) };
        let locks = story.client().await;
        all_vote(&locks).await;
        if matches!(loss, Loss::Promotion | Loss::Resync) {
            story.copy_c().await;
        }
        if loss == Loss::Tail {
            story.log.1 = std::fs::metadata(&story.log.0).unwrap().len();
        }
        (story, locks)
    }

    async fn client(&self) -> Locks {
        let url = |node: usize| if node == 2 { self.name_of_c.url() } else { self.servers[node].url() };
        let locks = builder((0..5).map(url)).max_ttl(MAX_TTL).restart_guard(self.guard).build().unwrap();
        locks.ready().await;
        locks
    }

    /// Makes the copy follow C until it has everything, then no longer.
    async fn copy_c(&self) {
        self.copy.execute(&["REPLICAOF", "127.0.0.1", &self.servers[2].port().to_string()]);
        until("the copy has C's record", || self.copy.get("tenure~node:{tenure:}").is_some()).await;
        self.copy.execute(&["REPLICAOF", "NO", "ONE"]);
    }

    /// Takes the lock on A, B and C alone: D and E are held by others for that moment. It is not
    /// renewed, which would bring it to D and E.
    async fn hold_a_b_c(&self, locks: &Locks) -> Guard {
        for server in &self.servers[3..] {
            server.execute(&["SET", "tenure:x", "another"]);
        }
        let lock = locks.lock("x").ttl(MAX_TTL).unfenced().renewal(Renewal::Off);
        let guard = lock.acquire().await.unwrap();
        until("C has it", || self.servers[2].get("tenure:x").is_some()).await;
        sleep(ms(20)).await;
        for server in &self.servers[3..] {
            server.execute(&["DEL", "tenure:x"]);
        }
        assert_eq!((guard.votes().granted(), guard.margin()), (3, 0));
        guard
    }

    fn lose(&mut self) {
        match self.loss {
            Loss::Restart => self.servers[2].restart_empty(),
            Loss::Flush => {
                self.servers[2].execute(&["FLUSHALL"]);
            }
            Loss::Promotion => {
                self.servers[2].kill();
                self.name_of_c.lead_to(self.copy.port());
                self.name_of_c.cut();
            }
            Loss::Tail => {
                self.servers[2].kill();
                let file = std::fs::OpenOptions::new().write(true).open(&self.log.0).unwrap();
                assert!(file.metadata().unwrap().len() > self.log.1, "the lock was written");
                file.set_len(self.log.1).unwrap();
                self.servers[2].restart();
            }
            Loss::Resync => {
                self.servers[2].execute(&["REPLICAOF", "127.0.0.1", &self.copy.port().to_string()]);
                while self.servers[2].get("tenure:x").is_some() {
                    std::thread::sleep(ms(5));
                }
                self.servers[2].execute(&["REPLICAOF", "NO", "ONE"]);
            }
        }
    }
}

/// Lets C forget, and asks for the lock as client 2: one that has been there all the time, and one
/// that comes new.
async fn second_holder(loss: Loss, guard: RestartGuard) -> (Story, Guard, Option<Guard>, Instant) {
    let (mut story, first) = Story::begin(loss, guard).await;
    let (second, held) = (story.client().await, story.hold_a_b_c(&first).await);
    story.lose();
    let lost = Instant::now();
    let newcomer = story.client().await;
    let mut taken = None;
    while taken.is_none() && held.valid_for() > ms(300) {
        for locks in [&second, &newcomer] {
            if let Ok(Some(guard)) = locks.lock("x").ttl(MAX_TTL).unfenced().try_acquire().await
                && held.is_valid()
            {
                taken = Some(guard);
                break;
            }
        }
        sleep(ms(20)).await;
    }
    (story, held, taken, lost)
}

async fn two_holders_without_the_guard(loss: Loss) {
    let (_story, first, second, _) = second_holder(loss, RestartGuard::Off).await;
    let second = second.unwrap_or_else(|| panic!("{loss:?}: the danger is not shown"));
    assert!(first.is_valid() && second.is_valid(), "{loss:?}: two valid guards at once");
}

async fn one_holder_with_the_guard(loss: Loss) {
    let (story, first, second, lost) = second_holder(loss, RestartGuard::Evidence).await;
    assert!(second.is_none(), "{loss:?}: a second holder");
    // Afterwards the node votes again, for those who were there and for those who come.
    let locks = story.client().await;
    let report = locks.nodes().await;
    assert!(report[2].quarantine_left.is_some() || lost.elapsed() > QUARANTINE, "{:?}", report[2]);
    drop(first);
    sleep((QUARANTINE + ms(300)).saturating_sub(lost.elapsed())).await;
    all_vote(&locks).await;
    let guard = locks.lock("x").acquire().await.unwrap();
    until("C votes again", || guard.votes().iter().nth(2).unwrap().vote == Some(Vote::Granted)).await;
}

#[tokio::test]
async fn a_node_restarted_empty_gives_a_second_holder_without_the_guard() {
    two_holders_without_the_guard(Loss::Restart).await;
}

#[tokio::test]
async fn a_node_restarted_empty_gives_no_second_holder_with_the_guard() {
    one_holder_with_the_guard(Loss::Restart).await;
}

#[tokio::test]
async fn a_flushed_node_gives_a_second_holder_without_the_guard() {
    two_holders_without_the_guard(Loss::Flush).await;
}

#[tokio::test]
async fn a_flushed_node_gives_no_second_holder_with_the_guard() {
    one_holder_with_the_guard(Loss::Flush).await;
}

#[tokio::test]
async fn a_promoted_replica_gives_a_second_holder_without_the_guard() {
    two_holders_without_the_guard(Loss::Promotion).await;
}

#[tokio::test]
async fn a_promoted_replica_gives_no_second_holder_with_the_guard() {
    one_holder_with_the_guard(Loss::Promotion).await;
}

#[tokio::test]
async fn a_log_without_its_end_gives_a_second_holder_without_the_guard() {
    two_holders_without_the_guard(Loss::Tail).await;
}

#[tokio::test]
async fn a_log_without_its_end_gives_no_second_holder_with_the_guard() {
    one_holder_with_the_guard(Loss::Tail).await;
}

#[tokio::test]
async fn a_node_that_copied_another_gives_a_second_holder_without_the_guard() {
    two_holders_without_the_guard(Loss::Resync).await;
}

#[tokio::test]
async fn a_node_that_copied_another_gives_no_second_holder_with_the_guard() {
    one_holder_with_the_guard(Loss::Resync).await;
}

/// Fenced locks look at the record themselves, so they notice a flush without being told.
#[tokio::test]
async fn a_fenced_acquire_notices_a_flush_by_itself() {
    let servers = servers::<1>();
    let url = servers[0].url().replace("//", "//app:pw@");
    let user = ["ACL", "SETUSER", "app", "on", ">pw", "allkeys", "+@all", "-client|tracking"];
    servers[0].execute(&user);
    for (name, fenced) in [("x", true), ("y", false)] {
        let locks = builder([&url]).max_ttl(secs(1)).build().unwrap();
        let lock = |name| if fenced { locks.lock(name) } else { locks.lock(name).unfenced() };
        assert!(answer_of(&lock(name).ttl(ms(500))).await.is_some());
        servers[0].execute(&["FLUSHALL"]);
        let error = lock(name).ttl(ms(500)).try_acquire().await.unwrap_err().to_string();
        assert!(
            error.contains("record has not been read yet") || error.contains("may have forgotten locks"),
            "{error}"
        );
        all_vote(&locks).await;
    }
}

#[tokio::test]
async fn with_appendfsync_always_there_is_no_quarantine() {
    let mut servers = durable_servers::<5>();
    let urls: Vec<String> = servers.iter().map(RedisServer::url).collect();
    let locks = builder(&urls).max_ttl(MAX_TTL).build().unwrap();
    let mut guard = locks.lock("x").ttl(MAX_TTL).acquire().await.unwrap();
    until("all have it", || keys(&servers).len() == 5).await;
    servers[2].restart();
    assert_eq!(servers[2].keys(), ["tenure:x"], "nothing was lost");
    let newcomer = builder(&urls).max_ttl(MAX_TTL).build().unwrap();
    assert!(answer_of(&newcomer.lock("x")).await.is_none());
    let report = newcomer.nodes().await;
    assert_eq!((report[2].votes, report[2].quarantine_left), (true, None), "{:?}", report[2]);
    assert_eq!(report[2].persistence, Persistence::Always);
    all_vote(&locks).await;
    guard.extend().await.unwrap();
    until("its vote counts", || guard.margin() == 2).await;
    // In strict mode it waits all the same.
    let prefix =
        |locks: Builder| locks.prefix("strict:").restart_guard(RestartGuard::Strict).max_ttl(secs(1));
    let strict = prefix(builder(&urls)).build().unwrap();
    all_vote(&strict).await;
    // Its quarantine begins when a client first meets it.
    drop(strict);
    servers[2].restart();
    let strict = prefix(builder(&urls)).build().unwrap();
    assert!(strict.nodes().await[2].quarantine_left.is_some());
}

#[tokio::test]
async fn a_fresh_fleet_gives_its_first_lock_at_once() {
    let servers = servers::<5>();
    let locks = connect(&servers).await;
    let start = Instant::now();
    let guard = locks.lock("x").acquire().await.unwrap();
    assert!(start.elapsed() < secs(20), "far less than a quarantine: {:?}", start.elapsed());
    until("all five vote", || guard.margin() == 2).await;
    // Clients that come together start it together.
    let servers = crate::support::servers::<5>();
    let clients = futures_of(16, || connect(&servers)).await;
    for locks in &clients {
        all_vote(locks).await;
    }
}

async fn futures_of<T, F: Future<Output = T>>(count: usize, future: impl Fn() -> F) -> Vec<T> {
    let mut futures: Vec<_> = (0..count).map(|_| Box::pin(future())).collect();
    let mut done = vec![];
    std::future::poll_fn(|cx| {
        futures.retain_mut(|future| match future.as_mut().poll(cx) {
            std::task::Poll::Ready(value) => {
                done.push(value);
                false
            }
            std::task::Poll::Pending => true,
        });
        if futures.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    done
}

#[tokio::test]
async fn a_fresh_fleet_with_a_node_missing_waits_out_the_quarantine_and_says_so() {
    let mut servers = servers::<5>();
    servers[4].kill();
    let (sender, receiver) = std::sync::mpsc::channel();
    let locks = builder(servers.iter().map(RedisServer::url))
        .max_ttl(secs(2))
        .observer(move |event| drop(sender.send(format!("{event:?}"))))
        .build()
        .unwrap();
    let start = Instant::now();
    let error = locks.lock("x").ttl(secs(2)).try_acquire().await.unwrap_err();
    assert!(matches!(error, AcquireError::Unavailable { .. }));
    assert!(error.to_string().contains("may have forgotten locks; votes again in "), "{error}");
    assert!(
        receiver.try_iter().any(|event| event.contains("NodeDistrusted") && event.contains("Quarantined"))
    );
    let left = locks.nodes().await[0].quarantine_left.unwrap();
    assert!(left <= ms(2_200), "{left:?}");
    // Whoever waits for long enough gets it.
    let guard = locks.lock("x").ttl(secs(2)).wait(secs(10)).acquire().await.unwrap();
    let waited = start.elapsed();
    assert!(waited > ms(2_100) && waited < secs(9), "{waited:?}");
    // Each quarantine ends by itself, so the fourth may end a moment after the majority's.
    assert!(matches!(guard.votes().granted(), 3 | 4), "{:?}", guard.votes());
    // The fifth comes late: its memory is new, and it waits by itself.
    servers[4].restart();
    all_vote(&locks).await;
    assert!(start.elapsed() > ms(4_200), "{:?}", start.elapsed());
}

#[tokio::test]
async fn strict_always_waits() {
    let servers = servers::<3>();
    let strict =
        || builder(servers.iter().map(RedisServer::url)).max_ttl(secs(2)).restart_guard(RestartGuard::Strict);
    let locks = strict().build().unwrap();
    let start = Instant::now();
    assert!(locks.lock("x").ttl(secs(1)).try_acquire().await.is_err());
    drop(locks.lock("x").ttl(secs(1)).acquire().await.unwrap());
    assert!(start.elapsed() > ms(2_100), "{:?}", start.elapsed());
    // Once waited out, it stays so.
    let later = strict().build().unwrap();
    assert!(answer_of(&later.lock("y").ttl(secs(1))).await.is_some());
}

/// All nodes restarted empty, one after another, under one lock that is extended all the while.
#[tokio::test]
async fn a_rolling_restart_of_all_nodes_costs_no_lock() {
    let mut servers = servers::<5>();
    let urls: Vec<String> = servers.iter().map(RedisServer::url).collect();
    let client = || builder(&urls).max_ttl(MAX_TTL).build().unwrap();
    let (locks, other) = (client(), client());
    let mut guard = locks.lock("x").ttl(MAX_TTL).acquire().await.unwrap();
    let fence = guard.fence();
    for (node, server) in servers.iter_mut().enumerate() {
        server.restart_empty();
        let start = Instant::now();
        while server.get("tenure:x").is_none() || guard.margin() < 2 {
            assert!(start.elapsed() < secs(30), "node {node} is not healed: {guard:?} {}", guard.votes());
            guard.extend().await.unwrap();
            assert!(guard.is_valid() && guard.fence() == fence, "held without a gap");
            for locks in [&other, &client()] {
                let taken = locks.lock("x").ttl(MAX_TTL).try_acquire().await;
                assert!(!matches!(taken, Ok(Some(_))), "a second holder while node {node} was restarted");
            }
            sleep(ms(50)).await;
        }
    }
    guard.release().await.unwrap();
    // The next one has a larger fence, although no node remembers the last.
    let next = other.lock("x").wait(secs(10)).acquire().await.unwrap();
    assert!(next.fence() > fence);
}

/// A server does not say that two of its databases changed places.
#[tokio::test]
async fn databases_that_change_places_give_no_second_holder() {
    let servers = servers::<3>();
    let (one, two) = (connect(&servers).await, connect(&servers).await);
    let guard = one.lock("x").acquire().await.unwrap();
    two.lock("warm").acquire().await.unwrap().release().await.unwrap();
    for server in &servers[..2] {
        server.execute(&["SWAPDB", "0", "1"]);
    }
    let second = two.lock("x").try_acquire().await;
    assert!(!matches!(second, Ok(Some(_))), "two holders");
    assert!(guard.is_valid());
}

/// The same with databases that both have been in use, so that fences of the name are known in
/// either, and back again.
#[tokio::test]
async fn databases_that_change_places_and_back_give_no_second_holder() {
    const TTL: Duration = secs(1);
    let servers = servers::<3>();
    let client = || builder(servers.iter().map(RedisServer::url)).max_ttl(TTL).build().unwrap();
    let (one, two) = (client(), client());
    let swap = || servers[..2].iter().for_each(|server| drop(server.execute(&["SWAPDB", "0", "1"])));
    let use_it = async |locks: &Locks| {
        let guard = locks.lock("x").ttl(TTL).wait(secs(10)).acquire().await.unwrap();
        guard.release().await.unwrap();
    };
    for locks in [&one, &two] {
        all_vote(locks).await;
        use_it(locks).await;
    }
    // There: the nodes are quarantined, and vote again.
    swap();
    for locks in [&one, &two] {
        let _ = locks.lock("new to both").ttl(TTL).try_acquire().await;
        all_vote(locks).await;
        use_it(locks).await;
    }
    // And back, under a lock that is held.
    for _ in 0..3 {
        let guard = one.lock("x").ttl(TTL).renewal(Renewal::Off).wait(secs(10)).acquire().await.unwrap();
        swap();
        let start = Instant::now();
        while guard.is_valid() {
            let second = two.lock("x").ttl(TTL).try_acquire().await;
            let second = matches!(second, Ok(Some(_))) && guard.is_valid();
            assert!(!second, "two holders, {:?} after the databases changed places", start.elapsed());
            sleep(ms(5)).await;
        }
        drop(guard);
        all_vote(&one).await;
        all_vote(&two).await;
        use_it(&one).await;
        use_it(&two).await;
    }
}
