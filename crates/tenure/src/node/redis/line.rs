//! A connection that is up: what was asked and is not answered yet, in order.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tenure_core::{Answer, Command, Fault, NodeTime, Reply, RoundNumber, Time};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use super::handshake::{Established, Identity, Stream};
use super::info;
use super::resp::{Push, Value, decode, encode};
use super::script::{Form, Scripts, is_no_script};
use crate::node::{Renewals, Server, Tag};

/// A server that has not answered for so long is gone, or as good as: far beyond any node timeout.
const STALL_MAX: Duration = Duration::from_secs(2);

const READ_BYTES: usize = 16 * 1024;

/// How much is read at a time if none of it is news.
const READS_MAX: usize = 16;

/// The most extensions in one script: a tenth of a millisecond of the server's time, which others wait for.
const EXTENDS_MAX: usize = 64;

type Answered = (Tag, Result<Reply, Fault>);

/// What comes of a line.
pub(super) enum News {
    Answer(Answered),
    Changed,
    Renewed(Arc<Renewals>, Option<NodeTime>),
    Split(u64),
    /// A message on our channel.
    Message(String),
    Surveyed(Box<Server>),
}

/// A connection that is up.
pub(super) struct Line {
    stream: Box<dyn Stream>,
    scripts: Scripts,
    /// The server said that the record has changed since we last asked for it.
    stale: bool,
    /// What a record command told, until it is confirmed.
    recorded: Option<Result<Reply, Fault>>,
    /// What a `SET` told (whether it set the lock just now), until the end of the lock comes that was asked for right
    /// behind it; `None` if it was refused.
    acquired: Option<Result<bool, Fault>>,
    /// The acquire that it was, likewise.
    asked: Option<Command>,
    /// What the server has said about itself so far.
    survey: Option<String>,
    pub(super) identity: Option<Identity>,
    /// Extensions that are not written yet: they go out as one script.
    extends: Extends,
    /// Those that are under way, each for one [`Asks::Extends`].
    extends_sent: VecDeque<Extends>,
    /// Batches of renewals that are under way, each for one [`Asks::Renewals`].
    renewals_sent: VecDeque<Arc<Renewals>>,
    /// Answers that came together with one that was told.
    answers: VecDeque<Answered>,
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
}

type Extends = Vec<(Tag, Command)>;

struct InFlight {
    tag: Tag,
    /// `None` where no command of the manager's is behind it.
    command: Option<Command>,
    asks: Asks,
}

/// What a reply is about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asks {
    Command(Form),
    /// Several extensions at once.
    Extends(Form),
    /// A batch of renewals.
    Renewals(Form),
    /// When does the lock end? Right behind the server's own `SET`; it tells the server's time.
    End,
    /// An acquire was refused: how long does the holder have it?
    TimeLeft,
    /// Watch the key that is read next. Nothing to tell.
    Watch,
    /// The record once more, watched from here on.
    Record,
    /// The server about itself.
    Info,
    /// The server about its settings.
    Config,
}

impl Line {
    pub(super) fn new(established: Established) -> Self {
        let Established { stream, scripts, identity, unread, .. } = established;
        Self {
            stream,
            scripts,
            stale: false,
            recorded: None,
            acquired: None,
            asked: None,
            survey: None,
            identity,
            extends: vec![],
            extends_sent: VecDeque::new(),
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
        }
    }

    pub(super) fn send(&mut self, tag: Tag, command: Command) {
        if matches!(command, Command::Extend { .. }) {
            self.extends.push((tag, command));
            if self.extends.len() >= EXTENDS_MAX {
                self.send_extends(Form::Short);
            }
        } else {
            self.send_as(tag, command, Form::Short);
        }
    }

    /// Sends a batch of renewals as one script.
    pub(super) fn renew(&mut self, renewals: Arc<Renewals>) {
        self.send_renewals(renewals, Form::Short);
    }

    fn send_renewals(&mut self, renewals: Arc<Renewals>, form: Form) {
        self.send_extends(Form::Short);
        if self.in_flight.is_empty() {
            self.progress = Instant::now();
        }
        let encode = |output: &mut Vec<u8>, scripts: &Scripts| {
            let locks = renewals.locks.iter();
            let extends = locks.map(|(_, lock)| (&lock.key, &lock.token, lock.node_ttl_ms));
            scripts.encode_extends(output, extends, form);
        };
        if form == Form::Short && self.scripts.has_extend() {
            let encoded = renewals.encoded.get_or_init(|| {
                let mut encoded = vec![];
                encode(&mut encoded, &self.scripts);
                encoded
            });
            self.output.extend_from_slice(encoded);
        } else {
            encode(&mut self.output, &self.scripts);
        }
        let tag = Tag { machine: 0, round: RoundNumber::default(), sent: renewals.sent };
        self.renewals_sent.push_back(renewals);
        self.ask(tag, None, Asks::Renewals(form));
    }

