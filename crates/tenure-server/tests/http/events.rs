//! What happens to locks, followed by clients.

use std::time::Duration;

use serde_json::{Value, json};
use tenure_server::{Callers, Events, Service, Verb};
use tokio::time::timeout;

use crate::callers::ListFile;
use crate::client::Client;
use crate::everywhere::{Fleet, everywhere};
use crate::{Instance, given, keys};

/// One that reads events.
pub(crate) struct Reader {
    client: Client,
    /// What came and was not asked for yet.
    text: String,
    /// The id that the last message had.
    pub(crate) id: String,
}

impl Reader {
    pub(crate) async fn begin(
        instance: &Instance,
        path: &str,
        token: Option<&str>,
        last: Option<&str>,
    ) -> Self {
        let mut client = Client::connect(instance.address).await;
        if let Some(token) = token {
            client = client.token(token);
        }
        let header = last.map_or_else(String::new, |id| format!("Last-Event-ID: {id}\r\n"));
        client
            .write(&format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{}{header}\r\n", client.lines()))
            .await;
        let head = client.receive_head().await.to_ascii_lowercase();
        assert!(head.starts_with("http/1.1 200 "), "{head}");
        for header in ["content-type: text/event-stream", "cache-control: no-store", "x-accel-buffering: no"]
        {
            assert!(head.contains(header), "{head}");
        }
        Self { client, text: String::new(), id: String::new() }
    }

    /// The next message, as its kind and data; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<(String, Value)> {
        loop {
            while let Some((message, rest)) = self.text.split_once("\n\n") {
                let field = |name: &str| {
                    message
                        .lines()
                        .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
                        .map(str::to_owned)
                };
                let (id, kind, data) = (field("id"), field("event"), field("data"));
                self.text = rest.to_owned();
                if let Some(id) = id {
                    self.id = id;
                }
                if let (Some(kind), Some(data)) = (kind, data) {
                    return Some((kind, self.client.described(&data)));
                }
            }
            let chunk = timeout(Duration::from_secs(20), self.client.next_chunk()).await.expect("in time");
            self.text += &chunk?;
        }
    }

    /// The next message of this kind, about this lock.
    pub(crate) async fn expect(&mut self, kind: &str, name: &str) -> Value {
        loop {
            let (found, data) = self.next().await.expect("a message");
            if found == kind && data["name"] == name {
                return data;
            }
        }
    }

    /// Until it has heard where it is.
    pub(crate) async fn settle(mut self) -> Self {
        while self.id.is_empty() {
            let chunk = self.client.next_chunk().await.unwrap();
            self.text += &chunk;
            let greeting = self.text.lines().find_map(|line| line.strip_prefix("id: "));
            self.id = greeting.unwrap_or_default().to_owned();
        }
        self
    }
}

async fn service(fleet: &Fleet) -> Service {
    service_keeping(fleet, 1_000).await
}

pub(crate) async fn service_keeping(fleet: &Fleet, most: usize) -> Service {
    let events = Events::keeping(most);
    let observer = events.clone();
    let locks = fleet.observed(move |event| observer.observe(event)).await;
    Service::new(locks, keys('a')).events(events)
}

#[tokio::test]
async fn events_tell_what_becomes_of_a_lock() {
    everywhere(async |fleet| {
        let instance = Instance::start(service(fleet).await).await;
        let mut reader = Reader::begin(&instance, "/v1/events", None, None).await.settle().await;
        let mut client = Client::connect(instance.address).await;
        let ask = json!({ "name": "x", "ttl_ms": 5_000, "label": "nightly" });
        let lease = client.post("/v1/acquire", &ask).await.body;
        let acquired = reader.expect("acquired", "x").await;
        assert_eq!((&acquired["fence"], &acquired["attempts"]), (&lease["fence"], &json!(1)), "{acquired}");
        assert!(acquired["elapsed_ms"].is_u64() && acquired["time_ms"].is_u64(), "{acquired}");
        let refused = client.post("/v1/acquire", &json!({ "name": "x", "wait_ms": 300 })).await;
        assert_eq!(refused.status, 409);
        let waiting = reader.expect("waiting", "x").await;
        assert_eq!(
            (&waiting["ahead"], &waiting["waiters"], &waiting["label"]),
            (&json!(0), &json!(1), &json!("nightly"))
        );
        let not = reader.expect("not_acquired", "x").await;
        assert_eq!(not["cause"], json!("contended"), "{not}");
        let longer = client.post("/v1/extend", &given(&lease)).await.body;
        let extended = reader.expect("extended", "x").await;
        assert!(extended["valid_for_ms"].as_u64().unwrap() > 4_000, "{extended}");
        client.post("/v1/release", &given(&longer)).await;
        let end = reader.expect("given_up", "x").await;
        assert_eq!(end["fence"], lease["fence"], "{end}");
    })
    .await;
}

