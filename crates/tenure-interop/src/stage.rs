//! What a case plays on: servers, and drivers of both sides.

use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use tempfile::TempDir;
use tenure::{KeyScheme, Locks};
use tenure_testkit::{RedisServer, Value, nursery};

use crate::driver::{Driver, until};
use crate::peer::{Installed, Kind, Peer, YII2_PREFIX};

/// How long a case waits for what must happen soon.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// Servers of a case's own, and who meets there.
pub(crate) struct Stage<'a> {
    pub(crate) installed: &'a Installed,
    pub(crate) peer: &'a Peer,
    pub(crate) servers: Vec<RedisServer>,
    /// Less of everything: what changes with every commit has to be quick.
    pub(crate) quick: bool,
    pub(crate) folder: TempDir,
}

impl<'a> Stage<'a> {
    pub(crate) fn new(installed: &'a Installed, peer: &'a Peer, nodes: usize, quick: bool) -> Result<Self> {
        let servers = (0..nodes).map(|_| RedisServer::start(&[])).collect();
        Ok(Self { installed, peer, servers, quick, folder: tempfile::tempdir()? })
    }

    /// A process of the peer.
    pub(crate) fn theirs(&self) -> Result<Driver> {
        self.theirs_with(&[])
    }

    /// The same, with these settings.
    pub(crate) fn theirs_with(&self, settings: &[&str]) -> Result<Driver> {
        self.driver_of(self.peer, settings)
    }

    /// A process of any peer.
    pub(crate) fn driver_of(&self, peer: &Peer, settings: &[&str]) -> Result<Driver> {
        let mut command = self.installed.command(peer).map_err(|missing| anyhow!(missing))?;
        command.arg(self.nodes()).args(settings);
        Driver::start(command).with_context(|| format!("a driver of {}", peer.name))
    }

    /// A process of Tenure's, for the peer's kind of lock.
    pub(crate) fn ours(&self) -> Result<Driver> {
        self.ours_with(&[])
    }

    /// The same, with these settings.
    pub(crate) fn ours_with(&self, settings: &[&str]) -> Result<Driver> {
        let mut command = nursery::command(&self.installed.ours);
        let (kind, prefix) = match self.peer.kind {
            Kind::String => ("string", ""),
            Kind::Hash => ("hash", ""),
            Kind::Digest => ("yii2", YII2_PREFIX),
        };
        command.arg(self.nodes()).arg(format!("kind={kind}")).arg(format!("prefix={prefix}")).args(settings);
        Driver::start(command).context("a driver of Tenure")
    }

    /// Tenure in this process, to look at locks.
    pub(crate) fn locks(&self) -> Result<Locks> {
        let mut builder = Locks::builder();
        for server in &self.servers {
            builder = builder.url(&server.url())?;
        }
        let builder = match self.peer.kind {
            Kind::Digest => builder.prefix(YII2_PREFIX).key_scheme(KeyScheme::Yii2),
            Kind::String | Kind::Hash => builder.prefix(""),
        };
        Ok(builder.build()?)
    }

    fn nodes(&self) -> String {
        let nodes: Vec<String> =
            self.servers.iter().map(|server| format!("127.0.0.1:{}", server.port())).collect();
        format!("nodes={}", nodes.join(","))
    }

    /// The locks that a server has. What Redisson keeps to make its own retries idempotent is none.
    pub(crate) fn keys(server: &RedisServer) -> Vec<String> {
        let mut keys = server.keys();
        keys.retain(|key| !key.starts_with("redisson_unlock_latch:"));
        keys
    }

    /// No server has a lock any more.
    pub(crate) fn is_clean(&self) -> Result<()> {
        until("no key is left behind", SOON, || {
            self.servers.iter().all(|server| Self::keys(server).is_empty())
        })
    }

    /// How many servers have a lock.
    pub(crate) fn holders(&self) -> usize {
        self.servers.iter().filter(|server| !Self::keys(server).is_empty()).count()
    }

    /// How long the only lock lives on: until a majority of the servers have it no more.
    pub(crate) fn left(&self) -> Duration {
        let mut left: Vec<Duration> = self.servers.iter().map(Self::left_on).collect();
        left.sort_unstable();
        left[left.len() / 2]
    }

    fn left_on(server: &RedisServer) -> Duration {
        let Some(key) = Self::keys(server).into_iter().next() else { return Duration::ZERO };
        match server.execute(&["PTTL", &key]) {
            Value::Int(ms) => Duration::from_millis(u64::try_from(ms).unwrap_or_default()),
            _ => Duration::ZERO,
        }
    }

    /// How many wait in Tenure's line for a lock, on every server.
    pub(crate) fn in_line(&self, key: &str) -> i64 {
        let count =
            |server: &RedisServer| match server.execute(&["ZCARD", &format!("tenure~queue:{{{key}}}")]) {
                Value::Int(count) => count,
                _ => 0,
            };
        self.servers.iter().map(count).min().unwrap_or_default()
    }

    /// The only lock there is, as a key.
    pub(crate) fn key(&self) -> Result<String> {
        let key = self.servers.iter().find_map(|server| Self::keys(server).into_iter().next());
        key.context("no server has a lock")
    }
}
