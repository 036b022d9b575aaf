//! `tenure acquire`: a lock for a script, which goes on with it by its token.

use std::time::Duration;

use crate::args::AcquireArgs;
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::hold::{Wanted, finish, hold};
use crate::output::Output;
use crate::settings::Settings;
use crate::signals::Signals;

pub(crate) async fn run(args: &AcquireArgs, settings: &Settings, output: &Output) -> Result<Exit, Failure> {
    let mut signals = Signals::install()?;
    let conflict = Exit::code(args.conflict_exit_code);
    let names = [args.name.clone()];
    let wanted = Wanted { names: &names, mode: &args.mode, slots: None, at_least: Duration::ZERO };
    let (backend, holding) = hold(&wanted, "", settings, conflict, &mut signals, output).await?;
    let lease = holding.lease(settings.ttl.value).await;
    let written = output.lease(&lease);
    if written.is_err() {
        // Nobody has the token, so nobody could release it.
        let _ = backend.release(&backend.baton(&lease.name, &lease.token, lease.ttl)?, true).await;
    }
    finish(&backend, output).await;
    written.map(|()| Exit::DONE)
}
