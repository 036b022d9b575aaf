//! A held lock in one word, for whoever knows its name.
//!
//! `OWNER.LIVES.FENCE.SINCE.TTL.UNTIL[.MAX_HOLD[.AT_LEAST]]`: the owner as the nodes have it, with
//! an `r` behind it if others may hold the lock, too (older versions refuse such a token); then in
//! hexadecimal the lives of the nodes that count for the lease (16 digits each), the fence, when it
//! was acquired, its ttl, until when it was valid when the token was made, and the longest that it
//! may be held (`0`: no limit; empty: not said), and for how long it is kept from others, if that
//! was said (times in milliseconds, since 1970); behind that, with a `-`, by when it was acquired
//! (microseconds, by the clock of the nodes). Versions that do not know the last part refuse the
//! token, because they would let others in too early.
//!
//! An extension may only count nodes that this lease counted, which is why the owner alone is not
//! enough to extend. A life names a node and its memory: it does not depend on the address under
//! which the node is reached, and a node that has lost its memory has another one. How long the
//! lock has been held is told by its fence, which is the moment of the acquisition by the clock of
//! the nodes; only without one, and without a period, by SINCE and the wall clock.
//!
//! Older versions had one bit for each node of the sorted list in the place of the lives. Such a
//! token still releases.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tenure_core::{Fence, MaxHold, Mode, Nonce, OwnerToken};

use super::handover::{Handover, read_mode, write_mode};
use super::period::Period;

/// A [`Handover`] as one word, without the lock's name: for a program to print or store, and to
/// extend or release the lock later.
///
/// It is enough to release the lock, so treat it as a secret.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use tenure::{LeaseToken, Locks};
///
/// let locks = Locks::memory();
/// let handover = locks.lock("import").acquire().await?.hand_over();
/// let word = LeaseToken::of(&handover).to_string();
///
/// let token: LeaseToken = word.parse()?;
/// let guard = locks.resume(&token.handover("import", token.ttl())).await?;
/// assert_eq!(guard.fence(), token.fence());
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseToken {
    owner: OwnerToken,
    lives: Vec<Nonce>,
    fence: Fence,
    since_ms: u64,
    ttl_ms: u64,
    until_ms: u64,
    max_hold: Option<MaxHold>,
    mode: Mode,
    period: Option<Period>,
}

/// A text is not a lease token. The error does not repeat it, because a valid one is a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid lease token: expected the text exactly as it was written")]
pub struct LeaseTokenError;

impl LeaseToken {
    /// The token of a lock that was just handed over.
    #[must_use]
    pub fn of(handover: &Handover) -> Self {
        Self {
            owner: handover.token,
            lives: handover.lives.clone(),
            fence: handover.fence,
            since_ms: now_ms().saturating_sub(milliseconds(handover.held)),
            ttl_ms: milliseconds(handover.ttl),
            until_ms: handover.valid_until_ms,
            max_hold: handover.max_hold,
            mode: handover.mode.clone(),
            period: Period::of(handover),
        }
    }

    /// The fence of the lock; [`Fence::NONE`] if it has none.
    #[must_use]
    pub const fn fence(&self) -> Fence {
        self.fence
    }

    /// The ttl that the lock was acquired or last extended with.
    #[must_use]
    pub const fn ttl(&self) -> Duration {
        Duration::from_millis(self.ttl_ms)
    }

    /// How long the lock is still valid as of when the token was made, by the wall clock, and when
    /// that ends, in milliseconds since 1970. Never more than the ttl, in case the clock was set
    /// back since.
    #[must_use]
    pub fn promised(&self) -> (Duration, u64) {
        let now_ms = now_ms();
        let until_ms = self.until_ms.min(now_ms.saturating_add(self.ttl_ms));
        (Duration::from_millis(until_ms.saturating_sub(now_ms)), until_ms)
    }

    /// Keeps the term of an earlier token of the same lock: an extension never shortens it.
    pub const fn keep_term(&mut self, earlier: &Self) {
        (self.ttl_ms, self.until_ms) = (earlier.ttl_ms, earlier.until_ms);
    }

