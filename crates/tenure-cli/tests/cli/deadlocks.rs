//! Commands that hold one lock and wait for another, in a circle.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tenure_testkit::{Mode, Proxy, RedisServer};

use crate::deployment::{Background, Deployment, TOOL, deployments_and_service, wait_until};

/// Commands that each hold a lock and wait for that of the next, once they are told to.
struct Ring<'a> {
    deployment: &'a Deployment,
    names: Vec<String>,
    commands: Vec<Background>,
}

impl<'a> Ring<'a> {
    fn of(deployment: &'a Deployment, names: &[&str]) -> Self {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let start = |place: usize| {
            let (name, next) = (&names[place], &names[(place + 1) % names.len()]);
            let script = format!(
                "touch held.{name}; until [ -e go.{name} ]; do sleep 0.02; done; \
                 {TOOL} run {next} --wait 60s --label inner-{name} -- true 2> said.{name}"
            );
            {
                let label = format!("outer-{name}");
                deployment
                    .start(&["run", name, "--wait", "20s", "--label", &label, "--", "sh", "-c", &script])
            }
        };
        let commands = (0..names.len()).map(start).collect();
        let ring = Self { deployment, names, commands };
        wait_until(|| ring.names.iter().all(|name| ring.file("held", name).exists()));
        ring
    }

    fn file(&self, what: &str, name: &str) -> PathBuf {
        self.deployment.folder().join(format!("{what}.{name}"))
    }

    /// Lets the one that holds this wait for the next lock.
    fn go(&self, name: &str) {
        std::fs::write(self.file("go", name), "").unwrap();
    }

    /// All but the last wait; nobody is in a circle yet. Then the last one does, too: how long it
    /// takes until everybody is told.
    fn close(&self) -> Duration {
        let (last, others) = self.names.split_last().unwrap();
        others.iter().for_each(|name| self.go(name));
        let waits_for = |name: &str| self.deployment.json(&["status", name, "--json"]).0["waiters"] == 1;
        wait_until(|| self.names[1..].iter().all(|name| waits_for(name)));
        std::thread::sleep(Duration::from_secs(2));
        assert!(others.iter().all(|name| self.said(name).is_none()));
        self.go(last);
        wait_until(|| waits_for(&self.names[0]));
        let begun = Instant::now();
        wait_until(|| self.names.iter().all(|name| self.said(name).is_some()));
        begun.elapsed()
    }

    /// What the command that waits while it holds this one says of a deadlock.
    fn said(&self, name: &str) -> Option<String> {
        let said = std::fs::read_to_string(self.file("said", name)).unwrap_or_default();
        said.lines().find(|line| line.contains("deadlock")).map(str::to_owned)
    }

    fn end(self) {
        self.commands.iter().for_each(|command| command.signal(Signal::SIGTERM));
        self.commands.into_iter().for_each(|command| drop(command.done()));
    }
}

