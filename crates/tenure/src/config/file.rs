//! `tenure.toml`. What is wrong in it is told with its line.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use tenure_core::{MaxHold, RestartGuard, Wait};
use toml::{Spanned, Value};

use super::serve::{Section, Serve};
use super::{ConfigError, KnownNodes, NodeUrl, Source, Sourced, duration};
use crate::KeyScheme;
#[cfg(unix)]
use crate::machine::folder::{EVERYBODY_WRITES, own_id};

/// A configuration file that was read.
pub(super) struct File {
    /// From the root on: children may have another working folder.
    path: PathBuf,
    text: String,
    content: Content,
}

/// What may stand in it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    nodes: Option<Spanned<Vec<Spanned<Value>>>>,
    require_nodes: Option<Spanned<bool>>,
    password_file: Option<Spanned<PathBuf>>,
    prefix: Option<Spanned<String>>,
    key_scheme: Option<Spanned<KeySchemeText>>,
    ttl: Option<Spanned<TtlText>>,
    wait: Option<Spanned<WaitText>>,
    label: Option<Spanned<String>>,
    grace: Option<Spanned<TtlText>>,
    max_hold: Option<Spanned<MaxHoldText>>,
    max_ttl: Option<Spanned<TtlText>>,
    node_timeout: Option<Spanned<TtlText>>,
    restart_guard: Option<Spanned<RestartGuardText>>,
    fleet: Option<Spanned<String>>,
    known_nodes: Option<Spanned<KnownNodesText>>,
    serve: Option<Section>,
}

/// A node: its URL, and where its password is.
struct NodeEntry<'a> {
    url: &'a str,
    password_file: Option<&'a str>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct TtlText(pub(super) Duration);
#[derive(Clone, Copy, Debug)]
struct WaitText(Wait);
#[derive(Clone, Copy, Debug)]
struct MaxHoldText(MaxHold);
#[derive(Clone, Copy, Debug)]
struct RestartGuardText(RestartGuard);
#[derive(Clone, Copy, Debug)]
struct KeySchemeText(KeyScheme);
#[derive(Clone, Debug)]
struct KnownNodesText(KnownNodes);

