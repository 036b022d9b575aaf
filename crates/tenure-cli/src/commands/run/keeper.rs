//! A second process of ours that outlives us: the keeper.
//!
//! It ends what is left of the command when we are killed: the kernel's signal to the command does not reach the others
//! of its group. And it keeps the lock while a person has stopped us.

use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use super::child::own_program;
use crate::exit_code::Exit;

/// What we call ourselves with to keep.
pub(super) const KEEP: &str = "__keep";

/// What we say when all is over in good order.
const GOODBYE: u8 = b'.';

/// Our end of the line to the keeper.
#[derive(Debug)]
pub(super) struct Keeper {
    line: UnixStream,
}

impl Keeper {
    /// Starts it for this process group.
    pub(super) fn start(group: Pid) -> io::Result<Self> {
        let (line, theirs) = UnixStream::pair()?;
        let mut keeper = Command::new(own_program()?);
        keeper.arg0("tenure").args([KEEP, &group.to_string()]).process_group(0).current_dir("/");
        keeper.stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::null()).stderr(Stdio::null());
        keeper.spawn()?;
        Ok(Self { line })
    }

    /// Lets it go: nothing is left to look after.
    pub(super) fn dismiss(mut self) {
        let _ = self.line.write_all(&[GOODBYE]);
    }
}

/// What the keeper does: if the line ends without a goodbye, whoever had the other end was killed.
pub(super) fn keep(group: &str) -> Exit {
    let mut said = [0];
    let goodbye = io::stdin().read_exact(&mut said).is_ok() && said == [GOODBYE];
    if let (false, Ok(group @ 2..)) = (goodbye, group.parse()) {
        let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
    }
    Exit::DONE
}
