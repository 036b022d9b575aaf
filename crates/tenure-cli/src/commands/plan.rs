//! `tenure plan`: what a load of locks needs.

use std::path::Path;
use std::time::Duration;

use tenure::config::parse_duration;

use crate::args::{Common, PlanArgs};
use crate::capacity::costs::Costs;
use crate::capacity::load::Load;
use crate::capacity::plan::Plan;
use crate::capacity::spread::fleet_of;
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::output::Output;

/// What a fleet has unless something else is said: two nodes may fail.
const NODES_DEFAULT: usize = 5;

/// The defaults of the library.
const TTL_DEFAULT: Duration = Duration::from_secs(30);
const MAX_TTL_DEFAULT: Duration = Duration::from_secs(60);

/// How long nodes remember fences, in seconds.
const DAY: f64 = 86_400.0;

pub(crate) fn run(args: &PlanArgs, common: &Common, output: &Output) -> Result<Exit, Failure> {
    let duration = |flag: &str, text: &str| {
        parse_duration(text).map_err(|problem| Failure::usage(format!("--{flag}: {problem}")))
    };
    let ttl = common.ttl.as_deref().map_or(Ok(TTL_DEFAULT), |text| duration("ttl", text))?;
    let load = Load {
        per_second: args.locks_per_second,
        held: args.held.unwrap_or(args.locks_per_second),
        waiters: args.waiters,
        names: args.names.unwrap_or_else(|| (args.locks_per_second * DAY).max(1.0)),
        clients: args.clients,
        ttl,
        max_ttl: ttl.max(MAX_TTL_DEFAULT),
        nodes: common.nodes.as_deref().map_or(Ok(NODES_DEFAULT), nodes)?,
        round_trip: duration("rtt", &args.rtt)?,
        cores: args.cores,
    };
    let costs = args.measured.as_deref().map_or(Ok(Costs::MEASURED), measured)?;
    let plan = Plan::new(load.check().map_err(Failure::usage)?, &costs);
    output.plan(&plan, &places(&args.place, plan.fleets))?;
    Ok(Exit::DONE)
}

/// A number, or as many as are named.
fn nodes(text: &str) -> Result<usize, Failure> {
    if text.contains(':') {
        return Ok(text.split(',').filter(|url| !url.trim().is_empty()).count());
    }
    let problem =
        || Failure::usage(format!("--nodes {text:?}: expected the number of nodes in a fleet, such as 5"));
    text.parse().map_err(|_| problem())
}

/// What was measured on one's own nodes, in place of what is built in.
fn measured(path: &Path) -> Result<Costs, Failure> {
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::usage(format!("--measured {shown}: cannot read it: {error}")))?;
    let wrong = |reason: String| {
        Failure::usage(format!("--measured {shown}: not the output of `tenure bench --json`: {reason}"))
    };
    let benchmark = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    Costs::MEASURED.with_measured(&benchmark).map_err(wrong)
}

/// The fleet of each name; fleets are called f1, f2 and so on.
fn places(names: &[String], fleets: f64) -> Vec<(String, String)> {
    let fleets: Vec<String> = (1..)
        .take_while(|number| f64::from(*number) <= fleets)
        .map(|number: u32| format!("f{number}"))
        .collect();
    let place = |name: &String| {
        let fleet = fleet_of(name, fleets.iter().map(String::as_str)).unwrap_or_default();
        (name.clone(), fleet.to_owned())
    };
    names.iter().map(place).collect()
}
