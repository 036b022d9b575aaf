//! One entry of a history, as text.

use std::fmt;
use std::str::FromStr;

use super::Ns;

/// Something that a client did or saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "`lock`, `node` and `at` are what they say")]
pub enum Entry {
    /// It was given the lock, to be counted on until then, and will be told of the end so much
    /// before.
    Held { lock: usize, fence: i64, invoked: Ns, returned: Ns, until: Ns, lead: Ns },
    /// It saw that the lock can be counted on until then: it was extended.
    Until { lock: usize, fence: i64, at: Ns, until: Ns },
    /// It is about to release the lock, or to drop it.
    Released { lock: usize, fence: i64, at: Ns },
    /// It was told that the lock is lost.
    Lost { lock: usize, fence: i64, at: Ns },
    /// It was not given the lock.
    Missed { lock: usize, invoked: Ns, at: Ns, why: Miss },
    /// The resource took its update, and this is the value now.
    Wrote { lock: usize, fence: i64, at: Ns, value: i64 },
    /// The resource knew a larger fence.
    Refused { lock: usize, fence: i64, at: Ns },
    /// Its own timers came late: it stood still, or had no processor.
    Stalled { from: Ns, to: Ns },
    /// It has seen the clock of a node for the first time.
    Knows { node: usize, at: Ns },
    /// It does not let a node vote.
    Distrusts { node: usize, at: Ns, why: Doubt },
    /// It lets a node vote again.
    Trusts { node: usize, at: Ns },
}

/// Why a lock was not given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Miss {
    /// Others had it.
    Contended,
    /// No majority of nodes could be asked.
    Unavailable,
    /// The votes came too late.
    Late,
}

/// Why a node may not vote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// It may have forgotten locks.
    Quarantined,
    /// Its clock jumped, by so many microseconds at least.
    Jumped(i64),
    /// Something else.
    Other,
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Held { lock, fence, invoked, returned, until, lead } => {
                write!(f, "held {lock} {fence} {invoked} {returned} {until} {lead}")
            }
            Self::Until { lock, fence, at, until } => write!(f, "until {lock} {fence} {at} {until}"),
            Self::Released { lock, fence, at } => write!(f, "released {lock} {fence} {at}"),
            Self::Lost { lock, fence, at } => write!(f, "lost {lock} {fence} {at}"),
            Self::Missed { lock, invoked, at, why } => {
                let why = match why {
                    Miss::Contended => "contended",
                    Miss::Unavailable => "unavailable",
                    Miss::Late => "late",
                };
                write!(f, "{why} {lock} {invoked} {at}")
            }
            Self::Wrote { lock, fence, at, value } => write!(f, "wrote {lock} {fence} {at} {value}"),
            Self::Refused { lock, fence, at } => write!(f, "refused {lock} {fence} {at}"),
            Self::Stalled { from, to } => write!(f, "stalled {from} {to}"),
            Self::Knows { node, at } => write!(f, "knows {node} {at}"),
            Self::Distrusts { node, at, why: Doubt::Quarantined } => write!(f, "quarantines {node} {at}"),
            Self::Distrusts { node, at, why: Doubt::Jumped(by) } => write!(f, "jumped {node} {at} {by}"),
            Self::Distrusts { node, at, why: Doubt::Other } => write!(f, "distrusts {node} {at}"),
            Self::Trusts { node, at } => write!(f, "trusts {node} {at}"),
        }
    }
}

impl FromStr for Entry {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = text.split(' ');
        let word = words.next().unwrap_or_default();
        let numbers: Option<Vec<i64>> = words.map(|word| word.parse().ok()).collect();
        let index = |number: i64| usize::try_from(number).unwrap_or(usize::MAX);
        let missed = |lock, invoked, at, why| Self::Missed { lock: index(lock), invoked, at, why };
        let doubt = |node, at, why| Self::Distrusts { node: index(node), at, why };
        Ok(match (word, numbers.as_deref()) {
            ("held", Some(&[lock, fence, invoked, returned, until, lead])) => {
                Self::Held { lock: index(lock), fence, invoked, returned, until, lead }
            }
            ("until", Some(&[lock, fence, at, until])) => Self::Until { lock: index(lock), fence, at, until },
            ("released", Some(&[lock, fence, at])) => Self::Released { lock: index(lock), fence, at },
            ("lost", Some(&[lock, fence, at])) => Self::Lost { lock: index(lock), fence, at },
            ("contended", Some(&[lock, invoked, at])) => missed(lock, invoked, at, Miss::Contended),
            ("unavailable", Some(&[lock, invoked, at])) => missed(lock, invoked, at, Miss::Unavailable),
            ("late", Some(&[lock, invoked, at])) => missed(lock, invoked, at, Miss::Late),
            ("wrote", Some(&[lock, fence, at, value])) => Self::Wrote { lock: index(lock), fence, at, value },
            ("refused", Some(&[lock, fence, at])) => Self::Refused { lock: index(lock), fence, at },
            ("stalled", Some(&[from, to])) => Self::Stalled { from, to },
            ("knows", Some(&[node, at])) => Self::Knows { node: index(node), at },
            ("quarantines", Some(&[node, at])) => doubt(node, at, Doubt::Quarantined),
            ("jumped", Some(&[node, at, by])) => doubt(node, at, Doubt::Jumped(by)),
            ("distrusts", Some(&[node, at])) => doubt(node, at, Doubt::Other),
            ("trusts", Some(&[node, at])) => Self::Trusts { node: index(node), at },
            _ => return Err(format!("not an entry of a history: {text:?}")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_read_as_it_was_written() {
        let (lock, fence, node, at) = (3, 77, 4, 1_000);
        let misses = [Miss::Contended, Miss::Unavailable, Miss::Late].map(|why| Entry::Missed {
            lock,
            invoked: 9,
            at,
            why,
        });
        let doubts = [Doubt::Quarantined, Doubt::Jumped(-5_000), Doubt::Other].map(|why| Entry::Distrusts {
            node,
            at,
            why,
        });
        let others = [
            Entry::Held { lock, fence, invoked: 1, returned: 2, until: 3, lead: 1 },
            Entry::Until { lock, fence, at, until: 5 },
            Entry::Released { lock, fence, at },
            Entry::Lost { lock, fence, at },
            Entry::Wrote { lock, fence, at, value: 12 },
            Entry::Refused { lock, fence, at },
            Entry::Stalled { from: 1, to: 2 },
            Entry::Knows { node, at },
            Entry::Trusts { node, at },
        ];
        for entry in misses.into_iter().chain(doubts).chain(others) {
            assert_eq!(entry.to_string().parse(), Ok(entry));
        }
        assert!("held 1 2".parse::<Entry>().is_err());
        assert!("".parse::<Entry>().is_err());
    }
}
