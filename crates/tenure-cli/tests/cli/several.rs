//! Several names at once, so many at a time, and once per period, by the tool: on nodes, in a file,
//! and by a service.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::deployment::{deployments, deployments_and_service, wait_until};

#[test]
fn several_names_are_locked_together_or_not_at_all() {
    for deployment in deployments_and_service() {
        let both = deployment.hold(&["b", "a"]);
        for name in ["a", "b"] {
            let refused = deployment.tenure(&["run", name, "--", "true"]);
            refused.ends_with(75);
        }
        deployment.tenure(&["run", "a", "c", "--", "true"]).ends_with(75);
        deployment.tenure(&["run", "c", "--", "true"]).ends_with(0);
        both.signal(Signal::SIGTERM);
        both.done();
        let run =
            ["run", "b", "a", "b", "--wait", "30s", "--", "sh", "-c", "echo \"$TENURE_LOCK $TENURE_FENCE\""];
        let done = deployment.tenure(&run);
        done.ends_with(0);
        assert!(done.stdout.starts_with("a, b 1"), "{done:?}");
        // Their token is of no use for one of them: that would lose the others.
        let script = "echo \"${TENURE_TOKEN-none}\"; \"$0\" release";
        let done = deployment.tenure(&["run", "a", "b", "--", "sh", "-c", script, crate::deployment::TOOL]);
        done.ends_with(64);
        assert_eq!(done.stdout, "none\n", "{done:?}");
        assert!(done.stderr.contains("\"a, b\" has no token of its own: several names"), "{done:?}");
        let many: Vec<String> = (0..33).map(|name| name.to_string()).collect();
        let mut run = vec!["run"];
        run.extend(many.iter().map(String::as_str));
        run.extend(["--", "true"]);
        let refused = deployment.tenure(&run);
        assert!(refused.stderr.contains("33 names"), "{refused:?}");
        refused.ends_with(64);
    }
}

/// Each wants what the other has, in the other order, and nobody waits for ever.
#[test]
fn sets_in_opposite_order_do_not_deadlock() {
    for deployment in deployments() {
        let script = "for i in 1 2 3 4 5 6; do \"$0\" run \"$@\" --wait 60s -- sleep 0.02 || exit; done";
        let start = |names: [&str; 2]| {
            let mut command = deployment.program("sh");
            command.args(["-c", script, crate::deployment::TOOL]).args(names);
            crate::deployment::Background::start(command)
        };
        let begun = Instant::now();
        for worker in [start(["a", "b"]), start(["b", "a"]), start(["b", "c"]), start(["c", "a"])] {
            worker.done().ends_with(0);
        }
        assert!(begun.elapsed() < Duration::from_secs(50), "{:?}", begun.elapsed());
    }
}

#[test]
fn so_many_commands_run_at_a_time() {
    for deployment in deployments_and_service() {
        let holders = [0, 1].map(|_| deployment.hold(&["s", "--slots", "2"]));
        let refused = deployment.tenure(&["run", "s", "--slots", "2", "--", "true"]);
        refused.ends_with(75);
        assert!(refused.stderr.contains("all 2 slots of \"s\" are taken; retry later"), "{refused:?}");
        let (refused, _) = deployment.json(&["run", "s", "--slots", "2", "--json", "--", "true"]);
        assert_eq!((&refused["error"], &refused["name"]), (&"contended".into(), &"s".into()), "{refused}");
        deployment.tenure(&["run", "", "--slots", "2", "--", "true"]).ends_with(64);
        deployment.tenure(&["run", "s", "--", "true"]).ends_with(0);
        let third = deployment.start(&["run", "s", "--slots", "2", "--wait", "60s", "--", "echo", "in"]);
        std::thread::sleep(Duration::from_millis(300));
        let [first, second] = holders;
        first.signal(Signal::SIGTERM);
        first.done();
        let done = third.done();
        assert_eq!((done.code, done.stdout.trim()), (Some(0), "in"), "{done:?}");
        deployment.tenure(&["run", "s", "--slots", "3", "--", "true"]).ends_with(0);
        second.signal(Signal::SIGTERM);
        second.done();
        let refused = deployment.tenure(&["run", "s", "--slots", "65", "--", "true"]);
        assert!(refused.stderr.contains("1 to 64"), "{refused:?}");
        refused.ends_with(64);
        deployment.tenure(&["run", "s", "t", "--slots", "2", "--", "true"]).ends_with(64);
        deployment.tenure(&["run", "s", "--slots", "2", "--shared", "--", "true"]).ends_with(64);
    }
}

