//! When to look at which machine again: a timing wheel.
//!
//! Setting, moving and removing a timer costs the same whether ten locks are held or a hundred
//! thousand. There are eight levels of 64 slots, enough for any time; a slot of level *k* spans
//! 64^*k* ticks of a millisecond. A timer lies in the level of the highest digit, to the base 64,
//! in which its tick differs from the present one, and moves down when that digit comes round.
//! Timers that are due fire in the order of their ticks and machines, however they came to be set.

#[cfg(test)]
mod tests;

use std::hash::{Hash, Hasher};
use std::time::Duration;

use super::tag::Id;
use crate::round::RoundNumber;
use crate::time::Time;

const TICK_NANOS: u64 = 1_000_000;
const LEVELS: usize = 8;
const LEVEL_BITS: usize = 6;
const SLOTS: usize = 1 << LEVEL_BITS;

/// The list of timers that are due, and the end of any list.
const DUE: usize = LEVELS * SLOTS;
const NIL: u32 = u32::MAX;

/// So many timers of a slot are looked at to say exactly when the next is due. If there are more,
/// the slot is looked at when it comes round, which is too early at the worst.
const LOOKED_AT_MAX: usize = 8;

/// Whose timer it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Machine {
    /// To ask a node for its record, or a server about itself.
    Fleet,
    /// A deadline of a round, a pause between attempts, a renewal, the loss of the lock.
    Lease(Id),
    /// A deadline of a release, or the pause before it is sent again.
    Release(Id, RoundNumber),
    /// The deadline of a question.
    Query(Id),
}

/// All timers. Whoever has set one keeps it as a [`Timer`], so two wheels are equal if they count
/// from the same moment: what is set is compared there.
#[derive(Clone, Debug)]
pub(super) struct Timers {
    entries: Vec<Entry>,
    free: u32,
    levels: [Level; LEVELS],
    /// The first and the last of those that are due.
    due_first: u32,
    due_last: u32,
    /// The moment that ticks are counted from. It is our own, so that a timer set for whole
    /// milliseconds from the start is not rounded.
    origin: Time,
    /// The present tick.
    tick: u64,
    /// Room for those that become due together.
    together: Vec<(u64, Machine, u32)>,
}

/// The slots of a level.
#[derive(Debug, Default)]
struct Level {
    /// Which of them have entries.
    occupied: u64,
    /// The first entry of each, once there was any. Few levels are ever used.
    heads: Option<Box<[u32; SLOTS]>>,
}

/// A timer that is set.
#[derive(Clone, Debug)]
pub(super) struct Timer {
    at: Time,
    entry: u32,
}

#[derive(Clone, Debug)]
struct Entry {
    machine: Machine,
    tick: u64,
    list: usize,
    previous: u32,
    next: u32,
}

impl Timer {
    /// What it is set for.
    pub(super) const fn at(&self) -> Time {
        self.at
    }
}

impl Timers {
    pub(super) fn new(now: Time) -> Self {
        let (entries, levels, together) = (vec![], Default::default(), vec![]);
        let (free, due_first, due_last) = (NIL, NIL, NIL);
        Self { entries, free, levels, due_first, due_last, origin: now, tick: 0, together }
    }

    /// Sets, moves or removes the timer of a machine. Each has at most one.
    pub(super) fn set(&mut self, machine: Machine, timer: &mut Option<Timer>, next: Option<Time>) {
        match (timer.as_mut(), next) {
            (Some(set), Some(next)) if set.at == next => {}
            (_, Some(next)) => {
                self.clear(timer);
                *timer = Some(Timer { at: next, entry: self.insert(machine, next) });
            }
            (_, None) => self.clear(timer),
        }
    }

    /// Removes a timer.
    pub(super) fn clear(&mut self, timer: &mut Option<Timer>) {
        if let Some(Timer { entry, .. }) = timer.take() {
            self.unlink(entry);
            self.entries[entry as usize].next = self.free;
            self.free = entry;
        }
    }

    /// A machine whose timer is due. It has none any more.
    pub(super) fn pop_due(&mut self, now: Time) -> Option<Machine> {
        self.turn(self.nanos(now) / TICK_NANOS);
        let entry = self.due_first;
        if entry == NIL {
            return None;
        }
        self.unlink(entry);
        self.entries[entry as usize].next = self.free;
        self.free = entry;
        Some(self.entries[entry as usize].machine)
    }

    /// When to call [`Timers::pop_due`] again.
    pub(super) fn next(&self) -> Option<Time> {
        if self.due_first != NIL {
            return Some(Time::from_nanos(0));
        }
        let (list, begins) = self.next_slot()?;
        let (mut tick, mut entry) = (u64::MAX, self.head(list));
        for _ in 0..LOOKED_AT_MAX {
            if entry == NIL {
                break;
            }
            tick = tick.min(self.entries[entry as usize].tick);
            entry = self.entries[entry as usize].next;
        }
        let tick = if entry == NIL { tick } else { begins };
        Some(self.origin + Duration::from_nanos(tick.saturating_mul(TICK_NANOS)))
    }

    fn nanos(&self, time: Time) -> u64 {
        time.as_nanos().saturating_sub(self.origin.as_nanos())
    }

