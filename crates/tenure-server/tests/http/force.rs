//! A lock that is taken from one certain holder.

use std::fs;

use serde_json::{Value, json};
use tenure_server::{Callers, LogFile, Verb};
use tenure_testkit::RedisServer;

use crate::callers::ListFile;
use crate::client::Client;
use crate::everywhere::everywhere;
use crate::{Instance, given, nodes, service};

#[tokio::test]
async fn a_lock_is_taken_from_the_holder_that_was_named_and_from_no_later_one() {
    everywhere(async |fleet| {
        let file = ListFile::new();
        let operator = file.add("ops", &[Verb::Read, Verb::Lock, Verb::Force], &[], None);
        let worker = file.add("worker", &[Verb::Read, Verb::Lock], &[], None);
        let audit = file.path().with_file_name("audit");
        let service = fleet.service().await.callers(Callers::read(&file.path()).unwrap());
        let instance = Instance::start(service.audit_log(LogFile::open(&audit).unwrap())).await;
        let mut operator = Client::connect(instance.address).await.token(&operator);
        let mut worker = Client::connect(instance.address).await.token(&worker);

        let lease = worker.post("/v1/acquire", &json!({ "name": "x", "ttl_ms": 30_000 })).await.body;
        let holder = operator.get("/v1/lock?name=x").await.body["holder"].clone();
        let ask = json!({ "name": "x", "holder": holder, "reason": "it hangs" });
        let refused = worker.post("/v1/force-release", &ask).await;
        assert_eq!((refused.status, &refused.body["type"]), (403, &json!("urn:tenure:forbidden")));
        let taken = operator.post("/v1/force-release", &ask).await;
        assert_eq!((taken.status, &taken.body["released"]), (200, &json!(true)), "{taken:?}");
        assert_eq!(taken.body["name"], json!("x"));
        let gone = worker.post("/v1/extend", &given(&lease)).await;
        assert_eq!((gone.status, &gone.body["type"]), (410, &json!("urn:tenure:not-held")), "{gone:?}");

        // The next holder is not touched by a late duplicate.
        let next = worker.post("/v1/acquire", &json!({ "name": "x", "wait_ms": 5_000 })).await;
        assert_eq!(next.status, 200, "{next:?}");
        let late = operator.post("/v1/force-release", &ask).await;
        assert_eq!((late.status, &late.body["type"]), (410, &json!("urn:tenure:not-held")), "{late:?}");
        assert_eq!(worker.post("/v1/extend", &given(&next.body)).await.status, 200);

        let text = fs::read_to_string(&audit).unwrap();
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let said: Vec<(&Value, &Value)> =
            lines.iter().map(|line| (&line["outcome"], &line["reason"])).collect();
        let why = &json!("it hangs");
        let expected = ["begun", "done", "begun", "not-held"].map(|outcome| json!(outcome));
        assert_eq!(said, expected.each_ref().map(|outcome| (outcome, why)));
        assert!(lines.iter().all(|line| line["caller"] == "ops" && line["holder"] == holder), "{text}");
    })
    .await;
}

/// What several hold is taken from one of them, or from all.
#[tokio::test]
async fn one_of_several_holders_is_taken_from_or_all_of_them() {
    everywhere(async |fleet| {
        let file = ListFile::new();
        let token = file.add("ops", &[Verb::Read, Verb::Lock, Verb::Force], &[], None);
        let service = fleet.service().await.callers(Callers::read(&file.path()).unwrap());
        let instance = Instance::start(service.audit_log(LogFile::open(file.path().as_ref()).unwrap())).await;
        let mut client = Client::connect(instance.address).await.token(&token);
        for (name, ask) in [
            ("read", json!({ "name": "read", "shared": true })),
            ("owned", json!({ "name": "owned", "owner": "job-1" })),
        ] {
            let mut leases = vec![];
            for _ in 0..3 {
                leases.push(client.post("/v1/acquire", &ask).await.body);
            }
            let path = format!("/v1/lock?name={name}");
            let told = client.get(&path).await.body;
            let force = |holder: &Value| json!({ "name": name, "holder": holder, "reason": "it hangs" });
            let one = force(&told["holders"][1]);
            let taken = client.post("/v1/force-release", &one).await;
            assert_eq!((taken.status, &taken.body["released"]), (200, &json!(true)), "{taken:?}");
            let mut alive = 0;
            for lease in &leases {
                alive += usize::from(client.post("/v1/extend", &given(lease)).await.status == 200);
            }
            assert_eq!(alive, 2, "{name}");
            let late = client.post("/v1/force-release", &one).await;
            assert_eq!(late.body["type"], json!("urn:tenure:not-held"), "a late duplicate: {late:?}");
            let left = client.get(&path).await.body;
            assert_eq!(
                (&left["holder"], left["holders"].as_array().map(Vec::len)),
                (&told["holder"], Some(2))
            );

            let all = client.post("/v1/force-release", &force(&left["holder"])).await;
            assert_eq!(all.status, 200, "{all:?}");
            for lease in &leases {
                assert_eq!(client.post("/v1/extend", &given(lease)).await.status, 410, "{name}");
            }
            let next = client.post("/v1/acquire", &json!({ "name": name, "wait_ms": 5_000 })).await;
            assert_eq!(next.status, 200, "{next:?}");
            let alone = client.get(&path).await.body;
            assert_eq!((&alone["kind"], &alone["holders"]), (&json!("plain"), &Value::Null), "{alone}");
        }
    })
    .await;
}

