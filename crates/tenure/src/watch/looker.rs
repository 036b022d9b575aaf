//! The one who looks: walks through all nodes, each at its own pace, and looks again at what
//! changes.
//!
//! A node is asked one thing at a time. When it has answered, it is left alone for so long that
//! looking takes no more than its share (`tenure_core::Pace`); then come, in turn, the next slice
//! of the walk and the locks that should be looked at before the walk comes by.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tenure_core::{
    Change, Listing, LockKey, LockState, NodeIndex, NodeSet, Nonce, Pace, Part, Share, Time, View,
};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::board::{Told, Wanted};
use super::tap::Deed;
use super::{LockView, WalkProgress, WatchProgress};
use crate::Locks;
use crate::diagnostics::NodeReport;
use crate::inspect::{LockReport, Slice};
use crate::locks::Inner;

/// A walk through a node begins so often, if the one before is over.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A lock that was not looked at for so long is looked at out of turn: the walk is slow.
const STALE: Duration = Duration::from_secs(2);

/// How many locks are looked at together out of turn: half a millisecond of a node's time.
const TOGETHER: usize = 100;

/// Servers are asked about themselves so often, and sooner if something changes.
const NODES_EVERY: Duration = Duration::from_secs(10);
const NODES_EVERY_MIN: Duration = Duration::from_secs(1);

/// How far the walks are is told so often.
const PROGRESS_EVERY: Duration = Duration::from_millis(500);

/// For so long a change counts as what this process did.
const OURS: Duration = Duration::from_secs(5);

/// How long a node is left alone that did not answer.
const AFTER_FAULT: Duration = Duration::from_secs(1);

/// Looks until nobody watches any more, or the manager is gone.
pub(super) async fn look(manager: Arc<Inner>) {
    let mut looker = Looker::new(manager);
    let mut jobs = JoinSet::new();
    loop {
        let Some(wanted) = looker.manager.board.wanted() else { return };
        looker.turn_to(wanted);
        looker.hear();
        looker.begin(&mut jobs);
        looker.publish();
        tokio::select! {
            Some(done) = jobs.join_next() => {
                // A job that panicked, or found nobody to ask.
                let Some(done) = done.ok().flatten() else { break };
                looker.take(done);
            }
            () = looker.manager.board.tap.news() => {}
            () = sleep_until(looker.next()) => {}
        }
    }
    looker.manager.board.close();
}

struct Looker {
    manager: Arc<Inner>,
    wanted: Wanted,
    view: View,
    nodes: Vec<NodeState>,
    /// Single locks, and when each is asked for next.
    focus: BTreeMap<String, Focus>,
    survey: Survey,
    /// What this process did to which locks, and when, as far as it was not seen yet.
    ours: BTreeMap<Arc<str>, (Deed, Instant)>,
    told_progress: Option<(Instant, WatchProgress)>,
    /// When those who watch were last told which locks were seen again.
    touched: Instant,
}

struct NodeState {
    asked: bool,
    /// It is left alone until then.
    alone_until: Instant,
    pace: Pace,
    /// When the last walk began, and the one before.
    began: Option<Instant>,
    began_before: Option<Instant>,
    walked_last: bool,
    /// The life of its memory in which it is walked through.
    life: Vec<Nonce>,
}

struct Focus {
    asked: bool,
    due: Instant,
    told: Option<(LockReport, Option<Time>)>,
}

struct Survey {
    asked: bool,
    due: Instant,
    last: Option<Instant>,
    told: Option<Vec<NodeReport>>,
}

/// What was asked for is there.
enum Done {
    Slice { node: NodeIndex, these: Option<Vec<LockKey>>, slice: Slice },
    Nodes(Vec<NodeReport>),
    Lock(String, Option<LockReport>),
}

impl Looker {
    fn new(manager: Arc<Inner>) -> Self {
        let now = Instant::now();
        let node = |_| NodeState {
            asked: false,
            alone_until: now,
            pace: Pace::new(Share::WATCHING),
            began: None,
            began_before: None,
            walked_last: false,
            life: vec![],
        };
        Self {
            wanted: Wanted { begins: None, focus: vec![] },
            view: View::new(manager.quorum),
            nodes: manager.quorum.indexes().map(node).collect(),
            focus: BTreeMap::new(),
            survey: Survey { asked: false, due: now, last: None, told: None },
            ours: BTreeMap::new(),
            told_progress: None,
            touched: now,
            manager,
        }
    }

