//! What the logs say. In a test program of its own: log levels are a matter of the whole process.
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has to fail")]

#[path = "support/nodes.rs"]
mod support;

use std::io::{Result, Write};
use std::sync::{Arc, Mutex, PoisonError};

use support::*;
use tenure::*;

/// Where the log goes.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Writes down everything that this thread logs, for as long as the second value lives.
fn listen() -> (Log, tracing::subscriber::DefaultGuard) {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
        .with_writer(move || writer.clone())
        .with_ansi(false)
        .without_time()
        .with_span_events(tracing_subscriber::fmt::format::FmtSpan::NEW)
        .finish();
    (log, tracing::subscriber::set_default(subscriber))
}

#[tokio::test(start_paused = true)]
async fn every_event_is_logged_with_the_lock_it_is_about() {
    let (log, _default) = listen();
    let nodes = nodes::<3>();
    let locks = paused(&nodes);
    let guard = locks.lock("invoice:42").acquire().await.unwrap();
    let fence = guard.fence().to_string();
    fail(&nodes, &Faults::unreachable());
    locks.lock("other").try_acquire().await.unwrap_err();
    fail(&nodes, &Faults::none());
    guard.release().await.unwrap();
    locks.shutdown().await.unwrap();
    let log = log.text().replace(&fence, "FENCE");
    insta::assert_snapshot!(log, @r#"
    DEBUG acquire{lock="invoice:42"}: tenure: new
    DEBUG acquire{lock="invoice:42"}:ask{otel.kind="client" node="memory:0" command="acquire"}: tenure: new
    DEBUG acquire{lock="invoice:42"}:ask{otel.kind="client" node="memory:1" command="acquire"}: tenure: new
    DEBUG acquire{lock="invoice:42"}:ask{otel.kind="client" node="memory:2" command="acquire"}: tenure: new
    DEBUG tenure: acquired lock="invoice:42" attempts=1 elapsed=0ns margin=0 fence=FENCE
    DEBUG acquire{lock="other"}: tenure: new
    DEBUG acquire{lock="other"}:ask{otel.kind="client" node="memory:0" command="acquire"}: tenure: new
    DEBUG acquire{lock="other"}:ask{otel.kind="client" node="memory:1" command="acquire"}: tenure: new
    DEBUG acquire{lock="other"}:ask{otel.kind="client" node="memory:2" command="acquire"}: tenure: new
    DEBUG acquire{lock="other"}:ask{otel.kind="client" node="memory:0" command="undo"}: tenure: new
    DEBUG acquire{lock="other"}:ask{otel.kind="client" node="memory:1" command="undo"}: tenure: new
    DEBUG acquire{lock="other"}:ask{otel.kind="client" node="memory:2" command="undo"}: tenure: new
     WARN tenure: not acquired lock="other" cause=Unavailable attempts=1 elapsed=0ns
    TRACE tenure: cleaned up lock="other"
    DEBUG release{lock="invoice:42"}: tenure: new
    DEBUG release{lock="invoice:42"}:ask{otel.kind="client" node="memory:0" command="release"}: tenure: new
    DEBUG release{lock="invoice:42"}:ask{otel.kind="client" node="memory:1" command="release"}: tenure: new
    DEBUG release{lock="invoice:42"}:ask{otel.kind="client" node="memory:2" command="release"}: tenure: new
    DEBUG tenure: given up lock="invoice:42" fence=FENCE held=Some(0ns)
    TRACE tenure: cleaned up lock="invoice:42"
    "#);
}

#[cfg(feature = "redis")]
#[tokio::test]
async fn neither_passwords_nor_tokens_are_logged() {
    let (log, _default) = listen();
    let server = tenure_testkit::RedisServer::start(&["--requirepass", "geheim"]);
    for (user, works) in [("default:geheim", true), ("default:geheimnis", false)] {
        let url = server.url().replace("//", &format!("//{user}@"));
        let locks = Locks::builder().url(&url).unwrap().build().unwrap();
        let asked = locks.lock("x").label("me").wait(std::time::Duration::from_millis(200)).acquire().await;
        assert_eq!(asked.is_ok(), works, "{asked:?}");
        let mut shown = format!("{locks:?} {asked:?} {:?}", locks.nodes().await);
        if let Ok(guard) = asked {
            let handover = guard.to_handover();
            shown.push_str(&format!("{guard:?} {handover:?}"));
            assert!(!shown.contains(&handover.token.to_string()), "{shown}");
            assert!(!log.text().contains(&handover.token.to_string()), "{}", log.text());
            let _ = guard.release().await;
        }
        assert!(!shown.contains("geheim"), "{shown}");
        let _ = locks.shutdown_within(std::time::Duration::from_millis(500)).await;
    }
    let log = log.text();
    assert!(log.contains("lock=\"x\"") && !log.contains("geheim"), "{log}");
}
