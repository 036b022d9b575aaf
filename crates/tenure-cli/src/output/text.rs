//! Tables and lines for people.

use std::fmt::Write;
use std::time::Duration;

use tenure::{Fence, Kind, NodeReport, Rounded, Severity, ShutdownError};
use tenure_server::form::kind_word;

use super::clock::time;
use super::deadlock::{deadlock, remedy};
use crate::advice::{Advice, Level};
use crate::ballot::Ballot;
use crate::lease::now_ms;
use crate::report::{Answer, List, Report, State, Waiting};

/// Of so many who wait it is shown who they are.
const WAITING_SHOWN: usize = 10;

const RED: &str = "\x1b[31m";
const GREEN: &str = "\x1b[32m";
const YELLOW: &str = "\x1b[33m";
const DIM: &str = "\x1b[2m";
const BOLD: &str = "\x1b[1m";

/// Text in a colour, where colours are wanted.
fn paint(colours: bool, colour: &str, text: &str) -> String {
    if colours && !text.is_empty() { format!("{colour}{text}\x1b[0m") } else { text.to_owned() }
}

/// What others wrote, so that nothing in it can move the cursor or turn the line around.
pub(crate) fn plain(text: &str) -> String {
    let turns =
        |c: char| matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let escape =
        |c: char| if c.is_control() || turns(c) { c.escape_unicode().to_string() } else { c.to_string() };
    text.chars().map(escape).collect()
}

/// A duration as people read it.
pub(crate) fn duration(duration: Duration) -> String {
    Rounded(duration).to_string()
}

/// One word of a shell's command line, whatever is in it.
pub(super) fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// The same for people: quoted only where it has to be.
pub(crate) fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+*".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) { word.to_owned() } else { quoted(word) }
}

/// Since when a lock is held: a fence is the time of its acquisition by the nodes' clocks. `None`
/// if it cannot be that.
pub(super) fn since_ms(fence: Fence) -> Option<u64> {
    let since = fence.get() / 1000;
    // A store whose clock does not begin in 1970, or one that lost its memory and begins ahead.
    (since > 1_500_000_000_000 && since <= now_ms() + 1000).then_some(since)
}

/// On which nodes a lock was released, and what becomes of it on the others.
pub(super) fn released(name: &str, votes: &Ballot, unfinished: Option<&ShutdownError>) -> String {
    let rest = unfinished.map_or_else(String::new, |ShutdownError { nodes, frees_within, .. }| {
        let (nodes, within) = (nodes.join(", "), duration(*frees_within));
        format!("; {nodes} did not answer: the lock expires there within {within}")
    });
    format!("released {name:?} on {} of {} nodes{rest}", votes.granted(), votes.nodes())
}

pub(super) fn status(report: &Report, colours: bool) -> String {
    let mut text = format!("{}  {}\n", paint(colours, BOLD, &plain(&report.name)), state(report, colours));
    if report.state == State::Held {
        let Report { left, fence, .. } = report;
        let holder = Some(holder(report)).filter(|holder| !holder.is_empty());
        let _ = writeln!(text, "  holder   {}", holder.as_deref().unwrap_or("(no label)"));
        // A foreign holder has no fence: this one is our last.
        if let Some(since) = fence.and_then(since_ms).filter(|_| !report.is_foreign) {
            let held = Duration::from_millis(now_ms().saturating_sub(since));
            let _ = writeln!(text, "  since    {} ({} ago)", time(since), duration(held));
        }
        let frees = left.map_or_else(
            || "never: it does not expire. If its holder is gone, delete the key on every node".to_owned(),
            |left| {
                let at = now_ms().saturating_add(super::milliseconds(left));
                format!("{} if not extended (in {})", time(at), duration(left))
            },
        );
        let _ = writeln!(text, "  frees    {frees}");
        if let Some(fence) = fence {
            let _ = writeln!(text, "  fence    {fence}");
        }
    }
    let waiters = report.waiters.map_or_else(|| "unknown".to_owned(), |waiters| waiters.to_string());
    let _ = writeln!(text, "  waiters  {waiters}");
    for waiting in report.line.iter().take(WAITING_SHOWN) {
        let _ = writeln!(text, "           {}", who_waits(waiting));
    }
    if report.line.len() > WAITING_SHOWN {
        let _ = writeln!(text, "           ... (--json lists more)");
    }
    for circle in &report.circles {
        let _ = writeln!(text, "  {}. {}", paint(colours, RED, &deadlock(circle, false)), remedy(circle));
    }
    for answer in &report.nodes {
        let says_otherwise = report.disagree.contains(&answer.node);
        let said = said(answer);
        let said = if says_otherwise { paint(colours, RED, &format!("{said}  <- disagrees")) } else { said };
        let counted = uncounted(answer.votes, answer.error.is_none(), answer.distrust.as_deref());
        let _ = writeln!(text, "  node     {}  {said}{counted}", answer.node);
    }
    text
}

