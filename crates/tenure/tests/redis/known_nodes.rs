//! Programs without a memory of their own: what the one before has seen, the next one knows from
//! the file.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenure::*;
use tenure_testkit::RedisServer;

use crate::support::*;

/// The quarantine is a tenth longer.
const MAX_TTL: Duration = secs(2);

/// Nodes on a busy machine may not answer at the first try.
const PATIENCE: Duration = secs(20);

/// What was complained about.
type Complaints = Arc<Mutex<Vec<String>>>;

/// A program that has just been started. Its memory, if any, is the file.
struct Program {
    locks: Locks,
    complaints: Complaints,
}

impl Program {
    async fn start(servers: &[RedisServer], known: Option<&Path>, worker: Worker) -> Self {
        let complaints = Complaints::default();
        let heard = Arc::clone(&complaints);
        let mut builder = builder(servers.iter().map(RedisServer::url))
            .max_ttl(MAX_TTL)
            .worker(worker)
            .observer(move |event| {
                if let Event::NodesNotRemembered { reason, .. } = event {
                    heard.lock().unwrap().push((*reason).to_owned());
                }
            });
        if let Some(known) = known {
            builder = builder.remember_nodes_in(known);
        }
        let locks = builder.build().unwrap();
        locks.ready().await;
        Self { locks, complaints }
    }

    async fn acquire(&self, wait: Duration) -> Result<Guard, AcquireError> {
        self.locks.lock("k").ttl(MAX_TTL).wait(wait).acquire().await
    }

    fn complaints(&self) -> Vec<String> {
        self.complaints.lock().unwrap().clone()
    }
}

/// A lock that is still held when its program has ended, as one of `tenure acquire`.
async fn held_on_paper(servers: &[RedisServer], known: Option<&Path>, worker: Worker) {
    let program = Program::start(servers, known, worker).await;
    let guard = program.acquire(PATIENCE).await.unwrap();
    assert_eq!(program.complaints(), Vec::<String>::new());
    let _ = guard.hand_over();
    program.locks.shutdown().await.unwrap();
}

fn file(folder: &tempfile::TempDir) -> PathBuf {
    folder.path().join("known_nodes")
}

async fn story(nodes: usize, worker: Worker, remembers: bool, lose: impl Fn(&mut RedisServer)) {
    let folder = tempfile::tempdir().unwrap();
    let path = remembers.then(|| file(&folder));
    let mut servers: Vec<RedisServer> = (0..nodes).map(|_| RedisServer::start(&[])).collect();
    held_on_paper(&servers, path.as_deref(), worker).await;
    servers.iter_mut().for_each(lose);
    let next = Program::start(&servers, path.as_deref(), worker).await;
    if !remembers {
        let second = next.acquire(MAX_TTL / 2).await;
        assert!(second.is_ok(), "control: without the file it is given a second time");
        return;
    }
    let error = next.acquire(Duration::ZERO).await.expect_err("a second holder");
    assert!(matches!(error, AcquireError::Unavailable { .. }), "{error}");
    let reports = next.locks.nodes().await;
    assert!(reports.iter().all(|node| node.quarantine_left.is_some()), "{reports:?}");
    // Whoever comes without a file is told by the record.
    let stranger = Program::start(&servers, None, worker).await;
    assert!(stranger.acquire(Duration::ZERO).await.is_err());
    // And it passes.
    all_vote(&next.locks).await;
    assert!(next.acquire(PATIENCE).await.is_ok());
    assert_eq!(next.complaints(), Vec::<String>::new());
}

fn flush(server: &mut RedisServer) {
    server.execute(&["FLUSHALL"]);
}

#[tokio::test]
async fn one_node_that_was_flushed_is_not_new_to_a_program_that_reads_the_file() {
    for remembers in [true, false] {
        story(1, Worker::CurrentRuntime, remembers, flush).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn three_nodes_that_were_restarted_together_are_not_new_to_a_program_that_reads_the_file() {
    for remembers in [true, false] {
        story(3, Worker::OwnThread, remembers, RedisServer::restart_empty).await;
    }
}

#[tokio::test]
async fn a_node_that_is_as_it_was_votes_at_once_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let servers = [RedisServer::start(&[])];
    let first = Program::start(&servers, Some(&file(&folder)), Worker::CurrentRuntime).await;
    first.acquire(PATIENCE).await.unwrap().release().await.unwrap();
    let before = std::fs::metadata(file(&folder)).unwrap().modified().unwrap();
    let next = Program::start(&servers, Some(&file(&folder)), Worker::CurrentRuntime).await;
    next.acquire(PATIENCE).await.unwrap().release().await.unwrap();
    assert_eq!(std::fs::metadata(file(&folder)).unwrap().modified().unwrap(), before);
}

#[tokio::test]
async fn without_a_file_that_can_be_used_locks_are_given_and_it_is_said_why() {
    let folder = tempfile::tempdir().unwrap();
    for (path, why) in [
        (folder.path().join("missing/known_nodes"), "does not exist"),
        (PathBuf::from("/proc/known_nodes"), "cannot be"),
    ] {
        let servers = [RedisServer::start(&[])];
        let program = Program::start(&servers, Some(&path), Worker::CurrentRuntime).await;
        program.acquire(PATIENCE).await.unwrap().release().await.unwrap();
        let complaints = program.complaints();
        assert_eq!(complaints.len(), 1, "{complaints:?}");
        assert!(
            complaints[0].contains(why) && complaints[0].contains(path.to_str().unwrap()),
            "{complaints:?}"
        );
    }
}

#[tokio::test]
async fn a_damaged_file_is_said_to_be_once_and_replaced() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(file(&folder), "tenure-known-nodes\t1\nlife\t").unwrap();
    let servers = [RedisServer::start(&[])];
    let program = Program::start(&servers, Some(&file(&folder)), Worker::CurrentRuntime).await;
    program.acquire(PATIENCE).await.unwrap().release().await.unwrap();
    let complaints = program.complaints();
    assert!(complaints.len() == 1 && complaints[0].contains("damaged"), "{complaints:?}");
    let next = Program::start(&servers, Some(&file(&folder)), Worker::CurrentRuntime).await;
    next.acquire(PATIENCE).await.unwrap().release().await.unwrap();
    assert_eq!(next.complaints(), Vec::<String>::new());
}
