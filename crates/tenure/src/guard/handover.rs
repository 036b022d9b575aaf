//! A held lock as a plain value, so that another process can go on with it.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tenure_core::{
    Fence, Lease, LockKey, MaxHold, Mode, NameError, NodeIndex, NodeSet, NodeTime, Nonce, OptionError,
    Options, OwnerId, OwnerToken,
};
use tracing::Instrument;
use tracing::field::Empty;

use crate::Locks;
use crate::driver::{Call, Resuming, SharedLease};
use crate::error::{ExtendError, ReleaseError};
use crate::guard::lease_token::{max_hold_ms, max_hold_of};
use crate::guard::period::Period;
use crate::guard::{Guard, Hold, Released};

/// What the text form begins with.
const LEAD: &str = "tenure-handover-3";

/// Stands in the text where no limit was said.
const NOT_SAID: &str = "-";

/// What it began with when limits on the hold were those of whoever goes on with the lock.
const LEAD_WITHOUT_LIMIT: &str = "tenure-handover-2";

/// What it began with when nodes were named by their addresses.
const LEAD_BEFORE: &str = "tenure-handover-1";

/// A held lock, taken out of its guard: all that another process needs to extend or release it.
///
/// Made by [`Guard::hand_over`], turned into a guard again by [`Locks::resume`], in this process or
/// another. Its text form fits command lines and messages. It is enough to release the lock, so
/// treat it as a secret.
///
/// Until then, the lock is not renewed: resume it before its term is over.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use tenure::{Handover, Locks};
///
/// let locks = Locks::memory();
/// let guard = locks.lock("import").acquire().await?;
/// let fence = guard.fence();
/// let text = guard.hand_over().to_string();
///
/// let handover: Handover = text.parse()?;
/// let guard = locks.resume(&handover).await?;
/// assert_eq!(guard.fence(), fence);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Handover {
    /// The lock.
    pub name: String,
    /// The other names locked with it ([`Locks::lock_all`]).
    pub others: Vec<String>,
    /// The owner token.
    pub token: OwnerToken,
    /// The fence; [`Fence::NONE`] if the lock has none.
    pub fence: Fence,
    /// The ttl that it was acquired with.
    pub ttl: Duration,
    /// When its validity ended at the hand-over, in milliseconds since 1970 by the clock of that
    /// machine. For people; resuming asks the nodes.
    pub valid_until_ms: u64,
    /// How long it had been held then. On resume, the time since its fence counts by the clock of
    /// the nodes, if that is longer.
    pub held: Duration,
    /// The nodes that count for it, each by the life of its memory. A node that has lost its memory
    /// since does not count any more, whatever its address.
    pub lives: Vec<Nonce>,
    /// Its `max_hold`; `None` if none was set: then the default of the resuming manager applies.
    pub max_hold: Option<MaxHold>,
    /// Whom it keeps out.
    pub mode: Mode,
    /// How long nobody else gets it after it was acquired
    /// ([`Lock::at_least`](crate::Lock::at_least)).
    pub at_least: Duration,
    /// By when it was acquired, if it has [`at_least`](Self::at_least): the latest that the clock
    /// of a node showed when it granted the lock. On resume and release, `at_least` counts from
    /// here by the clocks of the nodes; without it, only [`held`](Self::held) is taken off.
    pub granted_by: Option<NodeTime>,
}

/// In which life of its memory each node was last seen. The worker writes it, whoever hands a lock
/// over reads it.
#[derive(Debug, Default)]
pub(crate) struct Lives(Mutex<BTreeMap<NodeIndex, Nonce>>);

impl Lives {
    pub(crate) fn set(&self, node: NodeIndex, nonce: Nonce) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(node, nonce);
    }

    pub(crate) fn of(&self, nodes: NodeSet) -> Vec<Nonce> {
        let lives = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        nodes.iter().filter_map(|node| lives.get(&node).copied()).collect()
    }
}

