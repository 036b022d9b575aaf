//! `tenure fleet change` and `tenure fleet forget`: for operators who replace machines.

use std::time::Instant;

use tenure::config::NodeUrl;
use tenure::{Builder, FleetChange, FleetError, FleetProgress, Node};

use crate::args::{ChangeArgs, FleetCommand, ForgetArgs};
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::settings::{Settings, Source, Sourced};

pub(crate) async fn run(
    command: &FleetCommand,
    settings: &Settings,
    output: &Output,
) -> Result<Exit, Failure> {
    match command {
        FleetCommand::Change(args) => change(args, settings, output).await,
        FleetCommand::Forget(args) => forget(args, settings, output).await,
    }
}

async fn change(args: &ChangeArgs, settings: &Settings, output: &Output) -> Result<Exit, Failure> {
    let mut next = with_nodes(settings, "--to", &args.to)?;
    if let Some(fleet) = &args.to_fleet {
        next.fleet = Sourced { value: Some(fleet.clone()), source: Source::Flag("--to-fleet") };
    }
    let mut change = FleetChange::new(settings.builder()?, next.builder()?);
    for gone in &args.gone {
        change = change.gone(Node::parse(gone).map_err(tenure::BuildError::from)?);
    }
    if args.abort {
        change = change.abort();
    }
    let (begun, mut closed, mut waiting, mut clocks) = (Instant::now(), None, false, false);
    let done = change.run(|progress| {
        match progress {
            FleetProgress::Closed => closed = Some(Instant::now()),
            // Once is enough: it says how long it takes.
            FleetProgress::Waiting { .. } if std::mem::replace(&mut waiting, true) => return,
            FleetProgress::Clocks { .. } if std::mem::replace(&mut clocks, true) => return,
            _ => {}
        }
        output.note(&progress.to_string());
    });
    done.await?;
    let without_locks = closed.map(|closed| closed.elapsed());
    output.changed(settings, &next, args.abort, begun.elapsed(), without_locks)?;
    Ok(Exit::DONE)
}

async fn forget(args: &ForgetArgs, settings: &Settings, output: &Output) -> Result<Exit, Failure> {
    let forgotten = with_nodes(settings, "NODE", &args.nodes.join(","))?;
    let masked: Vec<String> = forgotten.nodes.value.iter().map(NodeUrl::masked).collect();
    let question = format!(
        "Remove {} from its fleet? First stop its clients or give them other nodes: locks on it may still \
         be held. It votes again after a quarantine.",
        masked.join(", ")
    );
    if !args.yes && output.confirm(&question) == Some(false) {
        return Err(Failure::new(Exit::NO, "not_confirmed", "nothing was forgotten"));
    }
    tenure::forget_nodes(forgotten.builder()?).await?;
    output.forgotten(&masked)?;
    Ok(Exit::DONE)
}

/// The same settings, with other nodes.
fn with_nodes(settings: &Settings, from: &'static str, urls: &str) -> Result<Settings, Failure> {
    let urls: Vec<&str> = urls.split(',').map(str::trim).filter(|url| !url.is_empty()).collect();
    if urls.is_empty() {
        return Err(Failure::usage(format!("{from} is empty; expected node URLs, separated by commas")));
    }
    let mut other = settings.clone();
    let value = urls.into_iter().map(NodeUrl::new).collect();
    other.nodes = Sourced { value, source: Source::Flag(from) };
    let _: Builder = other.builder()?;
    Ok(other)
}

impl From<FleetError> for Failure {
    fn from(error: FleetError) -> Self {
        let message = error.to_string();
        match error {
            FleetError::Build(error) => Self::from(error),
            FleetError::Unreachable { .. } => Self::new(Exit::UNAVAILABLE, "unavailable", message),
            FleetError::Settings | FleetError::NotGone { .. } => Self::usage(message),
            _ => Self::new(Exit::NO, "fleet_refused", message),
        }
    }
}
