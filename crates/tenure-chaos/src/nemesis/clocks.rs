//! Moves the clocks of servers, and puts them right.

use super::{AGAIN_NS, Action, NS_PER_MS, Nemesis};
use crate::history::{Ns, now};
use crate::report::{What, Where};

/// Clients that have not seen a clock for so long after it was to be put right are replaced by new
/// ones.
const BLIND_NS: Ns = 2_000 * NS_PER_MS;

/// Steps up to this are counted by themselves.
const LITTLE_MS: i64 = 3_000;

impl Nemesis<'_> {
    pub(super) fn step(&mut self, nodes: &[usize], by_ms: i64, end: Ns) {
        let (by_ns, running) = (by_ms * NS_PER_MS, self.cast.running());
        let allowed = |node: &usize| match by_ms {
            0.. => self.rules.blind(*node, &running).is_empty(),
            _ => self.rules.may_step_back(now(), *node, -by_ns),
        };
        if !nodes.iter().all(allowed) {
            self.forgone += 1;
            return;
        }
        for node in nodes.iter().copied() {
            self.nodes[node].clock.step(by_ms);
            self.rules.stepped(now(), node, by_ns);
            let what = match (by_ms > 0, by_ms.abs() <= LITTLE_MS) {
                (true, true) => What::ClockForwardLittle,
                (true, false) => What::ClockForward,
                (false, true) => What::ClockBackLittle,
                (false, false) => What::ClockBack,
            };
            let episode = self.happens(what, Where::Node(node), end);
            self.at(end, Action::RightClock { node, due: end, episode });
        }
    }

    /// Back to the right time, when that is allowed.
    pub(super) fn right_clock(&mut self, node: usize, due: Ns, episode: usize) {
        let offset_ns = self.nodes[node].clock.offset_ms() * NS_PER_MS;
        let blind = if offset_ns < 0 { self.rules.blind(node, &self.cast.running()) } else { vec![] };
        let goes_back_too_far = offset_ns > 0 && !self.rules.may_step_back(now(), node, offset_ns);
        if goes_back_too_far || !blind.is_empty() && now() < due + BLIND_NS {
            self.nodes[node].clock.set_rate(1.0);
            return self.at(now() + AGAIN_NS, Action::RightClock { node, due, episode });
        }
        for client in blind {
            self.replace(client, now());
        }
        self.nodes[node].clock.correct();
        // What was slewed has not been stepped: nobody is to wait for having seen it.
        if self.episodes[episode].what != What::ClockSlewed {
            self.rules.stepped(now(), node, -offset_ns);
        }
        self.ends(episode);
    }

    /// Tells the rules what the clocks show.
    pub(super) fn read_clocks(&mut self) {
        let now = now();
        for (node, state) in self.nodes.iter().enumerate() {
            self.rules.shows(now, node, state.clock.offset_ms() * NS_PER_MS);
        }
    }
}
