//! What a service shows of them.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::time::sleep;

use super::{Change, Lock, News, Node, Progress, ago};
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::report::state;
use crate::service::{Messages, Service};

/// A service that is gone is asked again after this.
const PAUSE: Duration = Duration::from_secs(1);

pub(crate) struct OfService {
    service: Service,
    path: String,
    messages: Option<Messages>,
    /// The locks as they were told.
    known: BTreeMap<String, Lock>,
    /// Those that a snapshot has told of, until it is whole.
    snapshot: Option<BTreeMap<String, Lock>>,
    news: VecDeque<News>,
    stale: bool,
    reached: bool,
}

impl OfService {
    pub(super) fn begin(service: Service, begins: &str) -> Self {
        let path = format!("/v1/watch?prefix={}", crate::service::escaped(begins));
        let (known, snapshot, news) = (BTreeMap::new(), None, VecDeque::new());
        Self { service, path, messages: None, known, snapshot, news, stale: false, reached: false }
    }

    pub(super) async fn next(&mut self) -> Result<News, Failure> {
        loop {
            if let Some(news) = self.news.pop_front() {
                return Ok(news);
            }
            let Some(messages) = &mut self.messages else {
                match self.service.messages(&self.path).await {
                    Ok(messages) => {
                        self.messages = Some(messages);
                        (self.snapshot, self.reached) = (Some(BTreeMap::new()), true);
                        if std::mem::take(&mut self.stale) {
                            self.news.push_back(News::Fresh);
                        }
                    }
                    // Whoever was never let in is told why at once.
                    Err(trouble) if !self.reached || !trouble.may_pass() => {
                        return Err(trouble.failure(None, Exit::HELD));
                    }
                    Err(trouble) => {
                        if !std::mem::replace(&mut self.stale, true) {
                            return Ok(News::Stale(trouble.failure(None, Exit::HELD).message));
                        }
                        sleep(PAUSE).await;
                    }
                }
                continue;
            };
            match messages.next().await {
                Some((event, data)) => self.take(&event, &data),
                None => {
                    self.messages = None;
                    if !std::mem::replace(&mut self.stale, true) {
                        self.news.push_back(News::Stale("lost contact with the service".to_owned()));
                    }
                    sleep(PAUSE).await;
                }
            }
        }
    }

    fn take(&mut self, event: &str, data: &Value) {
        match event {
            "snapshot" => {
                let rows = self.snapshot.get_or_insert_default();
                rows.extend(each(&data["rows"]).map(|row| (name(row), lock(row))));
                if data["more"] != true {
                    let now = self.snapshot.take().unwrap_or_default();
                    let gone: Vec<String> =
                        self.known.keys().filter(|name| !now.contains_key(*name)).cloned().collect();
                    let gone = gone.into_iter().map(|name| (name, None));
                    let changes: Vec<_> =
                        gone.chain(now.into_iter().map(|(name, lock)| (name, Some(lock)))).collect();
                    self.change(changes, &BTreeMap::new());
                }
            }
            "changes" => {
                let rows = each(&data["added"]).chain(each(&data["changed"]));
                let mut changes: Vec<_> = rows.map(|row| (name(row), Some(lock(row)))).collect();
                for row in each(&data["extended"]) {
                    if let Some(known) = self.known.get(&name(row)) {
                        let ends =
                            row["left_ms"].as_u64().map(|left| Instant::now() + Duration::from_millis(left));
                        changes.push((name(row), Some(Lock { ends, ..known.clone() })));
                    }
                }
                let gone = each(&data["gone"]).filter_map(Value::as_str).map(|name| (name.to_owned(), None));
                changes.extend(gone);
                let passed_on = each(&data["passed_on"]).filter_map(|passed_on| {
                    Some((name(passed_on), Duration::from_millis(passed_on["after_ms"].as_u64()?)))
                });
                self.change(changes, &passed_on.collect());
            }
            "nodes" => self.news.push_back(News::Nodes(each(&data["nodes"]).map(node).collect())),
            "progress" => {
                let sum = |field: &str| {
                    each(&data["nodes"]).filter_map(|node| node[field].as_u64()).reduce(|a, b| a + b)
                };
                let complete = data["complete"] == true;
                self.news.push_back(News::Progress(Progress {
                    complete,
                    looked_at: sum("looked_at"),
                    of: sum("of"),
                }));
            }
            _ => {}
        }
    }

    fn change(&mut self, changes: Vec<(String, Option<Lock>)>, passed_on: &BTreeMap<String, Duration>) {
        let mut told = vec![];
        for (name, now) in changes {
            let before = match &now {
                Some(lock) => self.known.insert(name.clone(), lock.clone()),
                None => self.known.remove(&name),
            };
            let passed_on_after = passed_on.get(&name).copied();
            told.push(Change { name, before, now, passed_on_after });
        }
        if !told.is_empty() {
            self.news.push_back(News::Locks(told));
        }
    }
}

fn each(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn name(row: &Value) -> String {
    row["name"].as_str().unwrap_or_default().to_owned()
}

fn lock(row: &Value) -> Lock {
    let text = |field: &str| row[field].as_str().map(str::to_owned);
    let count = |field: &str| row[field].as_u64().and_then(|count| usize::try_from(count).ok());
    Lock {
        name: name(row),
        state: state(&row["state"]),
        holder: text("holder"),
        label: text("label"),
        fence: row["fence"].as_u64(),
        margin: count("margin"),
        waiters: row["waiters"].as_u64(),
        readers: row["readers"].as_u64(),
        agree: count("agree").unwrap_or(0),
        disagree: count("disagree").unwrap_or(0),
        others: count("others").unwrap_or(0),
        age_exact: row["age_exact"] == true,
        ends: row["left_ms"].as_u64().map(|left| Instant::now() + Duration::from_millis(left)),
        since: ago(Duration::from_millis(row["age_ms"].as_u64().unwrap_or(0))),
    }
}

fn node(told: &Value) -> Node {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let finding = |found: &Value| {
        let part = |field: &str| found[field].as_str().unwrap_or_default();
        format!("{}: {}. {}", part("severity"), part("message"), part("advice"))
    };
    Node {
        node: text(&told["node"]).unwrap_or_default(),
        reachable: told["reachable"] == true,
        votes: told["votes"] == true,
        version: text(&told["version"]),
        persistence: text(&told["persistence"]).unwrap_or_default(),
        quarantine_left: told["quarantine_left_ms"].as_u64().map(Duration::from_millis),
        clock_offset_us: told["clock_offset_us"].as_i64(),
        round_trip: told["rtt_us"].as_u64().map(Duration::from_micros),
        findings: each(&told["findings"]).map(finding).collect(),
    }
}
