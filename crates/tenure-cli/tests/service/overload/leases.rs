//! Those who have a lease, and extend it in time.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::thread::gettid;
use serde_json::{Value, json};
use tenure_testkit::proc::prefer;
use tokio::runtime::Builder;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::wire::Wire;

const TTL: Duration = Duration::from_secs(9);

/// All of them, and how long their extensions took.
pub(super) struct Leases {
    there: AtomicUsize,
    times: Mutex<Vec<Duration>>,
    over: watch::Sender<bool>,
}

impl Default for Leases {
    fn default() -> Self {
        Self { there: AtomicUsize::new(0), times: Mutex::default(), over: watch::Sender::new(false) }
    }
}

impl Leases {
    /// Keeps so many until the end is said.
    pub(super) fn keep(self: &Arc<Self>, address: SocketAddr, count: usize) {
        // Whoever measures must not wait for those who ask.
        prefer(gettid().as_raw_nonzero().get().cast_unsigned());
        Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
            let mut keepers = JoinSet::new();
            for number in 0..count {
                let lease = Lease::acquire(address, format!("kept-{number}")).await;
                keepers.spawn(lease.keep(Arc::clone(self)));
                // Their times are spread.
                sleep(TTL / 3 / u32::try_from(count).unwrap()).await;
            }
            keepers.join_all().await;
        });
    }

    pub(super) fn are_all_there(&self, count: usize) {
        while self.there.load(Ordering::Acquire) < count {
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// How long each extension took since this was asked last.
    pub(super) fn times(&self) -> Vec<Duration> {
        std::mem::take(&mut self.times.lock().unwrap())
    }

    /// Lets them go, at the latest when this is dropped.
    pub(super) fn ending(&self) -> Ending<'_> {
        Ending(self)
    }
}

pub(super) struct Ending<'a>(&'a Leases);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.over.send_replace(true);
    }
}

struct Lease {
    wire: Wire,
    given: Value,
    /// The end of what was told last.
    end: Instant,
}

impl Lease {
    /// The nodes of a fleet are met one by one when it is first used.
    async fn acquire(address: SocketAddr, name: String) -> Self {
        let mut wire = Wire::connect(address).await;
        loop {
            let asked = Instant::now();
            let (status, lease) =
                wire.post("acquire", &json!({ "name": name, "ttl_ms": TTL.as_millis() })).await;
            if status == 200 {
                let given = json!({ "name": name, "token": lease["token"] });
                return Self { wire, given, end: asked + told(&lease) };
            }
            assert_eq!(status, 503, "{lease}");
        }
    }

    /// Extends it when a third of the ttl has passed, again and again, and releases it at the end.
    async fn keep(mut self, all: Arc<Leases>) {
        all.there.fetch_add(1, Ordering::Release);
        let mut over = all.over.subscribe();
        let mut due = tokio::time::Instant::now();
        loop {
            due += TTL / 3;
            tokio::select! {
                () = tokio::time::sleep_until(due) => {}
                _ = over.wait_for(|over| *over) => break,
            }
            let took = self.extend().await;
            all.times.lock().unwrap().push(took);
        }
        // When it would have been extended: all at once would be more than the nodes can do.
        tokio::time::sleep_until(due).await;
        while self.wire.post("release", &self.given).await.0 == 503 {}
    }

    async fn extend(&mut self) -> Duration {
        let asked = Instant::now();
        loop {
            let sent = Instant::now();
            let (status, lease) = self.wire.post("extend", &self.given).await;
            assert!(
                Instant::now() < self.end,
                "{} could not be extended in time: {lease}",
                self.given["name"]
            );
            if status == 200 {
                self.given["token"] = lease["token"].clone();
                self.end = sent + told(&lease);
                return asked.elapsed();
            }
            assert_eq!((status, &lease["type"]), (503, &json!("urn:tenure:unavailable")), "{lease}");
        }
    }
}

/// How long a lease is valid, from the time before it was asked for.
fn told(lease: &Value) -> Duration {
    let field = |name: &str| Duration::from_millis(lease[name].as_u64().unwrap());
    field("started_after_ms") + field("valid_ms")
}
