//! The connections there are: the stand-in for those of the library, of which the core asks no more
//! than this.
//!
//! - **Order.** A connection keeps the order of its commands and of its answers. A node executes
//!   them one after another. Some wait for each other until the connection is written to, and are
//!   sent together: those keep their order for each lock.
//! - **At most once.** A command is answered once, with its tag, or its connection breaks. A broken
//!   one loses answers, and what it had taken may still arrive, late, unless the server was told to
//!   end it. (The world also makes duplicates, which no connection does: see
//!   `docs/explanation/simulator.md`.)
//! - **The end.** The client first hears that the connection broke, then a fault for every command
//!   whose answer is still out. What is handed out while there is none is answered with a fault
//!   that says that it was not sent.
//! - **Batches.** Commands that are sent together are executed together, each as if it were alone,
//!   and their answers come together.
//! - **Renewals** that are handed out together are executed together, and granted as a
//!   whole; or the client hears that the batch is split, and then the answers one by one. A
//!   connection that cannot do that sends them one by one, and says so at once.
//! - **Changes.** Where the server can tell that its data was replaced, that comes before any
//!   answer of its new life.
//! - **Wake-ups** come over the newest connection, in order with the answers, unless it breaks.
//! - **First tries.** Whether a first try to connect went well or not is told, and then that there
//!   was one.
//!
//! A history makes thousands of them, so those that still matter are kept by client and node:
//! nobody looks through all.

use std::collections::VecDeque;
use std::ops::{Index, IndexMut};
use std::sync::Arc;

use tenure_core::client::{Renewals, Tag};
use tenure_core::{Command, Gathered, NodeIndex};

use super::partition::Gate;

/// What a client sends over a connection in one piece.
#[derive(Clone, Debug)]
pub(crate) enum Message {
    Command { tag: Tag, command: Command },
    Batch(Vec<(Tag, Command)>),
    Renewals(Arc<Renewals>),
}

/// What was sent and is not answered.
#[derive(Clone, Debug)]
pub(crate) enum Unanswered {
    Command(Tag),
    Batch(Vec<Tag>),
    Renewals(Arc<Renewals>),
}

/// One connection from one client process to one server process.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) client: usize,
    pub(crate) generation: u32,
    pub(crate) node: NodeIndex,
    pub(crate) broken: Option<Broken>,
    /// The client has seen that it is gone.
    pub(crate) noticed: bool,
    /// What was sent and not answered, in order.
    pub(crate) unanswered: VecDeque<Unanswered>,
    /// It can send commands together.
    pub(crate) batches: bool,
    /// What waits for the next write.
    pub(crate) gathered: Gathered<Tag>,
    request_ns: u64,
    reply_ns: u64,
}

/// What becomes of the messages that were under way when a connection broke.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Broken {
    /// Commands arrive so much later; `None` if they do not.
    pub(crate) strays_ns: Option<u64>,
    /// Answers that were under way arrive.
    pub(crate) answers: bool,
}

impl Link {
    pub(crate) fn new(client: usize, generation: u32, node: NodeIndex, batches: bool) -> Self {
        let (unanswered, gathered) = (VecDeque::new(), Gathered::default());
        let (broken, noticed, request_ns, reply_ns) = (None, false, 0, 0);
        Self {
            client,
            generation,
            node,
            broken,
            noticed,
            unanswered,
            batches,
            gathered,
            request_ns,
            reply_ns,
        }
    }

    /// Takes note that this is under way.
    pub(crate) fn expect_answer(&mut self, message: &Message) {
        self.unanswered.push_back(match message {
            Message::Command { tag, .. } => Unanswered::Command(*tag),
            Message::Batch(commands) => Unanswered::Batch(commands.iter().map(|(tag, _)| *tag).collect()),
            Message::Renewals(renewals) => Unanswered::Renewals(Arc::clone(renewals)),
        });
    }

    /// Whose answers will not come any more.
    pub(crate) fn take_unanswered(&mut self) -> Vec<Tag> {
        let gathered = std::mem::take(&mut self.gathered);
        let unanswered = std::mem::take(&mut self.unanswered).into_iter();
        let sent = unanswered.flat_map(|unanswered| match unanswered {
            Unanswered::Command(tag) => vec![tag],
            Unanswered::Batch(tags) => tags,
            Unanswered::Renewals(renewals) => renewals.tags().collect(),
        });
        sent.chain(gathered.iter().map(|(tag, _)| *tag)).collect()
    }

