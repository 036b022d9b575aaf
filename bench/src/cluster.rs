//! Real servers, five unless it is said, and what they spend.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use tenure_testkit::{RedisServer, Value};

use crate::cpu_time;

const SERVERS: usize = 5;

/// How many locks of other libraries are on a server beside ours: half as strings, as most have
/// them, half as Redisson's hashes. They outlive the benchmark.
const PEERS_KEYS: &str = "
    for number = 1, 500 do
        redis.call('SET', 'orders:' .. number, 'a value of another library', 'PX', 86400000)
        redis.call('HSET', 'invoices:' .. number, '4f1a7c06-5d0e-4b7a-9d52-0c7f1e5a9b3d:1', 1)
        redis.call('PEXPIRE', 'invoices:' .. number, 86400000)
    end";

/// Deletes the fences that past turns left behind: a day later the server would have forgotten
/// them. Locks have an end of their own, and nobody uses those names again.
const FORGET_FENCES: &str = "
    local cursor = '0'
    repeat
        local page = redis.call('SCAN', cursor, 'MATCH', 'tenure~fence*', 'COUNT', 1000)
        cursor = page[1]
        if page[2][1] then
            redis.call('DEL', unpack(page[2]))
        end
    until cursor == '0'";

pub(crate) struct Cluster {
    /// Those that live.
    servers: Vec<RedisServer>,
    /// Where all listen, or did.
    ports: Vec<u16>,
    /// What our keys begin with there, if it is not the default.
    prefix: Option<&'static str>,
}

/// One server of a cluster is hung until this is dropped.
pub(crate) struct Hung<'a>(&'a RedisServer);

impl Cluster {
    pub(crate) fn start() -> Self {
        Self::of(SERVERS)
    }

    /// A cluster that writes to disk before it answers.
    pub(crate) fn start_durable() -> Self {
        Self::with(SERVERS, &["--save", "", "--appendonly", "yes", "--appendfsync", "always"])
    }

    /// A cluster of so many.
    pub(crate) fn of(count: usize) -> Self {
        Self::with(count, &["--save", "", "--appendonly", "no"])
    }

    fn with(count: usize, arguments: &[&str]) -> Self {
        let start = |_| RedisServer::start(arguments);
        let servers: Vec<RedisServer> = (0..count).map(start).collect();
        let ports = servers.iter().map(RedisServer::port).collect();
        Self { servers, ports, prefix: None }
    }

    /// A cluster with one dead server: nobody listens at its port. It died after the first client
    /// had come; a fleet that starts without it would wait out the quarantine.
    pub(crate) fn start_with_one_dead() -> Result<Self> {
        let mut cluster = Self::start();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            tenure::Locks::connect(cluster.urls())
                .await?
                .lock("x")
                .acquire()
                .await?
                .release()
                .await
                .map_err(anyhow::Error::from)
        })?;
        cluster.kill_one();
        Ok(cluster)
    }

    /// A cluster where other libraries have locks, and ours have no prefix: all share names.
    pub(crate) fn start_beside_peers() -> Self {
        let cluster = Self { prefix: Some(""), ..Self::start() };
        cluster.execute(&["EVAL", PEERS_KEYS, "0"]);
        cluster
    }

    /// Kills one that lives: nobody listens at its port any more.
    pub(crate) fn kill_one(&mut self) {
        if let Some(mut server) = self.servers.pop() {
            server.kill();
        }
    }

    /// Halts one server for the rest of its life.
    pub(crate) fn hang_one_for_good(&self) {
        self.servers.iter().last().into_iter().for_each(RedisServer::pause);
    }

    /// Halts one server: it keeps its connections and answers nobody.
    pub(crate) fn hang_one(&self) -> Option<Hung<'_>> {
        let server = self.servers.last()?;
        server.pause();
        Some(Hung(server))
    }

    pub(crate) const fn prefix(&self) -> Option<&'static str> {
        self.prefix
    }

    pub(crate) fn ports(&self) -> &[u16] {
        &self.ports
    }

    pub(crate) fn urls(&self) -> impl Iterator<Item = String> {
        self.ports.iter().map(|port| format!("redis://127.0.0.1:{port}"))
    }

    /// A number of `INFO`, the middle of what the servers say; of a command its time in
    /// microseconds.
    pub(crate) fn info(&self, section: &str, field: &str) -> Result<f64> {
        let mut numbers = vec![];
        for server in &self.servers {
            let said = match server.execute(&["INFO", section]) {
                Value::BulkString(bytes) => String::from_utf8(bytes)?,
                Value::VerbatimString { text, .. } => text,
                other => bail!("INFO says {other:?}"),
            };
            let told = said.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
            let told = told.with_context(|| format!("INFO {section} has no {field}"))?;
            let number = told.split(',').find_map(|part| part.strip_prefix("usec=")).unwrap_or(told);
            numbers.push(number.trim().parse()?);
        }
        numbers.sort_by(f64::total_cmp);
        numbers.get(numbers.len() / 2).copied().context("there is no server")
    }

    /// Leaves the servers as the next turn should find them. Otherwise whoever comes later meets
    /// larger tables: a million fences make every look at a key a cache miss.
    pub(crate) fn forget_fences(&self) {
        self.execute(&["EVAL", FORGET_FENCES, "0"]);
    }

    /// Executes a command on every server.
    pub(crate) fn execute(&self, command: &[&str]) {
        self.servers.iter().for_each(|server| drop(server.execute(command)));
    }

    /// The CPU time that all servers have used since they started.
    pub(crate) fn cpu_time(&self) -> Result<Duration> {
        self.servers.iter().map(|server| cpu_time::of_process(server.pid())).sum()
    }
}

impl Drop for Hung<'_> {
    fn drop(&mut self) {
        self.0.resume();
    }
}
