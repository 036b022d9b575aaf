//! Looking at locks without touching them.

use std::sync::Arc;

use tenure_core::{Fault, Holding, Query};
use tokio::sync::oneshot;

use crate::Locks;
use crate::driver::Request;
use crate::error::AcquireError;

/// What one node says it has.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeHoldings {
    /// The node's address.
    pub node: Arc<str>,
    /// The keys it has, in order; or why it did not tell.
    pub holdings: Result<Vec<Holding>, Fault>,
}

impl Locks {
    /// Asks every node who has the lock `name`. A node that does not have it tells an empty list.
    ///
    /// Nodes may differ: a lock is held if a majority of them says so, by the same owner.
    ///
    /// # Errors
    /// [`AcquireError::InvalidName`] if the name is not allowed, [`AcquireError::ShutDown`] if the manager is gone.
    /// Nodes that do not answer are named in the result.
    ///
    /// # Cancel safety
    /// Nothing is changed, so it may be dropped at any time.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let locks = tenure::Locks::memory();
    /// let guard = locks.lock("invoice:42").acquire().await?;
    /// for node in locks.inspect("invoice:42").await? {
    ///     println!("{}: {:?}", node.node, node.holdings);
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn inspect(&self, name: &str) -> Result<Vec<NodeHoldings>, AcquireError> {
        let manager = &self.inner;
        let key =
            manager.key(name).map_err(|error| AcquireError::InvalidName { name: name.to_owned(), error })?;
        let query = Query::inspect(key, manager.quorum, manager.clock.now());
        self.query(query).await.ok_or_else(|| AcquireError::ShutDown { name: name.to_owned() })
    }

    /// Asks every node which locks it has under this manager's prefix: at most 10,000 per node.
    ///
    /// # Errors
    /// [`AcquireError::ShutDown`] if the manager is gone. Nodes that do not answer are named in the result.
    ///
    /// # Cancel safety
    /// Nothing is changed, so it may be dropped at any time.
    pub async fn list(&self) -> Result<Vec<NodeHoldings>, AcquireError> {
        let manager = &self.inner;
        let query = Query::list(manager.prefix.clone(), manager.quorum, manager.clock.now());
        let name = || format!("{}*", manager.prefix.as_str());
        self.query(query).await.ok_or_else(|| AcquireError::ShutDown { name: name() })
    }

    async fn query(&self, query: Query) -> Option<Vec<NodeHoldings>> {
        let (reply, answer) = oneshot::channel();
        self.inner.send(Request::Query { query, reply });
        let told = answer.await.ok()?;
        let nodes = self.inner.addresses.iter().map(Arc::clone);
        Some(nodes.zip(told).map(|(node, holdings)| NodeHoldings { node, holdings }).collect())
    }
}
