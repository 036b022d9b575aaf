//! What a node keeps about one life of its memory, so that every client recognises it.
//!
//! The record is one line of text. It begins with a random nonce that no other life of any node's memory has;
//! an acquire names it, and a node that was flushed, restarted empty or replaced does not have it. The rest
//! tells by whom and when it was written.

use std::fmt;
use std::sync::Arc;

use super::Settings;
use crate::time::NodeTime;

/// The form of the record that this version writes.
const VERSION: &str = "tenure-1";

/// Names one life of a node's memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nonce(u64);

/// What a server says about itself that changes when it is started anew, replaced, or follows another.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Life {
    /// Drawn by every server process for itself: Redis' `run_id`.
    pub process: Arc<str>,
    /// Shared by servers that copy each other, and changed by a promotion: Redis' `master_replid`.
    pub lineage: Arc<str>,
}

/// A record, read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Record {
    pub(super) nonce: Nonce,
    /// `None` if the client that wrote it could not see it.
    pub(super) life: Option<Life>,
    pub(super) state: State,
    /// There was an earlier life of this node's memory.
    pub(super) returned: bool,
    /// Its server has kept every acknowledged write since the process began, as far as clients have seen.
    pub(super) durable: bool,
    /// When this life began, by the node's clock. `None` if the node has yet to fill it in.
    pub(super) created: Option<NodeTime>,
}

/// How far a node's memory is trusted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum State {
    New,
    /// It has waited out its quarantine.
    Waited,
    /// All nodes were new together: the first start of a fleet, whose nonces these are.
    Fresh(Vec<Nonce>),
}

/// Why a record cannot be read as ours.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Foreign {
    Form,
    Settings(String),
}

impl Nonce {
    /// The nonce of this number, which must be random.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Whether `record` is of this life.
    #[must_use]
    pub fn begins(self, record: &str) -> bool {
        record.as_bytes().get(..16) == Some(&self.to_hex())
    }

    /// The nonce as 16 hexadecimal digits, as records begin.
    #[must_use]
    pub fn to_hex(self) -> [u8; 16] {
        let mut digits = [0; 16];
        for (pair, byte) in digits.chunks_exact_mut(2).zip(self.0.to_be_bytes()) {
            let digit = |four_bits: u8| b"0123456789abcdef"[usize::from(four_bits)];
            pair.copy_from_slice(&[digit(byte >> 4), digit(byte & 15)]);
        }
        digits
    }

    fn parse(text: &str) -> Option<Self> {
        (text.len() == 16).then(|| u64::from_str_radix(text, 16).ok().map(Self)).flatten()
    }
}

impl Record {
    /// The text to store. Without a creation time it ends where the node adds it.
    pub(super) fn to_text(&self, settings: &Settings) -> Arc<str> {
        let (nonce, returned, durable) = (self.nonce, u8::from(self.returned), u8::from(self.durable));
        let (process, lineage) =
            self.life.as_ref().map_or(("?", "?"), |life| (&*life.process, &*life.lineage));
        let created = self.created.map_or_else(String::new, |time| time.as_micros().to_string());
        let state = &self.state;
        let settings = settings.to_text();
        format!(
            "{nonce} {VERSION} {process} {lineage} {state} returned={returned} durable={durable} {settings} \
             created={created}"
        )
        .into()
    }

    /// Reads what a node has.
    pub(super) fn parse(text: &str, settings: &Settings) -> Result<Self, Foreign> {
        let ours = settings.to_text();
        let record = Self::read(text, &ours);
        record.ok_or_else(|| match text.split(' ').nth(1) {
            Some(VERSION) => Foreign::Settings(theirs(text)),
            _ => Foreign::Form,
        })
    }

    fn read(text: &str, settings: &str) -> Option<Self> {
        let (head, created) = text.rsplit_once(" created=")?;
        let head = head.strip_suffix(settings)?.strip_suffix(' ')?;
        let mut words = head.split(' ');
        let nonce = Nonce::parse(words.next()?)?;
        (words.next()? == VERSION).then_some(())?;
        let (process, lineage) = (words.next()?, words.next()?);
        let life = (process != "?").then(|| Life { process: process.into(), lineage: lineage.into() });
        let state = State::parse(words.next()?)?;
        let returned = words.next()? == "returned=1";
        let durable = words.next()? == "durable=1";
        let created = Some(NodeTime::from_micros(created.parse().ok()?));
        words.next().is_none().then_some(Self { nonce, life, state, returned, durable, created })
    }
}

/// The settings part of a record with other settings than ours.
fn theirs(text: &str) -> String {
    let from = text.find("nodes=").unwrap_or(0);
    let to = text.rfind(" created=").unwrap_or(text.len());
    text.get(from..to).unwrap_or_default().to_owned()
}

impl State {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "new" => Some(Self::New),
            "waited" => Some(Self::Waited),
            _ => {
                let nonces = text.strip_prefix("fresh=")?.split(',').map(Nonce::parse);
                Some(Self::Fresh(nonces.collect::<Option<_>>()?))
            }
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::New => f.write_str("new"),
            Self::Waited => f.write_str("waited"),
            Self::Fresh(nonces) => {
                f.write_str("fresh=")?;
                for (index, nonce) in nonces.iter().enumerate() {
                    write!(f, "{}{nonce}", if index == 0 { "" } else { "," })?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Display for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Nonce({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::MaxTtl;

    fn settings() -> Settings {
        Settings::new(MaxTtl::default(), "a:1,b:2,c:3")
    }

    #[test]
    fn a_record_reads_back_as_it_was_written() {
        let life = Some(Life { process: "p".into(), lineage: "l".into() });
        for state in [State::New, State::Waited, State::Fresh(vec![Nonce(1), Nonce(u64::MAX)])] {
            for (life, returned) in [(life.clone(), true), (None, false)] {
                let created = Some(NodeTime::from_micros(5));
                let state = state.clone();
                let record = Record { nonce: Nonce(7), life, state, returned, durable: !returned, created };
                let text = record.to_text(&settings());
                assert_eq!(Record::parse(&text, &settings()), Ok(record), "{text}");
                assert!(Nonce(7).begins(&text) && !Nonce(8).begins(&text));
            }
        }
    }

    #[test]
    fn other_settings_and_other_texts_are_foreign() {
        let (nonce, state) = (Nonce(7), State::New);
        let record = Record { nonce, life: None, state, returned: false, durable: false, created: None };
        let text = record.to_text(&Settings::new(MaxTtl::default(), "a:1,b:2,x:9"));
        let foreign = Record::parse(&format!("{text}5"), &settings()).unwrap_err();
        assert!(matches!(foreign, Foreign::Settings(theirs) if theirs.starts_with("nodes=a:1,b:2,x:9 ")));
        for text in ["", "x", "0000000000000007 tenure-2 whatever"] {
            assert_eq!(Record::parse(text, &settings()), Err(Foreign::Form), "{text}");
        }
    }
}
