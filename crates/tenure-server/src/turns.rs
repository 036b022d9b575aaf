//! How many acquires ask the nodes at the same time: as many as are answered without delay.
//!
//! More than nodes and this machine can do make everybody late, and those who extend a lease among
//! them. So acquires take turns. Whoever finds none free waits for one, if there is room to wait,
//! and else for room. Whoever finds none in a while is refused before anything was done for it.
//! Extensions and releases need no turn.
//!
//! How many turns there are follows from how long they take ([`Pace`]).

mod pace;

use std::pin::pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::Request;
use tenure::{AcquireError, Guard, InLine};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};

use self::pace::Pace;
use crate::idempotency::HEADER;
use crate::problem::Problem;

/// Whoever has waited for so long is refused; for far nodes it is longer ([`Pace::patience`]).
const WAIT_MAX: Duration = Duration::from_millis(500);

/// So often it looks whether there is room by now; not all at the same time.
const LOOKS_AFTER: std::ops::Range<u64> = 100..160;

/// How often it is looked whether somebody is in line.
const LOOK: Duration = Duration::from_millis(5);

/// No turn takes longer: a node that hangs is not waited for any longer than this, either.
const LONGEST: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Turns {
    free: Arc<Semaphore>,
    pace: Arc<Mutex<Pace>>,
    /// How many wait for one.
    waiting: AtomicUsize,
    /// How often somebody looked whether there is room.
    looks: AtomicU64,
}

/// One of them, until this is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    permit: Option<OwnedSemaphorePermit>,
    free: Arc<Semaphore>,
    pace: Arc<Mutex<Pace>>,
    begun: Instant,
}

impl Turns {
    /// A turn, now or in a moment.
    pub(crate) async fn take(&self) -> Result<Turn, Problem> {
        let permit = match Arc::clone(&self.free).try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => self.wait().await?,
        };
        let (free, pace) = (Arc::clone(&self.free), Arc::clone(&self.pace));
        Ok(Turn { permit: Some(permit), free, pace, begun: Instant::now() })
    }

    async fn wait(&self) -> Result<OwnedSemaphorePermit, Problem> {
        look(&self.pace).are_wanted();
        self.room().await?;
        let _waiting = Waiting::of(&self.waiting);
        let permit = timeout(self.patience(), Arc::clone(&self.free).acquire_owned()).await;
        permit.ok().and_then(Result::ok).ok_or_else(Problem::overloaded)
    }

    /// Room to wait for a turn, now or in a while. A refusal costs as much as half a lock, and
    /// whoever had it at once would ask again at once; meanwhile nothing is read on its connection,
    /// and a crowd that came at once is served.
    pub(crate) async fn room(&self) -> Result<(), Problem> {
        let since = Instant::now();
        while self.is_full() {
            if since.elapsed() >= self.patience() {
                return Err(Problem::overloaded());
            }
            let spread = self.looks.fetch_add(1, Ordering::Relaxed) % (LOOKS_AFTER.end - LOOKS_AFTER.start);
            sleep(Duration::from_millis(LOOKS_AFTER.start + spread)).await;
        }
        Ok(())
    }

    fn patience(&self) -> Duration {
        WAIT_MAX.max(look(&self.pace).patience())
    }

    /// Whether as many wait as there are turns.
    fn is_full(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) >= look(&self.pace).turns()
    }

    /// Whether a call will need a turn. An acquire that is repeated may be for a lease that there
    /// is, and a hold, too.
    pub(crate) fn are_for(request: &Request) -> bool {
        request.uri().path() == "/v1/acquire" && !request.headers().contains_key(HEADER)
    }
}

impl Default for Turns {
    fn default() -> Self {
        let pace = Pace::new(Instant::now());
        Self {
            free: Arc::new(Semaphore::new(pace.turns())),
            pace: Arc::new(Mutex::new(pace)),
            waiting: AtomicUsize::new(0),
            looks: AtomicU64::new(0),
        }
    }
}

/// One who waits, until this is dropped.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn of(waiting: &'a AtomicUsize) -> Self {
        waiting.fetch_add(1, Ordering::Relaxed);
        Self(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Turn {
    /// Waits for the lock. The turn ends as soon as it is in line: whoever waits there hardly asks.
    pub(crate) async fn during(
        self,
        acquire: impl Future<Output = Result<Guard, AcquireError>>,
        in_line: InLine,
    ) -> Result<Guard, AcquireError> {
        let mut acquire = pin!(acquire);
        while in_line.place().is_none() && self.begun.elapsed() < LONGEST {
            tokio::select! {
                biased;
                outcome = &mut acquire => {
                    self.note(&outcome);
                    return outcome;
                }
                () = sleep(LOOK) => {}
            }
        }
        drop(self);
        acquire.await
    }

    /// If the nodes have answered, it counts how long they took.
    fn note(&self, outcome: &Result<Guard, AcquireError>) {
        if matches!(outcome, Ok(_) | Err(AcquireError::Contended { .. })) {
            look(&self.pace).note(self.begun, Instant::now());
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        match look(&self.pace).turns_after_one() {
            pace::Change::Fewer => self.permit.take().into_iter().for_each(OwnedSemaphorePermit::forget),
            pace::Change::More(more) => self.free.add_permits(more),
        }
    }
}

fn look(pace: &Mutex<Pace>) -> MutexGuard<'_, Pace> {
    pace.lock().unwrap_or_else(PoisonError::into_inner)
}
