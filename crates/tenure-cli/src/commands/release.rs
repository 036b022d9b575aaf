//! `tenure release`: by its token; or by force, whoever has it.

use std::collections::BTreeSet;

use tenure::{Handover, LockReport, LockState, OwnerToken, ReleaseError};

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
    let handovers = match token {
        Some(token) => vec![token.handover(name, token.ttl().min(settings.max_ttl.value))],
        None => {
            let report = locks.inspect(name).await?;
            let owners = owners(&report, settings)?;
            if !args.yes && output.confirm(&breakage(&report, true)) == Some(false) {
                return Err(Failure::new(Exit::NO, "not_confirmed", "nothing was released").of_lock(name));
            }
            output.note(&breakage(&report, false));
            owners.into_iter().map(|owner| Handover::new(name, owner, settings.ttl.value)).collect()
        }
    };
    let by_force = args.force;
    let (mut released, mut failure) = (None, None);
    for handover in &handovers {
        match locks.release(handover).await {
            Ok(done) => released = Some(done.votes),
            // By force, a minority of nodes is enough. Its votes may come after the majority's.
            Err(ReleaseError::NotHeld { votes, .. }) if by_force => released = Some(votes),
            Err(error) => failure = Some(Failure::from(error)),
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
fn owners(report: &LockReport, settings: &Settings) -> Result<BTreeSet<OwnerToken>, Failure> {
    let name = &report.name;
    let held = report.nodes.iter().filter_map(|answer| answer.holding.as_ref().ok()?.as_ref());
    let mut owners = BTreeSet::new();
    for holding in held.filter(|holding| !holding.is_reserved()) {
        let owner = OwnerToken::parse(&holding.owner).map_err(|_| {
            Failure::new(
                Exit::NO,
                "foreign",
                format!(
                    "lock {name:?} is held by a client of another library; delete the key {:?} on its nodes by hand",
                    plain(&holding.key)
                ),
            )
            .of_lock(name)
        })?;
        owners.insert(owner);
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
