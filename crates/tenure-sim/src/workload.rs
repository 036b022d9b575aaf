//! What clients do: acquire, extend, release, forget and hand over.

mod cohort;
mod holding;
pub(crate) mod owners;
mod trouble;

use std::time::Duration;

use tenure_core::client::{Input, Request, Resuming};
use tenure_core::{
    HandedOver, HoldState, Lease, LockKey, MaxHold, Mode, NodeSet, Nonce, Prefix, Renewal, Standing, Term,
    Terms, Wait,
};

use crate::mutant::BentLease;
use crate::options::Scenario;
use crate::trace::Mark;
use crate::world::client::{Act, Slot, id};
use crate::world::stage::Stage;
use crate::world::{ClientEvent, Event, World};

/// The shortest term of whoever waits for ever: a round trip takes at most 20 ms, and nodes have
/// half of it to answer.
const PATIENT_TTL_MS: u64 = 100;

/// How many of a thousand releases end a period early.
const WAIVED_PER_MILLE: u64 = 100;

/// How many of a thousand times a client asks for all locks at once.
const BURSTS_PER_MILLE: u64 = 200;

impl World {
    pub(crate) fn start_client(&mut self, client: usize) {
        let calm_ns = self.options.quarantine_us() * 1_000;
        if let Some(stepped_ns) = self.stepped_ns.filter(|stepped_ns| self.now_ns < stepped_ns + calm_ns) {
            // A client that is new could not know that a clock has just stepped.
            self.lasts_until(stepped_ns + calm_ns);
            return self.at(stepped_ns + calm_ns, Event::Start { client });
        }
        if self.clients[client].alive || !self.admits(client) {
            return;
        }
        // Some reach only a minority of nodes, and different ones; the first client reaches all.
        if self.options.scenario == Scenario::Waiting && client > 0 && self.dice.chance(250) {
            let count = self.options.nodes - self.options.quorum().majority();
            let first = self.dice.index(self.options.nodes);
            let nodes = self.options.quorum().indexes().cycle().skip(first).take(count);
            self.clients[client].reach = nodes.collect();
            self.marks.see(Mark::MinorityOnly);
        }
        self.bend_client(client);
        let state = &mut self.clients[client];
        state.alive = true;
        let generation = state.generation;
        self.note(|| format!("client {client}.{generation} starts"));
        self.tell(client, Input::Recalled { memory: None });
        for node in self.clients[client].core.quorum().indexes() {
            self.connect_first(client, node);
        }
        self.act_later(client, 50_000_000, Act::Begin);
    }

    pub(crate) fn handle_act(&mut self, client: usize, act: Act) {
        match act {
            Act::Begin if self.stage == Stage::Safety => self.begin_any_lease(client),
            Act::Join { name, terms } if self.stage == Stage::Safety => {
                self.join_cohort(client, name, *terms);
            }
            Act::Begin | Act::Join { .. } => {}
            Act::Enter { name, terms, outer } => self.enter(client, name, *terms, outer),
            Act::AskAgain { name, terms } => self.ask_again(client, name, *terms),
            Act::Cancel { lease } => self.cancel_lease(client, lease),
            Act::ReleaseCopy { name, token } => self.release_copy(client, name, token),
            Act::Extend { lease } if self.stage == Stage::Safety => {
                let other = self.other_term();
                self.resume_if_late(client, lease);
                let Some(term) = self.clients[client].slot(lease).map(|slot| slot.terms.term) else { return };
                let term = self.extension_term(other.unwrap_or(term));
                if let Some(slot) = self.clients[client].slot(lease) {
                    slot.asked = true;
                    self.ask(client, Request::Extend { id: id(lease), term });
                }
            }
            Act::Share { lease } => self.share_lease(client, lease),
            Act::Extend { lease } | Act::End { lease } => self.end_lease(client, lease),
            Act::Forget { lease } => self.forget_lease(client, lease),
            Act::TellLoss { lease } => self.handle_state(client, lease, HoldState::Lost),
        }
    }

