//! One lock that 16 workers want, in one process and in four, with and without a hold.

use std::time::Duration;

use anyhow::Result;

use super::Bench;
use crate::peers::contender::{Contender, Runtime};
use crate::peers::protocol::Names;
use crate::peers::results::Section;
use crate::peers::servers::Servers;
use crate::peers::turns::{Cell, Stage};

const WORKERS: usize = 16;
const PROCESSES: usize = 4;

pub(crate) fn run(bench: &Bench<'_>, section: &mut Section) -> Result<()> {
    let mut contenders = bench.waiting(Runtime::Single);
    // Passing on has one floor.
    contenders.retain(|Contender { peer, .. }| !peer.is_for_cycles());
    let servers = Servers::start(5, &contenders)?;
    let mut stage = Stage::set(bench.installed, servers, &contenders, PROCESSES);
    stage.prepare(|_| true);
    let mut cells = vec![];
    let places = [(PROCESSES, "four processes"), (1, "one process")];
    for (processes, place) in bench.cells(&places, &places[..1]) {
        // Each worker has to be served often enough to see how fair that was.
        for (hold_ms, times) in [(0, 2), (5, 4)] {
            let name = format!("{place}, hold {hold_ms} ms");
            let mut cell = Cell::work(name, WORKERS, Names::Shared, times * bench.time);
            cell.job.hold = Duration::from_millis(hold_ms);
            cell.processes = processes;
            cells.push(cell);
        }
    }
    stage.take_turns(section, &cells, bench.rounds, true);
    Ok(())
}
