//! The lock service: locks over HTTP, for programs in any language.
//!
//! There is no lock logic here, and no state that another instance needs: a lease is its sealed
//! token (`lease_key.rs`), so any instance serves the next call. Every call is a file in `calls/`;
//! what goes wrong is a [`Problem`]. A grant belongs to the client from the moment at which the
//! outermost layer has returned the answer (`grant.rs`).
//!
//! A call that holds a lock by its connection goes on in `hold.rs` when it has been answered.
//!
//! ```text
//!   listen.rs ─► around.rs ─► body.rs ─► calls/*.rs ─► turns.rs ─► tenure
//!                     ◄─ lease.rs or problem.rs ◄─┘
//! ```
#![forbid(unsafe_code)]

#[cfg(not(unix))]
compile_error!("the lock service needs Unix; run it there, and call it over HTTP from other systems");

mod around;
mod body;
mod caller;
mod calls;
mod door;
mod drain;
mod events;
pub mod form;
mod grant;
mod hex;
mod hold;
mod idempotency;
mod lease;
mod lease_key;
mod listen;
mod log;
mod metrics;
mod names;
mod origin;
mod problem;
mod room;
mod tls;
mod trace;
mod turns;
mod ui;
mod watchdog;

use std::future::{Future, pending};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tenure::Locks;
use tokio::sync::watch;
use tokio::time::sleep;
use utoipa::OpenApi as _;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::caller::Caller;
use crate::caller::session::Sessions;
pub use crate::caller::{CallerToken, Callers, CallersError, Principal, PrincipalError, Rights, Verb};
pub use crate::door::{Door, DoorError};
pub use crate::drain::CutOff;
use crate::drain::DRAIN_MAX;
pub use crate::events::Events;
pub use crate::lease_key::{LeaseKeyError, LeaseKeyFileError, LeaseKeys};
use crate::listen::Bounds;
pub use crate::listen::{Listeners, SocketError};
pub use crate::log::LogFile;
use crate::log::{AccessLog, AuditLog};
pub use crate::metrics::Metrics;
use crate::origin::Hosts;
pub use crate::problem::Problem;
use crate::room::{Room, Seat};
pub use crate::tls::TlsError;
pub use crate::trace::collector;
#[cfg(feature = "otlp")]
pub use crate::trace::{Traces, TracesError};
use crate::turns::Turns;
use crate::watchdog::Watchdog;

/// The service, before it listens.
#[derive(Debug)]
pub struct Service {
    locks: Locks,
    keys: LeaseKeys,
    callers: Callers,
    sessions: Sessions,
    /// Whether browsers reach it by TLS, its own or that of a proxy.
    secure: bool,
    hosts: Hosts,
    room: Room,
    turns: Turns,
    bounds: Bounds,
    access_log: Option<AccessLog>,
    audit_log: AuditLog,
    metrics: Metrics,
    events: Events,
    /// Which leases the keys of clients led to.
    idempotency: idempotency::Memory,
    drain_max: Duration,
    watchdog: Option<Watchdog>,
    /// Whether it is about to end.
    draining: watch::Sender<bool>,
    /// Whoever still has to release a lock after its connection has ended listens here.
    partings: watch::Sender<()>,
}

impl Service {
    /// A service for these locks, whose tokens are sealed with these keys.
    #[must_use]
    pub fn new(locks: Locks, keys: LeaseKeys) -> Self {
        Self {
            locks,
            keys,
            callers: Callers::default(),
            sessions: Sessions::default(),
            secure: false,
            hosts: Hosts::default(),
            room: Room::default(),
            turns: Turns::default(),
            bounds: Bounds::default(),
            access_log: None,
            audit_log: AuditLog::new(LogFile::stderr()),
            metrics: Metrics::default(),
            events: Events::default(),
            idempotency: idempotency::Memory::default(),
            drain_max: DRAIN_MAX,
            watchdog: None,
            draining: watch::Sender::new(false),
            partings: watch::Sender::new(()),
        }
    }

    /// Only these may call, each what it may. Without them everybody who reaches it may, but nobody
    /// takes a lock from its holder.
    #[must_use]
    pub fn callers(mut self, callers: Callers) -> Self {
        self.callers = callers;
        self
    }

    /// Writes a line there for each call. Without it there is no such log.
    #[must_use]
    pub fn access_log(mut self, file: LogFile) -> Self {
        self.access_log = Some(AccessLog::new(file));
        self
    }

    /// Writes lines there before and after a lock is taken from its holder. Without it they go to
    /// standard error.
    #[must_use]
    pub fn audit_log(mut self, file: LogFile) -> Self {
        self.audit_log = AuditLog::new(file);
        self
    }

    /// Lets clients follow these, which observe the locks.
    #[must_use]
    pub fn events(mut self, events: Events) -> Self {
        self.events = events;
        self
    }

    /// Counts into these, which also observe the locks.
    #[must_use]
    pub fn metrics(mut self, metrics: Metrics) -> Self {
        self.metrics = metrics;
        self
    }

