//! Locks that are held by a connection: kept while nodes die, lost in time behind a partition, and
//! taken along to another instance.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tenure_testkit::http::Client;
use tenure_testkit::{Dice, Mode, Proxy};
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::campaign::{Extent, campaign};
use crate::instances::{Instance, Nodes};
use crate::promises::begun;

const TTL: Duration = Duration::from_millis(1_000);

#[test]
fn held_locks_are_kept_while_nodes_die_and_go_on_at_another_instance() {
    campaign("hold, nodes killed", |extent, dice| {
        Runtime::new().unwrap().block_on(kept(extent.of(8, 100), dice))
    });
}

#[test]
fn held_locks_that_cannot_be_renewed_are_lost_before_their_validity_ends() {
    campaign("hold, nodes cut off", |extent: Extent, dice| {
        Runtime::new().unwrap().block_on(lost(extent.of(20, 100), dice))
    });
}

/// A lock that a connection holds.
struct Holding {
    client: Client,
    asked: Instant,
    lease: Value,
    /// The end of what was told last, by this machine's clock.
    end: Instant,
}

impl Holding {
    /// Asks until it has the lock: the nodes of a fleet are met one by one when it is first used.
    async fn begin(address: SocketAddr, ask: &Value) -> Self {
        loop {
            let mut client = Client::connect(address).await;
            let asked = Instant::now();
            client.send("/v1/hold", ask).await;
            let head = client.receive_head().await;
            if head.starts_with("HTTP/1.1 200 ") {
                let mut holding = Self { client, asked, lease: Value::Null, end: asked };
                assert_eq!(holding.next().await.as_deref(), Some("acquired"));
                return holding;
            }
            assert!(head.starts_with("HTTP/1.1 503 "), "{head}");
        }
    }

    /// What the next line tells; `None` at the end. It counts from the time before the request, and
    /// is never told when the last one is over.
    async fn next(&mut self) -> Option<String> {
        let line = self.client.next_json().await?;
        if line["lease"].is_object() {
            let told = |field: &str| Duration::from_millis(line["lease"][field].as_u64().unwrap());
            let end = self.asked + told("started_after_ms") + told("valid_ms");
            assert!(self.lease.is_null() || Instant::now() < self.end, "nothing was told in time: {line}");
            assert!(self.lease.is_null() || line["lease"]["fence"] == self.lease["fence"], "{line}");
            (self.end, self.lease) = (self.end.max(end), line["lease"].clone());
        }
        line["event"].as_str().map(str::to_owned)
    }
}

/// For ten times the ttl, while two of five nodes are killed. Then the instance is, and every
/// client goes on at another one with the token that it was told last. Others ask all the while.
async fn kept(count: usize, mut dice: Dice) -> String {
    let mut nodes = Nodes::start();
    let [mut theirs, others]: [Instance; 2] = nodes.instances();
    let killed = watch::Sender::new(false);
    let mut holders = JoinSet::new();
    for number in 0..count {
        let (name, killed) = (format!("lock-{number}"), killed.subscribe());
        holders.spawn(hold_on(name, theirs.address(), others.address(), killed));
    }
    let rivals: Vec<_> = (0..count).map(|number| wait_for(number, others.address())).collect();
    let mut rivals: JoinSet<()> = rivals.into_iter().collect();
    for server in 0..2 {
        sleep(3 * TTL + Duration::from_millis(dice.below(1_000))).await;
        nodes.servers[server].kill();
    }
    sleep(4 * TTL + TTL / 2).await;
    killed.send_replace(true);
    theirs.kill();
    let renewals: usize = holders.join_all().await.into_iter().sum();
    // Nobody else has had one of them.
    assert!(rivals.try_join_next().is_none());
    format!("{count} of {count} kept for 10 ttls with {renewals} renewals, and gone on with elsewhere")
}

/// Holds a lock until its instance is killed, and goes on at another one. Returns how often it was
/// renewed.
async fn hold_on(
    name: String,
    theirs: SocketAddr,
    others: SocketAddr,
    killed: watch::Receiver<bool>,
) -> usize {
    let ask = json!({ "name": name, "ttl_ms": TTL.as_millis() });
    let mut holding = Holding::begin(theirs, &ask).await;
    let mut renewals = 0;
    while let Some(event) = holding.next().await {
        assert!(["renewed", "at_risk"].contains(&event.as_str()), "{name}: {event}");
        renewals += usize::from(event == "renewed");
    }
    assert!(*killed.borrow(), "{name} ended before its instance");
    assert!(holding.asked.elapsed() >= 10 * TTL, "{:?}", holding.asked.elapsed());
    let given = json!({ "name": name, "token": holding.lease["token"] });
    let mut further = Holding::begin(others, &given).await;
    assert_eq!(further.lease["fence"], holding.lease["fence"], "{name}");
    assert_eq!(further.next().await.as_deref(), Some("renewed"), "{name}");
    renewals
}

/// Somebody else who wants the lock, and must not get it.
async fn wait_for(number: usize, address: SocketAddr) {
    // Behind the holder.
    sleep(TTL).await;
    let mut client = Client::connect(address).await;
    let ask = json!({ "name": format!("lock-{number}"), "wait_ms": 60_000 });
    let answer = client.post("/v1/acquire", &ask).await;
    panic!("lock-{number} was another's: {answer:?}");
}

/// Behind a partition that begins at any moment. Others can reach the nodes, and get each lock when
/// it is over.
async fn lost(count: usize, mut dice: Dice) -> String {
    let nodes = Nodes::start();
    let proxies = nodes.servers.each_ref().map(|server| Proxy::start_forgetful(server.port()));
    let (theirs, [others]) = (nodes.instance_through(&proxies), nodes.instances());
    let mut arriving = JoinSet::new();
    for number in 0..count {
        let (address, pause) = (theirs.address(), Duration::from_millis(dice.below(700)));
        arriving.spawn(async move {
            sleep(pause).await;
            let name = format!("lock-{number}");
            let ask = json!({ "name": name, "ttl_ms": TTL.as_millis() });
            (name, Holding::begin(address, &ask).await)
        });
    }
    let mut holders = JoinSet::new();
    for (name, mut holding) in arriving.join_all().await {
        let address = others.address();
        holders.spawn(async move {
            let rival = tokio::spawn(take(name.clone(), address));
            loop {
                let event = holding.next().await.expect("it is told when it is lost");
                if event == "lost" {
                    break;
                }
            }
            let left = holding.end.checked_duration_since(Instant::now());
            let left = left.unwrap_or_else(|| panic!("{name}: lost when its validity was over"));
            let next = rival.await.unwrap();
            assert!(next >= holding.end, "{name}: another had it {:?} before its end", holding.end - next);
            left
        });
    }
    sleep(Duration::from_millis(500 + dice.below(700))).await;
    proxies.iter().for_each(|proxy| proxy.set_both(Mode::Swallow));
    let left = holders.join_all().await;
    let (least, most) = (left.iter().min().unwrap().as_millis(), left.iter().max().unwrap().as_millis());
    format!("lost in time in {} of {count} runs, {least} to {most} ms before the end", left.len())
}

/// Takes the lock when it can be had. Returns when the nodes were asked for it, at the earliest.
async fn take(name: String, address: SocketAddr) -> Instant {
    let mut client = Client::connect(address).await;
    let sent = Instant::now();
    let answer = client.post("/v1/acquire", &json!({ "name": name, "wait_ms": 60_000 })).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    begun(sent, &answer.body)
}
