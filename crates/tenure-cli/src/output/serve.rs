//! What a service says when it begins: where it is, what it stands on, and how to try it.

use std::net::SocketAddr;

use serde_json::json;

use super::{Output, result};
use crate::failure::Failure;
use crate::settings::{NodeUrl, Settings};

/// A service that begins.
pub(crate) struct Serving<'a> {
    pub(crate) address: SocketAddr,
    pub(crate) settings: &'a Settings,
    /// Where the lease key is that was made for this machine, if none was named.
    pub(crate) made_key: Option<String>,
}

impl Output {
    /// A program that started it waits for this.
    pub(crate) fn serving(&self, serving: &Serving<'_>) -> Result<(), Failure> {
        let Serving { address, settings, made_key } = serving;
        let nodes: Vec<String> = settings.nodes.value.iter().map(NodeUrl::masked).collect();
        if self.json {
            return result(
                &json!({ "listening": format!("http://{address}"), "nodes": nodes, "made_lease_key": made_key })
                    .to_string(),
            );
        }
        self.note(&format!("listening on http://{address}"));
        self.note(&format!("nodes: {}", nodes.join(", ")));
        if let Some(path) = made_key {
            self.note(&format!(
                "lease key: {path}, for this machine only; to run instances on several machines, give all the same --lease-key"
            ));
        }
        self.note(&format!(
            "try: curl -H 'Content-Type: application/json' -d '{{\"name\": \"hello\"}}' http://{address}/v1/acquire"
        ));
        Ok(())
    }
}
