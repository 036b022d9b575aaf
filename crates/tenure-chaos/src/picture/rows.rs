//! The rows of the picture.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::{CLIENT_HEIGHT, CLIENTS, LEFT, LOCK_HEIGHT, NODE_HEIGHT, RIGHT, Window, count};
use crate::checker::Violation;
use crate::history::{Doubt, Entry, Ns};
use crate::{Episode, NODES, Outcome, What, Where};

/// What is shorter would not be seen.
const THIN: f64 = 0.8;

pub(super) fn locks(svg: &mut String, outcome: &Outcome, window: &Window, top: i64) {
    for lock in 0..outcome.options.locks {
        let y = top + LOCK_HEIGHT * count(lock);
        label(svg, &format!("lock {lock}"), y + 18);
        let _ = writeln!(
            svg,
            "<rect x=\"{LEFT}\" y=\"{y}\" width=\"{}\" height=\"24\" fill=\"#f6f6f6\"/>",
            RIGHT - LEFT
        );
    }
    for hold in outcome.holds.iter().filter(|hold| window.shows(hold.returned, hold.end)) {
        let y = top + LOCK_HEIGHT * count(hold.lock);
        let (x, width) = span(window, hold.returned, hold.end);
        let _ = writeln!(
            svg,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"24\" fill=\"{}\"><title>client {}, fence {}, {:?}</title></rect>",
            CLIENTS[hold.client % CLIENTS.len()],
            hold.client,
            hold.fence,
            hold.how
        );
    }
    for violation in
        outcome.violations.iter().filter(|violation| window.shows(violation.at(), violation.at() + 1))
    {
        let y = top + LOCK_HEIGHT * count(violation.lock());
        let to = match violation {
            Violation::Overlap { first, second } => first.end.min(second.end),
            _ => violation.at(),
        };
        let (x, width) = span(window, violation.at(), to);
        let _ = writeln!(
            svg,
            "<rect class=\"v\" x=\"{x}\" y=\"{}\" width=\"{width}\" height=\"30\"><title>{violation}</title></rect>",
            y - 3
        );
    }
}

pub(super) fn nodes(svg: &mut String, outcome: &Outcome, window: &Window, top: i64) {
    for node in 0..NODES {
        let y = top + NODE_HEIGHT * count(node);
        label(svg, &format!("node {node}"), y + 20);
        let _ = writeln!(
            svg,
            "<rect x=\"{LEFT}\" y=\"{y}\" width=\"{}\" height=\"36\" fill=\"#f6f6f6\"/>",
            RIGHT - LEFT
        );
    }
    kept_out(svg, outcome, window, top);
    let in_window = |episode: &&Episode| window.shows(episode.from, episode.until + 1);
    for episode in outcome.episodes.iter().filter(in_window) {
        let (node, lane, class) = match (episode.to, episode.what) {
            (Where::Node(node), What::KilledEmpty) => (node, 0, "em"),
            (Where::Node(node), What::KilledWithData | What::KilledTail | What::KilledDurable) => {
                (node, 0, "dn")
            }
            (Where::Node(node), What::NodeStopped) => (node, 0, "st"),
            (Where::Node(node), What::Flushed) => {
                let (x, y) = (window.x(episode.from), top + NODE_HEIGHT * count(node));
                let _ = writeln!(
                    svg,
                    "<path class=\"fl\" d=\"M{x} {y}l5 9l-10 0z\"><title>{}</title></path>",
                    episode.what.label()
                );
                continue;
            }
            (Where::Node(node), _) => {
                clock(svg, episode, window, top + NODE_HEIGHT * count(node));
                continue;
            }
            (Where::Link(node, side), what) => {
                let class = match what {
                    What::RequestsDelayed | What::RepliesDelayed => "de",
                    What::Partitioned => "pa",
                    What::ConnectionsBroken => "br",
                    _ => "cut",
                };
                (node, 1 + side, class)
            }
            (Where::Client(_), _) => continue,
        };
        let y = top + NODE_HEIGHT * count(node) + [1, 12, 18][lane];
        bar(svg, episode, window, y, if lane == 0 { 10 } else { 5 }, class);
    }
}

