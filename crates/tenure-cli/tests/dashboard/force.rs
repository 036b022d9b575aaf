//! Force release: what it asks for, what it sends, and a lock that changed hands meanwhile.

use thirtyfour::prelude::*;

use crate::browser::Browser;
use crate::stage::Stage;

async fn fill(browser: &Browser, name: &str, reason: &str) {
    for (id, text) in [("force-name", name), ("force-reason", reason)] {
        let field = browser.driver.find(By::Id(id)).await.unwrap();
        field.clear().await.unwrap();
        field.send_keys(text).await.unwrap();
    }
}

const DISABLED: &str = "return document.querySelector('dialog .danger')?.disabled";

#[tokio::test]
async fn a_lock_is_taken_from_the_holder_that_is_shown() {
    let stage = Stage::start().await;
    let Some(browser) = Browser::open_as_ann(&stage).await else { return };
    stage.acquire("import", "nightly").await;
    browser.visit("lock?name=import").await;
    browser.press("Force release…").await;
    browser.sees("The holder is not stopped.").await;
    browser.sees("two processes may run at once").await;
    assert_eq!(browser.run(DISABLED).await, true);
    fill(&browser, "impor", "it hangs").await;
    assert_eq!(browser.run(DISABLED).await, true, "the name is not typed");
    fill(&browser, "import", " ").await;
    assert_eq!(browser.run(DISABLED).await, true, "there is no reason");
    fill(&browser, "import", "it hangs").await;
    browser.press("Release the lock").await;
    browser.sees("Released on 5 of 5 nodes.").await;
    browser.press("Close").await;
    browser.sees("Nobody holds this lock now.").await;
    let audit = std::fs::read_to_string(stage.folder.path().join("audit")).unwrap();
    assert!(audit.contains(r#""caller":"ann""#) && audit.contains(r#""reason":"it hangs""#), "{audit}");
    browser.visit("events").await;
    browser.close(&["/v1/me"]).await;
}

#[tokio::test]
async fn nothing_happens_to_somebody_who_has_the_lock_since() {
    let stage = Stage::start().await;
    let Some(browser) = Browser::open_as_ann(&stage).await else { return };
    let first = stage.acquire("import", "nightly").await;
    browser.visit("lock?name=import").await;
    browser.press("Force release…").await;
    stage.release(&first).await;
    stage.acquire("import", "by hand").await;
    browser.sees("The lock has changed hands since you opened this").await;
    fill(&browser, "import", "it hangs").await;
    browser.press("Release the lock").await;
    browser.sees("Nothing happened: this holder no longer has the lock.").await;
    browser.press("Close").await;
    browser
        .until("the new holder", "return document.querySelector('main .facts').innerText.includes('by hand')")
        .await;
    browser.close(&["/v1/me", "/v1/force-release"]).await;
}
