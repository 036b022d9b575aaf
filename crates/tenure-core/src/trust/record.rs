//! What a node keeps about one life of its memory, so that every client recognises it.
//!
//! The record is one line of text. It begins with a random nonce that no other life of any node's
//! memory has; an acquire names it, and a node that was flushed, restarted empty or replaced does
//! not have it. The rest tells by whom and when it was written, which fleet the node belongs to,
//! and whether that fleet is being changed.

mod phase;

use std::sync::Arc;
use std::time::Duration;
use std::{fmt, iter};

pub(super) use self::phase::{Phase, State};
use crate::fence::Fence;
use crate::time::NodeTime;

/// The form of the record that this version writes.
const VERSION: &str = "tenure-2";

/// How many nonces a life went by before are kept: a change that is given up takes two, and a token
/// that is older than four of them is older than most terms.
const CONTINUES_MAX: usize = 8;

/// Identifies one life of a node's memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nonce(u64);

/// What a server says about itself that changes when it is started anew, replaced, or follows
/// another.
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
    /// The same life went by these nonces before, the last one first.
    pub(super) continues: Vec<Nonce>,
    /// `None` if the client that wrote it could not see it.
    pub(super) life: Option<Life>,
    pub(super) state: State,
    /// There was an earlier life of this node's memory.
    pub(super) returned: bool,
    /// Its server has kept every acknowledged write since the process began, as far as clients have
    /// seen.
    pub(super) durable: bool,
    pub(super) phase: Phase,
    /// How often the fleet that the node belongs to has been changed.
    pub(super) epoch: u64,
    /// Its list took over from another one, and has been open since.
    pub(super) opened: bool,
    /// How long a lock may live that was granted before this life or, once the node is closed,
    /// before that.
    pub(super) wait: Duration,
    /// Fences up to this may have been granted by nodes that the fleet had before.
    pub(super) floor: Fence,
    /// What all clients of the fleet agree on, as [`Settings::terms`](super::Settings) says it.
    pub(super) terms: Arc<str>,
    /// When this life began, by the node's clock. `None` if the node has yet to fill it in.
    pub(super) created: Option<NodeTime>,
    /// When the node was closed, by its clock. `None` if it was not, or the node has yet to fill it
    /// in.
    pub(super) closed: Option<NodeTime>,
}

/// What a record says that goes on when the memory it is in is lost.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Lasting {
    pub(super) phase: Phase,
    pub(super) epoch: u64,
    pub(super) opened: bool,
    /// Longer than locks of its fleet can live, if locks of another one are still waited for.
    pub(super) wait: Duration,
    pub(super) floor: Fence,
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

    /// Reads 16 hexadecimal digits, as they are written: nodes compare them as text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let is_nonce = text.len() == 16 && text.bytes().all(is_digit);
        is_nonce.then(|| u64::from_str_radix(text, 16).ok().map(Self)).flatten()
    }
}

impl Record {
    /// The text to store. If the node has yet to tell a time, it ends where the node adds it.
    pub(super) fn to_text(&self) -> Arc<str> {
        let Self { nonce, state, phase, epoch, terms, .. } = self;
        let (returned, durable) = (u8::from(self.returned), u8::from(self.durable));
        let opened = u8::from(self.opened);
        let (process, lineage) =
            self.life.as_ref().map_or(("?", "?"), |life| (&*life.process, &*life.lineage));
        let continues: Vec<String> = self.continues.iter().map(Nonce::to_string).collect();
        let continues = if continues.is_empty() { "-".to_owned() } else { continues.join(",") };
        let micros = |time: NodeTime| time.as_micros().to_string();
        let created = self.created.map_or_else(String::new, micros);
        let closed = match (phase, self.closed) {
            (_, Some(time)) => format!(" closed={}", micros(time)),
            (Phase::Closed(_), None) => " closed=".to_owned(),
            _ => String::new(),
        };
        let (wait_ms, floor) = (self.wait.as_millis(), self.floor.get());
        format!(
            "{nonce} {VERSION} {process} {lineage} {state} returned={returned} durable={durable} \
             continues={continues} phase={phase} epoch={epoch} opened={opened} wait_ms={wait_ms} floor={floor} \
             {terms} created={created}{closed}"
        )
        .into()
    }

    /// Whether the node is to add its time to the text.
    pub(super) const fn wants_time(&self) -> bool {
        self.created.is_none() || (matches!(self.phase, Phase::Closed(_)) && self.closed.is_none())
    }

