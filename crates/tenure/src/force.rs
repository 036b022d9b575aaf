//! Release by force: a lock is taken from one certain holder, and from no later one.

use std::collections::BTreeSet;

use tenure_core::{Holding, KEPT_LEAD, Kind, OwnerToken};

use crate::error::ReleaseError;
use crate::guard::Released;
use crate::guard::handover::Handover;
use crate::inspect::LockReport;
use crate::locks::Locks;

impl LockReport {
    /// The owners of the lock on any node, as the nodes know them: one if all is well, or all
    /// readers, or each hold of a reentrant owner.
    #[must_use]
    pub fn owners(&self) -> BTreeSet<&str> {
        let owners = self.holdings().flat_map(|holding| {
            let alone = holding.sharers.is_none().then_some(&holding.owner);
            holding.sharers.iter().flatten().chain(alone)
        });
        owners.map(|owner| &**owner).collect()
    }

    /// The key of another library's client on some node, if there is one: it cannot be released
    /// from here.
    #[must_use]
    pub fn foreign(&self) -> Option<&Holding> {
        // The owner of a reentrant lock is any text; what makes it ours are the holds beside it.
        self.holdings().find(|holding| {
            let is_token = holding.kind == Kind::Plain && token_of(&holding.owner).is_some();
            holding.sharers.is_none() && !is_token
        })
    }

    fn holdings(&self) -> impl Iterator<Item = &Holding> {
        let holdings = self.nodes.iter().filter_map(|answer| answer.holding.as_ref().ok()?.as_ref());
        holdings.filter(|holding| !holding.is_reserved())
    }
}

impl Locks {
    /// Takes the lock from one specific holder, as listed by [`LockReport::owners`]. The nodes
    /// compare the owner, so a later holder is safe. Keys on a minority of nodes are removed, too.
    ///
    /// For operators. The holder is not asked and notices only at its next renewal: until then, two
    /// clients may believe that they hold the lock.
    ///
    /// # Errors
    /// As [`Locks::release`], but never [`ReleaseError::NotHeld`]: the goal is reached then.
    /// [`ReleaseError::Foreign`] if the holder is a client of another library.
    ///
    /// # Cancel safety
    /// The release continues when the future is dropped.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let locks = tenure::Locks::memory();
    /// let guard = locks.lock("import").acquire().await?;
    /// let report = locks.inspect("import").await?;
    /// for owner in report.owners() {
    ///     locks.release_by_force("import", owner).await?;
    /// }
    /// assert!(locks.lock("import").try_acquire().await?.is_some());
    /// # drop(guard);
    /// # Ok(()) }
    /// ```
    pub async fn release_by_force(&self, name: &str, owner: &str) -> Result<Released, ReleaseError> {
        let owner = token_of(owner).ok_or_else(|| ReleaseError::Foreign { name: name.to_owned() })?;
        match self.release_everywhere(&Handover::new(name, owner, self.inner.defaults.ttl)).await {
            // Gone meanwhile; or only a minority had it, whose votes may come after the majority's.
            Err(ReleaseError::NotHeld { votes, .. }) => Ok(Released { votes }),
            done => done,
        }
    }
}

/// The token of whoever holds a lock, or has released it and keeps it from others.
fn token_of(owner: &str) -> Option<OwnerToken> {
    OwnerToken::parse(owner.strip_prefix(KEPT_LEAD).unwrap_or(owner)).ok()
}
