//! What is being done, how far it is, and at the end how long each step took and what was skipped.

use std::time::{Duration, Instant};

use anyhow::Result;

/// The steps so far.
pub(crate) struct Report {
    begun: Instant,
    steps: usize,
    done: Vec<(&'static str, Duration)>,
    skipped: Vec<String>,
    doubtful: Vec<String>,
}

impl Report {
    pub(crate) fn begin(steps: usize) -> Self {
        Self { begun: Instant::now(), steps, done: vec![], skipped: vec![], doubtful: vec![] }
    }

    /// Does a step, and keeps how long it took.
    pub(crate) fn step(
        &mut self,
        name: &'static str,
        work: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<()> {
        let (number, steps) = (self.done.len() + 1, self.steps);
        println!("\n==> step {number} of {steps}: {name} ({} so far)", clock(self.begun.elapsed()));
        let begun = Instant::now();
        let outcome = work(self);
        self.done.push((name, begun.elapsed()));
        outcome
    }

    /// Says that something cannot be tried here, and why.
    pub(crate) fn skip(&mut self, what: impl Into<String>) {
        self.skipped.push(what.into());
    }

    /// Says that a test failed once and then passed, so that somebody looks at it.
    pub(crate) fn doubt(&mut self, what: String) {
        self.doubtful.push(what);
    }

    #[cfg(test)]
    pub(crate) fn doubts(&self) -> &[String] {
        &self.doubtful
    }

    pub(crate) fn end(&self, passed: bool) {
        println!("\n==> summary");
        for (name, took) in &self.done {
            println!("    {:>6}  {name}", clock(*took));
        }
        for what in &self.skipped {
            println!("    skipped: {what}");
        }
        for what in &self.doubtful {
            println!("    look at: {what}");
        }
        let outcome = match (passed, self.skipped.is_empty()) {
            (true, true) => "all passed",
            (true, false) => "all that could run here passed",
            (false, _) => "failed",
        };
        println!("{outcome} after {}", clock(self.begun.elapsed()));
    }
}

/// Minutes and seconds.
pub(crate) fn clock(time: Duration) -> String {
    format!("{}:{:02}", time.as_secs() / 60, time.as_secs() % 60)
}
