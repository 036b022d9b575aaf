//! Screens, one after the other, as an SVG that moves and needs no script: each text of a line is
//! there from its first picture to its last.

use std::fmt::Write;
use std::time::Duration;

use super::terminal::{Cell, Style, Terminal};

/// The size of a letter, the edge around the screen, and the height of the bar above it.
const WIDTH: f64 = 8.4;
const HEIGHT: f64 = 19.0;
const EDGE: f64 = 14.0;
const BAR: f64 = 26.0;

/// The eight colours on a dark screen.
const COLOURS: [&str; 8] =
    ["#8b949e", "#ff7b72", "#7ee787", "#e3b341", "#79c0ff", "#d2a8ff", "#76e3ea", "#f0f6fc"];

/// Pictures, and how long each is to be seen.
#[derive(Default)]
pub(super) struct Film(Vec<(Vec<Vec<Cell>>, Duration)>);

/// A text in a row, and from when to when it is there, in seconds.
struct Text<'a> {
    row: usize,
    cells: &'a [Cell],
    from: f64,
    to: f64,
}

impl Film {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// What the terminal shows now, for so long at least.
    pub(super) fn show(&mut self, terminal: &Terminal, time: Duration) {
        let lines = terminal.lines();
        match self.0.last_mut() {
            Some((last, shown)) if *last == lines => *shown += time,
            _ => self.0.push((lines, time)),
        }
    }

    /// The last picture stays for so much longer.
    pub(super) fn wait(&mut self, time: Duration) {
        if let Some((_, shown)) = self.0.last_mut() {
            *shown += time;
        }
    }

    pub(super) fn svg(&self, columns: usize, rows: usize) -> String {
        let (texts, length) = self.texts();
        let (width, height) = (columns as f64 * WIDTH + 2.0 * EDGE, rows as f64 * HEIGHT + 2.0 * EDGE + BAR);
        let mut styles = String::new();
        let mut lines = String::new();
        for (text, number) in texts.iter().zip(0..) {
            let percent = |time: f64| 100.0 * time / length;
            let (from, to) = (percent(text.from), percent(text.to));
            // From its first moment to its last; what is there at the end stays until it begins
            // again.
            let _ = write!(
                styles,
                "@keyframes k{number}{{0%{{visibility:hidden}}{from:.2}%{{visibility:visible}}"
            );
            if text.to < length {
                let _ = write!(styles, "{to:.2}%{{visibility:hidden}}");
            }
            let _ = writeln!(styles, "}}.k{number}{{animation:k{number} {length:.1}s step-end infinite}}");
            let at_the_end = if text.to < length { " gone" } else { "" };
            let baseline = BAR + EDGE + (text.row as f64 + 0.75) * HEIGHT;
            let _ = writeln!(
                lines,
                "<text xml:space=\"preserve\" class=\"k{number}{at_the_end}\" x=\"{EDGE}\" y=\"{baseline:.1}\">{}</text>",
                spans(text.cells)
            );
        }
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
             height=\"{height:.0}\" role=\"img\"><title>tenure in a terminal</title>\n<style>\n\
             text{{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#e6edf3}}\n\
             .gone{{visibility:hidden}}\n{styles}\
             @media (prefers-reduced-motion:reduce){{text{{animation:none!important}}}}\n</style>\n\
             <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#0d1117\"/>\n\
             <circle cx=\"20\" cy=\"18\" r=\"6\" fill=\"#ff5f57\"/><circle cx=\"40\" cy=\"18\" r=\"6\" fill=\"#febc2e\"/>\
             <circle cx=\"60\" cy=\"18\" r=\"6\" fill=\"#28c840\"/>\n{lines}</svg>\n"
        )
    }

    /// Every text with its times, and how long all of it takes.
    fn texts(&self) -> (Vec<Text<'_>>, f64) {
        let mut texts: Vec<Text<'_>> = vec![];
        let mut now = 0.0;
        for (lines, time) in &self.0 {
            let next = now + time.as_secs_f64();
            for (row, cells) in lines.iter().enumerate().filter(|(_, cells)| !cells.is_empty()) {
                let same = |text: &&mut Text<'_>| text.row == row && text.cells == cells && text.to >= now;
                match texts.iter_mut().find(same) {
                    Some(text) => text.to = next,
                    None => texts.push(Text { row, cells, from: now, to: next }),
                }
            }
            now = next;
        }
        (texts, now)
    }
}

/// Letters of one style together.
fn spans(cells: &[Cell]) -> String {
    let mut spans = String::new();
    for run in cells.chunk_by(|one, other| one.style == other.style) {
        let text: String = run.iter().map(|cell| cell.letter).collect();
        let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let _ = match run.first().map(|cell| cell.style).unwrap_or_default() {
            Style { bold: false, dim: false, colour: None } => write!(spans, "{text}"),
            style => write!(spans, "<tspan{}>{text}</tspan>", attributes(style)),
        };
    }
    spans
}

fn attributes(style: Style) -> String {
    let colour = style.colour.and_then(|colour| COLOURS.get(usize::from(colour)));
    let fill = colour.map_or(String::new(), |colour| format!(" fill=\"{colour}\""));
    let weight = if style.bold { " font-weight=\"bold\"" } else { "" };
    let faint = if style.dim { " opacity=\"0.6\"" } else { "" };
    format!("{fill}{weight}{faint}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn film(screens: &[&str]) -> Film {
        let mut film = Film::default();
        for screen in screens {
            let mut terminal = Terminal::new(20, 2);
            terminal.write(screen.as_bytes());
            film.show(&terminal, Duration::from_secs(1));
        }
        film
    }

    #[test]
    fn a_line_that_stays_is_drawn_once_for_all_its_pictures() {
        let film = film(&["$ a", "$ a\r\nb", "$ a\r\nc"]);
        let (texts, length) = film.texts();
        let times: Vec<_> = texts.iter().map(|text| (text.row, text.from, text.to)).collect();
        assert_eq!((times, length), (vec![(0, 0.0, 3.0), (1, 1.0, 2.0), (1, 2.0, 3.0)], 3.0));
    }

    #[test]
    fn signs_that_mean_something_in_svg_are_written_as_what_they_are() {
        assert!(film(&["a < b & c"]).svg(20, 2).contains("a &lt; b &amp; c</text>"));
    }
}
