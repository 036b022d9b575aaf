//! `GET /v1/events`: what happens to locks, as server-sent events: those of this instance when it
//! happens, those of others as far as a look shows.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderName};
use axum::response::{IntoResponse, Response};
use futures_util::stream::unfold;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::timeout;
use utoipa::{IntoParams, ToSchema};

use crate::Service;
use crate::body::Query;
use crate::caller::{Caller, Verb};
use crate::events::{Happened, Next, Sightings};
use crate::problem::{ANY, Kind, OF_RIGHTS, Problem, problems};

problems!(Problems: ANY, OF_RIGHTS, &[Kind::BadRequest, Kind::Draining]);

/// A sign of life comes so often: proxies cut connections that are silent for a minute.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(10);

/// Whoever is cut off comes back after this.
pub(super) const RETRY_MS: &str = "1000";

/// So many events are written at once.
const BATCH: usize = 64;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct EventsQuery {
    /// Prefix of the lock names. Without it, events about nodes are included.
    #[serde(default)]
    prefix: String,
    /// Whether to include what other clients do, as seen on the nodes: it arrives later, and its
    /// time is less exact.
    #[serde(default)]
    seen: bool,
}

/// The type of the message's data.
#[derive(ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "it says what the JSON looks like")]
enum EventData {
    Event(Box<Happened>),
    Gap(Gap),
}

/// The data of the event `gap`: events were missed, so read the current state with `/v1/locks`.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[schema(as = EventGap)]
struct Gap {
    reason: GapReason,
    /// How many, if known.
    missed: Option<u64>,
}

/// `too_old`: the events are no longer kept; `other_instance`: the last event was from another
/// instance.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum GapReason {
    TooOld,
    OtherInstance,
}

/// Follows what happens to locks: at this instance, and with `seen`, by all clients.
///
/// Server-sent events with ids: a client that reconnects with `Last-Event-ID` continues where it
/// was, or gets an event `gap`.
#[utoipa::path(
    get, path = "/v1/events", operation_id = "events", tag = "look",
    params(
        EventsQuery,
        ("Last-Event-ID" = Option<String>, Header, description = "The id of the last event seen"),
    ),
    responses(
        (status = 200, description = "Server-sent events; the data of each is one of these objects", content_type = "text/event-stream", body = EventData),
        Problems,
    ),
)]
pub(crate) async fn call(
    State(service): State<Arc<Service>>,
    caller: Caller,
    headers: HeaderMap,
    Query(asked): Query<EventsQuery>,
) -> Result<Response, Problem> {
    caller.may_in_general(Verb::Read)?;
    if service.is_draining() {
        return Err(Problem::draining());
    }
    let reader = Reader::begin(service, caller, asked, &headers);
    let stream = unfold(reader, async |mut reader| {
        let text = reader.next().await?;
        Some((Ok::<_, Infallible>(Bytes::from(text)), reader))
    });
    Ok((STREAMS, Body::from_stream(stream)).into_response())
}

/// The headers of an answer that has no end, which nobody may keep or hold back.
pub(super) const STREAMS: [(HeaderName, &str); 3] = [
    (CONTENT_TYPE, "text/event-stream"),
    (CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("x-accel-buffering"), "no"),
];

struct Reader {
    service: Arc<Service>,
    caller: Caller,
    prefix: String,
    news: watch::Receiver<u64>,
    /// The number of the last event that it has seen, or need not see.
    seen: u64,
    /// What is to be said before anything else.
    greeting: Option<String>,
    /// Somebody looks for what other clients do while this is here.
    sightings: Option<Arc<Sightings>>,
}

impl Reader {
    fn begin(service: Arc<Service>, caller: Caller, asked: EventsQuery, headers: &HeaderMap) -> Self {
        let EventsQuery { prefix, seen: looks } = asked;
        let sightings = looks.then(|| service.events.sightings(&service.locks, &service.keys));
        let news = service.events.news();
        let id = headers.get("last-event-id").and_then(|id| id.to_str().ok());
        let known = id.and_then(|id| service.events.number(id));
        let seen = known.unwrap_or_else(|| service.events.count());
        // The id without data: whoever is cut off before the first event can go on from here.
        let mut greeting =
            [field("retry", RETRY_MS), field("id", &service.events.id(seen)), "\n".to_owned()].concat();
        if id.is_some() && known.is_none() {
            greeting += &gap(Gap { reason: GapReason::OtherInstance, missed: None });
        }
        Self { service, caller, prefix, news, seen, greeting: Some(greeting), sightings }
    }

    /// What is to be written next; `None` at the end.
    async fn next(&mut self) -> Option<String> {
        if let Some(greeting) = self.greeting.take() {
            return Some(greeting);
        }
        loop {
            if self.service.is_draining() || self.caller.is_still(&self.service.callers).is_err() {
                return None;
            }
            self.news.mark_unchanged();
            match self.service.events.after(self.seen, BATCH) {
                Next::Gap(lost) => {
                    self.seen += lost;
                    return Some(gap(Gap { reason: GapReason::TooOld, missed: Some(lost) }));
                }
                Next::Events(events) if !events.is_empty() => {
                    let text = self.tell(&events);
                    if !text.is_empty() {
                        return Some(text);
                    }
                }
                Next::Events(_) => {
                    let waits = async {
                        tokio::select! {
                            // The sender lives as long as the service does.
                            _ = self.news.changed() => {}
                            () = self.service.drained() => {}
                        }
                    };
                    if timeout(HEARTBEAT, waits).await.is_err() {
                        return Some(":\n\n".to_owned());
                    }
                }
            }
        }
    }

    /// Those that the caller may see and wants to.
    fn tell(&mut self, events: &[(u64, Arc<Happened>)]) -> String {
        let mut text = String::new();
        for (number, happened) in events {
            self.seen = *number;
            if self.is_for(happened) {
                let id = self.service.events.id(*number);
                let data = serde_json::to_string(&**happened).expect("it is made of texts and numbers");
                text += &message(Some(&id), happened.kind, &data);
            }
        }
        text
    }

    fn is_for(&self, happened: &Happened) -> bool {
        if happened.seen.is_some() && self.sightings.is_none() {
            return false;
        }
        let mut others = happened.deadlock.iter().flatten();
        if !others.all(|member| self.caller.sees(&member.holds)) {
            return false;
        }
        match &happened.name {
            Some(name) => name.starts_with(&self.prefix) && self.caller.sees(name),
            None => self.prefix.is_empty(),
        }
    }
}

/// Tells that events were missed.
fn gap(gap: Gap) -> String {
    message(None, "gap", &serde_json::to_string(&gap).expect("it is made of texts and numbers"))
}

pub(super) fn message(id: Option<&str>, event: &str, data: &str) -> String {
    let id = id.map_or_else(String::new, |id| field("id", id));
    [id, field("event", event), field("data", data), "\n".to_owned()].concat()
}

pub(super) fn field(name: &str, value: &str) -> String {
    format!("{name}: {value}\n")
}
