//! Clients in processes of their own.

use std::process::{Child, Stdio};

use crate::nursery;

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

    /// Waits for its end: whether it was a success.
    pub fn succeeds(&mut self) -> bool {
        self.0.wait().unwrap().success()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