#[test]
fn a_command_runs_once_per_period_though_it_takes_less_fails_or_is_killed() {
    for deployment in deployments_and_service() {
        let run = |more: &[&str], command: &[&str]| {
            let mut arguments = vec!["run", "p", "--ttl", "1s", "--at-least", "4s"];
            arguments.extend(more);
            arguments.push("--");
            arguments.extend(command);
            deployment.tenure(&arguments)
        };
        let begun = Instant::now();
        run(&[], &["true"]).ends_with(0);
        let refused = run(&[], &["true"]);
        refused.ends_with(75);
        assert!(refused.stderr.contains("lock \"p\" is taken for this period by "), "{refused:?}");
        assert!(!refused.stderr.contains("retry"), "there is nothing to retry: {refused:?}");
        let status = deployment.tenure(&["status", "p"]);
        assert!(status.stdout.contains("kept"), "{status:?}");
        // It fails, and that changes nothing.
        run(&["--wait", "20s"], &["false"]).ends_with(1);
        let second = begun.elapsed();
        assert!(second >= Duration::from_millis(3_900), "{second:?}");
        run(&[], &["true"]).ends_with(75);
        // It fails, and others may try again.
        let retry = ["--wait", "20s", "--at-least-on", "success"];
        run(&retry, &["false"]).ends_with(1);
        run(&[], &["true"]).ends_with(0);
        deployment.tenure(&["release", "p", "--force", "--yes"]).ends_with(0);
        // The same if it is killed together with the tool.
        let killed = deployment.hold(&["p", "--ttl", "1s", "--at-least", "50s", "--at-least-on", "success"]);
        killed.signal(Signal::SIGKILL);
        killed.done();
        run(&["--wait", "20s"], &["true"]).ends_with(0);
        deployment.tenure(&["release", "p", "--force", "--yes"]).ends_with(0);
        // It is killed together with the tool.
        let begun = Instant::now();
        let killed = deployment.hold(&["p", "--ttl", "1s", "--at-least", "4s"]);
        killed.signal(Signal::SIGKILL);
        killed.done();
        run(&["--wait", "20s"], &["true"]).ends_with(0);
        assert!(begun.elapsed() >= Duration::from_millis(3_900), "{:?}", begun.elapsed());
        let refused = deployment.tenure(&["run", "p", "--at-least", "2m", "--", "true"]);
        assert!(refused.stderr.contains("max_ttl"), "{refused:?}");
        refused.ends_with(64);
    }
}

/// Somebody ends the candidate, its command takes its time, and meanwhile the lock is lost: that is
/// no reason to stand again.
#[test]
fn a_candidate_that_was_told_to_go_does_not_stand_again() {
    for deployment in deployments_and_service() {
        let log = deployment.folder().join("log");
        let command = "trap '' TERM; echo >> log; while :; do sleep 0.1; done";
        let candidate = deployment.start(&["lead", "l", "--ttl", "2s", "--", "sh", "-c", command]);
        let terms = || std::fs::read_to_string(&log).unwrap_or_default().lines().count();
        wait_until(|| terms() == 1);
        candidate.signal(Signal::SIGTERM);
        std::thread::sleep(Duration::from_millis(100));
        deployment.tenure(&["release", "l", "--force", "--yes"]).ends_with(0);
        let done = candidate.done();
        done.ends_with(143);
        assert!(done.stderr.contains("interrupted by SIGTERM; lock \"l\" was lost"), "{done:?}");
        assert_eq!(terms(), 1);
    }
}

#[test]
fn one_candidate_leads_and_another_when_it_is_gone() {
    for deployment in deployments_and_service() {
        let log = deployment.folder().join("log");
        let command = "echo \"$TENURE_FENCE\" >> log; exec sleep 600";
        let lead = || deployment.start(&["lead", "l", "--ttl", "2s", "--", "sh", "-c", command]);
        let epochs = || -> Vec<u64> {
            let text = std::fs::read_to_string(&log).unwrap_or_default();
            text.lines().map(|line| line.parse().unwrap()).collect()
        };
        let first = lead();
        wait_until(|| epochs().len() == 1);
        let second = lead();
        std::thread::sleep(Duration::from_millis(500));
        assert_eq!(epochs().len(), 1, "the other one stands by");
        // The keeper ends the command and releases the lock.
        first.signal(Signal::SIGKILL);
        first.done();
        wait_until(|| epochs().len() == 2);
        // An operator takes the lock away: it stands again.
        deployment.tenure(&["release", "l", "--force", "--yes"]).ends_with(0);
        wait_until(|| epochs().len() == 3);
        second.signal(Signal::SIGTERM);
        second.done().ends_with(143);
        assert!(epochs().is_sorted_by(|one, other| one < other), "{:?}", epochs());
        // A command that ends by itself ends the candidacy, with its code.
        deployment.tenure(&["lead", "l", "--", "sh", "-c", "exit 7"]).ends_with(7);
        let refused = deployment.tenure(&["lead", "l", "--wait", "5s", "--", "true"]);
        assert!(refused.stderr.contains("--wait does not apply"), "{refused:?}");
        refused.ends_with(64);
        // A candidate that waits is told to go.
        let holder = deployment.hold(&["l"]);
        let waiting = lead();
        std::thread::sleep(Duration::from_millis(300));
        waiting.signal(Signal::SIGTERM);
        waiting.done().ends_with(143);
        holder.signal(Signal::SIGTERM);
        holder.done();
    }
}
