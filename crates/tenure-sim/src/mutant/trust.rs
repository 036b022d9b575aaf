//! Nodes that are trusted wrongly.

use std::sync::Arc;
use std::time::Duration;

use tenure_core::{
    Answer, Client, Command, Distrust, Facts, Fault, Fleet, MaxTtl, Mode, NodeTime, Prefix, Proposal, Reply,
    Settings, Swap, Terms, Wait,
};

use super::{Asked, Mutant, SeenSteps};
use crate::world::World;
use crate::world::strangers::{LIST, LIST_IN_PART};

/// How many times shorter the largest ttl of some clients is, where settings are not compared.
const SHORTER: u32 = 10;

const RETURNED: [&str; 2] = [" returned=0 ", " returned=1 "];

impl World {
    /// The server that a connection leads to.
    pub(super) fn server(&self, link: usize) -> usize {
        let link = &self.links[link];
        match self.options.mutant {
            Some(Mutant::DuplicateNode) if link.client % 2 == 1 && link.node.get() == 2 => 1,
            _ => link.node.get(),
        }
    }

    /// What a server says about itself, to whoever may ask.
    pub(crate) fn facts(&self, link: usize) -> Facts {
        let node = self.links[link].node.get();
        let mut facts = self.nodes[node].facts(node);
        if self.options.extra.nameless {
            facts.life = None;
        }
        if let (Some(Mutant::PromotionUnseen), Some(life)) = (self.options.mutant, &mut facts.life) {
            (life.lineage, facts.promoted) = (Arc::clone(&life.process), false);
        }
        facts
    }

    /// Bends what a new process knows of its nodes.
    pub(crate) fn bend_client(&mut self, client: usize) {
        let (options, quorum, prefix) = (&self.options, self.options.quorum(), Prefix::default());
        match options.mutant {
            Some(Mutant::FreshByMajority) => {
                let seed = self.dice.next();
                let fleet = Fleet::new(self.options.settings(), quorum, prefix, seed);
                self.replace_fleet(client, fleet.starting_fresh_with(quorum.majority()));
            }
            Some(Mutant::OtherSettings) if client % 2 == 1 => {
                let settings = Settings::new(self.shorter_max_ttl(), LIST)
                    .restart_guard(options.restart_guard)
                    .fence_retention(Duration::from_millis(options.retention_ms));
                let seed = self.dice.next();
                self.replace_fleet(client, Fleet::new(settings, quorum, prefix, seed));
            }
            _ => {}
        }
    }

    fn replace_fleet(&mut self, client: usize, fleet: Fleet) {
        let now = self.time(client);
        self.clients[client].core = Client::new(now, fleet);
    }

    /// Bends what a new lease is asked for with.
    pub(crate) fn bend_options(&self, options: &mut tenure_core::Options) {
        if self.options.mutant == Some(Mutant::TimeoutFixed) {
            let (near, _) = options.node_timeout_range(options.ttl);
            options.node_timeout.get_or_insert(near);
        }
    }

    /// The terms of a client whose largest ttl is another.
    pub(crate) fn bend_terms(&self, client: usize, mut terms: Terms) -> Terms {
        if self.options.mutant == Some(Mutant::OtherSettings) && client % 2 == 1 {
            let max_ttl = self.shorter_max_ttl();
            let ttl = terms.term.ttl().min(max_ttl.get());
            terms.term = tenure_core::Options::default().term(ttl, max_ttl).expect("within the limits");
            (terms.renewal, terms.quarantine) = (None, max_ttl.quarantine());
        }
        if self.options.asks_in_vain(client) {
            (terms.mode, terms.wait, terms.queued) = (Mode::Exclusive, Wait::Forever, true);
        }
        terms
    }

    fn shorter_max_ttl(&self) -> MaxTtl {
        let max_ttl = self.options.max_ttl().get() / SHORTER;
        MaxTtl::new(max_ttl).expect("the longer one is long enough")
    }

    /// Asks nodes that may not vote.
    pub(super) fn bend_voters(&self, client: usize, proposal: &mut Proposal) {
        let (now, fleet) = (self.time(client), self.clients[client].core.fleet());
        let nodes = self.options.quorum().indexes().zip(&*proposal.nodes);
        proposal.nodes = nodes
            .map(|(node, voter)| match voter {
                Err(Fault::Untrusted(distrust)) if self.ignores(client, distrust) => {
                    Ok(fleet.report(now, node).nonce)
                }
                voter => voter.clone(),
            })
            .collect();
    }

    /// Bends the time that a node tells a client: steps of its clock that the client does not mind
    /// are not in it.
    pub(crate) fn bend_time(&mut self, link: usize, reply: &mut Reply) {
        let Some(mutant @ (Mutant::ClockUnwatched | Mutant::ClockOwnGuard)) = self.options.mutant else {
            return;
        };
        let (client, node) = (self.links[link].client, self.links[link].node.get());
        let stepped_us = self.nodes[node].clock.stepped_us;
        let watched = self.clients[client].bent.clocks.get(&node).copied();
        let mut steps = watched.unwrap_or(SeenSteps { seen_us: stepped_us, overlooked_us: 0 });
        let by_us = stepped_us - steps.seen_us - steps.overlooked_us;
        if mutant == Mutant::ClockUnwatched || self.is_within_guard(client, by_us) {
            steps.overlooked_us += by_us;
        } else {
            steps.seen_us += by_us;
        }
        self.clients[client].bent.clocks.insert(node, steps);
        reply.time = reply
            .time
            .map(|time| NodeTime::from_micros(time.as_micros().saturating_add_signed(-steps.overlooked_us)));
    }

