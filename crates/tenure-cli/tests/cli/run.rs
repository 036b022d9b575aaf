//! `run` under fire: nothing runs without its lock, and nothing is left behind.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tenure_testkit::{Mode, Proxy, RedisServer};

use crate::deployment::{
    Background, Deployment, TOOL, are_gone_before, deployments_and_service, embedded_store, is_alive, now_ms,
    read_line, started, stubborn, wait_until,
};

/// Five servers, each behind a proxy that can be made to fail.
pub(crate) fn behind_proxies() -> (Deployment, Vec<Proxy>) {
    let servers: [RedisServer; 5] = RedisServer::start_many(&[]);
    let proxies: Vec<Proxy> = servers.iter().map(|server| Proxy::start_forgetful(server.port())).collect();
    let urls = proxies.iter().map(Proxy::url).collect::<Vec<_>>().join(",");
    (Deployment::of(servers.into(), |_| urls), proxies)
}

#[test]
fn behind_a_partition_the_command_and_its_group_are_gone_before_the_lock_is_over() {
    let (deployment, proxies) = behind_proxies();
    // How often, and how many at a time.
    let runs: usize = std::env::var("TENURE_PARTITION_RUNS").map_or(10, |runs| runs.parse().unwrap());
    let (mut done, mut begun, mut at_once, mut margins) = (0, 0, 10, vec![]);
    while done < runs {
        let batch = (runs - done).min(at_once);
        let files: Vec<String> = (begun..begun + batch).map(|index| format!("started-{index}")).collect();
        begun += batch;
        let tools: Vec<Background> = files
            .iter()
            .map(|file| {
                deployment.start(&[
                    "run",
                    file,
                    "--ttl",
                    "5s",
                    "--wait",
                    "15s",
                    "--quiet",
                    "--",
                    "sh",
                    "-c",
                    &stubborn(file),
                ])
            })
            .collect();
        let mut commands: Vec<(u32, u32, u64)> =
            files.iter().map(|file| started(&deployment, file)).collect();
        proxies.iter().for_each(|proxy| proxy.set_both(Mode::Stall));
        // Before the first renewal, which would move the deadline.
        let earliest = commands.iter().map(|(.., until)| *until).min().unwrap();
        if now_ms() + 3900 >= earliest {
            // Too slow to begin with so many: with fewer.
            proxies.iter().for_each(|proxy| proxy.set_both(Mode::Pass));
            at_once = at_once.div_ceil(2);
            assert!(begun < runs + 60, "this machine is too slow to begin a command in a second");
            continue;
        }
        while !commands.is_empty() {
            commands.retain(|(command, grandchild, until)| {
                let gone = are_gone_before([*command, *grandchild], *until);
                if gone {
                    margins.push(i128::from(*until) - i128::from(now_ms()));
                }
                !gone
            });
            std::thread::sleep(Duration::from_millis(1));
        }
        proxies.iter().for_each(|proxy| proxy.set_both(Mode::Pass));
        for tool in tools {
            let done = tool.done();
            assert!(done.ends_with(79).stderr.contains("was lost"), "{done:?}");
        }
        done += batch;
    }
    margins.sort_unstable();
    println!("{runs} runs: gone {} to {} ms before the end", margins[0], margins[margins.len() - 1]);
}

#[test]
fn with_a_store_that_is_gone_the_command_is_gone_before_the_lock_is_over() {
    for _ in 0..10 {
        let deployment = embedded_store();
        let tool = deployment.start(&["run", "x", "--ttl", "3s", "--", "sh", "-c", &stubborn("started")]);
        let (command, grandchild, until) = started(&deployment, "started");
        for ending in ["", "-wal", "-shm"] {
            std::fs::remove_file(deployment.folder().join(format!("locks.db{ending}"))).unwrap();
        }
        if now_ms() + 2_200 >= until {
            // A renewal may have moved the deadline.
            continue;
        }
        wait_until(|| are_gone_before([command, grandchild], until));
        let done = tool.done();
        assert!(done.ends_with(79).stderr.contains("was lost"), "{done:?}");
        return;
    }
    panic!("this machine is too slow to begin a command in a second");
}

