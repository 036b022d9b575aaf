//! Settings from the environment and from files, read as the tool `tenure` reads them, so that a
//! program and the tool on the same machine use the same locks.
//!
//! Flags win over `TENURE_*` variables, variables over files, files over defaults. Of the files,
//! the nearest wins: the named one, or `tenure.toml` in the working folder; then the user's; then
//! the machine's (`files.rs`). Every value knows its source, and everything is checked here once.
//! Paths are absolute from then on.

mod check;
mod duration;
mod environment;
mod file;
mod files;
#[cfg(all(any(test, fuzzing), feature = "redis"))]
pub(crate) mod fuzzing;
mod known_nodes;
mod node_url;
mod serve;
mod source;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tenure_core::{MaxHold, MaxTtl, Options, Prefix, RestartGuard, Wait};

pub use self::duration::{parse as parse_duration, parse_max_hold};
pub use self::environment::variable;
use self::file::File;
use self::files::ConfigFiles;
pub use self::known_nodes::KnownNodes;
pub use self::node_url::NodeUrl;
pub use self::serve::{Listen, Serve};
pub use self::source::{Source, Sourced};
use self::source::{default, first, optional};
use crate::lock::label;
use crate::{BuildError, Builder, KeyScheme, Locks};

/// Set by `tenure run` in the environment of its command when the nodes have a password that is not
/// passed on.
pub const WITHHELD: &str = "TENURE_NODES_WITHHELD";

/// The tool's state folder, for instance for known nodes: `tenure` in the user's state folder.
/// `None` if this user has none.
#[must_use]
pub fn state_folder() -> Option<PathBuf> {
    crate::machine::home::state().map(|folder| folder.join("tenure"))
}

/// The effective settings, each with its source. `docs/reference/cli.md` explains them.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// The nodes. Default: this user's store on this machine.
    pub nodes: Sourced<Vec<NodeUrl>>,
    /// Whether nodes must be configured: this user's store is not accepted.
    pub require_nodes: Sourced<bool>,
    /// The prefix of every key on the nodes.
    pub prefix: Sourced<String>,
    /// How names become keys on the nodes: the same for all clients of the locks.
    pub key_scheme: Sourced<KeyScheme>,
    /// The term of a lock.
    pub ttl: Sourced<Duration>,
    /// How long to wait for a taken lock.
    pub wait: Sourced<Option<Wait>>,
    /// What others see when they ask who holds a lock.
    pub label: Sourced<Option<String>>,
    /// How long before the end of its lock a command gets SIGTERM. For the tool only.
    pub grace: Sourced<Option<Duration>>,
    /// The longest total hold of a lock.
    pub max_hold: Sourced<Option<MaxHold>>,
    /// The largest ttl: the same for all clients of the nodes.
    pub max_ttl: Sourced<Duration>,
    /// How long a node may take to answer.
    pub node_timeout: Sourced<Option<Duration>>,
    /// What to do about nodes that may have forgotten locks: the same for all clients of the nodes.
    pub restart_guard: Sourced<RestartGuard>,
    /// The name of the node list: the same for all clients of the nodes.
    pub fleet: Sourced<Option<String>>,
    /// Where Redis nodes are remembered.
    pub known_nodes: Sourced<KnownNodes>,
    /// The lock service, for the tool that starts one.
    pub serve: Serve,
    /// The files that were read, the nearest first.
    pub files: Vec<PathBuf>,
    /// Warnings: what works, but should be changed.
    pub warnings: Vec<String>,
}

/// The flags of `tenure` as typed, unchecked, for other tools that have the same flags. They win
/// over everything else.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct Flags {
    /// `--nodes`
    pub nodes: Option<String>,
    /// `--config`
    pub config: Option<PathBuf>,
    /// `--require-nodes`
    pub require_nodes: bool,
    /// `--prefix`
    pub prefix: Option<String>,
    /// `--ttl`
    pub ttl: Option<String>,
    /// `--wait`
    pub wait: Option<String>,
    /// `--label`
    pub label: Option<String>,
    /// `--known-nodes`
    pub known_nodes: Option<String>,
    /// Whether to skip looking for nodes, because a service is used instead.
    pub without_nodes: bool,
}

