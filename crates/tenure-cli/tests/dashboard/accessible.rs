//! What axe-core says about every page, light and dark, wide and narrow.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tenure_testkit::skip;

use crate::browser::Browser;
use crate::stage::Stage;

/// All rules, those of good practice among them; in the dark those about colours, as nothing else
/// differs there. The script asks for no file of its own.
const RUN: &str = "const done = arguments[arguments.length - 1]; const dark = matchMedia('(prefers-color-scheme: dark)').matches; \
    axe.run(document, { preload: false, resultTypes: ['violations'], ...(dark ? { runOnly: { type: 'rule', values: ['color-contrast', 'link-in-text-block'] } } : {}) }).then(r => done(r.violations.map(v => [v.id, v.nodes.map(n => [n.html, n.failureSummary])])), e => done(String(e)))";

/// axe-core, if it was fetched: `cargo xtask test --all` does.
fn axe() -> Option<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/xtask-axe");
    let fetched =
        || std::fs::read_dir(folder).ok()?.next()?.ok().map(|found| found.path().join("axe.min.js"));
    let path = std::env::var_os("TENURE_AXE").map(PathBuf::from).or_else(fetched);
    let script = path.and_then(|path| std::fs::read_to_string(path).ok());
    if script.is_none() {
        skip("axe-core is not installed");
    }
    script
}

struct Judge {
    browser: Browser,
    axe: String,
}

impl Judge {
    /// Finds nothing wrong with what the page shows, in all its forms.
    async fn accepts(&self, what: &str) {
        for width in [1280, 360] {
            self.browser.size(width, 900).await;
            for scheme in ["light", "dark"] {
                self.browser.prefers(scheme).await;
                if self.browser.run("return 'axe' in window").await == false {
                    self.browser.run(&self.axe).await;
                }
                let found = self.browser.driver.execute_async(RUN, vec![]).await.unwrap().json().clone();
                assert_eq!(found, json!([]), "{what}, {scheme}, {width} pixels: {found:#}");
                let wide = self.browser.run("return document.documentElement.scrollWidth").await;
                assert!(
                    wide.as_u64().unwrap() <= u64::from(width),
                    "{what} is {wide} pixels wide, in {width}"
                );
            }
        }
        self.browser.size(1280, 900).await;
    }
}

#[tokio::test]
async fn axe_finds_nothing_on_any_page_in_any_form() {
    let Some(axe) = axe() else { return };
    let mut stage = Stage::start().await;
    let Some(browser) = Browser::open(&stage).await else { return };
    let judge = Judge { browser, axe };
    let page = &judge.browser;
    page.visit("").await;
    page.sees("Log in to use this service.").await;
    judge.accepts("log-in").await;
    page.log_in(&stage.token).await;
    page.sees("No locks yet").await;
    judge.accepts("overview without locks").await;
    page.visit("nothing").await;
    page.sees("Page not found").await;
    judge.accepts("no such page").await;

    let holder = stage.hold("import", "nightly \u{202e} <b>").await;
    let waiter = stage.hold("import", "second").await;
    stage.acquire("web/1", "one").await;
    stage.servers[4].kill();
    stage.servers[3].restart_empty();
    page.visit("").await;
    page.sees("in quarantine for").await;
    judge.accepts("overview").await;
    page.visit("locks").await;
    page.sees("2 locks").await;
    judge.accepts("locks").await;
    page.visit("nodes").await;
    page.sees("It may have forgotten locks").await;
    judge.accepts("nodes").await;
    page.visit("events").await;
    page.sees("Events appear here").await;
    judge.accepts("events without any").await;
    stage.acquire("web/2", "one").await;
    page.sees("web/2").await;
    judge.accepts("events").await;
    page.visit("lock?name=import").await;
    page.sees("Waiting in line").await;
    page.click("details summary").await;
    judge.accepts("a lock").await;
    page.press("Force release…").await;
    page.sees("Type the name").await;
    judge.accepts("force release").await;
    page.press("Cancel").await;
    page.click("button[aria-label='Keyboard shortcuts']").await;
    page.sees("Show keyboard shortcuts").await;
    judge.accepts("keys").await;
    page.press("Close").await;
    drop((holder, waiter));
    stage.kill();
    page.sees("No connection to the service").await;
    judge.accepts("a service that is gone").await;
}

/// Contrast of text and of what carries meaning, for the colours of all states.
#[tokio::test]
async fn the_colours_of_all_states_have_contrast_on_all_grounds() {
    let stage = Stage::start().await;
    let Some(browser) = Browser::open(&stage).await else { return };
    browser.visit("").await;
    let script = "const style = getComputedStyle(document.documentElement); const probe = document.createElement('i'); document.body.append(probe); \
        const light = (name) => { probe.style.color = `var(--${name})`; return getComputedStyle(probe).color.match(/[\\d.]+/g).slice(0, 3).map(Number).map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4).reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0); }; \
        const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); }; \
        const found = []; for (const ink of ['ink', 'soft', 'accent', 'good', 'warn', 'bad']) for (const ground of ['paper', 'card', 'hover']) found.push([ink, ground, ratio(ink, ground)]); \
        for (const own of ['accent', 'good', 'warn', 'bad']) found.push([own, `${own}-soft`, ratio(own, `${own}-soft`)], ['ink', `${own}-soft`, ratio('ink', `${own}-soft`)]); \
        found.push(['accent-ink', 'accent', ratio('accent-ink', 'accent')]); probe.remove(); return found.filter(([, , r]) => !(r >= 4.5));";
    for scheme in ["light", "dark"] {
        browser.prefers(scheme).await;
        let poor: Value = browser.run(script).await;
        assert_eq!(poor, json!([]), "{scheme}");
    }
}
