//! What callers ask, handed on to the client.

use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use tenure_core::client::{self, Id, LeaseCell};
use tenure_core::{HoldState, LockKey, OwnerToken};

use super::callers::{Caller, ReplySender};
use super::{Call, Driver};
use crate::event::Event;

impl Driver {
    pub(super) fn take_calls(&mut self, cx: &mut Context<'_>) {
        while !self.orphaned
            && let Poll::Ready(call) = self.mailbox.poll_recv(cx)
        {
            self.look_at_the_clock();
            match call {
                Some(call) => self.handle_call(call),
                None => self.orphaned = true,
            }
        }
    }

    fn handle_call(&mut self, call: Call) {
        let request = match call {
            Call::Acquire { id, lease, entropy, reply } => {
                self.keep(entropy);
                let mut caller = Caller::of(lease);
                caller.acquire = Some(reply);
                client::Request::Acquire { id, lease: caller }
            }
            Call::Extend { id, term, reply } => {
                let Some(caller) = self.client.lease_mut(id) else { return drop(self.spans.end(id)) };
                caller.extend = Some(reply);
                client::Request::Extend { id, term }
            }
            Call::Share { id, reply } => {
                let Some(caller) = self.client.lease_mut(id) else { return drop(self.spans.end(id)) };
                caller.extend = Some(reply);
                client::Request::Share { id }
            }
            Call::Resume { id, lease, resuming, reply } => {
                let mut caller = Caller::of(lease);
                caller.extend = Some(reply);
                client::Request::Resume { id, lease: caller, resuming }
            }
            Call::Watch { id, watch } => {
                let Some(caller) = self.client.lease_mut(id) else {
                    return watch.tell(HoldState::Lost);
                };
                let state = caller.look().standing().map(|standing| standing.state(self.now));
                watch.tell(state.unwrap_or(HoldState::Lost));
                caller.watch = Some(watch);
                return;
            }
            Call::HandOver { id } => client::Request::HandOver { id },
            Call::Release { id, reply } => {
                self.replies.insert(id, ReplySender::Release(reply));
                client::Request::Release { id }
            }
            Call::ReleaseResumed { id, lease, hears_all, reply } => {
                self.replies.insert(id, ReplySender::Release(reply));
                client::Request::ReleaseResumed { id, lease: Caller::of(lease), hears_all }
            }
            Call::LookOut { id, lookout } => return self.lookouts.keep(id, lookout),
            Call::Run(work) => {
                tokio::spawn(work);
                return;
            }
            Call::Circle { name, circle } => {
                return self.observer.observe(&Event::Circle { name: &name, circle: &circle });
            }
            Call::Trace { id, span } => return self.spans.begin(id, span),
            Call::Tokens { key, reply } => return drop(reply.send(self.tokens(&key))),
            Call::Abandon { id } => client::Request::Abandon { id },
            Call::Nodes { reply } => {
                let nodes = self.client.quorum().indexes();
                let asked = nodes.filter(|node| self.nodes[node.get()].survey()).collect();
                self.unsent = true;
                return self.surveys.begin(self.now, asked, reply);
            }
            Call::Query { query, reply } => {
                client::Request::Query { id: self.expect(ReplySender::Query(reply)), query: Box::new(query) }
            }
            Call::Start { reply } => client::Request::Start { id: self.expect(ReplySender::Done(reply)) },
            Call::Settle { reply } => client::Request::Settle { id: self.expect(ReplySender::Done(reply)) },
            Call::Shutdown { limit, silent_too, reply } => {
                let id = self.expect(ReplySender::Shutdown(reply));
                client::Request::Shutdown { id, limit, silent_too }
            }
        };
        self.client.request(self.now, request);
        self.carry_out();
    }

    /// The owner tokens with which a lock, or one of several, is held here at this moment.
    fn tokens(&self, key: &LockKey) -> Vec<OwnerToken> {
        let names_one_of = |held: &LockKey| {
            let names = |one: &LockKey| held.each().iter().any(|held| held.as_str() == one.as_str());
            key.each().iter().any(names)
        };
        let held = |id: Id| {
            let lease = self.client.lease(id)?.look();
            let standing = lease.standing()?;
            let counts = standing.state(self.now) != HoldState::Lost && names_one_of(lease.key());
            counts.then(|| standing.token())
        };
        self.client.leases().into_iter().filter_map(held).collect()
    }

    /// Somebody waits for what is asked for now. Returns how it is called.
    fn expect(&mut self, reply: ReplySender) -> Id {
        let id = Id(self.ids.fetch_add(1, Ordering::Relaxed));
        self.replies.insert(id, reply);
        id
    }
}
