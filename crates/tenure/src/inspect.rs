//! Looking at locks without touching them.

mod list;
mod slice;
mod waiter;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tenure_core::circle::Presence;
use tenure_core::query::Answered;
use tenure_core::{
    Agreement, Distrust, Fault, Holding, LockKey, LockState, NodeIndex, NodeSet, OwnerToken, Place, Query,
    Term, Waiter, Word, query,
};
use tokio::sync::oneshot;

pub use self::list::{ListProgress, LockList, NodeList};
pub(crate) use self::slice::Slice;
pub use self::waiter::WaiterReport;
use crate::Locks;
use crate::driver::{Call, Found};
use crate::error::AcquireError;
use crate::error::votes::reasons;
use crate::locks::Inner;

/// What the nodes say about one lock. Made by [`Locks::inspect`] and [`Locks::list`].
///
/// By the time you read it, the lock may have changed hands: it is for people and dashboards, not
/// for decisions.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockReport {
    /// The lock. In a list, the part of the key after the prefix.
    pub name: String,
    /// What a majority of nodes says.
    pub state: LockState,
    /// How many wait in line: the median of what the nodes say, without the waiter that the lock is
    /// reserved for and without dead ones. `None` if no node said, and in a list.
    pub waiters: Option<u64>,
    /// Who waits, in order: those that a majority of nodes has in line, at most a hundred. Empty in
    /// a list.
    pub line: Vec<WaiterReport>,
    /// The addresses of the nodes that agree with the majority.
    pub agree: Vec<Arc<str>>,
    /// The addresses of the nodes that disagree; all that answered, if there is no majority.
    pub disagree: Vec<Arc<str>>,
    /// How long its holder has had it, judged by its fence and the clocks of the nodes. `None` if
    /// it has no fence, and in a list.
    pub held_for: Option<Duration>,
    /// Whether this process itself holds it, through this [`Locks`] or another one. Judged by the
    /// owner token, never by the label. `None` in a list.
    pub held_here: Option<bool>,
    /// What each node says, in the order of the node list.
    pub nodes: Vec<NodeAnswer>,
}

/// What one node says about one lock.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeAnswer {
    /// The node's address.
    pub node: Arc<str>,
    /// Whether it counts: a node that may not vote does not.
    pub votes: bool,
    /// Why it does not count. [`Locks::nodes`] has advice.
    pub distrust: Option<Distrust>,
    /// The key as the node has it, `None` if it has none; or why it did not answer.
    pub holding: Result<Option<Holding>, Fault>,
    /// How many waiters it has in line, if it said.
    pub waiters: Option<u64>,
    /// The first of them.
    line: Vec<Waiter>,
}

impl Locks {
    /// Asks every node about the lock `name`: who holds it, for how long, and who waits.
    ///
    /// The result is what a majority of the voting nodes says; [`LockReport::disagree`] lists the
    /// others. Once a majority has answered, slow nodes get twice as long again; it takes at most
    /// two seconds.
    ///
    /// # Errors
    /// [`AcquireError::InvalidName`] if the name is invalid, [`AcquireError::ShutDown`] if the
    /// manager was shut down. Nodes that do not answer are in the result.
    ///
    /// # Cancel safety
    /// It changes nothing, so it may be dropped at any time.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use tenure::{LockState, Locks};
    ///
    /// let locks = Locks::memory();
    /// let guard = locks.lock("invoice:42").label("billing").acquire().await?;
    /// let report = locks.inspect("invoice:42").await?;
    /// let LockState::Held { label, left, fence, .. } = report.state else { panic!("we hold it") };
    /// println!("held by {label:?} for {left:?} more, {:?} wait, {:?} say otherwise", report.waiters, report.disagree);
    /// assert_eq!(fence, Some(guard.fence()));
    /// # Ok(()) }
    /// ```
    pub async fn inspect(&self, name: &str) -> Result<LockReport, AcquireError> {
        let manager = &self.inner;
        let key =
            manager.key(name).map_err(|error| AcquireError::InvalidName { name: name.to_owned(), error })?;
        let query = Query::inspect(key.clone(), manager.quorum, manager.clock.now());
        let found = manager.query(query).await;
        let Found { answers, voters, distrust } =
            found.ok_or_else(|| AcquireError::ShutDown { name: name.to_owned() })?;
        let ages: Vec<_> = answers.iter().map(|answer| age(answer.as_ref().ok()?)).collect();
        let said = answers.into_iter().map(|answer| match answer {
            Ok(answer) => (Ok(answer.holdings.into_iter().next()), answer.waiters, answer.line),
            Err(fault) => (Err(fault), None, vec![]),
        });
        let report = manager.report(name.to_owned(), voters, &distrust, said);
        let agreed = report.nodes.iter().zip(ages).filter(|(answer, _)| report.agree.contains(&answer.node));
        let held_for = agreed.filter_map(|(_, age)| age).max();
        let ours: Vec<String> = manager.tokens_here(&key).await.iter().map(ToString::to_string).collect();
        let held_here = Some(report.owners().iter().any(|owner| ours.iter().any(|token| token == owner)));
        Ok(LockReport { held_for, held_here, ..report })
    }
}

