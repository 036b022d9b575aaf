//! The driver with nodes that write down what they are sent.

use std::collections::BTreeSet;
use std::task::Waker;

use tenure_core::{
    Answer, Command, LockKey, LockTable, MaxTtl, NodeTime, Options, Prefix, Refusal, Retry, Settings, Wait,
};

use super::*;

type Log = Arc<Mutex<Vec<(usize, Command)>>>;

/// A node that refuses every acquire at once.
struct Refusing {
    index: usize,
    log: Log,
    table: LockTable,
    news: Vec<NodeEvent>,
    waker: Option<Waker>,
}

impl Connection for Refusing {
    fn send(&mut self, tag: Tag, command: Command) {
        let mut reply = self
            .table
            .execute(NodeTime::from_micros(1_000_000_000_000 + tag.sent.as_nanos() / 1_000), &command);
        if let Command::Acquire { .. } = command {
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

fn refusing_driver(nodes: usize) -> (Driver, mpsc::UnboundedSender<Request>, Log) {
    let log = Log::default();
    let quorum = Quorum::of(nodes).unwrap();
    let connection = |index| {
        let news = vec![NodeEvent::Connected(Box::default())];
        let (log, table) = (log.clone(), LockTable::default());
        Box::new(Refusing { index, log, table, news, waker: None }) as Box<dyn Connection>
    };
    let (mailbox, requests) = mpsc::unbounded_channel();
    let connections = (0..nodes).map(connection).collect();
    let ids = Arc::new(AtomicU64::new(1_000));
    let settings = Settings::new(MaxTtl::default(), "test");
    let fleet = Fleet::new(settings, quorum, Prefix::default(), 1);
    let names = vec![Arc::from("node"); nodes];
    let driver = Driver::new(Clock::Tokio, Observer::default(), names, requests, connections, fleet, ids);
    (driver, mailbox, log)
}

#[tokio::test(start_paused = true)]
async fn every_attempt_asks_all_nodes_at_once_with_one_fresh_token() {
    let (driver, mailbox, log) = refusing_driver(5);
    let driver = tokio::spawn(driver);
    let mut options = Options::default();
    options.wait = Wait::Forever;
    options.queued = false;
    options.retry = Retry::default().tries_max(50);
    let key = LockKey::new(&Prefix::default(), "x").unwrap();
    let lease = Lease::new(key, options.check(MaxTtl::default()).unwrap(), Quorum::of(5).unwrap());
    let (reply, answer) = oneshot::channel();
    let entropy = draw_entropy().unwrap();
    let request =
        Request::Acquire { id: 0, lease: Arc::new(Mutex::new(lease)), fenced: true, entropy, reply };
    assert!(mailbox.send(request).is_ok());
    assert!(matches!(answer.await, Ok(Err(AcquireFailure::NotAcquired(_)))));
    drop(mailbox);
    driver.await.unwrap();

    let log = log.lock().unwrap();
    let mut tokens = BTreeSet::new();
    for attempt in log.chunks(10) {
        // Five acquires with one token, then five releases with the same.
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
                .all(|(_, command)| matches!(command, Command::Release { token: t, .. } if t == token))
        );
        assert!(tokens.insert(*token), "a token was used for two attempts");
    }
    assert_eq!(tokens.len(), 50);
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
