//! `GET /v1/watch`: the locks, the nodes and how they change, as server-sent events.
//!
//! What is seen of the fleet comes from one looker, however many watch. Every reader is told what
//! the locks are and then what changes; one that is slow is told less often, and nobody waits for
//! it. All times are durations from the moment at which a message was written.

mod row;
mod totals;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use futures_util::stream::unfold;
use serde::{Deserialize, Serialize};
use tenure::{FleetNews, FleetWatch, LockChange, NodeReport, WatchProgress};
use tokio::time::{Instant, sleep_until};
use utoipa::{IntoParams, ToSchema};

use self::row::Row;
use self::totals::Totals;
use super::events::{HEARTBEAT, RETRY_MS, STREAMS, field, message};
use super::look::Nodes;
use super::look::report::LockReport;
use crate::Service;
use crate::body::Query;
use crate::caller::{Caller, Verb};
use crate::form::{milliseconds, node};
use crate::problem::{ANY, Kind, OF_RIGHTS, Problem, problems};

problems!(Problems: ANY, OF_RIGHTS, &[Kind::BadRequest, Kind::OutOfBounds, Kind::Draining]);

/// Changes are told so often at most: many locks are renewed all the time, and a page is drawn for
/// each message.
const CHANGES_EVERY: Duration = Duration::from_millis(200);

/// Totals are told so often at most.
const TOTALS_EVERY: Duration = Duration::from_secs(1);

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct WatchQuery {
    /// Prefix of the lock names.
    prefix: Option<String>,
    /// One lock in full, instead of a prefix.
    name: Option<String>,
}

/// The type of the message's data.
#[derive(ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "it says what the JSON looks like")]
enum WatchData {
    Hello(Hello),
    Snapshot(Snapshot),
    Changes(Changes),
    Progress(Progress),
    Nodes(Nodes),
    Totals(Totals),
    Lock(Box<LockReport>),
}

/// The data of `hello`, which comes first.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = WatchHello)]
struct Hello {
    /// The instance, and which run of it this is.
    instance: String,
    version: &'static str,
    /// About how often the nodes are scanned.
    look_every_ms: u64,
    /// The largest share of a node's time that scanning takes.
    share_max: f64,
    /// Whether the caller may see all locks.
    sees_all: bool,
    nodes: usize,
    majority: usize,
}

/// The data of `snapshot`: the locks as they are now, in one or more messages.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = WatchSnapshot)]
struct Snapshot {
    rows: Vec<Row>,
    /// Whether more messages follow.
    more: bool,
}

/// The data of `changes`: what changed since the last message.
#[derive(Debug, Default, Serialize, ToSchema)]
#[schema(as = WatchChanges)]
struct Changes {
    added: Vec<Row>,
    changed: Vec<Row>,
    /// The names of locks that were freed.
    gone: Vec<String>,
    /// Locks that were only extended.
    extended: Vec<Extended>,
    /// Added and changed locks that this instance got right after a release.
    passed_on: Vec<PassedOn>,
}

/// A lock that this instance got right after a release.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = WatchPassedOn)]
struct PassedOn {
    name: String,
    /// The time from the release by the previous holder to the grant, as one node's clock saw both.
    after_ms: u64,
}

/// A lock that was only extended.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = WatchExtended)]
struct Extended {
    name: String,
    /// Time until it expires.
    left_ms: u64,
}

/// The data of `progress`: how far the scan is. Until it is complete, a lock that is not listed may
/// be held.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = WatchProgress)]
struct Progress {
    /// Whether every node that answers has been scanned.
    complete: bool,
    nodes: Vec<Walk>,
}

/// Progress on one node.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = WatchWalk)]
struct Walk {
    node: String,
    complete: bool,
    /// The approximate number of keys scanned; most are fences. Absent for callers that may not see
    /// all locks.
    #[schema(required)]
    looked_at: Option<u64>,
    /// The number of its keys.
    #[schema(required)]
    of: Option<u64>,
    /// Why it did not answer. It will be asked again.
    #[schema(required)]
    error: Option<String>,
}

/// Follows the locks and nodes: the current state, then changes.
///
/// Server-sent events: `hello`, then `snapshot` messages until no more follow, then `changes`;
/// between them `progress`, `nodes` and `totals`. With a name instead of a prefix: `hello`, then
/// `lock`, as in `/v1/lock`, whenever it changes, and `nodes`. A client that reconnects starts
/// over.
#[utoipa::path(
    get, path = "/v1/watch", operation_id = "watch", tag = "look",
    params(WatchQuery),
    responses(
        (status = 200, description = "Server-sent messages; the data of each is one of these objects", content_type = "text/event-stream", body = WatchData),
        Problems,
    ),
)]
pub(crate) async fn call(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Query(asked): Query<WatchQuery>,
) -> Result<Response, Problem> {
    let watch = match (asked.prefix, asked.name) {
        (Some(_), Some(_)) => {
            return Err(Problem::new(Kind::BadRequest, "send a prefix or a name, not both"));
        }
        (prefix, None) => {
            caller.may_in_general(Verb::Read)?;
            service.locks.watch().prefix(prefix.unwrap_or_default())
        }
        (None, Some(name)) => {
            caller.may(Verb::Read, &name)?;
            // What is wrong with a name is said before a stream begins.
            service.locks.inspect(&name).await?;
            service.locks.watch().lock(name)
        }
    };
    if service.is_draining() {
        return Err(Problem::draining());
    }
    let stream = unfold(Reader::begin(service, caller, watch), async |mut reader| {
        let text = reader.next().await?;
        Some((Ok::<_, Infallible>(Bytes::from(text)), reader))
    });
    Ok((STREAMS, Body::from_stream(stream)).into_response())
}

