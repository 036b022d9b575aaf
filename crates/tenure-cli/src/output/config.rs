//! What is in force, for people: a line a setting, with where it comes from.

use std::fmt::Write;

use serde_json::Value;
use tenure::{MaxHold, Wait};

use super::text::{duration, plain};
use crate::settings::{Settings, Source};

pub(super) fn text(settings: &Settings) -> String {
    let mut rows: Vec<[String; 3]> = vec![];
    let mut row = |name: &str, value: String, source: &Source| {
        rows.push([name.to_owned(), value, source.to_string()]);
    };
    for node in &settings.nodes.value {
        row("node", node.masked(), &settings.nodes.source);
    }
    let required = if settings.require_nodes.value { "yes" } else { "no" };
    row("require_nodes", required.to_owned(), &settings.require_nodes.source);
    row("prefix", format!("{:?}", settings.prefix.value), &settings.prefix.source);
    // Few share locks with Yii2.
    if settings.key_scheme.source != Source::Default {
        row("key_scheme", settings.key_scheme.value.to_string(), &settings.key_scheme.source);
    }
    row("ttl", duration(settings.ttl.value), &settings.ttl.source);
    let wait = match settings.wait() {
        Wait::AtMost(wait) => duration(wait),
        Wait::Forever => "forever".to_owned(),
        _ => "no".to_owned(),
    };
    row("wait", wait, &settings.wait.source);
    row("label", settings.label.value.as_deref().map(plain).unwrap_or_default(), &settings.label.source);
    row("grace", duration(settings.grace()), &settings.grace.source);
    let max_hold = match settings.max_hold.value {
        Some(MaxHold::AtMost(limit)) => duration(limit),
        Some(_) => "forever".to_owned(),
        None => "run: 24 h; acquire: 1 h".to_owned(),
    };
    row("max_hold", max_hold, &settings.max_hold.source);
    row("max_ttl", duration(settings.max_ttl.value), &settings.max_ttl.source);
    let (near, far) = settings.node_timeout_range();
    let far_too = if far > near { format!(" (far nodes up to {})", duration(far)) } else { String::new() };
    row("node_timeout", duration(near) + &far_too, &settings.node_timeout.source);
    row("restart_guard", settings.restart_guard.value.to_string(), &settings.restart_guard.source);
    row("fleet", settings.fleet.value.clone().unwrap_or_default(), &settings.fleet.source);
    row("known_nodes", settings.known_nodes(), &settings.known_nodes.source);
    // Few machines run a service.
    let said = super::serve::settings(&settings.serve).into_iter();
    for (name, value, source) in said.filter(|(_, _, source)| **source != Source::Default) {
        row(&format!("serve.{name}"), unquoted(&value), source);
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let (name_width, width) = (width(0) + 1, width(1));
    rows.iter().fold(String::new(), |mut text, [name, value, source]| {
        let _ = writeln!(text, "{name:<name_width$}{value:<width$}  {source}");
        text
    })
}

/// JSON as people write it.
fn unquoted(value: &Value) -> String {
    match value {
        Value::String(text) => plain(text),
        Value::Array(values) => values.iter().map(unquoted).collect::<Vec<_>>().join(", "),
        value => value.to_string(),
    }
}
