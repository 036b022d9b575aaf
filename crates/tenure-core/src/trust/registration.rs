//! Registering the nodes: asking for records, writing them, and the conclusions from all of them
//! together.

use std::sync::Arc;
use std::time::Duration;

use super::memory::KnownLife;
use super::record::{Phase, Record, State};
use super::{
    Distrust, Facts, Fleet, FreshCheck, Known, Life, Member, Nonce, Output, RECHECK, RECORD_TIMEOUT,
    RestartGuard, TOLD_APART,
};
use crate::command::{Answer, Command, Fault, Reply, Swap};
use crate::fence::Fence;
use crate::node::TRIM_FENCES;
use crate::round::{NodeIndex, NodeSet};
use crate::time::{NodeTime, Time};

impl Fleet {
    pub(super) fn handle_surveyed(&mut self, now: Time, node: NodeIndex, facts: Facts) {
        let member = &mut self.members[node.get()];
        let Some(known) = &member.facts else { return };
        let changed = known.life != facts.life || known.durable != facts.durable;
        if member.surveying || member.objection.is_some() || changed || self.objection_to(&facts).is_some() {
            self.handle_connected(now, node, facts);
        } else {
            self.members[node.get()].facts = Some(facts);
        }
    }

    /// Why a server must not be a node, by what it says about itself.
    fn objection_to(&self, facts: &Facts) -> Option<Arc<str>> {
        let strict = self.settings.restart_guard == RestartGuard::Strict;
        facts.unfit.clone().or_else(|| facts.doubtful.clone().filter(|_| strict))
    }

    pub(super) fn handle_connected(&mut self, now: Time, node: NodeIndex, facts: Facts) {
        let objection = self.objection_to(&facts);
        let member = &mut self.members[node.get()];
        member.objection = objection.map(Distrust::Unfit);
        member.tried |= member.objection.is_some();
        (member.facts, member.record, member.asked) = (Some(facts), None, None);
        (member.fault, member.surveying, member.facts_fresh) = (None, false, true);
        if member.objection.is_some() {
            member.recheck_at = Some(now + RECHECK);
        } else {
            self.ask_or_create(now, node);
            // A client that is soon gone again does its share, too.
            self.send(node, Command::Trim { prefix: self.prefix.clone() });
        }
    }

    pub(super) fn handle_answer(&mut self, now: Time, node: NodeIndex, answer: Result<Reply, Fault>) {
        let member = &mut self.members[node.get()];
        if member.facts.is_none() {
            return;
        }
        match answer {
            // What was told before the record changed is of no use: who the server is now is being
            // found out.
            Ok(Reply { answer: Answer::Record(_), .. }) if member.surveying => {}
            Ok(Reply { answer: Answer::Record(text), time: Some(time), .. }) => {
                (member.asked, member.tried, member.fault) = (None, true, None);
                self.handle_record(now, node, time, text);
            }
            Ok(Reply { answer: Answer::Trimmed { seen, left, latest }, time, .. }) => {
                if let (Some(fence), Some(time)) = (latest, time)
                    && fence > self.settings.bounds.highest(time)
                {
                    let shown = &mut self.members[node.get()].shown_ahead;
                    *shown = (*shown).max(Some(fence));
                }
                let pause = self.trim_pause();
                self.members[node.get()].trim_at = match left {
                    0 => None,
                    _ if seen >= TRIM_FENCES => Some(now),
                    _ => Some(now + pause),
                };
            }
            Ok(_) => {}
            // It is asked again when its time is up. Until then it does not vote.
            Err(fault) => {
                (member.tried, member.fault) = (true, Some(fault.clone()));
                // It said something that is no record. Who does not answer at all is still in the
                // life we know.
                if matches!(fault, Fault::Error(_)) && member.record.take().is_some() {
                    member.asked = Some(now);
                    self.outputs.push_back(Output::Distrust { node, forgot: true });
                }
            }
        }
    }