/// Which labels and locks a line is about, without the processes and machines.
fn without_processes(line: &str) -> String {
    let words = line.split(' ').filter(|word| !word.contains('@'));
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn two_and_three_commands_in_a_circle_are_told_who_waits_for_whom() {
    for deployment in deployments_and_service() {
        for names in [&["a", "b"][..], &["p", "q", "r"]] {
            let ring = Ring::of(&deployment, names);
            let took = ring.close();
            assert!(took <= Duration::from_secs(2), "{took:?}");
            let said = without_processes(&ring.said(names[0]).unwrap());
            let expected = match names.len() {
                2 => {
                    "tenure: deadlock: you hold \"a\" and wait for \"b\"; inner-b holds \"b\" and waits for \"a\". \
                     Release one of them, or lock both at once: tenure run a b -- ..."
                }
                _ => {
                    "tenure: deadlock: you hold \"p\" and wait for \"q\"; inner-q holds \"q\" and waits for \"r\"; \
                     inner-r holds \"r\" and waits for \"p\". Release one of them, or lock all at once: tenure run p q \
                     r -- ..."
                }
            };
            assert_eq!(said, expected);
            for (place, name) in names.iter().enumerate() {
                let (status, _) = deployment.json(&["status", name, "--json"]);
                let before = names[(place + names.len() - 1) % names.len()];
                let label = status["line"][0]["label"].as_str().unwrap();
                assert!(label.ends_with(&format!("inner-{before}")), "{status}");
                assert_eq!(status["line"][0]["keeps"], serde_json::json!([before]));
                assert!(status["line"][0]["since_ms"].as_u64().unwrap() > 1_700_000_000_000);
                assert_eq!(status["deadlocks"].as_array().unwrap().len(), 1, "{status}");
                let members = status["deadlocks"][0].as_array().unwrap();
                assert_eq!(members.len(), names.len(), "{status}");
                assert!(members.iter().any(|member| member["holds"] == *name && member["label"].is_string()));
            }
            let status = deployment.tenure(&["status", names[0]]).stdout;
            assert!(status.contains("deadlock: ") && status.contains(", keeps "), "{status}");
            // By a service it speaks of the nodes alone.
            let told = usize::from(deployment.service.is_none());
            let doctor = deployment.tenure(&["doctor"]).stdout;
            assert_eq!(doctor.matches("deadlock: ").count(), told, "{doctor}");
            ring.end();
        }
        let (status, _) = deployment.json(&["status", "a", "--json"]);
        assert_eq!((&status["line"], &status["deadlocks"]), (&serde_json::json!([]), &serde_json::json!([])));
        let doctor = deployment.tenure(&["doctor"]).stdout;
        assert!(!doctor.contains("deadlock"), "{doctor}");
    }
}

/// The lock around a command is known several levels deep, and also if a script acquired it; and
/// one that waits for its own is told so.
#[test]
fn every_lock_around_a_command_is_held_while_it_waits() {
    for deployment in deployments_and_service() {
        let holder = deployment.hold(&["x"]);
        let script = format!(
            "eval \"$({TOOL} acquire c --wait 20s --export)\"; {TOOL} run d e --wait 20s -- {TOOL} run x --wait 30s --label deep -- true; \
             {TOOL} release c"
        );
        let deep = deployment.start(&[
            "run", "a", "--wait", "20s", "--", TOOL, "run", "b", "--wait", "20s", "--", "sh", "-c", &script,
        ]);
        let kept = || deployment.json(&["status", "x", "--json"]).0["line"][0]["keeps"].clone();
        wait_until(|| kept().is_array());
        let mut names: Vec<String> = serde_json::from_value(kept()).unwrap();
        names.sort_unstable();
        assert_eq!(names, ["a", "b", "c", "d", "e"]);
        holder.signal(Signal::SIGTERM);
        drop(holder.done());
        deep.done().ends_with(0);

        let done = deployment.tenure(&["run", "y", "--", TOOL, "run", "y", "--wait", "3s", "--", "true"]);
        assert!(
            done.ends_with(75)
                .stderr
                .contains("deadlock: you are waiting for \"y\" inside a command that holds \"y\""),
            "{done:?}"
        );
    }
}

#[test]
fn a_waiter_that_was_killed_is_reported_no_more() {
    for deployment in deployments_and_service() {
        let ring = Ring::of(&deployment, &["a", "b"]);
        ring.close();
        // With all that runs under it, so that nobody leaves the line.
        ring.commands[1].signal(Signal::SIGKILL);
        wait_until(|| deployment.json(&["status", "a", "--json"]).0["waiters"] == 0);
        let (status, _) = deployment.json(&["status", "b", "--json"]);
        assert_eq!(status["deadlocks"], serde_json::json!([]), "{status}");
        ring.end();
    }
}

#[test]
fn a_circle_is_told_of_though_the_nodes_are_far_away() {
    let servers: [RedisServer; 3] = RedisServer::start_many(&[]);
    let proxies = servers.each_ref().map(|server| {
        let proxy = Proxy::start_forgetful(server.port());
        proxy.set_both(Mode::Delay(Duration::from_millis(90)));
        proxy
    });
    let nodes: Vec<String> = proxies.iter().map(Proxy::url).collect();
    let deployment = Deployment::of(vec![], |_| nodes.join(","));
    let ring = Ring::of(&deployment, &["a", "b", "c"]);
    let took = ring.close();
    assert!(took <= Duration::from_secs(3), "{took:?}");
    ring.end();
}
