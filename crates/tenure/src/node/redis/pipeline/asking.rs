//! What goes into a pipeline: commands, and the questions that are asked right behind some of them.
//!
//! For everything that is written one [`InFlight`] is kept, so that its reply is known by its
//! place. Commands of some kinds wait for each other and leave as one call, but never behind
//! anything that came after them.

use std::sync::Arc;

use tenure_core::{Batch, Command, LockKey, Time};
use tokio::time::Instant;

use super::{Asks, Awaited, InFlight, Pipeline, Tagged};
use crate::node::redis::info;
use crate::node::redis::resp::encode;
use crate::node::redis::script::{Form, Scripts};
use crate::node::{Addressee, EncodedRenewals, Tag};

impl Pipeline {
    pub(in crate::node::redis) fn send(&mut self, tag: Tag, command: Command) {
        let Some(batch) = self.scripts.batch_of(&command) else {
            return self.send_as(tag, command, Form::Short);
        };
        if !self.gathered.has_room_for(batch, &command) {
            self.send_gathered();
        }
        self.gathered.push(batch, (tag, command));
        self.batched += 1;
    }

    /// Sends a batch of renewals as one script.
    pub(in crate::node::redis) fn renew(&mut self, renewals: Arc<EncodedRenewals>) {
        self.send_renewals(renewals, Form::Short);
    }

    /// Asks the server about itself.
    pub(in crate::node::redis) fn survey(&mut self) {
        let tag = Tag { to: Addressee::Nobody, sent: Time::from_nanos(0) };
        if self.in_flight.is_empty() {
            self.progress = Instant::now();
        }
        encode(&mut self.output, info::INFO);
        self.ask(tag, None, Asks::Info);
        encode(&mut self.output, info::CONFIG);
        self.ask(tag, None, Asks::Config);
    }

    pub(super) fn send_renewals(&mut self, renewals: Arc<EncodedRenewals>, form: Form) {
        self.send_gathered();
        if self.in_flight.is_empty() {
            self.progress = Instant::now();
        }
        let encode = |output: &mut Vec<u8>, scripts: &Scripts| {
            let locks = renewals.locks.iter();
            let extends = locks.map(|(_, lock)| (&lock.key, &lock.token, lock.node_ttl_ms, &lock.mode));
            scripts.encode_extends(output, extends, form);
        };
        if form == Form::Short && self.scripts.knows(Batch::Extends) {
            let encoded = renewals.encoded.get_or_init(|| {
                let mut encoded = vec![];
                encode(&mut encoded, &self.scripts);
                encoded
            });
            self.output.extend_from_slice(encoded);
        } else {
            encode(&mut self.output, &self.scripts);
        }
        let tag = Tag { to: Addressee::Nobody, sent: renewals.sent };
        self.renewals_sent.push_back(renewals);
        self.ask(tag, None, Asks::Renewals(form));
    }

    /// Sends the commands that wait, before anything that comes after them.
    pub(super) fn send_gathered(&mut self) {
        if self.gathered.is_empty() {
            return;
        }
        for batch in Batch::ALL {
            let mut commands = self.gathered.take(batch);
            if commands.len() == 1 && batch != Batch::Extends {
                self.batched -= 1;
                commands.drain(..).for_each(|(tag, command)| self.send_one(tag, command, Form::Short));
                self.gathered.reuse(batch, commands);
            } else if !commands.is_empty() {
                self.send_batch(batch, commands, Form::Short);
            }
        }
    }

    pub(super) fn send_batch(&mut self, batch: Batch, commands: Vec<Tagged>, form: Form) {
        let Some((tag, _)) = commands.first() else { return };
        let tag = *tag;
        if self.in_flight.is_empty() {
            self.progress = Instant::now();
        }
        let of_each = commands.iter().map(|(_, command)| command);
        self.scripts.encode_batch(&mut self.output, batch, of_each, form);
        self.batches_sent.push_back(commands);
        self.ask(tag, None, Asks::Batch(batch, form));
    }

    pub(super) fn send_as(&mut self, tag: Tag, command: Command, form: Form) {
        self.send_gathered();
        self.send_one(tag, command, form);
    }

    fn send_one(&mut self, tag: Tag, command: Command, form: Form) {
        if self.in_flight.is_empty() {
            self.progress = Instant::now();
        }
        self.scripts.encode(&mut self.output, &command, form);
        self.asks_time |= self.scripts.is_native_acquire(&command);
        let watches_record = matches!(command, Command::Record { .. }) && self.scripts.tracks_record;
        self.ask(tag, Some(command), Asks::Command(form));
        if watches_record {
            encode(&mut self.output, &[b"CLIENT", b"CACHING", b"YES"]);
            encode(&mut self.output, &[b"GET", self.scripts.record_key()]);
            self.ask(tag, None, Asks::Watch);
            self.ask(tag, None, Asks::Record);
        }
    }

    /// Has a lock watched that another library holds, for the first in line of ours.
    pub(super) fn await_change(&mut self, key: &LockKey, number: u64) {
        if !self.scripts.tracks_record {
            return;
        }
        let tag = Tag { to: Addressee::Nobody, sent: Time::from_nanos(0) };
        self.send_gathered();
        encode(&mut self.output, &[b"CLIENT", b"CACHING", b"YES"]);
        encode(&mut self.output, &[b"EXISTS", key.as_str().as_bytes()]);
        self.ask(tag, None, Asks::Watch);
        self.arming.push_back(Awaited { key: key.clone(), number });
        self.ask(tag, None, Asks::Awaited);
    }

    /// Everything that is to be in the next write.
    pub(super) fn complete_output(&mut self) {
        self.send_gathered();
        if std::mem::take(&mut self.asks_time) {
            encode(&mut self.output, &[b"TIME"]);
            self.ask(Tag { to: Addressee::Nobody, sent: Time::from_nanos(0) }, None, Asks::Time);
        }
    }

    pub(super) fn ask(&mut self, tag: Tag, command: Option<Command>, asks: Asks) {
        self.in_flight.push_back(InFlight { tag, command, asks });
    }
}
