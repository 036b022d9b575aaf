//! The clock of a store: microseconds since about 1970 that never go back, whatever becomes of the
//! wall clock.
//!
//! It counts with the machine from its boot on, in suspension too, from a *base* that is kept in
//! the store together with the boot it belongs to. The wall clock is read once per boot, to choose
//! the base. Before any time is used for a change it is covered by a *ceiling* in the store, so a
//! later boot knows what must not be undercut, and begins there or at the wall clock, whichever is
//! later.

use std::fs::{File, TryLockError};
use std::time::{SystemTime, UNIX_EPOCH};

use rusqlite::{Connection, OptionalExtension};
use tenure_core::{KEPT_LEAD, NodeTime};

use super::name::damaged;
use super::trouble::{Result, Trouble};

/// How far the ceiling is moved at a time: one write a minute, and a reboot advances the clock by
/// at most so much.
const CEILING_STEP_US: i64 = 60_000_000;

/// No store is used in a time after this, thousands of years from now: there is room to count on
/// from it.
const LATEST_US: i64 = i64::MAX / 2;

/// Which boot of the machine this is, and how long ago it was.
#[derive(Clone, Debug)]
pub(super) enum Machine {
    Real {
        boot: String,
        /// What this process sees its clock moved by.
        offset_us: i64,
    },
    /// A boot of this name, so many microseconds before the real one was.
    #[cfg(test)]
    Pretended { boot: String, shift_us: i64, wall_us: i64 },
}

/// The clock of an open store.
#[derive(Debug)]
pub(super) struct StoreClock {
    machine: Machine,
    base_us: i64,
    ceiling_us: i64,
}

impl Machine {
    /// This machine as it is.
    pub(super) fn real() -> Result<Self> {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
        let boot = boot.map_err(|error| {
            Trouble::refused(format!(
                "cannot read the boot id (/proc/sys/kernel/random/boot_id: {error}); an embedded store \
                 needs Linux with /proc"
            ))
        })?;
        Ok(Self::Real { boot: boot.trim().to_owned(), offset_us: namespace_offset_us()? })
    }

    fn boot(&self) -> &str {
        match self {
            Self::Real { boot, .. } => boot,
            #[cfg(test)]
            Self::Pretended { boot, .. } => boot,
        }
    }

    fn since_boot_us(&self) -> i64 {
        match self {
            Self::Real { offset_us, .. } => since_boot_us() - offset_us,
            #[cfg(test)]
            Self::Pretended { shift_us, .. } => since_boot_us() + shift_us,
        }
    }

    fn wall_us(&self) -> i64 {
        #[cfg(test)]
        if let Self::Pretended { wall_us, .. } = self {
            return *wall_us;
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(now.as_micros()).unwrap_or(LATEST_US)
    }
}

impl StoreClock {
    /// The clock of a store, as it goes on in this boot. If the store was last used in another one,
    /// all its locks are free: whoever held them is gone. A lock that was released, and is kept
    /// from others for its period, stays so. To be called inside a transaction that may write.
    ///
    /// `presence` is a folder that everybody who has the store open keeps locked. If somebody does,
    /// it was no boot: a container can have a name for its boot that is not that of the machine.
    pub(super) fn start(store: &Connection, machine: Machine, presence: &File) -> Result<Self> {
        let row = "SELECT boot, base_us, ceiling_us FROM clock";
        let kept: Option<(String, i64, i64)> =
            store.query_row(row, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).optional()?;
        let mut clock = match kept {
            Some((boot, base_us, ceiling_us)) if boot == machine.boot() => {
                be_present(presence.try_lock_shared())?;
                return Self { machine, base_us, ceiling_us }.checked();
            }
            Some((_, _, ceiling_us)) => {
                be_present(presence.try_lock())?;
                // A period outlives its holder, and is not cut by the step from the time at which
                // the machine went down to the ceiling.
                let step_us = ceiling_us.saturating_sub(machine.wall_us()).clamp(0, CEILING_STEP_US);
                store.execute(
                    "UPDATE names SET ends_ms = ends_ms + ?2, forget_ms = max(forget_ms, ends_ms + ?2)
                     WHERE owner LIKE ?1 || '%'",
                    (KEPT_LEAD, step_us / 1_000 + 1),
                )?;
                store.execute(
                    "UPDATE names SET owner = NULL, ends_ms = 0 WHERE owner NOT LIKE ?1 || '%'",
                    [KEPT_LEAD],
                )?;
                store.execute("DELETE FROM waiters", [])?;
                Self { machine, base_us: 0, ceiling_us }
            }
            None => Self { machine, base_us: 0, ceiling_us: 0 },
        };
        let now_us = clock.machine.wall_us().max(clock.ceiling_us.saturating_add(1));
        clock.base_us = now_us - clock.machine.since_boot_us();
        clock.ceiling_us = now_us.saturating_add(CEILING_STEP_US);
        store.execute(
            "INSERT INTO clock (id, boot, base_us, ceiling_us) VALUES (1, ?1, ?2, ?3)
             ON CONFLICT (id) DO UPDATE SET boot = ?1, base_us = ?2, ceiling_us = ?3",
            (clock.machine.boot(), clock.base_us, clock.ceiling_us),
        )?;
        be_present(presence.try_lock_shared())?;
        clock.checked()
    }