#[test]
fn a_command_that_heeds_sigterm_has_the_grace_to_end_in_order() {
    let (deployment, proxies) = behind_proxies();
    // It goes on for more than half of the grace, which is twice what it would be by default.
    let script = "trap 'date +%s%3N > asked; sleep 1.5; echo in order; exit 0' TERM
        echo $TENURE_VALID_UNTIL_MS > begun; while :; do sleep 0.01; done";
    let run = ["run", "x", "--ttl", "5s", "--grace", "2500ms", "--wait", "15s", "--", "sh", "-c", script];
    let number = |file: &str| read_line(&deployment.folder().join(file)).parse::<u64>().unwrap();
    let (tool, until) = (0..5)
        .find_map(|_| {
            let _ = std::fs::remove_file(deployment.folder().join("begun"));
            let (tool, until) = (deployment.start(&run), number("begun"));
            proxies.iter().for_each(|proxy| proxy.set_both(Mode::Stall));
            // Before the first renewal, which would move the end.
            let in_time = now_ms() + 3_400 < until;
            if !in_time {
                proxies.iter().for_each(|proxy| proxy.set_both(Mode::Pass));
            }
            in_time.then_some((tool, until))
        })
        .expect("the machine was too slow to begin");
    let asked = until - number("asked");
    assert!((1_600..=2_510).contains(&asked), "it was asked to end {asked} ms before the end");
    let done = tool.done();
    assert_eq!(done.ends_with(79).stdout, "in order\n");
}

#[test]
fn what_the_command_leaves_in_its_group_ends_before_the_lock_is_released() {
    for deployment in deployments_and_service() {
        let script = "trap '' TERM; (while :; do sleep 600; done) & echo $! > left; exit 3";
        deployment.tenure(&["run", "x", "--", "sh", "-c", script]).ends_with(3);
        let left: u32 = read_line(&deployment.folder().join("left")).parse().unwrap();
        assert!(!is_alive(left));
    }
}

/// Ends what was started to outlive its test.
fn end(process: &str) {
    nix::sys::signal::kill(crate::deployment::pid(process.parse().unwrap()), Signal::SIGKILL).unwrap();
}

#[test]
fn a_process_that_is_about_to_leave_the_group_when_the_command_ends_gets_to_do_so() {
    let deployment = embedded_store();
    for _ in 0..10 {
        let script = "setsid sleep 600 > /dev/null 2>&1 & echo $! > left";
        deployment.tenure(&["run", "x", "--", "sh", "-c", script]).ends_with(0);
        let left = read_line(&deployment.folder().join("left"));
        assert!(is_alive(left.parse().unwrap()), "it was killed before it could leave");
        end(&left);
    }
}

/// The form that `docs/reference/cli.md` has for those who must be sure.
#[test]
fn a_command_can_wait_until_a_process_has_left_the_group() {
    let deployment = embedded_store();
    let script = "(sleep 1; exec setsid sleep 600) > /dev/null 2>&1 & echo $! > left
        until kill -s 0 -- -$! 2> /dev/null; do sleep 0.1; done";
    deployment.tenure(&["run", "x", "--", "sh", "-c", script]).ends_with(0);
    let left = read_line(&deployment.folder().join("left"));
    assert!(is_alive(left.parse().unwrap()));
    end(&left);
}

#[test]
fn whoever_left_the_group_and_ended_is_taken_in_while_the_command_runs() {
    let deployment = embedded_store();
    let script = "(setsid sh -c 'echo $$ > daemon.part; mv daemon.part daemon' &); exec sleep 600";
    let _tool = deployment.start(&["run", "x", "--", "sh", "-c", script]);
    let daemon = read_line(&deployment.folder().join("daemon"));
    wait_until(|| !std::path::Path::new("/proc").join(&daemon).exists());
}

#[test]
fn a_tool_that_is_killed_takes_its_command_along_before_the_lock_frees_itself() {
    for deployment in deployments_and_service() {
        let tool = deployment.start(&["run", "x", "--ttl", "2s", "--", "sh", "-c", &stubborn("started")]);
        let (command, grandchild, _) = started(&deployment, "started");
        tool.signal(Signal::SIGKILL);
        deployment.await_next("x", [command, grandchild]).sees_nobody();
    }
}

#[test]
fn a_tool_that_stands_still_takes_its_command_along_before_the_lock_is_over() {
    for deployment in deployments_and_service() {
        let tool = deployment.start(&["run", "x", "--ttl", "3s", "--", "sh", "-c", &stubborn("started")]);
        let (command, grandchild, _) = started(&deployment, "started");
        // It was renewed meanwhile, and the keeper knows. No renewal is under way: whoever stands
        // still while it writes to a store holds up everybody.
        std::thread::sleep(Duration::from_millis(3500));
        assert!(is_alive(command) && is_alive(grandchild));
        tool.signal(Signal::SIGSTOP);
        deployment.await_next("x", [command, grandchild]).sees_nobody();
        tool.signal(Signal::SIGCONT);
        let done = tool.done();
        assert!(done.ends_with(79).stderr.contains("was lost"), "{done:?}");
    }
}

