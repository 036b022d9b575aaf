//! What a waiter says about itself: its label, and which locks it keeps while it waits.
//!
//! Nodes keep such a note beside the line, for people who ask who waits, and for
//! [`circle`](crate::circle). Nobody is granted or refused anything because of it.
//!
//! A hold is named by the first 64 of the 160 random bits of its owner token. That tells it from
//! every other hold of any lock, fenced or not, shared or alone, and gives nothing away: extending
//! or releasing the lock takes all 160. Its fence would not do: a lock may have none, readers of
//! one lock have several, and a node tells only the last.

use std::fmt;
use std::fmt::Write as _;
use std::sync::Arc;

use crate::line::{LABEL_BYTES_MAX, Ticket};
use crate::names::{NAME_BYTES_MAX, NAMES_MAX};
use crate::token::OwnerToken;

/// The most locks that one waiter names: two full sets. More are left out.
pub const HELD_MAX: usize = 2 * NAMES_MAX;

/// Of so many waiters a node tells who they are: enough for a screen, and far less than a
/// millisecond of its time.
pub const WAITERS_TOLD_MAX: usize = 100;

/// The most bytes of a note that is read.
const NOTE_BYTES_MAX: usize = LABEL_BYTES_MAX + HELD_MAX * (NAME_BYTES_MAX + 32);

/// How many hexadecimal digits name a hold.
const HOLD_DIGITS: usize = 16;

/// One hold of a lock, told from all others: the beginning of its owner token.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HoldId(u64);

/// A lock that somebody keeps while waiting for another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HeldLock {
    /// The lock's name.
    pub name: Arc<str>,
    /// The hold.
    pub hold: HoldId,
}

/// What a waiter says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Note {
    /// What it will write beside the lock when it has it.
    pub label: Option<Arc<str>>,
    /// The locks that it keeps until it has this one.
    pub holds: Vec<HeldLock>,
}

/// One in line, as a node tells it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Waiter {
    /// Its place.
    pub ticket: Ticket,
    /// What it said about itself; empty, if it said nothing.
    pub note: Note,
}

impl HoldId {
    /// The hold of this owner.
    #[must_use]
    pub fn of(token: &OwnerToken) -> Self {
        let digits = token.to_hex();
        let digits = std::str::from_utf8(&digits[..HOLD_DIGITS]).unwrap_or_default();
        Self(u64::from_str_radix(digits, 16).unwrap_or_default())
    }

    /// The hold of an owner as nodes tell it; `None` if it is not one of ours.
    #[must_use]
    pub fn of_owner(owner: &str) -> Option<Self> {
        OwnerToken::parse(owner).ok().map(|token| Self::of(&token))
    }

    fn parse(digits: &str) -> Option<Self> {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let is_one = digits.len() == HOLD_DIGITS && digits.bytes().all(is_digit);
        is_one.then(|| u64::from_str_radix(digits, 16).ok().map(Self))?
    }
}

impl Note {
    /// Whether there is nothing to tell.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.label.is_none() && self.holds.is_empty()
    }

    /// The text that nodes keep: the label behind its length, then each hold with the lock's name
    /// behind its length. Names and labels may have any characters.
    #[must_use]
    pub fn to_text(&self) -> String {
        let label = self.label.as_deref().unwrap_or_default();
        format!("{}:{label}{}", label.len(), Self::text_of_holds(&self.holds))
    }

    /// What follows the label in that text.
    #[must_use]
    pub fn text_of_holds(holds: &[HeldLock]) -> String {
        let mut text = String::new();
        for HeldLock { name, hold } in holds.iter().take(HELD_MAX) {
            let _ = write!(text, "{hold}{}:{name}", name.len());
        }
        text
    }

    /// Reads such a text. What somebody else wrote, or was cut off, is not read.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let read = || {
            let text = Some(text).filter(|text| text.len() <= NOTE_BYTES_MAX)?;
            let (label, rest) = measured(text)?;
            let label = Some(label).filter(|label| !label.is_empty()).map(Arc::from);
            Some(Self { label, holds: Self::parse_holds(rest)? })
        };
        read().unwrap_or_default()
    }

    /// Reads what [`Note::text_of_holds`] wrote.
    #[must_use]
    pub fn parse_holds(mut rest: &str) -> Option<Vec<HeldLock>> {
        let mut holds = vec![];
        while !rest.is_empty() && holds.len() < HELD_MAX {
            let hold = HoldId::parse(rest.get(..HOLD_DIGITS)?)?;
            let (name, after) = measured(&rest[HOLD_DIGITS..])?;
            holds.push(HeldLock { name: name.into(), hold });
            rest = after;
        }
        Some(holds)
    }
}

/// A text behind its length in bytes, and what follows it.
fn measured(text: &str) -> Option<(&str, &str)> {
    let (length, rest) = text.split_once(':')?;
    rest.split_at_checked(length.parse().ok()?)
}

impl fmt::Display for HoldId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for HoldId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HoldId({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: OwnerToken = OwnerToken::from_bytes(*b"0123456789abcdefghi\xff");

    fn held(name: &str) -> HeldLock {
        HeldLock { name: name.into(), hold: HoldId::of(&TOKEN) }
    }

    #[test]
    fn a_note_reads_back_as_it_was_written() {
        let awkward = ["a", "7:b", "line\nbreak", "0123456789abcdef1:x", "é:é"];
        for label in [None, Some("4711@web-1"), Some("3:a")] {
            let note =
                Note { label: label.map(Into::into), holds: awkward.iter().map(|name| held(name)).collect() };
            assert_eq!(Note::parse(&note.to_text()), note);
        }
        assert_eq!(Note::parse(&Note::default().to_text()), Note::default());
    }

    #[test]
    fn what_is_no_note_says_nothing() {
        let note = Note { label: None, holds: vec![held("a")] }.to_text();
        for damaged in
            ["", "x", "9:short", "-1:", "0:nonsense", "0:00112233445566771:é", &note[..note.len() - 1]]
        {
            assert_eq!(Note::parse(damaged), Note::default(), "{damaged}");
        }
    }

    #[test]
    fn a_hold_is_named_by_the_beginning_of_its_token_and_nothing_else_of_it() {
        let hold = HoldId::of(&TOKEN);
        assert_eq!(HoldId::of_owner(&TOKEN.to_string()), Some(hold));
        assert!(TOKEN.to_string().starts_with(&hold.to_string()));
        assert_eq!(hold.to_string().len() * 4, 64);
        for other in ["shared", "rsv:7:00000000000000ab", "owner-7"] {
            assert_eq!(HoldId::of_owner(other), None);
        }
    }

    #[test]
    fn a_waiter_names_no_more_locks_than_it_may() {
        let holds = (0..HELD_MAX + 3).map(|number| held(&number.to_string())).collect();
        assert_eq!(Note::parse(&Note { label: None, holds }.to_text()).holds.len(), HELD_MAX);
    }
}
