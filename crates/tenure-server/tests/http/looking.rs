//! What can be seen of locks and nodes, and what cannot.

use serde_json::{Value, json};
use tenure::Faults;

use crate::client::Client;
use crate::everywhere::everywhere;
use crate::{Instance, given, nodes, service};

#[tokio::test]
async fn a_lock_is_seen_without_its_token() {
    let nodes = nodes();
    let instance = Instance::start(service(&nodes)).await;
    let mut client = Client::connect(instance.address).await;
    assert_eq!(client.get("/v1/lock?name=x").await.body["state"], json!("free"));
    let ask = json!({ "name": "x", "ttl_ms": 10_000, "label": "billing" });
    let lease = client.post("/v1/acquire", &ask).await.body;
    let seen = client.get("/v1/lock?name=x").await;
    assert_eq!(
        (seen.status, &seen.body["state"], &seen.body["label"]),
        (200, &json!("held"), &json!("billing"))
    );
    assert_eq!(seen.body["fence"], lease["fence"]);
    assert!(seen.body["left_ms"].as_u64().is_some_and(|left| (5_000..=11_000).contains(&left)));
    let owner = lease["token"].as_str().unwrap().split('.').nth(3).unwrap();
    assert!(owner.len() == 40 && !seen.body.to_string().contains(owner), "{seen:?}");
    // Every instance calls it the same, and the next holder otherwise.
    let other = Instance::start(service(&nodes)).await;
    let holder = Client::connect(other.address).await.get("/v1/lock?name=x").await.body["holder"].clone();
    assert!(holder.is_string() && holder == seen.body["holder"]);
    assert!(seen.body["nodes"].as_array().unwrap().iter().all(|node| node["holder"] == holder));
    client.post("/v1/release", &json!({ "name": "x", "token": lease["token"] })).await;
    client.post("/v1/acquire", &json!({ "name": "x" })).await;
    assert_ne!(client.get("/v1/lock?name=x").await.body["holder"], holder);
}

#[tokio::test]
async fn a_lock_is_told_alike_on_all_kinds_of_nodes() {
    everywhere(async |fleet| {
        let instance = Instance::start(fleet.service().await).await;
        let mut client = Client::connect(instance.address).await;
        let ask = json!({ "name": "x", "ttl_ms": 10_000, "label": "billing" });
        let lease = client.post("/v1/acquire", &ask).await.body;
        let mut waiter = Client::connect(instance.address).await;
        waiter.send("/v1/acquire", &json!({ "name": "x", "wait_ms": 20_000 })).await;
        let seen = loop {
            let seen = client.get("/v1/lock?name=x").await.body;
            if seen["waiters"] != json!(0) {
                break seen;
            }
        };
        let (nodes, agree) = (seen["nodes"].as_array().unwrap(), seen["agree"].as_array().unwrap());
        assert_eq!((&seen["state"], &seen["label"]), (&json!("held"), &json!("billing")), "{seen}");
        assert_eq!((&seen["fence"], &seen["waiters"]), (&lease["fence"], &json!(1)), "{seen}");
        assert_eq!((agree.len(), &seen["disagree"]), (nodes.len(), &json!([])), "{seen}");
        assert!(nodes.iter().all(|node| node["holder"] == seen["holder"] && node["votes"] == json!(true)));
        let listed = client.get("/v1/locks?prefix=x").await.body["locks"][0].clone();
        assert_eq!((&listed["state"], &listed["holder"]), (&json!("held"), &seen["holder"]), "{listed}");
    })
    .await;
}

/// One answer, and who says otherwise; no answer without a majority.
#[tokio::test]
async fn nodes_that_say_otherwise_or_nothing_are_named() {
    let nodes = nodes();
    let instance = Instance::start(service(&nodes)).await;
    let mut client = Client::connect(instance.address).await;
    // The node that did not hear of the release says otherwise, but is soon told again.
    let seen = loop {
        let lease = client.post("/v1/acquire", &json!({ "name": "x", "ttl_ms": 30_000 })).await.body;
        nodes[2].set_faults(Faults::silent());
        assert_eq!(client.post("/v1/release", &given(&lease)).await.status, 200);
        nodes[2].set_faults(Faults::none());
        let seen = client.get("/v1/lock?name=x").await.body;
        if seen["disagree"] != json!([]) {
            break seen;
        }
    };
    assert_eq!((&seen["state"], &seen["holder"]), (&json!("free"), &Value::Null), "{seen}");
    assert_eq!(seen["agree"].as_array().map(Vec::len), Some(2), "{seen}");
    assert_eq!(
        (&seen["disagree"], &seen["nodes"][2]["state"]),
        (&json!(["memory:c"]), &json!("held")),
        "{seen}"
    );
    nodes[..2].iter().for_each(|node| node.set_faults(Faults::unreachable()));
    let seen = client.get("/v1/lock?name=x").await;
    assert_eq!((seen.status, &seen.body["state"]), (200, &json!("unknown")), "{seen:?}");
    assert!(seen.body["nodes"][0]["error"].is_string(), "{seen:?}");
}

