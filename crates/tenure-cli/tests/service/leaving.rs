//! Whoever waits and goes away leaves the line at once, however the connection ends: nothing of it
//! stays on the nodes, and the next in line is served as if it had never been there.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tenure_testkit::http::Client;
use tenure_testkit::{Balancer, Dice};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::campaign::{Extent, campaign, say};
use crate::counter::HAPROXY;
use crate::instances::{Instance, Nodes};

/// In one round so many come, and go within so long.
const WAITERS: usize = 100;
const WITHIN_US: u64 = 800_000;

/// What `docs/guarantees.md` says of the next in line, if those before it do not come.
const CLAIM_WINDOW: Duration = Duration::from_millis(250);

/// And if nobody releases the lock: those in line ask by themselves at least so often.
const BACKSTOP: Duration = Duration::from_secs(2);

/// How long it may take until nothing of whoever has gone is on the nodes.
const LEAVING: Duration = Duration::from_secs(1);

/// The term of those who are cut off: the lock is theirs as long if its grant was on its way.
const SHORT_TTL_MS: u64 = 500;

/// For so long nodes keep a key after that.
const GUARD_BAND: Duration = Duration::from_millis(100);

/// How a waiter goes.
#[derive(Clone, Copy, Debug)]
enum End {
    Fin,
    Rst,
    /// By FIN or RST, behind a proxy that has to pass it on.
    Proxy,
}

/// How the lock gets free for the next in line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Freed {
    /// Its holder releases it when the others have gone.
    Later,
    /// Its holder releases it just as they go. A grant may be on its way to one of them, and is
    /// that one's until it expires.
    AtOnce,
    /// There is no other holder: it goes from one of them to the next.
    ByItself,
}

impl Freed {
    const ALL: [Self; 3] = [Self::Later, Self::AtOnce, Self::ByItself];

    fn limit(self) -> Duration {
        let expiry = Duration::from_millis(SHORT_TTL_MS) + GUARD_BAND + BACKSTOP;
        if self == Self::Later { CLAIM_WINDOW } else { expiry }
    }
}

#[test]
fn waiters_that_are_cut_off_leave_no_entry_in_line_and_no_key() {
    campaign("waiters cut off", run);
}

fn run(extent: Extent, dice: Dice) -> String {
    Runtime::new().unwrap().block_on(rounds(extent.of(3, 12), dice))
}

async fn rounds(rounds: usize, mut dice: Dice) -> String {
    let nodes = Nodes::start();
    let instances: [Instance; 3] = nodes.instances();
    let balancer = Balancer::haproxy(HAPROXY, &instances.each_ref().map(Instance::port));
    let addresses = instances.each_ref().map(Instance::address);
    let behind = SocketAddr::from(([127, 0, 0, 1], balancer.port()));
    let mut worst = [Duration::ZERO; Freed::ALL.len()];
    for round in 0..rounds {
        let freed = Freed::ALL[round % Freed::ALL.len()];
        let mut holder = Client::connect(addresses[0]).await;
        let lease = if freed == Freed::ByItself { None } else { Some(acquire(&mut holder, 30_000).await.1) };
        let mut going = JoinSet::new();
        for _ in 0..WAITERS {
            let end = dice.pick(&[End::Fin, End::Rst, End::Proxy]);
            let address = if matches!(end, End::Proxy) { behind } else { dice.pick(&addresses) };
            let (come, go) = (dice.below(WITHIN_US), dice.below(WITHIN_US));
            let is_reset = matches!(end, End::Rst) || matches!(end, End::Proxy) && dice.chance(50);
            going.spawn(come_and_go(address, come.min(go), come.max(go), is_reset));
        }
        let next = tokio::spawn(next_in_line(dice.pick(&addresses)));
        going.join_all().await;
        if freed == Freed::Later {
            until(LEAVING, async || is_alone_in_line(&mut holder).await).await;
        }
        let released = Instant::now();
        if let Some(lease) = lease {
            assert_eq!(holder.post("/v1/release", &given(&lease)).await.status, 200);
        }
        let (served, mut client, lease) = next.await.unwrap();
        let took = served.saturating_duration_since(released);
        assert!(took <= freed.limit(), "round {round}, {freed:?}: the next one waited for {took:?}");
        let worst = &mut worst[round % Freed::ALL.len()];
        *worst = took.max(*worst);
        assert_eq!(client.post("/v1/release", &given(&lease)).await.status, 200);
        until(LEAVING, async || nodes.left().is_empty()).await;
        say(&format!("round {}, {freed:?}: the next one was served after {took:?}", round + 1));
    }
    let [later, at_once, by_itself] = worst.map(|time| time.as_millis());
    format!(
        "{} waiters left nothing behind; the next one was served within {later} ms of a release, {at_once} ms in the \
         midst of it, {by_itself} ms where the lock had to expire",
        rounds * WAITERS,
    )
}

/// Waits from a moment to another, in microseconds from now, and is cut off then.
async fn come_and_go(address: SocketAddr, come: u64, go: u64, is_reset: bool) {
    sleep(Duration::from_micros(come)).await;
    let mut client = Client::connect(address).await;
    let ask = json!({ "name": "x", "ttl_ms": SHORT_TTL_MS, "wait_ms": 60_000 });
    client.send("/v1/acquire", &ask).await;
    sleep(Duration::from_micros(go - come)).await;
    if is_reset {
        client.reset();
    }
}

/// One who comes in their midst and stays: when it was served, and its lease.
async fn next_in_line(address: SocketAddr) -> (Instant, Client, Value) {
    sleep(Duration::from_micros(WITHIN_US / 2)).await;
    let mut client = Client::connect(address).await;
    let (served, lease) = acquire(&mut client, 60_000).await;
    (served, client, lease)
}

async fn acquire(client: &mut Client, wait_ms: u64) -> (Instant, Value) {
    loop {
        let answer = client.post("/v1/acquire", &json!({ "name": "x", "wait_ms": wait_ms })).await;
        if answer.status == 200 {
            return (Instant::now(), answer.body);
        }
        // The nodes of a fleet are met one by one when it is first used.
        assert_eq!(answer.status, 503, "{answer:?}");
    }
}

fn given(lease: &Value) -> Value {
    json!({ "name": lease["name"], "token": lease["token"] })
}

/// Whether nobody is left in line but one.
async fn is_alone_in_line(client: &mut Client) -> bool {
    client.get("/v1/lock?name=x").await.body["waiters"] == 1
}

async fn until(limit: Duration, mut done: impl AsyncFnMut() -> bool) {
    let limit = Instant::now() + limit;
    while !done().await {
        assert!(Instant::now() < limit, "somebody who has gone is still there");
        sleep(Duration::from_millis(10)).await;
    }
}
