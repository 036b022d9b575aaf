//! A node in this process's memory: for tests, examples and single-process use.

use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tenure_core::{ClientId, Command, Fault, LockKey, LockTable, Owner, Reply, Ticket};
use tokio::time::{Instant, Sleep};

use super::{Connection, NodeEvent, Server, Tag};
use crate::machine::clock::memory_node_time;

/// The longest delay: as good as for ever, and short enough to be added to any moment.
const DELAY_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// What was lost is known to be after this, as when a connection breaks.
const LOST_AFTER: Duration = Duration::from_millis(250);

/// A node in memory, which can be made slow, silent or faulty.
///
/// Clones are the same node. It is for trials and tests: what you learn about your program with
/// five of these holds with five real nodes.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use tenure::{AcquireError, Faults, Locks, MemoryNode};
///
/// let nodes = ["a", "b", "c"].map(MemoryNode::new);
/// let locks = Locks::builder().nodes(&nodes).build()?;
///
/// nodes[0].set_faults(Faults::silent());
/// assert!(locks.lock("x").try_acquire().await?.is_some(), "two of three are enough");
///
/// nodes[1].set_faults(Faults::unreachable());
/// let error = locks.lock("y").try_acquire().await.unwrap_err();
/// assert!(matches!(error, AcquireError::Unavailable { .. }));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct MemoryNode {
    address: Arc<str>,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    table: LockTable,
    /// How often it forgot everything.
    forgotten: u64,
    faults: Faults,
    random: u64,
    /// Where clients are woken.
    listeners: BTreeMap<ClientId, Arc<Mutex<Inbox>>>,
}

/// What a node says to one client unasked.
#[derive(Debug, Default)]
struct Inbox {
    wakes: VecDeque<(LockKey, Ticket)>,
    waker: Option<Waker>,
}

/// The faults of a [`MemoryNode`]. None by default.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Faults {
    /// The delay of a command, and again of its answer: a random time from this range.
    pub delay: RangeInclusive<Duration>,
    /// The share of commands, from 0 to 1, that never arrive. The client hears of that a quarter of
    /// a second later, as of a connection that broke.
    pub request_loss: f64,
    /// The share of answers, from 0 to 1, that never come back, although the command was executed.
    pub reply_loss: f64,
    /// Answer every command with this error instead of executing it.
    pub error: Option<String>,
    /// Refuse connections: commands are not sent, and the client knows at once.
    pub unreachable: bool,
}

impl MemoryNode {
    /// An empty node with the address `memory:` plus the label.
    #[must_use]
    pub fn new(label: impl AsRef<str>) -> Self {
        let address: Arc<str> = format!("memory:{}", label.as_ref()).into();
        let (table, faults) = (LockTable::default(), Faults::default());
        let state = State { table, forgotten: 0, faults, random: 0x2545_f491, listeners: BTreeMap::new() };
        Self { address, state: Arc::new(Mutex::new(state)) }
    }

