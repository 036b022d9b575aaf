//! The lock service: locks over HTTP, for programs in any language.
//!
//! There is no lock logic here, and no state that another instance needs: a lease is its sealed
//! token (`lease_key.rs`), so any instance serves the next call. Every call is a file in `calls/`;
//! what goes wrong is a [`Problem`]. A grant belongs to the client from the moment at which the
//! outermost layer has returned the answer (`grant.rs`).
//!
//! ```text
//!   connection ─► grant.rs ─► body.rs ─► calls/*.rs ─► tenure ─► lease.rs or problem.rs ─► answer
//! ```
#![forbid(unsafe_code)]

mod body;
mod calls;
mod grant;
mod lease;
mod lease_key;
mod problem;

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::routing::{get, post};
use tenure::Locks;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

pub use crate::lease_key::{LeaseKeyError, LeaseKeys};
pub use crate::problem::Problem;

/// How many acquires may be under way at once, unless [`Service::acquires_max`] says otherwise.
const ACQUIRES_MAX: usize = 10_000;

/// The service, before it listens.
#[derive(Debug)]
pub struct Service {
    locks: Locks,
    keys: LeaseKeys,
    /// Room for acquires. Extensions and releases need none: under overload only new work is
    /// refused.
    room: Semaphore,
    draining: AtomicBool,
}

impl Service {
    /// A service for these locks, whose tokens are sealed with these keys.
    #[must_use]
    pub fn new(locks: Locks, keys: LeaseKeys) -> Self {
        Self { locks, keys, room: Semaphore::new(ACQUIRES_MAX), draining: AtomicBool::new(false) }
    }

    /// At most so many acquires are under way at once, those that wait among them; more are told to
    /// come back later.
    #[must_use]
    pub fn acquires_max(mut self, most: usize) -> Self {
        self.room = Semaphore::new(most.min(Semaphore::MAX_PERMITS));
        self
    }

    /// Answers on this socket until `end` comes. Then nothing new is given, and the end is when
    /// every call has its answer.
    ///
    /// # Errors
    /// If the socket fails.
    pub async fn serve(
        self,
        listener: TcpListener,
        end: impl Future<Output = ()> + Send + 'static,
    ) -> io::Result<()> {
        let service = Arc::new(self);
        let router = router(Arc::clone(&service));
        let end = async move {
            end.await;
            service.draining.store(true, Ordering::Relaxed);
        };
        axum::serve(listener, router).with_graceful_shutdown(end).await
    }

    fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }
}

fn router(service: Arc<Service>) -> Router {
    Router::new()
        .route("/v1/acquire", post(calls::acquire::call))
        .route("/v1/extend", post(calls::extend::call))
        .route("/v1/extend-many", post(calls::extend::call_many))
        .route("/v1/release", post(calls::release::call))
        .route("/v1/release-many", post(calls::release::call_many))
        .route("/livez", get(calls::health::livez))
        .route("/readyz", get(calls::health::readyz))
        .route("/version", get(calls::health::version))
        .method_not_allowed_fallback(calls::wrong_method)
        .fallback(calls::no_such_call)
        .with_state(service)
        .layer(axum::middleware::from_fn(grant::hand_over))
}
