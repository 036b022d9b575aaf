//! A run as a picture: who held which lock, and what went wrong meanwhile.
//!
//! Above, a row for each lock with the times of its holders, coloured by client; below, a row for
//! each node with three lanes (its process, its connections, whether clients keep it out) and marks
//! for its clock and for flushes; at the bottom a row for each client with its halts and deaths.
//! Violations are red.

mod rows;

use std::collections::BTreeSet;
use std::fmt::Write;

use super::{Episode, Outcome, What};
use crate::history::Ns;

const WIDTH: i64 = 1_600;
const LEFT: i64 = 90;
const RIGHT: i64 = 1_585;
const TOP: i64 = 74;
const LOCK_HEIGHT: i64 = 34;
const NODE_HEIGHT: i64 = 46;
const CLIENT_HEIGHT: i64 = 16;
const NS_PER_S: Ns = 1_000_000_000;

/// The colours of the clients, told apart by most people.
const CLIENTS: [&str; 8] =
    ["#4477aa", "#66ccee", "#228833", "#ccbb44", "#aa7744", "#aa3377", "#777777", "#9988dd"];

const STYLE: &str = "text{font:12px sans-serif;fill:#222}.t{font-size:17px;font-weight:bold}.s{font-size:11px;fill:#555}\
.g{stroke:#ddd}.v{fill:#e00;stroke:#e00}.dn{fill:#333}.em{fill:#7f3b08}.st{fill:#9a9a9a}.cut{fill:#f0932b}.de{fill:#f3d08b}\
.pa{fill:#d35400}.br{fill:#b8860b}.qu{fill:#bcd7f5}.cl{fill:#cdb7ea}.fl{fill:#7f3b08}.ck{fill:none;stroke:#7a3fc4;stroke-width:2}";

/// A part of the run, and where its times are in the picture.
pub(super) struct Window {
    began: Ns,
    from: Ns,
    to: Ns,
}

impl Window {
    fn of(outcome: &Outcome, from_s: Option<u64>, seconds: u64) -> Self {
        let [began, _, ended] = outcome.times;
        let length = (seconds.cast_signed() * NS_PER_S).min(ended - began).max(NS_PER_S);
        let wish = match (from_s, outcome.violations.first()) {
            (Some(from_s), _) => began + from_s.cast_signed() * NS_PER_S,
            (None, Some(violation)) => violation.at() - length / 2,
            (None, None) => Self::busiest(outcome, length),
        };
        let from = wish.clamp(began, ended - length);
        Self { began, from, to: from + length }
    }

    /// The beginning of the part with the most kinds of faults, and of those the one with the most
    /// faults.
    fn busiest(outcome: &Outcome, length: Ns) -> Ns {
        let [began, healed, _] = outcome.times;
        let faults = |from: &Ns| {
            let within = |episode: &&Episode| (*from..from + length).contains(&episode.from);
            let kinds: Vec<What> =
                outcome.episodes.iter().filter(within).map(|episode| episode.what).collect();
            (kinds.iter().collect::<BTreeSet<_>>().len(), kinds.len())
        };
        let seconds = 0..=(healed - began - length).max(0) / NS_PER_S;
        seconds.map(|second| began + second * NS_PER_S).max_by_key(faults).unwrap_or(began)
    }

    /// Where a time lies, in tenths of a pixel.
    fn x(&self, time: Ns) -> f64 {
        let share = (time.clamp(self.from, self.to) - self.from) as f64 / (self.to - self.from) as f64;
        ((LEFT as f64 + share * (RIGHT - LEFT) as f64) * 10.0).round() / 10.0
    }

    fn shows(&self, from: Ns, to: Ns) -> bool {
        from < self.to && to > self.from
    }

    /// Seconds since the faults began.
    fn seconds(&self, time: Ns) -> f64 {
        (time - self.began) as f64 / NS_PER_S as f64
    }
}

