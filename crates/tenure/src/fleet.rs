//! Changing the node list of a fleet while its clients run, and taking nodes out of a fleet.
//!
//! The rules are in the core ([`tenure_core::trust::change`]); here are the connections. Everything
//! that a change has done is in the records of the nodes, so it can be ended at any moment and run
//! again.

pub(crate) mod known_nodes;

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tenure_core::trust::change::{self, Input, Output, Progress, Refused};
use tenure_core::trust::{ChangeNode, NodeListChange};
use tenure_core::{
    Answer, ClientId, Command, Fault, FenceBounds, NodeIndex, Prefix, Quorum, Reply, Swap, Time,
};

use crate::error::BuildError;
use crate::locks::Builder;
use crate::machine::clock::Clock;
use crate::node::{Addressee, Connection, Node, NodeEvent, Tag};

/// A node that cannot be reached for so long ends the change, which can be run again.
const REACH_WITHIN: Duration = Duration::from_secs(10);

/// A change from one node list to another, while clients of both run.
///
/// The two lists never grant the same lock at the same time. The old list stops granting when the
/// change begins; holders of its locks lose them, and learn of it before anyone else can get them;
/// the new list grants once all old locks have expired, after a quarantine (`max_ttl` plus a
/// tenth).
///
/// Switch clients to the new list any time after [`FleetProgress::Prepared`]; it grants locks once
/// it is open. The change may be interrupted at any time and run again, from anywhere; it resumes
/// where it stopped.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use tenure::{FleetChange, Locks, MemoryNode};
///
/// let [a, b, c, d] = ["a", "b", "c", "d"].map(MemoryNode::new);
/// let old = || Locks::builder().nodes([&a, &b, &c]).max_ttl(Duration::from_secs(1));
/// let new = || Locks::builder().nodes([&a, &b, &d]).max_ttl(Duration::from_secs(1));
/// let before = old().build()?;
/// before.lock("invoice:42").acquire().await?.release().await?;
///
/// FleetChange::new(old(), new()).run(|progress| println!("{progress}")).await?;
///
/// let after = new().build()?;
/// assert!(after.lock("invoice:42").try_acquire().await?.is_some());
/// assert!(before.lock("invoice:42").try_acquire().await.is_err());
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "nothing happens until `run` is called"]
pub struct FleetChange {
    from: Builder,
    to: Builder,
    gone: Vec<Node>,
    abort: bool,
}

/// The progress of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FleetProgress {
    /// These nodes have not been reached yet.
    Reaching(Vec<String>),
    /// The new nodes are ready: clients may switch to the new list.
    Prepared,
    /// The old list grants no more locks.
    Closed,
    /// Waiting for the last locks of the old list to expire.
    Waiting {
        /// How much longer at most.
        left: Duration,
    },
    /// Waiting for the clocks of the new nodes to pass the fences of the old list, because fences
    /// must grow.
    Clocks {
        /// How much longer.
        left: Duration,
    },
    /// The new list grants locks.
    Opened,
}

/// Why a fleet was not changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FleetError {
    /// A list or setting is invalid.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The lists differ in more than their nodes.
    #[error("prefix, max_ttl, restart_guard and fence_retention must be the same for both lists")]
    Settings,
    /// A node declared gone is not in the old list, or is in the new one.
    #[error("--gone {node}: this node is not only in the old list")]
    NotGone {
        /// The node.
        node: String,
    },
    /// Nodes cannot be reached.
    #[error(
        "cannot reach {}. Start them and run the change again; if a node of the old list is gone for good, \
         add --gone",
        nodes.join(", ")
    )]
    Unreachable {
        /// Which.
        nodes: Vec<String>,
    },
    /// The node belongs to another fleet.
    #[error(
        "{node} belongs to another fleet. If nobody uses that fleet any more, run `tenure fleet forget` for \
         this node, then the change again"
    )]
    Foreign {
        /// The node.
        node: String,
    },
    /// The node already grants locks under the new list.
    #[error(
        "{node} already grants locks under the new list, so clients of the two lists do not exclude each \
         other. Stop the clients of the new list, run `tenure fleet forget` for its nodes, then the change \
         again"
    )]
    InUse {
        /// The node.
        node: String,
    },
    /// Another change is in progress.
    #[error("the nodes are already changing to another list, {to}. Finish or abort that change first")]
    Other {
        /// That list.
        to: String,
    },
    /// It is too late to abort.
    #[error("too late to abort: locks of the old list are gone. Run the change again to finish it")]
    TooLate,
    /// Too many nodes are gone.
    #[error(
        "too many nodes of the old list are gone to know which locks they granted; start a majority of \
             them"
    )]
    TooManyGone,
    /// A node is connected but does not do what it is asked.
    #[error("{node} failed: {reason}. Nothing is lost: fix it and run the command again")]
    Silent {
        /// The node.
        node: String,
        /// What it said.
        reason: String,
    },
    /// Most nodes of the old list were never used with it, or have forgotten it.
    #[error(
        "the old node list is not in use: no record of it on {}. Check the old list (--nodes) and the \
         prefix. If they are correct and the nodes lost their memory, run `tenure doctor` with the old \
         list, then the change again",
        nodes.join(", ")
    )]
    Unused {
        /// Which.
        nodes: Vec<String>,
    },
    /// The clients of the prefix rely on what this node remembers.
    #[error(
        "{node} has locks under this prefix with a restart_guard other than off: its clients rely on them. \
         Only a prefix with restart_guard = \"off\" can be given up"
    )]
    Guarded {
        /// The node.
        node: String,
    },
    /// The two lists are the same.
    #[error(
        "the old and the new list are the same. Pass the old one with --nodes; if the fleet has a name, \
         choose a new one with --to-fleet"
    )]
    Same,
}

