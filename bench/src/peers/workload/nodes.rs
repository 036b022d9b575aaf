//! One, three, five, seven and nine Redis servers, for those that ask them all.

use anyhow::Result;

use super::Bench;
use crate::peers::contender::{Contender, Runtime, Stores};
use crate::peers::protocol::Names;
use crate::peers::results::Section;
use crate::peers::servers::Servers;
use crate::peers::turns::{Cell, Stage};

const COUNTS: [usize; 5] = [1, 3, 5, 7, 9];
const TASKS: [usize; 2] = [1, 64];

pub(crate) fn run(bench: &Bench<'_>, section: &mut Section) -> Result<()> {
    let mut contenders = bench.contenders(|peer| std::iter::once(peer.plain(Runtime::Threads2)));
    contenders.retain(|Contender { peer, .. }| peer.stores == Stores::Quorum && !peer.is_for_cycles());
    for count in bench.cells(&COUNTS, &[3, 9]) {
        let servers = Servers::start(count, &contenders)?;
        let mut stage = Stage::set(bench.installed, servers, &contenders, 1);
        stage.prepare(|_| true);
        let cells = TASKS.map(|tasks| {
            let tasks_text = if tasks == 1 { "task" } else { "tasks" };
            let servers = if count == 1 { "server" } else { "servers" };
            let name = format!("{count} {servers}, {tasks} {tasks_text}");
            Cell::work(name, tasks, Names::Once, bench.time)
        });
        stage.take_turns(section, &cells, bench.rounds, true);
    }
    Ok(())
}
