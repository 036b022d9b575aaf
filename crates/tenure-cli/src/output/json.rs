//! The JSON objects, field by field as `docs/reference/cli.md` says.

use std::time::Duration;

use serde_json::{Value, json};
use tenure::{Fence, MaxHold, NodeReport, Wait};
use tenure_server::form::{self, milliseconds};

use crate::advice::Advice;
use crate::ballot::Ballot;
use crate::failure::Failure;
use crate::lease::Lease;
use crate::report::{Answer, Report, Waiting};
use crate::settings::{NodeUrl, Settings, Sourced};

pub(super) fn lease(lease: &Lease) -> Value {
    json!({
        "name": lease.name,
        "token": lease.token,
        "fence": lease.fence.get(),
        "ttl_ms": milliseconds(lease.ttl),
        "valid_for_ms": milliseconds(lease.valid_for),
        "valid_until_ms": lease.valid_until_ms,
        "margin": lease.margin,
        "votes": lease.votes.json(),
    })
}

pub(super) fn failure(failure: &Failure) -> Value {
    json!({
        "error": failure.word,
        "name": failure.about.name,
        "holder": failure.about.holder,
        "retry_after_ms": failure.about.retry_after.map(milliseconds),
        "votes": failure.about.votes.as_ref().map_or(&[][..], Ballot::json),
        "message": failure.message,
    })
}

pub(super) fn released(name: &str, given: &Ballot) -> Value {
    json!({ "name": name, "released": true, "votes": given.json() })
}

pub(super) fn status(report: &Report) -> Value {
    json!({
        "name": report.name,
        "state": report.state.word(),
        "holder": report.label,
        "since_ms": report.fence.and_then(super::text::since_ms),
        "left_ms": report.left.map(milliseconds),
        "fence": report.fence.map(Fence::get),
        "waiters": report.waiters,
        "line": report.line.iter().map(waiting).collect::<Vec<_>>(),
        "deadlocks": report.circles.iter().map(super::deadlock::json).collect::<Vec<_>>(),
        "readers": report.readers,
        "kind": report.kind,
        "owner": report.owner,
        "holds": report.holds,
        "agree": report.agree,
        "disagree": report.disagree,
        "nodes": report.nodes.iter().map(answer).collect::<Vec<_>>(),
    })
}

fn waiting(waiting: &Waiting) -> Value {
    json!({
        "client": waiting.client, "label": waiting.label, "since_ms": waiting.since_ms, "shared": waiting.shared,
        "keeps": waiting.keeps,
    })
}

fn answer(answer: &Answer) -> Value {
    json!({
        "node": answer.node, "votes": answer.votes, "state": answer.state.word(), "holder": answer.label,
        "left_ms": answer.left.map(milliseconds), "waiters": answer.waiters,
        "error": answer.error.as_deref().map(super::text::plain),
    })
}

pub(super) fn node(report: &NodeReport) -> Value {
    json!(form::node(report))
}

pub(super) fn advice(advice: &Advice) -> Value {
    json!({ "severity": advice.level.word(), "message": advice.message, "advice": advice.advice })
}

pub(super) fn config(settings: &Settings) -> Value {
    fn entry<T>(setting: &Sourced<T>, value: impl FnOnce(&T) -> Value) -> Value {
        json!({ "value": value(&setting.value), "source": setting.source.to_string() })
    }
    json!({
        "nodes": entry(&settings.nodes, |nodes| nodes.iter().map(|node| json!(node.masked())).collect()),
        "require_nodes": entry(&settings.require_nodes, |required| json!(required)),
        "prefix": entry(&settings.prefix, |prefix| json!(prefix)),
        "key_scheme": entry(&settings.key_scheme, |scheme| json!(scheme.to_string())),
        "ttl_ms": entry(&settings.ttl, |ttl| json!(milliseconds(*ttl))),
        "wait_ms": entry(&settings.wait, |_| match settings.wait() {
            Wait::AtMost(wait) => json!(milliseconds(wait)),
            Wait::Forever => json!("forever"),
            _ => json!(0),
        }),
        "label": entry(&settings.label, |label| json!(label)),
        "grace_ms": entry(&settings.grace, |_| json!(milliseconds(settings.grace()))),
        "max_hold_ms": entry(&settings.max_hold, |max_hold| match max_hold {
            Some(MaxHold::AtMost(limit)) => json!(milliseconds(*limit)),
            Some(_) => json!("forever"),
            None => json!(null),
        }),
        "max_ttl_ms": entry(&settings.max_ttl, |max_ttl| json!(milliseconds(*max_ttl))),
        "node_timeout_ms": entry(&settings.node_timeout, |_| json!(milliseconds(settings.node_timeout_range().0))),
        "restart_guard": entry(&settings.restart_guard, |guard| json!(guard.to_string())),
        "fleet": entry(&settings.fleet, |fleet| json!(fleet)),
        "known_nodes": entry(&settings.known_nodes, |_| json!(settings.known_nodes())),
        "serve": super::serve::settings(&settings.serve).into_iter().map(|(name, value, source)| {
            (name.to_owned(), json!({ "value": value, "source": source.to_string() }))
        }).collect::<serde_json::Map<_, _>>(),
        "file": settings.files.first().map(|file| file.display().to_string()),
        "files": settings.files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>(),
    })
}

pub(super) fn changed(
    from: &Settings,
    to: &Settings,
    aborted: bool,
    took: Duration,
    without_locks: Option<Duration>,
) -> Value {
    let urls =
        |settings: &Settings| -> Vec<String> { settings.nodes.value.iter().map(NodeUrl::masked).collect() };
    json!({
        "from": urls(from),
        "to": urls(to),
        "changed": !aborted,
        "took_ms": milliseconds(took),
        "without_locks_ms": without_locks.map(milliseconds),
    })
}

pub(super) fn forgotten(nodes: &[String]) -> Value {
    json!({ "forgotten": nodes })
}
