//! `tenure serve`: locks for programs in any language, over HTTP.

use std::net::SocketAddr;
use std::path::Path;

use tenure::config::state_folder;
use tenure_server::{LeaseKeyFileError, LeaseKeys, LogFile, Metrics, Service};
use tokio::net::TcpListener;

use crate::args::ServeArgs;
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::hold::finish;
use crate::output::{Output, Serving};
use crate::settings::Settings;
use crate::signals::{Signals, ends_wait};

pub(crate) async fn run(args: &ServeArgs, settings: &Settings, output: &Output) -> Result<Exit, Failure> {
    if !args.listen.ip().is_loopback() {
        return Err(Failure::usage(format!(
            "--listen {}: not a loopback address, and the service has no authentication yet; listen on 127.0.0.1 or [::1], \
             behind a proxy that authenticates callers",
            args.listen
        )));
    }
    let mut signals = Signals::install()?;
    let (keys, made_key) = match &args.lease_key {
        Some(path) => (LeaseKeys::read(path).map_err(|error| failure(&error))?, None),
        None => key_of_machine()?,
    };
    let metrics = Metrics::default();
    let observer = metrics.clone();
    let locks = settings.connect_aloud(output, move |event| observer.observe(event))?;
    let listener = listen(args.listen).await?;
    let address = listener.local_addr().unwrap_or(args.listen);
    output.serving(&Serving { address, settings, made_key })?;
    let end = async move { while !ends_wait(signals.next().await) {} };
    let mut service = Service::new(locks.clone(), keys).metrics(metrics);
    service = service.audit_log(log("--audit-log", &args.audit_log)?);
    if let Some(path) = &args.access_log {
        service = service.access_log(log("--access-log", path)?);
    }
    let served = service.serve(listener, end).await;
    finish(&locks, output).await;
    served.map_err(|error| Failure::internal(format!("cannot serve any longer: {error}")))?;
    Ok(Exit::DONE)
}

fn log(flag: &str, path: &Path) -> Result<LogFile, Failure> {
    if path == Path::new("stderr") {
        return Ok(LogFile::stderr());
    }
    LogFile::open(path).map_err(|error| {
        Failure::usage(format!("{flag} {}: cannot be written: {error}; name another file", path.display()))
    })
}

async fn listen(address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|error| {
        Failure::usage(format!("cannot listen on {address}: {error}; name another port with --listen"))
    })
}

/// A key of its own is enough as long as all instances are on this machine.
fn key_of_machine() -> Result<(LeaseKeys, Option<String>), Failure> {
    let folder = state_folder().ok_or_else(|| {
        Failure::usage(
            "there is no folder to keep a lease key in: set XDG_STATE_HOME or HOME, or name a key with --lease-key",
        )
    })?;
    let (keys, path) = LeaseKeys::of_machine(&folder).map_err(|error| failure(&error))?;
    Ok((keys, Some(path.display().to_string())))
}

fn failure(error: &LeaseKeyFileError) -> Failure {
    Failure::usage(error.to_string())
}
