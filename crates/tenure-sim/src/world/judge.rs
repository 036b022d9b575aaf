//! What the checkers are told, and when they judge.

use tenure_core::client::Addressee;
use tenure_core::{
    Answer, Command, Entry, Hold, Lease, LockKey, Mode, Next, NodeIndex, Owner, OwnerToken, Refusal, Reply,
    Standing,
};

use super::World;
use super::client::{SimClient, Slot, id};
use crate::checker::leftovers::Afterwards;
use crate::checker::order::InLine;
use crate::checker::{Holder, Violation, beginning, continuity, kinds, order};
use crate::options::{Kinds, Scenario};
use crate::trace::Mark;
use crate::workload::key;

impl World {
    /// Keeps the first violation of a promise that this history makes. A known-bad variant must be
    /// caught by the checker that should, so the others let it pass.
    pub(crate) fn judge(&mut self, violation: Option<Violation>) {
        let Some(violation) = violation.filter(|_| self.violation.is_none()) else { return };
        let checker = self.options.extra.judged_by;
        let promised = match &violation {
            _ if checker.is_some_and(|checker| checker != violation.checker()) => false,
            Violation::TwoHolders { .. } | Violation::Interrupted { .. } | Violation::PeriodCut { .. } => {
                self.options.scenario.promises_exclusion()
            }
            _ => true,
        };
        self.violation = promised.then_some(violation);
    }

    /// Executes a command on a node, and looks whether it touched what is not its own.
    pub(crate) fn execute_judged(&mut self, link: usize, to: Addressee, command: &Command) -> Reply {
        let (client, generation, node) =
            (self.links[link].client, self.links[link].generation, self.links[link].node);
        let index = node.get();
        let look = |world: &Self| -> Vec<(Option<Entry>, Vec<Hold>)> {
            let each = command.key().into_iter().flat_map(LockKey::each);
            each.map(|key| {
                let node = &world.nodes[index];
                (node.entry(world.now_ns, key), node.holds(world.now_ns, key))
            })
            .collect()
        };
        let before = look(self);
        let reply = self.execute(link, command);
        let after = look(self);
        for ((was, shared_was), (is, shared_is)) in before.iter().zip(&after) {
            let (was, is) = ((*was, &shared_was[..]), (*is, &shared_is[..]));
            let violation = self.ownership.executed(index, client, command, was, is);
            self.judge(violation);
        }
        match (&reply.answer, command, to) {
            (Answer::Granted, Command::Heal { token, .. }, Addressee::Lease { lease, .. }) => {
                let is_hold = |hold: &Hold| hold.owner == *token;
                let was_there = |(entry, shared): &(Option<Entry>, Vec<Hold>)| {
                    entry.is_some_and(|entry| entry.owner == Owner::Token(*token))
                        || shared.iter().any(is_hold)
                };
                if !before.iter().all(was_there) {
                    self.healing.put_back(self.now_ns, index, *token);
                }
                if self.clients[client].generation == generation
                    && let Some(slot) = self.clients[client].present_slot(lease)
                {
                    slot.healed.insert(node);
                }
            }
            // A server's own `SET` sets the key all the same, and only its answer is discarded. A
            // copy of the command may come when the node counts already; exclusion rests on A6
            // there.
            (Answer::Refused(Refusal::Stranger), Command::Acquire { token, .. }, Addressee::Lease { .. })
                if is_set_by(*token, &before, &after) =>
            {
                self.marks.see(Mark::SetElsewhere);
                self.healing.put_back(self.now_ns, index, *token);
            }
            (Answer::Granted, Command::Release { next: Next::Nobody { .. }, .. }, _) => {
                self.marks.see(Mark::Kept);
            }
            (Answer::Refused(Refusal::Behind), Command::Acquire { .. }, _) => self.marks.see(Mark::Behind),
            (Answer::Record(Some(text)), Command::Record { swap: Some(swap), .. }, _)
                if self.options.is_stranger(client) && text.starts_with(&*swap.text) =>
            {
                self.marks.see(Mark::WrittenBack);
            }
            _ => {}
        }
        reply
    }

    /// Takes note of an acquire that came when nobody waited for it any more.
    pub(crate) fn mark_ghost(&mut self, reply: &Reply, command: &Command) {
        match (&reply.answer, command) {
            (Answer::Granted, Command::Acquire { .. }) => self.marks.see(Mark::GhostSet),
            (Answer::Refused(Refusal::Behind | Refusal::Stranger), Command::Acquire { .. }) => {
                self.marks.see(Mark::GhostRefused);
            }
            _ => {}
        }
    }

    /// Takes note of those whom a majority of nodes has in line.
    pub(crate) fn note_in_line(&mut self) {
        if self.options.scenario != Scenario::Waiting {
            return;
        }
        let (nodes, majority, now_ns) = (&self.nodes, self.options.quorum().majority(), self.now_ns);
        for SimClient { core, slots, .. } in &mut self.clients {
            for slot in slots.iter_mut().filter(|slot| slot.in_line_ns.is_none()) {
                let Some(lease) = core.lease(id(slot.id)) else { continue };
                let Some(ticket) = lease.ticket() else { continue };
                let in_line = nodes.iter().filter(|node| node.table.is_in_line(lease.key(), ticket)).count();
                slot.in_line_ns = (in_line >= majority).then_some(now_ns);
            }
        }
    }

