//! Questions to all nodes that change nothing.

use super::output::{Found, Output};
use super::tag::{Addressee, Id};
use super::timers::{Machine, Timer};
use super::{Client, LeaseCell};
use crate::inspect::query::{self, Query};
use crate::time::Time;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct QueryEntry {
    query: Box<Query>,
    pub(super) timer: Option<Timer>,
}

impl<L: LeaseCell> Client<L> {
    pub(super) fn begin_query(&mut self, now: Time, id: Id, mut query: Box<Query>) {
        query.follow(now, self.fleet.patience());
        self.queries.insert(id, QueryEntry { query, timer: None });
        self.drain_query(now, id);
    }

    pub(super) fn advance_query(&mut self, now: Time, id: Id, input: query::Input) {
        if let Some(entry) = self.queries.get_mut(id) {
            entry.query.handle(now, input);
            self.drain_query(now, id);
        }
    }

    fn drain_query(&mut self, now: Time, id: Id) {
        let Some(entry) = self.queries.get_mut(id) else { return };
        let mut done = false;
        while let Some(output) = entry.query.poll_output() {
            match output {
                query::Output::Send { node, command } => {
                    self.outbox.send(now, Addressee::Query(id), node, command);
                }
                query::Output::Done(answers) => {
                    done = true;
                    let voters = self.fleet.voters(now);
                    let report = |node| self.fleet.report(now, node).trust.err();
                    let distrust = self.fleet.quorum().indexes().map(report).collect();
                    self.outbox.say(Output::Found { id, found: Found { answers, voters, distrust } });
                }
            }
        }
        self.timers.set(Machine::Query(id), &mut entry.timer, entry.query.poll_timeout());
        if done {
            self.queries.remove(id);
        }
    }
}
