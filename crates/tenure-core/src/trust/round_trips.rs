//! How long the nodes take to answer: what the default node timeout follows.

use super::Fleet;
use crate::config::NODE_TIMEOUT_DEFAULT_MIN;
use crate::round::{NodeIndex, Patience, Pause};
use crate::time::Time;

impl Fleet {
    /// How long each node may take to answer, by its round trips so far.
    #[must_use]
    pub const fn patience(&self) -> &Patience {
        &self.patience
    }

    /// We meant to look at `meant`, and did at `now`. To be called before what came meanwhile is
    /// told.
    pub fn note_pause(&mut self, meant: Time, now: Time) {
        self.pause = Some(Pause::new(meant, now));
    }

    /// Learns no round trips: worlds that only differ in these are one, where every timeout is
    /// said.
    #[doc(hidden)]
    #[must_use]
    pub const fn untimed(mut self) -> Self {
        self.untimed = true;
        self
    }

    pub(super) fn learn_round_trip(&mut self, now: Time, node: NodeIndex, sent: Time) {
        if self.untimed || self.pause.is_some_and(|pause| pause.spoils(sent, now)) {
            return;
        }
        let trips = &mut self.members[node.get()].trips;
        trips.learn(now.since(sent));
        self.patience.set(node, trips.timeout().max(NODE_TIMEOUT_DEFAULT_MIN));
    }
}
