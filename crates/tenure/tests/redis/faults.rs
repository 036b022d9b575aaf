//! Lost messages, broken servers and wrong settings, on real Redis servers.

use std::time::Instant;

use tenure::*;
use tenure_testkit::{Direction, Mode, Proxy, RedisServer};

use crate::support::*;

fn proxies(servers: &[RedisServer]) -> Vec<Proxy> {
    servers.iter().map(|server| Proxy::start(server.port())).collect()
}

/// Requests or replies of two nodes are lost: the attempt is given up, and leaves nothing.
#[tokio::test]
async fn an_attempt_with_lost_messages_leaves_no_key() {
    for direction in [Direction::Requests, Direction::Replies] {
        let servers = servers::<3>();
        let proxies = proxies(&servers);
        let locks = connect_through(&proxies).await;
        proxies[..2].iter().for_each(|proxy| proxy.set(direction, Mode::Swallow));
        let error = locks.lock("x").try_acquire().await.unwrap_err();
        assert!(matches!(error, AcquireError::Unavailable { .. }), "{error}");
        // With lost requests nothing was set; with lost replies the release gets through, although
        // nobody hears of it.
        until("no key is left", || keys(&servers).is_empty()).await;
        proxies.iter().for_each(|proxy| proxy.set(direction, Mode::Pass));
        assert!(locks.lock("x").acquire().await.unwrap().is_valid(), "and the nodes are used again");
    }
}

/// The acquire is executed, its reply is lost, and so is every request after it.
#[tokio::test]
async fn what_a_lost_reply_left_behind_is_gone_a_second_after_the_node_is_back() {
    let servers = servers::<3>();
    let proxies = proxies(&servers);
    let locks = connect_through(&proxies).await;
    proxies[..2].iter().for_each(|proxy| proxy.set(Direction::Replies, Mode::Swallow));
    let acquire = tokio::spawn(locks.lock("x").node_timeout(ms(500)).try_acquire());
    until("the acquire was executed", || keys(&servers[..2]).len() == 2).await;
    proxies[..2].iter().for_each(|proxy| proxy.set(Direction::Requests, Mode::Swallow));
    let error = acquire.await.unwrap().unwrap_err();
    assert!(matches!(error, AcquireError::Unavailable { .. }), "{error}");
    tokio::time::sleep(ms(500)).await;
    assert_eq!(keys(&servers[..2]).len(), 2, "nobody could be told");
    proxies.iter().for_each(|proxy| proxy.set_both(Mode::Pass));
    let took = until("no key is left", || keys(&servers).is_empty()).await;
    assert!(took < secs(1) + allowance(&servers), "{took:?}");
}

/// A release whose messages are lost, and a connection that is cut in the middle of it.
#[tokio::test]
async fn a_release_reaches_a_node_that_was_cut_off_within_a_second() {
    let servers = servers::<3>();
    let proxies = proxies(&servers);
    let locks = connect_through(&proxies).await;
    for mode in [Mode::Swallow, Mode::Stall, Mode::CutAfter(40)] {
        all_vote(&locks).await;
        let guard = locks.lock("x").acquire().await.unwrap();
        until("all three have it", || keys(&servers).len() == 3).await;
        proxies[0].set(Direction::Requests, mode);
        guard.release().await.unwrap();
        tokio::time::sleep(ms(300)).await;
        assert_eq!(servers[0].keys().len(), 1, "{mode:?}");
        proxies[0].set(Direction::Requests, Mode::Pass);
        let took = until("no key is left", || keys(&servers).is_empty()).await;
        assert!(took < secs(1) + allowance(&servers), "{mode:?}: {took:?}");
    }
}

/// A slow node costs nobody time, and its late grants count for the margin.
#[tokio::test]
async fn a_slow_minority_delays_nobody() {
    let servers = servers::<5>();
    let proxies = proxies(&servers);
    let locks = connect_through(&proxies).await;
    proxies[..2].iter().for_each(|proxy| proxy.set(Direction::Replies, Mode::Delay(ms(800))));
    let start = Instant::now();
    let guard = locks.lock("x").acquire().await.unwrap();
    assert!(start.elapsed() < ms(790), "{:?}", start.elapsed());
    assert_eq!(guard.margin(), 0);
    until("the slow ones have answered", || guard.margin() == 2).await;
    guard.release().await.unwrap();
}

