//! What client processes did, line by line, and what follows from it: who held which lock from when to when.
//!
//! A client writes a line before it relies on what the line says, so a SIGKILL takes nothing from the history that
//! anybody had relied on. All times are `CLOCK_BOOTTIME` of this machine in nanoseconds: one clock for all processes,
//! which the tests that move wall clocks do not touch.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds since this machine was started.
pub type Ns = i64;

/// What time it is.
#[must_use]
pub fn now() -> Ns {
    let time = clock_gettime(ClockId::Boottime);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// Something that a client did or saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "`lock`, `node` and `at` are what they say")]
pub enum Line {
    /// It was given the lock, to be counted on until then.
    Held { lock: usize, fence: i64, invoked: Ns, returned: Ns, until: Ns },
    /// It saw that the lock can be counted on until then: it was extended.
    Until { lock: usize, fence: i64, at: Ns, until: Ns },
    /// It is about to release the lock.
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

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Held { lock, fence, invoked, returned, until } => {
                write!(f, "held {lock} {fence} {invoked} {returned} {until}")
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

impl FromStr for Line {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = text.split(' ');
        let word = words.next().unwrap_or_default();
        let numbers: Option<Vec<i64>> = words.map(|word| word.parse().ok()).collect();
        let index = |number: i64| usize::try_from(number).unwrap_or(usize::MAX);
        let missed = |lock, invoked, at, why| Self::Missed { lock: index(lock), invoked, at, why };
        let doubt = |node, at, why| Self::Distrusts { node: index(node), at, why };
        Ok(match (word, numbers.as_deref()) {
            ("held", Some(&[lock, fence, invoked, returned, until])) => {
                Self::Held { lock: index(lock), fence, invoked, returned, until }
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
            _ => return Err(format!("not a line of a history: {text:?}")),
        })
    }
}

/// One life of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// Which client it is a life of.
    pub client: usize,
    /// When it was started.
    pub started: Ns,
    /// When it was killed. Taken before the signal: it was certainly still there.
    pub killed: Option<Ns>,
    /// From when to when it was halted.
    pub halts: Vec<(Ns, Ns)>,
}

/// What all processes did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// The processes, in the order of their start.
    pub processes: Vec<Process>,
    /// What they said, and which of them; the lines of one process are in order.
    pub lines: Vec<(usize, Line)>,
}

/// How a hold ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// The holder began to release it.
    Released,
    /// The holder was told that it is lost.
    Lost,
    /// The holder was killed.
    Killed,
    /// Its validity was over, and the holder had heard nothing until then.
    Expired,
}

/// The time in which a process could count on a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// Whose it was: an index of [`History::processes`].
    pub process: usize,
    /// The client that the process is a life of.
    pub client: usize,
    /// The lock.
    pub lock: usize,
    /// Its fence.
    pub fence: i64,
    /// When it was asked for.
    pub invoked: Ns,
    /// When it was given: the beginning.
    pub returned: Ns,
    /// The end of the last validity that the holder saw.
    pub until: Ns,
    /// The end: the first of release, loss, kill and `until`.
    pub end: Ns,
    /// Which of them it was.
    pub how: End,
}

