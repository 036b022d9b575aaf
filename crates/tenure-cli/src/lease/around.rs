//! The locks around us: those of the `run` whose command we are, and one that a script acquired
//! with `--export`. Whoever waits for another lock says so, so that deadlocks are found.

use std::env;

use tenure::Held;

use super::{token_of_nodes, token_of_service};

/// The variable in which `run` tells its command which locks it runs under. No secret.
pub(crate) const HOLDING: &str = "TENURE_HOLDING";

/// What is held while we wait, with a lock of our own if there is one. What cannot be read is not
/// known: nothing depends on it.
pub(crate) fn held(own: Option<Held>) -> Held {
    let told = env::var(HOLDING).ok().and_then(|text| text.parse::<Held>().ok());
    let exported = || {
        let (name, token) = (env::var("TENURE_LOCK").ok()?, env::var("TENURE_TOKEN").ok()?);
        let token = token_of_nodes(&token).ok().or_else(|| token_of_service(&token))?;
        Some(Held::from(&token.handover(&name, token.ttl())))
    };
    own.into_iter().chain(told).chain(exported()).collect()
}
