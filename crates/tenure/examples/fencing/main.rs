//! A holder that is paused past its term, with and without fences: `cargo run -p tenure --example
//! fencing`.
//!
//! It needs `redis-server` on the path. Five servers and the workers are real processes on this
//! machine; all of them are ended before the program is.
#![allow(clippy::print_stdout, reason = "an example talks to its reader")]

mod play;
mod worker;

use std::error::Error;
use std::process::Command;

use play::{Outcome, Play};
use worker::Resource;

fn main() -> Result<(), Box<dyn Error>> {
    if let Some(task) = worker::Task::from_environment() {
        return task.run();
    }
    if Command::new("redis-server").arg("--version").output().is_err() {
        return Err("this example starts real servers: install redis-server 7.0 or newer".into());
    }
    println!("Two workers, one file. Each takes the lock, reads the file, adds its name and writes it back.");
    println!("The lock is decided by five Redis servers and lasts {:?}.", worker::TTL);
    let program = std::env::current_exe()?;
    let play = Play::new(program.to_str().ok_or("the path of this program is not text")?, &[]);

    println!("\n1. A file that checks nothing");
    let Outcome { names, .. } = play.run(Resource::Plain, |line| println!("   {line}"))?;
    println!("   => the file has {names:?}: {}", lost(&names));

    println!("\n2. A file that remembers the largest fence");
    let Outcome { names, .. } = play.run(Resource::Fenced, |line| println!("   {line}"))?;
    println!("   => the file has {names:?}: {}", lost(&names));
    Ok(())
}

fn lost(names: &[String]) -> String {
    match ["ann", "bob"].iter().find(|worker| !names.iter().any(|name| name == *worker)) {
        Some(name) => format!("the update of {name} is LOST, though {name} held the lock when it was made"),
        None => "nothing is lost".to_owned(),
    }
}
