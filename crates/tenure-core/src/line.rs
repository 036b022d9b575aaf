//! The line of those who wait for a lock: tickets, places, and the rules that everybody keeps.
//!
//! Each node keeps the waiters of a lock in order of their tickets. A ticket is drawn after the
//! first refusal, above all that a majority of nodes showed, so whoever was in line before has the
//! smaller one; and because it is the same on all nodes, all of them sort alike.
//!
//! Whoever releases a lock passes it on: each node sets it aside for its first waiter for a moment
//! (a *reservation*) and wakes that one alone. A node refuses for no other reason that has to do
//! with the line: one that refused everybody behind the first waiter would be stuck with a waiter
//! that reaches only a few nodes. So a lock that frees itself can be taken by anybody; but a waiter
//! that is granted it is told who is ahead on each node, and *yields* to that one: it passes the
//! lock on and gets in line again, a few times if the one ahead is held up by others. Every
//! majority of grants shares a node with the majority that the one ahead is waiting on, so nobody
//! is overtaken by whoever came later.
//!
//! A waiter that is dead is found out when it is woken: nobody listens any more. One that stands
//! still costs the time of a reservation. Waking can fail in many ways, so every waiter also asks
//! by itself now and then.

use std::fmt;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use crate::mode::{Kind, Mode};
use crate::note::Note;

/// How long a node keeps a lock for the waiter whose turn it is: many times a wake-up and a round
/// trip.
pub const RESERVATION: Duration = Duration::from_millis(200);

/// The claim window: what a waiter that is dead or stands still costs those behind it, at most. A
/// reservation, and a quarter more until the next in line asks.
pub const CLAIM_WINDOW: Duration = Duration::from_millis(250);

/// A lock that goes from waiter to waiter is left to those outside the line once in this time: to
/// clients of other libraries, to `unqueued` callers, to whoever tries once. They would never find
/// it free.
pub const OPENING_EVERY: Duration = Duration::from_secs(5);

/// For how long it is then: whoever asks more often than that finds it free. A little longer than
/// the longest default pause between two attempts of an `unqueued` caller; a fortieth of
/// [`OPENING_EVERY`], which is what it costs those in line.
pub const OPENING: Duration = Duration::from_millis(125);

/// When a lock that was passed on is nudged: a little after the reservation is over, and before the
/// claim window is.
pub(crate) const NUDGE_AFTER: Duration = Duration::from_millis(225);

/// And one that was left to those outside: when the moment is over on all nodes, although some
/// heard of it later.
pub(crate) const AFTER_OPENING: Duration = Duration::from_millis(128);

/// How often the first waiter of a client asks by itself at least.
pub const POLL_MAX: Duration = Duration::from_secs(2);

/// How often a waiter behind another one of the same client asks by itself, to keep its place in
/// line.
pub const REFRESH: Duration = Duration::from_secs(30);

/// How long a node keeps a line that nobody touches: many times longer than [`REFRESH`].
pub const LINE_RETENTION: Duration = Duration::from_secs(600);

/// The most waiters of one lock that a node keeps in line. More than these only ask now and then.
pub const WAITERS_MAX: usize = 65_536;

/// How many waiters that are gone a node passes over at a time.
pub const DEAD_MAX: usize = 32;

/// How many who share a lock are let in at once when the one before them had it alone.
pub const ADMITTED_MAX: usize = 32;

/// How often a waiter that wants to share a lock gives way to those who want it alone, before it is
/// let in beside those who share it already. Whoever is in line and does not come, because it
/// reaches only some nodes, must not stop it for ever.
pub const GIVES_WAY_MAX: u32 = 16;

/// What ends the text of a ticket of one who shares the lock, and of one who wants it as an owner.
/// Clients of versions that know no such tickets pass over them.
const SHARED_TICKET: char = 'r';
const OWNED_TICKET: char = 'o';

/// The most bytes of a label.
pub const LABEL_BYTES_MAX: usize = 256;

/// How long a node keeps a label whose lock nobody releases.
pub const LABEL_RETENTION: Duration = Duration::from_secs(24 * 60 * 60);

/// When only some nodes have woken us, the others get this long before we ask them all the same.
pub(crate) const PARTIAL_WAKE_PATIENCE: Duration = Duration::from_millis(10);

