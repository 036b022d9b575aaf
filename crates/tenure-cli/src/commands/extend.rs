//! `tenure extend`: a further term for a lock that a script holds by its token.

use crate::args::ExtendArgs;
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::hold::finish;
use crate::lease::{Lease, check_fence, exported_lock};
use crate::looking::refuse_absent_store;
use crate::output::Output;
use crate::settings::{Settings, Source};

pub(crate) async fn run(args: &ExtendArgs, settings: &Settings, output: &Output) -> Result<Exit, Failure> {
    let (name, token) = exported_lock(args.name.as_deref(), args.token.as_deref())?;
    check_fence(&token, args.fence)?;
    if !token.extends() {
        return Err(Failure::usage(
            "the token is from an older version of tenure and cannot be extended; release the lock with it, and \
             acquire it again",
        ));
    }
    refuse_absent_store(settings, &name)?;
    let locks = settings.connect_aloud(output, |_| ())?;
    // The term that it was acquired with, unless another one was asked for.
    let asked = settings.ttl.source == Source::Flag("--ttl");
    let ttl = if asked { settings.ttl.value } else { token.ttl() };
    let handover = token.handover(&name, ttl);
    let guard = locks.resume(&handover).await?;
    let mut lease = Lease::hand_over(guard, ttl).await;
    lease.keep_promise(&token);
    let written = output.lease(&lease);
    finish(&locks, output).await;
    written.map(|()| Exit::DONE)
}
