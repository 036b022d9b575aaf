//! Waiting in line for a lock.
//!
//! Each node keeps the waiters of a lock in order of their tickets. A ticket is drawn after the first refusal, above all
//! that a majority of nodes showed, so whoever was in line before has the smaller one; and because it is the same on all
//! nodes, all of them sort alike.
//!
//! Whoever releases a lock passes it on: each node sets it aside for its first waiter for a moment (a *reservation*) and
//! wakes that one alone. A node refuses for no other reason that has to do with the queue: one that refused everybody
//! behind the first waiter would be stuck with a waiter that reaches only a few nodes. So a lock that frees itself can be
//! taken by anybody; but a waiter that is granted it is told who is ahead on each node, and *yields* to that one: it
//! passes the lock on and gets in line again, a few times if the one ahead is held up by others. Every majority of grants shares a node with the majority that the
//! one ahead is waiting on, so nobody is overtaken by whoever came later.
//!
//! A waiter that is dead is found out when it is woken: nobody listens any more. One that stands still costs the time of a
//! reservation. Waking can fail in many ways, so every waiter also asks by itself now and then.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::quorum::{NodeIndex, NodeSet};
use crate::round::RoundNumber;

/// How long a node keeps a lock for the waiter whose turn it is: many times a wake-up and a round trip.
pub const RESERVATION: Duration = Duration::from_millis(200);

/// The claim window: what a waiter that is dead or stands still costs those behind it, at most. A reservation, and a
/// quarter more until the next in line asks.
pub const CLAIM_WINDOW: Duration = Duration::from_millis(250);

/// A lock that goes from waiter to waiter is left to those outside the line once in this time: to clients of other libraries, to
/// `unqueued` callers, to whoever tries once. They would never find it free.
pub const TURN: Duration = Duration::from_secs(5);

/// For how long it is then: whoever asks more often than that finds it free. A little longer than the longest default pause
/// between two attempts of an `unqueued` caller; a fortieth of [`TURN`], which is what it costs those in line.
pub const OPENING: Duration = Duration::from_millis(125);

/// When a lock that was passed on is nudged: a little after the reservation is over, and before the claim window is.
pub(crate) const NUDGE_AFTER: Duration = Duration::from_millis(225);

/// And one that was left to those outside: when the moment is over on all nodes, although some heard of it later.
pub(crate) const AFTER_OPENING: Duration = Duration::from_millis(128);

/// How often the first waiter of a client asks by itself at least.
pub const POLL_MAX: Duration = Duration::from_secs(2);

/// Waiters so near the front ask again when the lock ends that they saw held, one after the other by this step: whoever is
/// first by then finds it free, although nobody has released it.
const NEAR: u64 = 8;
const STEP: Duration = Duration::from_millis(5);

/// How often a waiter behind another one of the same client asks by itself, to keep its place in line.
pub const REFRESH: Duration = Duration::from_secs(30);

/// How long a node keeps a queue that nobody touches: many times longer than [`REFRESH`].
pub const QUEUE_LIFE: Duration = Duration::from_secs(600);

/// The most waiters of one lock that a node keeps in line. More than these only ask now and then.
pub const WAITERS_MAX: usize = 65_536;

/// How many waiters that are gone a node passes over at a time.
pub const DEAD_MAX: usize = 32;

/// The most bytes of a label.
pub const LABEL_BYTES_MAX: usize = 256;

/// How long a node keeps a label whose lock nobody releases.
pub const LABEL_LIFE: Duration = Duration::from_secs(24 * 60 * 60);

/// How often a waiter yields to the same one ahead, which wants the lock but does not get a majority: clients that reach
/// only some of the nodes may be in its way. After that the lock is better used than kept.
const YIELDS_MAX: u32 = 16;

/// When only some nodes have woken us, the others get this long before we ask them all the same.
pub(crate) const PARTIAL_WAKE_PATIENCE: Duration = Duration::from_millis(10);

/// A client: all waiters of one manager, which are woken over one channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(u64);

