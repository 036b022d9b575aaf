//! The list of all locks.
//!
//! A node remembers a fence for each name of the last day, and a list walks past all of them. So it
//! goes in slices, and leaves each node alone for three quarters of the time: whoever uses the
//! locks meanwhile hardly notices. It takes as long as it takes; a node that fails is asked again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tenure_core::{Distrust, Fault, Holding, Listing, NodeIndex, NodeSet, Pace, Part, Share};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use super::LockReport;
use crate::Locks;
use crate::error::AcquireError;
use crate::locks::Inner;

/// So often in a row a node may fail before its part of the list is given up.
const TRIES: u32 = 3;

/// Timers are precise to a millisecond, so rests that are shorter are taken together.
const REST_TOGETHER: Duration = Duration::from_millis(5);

/// When a majority has told of everything, a node that has not said anything yet gets twice as long
/// again, and this at the least.
const REST_MIN: Duration = Duration::from_millis(100);

/// The locks on the nodes. Made by [`Locks::list`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockList {
    /// Every lock that some node has, by name.
    pub locks: Vec<LockReport>,
    /// The outcome on each node, in the order of the node list.
    pub nodes: Vec<NodeList>,
}

/// The outcome of listing one node's locks.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeList {
    /// The node's address.
    pub node: Arc<str>,
    /// Whether it counts: a node that may not vote does not.
    pub votes: bool,
    /// Why it does not count. [`Locks::nodes`] has advice.
    pub distrust: Option<Distrust>,
    /// How many locks it listed, or why it failed.
    pub told: Result<usize, Fault>,
    /// Whether it failed before the list was complete. It may then have locks that are not in the
    /// list.
    pub cut_short: bool,
}

/// The progress of a list on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListProgress {
    /// The node's address.
    pub node: Arc<str>,
    /// Roughly how many of its keys were scanned. Most of them are remembered fences.
    pub looked_at: Option<u64>,
    /// How many keys it has.
    pub of: Option<u64>,
    /// How many locks were found so far.
    pub locks: usize,
}

/// What one node told.
struct Told {
    node: NodeIndex,
    holdings: Result<BTreeMap<Arc<str>, Holding>, Fault>,
    cut_short: bool,
    voters: NodeSet,
    distrust: Vec<Option<Distrust>>,
}

impl Locks {
    /// Lists the locks that the nodes have under this manager's prefix. Labels, fences and waiters
    /// are left out; [`Locks::inspect`] has them.
    ///
    /// Nodes are scanned while clients keep working, so a lock that changes hands meanwhile may
    /// look disputed. The scan takes at most a quarter of a node's time: a few seconds if it
    /// remembers a million fences. [`Locks::list_under`] reports progress.
    ///
    /// # Errors
    /// [`AcquireError::ShutDown`] if the manager was shut down. Nodes that do not answer are in the
    /// result.
    ///
    /// # Cancel safety
    /// It changes nothing, so it may be dropped at any time.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let locks = tenure::Locks::memory();
    /// let _guard = locks.lock("invoice:42").acquire().await?;
    /// for lock in locks.list().await?.locks {
    ///     println!("{}: {:?}", lock.name, lock.state);
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn list(&self) -> Result<LockList, AcquireError> {
        self.list_under("", |_| {}).await
    }

    /// As [`Locks::list`], for locks whose names begin with `begins`, with a progress report after
    /// each slice.
    ///
    /// # Errors
    /// As [`Locks::list`].
    ///
    /// # Cancel safety
    /// As [`Locks::list`].
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let locks = tenure::Locks::memory();
    /// let _guard = locks.lock("invoice:42").acquire().await?;
    /// let list = locks.list_under("invoice:", |progress| println!("{:?}", progress.looked_at)).await?;
    /// assert_eq!(list.locks.len(), 1);
    /// # Ok(()) }
    /// ```
    pub async fn list_under(
        &self,
        begins: &str,
        mut progress: impl FnMut(&ListProgress),
    ) -> Result<LockList, AcquireError> {
        let (tell, mut told) = mpsc::unbounded_channel();
        let (found, mut finding) = mpsc::unbounded_channel();
        let (manager, begins) = (Arc::clone(&self.inner), Arc::from(begins));
        self.inner.start(async move {
            let walks = walk_all(&manager, begins, tell).await;
            let _ = found.send(walks);
        });
        // Whoever lets go of this ends the walk with its next step.
        while let Some(step) = told.recv().await {
            progress(&step);
        }
        let walks = finding.recv().await.flatten();
        let prefix = self.inner.prefix.as_str();
        let walks = walks.ok_or_else(|| AcquireError::ShutDown { name: format!("{prefix}*") })?;
        Ok(self.inner.listed(walks))
    }
}

