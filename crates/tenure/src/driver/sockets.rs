//! The connections: what comes from them is told to the client, and what it says goes out on them.

use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use tenure_core::NodeIndex;
use tenure_core::client::{self, Input, Output};

use super::Driver;
use crate::event::Event;
use crate::node::{EncodedRenewals, NodeEvent};

/// How much of what one node says is heard at a time.
const EVENTS_MAX: usize = 1_024;

impl Driver {
    pub(super) fn take_events(&mut self, cx: &mut Context<'_>) {
        for node in self.client.quorum().indexes() {
            // One that talks without end must not keep us from the others.
            for turn in 0..=EVENTS_MAX {
                let Poll::Ready(event) = self.nodes[node.get()].poll_event(cx) else { break };
                self.unsent |= turn == EVENTS_MAX;
                // A node's clock is judged by when its answer came: a reading from before this
                // thread lost its core would make it look ahead.
                self.now = self.clock.now();
                if let NodeEvent::Answer(tag, answer) = event {
                    self.spans.answered(node, tag, &answer);
                    self.client.answer(self.now, node, tag, answer);
                    self.carry_out();
                } else {
                    let input = self.input(node, event);
                    self.tell(input);
                }
            }
        }
    }

    fn input(&mut self, node: NodeIndex, event: NodeEvent) -> Input {
        match event {
            NodeEvent::Answer(tag, answer) => Input::Answer { node, tag, answer },
            NodeEvent::Connected(server) => {
                let facts = server.facts();
                self.surveys.learn(node, *server);
                Input::Connected { node, facts }
            }
            NodeEvent::Surveyed(server) => {
                let facts = server.facts();
                self.surveys.learn(node, *server);
                Input::Surveyed { node, facts }
            }
            NodeEvent::Disconnected(fault) => Input::Disconnected { node, fault },
            NodeEvent::Unreachable(fault) => Input::Unreachable { node, fault },
            NodeEvent::Renewed(renewals, time) => {
                Input::Renewed { node, renewals: Arc::clone(&renewals.shared), time }
            }
            NodeEvent::Split(batch) => Input::Split { batch },
            NodeEvent::Changed => Input::Changed { node },
            NodeEvent::Woken { number, key } => Input::Woken { node, number, key },
        }
    }

    /// Tells which nodes have been tried, while that matters.
    pub(super) fn note_tried(&mut self) {
        if self.client.awaits_nodes() {
            let nodes = self.client.quorum().indexes();
            let nodes = nodes.filter(|node| self.nodes[node.get()].is_settled()).collect();
            self.tell(Input::Tried { nodes });
        }
    }

    /// Does what the client says.
    pub(super) fn carry_out(&mut self) {
        while let Some(output) = self.client.poll_output() {
            match output {
                Output::Send { node, tag, command } => {
                    self.unsent = true;
                    self.spans.ask((node, &self.addresses[node.get()]), tag, &command);
                    self.nodes[node.get()].send(tag, command);
                }
                Output::Renew(renewals) => self.renew(renewals),
                Output::Survey { node } => self.unsent |= self.nodes[node.get()].survey(),
                Output::Draw { lease, proposal } => self.draw(lease, proposal),
                Output::Remember { memory } => self.remember(memory),
                Output::Life { node, nonce } => self.lives.set(node, nonce),
                Output::Notice { node, distrust } => {
                    let node = &*self.addresses[node.get()];
                    self.observer.observe(&match &distrust {
                        Some(distrust) => Event::NodeDistrusted { node, distrust },
                        None => Event::NodeTrusted { node },
                    });
                }
                Output::Poisoned { node, fence } => {
                    self.observer.observe(&Event::FencePoisoned { node: &self.addresses[node.get()], fence });
                }
                output => self.tell_caller(output),
            }
        }
    }

    fn renew(&mut self, shared: Arc<client::Renewals>) {
        self.unsent = true;
        let renewals = Arc::new(EncodedRenewals { shared, encoded: OnceLock::new() });
        let mut split = false;
        for node in &mut self.nodes {
            if !node.renew(&renewals) {
                split = true;
                renewals.commands().for_each(|(tag, command)| node.send(tag, command));
            }
        }
        if split {
            self.client.handle(self.now, Input::Split { batch: renewals.batch });
        }
    }
}