    /// What these settings say about callers, names and bounds.
    #[must_use]
    pub fn behind(mut self, door: &Door) -> Self {
        let settings = door.settings();
        self.callers = door.callers.clone();
        self.secure = door.tls.is_some() || settings.behind_tls_proxy.value;
        self.hosts = Hosts { named: settings.hosts.value.clone().into(), tls: door.tls.clone() };
        self.bounds.connections = settings.connections_max.value.unwrap_or(self.bounds.connections);
        self.bounds.head = settings.silence_max.value.unwrap_or(self.bounds.head);
        self.drain_max = settings.drain_max.value.unwrap_or(self.drain_max);
        if let Some(most) = settings.acquires_max.value {
            self.room.acquires_max(most);
        }
        if let Some(most) = settings.acquires_per_caller.value {
            self.room.acquires_per_caller(most);
        }
        self
    }

    /// At most so many acquires are under way at once, those that wait among them; more are told to
    /// come back later.
    #[must_use]
    pub fn acquires_max(mut self, most: usize) -> Self {
        self.room.acquires_max(most);
        self
    }

    /// At most so many connections at a time; more are closed at once.
    #[must_use]
    pub const fn connections_max(mut self, most: usize) -> Self {
        self.bounds.connections = most;
        self
    }

    /// Closes a connection that takes longer than this for the head of a request, or says nothing
    /// for so long.
    #[must_use]
    pub const fn silence_max(mut self, most: Duration) -> Self {
        self.bounds.head = most;
        self
    }

    /// The end takes at most so long: 30 s, unless it is said.
    #[must_use]
    pub const fn drain_max(mut self, most: Duration) -> Self {
        self.drain_max = most;
        self
    }

    /// Calls this again and again, so often, as long as the service really serves.
    #[must_use]
    pub fn watchdog(mut self, every: Duration, tell: impl Fn() + Send + Sync + 'static) -> Self {
        self.watchdog = Some(Watchdog { every, tell: Box::new(tell) });
        self
    }

    /// Answers on these sockets until `end` comes. Then nothing new is given, whoever waits is told
    /// so, and the end is when every call has its answer. No lock is released.
    ///
    /// # Errors
    /// [`CutOff`] if some calls did not have their answer in time.
    pub async fn serve(
        mut self,
        listeners: impl Into<Listeners>,
        end: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), CutOff> {
        let listeners = listeners.into();
        self.bounds.connections = listeners.connections_max(self.bounds.connections);
        let service = Arc::new(self);
        let router = router(Arc::clone(&service));
        let (bounds, metrics) = (service.bounds, &service.metrics);
        let drain = async {
            end.await;
            service.draining.send_replace(true);
        };
        let serving = async {
            listen::serve(listeners, router.clone(), bounds, metrics, drain).await;
            service.partings.closed().await;
        };
        let overdue = async {
            service.drained().await;
            sleep(service.drain_max).await;
        };
        let watched = async {
            match &service.watchdog {
                Some(watchdog) => watchdog.feed(&router, &service.locks).await,
                None => pending().await,
            }
        };
        tokio::select! {
            () = serving => Ok(()),
            () = overdue => Err(CutOff { connections: metrics.connections() }),
            () = watched => unreachable!("it goes on for ever"),
        }
    }

    /// Room for new work of this caller, until it is dropped.
    fn room(&self, caller: &Caller) -> Result<Seat, Problem> {
        if self.is_draining() {
            return Err(Problem::draining());
        }
        self.room.take(caller)
    }

    fn is_draining(&self) -> bool {
        *self.draining.borrow()
    }

    /// Resolves when it is about to end.
    async fn drained(&self) {
        // The sender lives as long as this does.
        let _ = self.draining.subscribe().wait_for(|draining| *draining).await;
    }
}

fn router(service: Arc<Service>) -> Router {
    let (router, _) = routes().split_for_parts();
    router
        .merge(ui::router())
        .method_not_allowed_fallback(calls::wrong_method)
        .fallback(calls::no_such_call)
        .with_state(Arc::clone(&service))
        .layer(axum::middleware::from_fn_with_state(service, around::layer))
}

/// The calls with their descriptions: what `/openapi.json` says is what is served.
fn routes() -> OpenApiRouter<Arc<Service>> {
    OpenApiRouter::with_openapi(calls::openapi::Description::openapi())
        .routes(routes!(calls::acquire::call))
        .routes(routes!(calls::extend::call))
        .routes(routes!(calls::extend::call_many))
        .routes(routes!(calls::hold::call))
        .routes(routes!(calls::release::call))
        .routes(routes!(calls::release::call_many))
        .routes(routes!(calls::force_release::call))
        .routes(routes!(calls::look::lock))
        .routes(routes!(calls::look::locks))
        .routes(routes!(calls::look::nodes))
        .routes(routes!(calls::events::call))
        .routes(routes!(calls::log_in::call))
        .routes(routes!(calls::log_out::call))
        .routes(routes!(calls::me::call))
        .routes(routes!(calls::watch::call))
        .routes(routes!(calls::metrics::call))
        .routes(routes!(calls::health::livez))
        .routes(routes!(calls::health::readyz))
        .routes(routes!(calls::health::version))
        .routes(routes!(calls::openapi::call))
}