#[tokio::test]
async fn locks_are_listed_by_the_beginning_of_their_names() {
    let instance = Instance::start(service(&nodes())).await;
    let mut client = Client::connect(instance.address).await;
    for name in ["a/1", "a/2", "b"] {
        assert_eq!(client.post("/v1/acquire", &json!({ "name": name })).await.status, 200);
    }
    let names = |list: &Value| -> Vec<String> {
        let locks = list["locks"].as_array().unwrap().iter();
        locks.map(|lock| lock["name"].as_str().unwrap().to_owned()).collect()
    };
    let all = client.get("/v1/locks").await.body;
    assert_eq!(names(&all), ["a/1", "a/2", "b"]);
    assert_eq!(all["nodes"].as_array().map(Vec::len), Some(3));
    assert_eq!(names(&client.get("/v1/locks?prefix=a%2F").await.body), ["a/1", "a/2"]);
}

#[tokio::test]
async fn nodes_are_told_with_findings() {
    let instance = Instance::start(service(&nodes())).await;
    let mut client = Client::connect(instance.address).await;
    let told = client.get("/v1/nodes").await.body;
    let nodes = told["nodes"].as_array().unwrap();
    assert!(nodes.len() == 3 && nodes.iter().all(|node| node["votes"] == json!(true)), "{told}");
}

#[tokio::test]
async fn a_query_of_another_form_is_refused() {
    let instance = Instance::start(service(&nodes())).await;
    let mut client = Client::connect(instance.address).await;
    for (path, status, detail) in [
        ("/v1/lock", 400, "name"),
        ("/v1/lock?nme=x", 400, "nme"),
        ("/v1/lock?name=x&name=y", 400, "name"),
        ("/v1/lock?name=", 422, "name"),
        ("/v1/locks?after=x", 400, "after"),
    ] {
        let refused = client.get(path).await;
        assert_eq!(refused.status, status, "{path}: {refused:?}");
        assert!(refused.body["detail"].as_str().is_some_and(|said| said.contains(detail)), "{refused:?}");
    }
}

#[tokio::test]
async fn who_waits_and_in_which_deadlock_is_told() {
    let nodes = nodes();
    let instance = Instance::start(service(&nodes)).await;
    let mut client = Client::connect(instance.address).await;
    let [one, two] = [(); 2].map(|()| tenure::Locks::builder().nodes(&nodes).build().unwrap());
    let (a, b) = (one.lock("a").acquire().await.unwrap(), two.lock("b").acquire().await.unwrap());
    let wait = |locks: &tenure::Locks, name: &str, held: &tenure::Guard, who: &str| {
        tokio::spawn(locks.lock(name).while_holding(held).label_for(who).wait_forever().acquire())
    };
    let _one = wait(&one, "b", &a, "one");
    let seen = loop {
        let seen = client.get("/v1/lock?name=b").await.body;
        if seen["line"] != json!([]) {
            break seen;
        }
    };
    let waiter = &seen["line"][0];
    assert_eq!((&waiter["label"], &waiter["keeps"]), (&json!("one"), &json!(["a"])), "{seen}");
    assert_eq!((&waiter["shared"], &seen["deadlocks"]), (&json!(false), &json!([])), "{seen}");
    assert!(waiter["since_ms"].is_u64() && waiter["client"].is_string(), "{seen}");
    let _two = wait(&two, "a", &b, "two");
    let seen = loop {
        let seen = client.get("/v1/lock?name=b").await.body;
        if seen["deadlocks"] != json!([]) {
            break seen;
        }
    };
    let member = |who: &str, holds: &str, waits_for: &str| json!({ "label": who, "holds": holds, "waits_for": waits_for });
    assert_eq!(seen["deadlocks"], json!([[member("one", "a", "b"), member("two", "b", "a")]]));
}
