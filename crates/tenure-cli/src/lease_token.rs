//! The token that `acquire` prints: everything that `extend` and `release` need, in one word.
//!
//! `OWNER.MEMBERS.FENCE.SINCE`: the owner token as the nodes have it, then in hexadecimal which nodes count for the
//! lease (bit i for the i-th address in alphabetical order, so that the order of the node list does not matter), the
//! fence, and when it was acquired, in milliseconds since 1970. An extension may only count nodes that this lease
//! counted, which is why the owner alone is not enough to extend.

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
        }
    }

    /// Reads a token.
    ///
    /// # Errors
    /// What is wrong with it. It is not repeated: whoever has it can release the lock.
    pub(crate) fn parse(text: &str) -> Result<Self, Failure> {
        let wrong =
            |what: &str| Failure::usage(format!("the token is not one: {what}; give it as it was printed"));
        let parts: Vec<&str> = text.split('.').collect();
        let [owner, members, fence, since] = parts[..] else {
            return Err(wrong("it has not the four parts that acquire prints"));
        };
        let number = |text| u64::from_str_radix(text, 16).map_err(|_| wrong("a number in it is damaged"));
        Ok(Self {
            owner: OwnerToken::parse(owner).map_err(|_| wrong("its owner is damaged"))?,
            members: number(members)?,
            fence: Fence::new(number(fence)?),
            since_ms: number(since)?,
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
        let Self { owner, members, fence, since_ms } = self;
        write!(f, "{owner}.{members:x}.{:x}.{since_ms:x}", fence.get())
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
        let text = LeaseToken::of(&handover, &addresses()).to_string();
        let mut reversed = addresses();
        reversed.reverse();
        let read = LeaseToken::parse(&text).unwrap().handover("x", Duration::from_secs(1), &reversed);
        assert_eq!((read.token, read.fence), (handover.token, handover.fence));
        assert_eq!(read.nodes, ["redis://a:1/0", "redis://c:1/0"]);
        assert!(read.held < Duration::from_secs(5));
    }

    #[test]
    fn a_token_that_is_damaged_is_not_repeated() {
        for text in ["", "abcd", "secret.1.2.3", "abab.1.2", "x.y.z.w"] {
            let failure = LeaseToken::parse(text).unwrap_err();
            assert!(text.is_empty() || !failure.message.contains(text), "{}", failure.message);
        }
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
