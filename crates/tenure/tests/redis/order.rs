//! What goes over the wire: in the order in which it was asked for, and nothing twice.

use std::collections::HashMap;

use tenure_testkit::{Direction, Mode, Proxy, RedisServer};

use crate::support::*;

#[tokio::test]
async fn commands_of_2000_callers_arrive_in_the_order_they_were_asked_for_and_once() {
    let server = RedisServer::start(&[]);
    let proxy = Proxy::start(server.port());
    let locks = connect_through(std::slice::from_ref(&proxy)).await;
    let greeting = commands(&proxy.requests()).len();
    // On one thread, tasks run in the order they were made.
    let callers: Vec<_> = (0..2_000)
        .map(|number| {
            let lock = locks.lock(format!("{number:04}")).node_timeout(secs(5)).ttl(secs(20));
            tokio::spawn(async move { lock.acquire().await.unwrap().release().await.unwrap() })
        })
        .collect();
    for caller in callers {
        caller.await.unwrap();
    }
    locks.shutdown().await.unwrap();

    let calls = commands(&proxy.requests()).split_off(greeting);
    let sent: Vec<Asked> = calls.iter().flat_map(|call| asked(call)).collect();
    assert_eq!(sent.len(), 4_000, "one acquire and one release each");
    let acquires = sent.iter().filter(|asked| asked.acquires).map(|asked| asked.key.clone());
    let expected = (0..2_000).map(|number| format!("tenure:{number:04}"));
    let other = acquires.zip(expected).find(|(acquire, expected)| acquire != expected);
    assert_eq!(other, None, "in order");
    let mut places: HashMap<(&str, &str), Vec<usize>> = HashMap::new();
    for (place, asked) in sent.iter().enumerate() {
        places.entry((&asked.key, &asked.owner)).or_default().push(place);
    }
    assert_eq!(places.len(), 2_000, "every lock has its own owner, and nothing was sent twice");
    for ((key, _), places) in places {
        let [acquire, release] = places[..] else { panic!("{key}: {places:?}") };
        assert!(acquire < release && sent[acquire].acquires && !sent[release].acquires, "{key}");
    }
}

/// What is asked of a server for one lock.
struct Asked {
    acquires: bool,
    key: String,
    owner: String,
}

/// What a call of a script asks for: acquires or releases, one or several. Nothing, if it is about
/// something else.
fn asked(call: &[String]) -> Vec<Asked> {
    let [name, _, count, rest @ ..] = call else { return vec![] };
    let Some((keys, arguments)) = count.parse().ok().and_then(|count| rest.split_at_checked(count)) else {
        return vec![];
    };
    let one =
        |acquires, key: &String, owner: &String| Asked { acquires, key: key.clone(), owner: owner.clone() };
    match keys {
        _ if name != "EVALSHA" => vec![],
        // lock fence fences record; owner ..
        [key, fence, _, _] if fence.starts_with("tenure~fence:") => vec![one(true, key, &arguments[0])],
        // fences record lock.. fence..; nonce life lowest highest ends owner.. fence.. ttl
        [fences, _, locks @ ..] if fences.starts_with("tenure~fences:") => {
            let locks = &locks[..locks.len() / 2];
            locks.iter().zip(&arguments[5..]).map(|(lock, owner)| one(true, lock, owner)).collect()
        }
        // lock line open; owner: or lock.. line..; owner..
        [.., last] if last.starts_with("tenure~open:") || last.starts_with("tenure~queue:") => {
            keys.iter().zip(arguments).map(|(key, owner)| one(false, key, owner)).collect()
        }
        _ => vec![],
    }
}

/// The calls of scripts that were sent over several connections, as far as they are whole: each
/// connection may end in the middle of one.
fn whole_calls(requests: &[u8]) -> Vec<Vec<String>> {
    const NAME: &str = "$7\r\nEVALSHA\r\n";
    let text = String::from_utf8_lossy(requests);
    let mut calls = vec![];
    for (place, _) in text.match_indices(NAME) {
        let count = text[..place].rsplit_once('*').and_then(|(_, count)| count.trim_end().parse().ok());
        let (mut call, mut rest) = (vec!["EVALSHA".to_owned()], &text[place + NAME.len()..]);
        while let Some((length, tail)) = rest.strip_prefix('$').and_then(|rest| rest.split_once("\r\n"))
            && let Some(part) = length.parse().ok().and_then(|length: usize| tail.get(..length))
            && let Some(behind) = tail[part.len()..].strip_prefix("\r\n")
        {
            call.push(part.to_owned());
            rest = behind;
        }
        if Some(call.len()) == count {
            calls.push(call);
        }
    }
    calls
}

/// Connections that break in the middle of everything: what was sent is not sent again by itself.
#[tokio::test]
async fn no_acquire_is_ever_sent_twice_over_broken_connections() {
    let server = RedisServer::start(&[]);
    let proxy = Proxy::start(server.port());
    let locks = connect_through(std::slice::from_ref(&proxy)).await;
    let callers: Vec<_> = (0..500)
        .map(|number| {
            let lock = locks.lock(format!("{number}")).wait(secs(5));
            tokio::spawn(async move {
                tokio::time::sleep(ms(number)).await;
                lock.acquire().await.is_ok()
            })
        })
        .collect();
    for _ in 0..20 {
        tokio::time::sleep(ms(25)).await;
        proxy.cut();
    }
    for caller in callers {
        assert!(caller.await.unwrap(), "every caller gets its lock in the end");
    }
    locks.shutdown().await.unwrap();
    let calls = whole_calls(&proxy.requests());
    let asked = calls.iter().flat_map(|call| asked(call)).filter(|asked| asked.acquires);
    let mut acquires: Vec<String> = asked.map(|asked| asked.owner).collect();
    let sent = acquires.len();
    assert!(sent >= 500, "{sent}");
    acquires.sort_unstable();
    acquires.dedup();
    assert_eq!(acquires.len(), sent, "no acquire twice");
    assert_eq!(server.keys(), [""; 0]);
}

/// An acquire is under way when its connection breaks, and the network brings it to the server
/// after all, when its release has long been there over a new connection.
#[tokio::test]
async fn what_comes_late_over_a_connection_that_was_replaced_is_not_executed() {
    let server = RedisServer::start(&[]);
    let proxy = Proxy::start(server.port());
    let locks = connect_through(std::slice::from_ref(&proxy)).await;
    all_vote(&locks).await;
    for fenced in [true, false] {
        let name = format!("late-{fenced}");
        let asked = format!("tenure:{name}");
        proxy.set(Direction::Requests, Mode::Stall);
        let lock = locks.lock(&name).node_timeout(secs(2));
        let lock = if fenced { lock } else { lock.unfenced() };
        let acquire = tokio::spawn(lock.try_acquire());
        until("the acquire is under way", || String::from_utf8_lossy(&proxy.requests()).contains(&asked))
            .await;
        let parted = proxy.part();
        proxy.set(Direction::Requests, Mode::Pass);
        assert!(acquire.await.unwrap().is_err(), "its connection broke");
        // The new connection works, so whatever it has to say at first was said.
        all_vote(&locks).await;
        locks.lock("other").acquire().await.unwrap().release().await.unwrap();
        parted.arrive();
        for _ in 0..30 {
            tokio::time::sleep(ms(10)).await;
            assert_eq!(server.keys(), [""; 0], "executed after its release (fenced: {fenced})");
        }
    }
}
