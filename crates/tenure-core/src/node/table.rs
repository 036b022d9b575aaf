//! A node that keeps its names in maps: the memory node, the simulated node, and the reference for
//! every other store.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::convert::Infallible;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::{Entry, Group, Hold, Name, Shelf, Slice, execute};
use crate::command::{Answer, Command, Refusal, Reply};
use crate::fence::Fence;
use crate::line::{ClientId, Seeks, Ticket};
use crate::names::{LockKey, Prefix};
use crate::note::{Note, WAITERS_TOLD_MAX, Waiter};
use crate::time::NodeTime;

/// The keys of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockTable {
    names: BTreeMap<LockKey, Name>,
    /// The same names by what ends first of each, so that what is over leaves without a search.
    ends: BTreeSet<(u64, LockKey)>,
    /// Who waits for which lock. A line without waiters is none.
    lines: BTreeMap<LockKey, BTreeSet<Ticket>>,
    /// What those in line say about themselves, as far as they do.
    notes: BTreeMap<(LockKey, Ticket), Note>,
    /// The record of each prefix.
    records: BTreeMap<Arc<str>, Arc<str>>,
    /// The clients that can be woken.
    listeners: BTreeSet<ClientId>,
    wakes: VecDeque<(LockKey, Ticket)>,
}

impl LockTable {
    /// Executes one command at the node's time `now`.
    pub fn execute(&mut self, now: NodeTime, command: &Command) -> Reply {
        self.expire(now.as_millis());
        let Ok(reply) = execute(self, now, command);
        for key in command.key().into_iter().flat_map(LockKey::each) {
            self.drop_empty_line(key);
        }
        reply
    }

    /// Executes a command as a server with a `SET` of its own does, whose connection is told of a
    /// change of the record before any later reply. An acquire without a fence is that `SET`, which
    /// looks at no record: the key is set in whatever life the node's memory is in, and only the
    /// answer is taken back.
    pub fn execute_natively(&mut self, now: NodeTime, command: &Command) -> Reply {
        let reply = self.execute(now, command);
        if let Command::Acquire { key, token, node_ttl_ms, fence: None, beside: None, .. } = command
            && !key.is_set()
            && reply.answer == Answer::Refused(Refusal::Stranger)
        {
            self.execute(now, &Command::plain_acquire(key.clone(), *token, *node_ttl_ms));
        }
        reply
    }

    /// The keys that are there at the node's time `now`, in order.
    pub fn keys(&self, now: NodeTime) -> impl Iterator<Item = (&LockKey, &Entry)> {
        let now_ms = now.as_millis();
        let entries = self.names.iter().filter_map(|(key, name)| Some((key, name.entry.as_ref()?)));
        entries.filter(move |(_, entry)| now_ms <= entry.ends_ms)
    }

    /// Whose the holds of a lock are at the node's time `now`, if they are one owner's.
    #[must_use]
    pub fn group(&self, now: NodeTime, key: &LockKey) -> Option<Group> {
        let mut name = self.names.get(key).cloned().unwrap_or_default();
        name.expire(now.as_millis());
        name.group
    }

    /// The holds of a lock's group at the node's time `now`.
    #[must_use]
    pub fn holds(&self, now: NodeTime, key: &LockKey) -> Vec<Hold> {
        let mut name = self.names.get(key).cloned().unwrap_or_default();
        name.expire(now.as_millis());
        name.holds
    }

    /// How many fences the node remembers under a prefix.
    #[must_use]
    pub fn fences(&self, prefix: &Prefix) -> usize {
        self.fences_under(prefix).count()
    }

    /// Whether this waiter is in line.
    #[must_use]
    pub fn is_in_line(&self, key: &LockKey, ticket: Ticket) -> bool {
        self.lines.get(key).is_some_and(|line| line.contains(&ticket))
    }

    /// How many wait for a lock.
    #[must_use]
    pub fn waiters(&self, key: &LockKey) -> usize {
        self.lines.get(key).map_or(0, BTreeSet::len)
    }

    /// A client can be woken from now on.
    pub fn listen(&mut self, client: ClientId) {
        self.listeners.insert(client);
    }

    /// A client can be woken no longer: its connection is gone.
    pub fn stop_listening(&mut self, client: ClientId) {
        self.listeners.remove(&client);
    }

