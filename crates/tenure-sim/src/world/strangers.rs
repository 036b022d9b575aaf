//! Clients with another node list, or other settings, on nodes of the fleet. They are refused, and
//! take nothing over, also when the node that refused them loses its memory.
//!
//! What the guarantees do not promise does not happen here: a stranger comes when its nodes have
//! the fleet's record, and no node of its list forgets anything before it has refused the stranger.
//! To whoever first looks at a node that was just emptied, the node is new; so the record that a
//! stranger asks for when it comes does not arrive after that, neither late nor a second time.

use std::time::Duration;

use tenure_core::{Command, MaxTtl, NodeIndex, Quorum, Settings, Swap, Terms};

use super::links::Message;
use super::{Event, World};
use crate::dice::Dice;
use crate::options::Options;

/// The node list of the fleet, as records name it.
pub(crate) const LIST: &str = "simulated";

/// The list of strangers with fewer nodes.
pub(crate) const LIST_IN_PART: &str = "simulated-in-part";

/// The strangers of a history. They come after the fleet's own clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Strangers {
    pub(crate) clients: usize,
    /// They know only the first so many nodes.
    pub(crate) nodes: usize,
    /// Their largest ttl, if it is another than the fleet's.
    pub(crate) max_ttl_ms: Option<u64>,
}

impl Strangers {
    /// One or two, whose list or settings differ.
    pub(crate) fn draw(dice: &mut Dice, nodes: usize, max_ttl_ms: u64) -> Self {
        let (clients, known) = (dice.index(2) + 1, dice.index(nodes) + 1);
        let other_ttl = dice.pick(&[max_ttl_ms / 2, max_ttl_ms * 2]);
        let differs = known == nodes || dice.chance(300);
        Self { clients, nodes: known, max_ttl_ms: differs.then_some(other_ttl) }
    }
}

impl Options {
    /// How many clients there are, strangers included.
    pub(crate) const fn everybody(&self) -> usize {
        self.clients + self.strangers.clients
    }

    pub(crate) const fn is_stranger(&self, client: usize) -> bool {
        client >= self.clients
    }

    /// The nodes in a client's list.
    pub(crate) fn quorum_of(&self, client: usize) -> Quorum {
        let nodes = if self.is_stranger(client) { self.strangers.nodes } else { self.nodes };
        Quorum::of(nodes).expect("drawn within the limits")
    }

    /// What a client takes for the settings of the fleet.
    pub(crate) fn settings_of(&self, client: usize) -> Settings {
        let list = if self.quorum_of(client) == self.quorum() { LIST } else { LIST_IN_PART };
        Settings::new(self.max_ttl_of(client), list)
            .restart_guard(self.restart_guard)
            .fence_retention(Duration::from_millis(self.retention_ms))
    }

    fn max_ttl_of(&self, client: usize) -> MaxTtl {
        let other = self.strangers.max_ttl_ms.filter(|_| self.is_stranger(client));
        let max_ttl_ms = other.unwrap_or(self.max_ttl_ms);
        MaxTtl::new(Duration::from_millis(max_ttl_ms)).expect("drawn within the limits")
    }
}

impl World {
    /// Whether a client may come. A stranger tries again later unless all its nodes have the
    /// fleet's record.
    pub(crate) fn admits(&mut self, client: usize) -> bool {
        let known = &self.nodes[..self.options.quorum_of(client).nodes()];
        if !self.options.is_stranger(client) || known.iter().all(|node| node.is_of(LIST, self.now_ns)) {
            return true;
        }
        let later_ns = self.now_ns + self.options.max_ttl_ms * 100_000;
        self.at(later_ns, Event::Start { client });
        false
    }

    /// Whether every stranger that knows this node was refused there, so that none takes it for new
    /// when it is emptied; and nothing is under way from before it was (history 8035237 of `Sets`:
    /// a record that came seconds late).
    pub(crate) fn strangers_know(&self, node: usize) -> bool {
        self.clients.iter().skip(self.options.clients).all(|stranger| {
            let index = stranger.core.quorum().indexes().nth(node);
            let is_quiet =
                |link: &Option<usize>| link.is_none_or(|link| self.links[link].unanswered.is_empty());
            let knows = |node: NodeIndex| {
                stranger.refused.contains(node) && stranger.links.get(node.get()).is_none_or(is_quiet)
            };
            !stranger.alive || index.is_none_or(knows)
        })
    }

    /// Whether a stranger asks to write its record if there is none. A second copy, or one that
    /// outlived its connection, may find a node that has been emptied since it refused the stranger
    /// (history 20017681 of `Sets`).
    pub(crate) fn is_first_of_stranger(&self, link: usize, message: &Message) -> bool {
        let Message::Command { command: Command::Record { swap: Some(swap), .. }, .. } = message else {
            return false;
        };
        self.options.is_stranger(self.links[link].client) && matches!(swap, Swap { expected: None, .. })
    }

    /// The terms of a client: what its own settings and list allow.
    pub(crate) fn terms_of(&self, client: usize, mut terms: Terms) -> Terms {
        if self.options.is_stranger(client) {
            let max_ttl = self.options.max_ttl_of(client);
            let ttl = terms.term.ttl().min(max_ttl.get());
            terms.term = tenure_core::Options::default().term(ttl, max_ttl).expect("within the limits");
            (terms.renewal, terms.quarantine, terms.min_margin) = (None, max_ttl.quarantine(), 0);
        }
        terms
    }
}
