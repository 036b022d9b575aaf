//! What runs beside acquires that wait, and only beside those.

use std::collections::HashMap;

use super::Id;
use crate::circle::Lookout;

/// The lookouts of acquires that do not wait yet.
#[derive(Default)]
pub(super) struct Lookouts(HashMap<Id, Lookout>);

impl Lookouts {
    pub(super) fn keep(&mut self, id: Id, lookout: Lookout) {
        self.0.insert(id, lookout);
    }

    /// The acquire waits. It ends the lookout when it has done so.
    pub(super) fn begin(&mut self, id: Id) {
        if let Some(lookout) = self.0.remove(&id) {
            tokio::spawn(lookout);
        }
    }

    /// The acquire has ended.
    pub(super) fn end(&mut self, id: Id) {
        if !self.0.is_empty() {
            self.0.remove(&id);
        }
    }
}
