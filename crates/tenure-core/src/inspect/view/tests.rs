use super::*;
use crate::fence::Fence;
use crate::mode::Kind;
use crate::names::Prefix;

/// Three nodes, and what each has.
struct Fleet {
    view: View,
    nodes: [BTreeMap<&'static str, (&'static str, u64)>; 3],
    now: Time,
}

impl Fleet {
    fn new() -> Self {
        let quorum = Quorum::of(3).unwrap();
        let mut view = View::new(quorum);
        view.vote(at(0), quorum.indexes().collect());
        Self { view, nodes: Default::default(), now: at(0) }
    }

    /// A lock that ends then, on these nodes.
    fn hold(&mut self, key: &'static str, owner: &'static str, ends_ms: u64, nodes: &[usize]) {
        nodes.iter().for_each(|node| {
            self.nodes[*node].insert(key, (owner, ends_ms));
        });
    }

    fn release(&mut self, key: &str) {
        self.nodes.iter_mut().for_each(|node| {
            node.remove(key);
        });
    }

    /// Walks through one node, then asks what the view wants to know, and tells what changed.
    fn look(&mut self, ms: u64, node: usize) -> Vec<(String, Option<String>, Option<String>)> {
        self.now = at(ms);
        let index = |node: usize| Quorum::of(3).unwrap().indexes().nth(node).unwrap();
        let all = self.listed(node, None);
        self.view.take(self.now, index(node), clock(ms), None, all);
        for other in 0..3 {
            let wanted = self.view.take_wanted(index(other), 10, at(0));
            if !wanted.is_empty() {
                let keys: Vec<LockKey> =
                    wanted.iter().map(|key| Prefix::new("").unwrap().key_of(key).unwrap()).collect();
                let these = self.listed(other, Some(&keys));
                self.view.take(self.now, index(other), clock(ms), Some(&keys), these);
            }
        }
        let owner = |row: &Option<Row>| row.as_ref()?.state.owner().map(ToString::to_string);
        let changes = self.view.take_changes().into_iter();
        changes.map(|(key, change)| (key.to_string(), owner(&change.before), owner(&change.now))).collect()
    }

    fn listed(&self, node: usize, these: Option<&[LockKey]>) -> Listed {
        let now_ms = self.now.as_nanos() / 1_000_000;
        let is_asked = |key: &str| these.is_none_or(|these| these.iter().any(|one| one.as_str() == key));
        let seen = self.nodes[node].iter().filter(|(key, _)| is_asked(key)).map(|(key, (owner, ends_ms))| {
            let left = Some(Duration::from_millis(ends_ms.saturating_sub(now_ms)));
            let (label, sharers, count, kind) = (None, None, None, Kind::Plain);
            let fence = Some(Fence::new(1_000));
            let (key, owner) = ((*key).into(), token(owner).into());
            Sighting {
                holding: Holding { key, owner, left, fence, label, sharers, kind, count },
                waiters: None,
            }
        });
        Listed { seen: seen.collect(), keys: Some(1), ..Listed::default() }
    }
}

/// The token of an owner that is called so.
fn token(owner: &str) -> String {
    format!("{:040x}", owner.as_bytes()[0])
}

const fn at(ms: u64) -> Time {
    Time::from_nanos(ms * 1_000_000)
}

fn clock(ms: u64) -> Option<NodeTime> {
    Some(NodeTime::from_micros(ms * 1_000))
}

fn told(key: &str, before: &str, now: &str) -> (String, Option<String>, Option<String>) {
    let some = |owner: &str| (!owner.is_empty()).then(|| token(owner));
    (key.to_owned(), some(before), some(now))
}

