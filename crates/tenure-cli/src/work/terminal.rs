//! The terminal, and which process group is in its foreground.
//!
//! The command has a process group of its own. To read the terminal, and to get the keys that stop
//! and interrupt, that group must be in the foreground. It takes the foreground itself before it
//! begins; we take it back when it stops or ends.

use std::fs::File;
use std::io::IsTerminal;

use nix::sys::signal::{SigSet, Signal};
use nix::unistd::{Pid, getpgrp, tcgetpgrp, tcsetpgrp};

/// The terminal that we were started from, if any.
#[derive(Debug)]
pub(crate) struct Terminal {
    device: Option<File>,
    /// We have given the foreground away and have to take it back.
    given: bool,
}

impl Terminal {
    pub(crate) fn open() -> Self {
        let device = File::options().read(true).write(true).open("/dev/tty").ok();
        Self { device, given: false }
    }

    /// Whether there is one.
    pub(crate) const fn exists(&self) -> bool {
        self.device.is_some()
    }

    /// Whether the command is to have the foreground from the beginning: we have it, and a person
    /// reads and types. In a pipeline others of our group may need it; there the command gets it
    /// when it first asks.
    pub(crate) fn is_wanted(&mut self) -> bool {
        self.given = self.is_ours() && std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
        self.given
    }

    /// Whether our group is in the foreground.
    pub(crate) fn is_ours(&self) -> bool {
        self.device.as_ref().is_some_and(|device| tcgetpgrp(device) == Ok(getpgrp()))
    }

    /// Puts this group in the foreground, if we are there.
    pub(crate) fn give(&mut self, group: Pid) -> bool {
        self.given = self.is_ours() && self.set(group);
        self.given
    }

    /// Comes to the foreground again.
    pub(crate) fn take_back(&mut self) {
        if std::mem::take(&mut self.given) {
            self.set(getpgrp());
        }
    }

    /// Takes the foreground for our own group, from the background.
    pub(crate) fn grab(&self) {
        self.set(getpgrp());
    }

    /// Who is in the background is stopped for this unless it blocks that signal.
    fn set(&self, group: Pid) -> bool {
        let Some(device) = &self.device else { return false };
        let mut blocked = SigSet::empty();
        blocked.add(Signal::SIGTTOU);
        let before = blocked.thread_swap_mask(nix::sys::signal::SigmaskHow::SIG_BLOCK);
        let done = tcsetpgrp(device, group).is_ok();
        if let Ok(before) = before {
            let _ = before.thread_set_mask();
        }
        done
    }
}