/// The release of another client, to one that waits at this instance: the event has the time by the
/// node's clock. What was free has none.
#[tokio::test]
async fn an_acquisition_tells_how_long_the_lock_took_from_the_holder_before() {
    everywhere(async |fleet| {
        let instance = Instance::start(service(fleet).await).await;
        let mut reader = Reader::begin(&instance, "/v1/events", None, None).await.settle().await;
        let mut client = Client::connect(instance.address).await;
        let others = fleet.observed(|_| {}).await;
        // On a busy machine the waiter may come too late for what was set aside.
        for tries in 0.. {
            let held = others.lock("x").acquire().await.unwrap();
            let releasing = async {
                reader.expect("waiting", "x").await;
                held.release().await.unwrap();
            };
            let ask = json!({ "name": "x", "wait_ms": 20_000 });
            let (given_now, ()) = tokio::join!(client.post("/v1/acquire", &ask), releasing);
            let acquired = reader.expect("acquired", "x").await;
            client.post("/v1/release", &given(&given_now.body)).await;
            if let Some(after) = acquired.get("passed_on_after_ms") {
                assert!(after.as_u64().unwrap() <= 200, "{acquired}");
                break;
            }
            assert!(tries < 20, "{acquired}");
        }
        let free = client.post("/v1/acquire", &json!({ "name": "y" })).await.body;
        let acquired = reader.expect("acquired", "y").await;
        assert_eq!(acquired.get("passed_on_after_ms"), None, "{acquired}");
        client.post("/v1/release", &given(&free)).await;
    })
    .await;
}

#[tokio::test]
async fn whoever_comes_back_goes_on_where_it_was_or_hears_of_a_gap() {
    let fleet = Fleet::memory();
    let [one, other] =
        [Instance::start(service(&fleet).await).await, Instance::start(service(&fleet).await).await];
    let mut client = Client::connect(one.address).await;
    let mut reader = Reader::begin(&one, "/v1/events", None, None).await.settle().await;
    assert_eq!(client.post("/v1/acquire", &json!({ "name": "a" })).await.status, 200);
    reader.expect("acquired", "a").await;
    let seen = reader.id.clone();
    drop(reader);
    assert_eq!(client.post("/v1/acquire", &json!({ "name": "b" })).await.status, 200);
    let mut reader = Reader::begin(&one, "/v1/events", None, Some(&seen)).await;
    let (kind, data) = reader.next().await.unwrap();
    assert_eq!((kind.as_str(), &data["name"]), ("acquired", &json!("b")), "nothing is told twice or missed");

    for last in [seen.as_str(), "nonsense", "00000000-1"] {
        let mut reader = Reader::begin(&other, "/v1/events", None, Some(last)).await;
        let gap = json!({ "reason": "other_instance", "missed": null });
        assert_eq!(reader.next().await, Some(("gap".to_owned(), gap)));
    }
    // An instance that ends lets its readers go.
    other.stop().await;
    one.stop().await;
    while reader.next().await.is_some() {}
}