/// When some client did not let a node vote, and why.
fn kept_out(svg: &mut String, outcome: &Outcome, window: &Window, top: i64) {
    let ended = outcome.times[2];
    let mut open: BTreeMap<(usize, usize), (Ns, &str)> = BTreeMap::new();
    let mut spans: Vec<(usize, &str, Ns, Ns)> = vec![];
    for (process, entry) in &outcome.history.entries {
        let (node, at, next) = match *entry {
            Entry::Trusts { node, at } => (node, at, None),
            Entry::Distrusts { node, at, why } => {
                (node, at, Some(if why == Doubt::Quarantined { "qu" } else { "cl" }))
            }
            _ => continue,
        };
        if let Some((from, class)) = open.remove(&(*process, node)) {
            spans.push((node, class, from, at));
        }
        if let Some(class) = next {
            open.insert((*process, node), (at, class));
        }
    }
    for ((process, node), (from, class)) in open {
        spans.push((node, class, from, outcome.history.processes[process].killed.unwrap_or(ended)));
    }
    for (node, class, from, to) in united(spans) {
        if window.shows(from, to) {
            let y = top + NODE_HEIGHT * count(node) + 25;
            let (x, width) = span(window, from, to);
            let _ = writeln!(
                svg,
                "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"10\"/>"
            );
        }
    }
}

/// The same times, with those that meet made one.
fn united(mut spans: Vec<(usize, &str, Ns, Ns)>) -> Vec<(usize, &str, Ns, Ns)> {
    spans.sort_unstable();
    let mut united: Vec<(usize, &str, Ns, Ns)> = vec![];
    for (node, class, from, to) in spans {
        match united.last_mut() {
            Some(last) if (last.0, last.1) == (node, class) && from <= last.3 => last.3 = last.3.max(to),
            _ => united.push((node, class, from, to)),
        }
    }
    united
}

/// A flag that points up or down, and a line for as long as the clock is wrong.
fn clock(svg: &mut String, episode: &Episode, window: &Window, top: i64) {
    let (x, end) = (window.x(episode.from), window.x(episode.until));
    let (y, rise) = match episode.what {
        What::ClockForward | What::ClockForwardLittle => (top + 34, -8),
        What::ClockBack | What::ClockBackLittle => (top + 26, 8),
        _ => (top + 30, 0),
    };
    let _ = writeln!(
        svg,
        "<path class=\"ck\" d=\"M{x} {y}v{rise}H{end}v{}\"><title>{}</title></path>",
        -rise,
        episode.what.label()
    );
}

pub(super) fn clients(svg: &mut String, outcome: &Outcome, window: &Window, top: i64) {
    for client in 0..outcome.options.clients {
        let y = top + CLIENT_HEIGHT * count(client);
        label(svg, &format!("client {client}"), y + 10);
        let colour = CLIENTS[client % CLIENTS.len()];
        let _ = writeln!(
            svg,
            "<rect x=\"{}\" y=\"{y}\" width=\"12\" height=\"12\" fill=\"{colour}\"/>",
            LEFT - 18
        );
        for process in outcome.history.processes.iter().filter(|process| process.client == client) {
            let to = process.killed.unwrap_or(outcome.times[2]);
            if window.shows(process.started, to) {
                let (x, width) = span(window, process.started, to);
                let _ = writeln!(
                    svg,
                    "<rect x=\"{x}\" y=\"{}\" width=\"{width}\" height=\"4\" fill=\"{colour}\"/>",
                    y + 4
                );
            }
        }
    }
    for episode in &outcome.episodes {
        if let (Where::Client(client), true) = (episode.to, window.shows(episode.from, episode.until + 1)) {
            let class = if episode.what == What::ClientStopped { "st" } else { "dn" };
            bar(svg, episode, window, top + CLIENT_HEIGHT * count(client), 12, class);
        }
    }
}

fn bar(svg: &mut String, episode: &Episode, window: &Window, y: i64, height: i64, class: &str) {
    let (x, width) = span(window, episode.from, episode.until);
    let _ = writeln!(
        svg,
        "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{}\" height=\"{height}\"><title>{}</title></rect>",
        width.max(2.0),
        episode.what.label()
    );
}

fn label(svg: &mut String, words: &str, y: i64) {
    let _ = writeln!(svg, "<text x=\"10\" y=\"{y}\">{words}</text>");
}

/// Where a time begins, and how wide it is.
fn span(window: &Window, from: Ns, to: Ns) -> (f64, f64) {
    let (x, end) = (window.x(from), window.x(to));
    (x, ((end - x).max(THIN) * 10.0).round() / 10.0)
}
