//! The picture.

use std::time::Duration;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Wrap};

use super::happened::name;
use super::judge::Hold;
use super::keys::{HELP, KEYS};
use super::picture::Picture;
use super::world::CONTENDERS;
use crate::output::duration;

/// Less is not enough.
const WIDTH_MIN: u16 = 80;
const HEIGHT_MIN: u16 = 20;

const DIM: Style = Style::new().add_modifier(Modifier::DIM);
const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
const GOOD: Style = Style::new().fg(Color::Green);
const BAD: Style = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);
const CHOSEN: Style = Style::new().add_modifier(Modifier::REVERSED);

/// Draws all of it, as it is at this moment.
pub(crate) fn draw(picture: &Picture<'_>, frame: &mut Frame<'_>) {
    let area = frame.area();
    if area.width < WIDTH_MIN || area.height < HEIGHT_MIN {
        let (width, height) = (area.width, area.height);
        let words = format!(
            "tenure demo needs {WIDTH_MIN} columns and {HEIGHT_MIN} lines; this terminal has {width} x \
             {height}"
        );
        return frame.render_widget(Paragraph::new(words).wrap(Wrap { trim: true }), area);
    }
    let nodes = u16::try_from(picture.nodes.len()).unwrap_or(0) + 1;
    let parts = Layout::vertical([
        Constraint::Length(5),
        Constraint::Length(nodes),
        Constraint::Length(2),
        Constraint::Min(1),
        Constraint::Length(2),
    ]);
    let [head, middle, people, log, foot] = parts.areas(area);
    frame.render_widget(Paragraph::new(header(picture)), head);
    if picture.help {
        let body = Rect { height: middle.height + people.height + log.height, ..middle };
        frame.render_widget(Paragraph::new(HELP), body);
    } else {
        frame.render_widget(Paragraph::new(node_lines(picture)), middle);
        frame.render_widget(Paragraph::new(contenders(picture)), people);
        frame.render_widget(Paragraph::new(log_lines(picture, log.height)), log);
    }
    frame.render_widget(Paragraph::new(KEYS.map(|keys| Line::styled(keys, DIM)).to_vec()), foot);
}

fn header(picture: &Picture<'_>) -> Vec<Line<'static>> {
    let dashboard = picture.dashboard.map_or_else(String::new, |url| format!("   dashboard {url}"));
    let guard = if picture.guard {
        Span::styled("   restart guard ON", GOOD)
    } else {
        Span::styled("   restart guard OFF", BAD)
    };
    let first = Line::from(vec![Span::styled("tenure demo", BOLD), Span::raw(dashboard), guard]);
    let holders: Vec<&Hold> = picture.judge.holders(picture.now_us).collect();
    let mut lines = vec![first];
    if let [first, .., second] = &holders[..]
        && picture.judge.overlaps().iter().any(|overlap| overlap.first == **first)
    {
        lines.push(Line::styled("lock \"demo\"  TWO HOLDERS AT ONCE", BAD));
        lines.push(Line::styled(
            format!(
                "  {} with fence {}, {} with fence {}",
                name(first.who),
                first.fence,
                name(second.who),
                second.fence
            ),
            BAD,
        ));
    } else {
        lines.push(match holders.last() {
            Some(hold) => {
                let left = duration(Duration::from_micros(hold.until_us - picture.now_us));
                let paused = if picture.paused == Some(hold.who) { ", PAUSED" } else { "" };
                let (who, fence) = (name(hold.who), hold.fence);
                Line::from(format!("lock \"demo\"  held by {who}{paused}, fence {fence}, expires in {left}"))
            }
            None => Line::styled("lock \"demo\"  free", DIM),
        });
        lines.push(Line::default());
    }
    lines.push(match picture.judge.overlaps() {
        [] => Line::styled("never two holders at once", GOOD),
        [.., last] => {
            let (times, refused) = (picture.judge.overlaps().len(), picture.judge.refused());
            let times = if times == 1 { "1 time".to_owned() } else { format!("{times} times") };
            Line::styled(
                format!(
                    "two holders at once {times}, last {} {} and {} {}; writes rejected: {refused}",
                    name(last.first.who),
                    last.first.fence,
                    name(last.second.who),
                    last.second.fence
                ),
                BAD,
            )
        }
    });
    lines
}

fn node_lines(picture: &Picture<'_>) -> Vec<Line<'static>> {
    let rows = picture.nodes.iter().enumerate().map(|(number, node)| {
        let mark = if picture.chosen == number { ">" } else { " " };
        let style = if node.votes { GOOD } else { BAD };
        let label = format!("{mark} {}  {:<24}", number + 1, node.address);
        let label = Span::styled(label, if picture.chosen == number { CHOSEN } else { Style::new() });
        Line::from(vec![label, Span::styled(format!("  {}", node.shown()), style)])
    });
    rows.collect()
}

fn contenders(picture: &Picture<'_>) -> Vec<Line<'static>> {
    let people = (0..CONTENDERS.len()).flat_map(|who| {
        let holds = picture.judge.holders(picture.now_us).any(|hold| hold.who == who);
        let style = match (picture.paused == Some(who), holds) {
            (true, _) => BAD,
            (false, true) => CHOSEN,
            _ => Style::new(),
        };
        let mark = if picture.paused == Some(who) { "(paused)" } else { "" };
        [Span::styled(format!("{}{mark}", name(who)), style), Span::raw("  ")]
    });
    vec![Line::from_iter(std::iter::once(Span::raw("contenders  ")).chain(people)), Line::default()]
}

fn log_lines(picture: &Picture<'_>, height: u16) -> Vec<Line<'static>> {
    let skipped = picture.log.len().saturating_sub(usize::from(height));
    let shown = picture.log.iter().skip(skipped);
    shown.map(|(line, bad)| Line::styled(line.clone(), if *bad { BAD } else { Style::new() })).collect()
}
