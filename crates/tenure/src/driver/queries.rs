//! Questions to all nodes that change nothing.

use std::sync::atomic::Ordering;

use tenure_core::query::{self, Told};
use tenure_core::{Distrust, NodeSet, Query, RoundNumber};
use tokio::sync::oneshot;

use super::timers::Timer;
use super::{Driver, MachineId, Request};
use crate::node::Tag;

/// What every node told, which of them may vote, and why the others may not.
pub(crate) struct Found {
    pub(crate) told: Vec<Told>,
    pub(crate) voters: NodeSet,
    pub(crate) distrust: Vec<Option<Distrust>>,
}

pub(super) struct QueryEntry {
    query: Query,
    pub(super) timer: Option<Timer>,
    reply: Option<oneshot::Sender<Found>>,
}

impl Driver {
    pub(super) fn begin_query(&mut self, mut query: Query, reply: oneshot::Sender<Found>) {
        // As with acquires: who may vote is not known yet.
        if let Some(early) = &mut self.early {
            return early.push(Request::Query { query, reply });
        }
        query.follow(self.now, self.fleet.patience());
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        self.queries.insert(id, QueryEntry { query, timer: None, reply: Some(reply) });
        self.drain_query(id);
    }

    pub(super) fn advance_query(&mut self, id: MachineId, input: query::Input) {
        if let Some(entry) = self.queries.get_mut(&id) {
            entry.query.handle(self.now, input);
            self.drain_query(id);
        }
    }

    pub(super) fn drain_query(&mut self, id: MachineId) {
        let Some(entry) = self.queries.get_mut(&id) else { return };
        let mut done = false;
        while let Some(output) = entry.query.poll_output() {
            match output {
                query::Output::Send { node, command } => {
                    self.unsent = true;
                    let tag = Tag { machine: id, round: RoundNumber::default(), sent: self.now };
                    self.nodes[node.get()].send(tag, command);
                }
                query::Output::Done(told) => {
                    done = true;
                    let voters = self.fleet.voters(self.now);
                    let report = |node| self.fleet.report(self.now, node).trust.err();
                    let distrust = self.quorum.indexes().map(report).collect();
                    entry.reply.take().map(|reply| reply.send(Found { told, voters, distrust }));
                }
            }
        }
        self.timers.set(id, &mut entry.timer, entry.query.poll_timeout());
        if done {
            self.queries.remove(&id);
        }
    }
}
