//! The token that `acquire` prints: everything that `extend` and `release` need, in one word.
//!
//! `OWNER.MEMBERS.FENCE.SINCE.TTL.UNTIL`: the owner token as the nodes have it, then in hexadecimal which nodes count for
//! the lease (bit i for the i-th address in alphabetical order, so that the order of the node list does not matter), the
//! fence, when it was acquired, its ttl, and until when it was valid when the token was printed (times in milliseconds,
//! since 1970). An extension may only count nodes that this lease counted, which is why the owner alone is not enough to
//! extend.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tenure::{Fence, Handover, OwnerToken};

use crate::failure::Failure;

/// A token, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LeaseToken {
    owner: OwnerToken,
    members: u64,
    fence: Fence,
    since_ms: u64,
    ttl_ms: u64,
    until_ms: u64,
}

impl LeaseToken {
    /// The token of a lock that was just handed over, among these nodes.
    pub(crate) fn of(handover: &Handover, addresses: &[String]) -> Self {
        let members = sorted(addresses)
            .iter()
            .enumerate()
            .filter(|(_, address)| handover.nodes.contains(address))
            .fold(0, |mask, (index, _)| mask | 1 << index);
        let held = u64::try_from(handover.held.as_millis()).unwrap_or(0);
        Self {
            owner: handover.token,
            members,
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
        let [owner, members, fence, since, ttl, until] = parts[..] else {
            return Err(invalid());
        };
        let number = |text| u64::from_str_radix(text, 16).map_err(|_| invalid());
        Ok(Self {
            owner: OwnerToken::parse(owner).map_err(|_| invalid())?,
            members: number(members)?,
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

    /// How much of the term is left that was promised when the token was printed, by the wall clock; never more than the
    /// ttl, in case that clock was set back since.
    pub(crate) fn promised_for(&self) -> Duration {
        Duration::from_millis(self.until_ms.saturating_sub(now_ms())).min(self.ttl())
    }

    /// Keeps the term that an earlier token promised.
    pub(crate) const fn keep_term(&mut self, earlier: &Self) {
        (self.ttl_ms, self.until_ms) = (earlier.ttl_ms, earlier.until_ms);
    }

    /// What the library needs to go on with the lock.
    pub(crate) fn handover(&self, name: &str, ttl: Duration, addresses: &[String]) -> Handover {
        let mut handover = Handover::new(name, self.owner, ttl);
        handover.fence = self.fence;
        handover.held = Duration::from_millis(now_ms().saturating_sub(self.since_ms));
        let nodes = sorted(addresses).into_iter().enumerate();
        handover.nodes =
            nodes.filter(|(index, _)| self.members >> index & 1 == 1).map(|(_, node)| node).collect();
        handover
    }
}

impl std::fmt::Display for LeaseToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { owner, members, fence, since_ms, ttl_ms, until_ms } = self;
        write!(f, "{owner}.{members:x}.{:x}.{since_ms:x}.{ttl_ms:x}.{until_ms:x}", fence.get())
    }
}

/// The wall clock, in milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

fn sorted(addresses: &[String]) -> Vec<String> {
    let mut sorted = addresses.to_vec();
    sorted.sort_unstable();
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses() -> Vec<String> {
        ["redis://c:1/0", "redis://a:1/0", "redis://b:1/0"].map(str::to_owned).to_vec()
    }

    #[test]
    fn a_token_carries_everything_whatever_the_order_of_the_nodes() {
        let mut handover = Handover::new("x", OwnerToken::from_bytes([0xab; 20]), Duration::from_secs(1));
        handover.fence = Fence::new(77);
        handover.nodes = vec!["redis://c:1/0".to_owned(), "redis://a:1/0".to_owned()];
        handover.valid_until_ms = now_ms() + 800;
        let text = LeaseToken::of(&handover, &addresses()).to_string();
        let token = LeaseToken::parse(&text).unwrap();
        assert_eq!(token.ttl(), handover.ttl);
        assert!(!token.promised_for().is_zero() && token.promised_for() <= Duration::from_millis(800));
        let mut reversed = addresses();
        reversed.reverse();
        let read = token.handover("x", Duration::from_secs(1), &reversed);
        assert_eq!((read.token, read.fence), (handover.token, handover.fence));
        assert_eq!(read.nodes, ["redis://a:1/0", "redis://c:1/0"]);
        assert!(read.held < Duration::from_secs(5));
    }

    #[test]
    fn a_token_that_is_damaged_is_not_repeated() {
        for text in ["", "abcd", "secret.1.2.3.4.5", "abab.1.2", "u.v.w.x.y.z"] {
            let failure = LeaseToken::parse(text).unwrap_err();
            assert!(text.is_empty() || !failure.message.contains(text), "{}", failure.message);
        }
    }

    #[test]
    fn a_clock_that_was_set_back_promises_no_more_than_the_ttl() {
        let mut handover = Handover::new("x", OwnerToken::from_bytes([1; 20]), Duration::from_secs(1));
        handover.valid_until_ms = now_ms() + 3_600_000;
        assert_eq!(LeaseToken::of(&handover, &addresses()).promised_for(), Duration::from_secs(1));
    }

    #[test]
    fn a_fence_of_another_lease_is_noticed() {
        let token = LeaseToken::of(
            &Handover::new("x", OwnerToken::from_bytes([1; 20]), Duration::from_secs(1)),
            &addresses(),
        );
        assert!(token.check_fence(None).is_ok());
        assert!(token.check_fence(Some(0)).is_ok());
        assert!(token.check_fence(Some(1)).is_err());
    }
}
