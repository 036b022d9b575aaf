//! What was typed, exported and written down, turned into what it means.
//!
//! Flags come before the environment, that before `tenure.toml`, that before defaults. Every value remembers where it
//! comes from. Everything is checked here once.

mod duration;
mod file;
mod line;
mod node_url;
pub(crate) mod restart_guard;

use std::path::{Path, PathBuf};
use std::time::Duration;

use tenure::{Event, Locks, MaxHold, Options, RestartGuard, SqliteNode, Wait};

use self::file::File;
pub(crate) use self::node_url::NodeUrl;
use crate::args::Common;
use crate::failure::Failure;

/// A value and where it comes from.
#[derive(Clone, Debug)]
pub(crate) struct Sourced<T> {
    pub(crate) value: T,
    pub(crate) source: Source,
}

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Flag(&'static str),
    Environment(&'static str),
    File { path: PathBuf, line: usize },
    Default,
}

/// What is in force.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) nodes: Sourced<Vec<NodeUrl>>,
    pub(crate) prefix: Sourced<String>,
    pub(crate) ttl: Sourced<Duration>,
    pub(crate) wait: Sourced<Wait>,
    pub(crate) label: Sourced<Option<String>>,
    pub(crate) grace: Sourced<Option<Duration>>,
    pub(crate) max_hold: Sourced<Option<MaxHold>>,
    pub(crate) max_ttl: Sourced<Duration>,
    pub(crate) node_timeout: Sourced<Option<Duration>>,
    pub(crate) restart_guard: Sourced<RestartGuard>,
    pub(crate) fleet: Sourced<Option<String>>,
    /// The file that was read, if any.
    pub(crate) file: Option<PathBuf>,
    /// What should be otherwise, though it works.
    pub(crate) warnings: Vec<String>,
}

/// What the library does where nothing is said: a tenth of the ttl, within these.
const NODE_TIMEOUT_MIN: Duration = Duration::from_millis(5);
const NODE_TIMEOUT_MAX: Duration = Duration::from_millis(50);
const NODE_TIMEOUT_MAX_EMBEDDED: Duration = Duration::from_secs(2);

const TTL_DEFAULT: Duration = Duration::from_secs(30);
const MAX_TTL_DEFAULT: Duration = Duration::from_secs(60);

/// A command that hangs must not hold its lock for ever; few run for longer than a day, and those say so.
pub(crate) const RUN_MAX_HOLD_DEFAULT: Duration = Duration::from_secs(24 * 3600);

