//! The driver with nodes that write down what they are sent.

mod holding;
mod puppet;

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::task::Waker;

use tenure_core::{
    Answer, Command, Lease, LockKey, LockTable, MaxTtl, NodeTime, Options, Prefix, Quorum, Refusal, Retry,
    Settings, Wait,
};
use tokio::sync::oneshot;

use super::*;
use crate::node::{NodeEvent, Tag};

type Log = Arc<Mutex<Vec<(usize, Command)>>>;

/// A node that answers at once, and may refuse every acquire.
struct Scripted {
    refuses: bool,
    index: usize,
    log: Log,
    table: LockTable,
    news: Vec<NodeEvent>,
    waker: Option<Waker>,
}

impl Connection for Scripted {
    fn send(&mut self, tag: Tag, command: Command) {
        let mut reply = self
            .table
            .execute(NodeTime::from_micros(1_000_000_000_000 + tag.sent.as_nanos() / 1_000), &command);
        if self.refuses && matches!(command, Command::Acquire { .. }) {
            reply.answer = Answer::Refused(Refusal::Held { left: Duration::from_secs(1) });
        }
        if !matches!(command, Command::Record { .. } | Command::Trim { .. }) {
            self.log.lock().unwrap().push((self.index, command));
        }
        self.news.push(NodeEvent::Answer(tag, Ok(reply)));
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    fn is_settled(&self) -> bool {
        true
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<NodeEvent> {
        self.news.pop().map(Poll::Ready).unwrap_or_else(|| {
            self.waker = Some(cx.waker().clone());
            Poll::Pending
        })
    }

    fn survey(&mut self) -> bool {
        false
    }
}

fn driver_with(nodes: usize, refuses: bool) -> (Driver, mpsc::UnboundedSender<Call>, Log) {
    let log = Log::default();
    let connection = |index| {
        let news = vec![NodeEvent::Connected(Box::default())];
        let (log, table) = (log.clone(), LockTable::default());
        Box::new(Scripted { refuses, index, log, table, news, waker: None }) as Box<dyn Connection>
    };
    let (driver, mailbox) = driver_of((0..nodes).map(connection).collect());
    (driver, mailbox, log)
}

fn driver_of(connections: Vec<Box<dyn Connection>>) -> (Driver, mpsc::UnboundedSender<Call>) {
    let quorum = Quorum::of(connections.len()).unwrap();
    let (mailbox, requests) = mpsc::unbounded_channel();
    let ids = Arc::new(AtomicU64::new(1_000));
    let settings = Settings::new(MaxTtl::default(), "test");
    let fleet = Fleet::new(settings, quorum, Prefix::default(), 1);
    let names = vec![Arc::from("node"); connections.len()];
    let driver = Driver::new(
        Clock::Tokio,
        Observer::default(),
        names,
        requests,
        connections,
        fleet,
        (Arc::default(), ids),
    );
    (driver, mailbox)
}

#[tokio::test(start_paused = true)]
async fn every_attempt_asks_all_nodes_at_once_with_one_fresh_token() {
    let (driver, mailbox, log) = driver_with(5, true);
    let driver = tokio::spawn(driver);
    let mut options = Options::default();
    options.wait = Wait::Forever;
    options.queued = false;
    options.retry = Retry::default().tries_max(50);
    let key = LockKey::new(&Prefix::default(), "x").unwrap();
    let lease = Lease::new(key, options.check(MaxTtl::default()).unwrap(), Quorum::of(5).unwrap());
    let (reply, answer) = oneshot::channel();
    let entropy = draw_entropy().unwrap();
    let request = Call::Acquire { id: Id(0), lease: SharedLease::new(lease), entropy, reply };
    assert!(mailbox.send(request).is_ok());
    assert!(matches!(answer.await, Ok(Err(AcquireFailure::NotAcquired(_)))));
    drop(mailbox);
    driver.await.unwrap();

    let log = log.lock().unwrap();
    let mut tokens = BTreeSet::new();
    for attempt in log.chunks(10) {
        // Five acquires with one token, then five undos with the same.
        let nodes: Vec<usize> = attempt.iter().map(|(node, _)| *node).collect();
        assert_eq!(nodes, [0, 1, 2, 3, 4, 0, 1, 2, 3, 4]);
        let Command::Acquire { token, .. } = &attempt[0].1 else { panic!("{attempt:?}") };
        assert!(
            attempt[..5]
                .iter()
                .all(|(_, command)| matches!(command, Command::Acquire { token: t, .. } if t == token))
        );
        assert!(
            attempt[5..]
                .iter()
                .all(|(_, command)| matches!(command, Command::Undo { token: t, .. } if t == token))
        );
        assert!(tokens.insert(*token), "a token was used for two attempts");
    }
    assert_eq!(tokens.len(), 50);
}

/// Asks for a lock with the default options, which renew it. Returns what is told about it.
fn ask(mailbox: &mpsc::UnboundedSender<Call>, id: Id) -> oneshot::Receiver<AcquireReply> {
    let key = LockKey::new(&Prefix::default(), &id.0.to_string()).unwrap();
    let terms = Options::default().check(MaxTtl::default()).unwrap();
    let lease = SharedLease::new(Lease::new(key, terms, Quorum::of(3).unwrap()));
    let (reply, answer) = oneshot::channel();
    let entropy = draw_entropy().unwrap();
    assert!(mailbox.send(Call::Acquire { id, lease, entropy, reply }).is_ok());
    answer
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_short_locks_leave_nothing_behind() {
    let (mut driver, mailbox, log) = driver_with(3, false);
    let ids = Arc::clone(&driver.ids);
    let cycles = async {
        for cycle in 0..10_000 {
            let id = Id(ids.fetch_add(1, Ordering::Relaxed));
            assert!(ask(&mailbox, id).await.unwrap().is_ok());
            match cycle % 3 {
                0 => drop(mailbox.send(Call::Abandon { id })),
                1 => drop(mailbox.send(Call::HandOver { id })),
                _ => {
                    let (reply, answer) = oneshot::channel();
                    drop(mailbox.send(Call::Release { id, reply }));
                    answer.await.unwrap();
                }
            }
        }
        // For the last of them.
        tokio::time::sleep(Duration::from_millis(1)).await;
    };
    tokio::select! {
        () = &mut driver => panic!("the driver ended"),
        () = cycles => {}
    }
    assert!(driver.client.is_idle() && driver.replies.is_empty() && driver.drawn.is_empty());
    assert!(!log.lock().unwrap().iter().any(|(_, command)| matches!(command, Command::Extend { .. })));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_for_a_lock_that_was_given_up() {
    let (driver, mailbox, log) = driver_with(3, false);
    let driver = tokio::spawn(driver);
    let extended = || {
        let log = log.lock().unwrap();
        log.iter().filter(|(_, command)| matches!(command, Command::Extend { .. })).count()
    };
    assert!(ask(&mailbox, Id(7)).await.unwrap().is_ok());
    tokio::time::sleep(Duration::from_secs(25)).await;
    assert_eq!(extended(), 6, "two renewals on three nodes");
    drop(mailbox.send(Call::Abandon { id: Id(7) }));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let sent = log.lock().unwrap().len();
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    assert_eq!((extended(), log.lock().unwrap().len()), (6, sent));
    drop(mailbox);
    driver.await.unwrap();
}

#[test]
fn tokens_are_160_random_bits() {
    let tokens: Vec<String> = (0..2_000).map(|_| draw_entropy().unwrap().token.to_string()).collect();
    assert_eq!(tokens.iter().collect::<BTreeSet<_>>().len(), 2_000);
    for digit in 0..40 {
        // Every hexadecimal digit takes every value: no bit is constant.
        let values: BTreeSet<u8> = tokens.iter().map(|token| token.as_bytes()[digit]).collect();
        assert_eq!(values.len(), 16, "digit {digit}");
    }
}
