//! Ten thousand at one instance: those who wait cost little, and those who hold keep their locks.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tenure_testkit::RedisServer;
use tenure_testkit::certificates::Authority;
use tenure_testkit::http2::Client;
use tokio::runtime::Runtime;
use tokio::sync::{Mutex, watch};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::campaign::{Extent, campaign};
use crate::instances::{Instance, Nodes};
use crate::wire::{Wire, allow_connections};

/// Room for all of them, though one caller has it.
const ROOM: &str = "connections_max = 12_000\nacquires_max = 12_000\nacquires_per_caller = 12_000\n";

/// What a waiter may take, in idle connections.
const SHARE_MAX: f64 = 3.0;

/// A few connections fit into what the process has already: then this counts for an idle one.
const IDLE_KIB_MIN: f64 = 10.0;

/// How often a waiter asks at least, if it is behind another one of the same instance, and if not:
/// `docs/guarantees.md`.
const KEEPS_PLACE: Duration = Duration::from_secs(30);
const BACKSTOP: Duration = Duration::from_secs(2);

/// How long it may take until all are in line, and know their place.
const PATIENCE: Duration = Duration::from_secs(120);

/// So many come at the same time.
const AT_ONCE: usize = 100;
const PAUSE: Duration = Duration::from_millis(20);

/// So many holds share a connection that speaks HTTP/2.
const STREAMS: usize = 250;

#[test]
fn ten_thousand_who_wait_cost_little_memory_and_few_commands() {
    campaign("10,000 waiters", |extent, _| Runtime::new().unwrap().block_on(waiters(extent)));
}

#[test]
fn ten_thousand_who_hold_a_lock_by_a_connection_keep_it() {
    campaign("10,000 holds", |extent, _| Runtime::new().unwrap().block_on(holds(extent)));
}

async fn waiters(extent: Extent) -> String {
    let count = extent.of(500, 10_000);
    allow_connections(count);
    let nodes = Nodes::start_with(ROOM);
    let [idling, waited_at, held_at]: [Instance; 3] = nodes.instances();
    let idle = memory_of_each(&idling, count, async |mut wire| {
        assert_eq!(wire.post("extend", &Value::Null).await.0, 400);
        wire
    });
    let (idle, idlers) = idle.await;
    drop(idlers);
    let _holder = hold(held_at.address(), &json!({ "name": "x" })).await;
    let ask = json!({ "name": "x", "wait_ms": 3_600_000 });
    let in_line = |server: &RedisServer| server.execute(&["ZCARD", "tenure~queue:{tenure:x}"]);
    let waiting = memory_of_each(&waited_at, count, async |mut wire| {
        wire.send("acquire", &ask.to_string()).await;
        wire
    });
    let (waiting, waiters) = waiting.await;
    let all = tenure_testkit::Value::Int(i64::try_from(count).unwrap());
    let deadline = Instant::now() + PATIENCE;
    while nodes.servers.iter().any(|server| in_line(server) != all) {
        assert!(Instant::now() < deadline, "{:?}", nodes.servers.each_ref().map(in_line));
        sleep(PAUSE).await;
    }
    let stated = count as f64 / KEEPS_PLACE.as_secs_f64() + 1.0 / BACKSTOP.as_secs_f64();
    let calls = || nodes.servers.iter().map(|server| server.calls("evalsha")).max().unwrap();
    // It takes a while until everybody knows its place.
    let asked = loop {
        let (before, since) = (calls(), Instant::now());
        sleep(extent.of(Duration::from_secs(2), KEEPS_PLACE * 2)).await;
        let asked = (calls() - before) as f64 / since.elapsed().as_secs_f64();
        if asked <= 1.25 * stated + 5.0 {
            break asked;
        }
        assert!(Instant::now() < deadline, "{asked:.1} scripts a second, and {stated:.1} are stated");
    };
    // What is not optimized takes more.
    let (share_max, idle_min) = extent.of((2.0 * SHARE_MAX, IDLE_KIB_MIN), (SHARE_MAX, 0.0));
    assert!(
        waiting <= share_max * idle.max(idle_min),
        "a waiter takes {waiting:.1} KiB, an idle connection {idle:.1}"
    );
    drop(waiters);
    format!(
        "{waiting:.1} KiB for each, {idle:.1} for an idle connection; each node executes {asked:.1} scripts a second, \
         {stated:.1} are stated"
    )
}

/// What each of so many connections makes an instance grow by, in KiB, when this was done on it.
async fn memory_of_each(
    instance: &Instance,
    count: usize,
    does: impl AsyncFn(Wire) -> Wire,
) -> (f64, Vec<Wire>) {
    let mut wires = vec![];
    // The first ones also make the instance ready.
    for _ in 0..AT_ONCE {
        wires.push(does(Wire::connect(instance.address()).await).await);
    }
    sleep(Duration::from_secs(1)).await;
    let before = instance.process().memory_kib();
    for number in AT_ONCE..count {
        wires.push(does(Wire::connect(instance.address()).await).await);
        if number % AT_ONCE == 0 {
            sleep(PAUSE).await;
        }
    }
    sleep(Duration::from_secs(2)).await;
    // The allocator may have given back more than it took.
    let grown = instance.process().memory_kib().saturating_sub(before);
    (grown as f64 / (count - AT_ONCE) as f64, wires)
}

