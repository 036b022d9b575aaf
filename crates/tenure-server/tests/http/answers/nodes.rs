//! What nodes lead to that do not do as they should.

use std::time::Duration;

use serde_json::{Value, json};
use tenure::Event;
use tenure_server::{Callers, Service, Verb};
use tenure_testkit::{MovedClock, RedisServer};

use super::LOOKS;
use super::asking::Asking;
use super::described::Seen;
use crate::callers::ListFile;
use crate::everywhere::{Fleet, MadeOf};
use crate::{Instance, given, keys};

/// One that has forgotten locks does not vote for a while; one that throws some away is named.
pub(super) async fn that_forget(fleet: &Fleet, seen: &mut Seen) {
    if let MadeOf::Servers(servers) = fleet.made_of() {
        let server = &servers.lock().unwrap()[1];
        server.execute(&["CONFIG", "SET", "maxmemory", "100mb", "maxmemory-policy", "allkeys-lru"]);
    }
    let instance = Instance::start(fleet.service().await).await;
    fleet.forget_on_one();
    let mut one = Asking::new(instance.address, seen);
    one.gets("POST /v1/acquire", json!({ "name": "n" }), "200 -").await;
    one.gets("GET /v1/nodes", Value::Null, "200 -").await;
}

/// From then on they answer nobody.
pub(super) async fn that_answer_too_late_or_not_at_all(fleet: &Fleet, seen: &mut Seen) {
    let file = ListFile::new();
    let token = file.add("ops", &[Verb::Read, Verb::Lock, Verb::Force], &[], None);
    // The nodes grant it, but the machine stands still until it is over.
    let pause = |event: &Event<'_>| {
        if let Event::Acquired { name: "late", .. } = event {
            std::thread::sleep(Duration::from_millis(450));
        }
    };
    let service = Service::new(fleet.observed(pause).await, keys('a'));
    let instance = Instance::start(service.callers(Callers::read(&file.path()).unwrap())).await;
    let mut one = Asking::new(instance.address, seen);
    one.lines = format!("Authorization: Bearer {token}\r\n");
    let lease = one.gets("POST /v1/acquire", json!({ "name": "u" }), "200 -").await;
    let late = json!({ "name": "late", "ttl_ms": 400 });
    one.each_gets(&["POST /v1/acquire", "POST /v1/hold"], &late, "503 too-late").await;
    fleet.break_down();
    one.each_gets(&["POST /v1/acquire", "POST /v1/hold"], &json!({ "name": "z" }), "503 unavailable").await;
    one.each_gets(&["POST /v1/extend", "POST /v1/release"], &given(&lease), "503 unavailable").await;
    let force = json!({ "name": "u", "holder": "h", "reason": "r" });
    one.gets("POST /v1/force-release", force, "503 unavailable").await;
    one.each_gets(&LOOKS[5..8], &Value::Null, "200 -").await;
}

pub(super) async fn whose_clocks_were_set_back(seen: &mut Seen) {
    let clock = MovedClock::new();
    clock.step(7_200_000);
    let fleet = Fleet::servers((0..5).map(|_| RedisServer::start_with_clock(&clock, &[])));
    let instance = Instance::start(fleet.service().await).await;
    let mut one = Asking::new(instance.address, seen);
    let lease = one.gets("POST /v1/acquire", json!({ "name": "x" }), "200 -").await;
    one.gets("POST /v1/release", given(&lease), "200 -").await;
    clock.correct();
    let instance = Instance::start(fleet.service().await).await;
    one.address = instance.address;
    let asks = json!({ "name": "x" });
    one.each_gets(&["POST /v1/acquire", "POST /v1/hold"], &asks, "503 clocks-set-back").await;
}
