//! The manager: a node list, its settings, and the worker that serves them.

pub(crate) mod key_scheme;
mod same_process;
mod worker;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::ThreadId;
use std::time::Duration;

use tenure_core::{
    Ballot, Fleet, LockKey, MaxTtl, NameError, Options, Prefix, Quorum, RestartGuard, Roster, Settings, Terms,
};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tracing::Span;

pub use self::worker::Worker;
use crate::circle::Waits;
use crate::driver::{Asking, Call, Driver, Id, Unfinished};
use crate::error::votes::Votes;
use crate::error::{BuildError, ShutdownError};
use crate::event::{Event, Observer};
use crate::fleet::known_nodes::{KnownNodes, Location};
use crate::guard::handover::Lives;
use crate::lock::Lock;
use crate::locks::key_scheme::KeyScheme;
use crate::machine::clock::Clock;
use crate::node::{MemoryNode, Node, listed_twice};
use crate::watch::Board;

/// How long [`Locks::shutdown`] waits for clean-up: many round trips, and still bearable at exit.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(5);

/// The manager: acquires locks by name on a majority of its nodes.
///
/// Create one per program and share it: clones are cheap and share one manager.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use tenure::Locks;
///
/// let locks = Locks::memory();
/// let guard = locks.lock("invoice:42").ttl(Duration::from_secs(30)).acquire().await?;
/// assert!(guard.valid_for() > Duration::from_secs(29));
/// guard.release().await?;
/// locks.shutdown().await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Locks {
    pub(crate) inner: Arc<Inner>,
}

/// What locks and guards need of their manager.
pub(crate) struct Inner {
    mailbox: mpsc::UnboundedSender<Call>,
    asking: Asking,
    ids: Arc<AtomicU64>,
    pub(crate) addresses: Vec<Arc<str>>,
    pub(crate) lives: Arc<Lives>,
    pub(crate) clock: Clock,
    pub(crate) prefix: Prefix,
    key_scheme: KeyScheme,
    pub(crate) max_ttl: MaxTtl,
    pub(crate) quorum: Quorum,
    /// Those who hold something while they wait.
    pub(crate) waits: Waits,
    pub(crate) defaults: Arc<Options>,
    /// What they come to, if they are allowed.
    pub(crate) default_terms: Option<Arc<Terms>>,
    /// What is seen of the fleet, for whoever watches it.
    pub(crate) board: Arc<Board>,
    /// The thread that made it.
    built_on: ThreadId,
}

/// Builds a [`Locks`]. Made by [`Locks::builder`].
#[derive(Debug)]
#[must_use = "nothing happens until `build` is called"]
pub struct Builder {
    nodes: Vec<Node>,
    prefix: String,
    key_scheme: KeyScheme,
    max_ttl: Duration,
    restart_guard: RestartGuard,
    fence_retention: Option<Duration>,
    fleet: Option<String>,
    defaults: Option<Options>,
    pub(crate) observer: Observer,
    /// Where what is known of the nodes is kept.
    pub(crate) known_nodes: Option<Location>,
    worker: Worker,
    clock: Clock,
}

impl Locks {
    /// A manager with one node in this process's memory: for trials, tests and examples.
    ///
    /// # Panics
    /// Outside a runtime, if the system cannot start a thread.
    #[must_use]
    pub fn memory() -> Self {
        Self::builder().node(MemoryNode::new("0")).build().expect("one memory node is a valid node list")
    }

