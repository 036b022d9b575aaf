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
    DEBUG tenure.acquire{lock="invoice:42"}: tenure: new
    DEBUG tenure.acquire{lock="invoice:42"}:tenure.ask{otel.kind="client" node="memory:0" command="acquire"}: tenure: new
    DEBUG tenure.acquire{lock="invoice:42"}:tenure.ask{otel.kind="client" node="memory:1" command="acquire"}: tenure: new
    DEBUG tenure.acquire{lock="invoice:42"}:tenure.ask{otel.kind="client" node="memory:2" command="acquire"}: tenure: new
    DEBUG tenure.acquire{lock="invoice:42"}: tenure: acquired lock="invoice:42" attempts=1 elapsed=0ns margin=0 fence=FENCE passed_on_after=None
    DEBUG tenure.acquire{lock="other"}: tenure: new
    DEBUG tenure.acquire{lock="other"}:tenure.ask{otel.kind="client" node="memory:0" command="acquire"}: tenure: new
    DEBUG tenure.acquire{lock="other"}:tenure.ask{otel.kind="client" node="memory:1" command="acquire"}: tenure: new
    DEBUG tenure.acquire{lock="other"}:tenure.ask{otel.kind="client" node="memory:2" command="acquire"}: tenure: new
    DEBUG tenure.acquire{lock="other"}:tenure.ask{otel.kind="client" node="memory:0" command="undo"}: tenure: new
    DEBUG tenure.acquire{lock="other"}:tenure.ask{otel.kind="client" node="memory:1" command="undo"}: tenure: new
    DEBUG tenure.acquire{lock="other"}:tenure.ask{otel.kind="client" node="memory:2" command="undo"}: tenure: new
     WARN tenure.acquire{lock="other"}: tenure: not acquired lock="other" cause=Unavailable attempts=1 elapsed=0ns
    TRACE tenure: cleaned up lock="other"
    DEBUG tenure.release{lock="invoice:42"}: tenure: new
    DEBUG tenure.release{lock="invoice:42" fence=FENCE}:tenure.ask{otel.kind="client" node="memory:0" command="release"}: tenure: new
    DEBUG tenure.release{lock="invoice:42" fence=FENCE}:tenure.ask{otel.kind="client" node="memory:1" command="release"}: tenure: new
    DEBUG tenure.release{lock="invoice:42" fence=FENCE}:tenure.ask{otel.kind="client" node="memory:2" command="release"}: tenure: new
    DEBUG tenure.release{lock="invoice:42" fence=FENCE}: tenure: given up lock="invoice:42" fence=FENCE held=Some(0ns)
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

/// What a layer sees: each span with its ancestors and fields, each event with its spans.
#[derive(Clone, Default)]
struct Trace(Arc<Mutex<Vec<(String, String)>>>);

/// Where in the list a span is.
struct Place(usize);

/// The fields of a span or an event, in words.
struct Fields<'a>(&'a mut String);

impl tracing::field::Visit for Fields<'_> {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        use std::fmt::Write as _;
        write!(self.0, " {}={value:?}", field.name()).unwrap();
    }
}

impl Trace {
    /// Everything below the span of a caller, by the path to it.
    fn below(&self, root: &str) -> Vec<(String, String)> {
        let all = self.0.lock().unwrap();
        all.iter().filter(|(path, _)| path.starts_with(root)).cloned().collect()
    }

    fn path<'a, S: tracing::Subscriber + for<'b> tracing_subscriber::registry::LookupSpan<'b>>(
        scope: Option<tracing_subscriber::registry::Scope<'a, S>>,
    ) -> String {
        let names = scope.into_iter().flat_map(tracing_subscriber::registry::Scope::from_root);
        names.map(|span| span.name()).collect::<Vec<_>>().join(" > ")
    }
}

impl<S> tracing_subscriber::Layer<S> for Trace
where
    S: tracing::Subscriber + for<'a> tracing_subscriber::registry::LookupSpan<'a>,
{
    fn on_new_span(
        &self,
        attributes: &tracing::span::Attributes<'_>,
        id: &tracing::span::Id,
        ctx: tracing_subscriber::layer::Context<'_, S>,
    ) {
        let (path, mut fields) = (Self::path(ctx.span_scope(id)), String::new());
        attributes.record(&mut Fields(&mut fields));
        let mut all = self.0.lock().unwrap();
        ctx.span(id).unwrap().extensions_mut().insert(Place(all.len()));
        all.push((path, fields));
    }

    fn on_record(
        &self,
        id: &tracing::span::Id,
        values: &tracing::span::Record<'_>,
        ctx: tracing_subscriber::layer::Context<'_, S>,
    ) {
        let span = ctx.span(id).unwrap();
        let place = span.extensions().get::<Place>().map(|place| place.0).unwrap();
        values.record(&mut Fields(&mut self.0.lock().unwrap()[place].1));
    }

    fn on_event(&self, event: &tracing::Event<'_>, ctx: tracing_subscriber::layer::Context<'_, S>) {
        let (path, mut fields) = (Self::path(ctx.event_scope(event)), String::new());
        event.record(&mut Fields(&mut fields));
        self.0.lock().unwrap().push((format!("{path}:"), fields));
    }
}

