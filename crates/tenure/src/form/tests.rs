//! The form is a promise: what is here must not change, only grow.

use std::time::Duration;

use serde_json::{Value, json};
use tenure_core::{Cause, ClientId, Distrust, Fault, Fence, Vote};

use crate::circle::{Circle, CircleMember};
use crate::error::votes::Votes;
use crate::event::Event;
use crate::{FindingKind, FleetProgress, Incumbent, Locks, MemoryNode, Persistence, Role, Severity};

fn form(value: impl serde::Serialize) -> Value {
    serde_json::to_value(value).unwrap()
}

const MS: fn(u64) -> Duration = Duration::from_millis;

#[test]
fn every_event_has_its_word_and_its_durations_end_in_their_unit() {
    let (name, fence, votes) = ("x", Fence::new(7), &Votes::new(&[], &[]));
    let (valid_for, held, distrust) = (MS(1_500), Some(MS(2_000)), &Distrust::ClockBehind);
    let circle = &Circle { members: vec![] };
    for (event, expected) in [
        (
            Event::Acquired {
                name,
                attempts: 2,
                elapsed: MS(3),
                margin: 1,
                fence,
                passed_on_after: Some(MS(4)),
            },
            json!({
                "event": "acquired", "name": "x", "attempts": 2, "elapsed_ms": 3, "margin": 1, "fence": 7,
                "passed_on_after_ms": 4,
            }),
        ),
        (
            Event::Acquired {
                name,
                attempts: 1,
                elapsed: MS(0),
                margin: 0,
                fence: Fence::NONE,
                passed_on_after: None,
            },
            json!({ "event": "acquired", "name": "x", "attempts": 1, "elapsed_ms": 0, "margin": 0 }),
        ),
        (
            Event::PassedOn { name, elapsed: MS(3), valid_for, fence },
            json!({ "event": "passed_on", "name": "x", "elapsed_ms": 3, "valid_for_ms": 1500, "fence": 7 }),
        ),
        (
            Event::Retrying { name, cause: Cause::Unavailable, pause: MS(9), votes },
            json!({ "event": "retrying", "name": "x", "cause": "unavailable", "pause_ms": 9, "votes": [] }),
        ),
        (
            Event::Waiting {
                name,
                ahead: 1,
                waiters: 2,
                nodes: 3,
                holder: Some("job"),
                free_after: Some(MS(4)),
                asks_in: MS(5),
            },
            json!({
                "event": "waiting", "name": "x", "ahead": 1, "waiters": 2, "nodes": 3, "holder": "job",
                "free_after_ms": 4, "asks_in_ms": 5,
            }),
        ),
        (
            Event::Circle { name, circle },
            json!({ "event": "circle", "name": "x", "circle": { "members": [] } }),
        ),
        (
            Event::NotAcquired {
                name,
                cause: Cause::Contended { retry_after: None },
                attempts: 1,
                elapsed: MS(2),
            },
            json!({ "event": "not_acquired", "name": "x", "cause": "contended", "attempts": 1, "elapsed_ms": 2 }),
        ),
        (
            Event::Extended { name, valid_for, fence },
            json!({ "event": "extended", "name": "x", "valid_for_ms": 1500, "fence": 7 }),
        ),
        (
            Event::NotExtended { name, lost: true, valid_for, fence },
            json!({ "event": "not_extended", "name": "x", "lost": true, "valid_for_ms": 1500, "fence": 7 }),
        ),
        (
            Event::AtRisk { name, valid_for, fence },
            json!({ "event": "at_risk", "name": "x", "valid_for_ms": 1500, "fence": 7 }),
        ),
        (
            Event::Safe { name, valid_for, fence },
            json!({ "event": "safe", "name": "x", "valid_for_ms": 1500, "fence": 7 }),
        ),
        (
            Event::Lost { name, valid_for, fence, held },
            json!({ "event": "lost", "name": "x", "valid_for_ms": 1500, "fence": 7, "held_ms": 2000 }),
        ),
        (
            Event::GivenUp { name, fence, held },
            json!({ "event": "given_up", "name": "x", "fence": 7, "held_ms": 2000 }),
        ),
        (Event::CleanedUp { name }, json!({ "event": "cleaned_up", "name": "x" })),
        (
            Event::NotCleanedUp { name, nodes: 2 },
            json!({ "event": "not_cleaned_up", "name": "x", "nodes": 2 }),
        ),
        (
            Event::NodeDistrusted { node: "redis://a", distrust },
            json!({ "event": "node_distrusted", "node": "redis://a", "distrust": distrust.to_string() }),
        ),
        (Event::NodeTrusted { node: "redis://a" }, json!({ "event": "node_trusted", "node": "redis://a" })),
        (
            Event::FencePoisoned { node: "redis://a", fence },
            json!({ "event": "fence_poisoned", "node": "redis://a", "fence": 7 }),
        ),
        (
            Event::NodesNotRemembered { reason: "full" },
            json!({ "event": "nodes_not_remembered", "reason": "full" }),
        ),
    ] {
        assert_eq!(form(&event), expected);
    }
}