    /// A manager of the store that this user's processes share on this machine, with default
    /// settings: see [`SqliteNode::user_default`](crate::SqliteNode::user_default). Nothing needs
    /// to be installed or started.
    ///
    /// # Errors
    /// [`BuildError::Url`] if the environment names no folder for it. Other problems with the store
    /// are in the error of the first acquire.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let locks = tenure::Locks::embedded()?;
    /// let guard = locks.lock("backup").acquire().await?;
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "embedded")]
    pub fn embedded() -> Result<Self, BuildError> {
        Self::builder().node(crate::SqliteNode::user_default()?).build()
    }

    /// A manager with the settings of the environment and of `tenure.toml`, as the command-line
    /// tool reads them: the program and the tool then use the same locks.
    ///
    /// `TENURE_NODES`, `TENURE_PREFIX`, `TENURE_TTL`, `TENURE_WAIT` and `TENURE_LABEL` come first,
    /// then `tenure.toml` in the working folder (or the file that `TENURE_CONFIG` names), then the
    /// user's `~/.config/tenure/tenure.toml`, then `/etc/tenure.toml`. If no nodes are set, it uses
    /// the store of [`Locks::embedded`], unless `TENURE_REQUIRE_NODES` or `require_nodes` in a file
    /// forbids it. Redis nodes are remembered as by [`Builder::remember_nodes`], unless
    /// `TENURE_KNOWN_NODES` or `known_nodes` is `off`. `docs/reference/cli.md` lists all settings;
    /// [`Config`](crate::config::Config) shows each value and its source.
    ///
    /// # Errors
    /// [`ConfigError`](crate::config::ConfigError) says what is wrong, and where. Unreachable nodes
    /// are in the error of the first acquire.
    ///
    /// # Examples
    /// ```standalone_crate
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # std::env::set_current_dir(folder.path())?;
    /// # // Nothing else runs yet.
    /// # unsafe { std::env::set_var("TENURE_NODES", "sqlite:locks.db") };
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    /// # runtime.block_on(async {
    /// // With TENURE_NODES=sqlite:locks.db in the environment:
    /// let locks = tenure::Locks::from_env()?;
    /// let guard = locks.lock("backup").acquire().await?;
    /// assert!(locks.node_addresses().all(|address| address.ends_with("/locks.db")));
    /// guard.release().await?;
    /// # Ok(()) }) }
    /// ```
    #[cfg(feature = "config")]
    pub fn from_env() -> Result<Self, crate::config::ConfigError> {
        let config = crate::config::Config::from_env()?;
        for warning in &config.warnings {
            tracing::warn!("{warning}");
        }
        Ok(config.builder()?.build()?)
    }

    /// A manager of these nodes, with default settings: `redis://...`, `rediss://...`,
    /// `redis+unix://...` or `sqlite:PATH`, as [`Node::parse`] reads them.
    ///
    /// Returns when every node has been tried. Unreachable nodes are retried in the background; a
    /// majority is enough to acquire locks.
    ///
    /// # Errors
    /// [`BuildError`] if a URL or the node list is invalid.
    ///
    /// # Cancel safety
    /// Dropping the future drops the manager; nothing is locked yet.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let locks = tenure::Locks::connect(["redis://a", "redis://b", "redis://c"]).await?;
    /// let guard = locks.lock("invoice:42").acquire().await?;
    /// # Ok(()) }
    /// ```
    pub async fn connect<U: AsRef<str>>(urls: impl IntoIterator<Item = U>) -> Result<Self, BuildError> {
        let mut builder = Self::builder();
        for url in urls {
            builder = builder.url(url.as_ref())?;
        }
        let locks = builder.build()?;
        locks.ready().await;
        Ok(locks)
    }

    /// Waits until every node has been tried once. Calls made earlier wait for that, too.
    ///
    /// # Cancel safety
    /// It may be dropped and called again at any time.
    pub async fn ready(&self) {
        self.inner.call(|reply| Call::Settle { reply }).await;
    }

    /// Starts a builder with default settings.
    pub fn builder() -> Builder {
        Builder {
            nodes: vec![],
            prefix: Prefix::default().as_str().to_owned(),
            key_scheme: KeyScheme::default(),
            max_ttl: MaxTtl::default().get(),
            restart_guard: RestartGuard::default(),
            fence_retention: None,
            fleet: None,
            defaults: None,
            observer: Observer::default(),
            known_nodes: None,
            worker: Worker::default(),
            clock: Clock::System,
        }
    }

    /// The lock called `name`. No node is asked yet; see [`Lock`].
    pub fn lock(&self, name: impl Into<String>) -> Lock {
        Lock::new(Arc::clone(&self.inner), name.into())
    }

    /// Shuts the manager down: no new locks, waiting calls fail with
    /// [`AcquireError::ShutDown`](crate::AcquireError::ShutDown), and what dropped guards and
    /// cancelled calls left on the nodes is cleaned up, within five seconds.
    ///
    /// A silent node delays this by a fraction of a second at most; its keys expire at the end of
    /// their terms. [`Locks::shutdown_within`] waits longer.
    ///
    /// Guards that are still alive keep their locks and can be extended and released.
    ///
    /// # Errors
    /// [`ShutdownError`] if nodes did not confirm in time; it says which, and when their keys
    /// expire.
    ///
    /// # Cancel safety
    /// The shutdown continues when the future is dropped; only the answer is lost. It may be called
    /// again.
    pub async fn shutdown(&self) -> Result<(), ShutdownError> {
        self.end(SHUTDOWN_LIMIT, false).await
    }

    /// As [`Locks::shutdown`], but waits up to `limit` for every node that may still have a key,
    /// even a silent one.
    ///
    /// # Errors
    /// As [`Locks::shutdown`].
    ///
    /// # Cancel safety
    /// As [`Locks::shutdown`].
    pub async fn shutdown_within(&self, limit: Duration) -> Result<(), ShutdownError> {
        self.end(limit, true).await
    }

    async fn end(&self, limit: Duration, silent_too: bool) -> Result<(), ShutdownError> {
        let told = self.inner.call(|reply| Call::Shutdown { limit, silent_too, reply }).await;
        // A worker that is gone left nothing that anybody could still clean up.
        match told.flatten() {
            None => Ok(()),
            Some(Unfinished { keys, nodes, frees_within }) => {
                let nodes = nodes.iter().map(|node| self.inner.addresses[node.get()].to_string()).collect();
                Err(ShutdownError { keys, nodes, frees_within })
            }
        }
    }

    /// The addresses of the nodes, in order.
    pub fn node_addresses(&self) -> impl Iterator<Item = &str> {
        self.inner.addresses.iter().map(|address| &**address)
    }
}

