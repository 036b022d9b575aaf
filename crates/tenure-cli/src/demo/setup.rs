//! What all parts of the demo agree on.

use std::path::PathBuf;
use std::time::Duration;

use tenure::{BuildError, Locks, RestartGuard};

/// The lock that everybody wants.
pub(super) const LOCK: &str = "demo";

/// The term, and the longest one allowed: a node that forgot is kept out for a tenth longer, which
/// is to be watched and not waited for.
pub(super) const TTL: Duration = Duration::from_secs(6);

/// The nodes, and how they are used.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub(super) nodes: Vec<String>,
    /// Whether the restart guard is on.
    pub(super) guard: bool,
    pub(super) known_nodes: PathBuf,
}

impl Setup {
    /// Clients with different guards share no names: nodes refuse that.
    pub(super) const fn prefix(&self) -> &'static str {
        if self.guard { "guarded:" } else { "unguarded:" }
    }

    pub(super) fn locks(&self) -> Result<Locks, BuildError> {
        let guard = if self.guard { RestartGuard::Evidence } else { RestartGuard::Off };
        let mut builder = Locks::builder().prefix(self.prefix()).max_ttl(TTL).restart_guard(guard);
        for node in &self.nodes {
            builder = builder.url(node)?;
        }
        if !self.is_embedded() {
            builder = builder.remember_nodes_in(&self.known_nodes);
        }
        builder.build()
    }

    pub(super) fn is_embedded(&self) -> bool {
        self.nodes.iter().all(|node| node.starts_with("sqlite:"))
    }

    /// The same for `tenure serve`, as a configuration file.
    pub(super) fn file(&self) -> String {
        let (prefix, ttl) = (self.prefix(), TTL.as_secs());
        let guard = if self.guard { "evidence" } else { "off" };
        let known =
            if self.is_embedded() { "off".to_owned() } else { self.known_nodes.display().to_string() };
        let nodes: Vec<String> = self.nodes.iter().map(|node| format!("{node:?}")).collect();
        format!(
            "nodes = [{}]\nprefix = {prefix:?}\nttl = \"{ttl}s\"\nmax_ttl = \"{ttl}s\"\nrestart_guard = {guard:?}\nknown_nodes = {known:?}\n",
            nodes.join(", ")
        )
    }
}
