//! What a person sees while we wait: who holds the lock, for how long, and our place in the line.

use std::time::{Duration, Instant};

use tenure::{Circle, Votes};

use super::deadlock::deadlock;
use super::status_line::{StatusLine, is_in_foreground, width, write};
use super::text::{duration, plain};

/// What is always shown of a holder (a process and the beginning of its machine) and of a name.
const HOLDER_MIN: usize = 16;
const NAME_MIN: usize = 8;

/// The waiting display: one line that is written anew in the foreground of a terminal, one line in
/// all elsewhere.
#[derive(Debug)]
pub(crate) struct WaitingDisplay {
    name: String,
    terminal: bool,
    begun: Instant,
    /// The one line was printed.
    said: bool,
    /// The line that is written anew.
    line: StatusLine,
    news: Option<(WaitingNews, Instant)>,
}

/// What the nodes said last.
#[derive(Clone, Debug)]
pub(crate) enum WaitingNews {
    /// Another has the lock.
    InLine { holder: Option<String>, free_after: Option<Duration>, ahead: u64, waiters: u64 },
    /// No majority of nodes can vote.
    Outage(Votes),
    /// We hold what another waits for, who holds what we wait for. Told beside the line.
    Deadlock(Circle),
    /// The service cannot help at present.
    Unserved(String),
}

impl WaitingDisplay {
    pub(super) fn new(name: &str, terminal: bool) -> Self {
        let (begun, line) = (Instant::now(), StatusLine::default());
        Self { name: plain(name), terminal, begun, said: false, line, news: None }
    }

    /// Shows what is new.
    pub(crate) fn update(&mut self, news: WaitingNews) {
        self.news = Some((news, Instant::now()));
        self.show();
    }

    /// Lets the time go on.
    pub(crate) fn tick(&mut self) {
        self.show();
    }

    /// Takes the line away.
    pub(crate) fn clear(&mut self) {
        self.line.clear();
    }

    fn show(&mut self) {
        let Some((news, told)) = &self.news else { return };
        let draw = self.terminal && is_in_foreground();
        if !draw && (self.said || self.line.is_drawn()) {
            return;
        }
        if draw {
            let line =
                news.fitted(&self.name, told.elapsed(), self.begun.elapsed(), width().saturating_sub(1));
            self.line.draw(&line);
        } else {
            let words = news.words(told.elapsed());
            write(format!("tenure: waiting for {}: {words}\n", self.name).as_bytes());
            self.said = true;
        }
    }
}

impl WaitingNews {
    /// What is waited for, so long after it was told.
    fn words(&self, ago: Duration) -> String {
        match self {
            Self::Outage(votes) => plain(&votes.outage()),
            Self::Unserved(reason) => plain(reason),
            Self::Deadlock(circle) => deadlock(circle, true),
            Self::InLine { ahead, waiters, .. } => {
                let (holder, left) = self.holder(ago);
                let place = match (ahead, waiters) {
                    (_, 0) => String::new(),
                    (ahead, waiters) => format!("number {} of {waiters} in line, ", ahead + 1),
                };
                format!("{place}held by {holder}{left}")
            }
        }
    }

    /// The same in one line of a terminal, with the time that was waited.
    fn fitted(&self, name: &str, ago: Duration, waited: Duration, columns: usize) -> String {
        let waited = duration(waited);
        match self {
            Self::Outage(_) | Self::Unserved(_) | Self::Deadlock(_) => {
                let line = format!("tenure: {name}: waited {waited}, {}", self.words(ago));
                line.chars().take(columns).collect()
            }
            Self::InLine { ahead, waiters, .. } => {
                let (holder, left) = self.holder(ago);
                let place = match (ahead, waiters) {
                    (_, 0) => format!("; waited {waited}"),
                    (ahead, waiters) => format!("; {} of {waiters} in line for {waited}", ahead + 1),
                };
                fitted(name, &holder, &format!("{left}{place}"), columns)
            }
        }
    }

    /// Who holds the lock, and for how long.
    fn holder(&self, ago: Duration) -> (String, String) {
        let Self::InLine { holder, free_after, .. } = self else { return Default::default() };
        let left = free_after.map(|left| format!(", {} left", duration(left.saturating_sub(ago))));
        (holder.as_deref().map_or_else(|| "another client".to_owned(), plain), left.unwrap_or_default())
    }
}

/// The line for a terminal of so many columns. Where they do not suffice, the ends of the holder's
/// note and of the name are left out: who it is stands at the beginning.
fn fitted(name: &str, holder: &str, rest: &str, columns: usize) -> String {
    let line = |name: &str, holder: &str| format!("tenure: {name} held by {holder}{rest}");
    let excess = |name: &str, holder: &str| line(name, holder).chars().count().saturating_sub(columns);
    let holder = shortened(holder, excess(name, holder), HOLDER_MIN);
    let name = shortened(name, excess(name, &holder), NAME_MIN);
    line(&name, &holder).chars().take(columns).collect()
}

/// The text without so many of its last characters, but not less than `least` of it.
fn shortened(text: &str, excess: usize, least: usize) -> String {
    let length = text.chars().count();
    let kept = length.saturating_sub(excess + 1).max(least);
    if excess == 0 || kept >= length {
        return text.to_owned();
    }
    text.chars().take(kept).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_fits_and_says_who_it_is() {
        let rest = ", 27.5 s left; 1 of 1 in line for 1.8 s";
        let whole = "tenure: backup held by 6367@vm nightly, 27.5 s left; 1 of 1 in line for 1.8 s";
        assert_eq!(fitted("backup", "6367@vm nightly", rest, 79), whole);
        let line = fitted("backup", "6367@vm nightly backup of everything", rest, 79);
        assert_eq!(line, "tenure: backup held by 6367@vm nightly …, 27.5 s left; 1 of 1 in line for 1.8 s");
        let line = fitted("import-of-all-invoices", "63670@machine-17 nightly", rest, 79);
        assert_eq!(line.chars().count(), 79);
        assert!(line.starts_with("tenure: import-o") && line.contains("held by 63670@machine-17…"), "{line}");
        assert_eq!(fitted("backup", "6367@vm", rest, 20), "tenure: backup held ");
    }
}
