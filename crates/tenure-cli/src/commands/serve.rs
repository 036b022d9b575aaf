//! `tenure serve`: locks for programs in any language, over HTTP.

mod systemd;

use std::fs::File;
use std::io::IsTerminal;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use tenure::config::{Serve, state_folder};
#[cfg(feature = "otlp")]
use tenure_server::Traces;
use tenure_server::{Door, DoorError, Events, LeaseKeyFileError, LeaseKeys, LogFile, Metrics, Service};

use crate::args::ServeArgs;
use crate::backend::Backend;
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::hold::finish;
use crate::output::{Output, Serving};
use crate::settings::{Settings, Sourced};
use crate::signals::{Signal, Signals, ends_wait};

/// Tokio's own word for how many threads there are.
const THREADS_VARIABLE: &str = "TOKIO_WORKER_THREADS";

/// A thread for every two cores, unless it is said: what a call takes is little beside waking
/// another thread for it, and the nodes may be on the same machine.
pub(crate) fn runtime() -> tokio::runtime::Builder {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    if std::env::var_os(THREADS_VARIABLE).is_none() {
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        runtime.worker_threads((cores / 2).max(1));
    }
    runtime
}

pub(crate) async fn run(args: &ServeArgs, settings: &Settings, output: &Output) -> Result<Exit, Failure> {
    let serve = settings.for_serve(args)?;
    let door = Door::of(&serve).map_err(|error| refused(&error))?;
    let signals = Signals::install()?;
    #[cfg(feature = "otlp")]
    let _traces = Traces::begin().map_err(|error| Failure::usage(error.to_string()))?;
    #[cfg(not(feature = "otlp"))]
    if let Some((variable, _)) = tenure_server::collector() {
        output.warn_all(&[format!(
            "{variable} is set, but this build cannot send spans; build with --features otlp"
        )]);
    }
    let (keys, made_key) = match &serve.lease_key.value {
        Some(path) => (LeaseKeys::read(path).map_err(|error| no_key(&error))?, None),
        None => key_of_machine()?,
    };
    let metrics = Metrics::new(serve.metrics_groups.value.clone());
    let events = Events::default();
    let observers = (metrics.clone(), events.clone());
    let locks = settings.connect_aloud(output, move |event| {
        observers.0.observe(event);
        observers.1.observe(event);
    })?;
    let logs = Logs::open(&serve)?;
    let listeners = door.listen().await.map_err(|error| refused(&error))?;
    output.serving(&Serving {
        urls: &listeners.urls(),
        settings,
        made_key,
        has_callers: door.callers().are_listed(),
    })?;
    let reloaded = Reloaded {
        door: door.clone(),
        keys: keys.clone(),
        key_file: serve.lease_key.value,
        logs: logs.clone(),
    };
    let service = logs.of(Service::new(locks.clone(), keys).metrics(metrics).events(events).behind(&door));
    let service = systemd::watched(service);
    systemd::tell_ready(&listeners.urls());
    let served = service.serve(listeners, until_the_end(signals, reloaded, *output)).await;
    if let Err(cut_off) = served {
        output.warn_all(&[cut_off.to_string()]);
    }
    finish(&Backend::Nodes(locks), output).await;
    Ok(Exit::DONE)
}

/// Resolves when a signal says that it is to end; reads files again when one says so.
async fn until_the_end(mut signals: Signals, files: Reloaded, output: Output) {
    let at_terminal = std::io::stdin().is_terminal();
    loop {
        match signals.next().await {
            Signal::SIGHUP if !(at_terminal && terminal_is_gone()) => {
                systemd::tell_reloading();
                files.reload(&output);
                systemd::tell_reloaded();
            }
            signal if ends_wait(signal) => return systemd::tell_stopping(),
            _ => {}
        }
    }
}

/// Somebody who closes a terminal wants to be rid of what runs in it.
fn terminal_is_gone() -> bool {
    File::open(Path::new("/dev/tty")).is_err()
}

/// What is read again while it runs.
struct Reloaded {
    door: Door,
    keys: LeaseKeys,
    /// The one of this machine is never changed.
    key_file: Option<PathBuf>,
    logs: Logs,
}

impl Reloaded {
    /// What cannot be read or opened again stays as it was, and the others are read all the same.
    fn reload(&self, output: &Output) {
        let mut errors: Vec<String> = self.door.reload().iter().map(ToString::to_string).collect();
        if let Some(Err(error)) = self.key_file.as_deref().map(|path| self.keys.reload(path)) {
            errors.push(error.to_string());
        }
        errors.extend(self.logs.reopen());
        if errors.is_empty() {
            output.note("reloaded callers, certificates and lease keys; reopened log files");
        }
        let warning = |error| format!("not reloaded, keeping the previous configuration: {error}");
        output.warn_all(&errors.into_iter().map(warning).collect::<Vec<_>>());
    }
}

/// Where the service writes what happens.
#[derive(Clone)]
struct Logs {
    access: Option<LogFile>,
    audit: LogFile,
}

impl Logs {
    fn open(serve: &Serve) -> Result<Self, Failure> {
        let open = |log: &Sourced<Option<PathBuf>>| match &log.value {
            None => Ok(None),
            Some(path) if path == Path::new("stderr") => Ok(Some(LogFile::stderr())),
            Some(path) => LogFile::open(path).map(Some).map_err(|error| {
                let (source, path) = (&log.source, path.display());
                Failure::usage(format!("{source}: cannot write {path}: {error}; use another file"))
            }),
        };
        Ok(Self { access: open(&serve.access_log)?, audit: open(&serve.audit_log)?.unwrap_or_default() })
    }

    fn of(&self, service: Service) -> Service {
        let service = service.audit_log(self.audit.clone());
        match &self.access {
            Some(access) => service.access_log(access.clone()),
            None => service,
        }
    }

    fn reopen(&self) -> Vec<String> {
        let all = self.access.iter().chain([&self.audit]);
        all.filter_map(|log| log.reopen().err()).map(|error| format!("a log file: {error}")).collect()
    }
}

/// A key of its own is enough as long as all instances are on this machine.
fn key_of_machine() -> Result<(LeaseKeys, Option<String>), Failure> {
    let folder = state_folder().ok_or_else(|| {
        Failure::usage("no folder for a lease key: set XDG_STATE_HOME or HOME, or use --lease-key")
    })?;
    let (keys, path) = LeaseKeys::of_machine(&folder).map_err(|error| no_key(&error))?;
    Ok((keys, Some(path.display().to_string())))
}

fn no_key(error: &LeaseKeyFileError) -> Failure {
    Failure::usage(error.to_string())
}

fn refused(error: &DoorError) -> Failure {
    Failure::usage(error.to_string())
}
