//! One slice of one node's keys.

use std::sync::Arc;
use std::time::Duration;

use tenure_core::client::Found;
use tenure_core::{Distrust, Fault, Listed, Listing, NodeIndex, NodeSet, NodeTime, Query};

use crate::locks::Inner;

/// What a node told of some of its keys.
pub(crate) struct Slice {
    /// What it has, and its clock; or why it did not tell.
    pub(crate) told: Result<(Listed, Option<NodeTime>), Fault>,
    /// How long the answer took.
    pub(crate) round_trip: Duration,
    /// The nodes that may vote.
    pub(crate) voters: NodeSet,
    /// Why the others may not.
    pub(crate) distrust: Vec<Option<Distrust>>,
}

impl Inner {
    /// Asks one node about some of its keys. `None` if the worker is gone.
    pub(crate) async fn slice(&self, node: NodeIndex, listing: Listing) -> Option<Slice> {
        let begun = self.clock.now();
        let query = Query::list(node, Arc::new(listing), self.quorum, begun);
        let Found { mut answers, voters, distrust } = self.query(query).await?;
        let answer = answers.swap_remove(node.get());
        let told = answer.and_then(|answer| match answer.listed {
            Some(listed) => Ok((*listed, answer.time)),
            None => Err(Fault::Error("an unexpected reply".into())),
        });
        Some(Slice { told, round_trip: self.clock.now().since(begun), voters, distrust })
    }
}
