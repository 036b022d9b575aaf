//! What a pipeline makes of replies that come at bad moments, with the server's side written out by
//! hand.

use std::future::poll_fn;
use std::time::Duration;

use tenure_core::{
    Answer, ClientId, Fence, FenceBounds, LockKey, Mode, Next, Nonce, OwnerToken, Prefix, ProposedFence,
    Ticket, Time,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use super::*;
use crate::node::Addressee;

const CHANGED: &str = ">2\r\n$10\r\ninvalidate\r\n*1\r\n$21\r\ntenure~node:{tenure:}\r\n";
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
/// nobody had it before.
const fn granted(fenced: bool) -> &'static str {
    if fenced { ":1700000000000000\r\n" } else { "_\r\n" }
}

/// What it says at the end of a write with its own `SET`s: its time.
const fn time(fenced: bool) -> &'static str {
    if fenced { "" } else { "*2\r\n$10\r\n1700000000\r\n$1\r\n7\r\n" }
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
        say(&mut server, &[CHANGED, granted(fenced), time(fenced)]).await;
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
        say(&mut server, &[granted(fenced), &told, "+OK\r\n", &again, granted(fenced), time(fenced)]).await;
        let mut told = vec![];
        for _ in 0..3 {
            told.push(news(&mut pipeline).await);
        }
        // The server's own `SET`s are told when the time has come: behind the record.
        if !fenced {
            told.rotate_left(1);
            told.swap(1, 2);
        }
        let PipelineEvent::Answer((_, Err(_))) = &told[0] else {
            panic!("granted before the record was read again, and counted (fenced: {fenced})")
        };
        assert!(matches!(&told[1], PipelineEvent::Answer((_, Ok(_)))), "the record");
        assert!(is_granted(&told[2]), "(fenced: {fenced})");
    }
}

