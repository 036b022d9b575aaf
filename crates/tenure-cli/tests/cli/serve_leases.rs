//! Leases that go from one `tenure serve` to the next.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tenure_testkit::MovedClock;

use crate::deployment::{deployments, five_redis_nodes};
use crate::serve::Serving;

/// Name and token, as a client sends them back.
fn given(lease: &Value) -> Value {
    json!({ "name": lease["name"], "token": lease["token"] })
}

#[test]
fn a_lease_is_extended_and_released_elsewhere_when_its_instance_was_killed() {
    for deployment in deployments() {
        let [first, second, third] = std::array::from_fn(|_| Serving::start(&deployment, &[]));
        let key = deployment.write("other_key", &"b".repeat(64));
        std::fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
        let stranger = Serving::start(&deployment, &["--lease-key", "other_key"]);

        let (status, lease) = first.post("/v1/acquire", &json!({ "name": "x", "ttl_ms": 30_000 }));
        assert_eq!(status, 200, "{lease}");
        assert_eq!(first.end(Signal::SIGKILL), None, "it has no code of its own");
        let (status, longer) = second.post("/v1/extend", &given(&lease));
        assert_eq!((status, &longer["fence"]), (200, &lease["fence"]), "{longer}");
        let (status, refused) = stranger.post("/v1/release", &given(&longer));
        assert_eq!((status, &refused["type"]), (401, &json!("urn:tenure:unknown-key")), "{refused}");
        assert!(
            refused["detail"].as_str().unwrap().contains("give all instances the same lease_key"),
            "{refused}"
        );
        let (status, end) = third.post("/v1/release", &given(&longer));
        assert_eq!((status, &end["released"]), (200, &json!(true)), "{end}");
        let (status, next) = stranger.post("/v1/acquire", &json!({ "name": "x" }));
        assert_eq!(status, 200, "{next}");
    }
}

/// One instance runs an hour ahead, one an hour behind, and one is set back while it runs.
#[test]
fn the_limit_on_a_hold_counts_by_the_clock_of_the_nodes() {
    let deployment = five_redis_nodes();
    let clocks: [MovedClock; 3] = std::array::from_fn(|_| MovedClock::new());
    clocks[0].step(3_600_000);
    clocks[1].step(-3_600_000);
    let instances = clocks.each_ref().map(|clock| Serving::start_with_clock(&deployment, clock));
    clocks[2].step(-86_400_000);
    for first in &instances {
        let ask = json!({ "name": "x", "ttl_ms": 1_000, "max_hold_ms": 2_500 });
        let (begun, (status, lease)) = (Instant::now(), first.post("/v1/acquire", &ask));
        assert_eq!(status, 200, "{lease}");
        // The first token, again and again: it is no younger than the lease.
        let mut extended = 0;
        let refusal = 'held: loop {
            for instance in &instances {
                match instance.post("/v1/extend", &given(&lease)) {
                    (200, _) => extended += 1,
                    // A busy machine, on which nodes do not answer in time.
                    (503, _) => {}
                    (_, refusal) => break 'held refusal,
                }
                sleep(Duration::from_millis(200));
            }
        };
        assert_eq!(refusal["type"], json!("urn:tenure:max-hold"), "{refusal}");
        let held = begun.elapsed();
        assert!((Duration::from_millis(1_400)..Duration::from_millis(3_000)).contains(&held), "{held:?}");
        assert!(extended >= 2, "{extended}");
        assert_eq!(first.post("/v1/release", &given(&lease)).0, 200);
    }
}