/// One who waits, as far as it says who it is.
fn who_waits(waiting: &Waiting) -> String {
    let who = waiting.label.as_deref().map_or_else(|| format!("client {}", waiting.client), plain);
    let waited = Duration::from_millis(now_ms().saturating_sub(waiting.since_ms));
    let reads = if waiting.shared { ", to read" } else { "" };
    let keeps = match &waiting.keeps[..] {
        [] => String::new(),
        names => format!(", keeps {}", names.iter().map(|name| plain(name)).collect::<Vec<_>>().join(", ")),
    };
    format!("{who}, for {}{reads}{keeps}", duration(waited))
}

/// Who holds a lock, as far as that is known.
fn holder(report: &Report) -> String {
    let label = report.label.as_deref().map(plain);
    let of = |what: String, count: u64| match (&label, count) {
        (None, _) => what,
        (Some(label), 1) => format!("{what}: {label}"),
        (Some(label), _) => format!("{what}, including {label}"),
    };
    match (&report.owner, report.holds, report.readers) {
        (Some(owner), Some(holds), _) => {
            let times = if holds == 1 { "1 hold".to_owned() } else { format!("{holds} holds") };
            of(format!("owner {}, {times}", plain(owner)), holds)
        }
        (Some(owner), None, _) => of(format!("owner {}", plain(owner)), 1),
        (None, _, Some(1)) => of("1 reader".to_owned(), 1),
        (None, _, Some(readers)) => of(format!("{readers} readers"), readers),
        (None, _, None) if report.kind.as_deref() == Some(kind_word(Kind::Foreign)) => {
            "another program: the key is not a lock".to_owned()
        }
        (None, _, None) if report.is_foreign => "a client of another library".to_owned(),
        (None, _, None) => label.unwrap_or_default(),
    }
}

/// Why what a node said does not count, if it said something.
fn uncounted(votes: bool, answered: bool, distrust: Option<&str>) -> String {
    match distrust {
        Some(distrust) if !votes && answered => {
            format!("  (does not vote: {})", plain(distrust))
        }
        _ => String::new(),
    }
}

fn state(report: &Report, colours: bool) -> String {
    match report.state {
        State::Free => paint(colours, GREEN, "free"),
        State::Held => paint(colours, YELLOW, "held"),
        State::Kept => paint(colours, YELLOW, "done, and kept from others until its period ends"),
        State::Reserved => paint(colours, YELLOW, "reserved for the next in line"),
        State::Disputed => paint(colours, RED, "disputed: no majority agrees"),
        State::Unknown => paint(colours, RED, "unknown: no majority of nodes can vote"),
    }
}

fn said(answer: &Answer) -> String {
    let left =
        || answer.left.map_or_else(|| "with no expiry".to_owned(), |left| format!("for {}", duration(left)));
    match answer.state {
        State::Free => "free".to_owned(),
        State::Reserved => format!("reserved {}", left()),
        State::Kept => format!("kept {}", left()),
        State::Held => {
            let label =
                answer.label.as_deref().map_or_else(String::new, |label| format!(" by {}", plain(label)));
            format!("held{label} {}", left())
        }
        State::Disputed | State::Unknown => answer.error.as_deref().map(plain).unwrap_or_default(),
    }
}