    /// Takes up what is wanted now.
    fn turn_to(&mut self, wanted: Wanted) {
        match (&self.wanted.begins, &wanted.begins) {
            (Some(before), Some(now)) if now.starts_with(before.as_str()) => {}
            // There is more to find. What is known stays.
            (Some(_), Some(_)) => self.view.restart(),
            (None, Some(_)) => {
                self.view = View::new(self.manager.quorum);
                self.manager.board.clear();
                self.nodes.iter_mut().for_each(|node| node.began = None);
            }
            (_, None) => {}
        }
        // A walk for less than before goes on as it was: it costs the same.
        let narrower = matches!((&self.wanted.begins, &wanted.begins),
            (Some(before), Some(now)) if now.starts_with(before.as_str()));
        let begins = if narrower { self.wanted.begins.take() } else { wanted.begins };
        self.focus.retain(|name, _| wanted.focus.contains(name));
        for name in &wanted.focus {
            let begin = || Focus { asked: false, due: Instant::now(), told: None };
            self.focus.entry(name.clone()).or_insert_with(begin);
        }
        self.wanted = Wanted { begins, focus: wanted.focus };
    }

    /// Takes up what this process did.
    fn hear(&mut self) {
        let heard = self.manager.board.tap.take();
        let (now, time) = (Instant::now(), self.manager.clock.now());
        if heard.nodes {
            self.survey.due = now;
        }
        for (name, deed) in heard.names {
            if let Some(focus) = self.focus.get_mut(&name) {
                focus.due = now;
            }
            let Ok(key) = self.manager.key(&name) else { continue };
            let key: Arc<str> = key.as_str().into();
            if self.wanted.begins.as_ref().is_some_and(|begins| name.starts_with(begins.as_str())) {
                self.view.want(time, &key);
                if let Some(deed) = deed {
                    self.ours.insert(key, (deed, now));
                }
            }
        }
        self.ours.retain(|_, (_, at)| now.duration_since(*at) < OURS);
    }

    /// Begins whatever is due.
    fn begin(&mut self, jobs: &mut JoinSet<Option<Done>>) {
        let now = Instant::now();
        for node in self.manager.quorum.indexes() {
            let state = &self.nodes[node.get()];
            if state.asked || state.alone_until > now {
                continue;
            }
            let Some(part) = self.next_part(node, now) else { continue };
            let state = &mut self.nodes[node.get()];
            state.asked = true;
            let these = match &part {
                Part::These(keys) => Some(keys.clone()),
                Part::Slice { .. } => None,
            };
            state.walked_last = these.is_none();
            let begins = self.wanted.begins.as_deref().unwrap_or_default().into();
            let listing = Listing { prefix: self.manager.prefix.clone(), begins, part, detailed: true };
            let manager = Arc::clone(&self.manager);
            jobs.spawn(async move {
                Some(Done::Slice { node, these, slice: manager.slice(node, listing).await? })
            });
        }
        let due = self.focus.iter_mut().filter(|(_, focus)| !focus.asked && focus.due <= now);
        for (name, focus) in due {
            focus.asked = true;
            let (locks, name) = (Locks { inner: Arc::clone(&self.manager) }, name.clone());
            jobs.spawn(async move {
                let report = locks.inspect(&name).await;
                Some(Done::Lock(name, report.ok()))
            });
            // Every node answers that, too.
            for state in &mut self.nodes {
                state.alone_until = state.alone_until.max(now) + state.pace.alone_after(Duration::ZERO);
            }
        }
        if !self.survey.asked && self.survey.due <= now {
            self.survey.asked = true;
            let locks = Locks { inner: Arc::clone(&self.manager) };
            jobs.spawn(async move { Some(Done::Nodes(locks.nodes().await)) });
        }
    }

