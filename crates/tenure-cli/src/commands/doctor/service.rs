//! Whether the lock service that `[serve]` describes could start, and for how long its files are
//! good.

use jiff::{SignedDuration, Timestamp};
use tenure::config::{Serve, Source};
use tenure_server::{Door, LeaseKeys, Principal};

use crate::advice::{Advice, Level};

/// Who has less time left than this should be told.
const SOON: SignedDuration = SignedDuration::from_hours(14 * 24);

/// Nothing, where no service is described.
pub(super) fn advice(serve: &Serve) -> Vec<Advice> {
    let sources = [&serve.listen.source, &serve.lease_key.source, &serve.callers.source];
    let others = [&serve.tls_certificate.source, &serve.tls_key.source, &serve.client_ca.source];
    if sources.into_iter().chain(others).all(|source| *source == Source::Default) {
        return vec![];
    }
    let mut advice = vec![];
    if let Some(Err(error)) = serve.lease_key.value.as_deref().map(LeaseKeys::read) {
        advice.push(broken(&error));
    }
    match Door::of(serve) {
        Err(error) => advice.push(broken(&error)),
        Ok(door) => advice.extend(of_times(&door, Timestamp::now())),
    }
    if advice.is_empty() {
        advice.push(Advice {
            level: Level::Good,
            message: "the service configured in [serve] can start".to_owned(),
            advice: "Nothing to do",
        });
    }
    advice
}

fn broken(error: &dyn std::fmt::Display) -> Advice {
    Advice {
        level: Level::Danger,
        message: format!("the service configured in [serve] cannot start as this user: {error}"),
        advice: "Fix it, or run this as the service's user",
    }
}

fn of_times(door: &Door, now: Timestamp) -> Vec<Advice> {
    let mut advice = vec![];
    match door.certificate_until() {
        Some(until) if until <= now => advice.push(Advice {
            level: Level::Danger,
            message: format!("the service's certificate expired at {until}: clients reject it"),
            advice: "Renew it, then reload the service (SIGHUP)",
        }),
        Some(until) if until.duration_since(now) < SOON => advice.push(Advice {
            level: Level::Warning,
            message: format!("the service's certificate expires at {until}"),
            advice: "Renew it, then reload the service (SIGHUP)",
        }),
        _ => {}
    }
    let ends_soon = |caller: &Principal| caller.until.is_some_and(|until| until.duration_since(now) < SOON);
    for caller in door.callers().list().iter().filter(|caller| ends_soon(caller)) {
        let (name, until) = (&caller.name, caller.until.unwrap_or(now));
        advice.push(Advice {
            level: Level::Warning,
            message: if caller.is_over(now) {
                format!("the token of caller {name} expired at {until}")
            } else {
                format!("the token of caller {name} expires at {until}")
            },
            advice: "Issue a new token (tenure token new), and remove the old line once nobody uses it",
        });
    }
    advice
}