/// How long a lock is passed on inside a client after it was acquired. Clients that wait elsewhere
/// pay this, plus one hold: far less than a lost wake-up.
pub const COHORT_TIME: Duration = Duration::from_millis(10);

/// How often a lock is passed on inside a client at most. Fences are reserved for each pass, and
/// must not run ahead of the nodes' clocks.
pub const COHORT_PASSES_MAX: u32 = 128;

/// A client: all waiters of one manager.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(u64);

/// A place in line. Smaller tickets are served first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket {
    /// Larger than all numbers seen before. Like fences, they follow the nodes' clocks, so that
    /// they grow.
    pub number: u64,
    /// Who waits.
    pub client: ClientId,
    /// How it wants the lock.
    pub seeks: Seeks,
}

/// How a waiter wants the lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Seeks {
    /// Alone.
    #[default]
    Alone,
    /// With others who share it.
    Shared,
    /// As an owner that may hold it again.
    Owned,
}

/// A waiter asks for a place in line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PlaceRequest {
    /// Its ticket.
    pub ticket: Ticket,
    /// Whether it gets in line for the first time: then only behind everybody who is there.
    pub fresh: bool,
}

/// What an acquire asks for besides the lock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Beside {
    /// To be put in line if the lock is not free.
    pub place: Option<PlaceRequest>,
    /// To keep this beside the lock, for whoever asks who holds it.
    pub label: Option<Arc<str>>,
    /// To share it, or to hold it as an owner.
    pub mode: Mode,
    /// To be refused while somebody is in line who wants it alone, although others share it. A node
    /// refuses only those who ask for that: whoever reaches a minority of nodes stops nobody.
    pub gives_way: bool,
    /// The fence is the one that the owner holds the lock with elsewhere: it joins its own group.
    pub joins: bool,
    /// The locks that the waiter keeps meanwhile ([`Note::text_of_holds`](crate::Note)): with the
    /// label, what it says about itself in line.
    pub holding: Option<Arc<str>>,
}

impl Beside {
    /// What a waiter that asks for this says about itself.
    #[must_use]
    pub fn note(&self) -> Note {
        let holds = self.holding.as_deref().and_then(Note::parse_holds).unwrap_or_default();
        Note { label: self.label.clone(), holds }
    }
}

/// What a node says about those who wait for a lock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LineReport {
    /// Granted, but this one is first in line. Passed on: to this one.
    pub ahead: Option<Ticket>,
    /// Refused: how many are ahead of us, and how many wait in all.
    pub place: Option<(u64, u64)>,
    /// Refused: what the holder wrote beside the lock.
    pub holder: Option<Arc<str>>,
    /// Refused: the holder is a client of another library, which wakes nobody.
    pub foreign: bool,
    /// Granted what was set aside for us: how long ago the node passed it on, by its own clock, in
    /// whole milliseconds. Only for people: no decision depends on it.
    pub passed_on: Option<Duration>,
}

/// A waiter's place in line, as the nodes last reported.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Place {
    /// How many waiters are ahead of us.
    pub ahead: u64,
    /// How many waiters there are, with us.
    pub waiters: u64,
    /// How many nodes reported it.
    pub nodes: usize,
    /// The holder's label, if any.
    pub holder: Option<Arc<str>>,
}

impl ClientId {
    /// A client of this number, which must be random.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Reads what [`fmt::Display`] wrote.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        (text.len() == 16).then(|| u64::from_str_radix(text, 16).ok().map(Self))?
    }
}

impl Ticket {
    /// Smaller than all others: somebody is ahead, but the node did not say who.
    pub const SOMEBODY: Self = Self::exclusive(0, ClientId(0));

    /// A place in line for a lock that nobody else is to have.
    #[must_use]
    pub const fn exclusive(number: u64, client: ClientId) -> Self {
        Self { number, client, seeks: Seeks::Alone }
    }

    /// The same place for a lock of this mode.
    #[must_use]
    pub const fn seeking(self, mode: &Mode) -> Self {
        let seeks = match mode {
            Mode::Exclusive => Seeks::Alone,
            Mode::Shared => Seeks::Shared,
            Mode::Owned(_) => Seeks::Owned,
        };
        Self { seeks, ..self }
    }

