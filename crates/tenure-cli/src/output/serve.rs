//! What a service says when it begins: where it is, what it stands on, and how to try it; and what
//! its settings are.

use std::path::PathBuf;

use serde_json::{Value, json};
use tenure::config::Serve;
use tenure_server::form::milliseconds;

use super::{Output, result};
use crate::failure::Failure;
use crate::settings::{NodeUrl, Settings, Source, Sourced};

/// A service that begins.
pub(crate) struct Serving<'a> {
    /// Where it listens.
    pub(crate) urls: &'a [String],
    pub(crate) settings: &'a Settings,
    /// Where the lease key is that was made for this machine, if none was named.
    pub(crate) made_key: Option<String>,
    /// Whether callers need a token.
    pub(crate) has_callers: bool,
}

impl Output {
    /// A program that started it waits for this.
    pub(crate) fn serving(&self, serving: &Serving<'_>) -> Result<(), Failure> {
        let Serving { urls, settings, made_key, has_callers } = serving;
        let nodes: Vec<String> = settings.nodes.value.iter().map(NodeUrl::masked).collect();
        if self.json {
            return result(
                &json!({ "listening": urls.first(), "urls": urls, "nodes": nodes, "made_lease_key": made_key })
                    .to_string(),
            );
        }
        self.note(&format!("listening on {}", urls.join(", ")));
        self.note(&format!("nodes: {}", nodes.join(", ")));
        if let Some(path) = made_key {
            self.note(&format!(
                "lease key: {path}, for this machine only; to run instances on several machines, give them \
                 all the same --lease-key"
            ));
        }
        if let Some(url) = urls.first() {
            self.note(&format!("try: {}", example(url, *has_callers)));
        }
        Ok(())
    }
}

/// A line to copy.
fn example(url: &str, with_token: bool) -> String {
    let (url, socket) = match url.strip_prefix("unix:") {
        Some(path) => ("http://localhost", format!(" --unix-socket {}", super::shell_word(path))),
        None => (url, String::new()),
    };
    let token = if with_token { " -H \"Authorization: Bearer $TOKEN\"" } else { "" };
    format!(
        "curl{socket}{token} -H 'Content-Type: application/json' -d '{{\"name\": \"hello\"}}' {url}/v1/acquire"
    )
}

/// The settings of `[serve]`, each with its value and where it comes from.
pub(super) fn settings(serve: &Serve) -> Vec<(&'static str, Value, &Source)> {
    fn entry<'a, T>(
        name: &'static str,
        setting: &'a Sourced<T>,
        value: impl FnOnce(&T) -> Value,
    ) -> (&'static str, Value, &'a Source) {
        (name, value(&setting.value), &setting.source)
    }
    let path = |path: &Option<PathBuf>| json!(path.as_ref().map(|path| path.display().to_string()));
    let places = serve.listen.value.iter().map(ToString::to_string).collect::<Vec<_>>();
    vec![
        entry("listen", &serve.listen, |_| json!(places)),
        entry("socket_mode", &serve.socket_mode, |mode| json!(format!("{mode:03o}"))),
        entry("lease_key", &serve.lease_key, path),
        entry("callers", &serve.callers, path),
        entry("tls_certificate", &serve.tls_certificate, path),
        entry("tls_key", &serve.tls_key, path),
        entry("client_ca", &serve.client_ca, path),
        entry("behind_tls_proxy", &serve.behind_tls_proxy, |is| json!(is)),
        entry("hosts", &serve.hosts, |hosts| json!(hosts)),
        entry("connections_max", &serve.connections_max, |most| json!(most)),
        entry("acquires_max", &serve.acquires_max, |most| json!(most)),
        entry("acquires_per_caller", &serve.acquires_per_caller, |most| json!(most)),
        entry("silence_max_ms", &serve.silence_max, |most| json!(most.map(milliseconds))),
        entry("drain_max_ms", &serve.drain_max, |most| json!(most.map(milliseconds))),
        entry("metrics_groups", &serve.metrics_groups, |groups| json!(groups)),
        entry("access_log", &serve.access_log, path),
        entry("audit_log", &serve.audit_log, path),
    ]
}
