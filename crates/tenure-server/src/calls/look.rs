//! `GET /v1/lock`, `/v1/locks`, `/v1/nodes`: what the nodes say, without touching anything.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use serde_json::{Value, json};
use tenure::{Fence, LockReport, LockState, NodeAnswer, NodeList};

use crate::Service;
use crate::body::Query;
use crate::form::{milliseconds, node};
use crate::problem::Problem;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LockQuery {
    name: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LocksQuery {
    /// What the names begin with.
    #[serde(default)]
    prefix: String,
}

pub(crate) async fn lock(
    State(service): State<Arc<Service>>,
    Query(asked): Query<LockQuery>,
) -> Result<Json<Value>, Problem> {
    let found = service.locks.inspect(&asked.name).await?;
    Ok(Json(report(&service, &found)))
}

pub(crate) async fn locks(
    State(service): State<Arc<Service>>,
    Query(asked): Query<LocksQuery>,
) -> Result<Json<Value>, Problem> {
    let list = service.locks.list().await?;
    let locks = list.locks.iter().filter(|lock| lock.name.starts_with(&asked.prefix));
    let locks: Vec<Value> = locks.map(|lock| report(&service, lock)).collect();
    let told = |list: &NodeList| {
        let (count, error) = match &list.told {
            Ok(count) => (Some(*count), None),
            Err(fault) => (None, Some(fault.to_string())),
        };
        json!({ "node": &*list.node, "votes": list.votes, "locks": count, "cut_short": list.cut_short, "error": error })
    };
    Ok(Json(json!({ "locks": locks, "nodes": list.nodes.iter().map(told).collect::<Vec<_>>() })))
}

pub(crate) async fn nodes(State(service): State<Arc<Service>>) -> Json<Value> {
    let nodes = service.locks.nodes().await;
    Json(json!({ "nodes": nodes.iter().map(node).collect::<Vec<_>>() }))
}

/// What is told of a lock. Owner tokens are not: whoever knows one can release the lock.
fn report(service: &Service, report: &LockReport) -> Value {
    let (state, owner, label, left, fence) = match &report.state {
        LockState::Free => ("free", None, None, None, None),
        LockState::Held { owner, label, left, fence, .. } => {
            ("held", Some(owner), label.as_deref(), *left, *fence)
        }
        LockState::Reserved { left, .. } => ("reserved", None, None, *left, None),
        LockState::Disputed => ("disputed", None, None, None, None),
        _ => ("unknown", None, None, None, None),
    };
    json!({
        "name": report.name,
        "state": state,
        "holder": owner.map(|owner| service.keys.holder(owner)),
        "label": label,
        "left_ms": left.map(milliseconds),
        "fence": fence.map(Fence::get),
        "waiters": report.waiters,
        "agree": report.agree.iter().map(|node| &**node).collect::<Vec<_>>(),
        "disagree": report.disagree.iter().map(|node| &**node).collect::<Vec<_>>(),
        "nodes": report.nodes.iter().map(|said| answer(service, said)).collect::<Vec<_>>(),
    })
}

/// What one node says.
fn answer(service: &Service, answer: &NodeAnswer) -> Value {
    let (state, holding, error) = match &answer.holding {
        Ok(None) => ("free", None, None),
        Ok(Some(holding)) if holding.is_reserved() => ("reserved", Some(holding), None),
        Ok(Some(holding)) => ("held", Some(holding), None),
        Err(fault) => ("unknown", None, Some(fault.to_string())),
    };
    let holder = holding.filter(|holding| !holding.is_reserved());
    json!({
        "node": &*answer.node,
        "votes": answer.votes,
        "state": state,
        "holder": holder.map(|holding| service.keys.holder(&holding.owner)),
        "label": holder.and_then(|holding| holding.label.as_deref()),
        "left_ms": holding.and_then(|holding| holding.left).map(milliseconds),
        "waiters": answer.waiters,
        "error": error,
    })
}
