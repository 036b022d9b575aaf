//! `tenure acquire`: a lock for a script, which goes on with it by its token.

use crate::args::AcquireArgs;
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::hold::{finish, hold};
use crate::lease::Lease;
use crate::output::Output;
use crate::settings::Settings;
use crate::signals::Signals;

pub(crate) async fn run(args: &AcquireArgs, settings: &Settings, output: &Output) -> Result<Exit, Failure> {
    let mut signals = Signals::install()?;
    let conflict = Exit::code(args.conflict_exit_code);
    let (locks, guard) = hold(&args.name, "", settings, conflict, &mut signals, output).await?;
    let lease = Lease::hand_over(guard, settings.ttl.value).await;
    let written = output.lease(&lease);
    if written.is_err() {
        // Nobody has the token, so nobody could release it.
        let handover = lease.token.handover(&lease.name, lease.ttl);
        let _ = locks.release(&handover).await;
    }
    finish(&locks, output).await;
    written.map(|()| Exit::DONE)
}
