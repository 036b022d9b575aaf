//! Processes that share an embedded store.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tenure::Locks;
use tenure_testkit::{Client, skip};

use crate::turn;

const PROGRAM: &str = env!("CARGO_BIN_EXE_testclient");
const TTL: Duration = Duration::from_millis(1_000);

/// The store keeps a key this much longer than its ttl.
const GUARD_BAND: Duration = Duration::from_millis(100);

/// How late it may be noticed, the quickest time of three.
const SLACK: Duration = Duration::from_millis(400);

fn store() -> (TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("locks.db").display());
    (folder, url)
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn holder(url: &str) -> (Client, u64) {
    let mut client = Client::start_talking(PROGRAM, ["hold", "1000", url]);
    let fence = client.hear().parse().unwrap();
    (client, fence)
}

#[test]
fn two_processes_exclude_each_other_and_their_fences_grow() {
    let _turn = turn();
    let (_folder, url) = store();
    runtime().block_on(async {
        let locks = Locks::connect([&url]).await.unwrap();
        let guard = locks
            .lock("held")
            .try_acquire()
            .await
            .unwrap()
            .expect("a new store gives its first lock at once");
        let mut last = guard.fence().get();
        guard.release().await.unwrap();
        for _ in 0..5 {
            let (mut client, fence) = holder(&url);
            assert!(fence > last, "{fence} comes after {last}");
            assert!(locks.lock("held").try_acquire().await.unwrap().is_none(), "the other process has it");
            client.say("release");
            assert_eq!(client.hear(), "1");
            assert!(client.succeeds());
            let guard = locks.lock("held").try_acquire().await.unwrap().expect("it is free");
            assert!(guard.fence().get() > fence);
            last = guard.fence().get();
            guard.release().await.unwrap();
        }
    });
}

#[test]
fn the_lock_of_a_process_killed_with_sigkill_is_free_after_its_ttl_and_guard_band() {
    let _turn = turn();
    let (_folder, url) = store();
    runtime().block_on(async {
        let locks = Locks::connect([&url]).await.unwrap();
        let mut soonest = Duration::MAX;
        for _ in 0..3 {
            let (mut client, fence) = holder(&url);
            tokio::time::sleep(Duration::from_millis(100)).await;
            client.kill();
            let killed = Instant::now();
            let guard = locks.lock("held").wait(TTL * 5).acquire().await.unwrap();
            println!("free {:?} after the kill", killed.elapsed());
            soonest = soonest.min(killed.elapsed());
            assert!(guard.fence().get() > fence);
            guard.release().await.unwrap();
        }
        assert!(soonest < TTL + GUARD_BAND + SLACK, "free after {soonest:?}");
    });
}

/// A limit on the size of files does to a store what a full disk does.
#[test]
fn a_disk_that_is_full_gives_a_clear_error_and_no_lock_that_is_not_on_it() {
    let _turn = turn();
    let (_folder, url) = store();
    let script = "trap '' XFSZ; ulimit -f 300; exec \"$@\"";
    let mut client = Client::start_talking("sh", ["-c", script, "sh", PROGRAM, "fill", &url]);
    let mut granted = vec![];
    let error = loop {
        let line = client.hear();
        match line.strip_prefix("failed: ") {
            Some(error) => break error.to_owned(),
            None => granted.push(line),
        }
    };
    println!("{} locks, then: {error}", granted.len());
    assert!(granted.len() > 3 && error.contains("locks.db cannot be"), "{error}");
    runtime().block_on(async {
        let locks = Locks::connect([&url]).await.unwrap();
        for name in &granted {
            assert!(locks.lock(name).try_acquire().await.unwrap().is_none(), "{name} was given away");
        }
        let next = granted.len().to_string();
        assert!(locks.lock(next).try_acquire().await.unwrap().is_some(), "there is room again");
    });
}

