//! Makes things go wrong as planned, as far as the rules allow it, and right again.

mod clocks;

use std::collections::BTreeMap;
use std::time::Duration;

use tenure_testkit::{Direction, Mode};

use super::cast::Cast;
use super::nodes::{Memory, NODES, Node, memory};
use super::plan::{Fault, Wish};
use super::report::{Episode, What, Where};
use super::rules::Rules;
use super::{Kind, Options};
use crate::history::{Doubt, Entry, Ns, now};

const NS_PER_MS: Ns = 1_000_000;

/// How often it looks what the clients say.
const LOOK: Duration = Duration::from_millis(5);

/// How long the end of a fault that the rules do not allow yet is put off.
const AGAIN_NS: Ns = 100 * NS_PER_MS;

pub(super) struct Nemesis<'a> {
    nodes: &'a mut [Node],
    cast: &'a mut Cast,
    rules: Rules,
    kind: Kind,
    /// What is still to be done, by its time; the second number keeps the order.
    agenda: BTreeMap<(Ns, u64), Action>,
    numbers: u64,
    /// What happened.
    pub(super) episodes: Vec<Episode>,
    /// What the rules did not allow.
    pub(super) forgone: u64,
}

#[derive(Clone, Debug)]
enum Action {
    Begin(Fault),
    StartNode {
        node: usize,
        empty: bool,
        episode: usize,
    },
    ResumeNode {
        node: usize,
        episode: usize,
    },
    /// Puts a clock right, since when it is overdue, and what shows it.
    RightClock {
        node: usize,
        due: Ns,
        episode: usize,
    },
    Mend {
        node: usize,
        side: usize,
        episode: usize,
    },
    StartClient {
        client: usize,
    },
    ResumeClient {
        client: usize,
        episode: usize,
    },
}

impl<'a> Nemesis<'a> {
    pub(super) fn new(options: &Options, nodes: &'a mut [Node], cast: &'a mut Cast) -> Self {
        let rules = Rules::new(options);
        Self {
            nodes,
            cast,
            rules,
            kind: options.kind,
            agenda: BTreeMap::new(),
            numbers: 0,
            episodes: vec![],
            forgone: 0,
        }
    }

    /// Follows the plan to its end, then puts everything right.
    pub(super) fn follow(&mut self, plan: Vec<Wish>, end: Ns) {
        let begin = now();
        for Wish { at_ms, fault } in plan {
            self.at(begin + ms(at_ms), Action::Begin(fault));
        }
        while now() < end {
            self.work();
        }
        self.heal();
    }

    /// Lets time pass until the clients have said enough; false if they have not by then.
    pub(super) fn idle(&mut self, until: Ns, mut enough: impl FnMut(&[(usize, Entry)]) -> bool) -> bool {
        while now() < until {
            let news = self.work();
            if enough(&news) {
                return true;
            }
        }
        false
    }

    /// Does what is due and hears what the clients say.
    fn work(&mut self) -> Vec<(usize, Entry)> {
        let news = self.listen();
        self.nodes.iter_mut().for_each(|node| node.measure_log(now()));
        while let Some(entry) = self.agenda.first_entry().filter(|entry| entry.key().0 <= now()) {
            let action = entry.remove();
            self.act(action);
        }
        std::thread::sleep(LOOK);
        news
    }

    /// Ends everything that goes on, now, and waits until that is done.
    fn heal(&mut self) {
        let agenda = std::mem::take(&mut self.agenda);
        for action in agenda.into_values().filter(|action| !matches!(action, Action::Begin(_))) {
            self.at(now(), action);
        }
        while !self.agenda.is_empty() {
            self.work();
        }
    }

    fn listen(&mut self) -> Vec<(usize, Entry)> {
        let news = self.cast.news();
        for (client, entry) in &news {
            match *entry {
                Entry::Knows { node, .. } => self.rules.knows(*client, node),
                Entry::Distrusts { node, why: Doubt::Jumped(by_us), .. } => {
                    self.rules.saw_jump(*client, node, by_us);
                }
                _ => {}
            }
        }
        news
    }

    fn act(&mut self, action: Action) {
        self.read_clocks();
        match action {
            Action::Begin(fault) => self.begin(fault),
            Action::StartNode { node, empty, episode } => {
                let server = &mut self.nodes[node].server;
                if empty {
                    server.restart_empty();
                } else {
                    server.restart();
                }
                if empty || memory(self.kind, node) == Memory::EverySecond {
                    self.rules.forgot(now(), node);
                }
                self.ends(episode);
            }
            Action::ResumeNode { node, episode } => {
                self.nodes[node].server.resume();
                self.ends(episode);
            }
            Action::RightClock { node, due, episode } => self.right_clock(node, due, episode),
            Action::Mend { node, side, episode } => {
                let proxy = &self.nodes[node].proxies[side];
                proxy.set_both(Mode::Pass);
                proxy.close(false);
                self.ends(episode);
            }
            Action::StartClient { client } => {
                if self.rules.may_come(now()) {
                    self.rules.came(now(), client);
                    self.cast.start(client);
                } else {
                    self.at(now() + AGAIN_NS, Action::StartClient { client });
                }
            }
            Action::ResumeClient { client, episode } => {
                self.cast.resume(client);
                self.ends(episode);
            }
        }
    }

