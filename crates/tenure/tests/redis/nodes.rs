//! What is said about nodes: which are refused, which are doubtful, and what a user must be
//! allowed.

use std::io::{Read, Write};
use std::time::Instant;

use tenure::*;
use tenure_testkit::RedisServer;

use crate::support::*;

fn kinds(report: &NodeReport) -> Vec<(Severity, FindingKind)> {
    report.findings.iter().map(|finding| (finding.severity, finding.kind)).collect()
}

#[tokio::test]
async fn a_good_node_has_facts_and_no_findings() {
    let servers = durable_servers::<3>();
    let locks = connect(&servers).await;
    for (report, server) in locks.nodes().await.iter().zip(&servers) {
        assert!(report.node.contains(&server.port().to_string()));
        assert!(report.reachable && report.votes, "{report:?}");
        assert_eq!((report.role.clone(), report.persistence), (Role::Master, Persistence::Always));
        assert!(report.version.as_deref().unwrap().starts_with("redis 7."), "{report:?}");
        assert_eq!(report.incarnation.as_ref().unwrap().len(), 16);
        let round_trip_us = i64::try_from(report.round_trip.unwrap().as_micros()).unwrap();
        assert!(report.clock_offset_us.unwrap().abs() < 50_000 + round_trip_us, "{report:?}");
        assert_eq!((report.replicas, &report.eviction, report.quarantine_left), (0, &None, None));
        assert_eq!(report.findings, []);
    }
}

