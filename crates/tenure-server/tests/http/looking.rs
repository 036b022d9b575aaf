//! What can be seen of locks and nodes, and what cannot.

use serde_json::{Value, json};

use crate::client::Client;
use crate::{Instance, nodes, service};

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
