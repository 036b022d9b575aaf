//! How a client's lock is known again by its key, at every instance.

use tenure::{LockState, Place};

use crate::Service;
use crate::caller::Caller;
use crate::problem::{Kind, Problem};

/// What the mark stands behind in a label.
const MARK: &str = "key:";

/// A caller's key for a lock.
pub(crate) struct Claim<'a> {
    pub(crate) service: &'a Service,
    pub(crate) caller: &'a Caller,
    pub(crate) name: &'a str,
    pub(crate) key: &'a str,
}

impl Claim<'_> {
    /// The label of a lock that is acquired with it.
    pub(crate) fn mark(&self, label: Option<&str>) -> String {
        let mark = self.service.keys.mark(self.caller.name(), self.name, self.key);
        label.map_or_else(|| format!("{MARK}{mark}"), |label| format!("{label} {MARK}{mark}"))
    }

    /// Whether a lock with this label was acquired with it.
    pub(crate) fn is_of(&self, label: &str) -> bool {
        let mark = label.rsplit_once(MARK).map(|(_, mark)| mark);
        mark.is_some_and(|mark| self.service.keys.is_mark(mark, self.caller.name(), self.name, self.key))
    }

    /// Whether the one who waits there waits for itself.
    pub(crate) fn is_behind(&self, place: &Place) -> bool {
        place.holder.as_deref().is_some_and(|label| self.is_of(label))
    }

    /// Says that the client has the lock itself: from another instance, or this one has forgotten.
    pub(crate) async fn yours(&self) -> Problem {
        let report = match self.service.locks.inspect(self.name).await {
            Ok(report) => report,
            Err(error) => return error.into(),
        };
        let name = self.name;
        match &report.state {
            LockState::Held { owner, label: Some(label), left, .. } if self.is_of(label) => Problem::new(
                Kind::Contended,
                format!(
                    "lock {name:?} was already acquired with this Idempotency-Key, but this instance does \
                     not have its token; release it with the key and its holder, or wait until it expires"
                ),
            )
            .fact("yours", true)
            .fact("holder", self.service.keys.holder(owner))
            .fact("label", label.as_ref())
            .retry_after(*left),
            _ => Problem::new(Kind::Contended, format!("lock {name:?} has just changed hands; retry"))
                .retry_after(None),
        }
    }
}
