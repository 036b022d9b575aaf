//! The clients of the documents stop in time: before anybody else can have the lock that they can
//! no longer extend.

use std::sync::mpsc::channel;
use std::thread::{Builder, current};
use std::time::{Duration, Instant};

use serde_json::json;
use tenure_testkit::{Direction, Mode, Proxy, http};
use tokio::runtime::Runtime;

use crate::counter::driver;
use crate::instances::{Instance, Nodes};
use crate::promises::begun;

const DRIVERS: [(&str, &str); 3] = [("python3", "hold.py"), ("node", "hold.mjs"), ("sh", "hold.sh")];

/// Does this with each client, all at once: nobody waits for the end of another's term.
fn with_each(test: impl Fn((&str, &str)) + Sync) {
    std::thread::scope(|scope| {
        for client in DRIVERS {
            // By its name a test is skipped where a language is missing.
            let thread = Builder::new().name(current().name().unwrap_or_default().to_owned());
            let test = &test;
            thread.spawn_scoped(scope, move || test(client)).unwrap();
        }
    });
}

#[test]
fn a_client_whose_service_is_gone_stops_before_another_gets_the_lock() {
    let runtime = Runtime::new().unwrap();
    with_each(|client| {
        let nodes = Nodes::start();
        let [mut theirs, others]: [Instance; 2] = nodes.instances();
        let mut client = driver(client, &[&format!("http://{}", theirs.address()), "3000"]);
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
    });
}

/// At the instance that gave it, and at another one: nobody waits for the end of a term that is its
/// own.
#[test]
fn a_client_whose_first_answer_was_lost_does_not_wait_for_its_own_lock() {
    let runtime = Runtime::new().unwrap();
    for elsewhere in [false, true] {
        with_each(|client| {
            let nodes = Nodes::start();
            let [instance, other]: [Instance; 2] = nodes.instances();
            let proxy = Proxy::start_forgetful(instance.port());
            proxy.set(Direction::Replies, Mode::Swallow);
            let mut client = driver(client, &[&format!("http://127.0.0.1:{}", proxy.port()), "30000"]);
            runtime.block_on(async {
                let mut looking = http::Client::connect(other.address()).await;
                while looking.get("/v1/lock?name=x").await.body["state"] != json!("held") {}
            });
            let lost = Instant::now();
            if elsewhere {
                proxy.lead_to(other.port());
            }
            proxy.set(Direction::Replies, Mode::Pass);
            assert_eq!(client.hear(), "held");
            assert!(lost.elapsed() < Duration::from_secs(20), "it waited for its own lock");
        });
    }
}

/// Whoever counted from the receipt of an answer would hold a lock that was over before.
#[test]
fn an_answer_that_is_held_up_for_longer_than_its_lock_lasts_is_none() {
    with_each(|client| {
        let nodes = Nodes::start();
        let [instance]: [Instance; 1] = nodes.instances();
        let proxy = Proxy::start_forgetful(instance.port());
        proxy.set(Direction::Replies, Mode::Delay(Duration::from_millis(1_500)));
        let mut client = driver(client, &[&format!("http://127.0.0.1:{}", proxy.port()), "1000"]);
        let (heard, words) = channel();
        client.hear_all(move |word| {
            // Nobody listens any more once it has the lock.
            let _ = heard.send((Instant::now(), word));
        });
        std::thread::sleep(Duration::from_secs(4));
        let passes = Instant::now();
        proxy.set(Direction::Replies, Mode::Pass);
        let (held, word) = words.recv().unwrap();
        assert!(word == "held" && held > passes, "{word}: it counted on a lock that was over");
    });
}
