//! What the user asks of a lock, checked once into terms that cannot be wrong.
//!
//! [`Options`] is what was typed; [`Terms`] is what it means. Nothing behind [`Options::check`]
//! needs to doubt a number again.

mod error;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

pub use self::error::OptionError;
use crate::lease::{Renewal, Retry};
use crate::line::LABEL_BYTES_MAX;
use crate::mode::Mode;
use crate::names::LockKey;
use crate::round::Quorum;

/// The most permits of a semaphore: a refused caller checks all of them.
pub const SLOTS_MAX: usize = 64;

/// The shortest ttl: below it, round trips and timer precision eat the validity.
pub const TTL_MIN: Duration = Duration::from_millis(50);

/// The largest `max_ttl`: a lock that must live longer is extended, not given a longer term.
pub const MAX_TTL_CEILING: Duration = Duration::from_secs(24 * 60 * 60);

/// The guard band is at least this long: shorter ones vanish in timer and network noise.
const GUARD_BAND_MIN: Duration = Duration::from_millis(100);

/// The default node timeout stays in the 5 to 50 ms class that Redlock advises, unless nodes are
/// seen to be further away.
pub(crate) const NODE_TIMEOUT_DEFAULT_MIN: Duration = Duration::from_millis(5);
const NODE_TIMEOUT_DEFAULT_MAX: Duration = Duration::from_millis(50);

/// How long a disk may take where all nodes are files: there is no other node to ask, so patience
/// costs nothing.
const DISK_TIMEOUT: Duration = Duration::from_secs(2);

/// It never takes more than this share of the ttl: an attempt that waits for a hung node must leave
/// most of it.
const TIMEOUT_SHARE: u32 = 10;

/// The default limit on holding one lock by extensions: longer than almost any job, shorter than a
/// day in which nobody else gets in.
const MAX_HOLD_DEFAULT: Duration = Duration::from_secs(60 * 60);

/// A holder hears of the loss of its lock at least this long before the end, or this share of the
/// ttl: a timer that is set for the end fires after it, and work takes time to stop.
const LOSS_LEAD_MIN: Duration = Duration::from_millis(50);
const LOSS_LEAD_SHARE: u32 = 20;

/// But never earlier than this share of the ttl before the end: short locks would be lost as soon
/// as they are held.
const LOSS_LEAD_SHARE_MAX: u32 = 4;

/// The options of a lock. Every field has a default that fits most uses.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Options {
    /// The term of the lock: how long it is held unless it is extended or released. Default 30 s.
    pub ttl: Duration,
    /// How long an acquire may wait while the lock is taken. Default 10 s.
    pub wait: Wait,
    /// The pause between attempts. See [`Retry`].
    pub retry: Retry,
    /// How long a node may take to answer before its vote counts as unknown. By default it follows
    /// the round trips to the node: at least 50 ms (ttl / 10 if that is less), at most ttl / 10.
    /// See [`Patience`](crate::Patience).
    pub node_timeout: Option<Duration>,
    /// Makes the default of `node_timeout` a fixed ttl / 10, at most this, instead of following the
    /// round trips. Default: it follows; 2 s where all nodes are files on this machine, because its
    /// disk may be slow and there is no other node to ask.
    pub node_timeout_max: Option<Duration>,
    /// The allowance for clocks that run at different rates. Default 1 % of the ttl plus 2 ms.
    pub drift: Drift,
    /// How much longer than the ttl the nodes keep the key. Default 10 % of the ttl, at least 100
    /// ms.
    pub guard_band: Option<Duration>,
    /// The longest that extensions may hold the lock in total. Default one hour, or the ttl if that
    /// is longer.
    pub max_hold: Option<MaxHold>,
    /// How the lock is renewed while it is held. Default: every third of the ttl.
    pub renewal: Renewal,
    /// The most renewals. Default `None`: as many as `max_hold` allows.
    pub renewals_max: Option<u32>,
    /// Whether the lock has a fence. Default yes.
    pub fenced: bool,
    /// Whether an acquire waits in line and is woken when its turn comes. Otherwise it retries as
    /// `retry` says. Default yes.
    pub queued: bool,
    /// Whether callers of one client that wait for the lock pass it on among themselves
    /// ([`COHORT_TIME`](crate::COHORT_TIME)), so that the nodes are asked once for many. Only for
    /// acquires with a fence that wait in line. Default no.
    pub cohort: bool,
    /// Whom the lock keeps out. Default everybody.
    pub mode: Mode,
    /// The margin that an acquisition must have: how many nodes may forget it at once. Default 0, a
    /// bare majority.
    pub min_margin: usize,
    /// How long nobody else gets the lock after it was acquired, even if it is released earlier.
    /// Default zero.
    pub at_least: Duration,
    /// The label stored beside the lock while it is held, so that others see who holds it. Default
    /// none.
    pub label: Option<Arc<str>>,
}

