//! One connection to one server: commands in order, each at most once, and never a queue without
//! end.
//!
//! Replies are matched to commands by their order alone. While there is no connection, commands
//! fail at once and the next try runs in the background; only during the very first one do they
//! wait for its outcome. A server that leaves a command unanswered for too long is treated as gone.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tenure_core::{ClientId, Command, Fault, FenceBounds, Prefix};
use tokio::time::Sleep;

use super::RedisNode;
use super::handshake::{Established, Identity, establish};
use super::pipeline::{Pipeline, PipelineEvent};
use super::script::Scripts;
use crate::node::{Connection, EncodedRenewals, NodeEvent, Tag};

/// The most commands under way on one connection. A healthy server has a few hundred; what a hung
/// one may hold up is bounded by this.
const IN_FLIGHT_MAX: usize = 8_192;

/// Pauses between tries to connect: quick at first, never so long that a node that is back waits
/// noticeably.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_millis(250);

/// A connection that lasted so long was a good one.
const STEADY: Duration = Duration::from_secs(1);

pub(in crate::node) struct RedisConnection {
    node: Arc<RedisNode>,
    /// As they are before a server has loaded them.
    scripts: Scripts,
    state: State,
    events: VecDeque<NodeEvent>,
    /// The last connection, if there was one.
    previous: Option<Identity>,
    pause: Duration,
}

enum State {
    /// The first try is under way, and these commands wait for its outcome.
    First(Attempt, Vec<(Tag, Command)>),
    /// A later try is under way; the reason why there is no connection.
    Again(Attempt, Fault),
    /// Between two tries.
    Down(Pin<Box<Sleep>>, Fault),
    Up(Box<Pipeline>),
}

type Attempt = Pin<Box<dyn Future<Output = Result<Established, Fault>> + Send>>;

impl RedisConnection {
    pub(super) fn new(node: RedisNode, prefix: &Prefix, bounds: FenceBounds, client: ClientId) -> Self {
        let (node, scripts) = (Arc::new(node), Scripts::new(prefix, bounds, client));
        let attempt: Attempt = Box::pin(establish(Arc::clone(&node), scripts.clone(), None));
        let state = State::First(attempt, vec![]);
        Self { node, scripts, state, events: VecDeque::new(), previous: None, pause: PAUSE_MIN }
    }

    /// Moves on until something has happened or nothing can.
    fn poll_state(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.state {
            State::First(attempt, waiting) => {
                let result = std::task::ready!(attempt.as_mut().poll(cx));
                let waiting = std::mem::take(waiting);
                self.finish_attempt(result, waiting);
            }
            State::Again(attempt, _) => {
                let result = std::task::ready!(attempt.as_mut().poll(cx));
                self.finish_attempt(result, vec![]);
            }
            State::Down(sleep, fault) => {
                std::task::ready!(sleep.as_mut().poll(cx));
                let attempt =
                    Box::pin(establish(Arc::clone(&self.node), self.scripts.clone(), self.previous.clone()));
                self.state = State::Again(attempt, fault.clone());
            }
            State::Up(pipeline) => match std::task::ready!(pipeline.poll(cx)) {
                Ok(news) => self.events.push_back(match news {
                    PipelineEvent::Answer((tag, answer)) => NodeEvent::Answer(tag, answer),
                    PipelineEvent::Changed => NodeEvent::Changed,
                    PipelineEvent::Renewed(renewals, time) => NodeEvent::Renewed(renewals, time),
                    PipelineEvent::Split(batch) => NodeEvent::Split(batch),
                    PipelineEvent::Message(message) => match message.split_once(' ') {
                        Some((number, key)) => {
                            NodeEvent::Woken { number: number.parse().unwrap_or(0), key: key.to_owned() }
                        }
                        None => return Poll::Ready(()),
                    },
                    PipelineEvent::Surveyed(server) => NodeEvent::Surveyed(server),
                }),
                Err(reason) => self.disconnect(&reason),
            },
        }
        Poll::Ready(())
    }

    fn finish_attempt(&mut self, result: Result<Established, Fault>, waiting: Vec<(Tag, Command)>) {
        match result {
            Ok(mut established) => {
                tracing::debug!(target: "tenure", node = &*self.node.address, "connected");
                let server = Box::new(std::mem::take(&mut established.server));
                let mut pipeline = Pipeline::new(established);
                waiting.into_iter().for_each(|(tag, command)| pipeline.send(tag, command));
                self.previous = pipeline.identity.take();
                self.state = State::Up(Box::new(pipeline));
                self.events.push_back(NodeEvent::Connected(server));
            }
            Err(fault) => {
                tracing::debug!(target: "tenure", node = &*self.node.address, reason = %fault, "cannot connect");
                for (tag, _) in waiting {
                    self.events.push_back(NodeEvent::Answer(tag, Err(fault.clone())));
                }
                self.events.push_back(NodeEvent::Unreachable(fault.clone()));
                self.wait(fault);
            }
        }
    }

    fn disconnect(&mut self, reason: &str) {
        tracing::warn!(target: "tenure", node = &*self.node.address, reason, "disconnected");
        self.events.push_back(NodeEvent::Disconnected(Fault::Unreachable(reason.into())));
        if let State::Up(pipeline) = &mut self.state {
            // A server that breaks off each connection at once is not asked at full speed.
            if pipeline.age() >= STEADY {
                self.pause = PAUSE_MIN;
            }
            let lost = pipeline.take_unanswered();
            self.events.extend(lost.map(|tag| NodeEvent::Answer(tag, Err(Fault::Disconnected))));
        }
        self.wait(Fault::Unreachable(reason.into()));
    }

    fn wait(&mut self, fault: Fault) {
        // Not in step with every other client of a server that has just come back.
        let pause =
            self.pause.mul_f64(1.0 + f64::from(getrandom::u32().unwrap_or(0)) / f64::from(u32::MAX) / 2.0);
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        self.state = State::Down(Box::pin(tokio::time::sleep(pause)), fault);
    }
}

impl Connection for RedisConnection {
    fn send(&mut self, tag: Tag, command: Command) {
        let fault = match &mut self.state {
            State::Up(pipeline) if pipeline.in_flight() < IN_FLIGHT_MAX => {
                return pipeline.send(tag, command);
            }
            State::First(_, waiting) if waiting.len() < IN_FLIGHT_MAX => return waiting.push((tag, command)),
            State::Up(_) | State::First(..) => Fault::Busy,
            State::Again(_, fault) | State::Down(_, fault) => fault.clone(),
        };
        self.events.push_back(NodeEvent::Answer(tag, Err(fault)));
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<NodeEvent> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Poll::Ready(event);
            }
            std::task::ready!(self.poll_state(cx));
        }
    }

    fn renew(&mut self, renewals: &Arc<EncodedRenewals>) -> bool {
        match &mut self.state {
            State::Up(pipeline) if pipeline.in_flight() < IN_FLIGHT_MAX => {
                pipeline.renew(Arc::clone(renewals));
                true
            }
            _ => false,
        }
    }

    fn is_settled(&self) -> bool {
        !matches!(self.state, State::First(..)) && self.events.is_empty()
    }

    fn survey(&mut self) -> bool {
        let State::Up(pipeline) = &mut self.state else { return false };
        pipeline.survey();
        true
    }
}
