//! What callers ask, handed on to the client.

use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use tenure_core::HoldState;
use tenure_core::client::{self, Id, LeaseCell};

use super::callers::{Caller, Reply};
use super::{Driver, Request};

impl Driver {
    pub(super) fn take_requests(&mut self, cx: &mut Context<'_>) {
        while !self.orphaned
            && let Poll::Ready(request) = self.mailbox.poll_recv(cx)
        {
            self.look_at_the_clock();
            match request {
                Some(request) => self.handle_request(request),
                None => self.orphaned = true,
            }
        }
    }

    fn handle_request(&mut self, request: Request) {
        let request = match request {
            Request::Acquire { id, lease, entropy, reply } => {
                self.keep(entropy);
                let mut caller = Caller::of(lease);
                caller.acquire = Some(reply);
                client::Request::Acquire { id, lease: caller }
            }
            Request::Extend { id, term, reply } => {
                let Some(caller) = self.client.lease_mut(id) else { return };
                caller.extend = Some(reply);
                client::Request::Extend { id, term }
            }
            Request::Resume { id, lease, resuming, reply } => {
                let mut caller = Caller::of(lease);
                caller.extend = Some(reply);
                client::Request::Resume { id, lease: caller, resuming }
            }
            Request::Watch { id, watch } => {
                let Some(caller) = self.client.lease_mut(id) else {
                    return watch.tell(HoldState::Lost);
                };
                let state = caller.look().standing().map(|standing| standing.state(self.now));
                watch.tell(state.unwrap_or(HoldState::Lost));
                caller.watch = Some(watch);
                return;
            }
            Request::HandOver { id } => client::Request::HandOver { id },
            Request::Release { id, reply } => {
                self.replies.insert(id, Reply::Release(reply));
                client::Request::Release { id }
            }
            Request::ReleaseResumed { id, lease, reply } => {
                self.replies.insert(id, Reply::Release(reply));
                client::Request::ReleaseResumed { id, lease: Caller::of(lease) }
            }
            Request::Abandon { id } => client::Request::Abandon { id },
            Request::Nodes { reply } => {
                let nodes = self.client.quorum().indexes();
                let asked = nodes.filter(|node| self.nodes[node.get()].survey()).collect();
                self.unsent = true;
                return self.surveys.begin(self.now, asked, reply);
            }
            Request::Query { query, reply } => {
                client::Request::Query { id: self.expect(Reply::Query(reply)), query: Box::new(query) }
            }
            Request::Start { reply } => client::Request::Start { id: self.expect(Reply::Done(reply)) },
            Request::Settle { reply } => client::Request::Settle { id: self.expect(Reply::Done(reply)) },
            Request::Shutdown { limit, silent_too, reply } => {
                let id = self.expect(Reply::Shutdown(reply));
                client::Request::Shutdown { id, limit, silent_too }
            }
        };
        self.client.request(self.now, request);
        self.carry_out();
    }

    /// Somebody waits for what is asked for now. Returns how it is called.
    fn expect(&mut self, reply: Reply) -> Id {
        let id = Id(self.ids.fetch_add(1, Ordering::Relaxed));
        self.replies.insert(id, reply);
        id
    }
}
