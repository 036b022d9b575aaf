//! What was typed, exported and written down, turned into what it means.
//!
//! The library reads it (`tenure::config`), so that programs and the tool agree; here is what the
//! tool alone needs.

mod service;
mod text;

use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf, absolute};
use std::time::Duration;

use tenure::config::{Config, Flags, KnownNodes, Serve, parse_duration, parse_max_hold};
pub(crate) use tenure::config::{NodeUrl, Source, Sourced};
use tenure::{Event, Locks, MaxHold, Wait};

pub(crate) use self::service::ServiceSettings;
use crate::args::{Common, ServeArgs};
use crate::failure::Failure;
use crate::output::Output;

/// What is in force: the library's settings, with the defaults of the tool.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    config: Config,
    /// Whom to ask instead of nodes.
    service: Option<ServiceSettings>,
}

/// A command that hangs must not hold its lock for ever; few run for longer than a day, and those
/// say so.
pub(crate) const RUN_MAX_HOLD_DEFAULT: Duration = Duration::from_secs(24 * 3600);

impl Settings {
    pub(crate) fn resolve(typed: &Common, may_use_service: bool) -> Result<Self, Failure> {
        let service = if may_use_service { ServiceSettings::resolve(typed)? } else { None };
        let mut flags = Flags::default();
        flags.nodes.clone_from(&typed.nodes);
        flags.config.clone_from(&typed.config);
        flags.require_nodes = typed.require_nodes;
        flags.prefix = match &typed.prefix[..] {
            [_, _, ..] => return Err(Failure::usage("--prefix is given twice; use it once")),
            given => given.first().cloned(),
        };
        flags.ttl.clone_from(&typed.ttl);
        flags.wait.clone_from(&typed.wait);
        flags.label.clone_from(&typed.label);
        flags.known_nodes.clone_from(&typed.known_nodes);
        flags.without_nodes = service.is_some();
        Ok(Self { config: Config::with_flags(&flags)?, service })
    }

    /// The service to ask, if it is not the nodes.
    pub(crate) const fn service(&self) -> Option<&ServiceSettings> {
        self.service.as_ref()
    }

    /// What `run` was told beyond that.
    pub(crate) fn for_run(&self, grace: Option<&str>, max_hold: Option<&str>) -> Result<Self, Failure> {
        let mut settings = self.clone();
        if let Some(grace) = grace {
            let value = parsed("--grace", parse_duration(grace))?;
            settings.grace = Sourced { value: Some(value), source: Source::Flag("--grace") };
        }
        if let Some(max_hold) = max_hold {
            let value = parsed("--max-hold", parse_max_hold(max_hold))?;
            settings.max_hold = Sourced { value: Some(value), source: Source::Flag("--max-hold") };
        }
        settings.max_hold.value.get_or_insert(MaxHold::AtMost(RUN_MAX_HOLD_DEFAULT));
        if settings.grace().saturating_mul(2) > settings.ttl.value {
            return Err(Failure::usage(format!(
                "{}: a grace of {:?} is more than half the ttl of {:?}; use a longer ttl or a shorter grace",
                settings.grace.source,
                settings.grace(),
                settings.ttl.value
            )));
        }
        Ok(settings)
    }

    /// What `lead` was told beyond that: a candidate waits, and leads, for as long as it takes.
    pub(crate) fn for_lead(&self, grace: Option<&str>, max_hold: Option<&str>) -> Result<Self, Failure> {
        let mut settings = self.for_run(grace, Some(max_hold.unwrap_or("forever")))?;
        settings.wait.value = Some(Wait::Forever);
        Ok(settings)
    }

    /// For how long a lock is kept from others at least.
    pub(crate) fn at_least(&self, typed: Option<&str>) -> Result<Duration, Failure> {
        typed.map_or(Ok(Duration::ZERO), |typed| parsed("--at-least", parse_duration(typed)))
    }

