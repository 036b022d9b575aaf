//! Partitions: for a while messages of some clients and some nodes wait, in one direction or in
//! both, and nobody sees a connection break. Then they arrive in their order, or the connection
//! breaks after all.

use tenure_core::NodeIndex;

use super::{Event, World};
use crate::trace::Mark;

/// Until when messages between a client and a node wait.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Gate {
    pub(crate) requests_ns: u64,
    pub(crate) replies_ns: u64,
}

/// What waits.
#[derive(Clone, Copy, Debug)]
enum Way {
    Requests,
    Replies,
    Both,
}

impl World {
    pub(crate) fn part_some(&mut self) {
        let way = self.dice.pick(&[Way::Requests, Way::Replies, Way::Both]);
        let until_ns = self.now_ns + self.dice.of_any_size(1_000_000, self.options.max_ttl_ms * 2_000_000);
        let breaks = self.dice.chance(500);
        self.marks.see(match way {
            Way::Requests => Mark::RequestsWaited,
            Way::Replies => Mark::RepliesWaited,
            Way::Both => Mark::Parted,
        });
        self.lasts_until(until_ns);
        // One client at least, and one node.
        let (client, node) = (self.dice.index(self.clients.len()), self.dice.index(self.nodes.len()));
        let clients: Vec<usize> =
            (0..self.clients.len()).filter(|other| *other == client || self.dice.chance(400)).collect();
        let nodes: Vec<NodeIndex> = self.options.quorum().indexes().collect();
        let nodes: Vec<NodeIndex> =
            nodes.into_iter().filter(|other| other.get() == node || self.dice.chance(400)).collect();
        let until_ms = until_ns as f64 / 1e6;
        self.note(|| {
            let nodes: Vec<usize> = nodes.iter().map(|node| node.get()).collect();
            format!("{way:?} of clients {clients:?} and nodes {nodes:?} wait until {until_ms:.3} ms")
        });
        for client in clients {
            for node in &nodes {
                self.part(client, *node, way, until_ns, breaks);
            }
        }
    }

    fn part(&mut self, client: usize, node: NodeIndex, way: Way, until_ns: u64, breaks: bool) {
        let gate = &mut self.gates[client * self.options.nodes + node.get()];
        if matches!(way, Way::Requests | Way::Both) {
            gate.requests_ns = gate.requests_ns.max(until_ns);
        }
        if matches!(way, Way::Replies | Way::Both) {
            gate.replies_ns = gate.replies_ns.max(until_ns);
        }
        let gate = *gate;
        for link in self.links.between(client, node).to_vec() {
            self.links[link].wait(gate);
            if breaks && self.links[link].broken.is_none() {
                // Before what waits arrives.
                self.at(until_ns, Event::CutLink { link });
            }
        }
    }

    /// A partition ends with a broken connection.
    pub(crate) fn cut_link(&mut self, link: usize) {
        if self.links[link].broken.is_none() {
            self.marks.see(Mark::PartitionBroke);
            let broken = self.any_break();
            self.break_link(link, broken);
        }
    }
}
