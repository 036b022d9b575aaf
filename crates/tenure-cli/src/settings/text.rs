//! Settings as text, for a process of ours that must have the same ones. They may hold secrets, so
//! they go through a pipe and nowhere else.

use std::fmt::Write;
use std::time::Duration;

use tenure::MaxHold;
use tenure::config::{Config, KnownNodes, NodeUrl};

use super::{ServiceSettings, Settings, Source, Sourced};

impl Settings {
    /// What it takes to go on with a lock.
    pub(crate) fn to_text(&self) -> String {
        let mut text = String::new();
        let mut entry = |key: &str, value: &str| {
            let hex = value.bytes().fold(String::new(), |mut hex, byte| {
                let _ = write!(hex, "{byte:02x}");
                hex
            });
            let _ = writeln!(text, "{key} {hex}");
        };
        let nanoseconds = |duration: Duration| duration.as_nanos().to_string();
        if let Some(service) = &self.service {
            entry("service", &service.address.value.to_string());
            service.token.iter().for_each(|token| entry("service_token", token));
            service.ca.iter().for_each(|ca| entry("service_ca", &ca.to_string_lossy()));
        }
        self.nodes.value.iter().for_each(|node| entry("node", node.as_str()));
        entry("prefix", &self.prefix.value);
        entry("key_scheme", &self.key_scheme.value.to_string());
        entry("ttl", &nanoseconds(self.ttl.value));
        entry("max_ttl", &nanoseconds(self.max_ttl.value));
        entry("restart_guard", &self.restart_guard.value.to_string());
        if let Some(fleet) = &self.fleet.value {
            entry("fleet", fleet);
        }
        match &self.known_nodes.value {
            KnownNodes::In(path) => entry("known_nodes", &path.to_string_lossy()),
            KnownNodes::Off => entry("known_nodes", "off"),
            _ => {}
        }
        if let Some(timeout) = self.node_timeout.value {
            entry("node_timeout", &nanoseconds(timeout));
        }
        match self.max_hold.value {
            Some(MaxHold::AtMost(limit)) => entry("max_hold", &nanoseconds(limit)),
            Some(_) => entry("max_hold", "forever"),
            None => {}
        }
        text
    }

    /// Reads what [`Settings::to_text`] wrote.
    pub(crate) fn from_text(text: &str) -> Option<Self> {
        let mut settings = Self { config: Config::of_nodes(vec![]), service: None };
        for line in text.lines() {
            let (key, hex) = line.split_once(' ')?;
            let bytes = hex
                .as_bytes()
                .chunks(2)
                .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
            let value = String::from_utf8(bytes.collect::<Option<Vec<u8>>>()?).ok()?;
            let duration = || value.parse().ok().map(Duration::from_nanos);
            match key {
                "service" => {
                    let address = Sourced { value: value.parse().ok()?, source: Source::Default };
                    settings.service =
                        Some(ServiceSettings { address, token: None, token_file: None, ca: None });
                }
                "service_token" => settings.service.as_mut()?.token = Some(value),
                "service_ca" => settings.service.as_mut()?.ca = Some(value.into()),
                "node" => settings.nodes.value.push(NodeUrl::new(value)),
                "prefix" => settings.prefix.value = value,
                "key_scheme" => settings.key_scheme.value = value.parse().ok()?,
                "ttl" => settings.ttl.value = duration()?,
                "max_ttl" => settings.max_ttl.value = duration()?,
                "restart_guard" => settings.restart_guard.value = value.parse().ok()?,
                "fleet" => settings.fleet.value = Some(value),
                "known_nodes" if value == "off" => settings.known_nodes.value = KnownNodes::Off,
                "known_nodes" => settings.known_nodes.value = KnownNodes::In(value.into()),
                "node_timeout" => settings.node_timeout.value = Some(duration()?),
                "max_hold" if value == "forever" => settings.max_hold.value = Some(MaxHold::Unlimited),
                "max_hold" => settings.max_hold.value = Some(MaxHold::AtMost(duration()?)),
                _ => return None,
            }
        }
        Some(settings)
    }
}

#[cfg(test)]
mod tests {
    use tenure::{KeyScheme, RestartGuard};

    use super::*;

    #[test]
    fn settings_survive_the_way_to_another_process() {
        let mut settings = Settings::from_text("").unwrap();
        settings.nodes.value = vec![NodeUrl::new("redis://:ge\nheim@a"), NodeUrl::new("redis://b")];
        settings.prefix.value = "ü\n:".to_owned();
        settings.key_scheme.value = KeyScheme::Yii2;
        settings.ttl.value = Duration::from_millis(1500);
        settings.max_ttl.value = Duration::from_secs(60);
        settings.restart_guard.value = RestartGuard::Strict;
        settings.fleet.value = Some(String::new());
        settings.known_nodes.value = KnownNodes::In("/var/lib/x".into());
        settings.node_timeout.value = Some(Duration::from_millis(7));
        settings.max_hold.value = Some(MaxHold::Unlimited);
        let address = Sourced { value: "unix:/run/tenure.sock".parse().unwrap(), source: Source::Default };
        let (token, ca) = (Some("geheim".to_owned()), Some("/etc/ca.pem".into()));
        settings.service = Some(ServiceSettings { address, token, token_file: None, ca });
        let text = settings.to_text();
        let read = Settings::from_text(&text).unwrap();
        assert_eq!(read.to_text(), text);
        assert_eq!(read.nodes.value, settings.nodes.value);
        assert_eq!(read.known_nodes, settings.known_nodes);
        assert_eq!((&read.prefix, &read.ttl), (&settings.prefix, &settings.ttl));
    }
}