    /// Reads what a node has; `None` if it is of another form than ours.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (head, times) = text.rsplit_once(" created=")?;
        let (head, terms) = head.split_at(head.find(" nodes=")?);
        let (created, closed) = match times.split_once(" closed=") {
            Some((created, closed)) => (created, Some(closed)),
            None => (times, None),
        };
        let time = |text: &str| Some(NodeTime::from_micros(text.parse().ok()?));
        let mut words = head.split(' ');
        let nonce = Nonce::parse(words.next()?)?;
        (words.next()? == VERSION).then_some(())?;
        let (process, lineage) = (words.next()?, words.next()?);
        let state = State::parse(words.next()?)?;
        let mut field = |name: &str| words.next()?.strip_prefix(name)?.strip_prefix('=');
        let flag = |text: &str| match text {
            "0" => Some(false),
            "1" => Some(true),
            _ => None,
        };
        let record = Self {
            nonce,
            life: (process != "?").then(|| Life { process: process.into(), lineage: lineage.into() }),
            state,
            returned: flag(field("returned")?)?,
            durable: flag(field("durable")?)?,
            continues: match field("continues")? {
                "-" => vec![],
                nonces => nonces.split(',').map(Nonce::parse).collect::<Option<_>>()?,
            },
            phase: Phase::parse(field("phase")?)?,
            epoch: field("epoch")?.parse().ok()?,
            opened: flag(field("opened")?)?,
            wait: Duration::from_millis(field("wait_ms")?.parse().ok()?),
            floor: Fence::new(field("floor")?.parse().ok()?),
            terms: terms.trim_start().into(),
            created: Some(time(created)?),
            closed: closed.map(time).map_or(Some(None), |time| time.map(Some))?,
        };
        words.next().is_none().then_some(record)
    }

    /// The same life under another nonce, with all its locks.
    pub(super) fn renamed(&self, nonce: Nonce, phase: Phase) -> Self {
        let before = self.continues.iter().copied().take(CONTINUES_MAX - 1);
        let continues = iter::once(self.nonce).chain(before).collect();
        Self { nonce, continues, phase, ..self.clone() }
    }

    /// Whether it is of the life that goes, or went, by this nonce.
    pub(super) fn is_life(&self, nonce: Nonce) -> bool {
        self.nonce == nonce || self.continues.contains(&nonce)
    }

    /// A node that belongs to nobody any more, whatever it was before.
    pub(super) fn vacant(text: &str, nonce: Nonce) -> Self {
        let before = Self::parse(text);
        let (epoch, floor) = before.as_ref().map_or((0, Fence::NONE), |record| (record.epoch, record.floor));
        Self {
            nonce,
            continues: vec![],
            life: None,
            state: State::New,
            returned: true,
            durable: false,
            phase: Phase::Vacant,
            epoch: epoch.saturating_add(1),
            opened: false,
            // The words are the same in records of other forms.
            wait: before.map_or_else(|| quarantine_of(text), |record| record.quarantine()),
            floor,
            terms: "nodes=-".into(),
            created: None,
            closed: None,
        }
    }

    /// What of it goes on in the next life of the node's memory.
    pub(super) fn lasting(&self) -> Lasting {
        let (phase, epoch, opened, floor) = (self.phase.clone(), self.epoch, self.opened, self.floor);
        let waits = self.state == State::New || phase != Phase::Open;
        let wait = self.wait.saturating_sub(quarantine_of(&self.terms));
        let wait = if waits && !wait.is_zero() { self.wait } else { Duration::ZERO };
        Lasting { phase, epoch, opened, wait, floor }
    }

    /// This record of a life that begins now, in which what was to be done goes on.
    pub(super) fn going_on(self, before: Lasting) -> Self {
        let Lasting { phase, epoch, opened, wait, floor } = before;
        Self { phase: phase.in_new_life(), epoch, opened, wait: self.wait.max(wait), floor, ..self }
    }

    /// How long a lock may live that clients of this record's fleet were granted.
    pub(super) fn quarantine(&self) -> Duration {
        quarantine_of(&self.terms).max(self.wait)
    }
}

impl Default for Lasting {
    /// A node of which nothing is known but that it serves its fleet.
    fn default() -> Self {
        let (phase, wait, floor) = (Phase::Open, Duration::ZERO, Fence::NONE);
        Self { phase, epoch: 0, opened: false, wait, floor }
    }
}

/// How long a lock may live under these terms, whatever else they say.
pub(super) fn quarantine_of(terms: &str) -> Duration {
    let number = |name: &str| -> u64 {
        let value = terms.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        value.and_then(|value| value.parse().ok()).unwrap_or(0)
    };
    Duration::from_millis(number("max_ttl_ms").saturating_add(number("guard_ms")))
}

