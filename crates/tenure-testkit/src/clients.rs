//! Clients in processes of their own.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use crate::{nursery, proc, signal};

/// A process that ends when this is dropped.
#[derive(Debug)]
pub struct Client {
    process: Child,
    /// What it says, if it is listened to.
    words: Option<BufReader<ChildStdout>>,
}

impl Client {
    /// Starts a program with these arguments.
    #[must_use]
    pub fn start<'a>(program: &str, arguments: impl IntoIterator<Item = &'a str>) -> Self {
        let mut command = nursery::command(program);
        command.args(arguments).stdout(Stdio::inherit()).stderr(Stdio::inherit());
        Self::of(command)
    }

    /// Starts a program with these arguments, to talk to it line by line.
    #[must_use]
    pub fn start_talking<'a>(program: &str, arguments: impl IntoIterator<Item = &'a str>) -> Self {
        let mut command = nursery::command(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        Self::of(command)
    }

    /// Says one line to it.
    pub fn say(&mut self, line: &str) {
        writeln!(self.process.stdin.as_ref().expect("it was started to talk to"), "{line}").unwrap();
    }

    /// Waits for the next line that it says.
    pub fn hear(&mut self) -> String {
        let mut line = String::new();
        self.words.as_mut().expect("it was started to talk to").read_line(&mut line).unwrap();
        assert!(line.ends_with('\n'), "it ended in the middle of {line:?}");
        line.trim_end().to_owned()
    }

    /// Hears everything that it says until it ends, line by line, in a thread of its own.
    pub fn hear_all(&mut self, mut listen: impl FnMut(String) + Send + 'static) {
        let words = self.words.take().expect("it was started to talk to");
        std::thread::spawn(move || words.lines().map_while(Result::ok).for_each(&mut listen));
    }

    /// Starts this, made by [`nursery::command`], and listens to it if its output is piped.
    #[must_use]
    pub fn of(command: Command) -> Self {
        let mut process = nursery::spawn(command).unwrap();
        let words = process.stdout.take().map(BufReader::new);
        Self { process, words }
    }

    /// Starts a program with these arguments and variables of the environment. Of what it prints
    /// only errors are shown.
    #[must_use]
    pub fn start_quiet<'a>(
        program: &str,
        arguments: impl IntoIterator<Item = &'a str>,
        environment: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Self {
        let mut command = nursery::command(program);
        command.args(arguments).envs(environment).stdout(Stdio::null()).stderr(Stdio::inherit());
        Self::of(command)
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// For how long it has used a processor.
    #[must_use]
    pub fn cpu_time(&self) -> Duration {
        proc::cpu_time(self.pid())
    }

    /// The memory that it has, in KiB.
    #[must_use]
    pub fn memory_kib(&self) -> u64 {
        proc::memory_kib(self.pid())
    }

    /// Halts it with SIGSTOP; it stands still when this comes back.
    pub fn pause(&self) {
        signal::pause(self.pid());
    }

    /// Lets it go on with SIGCONT.
    pub fn resume(&self) {
        signal::resume(self.pid());
    }

    /// Asks it to end with SIGTERM.
    pub fn terminate(&self) {
        signal::terminate(self.pid());
    }

    /// Ends it with SIGKILL and waits until it is gone.
    pub fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        self.process.try_wait().unwrap().is_some()
    }

    /// Waits for its end: whether it was a success.
    pub fn succeeds(&mut self) -> bool {
        self.process.wait().unwrap().success()
    }

    /// Waits for its end: whether it came in this time and was a success.
    pub fn succeeds_within(&mut self, limit: Duration) -> bool {
        let start = Instant::now();
        while start.elapsed() < limit {
            if let Some(status) = self.process.try_wait().unwrap() {
                return status.success();
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        false
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.kill();
    }
}
