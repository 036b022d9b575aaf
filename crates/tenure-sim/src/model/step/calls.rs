//! What clients do with the lock.

use tenure_core::client::{Addressee, Id, Input, News, Output, Request};
use tenure_core::{
    Client, Distrust, Entropy, Fault, Fence, HoldState, Lease, Mode, NodeIndex, OwnerToken, Proposal,
    Standing, Time,
};

use super::Step;
use crate::model::config::{Want, Writes};
use crate::model::seen::Sight;
use crate::model::world::{EPOCH_US, NEIGHBOUR};
use crate::mutant::forget_distrust;

impl Step<'_> {
    pub(super) fn begin(&mut self, client: usize) {
        let lease = Lease::new(self.config.key(client), self.config.terms(client), self.config.quorum());
        let state = self.client(client);
        state.begun += 1;
        state.extended = 0;
        let [id, second] = state.callers();
        self.note(|| format!("client {client} asks for the lock"));
        if self.config.cohort {
            // One that came before both and gives up at once: when the first asks, the second
            // waits.
            let gone = Id(second.0 + 1);
            for id in [gone, id, second] {
                self.request(client, Request::Acquire { id, lease: lease.clone() });
            }
            return self.request(client, Request::Abandon { id: gone });
        }
        self.request(client, Request::Acquire { id, lease });
        if self.config.neighbour {
            let lease = Lease::new(NEIGHBOUR.clone(), self.config.terms(client), self.config.quorum());
            let id = self.world.clients[client].neighbour();
            self.request(client, Request::Acquire { id, lease });
        }
    }

    pub(super) fn request(&mut self, client: usize, request: Request<Lease>) {
        self.call(client, |client, now| client.request(now, request));
    }

    /// Tells a client what happens to it.
    pub(super) fn handle(&mut self, client: usize, input: Input) {
        let bent = self.config.discarded_counts;
        self.call(client, |client, now| match input {
            Input::Answer { node, tag, answer: Ok(reply) } if bent => {
                forget_distrust(client, now, node, |client| client.observe(now, node, tag.sent, &reply));
                let deliver = |client: &mut Client| client.deliver(now, node, tag, Ok(reply));
                match tag.to {
                    Addressee::Fleet => forget_distrust(client, now, node, deliver),
                    _ => deliver(client),
                }
            }
            input => client.handle(now, input),
        });
    }

    /// Calls a client, and does what it asks for.
    fn call(&mut self, client: usize, call: impl FnOnce(&mut Client, Time)) {
        let now = self.world.time(client);
        let state = self.world.clients[client].change();
        state.client.swap_room(&mut self.room);
        call(&mut state.client, now);
        self.drain(client);
        self.world.clients[client].change().client.swap_room(&mut self.room);
    }

    fn drain(&mut self, client: usize) {
        while let Some(output) = self.client(client).client.poll_output() {
            match output {
                Output::Send { node, tag, command } => self.send(client, tag, node, command),
                Output::Renew(renewals) => {
                    for node in self.config.quorum().indexes() {
                        for (tag, command) in renewals.commands() {
                            self.send(client, tag, node, command);
                        }
                    }
                    self.arrivals.push_back((client, Input::Split { batch: renewals.batch }));
                }
                Output::Survey { node } => self.survey(client, node),
                Output::Draw { lease, proposal } => self.attempt(client, lease, proposal),
                Output::Tell { lease, news } if lease == self.world.clients[client].id() => {
                    self.hear(client, news);
                }
                Output::Ended { id, .. } if id == self.world.clients[client].id() => {
                    self.client(client).about_to_write = false;
                }
                Output::Notice { node, distrust } => {
                    self.note(|| {
                        let about =
                            distrust.map_or("it may vote".to_owned(), |distrust| distrust.to_string());
                        format!("client {client} on node {}: {about}", node.get())
                    });
                }
                Output::Tell { .. }
                | Output::Ended { .. }
                | Output::Refused { .. }
                | Output::Released { .. }
                | Output::NotReleased { .. }
                | Output::CleanedUp { .. }
                | Output::Found { .. }
                | Output::Started { .. }
                | Output::Settled { .. }
                | Output::ShutDown { .. }
                | Output::Life { .. }
                | Output::Remember { .. }
                | Output::Poisoned { .. } => {}
            }
        }
    }

    fn survey(&mut self, client: usize, node: NodeIndex) {
        let server = self.config.server(client, node.get());
        let link = &self.world.links[self.number(client, node)];
        if link.up && !link.broken {
            let facts = self.world.nodes[server].facts(self.config, server);
            self.arrivals.push_back((client, Input::Surveyed { node, facts }));
        }
    }

    fn attempt(&mut self, client: usize, lease: Id, proposal: Proposal) {
        let now = self.world.time(client);
        let mode = self.config.terms(client).mode;
        let is_judged = self.config.want(client) != Want::Other;
        let rivals = self.world.fences.iter().filter(|(_, other)| is_judged && !mode.is_compatible(other));
        let floor = rivals.map(|(fence, _)| *fence).max().unwrap_or(0);
        for voter in proposal.nodes.iter() {
            match voter {
                Err(Fault::Untrusted(Distrust::Quarantined { .. })) => self.seen.see(Sight::Quarantined),
                Err(Fault::Untrusted(Distrust::ClockJumped { .. })) => self.seen.see(Sight::ClockJumped),
                Err(Fault::Untrusted(Distrust::ClockApart { .. })) => self.seen.see(Sight::ClockApart),
                _ => {}
            }
        }
        self.note(|| {
            let fence = shown(proposal.fence.map(|proposed| proposed.fence.get()));
            let voters: Vec<usize> =
                (0..proposal.nodes.len()).filter(|node| proposal.nodes[*node].is_ok()).collect();
            format!("client {client}: attempt with fence {fence} at nodes {voters:?}")
        });
        let state = self.client(client);
        let mut bytes = [0; 20];
        bytes[0] = u8::try_from(client).expect("a few clients");
        if lease == state.id() {
            state.attempts += 1;
            state.floor = floor;
        } else {
            bytes[2] = 1;
        }
        bytes[1] = state.attempts;
        let entropy = Entropy { token: OwnerToken::from_bytes(bytes), dice: 0 };
        state.client.handle(now, Input::Attempt { lease, entropy, proposal });
    }

    /// A caller hears what became of its lock.
    fn hear(&mut self, client: usize, news: News) {
        match news {
            News::Acquired => self.acquired(client),
            News::Extended => {
                self.seen.see(Sight::Extended);
                self.world.extension_broken |= self.world.clients[client].interrupted;
                self.note(|| format!("client {client} HOLDS the lock for longer"));
            }
            News::NotExtended(reason) => {
                self.note(|| format!("client {client}: not extended, {reason:?}"));
            }
            News::NotAcquired(not) => {
                self.note(|| format!("client {client}: not acquired, {:?}", not.cause));
            }
            News::State(state) => {
                if state == HoldState::Lost {
                    self.seen.see(Sight::Lost);
                }
                self.note(|| format!("client {client}: the lock is {state:?}"));
            }
            News::Waiting { .. } => {
                self.seen.see(Sight::Waiting);
                self.note(|| format!("client {client} waits in line"));
            }
            News::PassedOn => {
                self.seen.see(Sight::PassedWithin);
                self.acquired(client);
            }
            News::Retrying { .. } | News::GivenUp { .. } | News::AllVoted | News::ShutDown => {}
        }
    }

    fn acquired(&mut self, client: usize) {
        let state = &self.world.clients[client];
        let floor = state.floor;
        let fence = state.lease().and_then(Lease::standing).and_then(Standing::fence);
        self.note(|| format!("client {client} HOLDS the lock, fence {}", shown(fence.map(Fence::get))));
        self.seen.see(Sight::Acquired);
        for other in 0..self.world.clients.len() {
            // Only of those who have it is this a matter.
            let holds = self.world.clients[other].lease().is_some_and(|lease| lease.standing().is_some());
            let apart = self.world.are_apart(client, other);
            let was = self.world.clients[other].interrupted;
            let interrupted = other != client && holds && (apart || was);
            if was != interrupted {
                self.client(other).interrupted = interrupted;
            }
        }
        if !self.world.fences.is_empty() {
            self.seen.see(Sight::ChangedHands);
        }
        if let Some(fence) = fence.map(Fence::get).filter(|_| self.config.want(client) != Want::Other) {
            let mode = self.world.mode(client);
            self.world.fence_broken |= fence <= floor || self.is_apart_from_own(client, fence);
            let fences = &mut self.world.fences;
            let same = |(other, of_other): &(u64, Mode)| *other == fence && !mode.is_compatible(of_other);
            self.world.fence_broken |= fences.iter().any(same);
            if let Err(place) = fences.binary_search(&(fence, mode.clone())) {
                fences.insert(place, (fence, mode));
            }
            if self.config.writes == Writes::Fenced {
                self.world.resource.claimed = self.world.resource.claimed.max(fence);
            }
        }
    }

    /// Whether another one of the same owner holds the lock with another fence.
    fn is_apart_from_own(&self, client: usize, fence: u64) -> bool {
        let mode = self.world.mode(client);
        let fence_of = |other: usize| self.world.clients[other].lease()?.standing()?.fence();
        let mut own = (0..self.world.clients.len()).filter(|other| {
            *other != client
                && mode.owner().is_some()
                && self.world.mode(*other) == mode
                && self.world.is_valid(*other)
        });
        own.any(|other| fence_of(other).map(Fence::get) != Some(fence))
    }

    pub(super) fn write(&mut self, client: usize) {
        self.client(client).about_to_write = false;
        let state = &self.world.clients[client];
        let fence = state.lease().and_then(Lease::standing).and_then(Standing::fence);
        let fence = fence.map_or(0, Fence::get);
        if self.config.writes == Writes::Fenced && fence < self.world.resource.claimed {
            self.seen.see(Sight::Refused);
            return self
                .note(|| format!("client {client} writes with fence {}: REFUSED", shown(Some(fence))));
        }
        self.note(|| format!("client {client} writes with fence {}", shown(Some(fence))));
        let others = (0..self.world.clients.len()).filter(|other| *other != client);
        let overrun = others.into_iter().any(|other| self.world.is_valid(other));
        match self.config.writes {
            Writes::Unchecked => self.world.resource.overrun |= overrun,
            Writes::Fenced => self.world.resource.undercut |= overrun,
            Writes::None => {}
        }
    }
}

/// A fence, counted from the beginning of the world.
fn shown(fence: Option<u64>) -> String {
    fence.map_or_else(|| "none".to_owned(), |fence| format!("{}", fence.saturating_sub(EPOCH_US)))
}
