//! Clients in processes of their own, and the kit that starts them.
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has to fail")]
#![allow(clippy::print_stdout, reason = "what was measured is worth knowing")]

use std::sync::{Mutex, MutexGuard, PoisonError};

mod client_clocks;
mod counter;
mod embedded;
mod ends_with_the_test;
mod heard;
mod holders;
mod kinds;
mod leader;
mod moved_clock;
mod period;
mod semaphore;
mod sets;

/// What keeps both cores of a small machine busy runs one at a time.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}