/// A place in line. Smaller tickets are served first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket {
    /// Drawn above all that were seen. Numbers are those of fences: near the nodes' clock, so that they grow.
    pub number: u64,
    /// Who waits.
    pub client: ClientId,
}

/// A waiter's turn to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Turn {
    /// Its ticket.
    pub ticket: Ticket,
    /// Whether it gets in line for the first time: then only behind everybody who is there.
    pub fresh: bool,
}

/// What an acquire asks for besides the lock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Beside {
    /// To wait in line if the lock is not free.
    pub turn: Option<Turn>,
    /// To keep this beside the lock, for whoever asks who holds it.
    pub label: Option<Arc<str>>,
}

/// What a node says about those who wait for a lock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct QueueReport {
    /// Granted, but this one is first in line. Passed on: to this one.
    pub ahead: Option<Ticket>,
    /// Refused: how many are ahead of us, and how many wait in all.
    pub place: Option<(u64, u64)>,
    /// Refused: what the holder wrote beside the lock.
    pub holder: Option<Arc<str>>,
}

/// Where a waiter stands, as the nodes said last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Place {
    /// How many are ahead of us.
    pub ahead: u64,
    /// How many wait in all, with us.
    pub waiters: u64,
    /// How many nodes said so.
    pub nodes: usize,
    /// What the holder wrote beside the lock, if anything.
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
    pub const SOMEBODY: Self = Self { number: 0, client: ClientId(0) };

    /// Reads what [`fmt::Display`] wrote.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (number, client) = text.split_once(':')?;
        Some(Self { number: number.parse().ok()?, client: ClientId::parse(client)? })
    }
}

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.number, self.client)
    }
}

/// Whether whoever releases a lock that came to it from the line leaves it to those outside: if a turn of theirs has begun since
/// a little before it was acquired. The lock goes with its fence from one to the next, so exactly one of them decides so, and all
/// nodes hear the same. After an opening the next fence is too large for the same turn.
pub(crate) fn opens(acquired_us: u64, held: Duration) -> bool {
    let micros = |duration: Duration| u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
    let turn = |time_us: u64| time_us / micros(TURN);
    turn(acquired_us.saturating_sub(micros(OPENING) / 2)) != turn(acquired_us.saturating_add(micros(held)))
}

/// One waiter: its ticket and what it has been told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Waiter {
    pub(crate) ticket: Option<Ticket>,
    /// Some node has put us in line, so nobody who came later can say that we are late.
    pub(crate) in_line: bool,
    /// How often a ticket was drawn.
    pub(crate) draws: u32,
    /// Who was yielded to last, and how often in a row.
    yielded: Option<(Ticket, u32)>,
    /// Nodes that have woken us since the last attempt began.
    woken: NodeSet,
    /// Those that have woken us when an attempt is to begin: they are asked first.
    pub(crate) claims: Option<NodeSet>,
    /// Whether no other waiter of this client is ahead of us.
    pub(crate) behind_own: bool,
    /// What the nodes said in the present attempt.
    ahead: Option<Ticket>,
    places: Vec<(u64, u64)>,
    holder: Option<Arc<str>>,
    /// Nodes that did not put us in line because somebody with a larger ticket was there before.
    overtaken: NodeSet,
    /// The round that gave us the lock.
    pub(crate) won: Option<RoundNumber>,
}

impl Waiter {
    /// A new attempt begins: what was said before is old.
    pub(crate) fn begin(&mut self) {
        self.woken = NodeSet::default();
        self.ahead = None;
        self.places.clear();
        self.overtaken = NodeSet::default();
    }

    pub(crate) fn turn(&self) -> Option<Turn> {
        self.ticket.map(|ticket| Turn { ticket, fresh: !self.in_line })
    }

    /// Takes in what a node said, granting or refusing.
    pub(crate) fn learn(&mut self, report: &QueueReport) {
        self.ahead = self.ahead.into_iter().chain(report.ahead).min();
        if let Some(place) = report.place {
            self.in_line = true;
            self.places.push(place);
        }
        if report.holder.is_some() {
            self.holder.clone_from(&report.holder);
        }
    }