    /// What is sent from now on arrives no sooner.
    pub(crate) fn wait(&mut self, gate: Gate) {
        self.request_ns = self.request_ns.max(gate.requests_ns);
        self.reply_ns = self.reply_ns.max(gate.replies_ns);
    }

    /// When a command that is sent now arrives: never before an earlier one.
    pub(crate) fn request_arrives(&mut self, now_ns: u64, delay_ns: u64) -> u64 {
        self.request_ns = self.request_ns.max(now_ns + delay_ns);
        self.request_ns
    }

    /// When an answer that is sent now arrives: never before an earlier one.
    pub(crate) fn reply_arrives(&mut self, now_ns: u64, delay_ns: u64) -> u64 {
        self.reply_ns = self.reply_ns.max(now_ns + delay_ns);
        self.reply_ns
    }

    /// Nothing will come over it any more, whatever happens.
    const fn is_over(&self) -> bool {
        matches!(self.broken, Some(Broken { strays_ns: None, .. }))
    }
}

/// All connections of a history.
#[derive(Clone, Debug)]
pub(crate) struct Links {
    all: Vec<Link>,
    nodes: usize,
    /// Those that are not over, for every client and node, oldest first.
    current: Vec<Vec<usize>>,
}

impl Links {
    pub(crate) fn new(clients: usize, nodes: usize) -> Self {
        Self { all: vec![], nodes, current: vec![vec![]; clients * nodes] }
    }

    pub(crate) fn push(&mut self, link: Link) -> usize {
        let (number, place) = (self.all.len(), self.place(link.client, link.node));
        self.all.push(link);
        let all = &self.all;
        self.current[place].retain(|link| !all[*link].is_over());
        self.current[place].push(number);
        number
    }

    /// Those between a client's place and a node that are not over, oldest first.
    pub(crate) fn between(&self, client: usize, node: NodeIndex) -> &[usize] {
        &self.current[self.place(client, node)]
    }

    /// Those of one generation of a client.
    pub(crate) fn of_client(&self, client: usize, generation: u32) -> Vec<usize> {
        let current = self.current[client * self.nodes..(client + 1) * self.nodes].iter().flatten();
        current.copied().filter(|link| self.all[*link].generation == generation).collect()
    }

    pub(crate) fn to_node(&self, node: usize) -> Vec<usize> {
        self.current.iter().skip(node).step_by(self.nodes).flatten().copied().collect()
    }

    /// Those that are not broken.
    pub(crate) fn unbroken(&self) -> Vec<usize> {
        let current = self.current.iter().flatten().copied();
        current.filter(|link| self.all[*link].broken.is_none()).collect()
    }

    /// The newest one of a client's generation that is not broken.
    pub(crate) fn newest(&self, client: usize, generation: u32, node: NodeIndex) -> Option<usize> {
        let open =
            |link: &&usize| self.all[**link].generation == generation && self.all[**link].broken.is_none();
        self.between(client, node).iter().rev().find(open).copied()
    }

    const fn place(&self, client: usize, node: NodeIndex) -> usize {
        client * self.nodes + node.get()
    }
}

impl Index<usize> for Links {
    type Output = Link;

    fn index(&self, link: usize) -> &Link {
        &self.all[link]
    }
}

impl IndexMut<usize> for Links {
    fn index_mut(&mut self, link: usize) -> &mut Link {
        &mut self.all[link]
    }
}

#[cfg(test)]
mod tests {
    use tenure_core::Quorum;

    use super::*;

    #[test]
    fn connections_that_are_over_are_not_looked_at_again() {
        let node = Quorum::of(3).unwrap().indexes().nth(1).unwrap();
        let mut links = Links::new(2, 3);
        for _ in 0..100 {
            let link = links.push(Link::new(1, 0, node, true));
            assert_eq!(links.newest(1, 0, node), Some(link));
            links[link].broken = Some(Broken { strays_ns: None, answers: false });
        }
        assert_eq!(links.between(1, node).len(), 1);
        assert_eq!(links.newest(1, 0, node), None);
        let stray = links.push(Link::new(1, 0, node, true));
        links[stray].broken = Some(Broken { strays_ns: Some(5), answers: false });
        let open = links.push(Link::new(1, 1, node, true));
        assert_eq!(links.between(1, node), [stray, open]);
        assert_eq!((links.unbroken(), links.to_node(1)), (vec![open], vec![stray, open]));
        assert_eq!((links.of_client(0, 0), links.of_client(1, 0)), (vec![], vec![stray]));
    }
}
