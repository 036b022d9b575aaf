//! Names and labels are other people's text, and nothing but text.

use serde_json::json;

use crate::browser::Browser;
use crate::stage::Stage;

/// What somebody may call a lock, and what the page makes of it.
fn texts() -> Vec<(String, String)> {
    let texts = [
        ("<img src=x onerror=\"window.hacked=1\"><script>window.hacked=1</script>", None),
        ("\"quotes\" 'and' `ticks` & &amp; ${window.hacked=1} %00", None),
        ("nul\0and\u{7}bell", Some("nul\\0and\\u{7}bell")),
        ("line\nbreak\r\n\ttab", Some("line\\nbreak\\r\\n\\ttab")),
        ("emoji \u{1f9e8} \u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467}", None),
        ("\u{5e9}\u{5dc}\u{5d5}\u{5dd} right to left", None),
        ("user\u{202e}gnp.exe", Some("user\\u{202e}gnp.exe")),
        ("zero\u{200b}width\u{feff}", Some("zero\\u{200b}width\\u{feff}")),
        ("javascript:window.hacked=1", None),
    ];
    let mut texts: Vec<(String, String)> =
        texts.map(|(text, shown)| (text.to_owned(), shown.unwrap_or(text).to_owned())).into();
    texts.push(("x".repeat(1_024), "x".repeat(1_024)));
    texts
}

#[tokio::test]
async fn hostile_names_and_labels_change_nothing_but_the_text() {
    let stage = Stage::start().await;
    let Some(browser) = Browser::open_as_ann(&stage).await else { return };
    let texts = texts();
    for (text, _) in &texts {
        let label: String = text.chars().filter(|c| !c.is_control()).take(60).collect();
        stage.acquire(text, &label).await;
    }
    browser.visit("locks").await;
    browser.sees(&format!("{} locks", texts.len())).await;
    let elements =
        "return [...new Set([...document.querySelectorAll('main *')].map(e => e.localName))].sort().join()";
    let kinds = browser.run(elements).await;
    assert!(
        !kinds.as_str().unwrap().contains("img") && !kinds.as_str().unwrap().contains("script"),
        "{kinds}"
    );
    browser
        .until(
            "all rows",
            &format!("return document.querySelectorAll('.vbody .lock-name').length === {}", texts.len()),
        )
        .await;
    for (text, shown) in &texts {
        let found = "return [...document.querySelectorAll('.vbody .lock-name')].some(a => a.textContent === arguments[0])";
        assert_eq!(browser.run_with(found, vec![json!(shown)]).await, true, "{shown:?}");
        let link = "const a = [...document.querySelectorAll('.vbody .lock-name')].find(a => a.textContent === arguments[0]); a.click(); return new URLSearchParams(location.search).get('name')";
        assert_eq!(browser.run_with(link, vec![json!(shown)]).await, json!(text));
        browser.until("its page", "return document.querySelectorAll('.matrix tbody tr').length === 5").await;
        let title = browser.run("return document.querySelector('h1').textContent").await;
        assert_eq!(title, json!(shown));
        let inside = browser.run("return [document.querySelector('h1 bdi') !== null, document.body.scrollWidth <= innerWidth + 1]").await;
        assert_eq!(inside, json!([true, true]), "{shown:?}");
        let command = browser.run("return document.querySelector('.commands code').textContent").await;
        assert!(!command.as_str().unwrap().contains(['\n', '\0', '\u{202e}']), "{command}");
        browser.run("history.back()").await;
        browser.sees(&format!("{} locks", texts.len())).await;
    }
    browser.visit("events").await;
    browser.sees("Events appear here").await;
    for (text, _) in &texts {
        let _ = stage.post("/v1/acquire", &json!({ "name": text })).await;
    }
    browser.until("events of all", &format!("return new Set([...document.querySelectorAll('.events .what')].map(e => e.textContent)).size >= {}", texts.len())).await;
    assert_eq!(browser.run("return window.hacked ?? null").await, json!(null));
    browser.close(&["/v1/me"]).await;
}