#[test]
fn whatever_a_process_was_given_before_it_was_killed_is_still_held() {
    let _turn = turn();
    for count in [1, 2, 7, 20, 50] {
        let (_folder, url) = store();
        let mut client = Client::start_talking(PROGRAM, ["fill", &url]);
        // It goes on while we listen, and is killed somewhere in the middle of the next ones.
        let granted: Vec<String> = (0..count).map(|_| client.hear()).collect();
        client.kill();
        runtime().block_on(async {
            let locks = Locks::connect([&url]).await.unwrap();
            for name in &granted {
                assert!(
                    locks.lock(name).try_acquire().await.unwrap().is_none(),
                    "{name} of {count} was given away"
                );
            }
            assert!(locks.lock("another").try_acquire().await.unwrap().is_some());
        });
    }
}

/// What a process says that takes a lock in the default store, in this environment.
fn in_default_store(environment: &[(&str, &Path)]) -> String {
    let mut command = Command::new(PROGRAM);
    command.arg("default");
    for name in ["XDG_STATE_HOME", "STATE_DIRECTORY", "HOME"] {
        command.env_remove(name);
    }
    command.envs(environment.iter().copied());
    let mut ask = || String::from_utf8(command.output().unwrap().stdout).unwrap();
    // A disk that others keep busy may need several tries.
    let mut answers = std::iter::repeat_with(&mut ask).take(20);
    let answered = answers.find(|said| !said.contains("unreachable: no answer"));
    answered.expect("twenty tries, and no answer of the disk in time")
}

#[test]
fn the_default_store_is_made_for_its_user_alone_and_refused_where_others_may_enter() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().canonicalize().unwrap();
    let mode_of = |path: &Path| path.symlink_metadata().unwrap().permissions().mode() & 0o777;
    let state = home.join("state");
    let inner = state.join("tenure");
    let said = in_default_store(&[("XDG_STATE_HOME", &state), ("HOME", &home)]);
    assert_eq!(said, format!("sqlite:{} true\n", inner.join("locks.db").display()));
    assert_eq!((mode_of(&inner), mode_of(&inner.join("locks.db"))), (0o700, 0o600));
    let said = in_default_store(&[("HOME", &home)]);
    assert_eq!(said, format!("sqlite:{} true\n", home.join(".local/state/tenure/locks.db").display()));
    std::fs::set_permissions(&inner, Permissions::from_mode(0o755)).unwrap();
    assert!(in_default_store(&[("XDG_STATE_HOME", &state)]).contains("is accessible to others"));
    std::fs::rename(&inner, home.join("moved")).unwrap();
    std::os::unix::fs::symlink(home.join("moved"), &inner).unwrap();
    assert!(in_default_store(&[("XDG_STATE_HOME", &state)]).contains("is a symbolic link"));
    // As systemd says, where a service has no home.
    let service = home.join("service");
    std::fs::create_dir(&service).unwrap();
    std::fs::set_permissions(&service, Permissions::from_mode(0o700)).unwrap();
    let said = in_default_store(&[("STATE_DIRECTORY", &service)]);
    assert!(said.contains(service.to_str().unwrap()) && said.ends_with(" true\n"), "{said}");
    // A folder above may be a link: people move their state elsewhere.
    let linked = home.join("linked");
    std::os::unix::fs::symlink(home.join(".local/state"), &linked).unwrap();
    let said = in_default_store(&[("XDG_STATE_HOME", &linked)]);
    assert_eq!(said, format!("sqlite:{} true\n", home.join(".local/state/tenure/locks.db").display()));
}

/// Only root can mount, so elsewhere there is nothing to see.
#[test]
fn a_file_that_is_mounted_without_the_log_beside_it_is_refused() {
    let (folder, url) = store();
    runtime().block_on(async { Locks::connect([&url]).await.unwrap().ready().await });
    let state = tempfile::tempdir().unwrap();
    let inner = state.path().join("tenure");
    std::fs::create_dir(&inner).unwrap();
    std::fs::set_permissions(&inner, Permissions::from_mode(0o700)).unwrap();
    let target = inner.join("locks.db");
    std::fs::write(&target, "").unwrap();
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", "mount --bind \"$1\" \"$2\" && exec \"$3\" default", "sh"]);
    command.arg(folder.path().join("locks.db")).arg(&target).arg(PROGRAM).env("XDG_STATE_HOME", state.path());
    match command.output() {
        Ok(said) if !said.stdout.is_empty() => {
            let said = String::from_utf8(said.stdout).unwrap();
            assert!(said.contains("is mounted on its own"), "{said}");
        }
        _ => skip("this user may not mount"),
    }
}