    /// Writes down what a node did with a command that has to do with waiting.
    pub(crate) fn note_queue_command(
        &mut self,
        node: NodeIndex,
        link: usize,
        reply: &Reply,
        asked: Option<&Command>,
    ) {
        let (client, node) = (self.links[link].client, node.get());
        match asked {
            Some(Command::Acquire { beside, .. }) => {
                let place = beside.as_ref().and_then(|beside| beside.place);
                self.note(|| {
                    format!(
                        "node {node}: acquire of client {client}, {place:?}: {:?} {:?}",
                        reply.answer, reply.line
                    )
                });
            }
            Some(
                command @ (Command::Undo { requeue: Some(_), .. }
                | Command::Release { .. }
                | Command::Leave { .. }
                | Command::Enqueue { .. }
                | Command::Nudge { .. }),
            ) => self.note(|| format!("node {node}: client {client} {command:?}: {:?}", reply.answer)),
            _ => {}
        }
    }

    /// Whoever was in line on a majority of nodes before another asked is served before that one;
    /// unless clocks were set, because whoever is woken by a node that it does not believe cannot
    /// come.
    pub(crate) fn check_order(&mut self, client: usize, lease: u32) {
        if self.options.scenario != Scenario::Waiting || self.stepped_ns.is_some() {
            return;
        }
        let Some(slot) = self.clients[client].slot(lease) else { return };
        let (called_ns, name) = (slot.called_ns, slot.name);
        let later = self.holder(client, lease);
        let alive = self.clients.iter().enumerate().filter(|(_, state)| state.alive);
        let waiting = alive.flat_map(|(client, state)| {
            let waits = |slot: &&Slot| state.lease(slot.id).and_then(Lease::ticket).is_some();
            let in_line = state.slots.iter().filter(waits);
            in_line.map(move |slot| InLine {
                waiter: Holder { client, generation: state.generation, lease: slot.id },
                since_ns: slot.in_line_ns,
            })
        });
        let violation = order::served(name, later, called_ns, waiting);
        self.judge(violation);
    }

    /// Nobody gets a lock within the period of another one.
    pub(crate) fn check_period(&mut self, client: usize, lease: u32) {
        let holder = self.holder(client, lease);
        let Some(token) = self.clients[client].standing(lease).map(Standing::token) else { return };
        let Some(slot) = self.clients[client].slot(lease) else { return };
        let at_least_ns = u64::try_from(slot.terms.at_least.as_nanos()).unwrap_or(u64::MAX);
        let (name, times) = (slot.name, (self.now_ns, slot.begun_ns));
        let violation = self.periods.acquired(times, name, (holder, token), at_least_ns);
        self.judge(violation);
    }

    /// Whoever extends a lock has held it all the time.
    pub(crate) fn check_extension(&mut self, client: usize, lease: u32) {
        let holder = self.holder(client, lease);
        let Some(name) = self.clients[client].slot(lease).map(|slot| slot.name) else { return };
        let mode = self.mode(client, lease);
        let violation = self.extension.extended(name, holder, &mode);
        self.judge(violation);
        self.check_healing(client, lease);
    }

    /// All holds of one owner have one fence while they overlap.
    pub(crate) fn check_group(&mut self, client: usize, lease: u32, fence: u64) {
        let (holder, mode) = (self.holder(client, lease), self.mode(client, lease));
        let Some(slot) = self.clients[client].slot(lease).filter(|_| mode.owner().is_some()) else { return };
        let name = slot.name;
        let beside = self.exclusion.beside(self.now_ns, name, holder, &mode);
        let violation = self.fencing.joined(name, holder, fence, beside);
        self.judge(violation);
    }

    /// Nodes refused an attempt because of the kind of lock; it must not go on if they are too
    /// many.
    pub(crate) fn check_kind(&mut self, client: usize, lease: u32) {
        let (waiter, quorum) = (self.holder(client, lease), self.clients[client].core.quorum());
        let Some(slot) = self.clients[client].slot(lease) else { return };
        slot.pauses = true;
        let violation = kinds::goes_on(slot.name, waiter, quorum, slot.other_kind.len());
        self.judge(violation);
    }

    /// Nodes that had lost the key are counted in good time, by whichever copy of the handover.
    fn check_healing(&mut self, client: usize, lease: u32) {
        // Whose clock steps counts otherwise than true time.
        let Kinds { small_steps, steps_forward, steps_back, freeze, slew, .. } = self.options.possible;
        if small_steps || steps_forward || steps_back || freeze || slew {
            return;
        }
        let holder = self.holder(client, lease);
        let Some(name) = self.clients[client].slot(lease).map(|slot| slot.name) else { return };
        let state = &self.clients[client];
        let Some(standing) = state.standing(lease) else { return };
        let (granted, members, token) = (standing.round().granted(), standing.members(), standing.token());
        // Clocks are no more than two in a hundred apart.
        let quarantine_ns = self.options.quarantine_us() * 980;
        for node in granted.iter().filter(|node| members.contains(*node)) {
            let key = (node.get(), token);
            let violation = self.healing.counted(self.now_ns, name, holder, key, quarantine_ns);
            self.judge(violation);
        }
    }