    /// A time that cannot be is no time: with a later one every lock would be over.
    fn checked(self) -> Result<Self> {
        if (1..LATEST_US).contains(&self.now_us()) { Ok(self) } else { Err(damaged("the clock")) }
    }

    /// What it shows now.
    pub(super) fn now(&self) -> NodeTime {
        NodeTime::from_micros(u64::try_from(self.now_us()).unwrap_or(0))
    }

    /// Makes sure that a later boot begins above the present time, and above that of the changes to
    /// come in this transaction.
    pub(super) fn cover(&mut self, store: &Connection) -> Result<()> {
        let now_us = self.now_us();
        if now_us + CEILING_STEP_US / 2 > self.ceiling_us {
            let ceiling_us = now_us.saturating_add(CEILING_STEP_US);
            store.execute("UPDATE clock SET ceiling_us = max(ceiling_us, ?1)", [ceiling_us])?;
            self.ceiling_us = ceiling_us;
        }
        Ok(())
    }

    /// A transaction was undone, and perhaps the last ceiling with it.
    pub(super) fn distrust_ceiling(&mut self) {
        self.ceiling_us = 0;
    }

    fn now_us(&self) -> i64 {
        self.base_us.saturating_add(self.machine.since_boot_us())
    }
}

/// Nobody else looks or locks meanwhile: that is done inside transactions.
fn be_present(locked: std::result::Result<(), TryLockError>) -> Result<()> {
    locked.map_err(|error| match error {
        TryLockError::WouldBlock => Trouble::refused(
            "programs with another boot id (/proc/sys/kernel/random/boot_id) use it, so their locks look \
             like leftovers from before a reboot. A container that shares a store must see the host's boot \
             id",
        ),
        TryLockError::Error(error) => Trouble::refused(format!("cannot lock its socket folder ({error})")),
    })
}

#[cfg(target_os = "linux")]
fn since_boot_us() -> i64 {
    boot_time_us(rustix::time::clock_gettime)
}

/// What the clock that also counts suspensions shows.
#[cfg(target_os = "linux")]
fn boot_time_us(read: impl Fn(rustix::time::ClockId) -> rustix::time::Timespec) -> i64 {
    let time = read(rustix::time::ClockId::Boottime);
    time.tv_sec * 1_000_000 + time.tv_nsec / 1_000
}

/// What a time namespace adds to the clock that counts from boot: processes in different ones share
/// a store.
#[cfg(target_os = "linux")]
fn namespace_offset_us() -> Result<i64> {
    let namespace = |name: &str| std::fs::read_link(format!("/proc/self/ns/{name}")).ok();
    // The system tells what is added for the children of this process, not for itself.
    if namespace("time") != namespace("time_for_children") {
        return Err(Trouble::refused(
            "this process is not in the time namespace it created for its children, so its clock is \
             unknown; use the store in a child process",
        ));
    }
    let offsets = std::fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default();
    let line = offsets.lines().find_map(|line| line.trim_start().strip_prefix("boottime"));
    let mut numbers = line.unwrap_or_default().split_whitespace().map_while(|word| word.parse::<i64>().ok());
    let (seconds, nanos) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    Ok(seconds * 1_000_000 + nanos / 1_000)
}

#[cfg(not(target_os = "linux"))]
fn since_boot_us() -> i64 {
    0
}

#[cfg(not(target_os = "linux"))]
fn namespace_offset_us() -> Result<i64> {
    Ok(0)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use rustix::time::{ClockId, Timespec};

    use super::boot_time_us;

    #[test]
    fn the_clock_of_a_store_goes_on_while_the_machine_is_suspended() {
        // The machine was suspended for 40 of the 100 seconds since its boot.
        let shown = |clock| match clock {
            ClockId::Boottime => Timespec { tv_sec: 100, tv_nsec: 7_000 },
            _ => Timespec { tv_sec: 60, tv_nsec: 7_000 },
        };
        assert_eq!(boot_time_us(shown), 100_000_007);
    }
}
