//! `tenure release`: by its token; or by force, whoever has it.

use std::collections::BTreeSet;

use tenure::{LockReport, LockState, Locks, label_of_process};

use crate::args::ReleaseArgs;
use crate::backend::Backend;
use crate::ballot::Ballot;
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::lease::{check_fence, exported_lock, token_of_nodes, token_of_service};
use crate::looking::refuse_absent_store;
use crate::output::{Output, plain};
use crate::report::Report;
use crate::service::Service;
use crate::settings::Settings;

pub(crate) async fn run(args: &ReleaseArgs, settings: &Settings, output: &Output) -> Result<Exit, Failure> {
    if args.force {
        return by_force(args, settings, output).await;
    }
    let (name, token) = exported_lock(args.name.as_deref(), args.token.as_deref())?;
    match settings.service() {
        Some(_) => token_of_service(&token).map_or(Ok(()), |token| check_fence(&token, args.fence))?,
        None => check_fence(&token_of_nodes(&token)?, args.fence)?,
    }
    refuse_absent_store(settings, &name)?;
    let backend = Backend::connect_aloud(settings, output)?;
    let baton = backend.baton(&name, &token, settings.max_ttl.value)?;
    let released = backend.release(&baton, false).await;
    let unfinished = backend.shutdown(None).await.err();
    output.released(&name, &released?, unfinished.as_ref())?;
    Ok(Exit::DONE)
}

async fn by_force(args: &ReleaseArgs, settings: &Settings, output: &Output) -> Result<Exit, Failure> {
    // Nobody takes a lock by force that was not typed.
    let name = args.name.as_deref();
    let name = name.ok_or_else(|| Failure::usage("which lock? Use `tenure release --force NAME`"))?;
    refuse_absent_store(settings, name)?;
    match Backend::connect_aloud(settings, output)? {
        Backend::Nodes(locks) => from_nodes(args, name, &locks, settings, output).await,
        Backend::Service(service) => by_service(args, name, &service, output).await,
    }
}

async fn from_nodes(
    args: &ReleaseArgs,
    name: &str,
    locks: &Locks,
    settings: &Settings,
    output: &Output,
) -> Result<Exit, Failure> {
    let report = locks.inspect(name).await?;
    let owners = owners(&report, settings)?;
    confirm(args, &Report::from(report.clone()), output)?;
    let (mut released, mut failure) = (None, None);
    for owner in owners {
        match locks.release_by_force(name, owner).await {
            Ok(done) => released = Some(done.votes),
            Err(error) => failure = Some(Failure::from(error)),
        }
    }
    let unfinished = locks.shutdown().await.err();
    if let Some(failure) = failure {
        return Err(failure);
    }
    if let Some(votes) = &released {
        output.released(name, &Ballot::from(votes), unfinished.as_ref())?;
    }
    Ok(Exit::DONE)
}

async fn by_service(
    args: &ReleaseArgs,
    name: &str,
    service: &Service,
    output: &Output,
) -> Result<Exit, Failure> {
    let (report, holder) = service.holder(name).await?;
    let holder = holder.ok_or_else(|| nobody(name))?;
    confirm(args, &report, output)?;
    let votes = service.release_by_force(name, &holder, &label_of_process("release --force")).await?;
    output.released(name, &votes, None)?;
    Ok(Exit::DONE)
}

/// Says what it breaks, and asks if there is somebody to ask.
fn confirm(args: &ReleaseArgs, report: &Report, output: &Output) -> Result<(), Failure> {
    if !args.yes && output.confirm(&breakage(report, true)) == Some(false) {
        return Err(Failure::new(Exit::NO, "not_confirmed", "nothing was released").of_lock(&report.name));
    }
    output.note(&breakage(report, false));
    Ok(())
}

fn nobody(name: &str) -> Failure {
    let message = format!("lock {name:?} is not held; nothing to release");
    Failure::new(Exit::NO, "not_held", message).of_lock(name)
}

/// Everybody who has the lock on some node.
fn owners<'a>(report: &'a LockReport, settings: &Settings) -> Result<BTreeSet<&'a str>, Failure> {
    let (name, owners) = (&report.name, report.owners());
    // It would be refused after all was confirmed.
    if let Some(holding) = report.foreign() {
        return Err(Failure::new(
            Exit::NO,
            "foreign",
            format!(
                "lock {name:?} is held through another library; delete the key {:?} on its nodes by hand",
                plain(&holding.key)
            ),
        )
        .of_lock(name));
    }
    if owners.is_empty() {
        return Err(match report.state {
            LockState::Unknown => Failure::unknown(report, settings),
            _ => nobody(name),
        });
    }
    Ok(owners)
}

/// What a release by force breaks.
fn breakage(report: &Report, question: bool) -> String {
    let (name, label) = (&report.name, report.label.as_deref().map(plain));
    let (verb, end) = if question { ("take", "Take it?") } else { ("taking", "") };
    let all = match (&report.owner, report.holds, report.readers) {
        (Some(owner), Some(holds @ 2..), _) => Some(format!("all {holds} holds of owner {}", plain(owner))),
        (None, _, Some(readers @ 2..)) => Some(format!("all {readers} readers")),
        _ => None,
    };
    let Some(all) = all else {
        let holder = label.unwrap_or_else(|| "its holder".to_owned());
        return format!(
            "{verb} {name:?} from {holder}, which is not notified and keeps running until its next renewal \
             fails: two processes may run at once. {end}"
        );
    };
    let one = label.map_or_else(String::new, |label| format!(" (including {label})"));
    format!(
        "{verb} {name:?} from {all}{one}, which are not notified and keep running until their next \
         renewals fail: others may run at the same time. {end}"
    )
}
