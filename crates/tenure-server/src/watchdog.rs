//! Whether this instance really serves, for whoever restarts it when it does not.
//!
//! A call goes through all layers, on the runtime that serves the others; and the worker that asks
//! the nodes has to answer, whatever the nodes do: a restart does not help if they are down.

use std::fmt;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::header::HOST;
use axum::http::{Request, StatusCode};
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use tenure::Locks;
use tokio::time::{interval, timeout};

/// Somebody who is told now and then that the instance serves.
pub(crate) struct Watchdog {
    pub(crate) every: Duration,
    pub(crate) tell: Box<dyn Fn() + Send + Sync>,
}

impl Watchdog {
    /// Tells it, as long as it is so.
    pub(crate) async fn feed(&self, router: &Router, locks: &Locks) {
        let mut rounds = interval(self.every);
        loop {
            rounds.tick().await;
            // One that takes longer has missed its time.
            if timeout(self.every, serves(router, locks)).await == Ok(true) {
                (self.tell)();
            }
        }
    }
}

async fn serves(router: &Router, locks: &Locks) -> bool {
    let Ok(request) = Request::get("/livez").header(HOST, "localhost").body(Body::empty()) else {
        return false;
    };
    let answer = TowerToHyperService::new(router.clone()).call(request).await;
    // A worker that is gone has no nodes.
    answer.is_ok_and(|answer| answer.status() == StatusCode::OK) && !locks.nodes().await.is_empty()
}

impl fmt::Debug for Watchdog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watchdog").field("every", &self.every).finish_non_exhaustive()
    }
}
