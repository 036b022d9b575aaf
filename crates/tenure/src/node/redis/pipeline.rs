//! What was asked on a connection that is up and is not answered yet, in order.
//!
//! Replies come in the order of the questions and do not name them, so the pipeline keeps a queue
//! of what each is about.
//!
//! ```text
//!   send, renew, survey ─► asking.rs ── in_flight ──► answering.rs ─► PipelineEvent
//!                              │ output                  ▲ input
//!                              └──────► transfer.rs ─────┘
//! ```

mod answering;
mod asking;
#[cfg(test)]
mod tests;
mod transfer;

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tenure_core::{Answer, Batch, Command, Fault, Gathered, LockKey, NodeTime, Reply};
use tokio::time::{Instant, Sleep};

use super::handshake::{Established, Identity, Stream};
use super::resp::{Push, Value, decode};
use super::script::{Form, Scripts};
use crate::node::{EncodedRenewals, Server, Tag};

/// How much is read at a time if none of it is news.
const READS_MAX: usize = 16;

type Tagged = (Tag, Command);

type TaggedAnswer = (Tag, Result<Reply, Fault>);

/// What comes out of a pipeline.
pub(super) enum PipelineEvent {
    Answer(TaggedAnswer),
    Changed,
    Renewed(Arc<EncodedRenewals>, Option<NodeTime>),
    Split(u64),
    /// A message on our channel.
    Message(String),
    Surveyed(Box<Server>),
}

/// A connection that is up, and what is under way on it.
pub(super) struct Pipeline {
    stream: Box<dyn Stream>,
    scripts: Scripts,
    /// The server said that the record has changed since we last asked for it.
    stale: bool,
    /// What a record command told, until it is confirmed.
    recorded: Option<Result<Reply, Fault>>,
    /// Acquires that the server's own `SET` has answered, until its time comes, which is asked for
    /// behind all of one write.
    untimed: Vec<Untimed>,
    /// The server's time is to be asked for before the next write.
    asks_time: bool,
    /// What the server has said about itself so far.
    survey: Option<String>,
    pub(super) identity: Option<Identity>,
    /// Commands that are not written yet.
    gathered: Gathered<Tag>,
    /// Those that are under way together, each for one [`Asks::Batch`], and how many in all.
    batches_sent: VecDeque<Vec<Tagged>>,
    batched: usize,
    /// Batches of renewals that are under way, each for one [`Asks::Renewals`].
    renewals_sent: VecDeque<Arc<EncodedRenewals>>,
    /// Answers that came together with one that was told.
    answers: VecDeque<TaggedAnswer>,
    output: Vec<u8>,
    written: usize,
    /// What came in: decoded up to `decoded`, filled up to `filled`.
    input: Vec<u8>,
    decoded: usize,
    filled: usize,
    /// How many bytes that are still to come belong to a text that is passed over.
    skip: usize,
    in_flight: VecDeque<InFlight>,
    established: Instant,
    /// When the server last said something, or was asked while it had nothing to do.
    progress: Instant,
    /// Fires when commands have waited for too long since.
    stall: Option<Pin<Box<Sleep>>>,
    /// Locks that other libraries hold, each with the first in line of ours: their releases wake
    /// nobody, but the server tells when the key changes.
    awaited: Vec<Awaited>,
    /// Those that are being looked at for the first time, each for one [`Asks::Awaited`].
    arming: VecDeque<Awaited>,
    /// Those that have changed since.
    freed: VecDeque<Awaited>,
}

/// A waiter for a lock that another library holds.
pub(super) struct Awaited {
    key: LockKey,
    number: u64,
}

impl Awaited {
    /// Wakes it, as a message on our channel would.
    fn wake(self) -> PipelineEvent {
        PipelineEvent::Message(format!("{} {}", self.number, self.key.as_str()))
    }
}

struct InFlight {
    tag: Tag,
    /// `None` where no command of the manager's is behind it.
    command: Option<Command>,
    asks: Asks,
}

/// An acquire that the server's own `SET` has answered: granted, or not; `None` if another owner
/// has the lock.
struct Untimed {
    tag: Tag,
    key: LockKey,
    told: Option<Result<Answer, Fault>>,
}

/// What a reply is about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asks {
    Command(Form),
    /// Several commands of one kind.
    Batch(Batch, Form),
    /// A batch of renewals.
    Renewals(Form),
    /// What time is it? Behind the server's own `SET`s.
    Time,
    /// An acquire was refused: how long does the holder have it?
    TimeLeft,
    /// Watch the key that is read next. Nothing to tell.
    Watch,
    /// The record once more, watched from here on.
    Record,
    /// Whether a lock of another library is still there, which is watched from here on.
    Awaited,
    /// The server about itself.
    Info,
    /// The server about its settings.
    Config,
}

