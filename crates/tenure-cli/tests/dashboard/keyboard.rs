//! Every action once, by keyboard alone.

use serde_json::Value;
use thirtyfour::prelude::*;

use crate::browser::Browser;
use crate::stage::Stage;

/// Tabs on until what has the focus says this.
async fn tab_to(browser: &Browser, words: &str) {
    for _ in 0..60 {
        browser.types(Key::Tab).await;
        let focus = "const e = document.activeElement; return [e.innerText, e.getAttribute('aria-label'), e.id].join('|')";
        if browser.run(focus).await.as_str().unwrap().split('|').any(|said| said.trim() == words) {
            return;
        }
    }
    panic!("Tab does not reach {words:?}");
}

async fn path(browser: &Browser) -> Value {
    browser.run("return location.pathname").await
}

#[tokio::test]
async fn everything_can_be_done_without_a_mouse() {
    let stage = Stage::start().await;
    let Some(browser) = Browser::open(&stage).await else { return };
    stage.acquire("a", "one").await;
    stage.acquire("b", "two").await;
    browser.visit("").await;
    browser.until("the field has the focus", "return document.activeElement.id === 'token'").await;
    browser.types(stage.token.as_str()).await;
    browser.types(Key::Enter).await;
    browser.sees("All 5 nodes vote").await;

    browser.types("?").await;
    browser.sees("Show keyboard shortcuts").await;
    browser.types(Key::Escape).await;
    browser.sees_no("Show keyboard shortcuts").await;
    for (keys, page) in [("gn", "/ui/nodes"), ("ge", "/ui/events"), ("go", "/ui/"), ("gl", "/ui/locks")] {
        browser.types(keys).await;
        browser.until(page, &format!("return location.pathname === '{page}'")).await;
        browser.until("the title has the focus", "return document.activeElement.localName === 'h1'").await;
    }
    let before = browser.run("return getComputedStyle(document.documentElement).colorScheme").await;
    browser.types("tt").await;
    let after = browser.run("return getComputedStyle(document.documentElement).colorScheme").await;
    assert_ne!(before, after, "the theme changes");
    browser.types("t").await;

    // Sort, turn around, filter, and open a row.
    browser.sees("2 locks").await;
    browser.types("r").await;
    let first = "return document.querySelector('.vbody [aria-rowindex=\"2\"] .lock-name').innerText";
    browser.until("turned around", &format!("{first} === 'b'")).await;
    browser.types("s").await;
    browser
        .until("by label", "return document.querySelector('.thead .c-label').ariaSort === 'ascending'")
        .await;
    browser.types("/").await;
    browser.types("two").await;
    browser.sees("1 of 2 locks").await;
    browser.types(Key::Escape).await;
    browser.sees_no("1 of 2 locks").await;
    tab_to(&browser, "Locks").await;
    for _ in 0..3 {
        if browser.run("return document.activeElement.classList.contains('vlist')").await == true {
            break;
        }
        tab_to(&browser, "Locks").await;
    }
    browser.types(Key::Down).await;
    browser.types(Key::Down).await;
    browser
        .until(
            "the second row",
            "return document.activeElement.closest('[aria-rowindex]')?.ariaRowIndex === '3'",
        )
        .await;
    browser.types(Key::Enter).await;
    browser.until("its page", "return location.pathname === '/ui/lock'").await;

    // Force release, from the key to the last button.
    browser.sees("Force release…").await;
    let name = browser.run("return new URLSearchParams(location.search).get('name')").await;
    browser.types("f").await;
    browser.sees("Type the name of the lock").await;
    browser.types(Key::Escape).await;
    browser.sees_no("Type the name of the lock").await;
    tab_to(&browser, "Force release…").await;
    browser.types(Key::Enter).await;
    tab_to(&browser, "force-name").await;
    browser.types(name.as_str().unwrap()).await;
    tab_to(&browser, "force-reason").await;
    browser.types("by hand").await;
    tab_to(&browser, "Release the lock").await;
    browser.types(Key::Enter).await;
    browser.sees("Released on 5 of 5 nodes.").await;
    tab_to(&browser, "Close").await;
    browser.types(Key::Enter).await;
    browser.until("the dialog is gone", "return document.querySelector('dialog') === null").await;
    browser.sees("Nobody holds this lock now.").await;

    browser.types("ge").await;
    browser.sees("Pause").await;
    browser.types("p").await;
    browser.sees("Paused").await;
    browser.types("p").await;
    browser.sees_no("Paused").await;
    tab_to(&browser, "Log out").await;
    browser.types(Key::Enter).await;
    browser.sees("You are logged out.").await;
    assert_eq!(path(&browser).await, "/ui/events");
    browser.close(&["/v1/me"]).await;
}
