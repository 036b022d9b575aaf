//! The exit codes that scripts rely on. Those above 63 are the ones of `sysexits.h` where it has
//! one.

use std::process::ExitCode;

use nix::sys::signal::Signal;

use crate::settings::Settings;

/// How the tool ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exit {
    code: u8,
    /// By the signal of the interrupt key, and not by a code that says the same.
    interrupted: bool,
}

impl Exit {
    /// Done.
    pub(crate) const DONE: Self = Self::code(0);
    /// `extend`, `release`: not held by this token. `doctor`: danger found.
    pub(crate) const NO: Self = Self::code(1);
    /// Wrong usage or configuration.
    pub(crate) const USAGE: Self = Self::code(64);
    /// No majority of nodes could be reached.
    pub(crate) const UNAVAILABLE: Self = Self::code(69);
    /// A mistake of the tool's, or of the system's.
    pub(crate) const INTERNAL: Self = Self::code(70);
    /// The embedded store cannot be read or written.
    pub(crate) const STORE: Self = Self::code(74);
    /// Held by another within the wait, unless `-E` says otherwise.
    pub(crate) const HELD: Self = Self::code(75);
    /// The lock was lost while the command ran; it was stopped.
    pub(crate) const LOST: Self = Self::code(79);
    /// The command is there but cannot be executed.
    pub(crate) const NOT_EXECUTABLE: Self = Self::code(126);
    /// There is no such command.
    pub(crate) const NOT_FOUND: Self = Self::code(127);

    /// The command's own, or the one of `-E`.
    pub(crate) const fn code(code: u8) -> Self {
        Self { code, interrupted: false }
    }

    /// The number itself.
    pub(crate) const fn number(self) -> u8 {
        self.code
    }

    /// Whether the signal of the interrupt key ended it.
    pub(crate) const fn is_interrupted(self) -> bool {
        self.interrupted
    }

    /// Ended by a signal, as shells say it.
    pub(crate) fn signal(signal: i32) -> Self {
        let code = u8::try_from(128 + signal).unwrap_or(u8::MAX);
        Self { code, interrupted: signal == Signal::SIGINT as i32 }
    }

    /// No majority answered: of nodes elsewhere, or of the one that is a file; or so many nodes are
    /// misconfigured that none can.
    pub(crate) fn without_majority(settings: &Settings, misconfigured: impl Iterator<Item = bool>) -> Self {
        let nodes: Vec<bool> = misconfigured.collect();
        let able = nodes.iter().filter(|misconfigured| !**misconfigured).count();
        if settings.service().is_some() {
            // Its nodes are its operator's matter.
            Self::UNAVAILABLE
        } else if settings.is_embedded() {
            Self::STORE
        } else if able * 2 <= nodes.len() {
            Self::USAGE
        } else {
            Self::UNAVAILABLE
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code)
    }
}