/// How long an acquire waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Wait {
    /// One attempt.
    No,
    /// Up to this long; the last attempt may take one node timeout longer.
    AtMost(Duration),
    /// Until the lock is acquired or the caller gives up.
    Forever,
}

/// The part of the ttl that is written off because clocks run at different rates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Drift {
    /// Millionths of the ttl.
    pub ppm: u32,
    /// A constant on top, for the millisecond steps in which nodes expire keys.
    pub constant: Duration,
}

/// The longest total hold of a lock, however often it is extended.
///
/// Redlock asks for a limit: without one, a client that only ever extends keeps the lock from
/// everyone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MaxHold {
    /// No extension may reach further than this from the moment of acquisition.
    AtMost(Duration),
    /// No limit.
    Unlimited,
}

impl MaxHold {
    /// What is left of it after so long.
    pub(crate) fn shorten(&mut self, by: Duration) {
        if let Self::AtMost(limit) = self {
            *limit = limit.saturating_sub(by);
        }
    }
}

/// The largest ttl that any client of the same nodes may ask for. Default 60 s.
///
/// It is one number for the whole fleet, because a node that lost its memory has to stay out for
/// this long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MaxTtl(Duration);

/// The checked arithmetic of one term: what an acquisition or extension asks for and counts on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Term {
    // As plain numbers half as large: every lock that is held has two of these.
    ttl_ns: u64,
    drift_ns: u64,
    node_timeout_ns: u64,
    node_ttl_ms: u32,
    /// Whether the node timeout follows the round trips.
    follows: bool,
}

/// Checked options of one lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Terms {
    /// The term asked for.
    pub term: Term,
    /// How long an acquire goes on trying.
    pub wait: Wait,
    /// The pause between attempts.
    pub retry: Retry,
    /// How long extensions may keep the lock.
    pub max_hold: MaxHold,
    /// The time from one renewal to the next, if there are any.
    pub renewal: Option<Duration>,
    /// At most so many renewals.
    pub renewals_max: Option<u32>,
    /// Whether the lock has a fence.
    pub fenced: bool,
    /// Whether an acquire waits in line.
    pub queued: bool,
    /// Whether callers of one client that wait for the lock pass it on among themselves.
    pub cohort: bool,
    /// Whom the hold keeps out.
    pub mode: Mode,
    /// The margin that an acquisition must have.
    pub min_margin: usize,
    /// For how long nobody else gets the lock, even if it is released before.
    pub at_least: Duration,
    /// How long a node that may have forgotten something is not counted.
    pub quarantine: Duration,
}

impl Options {
    /// Checks the options against the fleet's `max_ttl`.
    ///
    /// # Errors
    /// [`OptionError`] names the first option that is not allowed, and what is.
    pub fn check(&self, max_ttl: MaxTtl) -> Result<Terms, OptionError> {
        let term = self.term(self.ttl, max_ttl)?;
        let max_hold = self.max_hold.unwrap_or(MaxHold::AtMost(MAX_HOLD_DEFAULT.max(self.ttl)));
        if let MaxHold::AtMost(max_hold) = max_hold
            && max_hold < self.ttl
        {
            return Err(OptionError::MaxHold { max_hold, ttl: self.ttl });
        }
        if self.retry.tries_max == Some(0) {
            return Err(OptionError::NoTries);
        }
        if self.at_least > max_ttl.get() {
            return Err(OptionError::AtLeast { at_least: self.at_least, max_ttl: max_ttl.get() });
        }
        if let Some(bytes) =
            self.label.as_ref().map(|label| label.len()).filter(|bytes| *bytes > LABEL_BYTES_MAX)
        {
            return Err(OptionError::Label { bytes });
        }
        if let Renewal::Every(interval) = self.renewal {
            let (interval_min, interval_max) = (term.node_timeout(), self.ttl / 2);
            if interval < interval_min || interval > interval_max {
                return Err(OptionError::Renewal { interval, interval_min, interval_max });
            }
        }
        let Self { wait, retry, renewals_max, fenced, queued, cohort, min_margin, at_least, .. } = *self;
        let mode = self.mode.clone();
        let cohort =
            cohort && fenced && queued && wait != Wait::No && mode.is_exclusive() && at_least.is_zero();
        let (renewal, quarantine) = (self.renewal.interval(self.ttl), max_ttl.quarantine());
        Ok(Terms {
            term,
            wait,
            retry,
            max_hold,
            renewal,
            renewals_max,
            fenced,
            queued,
            cohort,
            mode,
            min_margin,
            at_least,
            quarantine,
        })
    }

