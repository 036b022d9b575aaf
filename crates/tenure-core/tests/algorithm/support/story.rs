//! Stories in words: what happens to clients and nodes is read, what they say is written down.
#![allow(unreachable_pub, reason = "its names are for all modules of this program")]

use tenure_core::client::{Addressee, Id, Input, News, Output, Request, Resuming};
use tenure_core::*;

use super::cluster::{Behaviour, Cluster, Node, Said, key, ms, node, options, terms};

const NAMES: [&str; 3] = ["A", "B", "C"];

/// Clients are called A, B, C, and know their nodes when they are first named.
pub struct Story {
    cluster: Cluster,
    begun: Time,
    /// Whether what is said about records is written down.
    records: bool,
    /// Who has asked for which lock. The place is the lease's id.
    leases: Vec<(usize, String)>,
    handed: Option<Resuming>,
    lines: Vec<Line>,
}

/// What was said, with an `@` in the place of the nodes that it was said to, or by.
struct Line {
    time: Time,
    text: String,
    nodes: Vec<String>,
}

impl Story {
    pub fn of(nodes: usize, new: bool) -> Self {
        let mut cluster = if new { Cluster::untouched(nodes) } else { Cluster::of(nodes) };
        let begun = cluster.now;
        cluster.said = Some(vec![]);
        Self { cluster, begun, records: new, leases: vec![], handed: None, lines: vec![] }
    }

