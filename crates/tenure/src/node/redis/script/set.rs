//! Commands about several locks at once. Acquires and extensions, which are all or nothing, have
//! scripts of their own; the others do to each lock what their script does to one.
//!
//! These are sent with their whole text: few connections ever need them, and none should load them
//! for that when it comes up.

use tenure_core::{Command, LockKey, OwnerToken};

use super::super::resp::{Decimal, push_part};
use super::parameters::{Acquire, Key, Parameters, SOURCES, ScriptName};
use super::text::Limits;
use super::{Form, Script, Scripts};

/// What the acquire of several gets of each, besides what is kept for all.
const OF_EACH: [Key; 5] = [Key::Lock, Key::Fence, Key::Line, Key::Label, Key::Open];

/// The scripts for several locks.
#[derive(Clone, Debug)]
pub(super) struct SetScripts {
    acquire: Script,
    extend: Script,
    look: Script,
    /// In the order of [`SOURCES`].
    each: Vec<Script>,
}

impl SetScripts {
    pub(super) fn new(limits: &Limits) -> Self {
        let whole = |text| Script { text, sha: None };
        let acquire = concat!(include_str!("shared/line_up.lua"), include_str!("acquire_set.lua"));
        let each = SOURCES.iter().map(|source| {
            let each = include_str!("each.lua").replace("COUNT", &source.keys.len().to_string());
            whole(source.spelled_out_as("single", &each, limits))
        });
        Self {
            acquire: whole(SOURCES[ScriptName::Acquire as usize].spelled_out_as("acquire", acquire, limits)),
            extend: whole(include_str!("extend_set.lua").to_owned()),
            look: whole(
                concat!(include_str!("shared/name_of.lua"), include_str!("look_at_set.lua")).to_owned(),
            ),
            each: each.collect(),
        }
    }

    pub(super) fn each(&self, name: ScriptName) -> &Script {
        &self.each[name as usize]
    }
}

impl Scripts {
    /// Appends an acquire of several locks.
    pub(super) fn encode_acquire_all(&self, buffer: &mut Vec<u8>, locks: &[LockKey], acquire: &Acquire<'_>) {
        acquire.with_arguments(|arguments| {
            let script = &self.sets().acquire;
            script.encode_head(buffer, Form::Whole, 2 + OF_EACH.len() * locks.len(), arguments.len());
            self.push_key(buffer, Key::Fences, "");
            self.push_key(buffer, Key::Record, "");
            for lock in locks {
                OF_EACH.iter().for_each(|key| self.push_key(buffer, *key, lock.as_str()));
            }
            arguments.iter().for_each(|argument| argument.push(buffer));
        });
    }

    /// Appends an extension of several locks.
    pub(super) fn encode_extend_all(
        &self,
        buffer: &mut Vec<u8>,
        locks: &[LockKey],
        token: OwnerToken,
        node_ttl_ms: u64,
    ) {
        self.sets().extend.encode_head(buffer, Form::Whole, locks.len(), 2);
        locks.iter().for_each(|lock| self.push_key(buffer, Key::Lock, lock.as_str()));
        push_part(buffer, &token.to_hex());
        push_part(buffer, Decimal::of(node_ttl_ms).as_bytes());
    }

    /// Appends the question who has which of several locks.
    pub(super) fn encode_look_at_all(&self, buffer: &mut Vec<u8>, locks: &[LockKey]) {
        self.sets().look.encode_head(buffer, Form::Whole, locks.len(), 0);
        locks.iter().for_each(|lock| self.push_key(buffer, Key::Lock, lock.as_str()));
    }
}

/// The locks that a command is about, if it is about several.
pub(super) fn several(command: &Command) -> Option<&[LockKey]> {
    command.key().filter(|key| key.is_set()).map(LockKey::each)
}
