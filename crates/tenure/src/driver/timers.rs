//! When to look at which machine again: a timing wheel.
//!
//! Setting, moving and removing a timer costs the same whether ten locks are held or a hundred thousand. There are
//! eight levels of 64 slots, enough for any time; a slot of level *k* spans 64^*k* ticks of a millisecond. A timer lies in
//! the level of the highest digit, to the base 64, in which its tick differs from the present one, and moves down when
//! that digit comes round.

use std::time::Duration;

use tenure_core::Time;

use super::MachineId;

const TICK_NANOS: u64 = 1_000_000;
const LEVELS: usize = 8;
const LEVEL_BITS: usize = 6;
const SLOTS: usize = 1 << LEVEL_BITS;

/// The list of timers that are due, and the end of any list.
const DUE: usize = LEVELS * SLOTS;
const NIL: u32 = u32::MAX;

pub(super) struct Timers {
    entries: Vec<Entry>,
    free: u32,
    /// The first entry of each slot, and of those that are due.
    heads: [u32; DUE + 1],
    /// Which slots of each level have entries.
    occupied: [u64; LEVELS],
    /// The moment that ticks are counted from. It is our own, so that a timer set for whole milliseconds from the start
    /// is not rounded.
    origin: Time,
    /// The present tick.
    tick: u64,
}

/// A timer that is set.
#[derive(Debug)]
pub(super) struct Timer {
    at: Time,
    entry: u32,
}

