use std::collections::BTreeSet;

use super::*;

const fn lease(id: u64) -> Machine {
    Machine::Lease(Id(id))
}

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
                timers.set(lease(machine), handle, Some(at(due)));
            }
            _ => {
                let next = set.first().map_or(now, |(due, _): &(u64, u64)| *due);
                assert!(
                    timers.next().is_none_or(|wake| wake <= at(next))
                        && timers.next().is_some() != set.is_empty()
                );
                now = now.max(if roll(2) == 0 { next } else { now + roll(100) });
                if roll(4) == 0 {
                    timers = timers.clone();
                }
                let mut fired = BTreeSet::new();
                while let Some(Machine::Lease(Id(machine))) = timers.pop_due(at(now)) {
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
    timers.set(lease(1), &mut one, Some(at(500)));
    timers.set(lease(1), &mut one, Some(at(5)));
    let far = 1 << 40;
    timers.set(lease(2), &mut other, Some(at(far)));
    assert_eq!(timers.pop_due(at(4)), None);
    assert_eq!(timers.pop_due(at(5)), Some(lease(1)));
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
        timers.set(lease(1), &mut timer, Some(due(nanos)));
        assert_eq!(timers.pop_due(due(nanos - 1)), None, "{nanos} ns: before its time");
        assert_eq!(
            timers.pop_due(due(nanos + TICK_NANOS)),
            Some(lease(1)),
            "{nanos} ns: a tick after its time"
        );
    }
}

#[test]
fn a_timer_for_never_does_not_overflow() {
    let mut timers = Timers::new(at(7));
    let mut timer = None;
    timers.set(lease(1), &mut timer, Some(Time::from_nanos(u64::MAX)));
    assert!(timers.next().is_some());
    assert_eq!(timers.pop_due(at(1 << 30)), None);
}

#[test]
fn timers_that_are_due_together_fire_in_one_order_however_they_were_set() {
    for order in [[1, 2, 3, 4], [4, 3, 2, 1], [2, 4, 1, 3]] {
        let (mut timers, mut handles) = (Timers::new(at(0)), vec![]);
        for id in order {
            let mut handle = None;
            timers.set(lease(id), &mut handle, Some(at(64 + 64 * (id / 3))));
            handles.push(handle);
        }
        let mut late = None;
        assert_eq!(timers.next(), Some(at(64)), "few are looked at one by one");
        assert_eq!(timers.pop_due(at(200)), Some(lease(1)));
        timers.set(Machine::Fleet, &mut late, Some(at(70)));
        let fired: Vec<Machine> = std::iter::from_fn(|| timers.pop_due(at(200))).collect();
        assert_eq!(fired, [lease(2), Machine::Fleet, lease(3), lease(4)]);
        assert!(timers.is_empty());
    }
}