/// How long the holder has had a lock by now, as its node says.
fn age(answer: &Answered) -> Option<Duration> {
    let holding = answer.holdings.first()?;
    // Another library's client has no fence: what is there was granted to somebody before.
    OwnerToken::parse(&holding.owner).ok()?;
    let micros = answer.time?.as_micros().checked_sub(holding.fence?.get())?;
    Some(Duration::from_micros(micros))
}

impl LockReport {
    /// How many nodes may forget it before another client can get it, if it is held.
    #[must_use]
    pub fn margin(&self) -> Option<usize> {
        let counted =
            self.nodes.iter().filter(|answer| answer.votes && self.agree.contains(&answer.node)).count();
        let majority = self.nodes.len() / 2 + 1;
        matches!(self.state, LockState::Held { .. }).then(|| counted.saturating_sub(majority))
    }

    /// The nodes that did not answer or do not count, each with its reason, in words.
    #[must_use]
    pub fn outage(&self) -> String {
        let silent = self.nodes.iter().filter_map(|answer| {
            let reason = match (&answer.holding, &answer.distrust) {
                (Err(fault), _) => fault.to_string(),
                (Ok(_), distrust) => distrust.as_ref()?.to_string(),
            };
            Some((&*answer.node, reason))
        });
        reasons(silent, self.nodes.len())
    }
}

impl NodeAnswer {
    /// Whether the node cannot be used until somebody fixes it: retrying does not help.
    #[must_use]
    pub fn is_misconfigured(&self) -> bool {
        self.distrust.as_ref().is_some_and(Distrust::is_misconfigured)
            || self.holding.as_ref().is_err_and(Fault::is_misconfigured)
    }

    fn word(&self) -> Option<Word<'_>> {
        let holding = self.holding.as_ref().ok()?.as_ref();
        Some(Word { holding, waiters: self.waiters, line: &self.line })
    }
}

impl Inner {
    /// Who holds a lock that was refused and how many wait for it, if a majority can be asked
    /// within the time of a round; and the owners that nodes have for it.
    pub(crate) async fn place(&self, key: LockKey, term: Term) -> Option<(Place, BTreeSet<Arc<str>>)> {
        let query = Query::inspect(key, self.quorum, self.clock.now()).within(term);
        let Found { answers, voters, .. } = self.query(query).await?;
        let words: Vec<_> = answers
            .iter()
            .map(|answer| {
                let answer = answer.as_ref().ok()?;
                Some(Word { holding: answer.holdings.first(), waiters: answer.waiters, line: &[] })
            })
            .collect();
        let Agreement { state, waiters, .. } = Agreement::of(self.quorum, voters, &words);
        let mut place = Place::default();
        place.holder = match state {
            LockState::Unknown => return None,
            LockState::Held { label, .. } | LockState::Kept { label, .. } => label,
            _ => None,
        };
        // We are not in line: all who are would come before us.
        place.waiters = waiters.unwrap_or(0);
        place.ahead = place.waiters;
        place.nodes = words.iter().flatten().count();
        let holdings = answers.iter().flatten().flat_map(|answer| &answer.holdings);
        let owners = holdings.flat_map(|holding| holding.sharers.iter().flatten().chain([&holding.owner]));
        Some((place, owners.cloned().collect()))
    }

