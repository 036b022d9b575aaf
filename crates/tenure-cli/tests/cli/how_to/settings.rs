//! The settings that pages show are settings: the tool takes them.

use super::page::Page;
use crate::deployment::{Done, embedded_store};

/// All of them are read and checked; files that they name are looked at by `tenure doctor` alone.
#[test]
fn the_settings_of_the_service_are_accepted() {
    let (page, deployment) = (Page::open("docs/how-to/run-service.md"), embedded_store());
    deployment.write("tenure.toml", page.block("toml"));
    let done = Done::of(deployment.command_without_nodes(&["config", "--json"]).output().unwrap());
    let shown: serde_json::Value = serde_json::from_str(&done.ends_with(0).stdout).unwrap();
    for setting in ["listen", "lease_key", "callers", "tls_certificate", "tls_key"] {
        assert!(!shown["serve"][setting]["value"].is_null(), "{setting}: {shown}");
    }
}
