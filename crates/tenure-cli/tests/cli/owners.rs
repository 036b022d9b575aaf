//! Reentrant locks, by the tool: one owner holds a lock several times, and everybody else is kept
//! out. On nodes, in a file, and by a service.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tenure_testkit::RedisServer;

use crate::deployment::{
    Deployment, TOOL, deployments_and_service, five_redis_nodes, now_ms, token, wait_until,
};

/// What a shell says in which the tool is `$tenure`.
#[track_caller]
fn lines_of(deployment: &Deployment, arguments: &[&str]) -> Vec<String> {
    let done = deployment.command(arguments).env("tenure", TOOL).output().unwrap();
    assert!(done.status.success(), "{done:?}");
    String::from_utf8(done.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn a_nested_run_of_the_same_owner_gets_the_lock_again_with_the_same_fence() {
    for deployment in deployments_and_service() {
        let inner = "echo $TENURE_FENCE; $tenure run x --owner job-2 -q -- true; echo $?";
        let outer = format!(
            "echo $TENURE_FENCE; $tenure run x --owner \"$TENURE_OWNER\" -- sh -c '{inner}'; \
             $tenure run x --owner job-2 -q -- true; echo $?; \
             $tenure status x --json"
        );
        let said = lines_of(&deployment, &["run", "x", "--owner", "job-1", "--", "sh", "-c", &outer]);
        let [outer, inner, beside_both, beside_one, status] = &said[..] else { panic!("{said:?}") };
        assert!(outer == inner && outer.parse::<u64>().unwrap() > 0, "{said:?}");
        assert_eq!((&**beside_both, &**beside_one), ("75", "75"));
        let status: serde_json::Value = serde_json::from_str(status).unwrap();
        assert_eq!((&status["holds"], &status["owner"]), (&1.into(), &"job-1".into()), "{status}");
        // Both have ended: it is free, for another owner and for whoever has none.
        wait_until(|| deployment.tenure(&["run", "x", "--owner", "job-2", "--", "true"]).code == Some(0));
        wait_until(|| deployment.tenure(&["run", "x", "--", "true"]).code == Some(0));
    }
}

#[test]
fn an_owner_that_has_the_lock_gets_it_again_ahead_of_those_who_wait() {
    for deployment in deployments_and_service() {
        let holder = deployment.hold(&["x", "--owner", "job-1"]);
        let waiter =
            deployment.start(&["run", "x", "--owner", "job-2", "--wait", "60s", "--", "echo", "my turn"]);
        wait_until(|| deployment.json(&["status", "x", "--json"]).0["waiters"] == 1);
        deployment.tenure(&["run", "x", "--owner", "job-1", "--", "true"]).ends_with(0);
        deployment.tenure(&["run", "x", "--owner", "job-2", "--", "true"]).ends_with(75);
        holder.signal(Signal::SIGTERM);
        holder.done();
        let done = waiter.done();
        assert_eq!((done.code, done.stdout.trim()), (Some(0), "my turn"), "{done:?}");
    }
}

#[test]
fn a_script_holds_a_lock_again_by_its_owner_and_releases_each_hold_by_its_token() {
    for deployment in deployments_and_service() {
        let acquire = |owner: &str| deployment.json(&["acquire", "x", "--owner", owner, "--json"]);
        let (first, code) = acquire("job-1");
        assert_eq!(code, Some(0), "{first}");
        let (second, _) = acquire("job-1");
        assert_eq!(first["fence"], second["fence"]);
        assert_ne!(token(&first), token(&second));
        assert_eq!(acquire("job-2").1, Some(75));
        let (longer, code) = deployment.json(&["extend", "x", "--token", token(&first), "--json"]);
        assert_eq!(code, Some(0), "{longer}");
        for lease in [&longer, &second] {
            assert_eq!(acquire("job-2").1, Some(75));
            deployment.tenure(&["release", "x", "--token", token(lease)]).ends_with(0);
        }
        let (next, code) = acquire("job-2");
        assert_eq!(code, Some(0), "{next}");
        assert!(next["fence"].as_u64() > first["fence"].as_u64(), "{next}");
    }
}

#[test]
fn status_and_ls_tell_the_owner_and_how_often_it_holds_the_lock() {
    for deployment in deployments_and_service() {
        for _ in 0..2 {
            deployment.tenure(&["acquire", "x", "--owner", "job-1", "--label", "me"]).ends_with(0);
        }
        for arguments in [&["status", "x", "--json"][..], &["ls", "--json"]] {
            let (status, _) = deployment.json(arguments);
            assert_eq!((&status["kind"], &status["owner"]), (&"reentrant".into(), &"job-1".into()));
            assert_eq!((&status["holds"], &status["readers"]), (&2.into(), &().into()), "{status}");
        }
        for command in [&["status", "x"][..], &["ls"]] {
            let said = deployment.tenure(command).stdout;
            let holder = said.split("owner job-1, 2 holds, including ").nth(1);
            assert!(holder.is_some_and(|holder| holder.lines().next().unwrap().ends_with(" me")), "{said}");
        }
        deployment.tenure(&["acquire", "plain"]).ends_with(0);
        let (plain, _) = deployment.json(&["status", "plain", "--json"]);
        assert_eq!((&plain["kind"], &plain["owner"]), (&"plain".into(), &().into()), "{plain}");
        let (free, _) = deployment.json(&["status", "free", "--json"]);
        assert_eq!((&free["kind"], &free["holds"]), (&().into(), &().into()), "{free}");
    }
}

#[test]
fn a_release_by_force_ends_all_holds_of_the_owner() {
    for deployment in deployments_and_service() {
        for _ in 0..3 {
            deployment.tenure(&["acquire", "x", "--owner", "job-1"]).ends_with(0);
        }
        let done = deployment.tenure(&["release", "--force", "--yes", "x"]);
        let warned = "taking \"x\" from all 3 holds of owner job-1 (including ";
        assert!(done.stderr.contains(warned), "{done:?}");
        done.ends_with(0);
        deployment.tenure(&["acquire", "x"]).ends_with(0);
    }
}

/// An owner may be called like the token of an attempt.
#[test]
fn an_owner_may_be_the_hash_of_a_commit() {
    let commit = "e2b8ec54a4a17f43ec0553553388453f5038484a";
    for deployment in deployments_and_service() {
        deployment.tenure(&["acquire", "x", "--owner", commit]).ends_with(0);
        deployment.tenure(&["run", "x", "--owner", commit, "--", "true"]).ends_with(0);
        deployment.tenure(&["run", "x", "--owner", "another", "--", "true"]).ends_with(75);
        deployment.tenure(&["release", "--force", "--yes", "x"]).ends_with(0);
        deployment.tenure(&["run", "x", "--owner", "another", "--", "true"]).ends_with(0);
    }
}

#[test]
fn a_reentrant_lock_of_another_library_is_seen_and_left_alone() {
    let deployment = five_redis_nodes();
    let id = "285475da-9152-4c83-822a-67ee2f116a79:52";
    let redisson = |server: &RedisServer| {
        server.execute(&["HSET", "tenure:x", id, "2"]);
        server.execute(&["PEXPIRE", "tenure:x", "60000"]);
    };
    deployment.servers.iter().for_each(redisson);
    let (status, _) = deployment.json(&["status", "x", "--json"]);
    assert_eq!((&status["state"], &status["kind"]), (&"held".into(), &"reentrant".into()), "{status}");
    assert_eq!((&status["owner"], &status["holds"]), (&id.into(), &2.into()), "{status}");
    let said = deployment.tenure(&["status", "x"]).stdout;
    assert!(said.contains(&format!("holder   owner {id}, 2 holds\n")), "{said}");
    deployment.tenure(&["run", "x", "--owner", "job-1", "--", "true"]).ends_with(75);
    let refused = deployment.tenure(&["release", "--force", "--yes", "x"]);
    assert!(refused.stderr.contains("another library"), "{refused:?}");
    refused.ends_with(1);
    assert_eq!(deployment.json(&["release", "--force", "x", "--json"]).0["error"], "foreign");
    assert_eq!(deployment.json(&["status", "x", "--json"]).0["holds"], 2);
}

#[test]
fn a_name_that_is_used_for_another_kind_of_lock_is_64_at_once() {
    for deployment in deployments_and_service() {
        deployment.tenure(&["acquire", "plain"]).ends_with(0);
        deployment.tenure(&["acquire", "read", "--shared"]).ends_with(0);
        deployment.tenure(&["acquire", "owned", "--owner", "job-1"]).ends_with(0);
        for (arguments, advice) in [
            (&["plain", "--owner", "job-1"][..], "remove --owner"),
            (&["read", "--owner", "job-1"], "remove --owner"),
            (&["owned"], "add --owner ID"),
            (&["owned", "--shared"], "add --owner ID"),
        ] {
            for wait in [&[][..], &["--wait", "60s"]] {
                let begun = Instant::now();
                let mut all = vec!["run", "-E", "0"];
                all.extend(arguments.iter().chain(wait));
                all.extend(["--", "true"]);
                let refused = deployment.tenure(&all);
                assert!(
                    refused.stderr.contains(advice) && refused.stderr.lines().count() == 1,
                    "{refused:?}"
                );
                refused.ends_with(64);
                assert!(begun.elapsed() < Duration::from_secs(30), "nothing is waited for");
            }
            let mut all = vec!["acquire", "--json"];
            all.extend(arguments);
            let (refused, code) = deployment.json(&all);
            assert_eq!((&refused["error"], code), (&"other_kind".into(), Some(64)), "{refused}");
            assert_eq!(refused["name"], arguments[0]);
            assert!(refused["votes"].as_array().unwrap().iter().any(|vote| vote["vote"] == "refused"));
        }
    }
}

#[test]
fn a_key_of_another_program_is_no_lock() {
    let deployment = five_redis_nodes();
    for server in &deployment.servers {
        server.execute(&["RPUSH", "tenure:x", "1"]);
    }
    let refused = deployment.tenure(&["run", "x", "--owner", "job-1", "--wait", "60s", "--", "true"]);
    assert!(refused.stderr.contains("another program's key"), "{refused:?}");
    refused.ends_with(64);
}

#[test]
fn an_owner_that_cannot_be_one_is_wrong_usage() {
    for deployment in deployments_and_service() {
        let long = "x".repeat(129);
        for (owner, advice) in [
            ("", "1 to 128 bytes"),
            (&*long, "1 to 128 bytes"),
            ("two words", "must not contain spaces"),
            ("a\tb", "must not contain spaces"),
        ] {
            let refused = deployment.tenure(&["run", "x", "--owner", owner, "--", "true"]);
            assert!(refused.stderr.contains(advice), "{refused:?}");
            refused.ends_with(64);
        }
        let both = deployment.tenure(&["acquire", "x", "--owner", "job-1", "--shared"]);
        assert!(both.stderr.contains("--owner <ID>") && both.stderr.contains("--shared"), "{both:?}");
        both.ends_with(64);
        deployment.tenure(&["run", "x", "--owner", &"x".repeat(128), "--", "true"]).ends_with(0);
    }
}

#[test]
fn a_command_is_told_its_own_owner_and_no_other() {
    for deployment in deployments_and_service() {
        let inner = "$tenure run y -- sh -c 'echo ${TENURE_OWNER-none}'; echo $TENURE_OWNER";
        let said = lines_of(&deployment, &["run", "x", "--owner", "job-1", "--", "sh", "-c", inner]);
        assert_eq!(said, ["none", "job-1"]);
    }
}

/// The keeper of one hold releases that one alone.
#[test]
fn a_run_that_is_killed_frees_its_own_hold_and_the_other_goes_on() {
    for deployment in deployments_and_service() {
        let begun = now_ms();
        let [one, other] = [0, 1].map(|_| deployment.hold(&["x", "--owner", "job-1", "--ttl", "60s"]));
        let holds = || deployment.json(&["status", "x", "--json"]).0["holds"].clone();
        assert_eq!(holds(), 2);
        one.signal(Signal::SIGKILL);
        one.done();
        wait_until(|| holds() == 1);
        deployment.tenure(&["run", "x", "--owner", "job-2", "--", "true"]).ends_with(75);
        other.signal(Signal::SIGKILL);
        other.done();
        wait_until(|| deployment.tenure(&["run", "x", "--owner", "job-2", "--", "true"]).code == Some(0));
        assert!(now_ms() - begun < 55_000, "nobody waits for the ttl");
    }
}