    fn begin(&mut self, fault: Fault) {
        let end = now() + ms(fault.lasts_ms());
        // What was to be over may have taken longer than planned.
        let out = |node: &usize| self.is_out(*node);
        if fault.processes().iter().any(out) {
            self.forgone += 1;
            return;
        }
        match fault {
            Fault::Restart { nodes, empty, tail_ms, .. } => self.restart(&nodes, empty, tail_ms, end),
            Fault::Flush { nodes } => self.flush(&nodes),
            Fault::StopNode { node, .. } => {
                self.nodes[node].server.pause();
                let episode = self.happens(What::NodeStopped, Where::Node(node), end);
                self.at(end, Action::ResumeNode { node, episode });
            }
            Fault::Step { nodes, by_ms, .. } => self.step(&nodes, by_ms, end),
            Fault::Slew { node, .. } => {
                self.nodes[node].clock.set_rate(1.08);
                let episode = self.happens(What::ClockSlewed, Where::Node(node), end);
                self.at(end, Action::RightClock { node, due: end, episode });
            }
            Fault::Link { node, side, direction, mode, .. } => {
                self.nodes[node].proxies[side].set(direction, mode);
                let what = match (mode, direction) {
                    (Mode::Delay(_), Direction::Requests) => What::RequestsDelayed,
                    (Mode::Delay(_), Direction::Replies) => What::RepliesDelayed,
                    (_, Direction::Requests) => What::RequestsCut,
                    (_, Direction::Replies) => What::RepliesCut,
                };
                let episode = self.happens(what, Where::Link(node, side), end);
                self.at(end, Action::Mend { node, side, episode });
            }
            Fault::Break { node, side, .. } => {
                let proxy = &self.nodes[node].proxies[side];
                proxy.close(true);
                proxy.cut();
                let episode = self.happens(What::ConnectionsBroken, Where::Link(node, side), end);
                self.at(end, Action::Mend { node, side, episode });
            }
            Fault::Partition { nodes, side, flush, .. } => {
                for node in nodes.iter().copied() {
                    self.nodes[node].proxies[side].set_both(Mode::Stall);
                    let episode = self.happens(What::Partitioned, Where::Link(node, side), end);
                    self.at(end, Action::Mend { node, side, episode });
                }
                if flush {
                    self.flush(&nodes);
                }
            }
            Fault::StopClient { client, .. } if self.cast.is_running(client) => {
                self.cast.pause(client);
                let episode = self.happens(What::ClientStopped, Where::Client(client), end);
                self.at(end, Action::ResumeClient { client, episode });
            }
            Fault::KillClient { client, .. } if self.cast.is_running(client) => {
                self.replace(client, end);
            }
            Fault::StopClient { .. } | Fault::KillClient { .. } => self.forgone += 1,
        }
    }

    fn restart(&mut self, nodes: &[usize], empty: bool, tail_ms: Option<u64>, end: Ns) {
        let forget = |node: &usize| empty || memory(self.kind, *node) == Memory::EverySecond;
        let forgetting: Vec<usize> = nodes.iter().copied().filter(forget).collect();
        // A rolling restart is outside of this rule on purpose: clients that remember are there all
        // the time.
        if self.kind == Kind::Mixed && !forgetting.is_empty() && !self.may_forget(&forgetting) {
            return;
        }
        for node in nodes.iter().copied() {
            let since = tail_ms.map(|tail_ms| now() - ms(tail_ms));
            self.nodes[node].server.kill();
            let cut = since.is_some_and(|since| self.nodes[node].cut_log(since));
            if forgetting.contains(&node) {
                self.rules.forgot(now(), node);
            }
            let what = match memory(self.kind, node) {
                _ if empty => What::KilledEmpty,
                _ if cut => What::KilledTail,
                Memory::Always => What::KilledDurable,
                _ => What::KilledWithData,
            };
            let episode = self.happens(what, Where::Node(node), end);
            self.at(end, Action::StartNode { node, empty, episode });
        }
    }

    fn flush(&mut self, nodes: &[usize]) {
        if self.may_forget(nodes) {
            for node in nodes.iter().copied() {
                self.nodes[node].server.execute(&["FLUSHALL"]);
                self.rules.forgot(now(), node);
                self.happens(What::Flushed, Where::Node(node), now());
            }
        }
    }

    fn may_forget(&mut self, nodes: &[usize]) -> bool {
        let stopped: Vec<bool> = (0..NODES).map(|node| self.is_out(node)).collect();
        let remembers = |node: usize| !stopped[node] && self.nodes[node].remembers();
        let may = !nodes.is_empty() && self.rules.may_forget(now(), nodes, remembers);
        self.forgone += u64::from(!may);
        may
    }

    /// Whether the server cannot be asked now.
    fn is_out(&self, node: usize) -> bool {
        self.agenda.values().any(|action| match action {
            Action::StartNode { node: out, .. } | Action::ResumeNode { node: out, .. } => *out == node,
            _ => false,
        })
    }

    /// Kills a client and starts it anew then.
    fn replace(&mut self, client: usize, then: Ns) {
        self.cast.kill(client);
        self.happens(What::ClientKilled, Where::Client(client), then);
        self.agenda.retain(
            |_, action| !matches!(action, Action::ResumeClient { client: halted, .. } if *halted == client),
        );
        self.at(then, Action::StartClient { client });
    }

    fn at(&mut self, time: Ns, action: Action) {
        self.numbers += 1;
        self.agenda.insert((time, self.numbers), action);
    }

    fn happens(&mut self, what: What, to: Where, until: Ns) -> usize {
        self.episodes.push(Episode { what, to, from: now(), until });
        self.episodes.len() - 1
    }

    fn ends(&mut self, episode: usize) {
        self.episodes[episode].until = now();
    }
}

fn ms(number: u64) -> Ns {
    number.cast_signed() * NS_PER_MS
}