    /// All connections are gone: nobody can be woken.
    pub fn hang_up(&mut self) {
        self.listeners.clear();
        self.wakes.clear();
    }

    /// Whom to wake next: a lock was set aside for this waiter.
    pub fn poll_wake(&mut self) -> Option<(LockKey, Ticket)> {
        self.wakes.pop_front()
    }

    /// Forgets everything but who is connected, as a flush does.
    pub fn forget(&mut self) {
        *self = Self { listeners: std::mem::take(&mut self.listeners), ..Self::default() };
    }

    /// Gets another memory in the place of its own, as when two databases of a server change
    /// places. Who is connected stays.
    pub fn exchange(&mut self, other: &mut Self) {
        std::mem::swap(self, other);
        std::mem::swap(&mut self.listeners, &mut other.listeners);
    }

    /// What is over leaves.
    fn expire(&mut self, now_ms: u64) {
        while self.ends.first().is_some_and(|(ends_ms, _)| *ends_ms < now_ms) {
            let (_, key) = self.ends.pop_first().expect("just seen");
            let mut name = self.names.remove(&key).expect("every end is that of a name");
            name.expire(now_ms);
            if name.is_line_over(now_ms) {
                let Ok(()) = self.clear(&key);
                name.line_ends_ms = 0;
            }
            self.put(&key, name);
        }
        assert_eq!(self.names.len(), self.ends.len(), "every name has one end");
    }

    fn put(&mut self, key: &LockKey, name: Name) {
        let ends_ms = name.ends_ms().min();
        let old = match ends_ms {
            Some(_) => self.names.insert(key.clone(), name),
            None => self.names.remove(key),
        };
        let old_ms = old.and_then(|old| old.ends_ms().min());
        if ends_ms != old_ms {
            old_ms.map(|old_ms| self.ends.remove(&(old_ms, key.clone())));
            ends_ms.map(|ends_ms| self.ends.insert((ends_ms, key.clone())));
        }
    }

    fn drop_empty_line(&mut self, key: &LockKey) {
        if let Some(name) = self.names.get(key)
            && name.line_ends_ms != 0
            && !self.lines.contains_key(key)
        {
            self.put(key, Name { line_ends_ms: 0, ..name.clone() });
        }
    }

    fn fences_under(&self, prefix: &Prefix) -> impl Iterator<Item = Fence> {
        let names = self.names.iter().filter(|(key, _)| key.prefix() == prefix.as_str());
        names.filter_map(|(_, name)| name.last_fence())
    }
}

/// The ends follow from the names, and most of a search through all states is hashing.
impl Hash for LockTable {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self { names, ends: _, lines, notes, records, listeners, wakes } = self;
        (names, lines, notes, records, listeners, wakes).hash(state);
    }
}

impl Shelf for LockTable {
    type Trouble = Infallible;

    fn load(&mut self, key: &LockKey) -> Result<Name, Infallible> {
        Ok(self.names.get(key).cloned().unwrap_or_default())
    }

    fn store(&mut self, _: u64, key: &LockKey, name: Name) -> Result<(), Infallible> {
        self.put(key, name);
        Ok(())
    }

    fn in_line(&self, key: &LockKey) -> Result<u64, Infallible> {
        Ok(self.waiters(key) as u64)
    }

    fn in_line_listening(&self, key: &LockKey) -> Result<u64, Infallible> {
        let line = self.lines.get(key).into_iter().flatten();
        Ok(line.filter(|ticket| self.listens(**ticket)).count() as u64)
    }

    fn first(&self, key: &LockKey) -> Result<Option<Ticket>, Infallible> {
        Ok(self.lines.get(key).and_then(|line| line.first().copied()))
    }

    fn first_of(&self, key: &LockKey, sharing: bool) -> Result<Option<Ticket>, Infallible> {
        let mut line = self.lines.get(key).into_iter().flatten();
        Ok(line.find(|ticket| (ticket.seeks == Seeks::Shared) == sharing).copied())
    }

    fn last(&self, key: &LockKey) -> Result<Option<Ticket>, Infallible> {
        Ok(self.lines.get(key).and_then(|line| line.last().copied()))
    }

    fn contains(&self, key: &LockKey, ticket: Ticket) -> Result<bool, Infallible> {
        Ok(self.is_in_line(key, ticket))
    }

    fn ahead_of(&self, key: &LockKey, ticket: Ticket) -> Result<u64, Infallible> {
        Ok(self.lines.get(key).map_or(0, |line| line.range(..ticket).count() as u64))
    }

