//! The picture.

use std::time::Duration;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Paragraph, Row, Table, TableState, Wrap};

use super::{App, Told, View};
use crate::output::{duration, plain};
use crate::report::{Report, State};
use crate::sight::{Lock, Node};

/// Less is not enough for a table.
const WIDTH_MIN: u16 = 60;
const HEIGHT_MIN: u16 = 10;

const DIM: Style = Style::new().add_modifier(Modifier::DIM);
const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
const BAD: Style = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);
const CURSOR: Style = Style::new().add_modifier(Modifier::REVERSED);

/// Draws all of it.
pub(crate) fn draw(app: &App, frame: &mut Frame<'_>) {
    let area = frame.area();
    if area.width < WIDTH_MIN || area.height < HEIGHT_MIN {
        let (width, height) = (area.width, area.height);
        let words = format!(
            "tenure top needs {WIDTH_MIN} columns and {HEIGHT_MIN} lines; this terminal has {width} x \
             {height}"
        );
        return frame.render_widget(Paragraph::new(words).wrap(Wrap { trim: true }), area);
    }
    let parts = Layout::vertical([Constraint::Length(2), Constraint::Min(1), Constraint::Length(1)]);
    let [head, body, foot] = parts.areas(area);
    frame.render_widget(Paragraph::new(vec![health(app), counts(app)]), head);
    match &app.view {
        View::List | View::Filter => locks(app, frame, body),
        View::Nodes => nodes(app, frame, body),
        View::Help => frame.render_widget(Paragraph::new(HELP), body),
        View::Lock { name, report } => one_lock(app, name, report.as_deref(), frame, body),
        View::Force { name, label, .. } => force(name, label.as_deref(), frame, body),
    }
    frame.render_widget(Paragraph::new(footer(app)), foot);
}

/// One sentence on how the fleet is.
fn health(app: &App) -> Line<'static> {
    if let Some((reason, since)) = &app.stale {
        let since = duration(since.elapsed());
        return Line::styled(format!("STALE for {since}: {}", plain(reason)), BAD);
    }
    if app.nodes.is_empty() {
        return Line::styled("asking the nodes", DIM);
    }
    let (votes, all) = (app.nodes.iter().filter(|node| node.votes).count(), app.nodes.len());
    let majority = all / 2 + 1;
    let given = if votes >= majority { "locks are granted" } else { "NO LOCKS ARE GRANTED" };
    let out = app.nodes.iter().filter(|node| !node.votes).map(|node| match quarantine(app, node) {
        Some(left) => format!("; {} in quarantine for {} more", plain(&node.node), duration(left)),
        None if !node.reachable => format!("; {} unreachable", plain(&node.node)),
        None => format!("; {} does not vote", plain(&node.node)),
    });
    let words = format!("{votes} of {all} nodes vote{}; {given}", out.collect::<String>());
    Line::styled(words, if votes == all { BOLD } else { BAD })
}

fn counts(app: &App) -> Line<'static> {
    let held = app.locks.values().filter(|lock| lock.state == State::Held).count();
    let waiting: u64 = app.locks.values().filter_map(|lock| lock.waiters).sum();
    let mut words = format!("{held} held, {waiting} waiting");
    if !app.progress.complete {
        let far = app.progress.looked_at.zip(app.progress.of);
        let far = far
            .map_or_else(String::new, |(looked_at, of)| format!(": {looked_at} of about {of} keys scanned"));
        words += &format!("  (incomplete{far})");
    }
    if !app.filter.is_empty() {
        words += &format!("  filter: {}", plain(&app.filter));
    }
    let order = if app.backwards { ", reversed" } else { "" };
    words += &format!("  by {}{order}", app.sort.word());
    Line::styled(words, if app.stale.is_some() { DIM } else { Style::new() })
}

