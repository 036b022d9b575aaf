//! What happens to clients: they stand still, die, and come back knowing nothing.

use tenure_core::NodeSet;
use tenure_core::client::Input;

use crate::trace::Mark;
use crate::world::client::{SimClient, Slot};
use crate::world::stage::Stage;
use crate::world::{Event, World};

impl World {
    pub(crate) fn pause_any_client(&mut self) {
        let client = self.dice.index(self.clients.len());
        // The most telling moment is right after commands were sent.
        if self.dice.chance(500) {
            self.clients[client].pause_armed = true;
        } else {
            self.pause_client(client);
        }
    }

    pub(crate) fn pause_client(&mut self, client: usize) {
        let pause_ns = self.dice.of_any_size(1_000_000, self.options.max_ttl_ms * 2_000_000);
        let state = &mut self.clients[client];
        state.pause_armed = false;
        if !state.alive || state.paused {
            return;
        }
        (state.paused, state.paused_ns) = (true, self.now_ns);
        let generation = state.generation;
        self.marks.see(Mark::Paused);
        self.note(|| format!("client {client} is paused for {:.3} ms", pause_ns as f64 / 1e6));
        self.lasts_until(self.now_ns + pause_ns);
        self.at(self.now_ns + pause_ns, Event::Resume { client, generation });
    }

    pub(crate) fn resume_client(&mut self, client: usize, generation: u32) {
        let state = &mut self.clients[client];
        if !state.alive || state.generation != generation {
            return;
        }
        state.paused = false;
        if self.options.extra.clocks_sleep {
            state.clock.sleep(self.now_ns - state.paused_ns);
        }
        state.resumed_ns = Some(self.now_ns);
        let now = state.clock.read(self.now_ns);
        let meant = state.wake_ns.take().filter(|meant_ns| *meant_ns < self.now_ns);
        let meant = meant.map(|meant_ns| state.clock.read(meant_ns));
        let over = |slot: &Slot| state.standing(slot.id).is_some_and(|held| held.validity().is_over(now));
        if state.slots.iter().any(over) {
            self.marks.see(Mark::ExpiredInPause);
        }
        self.note(|| format!("client {client} goes on"));
        if let Some(meant) = meant {
            self.tell(client, Input::Paused { meant });
        }
        // Timers and what waits on the sockets are looked at in either order.
        if self.dice.chance(500) {
            self.settle(client);
        }
        for event in std::mem::take(&mut self.clients[client].inbox) {
            self.take_in(client, generation, event);
        }
        // If it was paused again at once, what is left waits on.
        self.settle(client);
    }

    /// Somebody in line loses all nodes but one, for as long as there are faults.
    pub(crate) fn keep_one_node(&mut self, client: usize) {
        let kept = client % self.options.nodes;
        let reach: NodeSet = self.options.quorum().indexes().filter(|node| node.get() == kept).collect();
        let (generation, safety) = (self.clients[client].generation, self.stage == Stage::Safety);
        if !safety || !self.options.asks_in_vain(client) || self.clients[client].reach == reach {
            return;
        }
        self.clients[client].reach = reach;
        self.marks.see(Mark::MinorityOnly);
        self.note(|| format!("client {client} reaches node {kept} alone from now on"));
        for link in self.links.of_client(client, generation) {
            if self.links[link].node.get() != kept {
                let broken = self.any_break();
                self.break_link(link, broken);
            }
        }
    }

    pub(crate) fn crash_any_client(&mut self) {
        let client = self.dice.index(self.clients.len());
        if !self.clients[client].alive {
            return;
        }
        let generation = self.clients[client].generation;
        self.marks.see(Mark::ClientCrashed);
        self.note(|| format!("client {client}.{generation} dies"));
        self.exclusion.end_client(client);
        self.loss.end_client(client);
        for link in self.links.of_client(client, generation) {
            let broken = self.any_break();
            self.break_link(link, broken);
        }
        let (clock, seed) = (self.any_clock(), self.dice.next());
        self.clients[client] =
            SimClient::new(&self.options, client, clock, generation + 1, seed, self.now_ns);
        let pause_ns = self.dice.of_any_size(1_000_000, self.options.max_ttl_ms * 1_000_000);
        self.lasts_until(self.now_ns + pause_ns);
        self.at(self.now_ns + pause_ns, Event::Start { client });
    }

    /// Whether every client of the fleet has seen this node's clock, so that none misses a step.
    pub(crate) fn everybody_watches(&self, node: usize) -> bool {
        let index = self.options.quorum().indexes().nth(node);
        let watches = |client: &SimClient| index.is_some_and(|node| client.watched.contains(node));
        let own = self.clients.iter().take(self.options.clients);
        own.filter(|client| client.alive).all(watches)
    }
}
