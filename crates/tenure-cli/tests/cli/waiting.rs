//! Waiting in line.

use nix::sys::signal::Signal;

use crate::deployment::{deployments, deployments_and_service, is_alive, wait_until};

#[test]
fn a_waiter_says_who_holds_the_lock_and_gets_it_when_it_is_free() {
    for deployment in deployments() {
        let holder = deployment.hold(&["x", "--label", "nightly import"]);
        let waiter = deployment.start(&["run", "x", "--wait", "20s", "--", "echo", "mine"]);
        wait_until(|| deployment.json(&["status", "x", "--json"]).0["waiters"] == 1);
        holder.signal(Signal::SIGTERM);
        let done = waiter.done();
        assert_eq!(done.ends_with(0).stdout, "mine\n");
        assert!(
            done.stderr.contains("nightly import") && done.stderr.contains("number 1 of 1 in line"),
            "{done:?}"
        );
        assert_eq!(done.stderr.lines().count(), 1, "{done:?}");
        holder.done().ends_with(128 + 15);
    }
}

#[test]
fn a_wait_without_an_end_ends_with_the_lock() {
    for deployment in deployments_and_service() {
        let (lease, _) = deployment.json(&["acquire", "x", "--ttl", "1s", "--json"]);
        assert!(lease["token"].is_string());
        deployment.tenure(&["acquire", "x", "--wait", "forever", "--quiet"]).ends_with(0);
    }
}

#[test]
fn an_interrupt_while_waiting_ends_the_wait_and_leaves_the_line() {
    for deployment in deployments_and_service() {
        let _holder = deployment.hold(&["x"]);
        for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
            for command in
                [&["run", "x", "--wait", "forever", "--", "true"][..], &["acquire", "x", "--wait", "20s"]]
            {
                let waiter = deployment.start(command);
                wait_until(|| deployment.json(&["status", "x", "--json"]).0["waiters"] == 1);
                waiter.signal(signal);
                let done = waiter.done();
                assert!(done.ends_with(128 + signal as i32).stderr.contains("interrupted"), "{done:?}");
                wait_until(|| deployment.json(&["status", "x", "--json"]).0["waiters"] == 0);
            }
        }
    }
}

#[test]
fn waiters_are_served_in_the_order_in_which_they_came() {
    for deployment in deployments_and_service() {
        let holder = deployment.hold(&["x"]);
        let mut waiters = vec![];
        for index in 1..=3 {
            let script = format!("echo {index} >> order");
            waiters.push(deployment.start(&["run", "x", "--wait", "forever", "--", "sh", "-c", &script]));
            wait_until(|| deployment.json(&["status", "x", "--json"]).0["waiters"] == index);
        }
        holder.signal(Signal::SIGTERM);
        waiters.into_iter().for_each(|waiter| {
            waiter.done().ends_with(0);
        });
        assert_eq!(std::fs::read_to_string(deployment.folder().join("order")).unwrap(), "1\n2\n3\n");
        assert!(!is_alive(holder.pid()) || holder.done().code == Some(143));
    }
}