/// Why settings cannot be used. It names their source, and never contains a password.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A variable, a flag or a file is invalid.
    #[error("{message}")]
    #[non_exhaustive]
    Invalid {
        /// Which, and what is wrong with it.
        message: String,
    },
    /// No nodes are configured, but they are required.
    #[error(
        "no nodes are configured, and {by} requires them; set them with --nodes, TENURE_NODES or tenure.toml"
    )]
    #[non_exhaustive]
    NodesRequired {
        /// What requires them.
        by: Source,
    },
    /// The nodes of the enclosing `tenure run` are not known here.
    #[error(
        "the enclosing `tenure run` uses nodes with a password, which is not passed on in the environment; \
         set nodes with --nodes or --config, or use a password_file for `tenure run`"
    )]
    NodesWithheld,
    /// The settings are valid, but no manager can be built from them.
    #[error(transparent)]
    Build(#[from] BuildError),
}

impl Config {
    /// Reads the environment and the files.
    ///
    /// # Errors
    /// [`ConfigError`] says what is wrong, and where.
    pub fn from_env() -> Result<Self, ConfigError> {
        Self::with_flags(&Flags::default())
    }

    /// Reads flags, the environment and the files.
    ///
    /// # Errors
    /// [`ConfigError`] says what is wrong, and where.
    pub fn with_flags(flags: &Flags) -> Result<Self, ConfigError> {
        let here = |text: &str, from: &'static str| node_url::list(text, from);
        let named = first([
            Sourced::flag("--nodes", flags.nodes.as_deref(), here)?,
            environment::read("TENURE_NODES", here)?,
        ]);
        let mut warnings = vec![];
        let files = ConfigFiles::find(flags.config.as_deref(), named.is_some(), &mut warnings)?;
        Self::of_files(flags, named, &files, warnings)
    }

    /// What flags, the environment and these files say. `named`: the nodes, if they are known
    /// already.
    fn of_files(
        flags: &Flags,
        named: Option<Sourced<Vec<NodeUrl>>>,
        files: &ConfigFiles,
        mut warnings: Vec<String>,
    ) -> Result<Self, ConfigError> {
        let max_ttl = files.about_nodes(File::max_ttl);
        let ttl_default = Options::default().ttl.min(max_ttl.as_ref().map_or(Duration::MAX, |max| max.value));
        let require_nodes = first([
            flags.require_nodes.then_some(Sourced { value: true, source: Source::Flag("--require-nodes") }),
            environment::read("TENURE_REQUIRE_NODES", environment::truth)?,
            files.any(File::require_nodes),
        ]);
        let nodes = match named {
            _ if flags.without_nodes => Some(default(vec![])),
            Some(nodes) => Some(nodes),
            // Files that lie around know nothing of the nodes that the command around us has.
            None if environment::is_set(WITHHELD) => {
                Some(files.typed_nodes()?.ok_or(ConfigError::NodesWithheld)?)
            }
            None => files.nodes()?,
        };
        let nodes = match (nodes, &require_nodes) {
            (Some(nodes), _) => nodes,
            (None, Some(Sourced { value: true, source })) => {
                return Err(ConfigError::NodesRequired { by: source.clone() });
            }
            (None, _) => default(vec![NodeUrl::of_this_user()?]),
        };
        if nodes.source == Source::Flag("--nodes") && nodes.value.iter().any(NodeUrl::has_secret) {
            warnings.push(
                "a password in --nodes is visible to everyone on this machine (ps); use \
                 ?password_file=PATH, or password_file in tenure.toml"
                    .to_owned(),
            );
        }
        let text = |text: &str, _: &'static str| Ok(text.to_owned());
        let prefix = first([
            Sourced::flag("--prefix", flags.prefix.as_deref(), text)?,
            environment::read_empty_too("TENURE_PREFIX")?,
            files.about_nodes(File::prefix),
        ]);
        let ttl = first([
            Sourced::flag("--ttl", flags.ttl.as_deref(), duration::read)?,
            environment::read("TENURE_TTL", duration::read)?,
            files.any(File::ttl),
        ]);
        let wait = first([
            Sourced::flag("--wait", flags.wait.as_deref(), duration::read_wait)?,
            environment::read("TENURE_WAIT", duration::read_wait)?,
            files.any(File::wait),
        ]);
        let label = first([
            Sourced::flag("--label", flags.label.as_deref(), text)?,
            environment::read("TENURE_LABEL", text)?,
            files.any(File::label),
        ]);
        let known_nodes = first([
            Sourced::flag("--known-nodes", flags.known_nodes.as_deref(), KnownNodes::read_here)?,
            environment::read("TENURE_KNOWN_NODES", KnownNodes::read_here)?,
            files.any(File::known_nodes),
        ]);
        warnings.extend(files.warnings());
        Ok(Self {
            known_nodes: known_nodes.unwrap_or(default(KnownNodes::OfThisUser)),
            require_nodes: require_nodes.unwrap_or(default(false)),
            prefix: prefix.unwrap_or_else(|| default(Prefix::default().as_str().to_owned())),
            key_scheme: files.about_nodes(File::key_scheme).unwrap_or(default(KeyScheme::default())),
            ttl: ttl.unwrap_or(default(ttl_default)),
            wait: optional(wait),
            label: optional(label),
            grace: optional(files.any(File::grace)),
            max_hold: optional(files.any(File::max_hold)),
            max_ttl: max_ttl.unwrap_or(default(MaxTtl::default().get())),
            node_timeout: optional(files.about_nodes(File::node_timeout)),
            restart_guard: files.about_nodes(File::restart_guard).unwrap_or(default(RestartGuard::default())),
            fleet: optional(files.about_nodes(File::fleet)),
            serve: files.serve().unwrap_or_default(),
            files: files.paths().map(Path::to_owned).collect(),
            warnings,
            nodes,
        })
    }

