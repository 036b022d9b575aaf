//! Processes that end with the demo, also when the demo is killed.
//!
//! On Linux the kernel kills them: each asks for that before it starts its real work. The kernel
//! watches the *thread* that started them, so only the main thread starts any. A sweeper process
//! sees by the end of a pipe that the demo is gone, and removes the folder. Where the kernel does
//! not help, it also kills what is left.

use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::exit_code::Exit;
use crate::work::own_program;

/// What the tool calls itself with to start a server, and to sweep up.
const TIED: &str = "__demo-tied";
const SWEEP: &str = "__demo-sweep";

/// A folder that is still written to is removed again so often.
const SWEEPS_MAX: u32 = 100;
const SWEEP_PAUSE: Duration = Duration::from_millis(20);

/// This tool itself, as a part of the demo that gets these arguments.
pub(super) fn part(arguments: &[&OsStr]) -> io::Result<Command> {
    let mut command = Command::new(own_program()?);
    command.arg0("tenure").args(arguments).process_group(0);
    for (name, _) in std::env::vars_os() {
        // What is set for other uses of the tool is not for the demo.
        if name.to_string_lossy().starts_with("TENURE_") {
            command.env_remove(name);
        }
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Ok(command)
}

/// Another program, tied to this process.
pub(super) fn tied(program: &OsStr) -> io::Result<Command> {
    let parent = OsString::from(std::process::id().to_string());
    part(&[TIED.as_ref(), &parent, program])
}

/// Asks the kernel to kill this process when its parent ends. `false` if that is gone already.
pub(super) fn tie(parent: &str) -> bool {
    #[cfg(target_os = "linux")]
    {
        let _ = nix::sys::prctl::set_pdeathsig(Signal::SIGKILL);
    }
    // The parent may have ended before the kernel knew that we mind.
    nix::unistd::getppid().to_string() == parent
}

pub(super) fn signal(child: &Child, signal: Signal) {
    // It is not reaped yet, so the number is still its own.
    if let Ok(pid) = i32::try_from(child.id()) {
        let _ = kill(Pid::from_raw(pid), signal);
    }
}

/// Becomes a part of the demo, if these arguments ask for it.
pub(super) fn become_part(arguments: &[OsString]) -> Option<Exit> {
    match arguments {
        [tied, parent, program, arguments @ ..] if tied == TIED => {
            if tie(&parent.to_string_lossy()) {
                let _ = Command::new(program).args(arguments).exec();
            }
            Some(Exit::NOT_EXECUTABLE)
        }
        [sweep, folder] if sweep == SWEEP => {
            sweep_up(Path::new(folder));
            Some(Exit::DONE)
        }
        _ => None,
    }
}

/// A folder of the demo's own, and whoever removes it.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    sweeper: Child,
}

impl Folder {
    pub(super) fn make() -> io::Result<Self> {
        use std::os::unix::fs::DirBuilderExt;
        let name = |number: u32| format!("tenure-demo-{}-{number}", std::process::id());
        let make = |number| {
            let path = std::env::temp_dir().join(name(number));
            std::fs::DirBuilder::new().mode(0o700).create(&path).map(|()| path)
        };
        // One that is there belongs to somebody else.
        let path = (0..9).map(make).find(Result::is_ok).unwrap_or_else(|| make(9))?;
        let mut sweeper = part(&[SWEEP.as_ref(), path.as_os_str()])?;
        let sweeper = sweeper.stdin(Stdio::piped()).spawn().inspect_err(|_| {
            let _ = std::fs::remove_dir(&path);
        })?;
        Ok(Self { path, sweeper })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Starts a process, and sees to it that it does not outlive the demo.
    pub(super) fn start(&mut self, mut command: Command) -> io::Result<Child> {
        let child = command.spawn()?;
        self.tell(&format!("+{}", child.id()));
        Ok(child)
    }

    /// Kills a process, and waits until it is gone.
    pub(super) fn end(&mut self, mut child: Child) {
        let _ = child.kill();
        let _ = child.wait();
        self.tell(&format!("-{}", child.id()));
    }

    fn tell(&mut self, line: &str) {
        // Without a sweeper the kernel's word has to do.
        let _ = self.sweeper.stdin.as_mut().map(|pipe| writeln!(pipe, "{line}"));
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(self.sweeper.stdin.take());
        let _ = self.sweeper.wait();
    }
}

/// Waits until the demo is gone, then removes what it left.
fn sweep_up(folder: &Path) {
    let mut left: Vec<i32> = vec![];
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        let Some(pid) = line.get(1..).and_then(|pid| pid.parse().ok()) else { continue };
        left.retain(|known| *known != pid);
        if line.starts_with('+') {
            left.push(pid);
        }
    }
    if !cfg!(target_os = "linux") {
        for pid in left {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
    }
    for _ in 0..SWEEPS_MAX {
        let _ = std::fs::remove_dir_all(folder);
        if !folder.exists() {
            return;
        }
        std::thread::sleep(SWEEP_PAUSE);
    }
}
