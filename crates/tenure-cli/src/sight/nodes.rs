//! What the nodes themselves show.

use std::collections::VecDeque;
use std::time::Instant;

use tenure::{Fence, FleetWatch, LockState, LockView, Locks, NodeReport, WatchProgress};

use super::{Change, Lock, News, Node, Progress, ago};
use crate::report::State;

pub(crate) struct OfNodes {
    watch: FleetWatch,
    news: VecDeque<News>,
}

impl OfNodes {
    pub(super) fn begin(locks: &Locks, begins: &str) -> Self {
        Self { watch: locks.watch().prefix(begins), news: VecDeque::new() }
    }

    pub(super) async fn next(&mut self) -> Option<News> {
        loop {
            if let Some(news) = self.news.pop_front() {
                return Some(news);
            }
            let fresh = self.watch.next().await?;
            self.news.extend(fresh.nodes.map(|nodes| News::Nodes(nodes.iter().map(node_of).collect())));
            let changes: Vec<Change> = fresh
                .locks
                .iter()
                .map(|change| Change {
                    name: change.name.to_string(),
                    before: change.before.as_deref().map(lock),
                    now: change.now.as_deref().map(lock),
                    passed_on_after: change.passed_on_after,
                })
                .collect();
            if !changes.is_empty() {
                self.news.push_back(News::Locks(changes));
            }
            self.news.extend(fresh.progress.map(|told| News::Progress(progress(&told))));
        }
    }
}

fn lock(view: &LockView) -> Lock {
    let state = view.state();
    let readers = match state {
        LockState::Held { sharers, .. } => *sharers,
        _ => None,
    };
    Lock {
        name: view.name().to_owned(),
        state: match state {
            LockState::Free => State::Free,
            LockState::Held { .. } => State::Held,
            LockState::Kept { .. } => State::Kept,
            LockState::Reserved { .. } => State::Reserved,
            LockState::Disputed => State::Disputed,
            _ => State::Unknown,
        },
        holder: state.owner().map(ToString::to_string),
        label: state.label().map(ToString::to_string),
        fence: state.fence().map(Fence::get),
        margin: view.margin(),
        waiters: view.waiters(),
        readers,
        agree: view.agree(),
        disagree: view.disagree(),
        others: view.others(),
        age_exact: view.held_for_is_known(),
        ends: view.left().map(|left| Instant::now() + left),
        since: ago(view.held_for()),
    }
}

fn progress(told: &WatchProgress) -> Progress {
    let sum =
        |of: fn(&tenure::WalkProgress) -> Option<u64>| told.nodes.iter().filter_map(of).reduce(|a, b| a + b);
    Progress { complete: told.complete, looked_at: sum(|node| node.looked_at), of: sum(|node| node.of) }
}

/// How a node is, as it is shown.
fn node_of(report: &NodeReport) -> Node {
    Node {
        node: report.node.to_string(),
        reachable: report.reachable,
        votes: report.votes,
        version: report.version.as_deref().map(str::to_owned),
        persistence: format!("{:?}", report.persistence).to_lowercase(),
        quarantine_left: report.quarantine_left,
        clock_offset_us: report.clock_offset_us,
        round_trip: report.round_trip,
        findings: report.findings.iter().map(ToString::to_string).collect(),
    }
}