    pub(super) fn handle_record(
        &mut self,
        now: Time,
        node: NodeIndex,
        time: NodeTime,
        text: Option<Arc<str>>,
    ) {
        let Some(text) = text else {
            self.forget_record(node);
            return self.handle_absent(now, node);
        };
        let record = match Record::parse(&text) {
            // Vacant in our own terms: the change to our list was given up, and the list before may
            // give locks.
            Some(record) if record.terms == self.settings.terms(node) && record.phase != Phase::Disputed => {
                record
            }
            Some(record) if record.phase == Phase::Vacant => return self.take_over(now, node, text, &record),
            foreign => return self.handle_foreign(now, node, &text, foreign),
        };
        let member = &mut self.members[node.get()];
        member.objection = None;
        (member.epoch, member.lasting) = (member.epoch.max(record.epoch), record.lasting());
        member.foreign_unkept |= member.foreign.take().is_some();
        let is_this = |nonce: Nonce| record.is_life(nonce);
        if member.record.as_ref().is_some_and(|known| !is_this(known.record.nonce)) {
            self.forget_record(node);
        }
        let member = &mut self.members[node.get()];
        let facts = member.facts.clone().unwrap_or_default();
        if facts.life.is_some() && record.life != facts.life {
            // Others may know better who the server is now than what it told us a while ago.
            if !member.facts_fresh {
                return self.handle_changed(now, node);
            }
            let record = if self.remembers(node, &record, &facts) {
                Record { life: facts.life, durable: facts.durable, ..record }
            } else {
                self.new_life(node, &facts, &record)
            };
            return self.swap(now, node, text, &record);
        }
        if record.durable && !facts.durable && facts.life.is_some() && member.facts_fresh {
            return self.swap(now, node, text, &Record { durable: false, ..record });
        }
        let remembered = member.lives.iter().any(|life| !is_this(life.nonce));
        if remembered && record.state == State::New && !record.returned {
            // Whoever remembers an earlier life of this memory tells all others.
            return self.swap(now, node, text, &Record { returned: true, ..record });
        }
        let created = record.created.unwrap_or(time);
        let age = Duration::from_micros(time.as_micros().saturating_sub(created.as_micros()));
        let quarantine = self.settings.quarantine().max(record.wait);
        let unseen = !member.lives.iter().any(|life| is_this(life.nonce));
        let unwarranted = remembered && unseen && age < quarantine && matches!(record.state, State::Fresh(_));
        let lately = member.read_at.is_some_and(|at| now < at + quarantine);
        let came_back = lately
            && member.seen.is_some_and(|seen| !is_this(seen))
            && (record.state != State::New || age >= quarantine);
        if (unwarranted || came_back) && record.phase == Phase::Open {
            // It was taken for a first start while we knew better and could not say so in time. Or
            // it would vote at once, and we knew another life of it so short a time ago that this
            // one cannot have begun since and be over its quarantine: an earlier life has come
            // back, and what was granted in between is still held.
            let record = self.new_life(node, &facts, &record);
            return self.swap(now, node, text, &record);
        }
        let process = record.life.as_ref().map(|life| Arc::clone(&life.process));
        let member = &mut self.members[node.get()];
        member.lives.insert(KnownLife { created, nonce: record.nonce, process });
        member.forget_lives(Some(record.nonce));
        let seen = member.seen.replace(record.nonce);
        if seen != Some(record.nonce) {
            // What it showed, it has forgotten.
            member.shown_ahead = None;
            self.outputs.push_back(Output::Life { node, nonce: record.nonce });
        }
        if seen.is_some_and(|seen| seen != record.nonce) {
            self.outputs.push_back(Output::Distrust { node, forgot: true });
        }
        let member = &mut self.members[node.get()];
        (member.facts_fresh, member.read_at) = (false, Some(now));
        if let State::Fresh(_) = record.state {
            // Its clock may be ahead of the others': fences begin above.
            self.fences.observe(Fence::new(created.as_micros()), time, self.settings.bounds);
        }
        self.fences.observe(record.floor, time, self.settings.bounds);
        let left = quarantine.saturating_sub(age);
        if let Some(check) = &mut self.fresh_check
            && check.asked.is_some()
            && self.members[node.get()].read >= check.asked
            && record.state == State::New
            && check.nonces.contains(&record.nonce)
        {
            check.confirmed.insert(node);
        }
        let member = &mut self.members[node.get()];
        // Seen before on this connection: our own clock has counted since.
        let trusted_from = match &member.record {
            Some(known) if known.record.nonce == record.nonce => known.trusted_from,
            _ => now + left,
        };
        member.record = Some(Known { record, text, trusted_from });
    }

    /// The life that we know of this node is over. What comes next may take a few more questions;
    /// nothing counts meanwhile.
    fn forget_record(&mut self, node: NodeIndex) {
        if self.members[node.get()].record.take().is_some() {
            self.outputs.push_back(Output::Distrust { node, forgot: true });
        }
    }

