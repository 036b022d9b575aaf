//! How a lock is acquired, for `acquire` and `run` alike: whom we wait for is shown, and a signal
//! ends the wait.

use std::time::Duration;

use tenure::{Cause, Event, Lock, Locks};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use crate::args::ModeArgs;
use crate::backend::{Backend, Holding};
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::lease::around;
use crate::output::{Output, WaitingNews};
use crate::service::{Asking, Held, Service};
use crate::settings::Settings;
use crate::signals::{Signal, Signals, ends_wait};

/// Settings that leave no majority are waited with for so long: a server is asked about itself
/// again every second.
const MISCONFIGURED_MAX: Duration = Duration::from_secs(2);

/// How often the waiting display goes on.
const TICK: Duration = Duration::from_millis(200);

/// What is to be held.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    /// One name, or several that are locked together.
    pub(crate) names: &'a [String],
    /// Whom it keeps out.
    pub(crate) mode: &'a ModeArgs,
    /// How many may hold it at a time, if it is a semaphore.
    pub(crate) slots: Option<usize>,
    /// For how long nobody else gets it, even if it is released before.
    pub(crate) at_least: Duration,
}

impl Wanted<'_> {
    /// How it is spoken of.
    pub(crate) fn name(&self) -> String {
        self.names.join(", ")
    }

    /// The lock, with all that was said of it.
    fn of(&self, locks: &Locks) -> Lock {
        let lock = match self.names {
            [name] => locks.lock(name),
            names => locks.lock_all(names),
        };
        let lock = match &self.mode.owner {
            Some(owner) => lock.owner(owner),
            None if self.mode.shared => lock.shared(),
            None => lock,
        };
        let lock = lock.while_holding(around::held(None));
        if self.at_least.is_zero() { lock } else { lock.at_least(self.at_least) }
    }
}

/// Acquires the lock, showing whom we wait for, until a signal says otherwise.
pub(crate) async fn hold(
    wanted: &Wanted<'_>,
    note: &str,
    settings: &Settings,
    conflict: Exit,
    signals: &mut Signals,
    output: &Output,
) -> Result<(Backend, Holding), Failure> {
    let name = &*wanted.name();
    let (sender, news) = mpsc::unbounded_channel();
    let note = settings.label.value.as_deref().unwrap_or(note);
    if let Some(service) = settings.service() {
        let service = Service::connect(service)?;
        let asking = Asking::new(wanted, note, settings, conflict);
        let told = wait_for(name, service.acquire(&asking, &sender), signals, news, output).await;
        let told = told.map_err(|failure| failure.about_wanted(wanted))?;
        let held = Held::keep(service.clone(), told);
        return Ok((Backend::Service(service), Holding::Service(held)));
    }
    let locks = settings.connect_aloud(output, move |event| {
        let news = match event {
            Event::Waiting { ahead, waiters, holder, free_after, .. } => {
                let holder = holder.map(str::to_owned);
                WaitingNews::InLine { holder, free_after: *free_after, ahead: *ahead, waiters: *waiters }
            }
            Event::Retrying { cause: Cause::Unavailable, votes, .. } => WaitingNews::Outage((*votes).clone()),
            Event::Circle { circle, .. } => WaitingNews::Deadlock((*circle).clone()),
            _ => return,
        };
        // Nobody looks any more once the lock is there.
        let _ = sender.send(news);
    })?;
    let acquire = async {
        let guard = match wanted.slots {
            Some(slots) => {
                locks.semaphore(name, slots).with(|_| wanted.of(&locks)).label(note).acquire().await
            }
            None => wanted.of(&locks).label(note).acquire().await,
        };
        guard.map_err(|error| Failure::acquire(&error, conflict))
    };
    match wait_for(name, acquire, signals, news, output).await {
        Ok(guard) => Ok((Backend::Nodes(locks), Holding::Nodes(guard))),
        Err(failure) => {
            let _ = locks.shutdown().await;
            Err(failure.about_wanted(wanted))
        }
    }
}

async fn wait_for<T>(
    name: &str,
    acquire: impl Future<Output = Result<T, Failure>>,
    signals: &mut Signals,
    mut news: mpsc::UnboundedReceiver<WaitingNews>,
    output: &Output,
) -> Result<T, Failure> {
    let mut display = output.waiting(name);
    let (mut acquire, mut misconfigured) = (std::pin::pin!(acquire), None);
    let outcome = loop {
        tokio::select! {
            outcome = &mut acquire => break outcome,
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
                if let WaitingNews::Deadlock(circle) = &news {
                    if let Some(display) = &mut display {
                        display.clear();
                    }
                    output.deadlock(circle);
                } else if let Some(display) = &mut display {
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

/// Waits until nothing is left to do in the background.
pub(crate) async fn finish(backend: &Backend, output: &Output) {
    if let Err(error) = backend.shutdown(None).await {
        output.note(&format!("warning: {error}"));
    }
}