    /// How the lock service is reached, with what `serve` was told beyond that.
    pub(crate) fn for_serve(&self, args: &ServeArgs) -> Result<Serve, Failure> {
        fn typed<T>(setting: &mut Sourced<T>, flag: &'static str, value: Option<T>) {
            if let Some(value) = value {
                *setting = Sourced { value, source: Source::Flag(flag) };
            }
        }
        let here = |path: &Option<PathBuf>| path.clone().map(|path| Some(absolute(&path).unwrap_or(path)));
        let mut serve = self.serve.clone();
        if !args.listen.is_empty() {
            serve.listen_on("--listen", &args.listen)?;
        }
        typed(&mut serve.lease_key, "--lease-key", here(&args.lease_key));
        typed(&mut serve.callers, "--callers", here(&args.callers));
        typed(&mut serve.tls_certificate, "--tls-certificate", here(&args.tls_certificate));
        typed(&mut serve.tls_key, "--tls-key", here(&args.tls_key));
        typed(&mut serve.client_ca, "--client-ca", here(&args.client_ca));
        typed(&mut serve.behind_tls_proxy, "--behind-tls-proxy", args.behind_tls_proxy.then_some(true));
        typed(&mut serve.hosts, "--host", Some(args.host.clone()).filter(|hosts| !hosts.is_empty()));
        let log = |path: &Option<PathBuf>| if is_stderr(path) { Some(path.clone()) } else { here(path) };
        typed(&mut serve.access_log, "--access-log", log(&args.access_log));
        typed(&mut serve.audit_log, "--audit-log", log(&args.audit_log));
        Ok(serve)
    }

    /// How long before the end of its lock a command is told to stop.
    pub(crate) fn grace(&self) -> Duration {
        self.grace.value.unwrap_or(self.ttl.value / 4)
    }

    /// How long a node may take to answer: one that is near, and one that is far away.
    pub(crate) fn node_timeout_range(&self) -> (Duration, Duration) {
        let mut options = self.options();
        if self.is_embedded() {
            options.wait_for_disk();
        }
        options.node_timeout_range(self.ttl.value)
    }

    /// How long to wait for the lock. A script that is told nothing must not hang.
    pub(crate) fn wait(&self) -> Wait {
        self.wait.value.unwrap_or(Wait::No)
    }

    /// Where what is known of the nodes is kept, as it is shown.
    pub(crate) fn known_nodes(&self) -> String {
        match &self.known_nodes.value {
            KnownNodes::OfThisUser if self.is_embedded() => KnownNodes::Off.to_string(),
            known => known.to_string(),
        }
    }

    /// As [`Settings::connect`], and warns if what is known of the nodes cannot be kept.
    pub(crate) fn connect_aloud(
        &self,
        output: &Output,
        observer: impl Fn(&Event<'_>) + Send + Sync + 'static,
    ) -> Result<Locks, Failure> {
        let output = *output;
        self.connect(move |event| {
            if let Event::NodesNotRemembered { reason, .. } = event {
                output.warn_all(&[format!(
                    "{reason}. Without this file, this machine cannot tell when all nodes have lost their \
                     memory; fix it, or use another file (--known-nodes)"
                )]);
            }
            observer(event);
        })
    }

    /// Builds the manager. Nodes that cannot be reached are no failure yet.
    pub(crate) fn connect(
        &self,
        observer: impl Fn(&Event<'_>) + Send + Sync + 'static,
    ) -> Result<Locks, Failure> {
        let mut options = self.options();
        options.wait = self.wait();
        Ok(self.builder()?.defaults(options).observer(observer).build()?)
    }
}

impl Deref for Settings {
    type Target = Config;

    fn deref(&self) -> &Config {
        &self.config
    }
}

impl DerefMut for Settings {
    fn deref_mut(&mut self) -> &mut Config {
        &mut self.config
    }
}

fn parsed<T>(name: &str, value: Result<T, String>) -> Result<T, Failure> {
    value.map_err(|problem| Failure::usage(format!("{name}: {problem}")))
}

fn is_stderr(path: &Option<PathBuf>) -> bool {
    path.as_deref() == Some(Path::new("stderr"))
}
