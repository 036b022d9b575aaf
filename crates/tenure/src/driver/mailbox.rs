//! What callers ask: taken in, begun, and put off until the nodes are known where that is needed.

use std::task::{Context, Poll};
use std::time::Duration;

use tenure_core::{HoldState, NotExtended, Time, lease};

use super::caller::LeaseEntry;
use super::{AcquireFailure, Driver, Request, look};

/// The first acquires wait until every node has been tried; when a majority is there, no longer than this.
const START_MAX: Duration = Duration::from_millis(50);

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

    pub(super) fn handle_request(&mut self, request: Request) {
        match request {
            Request::Acquire { reply, .. } if self.shutdown.has_begun() => {
                let _ = reply.send(Err(AcquireFailure::ShutDown));
            }
            request @ Request::Acquire { .. } => self.begin_acquire(request, false),
            Request::Extend { id, term, reply } => {
                if let Some(entry) = self.leases.get_mut(&id) {
                    entry.extend = Some(reply);
                    self.advance_lease(id, lease::Input::Extend(term));
                }
            }
            request @ Request::Resume { .. } => self.begin_resume(request),
            Request::Watch { id, watch } => match self.leases.get_mut(&id) {
                Some(entry) => {
                    let state = look(&entry.lease).standing().map(|standing| standing.state(self.now));
                    watch.tell(state.unwrap_or(HoldState::Lost));
                    entry.watch = Some(watch);
                }
                None => watch.tell(HoldState::Lost),
            },
            Request::HandOver { id } => {
                if let Some(early) = &mut self.early {
                    early.retain(|request| !request.begins(id));
                }
                self.advance_lease(id, lease::Input::HandOver);
            }
            Request::Release { id, reply } => self.release(id, reply, false),
            // As with acquires: a node that is not connected yet would not answer in time.
            request @ (Request::ReleaseResumed { .. } | Request::Start { .. }) if self.early.is_some() => {
                self.early.get_or_insert_default().push(request);
            }
            Request::ReleaseResumed { id, lease, reply } => {
                self.leases.insert(id, LeaseEntry::of(lease));
                self.release(id, reply, true);
            }
            Request::Start { reply } => {
                let _ = reply.send(());
            }
            Request::Abandon { id } => {
                if let Some(early) = &mut self.early {
                    early.retain(|request| !request.begins(id));
                }
                self.polite.retain(|(_, request)| !request.begins(id));
                self.advance_lease(id, lease::Input::Abandon);
            }
            Request::Nodes { reply } => {
                let asked = self.quorum.indexes().filter(|node| self.nodes[node.get()].survey()).collect();
                self.unsent = true;
                self.surveys.begin(self.now, asked, reply);
            }
            Request::Query { query, reply } => self.begin_query(query, reply),
            Request::Settle { reply } => self.settling.push(reply),
            Request::Shutdown { limit, silent_too, reply } => self.begin_shutdown(limit, silent_too, reply),
        }
    }

    /// Goes on with a lock of another process. It counts the nodes that are still in a life in which they counted there.
    fn begin_resume(&mut self, request: Request) {
        if let Some(early) = &mut self.early {
            return early.push(request);
        }
        let Request::Resume { id, lease, resuming, reply } = request else { return };
        let left = self.fleet.may_be_in(&resuming.lives);
        if left < self.quorum.majority() {
            // Whoever asked may be gone.
            let _ = reply.send(Err(NotExtended::Outdated { left }));
            return;
        }
        let members = self.fleet.nodes_in(&resuming.lives);
        *look(&lease) = resuming.begin(self.quorum, members, self.now);
        let mut entry = LeaseEntry::of(lease);
        entry.extend = Some(reply);
        self.leases.insert(id, entry);
        self.advance_lease(id, lease::Input::Extend(resuming.terms.term));
    }

    /// Begins what was asked before the nodes were known, once they are: each has been tried, or enough may vote and
    /// the rest takes too long. Nodes that have answered already are only far away: they get as long again as the majority
    /// took, so that the first lock is on all of them.
    pub(super) fn start_early(&mut self) {
        if self.early.is_none() {
            return;
        }
        let settled = self.nodes.iter().all(|node| node.is_settled()) && self.fleet.is_settled();
        let enough = self.fleet.trusted(self.now) >= self.quorum.majority();
        if enough {
            self.enough_since.get_or_insert(self.now);
        }
        let due = self.now >= self.begun + START_MAX;
        let answered = self.fleet.is_settled() || self.rest_until().is_some_and(|until| self.now >= until);
        if settled || enough && due && answered {
            let early = self.early.take().unwrap_or_default();
            early.into_iter().for_each(|request| self.handle_request(request));
        }
    }

    /// Until when nodes that have answered are waited for, once a majority may vote.
    fn rest_until(&self) -> Option<Time> {
        self.enough_since.map(|since| since + since.since(self.begun))
    }

    /// When to look again whether to begin what was asked early.
    pub(super) fn next_start(&self) -> Option<Time> {
        self.early.as_ref().filter(|early| !early.is_empty())?;
        let limits = [Some(self.begun + START_MAX), self.rest_until()];
        limits.into_iter().flatten().filter(|limit| *limit > self.now).min()
    }

    pub(super) fn answer_settled(&mut self) {
        let settled = || self.nodes.iter().all(|node| node.is_settled()) && self.fleet.is_settled();
        if !self.settling.is_empty() && settled() {
            for reply in self.settling.drain(..) {
                let _ = reply.send(());
            }
        }
    }
}