impl Settings {
    pub(crate) fn resolve(typed: &Common) -> Result<Self, Failure> {
        let environment = |name: &'static str| match std::env::var(name) {
            Ok(value) => Ok((!value.is_empty() || name == "TENURE_PREFIX").then_some(value)),
            Err(std::env::VarError::NotPresent) => Ok(None),
            Err(std::env::VarError::NotUnicode(_)) => {
                Err(Failure::usage(format!("{name} is not UTF-8; set it anew, or unset it")))
            }
        };
        let file = match (&typed.config, environment("TENURE_CONFIG")?) {
            (Some(path), _) => File::read(path, "--config")?,
            (None, Some(path)) => File::read(Path::new(&path), "TENURE_CONFIG")?,
            // A link that leads nowhere is there, too.
            (None, None) if Path::new("tenure.toml").symlink_metadata().is_ok() => {
                File::read_found(Path::new("tenure.toml"))?
            }
            (None, None) => File::default(),
        };
        let nodes = first([
            flag("--nodes", node_list(typed.nodes.as_deref(), "--nodes")?),
            exported("TENURE_NODES", node_list(environment("TENURE_NODES")?.as_deref(), "TENURE_NODES")?),
            file.nodes()?,
        ]);
        let nodes = match nodes {
            Some(nodes) => nodes,
            None => Sourced { value: vec![default_node()?], source: Source::Default },
        };
        let ttl_default = file.max_ttl().map_or(TTL_DEFAULT, |max_ttl| TTL_DEFAULT.min(max_ttl.value));
        let ttl = typed.ttl.as_deref().map(|text| parsed("--ttl", duration::parse(text))).transpose()?;
        let wait =
            typed.wait.as_deref().map(|text| parsed("--wait", duration::parse_wait(text))).transpose()?;
        let prefix = [
            flag("--prefix", typed.prefix.clone()),
            exported("TENURE_PREFIX", environment("TENURE_PREFIX")?),
        ];
        let mut settings = Self {
            prefix: first(prefix.into_iter().chain([file.prefix()]))
                .unwrap_or_else(|| default("tenure:".to_owned())),
            ttl: first([flag("--ttl", ttl), file.ttl()]).unwrap_or(default(ttl_default)),
            wait: first([flag("--wait", wait), file.wait()]).unwrap_or(default(Wait::No)),
            label: some(first([flag("--label", typed.label.clone()), file.label()])),
            grace: some(file.grace()),
            max_hold: some(file.max_hold()),
            max_ttl: file.max_ttl().unwrap_or(default(MAX_TTL_DEFAULT)),
            node_timeout: some(file.node_timeout()),
            restart_guard: file.restart_guard().unwrap_or(default(RestartGuard::Evidence)),
            fleet: some(file.fleet()),
            warnings: file.warnings(),
            file: file.path().map(Path::to_owned),
            nodes,
        };
        if settings.nodes.source == Source::Flag("--nodes") && settings.has_secret() {
            settings.warnings.push(
                "a password in --nodes is visible to everybody on this machine (ps); use ?password_file=PATH, or \
                 password_file in tenure.toml"
                    .to_owned(),
            );
        }
        Ok(settings)
    }

    /// What `run` was told beyond that.
    pub(crate) fn for_run(&self, grace: Option<&str>, max_hold: Option<&str>) -> Result<Self, Failure> {
        let mut settings = self.clone();
        if let Some(grace) = grace {
            let value = parsed("--grace", duration::parse(grace))?;
            settings.grace = Sourced { value: Some(value), source: Source::Flag("--grace") };
        }
        if let Some(max_hold) = max_hold {
            let value = parsed("--max-hold", duration::parse_max_hold(max_hold))?;
            settings.max_hold = Sourced { value: Some(value), source: Source::Flag("--max-hold") };
        }
        settings.max_hold.value.get_or_insert(MaxHold::AtMost(RUN_MAX_HOLD_DEFAULT));
        if settings.grace().saturating_mul(2) > settings.ttl.value {
            return Err(Failure::usage(format!(
                "a grace of {:?} is more than half of the ttl of {:?}; use a longer ttl or a shorter grace",
                settings.grace(),
                settings.ttl.value
            )));
        }
        Ok(settings)
    }

    /// Whether a command that was stopped after this time was stopped because of `max_hold`.
    pub(crate) fn is_held_long_enough(&self, held: Duration) -> bool {
        matches!(self.max_hold.value, Some(MaxHold::AtMost(limit)) if held + self.grace() >= limit)
    }

    /// How long before the end of its lock a command is told to stop.
    pub(crate) fn grace(&self) -> Duration {
        self.grace.value.unwrap_or(self.ttl.value / 4)
    }

    /// Whether the one node is a file on this machine.
    pub(crate) fn is_embedded(&self) -> bool {
        self.nodes.value.iter().all(|node| node.as_str().starts_with("sqlite:"))
    }

    /// How long a node may take to answer.
    pub(crate) fn node_timeout(&self) -> Duration {
        let max = if self.is_embedded() { NODE_TIMEOUT_MAX_EMBEDDED } else { NODE_TIMEOUT_MAX };
        self.node_timeout.value.unwrap_or_else(|| (self.ttl.value / 10).min(max).max(NODE_TIMEOUT_MIN))
    }

    /// Whether a node URL has a password in it.
    pub(crate) fn has_secret(&self) -> bool {
        self.nodes.value.iter().any(NodeUrl::has_secret)
    }

    /// Builds the manager. Nodes that cannot be reached are no failure yet.
    pub(crate) fn connect(
        &self,
        observer: impl Fn(&Event<'_>) + Send + Sync + 'static,
    ) -> Result<Locks, Failure> {
        let mut options = Options::default();
        options.ttl = self.ttl.value;
        options.wait = self.wait.value;
        options.node_timeout = self.node_timeout.value;
        options.max_hold = self.max_hold.value;
        let mut builder = Locks::builder()
            .prefix(&self.prefix.value)
            .max_ttl(self.max_ttl.value)
            .restart_guard(self.restart_guard.value)
            .defaults(options)
            .observer(observer);
        if let Some(fleet) = &self.fleet.value {
            builder = builder.fleet(fleet);
        }
        for url in &self.nodes.value {
            builder = builder.url(url.as_str())?;
        }
        Ok(builder.build()?)
    }
}

impl Source {
    /// How it is shown.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Flag(name) | Self::Environment(name) => (*name).to_owned(),
            Self::File { path, line } => format!("{}:{line}", path.display()),
            Self::Default => "default".to_owned(),
        }
    }
}

/// The embedded store of this user: works at once, with nothing installed.
fn default_node() -> Result<NodeUrl, Failure> {
    let node = SqliteNode::user_default().map_err(|error| Failure::usage(error.to_string()))?;
    if node.path().to_str().is_none() {
        return Err(Failure::usage(
            "the state folder's path is not UTF-8; name the store: --nodes sqlite:PATH",
        ));
    }
    Ok(NodeUrl::new(node.address()))
}

fn node_list(list: Option<&str>, from: &str) -> Result<Option<Vec<NodeUrl>>, Failure> {
    let Some(list) = list else { return Ok(None) };
    let urls: Vec<NodeUrl> =
        list.split(',').map(str::trim).filter(|url| !url.is_empty()).map(NodeUrl::new).collect();
    if urls.is_empty() {
        return Err(Failure::usage(format!(
            "{from} names no node; it looks like redis://a:6379,redis://b:6379"
        )));
    }
    Ok(Some(urls))
}

fn parsed<T>(name: &str, value: Result<T, String>) -> Result<T, Failure> {
    value.map_err(|problem| Failure::usage(format!("{name}: {problem}")))
}

fn flag<T>(name: &'static str, value: Option<T>) -> Option<Sourced<T>> {
    value.map(|value| Sourced { value, source: Source::Flag(name) })
}

fn exported<T>(name: &'static str, value: Option<T>) -> Option<Sourced<T>> {
    value.map(|value| Sourced { value, source: Source::Environment(name) })
}

const fn default<T>(value: T) -> Sourced<T> {
    Sourced { value, source: Source::Default }
}

fn first<T>(values: impl IntoIterator<Item = Option<Sourced<T>>>) -> Option<Sourced<T>> {
    values.into_iter().flatten().next()
}

fn some<T>(value: Option<Sourced<T>>) -> Sourced<Option<T>> {
    match value {
        Some(Sourced { value, source }) => Sourced { value: Some(value), source },
        None => default(None),
    }
}