    /// What a node is asked next, if anything.
    fn next_part(&mut self, node: NodeIndex, now: Instant) -> Option<Part> {
        self.wanted.begins.as_ref()?;
        let state = &self.nodes[node.get()];
        let walk = self.view.walk(node);
        let is_due = !walk.is_between_passes() || state.began.is_none_or(|began| now >= began + LOOK_EVERY);
        if state.walked_last || !is_due {
            let stale = before(self.manager.clock.now(), STALE);
            let these = self.view.take_wanted(node, TOGETHER, stale);
            let these: Vec<LockKey> =
                these.iter().filter_map(|key| self.manager.prefix.key_of(key)).collect();
            if !these.is_empty() {
                return Some(Part::These(these));
            }
        }
        if !is_due {
            return None;
        }
        let (cursor, keys) = (walk_cursor(&self.view, node), state.pace.keys());
        if cursor == 0 {
            let state = &mut self.nodes[node.get()];
            state.began_before = state.began.replace(now);
        }
        Some(Part::Slice { cursor, keys })
    }

    /// When something is due next, if nothing happens before.
    fn next(&self) -> Instant {
        let node = |node: NodeIndex| {
            let state = &self.nodes[node.get()];
            let goes_on = !self.view.walk(node).is_between_passes() || self.view.is_wanted(node);
            let due = match state.began {
                Some(began) if !goes_on => began + LOOK_EVERY,
                _ => state.alone_until,
            };
            (!state.asked && self.wanted.begins.is_some()).then(|| due.max(state.alone_until))
        };
        let nodes = self.manager.quorum.indexes().filter_map(node);
        let focus = self.focus.values().filter(|focus| !focus.asked).map(|focus| focus.due);
        let survey = (!self.survey.asked).then_some(self.survey.due);
        let next = nodes.chain(focus).chain(survey).min();
        next.unwrap_or_else(|| Instant::now() + LOOK_EVERY)
    }

    fn take(&mut self, done: Done) {
        match done {
            Done::Slice { node, these, slice } => self.take_slice(node, these.as_deref(), slice),
            Done::Nodes(nodes) => {
                let now = Instant::now();
                (self.survey.asked, self.survey.last, self.survey.due) =
                    (false, Some(now), now + NODES_EVERY);
                if self.survey.told.as_ref() != Some(&nodes) {
                    self.manager.board.put_nodes(nodes.clone());
                    self.survey.told = Some(nodes);
                }
            }
            Done::Lock(name, report) => self.take_report(&name, report),
        }
    }

    fn take_slice(&mut self, node: NodeIndex, these: Option<&[LockKey]>, slice: Slice) {
        let (now, time) = (Instant::now(), self.manager.clock.now());
        if self.view.vote(time, slice.voters) {
            self.survey_soon(now);
        }
        let only: NodeSet = std::iter::once(node).collect();
        let state = &mut self.nodes[node.get()];
        state.asked = false;
        match slice.told {
            Ok((listed, clock)) => {
                if !self.view.walk(node).answers() {
                    self.survey.due = self.survey.due.min(now + NODES_EVERY_MIN);
                }
                let life = self.manager.lives.of(only);
                let begins_again = std::mem::replace(&mut state.life, life.clone()) != life;
                let rest = match these {
                    None => state.pace.rest(listed.took, slice.round_trip),
                    Some(_) => state.pace.alone_after(listed.took.unwrap_or(slice.round_trip)),
                };
                state.alone_until = now + rest;
                self.view.take(time, node, clock, these, listed);
                if begins_again {
                    // Its cursors were those of another memory.
                    self.view.restart_node(node);
                    self.nodes[node.get()].began = None;
                }
            }
            Err(fault) => {
                state.alone_until = now + AFTER_FAULT;
                if self.view.walk(node).answers() {
                    self.survey_soon(now);
                }
                self.view.take_fault(time, node, fault);
            }
        }
    }

    fn survey_soon(&mut self, now: Instant) {
        let earliest = self.survey.last.map_or(now, |last| last + NODES_EVERY_MIN);
        self.survey.due = self.survey.due.min(earliest.max(now));
    }

    fn take_report(&mut self, name: &str, report: Option<LockReport>) {
        let Some(focus) = self.focus.get_mut(name) else { return };
        (focus.asked, focus.due) = (false, Instant::now() + LOOK_EVERY);
        let Some(report) = report else { return };
        let ends = report.state.left().map(|left| self.manager.clock.now() + left);
        let bare = without_time(&report);
        let is_new = focus.told.as_ref().is_none_or(|(told, told_ends)| {
            let apart = ends.zip(*told_ends).map(|(a, b)| a.since(b).max(b.since(a)));
            *told != bare || apart.is_some_and(|apart| apart > Duration::from_millis(250))
        });
        if is_new {
            focus.told = Some((bare, ends));
            self.manager.board.put_report(name, report);
        }
    }

