//! Whether this very process holds a lock that was asked for.
//!
//! A manager knows its own leases; a valid one settles it. Other managers of the process are known
//! here, and are asked for their owner tokens, which are then compared with what the nodes have:
//! two managers may mean different locks by the same name. Labels are not looked at, because
//! anybody can write them.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tenure_core::{LockKey, OwnerToken};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::Inner;
use crate::driver::Call;
use crate::machine::clock::Clock;

/// A manager whose runtime is blocked is not waited for: then it is not known that the lock is
/// ours.
const ANSWERS_WITHIN: Duration = Duration::from_millis(20);

/// The managers of this process.
static MANAGERS: Mutex<Vec<Weak<Inner>>> = Mutex::new(vec![]);

impl Inner {
    /// Makes it known to the other managers of this process.
    pub(super) fn enlist(self: &Arc<Self>) {
        let mut managers = MANAGERS.lock().unwrap_or_else(PoisonError::into_inner);
        managers.retain(|manager| manager.strong_count() > 0);
        managers.push(Arc::downgrade(self));
    }

    /// The owner tokens with which this process holds a lock, or one of several.
    pub(crate) async fn tokens_here(self: &Arc<Self>, key: &LockKey) -> Vec<OwnerToken> {
        let mut tokens = self.own_tokens(key).await;
        tokens.extend(self.tokens_of_others(key).await);
        tokens
    }

    /// Those of this manager alone.
    pub(crate) async fn own_tokens(&self, key: &LockKey) -> Vec<OwnerToken> {
        self.call(|reply| Call::Tokens { key: key.clone(), reply }).await.unwrap_or_default()
    }

    /// Those of the other managers of this process.
    pub(crate) async fn tokens_of_others(self: &Arc<Self>, key: &LockKey) -> Vec<OwnerToken> {
        let others = self.others();
        if others.is_empty() {
            return vec![];
        }
        // All are asked before the first answer is waited for.
        let asked: Vec<oneshot::Receiver<Vec<OwnerToken>>> = others
            .iter()
            .map(|other| {
                let (reply, answer) = oneshot::channel();
                other.send(Call::Tokens { key: key.clone(), reply });
                answer
            })
            .collect();
        let heard = async move {
            let (mut tokens, limit) = (vec![], Instant::now() + ANSWERS_WITHIN);
            for answer in asked {
                tokens.extend(timeout_at(limit, answer).await.into_iter().flatten().flatten());
            }
            tokens
        };
        self.run(heard).await.unwrap_or_default()
    }

    /// The other managers of this process that may mean the same locks.
    fn others(self: &Arc<Self>) -> Vec<Arc<Self>> {
        let managers = MANAGERS.lock().unwrap_or_else(PoisonError::into_inner);
        let others = managers.iter().filter_map(Weak::upgrade).filter(|other| !Arc::ptr_eq(self, other));
        let meets = |other: &Arc<Self>| self.addresses.iter().any(|node| other.addresses.contains(node));
        others.filter(|other| self.shares_time_with(other) && meets(other)).collect()
    }

    /// Whether it can be waited for: a clock that a test has paused runs ahead of managers that
    /// live on other threads.
    fn shares_time_with(&self, other: &Self) -> bool {
        self.clock == other.clock && (self.clock == Clock::System || self.built_on == other.built_on)
    }
}