fn locks(app: &App, frame: &mut Frame<'_>, area: Rect) {
    let rows = app.rows();
    if rows.is_empty() {
        let words = match (app.progress.complete, app.filter.is_empty()) {
            (false, _) => "looking for locks ...",
            (true, true) => "no locks. Try: tenure run hello -- sleep 60",
            (true, false) => "no lock matches the filter (Esc clears it)",
        };
        return frame.render_widget(Paragraph::new(words).style(DIM), area);
    }
    let place = app.place(&rows);
    let cells = rows.iter().map(|lock| {
        let style = if lock.others > 0 || lock.state == State::Disputed { BAD } else { Style::new() };
        let style = if app.stale.is_some() { DIM } else { style };
        Row::new(row(lock)).style(style)
    });
    let widths = [
        Constraint::Fill(3),
        Constraint::Length(8),
        Constraint::Length(10),
        Constraint::Length(10),
        Constraint::Length(4),
        Constraint::Length(3),
        Constraint::Fill(2),
    ];
    let header = Row::new(["LOCK", "STATE", "FREES IN", "AGE", "WAIT", "MAR", "HOLDER"]).style(BOLD);
    let table = Table::new(cells, widths).header(header).column_spacing(1).row_highlight_style(CURSOR);
    let mut state = TableState::new().with_selected(place);
    frame.render_stateful_widget(table, area, &mut state);
}

fn row(lock: &Lock) -> [String; 7] {
    let number = |number: Option<u64>| number.map_or_else(|| "?".to_owned(), |number| number.to_string());
    let age = duration(lock.age());
    [
        plain(&lock.name),
        // Not by colour alone.
        if lock.others > 0 { format!("{} !", lock.state.word()) } else { lock.state.word().to_owned() },
        lock.left().map_or_else(|| "never".to_owned(), duration),
        if lock.age_exact { age } else { format!(">{age}") },
        number(lock.waiters),
        lock.margin.map_or_else(String::new, |margin| margin.to_string()),
        lock.label.as_deref().map(plain).unwrap_or_default(),
    ]
}

fn nodes(app: &App, frame: &mut Frame<'_>, area: Rect) {
    let mut lines = vec![];
    for node in &app.nodes {
        let vote = match quarantine(app, node) {
            _ if node.votes => "votes".to_owned(),
            Some(left) => format!("quarantine, votes in {}", duration(left)),
            None if !node.reachable => "unreachable".to_owned(),
            None => "does not vote".to_owned(),
        };
        let style = if node.votes { BOLD } else { BAD };
        lines.push(Line::from(vec![Span::styled(format!("{}  {vote}", plain(&node.node)), style)]));
        let offset =
            node.clock_offset_us.map_or_else(String::new, |us| format!("  clock {:+.1} ms", us as f64 / 1e3));
        let trip = node
            .round_trip
            .map_or_else(String::new, |trip| format!("  round trip {:.1} ms", trip.as_secs_f64() * 1e3));
        let version = node.version.as_deref().map(plain).unwrap_or_default();
        lines.push(Line::from(format!(
            "    {version}  persistence {}{offset}{trip}",
            plain(&node.persistence)
        )));
        lines
            .extend(node.findings.iter().map(|finding| Line::styled(format!("    {}", plain(finding)), DIM)));
    }
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }), area);
}

/// What is left of a node's quarantine by now.
fn quarantine(app: &App, node: &Node) -> Option<Duration> {
    Some(node.quarantine_left?.saturating_sub(app.nodes_told.elapsed()))
}