/// A partition from the majority: nothing is granted, nothing hangs, and it heals.
#[tokio::test]
async fn behind_a_partition_the_error_comes_in_time_and_afterwards_all_is_well() {
    let servers = servers::<3>();
    let proxies = proxies(&servers);
    let locks = connect_through(&proxies).await;
    let mut guard = locks.lock("held").ttl(secs(5)).acquire().await.unwrap();
    proxies[..2].iter().for_each(|proxy| proxy.set_both(Mode::Stall));
    let start = Instant::now();
    assert!(matches!(guard.extend().await, Err(ExtendError::Unavailable { .. })));
    assert!(matches!(locks.lock("x").wait(ms(300)).acquire().await, Err(AcquireError::Unavailable { .. })));
    assert!(start.elapsed() < secs(4), "less than the ttl: {:?}", start.elapsed());
    assert!(guard.is_valid(), "a failed extension shortens nothing");
    proxies.iter().for_each(|proxy| proxy.set_both(Mode::Pass));
    guard.extend().await.unwrap();
    assert!(locks.lock("x").acquire().await.unwrap().is_valid());
}

/// Hidden behind the first try: commands wait for it, and fail with its reason.
#[tokio::test]
async fn a_lock_may_be_asked_for_before_the_nodes_are_connected() {
    let servers = servers::<3>();
    let locks = builder(servers.iter().map(RedisServer::url)).build().unwrap();
    assert!(answer_of(&locks.lock("x")).await.is_some());
    let nowhere = builder(["redis://127.0.0.1:1"]).build().unwrap();
    let error = nowhere.lock("x").try_acquire().await.unwrap_err();
    assert!(error.to_string().contains("redis://127.0.0.1:1/0: unreachable: connection refused"), "{error}");
}

#[tokio::test]
async fn a_node_that_comes_back_is_used_again() {
    let mut servers = durable_servers::<1>();
    let locks = connect(&servers).await;
    servers[0].kill();
    let error = locks.lock("x").try_acquire().await.unwrap_err();
    assert!(matches!(error, AcquireError::Unavailable { .. }), "{error}");
    servers[0].restart();
    let start = Instant::now();
    assert!(locks.lock("x").acquire().await.unwrap().is_valid());
    assert!(start.elapsed() < secs(5), "{:?}", start.elapsed());
}

#[tokio::test]
async fn a_script_flush_is_survived() {
    let servers = servers::<3>();
    let locks = connect(&servers).await;
    for _ in 0..3 {
        servers.iter().for_each(|server| drop(server.execute(&["SCRIPT", "FLUSH"])));
        let mut guard = answer_of(&locks.lock("x")).await.unwrap();
        servers.iter().for_each(|server| drop(server.execute(&["SCRIPT", "FLUSH"])));
        guard.extend().await.unwrap();
        servers.iter().for_each(|server| drop(server.execute(&["SCRIPT", "FLUSH"])));
        guard.release().await.unwrap();
    }
    locks.shutdown().await.unwrap();
    assert_eq!(keys(&servers), [""; 0]);
}

/// The server has forgotten the script that acquires when it sees the acquires, and not that of
/// their releases behind them on the same connection: what was given up is not sent again.
#[tokio::test]
async fn a_script_flush_does_not_bring_a_given_up_acquire_back() {
    const ACQUIRES: u64 = 100;
    let servers = servers::<1>();
    let proxy = Proxy::start(servers[0].port());
    let locks = connect_through(std::slice::from_ref(&proxy)).await;
    all_vote(&locks).await;
    proxy.set(Direction::Requests, Mode::Stall);
    let mut acquires = vec![];
    for number in 0..ACQUIRES {
        acquires.push(Box::pin(locks.lock(format!("x{number}")).acquire()));
    }
    for acquire in &mut acquires {
        let _ = tokio::time::timeout(ms(0), acquire.as_mut()).await;
    }
    drop(acquires);
    let asked = |requests: &[u8]| String::from_utf8_lossy(requests).matches("EVALSHA").count() as u64;
    until("acquires and releases are under way", || asked(&proxy.requests()) >= 2 * ACQUIRES).await;
    servers[0].execute(&["SCRIPT", "FLUSH"]);
    let acquires = |text: &str| text.contains("-- Grants the lock if it is free or set aside");
    for command in commands(&proxy.requests()).iter().filter(|command| command[..2] == ["SCRIPT", "LOAD"]) {
        if !acquires(&command[2]) {
            servers[0].execute(&["SCRIPT", "LOAD", &command[2]]);
        }
    }
    proxy.set(Direction::Requests, Mode::Pass);
    locks.shutdown().await.unwrap();
    assert_eq!(servers[0].keys(), [""; 0]);
    let told = format!("{:?}", servers[0].execute(&["INFO", "errorstats"]));
    let count =
        told.split("errorstat_NOSCRIPT:count=").nth(1).and_then(|rest| rest.split(['\\', '\r']).next());
    let count: u64 = count.and_then(|count| count.parse().ok()).unwrap_or(0);
    assert!(count >= ACQUIRES, "the script was not forgotten before it was asked for: {told}");
}

