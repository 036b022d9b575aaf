//! Servers that are far away: behind proxies that hold everything back. Each turn starts a process,
//! so the way to the first lock is seen, too. Connections are made with the proxy, so the handshake
//! of TCP takes no time. The members of etcd are as far from each other as from the client.

use std::time::Duration;

use anyhow::Result;

use super::Bench;
use crate::peers::contender::{Contender, Runtime, Stores};
use crate::peers::protocol::Names;
use crate::peers::results::Section;
use crate::peers::servers::Servers;
use crate::peers::turns::{Cell, Stage};

const ROUND_TRIPS_MS: [u64; 5] = [0, 1, 10, 50, 150];

/// At least so many cycles of two round trips, and what they take beside that, are seen in a turn.
const CYCLES: u32 = 6;

pub(crate) fn run(bench: &Bench<'_>, section: &mut Section) -> Result<()> {
    let mut contenders = bench.contenders(|peer| std::iter::once(peer.plain(Runtime::Single)));
    contenders.retain(|Contender { peer, .. }| peer.stores != Stores::OneServer && !peer.is_for_cycles());
    let servers = Servers::start_far(&contenders)?;
    let mut stage = Stage::set(bench.installed, servers, &contenders, 1);
    for round in 0..bench.rounds {
        for round_trip_ms in bench.cells(&ROUND_TRIPS_MS, &[0, 10]) {
            let round_trip = Duration::from_millis(round_trip_ms);
            stage.servers.set_distance(round_trip);
            let name = format!("round trip {round_trip_ms} ms");
            section.progress(&name, round, bench.rounds);
            let cell = Cell::work(name, 1, Names::Once, bench.time.max(2 * CYCLES * round_trip));
            for index in 0..contenders.len() {
                stage.take_fresh_turn(index, section, &cell, round);
            }
        }
    }
    Ok(())
}
