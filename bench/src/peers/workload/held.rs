//! Many locks held by one process: what a renewal costs it. Clients that renew by themselves are
//! left alone for two terms; for the others the driver extends each lock once.

use std::time::Duration;

use anyhow::Result;

use super::Bench;
use crate::peers::contender::{Contender, Language, Peer, Runtime};
use crate::peers::protocol::{Kind, Names};
use crate::peers::results::Section;
use crate::peers::servers::Servers;
use crate::peers::turns::{Cell, Stage};

const LOCKS: usize = 10_000;

/// So many for those that would take minutes to acquire more.
const LOCKS_OF_THE_SLOW: usize = 500;

/// These cannot extend a lock.
const UNABLE: [&str; 2] = ["redlock-rs", "redlock-py"];

/// Two renewals of each lock.
const TIME: Duration = Duration::from_secs(20);

pub(crate) fn run(bench: &Bench<'_>, section: &mut Section) -> Result<()> {
    // With the settings that it comes with, rueidislock wakes itself with each renewal, for ever.
    let tuned =
        |peer: &&'static Peer| peer.waiting(Runtime::Single).last().filter(|_| peer.name == "rueidislock");
    let used = |peer: &&'static Peer| tuned(peer).unwrap_or_else(|| peer.plain(Runtime::Single));
    let takes_part = |peer: &&&'static Peer| !peer.is_for_cycles() && !UNABLE.contains(&peer.name);
    let contenders: Vec<Contender> = bench.peers.iter().filter(takes_part).map(used).collect();
    let servers = Servers::start(5, &contenders)?;
    let mut stage = Stage::set(bench.installed, servers, &contenders, 1);
    for (index, contender) in contenders.iter().enumerate() {
        section.progress(&contender.to_string(), 0, 1);
        let mut cell = Cell::work("10,000 locks".to_owned(), 16, Names::Once, TIME);
        cell.job.kind = Kind::Hold;
        if bench.quick {
            cell.job.time = TIME / 2;
        }
        cell.job.locks = if contender.peer.language == Language::Python { LOCKS_OF_THE_SLOW } else { LOCKS };
        stage.take_fresh_turn(index, section, &cell, 0);
    }
    Ok(())
}