fn number_in(file: &Path) -> u32 {
    std::fs::read_to_string(file).unwrap().parse().unwrap()
}

/// `TENURE_ROUNDS` makes it a longer run.
#[test]
fn of_32_processes_on_one_store_none_loses_an_increment() {
    let _turn = turn();
    let (folder, url) = store();
    let file = folder.path().join("counter");
    std::fs::write(&file, "0").unwrap();
    let rounds = std::env::var("TENURE_ROUNDS").unwrap_or_else(|_| "25".to_owned());
    let arguments = ["increment", file.to_str().unwrap(), &rounds, &url];
    let start = Instant::now();
    let mut clients: Vec<Client> = (0..32).map(|_| Client::start(PROGRAM, arguments)).collect();
    assert!(clients.iter_mut().all(Client::succeeds), "every client did its work");
    println!("32 processes, {rounds} increments each, in {:?}", start.elapsed());
    assert_eq!(number_in(&file), 32 * rounds.parse::<u32>().unwrap());
}

#[test]
fn holders_that_are_killed_lose_nothing_and_hold_nobody_up_for_longer_than_their_term() {
    let _turn = turn();
    let (folder, url) = store();
    let file = folder.path().join("counter");
    std::fs::write(&file, "0").unwrap();
    let arguments = ["increment", file.to_str().unwrap(), "40", &url];
    let start = Instant::now();
    let mut clients: Vec<Client> = (0..8).map(|_| Client::start(PROGRAM, arguments)).collect();
    let kills = 3;
    for _ in 0..kills {
        let mut victim = Client::start_talking(PROGRAM, ["grab", "counter", "500", &url]);
        victim.hear();
        victim.kill();
    }
    assert!(clients.iter_mut().all(Client::succeeds), "every client did its work");
    println!("320 increments and {kills} kills in {:?}", start.elapsed());
    assert_eq!(number_in(&file), 8 * 40);
}

#[test]
fn a_waiter_in_another_process_is_woken_within_20_milliseconds_in_the_middle() {
    let _turn = turn();
    let (_folder, url) = store();
    let (mut took, mut cycles): (Vec<Duration>, Vec<Duration>) = (vec![], vec![]);
    runtime().block_on(async {
        let locks = Locks::connect([&url]).await.unwrap();
        for _ in 0..21 {
            let (mut client, _) = holder(&url);
            let waiter = locks.lock("held").wait_forever();
            let waiter = tokio::spawn(async move { (waiter.acquire().await.unwrap(), Instant::now()) });
            tokio::time::sleep(Duration::from_millis(30)).await;
            let start = Instant::now();
            client.say("release");
            let (guard, served) = waiter.await.unwrap();
            took.push(served - start);
            guard.release().await.unwrap();
            // What this machine and its disk need for a lock that is free.
            let start = Instant::now();
            locks.lock("beside").acquire().await.unwrap().release().await.unwrap();
            cycles.push(start.elapsed());
        }
    });
    let middle = |times: &mut Vec<Duration>| {
        times.sort_unstable();
        times[times.len() / 2]
    };
    let (woken, beside) = (middle(&mut took), middle(&mut cycles));
    println!("woken: p50 {woken:?}, max {:?}; a lock and its release: p50 {beside:?}", took[took.len() - 1]);
    // Whoever is not woken asks every 200 ms.
    assert!(woken < Duration::from_millis(20) + 3 * beside, "{took:?} beside {beside:?}");
}
