//! A service that is gone, or was restarted; a viewer whose clock is wrong.

use serde_json::json;

use crate::browser::Browser;
use crate::stage::Stage;

#[tokio::test]
async fn the_last_picture_is_greyed_until_the_service_is_back() {
    let mut stage = Stage::start().await;
    let Some(browser) = Browser::open_as_ann(&stage).await else { return };
    let lease = stage.acquire("import", "nightly").await;
    browser.visit("locks").await;
    browser.sees("import").await;
    stage.kill();
    browser.sees("No connection to the service since").await;
    browser.sees("Stale").await;
    browser.sees("import").await;
    assert_eq!(
        browser.run("return getComputedStyle(document.querySelector('main')).filter").await,
        "grayscale(1)"
    );
    stage.restart().await;
    browser.sees("Live").await;
    browser.sees_no("No connection to the service").await;
    browser.sees("import").await;
    stage.release(&lease).await;
    browser.sees("Nothing is locked.").await;
    browser.visit("events").await;
    browser.sees("Events appear here").await;
    stage.acquire("import", "again").await;
    browser.sees("after").await;
    browser.close(&["/v1/", "ERR_", "net::"]).await;
}

#[tokio::test]
async fn ages_and_countdowns_are_right_on_a_machine_whose_clock_is_hours_off() {
    let stage = Stage::start().await;
    let Some(browser) = Browser::open_as_ann(&stage).await else { return };
    // The page's wall clock runs three hours behind, from its first script on.
    let script = "const Real = Date; globalThis.Date = class extends Real { constructor(...a) { if (a.length) super(...a); else super(Real.now() - 10_800_000); } static now() { return Real.now() - 10_800_000; } };";
    browser.tells("Page.addScriptToEvaluateOnNewDocument", json!({ "source": script })).await;
    stage.acquire("import", "nightly").await;
    browser.visit("lock?name=import").await;
    browser.sees("What each node says").await;
    let off = browser.run("return Date.now()").await.as_f64().unwrap() / 1_000.0;
    let real = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
    assert!(real - off > 10_000.0, "its clock is right");
    let left = "const m = /^(\\d+) s$/.exec(document.querySelector('main .facts .left .number')?.innerText ?? ''); return !!m && +m[1] > 40 && +m[1] <= 67";
    browser.until("the time left", left).await;
    browser.visit("events").await;
    browser.sees("Events appear here").await;
    stage.acquire("other", "nightly").await;
    // Shown as the service's clock has it.
    let shown = browser
        .until(
            "an event",
            "return new Date(document.querySelector('.events time')?.dateTime ?? 0).getTime() || null",
        )
        .await;
    assert!((shown.as_f64().unwrap() / 1_000.0 - real).abs() < 60.0, "{shown} {real}");
    browser.close(&["/v1/me"]).await;
}