    fn begin_any_lease(&mut self, client: usize) {
        let long_hold = self.options.scenario.has_long_hold() && client == 0;
        let leases_max = if long_hold { 1 } else { self.options.leases_max() };
        if self.clients[client].slots.len() >= leases_max {
            // It has enough to do.
        } else if !long_hold && self.wants_cohort() {
            self.begin_cohort(client);
        } else if self.options.sets_per_mille > 0 && self.dice.chance(self.options.sets_per_mille) {
            self.begin_set(client);
        } else {
            let name = self.dice.index(self.options.names);
            let terms = self.any_terms(long_hold);
            let terms = self.bend_terms(client, self.terms_of(client, terms));
            let bursts = self.options.extra.bursts || self.dice.chance(BURSTS_PER_MILLE);
            if self.options.names > 1 && !long_hold && bursts {
                // They are sent together, and their renewals fall on one moment.
                for name in 0..self.options.names {
                    let terms = self.terms_for(name, terms.clone());
                    self.begin_lease(client, name, terms);
                }
            } else {
                let terms = self.terms_for(name, terms);
                self.begin_lease(client, name, terms);
            }
        }
        self.act_later(client, self.options.max_ttl_ms * 1_000_000, Act::Begin);
    }

    /// Asks for several locks at once.
    fn begin_set(&mut self, client: usize) {
        let count = self.dice.index(self.options.names - 1) + 2;
        let first = self.dice.index(self.options.names);
        let all = self.options.names;
        let names = (0..count).map(|next| (first + next) % all);
        let terms = self.any_terms(false);
        let terms = self.bend_terms(client, self.terms_of(client, terms));
        self.marks.see(Mark::Several);
        self.begin_lease(client, set_of(names), terms);
    }

    /// Asks for a lock.
    pub(crate) fn begin_lease(&mut self, client: usize, name: usize, terms: Terms) -> u32 {
        let lease = self.add_slot(client, name, terms.clone());
        self.bend_place(client, lease);
        self.note(|| {
            let owner = terms.mode.owner().map(|owner| format!(" as {owner}")).unwrap_or_default();
            let kept = match terms.at_least {
                Duration::ZERO => String::new(),
                at_least => format!(", kept for {at_least:?}"),
            };
            let ttl = terms.term.ttl();
            format!("client {client} lease {lease}: wants lock {name} for {ttl:?}{owner}{kept}")
        });
        let wanted = Lease::new(key(name), terms, self.clients[client].core.quorum());
        self.ask(client, Request::Acquire { id: id(lease), lease: wanted });
        let state = &mut self.clients[client];
        if state.slot(lease).is_some() && state.lease(lease).is_none() {
            let early = state.core.awaits_nodes();
            self.marks.see(if early { Mark::Early } else { Mark::Polite });
        }
        lease
    }

    /// Goes on with a lock that another client had.
    pub(crate) fn take_over(
        &mut self,
        client: usize,
        name: usize,
        terms: Terms,
        mut handover: HandedOver,
        lives: Vec<Nonce>,
    ) {
        self.bend_period(&mut handover);
        self.ownership.draw(self.now_ns, handover.token, client, self.clients[client].generation);
        let lease = self.add_slot(client, name, terms.clone());
        self.note(|| format!("client {client} lease {lease}: goes on with lock {name}"));
        if let Some(slot) = self.clients[client].slot(lease) {
            (slot.asked, slot.unproved) = (true, true);
            slot.copy = Some((handover.clone(), lives.clone()));
        }
        let lives = self.bend_lives(client, &handover, lives);
        let resuming = Box::new(Resuming { key: key(name), terms: terms.clone(), handover, lives });
        let resumed = Lease::new(key(name), terms, self.clients[client].core.quorum());
        self.ask(client, Request::Resume { id: id(lease), lease: resumed, resuming });
    }

    fn add_slot(&mut self, client: usize, name: usize, terms: Terms) -> u32 {
        let state = &mut self.clients[client];
        state.leases_begun += 1;
        let lease = state.leases_begun;
        let mut slot = Slot::new(lease, name, terms);
        slot.called_ns = self.now_ns;
        state.slots.push(slot);
        lease
    }