/// Why a text is not a handover.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a handover: {reason}; expected the text exactly as it was written")]
pub struct HandoverError {
    reason: String,
}

impl Handover {
    /// Builds one from its parts, for text forms of your own. All other fields are zero or empty.
    #[must_use]
    pub fn new(name: impl Into<String>, token: OwnerToken, ttl: Duration) -> Self {
        let (fence, held, lives) = (Fence::NONE, Duration::ZERO, vec![]);
        Self {
            name: name.into(),
            others: vec![],
            token,
            fence,
            ttl,
            valid_until_ms: 0,
            held,
            lives,
            max_hold: None,
            mode: Mode::Exclusive,
            at_least: Duration::ZERO,
            granted_by: None,
        }
    }
}

impl Guard {
    /// Takes the lock out of its guard, so that another process can resume it. It stays locked, but
    /// is not renewed until it is resumed.
    #[must_use = "the lock stays locked until its term is over, or until it is resumed"]
    pub fn hand_over(self) -> Handover {
        let handover = self.to_handover();
        self.parts().0.hand_over();
        handover
    }

    /// What [`Guard::hand_over`] would return now, while the guard keeps the lock: for a child
    /// process that works under the lock and may have to release it. Do not resume it while the
    /// guard lives.
    #[must_use]
    pub fn to_handover(&self) -> Handover {
        // The wall clock first: a pause between the two makes the deadline too early, never too
        // late.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let valid_for = self.valid_for();
        let (hold, options) = self.parts();
        let lease = hold.handover();
        let lease = lease.as_ref();
        let (members, held) = lease.map_or_else(Default::default, |lease| (lease.members, lease.held));
        let mut names = hold.names().map(str::to_owned);
        Handover {
            name: names.next().unwrap_or_default(),
            others: names.collect(),
            token: lease.map_or(OwnerToken::from_bytes([0; 20]), |lease| lease.token),
            fence: lease.and_then(|lease| lease.fence).unwrap_or(Fence::NONE),
            ttl: options.ttl,
            valid_until_ms: u64::try_from((now + valid_for).as_millis()).unwrap_or(u64::MAX),
            held,
            lives: hold.lives_of(members),
            max_hold: options.max_hold,
            mode: lease.map_or(Mode::Exclusive, |lease| lease.mode.clone()),
            at_least: options.at_least,
            granted_by: lease.and_then(|lease| lease.granted_by),
        }
    }
}

impl Locks {
    /// Resumes a lock that was handed over: extends it, which proves that it is still held, and
    /// renews it from then on like any other.
    ///
    /// Resume a handover only once: two guards of one owner would both be valid. Its `max_hold`
    /// still counts from the acquisition, by the clock of the nodes, however old the handover is
    /// and whatever this machine's clock says.
    ///
    /// # Errors
    /// [`ExtendError`]. The lock is not released: you can try again.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the lock as it is.
    pub async fn resume(&self, handover: &Handover) -> Result<Guard, ExtendError> {
        let manager = &self.inner;
        let name = || handover.name.clone();
        manager.started().await;
        let (hold, lease, resuming, options) = self.take_over(handover).map_err(|error| match error {
            NotTaken::Name(error) => ExtendError::InvalidName { name: name(), error },
            NotTaken::Option(error) => ExtendError::InvalidOption { name: name(), error },
        })?;
        let (id, resuming) = (hold.id(), Box::new(resuming));
        let span = tracing::debug_span!(
            target: "tenure", "tenure.resume", lock = handover.name, fence = handover.fence.get(), outcome = Empty
        );
        manager.trace(id, &span);
        let told = manager.call(|reply| Call::Resume { id, lease, resuming, reply }).instrument(span.clone());
        let resumed = match told.await {
            Some(Ok(())) => Ok(Guard::new(hold.kept(), options)),
            // Nothing is known about its validity.
            Some(Err(reason)) => Err(hold.extend_error(reason, Duration::ZERO)),
            None => Err(ExtendError::ShutDown { name: name(), valid_for: Duration::ZERO }),
        };
        span.record("outcome", resumed.as_ref().map_or_else(ExtendError::outcome, |_| "extended"));
        resumed
    }