    pub(crate) fn overtaken_at(&mut self, node: NodeIndex) {
        self.overtaken.insert(node);
    }

    /// Whether a new ticket is needed. Not if a majority of nodes has put us in line: whoever was in line on a majority before
    /// we came would have been seen there. Then the other nodes have to do so as well.
    pub(crate) fn must_draw_again(&self, majority: usize) -> Result<(), NodeSet> {
        if self.overtaken.is_empty() || self.places.len() >= majority { Err(self.overtaken) } else { Ok(()) }
    }

    /// Who is ahead on a node that granted, and was not yielded to too often.
    pub(crate) fn yields_to(&self) -> Option<Ticket> {
        let ahead = self.ahead?;
        // A ticket that no node has put in line gives no place: whoever is in line came before.
        let overtaken = !self.in_line || self.ticket.is_none_or(|ticket| ahead < ticket);
        let patient = self.yielded.is_none_or(|(yielded, times)| ahead > yielded || times < YIELDS_MAX);
        (overtaken && patient).then_some(ahead)
    }

    pub(crate) fn yielded_to(&mut self, ahead: Ticket) {
        self.yielded = Some(match self.yielded {
            Some((yielded, times)) if ahead <= yielded => (yielded, times + 1),
            _ => (ahead, 1),
        });
    }

    /// A node has set the lock aside for us.
    pub(crate) fn wake(&mut self, node: NodeIndex) {
        self.woken.insert(node);
    }

    /// Whether nodes have woken us since the last attempt began. They are asked first in the next one.
    pub(crate) fn claim(&mut self) -> bool {
        self.claims = Some(self.woken).filter(|woken| !woken.is_empty());
        self.claims.is_some()
    }

    pub(crate) const fn is_woken(&self) -> bool {
        !self.woken.is_empty()
    }

    /// The place that a majority of those nodes that told one agree on, as far as that is possible.
    pub(crate) fn place(&self) -> Option<Place> {
        let mut places = self.places.clone();
        places.sort_unstable();
        let (ahead, waiters) = *places.get(places.len() / 2)?;
        Some(Place { ahead, waiters, nodes: places.len(), holder: self.holder.clone() })
    }

