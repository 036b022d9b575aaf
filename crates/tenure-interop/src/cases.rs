//! What is tried with every peer that it applies to.

mod counter;
mod dangers;
mod exclusion;
mod extension;
mod fairness;
mod fences;
mod keys;
mod kinds;
mod redisson;

use anyhow::Result;

use crate::peer::{Extends, Kind, Peer};
use crate::stage::Stage;

/// One case: what it is called, whom it concerns, and how it goes. It says what was seen.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// Whether the short run has it, too.
    pub(crate) quick: bool,
    pub(crate) applies: fn(&Peer, usize) -> bool,
    pub(crate) play: fn(&mut Stage<'_>) -> Result<String>,
}

/// Those of one peer, in order.
pub(crate) const CASES: &[Case] = &[
    Case { name: "exclusion", quick: true, applies: always, play: exclusion::both_ways },
    Case { name: "late releases", quick: true, applies: always, play: exclusion::late_releases },
    Case { name: "killed processes", quick: true, applies: always, play: exclusion::killed },
    Case { name: "counter", quick: true, applies: always, play: counter::exact },
    Case {
        name: "counter, two nodes killed",
        quick: false,
        applies: survives,
        play: counter::exact_with_nodes_killed,
    },
    Case {
        name: "counter, two nodes hung",
        quick: false,
        applies: survives,
        play: counter::exact_with_nodes_hung,
    },
    Case { name: "turns", quick: false, applies: always, play: fairness::turns },
    Case { name: "reservations end", quick: false, applies: always, play: fairness::reservations_end },
    Case { name: "other kinds", quick: true, applies: always, play: kinds::are_refused },
    Case { name: "fences", quick: true, applies: always, play: fences::grow },
    Case { name: "wake-ups", quick: true, applies: is_redisson, play: redisson::wake_ups },
    Case { name: "counts", quick: true, applies: is_redisson, play: redisson::counts },
    Case { name: "one owner", quick: true, applies: is_rlock, play: redisson::one_owner },
    Case { name: "watchdog", quick: true, applies: is_redisson, play: redisson::watchdog },
    Case { name: "emptied node", quick: false, applies: loses_nodes, play: dangers::emptied_node },
    Case { name: "emptied under ours", quick: false, applies: barges_in, play: dangers::emptied_under_ours },
    Case { name: "extend", quick: true, applies: extends, play: extension::makes_no_second_holder },
    Case { name: "keys", quick: true, applies: has_digests, play: keys::are_those_of_php },
];

/// The one with all of them at once.
pub(crate) const TOGETHER: Case =
    Case { name: "counter", quick: true, applies: always, play: counter::exact_together };

fn always(_: &Peer, _: usize) -> bool {
    true
}

fn survives(peer: &Peer, nodes: usize) -> bool {
    peer.survives_nodes && nodes == 5
}

fn is_redisson(peer: &Peer, _: usize) -> bool {
    peer.kind == Kind::Hash
}

fn is_rlock(peer: &Peer, nodes: usize) -> bool {
    peer.kind == Kind::Hash && nodes == 1
}

/// On one node everybody shows it; on more, whoever works while one is away.
fn loses_nodes(peer: &Peer, nodes: usize) -> bool {
    nodes == 1 || peer.survives_nodes
}

fn barges_in(peer: &Peer, nodes: usize) -> bool {
    peer.survives_nodes && nodes == 3
}

fn extends(peer: &Peer, nodes: usize) -> bool {
    peer.extends != Extends::Never && nodes > 1
}

fn has_digests(peer: &Peer, _: usize) -> bool {
    peer.kind == Kind::Digest
}
