//! Starts processes that do not outlive this one.
//!
//! The kernel can kill a child when its parent goes, but means the *thread* that started it. So one
//! thread starts them all, and lives as long as the process does. `setpriv`, which every Debian
//! has, asks the kernel for it.

use std::ffi::OsStr;
use std::io;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};

type Order = (Command, Sender<io::Result<Child>>);

/// A command that dies with this process, if [`spawn`] starts it.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command.stdin(Stdio::null());
    command
}

/// Starts it.
///
/// # Errors
/// If it cannot be started.
pub fn spawn(command: Command) -> io::Result<Child> {
    static NURSERY: OnceLock<Sender<Order>> = OnceLock::new();
    let nursery = NURSERY.get_or_init(|| {
        let (orders, inbox) = channel::<Order>();
        std::thread::spawn(move || {
            for (mut command, reply) in inbox {
                let _ = reply.send(command.spawn());
            }
        });
        orders
    });
    let (reply, answer) = channel();
    nursery.send((command, reply)).expect("the nursery lives as long as the process");
    answer.recv().expect("the nursery answers")
}
