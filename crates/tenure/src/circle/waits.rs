//! Those of one manager who hold something while they wait, and whether one more would close a
//! circle.
//!
//! Nobody is asked: whoever holds a lock of this manager, and waits, is in this list with both. So
//! the answer is certain, and comes before the nodes hear anything.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tenure_core::circle::{self, Presence, Search, Step, Wait};
use tenure_core::{ClientId, HeldLock, HoldId, LockKey, Mode, Note, OwnerToken, Ticket, Waiter};

use super::Circle;
use super::held::{Held, LocalHold};
use crate::driver::Id;
use crate::locks::Inner;

/// Stands for this manager, in tickets that no node knows.
pub(super) const HERE: ClientId = ClientId::new(0);

/// Those of a manager who wait and hold something.
#[derive(Default)]
pub(crate) struct Waits(Mutex<BTreeMap<u64, LocalWait>>);

struct LocalWait {
    key: LockKey,
    mode: Mode,
    label: Option<Arc<str>>,
    holds: Vec<LocalHold>,
}

/// Keeps one in the list while it waits.
pub(crate) struct Registered {
    manager: Arc<Inner>,
    id: Id,
}

/// What is held and waited for inside a manager at one moment, as nodes would tell it.
type World = BTreeMap<Arc<str>, Presence>;

impl Waits {
    fn open(&self) -> MutexGuard<'_, BTreeMap<u64, LocalWait>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Registered {
    /// One begins to wait for `key`. The circle, if it would close one.
    pub(crate) fn new(
        manager: &Arc<Inner>,
        (id, key, mode): (Id, &LockKey, &Mode),
        label: Option<Arc<str>>,
        held: &[Held],
    ) -> Result<Self, Circle> {
        let holds = held.iter().filter_map(Held::local);
        let holds = holds.filter(|hold| Arc::ptr_eq(&hold.manager, manager)).cloned().collect();
        let wait = LocalWait { key: key.clone(), mode: mode.clone(), label, holds };
        let mut waits = manager.waits.open();
        waits.insert(id.0, wait);
        match find(&waits, id.0) {
            Some(circle) => {
                waits.remove(&id.0);
                Err(Circle::of(&circle))
            }
            None => Ok(Self { manager: Arc::clone(manager), id }),
        }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.manager.waits.open().remove(&self.id.0);
    }
}

/// The circle that this one is in.
fn find(waits: &BTreeMap<u64, LocalWait>, id: u64) -> Option<circle::Circle> {
    let world = world(waits);
    let names = waits.get(&id)?.key.each().iter().map(|key| Arc::from(key.name())).collect::<Vec<_>>();
    let waiter = waits.get(&id)?.waiter(id);
    let mut search = Search::new(Wait { waiter, names });
    loop {
        match search.step() {
            Step::Ask(names) => {
                for name in names {
                    search.learn(&name, world.get(&name).cloned().unwrap_or_default());
                }
            }
            Step::Found(circle) => return Some(circle),
            Step::NotFound => return None,
        }
    }
}

/// What is held and waited for, as far as those in the list hold and wait for it.
fn world(waits: &BTreeMap<u64, LocalWait>) -> World {
    let mut world = World::new();
    let mut owners: Vec<(Arc<str>, Mode)> = vec![];
    for wait in waits.values() {
        for hold in &wait.holds {
            let Some(mode) = hold.mode() else { continue };
            for held in named(hold) {
                owners.push((Arc::clone(&held.name), mode.clone()));
                let presence = world.entry(held.name).or_default();
                presence.is_shared = mode.is_shared();
                presence.holds.push(held.hold);
            }
        }
    }
    for (id, wait) in waits {
        for key in wait.key.each() {
            // An owner does not wait for its own holds.
            let is_owners =
                wait.mode.owner().is_some() && owners.contains(&(key.name().into(), wait.mode.clone()));
            if let Some(presence) = world.get_mut(key.name()).filter(|_| !is_owners) {
                presence.line.push(wait.waiter(*id));
            }
        }
    }
    world
}

impl LocalWait {
    fn waiter(&self, id: u64) -> Waiter {
        let holds = self.holds.iter().flat_map(named).collect();
        let note = Note { label: self.label.clone(), holds };
        Waiter { ticket: Ticket::exclusive(id, HERE).seeking(&self.mode), note }
    }
}

/// A hold by its names. What it is called here need not be what nodes call it.
fn named(hold: &LocalHold) -> Vec<HeldLock> {
    let mut bytes = [0; 20];
    bytes[..8].copy_from_slice(&hold.id.0.to_be_bytes());
    let id = HoldId::of(&OwnerToken::from_bytes(bytes));
    hold.key.each().iter().map(|key| HeldLock { name: key.name().into(), hold: id }).collect()
}
