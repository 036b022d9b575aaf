//! Runs the cases, one after the other, and says how far it is.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use crate::cases::{CASES, Case, TOGETHER};
use crate::peer::{Installed, Kind, PEERS, Peer};
use crate::report::{Outcome, Report, Row};
use crate::stage::Stage;

/// What is run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// These peers alone; all if there is none.
    pub peers: Vec<String>,
    /// These cases alone, by a part of their names; all if there is none.
    pub cases: Vec<String>,
    /// The short form.
    pub quick: bool,
}

/// Runs all that is wanted, and tells `progress` what was done.
pub fn run(installed: &Installed, options: &Options, progress: &mut dyn FnMut(&str)) -> Report {
    let mut report = Report::default();
    let is_wanted = |name: &str| options.peers.is_empty() || options.peers.iter().any(|peer| peer == name);
    for peer in PEERS.iter().filter(|peer| is_wanted(peer.name)) {
        run_peer(installed, peer, options, &mut report, progress);
    }
    // All that share a string at the name, at once.
    if is_wanted("together") {
        let shares = |peer: &&Peer| peer.kind == Kind::String && installed.check(peer).is_ok();
        let peers: Vec<&Peer> = PEERS.iter().filter(shares).collect();
        if peers.len() < 2 {
            report.not_run.push(("together", "fewer than two peers with a string key are here".to_owned()));
            return report;
        }
        for nodes in if options.quick { vec![3] } else { vec![1, 3, 5] } {
            let outcome = play(installed, peers[0], nodes, options.quick, &TOGETHER);
            progress(&line("together", nodes, &outcome));
            let names: Vec<&str> = peers.iter().map(|peer| peer.name).collect();
            report.rows.push(Row {
                peer: "together",
                version: names.join(", "),
                nodes,
                cases: vec![outcome],
            });
        }
    }
    report
}

/// Runs the cases of one peer.
pub fn run_peer(
    installed: &Installed,
    peer: &'static Peer,
    options: &Options,
    report: &mut Report,
    progress: &mut dyn FnMut(&str),
) {
    if let Err(why) = installed.check(peer) {
        progress(&format!("{}: not run: {why}", peer.name));
        report.not_run.push((peer.name, why));
        return;
    }
    let most = peer.nodes.iter().max().copied();
    for &nodes in peer.nodes {
        let mut cases = vec![];
        for case in CASES.iter().filter(|case| (case.applies)(peer, nodes)) {
            let is_named = options.cases.iter().any(|part| case.name.contains(part.as_str()));
            // The short form has most of its cases on the most nodes that the peer shares.
            let is_short = case.quick && (Some(nodes) == most || case.name == "exclusion");
            if (options.quick && !is_short) || !(options.cases.is_empty() || is_named) {
                continue;
            }
            let outcome = play(installed, peer, nodes, options.quick, case);
            progress(&line(peer.name, nodes, &outcome));
            cases.push(outcome);
        }
        if !cases.is_empty() {
            report.rows.push(Row { peer: peer.name, version: peer.version.to_owned(), nodes, cases });
        }
    }
}

fn line(peer: &str, nodes: usize, outcome: &Outcome) -> String {
    let (word, seen) = match &outcome.result {
        Ok(seen) => ("passed", seen),
        Err(wrong) => ("FAILED", wrong),
    };
    let (case, seconds) = (outcome.case, outcome.took.as_secs_f64());
    format!("{peer}, nodes {nodes}, {case}: {word} in {seconds:.1} s: {seen}")
}

/// Plays one case on servers of its own.
fn play(installed: &Installed, peer: &Peer, nodes: usize, quick: bool, case: &Case) -> Outcome {
    let begun = Instant::now();
    let played = catch_unwind(AssertUnwindSafe(|| {
        let mut stage = Stage::new(installed, peer, nodes, quick)?;
        (case.play)(&mut stage)
    }));
    let result = match played {
        Ok(Ok(seen)) => Ok(seen),
        Ok(Err(error)) => Err(format!("{error:#}")),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            Err(text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("panicked").to_owned())
        }
    };
    Outcome { case: case.name, result, took: begun.elapsed() }
}