#[test]
fn what_one_node_says_is_told_when_the_others_were_asked_about_it() {
    let mut fleet = Fleet::new();
    (0..3).for_each(|node| assert!(fleet.look(1, node).is_empty()));
    assert!(fleet.view.is_complete());
    fleet.hold("a", "x", 9_000, &[0, 1, 2]);
    assert_eq!(fleet.look(10, 0), [told("a", "", "x")], "without a pass through the others");
    let row = &fleet.view.rows()["a"];
    assert_eq!((row.agree.len(), row.disagree.len(), row.margin), (3, 0, Some(1)));
    assert_eq!((row.since, row.since_known), (at(1), true), "by its fence");
    fleet.release("a");
    fleet.hold("a", "y", 9_000, &[0, 1, 2]);
    assert_eq!(fleet.look(20, 1), [told("a", "x", "y")]);
    let row = &fleet.view.rows()["a"];
    assert_eq!((row.since, row.since_known), (at(1), true));
    fleet.release("a");
    assert_eq!(fleet.look(30, 2), [told("a", "y", "")]);
    assert!((0..3).all(|node| fleet.look(40, node).is_empty()));
}

#[test]
fn a_key_that_is_left_on_one_node_is_no_lock_and_two_holders_are_seen() {
    let mut fleet = Fleet::new();
    fleet.hold("left", "x", 9_000, &[1]);
    fleet.hold("two", "x", 9_000, &[0]);
    fleet.hold("two", "y", 9_000, &[1, 2]);
    (0..3).for_each(|node| drop(fleet.look(1, node)));
    assert_eq!(fleet.view.rows().len(), 1);
    let row = &fleet.view.rows()["two"];
    assert_eq!(row.state.owner().map(ToString::to_string), Some(token("y")));
    assert_eq!((row.others.len(), row.margin), (1, Some(0)));
}

#[test]
fn an_extension_is_a_change_of_the_end_only() {
    let mut fleet = Fleet::new();
    fleet.hold("a", "x", 9_000, &[0, 1, 2]);
    (0..3).for_each(|node| drop(fleet.look(1, node)));
    (0..3).for_each(|node| assert!(fleet.look(3_000, node).is_empty(), "the clock runs"));
    fleet.hold("a", "x", 12_000, &[0, 1, 2]);
    fleet.now = at(3_500);
    let before = fleet.view.rows()["a"].clone();
    assert_eq!(before.seen, at(3_000), "it was looked at");
    (0..3).for_each(|node| drop(fleet.look(3_500, node)));
    let row = &fleet.view.rows()["a"];
    assert_eq!((before.ends, row.ends), (Some(at(9_000)), Some(at(12_000))));
    assert!(row.differs_in_its_end_only(&before));
}

#[test]
fn nodes_that_do_not_answer_are_not_counted_and_without_a_majority_nothing_is_known() {
    let mut fleet = Fleet::new();
    fleet.hold("a", "x", 9_000, &[0, 1, 2]);
    let indexes: Vec<NodeIndex> = Quorum::of(3).unwrap().indexes().collect();
    fleet.view.take_fault(at(0), indexes[2], Fault::Timeout);
    (0..2).for_each(|node| drop(fleet.look(1, node)));
    assert_eq!((fleet.view.rows()["a"].agree.len(), fleet.view.is_complete()), (2, true));
    fleet.view.take_fault(at(2), indexes[1], Fault::Timeout);
    let changes = fleet.view.take_changes();
    assert_eq!(changes["a"].now.as_ref().map(|row| &row.state), Some(&LockState::Unknown));
    assert_eq!(fleet.look(3, 1), [told("a", "", "x")], "it answers again");
}

#[test]
fn a_lock_is_told_before_all_nodes_are_walked_through() {
    let mut fleet = Fleet::new();
    fleet.hold("a", "x", 9_000, &[0, 1, 2]);
    assert!(fleet.look(1, 0).is_empty(), "no majority has told of it");
    assert_eq!(fleet.look(2, 1), [told("a", "", "x")]);
    assert!(fleet.view.is_complete(), "of the nodes that were asked");
}

#[test]
fn what_happened_to_a_lock_is_looked_at_before_a_walk_comes_by() {
    let mut fleet = Fleet::new();
    (0..3).for_each(|node| drop(fleet.look(1, node)));
    fleet.hold("a", "x", 9_000, &[0, 1, 2]);
    fleet.view.want(at(5), &"a".into());
    fleet.hold("b", "x", 9_000, &[0, 1, 2]);
    let index = Quorum::of(3).unwrap().indexes().next().unwrap();
    assert_eq!(fleet.view.take_wanted(index, 10, at(0)), ["a".into()]);
    assert!(fleet.view.take_wanted(index, 10, at(0)).is_empty());
}
