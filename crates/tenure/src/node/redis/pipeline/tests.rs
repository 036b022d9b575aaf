//! What a pipeline makes of replies that come at bad moments, with the server's side written out by
//! hand.

use std::future::poll_fn;
use std::time::Duration;

use tenure_core::{
    Answer, ClientId, Fence, FenceBounds, LockKey, Next, Nonce, OwnerToken, Prefix, ProposedFence, Ticket,
    Time,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use super::*;
use crate::node::Addressee;

const CHANGED: &str = ">2\r\n$10\r\ninvalidate\r\n*1\r\n$6\r\nrecord\r\n";
const NO_SCRIPT: &str = "-NOSCRIPT No matching script.\r\n";
const RECORD: &str = "0000000000000007 tenure-1";

fn bounds() -> FenceBounds {
    FenceBounds::new(Duration::from_secs(10), Duration::from_secs(86_400))
}

/// A pipeline whose server tells by itself that the record has changed, and the server's end of it.
fn pipeline() -> (Pipeline, DuplexStream) {
    let (ours, theirs) = tokio::io::duplex(1 << 20);
    let mut scripts = Scripts::new(&Prefix::default(), bounds(), ClientId::default());
    let names = scripts.texts().map(|_| Some("0".repeat(40))).collect();
    scripts.loaded(names, true);
    let server = Server::default();
    let established = Established { stream: Box::new(ours), server, scripts, identity: None, unread: vec![] };
    (Pipeline::new(established), theirs)
}

fn tag() -> Tag {
    Tag { to: Addressee::Nobody, sent: Time::from_nanos(0) }
}

fn token() -> OwnerToken {
    OwnerToken::from_bytes([7; 20])
}

fn key() -> LockKey {
    LockKey::new(&Prefix::default(), "x").expect("a short name")
}

fn acquire(fenced: bool) -> Command {
    let fence = fenced.then(|| ProposedFence::new(Fence::new(1_700_000_000_000_000), bounds()));
    let (key, token, nonce) = (key(), token(), Some(Nonce::new(7)));
    Command::Acquire { key, token, node_ttl_ms: 1_000, nonce, fence, beside: None }
}

/// What a server says that has set the lock just now: the script tells its time, its own `SET` that
/// nobody had it before, with the lock's end behind it.
const fn granted(fenced: bool) -> &'static str {
    if fenced { ":1700000000000000\r\n" } else { "_\r\n:1700000001000\r\n" }
}

async fn news(pipeline: &mut Pipeline) -> PipelineEvent {
    let news = tokio::time::timeout(Duration::from_secs(10), poll_fn(|cx| pipeline.poll(cx))).await;
    news.expect("there is news").expect("the connection holds")
}

async fn say(server: &mut DuplexStream, texts: &[&str]) {
    server.write_all(texts.concat().as_bytes()).await.expect("there is room");
}

fn is_granted(news: &PipelineEvent) -> bool {
    matches!(news, PipelineEvent::Answer((_, Ok(Reply { answer: Answer::Granted, .. }))))
}

/// The script does not look at the record for a name whose fence this life of the memory knows, and
/// the server's own `SET` never does.
#[tokio::test]
async fn a_grant_that_comes_after_the_record_has_changed_is_not_counted() {
    for fenced in [true, false] {
        let (mut pipeline, mut server) = pipeline();
        pipeline.send(tag(), acquire(fenced));
        say(&mut server, &[CHANGED, granted(fenced)]).await;
        assert!(matches!(news(&mut pipeline).await, PipelineEvent::Changed));
        let PipelineEvent::Answer((_, Err(Fault::Error(reason)))) = news(&mut pipeline).await else {
            panic!("a grant in a memory that nobody knows was counted (fenced: {fenced})")
        };
        assert!(reason.contains("record has changed"), "{reason}");
        // Until the record has been read again, and not only asked for.
        let record = Command::Record { prefix: Prefix::default(), swap: None };
        pipeline.send(tag(), acquire(fenced));
        pipeline.send(tag(), record);
        pipeline.send(tag(), acquire(fenced));
        let told = format!("*2\r\n:1700000000000000\r\n${}\r\n{RECORD}\r\n", RECORD.len());
        let again = format!("${}\r\n{RECORD}\r\n", RECORD.len());
        say(&mut server, &[granted(fenced), &told, "+OK\r\n", &again, granted(fenced)]).await;
        assert!(
            matches!(news(&mut pipeline).await, PipelineEvent::Answer((_, Err(_)))),
            "(fenced: {fenced})"
        );
        assert!(matches!(news(&mut pipeline).await, PipelineEvent::Answer((_, Ok(_)))), "the record");
        assert!(is_granted(&news(&mut pipeline).await), "(fenced: {fenced})");
    }
}