    /// The node's name in votes, errors and logs.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Sets the node's faults from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.lock().faults = faults;
    }

    /// Seeds the node's random numbers, so that a test with random faults is repeatable.
    pub fn seed(&self, seed: u64) {
        self.lock().random = seed | 1;
    }

    /// Forgets everything, like a node that restarts without persistence or is flushed. It does not
    /// vote until all locks that it may have forgotten have expired.
    pub fn forget(&self) {
        let mut state = self.lock();
        state.table.forget();
        state.forgotten += 1;
    }

    /// The keys (prefix and name) of the locks held now, in order.
    #[must_use]
    pub fn keys(&self) -> Vec<String> {
        let now = memory_node_time();
        let state = self.lock();
        let held = state.table.keys(now).filter(|(_, entry)| matches!(entry.owner, Owner::Token(_)));
        held.map(|(key, _)| key.as_str().to_owned()).collect()
    }

    pub(super) fn shared_address(&self) -> Arc<str> {
        Arc::clone(&self.address)
    }

    pub(super) fn connect(self, client: ClientId) -> MemoryConnection {
        let (requests, answers, lost) = (OneWay::default(), OneWay::default(), OneWay::default());
        let forgotten = self.lock().forgotten;
        let inbox = Arc::new(Mutex::new(Inbox::default()));
        self.lock().listeners.insert(client, Arc::clone(&inbox));
        self.lock().table.listen(client);
        let news = VecDeque::from([NodeEvent::Connected(Box::new(self.server()))]);
        MemoryConnection { node: self, client, inbox, requests, answers, lost, news, forgotten, sleep: None }
    }

    fn server(&self) -> Server {
        Server::memory(self.lock().forgotten == 0)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Faults {
    /// No faults.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Every command vanishes, as with a hung node.
    #[must_use]
    pub fn silent() -> Self {
        Self { request_loss: 1.0, ..Self::default() }
    }

    /// Nobody listens, as with a node that is down.
    #[must_use]
    pub fn unreachable() -> Self {
        Self { unreachable: true, ..Self::default() }
    }

    /// Every command is answered with this error.
    #[must_use]
    pub fn error(message: impl Into<String>) -> Self {
        Self { error: Some(message.into()), ..Self::default() }
    }

    /// Commands and answers are under way for a random time from this range each.
    #[must_use]
    pub fn delay(mut self, delay: RangeInclusive<Duration>) -> Self {
        self.delay = delay;
        self
    }

    /// This share of commands, from 0 to 1, never arrives.
    #[must_use]
    pub fn request_loss(mut self, share: f64) -> Self {
        self.request_loss = share;
        self
    }

    /// This share of answers, from 0 to 1, never comes back.
    #[must_use]
    pub fn reply_loss(mut self, share: f64) -> Self {
        self.reply_loss = share;
        self
    }
}

impl Default for Faults {
    fn default() -> Self {
        let delay = Duration::ZERO..=Duration::ZERO;
        Self { delay, request_loss: 0.0, reply_loss: 0.0, error: None, unreachable: false }
    }
}

impl State {
    /// Wakes those for whom locks were set aside, unless what the node says gets lost.
    fn wake(&mut self) {
        while let Some((key, ticket)) = self.table.poll_wake() {
            if !self.loses_reply()
                && let Some(inbox) = self.listeners.get(&ticket.client)
            {
                let mut inbox = inbox.lock().unwrap_or_else(PoisonError::into_inner);
                inbox.wakes.push_back((key, ticket));
                if let Some(waker) = inbox.waker.take() {
                    waker.wake();
                }
            }
        }
    }

    fn delay(&mut self) -> Duration {
        let (min, max) = (*self.faults.delay.start(), *self.faults.delay.end());
        let span = max.min(DELAY_MAX).saturating_sub(min);
        if max.is_zero() { max } else { min.saturating_add(span.mul_f64(self.roll())) }
    }

    fn loses_request(&mut self) -> bool {
        let share = self.faults.request_loss;
        share > 0.0 && self.roll() < share
    }

    fn loses_reply(&mut self) -> bool {
        let share = self.faults.reply_loss;
        share > 0.0 && self.roll() < share
    }

    /// A number from 0 to 1, by xorshift: good enough for faults, and the same for the same seed.
    fn roll(&mut self) -> f64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        f64::from((self.random >> 32) as u32) / (f64::from(u32::MAX) + 1.0)
    }
}

