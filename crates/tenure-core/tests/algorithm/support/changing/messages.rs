//! What is under way between nodes and those who ask them.

use std::collections::{BTreeMap, VecDeque};

use tenure_core::client::{Input, Tag};
use tenure_core::*;

use super::World;

/// One connection: what is sent arrives in order, and so do the answers.
#[derive(Default)]
pub(super) struct Link {
    pub(super) requests: VecDeque<(To, Command)>,
    pub(super) replies: VecDeque<(To, Reply)>,
}

#[derive(Clone, Copy)]
pub(super) enum To {
    Client(Tag),
    Coordinator,
}

/// Whose connection it is.
#[derive(Clone, Copy)]
enum Whose {
    Client(usize),
    Coordinator(usize),
}

impl World {
    /// A message travels on one of the connections.
    pub(super) fn deliver(&mut self) {
        let busy = self.busy_links();
        if busy.is_empty() {
            return;
        }
        let (whose, node, is_request) = busy[self.below(busy.len())];
        let time = self.time();
        let links = match whose {
            Whose::Client(client) => &mut self.clients[client].links,
            Whose::Coordinator(run) => &mut self.coordinators[run].links,
        };
        let Some(link) = links.get_mut(&node) else { return };
        if is_request {
            let (to, command) = link.requests.pop_front().unwrap();
            let reply = self.nodes[node].table.execute(time, &command);
            link.replies.push_back((to, reply));
            return;
        }
        let (to, reply) = link.replies.pop_front().unwrap();
        match (whose, to) {
            (Whose::Client(client), To::Client(tag)) => self.hear(client, node, tag, reply),
            (Whose::Coordinator(run), To::Coordinator) => self.answer_coordinator(run, node, reply),
            _ => unreachable!("everybody has connections of its own"),
        }
    }

    /// The connections on which something is under way, and in which direction.
    fn busy_links(&self) -> Vec<(Whose, usize, bool)> {
        let clients = self.clients.iter().enumerate();
        let clients = clients.map(|(index, client)| (Whose::Client(index), &client.links));
        let runs = self.coordinators.iter().enumerate().filter(|(_, run)| !run.paused);
        let runs = runs.map(|(index, run)| (Whose::Coordinator(index), &run.links));
        let of = |(whose, links): (Whose, &BTreeMap<usize, Link>)| -> Vec<(Whose, usize, bool)> {
            let of_link = |(node, link): (&usize, &Link)| {
                let requests = (!link.requests.is_empty()).then_some((whose, *node, true));
                let replies = (!link.replies.is_empty()).then_some((whose, *node, false));
                requests.into_iter().chain(replies)
            };
            links.iter().flat_map(of_link).collect()
        };
        clients.chain(runs).flat_map(of).collect()
    }

    /// Tells everybody whose time has come.
    pub(super) fn fire(&mut self) {
        for client in 0..self.clients.len() {
            self.take(client, Input::Wake);
        }
        self.fire_coordinators();
    }
}