    /// Takes note that a client knows enough nodes to begin.
    pub(crate) fn note_known(&mut self, client: usize) {
        let now = self.time(client);
        let state = &mut self.clients[client];
        if !state.begun && !state.knew_enough {
            state.knew_enough = state.core.fleet().trusted(now) >= state.core.quorum().majority();
        }
    }

    /// Whoever begins knows enough nodes, or has, or knows that there are no more.
    pub(crate) fn check_beginning(&mut self, client: usize) {
        let (now, quorum) = (self.time(client), self.clients[client].core.quorum());
        let state = &mut self.clients[client];
        if !std::mem::replace(&mut state.begun, true) && !state.knew_enough {
            let trusted = state.core.fleet().trusted(now);
            let violation = beginning::begun(client, quorum, state.tried, trusted);
            self.judge(violation);
        }
    }

    /// A caller of a client is answered.
    pub(crate) fn handle_answered(&mut self, client: usize, asked: u32) {
        let awaited = self.clients[client].awaited.remove(&asked);
        self.judge((!awaited).then_some(Violation::AnsweredTwice { client, asked }));
    }

    /// At the end no caller still waits for an answer.
    pub(crate) fn check_answers(&mut self) {
        for (client, state) in self.clients.iter().enumerate() {
            if let Some(asked) = state.awaited.first().copied() {
                return self.judge(Some(Violation::Unanswered { client, asked }));
            }
        }
    }

    /// At the end nobody has waited for too long who could reach a majority.
    pub(crate) fn check_stuck(&mut self) {
        let judged = self.options.scenario == Scenario::Waiting || self.options.extra.nobody_stuck;
        if !judged || self.now_ns < self.options.stuck_ns() {
            return;
        }
        let majority = self.options.quorum().majority();
        let since_ns = self.now_ns - self.options.stuck_ns();
        for (number, state) in self.clients.iter().enumerate() {
            let stuck = |slot: &&Slot| state.standing(slot.id).is_none() && slot.called_ns < since_ns;
            if state.alive
                && state.reach.len() >= majority
                && let Some(slot) = state.slots.iter().find(stuck)
            {
                let waiter = Holder { client: number, generation: state.generation, lease: slot.id };
                return self.judge(Some(Violation::Stuck { name: slot.name, waiter }));
            }
        }
    }

    /// Whoever extends in time keeps the lock: while all nodes are restarted one after another, and
    /// however far they are.
    pub(crate) fn check_continuity(&mut self) {
        if self.options.scenario.has_long_hold() {
            let present = self.exclusion.holder(self.now_ns, 0);
            let violation = continuity::kept(0, self.first_to_hold, present);
            self.judge(violation);
        }
    }

    /// Everybody has stopped.
    pub(crate) fn check_leftovers(&mut self, calmed_ns: u64) {
        // By true time, a clock that runs slow keeps a key for longer.
        let key_ns = self.options.quarantine_us() * 1_100;
        let afterwards = Afterwards { now_ns: self.now_ns, calmed_ns, key_ns };
        for name in 0..self.options.names {
            for node in 0..self.nodes.len() {
                let Some(entry) = self.nodes[node].entry(self.now_ns, &key(name)) else { continue };
                let tokens: Vec<OwnerToken> = match entry.owner {
                    Owner::Token(token) | Owner::Kept(token) => vec![token],
                    Owner::Reserved(_) => vec![],
                    Owner::Shared | Owner::Owned => {
                        let holds = self.nodes[node].holds(self.now_ns, &key(name));
                        holds.iter().map(|hold| hold.owner).collect()
                    }
                };
                // What is only set aside has no owner.
                let drawn = tokens.iter().map(|token| self.ownership.drawn_ns(*token)).max().flatten();
                let violation = afterwards.left(name, node, tokens.is_empty(), drawn);
                self.judge(violation);
            }
        }
    }

    /// Whom a hold keeps out.
    pub(crate) fn mode(&self, client: usize, lease: u32) -> Mode {
        self.clients[client].lease(lease).map(Lease::mode).unwrap_or_default()
    }

    pub(crate) fn holder(&self, client: usize, lease: u32) -> Holder {
        Holder { client, generation: self.clients[client].generation, lease }
    }
}

/// Whether a name has become this owner's that was nobody's.
fn is_set_by(
    token: OwnerToken,
    before: &[(Option<Entry>, Vec<Hold>)],
    after: &[(Option<Entry>, Vec<Hold>)],
) -> bool {
    let is_ours = |entry: &Option<Entry>| entry.is_some_and(|entry| entry.owner == Owner::Token(token));
    before.iter().zip(after).any(|((was, _), (is, _))| was.is_none() && is_ours(is))
}