    /// Tells what has changed.
    fn publish(&mut self) {
        let now = Instant::now();
        let changes = self.view.take_changes();
        for key in changes.keys() {
            let name = key.strip_prefix(self.manager.prefix.as_str()).unwrap_or(key);
            if let Some(focus) = self.focus.get_mut(name) {
                focus.due = now;
            }
        }
        if now.duration_since(self.touched) >= LOOK_EVERY {
            self.touched = now;
            self.manager.board.touch(self.view.rows().iter().map(|(key, row)| (key, row.seen)));
        }
        let progress = self.new_progress(now);
        if changes.is_empty() && progress.is_none() {
            return;
        }
        let (clock, prefix) = (self.manager.clock, self.manager.prefix.as_str());
        let mut told = vec![];
        let since_walk =
            self.nodes.iter().filter_map(|node| Some(now.duration_since(node.began_before?))).max();
        let time = self.manager.clock.now();
        for (key, Change { before, now }) in changes {
            let walked = || since_walk.unwrap_or(LOOK_EVERY * 2);
            let within = match (&before, &now) {
                (Some(before), _) => time.since(before.seen),
                (None, Some(row)) if row.since_known => time.since(row.since).min(walked()),
                (None, _) => walked(),
            };
            let name: Arc<str> = key.strip_prefix(prefix).unwrap_or(&key).into();
            let mut passed_on_after = None;
            let is_ours = self.ours.get(&key).is_some_and(|(deed, _)| match (deed, &now) {
                (Deed::Acquired(fence, after), Some(row)) => {
                    let is_it = row.state.fence() == Some(*fence);
                    passed_on_after = after.filter(|_| is_it);
                    is_it
                }
                (Deed::GaveUp(_), None) => true,
                _ => false,
            });
            if is_ours {
                self.ours.remove(&key);
            }
            let now = now.map(|row| Arc::new(LockView::new(name, row, clock)));
            told.push((key, Told { now, ours: is_ours, within, passed_on_after }));
        }
        self.manager.board.put(told, progress);
    }

    /// How far the walks are, if there is something new to say: all the time until they are
    /// complete, then only when nodes fail or come back.
    fn new_progress(&mut self, now: Instant) -> Option<WatchProgress> {
        self.wanted.begins.as_ref()?;
        let progress = self.progress();
        let errors = |progress: &WatchProgress| -> Vec<bool> {
            progress.nodes.iter().map(|node| node.error.is_some()).collect()
        };
        if let Some((at, told)) = &self.told_progress {
            let is_same = told.complete == progress.complete && errors(told) == errors(&progress);
            if is_same && (progress.complete || now.duration_since(*at) < PROGRESS_EVERY) {
                return None;
            }
        }
        self.told_progress = Some((now, progress.clone()));
        Some(progress)
    }

    fn progress(&self) -> WatchProgress {
        let node = |node: NodeIndex| {
            let progress = self.view.walk(node).progress();
            WalkProgress {
                node: self.manager.address(node),
                complete: progress.complete,
                looked_at: progress.looked_at,
                of: progress.of,
                error: progress.fault.map(|fault| fault.to_string()),
            }
        };
        let complete = self.view.is_complete();
        WatchProgress { complete, nodes: self.manager.quorum.indexes().map(node).collect() }
    }
}

fn walk_cursor(view: &View, node: NodeIndex) -> u64 {
    view.walk(node).cursor()
}

fn before(time: Time, duration: Duration) -> Time {
    let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    Time::from_nanos(time.as_nanos().saturating_sub(nanos))
}

/// What is told of a lock, whenever it is asked for.
fn without_time(report: &LockReport) -> LockReport {
    let mut report = report.clone();
    report.held_for = None;
    if let LockState::Held { left, .. } | LockState::Kept { left, .. } | LockState::Reserved { left, .. } =
        &mut report.state
    {
        *left = None;
    }
    for answer in &mut report.nodes {
        if let Ok(Some(holding)) = &mut answer.holding {
            holding.left = None;
        }
    }
    report
}
