//! A live view of locks and nodes.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use tenure_server::{Callers, Service, Verb};
use tenure_testkit::{CommandCount, RedisServer};
use tokio::time::{Instant, sleep, timeout};

use crate::callers::ListFile;
use crate::client::Client;
use crate::events::{Reader, service_keeping};
use crate::everywhere::{Fleet, everywhere};
use crate::{Instance, given, keys};

/// What a page shows that follows the view.
struct Page {
    reader: Reader,
    rows: BTreeMap<String, Value>,
    last: BTreeMap<String, Value>,
}

impl Page {
    async fn open(instance: &Instance, path: &str, token: Option<&str>) -> Self {
        let reader = Reader::begin(instance, path, token, None).await;
        Self { reader, rows: BTreeMap::new(), last: BTreeMap::new() }
    }

    /// Follows until this is true.
    async fn until(&mut self, what: &str, is_true: impl Fn(&Self) -> bool) {
        let begun = Instant::now();
        while !is_true(self) {
            assert!(
                begun.elapsed() < Duration::from_secs(30),
                "still not {what}: {:?} {:?}",
                self.rows,
                self.last
            );
            let next = timeout(Duration::from_secs(20), self.reader.next()).await;
            let (event, data) = next.unwrap_or_else(|_| panic!("nothing comes, and not {what}")).unwrap();
            self.take(&event, data);
        }
    }

    fn take(&mut self, event: &str, data: Value) {
        let list = |field: &str| data[field].as_array().cloned().unwrap_or_default();
        let name = |row: &Value| row["name"].as_str().unwrap().to_owned();
        for row in list("rows").into_iter().chain(list("added")).chain(list("changed")) {
            self.rows.insert(name(&row), row);
        }
        for row in list("extended") {
            self.rows.get_mut(&name(&row)).unwrap()["left_ms"] = row["left_ms"].clone();
        }
        for gone in list("gone") {
            assert!(self.rows.remove(gone.as_str().unwrap()).is_some(), "{gone} was not there");
        }
        self.last.insert(event.to_owned(), data);
    }

    fn is_complete(&self) -> bool {
        self.last.get("progress").is_some_and(|progress| progress["complete"] == json!(true))
    }
}

#[tokio::test]
async fn a_page_shows_what_is_held_and_follows_every_change_on_all_kinds_of_nodes() {
    everywhere(async |fleet| {
        let instance = Instance::start(service_keeping(fleet, 100).await).await;
        let others = fleet.locks().await;
        let theirs = others.lock("theirs").label("them").acquire().await.unwrap();
        let mut page = Page::open(&instance, "/v1/watch", None).await;
        page.until("complete", |page| page.is_complete() && page.rows.contains_key("theirs")).await;
        let (hello, row) = (&page.last["hello"], &page.rows["theirs"]);
        assert_eq!((&hello["look_every_ms"], &hello["share_max"]), (&json!(1_000), &json!(0.02)), "{hello}");
        assert!(row["label"].as_str().unwrap().ends_with(" them"), "{row}");
        assert_eq!((&row["state"], &row["fence"]), (&json!("held"), &json!(theirs.fence().get())), "{row}");
        let seen = Client::connect(instance.address).await.get("/v1/lock?name=theirs").await.body;
        assert_eq!((&row["holder"], &row["margin"]), (&seen["holder"], &seen["margin"]));
        assert!(
            row["age_exact"] == json!(true) && row["age_ms"].as_u64() <= seen["age_ms"].as_u64(),
            "{row} {seen}"
        );
        page.until("nodes", |page| page.last.contains_key("nodes")).await;
        page.until("totals", |page| page.last.get("totals").is_some_and(|totals| totals["held"] == json!(1)))
            .await;

        let mut client = Client::connect(instance.address).await;
        let lease = client.post("/v1/acquire", &json!({ "name": "ours", "ttl_ms": 20_000 })).await.body;
        page.until("ours", |page| page.rows.contains_key("ours")).await;
        theirs.release().await.unwrap();
        page.until("theirs is gone", |page| !page.rows.contains_key("theirs")).await;
        client.post("/v1/release", &given(&lease)).await;
        page.until("ours is gone", |page| page.rows.is_empty()).await;
        instance.stop().await;
        while page.reader.next().await.is_some() {}
    })
    .await;
}

#[tokio::test]
async fn only_names_that_the_caller_may_read_and_asked_for_are_shown() {
    let file = ListFile::new();
    let all = file.add("all", &[Verb::Read, Verb::Lock], &[], None);
    let some = file.add("some", &[Verb::Read], &["a/"], None);
    let fleet = Fleet::memory();
    let service = service_keeping(&fleet, 100).await.callers(Callers::read(&file.path()).unwrap());
    let instance = Instance::start(service).await;
    let mut client = Client::connect(instance.address).await.token(&all);
    for name in ["a/1", "b/1", "b/2"] {
        assert_eq!(client.post("/v1/acquire", &json!({ "name": name })).await.status, 200);
    }
    let mut page = Page::open(&instance, "/v1/watch", Some(&some)).await;
    page.until("complete", |page| page.is_complete() && !page.rows.is_empty()).await;
    page.until("totals", |page| page.last.get("totals").is_some_and(|totals| totals["held"] == json!(1)))
        .await;
    assert_eq!(page.rows.keys().collect::<Vec<_>>(), ["a/1"]);
    let (progress, totals) = (&page.last["progress"], &page.last["totals"]);
    assert_eq!((&progress["nodes"][0]["of"], &totals["acquired"]), (&Value::Null, &Value::Null));
    assert_eq!(page.last["hello"]["sees_all"], json!(false));
    let mut page = Page::open(&instance, "/v1/watch?prefix=b%2F", Some(&all)).await;
    page.until("both", |page| page.rows.len() == 2 && page.last.contains_key("totals")).await;
    assert_eq!(page.last["totals"]["acquired"], json!(3));
    let refused = Client::connect(instance.address).await.token(&some).get("/v1/watch?name=b%2F1").await;
    assert_eq!((refused.status, &refused.body["type"]), (403, &json!("urn:tenure:forbidden")), "{refused:?}");
}