    /// Whether a server with another life than its record names has all the same forgotten nothing:
    /// it is a new process that syncs every write; or the same process, whose lineage changes also
    /// when it gets its first replica, or loses its last, as long as it never followed another
    /// itself.
    pub(super) fn remembers(&self, node: NodeIndex, record: &Record, facts: &Facts) -> bool {
        let (Some(before), Some(now)) = (&record.life, &facts.life) else { return false };
        // A copy from before a life that we know: somebody has put back a backup.
        let lives = &self.members[node.get()].lives;
        let newer =
            lives.iter().any(|life| Some(life.created) > record.created && life.nonce != record.nonce);
        // The process that is gone must have been durable, too.
        let durable =
            record.durable && facts.durable && !newer && self.settings.restart_guard != RestartGuard::Strict;
        (durable || before.process == now.process) && !facts.promoted
    }

    pub(super) fn handle_changed(&mut self, now: Time, node: NodeIndex) {
        let member = &mut self.members[node.get()];
        if member.facts.is_none() || member.surveying {
            return;
        }
        if member.objection.is_none() {
            member.record = None;
            self.outputs.push_back(Output::Distrust { node, forgot: true });
            self.survey(now, node);
        } else if member.foreign.is_some() {
            // It may be ours now.
            self.survey(now, node);
        }
    }

    /// Finds out who the server is now. What it said when we connected is not good enough to judge
    /// a record by that others have written since.
    pub(super) fn survey(&mut self, now: Time, node: NodeIndex) {
        let member = &mut self.members[node.get()];
        (member.surveying, member.asked) = (true, None);
        member.recheck_at = Some(now + RECHECK);
        self.outputs.push_back(Output::Survey { node });
    }

    pub(super) fn handle_timeout(&mut self, now: Time) {
        let silence_max = self.silence_max();
        for node in self.quorum.indexes() {
            if self.members[node.get()].trim_at.is_some_and(|at| now >= at) {
                self.members[node.get()].trim_at = None;
                self.send(node, Command::Trim { prefix: self.prefix.clone() });
            }
            if self.members[node.get()].jumped.is_some_and(|(_, until)| now >= until) {
                self.members[node.get()].jumped = None;
            }
            let member = &self.members[node.get()];
            if member.recheck_at.is_some_and(|at| now >= at) {
                let member = &mut self.members[node.get()];
                member.recheck_at = None;
                if member.surveying || member.objection.is_some() {
                    self.survey(now, node);
                }
            } else if member.asked.is_some_and(|asked| now >= asked + RECORD_TIMEOUT) {
                let member = &mut self.members[node.get()];
                member.tried = true;
                member.fault.get_or_insert(Fault::Timeout);
                self.ask_or_create(now, node);
            } else if member.asked.is_none()
                && member.silent_since().is_some_and(|since| now >= since + silence_max)
            {
                self.ask(now, node, None);
            }
        }
    }

    /// Draws conclusions: which nodes are the same server, whether this is a first start, whose
    /// quarantine is over.
    pub(super) fn evaluate(&mut self, now: Time) {
        self.find_duplicates(now);
        if self.settings.restart_guard == RestartGuard::Evidence {
            self.start_fresh(now);
        }
        let (barred, epoch) = (self.is_barred(), self.epoch());
        for node in self.quorum.indexes() {
            let older = |known: &&Known| known.record.phase == Phase::Open && known.record.epoch < epoch;
            if let Some(known) = self.members[node.get()].idle_record().filter(older).cloned() {
                // Whoever wrote it had not seen the other nodes. Clients with an older list are to
                // know that it is older.
                self.swap(now, node, known.text, &Record { epoch, ..known.record });
            }
            let over =
                |known: &Known| known.record.state == State::New && now >= known.trusted_from && !barred;
            if let Some(known) = self.members[node.get()].idle_record().filter(|known| over(known)).cloned() {
                self.swap(now, node, known.text, &Record { state: State::Waited, ..known.record });
            }
            self.tell(now, node);
        }
        self.remember();
    }

    /// Marks the nodes of a first start, or finishes what another client began.
    pub(super) fn start_fresh(&mut self, now: Time) {
        let is_intact = |member: &Member| member.facts.as_ref().is_some_and(|facts| facts.intact);
        // Such nodes vote without being marked, so being new says nothing about them.
        if self.members.iter().any(is_intact) || self.is_barred() {
            return;
        }
        let records = || self.members.iter().filter_map(|member| member.record.as_ref());
        let marks = records().find_map(|known| match &known.record.state {
            State::Fresh(nonces) => Some(nonces.clone()),
            _ => None,
        });
        if let Some(nonces) = marks {
            self.fresh_check = None;
            return self.mark_fresh(now, &nonces);
        }
        let is_new = |known: &Known| {
            known.record.state == State::New && !known.record.returned && now < known.trusted_from
        };
        let nonces: Vec<Nonce> = records().map(|known| known.record.nonce).collect();
        if nonces.len() < self.fresh_needs || !records().all(is_new) {
            self.fresh_check = None;
            return;
        }
        if self.fresh_check.as_ref().is_none_or(|check| check.nonces != nonces) {
            let (ask_at, confirmed) = (now + TOLD_APART, NodeSet::default());
            let (recalling, recalled) = (false, false);
            self.fresh_check =
                Some(FreshCheck { nonces, ask_at, recalling, recalled, asked: None, confirmed });
            return;
        }
        let recalled = self.is_recalled();
        if let Some(check) = &mut self.fresh_check {
            if check.confirmed.len() == nonces.len() {
                self.mark_fresh(now, &nonces);
            } else if check.asked.is_none() && recalled && now >= check.ask_at {
                check.asked = Some(now);
                for node in self.quorum.indexes() {
                    if self.members[node.get()].record.is_some() {
                        self.ask(now, node, None);
                    }
                }
            }
        }
    }

