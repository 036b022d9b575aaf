//! Chromium, driven over its own driver, with a profile that is new and empty.

use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use tenure_testkit::{Client, Port, installed, nursery};
use thirtyfour::prelude::*;

use crate::stage::Stage;

/// What a busy machine may take for something that a person waits a second for.
const PATIENCE: Duration = Duration::from_secs(60);

/// Without these it asks the world for updates, or does not run as root.
const FLAGS: [&str; 10] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    // Grey letters: pictures are smaller, and the same on every screen.
    "--disable-lcd-text",
    "--window-size=1280,900",
];

/// A browser that looks at a service.
pub(crate) struct Browser {
    pub(crate) driver: WebDriver,
    base: String,
    // In this order: the driver ends before its folder goes.
    _process: Client,
    _profile: TempDir,
}

impl Browser {
    /// One that nobody has logged in with; `None` if this machine has no Chromium.
    pub(crate) async fn open(stage: &Stage) -> Option<Self> {
        installed("chromium")?;
        installed("chromedriver")?;
        let (port, profile) = (Port::claim(), tempfile::tempdir().unwrap());
        let mut command = nursery::command("chromedriver");
        command.arg(format!("--port={}", port.number())).env("HOME", profile.path());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let process = Client::of(command);
        let mut wanted = DesiredCapabilities::chrome();
        wanted.set_binary(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/dashboard/chromium.sh")).unwrap();
        for flag in FLAGS {
            wanted.add_arg(flag).unwrap();
        }
        wanted.add_arg(&format!("--user-data-dir={}", profile.path().join("profile").display())).unwrap();
        wanted.set("goog:loggingPrefs", json!({ "browser": "ALL", "performance": "ALL" })).unwrap();
        let url = format!("http://127.0.0.1:{}", port.number());
        let deadline = Instant::now() + PATIENCE;
        let driver = loop {
            match WebDriver::new(&url, wanted.clone()).await {
                Ok(driver) => break driver,
                Err(error) => assert!(Instant::now() < deadline, "the browser does not start: {error}"),
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        };
        // A test that fails ends its browser by killing the driver: waiting for its answer then
        // would hang this thread.
        std::mem::forget(driver.clone());
        Some(Self { driver, base: stage.url(), _process: process, _profile: profile })
    }

    /// One in which `ann` has logged in.
    pub(crate) async fn open_as_ann(stage: &Stage) -> Option<Self> {
        let browser = Self::open(stage).await?;
        browser.visit("").await;
        browser.log_in(&stage.token).await;
        browser.sees("Live").await;
        Some(browser)
    }

    /// Goes to a page of the dashboard.
    pub(crate) async fn visit(&self, page: &str) {
        self.driver.goto(format!("{}/ui/{page}", self.base)).await.unwrap();
    }

    /// Types a token into the log-in page.
    pub(crate) async fn log_in(&self, token: &str) {
        self.until("the log-in page", "return !!document.querySelector('#token')").await;
        let field = self.driver.find(By::Id("token")).await.unwrap();
        field.send_keys(token).await.unwrap();
        field.send_keys(Key::Enter).await.unwrap();
    }

    /// Runs a script in the page.
    pub(crate) async fn run(&self, script: &str) -> Value {
        self.run_with(script, vec![]).await
    }

    pub(crate) async fn run_with(&self, script: &str, arguments: Vec<Value>) -> Value {
        self.driver.execute(script, arguments).await.unwrap().json().clone()
    }

    /// Waits until a script says something true, and gives that.
    pub(crate) async fn until(&self, what: &str, script: &str) -> Value {
        let deadline = Instant::now() + PATIENCE;
        // What it looks for may not be there yet.
        let script = format!("try {{ {script} }} catch {{ return null }}");
        loop {
            let told = self.run(&script).await;
            if !matches!(told, Value::Null | Value::Bool(false)) {
                return told;
            }
            if Instant::now() > deadline {
                panic!("{what}: not within {PATIENCE:?}; the page says:\n{}", self.text().await);
            }
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    }

    /// Waits until the page shows this text.
    pub(crate) async fn sees(&self, text: &str) {
        let script = format!("return document.body.innerText.includes({})", json!(text));
        self.until(&format!("to see {text:?}"), &script).await;
    }

    /// Waits until the page does not show this text any more.
    pub(crate) async fn sees_no(&self, text: &str) {
        let script = format!("return !document.body.innerText.includes({})", json!(text));
        self.until(&format!("to see no {text:?}"), &script).await;
    }

    pub(crate) async fn text(&self) -> String {
        self.run("return document.body.innerText").await.as_str().unwrap_or_default().to_owned()
    }

    /// Clicks what a selector finds.
    pub(crate) async fn click(&self, selector: &str) {
        self.until(selector, &format!("return !!document.querySelector({})", json!(selector))).await;
        self.driver.find(By::Css(selector)).await.unwrap().click().await.unwrap();
    }

    /// Clicks the button that says this.
    pub(crate) async fn press(&self, words: &str) {
        let script = format!(
            "return [...document.querySelectorAll('button')].find(b => !b.disabled && b.innerText.trim() === {})",
            json!(words)
        );
        self.until(&format!("button {words:?}"), &format!("{script} !== undefined")).await;
        let found = self.driver.execute(script, vec![]).await.unwrap();
        found.element().unwrap().click().await.unwrap();
    }

    /// Types keys into whatever has the focus.
    pub(crate) async fn types(&self, keys: impl Into<TypingData>) {
        self.driver.action_chain().send_keys(keys).perform().await.unwrap();
    }

    /// Speaks to the browser itself.
    pub(crate) async fn tells(&self, method: &str, parameters: Value) -> Value {
        self.driver.cdp().send_raw(method, parameters).await.unwrap()
    }

    pub(crate) async fn size(&self, width: u32, height: u32) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.tells("Emulation.setDeviceMetricsOverride", size).await;
    }

    pub(crate) async fn prefers(&self, scheme: &str) {
        let feature = json!({ "name": "prefers-color-scheme", "value": scheme });
        self.tells("Emulation.setEmulatedMedia", json!({ "features": [feature] })).await;
    }

    /// Ends it. Nothing may have left the origin, and the console has no error but the network
    /// failures that are expected here.
    pub(crate) async fn close(self, expected: &[&str]) {
        for entry in self.driver.browser_log().await.unwrap() {
            let is_expected = expected.iter().any(|part| entry.message.contains(part));
            assert!(
                is_expected || entry.level == "INFO" || entry.level == "DEBUG",
                "{}: {}",
                entry.level,
                entry.message
            );
        }
        let own = [
            self.base.clone(),
            "data:".to_owned(),
            "about:".to_owned(),
            "chrome".to_owned(),
            "blob:".to_owned(),
        ];
        let mut asked = 0;
        for entry in self.driver.get_log("performance").await.unwrap() {
            let told: Value = serde_json::from_str(&entry.message).unwrap();
            if told["message"]["method"] == "Network.requestWillBeSent" {
                let url = told["message"]["params"]["request"]["url"].as_str().unwrap_or_default().to_owned();
                assert!(own.iter().any(|own| url.starts_with(own.as_str())), "it asked {url}");
                asked += 1;
            }
        }
        assert!(asked > 0, "no request was seen at all");
        self.driver.clone().quit().await.unwrap();
    }
}