pub(super) fn draw(outcome: &Outcome, from_s: Option<u64>, seconds: u64) -> String {
    let window = Window::of(outcome, from_s, seconds);
    let options = &outcome.options;
    let locks_top = TOP + 20;
    let nodes_top = locks_top + LOCK_HEIGHT * count(options.locks) + 26;
    let clients_top = nodes_top + NODE_HEIGHT * count(super::NODES) + 26;
    let height = clients_top + CLIENT_HEIGHT * count(options.clients) + 86;
    let mut svg = String::new();
    // Writing to a string does not fail.
    let _ = writeln!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\">\
         <style>{STYLE}</style><rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#fff\"/>"
    );
    title(&mut svg, outcome, &window);
    axis(&mut svg, &window, locks_top - 6, height - 84);
    rows::locks(&mut svg, outcome, &window, locks_top);
    rows::nodes(&mut svg, outcome, &window, nodes_top);
    rows::clients(&mut svg, outcome, &window, clients_top);
    legend(&mut svg, height - 62);
    svg.push_str("</svg>\n");
    svg
}

fn title(svg: &mut String, outcome: &Outcome, window: &Window) {
    let options = &outcome.options;
    let guard = if options.guarded { "on" } else { "off" };
    let _ = writeln!(
        svg,
        "<text x=\"16\" y=\"26\" class=\"t\">Chaos, seed {}, restart guard {guard}: seconds {:.0} to {:.0} of {:.0}</text>\
         <text x=\"16\" y=\"46\" class=\"s\">The whole run: {} faults, {} acquisitions, {} overlaps, {} violations of fences. \
         {} clients with {} workers each, 5 nodes, max_ttl {:?}.</text>",
        options.seed,
        window.seconds(window.from),
        window.seconds(window.to),
        options.duration.as_secs_f64(),
        outcome.episodes.len(),
        outcome.acquisitions(),
        outcome.overlaps(),
        outcome.fence_violations(),
        options.clients,
        options.workers,
        options.max_ttl,
    );
}

fn axis(svg: &mut String, window: &Window, top: i64, bottom: i64) {
    let whole = (window.to - window.from) / NS_PER_S;
    let step = if whole > 40 {
        5
    } else if whole > 15 {
        2
    } else {
        1
    };
    let first = (window.from - window.began + NS_PER_S - 1) / NS_PER_S;
    for second in (first..=(window.to - window.began) / NS_PER_S).filter(|second| second % step == 0) {
        let x = window.x(window.began + second * NS_PER_S);
        let _ = writeln!(
            svg,
            "<line class=\"g\" x1=\"{x}\" x2=\"{x}\" y1=\"{top}\" y2=\"{bottom}\"/>\
             <text x=\"{x}\" y=\"{}\" class=\"s\" text-anchor=\"middle\">{second} s</text>",
            top - 4
        );
    }
}

fn legend(svg: &mut String, top: i64) {
    let boxes = [
        ("dn", "server killed, with its data"),
        ("em", "killed, started empty"),
        ("st", "halted (SIGSTOP)"),
        ("de", "requests or replies delayed"),
        ("cut", "stalled or lost, one way"),
        ("pa", "half of the clients cut off"),
        ("br", "connections broken"),
        ("qu", "kept out: may have forgotten locks"),
        ("cl", "kept out: its clock"),
        ("v", "violation"),
    ];
    for (index, (class, words)) in boxes.into_iter().enumerate() {
        let (x, y) = (16 + 300 * count(index % 5), top + 20 * count(index / 5));
        let _ = writeln!(
            svg,
            "<rect class=\"{class}\" x=\"{x}\" y=\"{}\" width=\"14\" height=\"11\"/><text x=\"{}\" y=\"{}\">{words}</text>",
            y - 10,
            x + 20,
            y
        );
    }
    let y = top + 42;
    let _ = writeln!(
        svg,
        "<path class=\"ck\" d=\"M12 {}v-8H28v8\"/><text x=\"36\" y=\"{}\">clock stepped forward (up) or back (down), as far \
         as the line goes</text><path class=\"fl\" d=\"M466 {}l5 8l-10 0z\"/><text x=\"486\" y=\"{}\">FLUSHALL</text>\
         <text x=\"616\" y=\"{}\">Holders have the colours of the clients at the left; hover over one for its fence.</text>",
        y + 4,
        y + 4,
        y - 4,
        y + 4,
        y + 4
    );
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(0)
}
