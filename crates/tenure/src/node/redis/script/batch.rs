//! Several commands of one kind as one call: a call costs the server as much as a lock.
//!
//! Which ones, the core says ([`Batch`]). Each is executed as it would be alone, also when another
//! one fails.

use tenure_core::{Batch, Command, LockKey, Mode, OwnerToken};

use super::super::resp::{Decimal, push_joined, push_part};
use super::parameters::{Key, SOURCES, ScriptName};
use super::text::Limits;
use super::{Form, Scripts, life_of};

/// The texts that execute them, in the order of [`Batch::ALL`].
pub(super) fn texts(limits: &Limits) -> [String; Batch::COUNT] {
    let many =
        |name: ScriptName, function, batch| SOURCES[name as usize].spelled_out_as(function, batch, limits);
    [
        many(ScriptName::Release, "release", include_str!("release_many.lua")),
        many(ScriptName::Acquire, "acquire", include_str!("acquire_many.lua")),
        include_str!("extend.lua").to_owned(),
    ]
}

impl Scripts {
    /// Whether a command can be sent together with others on this server, and with which.
    pub(in crate::node::redis) fn batch_of(&self, command: &Command) -> Option<Batch> {
        Batch::of(command).filter(|batch| match batch {
            Batch::Extends => true,
            Batch::Releases => self.knows(*batch),
            Batch::Acquires => self.tracks_record && self.knows(*batch),
        })
    }

    /// Whether the server knows the script, by the name that all servers give it: a digest of its
    /// text.
    pub(in crate::node::redis) fn knows(&self, batch: Batch) -> bool {
        self.batches[batch as usize].sha.is_some()
    }

    /// From now on these are sent one by one.
    pub(in crate::node::redis) fn forbid(&mut self, batch: Batch) {
        self.batches[batch as usize].sha = None;
    }

    /// Appends several commands of one kind as one call.
    pub(in crate::node::redis) fn encode_batch<'a>(
        &self,
        buffer: &mut Vec<u8>,
        batch: Batch,
        commands: impl ExactSizeIterator<Item = &'a Command> + Clone,
        form: Form,
    ) {
        match batch {
            Batch::Releases => self.encode_releases(buffer, commands, form),
            Batch::Acquires => self.encode_acquires(buffer, commands, form),
            Batch::Extends => {
                let extends = commands.map(|command| match command {
                    Command::Extend { key, token, node_ttl_ms, mode } => (key, token, *node_ttl_ms, mode),
                    other => unreachable!("no extension: {other:?}"),
                });
                self.encode_extends(buffer, extends, form);
            }
        }
    }

    /// Appends several extensions as one call.
    pub(in crate::node::redis) fn encode_extends<'a>(
        &self,
        buffer: &mut Vec<u8>,
        extends: impl ExactSizeIterator<Item = (&'a LockKey, &'a OwnerToken, u64, &'a Mode)> + Clone,
        form: Form,
    ) {
        let count = extends.len();
        self.batches[Batch::Extends as usize].encode_head(buffer, form, count, 2 * count);
        for (key, ..) in extends.clone() {
            push_part(buffer, key.as_str().as_bytes());
        }
        for (_, token, node_ttl_ms, mode) in extends {
            match mode {
                Mode::Shared => push_joined(buffer, &[&token.to_hex(), b"r"]),
                Mode::Owned(_) => push_joined(buffer, &[&token.to_hex(), b"o"]),
                _ => push_part(buffer, &token.to_hex()),
            }
            push_part(buffer, Decimal::of(node_ttl_ms).as_bytes());
        }
    }

    fn encode_acquires<'a>(
        &self,
        buffer: &mut Vec<u8>,
        commands: impl ExactSizeIterator<Item = &'a Command> + Clone,
        form: Form,
    ) {
        let count = commands.len();
        let acquires = commands.filter_map(|command| match command {
            Command::Acquire { key, token, node_ttl_ms, nonce, fence: Some(proposed), .. } => {
                Some((key, token, *node_ttl_ms, *nonce, proposed))
            }
            _ => None,
        });
        let ttls = acquires.clone().map(|(_, _, ttl, ..)| ttl);
        let is_same = ttls.clone().all(|ttl| Some(ttl) == ttls.clone().next());
        let ttls = ttls.take(if is_same { 1 } else { count });
        let script = &self.batches[Batch::Acquires as usize];
        script.encode_head(buffer, form, 2 + 2 * count, 5 + 2 * count + ttls.clone().count());
        self.push_key(buffer, Key::Fences, "");
        self.push_key(buffer, Key::Record, "");
        for kind in [Key::Lock, Key::Fence] {
            acquires.clone().for_each(|(key, ..)| self.push_key(buffer, kind, key.as_str()));
        }
        // They are all of one life.
        let nonce = acquires.clone().find_map(|(_, _, _, nonce, _)| nonce);
        let nonce = nonce.map(tenure_core::Nonce::to_hex).unwrap_or_default();
        let life = life_of(nonce);
        push_part(buffer, &nonce);
        push_part(buffer, &life);
        let fences = acquires.clone().map(|(.., proposed)| proposed.fence.get());
        let ends = acquires.clone().map(|(.., proposed)| proposed.ends_ms);
        for number in [fences.clone().min(), fences.clone().max(), ends.max()] {
            push_part(buffer, Decimal::of(number.unwrap_or_default()).as_bytes());
        }
        acquires.for_each(|(_, token, ..)| push_part(buffer, &token.to_hex()));
        fences.for_each(|fence| push_joined(buffer, &[Decimal::of(fence).as_bytes(), &life]));
        ttls.for_each(|ttl| push_part(buffer, Decimal::of(ttl).as_bytes()));
    }

    fn encode_releases<'a>(
        &self,
        buffer: &mut Vec<u8>,
        commands: impl ExactSizeIterator<Item = &'a Command> + Clone,
        form: Form,
    ) {
        let count = commands.len();
        let releases = commands.filter_map(|command| match command {
            Command::Release { key, token, labelled, .. } => Some((key, token, *labelled)),
            _ => None,
        });
        let labelled = releases.clone().filter(|(.., labelled)| *labelled);
        let script = &self.batches[Batch::Releases as usize];
        script.encode_head(buffer, form, 2 * count + labelled.clone().count(), count);
        for kind in [Key::Lock, Key::Line] {
            releases.clone().for_each(|(key, ..)| self.push_key(buffer, kind, key.as_str()));
        }
        labelled.for_each(|(key, ..)| self.push_key(buffer, Key::Label, key.as_str()));
        releases.for_each(|(_, token, _)| push_part(buffer, &token.to_hex()));
    }
}
