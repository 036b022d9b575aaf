//! `tenure lead`: a command that runs while this candidate leads, and again whenever it is elected.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::args::{LeadArgs, ModeArgs};
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::hold::{Wanted, hold};
use crate::output::Output;
use crate::settings::Settings;
use crate::signals::{Signals, ends_wait};
use crate::work::{Cause, Outcome, Work};

/// The pause after a lost term, and the longest one: it doubles while terms are short.
const BACK_OFF_MIN: Duration = Duration::from_millis(100);
const BACK_OFF_MAX: Duration = Duration::from_secs(10);

pub(crate) async fn run(args: &LeadArgs, settings: &Settings, output: &Output) -> Result<Exit, Failure> {
    let settings = settings.for_lead(args.grace.as_deref(), args.max_hold.as_deref())?;
    let (names, mode) = ([args.name.clone()], ModeArgs::default());
    let wanted = Wanted { names: &names, mode: &mode, slots: None, at_least: Duration::ZERO };
    let work = Work { name: &args.name, command: &args.command, owner: None, retries: false };
    let mut signals = Signals::install()?;
    let mut back_off = BACK_OFF_MIN;
    loop {
        let held = hold(&wanted, &work.note(), &settings, Exit::HELD, &mut signals, output).await?;
        let (elected, fence) = (Instant::now(), held.1.fence());
        output.note(&format!("elected, epoch {fence}"));
        match work.run(held, &settings, &mut signals, output).await? {
            Outcome::Ended(exit) => return Ok(exit),
            Outcome::Stopped { failure, interrupted: Some(signal), .. } => {
                let message = format!("interrupted by {signal}; {}", failure.message);
                let exit = Exit::signal(signal as i32);
                return Err(Failure::new(exit, "interrupted", message).of_lock(&args.name));
            }
            // Nodes that cannot be reached, and a machine that is too slow, may be well again.
            Outcome::Stopped {
                cause: Cause::Lost | Cause::Taken | Cause::Late | Cause::NotBegun,
                failure,
                is_left,
                ..
            } if !is_left => {
                output.note(&format!("{}. Running for election again", failure.message));
            }
            Outcome::Stopped { failure, .. } => return Err(failure),
        }
        if elected.elapsed() > settings.ttl.value {
            back_off = BACK_OFF_MIN;
        }
        pause(back_off, &args.name, &mut signals).await?;
        back_off = (back_off * 2).min(BACK_OFF_MAX);
    }
}

/// Lets some time pass, unless a signal says that it is over.
async fn pause(back_off: Duration, name: &str, signals: &mut Signals) -> Result<(), Failure> {
    let mut over = std::pin::pin!(sleep(back_off));
    loop {
        tokio::select! {
            () = &mut over => return Ok(()),
            signal = signals.next() => {
                if ends_wait(signal) {
                    let message = format!("interrupted by {signal} while waiting to be elected for {name:?}");
                    let exit = Exit::signal(signal as i32);
                    return Err(Failure::new(exit, "interrupted", message).of_lock(name));
                }
            }
        }
    }
}
