//! Looking at locks without touching them, on memory nodes and on real servers.

#[path = "support/servers.rs"]
mod support;

use std::collections::BTreeSet;

use support::*;
use tenure::*;
use tenure_testkit::RedisServer;

#[tokio::test]
async fn every_node_tells_who_has_a_lock() {
    let servers = servers::<3>();
    let locks = connect(&servers).await;
    let guard = locks.lock("x").ttl(secs(10)).acquire().await.unwrap();
    until("all three have it", || keys(&servers).len() == 3).await;
    servers[2].execute(&["SET", "tenure:x", "foreign"]);
    let told = locks.inspect("x").await.unwrap();
    let holdings: Vec<Holding> = told.iter().flat_map(|node| node.holdings.clone().unwrap()).collect();
    assert_eq!(
        told.iter().map(|node| &*node.node).collect::<Vec<_>>(),
        locks.node_addresses().collect::<Vec<_>>()
    );
    assert!(holdings.iter().all(|holding| &*holding.key == "tenure:x"));
    assert_eq!(holdings[0].owner, holdings[1].owner);
    assert!(holdings[0].left.unwrap() > secs(10) && holdings[0].left.unwrap() <= secs(11));
    assert_eq!((&*holdings[2].owner, holdings[2].left), ("foreign", None), "disagreement is shown");
    guard.release().await.unwrap();
    let free = locks.inspect("y").await.unwrap();
    assert!(free.iter().all(|node| node.holdings.as_ref().unwrap().is_empty()));
    assert!(matches!(locks.inspect("").await, Err(AcquireError::InvalidName { .. })));
}

#[tokio::test]
async fn a_node_that_does_not_answer_is_named() {
    let mut servers = servers::<3>();
    let locks = connect(&servers).await;
    servers[1].kill();
    tokio::time::sleep(ms(50)).await;
    let told = locks.inspect("x").await.unwrap();
    let answered: Vec<bool> = told.iter().map(|node| node.holdings.is_ok()).collect();
    assert_eq!(answered, [true, false, true]);
}

/// More than fit in one page, beside keys of other prefixes and kinds.
#[tokio::test]
async fn all_locks_under_the_prefix_are_listed() {
    let server = RedisServer::start(&[]);
    let locks = builder([server.url()]).prefix("a*b:").build().unwrap();
    server.execute(&["SET", "axb:other", "1"]);
    server.execute(&["HSET", "a*b:hash", "field", "1"]);
    let mut guards = vec![];
    for number in 0..350 {
        guards.push(locks.lock(number.to_string()).acquire().await.unwrap());
    }
    let told = locks.list().await.unwrap();
    let listed: BTreeSet<String> =
        told[0].holdings.as_ref().unwrap().iter().map(|holding| holding.key.to_string()).collect();
    assert_eq!(listed, (0..350).map(|number| format!("a*b:{number}")).collect());
}

#[tokio::test(start_paused = true)]
async fn memory_nodes_tell_as_well() {
    let nodes = ["a", "b"].map(MemoryNode::new);
    let locks = Locks::builder().nodes(&nodes).tokio_time().build().unwrap();
    let _guards = [locks.lock("x").acquire().await.unwrap(), locks.lock("y").acquire().await.unwrap()];
    let told = locks.list().await.unwrap();
    assert!(told.iter().all(|node| node.holdings.as_ref().unwrap().len() == 2));
    nodes[1].set_faults(Faults::silent());
    let told = locks.inspect("x").await.unwrap();
    assert_eq!(told[0].holdings.as_ref().unwrap().len(), 1);
    assert_eq!(told[1].holdings, Err(Fault::Timeout));
}
