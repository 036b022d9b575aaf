//! `tenure release`: by its token; or by force, whoever has it.

use std::collections::BTreeSet;

use tenure::{Holding, LockReport, LockState, OwnerToken};

use crate::args::ReleaseArgs;
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::lease::{check_fence, exported_lock};
use crate::looking::refuse_absent_store;
use crate::output::{Output, plain};
use crate::settings::Settings;

pub(crate) async fn run(args: &ReleaseArgs, settings: &Settings, output: &Output) -> Result<Exit, Failure> {
    let (name, token) = match (&args.name, args.force) {
        // Nobody takes a lock by force that was not typed.
        (Some(name), true) => (name.clone(), None),
        (None, true) => return Err(Failure::usage("name the lock to take: `tenure release --force NAME`")),
        (name, false) => {
            let (name, token) = exported_lock(name.as_deref(), args.token.as_deref())?;
            check_fence(&token, args.fence)?;
            (name, Some(token))
        }
    };
    let name = &name;
    refuse_absent_store(settings, name)?;
    let locks = settings.connect_aloud(output, |_| ())?;
    let (mut released, mut failure) = (None, None);
    match token {
        Some(token) => {
            let handover = token.handover(name, token.ttl().min(settings.max_ttl.value));
            match locks.release(&handover).await {
                Ok(done) => released = Some(done.votes),
                Err(error) => failure = Some(Failure::from(error)),
            }
        }
        None => {
            let report = locks.inspect(name).await?;
            let owners = owners(&report, settings)?;
            if !args.yes && output.confirm(&breakage(&report, true)) == Some(false) {
                return Err(Failure::new(Exit::NO, "not_confirmed", "nothing was released").of_lock(name));
            }
            output.note(&breakage(&report, false));
            for owner in owners {
                match locks.release_by_force(name, owner).await {
                    Ok(done) => released = Some(done.votes),
                    Err(error) => failure = Some(Failure::from(error)),
                }
            }
        }
    }
    let unfinished = locks.shutdown().await.err();
    if let Some(failure) = failure {
        return Err(failure);
    }
    if let Some(votes) = &released {
        output.released(name, votes, unfinished.as_ref())?;
    }
    Ok(Exit::DONE)
}

/// Everybody who has the lock on some node.
fn owners<'a>(report: &'a LockReport, settings: &Settings) -> Result<BTreeSet<&'a str>, Failure> {
    let (name, owners) = (&report.name, report.owners());
    let mut holdings = report.nodes.iter().filter_map(|answer| answer.holding.as_ref().ok()?.as_ref());
    let foreign = |holding: &&Holding| !holding.is_reserved() && OwnerToken::parse(&holding.owner).is_err();
    // It would be refused after all was confirmed.
    if let Some(holding) = holdings.find(foreign) {
        return Err(Failure::new(
            Exit::NO,
            "foreign",
            format!(
                "lock {name:?} is held by a client of another library; delete the key {:?} on its nodes by hand",
                plain(&holding.key)
            ),
        )
        .of_lock(name));
    }
    if owners.is_empty() {
        let nobody = || format!("lock {name:?} is not held; there is nothing to release");
        return Err(match report.state {
            LockState::Unknown => Failure::unknown(report, settings),
            _ => Failure::new(Exit::NO, "not_held", nobody()).of_lock(name),
        });
    }
    Ok(owners)
}

/// What a release by force breaks.
fn breakage(report: &LockReport, question: bool) -> String {
    let holder = match &report.state {
        LockState::Held { label: Some(label), .. } => plain(label),
        _ => "its holder".to_owned(),
    };
    let (verb, end) = if question { ("take", "Take it?") } else { ("taking", "") };
    format!(
        "{verb} {:?} away from {holder}, who is not told at once and goes on working: until then two processes may run at once. {end}",
        report.name
    )
}