    fn mark_fresh(&mut self, now: Time, nonces: &[Nonce]) {
        for node in self.quorum.indexes() {
            let known = self.members[node.get()].idle_record().cloned();
            let Some(Known { record, text, .. }) = known else { continue };
            if record.state == State::New && nonces.contains(&record.nonce) {
                self.swap(now, node, text, &Record { state: State::Fresh(nonces.to_vec()), ..record });
            }
        }
    }

    /// A server that is listed twice would vote twice.
    pub(super) fn find_duplicates(&mut self, now: Time) {
        for later in 1..self.members.len() {
            let Some(life) = self.members[later].life() else { continue };
            let is_same = |other: &Life| other.process == life.process || other.lineage == life.lineage;
            let twin = self.members.iter().take(later).position(|member| member.life().is_some_and(is_same));
            if let Some(first) = twin {
                let (first, later_number) = (first + 1, later + 1);
                let message = format!(
                    "node {later_number} is the same server as node {first} in the list, or a copy of it; \
                     every node must be an independent server"
                );
                let member = &mut self.members[later];
                member.objection = Some(Distrust::Unfit(message.into()));
                (member.record, member.tried) = (None, true);
                member.recheck_at.get_or_insert(now + RECHECK);
            }
        }
    }

    pub(super) fn ask_or_create(&mut self, now: Time, node: NodeIndex) {
        let facts = self.members[node.get()].facts.clone().unwrap_or_default();
        let swap = self.first_record(node, &facts);
        self.ask(now, node, swap);
    }

    pub(super) fn swap(&mut self, now: Time, node: NodeIndex, expected: Arc<str>, record: &Record) {
        let (text, stamp) = (record.to_text(), record.wants_time());
        self.ask(now, node, Some(Swap { expected: Some(expected), text, stamp }));
    }

    pub(super) fn ask(&mut self, now: Time, node: NodeIndex, swap: Option<Swap>) {
        self.members[node.get()].asked = Some(now);
        self.send(node, Command::Record { prefix: self.prefix.clone(), swap });
    }

    pub(super) fn send(&mut self, node: NodeIndex, command: Command) {
        self.outputs.push_back(Output::Send { node, command });
    }

    /// A record of ours for a life that begins now.
    pub(super) fn new_record(&mut self, node: NodeIndex, facts: &Facts, returned: bool) -> Record {
        Record {
            nonce: self.draw_nonce(),
            continues: vec![],
            life: facts.life.clone(),
            state: State::New,
            returned,
            durable: facts.durable,
            phase: Phase::Open,
            epoch: self.epoch(),
            opened: false,
            wait: self.settings.quarantine(),
            floor: Fence::NONE,
            terms: self.settings.terms(node),
            created: None,
            closed: None,
        }
    }

    /// How often our list has been changed, as far as any node has told us. One that is only
    /// prepared says what will be.
    pub(super) fn epoch(&self) -> u64 {
        let lasting = self.members.iter().map(|member| &member.lasting);
        let present = lasting.filter(|lasting| !matches!(lasting.phase, Phase::Prepared(_) | Phase::Vacant));
        present.map(|lasting| lasting.epoch).max().unwrap_or(0)
    }

    pub(super) fn draw_nonce(&mut self) -> Nonce {
        draw_nonce(&mut self.random)
    }

    pub(super) fn object(&mut self, now: Time, node: NodeIndex, objection: Distrust) {
        let member = &mut self.members[node.get()];
        (member.objection, member.record) = (Some(objection), None);
        member.recheck_at = Some(now + RECHECK);
    }
}

/// The next nonce: `SplitMix64`, of which every seed gives a sequence of its own.
pub(super) fn draw_nonce(random: &mut u64) -> Nonce {
    *random = random.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*random ^ (*random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    Nonce::new(mixed ^ (mixed >> 31))
}
