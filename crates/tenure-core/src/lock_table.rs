//! What ONE node does with a command: the executable definition.
//!
//! It serves as the memory node, as the simulated node, and as the reference that every other store is
//! tested against. Time is the node's own, in the way Redis counts it: a key set with `PX p` at
//! millisecond *t* is there up to and including millisecond *t + p*.

mod acquire;
mod kept;
mod line;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use self::acquire::Wanted;
use self::kept::Kept;
use crate::command::{Answer, Command, Holding, Refusal, Reply};
use crate::fence::Fence;
use crate::names::{LockKey, Prefix};
use crate::queue::{ClientId, Ticket};
use crate::time::NodeTime;
use crate::token::OwnerToken;
use crate::trust::Nonce;

/// How many fences a node looks at when it is told to trim: well below a millisecond of its time.
pub const TRIM_FENCES: u64 = 500;

/// What the value of a key begins with that is set aside for a waiter.
pub const RESERVED_LEAD: &str = "rsv:";

/// How many keys a page of a list has.
const PAGE_KEYS: usize = 100;

/// The keys of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LockTable {
    entries: BTreeMap<LockKey, Entry>,
    /// The same keys by their end, so that what is over leaves without a search.
    ends: BTreeSet<(u64, LockKey)>,
    /// What the node keeps for each prefix beside the locks.
    prefixes: BTreeMap<Arc<str>, Kept>,
    /// The clients that can be woken.
    listeners: BTreeSet<ClientId>,
    wakes: VecDeque<(LockKey, Ticket)>,
}

/// One key on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// Who has it.
    pub owner: Owner,
    /// The last millisecond of its life, by the node's clock.
    pub ends_ms: u64,
    /// The key was away and has been put back: the first millisecond at which it counts, by the node's clock.
    pub counts_from_ms: Option<u64>,
}

/// Who has a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Owner {
    /// A lock of this owner.
    Token(OwnerToken),
    /// It is set aside for this waiter.
    Reserved(Ticket),
}

impl LockTable {
    /// Executes one command at the node's time `now`.
    pub fn execute(&mut self, now: NodeTime, command: &Command) -> Reply {
        let now_ms = now.as_millis();
        self.expire(now_ms);
        let (mut fence, mut queue) = (None, None);
        let answer = match command {
            Command::Acquire { key, token, node_ttl_ms, nonce, fence: claim, beside } => {
                let beside = beside.as_deref().cloned().unwrap_or_default();
                let (token, node_ttl_ms) = (*token, *node_ttl_ms);
                let wanted =
                    Wanted { key, token, node_ttl_ms, nonce: *nonce, claim: *claim, beside: &beside };
                let answer = self.acquire(now, &wanted, &mut queue);
                match (&answer, beside.turn) {
                    (Answer::Refused(Refusal::Held { .. } | Refusal::Reserved { .. }), Some(turn))
                        if self.entries.get(key).is_none_or(|entry| entry.owner != Owner::Token(token)) =>
                    {
                        self.line_up(now_ms, key, turn, answer, &mut fence, &mut queue)
                    }
                    (
                        Answer::Refused(Refusal::Held { .. } | Refusal::Reserved { .. } | Refusal::Behind),
                        _,
                    ) => {
                        fence = claim.and_then(|claim| self.lowest(now, key, claim.bounds));
                        answer
                    }
                    _ => answer,
                }
            }
            Command::Heal { key, token, node_ttl_ms, fence, quarantine_ms } => {
                let entry = Entry::put_back(now_ms, *token, *node_ttl_ms, *quarantine_ms);
                self.heal(now_ms, key, entry, *fence)
            }
            Command::Extend { key, token, node_ttl_ms } => self.extend(now_ms, key, *token, *node_ttl_ms),
            Command::Release { key, token } => self.release(key, *token),
            Command::PassOn { key, token, labelled, requeue } => {
                self.release_and_pass_on(now_ms, key, *token, *labelled, *requeue, &mut queue)
            }
            Command::Open { key, token, labelled } => {
                self.release_and_open(now_ms, key, *token, *labelled, &mut queue)
            }
            Command::Requeue { key, token, ticket } => self.requeue(now_ms, key, *token, *ticket),
            Command::Enqueue { key, ticket } => self.enqueue(now_ms, key, *ticket),
            Command::Leave { key, ticket } => self.leave(now_ms, key, *ticket),
            Command::Nudge { key } => self.nudge(now_ms, key),
            Command::Record { prefix, swap } => self.record(now, prefix, swap.as_ref()),
            // What is forgotten is gone at once here.
            Command::Trim { prefix } => Answer::Trimmed {
                seen: 0,
                left: self.fences(prefix) as u64,
                latest: self.latest_fence(prefix),
            },
            Command::Clear { prefix, nonce, .. } => self.clear(now_ms, prefix, *nonce),
            Command::Inspect { key } => self.inspect(now_ms, key),
            Command::List { prefix, cursor } => self.list(now_ms, prefix, *cursor),
        };
        if let Command::Acquire { key, .. }
        | Command::PassOn { key, .. }
        | Command::Open { key, .. }
        | Command::Leave { key, .. }
        | Command::Nudge { key } = command
        {
            self.drop_empty_line(key);
        }
        Reply { time: Some(now), fence, queue, answer }
    }