impl History {
    /// Every hold, by its beginning.
    #[must_use]
    pub fn holds(&self) -> Vec<Hold> {
        // A process holds a lock with a fence once, so the lines that go together are found by these.
        let mut open: BTreeMap<(usize, usize, i64), usize> = BTreeMap::new();
        let mut holds: Vec<Hold> = vec![];
        for (process, line) in &self.lines {
            match *line {
                Line::Held { lock, fence, invoked, returned, until } => {
                    open.insert((*process, lock, fence), holds.len());
                    let client = self.processes[*process].client;
                    let (end, how) = (until, End::Expired);
                    holds.push(Hold {
                        process: *process,
                        client,
                        lock,
                        fence,
                        invoked,
                        returned,
                        until,
                        end,
                        how,
                    });
                }
                Line::Until { lock, fence, until, .. } => {
                    if let Some(index) = open.get(&(*process, lock, fence)) {
                        let hold = &mut holds[*index];
                        hold.until = hold.until.max(until);
                        hold.end = hold.until;
                    }
                }
                Line::Released { lock, fence, at } | Line::Lost { lock, fence, at } => {
                    if let Some(index) = open.remove(&(*process, lock, fence)) {
                        let released = matches!(line, Line::Released { .. });
                        holds[index].ends(at, if released { End::Released } else { End::Lost });
                    }
                }
                _ => {}
            }
        }
        for hold in &mut holds {
            if let Some(killed) = self.processes[hold.process].killed {
                hold.ends(killed, End::Killed);
            }
        }
        holds.sort_by_key(|hold| hold.returned);
        holds
    }

    /// Whether the process stood still at some moment of this time.
    #[must_use]
    pub fn stood_still(&self, process: usize, from: Ns, to: Ns) -> bool {
        let meets = |(begin, end): (Ns, Ns)| begin < to && from < end;
        self.processes[process].halts.iter().copied().any(meets)
            || self.lines.iter().any(|(whose, line)| match *line {
                Line::Stalled { from, to } => *whose == process && meets((from, to)),
                _ => false,
            })
    }
}

impl Hold {
    fn ends(&mut self, at: Ns, how: End) {
        if at < self.end {
            (self.end, self.how) = (at, how);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_read_as_it_was_written() {
        let (lock, fence, node, at) = (3, 77, 4, 1_000);
        let misses = [Miss::Contended, Miss::Unavailable, Miss::Late].map(|why| Line::Missed {
            lock,
            invoked: 9,
            at,
            why,
        });
        let doubts = [Doubt::Quarantined, Doubt::Jumped(-5_000), Doubt::Other].map(|why| Line::Distrusts {
            node,
            at,
            why,
        });
        let others = [
            Line::Held { lock, fence, invoked: 1, returned: 2, until: 3 },
            Line::Until { lock, fence, at, until: 5 },
            Line::Released { lock, fence, at },
            Line::Lost { lock, fence, at },
            Line::Wrote { lock, fence, at, value: 12 },
            Line::Refused { lock, fence, at },
            Line::Stalled { from: 1, to: 2 },
            Line::Knows { node, at },
            Line::Trusts { node, at },
        ];
        for line in misses.into_iter().chain(doubts).chain(others) {
            assert_eq!(line.to_string().parse(), Ok(line));
        }
        assert!("held 1 2".parse::<Line>().is_err());
        assert!("".parse::<Line>().is_err());
    }

    #[test]
    fn a_hold_ends_with_the_first_of_release_loss_kill_and_validity() {
        let held = |fence| Line::Held { lock: 0, fence, invoked: 0, returned: 10, until: 100 };
        let lines = vec![
            (0, held(1)),
            (0, Line::Released { lock: 0, fence: 1, at: 50 }),
            (0, held(2)),
            (0, Line::Lost { lock: 0, fence: 2, at: 60 }),
            (0, held(3)),
            (0, Line::Until { lock: 0, fence: 3, at: 80, until: 200 }),
            (1, held(4)),
            // It was stopped, and released only afterwards.
            (0, held(5)),
            (0, Line::Released { lock: 0, fence: 5, at: 500 }),
        ];
        let processes = vec![Process::default(), Process { killed: Some(70), ..Process::default() }];
        let mut holds = History { processes, lines }.holds();
        holds.sort_by_key(|hold| hold.fence);
        let ends: Vec<_> = holds.iter().map(|hold| (hold.end, hold.how)).collect();
        let expected = [
            (50, End::Released),
            (60, End::Lost),
            (200, End::Expired),
            (70, End::Killed),
            (100, End::Expired),
        ];
        assert_eq!(ends, expected);
    }
}
