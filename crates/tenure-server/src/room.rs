//! Room for new work, in all and for each caller, so that none of them can fill it alone.
//!
//! Extensions and releases need none: under overload only new work is refused.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::caller::Caller;
use crate::problem::Problem;

/// How many acquires may be under way at once, unless settings say otherwise.
const ACQUIRES_MAX: usize = 10_000;

#[derive(Debug)]
pub(crate) struct Room {
    all: Arc<Semaphore>,
    most: usize,
    /// How many of them one caller may have; half, unless settings say otherwise.
    most_of_each: Option<usize>,
    taken: Arc<Taken>,
}

type Taken = Mutex<BTreeMap<String, usize>>;

/// Room for one, until this is dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    _one_of_all: OwnedSemaphorePermit,
    _one_of_its_own: Option<OneOfItsOwn>,
}

impl Room {
    /// For so many in all.
    pub(crate) fn acquires_max(&mut self, most: usize) {
        self.most = most.min(Semaphore::MAX_PERMITS);
        self.all = Arc::new(Semaphore::new(self.most));
    }

    /// For so many of each caller.
    pub(crate) const fn acquires_per_caller(&mut self, most: usize) {
        self.most_of_each = Some(most);
    }

    /// Room for work of this caller.
    pub(crate) fn take(&self, caller: &Caller) -> Result<Seat, Problem> {
        let all = Arc::clone(&self.all).try_acquire_owned().map_err(|_| Problem::overloaded())?;
        let own = if caller.is_somebody() { Some(self.of_its_own(caller)?) } else { None };
        Ok(Seat { _one_of_all: all, _one_of_its_own: own })
    }

    /// How many there are, and how many are left.
    pub(crate) fn seats(&self) -> (usize, usize) {
        (self.most, self.all.available_permits())
    }

    fn of_its_own(&self, caller: &Caller) -> Result<OneOfItsOwn, Problem> {
        let most = self.most_of_each.unwrap_or_else(|| self.most.div_ceil(2));
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let count = taken.entry(caller.name().to_owned()).or_default();
        if *count >= most {
            return Err(Problem::rate(caller.name(), most));
        }
        *count += 1;
        Ok(OneOfItsOwn { name: caller.name().to_owned(), taken: Arc::clone(&self.taken) })
    }
}

impl Default for Room {
    fn default() -> Self {
        let (all, taken) = (Arc::new(Semaphore::new(ACQUIRES_MAX)), Arc::default());
        Self { all, most: ACQUIRES_MAX, most_of_each: None, taken }
    }
}

#[derive(Debug)]
struct OneOfItsOwn {
    name: String,
    taken: Arc<Taken>,
}

impl Drop for OneOfItsOwn {
    fn drop(&mut self) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = taken.get_mut(&self.name) {
            *count -= 1;
            // Callers come and go.
            if *count == 0 {
                taken.remove(&self.name);
            }
        }
    }
}
