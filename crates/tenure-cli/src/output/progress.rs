//! How far something is that takes a while, for people at a terminal.

use std::time::Instant;

use super::status_line::{StatusLine, is_in_foreground, width};
use super::text::duration;

/// The display: one line that is written anew, and nothing where there is no terminal.
#[derive(Debug)]
pub(crate) struct Progress {
    shown: bool,
    begun: Instant,
    line: StatusLine,
}

impl Progress {
    pub(super) fn new(shown: bool) -> Self {
        Self { shown, begun: Instant::now(), line: StatusLine::default() }
    }

    /// What is done now, the `step`-th of so many steps.
    pub(crate) fn step(&mut self, what: &str, step: usize, steps: usize) {
        if self.shown && is_in_foreground() {
            let line =
                format!("tenure: {step} of {steps}: {what}, {} so far", duration(self.begun.elapsed()));
            self.line.draw(&line.chars().take(width().saturating_sub(1)).collect::<String>());
        }
    }

    /// Takes the line away.
    pub(crate) fn clear(&mut self) {
        self.line.clear();
    }
}