#[tokio::test]
async fn only_names_that_the_caller_may_read_and_asked_for_are_told() {
    let file = ListFile::new();
    let all = file.add("all", &[Verb::Read, Verb::Lock], &[], None);
    let some = file.add("some", &[Verb::Read], &["a/"], None);
    let none = file.add("none", &[Verb::Lock], &[], None);
    let fleet = Fleet::memory();
    let service = service(&fleet).await.callers(Callers::read(&file.path()).unwrap());
    let instance = Instance::start(service).await;
    let mut some = Reader::begin(&instance, "/v1/events", Some(&some), None).await.settle().await;
    let mut prefix =
        Reader::begin(&instance, "/v1/events?prefix=b%2F", Some(&all), None).await.settle().await;
    let mut client = Client::connect(instance.address).await.token(&all);
    for name in ["b/1", "c", "a/1", "b/2"] {
        assert_eq!(client.post("/v1/acquire", &json!({ "name": name })).await.status, 200);
    }
    assert_eq!(some.next().await.unwrap().1["name"], json!("a/1"));
    assert_eq!(prefix.next().await.unwrap().1["name"], json!("b/1"));
    assert_eq!(prefix.next().await.unwrap().1["name"], json!("b/2"));
    let refused = Client::connect(instance.address).await.token(&none).get("/v1/events").await;
    assert_eq!((refused.status, &refused.body["type"]), (403, &json!("urn:tenure:forbidden")), "{refused:?}");
    let refused = client.get("/v1/events?after=1").await;
    assert_eq!(
        (refused.status, &refused.body["type"]),
        (400, &json!("urn:tenure:bad-request")),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_deadlock_is_told_only_to_those_who_may_read_all_its_names() {
    let file = ListFile::new();
    let all = file.add("all", &[Verb::Read, Verb::Lock], &[], None);
    let some = file.add("some", &[Verb::Read], &["a/"], None);
    let fleet = Fleet::memory();
    let service = service(&fleet).await.callers(Callers::read(&file.path()).unwrap());
    let instance = Instance::start(service).await;
    let mut some = Reader::begin(&instance, "/v1/events", Some(&some), None).await.settle().await;
    let mut every = Reader::begin(&instance, "/v1/events", Some(&all), None).await.settle().await;
    let mut client = Client::connect(instance.address).await.token(&all);
    let (one, two) = (json!({ "name": "a/1", "ttl_ms": 20_000 }), json!({ "name": "b", "ttl_ms": 20_000 }));
    let (one, two) =
        (client.post("/v1/acquire", &one).await.body, client.post("/v1/acquire", &two).await.body);
    let (address, token) = (instance.address, all.as_str());
    let wait = async |name: &str, lease: &Value| {
        let mut client = Client::connect(address).await.token(token);
        client
            .post("/v1/acquire", &json!({ "name": name, "wait_ms": 4_000, "holding": [lease["held"]] }))
            .await
    };
    let told = async {
        every.expect("deadlock", "a/1").await;
        assert_eq!(client.post("/v1/acquire", &json!({ "name": "a/2" })).await.status, 200);
    };
    tokio::join!(wait("a/1", &two), wait("b", &one), told);
    loop {
        let (kind, data) = some.next().await.unwrap();
        assert_ne!(kind, "deadlock", "{data}");
        if data["name"] == "a/2" {
            break;
        }
    }
}

/// Nobody waits for a reader, and one that was overtaken hears how much it missed.
#[tokio::test]
async fn whoever_comes_back_too_late_is_told_how_much_it_missed() {
    let fleet = Fleet::memory();
    let instance = Instance::start(service_keeping(&fleet, 5).await).await;
    let reader = Reader::begin(&instance, "/v1/events", None, None).await.settle().await;
    let (seen, mut client) = (reader.id.clone(), Client::connect(instance.address).await);
    drop(reader);
    for number in 0..12 {
        assert_eq!(client.post("/v1/acquire", &json!({ "name": format!("x{number}") })).await.status, 200);
    }
    let mut reader = Reader::begin(&instance, "/v1/events", None, Some(&seen)).await;
    let (kind, gap) = reader.next().await.unwrap();
    assert_eq!((kind.as_str(), &gap), ("gap", &json!({ "reason": "too_old", "missed": 7 })));
    for number in 7..12 {
        assert_eq!(reader.next().await.unwrap().1["name"], json!(format!("x{number}")));
    }
}
