//! Real nodes that are killed, stopped and emptied, and real locks that are held, lost and handed
//! over: the page shows each in the right words.

use std::time::{Duration, Instant};

use tenure_testkit::RedisServer;

use crate::browser::Browser;
use crate::stage::Stage;

/// Short, so that a quarantine is, too.
const SETTINGS: &str = "max_ttl = \"4s\"\n";

#[tokio::test]
async fn nodes_that_are_killed_stopped_and_emptied_are_shown_so_until_they_vote() {
    let mut stage = Stage::with(RedisServer::start_many::<5>(&[]).into(), SETTINGS).await;
    let Some(browser) = Browser::open_as_ann(&stage).await else { return };
    browser.sees("All 5 nodes vote; locks are granted.").await;
    let port = stage.servers[3].port();
    stage.servers[3].kill();
    browser.sees(&format!("4 of 5 nodes vote; 127.0.0.1:{port} unreachable; locks are granted.")).await;
    stage.servers[3].restart_empty();
    browser.sees(&format!("127.0.0.1:{port} in quarantine for")).await;
    browser.visit("nodes").await;
    browser.sees("It may have forgotten locks").await;
    let seconds = "const m = /(\\d+) s more/.exec(document.querySelector('.node.quarantine')?.innerText ?? ''); return m ? [+m[1]] : null";
    let first = browser.until("a countdown", seconds).await[0].as_u64().unwrap();
    let fewer = format!(
        "const m = /(\\d+) s more/.exec(document.querySelector('.node.quarantine')?.innerText ?? ''); return !!m && +m[1] < {first}"
    );
    browser.until("it counts down", &fewer).await;
    browser.sees("All 5 nodes vote").await;

    let port = stage.servers[1].port();
    stage.servers[1].pause();
    browser.sees(&format!("127.0.0.1:{port} unreachable")).await;
    stage.servers[1].resume();
    browser.sees("All 5 nodes vote").await;
    for server in &mut stage.servers[..3] {
        server.kill();
    }
    browser.sees("no locks are granted: 3 must vote").await;
    browser.close(&["/v1/me"]).await;
}

#[tokio::test]
async fn locks_that_are_held_handed_over_and_lost_are_shown_so() {
    let stage = Stage::start().await;
    let Some(browser) = Browser::open_as_ann(&stage).await else { return };
    browser.visit("lock?name=import").await;
    browser.sees("Nobody holds this lock now.").await;
    let begun = Instant::now();
    let first = stage.hold("import", "first").await;
    browser
        .until("the first holder", "return document.querySelector('main .facts').innerText.includes('first')")
        .await;
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    let second = stage.hold("import", "second").await;
    browser.until("a waiter", "return document.querySelector('#line') !== null").await;
    drop(first);
    browser
        .until(
            "the second holder",
            "return document.querySelector('main .facts').innerText.includes('second')",
        )
        .await;
    browser.until("two lanes", "return document.querySelectorAll('.timeline .lane').length === 2").await;
    let handover = "return [...document.querySelectorAll('.histogram')].some((one) => one.innerText.includes('Hand-over') && one.querySelector('.value') !== null)";
    browser.until("how long that took", handover).await;
    browser
        .until("an extension", "return document.querySelector('.timeline .lane.open .extension') !== null")
        .await;
    // The nodes forget it behind its holder's back.
    for server in &stage.servers {
        server.execute(&["DEL", "tenure:import"]);
    }
    browser.sees("Nobody holds this lock now.").await;
    browser.until("the loss", "return document.querySelector('.timeline .lane.bad') !== null").await;
    browser.visit("events").await;
    drop(second);
    browser.close(&["/v1/me"]).await;
}

/// Without the guard, nodes that were emptied grant a lock that somebody still has.
#[tokio::test]
async fn a_second_holder_is_shown_in_red() {
    let servers = RedisServer::start_many::<5>(&[]);
    let mut stage = Stage::with(servers.into(), "restart_guard = \"off\"\n").await;
    let Some(browser) = Browser::open_as_ann(&stage).await else { return };
    stage.acquire("import", "first").await;
    browser.visit("lock?name=import").await;
    browser
        .until("the first holder", "return document.querySelector('main .facts').innerText.includes('first')")
        .await;
    assert!(!browser.text().await.contains("two holders"));
    for server in &mut stage.servers[..3] {
        server.restart_empty();
    }
    stage.acquire("import", "second").await;
    browser.sees("two holders").await;
    browser.sees("Two holders at once").await;
    browser.until("both in red", "return document.querySelectorAll('.timeline .two').length === 2").await;
    let red = browser.run("return getComputedStyle(document.querySelector('.timeline .two')).fill").await;
    assert_eq!(red, browser.run("return getComputedStyle(document.querySelector('.state.two')).color").await);
    browser.visit("locks").await;
    browser.until("the list", "return document.querySelector('.vbody .state.two') !== null").await;
    browser.close(&["/v1/me"]).await;
}
