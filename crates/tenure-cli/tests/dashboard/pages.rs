//! Every page, with something on it and with nothing.

use serde_json::json;
use thirtyfour::prelude::*;

use crate::browser::Browser;
use crate::stage::Stage;

#[tokio::test]
async fn every_page_shows_what_the_service_tells() {
    let stage = Stage::start().await;
    let Some(browser) = Browser::open_as_ann(&stage).await else { return };
    browser.sees("All 5 nodes vote; locks are granted.").await;
    browser.sees("No locks yet").await;
    browser.sees(&format!("tenure run --service {}", stage.url())).await;
    let lease = stage.acquire("import", "nightly").await;
    browser.sees_no("No locks yet").await;

    browser.click("a[href='/ui/locks']").await;
    browser.sees("1 lock").await;
    browser
        .until("the holder", "return document.querySelector('.vbody .c-label')?.innerText === 'nightly'")
        .await;
    browser
        .until("the fence", &format!("return document.body.innerText.includes('{}')", lease["fence"]))
        .await;
    browser
        .until("a bar", "return /^\\d+ s$/.test(document.querySelector('.vbody .c-left .number').innerText)")
        .await;
    browser.click(".vbody .lock-name").await;
    for words in
        ["import", "held", "nightly", "Timeline", "What each node says", "Force release…", "With curl"]
    {
        browser.sees(words).await;
    }
    let rows = "return document.querySelectorAll('.matrix tbody tr.agrees').length === 5";
    browser.until("five nodes that agree", rows).await;
    stage.release(&lease).await;
    browser.sees("Nobody holds this lock now.").await;
    browser.sees_no("Force release…").await;

    browser.click("a[href='/ui/nodes']").await;
    for server in &stage.servers {
        browser.sees(&format!("127.0.0.1:{}", server.port())).await;
    }
    browser.sees("Round trip").await;
    browser.sees("On every node").await;

    browser.click("a[href='/ui/events']").await;
    stage.acquire("import", "again").await;
    browser.sees("Acquired").await;
    assert_eq!(browser.driver.title().await.unwrap(), "Events · Tenure");
    browser.close(&["/v1/me"]).await;
}

#[tokio::test]
async fn locks_are_sorted_and_filtered() {
    let stage = Stage::start().await;
    let Some(browser) = Browser::open_as_ann(&stage).await else { return };
    for (name, label) in [("web/b", "two"), ("web/a", "three"), ("import", "one")] {
        stage.acquire(name, label).await;
    }
    browser.visit("locks").await;
    browser.sees("3 locks").await;
    let names = "return [...document.querySelectorAll('.vbody [role=row]')].sort((a, b) => a.ariaRowIndex - b.ariaRowIndex).map(r => r.querySelector('.lock-name').innerText).join() === ";
    browser.until("by name", &format!("{names} 'import,web/a,web/b'")).await;
    browser.click(".thead .c-name button").await;
    browser.until("turned around", &format!("{names} 'web/b,web/a,import'")).await;
    browser.click(".thead .c-label button").await;
    browser.until("by label", &format!("{names} 'import,web/a,web/b'")).await;
    browser
        .until("marked", "return document.querySelector('.thead .c-label').ariaSort === 'ascending'")
        .await;
    let filter = browser.driver.find(By::Css("input[type=search]")).await.unwrap();
    filter.send_keys("WEB/").await.unwrap();
    browser.sees("2 of 3 locks").await;
    filter.send_keys("no such").await.unwrap();
    browser.sees("No lock matches").await;
    // The address keeps the view: whoever opens it sees the same.
    browser.visit("locks?filter=two&sort=age").await;
    browser.until("one row", &format!("{names} 'web/b'")).await;
    browser.close(&["/v1/me"]).await;
}

#[tokio::test]
async fn what_is_not_there_is_said_with_a_way_back() {
    let stage = Stage::start().await;
    let narrow = stage.caller("bea", "read", Some("web/"));
    stage.reload(&narrow, 200).await;
    let Some(browser) = Browser::open_as_ann(&stage).await else { return };
    browser.visit("nothing").await;
    browser.sees("Page not found").await;
    browser.click("main a[href='/ui/']").await;
    browser.sees("All 5 nodes vote").await;
    browser.visit("lock?name=gone").await;
    browser.sees("Nobody holds this lock now.").await;
    browser.visit(&format!("lock?name={}", "n".repeat(1_025))).await;
    browser.sees("Not a valid lock name").await;
    browser.click("main section a[href='/ui/locks']").await;
    browser.sees("Nothing is locked.").await;
    browser.press("Log out").await;
    browser.log_in(&narrow).await;
    browser.sees("You see names that start with web/").await;
    browser.visit("lock?name=import").await;
    browser.sees("You may not see this lock").await;
    browser.close(&["/v1/me", "/ui/nothing", "/v1/watch?name="]).await;
}

#[tokio::test]
async fn events_are_live_filtered_and_paused() {
    let stage = Stage::start().await;
    let Some(browser) = Browser::open_as_ann(&stage).await else { return };
    browser.visit("events").await;
    browser.sees("Events appear here").await;
    let held = stage.acquire("web/1", "one").await;
    stage.acquire("import", "two").await;
    browser.until("both", "return document.querySelectorAll('.events li').length >= 2").await;
    browser.driver.find(By::Css("input[type=search]")).await.unwrap().send_keys("web/").await.unwrap();
    let names = "return [...document.querySelectorAll('.events .what')].every(w => w.innerText === 'web/1')";
    browser.until("one name alone", names).await;
    browser.press("Pause").await;
    stage.release(&held).await;
    browser.sees("newer").await;
    let before = browser.run("return document.querySelectorAll('.events li').length").await;
    assert_eq!(browser.run("return document.querySelectorAll('.events li').length").await, before);
    browser.press("Resume").await;
    browser.until("more", &format!("return document.querySelectorAll('.events li').length > {before}")).await;
    browser.run("const s = document.querySelector('select'); s.value = '=acquired'; s.dispatchEvent(new Event('change', { bubbles: true }))").await;
    browser.until("one kind", "return document.querySelectorAll('.events li').length === 1").await;
    assert_eq!(
        browser
            .run("return new Date(document.querySelector('.events time').dateTime).getTime() > 1.7e12")
            .await,
        json!(true)
    );
    assert!(
        browser
            .run("return document.querySelector('.events time').title")
            .await
            .as_str()
            .unwrap()
            .ends_with("UTC")
    );
    browser.close(&["/v1/me"]).await;
}
