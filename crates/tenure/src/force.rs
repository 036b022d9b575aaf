//! Release by force: a lock is taken from one certain holder, and from no later one.

use std::collections::BTreeSet;

use tenure_core::{Holding, KEPT_LEAD, Kind, OwnerToken};

use crate::error::ReleaseError;
use crate::guard::Released;
use crate::guard::handover::Handover;
use crate::inspect::LockReport;
use crate::locks::Locks;

impl LockReport {
    /// Everybody who has the lock on some node, as the nodes know them: one if all is well, all who
    /// share it, or each hold of its owner.
    #[must_use]
    pub fn owners(&self) -> BTreeSet<&str> {
        let owners = self.holdings().flat_map(|holding| {
            let alone = holding.sharers.is_none().then_some(&holding.owner);
            holding.sharers.iter().flatten().chain(alone)
        });
        owners.map(|owner| &**owner).collect()
    }

    /// What a client of another library has on some node, if one has: no lock to release from here.
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
    /// Takes a lock from one certain holder, which [`LockReport::owners`] named. The nodes compare:
    /// whoever has the lock since is not touched. A minority of nodes that has it loses it as well.
    ///
    /// The holder is not asked, and not told at once: until it notices, two may believe that they
    /// have the lock. It is meant for operators.
    ///
    /// # Errors
    /// As [`Locks::release`], but never [`ReleaseError::NotHeld`]: what was to be achieved is so.
    /// [`ReleaseError::Foreign`] if the holder is a client of another library.
    ///
    /// # Cancel safety
    /// The release goes on when the future is dropped.
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