impl FleetChange {
    /// A change from the nodes of one list to those of another; all other settings must be the
    /// same.
    pub const fn new(from: Builder, to: Builder) -> Self {
        Self { from, to, gone: vec![], abort: false }
    }

    /// Declares a node of the old list gone: it is switched off, and will not come back while
    /// clients use the old list. The change waits for the locks that it may have.
    pub fn gone(mut self, node: impl Into<Node>) -> Self {
        self.gone.push(node.into());
        self
    }

    /// Aborts: takes back an earlier run, if the old list has not lost any lock yet.
    pub const fn abort(mut self) -> Self {
        self.abort = true;
        self
    }

    /// Runs the change and reports its progress.
    ///
    /// # Errors
    /// [`FleetError`] says why not, and what to do. It is safe to leave things as they are.
    ///
    /// # Cancel safety
    /// It may be dropped at any time and run again.
    pub async fn run(self, mut progress: impl FnMut(&FleetProgress)) -> Result<(), FleetError> {
        let (from, prefix) = self.from.agreed()?;
        let (to, new_prefix) = self.to.agreed()?;
        if prefix != new_prefix || from.clone().with_roster(to.roster().clone()) != to {
            return Err(FleetError::Settings);
        }
        let (old, new) = (self.from.into_nodes(), self.to.into_nodes());
        let place = |list: &[Node], node: &Node| -> Option<NodeIndex> {
            let position = list.iter().position(|listed| listed.place() == node.place())?;
            Quorum::of(list.len()).ok()?.indexes().nth(position)
        };
        let mut nodes = old.clone();
        nodes.extend(new.iter().filter(|node| place(&old, node).is_none()).cloned());
        let is_gone = |node: &Node| self.gone.iter().any(|gone| gone.place() == node.place());
        let wrong = |gone: &&Node| place(&old, gone).is_none() || place(&new, gone).is_some();
        if let Some(node) = self.gone.iter().find(wrong) {
            return Err(FleetError::NotGone { node: node.address().to_owned() });
        }
        let parts = nodes.iter().map(|node| {
            let part = ChangeNode::new(place(&old, node), place(&new, node));
            if is_gone(node) { part.gone() } else { part }
        });
        let mut machine = NodeListChange::new(from.clone(), to, prefix.clone(), parts.collect(), random()?);
        if self.abort {
            machine = machine.aborting();
        }
        let reached: Vec<bool> = nodes.iter().map(&is_gone).collect();
        let mut connections = Connections::connect(nodes, &prefix, from.bounds(), reached)?;
        loop {
            while let Some(output) = machine.poll_output() {
                match output {
                    Output::Send { node, command } => connections.send(node, command),
                    Output::Progress(news) => progress(&connections.progress(news)),
                    Output::Done => return Ok(()),
                    Output::Failed(refused) => return Err(connections.error(refused)),
                }
            }
            let input = match connections.next(machine.poll_timeout()).await? {
                None => Input::Timeout,
                Some((node, NodeEvent::Connected(server))) => {
                    Input::Connected { node, facts: server.facts() }
                }
                Some((node, NodeEvent::Disconnected(_) | NodeEvent::Unreachable(_))) => {
                    Input::Disconnected { node }
                }
                Some((node, NodeEvent::Answer(_, answer))) => Input::Answer { node, answer },
                Some(_) => continue,
            };
            machine.handle(Clock::System.now(), input);
        }
    }
}