    /// Whether a jump is within the guard band of a lock of this client.
    fn is_within_guard(&self, client: usize, by_us: i64) -> bool {
        let terms = self.clients[client].slots.iter().map(|slot| slot.terms.term);
        let guards = terms.map(|term| u128::from(term.node_ttl_ms()) * 1_000 - term.ttl().as_micros());
        guards.max().is_some_and(|guard_us| u128::from(by_us.unsigned_abs()) < guard_us)
    }

    fn ignores(&self, client: usize, distrust: &Distrust) -> bool {
        match (self.options.mutant, distrust) {
            (Some(Mutant::QuarantineIgnored), Distrust::Quarantined { .. })
            | (Some(Mutant::FloorIgnored), Distrust::FencesAhead)
            | (Some(Mutant::ClockUnwatched), Distrust::ClockJumped { .. } | Distrust::ClockApart { .. }) => {
                true
            }
            (Some(Mutant::ClockOwnGuard), Distrust::ClockJumped { by_us, .. }) => {
                self.is_within_guard(client, *by_us)
            }
            _ => false,
        }
    }

    /// Does not compare records, or reads and writes them otherwise than they are.
    pub(super) fn bend_record(&mut self, mutant: Mutant, asked: &Asked<'_>) -> Option<Reply> {
        let &Asked { client, server, now, command } = asked;
        if let (Mutant::RecordUnchecked, Command::Acquire { nonce: Some(_), .. }) = (mutant, command) {
            let mut bent = command.clone();
            if let Command::Acquire { nonce, .. } = &mut bent {
                *nonce = None;
            }
            return Some(self.nodes[server].table.execute(now, &bent));
        }
        if let (Mutant::RecordByName, Command::Acquire { key, fence: Some(proposed), .. }) = (mutant, command)
        {
            let state = &mut self.nodes[server];
            let mut bent = command.clone();
            if let (Command::Acquire { nonce, .. }, true) = (&mut bent, state.bent.numbers.contains_key(key))
            {
                *nonce = None;
            }
            let reply = state.table.execute(now, &bent);
            if reply.answer == Answer::Granted {
                state.bent.numbers.insert(key.clone(), proposed.fence.get());
            }
            return Some(reply);
        }
        let Command::Record { prefix, swap } = command else { return None };
        let process = (client, self.clients[client].generation);
        if let (Mutant::ReturnedUnwritten, Some(swap)) = (mutant, swap)
            && swap.text.contains(RETURNED[1])
        {
            self.nodes[server].bent.returned_to.insert(process);
        }
        if let (Mutant::RefusedTakesOver, Some(Swap { expected: None, text, stamp })) = (mutant, swap)
            && self.options.is_stranger(client)
        {
            // As if nobody had been there before.
            let [theirs, own] = [LIST, LIST_IN_PART].map(|list| format!(" nodes={list} "));
            let text = text.replace(&theirs, &own).replace(RETURNED[1], RETURNED[0]).into();
            let swap = Some(Swap { expected: None, text, stamp: *stamp });
            return Some(
                self.nodes[server].table.execute(now, &Command::Record { prefix: prefix.clone(), swap }),
            );
        }
        let (stored, shown) = match mutant {
            Mutant::ReturnedUnwritten => {
                let knows = self.nodes[server].bent.returned_to.contains(&process);
                (RETURNED.map(str::to_owned), if knows { RETURNED } else { [""; 2] }.map(str::to_owned))
            }
            Mutant::OtherSettings => {
                // All of them read and write the nodes' records as if the settings were their own.
                let [one, other] = [self.options.max_ttl(), self.shorter_max_ttl()].map(settings_words);
                let ours = if client % 2 == 1 { &other } else { &one };
                ([one.clone(), other.clone()], [one.clone(), ours.clone()])
            }
            _ => return None,
        };
        let to_stored = |text: &Arc<str>| -> Arc<str> { text.replace(&*stored[1], &stored[0]).into() };
        let swap = swap.as_ref().map(|Swap { expected, text, stamp }| Swap {
            expected: expected.as_ref().map(to_stored),
            text: to_stored(text),
            stamp: *stamp,
        });
        let mut reply =
            self.nodes[server].table.execute(now, &Command::Record { prefix: prefix.clone(), swap });
        if let Answer::Record(Some(text)) = &mut reply.answer
            && !shown[0].is_empty()
        {
            *text = text.replace(&*shown[0], &shown[1]).into();
        }
        Some(reply)
    }
}

/// The part of a record that tells the largest ttl and what follows from it.
fn settings_words(max_ttl: MaxTtl) -> String {
    let slack_us = Settings::new(max_ttl, "").bounds().slack_us;
    let (max_ttl_ms, guard_ms) = (max_ttl.get().as_millis(), max_ttl.guard_band_max().as_millis());
    format!(" max_ttl_ms={max_ttl_ms} guard_ms={guard_ms} slack_us={slack_us} ")
}