/// One manager's connection to a memory node: in order both ways, however the delays fall.
pub(super) struct MemoryConnection {
    node: MemoryNode,
    client: ClientId,
    inbox: Arc<Mutex<Inbox>>,
    requests: OneWay<Command>,
    answers: OneWay<Result<Reply, Fault>>,
    /// Those whose command or answer was lost.
    lost: OneWay<()>,
    news: VecDeque<NodeEvent>,
    /// How often the node had forgotten everything when we last looked.
    forgotten: u64,
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Connection for MemoryConnection {
    fn send(&mut self, tag: Tag, command: Command) {
        let mut state = self.node.lock();
        if state.faults.unreachable {
            self.answers.push(Duration::ZERO, tag, Err(Fault::Unreachable("connection refused".into())));
        } else if state.loses_request() {
            self.lost.push(LOST_AFTER, tag, ());
        } else {
            self.requests.push(state.delay(), tag, command);
        }
    }

    fn is_settled(&self) -> bool {
        self.news.is_empty()
    }

    fn survey(&mut self) -> bool {
        self.news.push_back(NodeEvent::Surveyed(Box::new(self.node.server())));
        true
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<NodeEvent> {
        loop {
            while let Some((tag, command)) = self.requests.pop_due() {
                self.execute(tag, &command);
            }
            if let Some(news) = self.news.pop_front() {
                return Poll::Ready(news);
            }
            let woken = {
                let mut inbox = self.inbox.lock().unwrap_or_else(PoisonError::into_inner);
                inbox.waker = Some(cx.waker().clone());
                inbox.wakes.pop_front()
            };
            if let Some((key, ticket)) = woken {
                return Poll::Ready(NodeEvent::Woken { number: ticket.number, key: key.as_str().to_owned() });
            }
            if let Some((tag, answer)) = self.answers.pop_due() {
                return Poll::Ready(NodeEvent::Answer(tag, answer));
            }
            if let Some((tag, ())) = self.lost.pop_due() {
                return Poll::Ready(NodeEvent::Answer(tag, Err(Fault::Disconnected)));
            }
            let due = [self.requests.next_due(), self.answers.next_due(), self.lost.next_due()];
            let Some(due) = due.into_iter().flatten().min() else { return Poll::Pending };
            let sleep = self.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(due)));
            if sleep.deadline() != due {
                sleep.as_mut().reset(due);
            }
            std::task::ready!(sleep.as_mut().poll(cx));
        }
    }
}

impl Drop for MemoryConnection {
    fn drop(&mut self) {
        let mut state = self.node.lock();
        state.listeners.remove(&self.client);
        state.table.stop_listening(self.client);
    }
}

impl MemoryConnection {
    fn execute(&mut self, tag: Tag, command: &Command) {
        let forgotten = self.node.lock().forgotten;
        if std::mem::replace(&mut self.forgotten, forgotten) != forgotten {
            self.news.push_back(NodeEvent::Disconnected(Fault::Unreachable("the node was emptied".into())));
            self.news.push_back(NodeEvent::Connected(Box::new(self.node.server())));
        }
        let mut state = self.node.lock();
        let answer = match &state.faults.error {
            Some(error) => Err(Fault::Error(error.as_str().into())),
            None => Ok(state.table.execute(memory_node_time(), command)),
        };
        state.wake();
        if state.loses_reply() {
            self.lost.push(LOST_AFTER, tag, ());
        } else {
            self.answers.push(state.delay(), tag, answer);
        }
    }
}

/// Things under way in one direction. None overtakes another.
struct OneWay<T> {
    under_way: VecDeque<(Option<Instant>, Tag, T)>,
    latest: Option<Instant>,
}

impl<T> OneWay<T> {
    fn push(&mut self, delay: Duration, tag: Tag, thing: T) {
        if !delay.is_zero() {
            self.latest = self.latest.max(Some(Instant::now() + delay.min(DELAY_MAX)));
        }
        self.under_way.push_back((self.latest, tag, thing));
    }

    fn pop_due(&mut self) -> Option<(Tag, T)> {
        let (due, ..) = self.under_way.front()?;
        if due.is_some_and(|due| due > Instant::now()) {
            return None;
        }
        let (_, tag, thing) = self.under_way.pop_front()?;
        Some((tag, thing))
    }

    fn next_due(&self) -> Option<Instant> {
        self.under_way.front().and_then(|(due, ..)| *due)
    }
}

impl<T> Default for OneWay<T> {
    fn default() -> Self {
        Self { under_way: VecDeque::new(), latest: None }
    }
}
