//! Many readers or one writer, by the tool: on nodes, in a file, and by a service.

use std::time::Duration;

use crate::deployment::{deployments_and_service, token, wait_until};

#[test]
fn commands_that_share_a_lock_run_at_once_and_never_beside_one_that_does_not() {
    for deployment in deployments_and_service() {
        let one = deployment.hold(&["t", "--shared"]);
        let other = deployment.hold(&["t", "--shared"]);
        deployment.tenure(&["run", "t", "--", "true"]).ends_with(75);
        deployment.tenure(&["run", "t", "--shared", "--", "true"]).ends_with(0);
        let (status, code) = deployment.json(&["status", "t", "--json"]);
        assert_eq!((status["state"].as_str(), &status["readers"], code), (Some("held"), &2.into(), Some(0)));
        let said = deployment.tenure(&["status", "t"]);
        assert!(said.stdout.contains("2 readers"), "{said:?}");
        for reader in [one, other] {
            deployment.tenure(&["run", "t", "--", "true"]).ends_with(75);
            reader.signal(nix::sys::signal::Signal::SIGTERM);
            reader.done();
        }
        wait_until(|| deployment.tenure(&["run", "t", "--", "true"]).code == Some(0));
    }
}

#[test]
fn a_script_shares_a_lock_by_its_token() {
    for deployment in deployments_and_service() {
        let (lease, code) = deployment.json(&["acquire", "t", "--shared", "--json"]);
        assert_eq!(code, Some(0), "{lease}");
        let (second, _) = deployment.json(&["acquire", "t", "--shared", "--json"]);
        deployment.tenure(&["acquire", "t"]).ends_with(75);
        let (longer, code) = deployment.json(&["extend", "t", "--token", token(&lease), "--json"]);
        assert_eq!(code, Some(0), "{longer}");
        for lease in [&longer, &second] {
            deployment.tenure(&["acquire", "t"]).ends_with(75);
            deployment.tenure(&["release", "t", "--token", token(lease)]).ends_with(0);
        }
        deployment.tenure(&["acquire", "t"]).ends_with(0);
    }
}

#[test]
fn a_release_by_force_takes_it_from_all_who_share_it() {
    for deployment in deployments_and_service() {
        for _ in 0..2 {
            deployment.tenure(&["acquire", "t", "--shared"]).ends_with(0);
        }
        let done = deployment.tenure(&["release", "--force", "--yes", "t"]);
        assert!(done.stderr.contains("from all 2 readers (including "), "{done:?}");
        done.ends_with(0);
        deployment.tenure(&["acquire", "t"]).ends_with(0);
    }
}

#[test]
fn a_reader_that_waits_is_served_when_the_writer_is_done() {
    for deployment in deployments_and_service() {
        let writer = deployment.hold(&["t"]);
        let reader = deployment.start(&["run", "t", "--shared", "--wait", "60s", "--", "echo", "read"]);
        std::thread::sleep(Duration::from_millis(300));
        writer.signal(nix::sys::signal::Signal::SIGTERM);
        writer.done();
        let done = reader.done();
        assert_eq!((done.code, done.stdout.trim()), (Some(0), "read"), "{done:?}");
    }
}
