//! Nodes on strings: each answers after the time that the test says, or not at all, and breaks off
//! when told.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tenure_core::{Answer, Command, Fault, LockTable, NodeTime, Reply};
use tokio::time::Instant;

use crate::node::{Connection, EncodedRenewals, NodeEvent, Tag};

/// A node and the test's hold on it.
#[derive(Clone, Default)]
pub(super) struct Puppet(Arc<Mutex<Strings>>);

#[derive(Default)]
pub(super) struct Strings {
    /// What it was sent one by one, records aside, and when.
    pub(super) sent: Vec<(Instant, Command)>,
    /// How many batches of renewals it was sent.
    pub(super) batches: usize,
    /// How long an answer takes.
    pub(super) round_trip: Duration,
    /// It takes commands and answers none.
    pub(super) hung: bool,
    table: LockTable,
    news: VecDeque<(Instant, NodeEvent)>,
    sleep: Option<std::pin::Pin<Box<tokio::time::Sleep>>>,
    waker: Option<Waker>,
}

impl Puppet {
    /// One that is connected.
    pub(super) fn connected() -> Self {
        let puppet = Self::default();
        puppet.hold().tell(Duration::ZERO, NodeEvent::Connected(Box::default()));
        puppet
    }

    pub(super) fn hold(&self) -> MutexGuard<'_, Strings> {
        self.0.lock().unwrap()
    }

    pub(super) fn connect(&self) {
        self.hold().tell(Duration::ZERO, NodeEvent::Connected(Box::default()));
    }

    pub(super) fn disconnect(&self) {
        self.hold().tell(Duration::ZERO, NodeEvent::Disconnected(Fault::Disconnected));
    }

    /// It is emptied, and its server says so.
    pub(super) fn flush(&self) {
        let mut strings = self.hold();
        strings.table.forget();
        strings.tell(Duration::ZERO, NodeEvent::Changed);
    }

    /// The times at which it was told to take a key off.
    pub(super) fn releases(&self) -> Vec<Instant> {
        let is_release =
            |command: &Command| matches!(command, Command::Undo { .. } | Command::Release { .. });
        self.hold().sent.iter().filter(|(_, command)| is_release(command)).map(|(at, _)| *at).collect()
    }
}

impl Strings {
    fn tell(&mut self, after: Duration, event: NodeEvent) {
        self.news.push_back((Instant::now() + after, event));
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    fn execute(&mut self, sent: tenure_core::Time, command: &Command) -> Reply {
        let time = NodeTime::from_micros(1_000_000_000_000 + sent.as_nanos() / 1_000);
        self.table.execute(time, command)
    }
}

impl Connection for Puppet {
    fn send(&mut self, tag: Tag, command: Command) {
        let mut strings = self.hold();
        if !matches!(command, Command::Record { .. } | Command::Trim { .. }) {
            strings.sent.push((Instant::now(), command.clone()));
        }
        if !strings.hung {
            let (reply, after) = (strings.execute(tag.sent, &command), strings.round_trip);
            strings.tell(after, NodeEvent::Answer(tag, Ok(reply)));
        }
    }

    fn renew(&mut self, renewals: &Arc<EncodedRenewals>) -> bool {
        let mut strings = self.hold();
        strings.batches += 1;
        if !strings.hung {
            let replies: Vec<Reply> = (renewals.locks.iter())
                .map(|(_, lock)| {
                    let (key, token, node_ttl_ms) = (lock.key.clone(), lock.token, lock.node_ttl_ms);
                    let mode = lock.mode.clone();
                    strings.execute(renewals.sent, &Command::Extend { key, token, node_ttl_ms, mode })
                })
                .collect();
            let after = strings.round_trip;
            if replies.iter().all(|reply| reply.answer == Answer::Granted) {
                strings.tell(after, NodeEvent::Renewed(Arc::clone(renewals), None));
            } else {
                strings.tell(after, NodeEvent::Split(renewals.batch));
                for (tag, reply) in renewals.tags().zip(replies) {
                    strings.tell(after, NodeEvent::Answer(tag, Ok(reply)));
                }
            }
        }
        true
    }

    fn is_settled(&self) -> bool {
        true
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<NodeEvent> {
        let mut strings = self.hold();
        let Some((due, _)) = strings.news.front() else {
            strings.waker = Some(cx.waker().clone());
            return Poll::Pending;
        };
        let due = *due;
        if due > Instant::now() {
            let sleep = strings.sleep.insert(Box::pin(tokio::time::sleep_until(due)));
            if sleep.as_mut().poll(cx).is_pending() {
                strings.waker = Some(cx.waker().clone());
                return Poll::Pending;
            }
        }
        let (_, event) = strings.news.pop_front().expect("it was just looked at");
        Poll::Ready(event)
    }

    fn survey(&mut self) -> bool {
        false
    }
}