/// Removes nodes from the fleet they belong to, so that another fleet can use them. They belong to
/// the first fleet that uses them, and vote after a quarantine, because old locks may still be
/// held.
///
/// It resolves a node that two fleets claim, and makes nodes of an older version or of an abandoned
/// fleet usable again. Stop the old clients, or switch them to other nodes, first.
///
/// # Errors
/// [`FleetError::Unreachable`] if a node cannot be reached; the others are removed all the same.
///
/// # Cancel safety
/// It may be dropped at any time and run again.
pub async fn forget_nodes(nodes: Builder) -> Result<(), FleetError> {
    rewrite_records(nodes, |_, text, seed| Ok(change::vacate(text, seed))).await
}

/// Removes what the nodes store for an unused prefix, its record and its fences, as if it had never
/// been used. For temporary prefixes, such as those of a benchmark or a test.
///
/// Its restart guard must be [`Off`](tenure_core::RestartGuard::Off): with any other one, clients
/// rely on what the nodes remember. Stop its clients first. Locks that are still held expire.
///
/// # Errors
/// [`FleetError::Guarded`] if the restart guard is not off, [`FleetError::Unreachable`] if a node
/// cannot be reached; the others are cleared all the same.
///
/// # Cancel safety
/// It may be dropped at any time and run again.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use tenure::{Locks, MemoryNode, RestartGuard, give_up_prefix};
///
/// let nodes = ["a", "b", "c"].map(MemoryNode::new);
/// let trial = || Locks::builder().nodes(&nodes).prefix("trial:").restart_guard(RestartGuard::Off);
/// let locks = trial().build()?;
/// locks.lock("x").acquire().await?.release().await?;
/// locks.shutdown().await?;
/// give_up_prefix(trial()).await?;
/// # Ok(()) }
/// ```
pub async fn give_up_prefix(nodes: Builder) -> Result<(), FleetError> {
    rewrite_records(nodes, |node, text, _| {
        let guarded = || FleetError::Guarded { node: node.to_owned() };
        change::give_up(text).map(Some).ok_or_else(guarded)
    })
    .await
}

/// Changes the record of each node until there is nothing left to change, by `swap` of the node,
/// its record and a random number.
async fn rewrite_records(
    nodes: Builder,
    swap: impl Fn(&str, &str, u64) -> Result<Option<Swap>, FleetError>,
) -> Result<(), FleetError> {
    let (settings, prefix) = nodes.agreed()?;
    let nodes = nodes.into_nodes();
    let mut left: Vec<bool> = nodes.iter().map(|_| true).collect();
    // An error is answered by another try, a few times.
    let mut tries = vec![3_u32; nodes.len()];
    let mut connections = Connections::connect(nodes, &prefix, settings.bounds(), vec![false; left.len()])?;
    let read = || Command::Record { prefix: prefix.clone(), swap: None };
    let mut patience = Clock::System.now() + REACH_WITHIN;
    while let Some(waiting) = left.iter().position(|left| *left) {
        match connections.next(Some(patience)).await? {
            None if Clock::System.now() >= patience => return Err(connections.silent(waiting, None)),
            Some((node, NodeEvent::Connected(_))) => {
                patience = Clock::System.now() + REACH_WITHIN;
                connections.send(node, read());
            }
            Some((node, NodeEvent::Answer(_, Ok(Reply { answer: Answer::Record(text), .. })))) => {
                let address = &connections.addresses[node];
                let swap = text.as_deref().map(|text| swap(address, text, connections.seed)).transpose()?;
                match swap.flatten() {
                    None => left[node] = false,
                    Some(swap) => {
                        connections.seed = random()?;
                        connections.send(node, Command::Record { prefix: prefix.clone(), swap: Some(swap) });
                    }
                }
            }
            // It is asked again when it is connected again.
            Some((_, NodeEvent::Answer(_, Err(Fault::Disconnected | Fault::Unreachable(_))))) => {}
            Some((node, NodeEvent::Answer(_, Err(fault)))) => {
                tries[node] -= 1;
                if tries[node] == 0 {
                    return Err(connections.silent(node, Some(&fault)));
                }
                connections.send(node, read());
            }
            _ => {}
        }
    }
    Ok(())
}

fn random() -> Result<u64, BuildError> {
    Ok(getrandom::u64().map_err(|error| std::io::Error::other(error.to_string()))?)
}

/// Connections to nodes of more than one list.
struct Connections {
    nodes: Vec<Box<dyn Connection>>,
    addresses: Vec<Arc<str>>,
    /// Which of them are there, or need not be.
    reached: Vec<bool>,
    /// Since when one of them is not.
    missing_since: Time,
    seed: u64,
}

