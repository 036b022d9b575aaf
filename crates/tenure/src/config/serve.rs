//! `[serve]`: how a lock service is reached, and by whom. Programs that want locks pass it over.
//!
//! The nearest file that has the section says all of it: a certificate from one file and its key
//! from another would belong to two services.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use toml::Spanned;

use super::file::{File, TtlText};
use super::source::{default, optional};
use super::{ConfigError, Source, Sourced};

/// Where a service listens unless it is told otherwise: nobody else than this machine reaches it.
const LISTEN: &str = "127.0.0.1:7420";

/// Who may use a unix socket unless it is told otherwise: the user whose service it is.
const SOCKET_MODE: u32 = 0o600;

/// The section `[serve]`. `docs/reference/service.md` explains the settings.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Serve {
    /// Where it listens.
    pub listen: Sourced<Vec<Listen>>,
    /// The mode of its unix sockets.
    pub socket_mode: Sourced<u32>,
    /// The file with the keys that lease tokens are sealed with.
    pub lease_key: Sourced<Option<PathBuf>>,
    /// The file that lists who may call.
    pub callers: Sourced<Option<PathBuf>>,
    /// The file with its certificate chain.
    pub tls_certificate: Sourced<Option<PathBuf>>,
    /// The file with the key of the certificate.
    pub tls_key: Sourced<Option<PathBuf>>,
    /// The file with the CA certificates of clients.
    pub client_ca: Sourced<Option<PathBuf>>,
    /// Whether a proxy in front of it does TLS.
    pub behind_tls_proxy: Sourced<bool>,
    /// Its host names, beside its addresses and those in its certificate.
    pub hosts: Sourced<Vec<String>>,
    /// The most connections at a time.
    pub connections_max: Sourced<Option<usize>>,
    /// The most acquires in progress, waiting ones included.
    pub acquires_max: Sourced<Option<usize>>,
    /// The most acquires in progress per caller.
    pub acquires_per_caller: Sourced<Option<usize>>,
    /// How long a connection may be silent.
    pub silence_max: Sourced<Option<Duration>>,
    /// How long a shutdown may take.
    pub drain_max: Sourced<Option<Duration>>,
    /// The name prefixes by which metrics group locks.
    pub metrics_groups: Sourced<Vec<String>>,
    /// Where each call is logged: a file, or `stderr`.
    pub access_log: Sourced<Option<PathBuf>>,
    /// Where releases by force are logged: a file, or `stderr`.
    pub audit_log: Sourced<Option<PathBuf>>,
}

/// Where a service listens.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Listen {
    /// On an address of this machine.
    Tcp(SocketAddr),
    /// On a socket in the file system.
    Unix(PathBuf),
}

/// The section as it is written.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Section {
    listen: Option<Spanned<Listens>>,
    socket_mode: Option<Spanned<Mode>>,
    lease_key: Option<Spanned<PathBuf>>,
    callers: Option<Spanned<PathBuf>>,
    tls_certificate: Option<Spanned<PathBuf>>,
    tls_key: Option<Spanned<PathBuf>>,
    client_ca: Option<Spanned<PathBuf>>,
    behind_tls_proxy: Option<Spanned<bool>>,
    hosts: Option<Spanned<Vec<String>>>,
    connections_max: Option<Spanned<Count>>,
    acquires_max: Option<Spanned<Count>>,
    acquires_per_caller: Option<Spanned<Count>>,
    silence_max: Option<Spanned<TtlText>>,
    drain_max: Option<Spanned<TtlText>>,
    metrics_groups: Option<Spanned<Vec<String>>>,
    access_log: Option<Spanned<PathBuf>>,
    audit_log: Option<Spanned<PathBuf>>,
}

struct Listens(Vec<Listen>);
struct Mode(u32);
struct Count(usize);