#[tokio::test]
async fn a_restart_with_its_append_only_file_keeps_the_locks() {
    let options = ["--appendonly", "yes", "--appendfsync", "always"];
    let mut servers: [RedisServer; 3] = RedisServer::start_many(&options);
    let locks = connect(&servers).await;
    let mut guard = locks.lock("x").acquire().await.unwrap();
    until("all three have it", || keys(&servers).len() == 3).await;
    servers.iter_mut().for_each(RedisServer::restart);
    assert_eq!(keys(&servers).len(), 3);
    let other = connect(&servers).await;
    assert!(answer_of(&other.lock("x")).await.is_none());
    all_vote(&locks).await;
    guard.extend().await.unwrap();
    guard.release().await.unwrap();
}

/// One node with a problem of its own. Its vote does not count, and the error names it and what it
/// said.
async fn refuses(server: &RedisServer, url: &str, expected: &str) {
    let locks = Locks::connect([url]).await.unwrap();
    let error = locks.lock("x").try_acquire().await.unwrap_err();
    assert!(matches!(error, AcquireError::Unavailable { .. }), "{error}");
    assert!(error.to_string().contains(expected), "{error}");
    assert!(!error.to_string().contains("geheim") && !format!("{error:?}").contains("geheim"), "{error:?}");
    assert!(error.to_string().contains(&server.port().to_string()) || url.contains("unix"), "{error}");
}

#[tokio::test]
async fn a_wrong_password_is_named_and_a_right_one_works() {
    let server = RedisServer::start(&["--requirepass", "geheim"]);
    refuses(&server, &server.url(), "NOAUTH").await;
    refuses(&server, &server.url().replace("//", "//default:geheimnis@"), "WRONGPASS").await;
    let url = server.url().replace("//", "//default:geheim@");
    assert!(!format!("{:?}", RedisNode::parse(&url).unwrap()).contains("geheim"));
    let locks = Locks::connect([&url]).await.unwrap();
    assert!(!format!("{locks:?}").contains("geheim"));
    assert!(answer_of(&locks.lock("x")).await.is_some());
    // From a file, which may change while the program runs.
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "geheim\n").unwrap();
    let url = format!("{}?password_file={}", server.url(), file.path().display());
    assert!(Locks::connect([url]).await.unwrap().lock("x").acquire().await.is_ok());
    refuses(&server, &format!("{}?password_file=/nowhere/pw", server.url()), "password file /nowhere/pw")
        .await;
}

#[tokio::test]
async fn a_user_of_the_access_list_can_lock() {
    let server = RedisServer::start(&[]);
    server.execute(&["ACL", "SETUSER", "app", "on", ">pw", "~tenure:*", "~tenure~*:{tenure:*", "+@all"]);
    let url = server.url().replace("//", "//app:pw@");
    assert!(Locks::connect([&url]).await.unwrap().lock("x").acquire().await.is_ok());
    let other = Locks::builder().node(RedisNode::parse(&url).unwrap()).prefix("other:").build().unwrap();
    let error = other.lock("x").try_acquire().await.unwrap_err();
    assert!(error.to_string().contains("NOPERM"), "{error}");
}

#[tokio::test]
async fn a_wrong_database_is_named_and_a_right_one_is_used() {
    let server = RedisServer::start(&[]);
    refuses(&server, &format!("{}/99", server.url()), "DB index is out of range").await;
    let locks = Locks::connect([format!("{}/3", server.url())]).await.unwrap();
    let _guard = locks.lock("x").acquire().await.unwrap();
    assert_eq!(server.keys(), [""; 0], "not in database 0");
    let twice = Locks::connect([format!("{}/3", server.url()), format!("{}/4", server.url())]).await;
    assert!(matches!(twice, Err(BuildError::DuplicateNode { .. })), "one server is one node");
}

#[tokio::test]
async fn a_unix_socket_is_a_node_too() {
    let server = RedisServer::start(&["--unixsocket", "redis.sock"]);
    let path = server.folder().join("redis.sock");
    let locks = Locks::connect([format!("redis+unix://{}", path.display())]).await.unwrap();
    let guard = locks.lock("x").acquire().await.unwrap();
    assert_eq!(server.keys(), ["tenure:x"]);
    guard.release().await.unwrap();
    refuses(&server, "redis+unix:///nowhere/redis.sock", "No such file").await;
}

#[tokio::test]
async fn a_server_without_memory_refuses() {
    let server = RedisServer::start(&[]);
    server.execute(&["SET", "ballast", &"x".repeat(2_000_000)]);
    server.execute(&["CONFIG", "SET", "maxmemory", "1mb"]);
    refuses(&server, &server.url(), "OOM").await;
}

