//! A lock that we hold by a service: extended in time, and lost when our own clock says so.

use std::time::Duration;

use tenure::Risk;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::{Service, Told};
use crate::failure::Failure;
use crate::machine_clock::now;

/// The pause before an extension is asked for again that came to nothing.
const PAUSE: Duration = Duration::from_millis(100);

/// A lock, and what renews it for as long as this lives.
#[derive(Debug)]
pub(crate) struct Held {
    service: Service,
    standing: watch::Receiver<Standing>,
    renewal: JoinSet<()>,
}

/// What is known of it.
#[derive(Clone, Debug)]
struct Standing {
    told: Told,
    /// Why it will end, or has ended.
    risk: Option<Risk>,
}

impl Held {
    /// Renews what was told from now on.
    pub(crate) fn keep(service: Service, told: Told) -> Self {
        let (news, standing) = watch::channel(Standing { told: told.clone(), risk: None });
        let mut renewal = JoinSet::new();
        renewal.spawn(renew(service.clone(), told, news));
        Self { service, standing, renewal }
    }

    /// The last that the service told.
    pub(crate) fn told(&self) -> Told {
        self.standing.borrow().told.clone()
    }

    pub(crate) fn valid_for(&self) -> Duration {
        self.standing.borrow().told.valid_for()
    }

    pub(crate) fn risk(&self) -> Option<Risk> {
        self.standing.borrow().risk
    }

    /// Resolves when others may have it already. That its time runs out, whoever holds it sees by
    /// the clock.
    pub(crate) fn lost(&self) -> impl Future<Output = ()> + use<> {
        let mut standing = self.standing.clone();
        async move {
            if standing.wait_for(|standing| standing.risk == Some(Risk::Taken)).await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Releases it; early, if others may have it at once though it was to be kept from them.
    pub(crate) async fn release(self, early: bool) -> Result<(), Failure> {
        let Self { service, standing, renewal } = self;
        drop(renewal);
        let Told { names, token, .. } = standing.borrow().told.clone();
        service.release(&names, &token, early).await.map(|_| ())
    }
}

/// Extends it after a third of its term, until it is lost or may not be held for longer. What was
/// told before stands while no extension comes about.
async fn renew(service: Service, mut told: Told, news: watch::Sender<Standing>) {
    let mut next = told.sent + told.ttl / 3;
    while !told.valid_for().is_zero() {
        let pause = next.saturating_sub(now());
        if !pause.is_zero() {
            // Timers stand still while the machine sleeps.
            sleep(pause.min(Duration::from_secs(1))).await;
            continue;
        }
        // An instance that does not answer must not use up all the time.
        let limit = (told.ttl / 4).min(told.valid_for());
        match service.extend_within(&told.names, &told.token, limit).await {
            Ok(mut longer) => {
                next = longer.sent + longer.ttl / 3;
                // An extension shortens nothing.
                longer.until = longer.until.max(told.until);
                told = longer;
                news.send_replace(Standing { told: told.clone(), risk: None });
            }
            Err(trouble) => {
                // What stands in the way of asking is no sign that another has the lock.
                let risk = trouble.risk().or(Some(Risk::NotExtended));
                news.send_modify(|standing| standing.risk = risk);
                if !trouble.may_pass() {
                    break;
                }
                next = now() + PAUSE;
            }
        }
    }
    // Whoever asks later hears the last that was known.
    std::future::pending::<()>().await;
}