    /// The kind of lock that is waited for.
    #[must_use]
    pub const fn kind(self) -> Kind {
        match self.seeks {
            Seeks::Alone | Seeks::Shared => Kind::Plain,
            Seeks::Owned => Kind::Reentrant,
        }
    }

    /// Reads what [`fmt::Display`] wrote.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (number, client) = text.split_once(':')?;
        let seeks = |end, seeks| Some((client.strip_suffix(end)?, seeks));
        let (client, seeks) = seeks(SHARED_TICKET, Seeks::Shared)
            .or_else(|| seeks(OWNED_TICKET, Seeks::Owned))
            .unwrap_or((client, Seeks::Alone));
        Some(Self { number: number.parse().ok()?, client: ClientId::parse(client)?, seeks })
    }
}

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.number, self.client)?;
        match self.seeks {
            Seeks::Alone => Ok(()),
            Seeks::Shared => f.write_char(SHARED_TICKET),
            Seeks::Owned => f.write_char(OWNED_TICKET),
        }
    }
}

/// Whether whoever releases a lock that came to it from the line leaves it to those outside: if an
/// opening is due since a little before it was acquired. The lock goes with its fence from one to
/// the next, so exactly one of them decides so, and all nodes hear the same. After an opening the
/// next fence is too large for the same one.
pub(crate) fn opens(acquired_us: u64, held: Duration) -> bool {
    let micros = |duration: Duration| u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
    let opening = |time_us: u64| time_us / micros(OPENING_EVERY);
    opening(acquired_us.saturating_sub(micros(OPENING) / 2))
        != opening(acquired_us.saturating_add(micros(held)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mode::OwnerId;

    #[test]
    fn tickets_read_back_as_they_were_written_and_sort_by_number_first() {
        let ticket = Ticket::exclusive(1_700_000_000_000_000, ClientId(0xab));
        let shared = ticket.seeking(&Mode::Shared);
        let owned = ticket.seeking(&Mode::Owned(OwnerId::new("x").unwrap()));
        assert_eq!(ticket.to_string(), "1700000000000000:00000000000000ab");
        assert_eq!(shared.to_string(), "1700000000000000:00000000000000abr");
        assert_eq!(owned.to_string(), "1700000000000000:00000000000000abo");
        for ticket in [ticket, shared, owned] {
            assert_eq!(Ticket::parse(&ticket.to_string()), Some(ticket));
            assert!(ticket < Ticket::exclusive(ticket.number + 1, ClientId(0)));
        }
        for damaged in ["", "7", "7:", "x:00000000000000ab", "7:ab", "rsv:7:00000000000000ab"] {
            assert_eq!(Ticket::parse(damaged), None, "{damaged}");
        }
    }

    #[test]
    fn every_turn_of_those_outside_the_line_is_given_by_exactly_one_holder() {
        let every_us = u64::try_from(OPENING_EVERY.as_micros()).unwrap();
        for (hold_us, pause_us) in
            [(200, 150), (5_000, 300), (90_000, 1_000), (700_000, 40_000), (9_000_000, 500)]
        {
            let (mut now_us, mut given) = (1_700_000_000_000_000_u64, vec![]);
            let begun_us = now_us;
            while now_us < begun_us + 20 * every_us {
                let (acquired_us, released_us) = (now_us, now_us + hold_us);
                now_us = released_us + pause_us;
                if opens(acquired_us, Duration::from_micros(hold_us)) {
                    given.push(released_us);
                    now_us = released_us + u64::try_from(OPENING.as_micros()).unwrap();
                }
            }
            // A hold that is longer than the time between two openings gives only one.
            let longest_us = every_us + hold_us + pause_us + u64::try_from(OPENING.as_micros()).unwrap();
            let pauses: Vec<u64> = given.windows(2).map(|pair| pair[1] - pair[0]).collect();
            assert!(pauses.len() > 8, "hold {hold_us} us: {given:?}");
            assert!(
                pauses.iter().all(|pause| (every_us / 2..=longest_us.max(2 * hold_us)).contains(pause)),
                "hold {hold_us} us: {pauses:?}"
            );
        }
    }
}
