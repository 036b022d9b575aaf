//! Nodes that belong to another fleet: what becomes of a client that is refused, and of one whose
//! node was taken.
//!
//! Clients with different node lists or settings exclude nobody. A client that finds the record of
//! another fleet does not use the node, and while it is refused anywhere, no other node's *new*
//! memory comes to count for it: the other fleet may hold locks there that this one would give away
//! again.
//!
//! It never writes a record of its own where it was refused, not even when the refusing record is
//! gone: that node was emptied, and its fleet may still hold locks by its other nodes. It writes
//! back what it saw. And whoever finds another fleet's record where it had its own marks it as
//! disputed: nobody counts the node until a person has decided.

use std::sync::Arc;

use super::record::{Lasting, Phase, Record, State, difference};
use super::{Distrust, Facts, Fleet, Output};
use crate::command::Swap;
use crate::round::NodeIndex;
use crate::time::Time;

const OTHER_FORM: &str = "another version of Tenure set up this node, or its record is damaged; to \
                          upgrade, see docs/how-to/run-nodes.md";

impl Fleet {
    /// Whether a node of the list belongs to another fleet, or to none yet, as far as we know.
    pub(super) fn is_barred(&self) -> bool {
        let changing = |record: &Record| record.phase != Phase::Open;
        self.members.iter().any(|member| {
            member.foreign.is_some() || member.record.as_ref().is_some_and(|known| changing(&known.record))
        })
    }

    /// Whether a node was ours, and has gone on with another list: it is we who are wrong.
    fn is_outdated(&self) -> bool {
        self.members.iter().any(|member| {
            let foreign = member.foreign.as_ref().and_then(|text| Record::parse(text));
            member.seen.is_some() && foreign.is_some_and(|foreign| foreign.epoch > member.epoch)
        })
    }

    /// A record that cannot be ours.
    pub(super) fn handle_foreign(
        &mut self,
        now: Time,
        node: NodeIndex,
        text: &Arc<str>,
        record: Option<Record>,
    ) {
        let Some(record) = record else {
            self.keep_foreign(node, text);
            return self.object(now, node, Distrust::Unfit(OTHER_FORM.into()));
        };
        let member = &self.members[node.get()];
        // What is written down may come from programs with other lists on this machine: only what
        // we saw ourselves counts.
        let (was_ours, newer) = (member.seen.is_some(), record.epoch > member.epoch);
        if was_ours && !newer && record.phase == Phase::Open && !self.is_outdated() {
            let nonce = self.draw_nonce();
            let disputed = record.renamed(nonce, Phase::Disputed);
            return self.swap(now, node, Arc::clone(text), &disputed);
        }
        self.keep_foreign(node, text);
        if record.phase.changes_to(self.settings.roster().list()) {
            return self.object(now, node, Distrust::Prepared);
        }
        let ours = self.settings.terms(node);
        let mut difference = difference(&record.terms, &ours);
        if difference.is_empty() {
            // The record is ours: the other one has claimed the node without a word about itself.
            "the other one had it before it was emptied".clone_into(&mut difference);
        }
        let reason = match record.phase {
            Phase::Disputed => format!(
                "two fleets claim this node ({difference}). Give all clients the same settings, then run `tenure fleet forget` \
                 for this node"
            ),
            // Newer than anything that we know of our list: what was written back may be of a time
            // before.
            _ if newer && record.epoch > self.epoch() => {
                format!("its fleet's node list has changed ({difference}); update this client")
            }
            _ => format!(
                "the node belongs to a fleet with other settings ({difference}). Give all clients of these \
                 nodes the same settings, or use another prefix; if nobody uses that fleet any more, run \
                 `tenure fleet forget` for this node"
            ),
        };
        self.object(now, node, Distrust::Unfit(reason.into()));
    }

    /// There is no record, although we asked for one to be written.
    pub(super) fn handle_absent(&mut self, now: Time, node: NodeIndex) {
        let unreadable = |text: &Arc<str>| Record::parse(text).is_none();
        if self.members[node.get()].foreign.as_ref().is_some_and(unreadable) {
            return self.object(now, node, Distrust::Unfit(OTHER_FORM.into()));
        }
        self.ask_or_create(now, node);
    }

    fn keep_foreign(&mut self, node: NodeIndex, text: &Arc<str>) {
        let member = &mut self.members[node.get()];
        if member.foreign.as_ref() != Some(text) {
            (member.foreign, member.foreign_unkept) = (Some(Arc::clone(text)), true);
            if member.seen.is_some() {
                // Leases may have asked it while it was ours, and what they asked for may be done
                // in this memory.
                self.outputs.push_back(Output::Distrust { node, forgot: true });
            }
        }
    }

    /// A person has taken the node out of its fleet: whoever comes first has it, after a
    /// quarantine.
    pub(super) fn take_over(&mut self, now: Time, node: NodeIndex, text: Arc<str>, vacant: &Record) {
        let member = &mut self.members[node.get()];
        member.foreign_unkept |= member.foreign.take().is_some();
        let facts = member.facts.clone().unwrap_or_default();
        let new = self.new_record(node, &facts, true);
        let wait = new.wait.max(vacant.wait);
        self.swap(now, node, text, &Record { epoch: vacant.epoch, wait, floor: vacant.floor, ..new });
    }

    /// What to write where there is no record: ours, or that of the fleet which refused us there.
    pub(super) fn first_record(&mut self, node: NodeIndex, facts: &Facts) -> Option<Swap> {
        let member = &self.members[node.get()];
        let returned = !member.lives.is_empty();
        let record = match &member.foreign {
            // Of another form: nobody can say what to write in its place.
            Some(text) => {
                let theirs = Record::parse(text)?;
                let new = self.new_record(node, facts, true).going_on(theirs.lasting());
                Record { wait: theirs.quarantine(), terms: theirs.terms, ..new }
            }
            None => {
                let before = self.goes_on(node);
                self.new_record(node, facts, returned).going_on(before)
            }
        };
        let (text, stamp) = (record.to_text(), record.wants_time());
        Some(Swap { expected: None, text, stamp })
    }

    /// What goes on at a node that has been emptied since we last saw it. A change of the list
    /// needs what it wrote there: a node that waits for its list, or is done with it, must not vote
    /// because it forgot that.
    fn goes_on(&self, node: NodeIndex) -> Lasting {
        let before = self.members[node.get()].lasting.clone();
        let records = self.members.iter().filter_map(|member| Some(&member.record.as_ref()?.record));
        let opened = records.filter(|record| record.opened && record.phase == Phase::Open);
        let opened = opened.max_by_key(|record| record.epoch);
        let opened_in = |epoch: u64| opened.filter(|record| record.epoch >= epoch);
        let since = match before.phase {
            Phase::Prepared(_) | Phase::Vacant => opened_in(before.epoch),
            Phase::Closed(_) | Phase::Reclosing(_) => opened_in(before.epoch.saturating_add(1)),
            // The change may have been given up since; if not, whoever makes it closes the node
            // again.
            Phase::Open | Phase::Closing(_) | Phase::Disputed => {
                let epoch = before.epoch.max(self.epoch());
                return Lasting { phase: Phase::Open, epoch, ..before };
            }
        };
        since.map_or(before, Record::lasting)
    }

    /// A new life of the node's memory. What its fleet is about to do goes on.
    pub(super) fn new_life(&mut self, node: NodeIndex, facts: &Facts, before: &Record) -> Record {
        let new = self.new_record(node, facts, true);
        debug_assert_eq!(new.state, State::New);
        new.going_on(before.lasting())
    }
}
