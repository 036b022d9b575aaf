//! Passwords are seen by nobody.

use std::os::unix::fs::PermissionsExt;

use tenure_testkit::RedisServer;

use crate::deployment::{Deployment, Done};

const PASSWORD: &str = "hunter2-very-secret";

fn guarded() -> (Deployment, String) {
    let server = RedisServer::start(&["--requirepass", PASSWORD]);
    let url = format!("redis://:{PASSWORD}@127.0.0.1:{}", server.port());
    (Deployment::of(vec![server], |_| url.clone()), url)
}

#[test]
fn no_output_of_any_command_shows_a_password() {
    let (deployment, _) = guarded();
    let _holder = deployment.hold(&["held"]);
    for arguments in [
        &["acquire", "x"][..],
        &["acquire", "x", "--json"],
        &["acquire", "held", "--json"],
        &["status", "held"],
        &["status", "held", "--json"],
        &["ls"],
        &["ls", "--json"],
        &["doctor"],
        &["doctor", "--json"],
        &["config"],
        &["config", "--json"],
        &["release", "--force", "x"],
        &["status", "x", "redis://:hunter2-very-secret@h"],
        &["status", "x", "redis://u:my hunter2-very-secret word@h"],
        &["config", "--nodes", "redis://h?password=hunter2-very-secret"],
    ] {
        let done = deployment.tenure(arguments);
        assert!(!format!("{done:?}").contains(PASSWORD), "{arguments:?}: {done:?}");
    }
    for nodes in [
        format!("redis://:{PASSWORD}@127.0.0.1:1"),
        format!("redis://user:{PASSWORD}@h/#/x"),
        format!("http://:{PASSWORD}@h"),
        format!("redis://:{PASSWORD}@h,redis://:{PASSWORD}@h"),
        format!(":{PASSWORD}@h"),
    ] {
        let mut command = deployment.command(&["acquire", "x"]);
        let done = Done::of(command.env("TENURE_NODES", &nodes).output().unwrap());
        assert!(!format!("{done:?}").contains(PASSWORD), "{nodes}: {done:?}");
        assert_ne!(done.code, Some(0));
    }
}

#[test]
fn a_password_in_a_flag_is_warned_about() {
    let (deployment, url) = guarded();
    let done = deployment.tenure(&["acquire", "x", "--nodes", &url]);
    assert!(done.ends_with(0).stderr.contains("password_file"), "{done:?}");
    let done = deployment.tenure(&["acquire", "y", "--nodes", &url, "--quiet"]);
    assert_eq!(done.stderr, "");
}

#[test]
fn neither_ps_nor_the_commands_environment_shows_a_password_from_a_file() {
    let (deployment, url) = guarded();
    let path = deployment.write("tenure.toml", &format!("nodes = [\"{url}\"]\n"));
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
    let script = "cat /proc/$PPID/cmdline /proc/$$/environ /proc/$$/cmdline | tr '\\0' '\\n'; sed 's/$/;/' /proc/$PPID/environ";
    let done =
        Done::of(deployment.command_without_nodes(&["run", "x", "--", "sh", "-c", script]).output().unwrap());
    assert!(done.ends_with(0).stdout.contains("TENURE_TOKEN"), "{done:?}");
    assert!(!format!("{done:?}").contains(PASSWORD), "{done:?}");
}

#[test]
fn a_file_with_a_password_that_everybody_may_read_is_warned_about() {
    let (deployment, url) = guarded();
    let path = deployment.write("tenure.toml", &format!("nodes = [\"{url}\"]\n"));
    for (mode, warned) in [(0o644, true), (0o600, false)] {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let done =
            Done::of(deployment.command_without_nodes(&["acquire", &format!("x{mode}")]).output().unwrap());
        assert_eq!(done.ends_with(0).stderr.contains("chmod 600"), warned, "{done:?}");
    }
}