#[tokio::test]
async fn a_grant_that_comes_before_the_record_changes_is_counted() {
    for fenced in [true, false] {
        let (mut pipeline, mut server) = pipeline();
        pipeline.send(tag(), acquire(fenced));
        say(&mut server, &[granted(fenced), time(fenced), CHANGED]).await;
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
    let ticket = Ticket::exclusive(7, ClientId::default());
    let release = |next| Command::Release { key: key(), token: token(), labelled: false, next };
    let undo = |requeue| Command::Undo { key: key(), token: token(), requeue };
    let ending = [undo(None), release(Next::InLine), undo(Some(ticket)), release(Next::OutsideLine)];
    let heal = Command::Heal {
        key: key(),
        token: token(),
        node_ttl_ms: 1_000,
        fence: None,
        quarantine_ms: 1_000,
        mode: Mode::Exclusive,
    };
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

fn named(name: &str) -> LockKey {
    LockKey::new(&Prefix::default(), name).expect("a short name")
}

/// A command of each kind that can be sent with others, for this lock.
fn batchable(batch: Batch, name: &str) -> Command {
    let (key, token) = (named(name), token());
    match (batch, acquire(true)) {
        (Batch::Releases, _) => Command::Release { key, token, labelled: false, next: Next::InLine },
        (Batch::Extends, _) => Command::Extend { key, token, node_ttl_ms: 1_000, mode: Mode::Exclusive },
        (Batch::Acquires, Command::Acquire { nonce, fence, beside, .. }) => {
            Command::Acquire { key, token, node_ttl_ms: 1_000, nonce, fence, beside }
        }
        (Batch::Acquires, _) => unreachable!("an acquire"),
    }
}

fn fault(news: PipelineEvent) -> String {
    match news {
        PipelineEvent::Answer((_, Err(Fault::Error(reason)))) => reason.to_string(),
        _ => panic!("an answer where there should be a fault"),
    }
}

/// What is asked between two writes leaves as one call a kind. No lock waits twice, and nothing
/// overtakes what waits.
#[tokio::test]
async fn commands_that_leave_together_are_one_call_a_kind() {
    let (mut pipeline, mut server) = pipeline();
    let calls = |text: &str| text.matches("EVALSHA\r\n").count();
    for (batch, names) in Batch::ALL.into_iter().zip([["a", "b"], ["c", "d"], ["e", "f"]]) {
        names.iter().for_each(|name| pipeline.send(tag(), batchable(batch, name)));
    }
    assert_eq!(calls(&written(&mut pipeline, &mut server).await), 3);
    for name in ["a", "b", "a"] {
        pipeline.send(tag(), batchable(Batch::Acquires, name));
    }
    let text = written(&mut pipeline, &mut server).await;
    assert_eq!(calls(&text), 2, "the second acquire of the lock is behind the first");
    pipeline.send(tag(), batchable(Batch::Acquires, "a"));
    pipeline.send(tag(), Command::Undo { key: named("a"), token: token(), requeue: None });
    pipeline.send(tag(), batchable(Batch::Acquires, "b"));
    let text = written(&mut pipeline, &mut server).await;
    let places: Vec<usize> = text.match_indices("EVALSHA\r\n").map(|(place, _)| place).collect();
    assert_eq!(places.len(), 3, "another command is sent behind what waits, and before what comes later");
    assert!(text[places[0]..places[1]].contains("fence:{tenure:a}"), "{text}");
    assert!(!text[places[1]..places[2]].contains("fence:{"), "{text}");
}

#[tokio::test]
async fn what_is_wrong_with_one_of_a_batch_is_told_of_that_one() {
    for batch in [Batch::Acquires, Batch::Releases] {
        let (mut pipeline, mut server) = pipeline();
        ["a", "b", "c"].iter().for_each(|name| pipeline.send(tag(), batchable(batch, name)));
        drop(written(&mut pipeline, &mut server).await);
        let done = if batch == Batch::Acquires { ":1700000000000000\r\n" } else { ":1\r\n" };
        let oom = "-OOM command not allowed when used memory > 'maxmemory'.\r\n";
        say(&mut server, &["*3\r\n", done, oom, done]).await;
        assert!(is_granted(&news(&mut pipeline).await), "{batch:?}");
        assert!(fault(news(&mut pipeline).await).starts_with("OOM"), "{batch:?}");
        assert!(is_granted(&news(&mut pipeline).await), "{batch:?}");
        assert_eq!(pipeline.in_flight(), 0);
    }
}

/// A server that has become a replica is not what it was, wherever it says so.
#[tokio::test]
async fn a_server_that_became_a_replica_is_noticed_inside_a_batch() {
    let read_only = "-READONLY You can't write against a read only replica.\r\n";
    let granted = ":1700000000000000\r\n";
    for (names, said) in [(&["a", "b"][..], &["*2\r\n", granted, read_only][..]), (&["a"], &[read_only])] {
        let (mut pipeline, mut server) = pipeline();
        names.iter().for_each(|name| pipeline.send(tag(), batchable(Batch::Acquires, name)));
        drop(written(&mut pipeline, &mut server).await);
        say(&mut server, said).await;
        let told = poll_fn(|cx| pipeline.poll(cx)).await;
        assert!(told.is_err_and(|reason| reason.starts_with("READONLY")));
        assert_eq!(pipeline.take_unanswered().count(), names.len(), "nobody waits for ever");
    }
}

#[tokio::test]
async fn a_batch_that_the_server_forgot_is_sent_whole() {
    for batch in Batch::ALL {
        let (mut pipeline, mut server) = pipeline();
        ["a", "b"].iter().for_each(|name| pipeline.send(tag(), batchable(batch, name)));
        // One of them is ended meanwhile: it must not be set again behind that.
        let mut ended = 0;
        if batch == Batch::Acquires {
            pipeline.send(tag(), Command::Undo { key: named("b"), token: token(), requeue: None });
            ended = 2;
        }
        drop(written(&mut pipeline, &mut server).await);
        let undone = if ended > 0 { ":0\r\n" } else { "" };
        say(&mut server, &[NO_SCRIPT, undone]).await;
        if ended > 0 {
            // Both have the same owner here, so neither is sent again.
            for _ in 0..ended {
                assert!(fault(news(&mut pipeline).await).contains("forgot"));
            }
            continue;
        }
        let told = tokio::time::timeout(Duration::from_millis(50), poll_fn(|cx| pipeline.poll(cx))).await;
        assert!(told.is_err(), "nothing to tell yet");
        let text = written(&mut pipeline, &mut server).await;
        assert_eq!(text.matches("EVAL\r\n").count(), 1, "{text}");
        say(&mut server, &[if batch == Batch::Extends { ":1700000000000000\r\n" } else { ":1\r\n" }]).await;
        assert!(is_granted(&news(&mut pipeline).await), "{batch:?}");
        assert!(is_granted(&news(&mut pipeline).await), "{batch:?}");
    }
}

/// A batch of releases reads several keys at once; whoever may not do that releases one by one.
#[tokio::test]
async fn releases_that_may_not_be_sent_together_are_sent_one_by_one() {
    let (mut pipeline, mut server) = pipeline();
    ["a", "b"].iter().for_each(|name| pipeline.send(tag(), batchable(Batch::Releases, name)));
    drop(written(&mut pipeline, &mut server).await);
    let denied = "-NOPERM this user has no permissions to run the 'mget' command\r\n";
    say(&mut server, &[denied]).await;
    let told = tokio::time::timeout(Duration::from_millis(50), poll_fn(|cx| pipeline.poll(cx))).await;
    assert!(told.is_err(), "nothing to tell yet");
    assert_eq!(written(&mut pipeline, &mut server).await.matches("EVALSHA\r\n").count(), 2);
    say(&mut server, &[":1\r\n", ":1\r\n"]).await;
    assert!(is_granted(&news(&mut pipeline).await));
    assert!(is_granted(&news(&mut pipeline).await));
    // And from now on.
    ["a", "b"].iter().for_each(|name| pipeline.send(tag(), batchable(Batch::Releases, name)));
    assert_eq!(written(&mut pipeline, &mut server).await.matches("EVALSHA\r\n").count(), 2);
}

/// The server's time comes behind all of its own `SET`s of one write, and counts for each.
#[tokio::test]
async fn one_question_for_the_time_serves_all_of_a_write() {
    let (mut pipeline, mut server) = pipeline();
    let unfenced = |name| Command::Acquire {
        key: named(name),
        token: token(),
        node_ttl_ms: 1_000,
        nonce: Some(Nonce::new(7)),
        fence: None,
        beside: None,
    };
    ["a", "b", "c"].iter().for_each(|name| pipeline.send(tag(), unfenced(name)));
    let text = written(&mut pipeline, &mut server).await;
    assert_eq!((text.matches("SET\r\n").count(), text.matches("TIME\r\n").count()), (3, 1), "{text}");
    let other = format!("$40\r\n{}\r\n", OwnerToken::from_bytes([8; 20]));
    say(&mut server, &[granted(false), &other, granted(false), time(false), ":500\r\n"]).await;
    for _ in 0..2 {
        let PipelineEvent::Answer((_, Ok(Reply { answer: Answer::Granted, time: Some(time), .. }))) =
            news(&mut pipeline).await
        else {
            panic!("granted, with the server's time")
        };
        assert_eq!(time.as_micros(), 1_700_000_000_000_007);
    }
    let PipelineEvent::Answer((_, Ok(Reply { answer: Answer::Refused(_), .. }))) = news(&mut pipeline).await
    else {
        panic!("another has it")
    };
    // Whoever has an answer without the time is not forgotten when the connection ends.
    pipeline.send(tag(), unfenced("a"));
    drop(written(&mut pipeline, &mut server).await);
    say(&mut server, &[granted(false)]).await;
    let told = tokio::time::timeout(Duration::from_millis(50), poll_fn(|cx| pipeline.poll(cx))).await;
    assert!(told.is_err(), "the time is missing");
    assert_eq!(pipeline.take_unanswered().count(), 1);
}
