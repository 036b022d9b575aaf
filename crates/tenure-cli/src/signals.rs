//! The signals that reach us, one after the other.

use std::future::poll_fn;
use std::task::Poll;

pub(crate) use nix::sys::signal::Signal;
use tokio::signal::unix::{self, SignalKind};

use crate::failure::Failure;

/// Those that are forwarded to the command.
const FORWARDED: [Signal; 8] = [
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGTSTP,
    Signal::SIGCONT,
];

/// Listens from when it is made; nothing is missed afterwards.
#[derive(Debug)]
pub(crate) struct Signals(Vec<(Signal, unix::Signal)>);

impl Signals {
    pub(crate) fn install() -> Result<Self, Failure> {
        let ignored = ignored();
        let listen = |signal: Signal| {
            let listener = unix::signal(SignalKind::from_raw(signal as i32));
            listener.map(|listener| (signal, listener))
        };
        let signals: Result<_, std::io::Error> = FORWARDED
            .into_iter()
            .filter(|signal| !ignored(*signal))
            .chain([Signal::SIGCHLD])
            .map(listen)
            .collect();
        let cannot = |error| Failure::internal(format!("cannot listen for signals: {error}"));
        Ok(Self(signals.map_err(cannot)?))
    }

    /// The next one. It may be dropped and called again at any time.
    pub(crate) async fn next(&mut self) -> Signal {
        poll_fn(|cx| {
            for (signal, listener) in &mut self.0 {
                if listener.poll_recv(cx).is_ready() {
                    return Poll::Ready(*signal);
                }
            }
            Poll::Pending
        })
        .await
    }
}

/// Which signals whoever started us wants to be ignored, as `nohup` does and shells do for what
/// runs in the background. They stay ignored, by us and by the command.
fn ignored() -> impl Fn(Signal) -> bool {
    // Nothing but the kernel tells this without `unsafe`. Where it does not, there is nothing to
    // respect.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    move |signal| mask >> (signal as i32 - 1) & 1 == 1
}

/// Ends this process by the signal of the interrupt key. A shell that runs a script or a loop goes
/// on after a program that only says by its exit code that it was interrupted.
pub(crate) fn die_of_the_key() {
    // If it cannot be done, the exit code says it.
    let _ = signal_hook::low_level::emulate_default_handler(Signal::SIGINT as i32);
}

/// Whether it ends a wait.
pub(crate) const fn ends_wait(signal: Signal) -> bool {
    matches!(signal, Signal::SIGINT | Signal::SIGTERM | Signal::SIGHUP | Signal::SIGQUIT)
}
