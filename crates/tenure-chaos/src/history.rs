//! What client processes did, line by line, and what follows from it: who held which lock from when
//! to when.
//!
//! A client writes an entry before it relies on what the entry says, so a SIGKILL takes nothing
//! from the history that anybody had relied on. All times are `CLOCK_BOOTTIME` of this machine in
//! nanoseconds: one clock for all processes, which the tests that move wall clocks do not touch.

mod entry;

use std::collections::BTreeMap;

use rustix::time::{ClockId, clock_gettime};

pub use self::entry::{Doubt, Entry, Miss};

/// Nanoseconds since this machine was started.
pub type Ns = i64;

/// What time it is.
#[must_use]
pub fn now() -> Ns {
    let time = clock_gettime(ClockId::Boottime);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// One run of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// Which client it is a run of.
    pub client: usize,
    /// When it was started.
    pub started: Ns,
    /// When it was killed. Taken before the signal: it was certainly still there.
    pub killed: Option<Ns>,
    /// When it was found to have ended by itself, which no client ever should.
    pub died: Option<Ns>,
    /// From when to when it was halted.
    pub halts: Vec<(Ns, Ns)>,
}

/// What all processes did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// The processes, in the order of their start.
    pub processes: Vec<Process>,
    /// What they said, and which of them; the entries of one process are in order.
    pub entries: Vec<(usize, Entry)>,
}

/// How a hold ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// The holder began to release it.
    Released,
    /// The holder was told that it is lost, earlier than by the timer: a majority of nodes said so.
    Lost,
    /// The holder was killed.
    Killed,
    /// Its validity was over.
    Expired,
}

/// The time in which a process could count on a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// Whose it was: an index of [`History::processes`].
    pub process: usize,
    /// The client that the process is a run of.
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
    /// How long before that a timer tells the holder. It can be counted on all the same until it is
    /// over.
    pub lead: Ns,
    /// When the holder was told that it is lost.
    pub told: Option<Ns>,
    /// The end: the first of release, loss that a majority said, kill and `until`.
    pub end: Ns,
    /// Which of them it was.
    pub how: End,
}

impl History {
    /// Every hold, by its beginning.
    #[must_use]
    pub fn holds(&self) -> Vec<Hold> {
        // A process holds a lock with a fence once, so the entries that go together are found by
        // these.
        let mut open: BTreeMap<(usize, usize, i64), usize> = BTreeMap::new();
        let mut holds: Vec<Hold> = vec![];
        for (process, entry) in &self.entries {
            match *entry {
                Entry::Held { lock, fence, invoked, returned, until, lead } => {
                    open.insert((*process, lock, fence), holds.len());
                    holds.push(Hold {
                        process: *process,
                        client: self.processes[*process].client,
                        lock,
                        fence,
                        invoked,
                        returned,
                        until,
                        lead,
                        told: None,
                        end: until,
                        how: End::Expired,
                    });
                }
                Entry::Until { lock, fence, until, .. } => {
                    if let Some(index) = open.get(&(*process, lock, fence)) {
                        let hold = &mut holds[*index];
                        hold.until = hold.until.max(until);
                        if hold.how == End::Expired {
                            hold.end = hold.until;
                        }
                    }
                }
                Entry::Lost { lock, fence, at } => {
                    if let Some(index) = open.get(&(*process, lock, fence)) {
                        let hold = &mut holds[*index];
                        hold.told.get_or_insert(at);
                        // Later than this it may be the timer, which ends nothing.
                        if at < hold.until - hold.lead {
                            hold.ends(at, End::Lost);
                        }
                    }
                }
                Entry::Released { lock, fence, at } => {
                    if let Some(index) = open.remove(&(*process, lock, fence)) {
                        holds[index].ends(at, End::Released);
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
            || self.entries.iter().any(|(whose, entry)| match *entry {
                Entry::Stalled { from, to } => *whose == process && meets((from, to)),
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
    fn a_hold_ends_with_the_first_of_release_loss_kill_and_validity() {
        let held = |fence| Entry::Held { lock: 0, fence, invoked: 0, returned: 10, until: 100, lead: 5 };
        let entries = vec![
            (0, held(1)),
            (0, Entry::Released { lock: 0, fence: 1, at: 50 }),
            (0, held(2)),
            (0, Entry::Lost { lock: 0, fence: 2, at: 60 }),
            (0, held(3)),
            (0, Entry::Until { lock: 0, fence: 3, at: 80, until: 200 }),
            (1, held(4)),
            // It was stopped, and released only afterwards.
            (0, held(5)),
            (0, Entry::Released { lock: 0, fence: 5, at: 500 }),
            // Told by the timer, and dropped some time later, or not at all.
            (0, held(6)),
            (0, Entry::Lost { lock: 0, fence: 6, at: 95 }),
            (0, Entry::Released { lock: 0, fence: 6, at: 97 }),
            (0, held(7)),
            (0, Entry::Lost { lock: 0, fence: 7, at: 95 }),
        ];
        let processes = vec![Process::default(), Process { killed: Some(70), ..Process::default() }];
        let mut holds = History { processes, entries }.holds();
        holds.sort_by_key(|hold| hold.fence);
        let ends: Vec<_> = holds.iter().map(|hold| (hold.end, hold.how)).collect();
        let expected = [
            (50, End::Released),
            (60, End::Lost),
            (200, End::Expired),
            (70, End::Killed),
            (100, End::Expired),
            (97, End::Released),
            (100, End::Expired),
        ];
        assert_eq!(ends, expected);
    }
}
