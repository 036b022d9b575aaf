//! What other clients do to locks, found by looking and put between the events of this instance.

use tenure::{FleetNews, FleetWatch, Locks};
use tokio::task::AbortHandle;

use super::{Events, Happened};
use crate::lease_key::LeaseKeys;

/// Looks until it is dropped.
#[derive(Debug)]
pub(crate) struct Sightings(AbortHandle);

impl Sightings {
    pub(super) fn begin(events: Events, locks: &Locks, keys: &LeaseKeys) -> Self {
        let looking = look(events, locks.watch(), keys.clone());
        Self(tokio::spawn(looking).abort_handle())
    }
}

impl Drop for Sightings {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn look(events: Events, mut watch: FleetWatch, keys: LeaseKeys) {
    // What is there when the look begins did not happen now.
    let mut complete = false;
    while let Some(FleetNews { locks, progress, .. }) = watch.next().await {
        for happened in locks.iter().filter_map(|change| Happened::seen(change, &keys)) {
            if complete {
                events.keep(happened);
            }
        }
        complete |= progress.is_some_and(|progress| progress.complete);
    }
}