/// Walks through all nodes at once. `None` if the worker is gone, or nobody listens any more.
async fn walk_all(
    manager: &Arc<Inner>,
    begins: Arc<str>,
    tell: mpsc::UnboundedSender<ListProgress>,
) -> Option<Vec<Told>> {
    let answered: Arc<Vec<AtomicBool>> =
        Arc::new(manager.quorum.indexes().map(|_| AtomicBool::default()).collect());
    let mut walks = JoinSet::new();
    for node in manager.quorum.indexes() {
        let (manager, begins, tell) = (Arc::clone(manager), Arc::clone(&begins), tell.clone());
        let answered = Arc::clone(&answered);
        walks.spawn(async move { manager.walk(node, begins, &tell, &answered[node.get()]).await });
    }
    drop(tell);
    let (begun, mut all, mut limit) = (Instant::now(), vec![], None);
    loop {
        let step = tokio::select! {
            walk = walks.join_next() => walk,
            () = sleep_until(limit.unwrap_or(begun)), if limit.is_some() => {
                limit = None;
                let silent = |node: &NodeIndex| {
                    !answered[node.get()].load(Ordering::Relaxed)
                        && !all.iter().any(|told: &Told| told.node == *node)
                };
                let silent: Vec<NodeIndex> = manager.quorum.indexes().filter(silent).collect();
                if all.len() + silent.len() < manager.quorum.nodes() {
                    // Others are on their way, and may take long: the silent are asked until then.
                    continue;
                }
                let (voters, distrust) = all.last().map(|told: &Told| (told.voters, told.distrust.clone()))?;
                all.extend(silent.into_iter().map(|node| Told {
                    node,
                    holdings: Err(Fault::Timeout),
                    cut_short: false,
                    voters,
                    distrust: distrust.clone(),
                }));
                None
            }
        };
        let Some(walk) = step else { break };
        all.push(walk.ok().flatten()?);
        let whole = all.iter().filter(|told| told.holdings.is_ok() && !told.cut_short).count();
        if whole >= manager.quorum.majority() {
            limit = Some(Instant::now() + (begun.elapsed() * 2).max(REST_MIN));
        }
    }
    all.sort_unstable_by_key(|told| told.node);
    Some(all)
}

impl Inner {
    /// Walks through one node. `None` if the worker is gone, or nobody listens any more.
    async fn walk(
        &self,
        node: NodeIndex,
        begins: Arc<str>,
        tell: &mpsc::UnboundedSender<ListProgress>,
        answered: &AtomicBool,
    ) -> Option<Told> {
        let (mut pace, mut cursor, mut failures) = (Pace::new(Share::ASKING), 0, 0);
        let (mut holdings, mut owed) = (BTreeMap::new(), Duration::ZERO);
        loop {
            let part = Part::Slice { cursor, keys: pace.keys() };
            let (prefix, begins) = (self.prefix.clone(), Arc::clone(&begins));
            let slice = self.slice(node, Listing { prefix, begins, part, detailed: false }).await?;
            let (voters, distrust) = (slice.voters, slice.distrust);
            let told = |holdings, cut_short| Some(Told { node, holdings, cut_short, voters, distrust });
            match slice.told {
                Ok((listed, _)) => {
                    answered.store(true, Ordering::Relaxed);
                    failures = 0;
                    let rest = pace.rest(listed.took, slice.round_trip);
                    let (next, looked_at) = (listed.next, listed.looked_at());
                    holdings.extend(
                        listed.seen.into_iter().map(|seen| (Arc::clone(&seen.holding.key), seen.holding)),
                    );
                    let (of, locks) = (listed.keys, holdings.len());
                    tell.send(ListProgress { node: self.address(node), looked_at, of, locks }).ok()?;
                    cursor = next;
                    if cursor == 0 {
                        return told(Ok(holdings), false);
                    }
                    owed += rest;
                    if owed >= REST_TOGETHER {
                        sleep(std::mem::take(&mut owed)).await;
                    }
                }
                Err(fault) if holdings.is_empty() && cursor == 0 => return told(Err(fault), false),
                Err(_) if failures + 1 >= TRIES => return told(Ok(holdings), true),
                Err(_) => {
                    failures += 1;
                    sleep(REST_MIN).await;
                }
            }
        }
    }

    /// What the nodes together say about every lock that one of them has.
    fn listed(&self, walks: Vec<Told>) -> LockList {
        let mut nodes = vec![];
        let mut locks: BTreeMap<Arc<str>, Vec<Result<Option<Holding>, Fault>>> = BTreeMap::new();
        // The last word on who may vote.
        let voters = walks.last().map(|told| told.voters).unwrap_or_default();
        let distrust = walks.last().map(|told| told.distrust.clone()).unwrap_or_default();
        let absent: Vec<Result<Option<Holding>, Fault>> = walks
            .iter()
            .map(|told| match &told.holdings {
                Ok(_) if told.cut_short => Err(Fault::Error("it failed before listing all its locks".into())),
                Ok(_) => Ok(None),
                Err(fault) => Err(fault.clone()),
            })
            .collect();
        for (place, Told { node, holdings, cut_short, .. }) in walks.into_iter().enumerate() {
            nodes.push(NodeList {
                node: self.address(node),
                votes: voters.contains(node),
                distrust: distrust[node.get()].clone(),
                told: holdings.as_ref().map(BTreeMap::len).map_err(Clone::clone),
                cut_short,
            });
            for (key, holding) in holdings.into_iter().flatten() {
                locks.entry(key).or_insert_with(|| absent.clone())[place] = Ok(Some(holding));
            }
        }
        let report = |(key, said): (Arc<str>, Vec<_>)| {
            let name = key.strip_prefix(self.prefix.as_str()).unwrap_or(&key).to_owned();
            self.report(name, voters, &distrust, said.into_iter().map(|holding| (holding, None, vec![])))
        };
        LockList { locks: locks.into_iter().map(report).collect(), nodes }
    }
}

impl NodeList {
    /// Whether the node cannot be used until somebody fixes it: retrying does not help.
    #[must_use]
    pub fn is_misconfigured(&self) -> bool {
        self.distrust.as_ref().is_some_and(Distrust::is_misconfigured)
            || self.told.as_ref().is_err_and(Fault::is_misconfigured)
    }
}