impl Builder {
    /// Adds a node.
    pub fn node(mut self, node: impl Into<Node>) -> Self {
        self.nodes.push(node.into());
        self
    }

    /// Adds several nodes.
    pub fn nodes<N: Into<Node>>(mut self, nodes: impl IntoIterator<Item = N>) -> Self {
        self.nodes.extend(nodes.into_iter().map(Into::into));
        self
    }

    /// Adds the node at this URL. [`RedisNode`](crate::RedisNode) documents the URLs.
    ///
    /// # Errors
    /// [`BuildError::Url`] says what is wrong with it. It never contains a password.
    pub fn url(self, url: &str) -> Result<Self, BuildError> {
        Ok(self.node(Node::parse(url)?))
    }

    /// The prefix of every key on the nodes. Default `tenure:`; an empty one shares names with
    /// other Redlock clients.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// How names become keys. Default [`KeyScheme::Plain`].
    pub fn key_scheme(mut self, key_scheme: KeyScheme) -> Self {
        self.key_scheme = key_scheme;
        self
    }

    /// The largest ttl of any lock. Default 60 s.
    ///
    /// All clients of the same nodes and prefix must use the same value; a client that differs is
    /// refused. A node that lost its memory does not vote for as long as any lock it forgot may
    /// live, so a large value costs availability after restarts.
    pub fn max_ttl(mut self, max_ttl: Duration) -> Self {
        self.max_ttl = max_ttl;
        self
    }

    /// What to do about nodes that may have forgotten locks. Default [`RestartGuard::Evidence`].
    /// Must be the same for all clients of the same nodes and prefix.
    pub fn restart_guard(mut self, restart_guard: RestartGuard) -> Self {
        self.restart_guard = restart_guard;
        self
    }

