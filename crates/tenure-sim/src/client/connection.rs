//! What a client makes of its connections and of the answers that come over them: a reply is shown to the fleet before it is
//! counted, and distrust reaches every lease at once.

use tenure_core::trust;
use tenure_core::{Answer, Command, Distrust, Facts, Fault, NodeIndex, Refusal, Reply, Time, lease, release};

use super::Cleaning;
use crate::links::{Link, To};
use crate::trace::Mark;
use crate::world::World;

impl World {
    pub(super) fn handle_welcome(&mut self, client: usize, link: usize, facts: Facts) {
        let Link { broken, noticed, node, .. } = self.links[link];
        if noticed || broken.is_some() {
            return;
        }
        self.clients[client].greeting[node.get()] = None;
        let now = self.time(client);
        self.note(|| format!("client {client} is connected to node {}", node.get()));
        self.clients[client].links[node.get()] = Some(link);
        self.clients[client].fleet.handle(now, trust::Input::Connected { node, facts });
        self.drain_fleet(client);
        for index in 0..self.clients[client].releases.len() {
            let cleaning = &mut self.clients[client].releases[index];
            cleaning.release.handle(now, release::Input::Connected { node });
            self.drain_release(client, index);
        }
        self.tell_leases(client, &lease::Input::Connected { node });
    }

    pub(super) fn handle_surveyed(&mut self, client: usize, link: usize, facts: Facts) {
        let Link { noticed, node, .. } = self.links[link];
        if !noticed && self.clients[client].links[node.get()] == Some(link) {
            let now = self.time(client);
            self.clients[client].fleet.handle(now, trust::Input::Surveyed { node, facts });
            self.drain_fleet(client);
        }
    }

    pub(super) fn handle_broken(&mut self, client: usize, link: usize) {
        let now = self.time(client);
        let node = self.links[link].node;
        self.links[link].noticed = true;
        if self.clients[client].greeting[node.get()] == Some(link) {
            self.clients[client].greeting[node.get()] = None;
        }
        if self.clients[client].links[node.get()] == Some(link) {
            self.note(|| format!("client {client} sees the connection to node {} break", node.get()));
            self.clients[client].links[node.get()] = None;
            self.clients[client]
                .fleet
                .handle(now, trust::Input::Disconnected { node, fault: Fault::Disconnected });
            self.drain_fleet(client);
            self.tell_leases(client, &lease::Input::Disconnected { node });
            for to in std::mem::take(&mut self.links[link].pending) {
                self.deliver(client, node, to, Err(Fault::Disconnected));
            }
        }
        self.connect_later(client, node, self.options.max_ttl_ms * 500_000);
    }

    pub(super) fn handle_reply(
        &mut self,
        client: usize,
        node: NodeIndex,
        to: To,
        sent: Time,
        reply: Reply,
        asked: Option<Box<Command>>,
    ) {
        let now = self.time(client);
        let state = &mut self.clients[client];
        state.watched.insert(node);
        state.fleet.observe(now, node, sent, &reply);
        self.drain_fleet(client);
        if reply.answer == Answer::Refused(Refusal::Stranger) {
            self.clients[client].fleet.handle(now, trust::Input::Changed { node });
            self.drain_fleet(client);
        }
        if self.forgets_renewal(client, to, now.since(sent)) {
            return;
        }
        let Some((to, reply)) = self.bend_reply(client, node, to, reply, asked) else { return };
        self.deliver(client, node, to, Ok(reply));
    }

    pub(super) fn deliver(&mut self, client: usize, node: NodeIndex, to: To, answer: Result<Reply, Fault>) {
        let now = self.time(client);
        match to {
            To::Nobody => {}
            To::Fleet => {
                self.clients[client].fleet.handle(now, trust::Input::Answer { node, answer });
                self.drain_fleet(client);
            }
            To::Release { release } => {
                let releases = &mut self.clients[client].releases;
                if let Some(index) = releases.iter().position(|cleaning| cleaning.id == release) {
                    releases[index].release.handle(now, release::Input::Answer { node, answer });
                    self.drain_release(client, index);
                }
            }
            To::Lease { lease, round } => {
                let undoes = |cleaning: &Cleaning| {
                    cleaning.lease == lease && cleaning.release.acquire_round() == round
                };
                let granted = matches!(&answer, Ok(reply) if reply.answer == Answer::Granted);
                if let Some(index) = self.clients[client].releases.iter().position(undoes) {
                    if granted {
                        self.marks.see(Mark::LateGrant);
                    }
                    let input = release::Input::AcquireAnswer { node, answer: answer.clone() };
                    self.clients[client].releases[index].release.handle(now, input);
                    self.drain_release(client, index);
                }
                if let Some(slot) = self.clients[client].slot(lease) {
                    slot.grants += u32::from(granted);
                    let input = if granted && slot.together == Some(round) {
                        lease::Input::Granted { round, nodes: [node].into_iter().collect() }
                    } else {
                        lease::Input::Answer { round, node, answer }
                    };
                    slot.lease.handle(now, input);
                    self.drain_lease(client, lease);
                }
            }
        }
    }

    pub(crate) fn drain_fleet(&mut self, client: usize) {
        while let Some(output) = self.clients[client].fleet.poll_output() {
            match output {
                trust::Output::Send { node, command } => self.send(client, To::Fleet, node, command),
                trust::Output::Distrust { node, forgot } if !self.tolerates(client, node, forgot) => {
                    self.note(|| format!("client {client} distrusts node {} (forgot: {forgot})", node.get()));
                    if !self.forgets_distrust(forgot) {
                        self.tell_leases(client, &lease::Input::Distrusted { node });
                    }
                    if forgot {
                        self.tell_leases(client, &lease::Input::Disconnected { node });
                    }
                }
                trust::Output::Distrust { .. } | trust::Output::Life { .. } => {}
                trust::Output::Notice { node, distrust } => {
                    match distrust {
                        Some(Distrust::Quarantined { .. }) => self.marks.see(Mark::Quarantined),
                        Some(Distrust::ClockJumped { .. }) => self.marks.see(Mark::ClockJumped),
                        Some(Distrust::ClockApart { .. }) => self.marks.see(Mark::ClockApart),
                        Some(Distrust::Unfit(_)) => {
                            self.clients[client].refused.insert(node);
                            self.marks.see(Mark::Unfit);
                        }
                        _ => {}
                    }
                    self.note(|| format!("client {client} on node {}: {distrust:?}", node.get()));
                }
                trust::Output::Survey { node } => self.survey(client, node),
                trust::Output::Poisoned { .. } => self.marks.see(Mark::Poisoned),
                // Simulated clients are never restarted: their memory is the fleet itself.
                trust::Output::Remember { .. } => {}
            }
        }
    }

    pub(super) fn tell_leases(&mut self, client: usize, input: &lease::Input) {
        let now = self.time(client);
        let leases: Vec<u32> = self.clients[client].leases.iter().map(|slot| slot.id).collect();
        for lease in leases {
            if let Some(slot) = self.clients[client].slot(lease) {
                slot.lease.handle(now, input.clone());
                self.drain_lease(client, lease);
            }
        }
    }
}
