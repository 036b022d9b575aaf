//! What a client keeps when nothing is under way any more, and how large it is meanwhile.

use super::*;
use crate::LockTable;
use crate::command::{Answer, Command, Fault, Reply};
use crate::config::{MaxTtl, Options};
use crate::lease::Standing;
use crate::names::{LockKey, Prefix};
use crate::time::NodeTime;
use crate::token::{Entropy, OwnerToken};
use crate::trust::{Facts, Settings};

/// A client and its nodes, which answer at once.
struct Near {
    client: Client,
    nodes: Vec<LockTable>,
    now: Time,
    drawn: u64,
    acquired: usize,
    extended: usize,
}

impl Near {
    fn of(nodes: usize) -> Self {
        let (now, quorum) = (Time::from_nanos(0), Quorum::of(nodes).unwrap());
        let fleet = Fleet::new(Settings::new(MaxTtl::default(), "test"), quorum, Prefix::default(), 1);
        let nodes = vec![LockTable::default(); nodes];
        let client = Client::new(now, fleet);
        let mut near = Self { client, nodes, now, drawn: 0, acquired: 0, extended: 0 };
        for node in quorum.indexes() {
            near.client.handle(now, Input::Connected { node, facts: Facts::default() });
            near.drain();
        }
        near.client.handle(now, Input::Tried { nodes: quorum.all() });
        near.run(1_000);
        assert!(near.client.is_settled());
        near
    }

    fn run(&mut self, millis: u64) {
        let end = self.now + std::time::Duration::from_millis(millis);
        while self.now < end {
            self.now = end.min(self.client.poll_timeout(self.now).unwrap_or(end).max(self.now));
            self.client.handle(self.now, Input::Wake);
            self.drain();
        }
    }

    fn ask(&mut self, request: Request<Lease>) {
        self.client.request(self.now, request);
        self.drain();
    }

    fn drain(&mut self) {
        while let Some(output) = self.client.poll_output() {
            match output {
                Output::Send { node, tag, command } => {
                    let time = NodeTime::from_micros(1_000_000_000 + self.now.as_nanos() / 1_000);
                    let reply = self.nodes[node.get()].execute(time, &command);
                    assert_ne!(reply.answer, Answer::Refused(crate::command::Refusal::NotHeld));
                    self.client.handle(self.now, Input::Answer { node, tag, answer: Ok(reply) });
                }
                Output::Draw { lease, proposal } => {
                    self.drawn += 1;
                    let mut token = [0; 20];
                    token[..8].copy_from_slice(&self.drawn.to_be_bytes());
                    let entropy = Entropy { token: OwnerToken::from_bytes(token), dice: self.drawn };
                    self.client.handle(self.now, Input::Attempt { lease, entropy, proposal });
                }
                Output::Tell { news: News::Acquired, .. } => self.acquired += 1,
                Output::Tell { news: News::Extended, .. } | Output::Renew(_) => self.extended += 1,
                _ => {}
            }
        }
    }
}

#[test]
fn ten_thousand_short_locks_that_would_be_renewed_leave_no_timer() {
    let mut near = Near::of(3);
    let terms = Options::default().check(MaxTtl::default()).unwrap();
    for cycle in 0..10_000 {
        let (id, name) = (Id(cycle), cycle.to_string());
        let lease =
            Lease::new(LockKey::new(&Prefix::default(), &name).unwrap(), terms.clone(), near.client.quorum());
        near.ask(Request::Acquire { id, lease });
        near.ask(match cycle % 3 {
            0 => Request::Abandon { id },
            1 => Request::HandOver { id },
            _ => Request::Release { id },
        });
        near.run(1);
    }
    let Client { leases, releases, queries, timers, fleet_timer, .. } = &mut near.client;
    assert!(leases.is_empty() && releases.is_empty() && queries.is_empty());
    timers.clear(fleet_timer);
    assert!(timers.is_empty());
    assert_eq!((near.acquired, near.extended), (10_000, 0));
}

/// Compilers copy up to so many bytes in place, and call a function for more. A command and its
/// reply change hands ten times for each node: 16 bytes too many cost a client 8 % more of its core
/// (`docs/benchmarks.md`).
const COPIED_IN_PLACE: usize = 128;

#[test]
fn what_every_node_is_sent_and_answers_is_copied_in_place() {
    assert!(size_of::<Command>() <= COPIED_IN_PLACE);
    assert!(size_of::<(Tag, Result<Reply, Fault>)>() <= COPIED_IN_PLACE);
}

/// A program may hold 100,000 locks. What few of them need is boxed.
#[test]
fn a_lock_that_is_held_is_small() {
    assert!(size_of::<Lease>() <= 152 && size_of::<Standing>() <= 264 && size_of::<LockKey>() <= 24);
}
