//! A question that changes nothing: who has a lock, put to all nodes; or which locks there are, put
//! to one of them a slice at a time (`walk.rs`).
//!
//! Every node's own answer is kept, and why others cannot be had. What they come to together is for
//! [`Agreement`](crate::Agreement) to say.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::command::{Answer, Command, Fault, Holding, Holdings, Listed, Listing, Reply};
use crate::config::Term;
use crate::names::LockKey;
use crate::note::Waiter;
use crate::round::{Deadlines, NodeIndex, Patience, Quorum};
use crate::time::{NodeTime, Time};

/// How long a node may take to answer.
const QUERY_TIMEOUT: Duration = Duration::from_secs(2);

/// When a majority has answered, the others get twice as long again, and this at the least. So a
/// node that hangs holds up nobody for long; a fleet that is far away, and a node on an overloaded
/// machine, are waited for.
const REST_MIN: Duration = Duration::from_millis(100);

/// What one node answered, or why it did not.
pub type NodeAnswer = Result<Answered, Fault>;

/// What one node has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Answered {
    /// The keys it was asked about that it has, in order.
    pub holdings: Vec<Holding>,
    /// How many are in line for the lock; `None` if it was asked about several.
    pub waiters: Option<u64>,
    /// The first of them, in order.
    pub line: Vec<Waiter>,
    /// What it was asked to list.
    pub listed: Option<Box<Listed>>,
    /// Its clock, if it told.
    pub time: Option<NodeTime>,
}

/// A question under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Query {
    question: Question,
    quorum: Quorum,
    begun: Time,
    deadline: Time,
    /// Nodes are given no longer than in a round for this term.
    term: Option<Term>,
    nodes: Vec<NodeProgress>,
    done: bool,
    outputs: VecDeque<Output>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Question {
    Inspect(LockKey),
    List(NodeIndex, Arc<Listing>),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum NodeProgress {
    Asked,
    /// The question is not for this one.
    NotAsked,
    Answered(NodeAnswer),
}

/// What a query is told.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Input {
    /// A node's answer.
    Answer {
        /// Which node.
        node: NodeIndex,
        /// What it said, or why it did not.
        answer: Result<Reply, Fault>,
    },
    /// The time of [`Query::poll_timeout`] has come.
    Timeout,
}

/// What a query asks for or tells.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Output {
    /// Send this command to this node.
    Send {
        /// Which node.
        node: NodeIndex,
        /// What to send.
        command: Command,
    },
    /// What every node answered, in the order of the node list; of those that were not asked, that
    /// there was no answer. Comes once, last.
    Done(Vec<NodeAnswer>),
}

impl Query {
    /// Asks who has the lock `key`.
    #[must_use]
    pub fn inspect(key: LockKey, quorum: Quorum, now: Time) -> Self {
        Self::begin(Question::Inspect(key), quorum, now)
    }

    /// Asks one node which locks it has.
    #[must_use]
    pub fn list(node: NodeIndex, listing: Arc<Listing>, quorum: Quorum, now: Time) -> Self {
        Self::begin(Question::List(node, listing), quorum, now)
    }

    fn begin(question: Question, quorum: Quorum, now: Time) -> Self {
        let progress = |node| match question {
            Question::List(only, _) if only != node => NodeProgress::NotAsked,
            _ => NodeProgress::Asked,
        };
        let nodes: Vec<NodeProgress> = quorum.indexes().map(progress).collect();
        let (begun, deadline, outputs) = (now, now + QUERY_TIMEOUT, VecDeque::new());
        let done = false;
        let mut query = Self { question, quorum, begun, deadline, term: None, nodes, done, outputs };
        quorum.indexes().for_each(|node| query.ask(node));
        query
    }

    /// Gives the nodes no longer than a round for this term does.
    #[must_use]
    pub const fn within(mut self, term: Term) -> Self {
        self.term = Some(term);
        self
    }

    /// The nodes are asked now, and waited for as `patience` says.
    pub fn follow(&mut self, now: Time, patience: &Patience) {
        if let Some(term) = self.term {
            self.deadline = self.deadline.min(Deadlines::new(now, term, patience).last(self.quorum));
        }
    }

    /// Takes one input at `now`; drain [`Query::poll_output`] afterwards.
    pub fn handle(&mut self, now: Time, input: Input) {
        match input {
            Input::Answer { node, answer } => {
                self.handle_answer(node, answer);
                self.hasten(now);
            }
            Input::Timeout if now >= self.deadline => {
                for progress in &mut self.nodes {
                    if matches!(progress, NodeProgress::Asked) {
                        *progress = NodeProgress::Answered(Err(Fault::Timeout));
                    }
                }
            }
            Input::Timeout => {}
        }
        self.finish();
    }

    /// What to do next, if anything.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When to call [`Query::handle`] with [`Input::Timeout`] at the latest.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        (!self.done).then_some(self.deadline)
    }

    fn handle_answer(&mut self, node: NodeIndex, answer: Result<Reply, Fault>) {
        if !matches!(self.nodes[node.get()], NodeProgress::Asked) {
            return;
        }
        let answer = answer.and_then(|Reply { time, answer, .. }| match answer {
            Answer::Holdings(told) => {
                let Holdings { found: mut holdings, waiters, line, .. } = *told;
                holdings.sort_unstable();
                Ok(Answered { holdings, waiters, line, listed: None, time })
            }
            Answer::Listed(listed) => Ok(Answered { listed: Some(listed), time, ..Answered::default() }),
            _ => Err(Fault::Error("an unexpected reply".into())),
        });
        self.nodes[node.get()] = NodeProgress::Answered(answer);
    }

    /// Whoever is still silent when a majority has answered is not waited for to the end.
    fn hasten(&mut self, now: Time) {
        let answered =
            self.nodes.iter().filter(|progress| matches!(progress, NodeProgress::Answered(Ok(_)))).count();
        if answered >= self.quorum.majority() {
            let rest = (now.since(self.begun) * 2).max(REST_MIN);
            self.deadline = self.deadline.min(now + rest);
        }
    }

    fn ask(&mut self, node: NodeIndex) {
        let command = match &self.question {
            Question::Inspect(key) => Command::Inspect { key: key.clone() },
            Question::List(only, listing) if *only == node => Command::List(Arc::clone(listing)),
            Question::List(..) => return,
        };
        self.outputs.push_back(Output::Send { node, command });
    }

    fn finish(&mut self) {
        if self.done || self.nodes.iter().any(|progress| matches!(progress, NodeProgress::Asked)) {
            return;
        }
        self.done = true;
        let answers = std::mem::take(&mut self.nodes).into_iter().map(|progress| match progress {
            NodeProgress::Answered(answer) => answer,
            NodeProgress::Asked | NodeProgress::NotAsked => Err(Fault::Timeout),
        });
        self.outputs.push_back(Output::Done(answers.collect()));
    }
}
