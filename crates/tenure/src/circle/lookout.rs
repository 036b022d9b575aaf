//! A waiter that holds something looks out for a circle it is in.
//!
//! It begins when the nodes have put it in line, on the runtime of the manager's worker, and ends
//! with the acquire. The acquire itself goes on in any case: a circle is only told.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tenure_core::circle::{self, Wait};
use tenure_core::{HeldLock, Note, Waiter};
use tokio::time::sleep;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::Circle;
use super::search::{CONFIRMED_AFTER, Seen};
use crate::driver::{Call, SharedLease};
use crate::lock::InLine;
use crate::locks::Inner;

/// Most waits are over by then.
const FIRST_LOOK_AFTER: Duration = Duration::from_millis(300);

/// And again after each such pause: what one waiter costs the nodes is a few inspections a second
/// at most.
const LOOKS_EVERY: Duration = Duration::from_secs(1);

/// What runs beside an acquire once it waits.
pub(crate) type Lookout = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Who waits.
pub(crate) struct Watched {
    pub(crate) manager: Arc<Inner>,
    pub(crate) lease: SharedLease,
    pub(crate) label: Option<Arc<str>>,
    pub(crate) holds: Vec<HeldLock>,
    /// What its caller looks at while it waits.
    pub(crate) view: Option<InLine>,
}

impl Watched {
    /// The lookout, and what ends it when it is dropped.
    pub(crate) fn look_out(self) -> (Lookout, DropGuard) {
        let token = CancellationToken::new();
        let guard = token.clone().drop_guard();
        let lookout = async move {
            token.run_until_cancelled(self.go_on_looking()).await;
        };
        (Box::pin(lookout), guard)
    }

    async fn go_on_looking(self) {
        let mut told: Vec<circle::Circle> = vec![];
        sleep(FIRST_LOOK_AFTER).await;
        loop {
            if let Some(circle) = self.look(&told).await {
                let name = Arc::clone(&circle.members[0].waits_for);
                let seen = Circle::of(&circle);
                if let Some(view) = &self.view {
                    view.report(seen.clone());
                }
                self.manager.send(Call::Circle { name, circle: Box::new(seen) });
                told.push(circle);
            }
            sleep(LOOKS_EVERY).await;
        }
    }

    /// A circle that was seen twice and was not told yet.
    async fn look(&self, told: &[circle::Circle]) -> Option<circle::Circle> {
        let wait = self.wait()?;
        let circle = self.manager.search(wait.clone(), &mut Seen::new()).await?;
        if told.iter().any(|known| known.is_same(&circle)) {
            return None;
        }
        sleep(CONFIRMED_AFTER).await;
        let names: Vec<_> = circle.names().cloned().collect();
        let seen = self.manager.presences(&names).await;
        (circle.stands(&seen) && self.wait()? == wait).then_some(circle)
    }

    /// Who we are in line, if we are.
    fn wait(&self) -> Option<Wait> {
        let lease = self.lease.look();
        let note = Note { label: self.label.clone(), holds: self.holds.clone() };
        let names = lease.key().each().iter().map(|key| key.name().into()).collect();
        Some(Wait { waiter: Waiter { ticket: lease.ticket()?, note }, names })
    }
}