/// A matrix of locks and nodes.
pub(super) fn list(list: &List, colours: bool) -> String {
    let (mut text, reports) = (String::new(), &list.locks);
    for (index, node) in list.nodes.iter().enumerate() {
        let told = match &node.locks {
            Ok(count) if node.cut_short => format!("{count} locks, and more"),
            Ok(1) => "1 lock".to_owned(),
            Ok(count) => format!("{count} locks"),
            Err(reason) => paint(colours, RED, &plain(reason)),
        };
        let counted = uncounted(node.votes, node.locks.is_ok(), node.distrust.as_deref());
        let _ = writeln!(text, "node {}  {}  {told}{counted}", letter(index), node.node);
    }
    if reports.is_empty() {
        text.push_str("no locks\n");
        return text;
    }
    let letters: String = (0..list.nodes.len()).map(letter).collect();
    let mut rows = vec![["LOCK", "NODES", "STATE", "LEFT", "FENCE", "WAIT", "HOLDER"].map(str::to_owned)];
    rows[0][1] = letters;
    rows.extend(reports.iter().map(row));
    let widths: Vec<usize> =
        (0..7).map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)).collect();
    text.push('\n');
    for (index, row) in rows.iter().enumerate() {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            let _ = write!(line, "{cell:<width$}  ");
        }
        let line = line.trim_end();
        let doubtful = index > 0 && !reports[index - 1].disagree.is_empty();
        let line = match index {
            0 => paint(colours, BOLD, line),
            _ if doubtful => paint(colours, RED, line),
            _ => line.to_owned(),
        };
        let _ = writeln!(text, "{line}");
    }
    let _ = writeln!(
        text,
        "\n{}",
        paint(colours, DIM, "# agrees with the majority   ! disagrees   . free   ? no answer   r reserved")
    );
    text
}

fn letter(index: usize) -> char {
    u8::try_from(index).map_or('?', |index| char::from(b'a' + index % 26))
}

fn row(report: &Report) -> [String; 7] {
    let mark = |answer: &Answer| match answer.state {
        _ if report.disagree.contains(&answer.node) => '!',
        State::Free => '.',
        State::Reserved => 'r',
        State::Held | State::Kept => '#',
        State::Disputed | State::Unknown => '?',
    };
    [
        plain(&report.name),
        report.nodes.iter().map(mark).collect(),
        report.state.word().to_owned(),
        report.left.map(duration).unwrap_or_default(),
        report.fence.map(|fence| fence.to_string()).unwrap_or_default(),
        report.waiters.map(|waiters| waiters.to_string()).unwrap_or_default(),
        holder(report),
    ]
}

pub(super) fn doctor(nodes: &[NodeReport], advice: &[Advice], colours: bool) -> String {
    let mut text = String::new();
    for node in nodes {
        // What is not known is left out; the findings say why.
        let version = node.version.as_deref().map(plain);
        let round_trip = node.round_trip.map(|time| format!("round trip {:.2} ms", time.as_secs_f64() * 1e3));
        let votes =
            if node.votes { paint(colours, GREEN, "votes") } else { paint(colours, RED, "does not vote") };
        let clock = node.clock_offset_us.map(|offset| format!("clock {:+.1} ms", offset as f64 / 1e3));
        let known: Vec<String> = [Some(votes), version, round_trip, clock].into_iter().flatten().collect();
        let _ = writeln!(text, "{}  {}", node.node, known.join(", "));
        for finding in &node.findings {
            let colour = if finding.severity == Severity::Info { DIM } else { YELLOW };
            let colour = if finding.severity == Severity::Refuse { RED } else { colour };
            let severity = paint(colours, colour, &finding.severity.to_string());
            let _ = writeln!(text, "  {severity}: {}. {}", finding.message, finding.advice);
        }
    }
    for Advice { level, message, advice } in advice {
        let colour = match level {
            Level::Good => GREEN,
            Level::Warning => YELLOW,
            Level::Danger => RED,
        };
        let _ = writeln!(text, "{}: {message}. {advice}", paint(colours, colour, level.word()));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_wrote_cannot_move_the_cursor() {
        assert_eq!(plain("a\x1b[2Jb\nü\u{202e}x"), "a\\u{1b}[2Jb\\u{a}ü\\u{202e}x");
    }

    #[test]
    fn a_name_is_one_word_for_the_shell() {
        assert_eq!(quoted("it's $HOME"), r"'it'\''s $HOME'");
        assert_eq!(
            (shell_word("a b"), shell_word("-l"), shell_word("")),
            ("'a b'".into(), "-l".into(), "''".into())
        );
    }
}
