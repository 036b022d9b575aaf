//! The same on five Redis servers and on the embedded store, with instances that come and go.

use std::time::Duration;

use serde_json::{Value, json};
use tenure::{Locks, Node};
use tenure_server::Service;
use tenure_testkit::RedisServer;
use tokio::time::{Instant, sleep};

use crate::client::Client;
use crate::{Instance, given, keys};

async fn instance(urls: &[String]) -> Instance {
    let nodes = urls.iter().map(|url| Node::parse(url).unwrap());
    let locks = Locks::builder().nodes(nodes).build().unwrap();
    locks.ready().await;
    Instance::start(Service::new(locks, keys('a'))).await
}

/// Acquired at one instance, which is killed; extended at the second; released at the third, for
/// which somebody waits at the second.
async fn goes_from_one_to_the_next(urls: &[String]) {
    let [first, second, third] = [instance(urls).await, instance(urls).await, instance(urls).await];
    let lease = Client::connect(first.address).await.post("/v1/acquire", &json!({ "name": "x" })).await;
    assert_eq!(lease.status, 200, "{lease:?}");
    first.ended.abort();
    let longer = Client::connect(second.address).await.post("/v1/extend", &given(&lease.body)).await;
    assert_eq!((longer.status, &longer.body["fence"]), (200, &lease.body["fence"]), "{longer:?}");
    let mut waiter = Client::connect(second.address).await;
    waiter.send("/v1/acquire", &json!({ "name": "x", "wait_ms": 20_000 })).await;
    sleep(Duration::from_millis(200)).await;
    let end = Client::connect(third.address).await.post("/v1/release", &given(&longer.body)).await;
    assert_eq!(end.status, 200, "{end:?}");
    let next = waiter.receive().await;
    assert_eq!(next.status, 200, "{next:?}");
    let fence = |lease: &Value| lease["fence"].as_u64().unwrap();
    assert!(fence(&next.body) > fence(&lease.body), "fences grow");
}

#[tokio::test]
async fn a_lease_goes_from_instance_to_instance_on_five_servers() {
    let servers: [RedisServer; 5] = RedisServer::start_many(&[]);
    goes_from_one_to_the_next(&servers.each_ref().map(RedisServer::url)).await;
}

#[tokio::test]
async fn a_lease_goes_from_instance_to_instance_on_the_embedded_store() {
    let folder = tempfile::tempdir().unwrap();
    goes_from_one_to_the_next(&[format!("sqlite:{}", folder.path().join("locks.db").display())]).await;
}

/// A token counts the nodes that had answered when it was made, so an answer waits for those that
/// are a little slower: otherwise a lease would end with the first of them that fails.
#[tokio::test]
async fn a_lease_outlives_two_of_five_nodes() {
    let mut servers: [RedisServer; 5] = RedisServer::start_many(&[]);
    let instance = instance(&servers.each_ref().map(RedisServer::url)).await;
    let mut client = Client::connect(instance.address).await;
    let mut leases = vec![];
    for number in 0..20 {
        let ask = json!({ "name": format!("x{number}"), "ttl_ms": 30_000 });
        let lease = client.post("/v1/acquire", &ask).await.body;
        if lease["margin"] == json!(2) {
            leases.push(given(&lease));
        }
    }
    // A busy machine may hold up some of them.
    assert!(leases.len() >= 5, "{leases:?}");
    servers[0].kill();
    servers[3].kill();
    let extended = client.post("/v1/extend-many", &json!({ "leases": leases })).await;
    for result in extended.body["results"].as_array().unwrap() {
        assert_eq!(result["margin"], json!(0), "{result}");
    }
}

/// Clients that are cut off while they wait, at whichever moment, leave no entry in line and no key
/// but those of leases that were on their way to them, which end by themselves.
#[tokio::test]
async fn clients_that_are_cut_off_at_any_moment_leave_nothing_behind() {
    let servers: [RedisServer; 3] = RedisServer::start_many(&[]);
    let urls = servers.each_ref().map(RedisServer::url);
    let instance = instance(&urls).await;
    let cut_off = |number: u64| async move {
        let mut client = Client::connect(instance.address).await;
        client.send("/v1/acquire", &json!({ "name": "x", "ttl_ms": 500, "wait_ms": 30_000 })).await;
        // Spread over what a few of them take, by a number without a pattern.
        sleep(Duration::from_micros(number * 7_919 % 40_000)).await;
    };
    let clients: Vec<_> = (0..200).map(|number| tokio::spawn(cut_off(number))).collect();
    for client in clients {
        client.await.unwrap();
    }
    let begun = Instant::now();
    let mut last = Client::connect(instance.address).await;
    let lease = last.post("/v1/acquire", &json!({ "name": "x", "wait_ms": 20_000 })).await;
    assert_eq!(lease.status, 200, "{lease:?}");
    // A lease that was on its way ends with its ttl and the guard band.
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    assert_eq!(last.post("/v1/release", &given(&lease.body)).await.status, 200);
    let left = |server: &RedisServer| {
        let keys = server.keys().into_iter();
        keys.filter(|key| key.starts_with("tenure:") || key.contains("queue:")).collect::<Vec<_>>()
    };
    let limit = Instant::now() + Duration::from_secs(5);
    while servers.iter().any(|server| !left(server).is_empty()) {
        assert!(Instant::now() < limit, "{:?}", servers.each_ref().map(left));
        sleep(Duration::from_millis(20)).await;
    }
}
