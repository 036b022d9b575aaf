//! The core's walk, with the nodes to ask.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tenure_core::circle::{self, Presence, Search, Step, Wait};

use super::Circle;
use crate::Locks;
use crate::error::AcquireError;
use crate::locks::Inner;

/// A circle is looked at again after this time. Whoever merely passes by has gone on by then: a
/// lock that is passed on is claimed within [`tenure_core::CLAIM_WINDOW`], half of this.
pub(super) const CONFIRMED_AFTER: Duration = Duration::from_millis(500);

/// So many locks are asked about at once.
const ASKED_AT_ONCE: usize = 32;

/// The most searches that one call makes.
const SEARCHES_MAX: usize = 64;

/// What a majority said about each of several locks.
pub(super) type Seen = BTreeMap<Arc<str>, Presence>;

impl Locks {
    /// Looks for deadlocks that involve these locks: programs that hold one lock and wait for
    /// another, in a circle. Only waiters in line that declare what they hold are found
    /// ([`Lock::while_holding`](crate::Lock::while_holding), [`Lock::with`](crate::Lock::with), the
    /// command-line tool).
    ///
    /// Each link is what a majority of nodes says, and a circle is checked twice, half a second
    /// apart, before it is reported. Without one the call takes a few round trips.
    ///
    /// # Errors
    /// [`AcquireError::InvalidName`] if a name is invalid, [`AcquireError::ShutDown`] if the
    /// manager was shut down.
    ///
    /// # Cancel safety
    /// It changes nothing, so it may be dropped at any time.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let locks = tenure::Locks::memory();
    /// for circle in locks.circles(["invoice:42"]).await? {
    ///     println!("deadlock: {circle}");
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn circles<N: AsRef<str>>(
        &self,
        names: impl IntoIterator<Item = N>,
    ) -> Result<Vec<Circle>, AcquireError> {
        let names: Vec<Arc<str>> = names.into_iter().map(|name| name.as_ref().into()).collect();
        for name in &names {
            let invalid = |error| AcquireError::InvalidName { name: name.to_string(), error };
            self.inner.key(name).map_err(invalid)?;
        }
        let shut_down =
            || AcquireError::ShutDown { name: names.first().map(ToString::to_string).unwrap_or_default() };
        let (manager, asked) = (Arc::clone(&self.inner), names.clone());
        let found = self.inner.run(async move { manager.circles(&asked).await }).await;
        Ok(found.ok_or_else(shut_down)?.iter().map(Circle::of).collect())
    }
}

impl Inner {
    async fn circles(&self, names: &[Arc<str>]) -> Vec<circle::Circle> {
        let mut seen = self.presences(names).await;
        let waits = seen.iter().flat_map(|(name, presence)| {
            let waiters = presence.line.iter().filter(|waiter| !waiter.note.holds.is_empty());
            waiters.map(|waiter| Wait { waiter: waiter.clone(), names: vec![Arc::clone(name)] })
        });
        let waits: Vec<Wait> = waits.take(SEARCHES_MAX).collect();
        let mut found: Vec<circle::Circle> = vec![];
        for wait in waits {
            // Not again from each of those who are in one.
            if !found.iter().any(|circle| circle.has(wait.waiter.ticket)) {
                found.extend(self.search(wait, &mut seen).await);
            }
        }
        if !found.is_empty() {
            tokio::time::sleep(CONFIRMED_AFTER).await;
            let names: Vec<Arc<str>> = found.iter().flat_map(circle::Circle::names).cloned().collect();
            let seen = self.presences(&names).await;
            found.retain(|circle| circle.stands(&seen));
        }
        found
    }

    /// Looks once for a circle with this waiter. What was seen before is not asked about again.
    pub(super) async fn search(&self, wait: Wait, seen: &mut Seen) -> Option<circle::Circle> {
        let mut search = Search::new(wait);
        loop {
            match search.step() {
                Step::Ask(names) => {
                    let unseen = names.iter().filter(|name| !seen.contains_key(*name)).cloned();
                    seen.extend(self.presences(&unseen.collect::<Vec<_>>()).await);
                    for name in names {
                        search.learn(&name, seen.get(&name).cloned().unwrap_or_default());
                    }
                }
                Step::Found(circle) => return Some(circle),
                Step::NotFound => return None,
            }
        }
    }

    /// What a majority says about each of these locks, as far as one does.
    pub(super) async fn presences(&self, names: &[Arc<str>]) -> Seen {
        let mut seen = Seen::new();
        for some in names.chunks(ASKED_AT_ONCE) {
            // All are asked before the first answer is waited for.
            let asked: Vec<_> = some
                .iter()
                .filter_map(|name| Some((name, self.ask_who_is_there(self.key(name).ok()?))))
                .collect();
            for (name, answer) in asked {
                if let Ok(found) = answer.await {
                    seen.insert(Arc::clone(name), self.presence(&found));
                }
            }
        }
        seen
    }
}