    /// Executes a command as a server with a `SET` of its own does, whose connection is told of a change of the record before
    /// any later reply. An acquire without a fence is that `SET`, which looks at no record: the key is set in whatever life the
    /// node's memory is in, and only the answer is taken back.
    pub fn execute_natively(&mut self, now: NodeTime, command: &Command) -> Reply {
        let reply = self.execute(now, command);
        if let Command::Acquire { key, token, node_ttl_ms, fence: None, beside: None, .. } = command
            && reply.answer == Answer::Refused(Refusal::Stranger)
        {
            self.execute(now, &Command::plain_acquire(key.clone(), *token, *node_ttl_ms));
        }
        reply
    }

    /// The keys that are there at the node's time `now`, in order.
    pub fn keys(&self, now: NodeTime) -> impl Iterator<Item = (&LockKey, &Entry)> {
        let now_ms = now.as_millis();
        self.entries.iter().filter(move |(_, entry)| now_ms <= entry.ends_ms)
    }

    fn extend(&mut self, now_ms: u64, key: &LockKey, token: OwnerToken, node_ttl_ms: u64) -> Answer {
        match self.entries.get(key) {
            Some(entry) if entry.owner == Owner::Token(token) => {
                let ends_ms = entry.ends_ms.max(now_ms.saturating_add(node_ttl_ms));
                let entry = Entry { ends_ms, ..*entry };
                self.put(key, entry);
                entry.vote(now_ms)
            }
            Some(entry) => Answer::Refused(Refusal::Held { left: entry.left(now_ms) }),
            None => Answer::Refused(Refusal::NotHeld),
        }
    }

    fn release(&mut self, key: &LockKey, token: OwnerToken) -> Answer {
        match self.entries.get(key) {
            Some(Entry { owner: Owner::Token(owner), counts_from_ms: None, .. }) if *owner == token => {
                self.remove(key);
                Answer::Granted
            }
            // A native compare-and-delete does not tell who else has it, so nobody does.
            Some(_) | None => Answer::Refused(Refusal::NotHeld),
        }
    }

    /// Removes the first locks that there are, so the next page begins where this one did.
    fn clear(&mut self, now_ms: u64, prefix: &Prefix, nonce: Nonce) -> Answer {
        if !self.has_record(prefix.as_str(), nonce) {
            return Answer::Refused(Refusal::Stranger);
        }
        let is_lock = |(key, entry): &(&LockKey, &Entry)| {
            key.as_str().starts_with(prefix.as_str()) && matches!(entry.owner, Owner::Token(_))
        };
        let mut locks = self.entries.iter().filter(is_lock).map(|(key, entry)| (key.clone(), *entry));
        let page: Vec<(LockKey, Entry)> = locks.by_ref().take(PAGE_KEYS).collect();
        let next = u64::from(locks.next().is_some());
        page.iter().for_each(|(key, _)| self.remove(key));
        let holdings = page.iter().map(|(key, entry)| holding(now_ms, key, entry)).collect();
        Answer::Told { holdings, waiters: None, next }
    }

