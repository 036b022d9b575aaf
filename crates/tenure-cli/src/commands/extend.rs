//! `tenure extend`: a further term for a lock that a script holds by its token.

use crate::args::ExtendArgs;
use crate::backend::Backend;
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::hold::finish;
use crate::lease::{Lease, check_fence, exported_lock, token_of_nodes, token_of_service};
use crate::looking::refuse_absent_store;
use crate::output::Output;
use crate::service::Service;
use crate::settings::{ServiceSettings, Settings, Source};

pub(crate) async fn run(args: &ExtendArgs, settings: &Settings, output: &Output) -> Result<Exit, Failure> {
    let (name, token) = exported_lock(args.name.as_deref(), args.token.as_deref())?;
    match settings.service() {
        Some(service) => by_service(args, &name, &token, settings, service, output).await,
        None => by_nodes(args, &name, &token, settings, output).await,
    }
}

async fn by_nodes(
    args: &ExtendArgs,
    name: &str,
    token: &str,
    settings: &Settings,
    output: &Output,
) -> Result<Exit, Failure> {
    let token = token_of_nodes(token)?;
    check_fence(&token, args.fence)?;
    if !token.extends() {
        return Err(Failure::usage(
            "the token is from an older version of Tenure and cannot be extended; use it to release the \
             lock, then acquire it again",
        ));
    }
    refuse_absent_store(settings, name)?;
    let locks = settings.connect_aloud(output, |_| ())?;
    // The term that it was acquired with, unless another one was asked for.
    let ttl = if is_ttl_typed(settings) { settings.ttl.value } else { token.ttl() };
    let handover = token.handover(name, ttl);
    let guard = locks.resume(&handover).await?;
    let lease = Lease::hand_over(guard, ttl, Some(&token)).await;
    let written = output.lease(&lease);
    finish(&Backend::Nodes(locks), output).await;
    written.map(|()| Exit::DONE)
}

async fn by_service(
    args: &ExtendArgs,
    name: &str,
    token: &str,
    settings: &Settings,
    service: &ServiceSettings,
    output: &Output,
) -> Result<Exit, Failure> {
    if let Some(token) = token_of_service(token) {
        check_fence(&token, args.fence)?;
    }
    if is_ttl_typed(settings) {
        return Err(Failure::usage(
            "a service always extends by the ttl the lock was acquired with; omit --ttl",
        ));
    }
    let told = Service::connect(service)?.extend(&[name.to_owned()], token).await;
    let told = told.map_err(|trouble| trouble.failure(Some(name), Exit::HELD))?;
    output.lease(&told.lease())?;
    Ok(Exit::DONE)
}

fn is_ttl_typed(settings: &Settings) -> bool {
    settings.ttl.source == Source::Flag("--ttl")
}