    fn any_terms(&mut self, whole_term: bool) -> Terms {
        let mut options = tenure_core::Options::default();
        let max_ttl_ms = self.options.max_ttl_ms;
        let ttl_ms = if whole_term { max_ttl_ms } else { self.dice.of_any_size(50, max_ttl_ms) };
        let patient = !whole_term && self.dice.chance(100);
        let ttl_ms = if patient { ttl_ms.max(PATIENT_TTL_MS) } else { ttl_ms };
        options.ttl = Duration::from_millis(ttl_ms);
        options.wait = match self.dice.below(3) {
            _ if whole_term || patient => Wait::Forever,
            0 | 1 if self.options.scenario == Scenario::Waiting => Wait::Forever,
            0 => Wait::No,
            1 => Wait::AtMost(Duration::from_millis(self.dice.below(ttl_ms * 4))),
            _ => Wait::AtMost(Duration::from_millis(self.dice.below(ttl_ms))),
        };
        options.retry.delay = Duration::from_millis(self.dice.between(5 + ttl_ms / 20, 10 + ttl_ms));
        options.retry.jitter = options.retry.delay;
        options.fenced = self.options.fenced;
        options.queued = !whole_term && self.dice.chance(self.options.queued_per_mille);
        let by_hand = whole_term && self.options.scenario == Scenario::RollingRestart;
        if by_hand || !whole_term && self.dice.chance(500) {
            options.renewal = Renewal::Off;
        }
        if whole_term {
            options.max_hold = Some(MaxHold::Unlimited);
        }
        if !whole_term && self.options.scenario != Scenario::Waiting && self.dice.chance(100) {
            options.max_hold =
                Some(MaxHold::AtMost(options.ttl * u32::try_from(self.dice.between(1, 3)).unwrap_or(1)));
            options.renewals_max = u32::try_from(self.dice.below(4)).ok();
        }
        // A waiter that wants a margin needs more nodes than a majority, and lets others go first
        // while it cannot have them.
        let in_turn = self.options.scenario == Scenario::Waiting || self.options.extra.nobody_stuck;
        if self.dice.chance(100) && !in_turn {
            options.min_margin = self.options.nodes / 2;
        }
        if self.options.scenario == Scenario::Waiting {
            // Longer than any answer takes.
            options.ttl = Duration::from_millis(max_ttl_ms);
            options.node_timeout = Some(Duration::from_millis(max_ttl_ms / 4));
        } else if patient {
            options.node_timeout = Some(options.ttl / 2);
        } else if self.dice.chance(300) && ttl_ms > 200 && !whole_term {
            options.node_timeout = Some(Duration::from_millis(self.dice.between(1, ttl_ms / 2)));
        }
        if self.options.shared_per_mille > 0 && self.dice.chance(self.options.shared_per_mille) {
            options.mode = Mode::Shared;
        }
        self.draw_period(&mut options);
        self.bend_options(&mut options);
        options.check(self.options.max_ttl()).expect("drawn within the limits")
    }

    /// Now and then a lock is kept from others for a while.
    fn draw_period(&mut self, options: &mut tenure_core::Options) {
        let per_mille = self.options.periods_per_mille;
        // What is kept at the end is not left behind by mistake.
        if per_mille > 0 && self.stage == Stage::Safety && self.dice.chance(per_mille) {
            options.at_least = Duration::from_millis(self.dice.of_any_size(1, self.options.max_ttl_ms));
        }
    }

    /// Now and then a lock is extended for another term than it was acquired for.
    fn other_term(&mut self) -> Option<Term> {
        let ordered = self.options.scenario == Scenario::Waiting || self.options.scenario.has_long_hold();
        if ordered || !self.dice.chance(200) {
            return None;
        }
        let ttl = Duration::from_millis(self.dice.of_any_size(50, self.options.max_ttl_ms));
        tenure_core::Options::default().term(ttl, self.options.max_ttl()).ok()
    }

