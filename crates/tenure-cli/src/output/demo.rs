//! What happens in the demo, in one line.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tenure_server::form::milliseconds;

use super::{Output, clock, plain, write_line};
use crate::demo::{Act, Finding, Happened, name};

impl Output {
    /// Says what happened.
    pub(crate) fn demo_line(&self, happened: &Happened) -> std::io::Result<()> {
        let time_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, milliseconds);
        if self.json {
            let mut line = json(happened);
            line["time_ms"] = json!(time_ms);
            return write_line(std::io::stdout(), &line.to_string());
        }
        write_line(std::io::stdout(), &format!("{}  {}", clock::time(time_ms), demo_words(happened)))
    }
}

/// What a contender reports to the demo that started it.
pub(crate) fn demo_report(line: &str) -> std::io::Result<()> {
    write_line(std::io::stdout(), line)
}

/// The time of day, for a list of what happened.
pub(crate) fn time_of_day() -> String {
    clock::time(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, milliseconds))
}

/// What happened, in words.
pub(crate) fn demo_words(happened: &Happened) -> String {
    match happened {
        Happened::Begun { nodes, dashboard } => {
            let nodes = if *nodes == 1 { "one node".to_owned() } else { format!("{nodes} nodes") };
            let dashboard = dashboard.as_ref().map(|url| format!("; dashboard: {url}"));
            format!("{nodes}, 8 contenders{}", dashboard.unwrap_or_default())
        }
        Happened::Lock(finding) => finding_words(finding),
        Happened::NoMajority => "nobody can get the lock: no majority of nodes grants it".to_owned(),
        Happened::Done { node, act } => {
            let done = match act {
                Act::Kill => "killed",
                Act::Stop => "stopped",
                Act::GoOn => "continued",
                Act::Empty => "emptied",
                Act::Restart => "restarted empty",
            };
            format!("node {} {done}", node + 1)
        }
        Happened::Node { node, state } => format!("node {}: {}", node + 1, plain(state)),
        Happened::Paused { who } => format!("{} paused while it holds the lock", name(*who)),
        Happened::Resumed { who } => format!("{} resumed", name(*who)),
        Happened::Guard { on: true } => {
            "restart guard ON: a node that forgot locks votes again once they have expired".to_owned()
        }
        Happened::Guard { on: false } => {
            "restart guard OFF: a node that forgot locks votes right away; press m to see how that ends"
                .to_owned()
        }
        Happened::Awaited => "waiting for the next holder, then emptying a majority of nodes".to_owned(),
        Happened::Emptied { nodes, who, guard } => {
            let nodes: Vec<String> = nodes.iter().map(|node| (node + 1).to_string()).collect();
            let nodes = nodes.join(", ");
            let guard = if *guard { "on" } else { "off" };
            format!("nodes {nodes} emptied while {} holds the lock; the guard is {guard}", name(*who))
        }
        Happened::Ended { who } => format!("{} ended unexpectedly", name(*who)),
        Happened::Note(note) => plain(note),
    }
}

fn finding_words(finding: &Finding) -> String {
    match finding {
        Finding::Acquired { who, fence, over: None } => format!("{} acquired, fence {fence}", name(*who)),
        Finding::Acquired { who, fence, over: Some(over) } => {
            format!("{} acquired, fence {fence}; the lease of {} expired", name(*who), name(*over))
        }
        Finding::Released { who, fence, refused_by: None } => {
            format!("{} released, fence {fence}", name(*who))
        }
        Finding::Released { who, fence, refused_by: Some(seen) } => {
            format!("{} released; write with fence {fence} rejected, {seen} already seen", name(*who))
        }
        Finding::Late { who, fence, refused_by: Some(seen) } => {
            format!("{} is late: write with fence {fence} rejected, {seen} already seen", name(*who))
        }
        Finding::Late { who, fence, refused_by: None } => {
            format!("{} is late, fence {fence}; nobody has had the lock since", name(*who))
        }
        Finding::Two(two) => format!(
            "TWO HOLDERS: {} fence {}, {} fence {}",
            name(two.first.who),
            two.first.fence,
            name(two.second.who),
            two.second.fence
        ),
    }
}

fn json(happened: &Happened) -> Value {
    let holder = |who: usize, fence: u64| json!({ "contender": name(who), "fence": fence });
    match happened {
        Happened::Begun { nodes, dashboard } => {
            json!({ "event": "begun", "nodes": nodes, "dashboard": dashboard })
        }
        Happened::Lock(Finding::Acquired { who, fence, over }) => {
            json!({ "event": "acquired", "contender": name(*who), "fence": fence, "passed_over": over.map(name) })
        }
        Happened::Lock(Finding::Released { who, fence, refused_by }) => {
            json!({ "event": "released", "contender": name(*who), "fence": fence, "refused_by": refused_by })
        }
        Happened::Lock(Finding::Late { who, fence, refused_by }) => {
            json!({ "event": "late", "contender": name(*who), "fence": fence, "refused_by": refused_by })
        }
        Happened::Lock(Finding::Two(two)) => json!({
            "event": "two_holders",
            "holders": [holder(two.first.who, two.first.fence), holder(two.second.who, two.second.fence)],
        }),
        Happened::NoMajority => json!({ "event": "no_majority" }),
        Happened::Done { node, act } => {
            let act = match act {
                Act::Kill => "kill",
                Act::Stop => "stop",
                Act::GoOn => "continue",
                Act::Empty => "empty",
                Act::Restart => "restart",
            };
            json!({ "event": "done", "node": node + 1, "act": act })
        }
        Happened::Node { node, state } => json!({ "event": "node", "node": node + 1, "state": state }),
        Happened::Paused { who } => json!({ "event": "paused", "contender": name(*who) }),
        Happened::Resumed { who } => json!({ "event": "resumed", "contender": name(*who) }),
        Happened::Guard { on } => json!({ "event": "guard", "on": on }),
        Happened::Awaited => json!({ "event": "awaited" }),
        Happened::Emptied { nodes, who, guard } => {
            let nodes: Vec<usize> = nodes.iter().map(|node| node + 1).collect();
            json!({ "event": "majority_emptied", "nodes": nodes, "contender": name(*who), "guard": guard })
        }
        Happened::Ended { who } => json!({ "event": "ended", "contender": name(*who) }),
        Happened::Note(note) => json!({ "event": "note", "note": note }),
    }
}
