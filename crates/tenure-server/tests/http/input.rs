//! What bad input gets: a status, a type that stays, and a sentence that says what is wrong.

use serde_json::{Value, json};

use crate::client::{Answer, Client};
use crate::{Instance, nodes, service};

async fn answer(method: &str, path: &str, kind: &str, body: &str) -> Answer {
    let instance = Instance::start(service(&nodes())).await;
    let mut client = Client::connect(instance.address).await;
    client.send_text(method, path, kind, body).await;
    client.receive().await
}

/// Status, type and a part of the detail.
async fn is(path: &str, body: &str, status: u16, kind: &str, detail: &str) {
    let answer = answer("POST", path, "application/json", body).await;
    assert_eq!(
        (answer.status, &answer.body["type"]),
        (status, &json!(format!("urn:tenure:{kind}"))),
        "{body}: {answer:?}"
    );
    assert_eq!(answer.body["status"], json!(status));
    assert!(
        answer.head.to_ascii_lowercase().contains("content-type: application/problem+json"),
        "{}",
        answer.head
    );
    let said = answer.body["detail"].as_str().unwrap();
    assert!(said.contains(detail), "{body}: {said}");
}

#[tokio::test]
async fn a_body_of_another_form_is_refused_with_the_field() {
    for (body, detail) in [
        ("", "EOF"),
        ("{", "EOF"),
        ("[]", "invalid"),
        ("{} x", "trailing characters"),
        ("{}", "send one lock as `name`"),
        (r#"{"name":"x","names":["y"]}"#, "send one lock as `name`"),
        (r#"{"name":"x"} x"#, "trailing characters"),
        (r#"{"name":"x","tll_ms":1}"#, "unknown field `tll_ms`"),
        (r#"{"name":"x","name":"y"}"#, "duplicate field `name`"),
        (r#"{"name":"x","ttl_ms":"1"}"#, "ttl_ms: invalid type"),
        (r#"{"name":"x","ttl_ms":-1}"#, "ttl_ms: invalid value"),
        (r#"{"name":7}"#, "name: invalid type"),
    ] {
        is("/v1/acquire", body, 400, "bad-request", detail).await;
    }
    is("/v1/extend", r#"{"name":"x"}"#, 400, "bad-request", "missing field `token`").await;
}

#[tokio::test]
async fn values_outside_of_their_limits_are_refused_with_the_limit() {
    for (body, detail) in [
        (r#"{"name":""}"#, "name"),
        (r#"{"name":"x","ttl_ms":1}"#, "too short"),
        (r#"{"name":"x","ttl_ms":99999999}"#, "too long"),
        (r#"{"name":"x","wait_ms":99999999}"#, "3600000"),
        (r#"{"name":"x","min_margin":9}"#, "min_margin"),
        (&json!({ "name": "x", "label": "l".repeat(300) }).to_string(), "label"),
        (&json!({ "name": "n".repeat(9_000) }).to_string(), "name"),
    ] {
        is("/v1/acquire", body, 422, "out-of-bounds", detail).await;
    }
}

#[tokio::test]
async fn a_token_that_is_damaged_is_refused_and_not_repeated() {
    let body = json!({ "name": "x", "token": "s3cret" }).to_string();
    is("/v1/release", &body, 400, "bad-token", "damaged").await;
    let refused = answer("POST", "/v1/release", "application/json", &body).await;
    assert!(!refused.body.to_string().contains("s3cret"));
}

#[tokio::test]
async fn what_is_no_call_says_so() {
    let large = json!({ "name": "n".repeat(20_000) }).to_string();
    for (method, path, kind, body, status, problem) in [
        ("POST", "/v1/acquire", "text/plain", "{}", 415, "not-json"),
        ("POST", "/v1/acquire", "application/json", &large, 413, "too-large"),
        ("GET", "/v1/acquire", "application/json", "", 405, "wrong-method"),
        ("POST", "/v1/nothing", "application/json", "{}", 404, "no-such-call"),
    ] {
        let refused = answer(method, path, kind, body).await;
        let expected = (status, json!(format!("urn:tenure:{problem}")));
        assert_eq!((refused.status, refused.body["type"].clone()), expected, "{refused:?}");
    }
    let charset = answer("POST", "/v1/acquire", "application/json; charset=utf-8", r#"{"name":"x"}"#).await;
    assert_eq!(charset.status, 200, "{charset:?}");
}

#[tokio::test]
async fn an_instance_tells_that_it_lives() {
    let instance = Instance::start(service(&nodes())).await;
    let mut client = Client::connect(instance.address).await;
    for (path, body) in [
        ("/livez", json!({ "alive": true })),
        ("/readyz", json!({ "ready": true })),
        ("/version", json!({ "version": env!("CARGO_PKG_VERSION") })),
    ] {
        let answer = client.get(path).await;
        assert_eq!((answer.status, answer.body), (200, body));
    }
    let _: Value = client.get("/livez").await.body;
}