    /// Whether this lock may be held in this mode: several names, and a lock that is kept from
    /// others for a while, keep everyone out.
    ///
    /// # Errors
    /// [`OptionError::SeveralNames`] or [`OptionError::AtLeastShared`].
    pub fn check_mode(&self, key: &LockKey, mode: &Mode) -> Result<(), OptionError> {
        if mode.is_exclusive() {
            Ok(())
        } else if key.is_set() {
            Err(OptionError::SeveralNames)
        } else if !self.at_least.is_zero() {
            Err(OptionError::AtLeastShared)
        } else {
            Ok(())
        }
    }

    /// The term for `ttl` with these options' other numbers; an extension may ask for another ttl
    /// than the acquisition did.
    ///
    /// # Errors
    /// [`OptionError`], as [`Options::check`].
    pub fn term(&self, ttl: Duration, limit: MaxTtl) -> Result<Term, OptionError> {
        let MaxTtl(max_ttl) = limit;
        if ttl < TTL_MIN || ttl > max_ttl {
            return Err(OptionError::Ttl { ttl, max_ttl });
        }
        let (node_timeout, node_timeout_max) = self.node_timeout_range(ttl);
        if node_timeout.is_zero() || node_timeout > ttl / 2 {
            return Err(OptionError::NodeTimeout { node_timeout, ttl });
        }
        let drift = self.drift.of(ttl);
        if drift > ttl / 2 {
            return Err(OptionError::Drift { drift, ttl });
        }
        let guard_band = self.guard_band.unwrap_or_else(|| (ttl / 10).max(GUARD_BAND_MIN));
        let guard_band_max = limit.quarantine() - ttl;
        if guard_band > guard_band_max {
            return Err(OptionError::GuardBand { guard_band, guard_band_max });
        }
        let node_ttl_ms = (ttl + guard_band).as_micros().div_ceil(1_000);
        let node_ttl_ms = u32::try_from(node_ttl_ms).expect("at most twice the 24 h ceiling");
        let follows = node_timeout_max > node_timeout;
        let [ttl_ns, drift_ns, node_timeout_ns] = [ttl, drift, node_timeout].map(nanos);
        Ok(Term { ttl_ns, drift_ns, node_timeout_ns, node_ttl_ms, follows })
    }

    /// How long a node may take to answer in a round for this ttl: one that is near, and one that
    /// is as far as any may be.
    #[must_use]
    pub fn node_timeout_range(&self, ttl: Duration) -> (Duration, Duration) {
        let near = self.node_timeout.unwrap_or_else(|| {
            let max = self.node_timeout_max.unwrap_or(NODE_TIMEOUT_DEFAULT_MAX);
            (ttl / TIMEOUT_SHARE).min(max).max(NODE_TIMEOUT_DEFAULT_MIN)
        });
        let far = if self.timeout_follows() { ttl / TIMEOUT_SHARE } else { Duration::ZERO };
        (near, far.max(near))
    }

    const fn timeout_follows(&self) -> bool {
        self.node_timeout.is_none() && self.node_timeout_max.is_none()
    }

    /// All nodes are files on this machine: unless somebody has said how long, the disk gets its
    /// time.
    pub fn wait_for_disk(&mut self) {
        self.node_timeout_max.get_or_insert(DISK_TIMEOUT);
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            ttl: Duration::from_secs(30),
            wait: Wait::AtMost(Duration::from_secs(10)),
            retry: Retry::default(),
            node_timeout: None,
            node_timeout_max: None,
            drift: Drift::default(),
            guard_band: None,
            max_hold: None,
            renewal: Renewal::default(),
            renewals_max: None,
            fenced: true,
            queued: true,
            cohort: false,
            mode: Mode::Exclusive,
            min_margin: 0,
            at_least: Duration::ZERO,
            label: None,
        }
    }
}

impl Drift {
    /// An allowance of `ppm` millionths of the ttl and a constant.
    #[must_use]
    pub const fn new(ppm: u32, constant: Duration) -> Self {
        Self { ppm, constant }
    }

