//! The end of an instance, and whether it lives until then.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use tenure::Faults;
use tokio::runtime::Builder;
use tokio::time::sleep;

use crate::client::Client;
use crate::{Instance, given, nodes, service};

/// Whoever has a connection gets an answer, is told to come no more, and can still extend and
/// release.
#[tokio::test]
async fn those_who_are_there_are_served_and_told_to_come_no_more() {
    let instance = Instance::start(service(&nodes())).await;
    let mut clients = vec![];
    for number in 0..4 {
        let mut client = Client::connect(instance.address).await;
        let lease = client.post("/v1/acquire", &json!({ "name": format!("x{number}") })).await;
        assert_eq!((lease.status, lease.header("connection")), (200, None));
        clients.push((client, lease.body));
    }
    let begun = Instant::now();
    instance.end.send(()).unwrap();
    sleep(Duration::from_millis(50)).await;
    let mut newcomer = Client::connect(instance.address).await;
    let unready = newcomer.get("/readyz").await;
    assert_eq!((unready.status, unready.header("connection").as_deref()), (503, Some("close")));
    for (number, (client, lease)) in clients.iter_mut().enumerate() {
        let (path, status) =
            [("/v1/acquire", 503), ("/v1/extend", 200), ("/v1/release", 200), ("/livez", 200)][number];
        let answer = match path {
            "/v1/acquire" => client.post(path, &json!({ "name": "y" })).await,
            "/livez" => client.get(path).await,
            _ => client.post(path, &given(lease)).await,
        };
        assert_eq!(
            (answer.status, answer.header("connection").as_deref()),
            (status, Some("close")),
            "{answer:?}"
        );
        assert!(client.is_closed_within(Duration::from_secs(1)).await);
    }
    drop((clients, newcomer));
    instance.ended.await.unwrap().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(1), "nobody is left: {:?}", begun.elapsed());
}

#[tokio::test]
async fn the_end_takes_no_longer_than_it_may() {
    let instance = Instance::start(service(&nodes()).drain_max(Duration::from_millis(300))).await;
    let mut slow = Client::connect(instance.address).await;
    slow.write("POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{").await;
    sleep(Duration::from_millis(50)).await;
    let begun = Instant::now();
    instance.end.send(()).unwrap();
    let cut_off = instance.ended.await.unwrap().unwrap_err();
    assert_eq!(cut_off.connections, 1);
    assert!((250..1_000).contains(&begun.elapsed().as_millis()), "{:?}", begun.elapsed());
}

/// The watchdog hears of it while the service serves, whatever the nodes do, and hears nothing
/// while its runtime is stuck.
#[test]
fn a_watchdog_is_fed_as_long_as_the_service_serves() {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (nodes, fed) = (nodes(), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&fed);
    let fed = || fed.load(Ordering::Relaxed);
    let _instance = runtime.block_on(async {
        let every = Duration::from_millis(20);
        Instance::start(service(&nodes).watchdog(every, move || {
            count.fetch_add(1, Ordering::Relaxed);
        }))
        .await
    });
    let until_fed = |more: usize| {
        let (before, limit) = (fed(), Instant::now() + Duration::from_secs(10));
        while fed() < before + more {
            assert!(Instant::now() < limit, "it is not fed");
            thread::sleep(Duration::from_millis(5));
        }
    };
    until_fed(5);
    nodes.iter().for_each(|node| node.set_faults(Faults::unreachable()));
    until_fed(5);
    let (stuck, is_stuck) = channel();
    runtime.spawn(async move {
        stuck.send(()).unwrap();
        thread::sleep(Duration::from_millis(600));
    });
    is_stuck.recv().unwrap();
    let last = fed();
    thread::sleep(Duration::from_millis(300));
    assert_eq!(fed(), last, "nobody is served");
    until_fed(1);
}
