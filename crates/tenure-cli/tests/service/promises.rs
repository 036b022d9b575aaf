//! What the service told a client about its lock holds, whatever becomes of the answer, the
//! connection and the instance: nobody else gets the lock before.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tenure_testkit::http::{Answer, Client};
use tenure_testkit::{Dice, Direction, Mode, Proxy};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::campaign::{Extent, campaign};
use crate::instances::{Instance, Nodes};

const TTL_MS: u64 = 2_000;

/// What goes wrong while a client counts on its lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// The client extends, and the answer vanishes.
    AnswerSwallowed,
    ConnectionCut,
    InstanceKilled,
    InstancePaused,
}

#[test]
fn nobody_else_gets_the_lock_of_a_client_whose_answer_was_swallowed() {
    campaign("answer swallowed", |extent, dice| run(Fault::AnswerSwallowed, extent, dice));
}

#[test]
fn nobody_else_gets_the_lock_of_a_client_whose_connection_was_cut() {
    campaign("connection cut", |extent, dice| run(Fault::ConnectionCut, extent, dice));
}

#[test]
fn nobody_else_gets_the_lock_of_a_client_whose_instance_was_killed() {
    campaign("instance killed", |extent, dice| run(Fault::InstanceKilled, extent, dice));
}

#[test]
fn nobody_else_gets_the_lock_of_a_client_whose_instance_is_paused() {
    campaign("instance paused", |extent, dice| run(Fault::InstancePaused, extent, dice));
}

fn run(fault: Fault, extent: Extent, dice: Dice) -> String {
    Runtime::new().unwrap().block_on(holds(fault, extent.of(20, 100), dice))
}

/// A client that counts on its lease until then, by its own clock.
struct Holder {
    name: String,
    client: Client,
    lease: Value,
    valid_until: Instant,
}

async fn holds(fault: Fault, runs: usize, mut dice: Dice) -> String {
    let nodes = Nodes::start();
    let [mut theirs, others]: [Instance; 2] = nodes.instances();
    let proxy = Proxy::start_forgetful(theirs.port());
    let mut arriving = JoinSet::new();
    for number in 0..runs {
        let pause = Duration::from_millis(dice.below(300));
        arriving.spawn(hold(format!("lock-{number}"), ([127, 0, 0, 1], proxy.port()).into(), pause));
    }
    let mut holders = arriving.join_all().await;
    let mut rivals = JoinSet::new();
    for holder in &holders {
        rivals.spawn(wait_for(holder.name.clone(), others.address()));
    }
    // In line before anything happens.
    sleep(Duration::from_millis(200)).await;
    match fault {
        Fault::AnswerSwallowed => {
            proxy.set(Direction::Replies, Mode::Swallow);
            for holder in &mut holders {
                let given = json!({ "name": holder.name, "token": holder.lease["token"] });
                holder.client.send("/v1/extend", &given).await;
            }
            sleep(Duration::from_millis(100)).await;
            proxy.cut();
        }
        Fault::ConnectionCut => proxy.cut(),
        Fault::InstanceKilled => theirs.kill(),
        Fault::InstancePaused => theirs.process().pause(),
    }
    let (mut kept, mut least, mut most) = (0, Duration::MAX, Duration::ZERO);
    let served = rivals.join_all().await;
    if fault == Fault::InstancePaused {
        theirs.process().resume();
    }
    for (name, begun, lease) in served {
        let holder = holders.iter().find(|holder| holder.name == name).unwrap();
        let early = holder.valid_until.saturating_duration_since(begun);
        assert!(early.is_zero(), "{name}: another had it {early:?} before the end of what was told");
        let late = begun - holder.valid_until;
        assert!(late < Duration::from_millis(2 * TTL_MS), "{name}: nobody had it for {late:?}");
        (kept, least, most) = (kept + 1, least.min(late), most.max(late));
        // Nor is anything that the first instance does later to the next holder's harm.
        let given = json!({ "name": name, "token": lease["token"] });
        let answer = Client::connect(others.address()).await.post("/v1/extend", &given).await;
        assert_eq!(answer.status, 200, "{name}: {answer:?}");
    }
    assert_eq!(kept, runs);
    let (least, most) = (least.as_millis(), most.as_millis());
    format!("kept in {kept} of {runs} runs; the next one began {least} to {most} ms later")
}

async fn hold(name: String, address: std::net::SocketAddr, pause: Duration) -> Holder {
    sleep(pause).await;
    let mut client = Client::connect(address).await;
    let ask = json!({ "name": name, "ttl_ms": TTL_MS });
    loop {
        let sent = Instant::now();
        let answer = client.post("/v1/acquire", &ask).await;
        if answer.status == 200 {
            let told = |field: &str| Duration::from_millis(answer.body[field].as_u64().unwrap());
            let valid_until = sent + told("started_after_ms") + told("valid_ms");
            return Holder { name, client, lease: answer.body, valid_until };
        }
        // The nodes of a fleet are met one by one when it is first used.
        assert_eq!(answer.status, 503, "{answer:?}");
    }
}

/// Waits for a lock: its name, when it was asked for at the earliest, and the lease.
async fn wait_for(name: String, address: std::net::SocketAddr) -> (String, Instant, Value) {
    let mut client = Client::connect(address).await;
    let sent = Instant::now();
    let ask = json!({ "name": name, "ttl_ms": 10_000, "wait_ms": 30_000 });
    let answer: Answer = client.post("/v1/acquire", &ask).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    (name, begun(sent, &answer.body), answer.body)
}

/// When the nodes were asked for this lease, at the earliest.
pub(crate) fn begun(sent: Instant, lease: &Value) -> Instant {
    sent + Duration::from_millis(lease["started_after_ms"].as_u64().unwrap_or_else(|| panic!("{lease}")))
}
