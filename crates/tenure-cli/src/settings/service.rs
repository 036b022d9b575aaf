//! Whom to ask instead of nodes, and what we are known by there.

use std::path::{Path, PathBuf};

use tenure::config::variable;

use super::{Source, Sourced};
use crate::args::Common;
use crate::failure::Failure;
use crate::service::Address;

/// A service, as it was named.
#[derive(Clone)]
pub(crate) struct ServiceSettings {
    pub(crate) address: Sourced<Address>,
    /// What it knows us by.
    pub(crate) token: Option<String>,
    /// The file that the token is in, if it is in one.
    pub(crate) token_file: Option<PathBuf>,
    /// The file with certificates to trust it by.
    pub(crate) ca: Option<PathBuf>,
}

impl std::fmt::Debug for ServiceSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServiceSettings").field("address", &self.address).finish_non_exhaustive()
    }
}

impl ServiceSettings {
    /// What was typed or exported. Nodes that were typed count more than a service that was
    /// exported.
    pub(super) fn resolve(typed: &Common) -> Result<Option<Self>, Failure> {
        let address = match (&typed.service, &typed.nodes) {
            (Some(_), Some(_)) => {
                return Err(Failure::usage("--service replaces nodes: remove --service or --nodes"));
            }
            (Some(text), None) => Some((text.clone(), Source::Flag("--service"))),
            (None, Some(_)) => None,
            (None, None) => {
                variable("TENURE_SERVICE")?.map(|text| (text, Source::Environment("TENURE_SERVICE")))
            }
        };
        let Some((text, source)) = address else { return Ok(None) };
        let value: Address =
            text.parse().map_err(|problem| Failure::usage(format!("{source}: {problem}")))?;
        for (flag, is_typed) in [
            ("prefix", !typed.prefix.is_empty()),
            ("known-nodes", typed.known_nodes.is_some()),
            ("require-nodes", typed.require_nodes),
        ] {
            if is_typed {
                return Err(Failure::usage(format!(
                    "--{flag} does not apply with --service, which has its own; remove it"
                )));
            }
        }
        let file = |typed: &Option<PathBuf>, name: &'static str| -> Result<Option<PathBuf>, Failure> {
            Ok(typed.clone().or(variable(name)?.map(PathBuf::from)))
        };
        let token_file = file(&typed.service_token_file, "TENURE_SERVICE_TOKEN_FILE")?;
        let token = match &token_file {
            Some(path) => Some(read_token(path)?),
            None => variable("TENURE_SERVICE_TOKEN")?,
        };
        if token.is_some() && !value.is_private() {
            return Err(Failure::usage(format!(
                "{value}: the token would be sent unencrypted; use https://"
            )));
        }
        let ca = file(&typed.service_ca, "TENURE_SERVICE_CA")?;
        Ok(Some(Self { address: Sourced { value, source }, token, token_file, ca }))
    }
}

fn read_token(path: &Path) -> Result<String, Failure> {
    let text = std::fs::read_to_string(path);
    let text =
        text.map_err(|error| Failure::usage(format!("--service-token-file {}: {error}", path.display())))?;
    Ok(text.trim().to_owned())
}
