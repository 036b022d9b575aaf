//! The demo while it runs: what is done when a key is pressed or something happens.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use tenure::NodeReport;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::contender::{Said, now_us};
use super::happened::{Happened, name};
use super::judge::{Finding, Judge};
use super::keys::{Act, Do};
use super::picture::{NodeView, Picture};
use super::server::{Power, Server};
use super::world::{Reports, World};
use crate::failure::Failure;
use crate::output::{demo_words, time_of_day};

/// Nodes are looked at so often.
const LOOK_EVERY: Duration = Duration::from_millis(300);
/// That there is no majority is said at most so often.
const OUTAGE_EVERY: Duration = Duration::from_secs(3);
/// No terminal is higher.
const LOG_MAX: usize = 200;
/// A majority of five.
const MAJORITY: usize = 3;

/// For those who have no `redis-server`.
const INSTALL: &str = "redis-server is not installed, so this demo uses the embedded store; for five \
                       nodes: apt install redis-server, or brew install redis";

pub(crate) struct Stage {
    world: World,
    dashboard: Option<String>,
    judge: Judge,
    nodes: Vec<NodeView>,
    looker: Looker,
    chosen: usize,
    help: bool,
    /// A majority is emptied as soon as somebody holds the lock for long.
    awaits_long: bool,
    outage_told: Option<Instant>,
    /// What happened and was not said yet.
    news: Vec<Happened>,
    log: VecDeque<(String, bool)>,
}

impl Stage {
    pub(crate) fn start(reports: Reports, with_dashboard: bool) -> Result<Self, Failure> {
        let world = World::start(reports, with_dashboard)
            .map_err(|error| Failure::internal(format!("the demo cannot start: {error}")))?;
        let looker = Looker::start(&world)?;
        let view = |address: &String| NodeView {
            address: address.trim_start_matches("redis://").to_owned(),
            ..NodeView::default()
        };
        let mut stage = Self {
            dashboard: world.dashboard(),
            judge: Judge::default(),
            nodes: world.setup.nodes.iter().map(view).collect(),
            looker,
            chosen: 0,
            help: false,
            awaits_long: false,
            outage_told: None,
            news: vec![],
            log: VecDeque::new(),
            world,
        };
        let begun = Happened::Begun { nodes: stage.nodes.len(), dashboard: stage.dashboard.clone() };
        stage.tell(begun);
        if stage.world.setup.is_embedded() {
            stage.tell(Happened::Note(INSTALL.to_owned()));
        }
        Ok(stage)
    }

    /// What has happened since this was last asked.
    pub(crate) fn news(&mut self) -> Vec<Happened> {
        std::mem::take(&mut self.news)
    }