impl Connections {
    fn connect(
        nodes: Vec<Node>,
        prefix: &Prefix,
        bounds: FenceBounds,
        reached: Vec<bool>,
    ) -> Result<Self, FleetError> {
        let (client, seed) = (ClientId::new(random()?), random()?);
        let addresses = nodes.iter().map(Node::shared_address).collect();
        let nodes = nodes.into_iter().map(|node| node.connect(prefix, bounds, client)).collect();
        Ok(Self { nodes, addresses, reached, missing_since: Clock::System.now(), seed })
    }

    fn send(&mut self, node: usize, command: Command) {
        let tag = Tag { to: Addressee::Nobody, sent: Clock::System.now() };
        self.nodes[node].send(tag, command);
    }

    /// What happens next; `None` when it is time.
    async fn next(&mut self, until: Option<Time>) -> Result<Option<(usize, NodeEvent)>, FleetError> {
        let now = Clock::System.now();
        let missing = self.reached.contains(&false);
        let patience = missing.then(|| self.missing_since + REACH_WITHIN);
        if patience.is_some_and(|patience| now >= patience) {
            let missing = self.reached.iter().zip(&self.addresses).filter(|(reached, _)| !**reached);
            let nodes = missing.map(|(_, address)| address.to_string()).collect();
            return Err(FleetError::Unreachable { nodes });
        }
        let end = until.into_iter().chain(patience).min();
        let pause = end.map_or(Duration::from_secs(3_600), |end| end.since(now));
        let mut sleep = pin!(tokio::time::sleep(pause));
        let event = poll_fn(|cx| {
            for (node, connection) in self.nodes.iter_mut().enumerate() {
                if let Poll::Ready(event) = connection.poll_event(cx) {
                    return Poll::Ready(Some((node, event)));
                }
            }
            sleep.as_mut().poll(cx).map(|()| None)
        });
        let event = event.await;
        match &event {
            Some((node, NodeEvent::Connected(_))) => self.reached[*node] = true,
            Some((node, NodeEvent::Disconnected(_))) => {
                if !self.reached.contains(&false) {
                    self.missing_since = Clock::System.now();
                }
                self.reached[*node] = false;
            }
            _ => {}
        }
        Ok(event)
    }

    fn silent(&self, node: usize, fault: Option<&Fault>) -> FleetError {
        let reason = fault.unwrap_or(&Fault::Timeout).to_string();
        FleetError::Silent { node: self.addresses[node].to_string(), reason }
    }

    fn names(&self, nodes: &[usize]) -> Vec<String> {
        nodes.iter().map(|node| self.addresses[*node].to_string()).collect()
    }

    fn progress(&self, progress: Progress) -> FleetProgress {
        match progress {
            Progress::Reaching(nodes) => FleetProgress::Reaching(self.names(&nodes)),
            Progress::Prepared => FleetProgress::Prepared,
            Progress::Closed => FleetProgress::Closed,
            Progress::Waiting { left } => FleetProgress::Waiting { left },
            Progress::Clocks { left } => FleetProgress::Clocks { left },
            Progress::Opened => FleetProgress::Opened,
        }
    }

    fn error(&self, refused: Refused) -> FleetError {
        match refused {
            Refused::Foreign { node } => FleetError::Foreign { node: self.addresses[node].to_string() },
            Refused::InUse { node } => FleetError::InUse { node: self.addresses[node].to_string() },
            Refused::Other { to } => FleetError::Other { to: to.to_string() },
            Refused::TooLate => FleetError::TooLate,
            Refused::TooManyGone => FleetError::TooManyGone,
            Refused::Unused { nodes } => FleetError::Unused { nodes: self.names(&nodes) },
            Refused::Same => FleetError::Same,
            Refused::Silent { node, fault } => self.silent(node, fault.as_ref()),
        }
    }
}

impl std::fmt::Display for FleetProgress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Reaching(nodes) => write!(f, "connecting to {}", nodes.join(", ")),
            Self::Prepared => f.write_str("the new nodes are ready: give clients the new list now"),
            Self::Closed => f.write_str("the old list no longer grants locks"),
            Self::Waiting { left } => {
                write!(
                    f,
                    "waiting for the last locks of the old list to expire, up to {:.1} s",
                    left.as_secs_f64()
                )
            }
            Self::Clocks { left } => {
                write!(
                    f,
                    "waiting for clocks: fences of the old list are {:.1} s ahead of the new nodes. Fix \
                     the clocks if they are wrong",
                    left.as_secs_f64()
                )
            }
            Self::Opened => f.write_str("the new list grants locks"),
        }
    }
}