struct Entry {
    machine: MachineId,
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
        let (heads, occupied) = ([NIL; DUE + 1], [0; LEVELS]);
        Self { entries: vec![], free: NIL, heads, occupied, origin: now, tick: 0 }
    }

    /// Sets, moves or removes the timer of a machine. Each has at most one.
    pub(super) fn set(&mut self, machine: MachineId, timer: &mut Option<Timer>, next: Option<Time>) {
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
    pub(super) fn pop_due(&mut self, now: Time) -> Option<MachineId> {
        self.turn(self.nanos(now) / TICK_NANOS);
        let entry = self.heads[DUE];
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
        if self.heads[DUE] != NIL {
            return Some(Time::from_nanos(0));
        }
        let begins = |tick: u64| self.origin + Duration::from_nanos(tick.saturating_mul(TICK_NANOS));
        self.next_slot().map(|(_, tick)| begins(tick))
    }

    fn nanos(&self, time: Time) -> u64 {
        time.as_nanos().saturating_sub(self.origin.as_nanos())
    }

    fn insert(&mut self, machine: MachineId, at: Time) -> u32 {
        // Rounded up: never before it is due. Whoever is woken too early finds nothing to do and sets the same timer again,
        // without an end.
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

    /// Moves on to `tick`: slots that come round on the way are emptied into lower ones, or are due.
    fn turn(&mut self, tick: u64) {
        while let Some((list, begins)) = self.next_slot().filter(|(_, begins)| *begins <= tick) {
            self.tick = begins.max(self.tick);
            while self.heads[list] != NIL {
                let entry = self.heads[list];
                self.unlink(entry);
                self.link(entry);
            }
        }
        self.tick = tick.max(self.tick);
    }

    /// The next slot that has entries, and the tick at which it comes round.
    fn next_slot(&self) -> Option<(usize, u64)> {
        let level = self.occupied.iter().position(|slots| *slots != 0)?;
        // All entries of a level lie ahead of the present slot, within the same turn of the level above.
        let slot = self.occupied[level].trailing_zeros() as usize;
        let shift = level * LEVEL_BITS;
        let turn = (self.tick >> shift) & !(SLOTS as u64 - 1);
        Some((level * SLOTS + slot, (turn + slot as u64) << shift))
    }

    fn link(&mut self, index: u32) {
        let tick = self.entries[index as usize].tick;
        let list = if tick <= self.tick {
            DUE
        } else {
            let level = (63 - (tick ^ self.tick).leading_zeros()) as usize / LEVEL_BITS;
            let slot = slot_of(tick, level);
            self.occupied[level] |= 1 << slot;
            level * SLOTS + slot
        };
        let next = std::mem::replace(&mut self.heads[list], index);
        if next != NIL {
            self.entries[next as usize].previous = index;
        }
        let entry = &mut self.entries[index as usize];
        (entry.list, entry.previous, entry.next) = (list, NIL, next);
    }

    fn unlink(&mut self, index: u32) {
        let Entry { list, previous, next, .. } = self.entries[index as usize];
        match previous {
            NIL => self.heads[list] = next,
            previous => self.entries[previous as usize].next = next,
        }
        if next != NIL {
            self.entries[next as usize].previous = previous;
        }
        if self.heads[list] == NIL && list < DUE {
            self.occupied[list / SLOTS] &= !(1 << (list % SLOTS));
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.heads[DUE] == NIL && self.occupied.iter().all(|slots| *slots == 0)
    }
}

/// The digit of a tick at this level.
fn slot_of(tick: u64, level: usize) -> usize {
    usize::try_from((tick >> (level * LEVEL_BITS)) % SLOTS as u64).expect("less than the number of slots")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn at(millis: u64) -> Time {
        Time::from_nanos(millis * TICK_NANOS)
    }

    #[test]
    fn timers_fire_in_their_tick_whatever_is_set_and_removed_meanwhile() {
        let mut dice = 0x2545_f491_4f6c_dd1d_u64;
        let mut roll = move |below: u64| {
            dice ^= dice << 13;
            dice ^= dice >> 7;
            dice ^= dice << 17;
            dice % below
        };
        let (mut now, mut set) = (1_234_567, BTreeSet::new());
        let mut timers = Timers::new(at(now));
        let mut handles: Vec<Option<Timer>> = (0..64).map(|_| None).collect();
        for _ in 0..100_000 {
            let machine = roll(64);
            let handle = &mut handles[usize::try_from(machine).unwrap()];
            match roll(4) {
                0 => {
                    timers.clear(handle);
                    set.retain(|(_, other)| *other != machine);
                }
                1 | 2 => {
                    let size = roll(30);
                    let due = now + roll(1 << size);
                    set.retain(|(_, other)| *other != machine);
                    set.insert((due, machine));
                    timers.set(machine, handle, Some(at(due)));
                }
                _ => {
                    let next = set.first().map_or(now, |(due, _): &(u64, u64)| *due);
                    assert!(
                        timers.next().is_none_or(|wake| wake <= at(next))
                            && timers.next().is_some() != set.is_empty()
                    );
                    now = now.max(if roll(2) == 0 { next } else { now + roll(100) });
                    let mut fired = BTreeSet::new();
                    while let Some(machine) = timers.pop_due(at(now)) {
                        handles[usize::try_from(machine).unwrap()] = None;
                        fired.insert(machine);
                    }
                    let due: BTreeSet<u64> =
                        set.iter().filter(|(due, _)| *due <= now).map(|(_, machine)| *machine).collect();
                    assert_eq!(fired, due, "at {now}");
                    set.retain(|(due, _)| *due > now);
                }
            }
        }
        handles.iter_mut().for_each(|handle| timers.clear(handle));
        assert!(timers.is_empty());
        assert!(timers.entries.len() <= 64, "entries are used again");
    }

    #[test]
    fn a_timer_can_be_moved_and_one_in_the_far_future_is_not_forgotten() {
        let mut timers = Timers::new(at(0));
        let (mut one, mut other) = (None, None);
        timers.set(1, &mut one, Some(at(500)));
        timers.set(1, &mut one, Some(at(5)));
        let far = 1 << 40;
        timers.set(2, &mut other, Some(at(far)));
        assert_eq!(timers.pop_due(at(4)), None);
        assert_eq!(timers.pop_due(at(5)), Some(1));
        let mut now = 5;
        let mut wakes = 0;
        while timers.pop_due(at(now)).is_none() {
            now = timers.next().map(|next| next.as_nanos() / TICK_NANOS).unwrap();
            wakes += 1;
        }
        assert!(now == far && wakes < 50, "{now} after {wakes}");
        assert_eq!(timers.next(), None);
    }

    #[test]
    fn a_timer_between_two_ticks_fires_after_its_time_and_never_before() {
        let due = |nanos: u64| Time::from_nanos(7 * TICK_NANOS + nanos);
        for nanos in [1, 499_999, 500_000, 999_999, 1_000_001, 63_999_999, 64_000_001] {
            let (mut timers, mut timer) = (Timers::new(at(7)), None);
            timers.set(1, &mut timer, Some(due(nanos)));
            assert_eq!(timers.pop_due(due(nanos - 1)), None, "{nanos} ns: before its time");
            assert_eq!(timers.pop_due(due(nanos + TICK_NANOS)), Some(1), "{nanos} ns: a tick after its time");
        }
    }

    #[test]
    fn a_timer_for_never_does_not_overflow() {
        let mut timers = Timers::new(at(7));
        let mut timer = None;
        timers.set(1, &mut timer, Some(Time::from_nanos(u64::MAX)));
        assert!(timers.next().is_some());
        assert_eq!(timers.pop_due(at(1 << 30)), None);
    }
}
