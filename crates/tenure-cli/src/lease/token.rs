//! The token that `acquire` prints: everything that `extend` and `release` need, in one word.
//!
//! `OWNER.LIVES.FENCE.SINCE.TTL.UNTIL`: the owner token as the nodes have it, then in hexadecimal
//! the lives of the nodes that count for the lease (16 digits each), the fence, when it was
//! acquired, its ttl, and until when it was valid when the token was printed (times in
//! milliseconds, since 1970). An extension may only count nodes that this lease counted, which is
//! why the owner alone is not enough to extend. A life names a node and its memory: it does not
//! depend on the address under which the node is reached, and a node that has lost its memory has
//! another one.
//!
//! Older versions had one bit for each node of the sorted list in the place of the lives. Such a
//! token still releases.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tenure::{Fence, Handover, Nonce, OwnerToken};

use crate::failure::Failure;

/// A token, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LeaseToken {
    owner: OwnerToken,
    lives: Vec<Nonce>,
    fence: Fence,
    since_ms: u64,
    ttl_ms: u64,
    until_ms: u64,
}

impl LeaseToken {
    /// The token of a lock that was just handed over.
    pub(crate) fn of(handover: &Handover) -> Self {
        let held = u64::try_from(handover.held.as_millis()).unwrap_or(0);
        Self {
            owner: handover.token,
            lives: handover.lives.clone(),
            fence: handover.fence,
            since_ms: now_ms().saturating_sub(held),
            ttl_ms: u64::try_from(handover.ttl.as_millis()).unwrap_or(u64::MAX),
            until_ms: handover.valid_until_ms,
        }
    }

    /// Reads a token.
    ///
    /// # Errors
    /// What is wrong with it. It is not repeated: whoever has it can release the lock.
    pub(crate) fn parse(text: &str) -> Result<Self, Failure> {
        let invalid = || Failure::usage("invalid token: paste what `acquire` printed");
        let parts: Vec<&str> = text.split('.').collect();
        let [owner, lives, fence, since, ref term @ ..] = parts[..] else {
            return Err(invalid());
        };
        let [ttl, until] = match term {
            [ttl, until] => [*ttl, *until],
            // As the first version printed it: any term will do, to release it.
            [] => ["3e8", "0"],
            _ => return Err(invalid()),
        };
        let number = |text| u64::from_str_radix(text, 16).map_err(|_| invalid());
        Ok(Self {
            owner: OwnerToken::parse(owner).map_err(|_| invalid())?,
            // What is shorter than one life is the bits of an older version.
            lives: match lives.len() {
                ..16 => number(lives).map(|_| vec![])?,
                _ => read_lives(lives).ok_or_else(invalid)?,
            },
            fence: Fence::new(number(fence)?),
            since_ms: number(since)?,
            ttl_ms: number(ttl)?,
            until_ms: number(until)?,
        })
    }

    /// Makes sure that a fence that was given belongs to it.
    pub(crate) fn check_fence(&self, fence: Option<u64>) -> Result<(), Failure> {
        match fence {
            Some(fence) if fence != self.fence.get() => Err(Failure::usage(format!(
                "the fence {fence} does not belong to this token; give both as they were printed"
            ))),
            _ => Ok(()),
        }
    }

    /// The ttl that the lease was acquired or last extended with.
    pub(crate) const fn ttl(&self) -> Duration {
        Duration::from_millis(self.ttl_ms)
    }

    /// How much of the term is left that was promised when the token was printed, by the wall
    /// clock, and until when that is; never more than the ttl, in case that clock was set back
    /// since.
    pub(crate) fn promised(&self) -> (Duration, u64) {
        let now_ms = now_ms();
        let until_ms = self.until_ms.min(now_ms + self.ttl_ms);
        (Duration::from_millis(until_ms.saturating_sub(now_ms)), until_ms)
    }

    /// Keeps the term that an earlier token promised.
    pub(crate) const fn keep_term(&mut self, earlier: &Self) {
        (self.ttl_ms, self.until_ms) = (earlier.ttl_ms, earlier.until_ms);
    }

    /// Makes sure that it can be extended.
    pub(crate) fn check_version(&self) -> Result<(), Failure> {
        if self.lives.is_empty() {
            return Err(Failure::usage(
                "the token is from an older version of tenure and cannot be extended; release the lock with it, and \
                 acquire it again",
            ));
        }
        Ok(())
    }

    /// What the library needs to go on with the lock.
    pub(crate) fn handover(&self, name: &str, ttl: Duration) -> Handover {
        let mut handover = Handover::new(name, self.owner, ttl);
        handover.fence = self.fence;
        handover.held = Duration::from_millis(now_ms().saturating_sub(self.since_ms));
        handover.lives.clone_from(&self.lives);
        handover
    }
}

impl std::fmt::Display for LeaseToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { owner, lives, fence, since_ms, ttl_ms, until_ms } = self;
        let lives: String = lives.iter().map(Nonce::to_string).collect();
        write!(f, "{owner}.{lives}.{:x}.{since_ms:x}.{ttl_ms:x}.{until_ms:x}", fence.get())
    }
}

/// The wall clock, in milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
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
        let text = LeaseToken::of(&handover).to_string();
        let token = LeaseToken::parse(&text).unwrap();
        assert_eq!(token.ttl(), handover.ttl);
        let (promised_for, until_ms) = token.promised();
        assert!(promised_for <= Duration::from_millis(800) && until_ms == handover.valid_until_ms);
        assert!(token.check_version().is_ok());
        let read = token.handover("x", Duration::from_secs(1));
        assert_eq!((read.token, read.fence), (handover.token, handover.fence));
        assert_eq!(read.lives, handover.lives);
        assert!(read.held < Duration::from_secs(5));
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
        ] {
            let failure = LeaseToken::parse(text).unwrap_err();
            assert!(text.is_empty() || !failure.message.contains(text), "{}", failure.message);
        }
    }

    #[test]
    fn a_token_of_an_older_version_releases_and_is_not_extended() {
        let owner = "ab".repeat(20);
        for text in [format!("{owner}.1f.4d.18"), format!("{owner}.7.4d.18.7530.19")] {
            let token = LeaseToken::parse(&text).unwrap();
            let handover = token.handover("x", Duration::from_secs(1));
            assert_eq!((handover.token.to_string(), handover.fence), (owner.clone(), Fence::new(0x4d)));
            let failure = token.check_version().unwrap_err();
            assert!(failure.message.contains("older version"), "{}", failure.message);
        }
    }

    #[test]
    fn a_clock_that_was_set_back_promises_no_more_than_the_ttl() {
        let mut handover = Handover::new("x", OwnerToken::from_bytes([1; 20]), Duration::from_secs(1));
        handover.valid_until_ms = now_ms() + 3_600_000;
        assert_eq!(LeaseToken::of(&handover).promised().0, Duration::from_secs(1));
    }

    #[test]
    fn a_fence_of_another_lease_is_noticed() {
        let token =
            LeaseToken::of(&Handover::new("x", OwnerToken::from_bytes([1; 20]), Duration::from_secs(1)));
        assert!(token.check_fence(None).is_ok());
        assert!(token.check_fence(Some(0)).is_ok());
        assert!(token.check_fence(Some(1)).is_err());
    }
}