impl Serve {
    /// What a file says.
    pub(super) fn of(file: &File, section: &Section) -> Self {
        let path = |path: &Option<Spanned<PathBuf>>| optional(file.sourced(path, |path| file.beside(path)));
        let log = |log: &Option<Spanned<PathBuf>>| match file.sourced(log, Clone::clone) {
            // It is no file beside this one.
            Some(stderr) if stderr.value == Path::new("stderr") => optional(Some(stderr)),
            _ => path(log),
        };
        let count = |count: &Option<Spanned<Count>>| optional(file.sourced(count, |count: &Count| count.0));
        let there = |listen: &Listen| match listen {
            Listen::Unix(path) => Listen::Unix(file.beside(path)),
            listen @ Listen::Tcp(_) => listen.clone(),
        };
        let fallback = Self::default();
        let listen = file.sourced(&section.listen, |listens| listens.0.iter().map(there).collect());
        let mode = file.sourced(&section.socket_mode, |mode| mode.0);
        Self {
            listen: listen.unwrap_or(fallback.listen),
            socket_mode: mode.unwrap_or(fallback.socket_mode),
            lease_key: path(&section.lease_key),
            callers: path(&section.callers),
            tls_certificate: path(&section.tls_certificate),
            tls_key: path(&section.tls_key),
            client_ca: path(&section.client_ca),
            behind_tls_proxy: file
                .sourced(&section.behind_tls_proxy, |is| *is)
                .unwrap_or(fallback.behind_tls_proxy),
            hosts: file.sourced(&section.hosts, Clone::clone).unwrap_or(fallback.hosts),
            connections_max: count(&section.connections_max),
            acquires_max: count(&section.acquires_max),
            acquires_per_caller: count(&section.acquires_per_caller),
            silence_max: optional(file.sourced(&section.silence_max, |silence| silence.0)),
            drain_max: optional(file.sourced(&section.drain_max, |drain| drain.0)),
            metrics_groups: file
                .sourced(&section.metrics_groups, Clone::clone)
                .unwrap_or(fallback.metrics_groups),
            access_log: log(&section.access_log),
            audit_log: log(&section.audit_log),
        }
    }

    /// Replaces the addresses by those of a flag. Paths are relative to the working folder.
    ///
    /// # Errors
    /// [`ConfigError::Invalid`] if one of them is not an address or path.
    pub fn listen_on(&mut self, flag: &'static str, typed: &[String]) -> Result<(), ConfigError> {
        let read = |text: &String| match Listen::parse(text) {
            Ok(Listen::Unix(path)) => Ok(Listen::Unix(std::path::absolute(&path).unwrap_or(path))),
            read => read.map_err(|problem| ConfigError::invalid(format!("{flag}: {problem}"))),
        };
        let value = typed.iter().map(read).collect::<Result<_, _>>()?;
        self.listen = Sourced { value, source: Source::Flag(flag) };
        Ok(())
    }
}

impl Default for Serve {
    fn default() -> Self {
        let listen = Listen::parse(LISTEN).expect("it is an address");
        Self {
            listen: default(vec![listen]),
            socket_mode: default(SOCKET_MODE),
            lease_key: default(None),
            callers: default(None),
            tls_certificate: default(None),
            tls_key: default(None),
            client_ca: default(None),
            behind_tls_proxy: default(false),
            hosts: default(vec![]),
            connections_max: default(None),
            acquires_max: default(None),
            acquires_per_caller: default(None),
            silence_max: default(None),
            drain_max: default(None),
            metrics_groups: default(vec![]),
            access_log: default(None),
            audit_log: default(None),
        }
    }
}

impl Listen {
    fn parse(text: &str) -> Result<Self, String> {
        match text.strip_prefix("unix:") {
            Some(path) if !path.is_empty() => Ok(Self::Unix(Path::new(path).into())),
            _ => text.parse().map(Self::Tcp).map_err(|_| {
                format!(
                    "{text:?} is not a listen address; expected an address and a port such as \
                         {LISTEN}, or unix:PATH"
                )
            }),
        }
    }

    /// Whether other machines can reach it.
    #[must_use]
    pub fn is_open_to_others(&self) -> bool {
        match self {
            Self::Tcp(address) => !address.ip().to_canonical().is_loopback(),
            Self::Unix(_) => false,
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl<'de> Deserialize<'de> for Listens {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            One(String),
            Several(Vec<String>),
        }
        let written = Written::deserialize(deserializer).map_err(|_| {
            D::Error::custom(format!("expected a string such as {LISTEN:?}, or a list of them"))
        })?;
        let texts = match written {
            Written::One(text) => vec![text],
            Written::Several(texts) if texts.is_empty() => {
                return Err(D::Error::custom("listen is empty; remove it for the default"));
            }
            Written::Several(texts) => texts,
        };
        texts
            .iter()
            .map(|text| Listen::parse(text).map_err(D::Error::custom))
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

impl<'de> Deserialize<'de> for Mode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let mode = u32::from_str_radix(&text, 8).ok().filter(|mode| *mode <= 0o777 && !text.starts_with('+'));
        mode.map(Self).ok_or_else(|| {
            D::Error::custom(format!("{text:?} is not a file mode; expected one such as \"660\""))
        })
    }
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let count = usize::deserialize(deserializer)?;
        if count == 0 { Err(D::Error::custom("expected at least 1")) } else { Ok(Self(count)) }
    }
}
