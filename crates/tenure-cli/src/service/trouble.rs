//! What goes wrong with a service: told with the same words and exit codes as with nodes.

use std::time::Duration;

use serde_json::Value;
use tenure::Risk;

use super::{Address, number};
use crate::ballot::Ballot;
use crate::exit_code::Exit;
use crate::failure::{Failure, contention};

/// Why a service did not do what it was asked for.
#[derive(Clone, Debug)]
pub(crate) struct Trouble {
    /// The status of its answer, if there was one.
    status: Option<u16>,
    /// The type of the problem, without what all have in common.
    kind: String,
    message: String,
    /// The problem as it was told.
    problem: Value,
}

impl Trouble {
    /// It was not reached, or said nothing.
    pub(super) fn unreached(address: &Address, reason: &str) -> Self {
        let message =
            format!("cannot reach the service at {address}: {reason}. Check that it is running, then retry");
        Self { status: None, kind: String::new(), message, problem: Value::Null }
    }

    /// It answered, and we cannot read that.
    pub(super) fn not_understood(address: &Address) -> Self {
        let message = format!("what answers at {address} is not a Tenure service of this version");
        Self { status: Some(404), kind: String::new(), message, problem: Value::Null }
    }

    /// It cannot be asked like this, however often.
    pub(super) fn misconfigured(message: &str) -> Self {
        Self { status: Some(401), kind: String::new(), message: message.to_owned(), problem: Value::Null }
    }

    /// An answer with this status.
    pub(super) fn told(address: &Address, status: u16, problem: Value) -> Self {
        let kind = problem["type"].as_str().and_then(|kind| kind.strip_prefix("urn:tenure:"));
        let kind = kind.unwrap_or_default().to_owned();
        let message = match problem["detail"].as_str() {
            Some(detail) if !kind.is_empty() => detail.to_owned(),
            _ => {
                format!(
                    "what answers at {address} is not a Tenure service, or is a proxy that cannot \
                         reach one (status {status})"
                )
            }
        };
        Self { status: Some(status), kind, message, problem }
    }

    /// Of which kind the problem is.
    pub(super) fn kind(&self) -> &str {
        &self.kind
    }

    pub(super) fn message(&self) -> &str {
        &self.message
    }

    /// Whether asking again may help: it is about the service and its nodes, not about the lock.
    pub(crate) fn may_pass(&self) -> bool {
        self.status.is_none_or(|status| status == 408 || status == 429 || status >= 500)
    }

    /// What it says about a lock that we held.
    pub(crate) fn risk(&self) -> Option<Risk> {
        match &*self.kind {
            "not-held" => Some(Risk::Taken),
            "max-hold" => Some(Risk::Limit),
            _ => None,
        }
    }

    fn retry_after(&self) -> Option<Duration> {
        number(&self.problem["retry_after_ms"]).map(Duration::from_millis)
    }

    /// As it is told; `contended` is the exit code if another has the lock.
    pub(crate) fn failure(&self, name: Option<&str>, contended: Exit) -> Failure {
        let votes = Ballot::read(&self.problem["votes"]);
        if let ("other-kind", Some(name)) = (&*self.kind, name) {
            let mut failure = Failure::other_kind(name, self.problem["found"].as_str().unwrap_or_default());
            failure.about.votes = Some(votes);
            return failure;
        }
        let (exit, word) = match (&*self.kind, self.status) {
            ("contended", _) => (contended, "contended"),
            ("not-held" | "other-lock", _) => (Exit::NO, "not_held"),
            ("foreign", _) => (Exit::NO, "foreign"),
            ("max-hold", _) => (Exit::NO, "max_hold"),
            ("bad-request" | "bad-token" | "out-of-bounds", _) => (Exit::USAGE, "usage"),
            ("too-late", _) => (Exit::UNAVAILABLE, "too_late"),
            ("clocks-set-back", _) => (Exit::UNAVAILABLE, "clocks_set_back"),
            ("internal", _) => (Exit::INTERNAL, "internal"),
            _ if self.may_pass() && votes.is_of_store() => (Exit::STORE, "store"),
            _ if self.may_pass() => (Exit::UNAVAILABLE, "unavailable"),
            // Who we are, whom we ask, and how: no retry helps.
            _ => (Exit::USAGE, "configuration"),
        };
        let label = self.problem["label"].as_str();
        let message = match (word, name) {
            ("contended", Some(name)) => contention(
                name,
                label,
                self.retry_after(),
                number(&self.problem["waiters"]).unwrap_or_default(),
            ),
            _ => self.message.clone(),
        };
        let mut failure = Failure::new(exit, word, message);
        failure.about.name = name.map(str::to_owned);
        failure.about.holder = label.map(str::to_owned);
        failure.about.retry_after = self.retry_after();
        failure.about.votes = Some(votes);
        failure
    }
}
