//! `tenure extend`: a further term for a lock that a script holds by its token.

use crate::args::ExtendArgs;
use crate::commands::acquire::{finish, hand_over};
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::lease_token::LeaseToken;
use crate::output::Output;
use crate::settings::Settings;

pub(crate) async fn run(args: &ExtendArgs, settings: &Settings, output: &Output) -> Result<Exit, Failure> {
    let token = LeaseToken::parse(&args.token)?;
    token.check_fence(args.fence)?;
    let locks = settings.connect(|_| ())?;
    let addresses: Vec<String> = locks.node_addresses().map(str::to_owned).collect();
    let handover = token.handover(&args.name, settings.ttl.value, &addresses);
    locks.ready().await;
    let guard = locks.resume(&handover).await?;
    let lease = hand_over(&locks, guard, settings.ttl.value).await;
    let written = output.lease(&lease);
    finish(&locks, output).await;
    written.map(|()| Exit::DONE)
}