    /// Whether the lock can be extended with it. Tokens of old versions do not say which nodes
    /// count, and can only release.
    #[must_use]
    pub const fn extends(&self) -> bool {
        !self.lives.is_empty()
    }

    /// What [`Locks::resume`](crate::Locks::resume) and [`Locks::release`](crate::Locks::release)
    /// need: the lock of this name, with this ttl from now on.
    #[must_use]
    pub fn handover(&self, name: &str, ttl: Duration) -> Handover {
        let mut handover = Handover::new(name, self.owner, ttl);
        handover.fence = self.fence;
        // A fence says when it was acquired, by the clock of the nodes, and so does a period.
        // Without them the wall clock of this machine has to do.
        let granted_by = self.period.and_then(|period| period.granted_by);
        if self.fence == Fence::NONE && granted_by.is_none() {
            handover.held = Duration::from_millis(now_ms().saturating_sub(self.since_ms));
        }
        handover.lives.clone_from(&self.lives);
        (handover.max_hold, handover.mode) = (self.max_hold, self.mode.clone());
        if let Some(Period { at_least, granted_by }) = self.period {
            (handover.at_least, handover.granted_by) = (at_least, granted_by);
        }
        handover
    }
}

impl fmt::Display for LeaseToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { owner, lives, fence, since_ms, ttl_ms, until_ms, max_hold, mode, period } = self;
        write!(f, "{owner}{}.", write_mode(mode))?;
        lives.iter().try_for_each(|life| write!(f, "{life}"))?;
        write!(f, ".{:x}.{since_ms:x}.{ttl_ms:x}.{until_ms:x}", fence.get())?;
        match max_hold {
            Some(max_hold) => write!(f, ".{:x}", max_hold_ms(*max_hold))?,
            None if period.is_some() => f.write_str(".")?,
            None => {}
        }
        period.map_or(Ok(()), |period| write!(f, ".{period:x}"))
    }
}

impl FromStr for LeaseToken {
    type Err = LeaseTokenError;

    fn from_str(text: &str) -> Result<Self, LeaseTokenError> {
        let parts: Vec<&str> = text.split('.').collect();
        let [owner, lives, fence, since, ref term @ ..] = parts[..] else {
            return Err(LeaseTokenError);
        };
        let (ttl, until, max_hold, period) = match *term {
            [ttl, until] => (ttl, until, None, "0"),
            [ttl, until, max_hold] => (ttl, until, Some(max_hold), "0"),
            [ttl, until, "", period] => (ttl, until, None, period),
            [ttl, until, max_hold, period] => (ttl, until, Some(max_hold), period),
            // As the first version printed it: any term will do, to release it.
            [] => ("3e8", "0", None, "0"),
            _ => return Err(LeaseTokenError),
        };
        let (owner, mode) = read_mode(owner).ok_or(LeaseTokenError)?;
        let number = |text| u64::from_str_radix(text, 16).map_err(|_| LeaseTokenError);
        Ok(Self {
            owner: OwnerToken::parse(owner).map_err(|_| LeaseTokenError)?,
            // What is shorter than one life is the bits of an older version.
            lives: match lives.len() {
                0 => vec![],
                1..16 => number(lives).map(|_| vec![])?,
                _ => read_lives(lives).ok_or(LeaseTokenError)?,
            },
            fence: Fence::new(number(fence)?),
            since_ms: number(since)?,
            ttl_ms: number(ttl)?,
            until_ms: number(until)?,
            max_hold: max_hold.map(number).transpose()?.map(max_hold_of),
            mode,
            period: Period::read(period, 16).ok_or(LeaseTokenError)?,
        })
    }
}

/// A limit as a number: 0 is none.
pub(super) fn max_hold_ms(max_hold: MaxHold) -> u64 {
    match max_hold {
        MaxHold::AtMost(limit) => milliseconds(limit).max(1),
        _ => 0,
    }
}