#[test]
fn signals_are_forwarded_to_the_command() {
    for deployment in deployments_and_service() {
        for (signal, name) in [
            (Signal::SIGINT, "INT"),
            (Signal::SIGTERM, "TERM"),
            (Signal::SIGHUP, "HUP"),
            (Signal::SIGQUIT, "QUIT"),
            (Signal::SIGUSR1, "USR1"),
            (Signal::SIGUSR2, "USR2"),
        ] {
            let _ = std::fs::remove_file(deployment.folder().join("ready"));
            let script =
                format!("trap 'echo {name}; exit 9' {name}; touch ready; while :; do sleep 0.01; done");
            let tool = deployment.start(&["run", "x", "--", "sh", "-c", &script]);
            wait_until(|| deployment.folder().join("ready").exists());
            tool.signal(signal);
            assert_eq!(tool.done().ends_with(9).stdout.trim(), name);
        }
    }
}

#[test]
fn signals_that_whoever_started_us_ignores_stay_ignored() {
    for deployment in deployments_and_service() {
        let _ = std::fs::remove_file(deployment.folder().join("go"));
        let script = "touch ready; while ! test -e go; do sleep 0.01; done; grep SigIgn /proc/self/status";
        // As `nohup` does.
        let mut nohup = deployment.program("sh");
        nohup.args(["-c", "trap '' HUP; exec \"$0\" \"$@\"", TOOL, "run", "x", "--", "sh", "-c", script]);
        let tool = Background::start(nohup);
        wait_until(|| deployment.folder().join("ready").exists());
        tool.signal(Signal::SIGHUP);
        std::thread::sleep(Duration::from_millis(100));
        deployment.write("go", "");
        let done = tool.done();
        let mask = done.ends_with(0).stdout.trim().trim_start_matches("SigIgn:").trim().to_owned();
        assert_eq!(u64::from_str_radix(&mask, 16).unwrap() & 1, 1, "{done:?}");
    }
}

#[test]
fn a_lock_is_held_for_as_long_as_its_command_runs() {
    for deployment in deployments_and_service() {
        let holder = deployment.hold(&["x", "--ttl", "1s"]);
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(2500) {
            deployment.tenure(&["acquire", "x", "--quiet"]).ends_with(75);
        }
        holder.signal(Signal::SIGTERM);
        holder.done().ends_with(128 + Signal::SIGTERM as i32);
        deployment.tenure(&["acquire", "x"]).ends_with(0);
    }
}

#[test]
fn a_hold_can_be_limited() {
    for deployment in deployments_and_service() {
        let begun = Instant::now();
        // The last extension that fits ends well before the limit.
        let done = deployment.tenure(&[
            "run",
            "x",
            "--ttl",
            "1s",
            "--max-hold",
            "1900ms",
            "--json",
            "--",
            "sleep",
            "600",
        ]);
        assert!(begun.elapsed() < Duration::from_secs(60));
        let said: serde_json::Value = serde_json::from_str(&done.ends_with(79).stderr).unwrap();
        assert_eq!(said["error"], "max_hold", "{said}");
        let message = said["message"].as_str().unwrap();
        assert!(message.contains("--max-hold") && !message.contains("lost"), "{message}");
    }
}

#[test]
fn after_a_release_by_force_the_holder_does_not_claim_that_nobody_else_had_the_lock() {
    for deployment in deployments_and_service() {
        let holder = deployment.hold(&["x", "--ttl", "1s"]);
        deployment.tenure(&["release", "--force", "--yes", "x"]).ends_with(0);
        let done = holder.done();
        assert!(done.ends_with(79).stderr.contains("was lost"), "{done:?}");
        assert!(done.stderr.contains("another process may have held the lock"), "{done:?}");
        assert!(!done.stderr.contains("before another"), "{done:?}");
    }
}

#[test]
fn input_and_output_are_the_commands() {
    for deployment in deployments_and_service() {
        use std::io::Write;
        let mut command = deployment.command(&["run", "x", "--", "sh", "-c", "cat; echo noise >&2"]);
        command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut tool = command.stderr(std::process::Stdio::piped()).spawn().unwrap();
        tool.stdin.take().unwrap().write_all(b"through\0\xff").unwrap();
        let output = tool.wait_with_output().unwrap();
        assert_eq!(
            (output.stdout.as_slice(), output.stderr.as_slice()),
            (&b"through\0\xff"[..], &b"noise\n"[..])
        );
    }
}

#[test]
fn arguments_reach_the_command_as_they_were_given() {
    for deployment in deployments_and_service() {
        let arguments = ["run", "x", "--", "printf", "%s|", "--json", "a b", "--", "", "*", "-q"];
        assert_eq!(deployment.tenure(&arguments).stdout, "--json|a b|--||*|-q|");
    }
}