#[tokio::test]
async fn weak_persistence_eviction_and_replicas_are_reported_with_advice() {
    let limited = ["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"];
    let [none, snapshots, log] =
        [&limited[..], &["--save", "60 1"], &["--appendonly", "yes"]].map(RedisServer::start);
    let replica = RedisServer::start(&[]);
    replica.execute(&["REPLICAOF", "127.0.0.1", &none.port().to_string()]);
    let servers = [none, snapshots, log];
    until("it has a replica", || format!("{:?}", replica.execute(&["ROLE"])).contains("connected")).await;
    let locks = connect(&servers).await;
    let reports = locks.nodes().await;
    use FindingKind::{Eviction, Persistence, Replicas};
    let warn = |kind| (Severity::Warn, kind);
    assert_eq!(kinds(&reports[0]), [warn(Replicas), warn(Eviction), warn(Persistence)], "{:?}", reports[0]);
    assert_eq!(kinds(&reports[1]), [warn(Persistence)]);
    assert_eq!(kinds(&reports[2]), [warn(Persistence)]);
    assert!(reports.iter().all(|report| report.votes), "they are warnings");
    insta::assert_snapshot!(reports[0].findings[1], @"warn: it evicts keys when its memory is full (maxmemory-policy allkeys-lru). Set maxmemory-policy to noeviction: an evicted lock can be granted to someone else");
    // What is found now, not what was found when we connected.
    servers[0].execute(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    assert_eq!(locks.nodes().await[0].eviction, None);
    // In strict mode the first two are not tolerated.
    servers[0].execute(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    let strict = builder(servers.iter().map(RedisServer::url));
    let strict = strict.prefix("strict:").restart_guard(RestartGuard::Strict).build().unwrap();
    assert_eq!(kinds(&strict.nodes().await[0])[0], (Severity::Refuse, FindingKind::Unfit));
}

#[tokio::test]
async fn a_server_that_is_listed_twice_under_two_names_is_refused() {
    let servers = servers::<2>();
    let twice = servers[0].url().replace("127.0.0.1", "localhost");
    let locks = Locks::connect([servers[0].url(), servers[1].url(), twice]).await.unwrap();
    let reports = locks.nodes().await;
    assert_eq!(kinds(&reports[2])[0], (Severity::Refuse, FindingKind::Unfit), "{:?}", reports[2]);
    assert!(
        reports[2].findings[0].message.contains("node 3 is the same server as node 1"),
        "{:?}",
        reports[2]
    );
    assert!(!reports[2].votes);
    let error = locks.lock("x").try_acquire().await.unwrap_err();
    assert!(error.to_string().contains("the same server as node 1"), "{error}");
}

#[tokio::test]
async fn clients_with_other_settings_or_another_node_list_are_refused() {
    let servers = servers::<5>();
    let urls: Vec<String> = servers.iter().map(RedisServer::url).collect();
    let first = builder(&urls[..3]).build().unwrap();
    assert!(answer_of(&first.lock("x")).await.is_some());
    let same = builder(urls[..3].iter().rev()).build().unwrap();
    assert!(same.lock("x").acquire().await.is_ok(), "the order does not matter");
    for (other, expected) in [
        (builder(&urls[..3]).max_ttl(secs(61)), "max_ttl_ms is 60000 there and 61000 here"),
        (
            builder(&urls[..3]).restart_guard(RestartGuard::Off),
            "restart_guard is evidence there and off here",
        ),
        (builder(&urls[..3]).fence_retention(secs(60)), "retention_us is 86400000000 there"),
        (builder(&urls[..3]).fleet("blue"), "only in this client: blue#3"),
        (builder(&urls[2..]), "nodes only in that fleet: 127.0.0.1:"),
    ] {
        let other = other.build().unwrap();
        let error = other.lock("y").try_acquire().await.unwrap_err().to_string();
        assert!(error.contains("belongs to a fleet with other settings"), "{error}");
        assert!(error.contains(expected), "{error}");
        assert!(other.nodes().await.iter().any(|report| kinds(report)[0].0 == Severity::Refuse));
    }
    // Each prefix has its own settings, and a fleet with a name may have any addresses.
    let other = builder(&urls[..3]).prefix("other:").max_ttl(secs(61)).fleet("blue").build().unwrap();
    assert!(answer_of(&other.lock("x")).await.is_some());
    let renamed = urls[..3].iter().map(|url| url.replace("127.0.0.1", "localhost"));
    let renamed = builder(renamed).prefix("other:").max_ttl(secs(61)).fleet("blue").build().unwrap();
    assert!(answer_of(&renamed.lock("y")).await.is_some());
}

#[tokio::test]
async fn a_node_that_cannot_be_reached_is_reported_with_the_reason() {
    let mut servers = servers::<3>();
    let locks = connect(&servers).await;
    servers[1].kill();
    until("it is gone", || !servers[1].folder().join("nothing").exists()).await;
    tokio::time::sleep(ms(100)).await;
    let reports = locks.nodes().await;
    assert!(!reports[1].reachable && !reports[1].votes);
    assert_eq!(kinds(&reports[1]), [(Severity::Warn, FindingKind::Unreachable)]);
    let message = &reports[1].findings[0].message;
    assert!(message.contains("connection refused") || message.contains("closed the connection"), "{message}");
}

/// The list of `docs/how-to/run-nodes.md`, taken from there.
fn documented_rules() -> Vec<String> {
    let document = include_str!("../../../../docs/how-to/run-nodes.md");
    let (_, rest) = document.split_once("ACL SETUSER tenure on >password ").expect("the rule is documented");
    let (rules, _) = rest.split_once("\n```").unwrap();
    rules.split_whitespace().filter(|word| *word != "\\").map(str::to_owned).collect()
}

fn set_user(server: &RedisServer, rules: &[String]) -> String {
    let mut command = vec!["ACL", "SETUSER", "tenure", "on", ">password"];
    command.extend(rules.iter().map(String::as_str));
    server.execute(&command);
    server.url().replace("//", "//tenure:password@")
}

/// Waits for the other's labelled lock, which it gets sooner than by asking, and hands it to the
/// other.
async fn waits_is_woken_and_hands_over(holder: &Locks, waiter: &Locks) {
    let mut soonest = secs(9);
    for _ in 0..5 {
        let guard = holder.lock("x").label("nightly import").acquire().await.unwrap();
        let waiting = tokio::spawn(waiter.lock("x").label("next").wait(secs(10)).acquire());
        while holder.inspect("x").await.unwrap().waiters != Some(1) {
            tokio::time::sleep(ms(5)).await;
        }
        let LockState::Held { label, .. } = waiter.inspect("x").await.unwrap().state else { panic!("held") };
        assert!(label.as_deref().unwrap().ends_with("nightly import"), "{label:?}");
        let released = Instant::now();
        guard.release().await.unwrap();
        let guard = waiting.await.unwrap().unwrap();
        soonest = soonest.min(released.elapsed());
        let guard = holder.resume(&guard.hand_over()).await.unwrap();
        guard.release().await.unwrap();
    }
    assert!(soonest < ms(100), "woken, not found by asking every 200 ms: {soonest:?}");
}

/// Every operation works, nothing is missing, and no right is there that is not needed.
#[tokio::test]
async fn a_user_with_the_documented_rights_can_do_everything() {
    let mut servers = servers::<3>();
    let rules = documented_rules();
    assert!(rules.len() > 10, "{rules:?}");
    let urls: Vec<String> = servers.iter().map(|server| set_user(server, &rules)).collect();
    let locks = builder(&urls).max_ttl(secs(2)).build().unwrap();
    let permissions = |reports: Vec<NodeReport>| {
        let kinds: Vec<FindingKind> = reports.iter().flat_map(kinds).map(|(_, kind)| kind).collect();
        kinds.contains(&FindingKind::Permission)
    };
    let reports = locks.nodes().await;
    assert!(!permissions(reports.clone()), "{reports:?}");
    for lock in [locks.lock("x"), locks.lock("x").unfenced()] {
        let mut guard = lock.acquire().await.unwrap();
        guard.extend().await.unwrap();
        assert!(answer_of(&lock).await.is_none());
        assert!(locks.inspect("x").await.unwrap().nodes.iter().all(|node| node.holding.is_ok()));
        assert!(locks.list().await.unwrap().nodes.iter().all(|node| node.told.is_ok()));
        // A node that was emptied is healed; a script cache that was emptied is no obstacle.
        servers[0].execute(&["SCRIPT", "FLUSH"]);
        servers[0].execute(&["DEL", "tenure:x"]);
        guard.extend().await.unwrap();
        until("it is healed", || servers[0].get("tenure:x").is_some()).await;
        guard.release().await.unwrap();
    }
    // Those that others may hold, too.
    for lock in [locks.lock("x").shared(), locks.lock("x").owner("job").label("job")] {
        let (mut guard, second) = (lock.acquire().await.unwrap(), lock.acquire().await.unwrap());
        guard.extend().await.unwrap();
        assert!(locks.inspect("x").await.unwrap().nodes.iter().all(|node| node.holding.is_ok()));
        assert!(locks.list().await.unwrap().nodes.iter().all(|node| node.told.is_ok()));
        servers[0].execute(&["DEL", "tenure:x"]);
        guard.extend().await.unwrap();
        let exists = || servers[0].execute(&["EXISTS", "tenure:x"]) == tenure_testkit::Value::Int(1);
        until("it is healed", exists).await;
        second.release().await.unwrap();
        guard.release().await.unwrap();
    }
    waits_is_woken_and_hands_over(&locks, &builder(&urls).max_ttl(secs(2)).build().unwrap()).await;
    locks.shutdown().await.unwrap();
    // A lock was handed over while the last node had not answered its first owner yet: what that
    // one sets there after the next owner's release frees itself.
    until("nothing is left", || keys(&servers).is_empty()).await;
    // After a broken connection as well, with a new record.
    servers[1].execute(&["CLIENT", "KILL", "USER", "tenure"]);
    servers[2].restart_empty();
    set_user(&servers[2], &rules);
    let locks = builder(&urls).max_ttl(secs(2)).build().unwrap();
    all_vote(&locks).await;
    let log = format!("{:?}", servers[0].execute(&["ACL", "LOG"]));
    assert!(!log.contains("tenure:") && !log.contains("tenure~"), "nothing was denied: {log}");
    // And no more than that: another prefix, other keys and administration stay closed.
    let other = builder(&urls).prefix("other:").build().unwrap();
    assert!(other.lock("x").try_acquire().await.unwrap_err().to_string().contains("NOPERM"));
    for denied in [&["FLUSHALL"][..], &["GET", "secret"], &["CONFIG", "SET", "save", ""], &["KEYS", "*"]] {
        let mut dry = vec!["ACL", "DRYRUN", "tenure"];
        dry.extend(denied);
        let answer = format!("{:?}", servers[0].execute(&dry));
        assert!(answer.contains("no permissions"), "{denied:?}: {answer}");
    }
}

#[tokio::test]
async fn a_user_without_info_can_lock_and_is_told_which_protection_is_off() {
    let servers = servers::<3>();
    let mut rules = documented_rules();
    rules.retain(|rule| !["+info", "+config|get", "+client|tracking"].contains(&rule.as_str()));
    assert_eq!(rules.len(), documented_rules().len() - 3);
    let urls: Vec<String> = servers.iter().map(|server| set_user(server, &rules)).collect();
    let locks = builder(&urls).build().unwrap();
    for lock in [locks.lock("x"), locks.lock("x").unfenced()] {
        let mut guard = lock.acquire().await.unwrap();
        guard.extend().await.unwrap();
        guard.release().await.unwrap();
    }
    let report = &locks.nodes().await[0];
    assert_eq!(kinds(report), [(Severity::Warn, FindingKind::Permission); 3]);
    let messages: Vec<&str> = report.findings.iter().map(|finding| finding.message.as_str()).collect();
    insta::assert_snapshot!(messages.join("\n"), @r"
    INFO is not permitted: a restart that kept part of the data, a failover, replicas, eviction and a server listed twice go unnoticed
    CONFIG GET is not permitted: even a server that syncs every write is quarantined
    CLIENT TRACKING is not permitted: a node that copies another's data while connected goes unnoticed
    ");
    // A memory that was lost as a whole is still noticed: the record is gone with it.
    servers[0].execute(&["FLUSHALL"]);
    assert!(locks.lock("y").acquire().await.is_ok());
    until("it is noticed", || true).await;
    let mut left = None;
    for _ in 0..100 {
        left = locks.nodes().await[0].quarantine_left;
        if left.is_some() {
            break;
        }
        tokio::time::sleep(ms(20)).await;
    }
    assert!(left.is_some());
}

#[tokio::test]
async fn a_user_who_cannot_be_woken_waits_by_asking_and_is_told_so() {
    for missing in ["+subscribe", "&tenure~wake:*"] {
        let servers = servers::<3>();
        let mut rules = documented_rules();
        rules.retain(|rule| rule != missing);
        assert_eq!(rules.len(), documented_rules().len() - 1);
        let urls: Vec<String> = servers.iter().map(|server| set_user(server, &rules)).collect();
        let (holder, waiter) = (builder(&urls).build().unwrap(), builder(&urls).build().unwrap());
        for report in waiter.nodes().await {
            assert_eq!(
                kinds(&report),
                [(Severity::Warn, FindingKind::Persistence), (Severity::Warn, FindingKind::Permission)]
            );
            let message = &report.findings[1].message;
            assert!(message.starts_with("SUBSCRIBE is not permitted: waiters are not woken"), "{message}");
        }
        let guard = holder.lock("x").acquire().await.unwrap();
        let mut waiting = vec![];
        for _ in 0..2 {
            let lock = waiter.lock("x").wait(secs(20));
            waiting.push(tokio::spawn(async move { lock.acquire().await.unwrap().release().await }));
        }
        while holder.inspect("x").await.unwrap().waiters != Some(2) {
            tokio::time::sleep(ms(5)).await;
        }
        let released = Instant::now();
        guard.release().await.unwrap();
        for waiting in waiting {
            waiting.await.unwrap().unwrap();
        }
        assert!(released.elapsed() < secs(15), "{missing}: {:?}", released.elapsed());
    }
}

/// A server that is short of memory throws keys away before it executes a command, and here that is
/// one of ours. Without a word from it the record would be missed at the next look, five seconds
/// later.
#[tokio::test]
async fn a_record_that_is_evicted_by_our_own_command_is_missed_at_once() {
    let servers = servers::<1>();
    let locks = connect(&servers).await;
    all_vote(&locks).await;
    // The look that comes every five seconds is over, so that the next one is far off.
    locks.lock("x").acquire().await.unwrap().release().await.unwrap();
    // Setting the limit would make the server evict by itself; setting what it may evict does not.
    servers[0].execute(&["CONFIG", "SET", "maxmemory", "1"]);
    servers[0].execute(&["CONFIG", "SET", "maxmemory-policy", "allkeys-random"]);
    let evicted = Instant::now();
    locks.lock("x").try_acquire().await.unwrap_err();
    while locks.nodes().await[0].votes {
        assert!(evicted.elapsed() < secs(3), "nobody has noticed that the record is gone");
        tokio::time::sleep(ms(5)).await;
    }
    // When there is room again it is told as well of what others do to the record that it writes.
    servers[0].execute(&["CONFIG", "SET", "maxmemory", "0"]);
    let mut left = None;
    while left.is_none() {
        assert!(evicted.elapsed() < secs(10), "no record was written");
        left = locks.nodes().await[0].quarantine_left;
    }
    let incarnation = locks.nodes().await[0].incarnation.clone();
    servers[0].execute(&["DEL", "tenure~node:{tenure:}"]);
    let deleted = Instant::now();
    while locks.nodes().await[0].incarnation == incarnation {
        assert!(deleted.elapsed() < secs(3), "nobody has noticed that the record is gone");
        tokio::time::sleep(ms(5)).await;
    }
}

/// Some servers that speak the protocol leave out of `INFO` what tells one process from the next.
#[tokio::test]
async fn a_server_that_does_not_say_who_it_is_is_reported_and_refused_where_the_guard_is_strict() {
    let server = RedisServer::start(&["--appendonly", "yes", "--appendfsync", "always"]);
    let url = format!("redis://127.0.0.1:{}", forward_without(server.port(), b"run_id:"));
    let locks = builder([&url]).build().unwrap();
    drop(locks.lock("x").acquire().await.unwrap());
    let report = locks.nodes().await.remove(0);
    assert_eq!(kinds(&report), [(Severity::Warn, FindingKind::Identity)]);
    insta::assert_snapshot!(report.findings[0].message, @"INFO does not identify the server (run_id, master_replid): a restart that kept part of the data, a failover and a server listed twice go unnoticed");
    let strict = builder([&url]).prefix("strict:").restart_guard(RestartGuard::Strict).build().unwrap();
    let report = strict.nodes().await.remove(0);
    assert_eq!(kinds(&report)[0], (Severity::Refuse, FindingKind::Unfit), "{report:?}");
    assert!(!report.votes);
}

/// A port that leads to the server's, where this word reads otherwise in what the server says.
fn forward_without(port: u16, word: &'static [u8]) -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let forwarded = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let server = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
            let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut from, &mut to));
            std::thread::spawn(move || {
                let (mut server, mut client, mut bytes) = (server, client, vec![0; 1 << 16]);
                while let Ok(count @ 1..) = server.read(&mut bytes) {
                    while let Some(at) = bytes[..count].windows(word.len()).position(|part| part == word) {
                        bytes[at] = b'?';
                    }
                    if client.write_all(&bytes[..count]).is_err() {
                        break;
                    }
                }
            });
        }
    });
    forwarded
}