    /// How long nodes remember the fence of an unused lock. Default 24 h, at least a second. A
    /// shorter time saves memory on the nodes, whose clocks must not be set back by more than half
    /// of it. Must be the same for all clients of the same nodes and prefix.
    pub fn fence_retention(mut self, retention: Duration) -> Self {
        self.fence_retention = Some(retention);
        self
    }

    /// Names the node list. Clients with different lists would not exclude each other, so each node
    /// remembers the list it was first used with and refuses clients with another. By default a
    /// list is identified by its addresses and databases; name it if clients reach the same nodes
    /// under different addresses. All of them must then list the nodes in the same order.
    pub fn fleet(mut self, name: impl Into<String>) -> Self {
        self.fleet = Some(name.into());
        self
    }

    /// The default options of locks; each lock can override them. Without this, the ttl is 30 s, or
    /// `max_ttl` if that is shorter.
    pub fn defaults(mut self, options: Options) -> Self {
        self.defaults = Some(options);
        self
    }

    /// Calls `observer` with every [`Event`], on the worker: it must be fast and must not block.
    pub fn observer(mut self, observer: impl Fn(&Event<'_>) + Send + Sync + 'static) -> Self {
        self.observer.call(observer);
        self
    }

    /// Where the manager's worker runs.
    pub fn worker(mut self, worker: Worker) -> Self {
        self.worker = worker;
        self
    }

    /// Reads the time from tokio, so that tests under `tokio::time::pause` can advance it. Not for
    /// production: that clock stops while the machine is suspended.
    pub fn tokio_time(mut self) -> Self {
        self.clock = Clock::Tokio;
        self
    }

    /// What all clients of the nodes have to agree on, checked.
    pub(crate) fn agreed(&self) -> Result<(Settings, Prefix), BuildError> {
        Quorum::of(self.nodes.len())?;
        if let Some(twice) = listed_twice(&self.nodes) {
            return Err(BuildError::DuplicateNode { address: twice.address().to_owned() });
        }
        let roster = match &self.fleet {
            Some(fleet) => Roster::named(fleet, self.nodes.iter().map(Node::part)),
            None => Roster::of_names(self.nodes.iter().map(Node::place)),
        };
        let prefix = Prefix::new(&self.prefix)?;
        let settings = Settings::new(MaxTtl::new(self.max_ttl)?, roster).restart_guard(self.restart_guard);
        Ok(match self.fence_retention {
            Some(retention) => (settings.fence_retention(retention), prefix),
            None => (settings, prefix),
        })
    }

    pub(crate) fn into_nodes(self) -> Vec<Node> {
        self.nodes
    }

    /// Builds the manager and starts its worker.
    ///
    /// # Errors
    /// [`BuildError`] if there are no nodes or more than 15, if one is listed twice, if the prefix
    /// or `max_ttl` is invalid, or if the worker's thread could not be started.
    pub fn build(self) -> Result<Locks, BuildError> {
        let (settings, prefix) = self.agreed()?;
        let quorum = Quorum::of(self.nodes.len())?;
        let addresses: Vec<Arc<str>> = self.nodes.iter().map(Node::shared_address).collect();
        let embedded = self.nodes.iter().all(Node::is_on_disk);
        let max_ttl = MaxTtl::new(self.max_ttl)?;
        let (mailbox, requests) = mpsc::unbounded_channel();
        let ids = Arc::new(AtomicU64::new(0));
        let seed = getrandom::u64().map_err(|error| std::io::Error::other(error.to_string()))?;
        let bounds = settings.bounds();
        let fleet = Fleet::new(settings, quorum, prefix.clone(), seed);
        let client = fleet.client();
        let known = self.known_nodes.map(|location| KnownNodes::new(location, &prefix, &self.nodes));
        let nodes = self.nodes.into_iter().map(|node| node.connect(&prefix, bounds, client)).collect();
        let names = addresses.clone();
        let lives = Arc::new(Lives::default());
        let shared = (Arc::clone(&lives), Arc::clone(&ids));
        let board = Arc::new(Board::new());
        let observer = self.observer.beside(Arc::clone(&board.tap));
        let driver = Driver::new(self.clock, observer, names, requests, nodes, fleet, shared);
        let asking = Asking::default();
        let driver = driver.remembering(known).beside(asking.clone());
        self.worker.start(driver)?;
        let mut options = self.defaults.unwrap_or_else(|| {
            let mut options = Options::default();
            options.ttl = options.ttl.min(max_ttl.get());
            options
        });
        if embedded {
            options.wait_for_disk();
        }
        let (clock, key_scheme, defaults) = (self.clock, self.key_scheme, Arc::new(options));
        let default_terms = defaults.check(max_ttl).ok().map(Arc::new);
        let inner = Inner {
            mailbox,
            asking,
            ids,
            addresses,
            lives,
            clock,
            prefix,
            key_scheme,
            max_ttl,
            quorum,
            waits: Waits::default(),
            defaults,
            default_terms,
            board,
            built_on: std::thread::current().id(),
        };
        let inner = Arc::new(inner);
        inner.enlist();
        Ok(Locks { inner })
    }
}

impl Inner {
    /// Asks the driver, and waits for its answer; `None` if it is gone.
    pub(crate) async fn call<T>(&self, call: impl FnOnce(oneshot::Sender<T>) -> Call) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        let _asking = self.asking.enter();
        self.send(call(reply));
        answer.await.ok()
    }

