//! Managers on real Redis servers.
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has to fail")]
#![allow(dead_code, unreachable_pub, reason = "every test binary uses a part of it")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tenure::{AcquireError, Builder, Fault, Guard, Lock, Locks, NodeVote, RedisNode, Vote};
use tenure_testkit::{Proxy, RedisServer};

pub const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub fn servers<const N: usize>() -> [RedisServer; N] {
    RedisServer::start_many(&[])
}

/// Servers that keep every acknowledged write, so that a restart costs them no quarantine.
pub fn durable_servers<const N: usize>() -> [RedisServer; N] {
    RedisServer::start_many(&["--appendonly", "yes", "--appendfsync", "always"])
}

pub fn builder<U: AsRef<str>>(urls: impl IntoIterator<Item = U>) -> Builder {
    Locks::builder().nodes(urls.into_iter().map(|url| RedisNode::parse(url.as_ref()).unwrap()))
}

pub async fn connect(servers: &[RedisServer]) -> Locks {
    Locks::connect(servers.iter().map(RedisServer::url)).await.unwrap()
}

/// A way to each server that takes this long, there and back.
pub fn far_away(servers: &[RedisServer], round_trip: Duration) -> Vec<Proxy> {
    let far = |server: &RedisServer| {
        let proxy = Proxy::start_forgetful(server.port());
        proxy.set_both(tenure_testkit::Mode::Delay(round_trip / 2));
        proxy
    };
    servers.iter().map(far).collect()
}

pub async fn connect_through(proxies: &[Proxy]) -> Locks {
    Locks::connect(proxies.iter().map(Proxy::url)).await.unwrap()
}

/// What a try comes to when the nodes answer: a busy machine may need several to hear of a majority
/// in time. Any other reason why the lock cannot be had is a mistake.
pub async fn answer_of(lock: &Lock) -> Option<Guard> {
    let timed_out = |vote: &NodeVote| matches!(vote.vote, Some(Vote::Unknown(Fault::Timeout)));
    for _ in 0..60 {
        match lock.try_acquire().await {
            Err(AcquireError::Unavailable { votes, .. }) if votes.iter().any(timed_out) => {}
            answer => return answer.unwrap(),
        }
    }
    panic!("sixty tries, and no answer in time")
}

/// Every key on every server.
pub fn keys(servers: &[RedisServer]) -> Vec<String> {
    servers.iter().flat_map(RedisServer::keys).collect()
}

/// Waits until it is true, and says how long that took; an error after a minute.
pub async fn until(what: &str, mut is_true: impl FnMut() -> bool) -> Duration {
    let start = Instant::now();
    while !is_true() {
        assert!(start.elapsed() < secs(60), "still not: {what}");
        tokio::time::sleep(ms(5)).await;
    }
    start.elapsed()
}

/// What a slow or busy machine may add to a time: many times a look at the keys of all servers,
/// measured now.
pub fn allowance(servers: &[RedisServer]) -> Duration {
    let start = Instant::now();
    let _ = keys(servers);
    start.elapsed() * 30
}

/// How late a task of this runtime has been woken at worst since it was started: what a busy
/// machine adds to whatever is told to a task.
#[derive(Clone, Default)]
pub struct Lateness(Arc<AtomicU64>);

impl Lateness {
    pub fn watch() -> Self {
        let lateness = Self::default();
        let worst = Arc::clone(&lateness.0);
        tokio::spawn(async move {
            loop {
                let start = Instant::now();
                tokio::time::sleep(ms(5)).await;
                let late = start.elapsed().saturating_sub(ms(6));
                worst.fetch_max(u64::try_from(late.as_nanos()).unwrap(), Ordering::Relaxed);
            }
        });
        lateness
    }

    pub fn worst(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

/// The shortest of up to five tries, which ends as soon as one is short enough: a busy machine
/// makes some of them slower, a mistake all.
pub async fn shortest<F: Future<Output = Duration>>(
    limit: Duration,
    mut attempt: impl FnMut() -> F,
) -> Duration {
    let mut shortest = Duration::MAX;
    for _ in 0..5 {
        shortest = shortest.min(attempt().await);
        if shortest < limit {
            break;
        }
    }
    shortest
}

/// Waits until every node votes.
pub async fn all_vote(locks: &Locks) {
    let start = Instant::now();
    while !locks.nodes().await.iter().all(|node| node.votes) {
        assert!(start.elapsed() < secs(60), "still not all vote: {:?}", locks.nodes().await);
        tokio::time::sleep(ms(5)).await;
    }
}

/// The commands in a stream of requests.
pub fn commands(mut bytes: &[u8]) -> Vec<Vec<String>> {
    fn line<'a>(bytes: &mut &'a [u8]) -> &'a str {
        let end = bytes.iter().position(|byte| *byte == b'\n').unwrap();
        let line = std::str::from_utf8(&bytes[..end - 1]).unwrap();
        *bytes = &bytes[end + 1..];
        line
    }
    let mut commands = vec![];
    while !bytes.is_empty() {
        let parts: usize = line(&mut bytes).strip_prefix('*').unwrap().parse().unwrap();
        let mut command = vec![];
        for _ in 0..parts {
            let length: usize = line(&mut bytes).strip_prefix('$').unwrap().parse().unwrap();
            command.push(String::from_utf8(bytes[..length].to_vec()).unwrap());
            bytes = &bytes[length + 2..];
        }
        commands.push(command);
    }
    commands
}