    /// How long to wait before asking again, unless we are woken.
    pub(crate) fn poll_after(&self, free_after: Option<Duration>, dice: u64) -> Duration {
        let ahead = self.place().map_or(0, |place| place.ahead);
        let ranks = u32::try_from(ahead.saturating_add(1)).unwrap_or(u32::MAX);
        let limit = if self.behind_own { REFRESH } else { POLL_MAX };
        let pause = RESERVATION.saturating_mul(ranks).min(limit - limit / 5);
        let jitter = pause / 4 * u32::try_from(dice >> 48).unwrap_or(0) / (1 << 16);
        let pause = pause + jitter;
        match free_after {
            // The holder's time ends before that, if it does not extend. Who is near the front may be first by then.
            Some(left) if ahead < NEAR && !self.behind_own => {
                pause.min(left + Duration::from_millis(1) + STEP * (ranks - 1))
            }
            _ => pause,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tickets_read_back_as_they_were_written_and_sort_by_number_first() {
        let ticket = Ticket { number: 1_700_000_000_000_000, client: ClientId(0xab) };
        assert_eq!(ticket.to_string(), "1700000000000000:00000000000000ab");
        assert_eq!(Ticket::parse(&ticket.to_string()), Some(ticket));
        assert!(ticket < Ticket { number: ticket.number + 1, client: ClientId(0) });
        for damaged in ["", "7", "7:", "x:00000000000000ab", "7:ab", "rsv:7:00000000000000ab"] {
            assert_eq!(Ticket::parse(damaged), None, "{damaged}");
        }
    }

    #[test]
    fn a_waiter_asks_the_more_seldom_the_further_back_it_is_and_within_the_stated_times() {
        let mut waiter = Waiter::default();
        let mut last = Duration::ZERO;
        for ahead in 0..20 {
            waiter.places = vec![(ahead, 20)];
            let (least, most) = (waiter.poll_after(None, 0), waiter.poll_after(None, u64::MAX));
            assert!(least >= last && most <= POLL_MAX, "{ahead}: {least:?} to {most:?}");
            last = least;
        }
        waiter.places = vec![(0, 1)];
        assert!(waiter.poll_after(None, u64::MAX) <= CLAIM_WINDOW);
        let soon = Duration::from_millis(30);
        assert_eq!(
            waiter.poll_after(Some(soon), 7),
            Duration::from_millis(31),
            "when the holder's time is over"
        );
        waiter.places = vec![(2, 3)];
        assert_eq!(
            waiter.poll_after(Some(soon), 7),
            Duration::from_millis(31) + 2 * STEP,
            "a little after those ahead"
        );
        waiter.places = vec![(NEAR, NEAR + 1)];
        assert!(waiter.poll_after(Some(soon), 0) > Duration::from_secs(1), "too many would ask at once");
        (waiter.places, waiter.behind_own) = (vec![(900, 1_000)], true);
        assert!(waiter.poll_after(None, u64::MAX) <= REFRESH);
        assert!(waiter.poll_after(None, 0) > POLL_MAX);
    }

    #[test]
    fn every_turn_of_those_outside_the_line_is_given_by_exactly_one_holder() {
        let turn_us = u64::try_from(TURN.as_micros()).unwrap();
        for (hold_us, pause_us) in
            [(200, 150), (5_000, 300), (90_000, 1_000), (700_000, 40_000), (9_000_000, 500)]
        {
            let (mut now_us, mut given) = (1_700_000_000_000_000_u64, vec![]);
            let begun_us = now_us;
            while now_us < begun_us + 20 * turn_us {
                let (acquired_us, released_us) = (now_us, now_us + hold_us);
                now_us = released_us + pause_us;
                if opens(acquired_us, Duration::from_micros(hold_us)) {
                    given.push(released_us);
                    now_us = released_us + u64::try_from(OPENING.as_micros()).unwrap();
                }
            }
            // A hold that is longer than a turn can give only one.
            let longest_us = turn_us + hold_us + pause_us + u64::try_from(OPENING.as_micros()).unwrap();
            let pauses: Vec<u64> = given.windows(2).map(|pair| pair[1] - pair[0]).collect();
            assert!(pauses.len() > 8, "hold {hold_us} us: {given:?}");
            assert!(
                pauses.iter().all(|pause| (turn_us / 2..=longest_us.max(2 * hold_us)).contains(pause)),
                "hold {hold_us} us: {pauses:?}"
            );
        }
    }

    #[test]
    fn a_waiter_yields_to_those_ahead_but_not_for_ever_and_to_none_that_is_behind() {
        let ticket = |number| Ticket { number, client: ClientId(1) };
        let ahead = |waiter: &mut Waiter, number| {
            waiter.begin();
            waiter.learn(&QueueReport { ahead: Some(ticket(number)), ..QueueReport::default() });
            waiter.yields_to()
        };
        let mut waiter = Waiter { ticket: Some(ticket(10)), in_line: true, ..Waiter::default() };
        assert_eq!(ahead(&mut waiter, 11), None);
        for _ in 0..YIELDS_MAX {
            assert_eq!(ahead(&mut waiter, 5), Some(ticket(5)));
            waiter.yielded_to(ticket(5));
        }
        assert_eq!(ahead(&mut waiter, 5), None);
        assert_eq!(ahead(&mut waiter, 4), None);
        assert_eq!(ahead(&mut waiter, 7), Some(ticket(7)));
        let mut unplaced = Waiter { ticket: Some(ticket(10)), ..Waiter::default() };
        assert_eq!(ahead(&mut unplaced, 11), Some(ticket(11)), "a ticket alone is no place");
        let mut newcomer = Waiter::default();
        assert_eq!(ahead(&mut newcomer, 99), Some(ticket(99)), "everybody in line is ahead of a newcomer");
    }
}