    fn insert(&mut self, key: &LockKey, ticket: Ticket) -> Result<bool, Infallible> {
        Ok(self.lines.entry(key.clone()).or_default().insert(ticket))
    }

    fn note(&mut self, key: &LockKey, ticket: Ticket, note: &Note) -> Result<(), Infallible> {
        if self.is_in_line(key, ticket) {
            self.notes.insert((key.clone(), ticket), note.clone());
        }
        Ok(())
    }

    fn tell_line(&self, key: &LockKey) -> Result<Vec<Waiter>, Infallible> {
        let line = self.lines.get(key).into_iter().flatten().filter(|ticket| self.listens(**ticket));
        let waiter = |ticket: &Ticket| {
            let note = self.notes.get(&(key.clone(), *ticket)).cloned().unwrap_or_default();
            Waiter { ticket: *ticket, note }
        };
        Ok(line.take(WAITERS_TOLD_MAX).map(waiter).collect())
    }

    fn remove(&mut self, key: &LockKey, ticket: Ticket) -> Result<(), Infallible> {
        if !self.notes.is_empty() {
            self.notes.remove(&(key.clone(), ticket));
        }
        if let Some(line) = self.lines.get_mut(key) {
            line.remove(&ticket);
            if line.is_empty() {
                self.lines.remove(key);
            }
        }
        Ok(())
    }

    fn clear(&mut self, key: &LockKey) -> Result<(), Infallible> {
        self.lines.remove(key);
        self.notes.retain(|(of, _), _| of != key);
        Ok(())
    }

    fn listens(&self, ticket: Ticket) -> bool {
        self.listeners.contains(&ticket.client)
    }

    fn wake(&mut self, key: &LockKey, ticket: Ticket) {
        self.wakes.push_back((key.clone(), ticket));
    }

    fn record(&self, prefix: &str) -> Result<Option<Arc<str>>, Infallible> {
        Ok(self.records.get(prefix).cloned())
    }

    fn put_record(&mut self, prefix: &Prefix, text: &Arc<str>) -> Result<(), Infallible> {
        self.records.insert(prefix.as_str().into(), Arc::clone(text));
        Ok(())
    }

    fn give_up(&mut self, _: u64, prefix: &Prefix) -> Result<(), Infallible> {
        self.records.remove(prefix.as_str());
        let is_fenced = |name: &Name| name.last_fence().is_some_and(|fence| fence != Fence::NONE);
        let under_prefix = self.names.iter().filter(|(key, _)| key.prefix() == prefix.as_str());
        let fenced = under_prefix.filter(|(_, name)| is_fenced(name));
        let fenced: Vec<_> = fenced.map(|(key, name)| (key.clone(), name.clone())).collect();
        for (key, name) in fenced {
            self.put(&key, Name { fence: None, open_ends_ms: 0, ..name });
        }
        Ok(())
    }

    /// What is over is gone already.
    fn trim(&mut self, _: u64, prefix: &Prefix) -> Result<Answer, Infallible> {
        let (left, latest) = (self.fences(prefix) as u64, self.fences_under(prefix).max());
        Ok(Answer::Trimmed { seen: 0, left, latest })
    }

