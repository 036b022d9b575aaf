//! A shell that keeps its variables and background jobs from one command to the next, as a
//! terminal does.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use crate::deployment::TOOL;

/// How long a command may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Reads commands that end with a zero byte, and ends what each of them prints with its exit code
/// between two. After a command in the background it pauses, as people do: what that prints
/// meanwhile is its output. If whoever started the shell is gone, so are all that it started.
const LOOP: &str = r#"
exec 2>&1 3<&0 </dev/null
( while kill -0 "$1"; do sleep 0.5; done; kill -KILL -- -$$ ) >/dev/null 2>&1 3<&- &
disown
while IFS= read -r -d '' _command <&3; do
    eval "$_command" 3<&-
    _code=$?
    [[ $_command != *\& ]] || sleep 1.5
    printf '\0%d\0' $_code
done
"#;

/// A shell in a process group of its own, which ends with it.
pub(super) struct Shell {
    process: Child,
    commands: ChildStdin,
    output: Receiver<Vec<u8>>,
}

impl Shell {
    pub(super) fn start(home: &Path) -> Self {
        let mut command = Command::new("bash");
        command.args(["--norc", "-c", LOOP, "page"]).arg(std::process::id().to_string());
        command.current_dir(home).env_clear().env("HOME", home);
        let tools = Path::new(TOOL).parent().unwrap();
        command.env("PATH", format!("{}:{}", tools.display(), std::env::var("PATH").unwrap()));
        command.env("LANG", "C.UTF-8").env("TZ", "UTC").env("USER", "ann");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let mut process = command.spawn().unwrap();
        let commands = process.stdin.take().unwrap();
        let output = parts(process.stdout.take().unwrap());
        Self { process, commands, output }
    }

    /// Executes a command: what it prints, and its exit code.
    pub(super) fn execute(&mut self, command: &str) -> (String, i32) {
        self.commands.write_all(command.as_bytes()).unwrap();
        self.commands.write_all(b"\0").unwrap();
        self.commands.flush().unwrap();
        let next = || {
            let part = self.output.recv_timeout(PATIENCE);
            String::from_utf8(part.unwrap_or_else(|error| panic!("{command}: {error}"))).unwrap()
        };
        let printed = next();
        (printed, next().parse().unwrap())
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let group = nix::unistd::Pid::from_raw(i32::try_from(self.process.id()).unwrap());
        let _ = nix::sys::signal::killpg(group, nix::sys::signal::Signal::SIGKILL);
        let _ = self.process.wait();
    }
}

/// What comes, in parts that end with a zero byte.
fn parts(output: ChildStdout) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut output = BufReader::new(output);
        let mut part = vec![];
        while output.read_until(0, &mut part).is_ok_and(|read| read > 0) {
            part.pop_if(|last| *last == 0);
            if sender.send(std::mem::take(&mut part)).is_err() {
                return;
            }
        }
    });
    receiver
}
