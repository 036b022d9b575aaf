//! What a person sees while we wait: who holds the lock, for how long, and our place in the line.

use std::io::Write;
use std::time::{Duration, Instant};

use super::text::{duration, plain};

/// The waiting display: one line that is written anew in the foreground of a terminal, one line in all elsewhere. In the
/// background, the line of the terminal belongs to whoever is in the foreground.
#[derive(Debug)]
pub(crate) struct WaitingDisplay {
    name: String,
    terminal: bool,
    begun: Instant,
    /// The one line was printed.
    said: bool,
    /// The line that is written anew is there.
    drawn: bool,
    news: Option<(WaitingNews, Instant)>,
}

/// What the nodes said last.
#[derive(Clone, Debug, Default)]
pub(crate) struct WaitingNews {
    pub(crate) holder: Option<String>,
    pub(crate) free_after: Option<Duration>,
    pub(crate) ahead: u64,
    pub(crate) waiters: u64,
}

impl WaitingDisplay {
    pub(super) fn new(name: &str, terminal: bool) -> Self {
        Self { name: plain(name), terminal, begun: Instant::now(), said: false, drawn: false, news: None }
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
        if std::mem::take(&mut self.drawn) && is_in_foreground() {
            write(b"\r\x1b[2K");
        }
    }

    fn show(&mut self) {
        let Some((news, told)) = &self.news else { return };
        let draw = self.terminal && is_in_foreground();
        if !draw && (self.said || self.drawn) {
            return;
        }
        let holder = news.holder.as_deref().map_or_else(|| "another".to_owned(), plain);
        let left = news.free_after.map_or_else(String::new, |left| {
            format!(", {} left", duration(left.saturating_sub(told.elapsed())))
        });
        let place = match (news.ahead, news.waiters) {
            (_, 0) => String::new(),
            (ahead, waiters) => format!("number {} of {waiters} in line, ", ahead + 1),
        };
        let line = format!("tenure: waiting for {}: {place}held by {holder}{left}", self.name);
        if draw {
            let line = format!("{line}; {} so far", duration(self.begun.elapsed()));
            let line: String = line.chars().take(width().saturating_sub(1)).collect();
            // Some characters are two columns wide: the terminal is told not to wrap.
            write(format!("\r\x1b[2K\x1b[?7l{line}\x1b[?7h").as_bytes());
            self.drawn = true;
        } else {
            write(format!("{line}\n").as_bytes());
            self.said = true;
        }
    }
}

/// Whether the terminal is ours at the moment.
fn is_in_foreground() -> bool {
    nix::unistd::tcgetpgrp(std::io::stderr()) == Ok(nix::unistd::getpgrp())
}

/// How many columns there are; a line that wraps could not be taken away.
fn width() -> usize {
    terminal_size::terminal_size_of(std::io::stderr()).map_or(80, |(width, _)| usize::from(width.0))
}

fn write(bytes: &[u8]) {
    let mut stderr = std::io::stderr();
    let _ = stderr.write_all(bytes).and_then(|()| stderr.flush());
}