    pub fn happen(&mut self, line: &str) {
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["..."] => self.lines.clear(),
            [time, unit, "pass"] => self.cluster.run(span(time, unit)),
            ["node", node, "is", "up"] => self.node(node).mode = Behaviour::Up,
            ["node", node, "is", "down"] => self.node(node).mode = Behaviour::Down,
            ["node", node, "is", "silent"] => self.node(node).mode = Behaviour::Silent,
            ["node", node, "loses", "x"] => self.cluster.delete(node.parse().unwrap()),
            ["node", node, "loses", "everything"] => self.node(node).table.forget(),
            ["node", node, "answers", "after", time, unit] => self.node(node).latency = span(time, unit),
            [_, "starts", ref list @ ..] => _ = self.cluster.start(list.last().unwrap_or(&"test")),
            [_, "resumes", name] => {
                let (client, resuming) = (self.cluster.clients.len(), self.handed.take().unwrap());
                self.leases.push((client, name.to_owned()));
                self.cluster.resume(self.id(client, name), &resuming, &options());
            }
            [who, ref what @ ..] => {
                let client = NAMES.iter().position(|name| *name == who).expect(line);
                while self.cluster.clients.len() <= client {
                    self.cluster.join();
                }
                self.happen_to(client, what);
            }
            [] => unreachable!("a line that is split has a part"),
        }
        self.take_down();
    }

    fn happen_to(&mut self, client: usize, what: &[&str]) {
        let cluster = &mut self.cluster;
        let index = |name: &str| node(cluster.quorum, name.parse().unwrap());
        let request = match *what {
            ["connects"] => {
                for node in cluster.quorum.indexes() {
                    if cluster.nodes[node.get()].mode == Behaviour::Up {
                        cluster.connect(client, node);
                    }
                }
                return cluster.input(client, Input::Tried { nodes: cluster.quorum.all() });
            }
            ["loses", "node", node] => return cluster.disconnect(client, index(node)),
            ["reaches", "node", node] => return cluster.connect(client, index(node)),
            ["dies"] => return cluster.kill(client),
            ["pauses"] => return cluster.stop(client),
            ["continues"] => return cluster.go_on(client),
            ["looks", "at", name] => return self.look(client, name),
            ["acquires", name, ref wishes @ ..] => {
                let lease = Lease::new(key(name), terms(&wished(wishes)), cluster.quorum);
                self.leases.push((client, name.to_owned()));
                Request::Acquire { id: self.id(client, name), lease }
            }
            ["extends", name] => Request::Extend { id: self.id(client, name), term: terms(&options()).term },
            ["hands", name, "over"] => {
                self.handed = Some(self.cluster.resuming(client, self.id(client, name)));
                Request::HandOver { id: self.id(client, name) }
            }
            ["releases", name] => Request::Release { id: self.id(client, name) },
            ["abandons", name] => Request::Abandon { id: self.id(client, name) },
            ["shuts", "down", "within", time, unit] => {
                Request::Shutdown { id: Id(99), limit: span(time, unit), silent_too: false }
            }
            _ => panic!("{what:?} is nothing that happens"),
        };
        self.cluster.request(client, request);
    }

    fn look(&mut self, client: usize, name: &str) {
        let now = self.cluster.now;
        let lease = self.cluster.clients[client].client.lease(self.id(client, name));
        let how = lease.and_then(Lease::standing).map_or("not held".to_owned(), |standing| {
            let (left, margin) = (standing.validity().left(now), standing.margin());
            format!("{}, valid for {}, margin {margin}", words(&standing.state(now)), Rounded(left))
        });
        self.say(now, None, format!("{}: {name} is {how}", NAMES[client]));
    }

    fn node(&mut self, name: &str) -> &mut Node {
        &mut self.cluster.nodes[name.parse::<usize>().unwrap()]
    }

    /// The last lease for this lock.
    fn id(&self, client: usize, name: &str) -> Id {
        let place = self.leases.iter().rposition(|(of, lock)| *of == client && lock == name);
        Id(place.expect("it was asked for") as u64)
    }

    fn take_down(&mut self) {
        for (time, client, said) in self.cluster.said.replace(vec![]).into_iter().flatten() {
            if let Some((node, text)) = self.in_words(client, said) {
                self.say(time, node, text);
            }
        }
    }

    fn in_words(&self, client: usize, said: Said) -> Option<(Option<NodeIndex>, String)> {
        let lock = |id: &Id| self.leases[usize::try_from(id.0).unwrap()].1.as_str();
        let who = NAMES[client];
        Some(match said {
            Said::Output(Output::Send { node, command, .. }) => {
                (Some(node), format!("{who} to @: {}", asked(&command, self.records)?))
            }
            Said::Output(output) => (None, format!("{who}{}", told(&output, lock)?)),
            Said::Input(Input::Answer { node, tag, answer }) => {
                let about = match &tag.to {
                    Addressee::Lease { lease, .. } => lock(lease).to_owned(),
                    Addressee::Release { lease, .. } => format!("removal of {}", lock(lease)),
                    Addressee::Fleet if self.records => "record".to_owned(),
                    Addressee::Leaving => "leaving".to_owned(),
                    _ => return None,
                };
                (Some(node), format!("@ to {who}: {about} {}", answered(answer)))
            }
            Said::Input(Input::Renewed { node, .. }) => (Some(node), format!("@ to {who}: all renewed")),
            Said::Input(Input::Woken { node, key, .. }) => {
                let name = key.trim_start_matches(Prefix::default().as_str());
                (Some(node), format!("@ to {who}: {name} is set aside for you"))
            }
            Said::Input(_) => return None,
        })
    }

    /// Adds a line, or another node to the last one.
    fn say(&mut self, time: Time, node: Option<NodeIndex>, text: String) {
        let nodes: Vec<String> = node.map(|node| node.get().to_string()).into_iter().collect();
        match self.lines.last_mut().filter(|last| last.time == time && last.text == text) {
            Some(last) if node.is_some() => last.nodes.extend(nodes),
            _ => self.lines.push(Line { time, text, nodes }),
        }
    }

    /// What was said since this was called last.
    pub fn said(&mut self) -> String {
        let (mut said, mut last) = (String::new(), None);
        for Line { time, text, nodes } in std::mem::take(&mut self.lines) {
            let millis = time.since(self.begun).as_millis();
            let time = if last == Some(millis) { " ".repeat(9) } else { format!("{millis:>6} ms") };
            said = said + &time + "  " + &text.replacen('@', &nodes.join(", "), 1) + "\n";
            last = Some(millis);
        }
        if said.is_empty() { "nothing\n".to_owned() } else { said }
    }

    /// Nothing may be said that is not written down.
    pub fn end(mut self) {
        assert_eq!(self.said(), "nothing\n", "a `----` is missing at the end of a story");
    }
}

fn span(number: &str, unit: &str) -> std::time::Duration {
    assert!(["ms", "s"].contains(&unit), "{unit:?} is no unit");
    ms(number.parse::<u64>().unwrap() * if unit == "s" { 1_000 } else { 1 })
}

/// What a caller asks for. Without wishes a lock is for ten seconds, and tried once.
fn wished(wishes: &[&str]) -> Options {
    let (mut options, mut wishes) = (options(), wishes.iter());
    while let Some(wish) = wishes.next() {
        match *wish {
            "for" => options.ttl = span(wishes.next().unwrap(), wishes.next().unwrap()),
            "fenced" => options.fenced = true,
            "renewed" => options.renewal = Renewal::AtThird,
            "retrying" => options.wait = Wait::Forever,
            "waiting" => (options.wait, options.queued) = (Wait::Forever, true),
            _ => panic!("{wish:?} is no wish"),
        }
    }
    options
}

