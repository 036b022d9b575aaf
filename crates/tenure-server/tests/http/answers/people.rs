//! People who log in to the dashboard.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tenure_server::{Callers, Service, Verb};

use super::asking::Asking;
use super::described::{Seen, answered};
use crate::callers::ListFile;
use crate::client::Client;
use crate::dashboard::{OWN_PAGE, cookie};
use crate::everywhere::Fleet;
use crate::{Instance, keys};

const CALLS: [&str; 3] = ["GET /v1/me", "POST /v1/log-in", "POST /v1/log-out"];

pub(super) async fn who_log_in(fleet: &Fleet, seen: &mut Seen) {
    let file = ListFile::new();
    let until = Timestamp::now() + SignedDuration::from_hours(1);
    let token = file.add("ann", &[Verb::Read], &["web/"], Some(until));
    let callers = Callers::read(&file.path()).unwrap();
    let service = Service::new(fleet.locks().await, keys('a')).callers(callers);
    let instance = Instance::start(service.silence_max(Duration::from_millis(500))).await;
    let mut one = Asking::new(instance.address, seen);
    one.lines = "Origin: https://evil.example\r\n".to_owned();
    one.each_gets(&CALLS, &json!({}), "403 web-page").await;
    one.lines = OWN_PAGE.to_owned();
    one.each_gets(&["GET /v1/me", "POST /v1/log-out"], &Value::Null, "401 unauthenticated").await;
    one.gets("POST /v1/log-in", json!({ "token": "tenure_0" }), "401 unauthenticated").await;
    one.gets_text("POST /v1/log-in", "text/plain", "{}", "415 not-json").await;
    one.gets("POST /v1/log-in", json!({}), "400 bad-request").await;
    one.gets("POST /v1/log-in", json!({ "token": "t".repeat(20_000) }), "413 too-large").await;
    one.gets("POST /v1/log-in", json!({ "token": token }), "200 -").await;

    let mut client = Client::connect(instance.address).await;
    client.send_with(OWN_PAGE, "/v1/log-in", &json!({ "token": token })).await;
    one.lines = format!("{OWN_PAGE}Cookie: {}\r\n", cookie(&client.receive().await));
    one.gets("GET /v1/me", Value::Null, "200 -").await;
    one.gets("POST /v1/log-out", Value::Null, "200 -").await;

    let head = "Host: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{";
    client.write(&format!("POST /v1/log-in HTTP/1.1\r\n{head}")).await;
    let slow = client.receive().await;
    let slow =
        answered("POST /v1/log-in", &slow.status.to_string(), slow.body["type"].as_str().unwrap_or("-"));
    one.seen.insert(slow);
}
