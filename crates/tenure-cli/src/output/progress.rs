//! How far something is that takes a while, for people at a terminal.

use std::time::{Duration, Instant};

use super::status_line::{StatusLine, is_in_foreground, width};
use super::text::duration;

/// What takes no longer needs no word.
const SOON: Duration = Duration::from_millis(700);

/// The line is drawn so often.
const EVERY: Duration = Duration::from_millis(200);

/// The display: one line that is written anew, and nothing where there is no terminal.
#[derive(Debug)]
pub(crate) struct Progress {
    shown: bool,
    begun: Instant,
    /// When it was last drawn.
    drawn: Option<Duration>,
    line: StatusLine,
}

impl Progress {
    pub(super) fn new(shown: bool) -> Self {
        Self { shown, begun: Instant::now(), drawn: None, line: StatusLine::default() }
    }

    /// What is done now, the `step`-th of so many steps.
    pub(crate) fn step(&mut self, what: &str, step: usize, steps: usize) {
        if self.shown && is_in_foreground() {
            let line =
                format!("tenure: {step} of {steps}: {what}, {} so far", duration(self.begun.elapsed()));
            self.line.draw(&line.chars().take(width().saturating_sub(1)).collect::<String>());
        }
    }

    /// So many of so many keys were looked at. What is over soon is not shown.
    pub(crate) fn keys(&mut self, done: u64, all: u64) {
        let due = self.drawn.map_or(SOON, |drawn| drawn + EVERY);
        if self.shown && self.begun.elapsed() >= due && is_in_foreground() {
            self.drawn = Some(self.begun.elapsed());
            let part = done.saturating_mul(100).checked_div(all).unwrap_or(100);
            let line = format!("tenure: scanned {done} of about {all} keys ({part} %)");
            self.line.draw(&line.chars().take(width().saturating_sub(1)).collect::<String>());
        }
    }

    /// Takes the line away.
    pub(crate) fn clear(&mut self) {
        self.line.clear();
    }
}