async fn holds(extent: Extent) -> String {
    let (plain, streams) = extent.of((200, 50), (10_000, 1_000));
    let (ttl, ttls) = extent.of((Duration::from_secs(3), 2), (Duration::from_secs(10), 5));
    allow_connections(plain);
    let (nodes, authority) = (Nodes::start_with(ROOM), Authority::new());
    let [instance]: [Instance; 1] = nodes.instances();
    let encrypted = nodes.encrypted_instance(&authority.issue("own", &["127.0.0.1"]));
    let (begun, over) = (Arc::new(AtomicUsize::new(0)), watch::Sender::new(false));
    let holder = |number: usize| Holder {
        ask: json!({ "name": format!("lock-{number}"), "ttl_ms": ttl.as_millis() }),
        begun: Arc::clone(&begun),
        over: over.subscribe(),
        told: Told::default(),
    };
    let mut holders = JoinSet::new();
    for number in 0..plain {
        holders.spawn(holder(number).by_connection(instance.address()));
        if number % AT_ONCE == 0 {
            sleep(PAUSE).await;
        }
    }
    let connect = async || Client::connect(encrypted.address(), &authority.file(), "anybody").await;
    for group in (plain..plain + streams).collect::<Vec<_>>().chunks(STREAMS) {
        let client = Arc::new(Mutex::new(connect().await));
        for number in group {
            holders.spawn(holder(*number).by_stream(Arc::clone(&client)));
        }
    }
    while begun.load(Ordering::Relaxed) < plain + streams {
        assert!(holders.try_join_next().is_none());
        sleep(PAUSE).await;
    }
    let before = instance.process().cpu_time();
    sleep(ttl * ttls).await;
    let used = instance.process().cpu_time() - before;
    over.send_replace(true);
    let told = holders.join_all().await;
    let renewals: usize = told.iter().map(|told| told.renewals).sum();
    let least = told.iter().map(|told| told.renewals).min().unwrap_or_default();
    assert!(least >= usize::try_from(ttls).unwrap(), "one was renewed {least} times in {ttls} ttls");
    let at_risk: usize = told.iter().map(|told| told.at_risk).sum();
    let cpu = used.as_secs_f64() / (ttl * ttls).as_secs_f64();
    let memory = instance.process().memory_kib() as f64 / plain as f64;
    format!(
        "{plain} by HTTP/1.1 and {streams} by HTTP/2 renewed {renewals} times in {ttls} ttls of {ttl:?}, none lost, \
         {at_risk} at risk for a while; {:.0} % of a core and {memory:.1} KiB for each of the former",
        cpu * 100.0
    )
}

/// One who holds a lock until all have done so for long enough.
struct Holder {
    ask: Value,
    begun: Arc<AtomicUsize>,
    over: watch::Receiver<bool>,
    told: Told,
}

/// What it was told, and until when that is so.
#[derive(Default)]
struct Told {
    asked: Option<Instant>,
    end: Option<Instant>,
    renewals: usize,
    at_risk: usize,
}

impl Holder {
    async fn by_connection(mut self, address: SocketAddr) -> Told {
        loop {
            let (asked, mut wire) = hold(address, &self.ask).await;
            self.told.asked = Some(asked);
            while let Some(line) = self.next(wire.line()).await {
                if !self.hear(&line) {
                    break;
                }
            }
            if self.told.end.is_some() {
                return self.told;
            }
        }
    }

    async fn by_stream(mut self, client: Arc<Mutex<Client>>) -> Told {
        loop {
            self.told.asked = Some(Instant::now());
            let (answer, _stream) = client.lock().await.send("hold", &self.ask).await.unwrap();
            let answer = answer.await.unwrap();
            if answer.status() != 200 {
                sleep(PAUSE).await;
                continue;
            }
            let (mut body, mut input) = (answer.into_body(), vec![]);
            loop {
                let line = async {
                    while !input.ends_with(b"\n") {
                        let part = body.data().await?.ok()?;
                        let _ = body.flow_control().release_capacity(part.len());
                        input.extend_from_slice(&part);
                    }
                    let end = input.iter().position(|byte| *byte == b'\n')? + 1;
                    serde_json::from_slice(&input.drain(..end).collect::<Vec<u8>>()).ok()
                };
                match self.next(line).await {
                    Some(line) if self.hear(&line) => {}
                    Some(_) => {
                        sleep(PAUSE).await;
                        break;
                    }
                    None => return self.told,
                }
            }
        }
    }

    /// The next line, until it is over. Till then there must be one.
    async fn next(&mut self, line: impl Future<Output = Option<Value>>) -> Option<Value> {
        tokio::select! {
            _ = self.over.wait_for(|over| *over) => None,
            line = line => Some(line.expect("it goes on")),
        }
    }

    /// Whether it goes on. What is told counts from the time before the request, and nothing is
    /// told when the last of it is over.
    fn hear(&mut self, line: &Value) -> bool {
        let told = &mut self.told;
        assert!(told.end.is_none_or(|end| Instant::now() < end), "nothing was told in time: {line}");
        match (line["event"].as_str(), told.end) {
            (Some("acquired"), None) => drop(self.begun.fetch_add(1, Ordering::Relaxed)),
            (Some("renewed"), Some(_)) => told.renewals += 1,
            (Some("at_risk"), Some(_)) => told.at_risk += 1,
            // Nobody else wants it; but a machine that has too much to do may be late.
            (Some("waiting"), None) => return true,
            (_, None) => return false,
            _ => panic!("{line}"),
        }
        let of = |field: &str| Duration::from_millis(line["lease"][field].as_u64().unwrap());
        told.end = told.asked.map(|asked| asked + of("started_after_ms") + of("valid_ms"));
        true
    }
}

/// Asks until the lines of a hold come. Returns also when it was asked for.
async fn hold(address: SocketAddr, ask: &Value) -> (Instant, Wire) {
    loop {
        let (mut wire, asked) = (Wire::connect(address).await, Instant::now());
        wire.send("hold", &ask.to_string()).await;
        match wire.status().await {
            200 => return (asked, wire),
            status => assert_eq!(status, 503),
        }
        sleep(PAUSE).await;
    }
}
