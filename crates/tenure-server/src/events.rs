//! What happens to the locks and nodes of this instance, for whoever follows it.
//!
//! The last events are kept in a ring. A reader has a place in it and nothing else, so it costs
//! nobody anything to be slow: whoever is overtaken by the end of the ring is told of a gap. Events
//! have numbers, and an instance has a name of its own, so that a reader that comes back can say
//! what it has seen.

mod happened;
mod sightings;
mod tally;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tenure::{Event, Locks};
use tokio::sync::watch;

pub(crate) use self::happened::Happened;
pub(crate) use self::sightings::Sightings;
pub(crate) use self::tally::{Outcomes, Tally, Waits};
use crate::hex::hex;
use crate::lease_key::LeaseKeys;

/// So many events are kept: some megabytes, and a minute of a busy instance.
const KEPT_MAX: usize = 10_000;

/// The events of one instance. A clone has the same.
#[derive(Clone, Debug)]
pub struct Events(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// Tells this run of this instance from all others.
    name: String,
    most: usize,
    ring: Mutex<Ring>,
    /// How many events there were.
    count: watch::Sender<u64>,
    tally: Tally,
    /// Puts in what is seen of other clients, while somebody wants to know.
    sightings: Mutex<Weak<Sightings>>,
}

#[derive(Debug, Default)]
struct Ring {
    kept: VecDeque<Arc<Happened>>,
    /// How many there were in all: the number of the last one.
    count: u64,
}

/// What comes next for a reader.
#[derive(Debug)]
pub(crate) enum Next {
    /// These, and the number of the last one.
    Events(Vec<(u64, Arc<Happened>)>),
    /// So many are gone.
    Gap(u64),
}

impl Default for Events {
    fn default() -> Self {
        Self::keeping(KEPT_MAX)
    }
}

impl Events {
    /// The last events, this many. [`Events::default`] keeps 10,000.
    #[must_use]
    pub fn keeping(most: usize) -> Self {
        let mut name = [0; 4];
        // Without randomness all instances are called the same, and a reader that moves from one to
        // another may miss events without being told: no lock depends on that.
        let _ = getrandom::fill(&mut name);
        let (ring, count, tally) = (Mutex::default(), watch::Sender::new(0), Tally::default());
        let sightings = Mutex::default();
        Self(Arc::new(Shared { name: hex(&name), most: most.max(1), ring, count, tally, sightings }))
    }

    /// Keeps what happened. To be given to the library's
    /// [`Builder::observer`](tenure::Builder::observer); it is quick.
    pub fn observe(&self, event: &Event<'_>) {
        self.0.tally.observe(event);
        if let Some(happened) = Happened::of(event) {
            self.keep(happened);
        }
    }

    /// What it came to so far.
    pub(crate) fn tally(&self) -> &Tally {
        &self.0.tally
    }

    /// What this run of this instance is called.
    pub(crate) fn instance(&self) -> &str {
        &self.0.name
    }

    /// Looks for what other clients do, until the last of those who asked for it lets go.
    pub(crate) fn sightings(&self, locks: &Locks, keys: &LeaseKeys) -> Arc<Sightings> {
        let mut sightings = self.0.sightings.lock().unwrap_or_else(PoisonError::into_inner);
        sightings.upgrade().unwrap_or_else(|| {
            let new = Arc::new(Sightings::begin(self.clone(), locks, keys));
            *sightings = Arc::downgrade(&new);
            new
        })
    }

    /// Keeps something that happened.
    pub(crate) fn keep(&self, happened: Happened) {
        let count = {
            let mut ring = self.ring();
            if ring.kept.len() == self.0.most {
                ring.kept.pop_front();
            }
            ring.kept.push_back(Arc::new(happened));
            ring.count += 1;
            ring.count
        };
        self.0.count.send_replace(count);
    }

    /// Tells when there is something new.
    pub(crate) fn news(&self) -> watch::Receiver<u64> {
        self.0.count.subscribe()
    }

    /// The number of the last event.
    pub(crate) fn count(&self) -> u64 {
        self.ring().count
    }

    /// How an event is called, everywhere.
    pub(crate) fn id(&self, number: u64) -> String {
        format!("{}-{number}", self.0.name)
    }

    /// The number of an event of this instance that is called so.
    pub(crate) fn number(&self, id: &str) -> Option<u64> {
        let (name, number) = id.split_once('-')?;
        let number = number.parse().ok()?;
        (name == self.0.name && number <= self.count()).then_some(number)
    }

    /// What comes after this number, at most so many.
    pub(crate) fn after(&self, number: u64, most: usize) -> Next {
        let ring = self.ring();
        let first = ring.count - u64::try_from(ring.kept.len()).unwrap_or(u64::MAX) + 1;
        if number + 1 < first {
            return Next::Gap(first - number - 1);
        }
        let skipped = usize::try_from(number + 1 - first).unwrap_or(usize::MAX);
        let kept = ring.kept.iter().skip(skipped).take(most);
        Next::Events((number + 1..).zip(kept.map(Arc::clone)).collect())
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.0.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn happen(events: &Events, times: usize) {
        (0..times).for_each(|_| events.keep(Happened::default()));
    }

    fn numbers(next: &Next) -> Vec<u64> {
        match next {
            Next::Events(events) => events.iter().map(|(number, _)| *number).collect(),
            Next::Gap(_) => panic!("{next:?}"),
        }
    }

    #[test]
    fn a_reader_goes_on_where_it_was_or_hears_how_much_it_missed() {
        let events = Events::default();
        assert!(numbers(&events.after(0, 10)).is_empty());
        happen(&events, 5);
        assert_eq!(numbers(&events.after(0, 10)), [1, 2, 3, 4, 5]);
        assert_eq!(numbers(&events.after(3, 10)), [4, 5]);
        assert_eq!(numbers(&events.after(1, 2)), [2, 3]);
        assert!(numbers(&events.after(5, 10)).is_empty());
        happen(&events, KEPT_MAX);
        assert!(matches!(events.after(3, 10), Next::Gap(2)));
        assert_eq!(numbers(&events.after(5, 1)), [6]);
    }

    #[test]
    fn an_event_is_known_by_the_instance_it_was_of() {
        let (events, others) = (Events::default(), Events::default());
        happen(&events, 3);
        happen(&others, 3);
        assert_eq!(events.number(&events.id(2)), Some(2));
        for id in [others.id(2), events.id(4), String::new(), "x".to_owned(), "-1".to_owned()] {
            assert_eq!(events.number(&id), None, "{id}");
        }
    }
}