    /// Which of several locks somebody has, as far as a majority of nodes says; all of them, if
    /// none does.
    pub(crate) async fn held_of(&self, keys: &[LockKey]) -> Vec<bool> {
        let Ok(all) = LockKey::all_of(keys.iter().cloned()) else { return vec![true; keys.len()] };
        let terms = self.default_terms.as_ref().map(|terms| terms.term);
        let query = Query::inspect(all, self.quorum, self.clock.now());
        let found = self.query(terms.map_or(query.clone(), |term| query.within(term))).await;
        let Some(Found { answers, voters, .. }) = found else { return vec![true; keys.len()] };
        let told: Vec<_> = self
            .quorum
            .indexes()
            .zip(&answers)
            .filter(|(node, _)| voters.contains(*node))
            .filter_map(|(_, answer)| answer.as_ref().ok())
            .collect();
        let is_free = |key: &LockKey| {
            let without = |holdings: &[Holding]| holdings.iter().all(|it| *it.key != *key.as_str());
            told.iter().filter(|answer| without(&answer.holdings)).count() >= self.quorum.majority()
        };
        keys.iter().map(|key| !is_free(key)).collect()
    }

    /// Asks all nodes who holds a lock and who waits for it, and does not wait for the answer.
    pub(crate) fn ask_who_is_there(&self, key: LockKey) -> oneshot::Receiver<Found> {
        let (reply, answer) = oneshot::channel();
        self.send(Call::Query { query: Query::inspect(key, self.quorum, self.clock.now()), reply });
        answer
    }

    /// What that comes to.
    pub(crate) fn presence(&self, Found { answers, voters, .. }: &Found) -> Presence {
        fn word(answer: &query::Answered) -> Word<'_> {
            Word { holding: answer.holdings.first(), waiters: answer.waiters, line: &answer.line }
        }
        let words: Vec<_> = answers.iter().map(|answer| answer.as_ref().ok().map(word)).collect();
        Presence::from(&Agreement::of(self.quorum, *voters, &words))
    }

    /// Asks all nodes. `None` if the worker is gone.
    pub(crate) async fn query(&self, query: Query) -> Option<Found> {
        self.call(|reply| Call::Query { query, reply }).await
    }

    fn report(
        &self,
        name: String,
        voters: NodeSet,
        distrust: &[Option<Distrust>],
        said: impl Iterator<Item = (Result<Option<Holding>, Fault>, Option<u64>, Vec<Waiter>)>,
    ) -> LockReport {
        let answers = self.quorum.indexes().zip(said).map(|(node, (holding, waiters, line))| NodeAnswer {
            node: self.address(node),
            votes: voters.contains(node),
            distrust: distrust[node.get()].clone(),
            holding,
            waiters,
            line,
        });
        let nodes: Vec<NodeAnswer> = answers.collect();
        let words: Vec<_> = nodes.iter().map(NodeAnswer::word).collect();
        let Agreement { state, waiters, line, agree, disagree, .. } =
            Agreement::of(self.quorum, voters, &words);
        let line = line.iter().map(WaiterReport::of).collect();
        let addresses = |set: NodeSet| set.iter().map(|node| self.address(node)).collect();
        let (agree, disagree) = (addresses(agree), addresses(disagree));
        LockReport { name, state, waiters, line, agree, disagree, held_for: None, held_here: None, nodes }
    }

    pub(crate) fn address(&self, node: NodeIndex) -> Arc<str> {
        Arc::clone(&self.addresses[node.get()])
    }
}
