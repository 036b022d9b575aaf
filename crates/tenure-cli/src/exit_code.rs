//! The exit codes that scripts rely on. Those above 63 are the ones of `sysexits.h` where it has one.

use std::process::ExitCode;

/// How the tool ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exit(u8);

impl Exit {
    /// Done.
    pub(crate) const DONE: Self = Self(0);
    /// `extend`, `release`: not held by this token. `doctor`: danger found.
    pub(crate) const NO: Self = Self(1);
    /// Wrong usage or configuration.
    pub(crate) const USAGE: Self = Self(64);
    /// No majority of nodes could be reached.
    pub(crate) const UNAVAILABLE: Self = Self(69);
    /// A mistake of the tool's, or of the system's.
    pub(crate) const INTERNAL: Self = Self(70);
    /// The embedded store cannot be read or written.
    pub(crate) const STORE: Self = Self(74);
    /// Held by another within the wait, unless `-E` says otherwise.
    pub(crate) const HELD: Self = Self(75);
    /// The lock was lost while the command ran; it was stopped.
    pub(crate) const LOST: Self = Self(79);
    /// The command is there but cannot be executed.
    pub(crate) const NOT_EXECUTABLE: Self = Self(126);
    /// There is no such command.
    pub(crate) const NOT_FOUND: Self = Self(127);

    /// The command's own, or the one of `-E`.
    pub(crate) const fn code(code: u8) -> Self {
        Self(code)
    }

    /// The number itself.
    pub(crate) const fn number(self) -> u8 {
        self.0
    }

    /// Ended by a signal, as shells say it.
    pub(crate) fn signal(signal: i32) -> Self {
        Self(u8::try_from(128 + signal).unwrap_or(u8::MAX))
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.0)
    }
}
