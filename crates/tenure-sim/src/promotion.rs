//! A server that follows another for a moment and is promoted again (`REPLICAOF`, then `NO ONE`): the same process, the
//! same connections and the same record, but the data of a while ago. It tells its clients that the data has changed,
//! before any later answer.

use tenure_core::trust;

use crate::network::delay_ns;
use crate::trace::Mark;
use crate::world::{ClientEvent, Event, World};

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
                let delay = delay_ns(&mut self.dice, &self.options);
                let state = &mut self.links[link];
                let (client, life, arrives) =
                    (state.client, state.life, state.reply_arrives(self.now_ns, delay));
                self.at(arrives, Event::Client { client, life, event: ClientEvent::Changed { link } });
            }
        }
    }

    pub(crate) fn handle_changed(&mut self, client: usize, link: usize) {
        let (now, node) = (self.time(client), self.links[link].node);
        if !self.links[link].noticed && self.clients[client].links[node.get()] == Some(link) {
            self.clients[client].fleet.handle(now, trust::Input::Changed { node });
            self.drain_fleet(client);
        }
    }
}