    fn inspect(&self, now_ms: u64, key: &LockKey) -> Answer {
        let holding = self.entries.get(key).map(|entry| Holding {
            fence: self.fence(key).filter(|fence| *fence != Fence::NONE),
            label: self.label(now_ms, key).cloned(),
            ..holding(now_ms, key, entry)
        });
        let waiters = Some(self.in_line(now_ms, key) as u64);
        Answer::Told { holdings: holding.into_iter().collect(), waiters, next: 0 }
    }

    /// The keys in order, from the `cursor`-th on.
    fn list(&self, now_ms: u64, prefix: &Prefix, cursor: u64) -> Answer {
        let under_prefix = self.entries.iter().filter(|(key, _)| key.as_str().starts_with(prefix.as_str()));
        let skip = usize::try_from(cursor).unwrap_or(usize::MAX);
        let mut rest = under_prefix.skip(skip).map(|(key, entry)| holding(now_ms, key, entry));
        let holdings: Vec<Holding> = rest.by_ref().take(PAGE_KEYS).collect();
        let next = if rest.next().is_some() { cursor + holdings.len() as u64 } else { 0 };
        Answer::Told { holdings, waiters: None, next }
    }

    fn put(&mut self, key: &LockKey, entry: Entry) {
        if let Some(old) = self.entries.insert(key.clone(), entry) {
            self.ends.remove(&(old.ends_ms, key.clone()));
        }
        self.ends.insert((entry.ends_ms, key.clone()));
    }

    fn remove(&mut self, key: &LockKey) {
        if let Some(entry) = self.entries.remove(key) {
            self.ends.remove(&(entry.ends_ms, key.clone()));
        }
    }

    fn expire(&mut self, now_ms: u64) {
        while self.ends.first().is_some_and(|(ends_ms, _)| *ends_ms < now_ms) {
            let (_, key) = self.ends.pop_first().expect("just seen");
            self.entries.remove(&key);
        }
        assert_eq!(self.entries.len(), self.ends.len(), "every key has one end");
        for kept in self.prefixes.values_mut() {
            while kept.fence_ends.first().is_some_and(|(ends_ms, _)| *ends_ms < now_ms) {
                let (_, key) = kept.fence_ends.pop_first().expect("just seen");
                kept.fences.remove(&key);
            }
            kept.open.retain(|_, ends_ms| *ends_ms >= now_ms);
        }
    }
}

fn holding(now_ms: u64, key: &LockKey, entry: &Entry) -> Holding {
    Holding {
        key: key.as_str().into(),
        owner: entry.owner.to_string().into(),
        left: Some(entry.left(now_ms)),
        fence: None,
        label: None,
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Token(token) => token.fmt(f),
            Self::Reserved(ticket) => write!(f, "{RESERVED_LEAD}{ticket}"),
        }
    }
}

impl Entry {
    /// The key of this owner, as an acquire sets it.
    #[must_use]
    pub const fn acquired(now_ms: u64, token: OwnerToken, node_ttl_ms: u64) -> Self {
        let ends_ms = now_ms.saturating_add(node_ttl_ms);
        Self { owner: Owner::Token(token), ends_ms, counts_from_ms: None }
    }

    /// The key of this owner, put back after it was away.
    #[must_use]
    pub const fn put_back(now_ms: u64, token: OwnerToken, node_ttl_ms: u64, quarantine_ms: u64) -> Self {
        let counts_from_ms = Some(now_ms.saturating_add(quarantine_ms));
        Self { counts_from_ms, ..Self::acquired(now_ms, token, node_ttl_ms) }
    }

