//! What the logs say. In a test program of its own: log levels are a matter of the whole process.

#[path = "support/nodes.rs"]
mod support;

use std::io::{Result, Write};
use std::sync::{Arc, Mutex, PoisonError};

use support::*;
use tenure::*;

/// Where the log goes.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn every_event_is_logged_with_the_lock_it_is_about() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
        .with_writer(move || writer.clone())
        .with_ansi(false)
        .without_time()
        .with_span_events(tracing_subscriber::fmt::format::FmtSpan::NEW)
        .finish();
    let _default = tracing::subscriber::set_default(subscriber);
    let nodes = nodes::<3>();
    let locks = paused(&nodes);
    let guard = locks.lock("invoice:42").acquire().await.unwrap();
    fail(&nodes, &Faults::unreachable());
    locks.lock("other").try_acquire().await.unwrap_err();
    fail(&nodes, &Faults::none());
    guard.release().await.unwrap();
    locks.shutdown().await.unwrap();
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    insta::assert_snapshot!(log, @r#"
    DEBUG acquire{lock="invoice:42"}: tenure: new
    DEBUG tenure: acquired lock="invoice:42" attempts=1 elapsed=0ns margin=0
    DEBUG acquire{lock="other"}: tenure: new
     WARN tenure: not acquired lock="other" cause=Unavailable attempts=1 elapsed=0ns
    TRACE tenure: cleaned up lock="other"
    DEBUG tenure: given up lock="invoice:42"
    TRACE tenure: cleaned up lock="invoice:42"
    "#);
}
