//! A lock from a service: asked for once, or waited for in line.
//!
//! Whoever waits does so with `/v1/hold`: it says now and then who is ahead, so that nobody on the
//! way takes the connection for a dead one, and the place in line is kept. The first lease that it
//! tells is gone on with by its token; the connection is let go, which releases nothing.

use std::time::Duration;

use serde_json::{Value, json};
use tenure::{MaxHold, Wait, label_of_process};
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::{Instant, sleep, timeout};

use super::{ANSWER_LIMIT, Service, Told, Trouble};
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::hold::Wanted;
use crate::lease::around;
use crate::output::WaitingNews;
use crate::report;
use crate::settings::Settings;

/// The most that a service lets wait with one call.
const WAIT_MAX: Duration = Duration::from_secs(3_600);

/// A line comes every ten seconds at least; a connection that is silent for longer is dead.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// A hold without a limit, to whom a limit must be told: a century.
const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 24 * 3_600);

/// The pause before a service is asked again that could not help.
const PAUSE: Duration = Duration::from_millis(200);

/// What is asked for.
#[derive(Clone, Debug)]
pub(crate) struct Asking {
    name: String,
    names: Vec<String>,
    slots: Option<usize>,
    at_least: Duration,
    ttl: Duration,
    wait: Wait,
    label: String,
    max_hold: Option<Duration>,
    shared: bool,
    owner: Option<String>,
    /// What is held while it is waited for.
    holding: String,
    /// The exit code if another has it.
    contended: Exit,
}

impl Service {
    /// Acquires a lock, and tells whom it waits for.
    pub(crate) async fn acquire(
        &self,
        asking: &Asking,
        news: &UnboundedSender<WaitingNews>,
    ) -> Result<Told, Failure> {
        let until = match asking.wait {
            Wait::AtMost(wait) => Some(Instant::now() + wait),
            Wait::Forever => None,
            _ => Some(Instant::now()),
        };
        loop {
            let left = until.map_or(WAIT_MAX, |until| until.saturating_duration_since(Instant::now()));
            let (is_over, left) = (left.is_zero(), left.min(WAIT_MAX));
            let outcome =
                if is_over { self.ask_once(asking).await } else { self.wait_for(asking, left, news).await };
            match outcome {
                // An answer that came too late is no lock.
                Ok(told) if told.valid_for().is_zero() && is_over => {
                    let message = format!(
                        "lock {:?}: the lock had expired when the service answered; retry, or use a longer \
                         --ttl",
                        asking.name
                    );
                    return Err(Failure::new(Exit::UNAVAILABLE, "too_late", message).of_lock(&asking.name));
                }
                Ok(told) if told.valid_for().is_zero() => {}
                Ok(told) => return Ok(told),
                Err(trouble) => {
                    let may_pass = trouble.may_pass() || trouble.kind() == "contended";
                    let left = until.is_none_or(|until| Instant::now() < until);
                    if !may_pass || !left {
                        return Err(trouble.failure(Some(&asking.name), asking.contended));
                    }
                    if trouble.may_pass() {
                        // Nobody looks any more once the lock is there.
                        let _ = news.send(WaitingNews::Unserved(trouble.message().to_owned()));
                        sleep(PAUSE).await;
                    }
                }
            }
        }
    }

    async fn ask_once(&self, asking: &Asking) -> Result<Told, Trouble> {
        let answer = self.post("/v1/acquire", &asking.body(Duration::ZERO), ANSWER_LIMIT).await?;
        Told::read(answer.sent, &answer.body).ok_or_else(|| Trouble::not_understood(&self.0.address))
    }

    async fn wait_for(
        &self,
        asking: &Asking,
        wait: Duration,
        news: &UnboundedSender<WaitingNews>,
    ) -> Result<Told, Trouble> {
        let mut lines = self.lines("/v1/hold", &asking.body(wait)).await?;
        let address = &self.0.address;
        loop {
            let line = timeout(SILENCE_MAX, lines.next()).await.ok().flatten();
            let line = line.ok_or_else(|| Trouble::unreached(address, "the connection was closed"))?;
            match line["event"].as_str() {
                Some("waiting") => {
                    let _ = news.send(WaitingNews::InLine {
                        holder: line["label"].as_str().map(str::to_owned),
                        free_after: None,
                        ahead: line["ahead"].as_u64().unwrap_or_default(),
                        waiters: line["waiters"].as_u64().unwrap_or_default(),
                    });
                }
                Some("deadlock") => {
                    let _ = news.send(WaitingNews::Deadlock(report::circle(&line["deadlock"])));
                }
                Some("problem") => {
                    let status =
                        line["problem"]["status"].as_u64().and_then(|status| u16::try_from(status).ok());
                    return Err(Trouble::told(address, status.unwrap_or(500), line["problem"].clone()));
                }
                Some("draining") => {
                    return Err(Trouble::unreached(address, "this instance is shutting down"));
                }
                _ => {
                    let told = Told::read(lines.sent, &line["lease"]);
                    return told.ok_or_else(|| Trouble::not_understood(address));
                }
            }
        }
    }
}

impl Asking {
    /// This lock, with the terms that are in force. `contended` is the exit code if another has it.
    pub(crate) fn new(wanted: &Wanted<'_>, note: &str, settings: &Settings, contended: Exit) -> Self {
        let max_hold = settings.max_hold.value.map(|max_hold| match max_hold {
            MaxHold::AtMost(limit) => limit,
            _ => FOR_EVER,
        });
        Self {
            name: wanted.name(),
            names: wanted.names.to_vec(),
            slots: wanted.slots,
            at_least: wanted.at_least,
            ttl: settings.ttl.value,
            wait: settings.wait(),
            label: label_of_process(note),
            max_hold,
            shared: wanted.mode.shared,
            owner: wanted.mode.owner.clone(),
            holding: around::held(None).to_string(),
            contended,
        }
    }

    fn body(&self, wait: Duration) -> Value {
        let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let mut body = json!({ "ttl_ms": milliseconds(self.ttl), "label": self.label });
        match &self.names[..] {
            [name] => body["name"] = json!(name),
            names => body["names"] = json!(names),
        }
        if let Some(slots) = self.slots {
            body["slots"] = json!(slots);
        }
        if !self.at_least.is_zero() {
            body["at_least_ms"] = json!(milliseconds(self.at_least));
        }
        if !wait.is_zero() {
            // Rounded up: what is asked for once would not wait at all.
            body["wait_ms"] = json!(milliseconds(wait).max(1));
        }
        if let Some(limit) = self.max_hold {
            body["max_hold_ms"] = json!(milliseconds(limit));
        }
        if self.shared {
            body["shared"] = json!(true);
        }
        if let Some(owner) = &self.owner {
            body["owner"] = json!(owner);
        }
        if !self.holding.is_empty() {
            body["holding"] = json!([self.holding]);
        }
        body
    }
}