    /// What the holder does next, and when.
    fn plan_next(&mut self, client: usize, lease: u32) {
        let long_hold = self.options.scenario.has_long_hold() && client == 0;
        if long_hold && self.options.scenario == Scenario::Distance {
            // It only holds the lock.
            return;
        }
        if self.plan_short_hold(client, lease) {
            return;
        }
        let hurried = self.options.scenario == Scenario::Waiting || self.stage != Stage::Safety;
        let share = if long_hold {
            333
        } else if hurried {
            self.dice.between(0, 200)
        } else {
            self.dice.between(50, 1_050)
        };
        let Some(slot) = self.clients[client].slot(lease) else { return };
        let ttl_us = u64::try_from(slot.terms.term.ttl().as_micros()).unwrap_or(u64::MAX);
        let left = slot.extensions_left.unwrap_or(0);
        let mut act = if left > 0 { Act::Extend { lease } } else { Act::End { lease } };
        slot.extensions_left = Some(left.saturating_sub(1));
        if self.options.shared_per_mille > 0
            && self.mode(client, lease).is_exclusive()
            && self.dice.chance(300)
        {
            act = Act::Share { lease };
        }
        let generation = self.clients[client].generation;
        self.at(
            self.now_ns + ttl_us * share,
            Event::Client { client, generation, event: ClientEvent::Act(act) },
        );
    }

    /// Shares what it had alone. From this moment on nobody is kept out who does so, too.
    fn share_lease(&mut self, client: usize, lease: u32) {
        let holder = self.holder(client, lease);
        let Some(slot) = self.clients[client].slot(lease) else { return };
        slot.asked = true;
        // A copy from before would say that it is had alone: nobody may go on by that.
        slot.copy.iter_mut().for_each(|(handover, _)| handover.mode = Mode::Shared);
        let name = slot.name;
        self.marks.see(Mark::SharedSince);
        self.note(|| format!("client {client} lease {lease}: shares lock {name} from now on"));
        self.exclusion.share(name, holder);
        self.ask(client, Request::Share { id: id(lease) });
    }

    fn end_lease(&mut self, client: usize, lease: u32) {
        if self.holds_on(client, lease) {
            return;
        }
        let holder = self.holder(client, lease);
        let hands_over_per_mille = if self.options.extra.copies { 900 } else { 150 };
        let (release, hands_over) = (self.dice.chance(800), self.dice.chance(hands_over_per_mille));
        let calm = self.stage != Stage::Safety;
        let ordered = self.options.scenario == Scenario::Waiting || self.options.scenario.has_long_hold();
        let Some(slot) = self.clients[client].slot(lease) else { return };
        let (name, renewing) = (slot.name, slot.renewing);
        self.exclusion.end(name, holder);
        self.loss.end(holder);
        if hands_over && !calm && !ordered {
            return self.hand_over(client, lease);
        }
        self.release_by_child(client, lease);
        self.note(|| format!("client {client} lease {lease}: gives lock {name} up (release: {release})"));
        if release || calm {
            if renewing {
                self.marks.see(Mark::ReleaseRacedRenewal);
            }
            self.release_lease(client, lease);
        } else if !self.hands_over(client, lease) {
            self.forget_lease(client, lease);
        }
    }

    /// Now and then others may have a lock at once that was to be kept from them; and always when
    /// nothing is to be left behind.
    fn waive_period(&mut self, client: usize, lease: u32) {
        let all = self.stage != Stage::Safety;
        if self.options.periods_per_mille == 0 || !(all || self.dice.chance(WAIVED_PER_MILLE)) {
            return;
        }
        let Some(held) = self.clients[client].core.lease_mut(id(lease)) else { return };
        held.waive_at_least();
        if let Some(token) = held.standing().map(Standing::token) {
            self.marks.see(Mark::Waived);
            self.note(|| format!("client {client} lease {lease}: waives the rest of its period"));
            self.periods.waive(token);
        }
    }

    /// Releases a lock, or gives up whatever there is.
    pub(crate) fn release_lease(&mut self, client: usize, lease: u32) {
        self.waive_period(client, lease);
        let (id, now) = (id(lease), self.release_time(client, lease));
        if self.clients[client].standing(lease).is_some() {
            self.clients[client].awaited.insert(lease);
            self.clients[client].core.request(now, Request::Release { id });
            self.drain(client);
        } else {
            self.ask(client, Request::Abandon { id });
        }
        self.drop_unbegun(client, lease);
    }

