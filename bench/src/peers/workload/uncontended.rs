//! Locks that nobody competes for: latency with one task, throughput with more, on every runtime,
//! with names that are used once (the dearest for the servers) and a few that are used again.

use anyhow::Result;

use super::Bench;
use crate::peers::contender::Peer;
use crate::peers::protocol::Names;
use crate::peers::results::Section;
use crate::peers::servers::Servers;
use crate::peers::turns::{Cell, Stage};

const TASKS: [usize; 5] = [1, 4, 16, 64, 256];

pub(crate) fn run(bench: &Bench<'_>, section: &mut Section) -> Result<()> {
    let contenders = bench.contenders(Peer::everywhere);
    let servers = Servers::start(5, &contenders)?;
    let mut stage = Stage::set(bench.installed, servers, &contenders, 1);
    stage.prepare(|_| true);
    let mut cells = vec![];
    let few = [1, 64];
    for tasks in bench.cells(&TASKS, &few) {
        cells.push(Cell::work(cell_name(tasks, "names used once"), tasks, Names::Once, bench.time));
    }
    for tasks in bench.cells(&few, &[]) {
        cells.push(Cell::work(cell_name(tasks, "names used again"), tasks, Names::Reused, bench.time));
    }
    let cells: Vec<Cell> = cells.into_iter().map(Cell::on_clean_servers).collect();
    stage.take_turns(section, &cells, bench.rounds, true);
    Ok(())
}

fn cell_name(tasks: usize, names: &str) -> String {
    format!("{tasks} {}, {names}", if tasks == 1 { "task" } else { "tasks" })
}
