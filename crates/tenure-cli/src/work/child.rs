//! The command's process and its group.
//!
//! We start ourselves once more, as `__start`, and that becomes the command: between the two it
//! asks the kernel to be killed when we are gone (Linux), stops until its keeper is there, and
//! takes the terminal's foreground, so that there is no moment without any of them. All need code
//! that runs in the new process before the command does, which is not possible without `unsafe` in
//! any other way.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use rustix::process::{WaitOptions, wait, waitpid};

use super::environment::Environment;
use super::terminal::Terminal;
use crate::exit_code::Exit;
use crate::failure::Failure;

/// What we call ourselves with to become the command, and how to say that it takes the terminal's
/// foreground.
pub(super) const START: &str = "__start";
const FOREGROUND: &str = "foreground";

/// The command while it runs, with everything in its process group.
#[derive(Debug)]
pub(crate) struct Child {
    leader: Pid,
    /// How the command itself ended, if it has.
    ended: Option<Exit>,
}

/// What became of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Stopped(Signal),
    Ended,
}

impl Child {
    /// Prepares everything; [`Child::begin`] lets the command itself begin.
    pub(super) fn prepare(
        command: &[OsString],
        environment: &Environment,
        foreground: bool,
    ) -> io::Result<Self> {
        // What our command leaves behind comes to us, so that we see when it is gone.
        #[cfg(target_os = "linux")]
        let _ = nix::sys::prctl::set_child_subreaper(true);
        let mut starter = Command::new(own_program()?);
        starter.arg0("tenure").arg(START).arg(std::process::id().to_string());
        starter.arg(if foreground { FOREGROUND } else { "-" }).args(command).process_group(0);
        for (name, value) in environment {
            match value {
                Some(value) => starter.env(name, value),
                None => starter.env_remove(name),
            };
        }
        let leader = i32::try_from(starter.spawn()?.id()).map_err(io::Error::other)?;
        let status = loop {
            match waitpid(rustix::process::Pid::from_raw(leader), WaitOptions::UNTRACED) {
                Ok(Some((_, status))) => break status,
                Ok(None) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        };
        if !status.stopped() {
            return Err(io::Error::other("it exited before it started"));
        }
        Ok(Self { leader: Pid::from_raw(leader), ended: None })
    }

    /// Everybody who watches over it is there.
    pub(super) fn begin(&self) {
        self.signal(Signal::SIGCONT);
    }

    pub(super) const fn group(&self) -> Pid {
        self.leader
    }

    /// How the command ended, if it has. Others of its group may still be there.
    pub(super) const fn ended(&self) -> Option<Exit> {
        self.ended
    }

    /// Whether nobody of the group is left.
    pub(super) fn is_gone(&self) -> bool {
        self.ended.is_some() && killpg(self.leader, None) == Err(Errno::ESRCH)
    }

    /// Sends a signal to everybody in the group.
    pub(super) fn signal(&self, signal: Signal) {
        // Nobody there to get it is fine.
        let _ = killpg(self.leader, signal);
    }

    /// Asks everybody in the group to end, also those that are stopped.
    pub(super) fn terminate(&self) {
        self.signal(Signal::SIGTERM);
        self.signal(Signal::SIGCONT);
    }

    /// What has become of the command since we last looked. Takes in whoever has ended: also those
    /// that left the group, because they come to us and not to the system's reaper. `others` hears
    /// of everybody else.
    pub(super) fn look(&mut self, mut others: impl FnMut(Pid, Change)) -> Option<Change> {
        let mut command = None;
        // As raw numbers: `nix` knows no real-time signals, and would swallow the news of an end by
        // one.
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG | WaitOptions::UNTRACED) {
            let stopped = status.stopping_signal();
            let change = stopped.map_or(Change::Ended, |signal| {
                Change::Stopped(Signal::try_from(signal).unwrap_or(Signal::SIGSTOP))
            });
            let process = Pid::from_raw(pid.as_raw_nonzero().get());
            if process != self.leader {
                others(process, change);
                continue;
            }
            if change == Change::Ended {
                let code =
                    status.exit_status().map(|code| Exit::code(u8::try_from(code & 0xff).unwrap_or(u8::MAX)));
                self.ended = code.or_else(|| status.terminating_signal().map(Exit::signal));
            }
            command = Some(change);
        }
        command
    }
}

/// Becomes the command. Comes back only if that fails.
pub(super) fn become_command(parent: &OsStr, foreground: &OsStr, command: &[OsString]) -> Failure {
    #[cfg(target_os = "linux")]
    {
        let _ = nix::sys::prctl::set_pdeathsig(Signal::SIGKILL);
    }
    // It may have been killed before the kernel knew that we mind.
    if nix::unistd::getppid().to_string() != parent.to_string_lossy() {
        return Failure::internal("not started: the process that holds the lock is gone");
    }
    let _ = nix::sys::signal::raise(Signal::SIGSTOP);
    if foreground == FOREGROUND {
        Terminal::open().grab();
    }
    let Some((program, arguments)) = command.split_first() else {
        return Failure::internal("not started: no command");
    };
    let error = Command::new(program).args(arguments).exec();
    let program = crate::output::plain(&program.to_string_lossy());
    let (exit, word, what) = match error.kind() {
        io::ErrorKind::NotFound => (Exit::NOT_FOUND, "not_found", "command not found"),
        io::ErrorKind::PermissionDenied => (Exit::NOT_EXECUTABLE, "not_executable", "not executable"),
        _ => (Exit::NOT_EXECUTABLE, "not_executable", "cannot be executed"),
    };
    Failure::new(exit, word, format!("{program}: {what} ({error})"))
}

/// Our own program, also after its file was replaced by a newer one.
pub(crate) fn own_program() -> io::Result<std::path::PathBuf> {
    let running = std::path::Path::new("/proc/self/exe");
    if cfg!(target_os = "linux") && running.exists() {
        Ok(running.to_owned())
    } else {
        std::env::current_exe()
    }
}