#[tokio::test]
async fn without_a_list_of_callers_nobody_may() {
    let instance = Instance::start(service(&nodes())).await;
    let mut client = Client::connect(instance.address).await;
    let ask = json!({ "name": "x", "holder": "h", "reason": "r" });
    let refused = client.post("/v1/force-release", &ask).await;
    assert_eq!((refused.status, &refused.body["type"]), (403, &json!("urn:tenure:forbidden")));
}

#[tokio::test]
async fn a_reason_has_to_be_said_and_kept() {
    let file = ListFile::new();
    let token = file.add("ops", &[Verb::Force], &[], None);
    let callers = || Callers::read(&file.path()).unwrap();
    let full = service(&nodes()).callers(callers()).audit_log(LogFile::open("/dev/full".as_ref()).unwrap());
    let full = Instance::start(full).await;
    let instance = Instance::start(service(&nodes()).callers(callers())).await;
    let mut client = Client::connect(instance.address).await.token(&token);
    for (body, status, kind) in [
        (json!({ "name": "x", "holder": "h" }), 400, "bad-request"),
        (json!({ "name": "x", "holder": "h", "reason": " " }), 422, "out-of-bounds"),
        (json!({ "name": "x", "holder": "h", "reason": "r".repeat(257) }), 422, "out-of-bounds"),
        (json!({ "name": "", "holder": "h", "reason": "r" }), 422, "out-of-bounds"),
        (json!({ "name": "x", "holder": "h", "reason": "r" }), 410, "not-held"),
    ] {
        let refused = client.post("/v1/force-release", &body).await;
        let kind = json!(format!("urn:tenure:{kind}"));
        assert_eq!((refused.status, &refused.body["type"]), (status, &kind), "{body}: {refused:?}");
    }
    let ask = json!({ "name": "x", "holder": "h", "reason": "r" });
    let refused = Client::connect(full.address).await.token(&token).post("/v1/force-release", &ask).await;
    assert_eq!(refused.body["type"], json!("urn:tenure:not-audited"), "{refused:?}");
}

/// What another library's client has is not ours to release.
#[tokio::test]
async fn a_lock_of_another_library_is_left_alone() {
    let server = RedisServer::start(&[]);
    let file = ListFile::new();
    let token = file.add("ops", &[Verb::Read, Verb::Force], &[], None);
    let locks = tenure::Locks::connect([server.url()]).await.unwrap();
    let service = tenure_server::Service::new(locks, crate::keys('a'));
    let instance = Instance::start(service.callers(Callers::read(&file.path()).unwrap())).await;
    server.execute(&["SET", "tenure:x", "somebody", "PX", "60000"]);
    // Redisson's; and one whose owner has the form of our tokens.
    for (name, owner) in
        [("tenure:r", "285475da-9152-4c83-822a-67ee2f116a79:52"), ("tenure:h", &"a".repeat(40))]
    {
        server.execute(&["HSET", name, owner, "1"]);
        server.execute(&["PEXPIRE", name, "60000"]);
    }
    let mut client = Client::connect(instance.address).await.token(&token);
    for name in ["x", "r", "h"] {
        let path = format!("/v1/lock?name={name}");
        let holder = client.get(&path).await.body["holder"].clone();
        let ask = json!({ "name": name, "holder": holder, "reason": "r" });
        let refused = client.post("/v1/force-release", &ask).await;
        assert_eq!(
            (refused.status, &refused.body["type"]),
            (409, &json!("urn:tenure:foreign")),
            "{refused:?}"
        );
        assert_eq!(client.get(&path).await.body["state"], json!("held"));
    }
}