struct Reader {
    service: Arc<Service>,
    caller: Caller,
    watch: FleetWatch,
    /// What is to be said before anything else.
    greeting: Option<String>,
    /// The locks are being told for the first time.
    snapshot: bool,
    /// Changes are not told before.
    quiet_until: Instant,
    /// When totals are told next, and what was told.
    totals_due: Instant,
    totals: Option<Totals>,
}

impl Reader {
    fn begin(service: Arc<Service>, caller: Caller, watch: FleetWatch) -> Self {
        let nodes = service.locks.node_addresses().count();
        let hello = Hello {
            instance: service.events.instance().to_owned(),
            version: env!("CARGO_PKG_VERSION"),
            look_every_ms: milliseconds(FleetWatch::LOOK_EVERY),
            share_max: FleetWatch::share_max(),
            sees_all: caller.sees_all(),
            nodes,
            majority: nodes / 2 + 1,
        };
        let greeting = Some([field("retry", RETRY_MS), told("hello", &hello)].concat());
        let (snapshot, now) = (watch.is_list(), Instant::now());
        let (quiet_until, totals_due, totals) = (now, now + TOTALS_EVERY, None);
        Self { service, caller, watch, greeting, snapshot, quiet_until, totals_due, totals }
    }

    /// What is to be written next; `None` at the end.
    async fn next(&mut self) -> Option<String> {
        if let Some(greeting) = self.greeting.take() {
            return Some(greeting);
        }
        let heartbeat = Instant::now() + HEARTBEAT;
        loop {
            if self.service.is_draining() || self.caller.is_still(&self.service.callers).is_err() {
                return None;
            }
            let is_list = self.watch.is_list();
            let (quiet_until, watch) = (self.quiet_until, &mut self.watch);
            let news = async {
                sleep_until(quiet_until).await;
                watch.next().await
            };
            let text = tokio::select! {
                news = news => self.tell(news?),
                () = sleep_until(self.totals_due), if is_list && !self.snapshot => self.tell_totals(),
                () = sleep_until(heartbeat) => ":\n\n".to_owned(),
                () = self.service.drained() => String::new(),
            };
            if !text.is_empty() {
                return Some(text);
            }
        }
    }

    fn tell(&mut self, news: FleetNews) -> String {
        let FleetNews { locks, more, nodes, progress, lock, .. } = news;
        let mut text = String::new();
        let locks: Vec<LockChange> =
            locks.into_iter().filter(|change| self.caller.sees(&change.name)).collect();
        if self.snapshot {
            let rows = locks.iter().filter_map(|change| change.now.as_deref());
            let rows = rows.map(|view| Row::of(view, &self.service.keys)).collect();
            text += &told("snapshot", &Snapshot { rows, more });
            if !more {
                self.snapshot = false;
                text += &self.tell_totals();
            }
        } else if !locks.is_empty() {
            text += &told("changes", &self.changes(&locks));
            if !more {
                self.quiet_until = Instant::now() + CHANGES_EVERY;
            }
        }
        text += &nodes.map(|nodes| told("nodes", &reported(&nodes))).unwrap_or_default();
        text += &progress.map(|progress| told("progress", &self.progress(&progress))).unwrap_or_default();
        text += &lock
            .map(|lock| {
                told("lock", &LockReport::of(&lock, &self.service.keys, |name| self.caller.sees(name)))
            })
            .unwrap_or_default();
        text
    }

    fn changes(&self, locks: &[LockChange]) -> Changes {
        let mut changes = Changes::default();
        for change in locks {
            let row = change.now.as_deref().map(|view| Row::of(view, &self.service.keys));
            changes.passed_on.extend(
                change
                    .passed_on_after
                    .map(|after| PassedOn { name: change.name.to_string(), after_ms: milliseconds(after) }),
            );
            match (row, change.now.as_ref().and_then(|view| view.left())) {
                (None, _) => changes.gone.push(change.name.to_string()),
                (Some(_), Some(left)) if change.is_extension() => {
                    changes
                        .extended
                        .push(Extended { name: change.name.to_string(), left_ms: milliseconds(left) });
                }
                (Some(row), _) if change.before.is_none() => changes.added.push(row),
                (Some(row), _) => changes.changed.push(row),
            }
        }
        changes
    }

    fn progress(&self, progress: &WatchProgress) -> Progress {
        // How many keys there are says how many locks there were.
        let all = self.caller.sees_all();
        let walk = |walk: &tenure::WalkProgress| Walk {
            node: walk.node.to_string(),
            complete: walk.complete,
            looked_at: walk.looked_at.filter(|_| all),
            of: walk.of.filter(|_| all),
            error: walk.error.clone(),
        };
        Progress { complete: progress.complete, nodes: progress.nodes.iter().map(walk).collect() }
    }

    fn tell_totals(&mut self) -> String {
        self.totals_due = Instant::now() + TOTALS_EVERY;
        let totals = Totals::of(&self.watch, self.service.events.tally(), &self.caller);
        if self.totals.as_ref().is_some_and(|told| told.says_the_same(&totals)) {
            return String::new();
        }
        let text = told("totals", &totals);
        self.totals = Some(totals);
        text
    }
}

fn reported(nodes: &[NodeReport]) -> Nodes {
    Nodes { nodes: nodes.iter().map(node).collect() }
}

fn told(event: &str, data: &impl Serialize) -> String {
    message(None, event, &serde_json::to_string(data).expect("it is made of texts and numbers"))
}