#[tokio::test]
async fn one_lock_is_followed_in_full() {
    everywhere(async |fleet| {
        let instance = Instance::start(service_keeping(fleet, 100).await).await;
        let mut page = Page::open(&instance, "/v1/watch?name=x", None).await;
        let state = |page: &Page| page.last.get("lock").map(|lock| lock["state"].clone());
        page.until("free", |page| state(page) == Some(json!("free"))).await;
        let others = fleet.locks().await;
        let guard = others.lock("x").acquire().await.unwrap();
        page.until("held", |page| state(page) == Some(json!("held"))).await;
        let lock = &page.last["lock"];
        assert_eq!(lock["fence"], json!(guard.fence().get()), "{lock}");
        assert!(lock["age_ms"].as_u64().is_some_and(|age| age < 10_000), "{lock}");
        assert!(
            lock["nodes"].as_array().unwrap().iter().all(|node| node["state"] == json!("held")),
            "{lock}"
        );
        guard.release().await.unwrap();
        page.until("free again", |page| state(page) == Some(json!("free"))).await;
    })
    .await;
}

#[tokio::test]
async fn events_tell_what_other_clients_do_if_they_are_asked_for_it() {
    everywhere(async |fleet| {
        let instance = Instance::start(service_keeping(fleet, 1_000).await).await;
        let mut ours = Reader::begin(&instance, "/v1/events", None, None).await.settle().await;
        let mut all = Reader::begin(&instance, "/v1/events?seen=true", None, None).await.settle().await;
        let others = fleet.locks().await;
        // Something is seen that happens after the first look.
        let (guard, first) = 'seen: loop {
            let guard = others.lock("x").label("them").acquire().await.unwrap();
            while let Ok(next) = timeout(Duration::from_secs(4), all.next()).await {
                let (kind, data) = next.unwrap();
                if kind == "seen_held" {
                    break 'seen (guard, data);
                }
            }
            guard.release().await.unwrap();
            sleep(Duration::from_secs(3)).await;
        };
        assert!(first["seen"] == json!(true) && first["within_ms"].as_u64() <= Some(4_000), "{first}");
        assert_eq!((&first["name"], &first["fence"]), (&json!("x"), &json!(guard.fence().get())), "{first}");
        let holder = first["holder"].clone();
        guard.release().await.unwrap();
        assert!(first["label"].as_str().unwrap().ends_with(" them"));
        let (kind, data) = timeout(Duration::from_secs(10), all.next()).await.unwrap().unwrap();
        assert_eq!(
            (kind.as_str(), &data["was"], &data["expired"]),
            ("seen_freed", &holder, &json!(false)),
            "{data}"
        );
        // What this instance does is told once, exactly.
        let mut client = Client::connect(instance.address).await;
        let lease = client.post("/v1/acquire", &json!({ "name": "y" })).await.body;
        sleep(Duration::from_millis(2_500)).await;
        client.post("/v1/release", &given(&lease)).await;
        sleep(Duration::from_millis(2_500)).await;
        let mut kinds = vec![];
        while let Ok(Some((kind, data))) = timeout(Duration::from_millis(200), all.next()).await {
            assert_eq!(data["name"], json!("y"), "{data}");
            kinds.push(kind);
        }
        assert_eq!(kinds, ["acquired", "given_up"]);
        let (kind, data) = ours.next().await.unwrap();
        assert_eq!((kind.as_str(), &data["name"]), ("acquired", &json!("y")), "nothing seen: {data}");
    })
    .await;
}

/// The numbers are those of the servers themselves.
#[tokio::test]
async fn twenty_viewers_cost_the_nodes_what_one_does_and_none_cost_nothing() {
    let server = RedisServer::start(&[]);
    let mut commands = CommandCount::of(&server);
    let fleet = Fleet::servers([server]);
    let instance = Instance::start(Service::new(fleet.locks().await, keys('a'))).await;
    let mut spent = async |viewers: usize| {
        let mut pages = vec![];
        for _ in 0..viewers {
            let mut page = Page::open(&instance, "/v1/watch", None).await;
            page.until("complete", Page::is_complete).await;
            pages.push(page);
        }
        let before = commands.read();
        sleep(Duration::from_secs(6)).await;
        let spent = commands.read() - before;
        drop(pages);
        sleep(Duration::from_millis(500)).await;
        spent
    };
    let (idle, one, twenty, none) = (spent(0).await, spent(1).await, spent(20).await, spent(0).await);
    assert!(one >= 15, "it looks: {one}");
    assert!(twenty * 100 <= one * 105 + 400, "{one} for one, {twenty} for twenty");
    assert!(idle <= 10 && none <= idle + 5, "{none} for none, {idle} before");
}