impl Pipeline {
    pub(super) fn new(established: Established) -> Self {
        let Established { stream, scripts, identity, unread, .. } = established;
        Self {
            stream,
            scripts,
            stale: false,
            recorded: None,
            untimed: vec![],
            asks_time: false,
            survey: None,
            identity,
            gathered: Gathered::default(),
            batches_sent: VecDeque::new(),
            batched: 0,
            renewals_sent: VecDeque::new(),
            answers: VecDeque::new(),
            output: vec![],
            written: 0,
            filled: unread.len(),
            input: unread,
            decoded: 0,
            skip: 0,
            in_flight: VecDeque::new(),
            established: Instant::now(),
            progress: Instant::now(),
            stall: None,
            awaited: vec![],
            arming: VecDeque::new(),
            freed: VecDeque::new(),
        }
    }

    /// How many commands are not answered yet.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.len() + self.batched
    }

    /// How long it has been up.
    pub(super) fn age(&self) -> Duration {
        self.established.elapsed()
    }

    /// Whose answers will not come any more.
    pub(super) fn take_unanswered(&mut self) -> impl Iterator<Item = Tag> + use<'_> {
        let scripts = &self.scripts;
        self.batched = 0;
        let gathered = std::mem::take(&mut self.gathered);
        let gathered = gathered.iter().map(|(tag, _)| *tag).collect::<Vec<_>>();
        let batched = self.batches_sent.drain(..).flatten().map(|(tag, _)| tag).chain(gathered);
        let renewals = std::mem::take(&mut self.renewals_sent);
        let renewals = renewals.into_iter().flat_map(|sent| sent.tags().collect::<Vec<_>>());
        let batched = batched.chain(renewals);
        let others = self.in_flight.drain(..).filter(|lost| lost.completes(scripts)).map(|lost| lost.tag);
        let untimed = self.untimed.drain(..).map(|untimed| untimed.tag);
        self.answers.drain(..).map(|(tag, _)| tag).chain(untimed).chain(batched).chain(others)
    }

    /// The next answer, or why there will be none.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<PipelineEvent, String>> {
        for _ in 0..READS_MAX {
            if let Some(news) = self.take_news()? {
                return Poll::Ready(Ok(news));
            }
            self.poll_write(cx)?;
            if self.poll_read(cx)?.is_pending() {
                return self.poll_stall(cx).map(Err);
            }
        }
        // Much is said and nothing of it is news: the others want to be heard, too.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn take_news(&mut self) -> Result<Option<PipelineEvent>, String> {
        if let Some(answer) = self.answers.pop_front() {
            return Ok(Some(PipelineEvent::Answer(answer)));
        }
        if let Some(awaited) = self.freed.pop_front() {
            return Ok(Some(awaited.wake()));
        }
        while let Some((value, length)) = decode(&self.input[self.decoded..self.filled])? {
            self.skip = (self.decoded + length).saturating_sub(self.filled);
            self.decoded = (self.decoded + length).min(self.filled);
            if let Value::Push(push) = value {
                let news = match push {
                    Push::Changed(keys) => self.take_change(keys.as_deref()),
                    Push::Message(message) => Some(PipelineEvent::Message(message)),
                    Push::Subscribed | Push::Other => None,
                };
                match news {
                    Some(news) => return Ok(Some(news)),
                    None => continue,
                }
            }
            let Some(in_flight) = self.in_flight.pop_front() else {
                return Err("an unsolicited reply".to_owned());
            };
            if let Some(news) = self.take_reply(in_flight, value)? {
                return Ok(Some(news));
            }
        }
        self.input.copy_within(self.decoded..self.filled, 0);
        (self.decoded, self.filled) = (0, self.filled - self.decoded);
        Ok(None)
    }

    /// Keys that we asked the server to watch have changed; all of them, if it does not say which.
    fn take_change(&mut self, keys: Option<&[String]>) -> Option<PipelineEvent> {
        let has_changed = |key: &[u8]| keys.is_none_or(|keys| keys.iter().any(|it| it.as_bytes() == key));
        let freed = self.awaited.extract_if(.., |awaited| has_changed(awaited.key.as_str().as_bytes()));
        self.freed.extend(freed);
        // If the record is just being read, most likely because we have written it ourselves, the
        // reply tells.
        if has_changed(self.scripts.record_key())
            && !std::mem::replace(&mut self.stale, true)
            && !self.reads_record()
        {
            return Some(PipelineEvent::Changed);
        }
        self.freed.pop_front().map(Awaited::wake)
    }

    /// Whether the record is still to come as it is after everything that has been said so far.
    fn reads_record(&self) -> bool {
        self.in_flight.iter().any(|in_flight| in_flight.asks == Asks::Record)
    }
}

impl InFlight {
    /// Whether somebody waits for an answer that this reply completes.
    fn completes(&self, scripts: &Scripts) -> bool {
        match (self.asks, &self.command) {
            (Asks::TimeLeft | Asks::Record, _) => true,
            (Asks::Command(_), Some(Command::Record { .. })) => !scripts.tracks_record,
            (Asks::Command(_), Some(_)) => true,
            // Those of a batch are kept apart.
            (Asks::Command(_), None)
            | (
                Asks::Batch(..)
                | Asks::Renewals(_)
                | Asks::Time
                | Asks::Watch
                | Asks::Awaited
                | Asks::Info
                | Asks::Config,
                _,
            ) => false,
        }
    }
}
