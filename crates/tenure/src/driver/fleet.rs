//! What is known about the nodes, and who has to hear of it.

use tenure_core::{Command, NodeIndex, RoundNumber, lease, release, trust};

use super::{Driver, FLEET, TRIM};
use crate::observe::Event;

impl Driver {
    pub(super) fn advance_fleet(&mut self, input: trust::Input) {
        self.fleet.handle(self.now, input);
        self.drain_fleet();
        self.set_fleet_timer();
    }

    /// Replies put off the next question to a silent node without an end, so a timer is only ever set for earlier.
    pub(super) fn set_fleet_timer(&mut self) {
        if let Some(next) = self.fleet.poll_timeout()
            && self.fleet_timer.as_ref().is_none_or(|set| next < set.at())
        {
            self.timers.set(FLEET, &mut self.fleet_timer, Some(next));
        }
    }

    pub(super) fn drain_fleet(&mut self) {
        while let Some(output) = self.fleet.poll_output() {
            match output {
                trust::Output::Send { node, command } => {
                    let machine = if matches!(command, Command::Trim { .. }) { TRIM } else { FLEET };
                    self.send(machine, RoundNumber::default(), node, command);
                }
                trust::Output::Survey { node } => {
                    self.unsent |= self.nodes[node.get()].survey();
                }
                trust::Output::Distrust { node, forgot } => {
                    if forgot {
                        self.revoke_renewals(node);
                    }
                    for id in self.leases.keys().copied().collect::<Vec<_>>() {
                        self.advance_lease(id, lease::Input::Distrusted { node });
                        if forgot {
                            self.advance_lease(id, lease::Input::Disconnected { node });
                        }
                    }
                }
                trust::Output::Remember { memory } => self.remember(memory),
                trust::Output::Life { node, nonce } => self.lives.set(node, nonce),
                trust::Output::Notice { node, distrust } => {
                    let node = &*self.addresses[node.get()];
                    self.observer.observe(&match &distrust {
                        Some(distrust) => Event::NodeDistrusted { node, distrust },
                        None => Event::NodeTrusted { node },
                    });
                }
                trust::Output::Poisoned { node, fence } => {
                    self.observer.observe(&Event::FencePoisoned { node: &self.addresses[node.get()], fence });
                }
            }
        }
    }

    pub(super) fn handle_connected(&mut self, node: NodeIndex) {
        for id in self.releases.keys().copied().collect::<Vec<_>>() {
            self.advance_release(id, release::Input::Connected { node });
        }
        for id in self.waiters.ids().collect::<Vec<_>>() {
            self.advance_lease(id, lease::Input::Connected { node });
        }
    }

    pub(super) fn handle_disconnected(&mut self, node: NodeIndex) {
        self.revoke_renewals(node);
        for id in self.leases.keys().copied().collect::<Vec<_>>() {
            self.advance_lease(id, lease::Input::Disconnected { node });
        }
    }
}