    /// Releases a lock that was handed over, whether or not its term is over. Returns as soon as a
    /// majority of nodes has answered; the rest are released in the background. Other owners' locks
    /// are not touched.
    ///
    /// # Errors
    /// As [`Guard::release`], and [`ReleaseError::InvalidName`] and [`ReleaseError::InvalidOption`]
    /// if the handover does not fit this manager.
    ///
    /// # Cancel safety
    /// The release continues when the future is dropped.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let locks = tenure::Locks::memory();
    /// let handover = locks.lock("import").acquire().await?.hand_over();
    /// locks.release(&handover).await?;
    /// assert!(locks.lock("import").try_acquire().await?.is_some());
    /// # Ok(()) }
    /// ```
    pub async fn release(&self, handover: &Handover) -> Result<Released, ReleaseError> {
        self.release_handed_over(handover, false).await
    }

    /// As [`Locks::release`], but gives the remaining nodes a moment to answer, so that the votes
    /// are complete.
    ///
    /// # Errors
    /// As [`Locks::release`].
    ///
    /// # Cancel safety
    /// The release continues when the future is dropped.
    pub async fn release_everywhere(&self, handover: &Handover) -> Result<Released, ReleaseError> {
        self.release_handed_over(handover, true).await
    }

    async fn release_handed_over(
        &self,
        handover: &Handover,
        hears_all: bool,
    ) -> Result<Released, ReleaseError> {
        let manager = &self.inner;
        let name = || handover.name.clone();
        let (hold, lease, resuming, _) = self.take_over(handover).map_err(|error| match error {
            NotTaken::Name(error) => ReleaseError::InvalidName { name: name(), error },
            NotTaken::Option(error) => ReleaseError::InvalidOption { name: name(), error },
        })?;
        // A release goes to all nodes, whichever of them count.
        *lease.look() =
            resuming.begin(manager.quorum, NodeSet::default(), handover.held, manager.clock.now());
        let id = hold.id();
        hold.forget();
        let span = Released::span(&handover.name);
        span.record("fence", handover.fence.get());
        manager.trace(id, &span);
        let told = manager.call(|reply| Call::ReleaseResumed { id, lease, hears_all, reply });
        Released::of(manager, name(), told.instrument(span.clone()).await, &span)
    }

    /// What goes on with a lock that another process held. Nothing is asked of the nodes yet.
    fn take_over(
        &self,
        handover: &Handover,
    ) -> Result<(Hold, SharedLease, Resuming, Arc<Options>), NotTaken> {
        let manager = &self.inner;
        let names = std::iter::once(&handover.name).chain(&handover.others);
        let keys = names.map(|name| manager.key(name)).collect::<Result<Vec<_>, _>>();
        let key = keys.and_then(LockKey::all_of).map_err(NotTaken::Name)?;
        let mut options = Arc::clone(&manager.defaults);
        if options.ttl != handover.ttl {
            Arc::make_mut(&mut options).ttl = handover.ttl;
        }
        if handover.max_hold.is_some_and(|max_hold| options.max_hold != Some(max_hold)) {
            Arc::make_mut(&mut options).max_hold = handover.max_hold;
        }
        // Its own, and not the default of this manager.
        if options.at_least != handover.at_least {
            Arc::make_mut(&mut options).at_least = handover.at_least;
        }
        options.check_mode(&key, &handover.mode).map_err(NotTaken::Option)?;
        let terms = options.check(manager.max_ttl).map_err(NotTaken::Option)?;
        let fence = (handover.fence != Fence::NONE).then_some(handover.fence);
        let Handover { token, held, granted_by, ref mode, .. } = *handover;
        let (members, mode) = (NodeSet::default(), mode.clone());
        let taken = tenure_core::HandedOver { token, fence, members, held, granted_by, mode };
        let lease = SharedLease::new(Lease::new(key.clone(), terms.clone(), manager.quorum));
        let hold = Hold::resuming(Arc::clone(manager), key.clone(), lease.clone());
        let resuming = Resuming { key, terms, handover: taken, lives: handover.lives.clone() };
        Ok((hold, lease, resuming, options))
    }
}

