//! `rslock`: a multiplexed connection to each node, `SET NX PX` to all, polls when refused.

use std::time::Duration;

use anyhow::Result;
use rslock::{LockGuard, LockManager};

use crate::tasks::Locker;

/// It has no default.
const TTL: Duration = Duration::from_secs(30);

pub(crate) async fn connect(nodes: Vec<String>, tuned: bool) -> Result<LockManager> {
    let mut manager = LockManager::new(nodes.iter().map(|node| format!("redis://{node}")).collect());
    if tuned {
        manager.set_retry(1_000, Duration::from_millis(2));
    }
    Ok(manager)
}

impl Locker for LockManager {
    type Guard = LockGuard;

    async fn acquire(&self, name: String) -> Result<LockGuard> {
        Ok(LockManager::acquire(self, name.as_str(), TTL).await?)
    }

    async fn release(&self, guard: LockGuard) -> Result<()> {
        guard.release().await;
        Ok(())
    }

    async fn extend(&self, guard: &mut LockGuard) -> Result<()> {
        guard.lock = LockManager::extend(self, &guard.lock, TTL).await?;
        Ok(())
    }

    fn renews_every(&self) -> Option<Duration> {
        None
    }
}