/// What a node is asked to do. Of records only if that is what the story is about.
fn asked(command: &Command, records: bool) -> Option<String> {
    Some(match command {
        Command::Record { swap: None, .. } if records => "tell record".to_owned(),
        Command::Record { swap: Some(swap), .. } if records => format!("write {} record", state(&swap.text)),
        Command::Acquire { key, fence, beside, .. } => {
            let place = beside.as_ref().and_then(|beside| beside.place);
            let line = place.map_or("", |place| if place.fresh { ", or get in line" } else { ", in line" });
            let fence = fence.map(|claim| format!(", fence {}", claim.fence)).unwrap_or_default();
            format!("acquire {}{fence}{line}", key.name())
        }
        Command::Release { key, next: Next::InLineWith(_), .. } => {
            format!("release {} and get in line", key.name())
        }
        Command::Release { key, next: Next::OutsideLine, .. } => format!("leave {} to others", key.name()),
        command => format!("{} {}", words(command), command.key()?.name()),
    })
}

fn answered(answer: Result<Reply, Fault>) -> String {
    let (answer, line) = match answer {
        Ok(Reply { answer, line, .. }) => (answer, line.unwrap_or_default()),
        Err(fault) => return format!("unknown: {fault}"),
    };
    let place = line.place.map(|(ahead, all)| format!(", place {} of {all}", ahead + 1));
    let first = line.ahead.map(|_| ", somebody is first in line".to_owned());
    let answer = match answer {
        Answer::Refused(Refusal::Held { left }) => format!("refused: held for {}", Rounded(left)),
        Answer::Refused(Refusal::Reserved { left }) => format!("refused: set aside for {}", Rounded(left)),
        Answer::Refused(refusal) => format!("refused: {}", words(&refusal)),
        Answer::PutBack { left } => format!("put back, counts in {}", Rounded(left)),
        Answer::Record(text) => text.map_or("is not there".to_owned(), |text| format!("is {}", state(&text))),
        answer => words(&answer),
    };
    answer + &place.or(first).unwrap_or_default()
}

/// What callers and people are told. What is only asked of the driver is left out.
fn told<'a>(output: &Output<Lease>, lock: impl Fn(&Id) -> &'a str) -> Option<String> {
    Some(match output {
        Output::Renew(renewals) => {
            let locks: Vec<&str> = renewals.locks.iter().map(|(_, lock)| lock.key.name()).collect();
            format!(" to all: renew {}", locks.join(", "))
        }
        Output::Tell { lease, news } => format!(": {} {}", lock(lease), news_of(news)),
        Output::Refused { id, reason, .. } => format!(": {} refused: {}", lock(id), words(reason)),
        Output::Ended { id } => format!(": {} ended", lock(id)),
        Output::Released { lease, outcome, .. } => format!(": {} {}", lock(lease), words(outcome)),
        Output::NotReleased { lease } => format!(": {} not released", lock(lease)),
        Output::CleanedUp { key, unconfirmed } => {
            format!(": {} cleaned up{}", key.name(), owed(Some(*unconfirmed)))
        }
        Output::ShutDown { unfinished, .. } => {
            format!(": shut down{}", owed(unfinished.map(|left| left.nodes)))
        }
        Output::Survey { node } => format!(" to {}: which server are you?", node.get()),
        Output::Notice { node, distrust } => {
            let why = distrust.as_ref().map_or("may vote".into(), |why| format!("may not vote: {why}"));
            format!(": node {} {}", node.get(), why.split([';', '(']).next()?.trim_end())
        }
        _ => return None,
    })
}

fn owed(nodes: Option<NodeSet>) -> String {
    nodes.unwrap_or_default().iter().map(|node| format!(", not confirmed by {}", node.get())).collect()
}

fn news_of(news: &News) -> String {
    match news {
        News::NotAcquired(end) => format!("not acquired: {}", words(&end.cause)),
        News::Retrying { cause, .. } => format!("retrying: {}", words(cause)),
        News::Waiting { .. } => "waiting in line".to_owned(),
        News::NotExtended(reason) => format!("not extended: {}", words(reason)),
        News::State(state) => format!("is {}", words(state)),
        news => words(news),
    }
}

/// Whether a record is new, fresh from a first start, or has waited.
fn state(record: &str) -> &str {
    record.split([' ', '=']).nth(4).unwrap_or(record)
}

/// The name of a variant, as words.
fn words(variant: &dyn std::fmt::Debug) -> String {
    let debug = format!("{variant:?}");
    let name = debug.split([' ', '(', '{']).next().unwrap_or_default();
    let spaced = name.chars().map(|c| if c.is_uppercase() { format!(" {c}") } else { c.to_string() });
    spaced.collect::<String>().trim().to_lowercase()
}
