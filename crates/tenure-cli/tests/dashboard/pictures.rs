//! The pictures of `docs/reference/dashboard.md`, taken from a real run.
//!
//! They are rewritten with `UPDATE_TESTDATA=1 cargo test -p tenure-cli --test dashboard pictures`;
//! otherwise the test makes sure that they can be taken, and that those in the documents are there
//! and small.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::json;
use tenure_testkit::RedisServer;

use crate::browser::Browser;
use crate::stage::Stage;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/dashboard");
const BYTES_MAX: usize = 100_000;

async fn take(browser: &Browser, name: &str, height: u32) {
    browser.size(1000, height).await;
    for scheme in ["light", "dark"] {
        browser.prefers(scheme).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        let picture = browser.driver.screenshot_as_png().await.unwrap();
        assert!(picture.starts_with(b"\x89PNG"), "{name}");
        let path = Path::new(FOLDER).join(format!("{name}-{scheme}.png"));
        if std::env::var_os("UPDATE_TESTDATA").is_some() {
            std::fs::create_dir_all(FOLDER).unwrap();
            std::fs::write(&path, &picture).unwrap();
            // With 256 colours they look the same, and take a third.
            let mut pngquant = Command::new("pngquant");
            let done = pngquant.args(["--force", "--strip", "--ext", ".png", "256"]).arg(&path).status();
            assert!(done.unwrap().success(), "install pngquant to rewrite the pictures");
        }
        let kept = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(kept.starts_with(b"\x89PNG") && kept.len() <= BYTES_MAX, "{name}: {}", kept.len());
    }
}

#[tokio::test]
async fn the_pictures_in_the_documents_come_from_a_real_run() {
    let servers = RedisServer::start_many::<5>(&["--appendonly", "yes"]);
    let mut stage = Stage::with(servers.into(), "max_ttl = \"60s\"\n").await;
    let Some(browser) = Browser::open_as_ann(&stage).await else { return };
    // Somebody else's work: jobs that come and go, one that many want, and a few that stay.
    browser.tells("Emulation.setScrollbarsHidden", json!({ "hidden": true })).await;
    for (name, label) in [
        ("billing/invoices", "billing@web-1"),
        ("search/reindex", "indexer@batch-1"),
        ("cache/warm-up", "cron@web-2"),
        ("reports/daily", "reports@batch-2"),
    ] {
        stage.acquire(name, label).await;
    }
    browser.visit("lock?name=import%2Fnightly").await;
    browser.sees("Nobody holds this lock now.").await;
    let mut holder = stage.hold("import/nightly", "import@batch-1").await;
    let mut waiting = vec![];
    for label in ["import@batch-2", "import@batch-3", "backfill@ops"] {
        waiting.push(stage.hold("import/nightly", label).await);
    }
    for next in 0..2 {
        tokio::time::sleep(Duration::from_millis(4_000)).await;
        holder = waiting.remove(0);
        waiting.push(stage.hold("import/nightly", ["import@batch-1", "import@batch-2"][next]).await);
    }
    browser.until("three lanes", "return document.querySelectorAll('.timeline .lane').length >= 3").await;
    tokio::time::sleep(Duration::from_millis(4_000)).await;
    take(&browser, "lock", 1030).await;
    stage.servers[3].restart_empty();
    browser.visit("nodes").await;
    browser.sees("It may have forgotten locks").await;
    take(&browser, "nodes", 880).await;
    browser.visit("").await;
    browser.sees("in quarantine for").await;
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    take(&browser, "overview", 540).await;
    browser.visit("locks").await;
    browser.sees("5 locks").await;
    take(&browser, "locks", 440).await;
    assert_eq!(browser.run("return document.querySelectorAll('.error').length").await, json!(0));
    drop((holder, waiting));
    browser.close(&["/v1/me"]).await;
}