#[tokio::test]
async fn a_report_tells_the_state_in_words_and_never_the_owner_token() {
    let locks = Locks::builder().node(MemoryNode::new("a")).build().unwrap();
    let guard = locks.lock("x").label_for("job").acquire().await.unwrap();
    let token = guard.to_handover().token.to_string();
    let report = locks.inspect("x").await.unwrap();
    let mut data = form(&report);
    for left in [data["left_ms"].take(), data["nodes"][0]["left_ms"].take()] {
        assert!(left.as_u64().is_some_and(|left| (29_000..=33_000).contains(&left)), "{left}");
    }
    assert!(data["held_for_ms"].take().as_u64().is_some_and(|held| held < 5_000));
    let fence = guard.fence().get();
    assert_eq!(
        data,
        json!({
            "name": "x", "state": "held", "kind": "plain", "owner": null, "label": "job", "left_ms": null,
            "fence": fence, "sharers": null, "waiters": 0, "line": [], "agree": ["memory:a"], "disagree": [],
            "held_for_ms": null, "held_here": true, "margin": 0,
            "nodes": [{
                "node": "memory:a", "votes": true, "distrust": null, "state": "held", "label": "job",
                "left_ms": null, "fence": fence, "waiters": 0, "error": null,
            }],
        })
    );
    let list = locks.list().await.unwrap();
    let released = guard.release().await.unwrap();
    let all = [form(&report), form(&list), form(&released), form(locks.nodes().await)];
    assert!(all.iter().all(|data| !data.to_string().contains(&token)), "{all:?}");
    assert_eq!(form(&list)["nodes"][0]["told"], 1);
    assert_eq!(form(locks.inspect("y").await.unwrap())["state"], "free");
    let owned = locks.lock("y").owner("deploy-7").acquire().await.unwrap();
    assert_eq!(form(locks.inspect("y").await.unwrap())["owner"], "deploy-7");
    drop(owned);
}

#[tokio::test]
async fn a_node_is_told_with_all_its_facts() {
    let locks = Locks::builder().node(MemoryNode::new("a")).build().unwrap();
    let mut data = form(&locks.nodes().await[0]);
    for (field, known) in [("incarnation", true), ("round_trip_us", true), ("clock_offset_us", true)] {
        assert_eq!(!data[field].take().is_null(), known, "{field}");
    }
    assert_eq!(
        data,
        json!({
            "node": "memory:a", "reachable": true, "votes": true, "role": "embedded", "version": null,
            "incarnation": null, "quarantine_left_ms": null, "clock_offset_us": null, "persistence": "unknown",
            "eviction": null, "replicas": 0, "cpu_time_ms": null, "memory_used_bytes": null,
            "round_trip_us": null, "findings": [],
        })
    );
}

#[test]
fn votes_are_words_with_the_reason_beside_them() {
    let vote = |vote| crate::NodeVote { node: "redis://a".into(), vote, elapsed: Duration::from_micros(250) };
    assert_eq!(
        form(vote(Some(Vote::Unknown(Fault::Timeout)))),
        json!({
            "node": "redis://a", "vote": "unknown", "elapsed_us": 250, "message": Fault::Timeout.to_string(),
        })
    );
    assert_eq!(form(vote(Some(Vote::Granted)))["vote"], "granted");
    let late = form(vote(None));
    assert!(late["vote"].is_null() && late["elapsed_us"].is_null(), "{late}");
}

#[test]
fn what_can_be_read_back_is_the_same() {
    let member = CircleMember {
        label: Some("4711@web-1".into()),
        client: Some(ClientId::new(0xabc)),
        holds: "a".into(),
        waits_for: "b".into(),
    };
    let circle: Circle = [member, CircleMember::new(None, "b", "a")].into_iter().collect();
    let data = form(&circle);
    assert_eq!(data["members"][0]["client"], "0000000000000abc");
    assert_eq!(serde_json::from_value::<Circle>(data).unwrap(), circle);
    let bad = json!({ "label": null, "client": "x", "holds": "a", "waits_for": "b" });
    assert!(serde_json::from_value::<CircleMember>(bad).is_err());
    for epoch in [Fence::NONE, Fence::new(9)] {
        let incumbent = Incumbent { label: Some("eu-1".into()), epoch };
        assert_eq!(serde_json::from_value::<Incumbent>(form(&incumbent)).unwrap(), incumbent);
    }
    assert_eq!(serde_json::from_value::<Severity>(json!("warn")).unwrap(), Severity::Warn);
    assert_eq!(
        serde_json::from_value::<FindingKind>(json!("fences_ahead")).unwrap(),
        FindingKind::FencesAhead
    );
    assert_eq!(serde_json::from_value::<Role>(json!("master")).unwrap(), Role::Master);
    assert_eq!(serde_json::from_value::<Persistence>(json!("always")).unwrap(), Persistence::Always);
}

#[test]
fn a_change_of_the_node_list_is_told_step_by_step() {
    assert_eq!(form(FleetProgress::Prepared), json!({ "step": "prepared" }));
    assert_eq!(form(FleetProgress::Waiting { left: MS(70) }), json!({ "step": "waiting", "left_ms": 70 }));
    let reaching = FleetProgress::Reaching(vec!["redis://a".to_owned()]);
    assert_eq!(form(reaching), json!({ "step": "reaching", "nodes": ["redis://a"] }));
}

#[tokio::test]
async fn a_watch_tells_changes_as_data() {
    let locks = Locks::builder().node(MemoryNode::new("a")).build().unwrap();
    let mut watch = locks.watch();
    let _guard = locks.lock("x").acquire().await.unwrap();
    let change = loop {
        let news = watch.next().await.unwrap();
        assert!(form(&news)["locks"].is_array());
        if let Some(change) = news.locks.first() {
            break form(change);
        }
    };
    assert_eq!((&change["name"], &change["now"]["state"]), (&json!("x"), &json!("held")));
    assert!(change["before"].is_null() && change["now"]["left_ms"].is_u64(), "{change}");
}