    /// Sends the extensions that wait, before anything that comes after them.
    fn send_extends(&mut self, form: Form) {
        if self.extends.is_empty() {
            return;
        }
        if self.in_flight.is_empty() {
            self.progress = Instant::now();
        }
        let extends = self.extends.iter().map(|(_, command)| match command {
            Command::Extend { key, token, node_ttl_ms } => (key, token, *node_ttl_ms),
            _ => unreachable!("only extensions are kept here"),
        });
        self.scripts.encode_extends(&mut self.output, extends, form);
        let tag = self.extends[0].0;
        self.extends_sent.push_back(std::mem::take(&mut self.extends));
        self.ask(tag, None, Asks::Extends(form));
    }

    /// How many replies are still to come.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// How long it has been up.
    pub(super) fn age(&self) -> Duration {
        self.established.elapsed()
    }

    /// Whose answers will not come any more.
    pub(super) fn take_unanswered(&mut self) -> impl Iterator<Item = Tag> + use<'_> {
        let scripts = &self.scripts;
        let extends = self.extends_sent.drain(..).flatten().chain(self.extends.drain(..)).map(|(tag, _)| tag);
        let renewals = std::mem::take(&mut self.renewals_sent);
        let renewals = renewals.into_iter().flat_map(|sent| sent.tags().collect::<Vec<_>>());
        let extends = extends.chain(renewals);
        let others = self.in_flight.drain(..).filter(|lost| lost.completes(scripts)).map(|lost| lost.tag);
        self.answers.drain(..).map(|(tag, _)| tag).chain(extends).chain(others)
    }

    fn send_as(&mut self, tag: Tag, command: Command, form: Form) {
        self.send_extends(Form::Short);
        if self.in_flight.is_empty() {
            self.progress = Instant::now();
        }
        self.scripts.encode(&mut self.output, &command, form);
        let behind = if let Command::Acquire { key, .. } = &command
            && self.scripts.is_native_acquire(&command)
        {
            encode(&mut self.output, &[b"PEXPIRETIME", key.as_str().as_bytes()]);
            Some(Asks::End)
        } else if matches!(command, Command::Record { .. }) && self.scripts.tracks_record {
            encode(&mut self.output, &[b"CLIENT", b"CACHING", b"YES"]);
            encode(&mut self.output, &[b"GET", self.scripts.record_key()]);
            Some(Asks::Record)
        } else {
            None
        };
        match behind {
            None => self.ask(tag, Some(command), Asks::Command(form)),
            Some(asks) => {
                self.ask(tag, Some(command), Asks::Command(form));
                if asks == Asks::Record {
                    self.ask(tag, None, Asks::Watch);
                }
                self.ask(tag, None, asks);
            }
        }
    }

    fn ask(&mut self, tag: Tag, command: Option<Command>, asks: Asks) {
        self.in_flight.push_back(InFlight { tag, command, asks });
    }

    /// Asks the server about itself.
    pub(super) fn survey(&mut self) {
        let tag = Tag { machine: 0, round: RoundNumber::default(), sent: Time::from_nanos(0) };
        if self.in_flight.is_empty() {
            self.progress = Instant::now();
        }
        encode(&mut self.output, info::INFO);
        self.ask(tag, None, Asks::Info);
        encode(&mut self.output, info::CONFIG);
        self.ask(tag, None, Asks::Config);
    }

    /// The next answer, or why there will be none.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<News, String>> {
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

    fn take_news(&mut self) -> Result<Option<News>, String> {
        if let Some(answer) = self.answers.pop_front() {
            return Ok(Some(News::Answer(answer)));
        }
        while let Some((value, length)) = decode(&self.input[self.decoded..self.filled])? {
            self.skip = (self.decoded + length).saturating_sub(self.filled);
            self.decoded = (self.decoded + length).min(self.filled);
            if let Value::Push(push) = value {
                match push {
                    Push::Changed if !std::mem::replace(&mut self.stale, true) => {
                        return Ok(Some(News::Changed));
                    }
                    Push::Message(message) => return Ok(Some(News::Message(message))),
                    Push::Changed | Push::Subscribed | Push::Other => continue,
                }
            }
            let Some(in_flight) = self.in_flight.pop_front() else {
                return Err("a reply that nobody asked for".to_owned());
            };
            if let Some(news) = self.take_reply(in_flight, value)? {
                return Ok(Some(news));
            }
        }
        self.input.copy_within(self.decoded..self.filled, 0);
        (self.decoded, self.filled) = (0, self.filled - self.decoded);
        Ok(None)
    }

    /// What a reply tells, if it completes an answer.
    ///
    /// # Errors
    /// If the server is not what it was: who it is must be found out anew.
    fn take_reply(&mut self, in_flight: InFlight, value: Value) -> Result<Option<News>, String> {
        let InFlight { tag, command, asks } = in_flight;
        if let Value::Error(message) = &value
            && ["READONLY", "LOADING", "MASTERDOWN"].iter().any(|lead| message.starts_with(lead))
        {
            return Err(message.clone());
        }
        let answer = |answer| Ok(Some(News::Answer((tag, answer))));
        match (asks, command) {
            (Asks::Command(form), Some(command)) => self.take_command_reply(tag, command, form, value),
            (Asks::Extends(form), _) => {
                let mut sent = self.extends_sent.pop_front().ok_or("a reply that nobody asked for")?;
                if form == Form::Short && is_no_script(&value) {
                    // What was extended by then goes out before, and is none the worse for it.
                    self.send_extends(Form::Short);
                    self.extends = sent;
                    self.send_extends(Form::Whole);
                    return Ok(None);
                }
                let count = sent.len();
                let tags = sent.drain(..).map(|(tag, _)| tag);
                self.answers.extend(tags.zip(Scripts::extended(value, count)));
                // Its room serves the next ones.
                if self.extends.capacity() == 0 {
                    self.extends = sent;
                }
                Ok(self.answers.pop_front().map(News::Answer))
            }
            (Asks::Renewals(form), _) => {
                let sent = self.renewals_sent.pop_front().ok_or("a reply that nobody asked for")?;
                if form == Form::Short && is_no_script(&value) {
                    self.send_renewals(sent, Form::Whole);
                    return Ok(None);
                }
                if let Value::Number(_) = &value {
                    let time =
                        Scripts::extended(value, 1).next().and_then(Result::ok).and_then(|reply| reply.time);
                    return Ok(Some(News::Renewed(sent, time)));
                }
                self.answers.extend(sent.tags().zip(Scripts::extended(value, sent.locks.len())));
                Ok(Some(News::Split(sent.batch)))
            }
            (Asks::End, _) => {
                let (ends_ms, command) = (Scripts::ends_ms(&value), self.asked.take());
                let command = command.ok_or("a reply that nobody asked for")?;
                match (self.acquired.take(), &command) {
                    (Some(acquired), _) => {
                        let reply = acquired.map(|just_now| {
                            let time = Scripts::set_at(&command, ends_ms).filter(|_| just_now);
                            Reply::new(time, Answer::Granted)
                        });
                        answer(self.in_known_memory(reply))
                    }
                    // Another has it: for how long?
                    (None, Command::Acquire { key, .. }) => {
                        Scripts::encode_time_left(&mut self.output, key);
                        self.ask(tag, None, Asks::TimeLeft);
                        Ok(None)
                    }
                    (None, _) => Ok(None),
                }
            }
            (Asks::TimeLeft, _) => answer(Scripts::time_left(value)),
            (Asks::Record, _) => {
                let Some(recorded) = self.recorded.take() else { return Ok(None) };
                self.stale = false;
                answer(recorded.and_then(|reply| match (&reply.answer, &value) {
                    (Answer::Record(Some(record)), Value::Text(text)) if **record == **text => Ok(reply),
                    (Answer::Record(None), Value::Null) => Ok(reply),
                    _ => Err(Fault::Error("the node's record was changed at the same time".into())),
                }))
            }
            (Asks::Info, _) => {
                self.survey = Some(if let Value::Text(info) = value { info } else { String::new() });
                Ok(None)
            }
            (Asks::Config, _) => {
                let info = self.survey.take().unwrap_or_default();
                let server = info::server(&info, &value, self.scripts.tracks_record, self.scripts.listens);
                Ok(Some(News::Surveyed(Box::new(server))))
            }
            // A right that was taken away: from now on the record is looked at with every acquire.
            (Asks::Watch, _) if matches!(value, Value::Error(_)) => {
                self.scripts.tracks_record = false;
                Ok(None)
            }
            (Asks::Watch | Asks::Command(_), _) => Ok(None),
        }
    }

    fn take_command_reply(
        &mut self,
        tag: Tag,
        command: Command,
        form: Form,
        value: Value,
    ) -> Result<Option<News>, String> {
        let answer = |answer| Ok(Some(News::Answer((tag, answer))));
        if self.scripts.is_native_acquire(&command) {
            self.acquired = Scripts::native_reply(&command, value);
            self.asked = Some(command);
            return Ok(None);
        }
        if form == Form::Short && self.scripts.was_not_executed(&command, &value) {
            // It goes to the end of the queue, where what sets a lock must not come: its release may be before it.
            if self.is_overtaken(&command) {
                return answer(Err(Fault::Error("the server forgot the script".into())));
            }
            self.send_as(tag, command, Form::Whole);
            return Ok(None);
        }
        let mut reply = Scripts::reply(&command, value);
        if let Command::Acquire { .. } = command {
            reply = self.in_known_memory(reply);
        }
        if matches!(command, Command::Record { .. }) && self.scripts.tracks_record {
            self.recorded = Some(reply);
            return Ok(None);
        }
        answer(reply)
    }

    /// A lock that was set in a memory that is not the one we know is no lock. The server says that the record has
    /// changed before it answers anything that came after.
    fn in_known_memory(&self, reply: Result<Reply, Fault>) -> Result<Reply, Fault> {
        match reply {
            Ok(Reply { answer: Answer::Granted, .. }) if self.stale => {
                Err(Fault::Error("the node's record has changed".into()))
            }
            reply => reply,
        }
    }

    /// Whether a release of what this command would set is under way already.
    fn is_overtaken(&self, command: &Command) -> bool {
        let (Command::Acquire { token, .. } | Command::Heal { token, .. }) = command else { return false };
        let undoes = |in_flight: &InFlight| match &in_flight.command {
            Some(
                Command::Release { token: released, .. }
                | Command::PassOn { token: released, .. }
                | Command::Requeue { token: released, .. },
            ) => released == token,
            _ => false,
        };
        self.in_flight.iter().any(undoes)
    }

    /// Writes as much as the connection takes; the rest waits for the next call.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        self.send_extends(Form::Short);
        while self.written < self.output.len() {
            match Pin::new(&mut self.stream).poll_write(cx, &self.output[self.written..]) {
                Poll::Ready(Ok(0)) => return Err("the connection takes no more data".to_owned()),
                Poll::Ready(Ok(count)) => self.written += count,
                Poll::Ready(Err(error)) => return Err(error.to_string()),
                Poll::Pending => {
                    // A connection that never catches up must not keep what it has sent.
                    self.output.drain(..self.written);
                    self.written = 0;
                    return Ok(());
                }
            }
        }
        self.output.clear();
        self.written = 0;
        // TLS keeps what it has encrypted until it is told to send it.
        match Pin::new(&mut self.stream).poll_flush(cx) {
            Poll::Ready(Err(error)) => Err(error.to_string()),
            _ => Ok(()),
        }
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Result<Poll<()>, String> {
        if self.input.len() < self.filled + READ_BYTES {
            self.input.resize(self.filled + READ_BYTES, 0);
        }
        let mut buffer = ReadBuf::new(&mut self.input[self.filled..]);
        match Pin::new(&mut self.stream).poll_read(cx, &mut buffer) {
            Poll::Ready(Ok(())) if buffer.filled().is_empty() => {
                Err("the server closed the connection".to_owned())
            }
            Poll::Ready(Ok(())) => {
                let count = buffer.filled().len();
                let skipped = count.min(self.skip);
                // What is passed over counts as decoded; nothing else is in the buffer then.
                self.skip -= skipped;
                self.decoded += skipped;
                self.filled += count;
                self.progress = Instant::now();
                Ok(Poll::Ready(()))
            }
            Poll::Ready(Err(error)) => Err(error.to_string()),
            Poll::Pending => Ok(Poll::Pending),
        }
    }

    /// Ready with the reason when commands have waited for too long. The timer is polled only when that is news to
    /// it: this is asked at every turn of the driver.
    fn poll_stall(&mut self, cx: &mut Context<'_>) -> Poll<String> {
        while !self.in_flight.is_empty() {
            let due = self.progress + STALL_MAX;
            match &mut self.stall {
                None => {
                    let mut stall = Box::pin(tokio::time::sleep_until(due));
                    let pending = stall.as_mut().poll(cx).is_pending();
                    self.stall = Some(stall);
                    if pending {
                        return Poll::Pending;
                    }
                }
                Some(stall) if !stall.is_elapsed() => return Poll::Pending,
                Some(_) if Instant::now() >= due => {
                    return Poll::Ready(format!("no answer for {STALL_MAX:?}"));
                }
                Some(_) => self.stall = None,
            }
        }
        Poll::Pending
    }
}

impl InFlight {
    /// Whether somebody waits for an answer that this reply completes.
    fn completes(&self, scripts: &Scripts) -> bool {
        match (self.asks, &self.command) {
            (Asks::End | Asks::TimeLeft | Asks::Record, _) => true,
            (Asks::Command(_), Some(Command::Record { .. })) => !scripts.tracks_record,
            (Asks::Command(_), Some(command)) => !scripts.is_native_acquire(command),
            // Those of extensions are kept apart.
            (Asks::Command(_), None)
            | (Asks::Extends(_) | Asks::Renewals(_) | Asks::Watch | Asks::Info | Asks::Config, _) => false,
        }
    }
}
