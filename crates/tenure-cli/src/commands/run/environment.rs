//! What the command is told in its environment. No secret, unless the person put it there.

use tenure::{Guard, Locks};

use crate::lease_token::{LeaseToken, now_ms};
use crate::settings::{NodeUrl, Settings, Source};

/// Variables to set, and to unset where there is no value.
pub(super) type Environment = Vec<(&'static str, Option<String>)>;

pub(super) fn of(locks: &Locks, guard: &Guard, settings: &Settings) -> Environment {
    let addresses: Vec<String> = locks.node_addresses().map(str::to_owned).collect();
    let token = LeaseToken::of(&guard.to_handover(), &addresses);
    let valid_until_ms = now_ms() + u64::try_from(guard.valid_for().as_millis()).unwrap_or(0);
    let mut environment = vec![
        ("TENURE_LOCK", Some(guard.name().to_owned())),
        ("TENURE_TOKEN", Some(token.to_string())),
        ("TENURE_FENCE", Some(guard.fence().to_string())),
        ("TENURE_VALID_UNTIL_MS", Some(valid_until_ms.to_string())),
    ];
    // One that the person exported is theirs, and says the same.
    if settings.nodes.source != Source::Environment("TENURE_NODES") {
        let urls = settings.nodes.value.iter().map(NodeUrl::as_str).collect::<Vec<_>>().join(",");
        environment.push(("TENURE_NODES", (!settings.has_secret()).then_some(urls)));
    }
    if let Some(file) = settings.file.as_ref().and_then(|file| file.to_str()) {
        environment.push(("TENURE_CONFIG", Some(file.to_owned())));
    }
    if settings.prefix.source != Source::Default {
        environment.push(("TENURE_PREFIX", Some(settings.prefix.value.clone())));
    }
    environment
}