/// In what two fleets differ, in few words: `theirs` first.
pub(super) fn difference(theirs: &str, ours: &str) -> String {
    let words = |terms: &str| -> Vec<(String, String)> {
        let pairs = terms.split(' ').filter_map(|word| word.split_once('='));
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    };
    let ours = words(ours);
    let mut differences = vec![];
    for (name, value) in words(theirs) {
        let Some((_, our_value)) = ours.iter().find(|(our_name, our)| *our_name == name && *our != value)
        else {
            continue;
        };
        if name == "nodes" && (value.contains(',') || our_value.contains(',')) {
            let without = |list: &str, other: &str| -> Vec<String> {
                let other: Vec<&str> = other.split(',').collect();
                list.split(',').filter(|node| !other.contains(node)).map(str::to_owned).collect()
            };
            let named =
                |nodes: &[String]| if nodes.is_empty() { "none".to_owned() } else { nodes.join(", ") };
            let (there, here) = (without(&value, our_value), without(our_value, &value));
            differences.push(format!(
                "nodes only in that fleet: {}; only in this client: {}",
                named(&there),
                named(&here)
            ));
        } else if name != "node" || !differences.iter().any(|said: &String| said.starts_with("nodes ")) {
            differences.push(format!("{name} is {value} there and {our_value} here"));
        }
    }
    differences.join("; ")
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

    fn record(phase: Phase) -> Record {
        let closed = matches!(phase, Phase::Closed(_)).then(|| NodeTime::from_micros(9));
        Record {
            nonce: Nonce(7),
            continues: vec![],
            life: None,
            state: State::New,
            returned: false,
            durable: true,
            phase,
            epoch: 3,
            opened: true,
            wait: Duration::from_millis(66_000),
            floor: Fence::new(12),
            terms: "nodes=a:1/0,b:2/0 node=a:1/0 max_ttl_ms=60000 guard_ms=6000".into(),
            created: Some(NodeTime::from_micros(5)),
            closed,
        }
    }

    #[test]
    fn a_record_reads_back_as_it_was_written() {
        let to = || "x:1/0,[::1]:2/0".into();
        let phases = [
            Phase::Open,
            Phase::Disputed,
            Phase::Vacant,
            Phase::Closing(to()),
            Phase::Closed(to()),
            Phase::Reclosing(to()),
            Phase::Prepared(to()),
        ];
        let life = Some(Life { process: "p".into(), lineage: "l".into() });
        let states = [State::New, State::Waited, State::Fresh(vec![Nonce(1), Nonce(u64::MAX)])];
        for (phase, state) in phases.into_iter().zip(states.into_iter().cycle()) {
            for (life, returned) in [(life.clone(), true), (None, false)] {
                let continues = if returned { vec![Nonce(6), Nonce(u64::MAX)] } else { vec![] };
                let record =
                    Record { life, returned, continues, state: state.clone(), ..record(phase.clone()) };
                let text = record.to_text();
                assert!(!record.wants_time());
                assert_eq!(Record::parse(&text), Some(record), "{text}");
                assert!(Nonce(7).begins(&text) && !Nonce(8).begins(&text));
            }
        }
    }

    #[test]
    fn enormous_numbers_make_no_quarantine_shorter() {
        let most = u64::MAX;
        let terms = format!("nodes=a max_ttl_ms={most} guard_ms=6000");
        assert_eq!(quarantine_of(&terms), Duration::from_millis(most));
        let record = Record { epoch: most, terms: terms.as_str().into(), ..record(Phase::Open) };
        let vacant = Record::vacant(&record.to_text(), Nonce(8));
        assert_eq!((vacant.epoch, vacant.wait), (most, Duration::from_millis(most)));
    }

    #[test]
    fn a_nonce_is_read_as_it_is_written_and_no_other_way() {
        assert_eq!(Nonce::parse("00000000000000ab"), Some(Nonce(0xab)));
        for other in
            ["00000000000000AB", "+0000000000000ab", "ab", "0000000000000000ab", "00000000000000\u{e9}"]
        {
            assert_eq!(Nonce::parse(other), None, "{other}");
        }
    }

    #[test]
    fn the_node_adds_the_time_that_is_not_known_yet() {
        let new = Record { created: None, ..record(Phase::Open) };
        assert!(new.wants_time());
        let read = Record::parse(&format!("{}77", new.to_text())).unwrap();
        assert_eq!((read.created, read.closed), (Some(NodeTime::from_micros(77)), None));
        let closed = Record { closed: None, ..record(Phase::Closed("x".into())) };
        assert!(closed.wants_time());
        let read = Record::parse(&format!("{}77", closed.to_text())).unwrap();
        assert_eq!(
            (read.created, read.closed),
            (record(Phase::Open).created, Some(NodeTime::from_micros(77)))
        );
    }

    #[test]
    fn other_texts_are_no_records() {
        let text = record(Phase::Open).to_text();
        for text in ["", "x", "0000000000000007 tenure-1 whatever", &text.replace("tenure-2", "tenure-3")] {
            assert_eq!(Record::parse(text), None, "{text}");
        }
        assert_eq!(Record::parse(&text.replace(" epoch=", " era=")), None);
        assert_eq!(Record::parse(&text.replace("phase=open", "phase=ajar")), None);
    }

    #[test]
    fn what_differs_is_told_and_nothing_else() {
        let ours = "nodes=a:1/0,b:2/0,c:3/0 node=a:1/0 max_ttl_ms=60000 guard_ms=6000";
        let theirs = "nodes=a:1/0,b:2/0,d:4/0 node=a:1/0 max_ttl_ms=30000 guard_ms=6000";
        let expected = "nodes only in that fleet: d:4/0; only in this client: c:3/0; max_ttl_ms is 30000 there and 60000 here";
        assert_eq!(difference(theirs, ours), expected);
        assert_eq!(quarantine_of(theirs), Duration::from_secs(36));
    }
}