impl File {
    /// Reads it. `named_by` says who asked for this file, if anybody did.
    pub(super) fn read(path: &Path, named_by: &str) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            let named_by = if named_by.is_empty() { String::new() } else { format!(" ({named_by})") };
            let shown = path.display();
            ConfigError::invalid(format!("cannot read {shown}{named_by}: {error}"))
        })?;
        Self::of_text(path, text)
    }

    /// The file that has this text.
    pub(super) fn of_text(path: &Path, text: String) -> Result<Self, ConfigError> {
        let shown = path.display();
        let content = toml::from_str(&text).map_err(|error| {
            let line = error.span().map_or(1, |span| line_of(&text, span.start));
            // Only the message: the excerpt that comes with it could show a password.
            let message = error.message().lines().collect::<Vec<_>>().join(" ");
            ConfigError::invalid(format!("{shown}:{line}: {message}"))
        })?;
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        Ok(Self { path, text, content })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn names_nodes(&self) -> bool {
        self.content.nodes.is_some()
    }

    /// Its nodes; those without a password of their own have theirs in `password_file`.
    pub(super) fn nodes(&self, password_file: Option<&Path>) -> Result<Sourced<Vec<NodeUrl>>, ConfigError> {
        let mut urls = vec![];
        for node in self.content.nodes.iter().flat_map(Spanned::get_ref) {
            let entry = NodeEntry::of(node.get_ref()).ok_or_else(|| {
                self.wrong(node, "expected a node URL, or { url = \"...\", password_file = \"...\" }")
            })?;
            let url = NodeUrl::new(entry.url).whole(self.folder())?;
            let own = entry.password_file.map(|path| self.beside(Path::new(path)));
            urls.push(match own.as_deref().or(password_file) {
                Some(path) => url.with_password_file(&path.to_string_lossy()),
                None => url,
            });
        }
        match self.sourced(&self.content.nodes, |_| urls) {
            Some(nodes) if !nodes.value.is_empty() => Ok(nodes),
            nodes => {
                let place =
                    nodes.map_or_else(|| self.path.display().to_string(), |nodes| nodes.source.to_string());
                Err(ConfigError::invalid(format!(
                    "{place}: nodes is empty; remove it to use the embedded store"
                )))
            }
        }
    }

    pub(super) fn require_nodes(&self) -> Option<Sourced<bool>> {
        self.sourced(&self.content.require_nodes, |required| *required)
    }

    pub(super) fn password_file(&self) -> Option<Sourced<PathBuf>> {
        self.sourced(&self.content.password_file, |path| self.beside(path))
    }

    /// What is wrong, with its line.
    fn wrong<T>(&self, at: &Spanned<T>, message: &str) -> ConfigError {
        let line = line_of(&self.text, at.span().start);
        ConfigError::invalid(format!("{}:{line}: {message}", self.path.display()))
    }

    pub(super) fn prefix(&self) -> Option<Sourced<String>> {
        self.sourced(&self.content.prefix, Clone::clone)
    }

    pub(super) fn key_scheme(&self) -> Option<Sourced<KeyScheme>> {
        self.sourced(&self.content.key_scheme, |scheme| scheme.0)
    }

    pub(super) fn ttl(&self) -> Option<Sourced<Duration>> {
        self.sourced(&self.content.ttl, |ttl| ttl.0)
    }

    pub(super) fn wait(&self) -> Option<Sourced<Wait>> {
        self.sourced(&self.content.wait, |wait| wait.0)
    }

    pub(super) fn label(&self) -> Option<Sourced<String>> {
        self.sourced(&self.content.label, Clone::clone)
    }

    pub(super) fn grace(&self) -> Option<Sourced<Duration>> {
        self.sourced(&self.content.grace, |grace| grace.0)
    }

    pub(super) fn max_hold(&self) -> Option<Sourced<MaxHold>> {
        self.sourced(&self.content.max_hold, |max_hold| max_hold.0)
    }

    pub(super) fn max_ttl(&self) -> Option<Sourced<Duration>> {
        self.sourced(&self.content.max_ttl, |max_ttl| max_ttl.0)
    }

    pub(super) fn node_timeout(&self) -> Option<Sourced<Duration>> {
        self.sourced(&self.content.node_timeout, |timeout| timeout.0)
    }

    pub(super) fn restart_guard(&self) -> Option<Sourced<RestartGuard>> {
        self.sourced(&self.content.restart_guard, |guard| guard.0)
    }

    pub(super) fn fleet(&self) -> Option<Sourced<String>> {
        self.sourced(&self.content.fleet, Clone::clone)
    }

    pub(super) fn known_nodes(&self) -> Option<Sourced<KnownNodes>> {
        self.sourced(&self.content.known_nodes, |known| match &known.0 {
            KnownNodes::In(path) => KnownNodes::In(self.beside(path)),
            known => known.clone(),
        })
    }

    pub(super) fn serve(&self) -> Option<Serve> {
        self.content.serve.as_ref().map(|section| Serve::of(self, section))
    }

    /// Passwords that others can read.
    pub(super) fn warnings(&self) -> Vec<String> {
        let mut warnings = vec![];
        let nodes = self.content.nodes.iter().flat_map(Spanned::get_ref);
        let nodes: Vec<NodeEntry<'_>> = nodes.filter_map(|node| NodeEntry::of(node.get_ref())).collect();
        let has_secret = |entry: &NodeEntry<'_>| NodeUrl::new(entry.url).has_secret();
        if is_open_to_all(&self.path) && nodes.iter().any(has_secret) {
            let path = self.path.display();
            warnings.push(format!("{path} contains a password and is world-readable; run chmod 600"));
        }
        let own = nodes.iter().filter_map(|entry| entry.password_file).map(Path::new);
        let for_all = self.content.password_file.iter().map(|path| path.get_ref().as_path());
        for path in own.chain(for_all).map(|path| self.beside(path)).filter(|path| is_open_to_all(path)) {
            warnings.push(format!("the password file {} is world-readable; run chmod 600", path.display()));
        }
        warnings
    }

    /// Paths in the file are relative to it.
    pub(super) fn beside(&self, path: &Path) -> PathBuf {
        self.folder().join(path)
    }

    fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("/"))
    }

    pub(super) fn sourced<T, U>(
        &self,
        value: &Option<Spanned<T>>,
        read: impl FnOnce(&T) -> U,
    ) -> Option<Sourced<U>> {
        let value = value.as_ref()?;
        let line = line_of(&self.text, value.span().start);
        let path = self.path.clone();
        Some(Sourced { value: read(value.get_ref()), source: Source::File { path, line } })
    }
}

