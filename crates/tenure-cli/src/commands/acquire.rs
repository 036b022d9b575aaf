//! `tenure acquire`: a lock for a script, which goes on with it by its token.

use std::time::Duration;

use tenure::{Cause, Event, Fence, Guard, Lock, Locks, Votes};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use crate::args::AcquireArgs;
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::lease_token::LeaseToken;
use crate::output::{Output, WaitingNews};
use crate::settings::Settings;
use crate::signals::{Signal, Signals, ends_wait};

/// How long the last votes are waited for: the longest that a node timeout is by itself, and a little more.
const WIDENING_LIMIT: Duration = Duration::from_millis(60);

/// Settings that leave no majority are waited with for so long: a server is asked about itself again every second.
const MISCONFIGURED_MAX: Duration = Duration::from_secs(2);

/// How often the waiting display goes on.
const TICK: Duration = Duration::from_millis(200);

/// A lock that a script holds by its token.
#[derive(Debug)]
pub(crate) struct Lease {
    pub(crate) name: String,
    pub(crate) token: LeaseToken,
    pub(crate) fence: Fence,
    pub(crate) ttl: Duration,
    pub(crate) valid_for: Duration,
    pub(crate) valid_until_ms: u64,
    pub(crate) margin: usize,
    pub(crate) votes: Votes,
}

impl Lease {
    /// An extension shortens nothing: what the earlier token promised still stands if that is longer.
    pub(super) fn keep_promise(&mut self, earlier: &LeaseToken) {
        let (promised_for, promised_until_ms) = earlier.promised();
        if promised_until_ms > self.valid_until_ms {
            (self.valid_for, self.valid_until_ms) = (self.valid_for.max(promised_for), promised_until_ms);
            self.token.keep_term(earlier);
        }
    }
}

pub(crate) async fn run(args: &AcquireArgs, settings: &Settings, output: &Output) -> Result<Exit, Failure> {
    let mut signals = Signals::install()?;
    let conflict = Exit::code(args.conflict_exit_code);
    let (locks, guard) = hold(&args.name, "", settings, conflict, &mut signals, output).await?;
    let lease = hand_over(guard, settings.ttl.value).await;
    let written = output.lease(&lease);
    if written.is_err() {
        // Nobody has the token, so nobody could release it.
        let handover = lease.token.handover(&lease.name, lease.ttl);
        let _ = locks.release(&handover).await;
    }
    finish(&locks, output).await;
    written.map(|()| Exit::DONE)
}

/// Acquires the lock, showing whom we wait for, until a signal says otherwise.
pub(crate) async fn hold(
    name: &str,
    note: &str,
    settings: &Settings,
    conflict: Exit,
    signals: &mut Signals,
    output: &Output,
) -> Result<(Locks, Guard), Failure> {
    let (sender, news) = mpsc::unbounded_channel();
    let locks = settings.connect_aloud(output, move |event| {
        let news = match event {
            Event::Waiting { ahead, waiters, holder, free_after, .. } => {
                let holder = holder.map(str::to_owned);
                WaitingNews::InLine { holder, free_after: *free_after, ahead: *ahead, waiters: *waiters }
            }
            Event::Retrying { cause: Cause::Unavailable, votes, .. } => WaitingNews::Outage((*votes).clone()),
            _ => return,
        };
        // Nobody looks any more once the lock is there.
        let _ = sender.send(news);
    })?;
    let lock = locks.lock(name).label(settings.label.value.as_deref().unwrap_or(note));
    match wait_for(name, &lock, conflict, signals, news, output).await {
        Ok(guard) => Ok((locks, guard)),
        Err(failure) => {
            let _ = locks.shutdown().await;
            Err(failure)
        }
    }
}

async fn wait_for(
    name: &str,
    lock: &Lock,
    conflict: Exit,
    signals: &mut Signals,
    mut news: mpsc::UnboundedReceiver<WaitingNews>,
    output: &Output,
) -> Result<Guard, Failure> {
    let mut display = output.waiting(name);
    let (mut acquire, mut misconfigured) = (std::pin::pin!(lock.acquire()), None);
    let outcome = loop {
        tokio::select! {
            outcome = &mut acquire => {
                break outcome.map_err(|error| Failure::acquire(&error, conflict));
            }
            signal = signals.next() => match signal {
                // The key for it was meant for us: nobody else is in the foreground yet.
                Signal::SIGTSTP => {
                    let _ = nix::sys::signal::raise(Signal::SIGSTOP);
                }
                signal if ends_wait(signal) => {
                    let message = format!("interrupted by {signal} while waiting for {name:?}");
                    break Err(Failure::new(Exit::signal(signal as i32), "interrupted", message).of_lock(name));
                }
                _ => {}
            },
            Some(news) = news.recv() => {
                match &news {
                    WaitingNews::Outage(votes) if votes.is_misconfigured() => {
                        if misconfigured.get_or_insert_with(Instant::now).elapsed() >= MISCONFIGURED_MAX {
                            break Err(Failure::misconfigured(name, votes));
                        }
                    }
                    _ => misconfigured = None,
                }
                if let Some(display) = &mut display {
                    display.update(news);
                }
            }
            () = sleep(TICK), if display.is_some() => {
                if let Some(display) = &mut display {
                    display.tick();
                }
            }
        }
    };
    if let Some(display) = &mut display {
        display.clear();
    }
    outcome
}

/// Waits for the votes that are still under way, so that the margin is what it will be, and takes the lock out of its
/// guard.
pub(super) async fn hand_over(guard: Guard, ttl: Duration) -> Lease {
    let until = Instant::now() + WIDENING_LIMIT.min(ttl / 10);
    while guard.votes().iter().any(|vote| vote.vote.is_none()) && Instant::now() < until {
        sleep(Duration::from_millis(1)).await;
    }
    let (valid_for, margin, votes) = (guard.valid_for(), guard.margin(), guard.votes());
    let handover = guard.hand_over();
    // The same in the token and beside it.
    let valid_until_ms = handover.valid_until_ms;
    let token = LeaseToken::of(&handover);
    let (name, fence) = (handover.name, handover.fence);
    Lease { name, token, fence, ttl, valid_for, valid_until_ms, margin, votes }
}

/// Waits until nothing is left to do in the background.
pub(super) async fn finish(locks: &Locks, output: &Output) {
    if let Err(error) = locks.shutdown().await {
        output.note(&format!("warning: {error}"));
    }
}