    /// The keys in order, from the `cursor`-th on.
    fn slice(&self, now_ms: u64, lead: &str, cursor: u64, keys: u32) -> Result<Slice, Infallible> {
        let (all, keys) = (self.names.len() as u64, u64::from(keys.max(1)));
        let next = if all > cursor.saturating_add(keys) { cursor + keys } else { 0 };
        let skipped = usize::try_from(cursor).unwrap_or(usize::MAX);
        let some = self.names.iter().skip(skipped).take(usize::try_from(keys).unwrap_or(usize::MAX));
        let is_lock = |name: &Name| name.entry.as_ref().is_some_and(|entry| now_ms <= entry.ends_ms);
        let locks = some.filter(|(key, name)| key.as_str().starts_with(lead) && is_lock(name));
        Ok(Slice {
            locks: locks.map(|(key, _)| key.as_str().into()).collect(),
            next,
            walked_ppm: Slice::millionths(next, all),
            keys: all,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::command::{Holding, Listing, Next, Part};
    use crate::fence::{FenceBounds, ProposedFence};
    use crate::line::{Beside, PlaceRequest};
    use crate::mode::{Kind, Mode, OwnerId};
    use crate::token::OwnerToken;

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
        table
            .execute(at(ms), &Command::Extend { key: key(), token, node_ttl_ms, mode: Mode::Exclusive })
            .answer
    }

    fn undo(table: &mut LockTable, ms: u64, token: OwnerToken) -> Answer {
        table.execute(at(ms), &Command::Undo { key: key(), token, requeue: None }).answer
    }

    fn release(table: &mut LockTable, ms: u64, token: OwnerToken) -> Answer {
        let release = Command::Release { key: key(), token, labelled: false, next: Next::InLine };
        table.execute(at(ms), &release).answer
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
        assert_eq!(undo(&mut table, 20, B), Answer::Refused(Refusal::NotHeld));
        assert_eq!(release(&mut table, 30, A), Answer::Granted);
        assert_eq!(table, LockTable::default());
        acquire(&mut table, 30, A);
        assert_eq!(undo(&mut table, 40, A), Answer::Granted);
        assert_eq!(table, LockTable::default());
    }

    #[test]
    fn a_key_that_was_put_back_keeps_others_out_and_counts_a_quarantine_later() {
        let mut table = LockTable::default();
        let heal = Command::Heal {
            key: key(),
            token: A,
            node_ttl_ms: 100,
            fence: None,
            quarantine_ms: 150,
            mode: Mode::Exclusive,
        };
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
        assert_eq!(undo(&mut table, 200, A), Answer::Refused(Refusal::NotHeld), "no attempt's key");
        assert_eq!(release(&mut table, 200, A), Answer::Granted);
        assert_eq!(table.keys(at(200)).count(), 0);
    }

    #[test]
    fn what_is_not_there_is_not_held_for_extend_and_release() {
        let mut table = LockTable::default();
        assert_eq!(extend(&mut table, 0, A, 100), Answer::Refused(Refusal::NotHeld));
        assert_eq!(release(&mut table, 0, A), Answer::Refused(Refusal::NotHeld));
        assert_eq!(undo(&mut table, 0, A), Answer::Refused(Refusal::NotHeld));
        acquire(&mut table, 0, A);
        assert_eq!(extend(&mut table, 101, A, 100), Answer::Refused(Refusal::NotHeld));
    }

    #[test]
    fn a_range_of_fences_is_granted_as_a_whole_and_its_largest_is_remembered() {
        let bounds = FenceBounds { slack_us: 1_000, retention_us: 100_000_000 };
        let propose = |table: &mut LockTable, token, low_us: u64, span| {
            let fence = Some(ProposedFence::range(Fence::new(1_000_000 + low_us), span, bounds));
            let (key, node_ttl_ms, nonce, beside) = (key(), 100, None, None);
            let reply =
                table.execute(at(1_000), &Command::Acquire { key, token, node_ttl_ms, nonce, fence, beside });
            (reply.answer, reply.fence.map(|fence| fence.get() - 1_000_000))
        };
        let heal = |table: &mut LockTable, fence_us: u64| {
            let fence = Some(Fence::new(1_000_000 + fence_us));
            let (key, token, node_ttl_ms, quarantine_ms) = (key(), A, 100, 7);
            table
                .execute(
                    at(1_000),
                    &Command::Heal { key, token, node_ttl_ms, fence, quarantine_ms, mode: Mode::Exclusive },
                )
                .answer
        };
        let mut table = LockTable::default();
        let ahead = Answer::Refused(Refusal::Ahead);
        assert_eq!(propose(&mut table, A, 1_000, 1), (ahead, None), "its largest is too far ahead");
        assert_eq!(propose(&mut table, A, 500, 500), (Answer::Granted, None));
        assert_eq!(propose(&mut table, A, 500, 500), (Answer::Granted, None), "asked again");
        assert!(matches!(propose(&mut table, A, 500, 499), (Answer::Refused(Refusal::Held { .. }), _)));
        undo(&mut table, 1_000, A);
        assert_eq!(heal(&mut table, 999), Answer::Refused(Refusal::Behind), "one of the range");
        assert_eq!(heal(&mut table, 1_000), Answer::Granted, "its largest");
        release(&mut table, 1_000, A);
        let behind = Answer::Refused(Refusal::Behind);
        assert_eq!(propose(&mut table, B, 1_000, 0), (behind, Some(1_000)), "the range is used up");
        let mut table = LockTable::default();
        assert_eq!(propose(&mut table, A, 10, 5), (Answer::Granted, None));
        release(&mut table, 1_000, A);
        let behind = Answer::Refused(Refusal::Behind);
        assert_eq!(propose(&mut table, B, 15, 100), (behind, Some(15)), "its smallest is too small");
        assert_eq!(propose(&mut table, B, 16, 100), (Answer::Granted, None));
    }

    #[test]
    fn the_table_tells_who_has_a_key() {
        let mut table = LockTable::default();
        let inspect = |table: &mut LockTable, ms| match table
            .execute(at(ms), &Command::Inspect { key: key() })
            .answer
        {
            Answer::Holdings(told) if told.waiters == Some(0) && told.next == 0 => told.found,
            other => panic!("{other:?}"),
        };
        assert_eq!(inspect(&mut table, 0), []);
        acquire(&mut table, 0, A);
        let left = Some(Duration::from_millis(60));
        let expected = Holding {
            key: "tenure:x".into(),
            owner: A.to_string().into(),
            left,
            fence: None,
            label: None,
            sharers: None,
            kind: Kind::Plain,
            count: None,
        };
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
            let (prefix, part) = (Prefix::new("app:").unwrap(), Part::Slice { cursor, keys: 100 });
            let listing = Listing { prefix, begins: "".into(), part, detailed: false };
            let Answer::Listed(listed) = table.execute(at(1), &Command::List(listing.into())).answer else {
                panic!("a list")
            };
            keys.extend(listed.seen.iter().map(|seen| Arc::clone(&seen.holding.key)));
            assert_eq!((listed.keys, listed.next == 0), (Some(251), listed.walked_ppm == 1_000_000));
            (cursor, pages) = (listed.next, pages + 1);
            if cursor == 0 {
                break;
            }
        }
        assert_eq!((keys.len(), pages), (250, 3));
    }

    #[test]
    fn a_list_with_details_tells_label_fence_and_waiters_of_those_that_were_named() {
        let mut table = LockTable::default();
        table.execute(at(0), &Command::plain_acquire(key(), A, 100));
        let other = LockKey::new(&Prefix::default(), "y").unwrap();
        let listing = |detailed| Listing {
            prefix: Prefix::default(),
            begins: "".into(),
            part: Part::These(vec![key(), other.clone()]),
            detailed,
        };
        table
            .execute(at(0), &Command::Enqueue { key: key(), ticket: Ticket::exclusive(7, ClientId::new(1)) });
        let mut list = |detailed| match table.execute(at(40), &Command::List(listing(detailed).into())).answer
        {
            Answer::Listed(listed) => listed.seen,
            other => panic!("{other:?}"),
        };
        let [seen] = &list(true)[..] else { panic!("one is held") };
        assert_eq!((&*seen.holding.key, seen.waiters), (key().as_str(), Some(1)));
        assert_eq!(seen.holding.left, Some(Duration::from_millis(60)));
        assert_eq!(list(false)[0].waiters, None);
    }

    #[test]
    fn whoever_claims_what_was_set_aside_hears_how_long_ago_it_was_passed_on() {
        let client = ClientId::new(1);
        let other = LockKey::new(&Prefix::default(), "y").unwrap();
        let both = LockKey::all_of([key(), other]).unwrap();
        let ask = |table: &mut LockTable, key: &LockKey, ms, token, number: Option<u64>, mode: &Mode| {
            let ticket = number.map(|number| Ticket::exclusive(number, client).seeking(mode));
            let place = ticket.map(|ticket| PlaceRequest { ticket, fresh: false });
            let beside = Some(Arc::new(Beside { place, mode: mode.clone(), ..Beside::default() }));
            let (key, nonce, fence) = (key.clone(), None, None);
            let acquire = Command::Acquire { key, token, node_ttl_ms: 1_000, nonce, fence, beside };
            let reply = table.execute(at(ms), &acquire);
            (reply.answer == Answer::Granted, reply.line.and_then(|line| line.passed_on))
        };
        let after = |ms| (true, Some(Duration::from_millis(ms)));
        let owned = Mode::Owned(OwnerId::new("id").unwrap());
        for mode in [Mode::Exclusive, owned] {
            let mut table = LockTable::default();
            table.listen(client);
            assert_eq!(ask(&mut table, &key(), 0, A, None, &mode), (true, None), "it was free");
            let other = if mode == Mode::Exclusive {
                mode.clone()
            } else {
                Mode::Owned(OwnerId::new("other").unwrap())
            };
            assert_eq!(ask(&mut table, &key(), 10, B, Some(7), &other), (false, None));
            release(&mut table, 50, A);
            assert_eq!(ask(&mut table, &key(), 63, B, Some(7), &other), after(13), "{mode:?}");
            assert_eq!(ask(&mut table, &key(), 70, B, Some(7), &other), (true, None), "asked again");
        }
        // What frees itself was passed on by nobody; nor was what lies free after a reservation.
        let mode = Mode::Exclusive;
        let mut table = LockTable::default();
        table.listen(client);
        ask(&mut table, &key(), 0, A, None, &mode);
        ask(&mut table, &key(), 10, B, Some(7), &mode);
        assert_eq!(ask(&mut table, &key(), 1_001, B, Some(7), &mode), (true, None), "it expired");
        ask(&mut table, &key(), 1_010, A, Some(8), &mode);
        release(&mut table, 1_020, B);
        assert_eq!(ask(&mut table, &key(), 1_220, A, Some(8), &mode), after(200), "its last millisecond");
        ask(&mut table, &key(), 1_230, B, Some(9), &mode);
        release(&mut table, 1_240, A);
        assert_eq!(ask(&mut table, &key(), 1_441, B, Some(9), &mode), (true, None), "it came too late");
        // Several at once: as many as could be had since the last of them was passed on.
        ask(&mut table, &both, 1_450, A, Some(10), &mode);
        release(&mut table, 1_500, B);
        assert_eq!(ask(&mut table, &both, 1_504, A, Some(10), &mode), after(4));
    }

    /// Who went to the line of whichever name is taken at the moment would have that name set aside
    /// each time that it is free, for as long as somebody holds the other one.
    #[test]
    fn who_wants_two_names_and_waits_for_one_is_not_in_the_way_of_the_other() {
        let (first, second) = (key(), LockKey::new(&Prefix::default(), "y").unwrap());
        let both = LockKey::all_of([first.clone(), second.clone()]).unwrap();
        let ticket = Ticket::exclusive(1, ClientId::new(1));
        let mut table = LockTable::default();
        table.listen(ticket.client);
        let hold = |table: &mut LockTable, ms, key: &LockKey, token| {
            table.execute(at(ms), &Command::plain_acquire(key.clone(), token, 60_000)).answer
        };
        let ask = |table: &mut LockTable, ms, token| {
            let place = Some(PlaceRequest { ticket, fresh: false });
            let beside = Some(Arc::new(Beside { place, ..Beside::default() }));
            let (key, nonce, fence) = (both.clone(), None, None);
            table
                .execute(at(ms), &Command::Acquire { key, token, node_ttl_ms: 1_000, nonce, fence, beside })
                .answer
        };
        let c = OwnerToken::from_bytes([0xc; 20]);
        assert_eq!(hold(&mut table, 0, &second, B), Answer::Granted);
        assert!(matches!(ask(&mut table, 10, A), Answer::Refused(_)));
        assert_eq!(hold(&mut table, 20, &first, c), Answer::Granted);
        assert!(matches!(ask(&mut table, 30, A), Answer::Refused(_)));
        assert!(table.is_in_line(&second, ticket) && !table.is_in_line(&first, ticket));
        release(&mut table, 40, c);
        assert_eq!(hold(&mut table, 50, &first, c), Answer::Granted, "it is set aside for nobody");
        // What it waited for is free: now it waits for the other one, and loses neither.
        let free = Command::Release { key: second.clone(), token: B, labelled: false, next: Next::InLine };
        table.execute(at(60), &free);
        assert!(matches!(ask(&mut table, 70, A), Answer::Refused(_)));
        assert!(table.is_in_line(&first, ticket));
        release(&mut table, 80, c);
        assert_eq!(ask(&mut table, 90, A), Answer::Granted);
    }

    #[test]
    fn expired_keys_of_other_names_do_not_pile_up() {
        let mut table = LockTable::default();
        for n in 0..1_000 {
            let key = LockKey::new(&Prefix::default(), &n.to_string()).unwrap();
            table.execute(at(n), &Command::plain_acquire(key, A, 10));
        }
        assert_eq!(table.names.len(), 11);
    }
}
