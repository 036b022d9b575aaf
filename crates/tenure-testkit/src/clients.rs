//! Clients in processes of their own.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::{nursery, signal};

/// A process that ends when this is dropped.
#[derive(Debug)]
pub struct Client(Child);

impl Client {
    /// Starts a program with these arguments.
    #[must_use]
    pub fn start<'a>(program: &str, arguments: impl IntoIterator<Item = &'a str>) -> Self {
        let mut command = nursery::command(program);
        command.args(arguments).stdout(Stdio::inherit()).stderr(Stdio::inherit());
        Self(nursery::spawn(command).unwrap())
    }

    /// Starts a program with these arguments and variables of the environment. Of what it prints only errors are shown.
    #[must_use]
    pub fn start_quiet<'a>(
        program: &str,
        arguments: impl IntoIterator<Item = &'a str>,
        environment: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Self {
        let mut command = nursery::command(program);
        command.args(arguments).envs(environment).stdout(Stdio::null()).stderr(Stdio::inherit());
        Self(nursery::spawn(command).unwrap())
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Halts it with SIGSTOP; it stands still when this comes back.
    pub fn pause(&self) {
        signal::pause(self.pid());
    }

    /// Lets it go on with SIGCONT.
    pub fn resume(&self) {
        signal::resume(self.pid());
    }

    /// Ends it with SIGKILL and waits until it is gone.
    pub fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }

    /// Waits for its end: whether it was a success.
    pub fn succeeds(&mut self) -> bool {
        self.0.wait().unwrap().success()
    }

    /// Waits for its end: whether it came in this time and was a success.
    pub fn succeeds_within(&mut self, limit: Duration) -> bool {
        let start = Instant::now();
        while start.elapsed() < limit {
            if let Some(status) = self.0.try_wait().unwrap() {
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
