//! What a watch of the fleet tells, as data.

use serde::{Serialize, Serializer};

use super::lock::StateForm;
use super::milliseconds;
use crate::diagnostics::NodeReport;
use crate::inspect::LockReport;
use crate::watch::{FleetNews, LockChange, LockView, WalkProgress, WatchProgress};

#[derive(Serialize)]
#[serde(rename = "FleetNews")]
struct NewsForm<'a> {
    locks: &'a [LockChange],
    more: bool,
    nodes: Option<&'a [NodeReport]>,
    progress: Option<&'a WatchProgress>,
    lock: Option<&'a LockReport>,
}

#[derive(Serialize)]
#[serde(rename = "LockChange")]
struct ChangeForm<'a> {
    name: &'a str,
    before: Option<&'a LockView>,
    now: Option<&'a LockView>,
    seen: bool,
    within_ms: u64,
    passed_on_after_ms: Option<u64>,
}

#[derive(Serialize)]
#[serde(rename = "LockView")]
struct ViewForm<'a> {
    name: &'a str,
    #[serde(flatten)]
    state: StateForm<'a>,
    held_for_ms: u64,
    held_for_is_known: bool,
    seen_ago_ms: u64,
    waiters: Option<u64>,
    margin: Option<usize>,
    agree: usize,
    disagree: usize,
    others: usize,
}

#[derive(Serialize)]
#[serde(rename = "WatchProgress")]
struct WatchForm<'a> {
    complete: bool,
    nodes: &'a [WalkProgress],
}

#[derive(Serialize)]
#[serde(rename = "WalkProgress")]
struct WalkForm<'a> {
    node: &'a str,
    complete: bool,
    looked_at: Option<u64>,
    of: Option<u64>,
    error: Option<&'a str>,
}

impl Serialize for FleetNews {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let form = NewsForm {
            locks: &self.locks,
            more: self.more,
            nodes: self.nodes.as_deref(),
            progress: self.progress.as_deref(),
            lock: self.lock.as_deref(),
        };
        form.serialize(serializer)
    }
}

impl Serialize for LockChange {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let form = ChangeForm {
            name: &self.name,
            before: self.before.as_deref(),
            now: self.now.as_deref(),
            seen: self.seen,
            within_ms: milliseconds(self.within),
            passed_on_after_ms: self.passed_on_after.map(milliseconds),
        };
        form.serialize(serializer)
    }
}

impl Serialize for LockView {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // What was left when it was seen is not what is left now.
        let state = StateForm::of(self.state()).with_left(self.left());
        let form = ViewForm {
            name: self.name(),
            state,
            held_for_ms: milliseconds(self.held_for()),
            held_for_is_known: self.held_for_is_known(),
            seen_ago_ms: milliseconds(self.seen_ago()),
            waiters: self.waiters(),
            margin: self.margin(),
            agree: self.agree(),
            disagree: self.disagree(),
            others: self.others(),
        };
        form.serialize(serializer)
    }
}

impl Serialize for WatchProgress {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        WatchForm { complete: self.complete, nodes: &self.nodes }.serialize(serializer)
    }
}

impl Serialize for WalkProgress {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { node, complete, looked_at, of, error } = self;
        let (complete, looked_at, of) = (*complete, *looked_at, *of);
        WalkForm { node, complete, looked_at, of, error: error.as_deref() }.serialize(serializer)
    }
}