    /// Leaves a lock as it is: nobody releases it, and nobody goes on with it.
    pub(crate) fn forget_lease(&mut self, client: usize, lease: u32) {
        self.ask(client, Request::HandOver { id: id(lease) });
        self.drop_unbegun(client, lease);
    }

    /// Nothing is told about a lease that was given up before it began.
    pub(super) fn drop_unbegun(&mut self, client: usize, lease: u32) {
        if self.clients[client].lease(lease).is_none() {
            self.drop_slot(client, lease);
        }
    }

    /// Leaves a lock to another client, or to the same one.
    fn hand_over(&mut self, client: usize, lease: u32) {
        let other = self.dice.index(self.clients.len());
        let earlier = self.dice.chance(500);
        let Some(slot) = self.clients[client].slot(lease) else { return };
        let (name, terms, copy) = (slot.name, slot.terms.clone(), slot.copy.take());
        let handover = self.clients[client].handover(lease, self.now_ns);
        self.forget_lease(client, lease);
        let Some(handover) = handover else { return };
        let lives = self.clients[client].core.fleet().lives(handover.members);
        let (handover, lives) = match copy.filter(|_| earlier) {
            Some((copy, copied)) => {
                if copied != lives {
                    self.marks.see(Mark::EarlierCopy);
                }
                (HandedOver { held: handover.held, ..copy }, copied)
            }
            None => (handover, lives),
        };
        self.marks.see(Mark::HandedOver);
        self.note(|| format!("client {client} lease {lease}: hands lock {name} over to client {other}"));
        let generation = self.clients[other].generation;
        let half_ns = u64::try_from(terms.term.ttl().as_nanos()).unwrap_or(u64::MAX) / 2;
        let delay_ns = self.dice.of_any_size(100_000, half_ns);
        let event = ClientEvent::TakeOver { name, terms: Box::new(terms), handover, lives };
        self.at(self.now_ns + delay_ns, Event::Client { client: other, generation, event });
    }

    fn act_later(&mut self, client: usize, within_ns: u64, act: Act) {
        let (generation, delay_ns) =
            (self.clients[client].generation, self.dice.between(within_ns / 20, within_ns));
        self.at(self.now_ns + delay_ns, Event::Client { client, generation, event: ClientEvent::Act(act) });
    }
}

/// Numbers of locks from here on stand for several that are locked together: one bit for each.
const SETS_FROM: usize = 1 << 16;

/// Several locks as one.
pub(crate) fn set_of(names: impl IntoIterator<Item = usize>) -> usize {
    SETS_FROM + names.into_iter().fold(0, |bits, name| bits | 1 << name)
}

/// Whether several are locked together.
pub(crate) const fn is_set(name: usize) -> bool {
    name >= SETS_FROM
}

/// The locks that a number stands for.
pub(crate) fn each(name: usize) -> impl Iterator<Item = usize> {
    let several = (0..16).filter(move |one| is_set(name) && name & 1 << one != 0);
    several.chain(Some(name).filter(|_| !is_set(name)))
}

/// The name of a lock on the nodes.
pub(crate) fn key(name: usize) -> LockKey {
    let one = |name| LockKey::new(&Prefix::default(), &format!("lock-{name}")).expect("a short name");
    LockKey::all_of(each(name).map(one)).expect("one at least, and few")
}

impl Slot {
    fn new(id: u32, name: usize, terms: Terms) -> Self {
        Self {
            id,
            name,
            terms,
            called_ns: 0,
            in_line_ns: None,
            begun_ns: 0,
            extensions_left: None,
            asked: false,
            renewing: false,
            unproved: false,
            copy: None,
            healed: NodeSet::default(),
            inner: None,
            is_inner: false,
            other_kind: NodeSet::default(),
            pauses: false,
            child: None,
            evicted_ns: vec![],
            grants: 0,
            ended: None,
            bent: BentLease::default(),
        }
    }
}