    pub(crate) fn picture(&self) -> Picture<'_> {
        Picture {
            dashboard: self.dashboard.as_deref(),
            guard: self.world.setup.guard,
            judge: &self.judge,
            nodes: &self.nodes,
            chosen: self.chosen,
            paused: self.world.paused(),
            log: &self.log,
            help: self.help,
            now_us: now_us(),
        }
    }

    /// A contender has said something.
    pub(crate) fn hear(&mut self, who: usize, round: u64, said: &Said) {
        // Those of a round that is over may still be heard.
        if round != self.world.round() {
            return;
        }
        match said {
            Said::Ended => self.tell(Happened::Ended { who }),
            Said::Unavailable if self.outage_told.is_none_or(|told| told.elapsed() > OUTAGE_EVERY) => {
                self.outage_told = Some(Instant::now());
                self.tell(Happened::NoMajority);
            }
            _ => {}
        }
        if let Some(finding) = self.judge.hear(who, said) {
            self.tell(Happened::Lock(finding));
        }
        if matches!(said, Said::Acquired { long: true, .. }) && std::mem::take(&mut self.awaits_long) {
            self.world.hold_long(false);
            self.empty_majority(who);
        }
    }

    /// Whether two hold the lock is not said by anybody.
    pub(crate) fn judge(&mut self) {
        while let Some(finding) = self.judge.overlap(now_us()) {
            self.tell(Happened::Lock(finding));
        }
    }

    /// What a client knows of the nodes by now.
    pub(crate) async fn nodes_seen(&mut self) -> Vec<NodeReport> {
        match self.looker.seen.recv().await {
            Some(nodes) => nodes,
            None => std::future::pending().await,
        }
    }

    pub(crate) fn look(&mut self, reports: &[NodeReport]) {
        for (node, report) in reports.iter().enumerate().take(self.nodes.len()) {
            let before = self.nodes[node].word();
            self.nodes[node].look(report);
            let state = self.nodes[node].word();
            if state != before {
                self.tell(Happened::Node { node, state: state.to_owned() });
            }
        }
    }

    pub(crate) fn press(&mut self, key: Do) -> Result<(), Failure> {
        match key {
            Do::Choose(number) if number < self.nodes.len() => self.chosen = number,
            Do::Choose(_) => self.tell(Happened::Note(self.how_many())),
            Do::Node(act) => self.act(self.chosen, act),
            Do::Pause => self.pause(),
            Do::Resume => match self.world.resume() {
                Some(who) => self.tell(Happened::Resumed { who }),
                None => {
                    self.tell(Happened::Note("nothing is paused; press p to pause the holder".to_owned()));
                }
            },
            Do::Guard | Do::EmptyMajority if self.world.setup.is_embedded() => {
                let why = "the embedded store is one file and never forgets; install redis-server to see \
                           what the restart guard does";
                self.tell(Happened::Note(why.to_owned()));
            }
            Do::Guard => self.switch_guard()?,
            Do::EmptyMajority if self.awaits_long => {}
            Do::EmptyMajority => {
                self.awaits_long = true;
                self.world.hold_long(true);
                self.tell(Happened::Awaited);
            }
            Do::Help => self.help = !self.help,
            Do::Quit => {}
        }
        Ok(())
    }

    fn how_many(&self) -> String {
        match self.nodes.len() {
            1 => "there is one node".to_owned(),
            nodes => format!("there are {nodes} nodes"),
        }
    }

    fn act(&mut self, node: usize, act: Act) {
        match self.world.act(node, act) {
            Ok(()) => self.tell(Happened::Done { node, act }),
            Err(why) => self.tell(Happened::Note(why)),
        }
        let powers: Vec<_> = self.world.servers.iter().map(Server::power).collect();
        for (view, power) in self.nodes.iter_mut().zip(powers) {
            view.power = power;
        }
    }

    fn pause(&mut self) {
        if let Some(who) = self.world.paused() {
            let note = format!("{} is already paused; press u to resume it", name(who));
            return self.tell(Happened::Note(note));
        }
        let holder = self.judge.holders(now_us()).last().map(|hold| hold.who);
        match holder {
            Some(who) => {
                self.world.pause(who);
                self.tell(Happened::Paused { who });
            }
            None => self.tell(Happened::Note("nobody holds the lock right now; try again".to_owned())),
        }
    }

    fn switch_guard(&mut self) -> Result<(), Failure> {
        self.awaits_long = false;
        let switched = self.world.switch_guard();
        switched.map_err(|error| Failure::internal(format!("cannot restart the contenders: {error}")))?;
        self.looker = Looker::start(&self.world)?;
        self.judge.forget_holds();
        self.tell(Happened::Guard { on: self.world.setup.guard });
        Ok(())
    }

    /// Takes the memory from three nodes, while this one holds the lock.
    fn empty_majority(&mut self, who: usize) {
        let up = self.world.servers.iter().enumerate().filter(|(_, server)| server.power() == Power::Up);
        let nodes: Vec<usize> = up.map(|(node, _)| node).take(MAJORITY).collect();
        if nodes.len() < MAJORITY {
            return self
                .tell(Happened::Note("fewer than three nodes are up; press r to restart one".to_owned()));
        }
        for node in &nodes {
            if let Err(why) = self.world.act(*node, Act::Empty) {
                self.tell(Happened::Note(why));
            }
        }
        self.tell(Happened::Emptied { nodes, who, guard: self.world.setup.guard });
    }

    fn tell(&mut self, happened: Happened) {
        let bad =
            matches!(happened, Happened::Lock(Finding::Two(_) | Finding::Late { .. }) | Happened::NoMajority);
        if self.log.len() == LOG_MAX {
            self.log.pop_front();
        }
        self.log.push_back((format!("{}  {}", time_of_day(), demo_words(&happened)), bad));
        self.news.push(happened);
    }
}

/// A client of its own that looks at the nodes.
struct Looker {
    seen: UnboundedReceiver<Vec<NodeReport>>,
    task: JoinHandle<()>,
}

impl Looker {
    fn start(world: &World) -> Result<Self, Failure> {
        let locks = world.setup.locks()?;
        let (tell, seen) = unbounded_channel();
        let task = tokio::spawn(async move {
            while tell.send(locks.nodes().await).is_ok() {
                sleep(LOOK_EVERY).await;
            }
        });
        Ok(Self { seen, task })
    }
}

impl Drop for Looker {
    fn drop(&mut self) {
        self.task.abort();
    }
}
