//! Log-in and log-out, and what those see who may not do everything.

use crate::browser::Browser;
use crate::stage::Stage;

#[tokio::test]
async fn a_token_lets_one_in_until_log_out() {
    let stage = Stage::start().await;
    let idle = stage.caller("idle", "lock", None);
    stage.reload(&idle, 200).await;
    let Some(browser) = Browser::open(&stage).await else { return };
    browser.visit("locks").await;
    browser.sees("Log in to use this service.").await;
    browser.log_in("tenure_wrong").await;
    browser.sees("unknown caller's token").await;
    browser.log_in(&idle).await;
    browser.sees("idle may lock: the dashboard needs a token that may read").await;
    browser.log_in(&stage.token).await;
    browser.sees("Nothing is locked.").await;
    assert_eq!(browser.run("return document.cookie").await, "", "no script can read the cookie");
    let kept = browser.run("return JSON.stringify([{ ...localStorage }, { ...sessionStorage }])").await;
    assert!(!kept.to_string().contains("tenure_"), "{kept}");
    browser.visit("nodes").await;
    browser.sees("votes").await;
    browser.press("Log out").await;
    browser.sees("You are logged out.").await;
    browser.visit("nodes").await;
    browser.sees("Log in to use this service.").await;
    browser.close(&["/v1/me", "/v1/log-in"]).await;
}

#[tokio::test]
async fn whoever_is_taken_off_the_list_sees_the_log_in_page() {
    let stage = Stage::start().await;
    let Some(browser) = Browser::open_as_ann(&stage).await else { return };
    stage.acquire("import", "nightly").await;
    browser.visit("locks").await;
    browser.sees("import").await;
    stage.only_newcomers().await;
    browser.sees("the session has ended; log in again").await;
    browser.sees_no("import").await;
    browser.close(&["/v1/me", "401"]).await;
}

#[tokio::test]
async fn controls_that_one_may_not_use_are_not_offered() {
    let stage = Stage::start().await;
    let reader = stage.caller("bea", "read", None);
    let elsewhere = stage.caller("cem", "read", Some("imp"));
    stage.reload(&elsewhere, 200).await;
    stage.acquire("import", "nightly").await;
    stage.acquire("web/1", "nightly").await;
    let Some(browser) = Browser::open(&stage).await else { return };
    browser.visit("lock?name=import").await;
    browser.log_in(&reader).await;
    browser.sees("What each node says").await;
    browser.sees("nightly").await;
    assert!(!browser.text().await.contains("Force release"));
    browser.press("Log out").await;
    browser.log_in(&elsewhere).await;
    browser.visit("locks").await;
    browser.sees("1 lock").await;
    assert!(!browser.text().await.contains("web/1"));
    browser.close(&["/v1/me", "401"]).await;
}