/// Why a handover cannot be one of this manager's.
enum NotTaken {
    Name(NameError),
    Option(OptionError),
}

impl fmt::Display for Handover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, others, token, fence, ttl, valid_until_ms, held, lives, max_hold, .. } = self;
        let mode = write_mode(&self.mode);
        let names: Vec<String> = std::iter::once(name).chain(others).map(|name| escape(name)).collect();
        let lives: Vec<String> = lives.iter().map(Nonce::to_string).collect();
        write!(
            f,
            "{LEAD} {token}{mode} {fence} {} {valid_until_ms} {} {} {}{} {}",
            ttl.as_millis(),
            held.as_millis(),
            lives.join(","),
            max_hold.map_or_else(|| NOT_SAID.to_owned(), |max_hold| max_hold_ms(max_hold).to_string()),
            // Older versions would let others in too early: they do not read it.
            Period::of(self).map(|period| format!("+{period}")).unwrap_or_default(),
            // Older versions take several for one, which nobody has: they refuse.
            names.join(",")
        )
    }
}

impl FromStr for Handover {
    type Err = HandoverError;

    fn from_str(text: &str) -> Result<Self, HandoverError> {
        let error = |reason: &str| HandoverError { reason: reason.to_owned() };
        let parts: Vec<&str> = text.trim().split(' ').collect();
        let (token, fence, ttl, valid_until_ms, held, lives, max_hold, name) = match parts[..] {
            [LEAD, token, fence, ttl, until, held, lives, max_hold, name] => {
                (token, fence, ttl, until, held, lives, max_hold, name)
            }
            [LEAD_WITHOUT_LIMIT, token, fence, ttl, until, held, lives, name] => {
                (token, fence, ttl, until, held, lives, NOT_SAID, name)
            }
            [LEAD_BEFORE, ..] => {
                return Err(error("it is from an older version, which identified nodes by address"));
            }
            _ => return Err(error("it does not have nine parts")),
        };
        let number = |text: &str| text.parse::<u64>().map_err(|_| error("a number is damaged"));
        let (token, mode) = read_mode(token).ok_or_else(|| error("the owner is damaged"))?;
        let (max_hold, period) = max_hold.split_once('+').unwrap_or((max_hold, "0"));
        let period = Period::read(period, 10).ok_or_else(|| error("the period is damaged"))?;
        let names = name.split(',').map(|name| unescape(name).ok_or_else(|| error("the name is damaged")));
        let mut names = names.collect::<Result<Vec<_>, _>>()?.into_iter();
        Ok(Self {
            name: names.next().unwrap_or_default(),
            others: names.collect(),
            token: OwnerToken::parse(token).map_err(|_| error("the owner token is damaged"))?,
            fence: Fence::new(number(fence)?),
            ttl: Duration::from_millis(number(ttl)?),
            valid_until_ms: number(valid_until_ms)?,
            held: Duration::from_millis(number(held)?),
            mode,
            at_least: period.map_or(Duration::ZERO, |period| period.at_least),
            granted_by: period.and_then(|period| period.granted_by),
            max_hold: match max_hold {
                NOT_SAID => None,
                limit => Some(max_hold_of(number(limit)?)),
            },
            lives: lives
                .split(',')
                .filter(|nonce| !nonce.is_empty())
                .map(|nonce| Nonce::parse(nonce).ok_or_else(|| error("a node is damaged")))
                .collect::<Result<_, _>>()?,
        })
    }
}

/// What follows a token whose lock others may hold, too: an `r`, or an `o` and the owner's id in
/// hexadecimal digits. Older versions do not read that.
pub(super) fn write_mode(mode: &Mode) -> String {
    match mode {
        Mode::Shared => "r".to_owned(),
        Mode::Owned(id) => id.as_str().bytes().fold("o".to_owned(), |text, byte| format!("{text}{byte:02x}")),
        _ => String::new(),
    }
}