    fn insert(&mut self, machine: Machine, at: Time) -> u32 {
        // Rounded up: never before it is due. A machine that is woken too early finds nothing to do
        // and sets the same timer again, without an end.
        let tick = self.nanos(at).div_ceil(TICK_NANOS);
        assert!(
            tick.saturating_mul(TICK_NANOS) >= self.nanos(at),
            "a timer fires when it is due or after that"
        );
        let entry = Entry { machine, tick, list: DUE, previous: NIL, next: NIL };
        let index = if self.free == NIL {
            self.entries.push(entry);
            u32::try_from(self.entries.len() - 1).expect("fewer timers than fit into memory")
        } else {
            let index = self.free;
            self.free = self.entries[index as usize].next;
            self.entries[index as usize] = entry;
            index
        };
        self.link(index);
        index
    }

    /// Moves on to `tick`: slots that come round on the way are emptied into lower ones, or are
    /// due.
    fn turn(&mut self, tick: u64) {
        while let Some((list, begins)) = self.next_slot().filter(|(_, begins)| *begins <= tick) {
            self.tick = begins.max(self.tick);
            let mut together = std::mem::take(&mut self.together);
            while let Some(entry) = Some(self.head(list)).filter(|entry| *entry != NIL) {
                self.unlink(entry);
                let Entry { machine, tick, .. } = self.entries[entry as usize];
                if tick <= self.tick {
                    together.push((tick, machine, entry));
                } else {
                    self.link(entry);
                }
            }
            together.sort_unstable();
            together.drain(..).for_each(|(_, _, entry)| self.link(entry));
            self.together = together;
        }
        self.tick = tick.max(self.tick);
    }

    /// The next slot that has entries, and the tick at which it comes round.
    fn next_slot(&self) -> Option<(usize, u64)> {
        let level = self.levels.iter().position(|level| level.occupied != 0)?;
        // All entries of a level lie ahead of the present slot, within the same turn of the level
        // above.
        let slot = self.levels[level].occupied.trailing_zeros() as usize;
        let shift = level * LEVEL_BITS;
        let turn = (self.tick >> shift) & !(SLOTS as u64 - 1);
        Some((level * SLOTS + slot, (turn + slot as u64) << shift))
    }

    fn link(&mut self, index: u32) {
        let tick = self.entries[index as usize].tick;
        if tick <= self.tick {
            return self.link_due(index);
        }
        let level = (63 - (tick ^ self.tick).leading_zeros()) as usize / LEVEL_BITS;
        let slot = slot_of(tick, level);
        self.levels[level].occupied |= 1 << slot;
        self.put(index, level * SLOTS + slot, NIL);
    }

    /// Puts an entry among those that are due, nearly always behind all others.
    fn link_due(&mut self, index: u32) {
        let place = |entry: &Entry| (entry.tick, entry.machine);
        let ours = place(&self.entries[index as usize]);
        let mut previous = self.due_last;
        while previous != NIL && place(&self.entries[previous as usize]) > ours {
            previous = self.entries[previous as usize].previous;
        }
        self.put(index, DUE, previous);
        if self.entries[index as usize].next == NIL {
            self.due_last = index;
        }
    }

    /// Puts an entry into a list behind another, or first.
    fn put(&mut self, index: u32, list: usize, previous: u32) {
        let next = match previous {
            NIL => std::mem::replace(self.head_mut(list), index),
            previous => std::mem::replace(&mut self.entries[previous as usize].next, index),
        };
        if next != NIL {
            self.entries[next as usize].previous = index;
        }
        let entry = &mut self.entries[index as usize];
        (entry.list, entry.previous, entry.next) = (list, previous, next);
    }

    fn unlink(&mut self, index: u32) {
        let Entry { list, previous, next, .. } = self.entries[index as usize];
        match previous {
            NIL => *self.head_mut(list) = next,
            previous => self.entries[previous as usize].next = next,
        }
        match next {
            NIL if list == DUE => self.due_last = previous,
            NIL => {}
            next => self.entries[next as usize].previous = previous,
        }
        if list < DUE && self.head(list) == NIL {
            self.levels[list / SLOTS].occupied &= !(1 << (list % SLOTS));
        }
    }

    /// The first entry of a list.
    fn head(&self, list: usize) -> u32 {
        match self.levels.get(list / SLOTS) {
            Some(level) => level.heads.as_ref().map_or(NIL, |heads| heads[list % SLOTS]),
            None => self.due_first,
        }
    }

    fn head_mut(&mut self, list: usize) -> &mut u32 {
        match self.levels.get_mut(list / SLOTS) {
            Some(level) => {
                let heads = level.heads.get_or_insert_with(|| Box::new([NIL; SLOTS]));
                &mut heads[list % SLOTS]
            }
            None => &mut self.due_first,
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.due_first == NIL && self.levels.iter().all(|level| level.occupied == 0)
    }
}

/// The digit of a tick at this level.
fn slot_of(tick: u64, level: usize) -> usize {
    usize::try_from((tick >> (level * LEVEL_BITS)) % SLOTS as u64).expect("less than the number of slots")
}

impl Clone for Level {
    fn clone(&self) -> Self {
        let heads = self.heads.as_ref().filter(|_| self.occupied != 0).cloned();
        Self { occupied: self.occupied, heads }
    }
}

impl PartialEq for Timers {
    fn eq(&self, other: &Self) -> bool {
        self.origin == other.origin
    }
}

impl Eq for Timers {}

impl Hash for Timers {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.origin.hash(state);
    }
}

impl PartialEq for Timer {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl Eq for Timer {}

impl Hash for Timer {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.at.hash(state);
    }
}