/// The limit that such a number is.
pub(super) const fn max_hold_of(ms: u64) -> MaxHold {
    match ms {
        0 => MaxHold::Unlimited,
        ms => MaxHold::AtMost(Duration::from_millis(ms)),
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The wall clock, in milliseconds since 1970.
fn now_ms() -> u64 {
    milliseconds(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

fn read_lives(text: &str) -> Option<Vec<Nonce>> {
    (0..text.len()).step_by(16).map(|from| text.get(from..from + 16).and_then(Nonce::parse)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_carries_everything() {
        let mut handover = Handover::new("x", OwnerToken::from_bytes([0xab; 20]), Duration::from_secs(1));
        handover.fence = Fence::new(77);
        handover.lives = vec![Nonce::new(7), Nonce::new(u64::MAX)];
        handover.valid_until_ms = now_ms() + 800;
        let hour = MaxHold::AtMost(Duration::from_secs(3_600));
        for (max_hold, parts) in [(None, 6), (Some(hour), 7), (Some(MaxHold::Unlimited), 7)] {
            handover.max_hold = max_hold;
            let text = LeaseToken::of(&handover).to_string();
            assert_eq!(text.split('.').count(), parts, "older versions read six parts: {text}");
            let token: LeaseToken = text.parse().unwrap();
            assert_eq!((token.ttl(), token.extends()), (handover.ttl, true));
            let (promised_for, until_ms) = token.promised();
            assert!(promised_for <= Duration::from_millis(800) && until_ms == handover.valid_until_ms);
            let read = token.handover("x", Duration::from_secs(1));
            assert_eq!((read.token, read.fence), (handover.token, handover.fence));
            assert_eq!((read.lives, read.max_hold), (handover.lives.clone(), max_hold));
            assert!(read.held < Duration::from_secs(5));
            handover.at_least = Duration::from_secs(50);
            let kept: LeaseToken = LeaseToken::of(&handover).to_string().parse().unwrap();
            let read = kept.handover("x", Duration::from_secs(1));
            assert_eq!((read.at_least, read.max_hold), (handover.at_least, max_hold));
            handover.at_least = Duration::ZERO;
        }
    }

    #[test]
    fn a_token_that_is_damaged_is_not_repeated() {
        for text in [
            "",
            "abcd",
            "secret.1.2.3.4.5",
            "abab.1.2",
            "u.v.w.x.y.z",
            &format!("{}.{}.1.1.1.1", "ab".repeat(20), "0123456789abcdef1"),
            &format!("{}.1.1.1.1.1.1.1.1", "ab".repeat(20)),
        ] {
            let error = text.parse::<LeaseToken>().unwrap_err().to_string();
            assert!(text.is_empty() || !error.contains(text), "{error}");
        }
    }

    #[test]
    fn a_token_of_an_older_version_releases_and_is_not_extended() {
        let owner = "ab".repeat(20);
        // And one that names no nodes.
        let nobody = format!("{owner}..4d.18.7530.19");
        for text in [format!("{owner}.1f.4d.18"), format!("{owner}.7.4d.18.7530.19"), nobody] {
            let token: LeaseToken = text.parse().unwrap();
            let handover = token.handover("x", Duration::from_secs(1));
            assert_eq!((handover.token.to_string(), handover.fence), (owner.clone(), Fence::new(0x4d)));
            assert!(!token.extends());
        }
    }

    #[test]
    fn a_token_with_a_ttl_without_end_promises_until_its_end() {
        let text = format!("{}.0000000000000007.1.1.ffffffffffffffff.ffffffffffffffff", "ab".repeat(20));
        let token: LeaseToken = text.parse().unwrap();
        assert_eq!(token.promised().1, u64::MAX);
        assert!(token.promised().0 <= token.ttl());
    }

    #[test]
    fn a_clock_that_was_set_back_promises_no_more_than_the_ttl() {
        let mut handover = Handover::new("x", OwnerToken::from_bytes([1; 20]), Duration::from_secs(1));
        handover.valid_until_ms = now_ms() + 3_600_000;
        assert_eq!(LeaseToken::of(&handover).promised().0, Duration::from_secs(1));
    }
}
