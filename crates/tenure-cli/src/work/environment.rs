//! What the command is told in its environment. No secret, unless the person put it there.

use std::ffi::OsString;

use tenure::config::WITHHELD;

use crate::backend::Holding;
use crate::lease::around::{self, HOLDING};
use crate::lease::now_ms;
use crate::settings::{NodeUrl, Settings, Source};

/// Variables to set, and to unset where there is no value.
pub(super) type Environment = Vec<(&'static str, Option<OsString>)>;

pub(super) fn of(holding: &Holding, owner: Option<&str>, settings: &Settings) -> Environment {
    let valid_until_ms = now_ms() + u64::try_from(holding.valid_for().as_millis()).unwrap_or(0);
    let held = around::held(holding.held()).to_string();
    let mut environment = vec![
        ("TENURE_LOCK", Some(holding.name().into())),
        // That of several names is for all of them together, and `run` alone extends and releases
        // it.
        ("TENURE_TOKEN", (!holding.is_of_several()).then(|| holding.token().into())),
        ("TENURE_FENCE", Some(holding.fence().to_string().into())),
        ("TENURE_VALID_UNTIL_MS", Some(valid_until_ms.to_string().into())),
        (HOLDING, Some(held).filter(|held| !held.is_empty()).map(Into::into)),
        // Not that of a lock around this one, which this lock has nothing to do with.
        ("TENURE_OWNER", owner.map(Into::into)),
    ];
    // The command asks whom we ask. A token that the person exported is in its environment already.
    let service = settings.service();
    environment.push(("TENURE_SERVICE", service.map(|service| service.address.value.to_string().into())));
    if let Some(service) = service {
        environment.push(("TENURE_NODES", None));
        environment
            .extend(service.token_file.iter().map(|file| ("TENURE_SERVICE_TOKEN_FILE", Some(file.into()))));
        environment.extend(service.ca.iter().map(|file| ("TENURE_SERVICE_CA", Some(file.into()))));
        return environment;
    }
    // Nodes that the person exported are theirs, with the password in them.
    let exported = settings.nodes.source == Source::Environment("TENURE_NODES");
    let withheld = settings.has_secret() && !exported;
    let urls = settings.nodes.value.iter().map(NodeUrl::as_str).collect::<Vec<_>>().join(",");
    environment.push(("TENURE_NODES", (!withheld).then(|| urls.into())));
    // A file that names them can be read again; a flag cannot, and whoever asks for nodes must be
    // told.
    let typed = matches!(settings.nodes.source, Source::Flag(_));
    environment.push((WITHHELD, (withheld && typed).then(|| "1".into())));
    if let Some(file) = settings.files.first() {
        environment.push(("TENURE_CONFIG", Some(file.clone().into())));
    }
    if settings.prefix.source != Source::Default {
        environment.push(("TENURE_PREFIX", Some(settings.prefix.value.clone().into())));
    }
    if settings.known_nodes.source != Source::Default {
        environment.push(("TENURE_KNOWN_NODES", Some(settings.known_nodes.value.to_string().into())));
    }
    if settings.require_nodes.value {
        environment.push(("TENURE_REQUIRE_NODES", Some("true".into())));
    }
    environment
}