/// The token alone, and whom its hold keeps out.
pub(super) fn read_mode(owner: &str) -> Option<(&str, Mode)> {
    if let Some((token, id)) = owner.split_once('o') {
        let digits = (0..id.len()).step_by(2).map(|at| u8::from_str_radix(id.get(at..at + 2)?, 16).ok());
        let id = String::from_utf8(digits.collect::<Option<_>>()?).ok()?;
        return Some((token, Mode::Owned(OwnerId::new(&id).ok()?)));
    }
    Some(owner.strip_suffix('r').map_or((owner, Mode::Exclusive), |owner| (owner, Mode::Shared)))
}

/// Writes everything but plain characters as `%` and two hexadecimal digits, so that no part has a
/// space or a comma.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b':' | b'/' | b'+' => {
                escaped.push(char::from(byte));
            }
            _ => escaped.push_str(&format!("%{byte:02x}")),
        }
    }
    escaped
}

fn unescape(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        if *first == b'%' {
            let (digits, behind) = rest.split_at_checked(2)?;
            bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
            rest = behind;
        } else {
            bytes.push(*first);
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handover() -> Handover {
        Handover {
            name: "a b,ü%\n\0".to_owned(),
            others: vec![],
            token: OwnerToken::from_bytes([0xab; 20]),
            fence: Fence::new(7),
            ttl: Duration::from_millis(30_000),
            valid_until_ms: 1_700_000_000_000,
            held: Duration::from_millis(12),
            lives: vec![Nonce::new(0xab), Nonce::new(u64::MAX)],
            max_hold: Some(MaxHold::AtMost(Duration::from_secs(60))),
            mode: Mode::Exclusive,
            at_least: Duration::ZERO,
            granted_by: None,
        }
    }

    #[test]
    fn a_handover_survives_its_text_whatever_is_in_the_names() {
        let text = handover().to_string();
        assert_eq!(text.split(' ').count(), 9, "{text}");
        assert_eq!(text.parse(), Ok(handover()));
        for max_hold in [None, Some(MaxHold::Unlimited)] {
            let handover = Handover { max_hold, ..handover() };
            assert_eq!(handover.to_string().parse(), Ok(handover));
        }
        let shared = Handover { mode: Mode::Shared, ..handover() };
        assert_eq!(shared.to_string().parse(), Ok(shared));
        for max_hold in [None, handover().max_hold] {
            for granted_by in [None, Some(NodeTime::from_micros(1_700_000_000_000_001))] {
                let at_least = Duration::from_millis(7);
                let kept = Handover { at_least, granted_by, max_hold, ..handover() };
                assert_eq!(kept.to_string().parse(), Ok(kept));
            }
        }
        let several = Handover { others: vec![",".to_owned(), "b".to_owned()], ..handover() };
        assert_eq!(several.to_string().parse(), Ok(several));
        let no_nodes = Handover { lives: vec![], ..handover() };
        assert_eq!(no_nodes.to_string().parse(), Ok(no_nodes));
    }

    #[test]
    fn a_text_of_the_version_before_says_nothing_about_the_limit() {
        let text = handover().to_string().replace("handover-3", "handover-2").replace(" 60000 ", " ");
        assert_eq!(text.parse(), Ok(Handover { max_hold: None, ..handover() }));
    }

    #[test]
    fn a_text_that_is_damaged_says_where() {
        let text = handover().to_string();
        for (damaged, reason) in [
            (String::new(), "nine parts"),
            (text.replace("abab", "abaz"), "token"),
            (text.replace(" 7 ", " x "), "number"),
            (text.replace(",ff", ",fg"), "node"),
            (text.replace("handover-3", "handover-1"), "older version"),
            (format!("{text}%f"), "name"),
        ] {
            let error = damaged.parse::<Handover>().unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }
}
