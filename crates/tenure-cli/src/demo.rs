//! A fleet to play with: what is shown, what keys do, and the processes behind it.
//!
//! ```text
//!   keys ──► keys.rs ──► stage.rs ──► world.rs: servers, contenders, the service
//!                           │ ◄────── what contenders say, and a client knows of the nodes
//!   lines or draw.rs ◄──────┘ judge.rs: who holds the lock, and whether two ever did at once
//! ```
#![cfg_attr(not(feature = "top"), allow(dead_code, reason = "without a screen, nobody draws it"))]

mod contender;
#[cfg(feature = "top")]
mod draw;
mod happened;
mod judge;
mod keys;
mod picture;
mod process;
mod server;
mod setup;
mod stage;
mod world;

use std::ffi::OsString;

#[cfg(feature = "top")]
pub(crate) use self::draw::draw;
pub(crate) use self::happened::{Happened, name};
pub(crate) use self::judge::Finding;
pub(crate) use self::keys::{Act, Do, HELP, meaning};
pub(crate) use self::stage::Stage;
use crate::exit_code::Exit;

/// Becomes a part of a demo, if the tool was called as one. Nobody types this.
pub(crate) fn in_a_process_of_its_own(arguments: impl Iterator<Item = OsString>) -> Option<Exit> {
    let arguments: Vec<OsString> = arguments.skip(1).collect();
    process::become_part(&arguments).or_else(|| contender::become_contender(&arguments))
}

#[cfg(all(test, feature = "top"))]
mod tests;