impl<'a> NodeEntry<'a> {
    fn of(value: &'a Value) -> Option<Self> {
        match value {
            Value::String(url) => Some(Self { url, password_file: None }),
            Value::Table(table) => {
                let known = |key: &String| key == "url" || key == "password_file";
                let password_file = match table.get("password_file") {
                    Some(path) => Some(path.as_str()?),
                    None => None,
                };
                let url = table.get("url")?.as_str()?;
                table.keys().all(known).then_some(Self { url, password_file })
            }
            _ => None,
        }
    }
}

/// Why a file that nobody named is not read, if it is not. Whoever can write it decides which nodes
/// we trust and which file is sent there as a password.
pub(super) fn refusal(path: &Path) -> Option<String> {
    let shown = path.display();
    match std::fs::File::open(path) {
        // What else is wrong is told when it is read.
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            Some(format!("cannot read {shown} ({error})"))
        }
        _ => Some(format!("{shown} {}", whose(path)?)),
    }
}

/// Why a file is not this user's alone, if it is not.
#[cfg(unix)]
fn whose(path: &Path) -> Option<&'static str> {
    use std::os::unix::fs::MetadataExt;
    // What cannot be looked at cannot be read either, and that is told then.
    let seen = std::fs::metadata(path).ok()?;
    let ours = [0, own_id()].contains(&seen.uid());
    match (ours, seen.mode() & EVERYBODY_WRITES) {
        (false, _) => Some("belongs to another user"),
        (true, 0) => None,
        (true, _) => Some("is world-writable"),
    }
}

#[cfg(unix)]
fn is_open_to_all(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(path).is_ok_and(|metadata| metadata.mode() & 0o004 != 0)
}

/// Elsewhere nobody can tell, and the folder decides.
#[cfg(not(unix))]
fn whose(_: &Path) -> Option<&'static str> {
    None
}

#[cfg(not(unix))]
fn is_open_to_all(_: &Path) -> bool {
    false
}

fn line_of(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}

/// Reads a text with a parser of ours.
fn text<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Result<T, D::Error> {
    parse(&String::deserialize(deserializer)?).map_err(D::Error::custom)
}

impl<'de> Deserialize<'de> for TtlText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        text(deserializer, duration::parse).map(Self)
    }
}

impl<'de> Deserialize<'de> for WaitText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        text(deserializer, duration::parse_wait).map(Self)
    }
}

impl<'de> Deserialize<'de> for MaxHoldText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        text(deserializer, duration::parse_max_hold).map(Self)
    }
}

impl<'de> Deserialize<'de> for RestartGuardText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        text(deserializer, str::parse).map(Self)
    }
}

impl<'de> Deserialize<'de> for KeySchemeText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        text(deserializer, str::parse).map(Self)
    }
}

impl<'de> Deserialize<'de> for KnownNodesText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let read = |text: &str| KnownNodes::read(text, Path::new("")).map_err(ToOwned::to_owned);
        text(deserializer, read).map(Self)
    }
}
