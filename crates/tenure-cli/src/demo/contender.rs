//! A contender: a process of its own that takes its turn at the lock, again and again.
//!
//! It reports what it does in lines on its standard output, timed by the clock that all processes
//! of this machine share. Its input tells it to hold the lock for a whole term; when its input
//! ends, so does the contender.

use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tenure::{AcquireError, Renewal};
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::sleep;

use super::process;
use super::setup::{LOCK, Setup, TTL};
use crate::exit_code::Exit;
use crate::machine_clock;
use crate::output::demo_report;

const CONTEND: &str = "__demo-contend";

/// How long a turn takes: long enough to be seen.
const TURN: Duration = Duration::from_millis(1_500);
/// How much of its term the longest turn leaves.
const SPARE: Duration = Duration::from_millis(300);
/// How long it waits in line at a time. Asking again is how it notices what nodes have forgotten.
const WAIT: Duration = Duration::from_secs(1);
/// Between two turns, and between attempts while no majority votes.
const REST: Duration = Duration::from_millis(200);

/// What a contender says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    Acquired {
        fence: u64,
        at_us: u64,
        until_us: u64,
        long: bool,
    },
    /// It was done in time.
    Released {
        fence: u64,
        at_us: u64,
    },
    /// It was done when its lease was over.
    Late {
        fence: u64,
        at_us: u64,
    },
    /// No majority of nodes voted.
    Unavailable,
    /// It is gone.
    Ended,
}

impl Said {
    fn line(&self) -> String {
        match self {
            Self::Acquired { fence, at_us, until_us, long } => {
                format!("acquired {fence} {at_us} {until_us} {long}")
            }
            Self::Released { fence, at_us } => format!("released {fence} {at_us}"),
            Self::Late { fence, at_us } => format!("late {fence} {at_us}"),
            Self::Unavailable => "unavailable".to_owned(),
            Self::Ended => "ended".to_owned(),
        }
    }

    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let word = words.next()?;
        let mut number = || words.next()?.parse().ok();
        Some(match word {
            "acquired" => Self::Acquired {
                fence: number()?,
                at_us: number()?,
                until_us: number()?,
                long: line.ends_with("true"),
            },
            "released" => Self::Released { fence: number()?, at_us: number()? },
            "late" => Self::Late { fence: number()?, at_us: number()? },
            "unavailable" => Self::Unavailable,
            _ => return None,
        })
    }
}

/// Now, by the clock that all processes of this machine share.
pub(super) fn now_us() -> u64 {
    u64::try_from(machine_clock::now().as_micros()).unwrap_or(u64::MAX)
}

/// How to start one.
pub(super) fn command(who: &str, setup: &Setup) -> io::Result<Command> {
    let parent = std::process::id().to_string();
    let guard = if setup.guard { "on" } else { "off" };
    let nodes = setup.nodes.join(",");
    let words: [&OsStr; 6] = [
        CONTEND.as_ref(),
        parent.as_ref(),
        who.as_ref(),
        guard.as_ref(),
        setup.known_nodes.as_os_str(),
        nodes.as_ref(),
    ];
    let mut command = process::part(&words)?;
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    Ok(command)
}

/// Passes on what it says, until it ends.
pub(super) fn listen(child: &mut Child, index: usize, round: u64, news: UnboundedSender<(usize, u64, Said)>) {
    let Some(stdout) = child.stdout.take() else { return };
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if let Some(said) = Said::parse(&line) {
                let _ = news.send((index, round, said));
            }
        }
        let _ = news.send((index, round, Said::Ended));
    });
}

/// Becomes a contender, if these arguments ask for it.
pub(super) fn become_contender(arguments: &[OsString]) -> Option<Exit> {
    let [contend, parent, who, guard, known_nodes, nodes] = arguments else { return None };
    if contend != CONTEND || !process::tie(&parent.to_string_lossy()) {
        return (contend == CONTEND).then_some(Exit::INTERNAL);
    }
    let setup = Setup {
        nodes: nodes.to_string_lossy().split(',').map(str::to_owned).collect(),
        guard: guard == "on",
        known_nodes: known_nodes.into(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let Ok(runtime) = runtime else { return Some(Exit::INTERNAL) };
    runtime.block_on(contend_for(&who.to_string_lossy(), &setup));
    Some(Exit::INTERNAL)
}

/// Takes turns. Comes back only if there can be no locks at all, or nobody listens.
async fn contend_for(who: &str, setup: &Setup) {
    let Ok(locks) = setup.locks() else { return };
    let long = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&long);
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            told.store(line == "long", Ordering::Relaxed);
        }
        // The demo is gone. What we hold expires.
        std::process::exit(0);
    });
    let lock = locks.lock(LOCK).ttl(TTL).renewal(Renewal::Off).label(who).wait(WAIT);
    loop {
        match lock.acquire().await {
            Ok(guard) => {
                let (fence, at_us, valid) = (guard.fence().get(), now_us(), guard.valid_for());
                let until_us = at_us + u64::try_from(valid.as_micros()).unwrap_or(0);
                let long = long.load(Ordering::Relaxed);
                if !say(&Said::Acquired { fence, at_us, until_us, long }) {
                    return;
                }
                sleep(if long { valid.saturating_sub(SPARE) } else { TURN }).await;
                let (at_us, in_time) = (now_us(), guard.is_valid());
                let done =
                    if in_time { Said::Released { fence, at_us } } else { Said::Late { fence, at_us } };
                if !say(&done) {
                    return;
                }
                let _ = guard.release().await;
            }
            Err(AcquireError::Contended { .. }) => continue,
            Err(_) => {
                if !say(&Said::Unavailable) {
                    return;
                }
            }
        }
        sleep(REST).await;
    }
}

/// `false` if nobody listens any more.
fn say(said: &Said) -> bool {
    demo_report(&said.line()).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_contender_says_is_understood() {
        for said in [
            Said::Acquired { fence: 7, at_us: 1, until_us: 9, long: true },
            Said::Acquired { fence: 7, at_us: 1, until_us: 9, long: false },
            Said::Released { fence: 7, at_us: 5 },
            Said::Late { fence: 7, at_us: 12 },
            Said::Unavailable,
        ] {
            assert_eq!(Said::parse(&said.line()), Some(said));
        }
        assert_eq!(Said::parse("acquired 7"), None);
    }
}
