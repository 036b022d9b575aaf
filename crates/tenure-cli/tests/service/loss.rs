//! The clients of the documents stop in time: before anybody else can have the lock that they can
//! no longer extend.

use std::thread::{Builder, current};
use std::time::{Duration, Instant};

use serde_json::json;
use tenure_testkit::http;

use crate::counter::driver;
use crate::instances::{Instance, Nodes};
use crate::promises::begun;

const DRIVERS: [(&str, &str); 3] = [("python3", "hold.py"), ("node", "hold.mjs"), ("sh", "hold.sh")];

#[test]
fn a_client_whose_service_is_gone_stops_before_another_gets_the_lock() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    // Nobody waits for the end of another's term.
    std::thread::scope(|scope| {
        for client in DRIVERS {
            let runtime = &runtime;
            // By its name a test is skipped where a language is missing.
            let thread = Builder::new().name(current().name().unwrap_or_default().to_owned());
            let body = move || {
                let nodes = Nodes::start();
                let [mut theirs, others]: [Instance; 2] = nodes.instances();
                let mut client = driver(client, &[&format!("http://{}", theirs.address())]);
                assert_eq!(client.hear(), "held");
                // For longer than its term: it extends.
                std::thread::sleep(Duration::from_millis(3_500));
                let rival = runtime.spawn(async move {
                    let mut rival = http::Client::connect(others.address()).await;
                    let sent = Instant::now();
                    let ask = json!({ "name": "x", "wait_ms": 20_000 });
                    begun(sent, &rival.post("/v1/acquire", &ask).await.body)
                });
                theirs.kill();
                assert_eq!(client.hear(), "lost");
                let lost = Instant::now();
                assert!(client.succeeds(), "it says so by itself");
                let begun = runtime.block_on(rival).unwrap();
                assert!(lost <= begun, "another had the lock {:?} before", lost - begun);
            };
            thread.spawn_scoped(scope, body).unwrap();
        }
    });
}