    /// These nodes, and defaults for everything else.
    #[must_use]
    pub fn of_nodes(nodes: Vec<NodeUrl>) -> Self {
        Self {
            nodes: default(nodes),
            require_nodes: default(false),
            prefix: default(Prefix::default().as_str().to_owned()),
            key_scheme: default(KeyScheme::default()),
            ttl: default(Options::default().ttl),
            wait: default(None),
            label: default(None),
            grace: default(None),
            max_hold: default(None),
            max_ttl: default(MaxTtl::default().get()),
            node_timeout: default(None),
            restart_guard: default(RestartGuard::default()),
            fleet: default(None),
            known_nodes: default(KnownNodes::OfThisUser),
            serve: Serve::default(),
            files: vec![],
            warnings: vec![],
        }
    }

    /// The default options of locks.
    #[must_use]
    pub fn options(&self) -> Options {
        let mut options = Options::default();
        options.ttl = self.ttl.value;
        options.wait = self.wait.value.unwrap_or(options.wait);
        options.node_timeout = self.node_timeout.value;
        options.max_hold = self.max_hold.value;
        options.label = self.label.value.as_deref().map(|note| label::of(note).into());
        options
    }

    /// A builder with these settings.
    ///
    /// # Errors
    /// [`BuildError::Url`] if a node's URL is invalid.
    pub fn builder(&self) -> Result<Builder, BuildError> {
        let mut builder = Locks::builder()
            .prefix(&self.prefix.value)
            .key_scheme(self.key_scheme.value)
            .max_ttl(self.max_ttl.value)
            .restart_guard(self.restart_guard.value)
            .defaults(self.options());
        if let Some(fleet) = &self.fleet.value {
            builder = builder.fleet(fleet);
        }
        for url in &self.nodes.value {
            builder = builder.url(url.as_str())?;
        }
        Ok(match &self.known_nodes.value {
            KnownNodes::OfThisUser if !self.is_embedded() => builder.remember_nodes(),
            KnownNodes::In(path) => builder.remember_nodes_in(path),
            KnownNodes::OfThisUser | KnownNodes::Off => builder,
        })
    }

    /// Whether the nodes are files on this machine.
    #[must_use]
    pub fn is_embedded(&self) -> bool {
        self.nodes.value.iter().all(|node| node.as_str().starts_with("sqlite:"))
    }

    /// Whether a node's URL has a password in it.
    #[must_use]
    pub fn has_secret(&self) -> bool {
        self.nodes.value.iter().any(NodeUrl::has_secret)
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes = self.nodes.as_ref().map(|_| "(not shown)");
        f.debug_struct("Flags").field("nodes", &nodes).field("config", &self.config).finish_non_exhaustive()
    }
}

impl ConfigError {
    fn invalid(message: impl Into<String>) -> Self {
        Self::Invalid { message: message.into() }
    }
}
