//! Managers on real Redis servers.
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has to fail")]
#![allow(dead_code, unreachable_pub, reason = "every test binary uses a part of it")]

use std::time::{Duration, Instant};

use tenure::{Builder, Locks, RedisNode};
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

pub async fn connect_through(proxies: &[Proxy]) -> Locks {
    Locks::connect(proxies.iter().map(Proxy::url)).await.unwrap()
}

/// Every key on every server.
pub fn keys(servers: &[RedisServer]) -> Vec<String> {
    servers.iter().flat_map(RedisServer::keys).collect()
}

/// Waits until it is true, and says how long that took; an error after ten seconds.
pub async fn until(what: &str, mut is_true: impl FnMut() -> bool) -> Duration {
    let start = Instant::now();
    while !is_true() {
        assert!(start.elapsed() < secs(10), "still not: {what}");
        tokio::time::sleep(ms(5)).await;
    }
    start.elapsed()
}

/// Waits until every node votes.
pub async fn all_vote(locks: &Locks) {
    let start = Instant::now();
    while !locks.nodes().await.iter().all(|node| node.votes) {
        assert!(start.elapsed() < secs(10), "still not all vote: {:?}", locks.nodes().await);
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
