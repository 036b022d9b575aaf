//! Servers, neighbours and programs that misbehave. Found by review; each of these once failed.

use std::time::Instant;

use tenure::*;
use tenure_testkit::{Direction, Mode, Proxy, RedisServer};

use crate::support::*;

/// How often the manager has connected.
fn connections(proxy: &Proxy) -> usize {
    proxy.requests().windows(5).filter(|bytes| bytes == b"HELLO").count()
}

/// A server that says nothing any more is given up, also when it was hit by a burst that uses up
/// tokio's budget.
#[tokio::test]
async fn a_silent_server_is_given_up_after_one_command_and_after_a_burst() {
    for burst in [1, 400] {
        let server = RedisServer::start(&[]);
        let proxy = Proxy::start(server.port());
        let locks = connect_through(std::slice::from_ref(&proxy)).await;
        proxy.set(Direction::Replies, Mode::Swallow);
        let asked = (0..burst).map(|number| tokio::spawn(locks.lock(number.to_string()).try_acquire()));
        for asked in asked.collect::<Vec<_>>() {
            assert!(asked.await.unwrap().is_err());
        }
        let took = until("connected anew", || connections(&proxy) > 1).await;
        println!("{burst} commands: {took:?}");
    }
}

/// The program blocks its runtime, and the replies are in the socket long before it goes on.
#[tokio::test]
async fn a_blocked_runtime_does_not_cost_a_healthy_connection() {
    let server = RedisServer::start(&[]);
    let proxy = Proxy::start(server.port());
    let locks = connect_through(std::slice::from_ref(&proxy)).await;
    proxy.set(Direction::Replies, Mode::Delay(ms(100)));
    let ask = |name: String| tokio::spawn(locks.lock(name).node_timeout(secs(5)).try_acquire());
    let mut asked = vec![ask("before".to_owned())];
    tokio::time::sleep(ms(20)).await;
    std::thread::sleep(ms(2_500));
    asked.extend((0..600).map(|number| ask(number.to_string())));
    for asked in asked {
        assert!(asked.await.unwrap().unwrap().is_some());
    }
    assert_eq!(connections(&proxy), 1);
}

#[tokio::test]
async fn a_password_is_not_repeated_by_a_server_that_does_not_know_the_login() {
    let server = RedisServer::start(&["--rename-command", "HELLO", ""]);
    let locks = Locks::connect([server.url().replace("//", "//default:geheim@")]).await.unwrap();
    let error = locks.lock("x").try_acquire().await.unwrap_err();
    assert!(!error.to_string().contains("geheim"), "{error}");
    assert!(error.to_string().contains("needs Redis 7.0 or newer"), "{error}");
}

#[tokio::test]
async fn a_user_without_a_password_is_not_taken_for_another() {
    let server = RedisServer::start(&[]);
    server.execute(&["ACL", "SETUSER", "app", "on", "nopass", "~tenure:*", "~tenure~*:{tenure:*", "+@all"]);
    let locks = Locks::connect([server.url().replace("//", "//app@")]).await.unwrap();
    assert!(answer_of(&locks.lock("x")).await.is_some());
    assert!(format!("{:?}", server.execute(&["CLIENT", "LIST"])).contains("user=app"));
}

/// After a restart somebody else's connection has the id that ours had before.
#[tokio::test]
async fn a_reconnect_does_not_kill_a_stranger() {
    let [mut server] = durable_servers::<1>();
    let proxy = Proxy::start(server.port());
    let locks = connect_through(std::slice::from_ref(&proxy)).await;
    let clients = format!("{:?}", server.execute(&["CLIENT", "LIST"]));
    let ours = clients.split("\\n").find(|client| client.contains("name=tenure")).unwrap();
    let id: u64 = ours.split("id=").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    proxy.close(true);
    proxy.cut();
    server.restart();
    let mut strangers = vec![];
    while strangers.len() < 1_000 {
        let mut stranger = server.connection();
        let their_id: u64 = tenure_testkit::cmd("CLIENT").arg("ID").query(&mut stranger).unwrap();
        strangers.push(stranger);
        if their_id >= id {
            break;
        }
    }
    proxy.close(false);
    assert!(locks.lock("x").acquire().await.is_ok(), "connected again");
    for stranger in &mut strangers {
        assert!(tenure_testkit::cmd("PING").query::<String>(stranger).is_ok());
    }
}

/// Values of other clients under our names, larger than anything we would write.
#[tokio::test]
async fn large_foreign_values_do_not_break_the_connection_of_all_locks() {
    let server = RedisServer::start(&[]);
    let proxy = Proxy::start(server.port());
    let locks = connect_through(std::slice::from_ref(&proxy)).await;
    server.execute(&["SET", "tenure:big", &"x".repeat(5_000_000)]);
    for number in 0..50 {
        server.execute(&["SET", &format!("tenure:page{number}"), &"x".repeat(100_000)]);
    }
    // The server copies five megabytes for an answer, on a machine that may be busy.
    let patient = |name: &str| locks.lock(name).ttl(secs(30)).node_timeout(secs(3));
    for _ in 0..3 {
        assert!(answer_of(&patient("big")).await.is_none());
        assert!(answer_of(&patient("x")).await.is_some(), "and others go on");
    }
    let deadline = Instant::now() + secs(60);
    let owner = loop {
        match locks.inspect("big").await.unwrap().state {
            LockState::Held { owner, .. } => break owner,
            state => assert!(Instant::now() < deadline, "{state:?}"),
        }
    };
    assert_eq!(owner.len(), 128);
    while locks.list().await.unwrap().locks.len() < 51 {
        assert!(Instant::now() < deadline, "not all are listed");
    }
    assert_eq!(connections(&proxy), 1);
}

#[tokio::test]
async fn a_key_without_an_end_is_named_as_such() {
    let server = RedisServer::start(&[]);
    server.execute(&["SET", "tenure:x", "foreign"]);
    let locks = Locks::connect([server.url()]).await.unwrap();
    let error = locks.lock("x").wait(ms(0)).acquire().await.unwrap_err();
    assert!(matches!(error, AcquireError::Contended { retry_after: None, .. }), "{error}");
    assert!(error.to_string().contains("held by another owner and never expires"), "{error}");
}

/// Lists within lists without end: an error, not the end of the process.
#[tokio::test]
async fn a_reply_without_end_is_an_error() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let _ = std::io::Write::write_all(&mut stream, &b"*1\r\n".repeat(900_000));
        }
    });
    let locks = Locks::connect([format!("redis://127.0.0.1:{port}")]).await.unwrap();
    let error = locks.lock("x").try_acquire().await.unwrap_err();
    assert!(error.to_string().contains("not the Redis protocol"), "{error}");
}

/// A user who may not kill connections still gets locks, and a warning in the log.
#[tokio::test]
async fn a_user_who_may_not_kill_connections_can_lock_and_reconnect() {
    let server = RedisServer::start(&[]);
    server.execute(&[
        "ACL",
        "SETUSER",
        "app",
        "on",
        ">pw",
        "~tenure:*",
        "~tenure~*:{tenure:*",
        "+@all",
        "-@dangerous",
    ]);
    let proxy = Proxy::start(server.port());
    let locks = Locks::connect([proxy.url().replace("//", "//app:pw@")]).await.unwrap();
    assert!(locks.lock("x").acquire().await.is_ok());
    proxy.cut();
    assert!(locks.lock("y").acquire().await.is_ok());
    assert_eq!(connections(&proxy), 2);
}