#[tokio::test]
async fn a_replica_refuses() {
    let (master, replica) = (RedisServer::start(&[]), RedisServer::start(&[]));
    replica.execute(&["REPLICAOF", "127.0.0.1", &master.port().to_string()]);
    until("it is a replica", || format!("{:?}", replica.execute(&["ROLE"])).contains("connected")).await;
    refuses(&replica, &replica.url(), "it is a replica; every node must be an independent master").await;
}

/// What a failover does to the old master, when that hears of it: no connection breaks.
#[tokio::test]
async fn a_master_that_is_demoted_on_a_live_connection_grants_nothing_more() {
    for fenced in [true, false] {
        let (servers, new_master) = (servers::<3>(), RedisServer::start(&[]));
        let locks = connect(&servers).await;
        let lock = |name: &str| if fenced { locks.lock(name) } else { locks.lock(name).unfenced() };
        lock("x").acquire().await.unwrap().release().await.unwrap();
        for server in &servers[..2] {
            server.execute(&["REPLICAOF", "127.0.0.1", &new_master.port().to_string()]);
        }
        // The very next command, over the connection that was there before.
        let error = lock("x").try_acquire().await.unwrap_err();
        assert!(matches!(error, AcquireError::Unavailable { .. }), "{error}");
        assert!(servers[..2].iter().all(|server| server.get("tenure:x").is_none()));
    }
}

#[tokio::test]
async fn a_server_that_is_busy_with_a_script_refuses() {
    let server = RedisServer::start(&["--busy-reply-threshold", "1"]);
    let locks = Locks::connect([server.url()]).await.unwrap();
    let (mut connection, mut probe) = (server.connection(), server.connection());
    let endless = std::thread::spawn(move || {
        let endless =
            tenure_testkit::cmd("EVAL").arg("while true do end").arg(0).query::<()>(&mut connection);
        assert!(endless.is_err(), "killed");
    });
    until("it is busy", || {
        let pong = tenure_testkit::cmd("PING").query::<String>(&mut probe);
        pong.is_err_and(|error| error.to_string().contains("BUSY") || error.code() == Some("BUSY"))
    })
    .await;
    let error = locks.lock("x").try_acquire().await.unwrap_err();
    assert!(error.to_string().contains("BUSY"), "{error}");
    server.execute(&["SCRIPT", "KILL"]);
    endless.join().unwrap();
    assert!(locks.lock("x").acquire().await.is_ok());
}

#[tokio::test]
async fn a_server_that_is_loading_refuses() {
    let server = RedisServer::start(&[
        "--enable-debug-command",
        "yes",
        "--loading-process-events-interval-bytes",
        "1024",
    ]);
    let mut connection = server.connection();
    for number in 0..500 {
        tenure_testkit::cmd("SET").arg(number).arg("x".repeat(500)).query::<()>(&mut connection).unwrap();
    }
    let locks = Locks::connect([server.url()]).await.unwrap();
    // For some seconds, unless it is told to hurry.
    server.execute(&["CONFIG", "SET", "key-load-delay", "5000"]);
    let mut hurry = server.connection();
    let reload = std::thread::spawn(move || {
        tenure_testkit::cmd("DEBUG").arg("RELOAD").query::<()>(&mut connection).unwrap();
    });
    let mut told = false;
    for _ in 0..400 {
        tokio::time::sleep(ms(20)).await;
        let error = locks.lock("x").try_acquire().await.map(drop).map_err(|error| error.to_string());
        told = told || error.is_err_and(|error| error.contains("LOADING"));
        if told {
            break;
        }
    }
    assert!(told, "the error says why");
    refuses(&server, &server.url(), "LOADING").await;
    tenure_testkit::cmd("CONFIG").arg(&["SET", "key-load-delay", "0"]).query::<()>(&mut hurry).unwrap();
    reload.join().unwrap();
    assert!(locks.lock("x").acquire().await.is_ok());
}

#[tokio::test]
async fn a_key_of_another_kind_under_the_name_refuses() {
    let server = RedisServer::start(&[]);
    server.execute(&["HSET", "tenure:x", "field", "1"]);
    let locks = Locks::connect([server.url()]).await.unwrap();
    let error = locks.lock("x").try_acquire().await.unwrap_err();
    assert!(matches!(error, AcquireError::OtherKind { found: Kind::Reentrant, .. }), "{error}");
    assert!(locks.lock("y").acquire().await.is_ok());
}

#[tokio::test]
async fn something_that_is_not_redis_is_named() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let _ = std::io::Write::write_all(&mut stream, b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    let locks = Locks::connect([format!("redis://127.0.0.1:{port}")]).await.unwrap();
    let error = locks.lock("x").try_acquire().await.unwrap_err();
    let reason = "not the Redis protocol: the reply starts with \"HTTP/1.1 400 Bad\". Fix";
    assert!(error.to_string().contains(reason), "{error}");
}