    /// Does something on the worker's runtime, which has a timer. `None` if it is gone.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let answered = |reply: oneshot::Sender<T>| async move {
            let _ = reply.send(work.await);
        };
        self.call(|reply| Call::Run(Box::pin(answered(reply)))).await
    }

    /// What is asked about this lease next belongs to this span of ours; if nobody records that, to
    /// the caller's own, so that warnings are found in its trace all the same.
    pub(crate) fn trace(&self, id: Id, ours: &Span) {
        let span = if ours.is_disabled() { Span::current() } else { ours.clone() };
        if !span.is_disabled() {
            self.send(Call::Trace { id, span });
        }
    }

    /// Tells the driver something that needs no answer. `false` if it is gone.
    pub(crate) fn send(&self, call: Call) -> bool {
        self.mailbox.send(call).is_ok()
    }

    /// Starts a task: in the caller's runtime, or where the worker runs if there is none. `false`
    /// if that is gone.
    pub(crate) fn start(&self, task: impl Future<Output = ()> + Send + 'static) -> bool {
        match Handle::try_current() {
            Ok(runtime) => {
                runtime.spawn(task);
                true
            }
            Err(_) => self.send(Call::Run(Box::pin(task))),
        }
    }

    /// Waits until enough nodes are known to begin with: all have been tried, or a majority is
    /// there and the rest takes too long. Acquires wait for the same.
    pub(crate) async fn started(&self) {
        self.call(|reply| Call::Start { reply }).await;
    }

    pub(crate) fn key(&self, name: &str) -> Result<LockKey, NameError> {
        self.key_scheme.key(&self.prefix, name)
    }

    /// The key of a lock, or of several if there are `names`.
    pub(crate) fn key_of(&self, name: &str, names: Option<&[String]>) -> Result<LockKey, NameError> {
        let Some(names) = names else { return self.key(name) };
        let keys = names.iter().map(|name| self.key(name)).collect::<Result<Vec<_>, _>>()?;
        LockKey::all_of(keys)
    }

    pub(crate) fn next_id(&self) -> Id {
        Id(self.ids.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn votes(&self, ballots: &[Option<Ballot>]) -> Votes {
        Votes::new(&self.addresses, ballots)
    }
}

impl fmt::Debug for Locks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes = self.node_addresses().collect::<Vec<_>>();
        f.debug_struct("Locks")
            .field("nodes", &nodes)
            .field("prefix", &self.inner.prefix)
            .finish_non_exhaustive()
    }
}