    /// What its owner is told who has extended it.
    #[must_use]
    pub fn vote(&self, now_ms: u64) -> Answer {
        match self.counts_from_ms.and_then(|from_ms| from_ms.checked_sub(now_ms)).filter(|left| *left > 0) {
            Some(left_ms) => Answer::PutBack { left: Duration::from_millis(left_ms) },
            None => Answer::Granted,
        }
    }

    const fn left(&self, now_ms: u64) -> Duration {
        Duration::from_millis(self.ends_ms.saturating_sub(now_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::Prefix;

    const A: OwnerToken = OwnerToken::from_bytes([0xa; 20]);
    const B: OwnerToken = OwnerToken::from_bytes([0xb; 20]);

    fn key() -> LockKey {
        LockKey::new(&Prefix::default(), "x").unwrap()
    }

    fn at(ms: u64) -> NodeTime {
        NodeTime::from_micros(ms * 1_000)
    }

    fn acquire(table: &mut LockTable, ms: u64, token: OwnerToken) -> Answer {
        table.execute(at(ms), &Command::plain_acquire(key(), token, 100)).answer
    }

    fn extend(table: &mut LockTable, ms: u64, token: OwnerToken, node_ttl_ms: u64) -> Answer {
        table.execute(at(ms), &Command::Extend { key: key(), token, node_ttl_ms }).answer
    }

    fn release(table: &mut LockTable, ms: u64, token: OwnerToken) -> Answer {
        table.execute(at(ms), &Command::Release { key: key(), token }).answer
    }

    fn held_for(left_ms: u64) -> Answer {
        Answer::Refused(Refusal::Held { left: Duration::from_millis(left_ms) })
    }

    #[test]
    fn a_free_key_is_granted_and_then_refused_to_others_with_the_time_left() {
        let mut table = LockTable::default();
        assert_eq!(acquire(&mut table, 0, A), Answer::Granted);
        assert_eq!(acquire(&mut table, 40, B), held_for(60));
    }

    #[test]
    fn a_key_lives_up_to_and_including_its_last_millisecond() {
        let mut table = LockTable::default();
        acquire(&mut table, 0, A);
        assert_eq!(acquire(&mut table, 100, B), held_for(0));
        assert_eq!(table.keys(at(100)).count(), 1);
        assert_eq!(table.keys(at(101)).count(), 0);
        assert_eq!(acquire(&mut table, 101, B), Answer::Granted);
    }

    #[test]
    fn an_acquire_asked_twice_is_granted_twice_and_lives_no_longer() {
        let mut table = LockTable::default();
        acquire(&mut table, 0, A);
        assert_eq!(acquire(&mut table, 50, A), Answer::Granted);
        assert_eq!(table.keys(at(100)).count(), 1);
        assert_eq!(table.keys(at(101)).count(), 0);
    }

    #[test]
    fn an_extension_lengthens_and_never_shortens() {
        let mut table = LockTable::default();
        acquire(&mut table, 0, A);
        assert_eq!(extend(&mut table, 90, A, 100), Answer::Granted);
        assert_eq!(extend(&mut table, 91, A, 5), Answer::Granted);
        assert_eq!(table.keys(at(190)).count(), 1);
        assert_eq!(table.keys(at(191)).count(), 0);
    }

    #[test]
    fn only_the_owner_extends_and_releases() {
        let mut table = LockTable::default();
        acquire(&mut table, 0, A);
        assert_eq!(extend(&mut table, 10, B, 1_000), held_for(90));
        assert_eq!(release(&mut table, 20, B), Answer::Refused(Refusal::NotHeld));
        assert_eq!(release(&mut table, 30, A), Answer::Granted);
        assert_eq!(table, LockTable::default());
    }

    #[test]
    fn a_key_that_was_put_back_keeps_others_out_and_counts_a_quarantine_later() {
        let mut table = LockTable::default();
        let heal = Command::Heal { key: key(), token: A, node_ttl_ms: 100, fence: None, quarantine_ms: 150 };
        assert_eq!(table.execute(at(0), &heal).answer, Answer::Granted);
        assert_eq!(acquire(&mut table, 40, B), held_for(60));
        assert_eq!(acquire(&mut table, 40, A), held_for(60), "not what this acquire has set");
        let put_back = |left_ms| Answer::PutBack { left: Duration::from_millis(left_ms) };
        assert_eq!(extend(&mut table, 60, A, 100), put_back(90));
        // Put back once more, it was never away: nothing begins anew.
        assert_eq!(table.execute(at(100), &heal).answer, Answer::Granted);
        assert_eq!(extend(&mut table, 149, A, 100), put_back(1));
        assert_eq!(extend(&mut table, 150, A, 100), Answer::Granted);
        assert_eq!(table.keys(at(250)).count(), 1, "extended all the same");
        assert_eq!(release(&mut table, 200, A), Answer::Refused(Refusal::NotHeld), "no attempt's key");
        let pass_on = Command::PassOn { key: key(), token: A, labelled: false, requeue: None };
        assert_eq!(table.execute(at(200), &pass_on).answer, Answer::Granted);
        assert_eq!(table.keys(at(200)).count(), 0);
    }

    #[test]
    fn what_is_not_there_is_not_held_for_extend_and_release() {
        let mut table = LockTable::default();
        assert_eq!(extend(&mut table, 0, A, 100), Answer::Refused(Refusal::NotHeld));
        assert_eq!(release(&mut table, 0, A), Answer::Refused(Refusal::NotHeld));
        acquire(&mut table, 0, A);
        assert_eq!(extend(&mut table, 101, A, 100), Answer::Refused(Refusal::NotHeld));
    }

    #[test]
    fn the_table_tells_who_has_a_key() {
        let mut table = LockTable::default();
        let inspect = |table: &mut LockTable, ms| match table
            .execute(at(ms), &Command::Inspect { key: key() })
            .answer
        {
            Answer::Told { holdings, waiters: Some(0), next: 0 } => holdings,
            other => panic!("{other:?}"),
        };
        assert_eq!(inspect(&mut table, 0), []);
        acquire(&mut table, 0, A);
        let left = Some(Duration::from_millis(60));
        let expected =
            Holding { key: "tenure:x".into(), owner: A.to_string().into(), left, fence: None, label: None };
        assert_eq!(inspect(&mut table, 40), [expected]);
        assert_eq!(inspect(&mut table, 101), []);
    }

    #[test]
    fn a_list_comes_in_pages_and_is_whole() {
        let mut table = LockTable::default();
        for number in 0..250 {
            let key = LockKey::new(&Prefix::new("app:").unwrap(), &number.to_string()).unwrap();
            table.execute(at(0), &Command::plain_acquire(key, A, 100));
        }
        acquire(&mut table, 0, A);
        let (mut keys, mut cursor, mut pages) = (std::collections::BTreeSet::new(), 0, 0);
        loop {
            let command = Command::List { prefix: Prefix::new("app:").unwrap(), cursor };
            let Answer::Told { holdings, waiters: None, next } = table.execute(at(1), &command).answer else {
                panic!("a list")
            };
            keys.extend(holdings.into_iter().map(|holding| holding.key));
            (cursor, pages) = (next, pages + 1);
            if next == 0 {
                break;
            }
        }
        assert_eq!((keys.len(), pages), (250, 3));
    }

    #[test]
    fn expired_keys_of_other_names_do_not_pile_up() {
        let mut table = LockTable::default();
        for n in 0..1_000 {
            let key = LockKey::new(&Prefix::default(), &n.to_string()).unwrap();
            table.execute(at(n), &Command::plain_acquire(key, A, 10));
        }
        assert_eq!(table.entries.len(), 11);
    }
}