#[tokio::test]
async fn a_grant_that_comes_before_the_record_changes_is_counted() {
    for fenced in [true, false] {
        let (mut pipeline, mut server) = pipeline();
        pipeline.send(tag(), acquire(fenced));
        say(&mut server, &[granted(fenced), CHANGED]).await;
        assert!(is_granted(&news(&mut pipeline).await), "(fenced: {fenced})");
        assert!(matches!(news(&mut pipeline).await, PipelineEvent::Changed));
    }
}

/// What has been written to the server since this was last asked.
async fn written(pipeline: &mut Pipeline, server: &mut DuplexStream) -> String {
    let flush = poll_fn(|cx| std::task::Poll::Ready(pipeline.poll_write(cx)));
    flush.await.expect("there is room");
    let mut buffer = vec![0; 1 << 20];
    let read = tokio::time::timeout(Duration::from_secs(10), server.read(&mut buffer)).await;
    let count = read.expect("something was written").expect("the connection holds");
    String::from_utf8_lossy(&buffer[..count]).into_owned()
}

/// A server that has forgotten the scripts is sent them whole, behind everything that is under way
/// by then.
#[tokio::test]
async fn an_acquire_is_not_sent_again_behind_its_release() {
    let ticket = Ticket { number: 7, client: ClientId::default() };
    let release = |next| Command::Release { key: key(), token: token(), labelled: false, next };
    let undo = |requeue| Command::Undo { key: key(), token: token(), requeue };
    let ending = [undo(None), release(Next::InLine), undo(Some(ticket)), release(Next::OutsideLine)];
    let heal =
        Command::Heal { key: key(), token: token(), node_ttl_ms: 1_000, fence: None, quarantine_ms: 1_000 };
    for (ends, sets) in ending.iter().zip([acquire(true), heal.clone(), acquire(true), heal]) {
        let (mut pipeline, mut server) = pipeline();
        pipeline.send(tag(), sets.clone());
        pipeline.send(tag(), ends.clone());
        drop(written(&mut pipeline, &mut server).await);
        say(&mut server, &[NO_SCRIPT, NO_SCRIPT, ":1\r\n"]).await;
        let answer = news(&mut pipeline).await;
        assert!(matches!(answer, PipelineEvent::Answer((_, Err(_)))), "it was sent again behind {ends:?}");
        assert!(is_granted(&news(&mut pipeline).await), "the release");
        let repeated = written(&mut pipeline, &mut server).await;
        assert_eq!(repeated.matches("EVAL\r\n").count(), 1, "{ends:?} alone is sent again");
        // Nothing ends what another owner sets.
        pipeline.send(tag(), sets);
        let other = OwnerToken::from_bytes([8; 20]);
        pipeline.send(tag(), Command::Undo { key: key(), token: other, requeue: None });
        drop(written(&mut pipeline, &mut server).await);
        say(&mut server, &[NO_SCRIPT, ":0\r\n", ":1700000000000000\r\n"]).await;
        assert!(matches!(news(&mut pipeline).await, PipelineEvent::Answer((_, Ok(_)))), "the release");
        assert!(is_granted(&news(&mut pipeline).await), "sent whole, and granted");
    }
}
