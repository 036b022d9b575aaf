//! One view of the fleet, on real servers, and what it costs them.

use std::time::Instant;

use tenure::*;
use tenure_testkit::{CommandCount, RedisServer};
use tokio::time::{sleep, timeout};

use crate::support::*;

/// Follows until the view is whole, and tells the names that were found.
async fn complete(watch: &mut FleetWatch) -> Vec<String> {
    let mut names = vec![];
    loop {
        let news = timeout(secs(120), watch.next()).await.expect("in time").expect("the manager is there");
        names.extend(news.locks.into_iter().map(|change| change.name.to_string()));
        if news.progress.is_some_and(|progress| progress.complete) {
            names.sort();
            names.dedup();
            return names;
        }
    }
}

/// Fences of names that nobody holds.
fn remember(server: &RedisServer, count: usize) {
    let script =
        "for i = 1, ARGV[1] do redis.call('SET', 'tenure~fence:{tenure:old:' .. i .. '}', '1:x') end";
    server.execute(&["EVAL", script, "0", &count.to_string()]);
}

#[tokio::test]
async fn locks_are_found_among_many_that_are_only_remembered_and_changes_are_seen() {
    let servers = servers::<3>();
    servers.iter().for_each(|server| remember(server, 50_000));
    let (ours, theirs) = (connect(&servers).await, connect(&servers).await);
    let guard = theirs.lock("a").label("them").acquire().await.unwrap();
    let mut watch = ours.watch();
    assert_eq!(complete(&mut watch).await, ["a"]);
    let view = |news: FleetNews| news.locks.into_iter().find_map(|change| change.now);
    guard.release().await.unwrap();
    let begun = Instant::now();
    while !timeout(secs(20), watch.next()).await.unwrap().unwrap().locks.iter().any(|it| it.now.is_none()) {}
    // Known locks are looked at before the walk comes by.
    assert!(begun.elapsed() < secs(8), "{:?}", begun.elapsed());
    let _guard = ours.lock("b").label("us").acquire().await.unwrap();
    let found = loop {
        if let Some(found) = view(timeout(secs(20), watch.next()).await.unwrap().unwrap()) {
            break found;
        }
    };
    assert_eq!((found.name(), found.waiters(), found.agree()), ("b", Some(0), 3));
    assert!(found.state().label().unwrap().ends_with(" us"), "{found:?}");
    assert!(found.held_for_is_known() && found.held_for() < secs(5), "{:?}", found.held_for());
}

#[tokio::test]
async fn a_list_is_whole_with_many_remembered_fences_and_tells_how_far_it_is() {
    let servers = servers::<3>();
    servers.iter().for_each(|server| remember(server, 50_000));
    let locks = connect(&servers).await;
    let mut guards = vec![];
    for number in 0..300 {
        guards.push(locks.lock(format!("job/{number}")).acquire().await.unwrap());
    }
    let _other = locks.lock("other").acquire().await.unwrap();
    until("all three have them", || keys(&servers).len() == 3 * 301).await;
    let mut last = vec![];
    let list = locks.list_under("job/", |progress| last.push(progress.clone())).await.unwrap();
    assert_eq!(list.locks.len(), 300);
    assert!(list.nodes.iter().all(|node| node.told == Ok(300) && !node.cut_short), "{:?}", list.nodes);
    assert!(last.len() > 10, "in slices: {}", last.len());
    let growing = last.iter().filter(|step| step.node == last[0].node).map(|step| step.looked_at.unwrap());
    let growing: Vec<u64> = growing.collect();
    assert!(growing.is_sorted() && growing.last() > Some(&50_000), "{growing:?}");
    assert_eq!(locks.list().await.unwrap().locks.len(), 301);
}

/// The numbers are those of the servers themselves.
#[tokio::test]
async fn twenty_watchers_cost_the_nodes_no_more_than_one_and_none_costs_nothing() {
    let servers = servers::<3>();
    let locks = connect(&servers).await;
    let _guard = locks.lock("a").ttl(secs(60)).renewal(Renewal::Off).acquire().await.unwrap();
    let mut counts: Vec<CommandCount> = servers.iter().map(CommandCount::of).collect();
    let mut count = async |watchers: usize| {
        let mut watches: Vec<FleetWatch> = (0..watchers).map(|_| locks.watch()).collect();
        for watch in &mut watches {
            complete(watch).await;
        }
        let before: Vec<u64> = counts.iter_mut().map(CommandCount::read).collect();
        sleep(secs(6)).await;
        let spent = counts.iter_mut().zip(before).map(|(count, before)| count.read() - before).max();
        drop(watches);
        sleep(ms(300)).await;
        spent.unwrap()
    };
    // What a client asks by itself now and then has nothing to do with watching.
    let (idle, one, twenty, none) = (count(0).await, count(1).await, count(20).await, count(0).await);
    assert!(one >= 20, "it looks: {one}");
    // A command more or less is one that fell into the time by chance.
    assert!(twenty as f64 <= one as f64 * 1.05 + 4.0, "{one} for one, {twenty} for twenty");
    assert!(idle <= 10 && none <= idle + 5, "{none} for none, {idle} before");
}

#[tokio::test]
async fn looking_takes_no_more_of_a_nodes_time_than_its_share() {
    let servers = servers::<1>();
    remember(&servers[0], 200_000);
    let locks = connect(&servers).await;
    let _guard = locks.lock("a").ttl(secs(60)).acquire().await.unwrap();
    let busy = || {
        let redis::Value::BulkString(info) = servers[0].execute(&["INFO", "commandstats"]) else {
            panic!("INFO is a text")
        };
        let info = String::from_utf8(info).unwrap();
        // What a script calls is in its own time.
        let of = |line: &str| {
            line.starts_with("cmdstat_eval")
                .then(|| line.split("usec=").nth(1)?.split(',').next()?.parse::<f64>().ok())
        };
        info.lines().filter_map(of).flatten().sum::<f64>() / 1e6
    };
    let mut watch = locks.watch();
    while timeout(secs(30), watch.next()).await.unwrap().unwrap().locks.is_empty() {}
    let (begun, before) = (Instant::now(), busy());
    sleep(secs(5)).await;
    let share = (busy() - before) / begun.elapsed().as_secs_f64();
    // The server's clock runs on while others have its core, so a busy machine shows more. Without
    // rests it would be most of the time.
    assert!(share > 0.001 && share <= 4.0 * FleetWatch::share_max(), "{share}");
}

#[tokio::test]
async fn a_node_that_was_emptied_is_walked_through_again() {
    let mut servers = durable_servers::<3>();
    let (ours, theirs) = (connect(&servers).await, connect(&servers).await);
    let _guard = theirs.lock("a").ttl(secs(60)).acquire().await.unwrap();
    let mut watch = ours.watch();
    assert_eq!(complete(&mut watch).await, ["a"]);
    servers[2].restart_empty();
    let (mut votes, mut margin) = (None, None);
    let begun = Instant::now();
    while votes != Some(2) || margin != Some(0) {
        assert!(begun.elapsed() < secs(30), "{votes:?} {margin:?}");
        let news = timeout(secs(30), watch.next()).await.unwrap().unwrap();
        let voting = |nodes: std::sync::Arc<[NodeReport]>| nodes.iter().filter(|node| node.votes).count();
        votes = news.nodes.map(voting).or(votes);
        margin = news.locks.last().map(|change| change.now.as_ref().unwrap().margin()).unwrap_or(margin);
    }
}