fn one_lock(app: &App, name: &str, report: Option<&Told>, frame: &mut Frame<'_>, area: Rect) {
    let mut lines = vec![Line::styled(plain(name), BOLD)];
    match app.locks.get(name) {
        None => lines.push(Line::from("free")),
        Some(lock) => {
            let known = if lock.age_exact { "" } else { "at least " };
            lines.push(Line::from(format!("state    {}", lock.state.word())));
            lines.push(Line::from(format!(
                "holder   {}",
                lock.label.as_deref().map(plain).unwrap_or_default()
            )));
            lines.push(Line::from(format!("held for {known}{}", duration(lock.age()))));
            let left =
                lock.left().map_or_else(|| "never".to_owned(), |left| format!("in {}", duration(left)));
            lines.push(Line::from(format!("frees    {left}, unless extended")));
            let fence = lock.fence.map_or_else(|| "none".to_owned(), |fence| fence.to_string());
            lines.push(Line::from(format!("fence    {fence}")));
            let margin = lock.margin.map_or_else(|| "?".to_owned(), |margin| margin.to_string());
            lines.push(Line::from(format!("margin   {margin}")));
            let waiters = lock.waiters.map_or_else(|| "?".to_owned(), |waiters| waiters.to_string());
            lines.push(Line::from(format!("waiters  {waiters}")));
            if lock.others > 0 {
                lines.push(Line::styled(format!("{} nodes report another holder", lock.others), BAD));
            }
        }
    }
    lines.push(Line::default());
    match report {
        None => lines.push(Line::styled("asking the nodes ...", DIM)),
        Some(Told(report)) => lines.extend(matrix(report)),
    }
    let title = if app.stale.is_some() { "stale" } else { "" };
    frame.render_widget(
        Paragraph::new(lines).block(Block::new().title(title)).wrap(Wrap { trim: false }),
        area,
    );
}

/// What each node says.
fn matrix(report: &Report) -> impl Iterator<Item = Line<'static>> + '_ {
    report.nodes.iter().map(|answer| {
        let left = answer.left.map_or_else(String::new, |left| format!("  frees in {}", duration(left)));
        let label =
            answer.label.as_deref().map_or_else(String::new, |label| format!("  by {}", plain(label)));
        let error = answer.error.as_deref().map_or_else(String::new, |error| format!("  {}", plain(error)));
        let otherwise = report.disagree.contains(&answer.node);
        let says = if otherwise { "  <- disagrees" } else { "" };
        let words = format!("{}  {}{label}{left}{error}{says}", plain(&answer.node), answer.state.word());
        Line::styled(words, if otherwise || answer.error.is_some() { BAD } else { Style::new() })
    })
}

fn force(name: &str, label: Option<&str>, frame: &mut Frame<'_>, area: Rect) {
    let holder = label.map_or_else(|| "its holder".to_owned(), plain);
    let lines = vec![
        Line::styled(format!("Take {} from {holder}?", plain(name)), BAD),
        Line::default(),
        Line::from(
            "The holder is not notified and keeps running until its next renewal fails: two \
                    processes may run at once.",
        ),
        Line::from("If someone else holds it by now, nothing happens."),
        Line::default(),
        Line::styled("y: take it    any other key: cancel", BOLD),
    ];
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }), area);
}

fn footer(app: &App) -> Line<'static> {
    if let Some(note) = &app.note {
        return Line::styled(plain(note), BOLD);
    }
    let words = match &app.view {
        View::Filter => format!("filter: {}_   Enter keeps it, Esc clears it", plain(&app.filter)),
        View::List => "Enter details  / filter  s sort  r reverse  n nodes  ? help  q quit".to_owned(),
        View::Lock { .. } if app.may_force => "Esc back  F take it from its holder  q quit".to_owned(),
        View::Lock { .. } => "Esc back  q quit".to_owned(),
        View::Nodes | View::Help | View::Force { .. } => "any key: back".to_owned(),
    };
    Line::styled(words, DIM)
}

const HELP: &str = "\
up, down, j, k      move            PgUp, PgDn, g, G    page, top, end
Enter               one lock in detail, with what each node says
/                   show only locks whose name or holder contains the text
s                   sort by name, time left, age, waiters, margin
r                   reverse the order
n                   the nodes
F                   take a lock from its holder (with --allow-force)
q, Ctrl-C           quit

Other clients' locks are found by scanning the nodes about once a second.";