#[tokio::test]
async fn what_is_done_for_a_request_is_in_its_trace_wherever_the_worker_runs() {
    use tracing::Instrument;
    use tracing_subscriber::prelude::*;
    for worker in [Worker::CurrentRuntime, Worker::OwnThread] {
        let trace = Trace::default();
        let _default = tracing_subscriber::registry().with(trace.clone()).set_default();
        let nodes = nodes::<3>();
        let locks = builder(&nodes).worker(worker).build().unwrap();
        locks.ready().await;
        let outside = locks.lock("held").acquire().await.unwrap();
        let request = async {
            let mut guard = locks.lock("x").acquire().await.unwrap();
            guard.extend().await.unwrap();
            let fence = guard.fence();
            guard.release().await.unwrap();
            assert!(locks.lock("held").try_acquire().await.unwrap().is_none());
            locks.lock("held").wait(ms(30)).acquire().await.unwrap_err();
            fence
        };
        let fence = request.instrument(tracing::info_span!("request")).await;
        drop(outside);
        locks.shutdown().await.unwrap();
        let below = trace.below("request");
        let has = |path: &str, texts: &[String]| {
            let fits =
                |(at, said): &&(String, String)| at == path && texts.iter().all(|text| said.contains(text));
            below.iter().filter(fits).count()
        };
        let fence = format!(" fence={fence}");
        let text = str::to_owned;
        for (path, texts, times) in [
            (
                "request > tenure.acquire",
                vec![text("lock=\"x\""), text("outcome=\"acquired\""), fence.clone(), text("waited_ms=")],
                1,
            ),
            ("request > tenure.acquire:", vec![text("message=acquired"), fence.clone()], 1),
            (
                "request > tenure.extend",
                vec![text("lock=\"x\""), text("outcome=\"extended\""), fence.clone()],
                1,
            ),
            ("request > tenure.extend > tenure.ask", vec![text("command=\"extend\"")], 3),
            ("request > tenure.extend:", vec![text("message=extended"), fence.clone()], 1),
            (
                "request > tenure.release",
                vec![text("lock=\"x\""), text("outcome=\"released\""), fence.clone()],
                1,
            ),
            ("request > tenure.release > tenure.ask", vec![text("command=\"release\"")], 3),
            ("request > tenure.release:", vec![text("message=given up")], 1),
            ("request > tenure.acquire", vec![text("lock=\"held\""), text("outcome=\"contended\"")], 2),
            ("request > tenure.acquire:", vec![text("message=not acquired"), text("lock=\"held\"")], 2),
        ] {
            assert_eq!(has(path, &texts), times, "{worker:?} {path} {texts:?}: {below:#?}");
        }
        let asked = [text("command=\"acquire\""), text("node=\"memory:2\"")];
        assert!(has("request > tenure.acquire > tenure.ask", &asked) >= 3, "{below:#?}");
        assert!(has("request > tenure.acquire:", &[text("message=waiting in line")]) >= 1, "{below:#?}");
        // What nobody asked for in that request is not in its trace.
        assert_eq!(below.iter().filter(|(_, said)| said.contains("cleaned up")).count(), 0);
    }
}

#[tokio::test]
async fn at_info_there_are_no_spans_of_ours_and_warnings_are_in_the_callers() {
    use tracing::Instrument;
    use tracing_subscriber::filter::LevelFilter;
    use tracing_subscriber::prelude::*;
    let trace = Trace::default();
    let subscriber = tracing_subscriber::registry().with(LevelFilter::INFO).with(trace.clone());
    let _default = subscriber.set_default();
    let nodes = nodes::<3>();
    let locks = builder(&nodes).build().unwrap();
    locks.ready().await;
    fail(&nodes, &Faults::unreachable());
    let request = async { locks.lock("x").try_acquire().await.unwrap_err() };
    request.instrument(tracing::info_span!("request")).await;
    let all = trace.0.lock().unwrap().clone();
    assert!(all.iter().all(|(path, _)| !path.contains("tenure.")), "{all:#?}");
    let warned = |(path, said): &&(String, String)| path == "request:" && said.contains("not acquired");
    assert_eq!(all.iter().filter(warned).count(), 1, "{all:#?}");
}
