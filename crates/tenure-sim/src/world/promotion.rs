//! A server that follows another for a moment and is promoted again (`REPLICAOF`, then `NO ONE`):
//! the same process, the same connections and the same record, but the data of a while ago. It
//! tells its clients that the data has changed, before any later answer.

use super::{ClientEvent, World};
use crate::trace::Mark;

impl World {
    pub(crate) fn promote(&mut self, node: usize) {
        if !self.may_forget(node) {
            return self.marks.see(Mark::Forgone);
        }
        let state = &mut self.nodes[node];
        state.go_back(self.now_ns);
        state.followed += 1;
        self.note(|| format!("node {node} followed a server that lagged, and is promoted again"));
        for link in self.links.to_node(node) {
            if self.links[link].broken.is_none() {
                self.send_back(link, ClientEvent::Changed { link });
            }
        }
    }
}
