//! One line of a terminal that is written anew while something is under way. In the background, the
//! line of the terminal belongs to whoever is in the foreground.

use std::io::Write;

/// The line. It is taken away by [`StatusLine::clear`].
#[derive(Debug, Default)]
pub(super) struct StatusLine {
    drawn: bool,
}

impl StatusLine {
    pub(super) fn is_drawn(&self) -> bool {
        self.drawn
    }

    /// Shows this in place of what was there.
    pub(super) fn draw(&mut self, line: &str) {
        // Some characters are two columns wide: the terminal is told not to wrap.
        write(format!("\r\x1b[2K\x1b[?7l{line}\x1b[?7h").as_bytes());
        self.drawn = true;
    }

    pub(super) fn clear(&mut self) {
        if std::mem::take(&mut self.drawn) && is_in_foreground() {
            write(b"\r\x1b[2K");
        }
    }
}

/// Whether the terminal is ours at the moment.
pub(super) fn is_in_foreground() -> bool {
    nix::unistd::tcgetpgrp(std::io::stderr()) == Ok(nix::unistd::getpgrp())
}

/// How many columns there are; a line that wraps could not be taken away.
pub(super) fn width() -> usize {
    terminal_size::terminal_size_of(std::io::stderr()).map_or(80, |(width, _)| usize::from(width.0))
}

pub(super) fn write(bytes: &[u8]) {
    let mut stderr = std::io::stderr();
    let _ = stderr.write_all(bytes).and_then(|()| stderr.flush());
}