    /// The allowance for a term of `ttl`.
    #[must_use]
    pub fn of(&self, ttl: Duration) -> Duration {
        let nanos = ttl.as_nanos() * u128::from(self.ppm) / 1_000_000;
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)).saturating_add(self.constant)
    }
}

impl Default for Drift {
    fn default() -> Self {
        Self { ppm: 10_000, constant: Duration::from_millis(2) }
    }
}

impl MaxTtl {
    /// Checks a fleet-wide largest ttl.
    ///
    /// # Errors
    /// [`OptionError::MaxTtl`] if it is below the shortest ttl or above 24 h.
    pub fn new(max_ttl: Duration) -> Result<Self, OptionError> {
        if max_ttl < TTL_MIN || max_ttl > MAX_TTL_CEILING {
            return Err(OptionError::MaxTtl { max_ttl });
        }
        Ok(Self(max_ttl))
    }

    /// The largest ttl as a duration.
    #[must_use]
    pub const fn get(self) -> Duration {
        self.0
    }

    /// The guard band that goes with the largest ttl.
    #[must_use]
    pub fn guard_band_max(self) -> Duration {
        (self.0 / 10).max(GUARD_BAND_MIN)
    }

    /// The longest that any node keeps a key without an extension, and so the time after which a
    /// node that forgot everything has nothing left to remember.
    #[must_use]
    pub fn quarantine(self) -> Duration {
        self.0 + self.guard_band_max()
    }
}

impl Default for MaxTtl {
    fn default() -> Self {
        Self(Duration::from_secs(60))
    }
}

impl Terms {
    /// The term that an acquire asks for: the nodes keep the key at least for as long as nobody
    /// else is to have it.
    pub(crate) fn first_term(&self) -> Term {
        self.term.kept_for(self.at_least)
    }

    /// Checks what depends on the number of nodes.
    ///
    /// # Errors
    /// [`OptionError::MinMargin`] if not even all nodes together give the margin asked for.
    pub fn check_nodes(&self, quorum: Quorum) -> Result<(), OptionError> {
        let (min_margin, margin_max) = (self.min_margin, quorum.margin(quorum.nodes()));
        if min_margin > margin_max {
            return Err(OptionError::MinMargin { min_margin, margin_max });
        }
        Ok(())
    }
}

impl Term {
    /// How long the client may count on the lock, before drift and elapsed time are taken off.
    #[must_use]
    pub const fn ttl(&self) -> Duration {
        Duration::from_nanos(self.ttl_ns)
    }

    /// What is written off for clocks at different rates.
    #[must_use]
    pub const fn drift(&self) -> Duration {
        Duration::from_nanos(self.drift_ns)
    }

    /// How long before the end of its validity the lock counts as lost, so that work can be stopped
    /// in time.
    #[must_use]
    pub fn loss_lead(&self) -> Duration {
        (self.ttl() / LOSS_LEAD_SHARE).max(LOSS_LEAD_MIN).min(self.ttl() / LOSS_LEAD_SHARE_MAX)
    }

    /// How long a node keeps the key: the ttl plus the guard band, in whole milliseconds rounded
    /// up.
    #[must_use]
    pub const fn node_ttl_ms(&self) -> u64 {
        self.node_ttl_ms as u64
    }

    /// The same term, but the nodes keep the key at least for so long.
    #[must_use]
    pub(crate) fn kept_for(self, at_least: Duration) -> Self {
        let at_least_ms = at_least.as_micros().div_ceil(1_000);
        let node_ttl_ms = self.node_ttl_ms.max(u32::try_from(at_least_ms).unwrap_or(u32::MAX));
        Self { node_ttl_ms, ..self }
    }

    /// The one of two terms whose keys live longer on the nodes.
    #[must_use]
    pub(crate) const fn max_by_node_ttl(self, other: Self) -> Self {
        if other.node_ttl_ms > self.node_ttl_ms { other } else { self }
    }

    /// How long a node may take to answer at least.
    #[must_use]
    pub const fn node_timeout(&self) -> Duration {
        Duration::from_nanos(self.node_timeout_ns)
    }

    /// How long a node that is far away may take at most. The same, if the user has said how long.
    #[must_use]
    pub fn node_timeout_max(&self) -> Duration {
        if self.follows { self.ttl() / TIMEOUT_SHARE } else { self.node_timeout() }
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).expect("at most the 24 h ceiling")
}
