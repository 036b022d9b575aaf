//! Callers of one client that pass a lock on among themselves.

use tenure_core::client::{Id, News, Output, Request};
use tenure_core::*;

use crate::support::cluster::*;

/// Options of a caller that waits, fenced, with others of its client.
fn together() -> Options {
    let mut options = Options::default();
    (options.ttl, options.wait, options.cohort) = (ms(10_000), Wait::Forever, true);
    options.renewal = Renewal::Off;
    options
}

/// A client, the leases of its callers, and what each was told.
struct Callers {
    cluster: Cluster,
    client: usize,
    asked: u64,
}

impl Callers {
    fn new() -> Self {
        let mut cluster = Cluster::of(3);
        let client = cluster.join();
        cluster.said = Some(vec![]);
        Self { cluster, client, asked: 0 }
    }

    fn ask_with(&mut self, options: &Options) -> Id {
        self.asked += 1;
        let (id, lease) = (Id(self.asked), Lease::new(key("x"), terms(options), self.cluster.quorum));
        self.cluster.request(self.client, Request::Acquire { id, lease });
        id
    }

    fn ask(&mut self) -> Id {
        self.ask_with(&together())
    }

    fn ask_many(&mut self, count: u64) -> Vec<Id> {
        (0..count).map(|_| self.ask()).collect()
    }

    fn release(&mut self, id: Id) {
        self.cluster.request(self.client, Request::Release { id });
    }

    fn abandon(&mut self, id: Id) {
        self.cluster.request(self.client, Request::Abandon { id });
    }

    fn run(&mut self, millis: u64) {
        self.cluster.run(ms(millis));
    }

    fn standing(&self, id: Id) -> Option<&Standing> {
        self.cluster.clients[self.client].client.lease(id)?.standing()
    }

    fn fence(&self, id: Id) -> u64 {
        self.standing(id).expect("it holds the lock").fence().expect("it has a fence").get()
    }

    fn holders(&self) -> Vec<Id> {
        (1..=self.asked).map(Id).filter(|id| self.standing(*id).is_some()).collect()
    }

    /// What a caller was told, but for how its lock stands.
    fn told(&self, id: Id) -> Vec<News> {
        let said = self.cluster.said.iter().flatten();
        let news = said.filter_map(|(_, client, said)| match said {
            Said::Output(Output::Tell { lease, news }) => {
                (*client == self.client && *lease == id).then(|| news.clone())
            }
            _ => None,
        });
        news.filter(|news| !matches!(news, News::Waiting { .. })).collect()
    }

    /// How often node 0 was asked for the lock, and how often it was given back.
    fn node_was_asked(&self) -> (usize, usize) {
        let log = &self.cluster.nodes[0].log;
        let count = |is: fn(&Command) -> bool| log.iter().filter(|command| is(command)).count();
        (
            count(|command| matches!(command, Command::Acquire { .. })),
            count(|command| matches!(command, Command::Release { .. })),
        )
    }
}

#[test]
fn callers_that_wait_when_the_round_begins_get_the_lock_in_turn_for_one_acquisition() {
    let mut callers = Callers::new();
    let first = callers.ask();
    callers.run(5);
    let waiting = callers.ask_many(3);
    callers.run(1);
    assert_eq!((callers.holders(), callers.node_was_asked()), (vec![first], (1, 0)));
    // They came when the lock was held: none is in the range of that round. The first of them asks.
    callers.release(first);
    callers.run(2);
    assert_eq!((callers.holders(), callers.node_was_asked()), (vec![waiting[0]], (2, 1)));
    let low = callers.fence(waiting[0]);
    callers.release(waiting[0]);
    assert_eq!((callers.holders(), callers.fence(waiting[1])), (vec![waiting[1]], low + 1));
    callers.release(waiting[1]);
    assert_eq!((callers.holders(), callers.fence(waiting[2])), (vec![waiting[2]], low + 2));
    assert_eq!(callers.node_was_asked(), (2, 1), "nobody said a word to the nodes");
    assert_eq!(
        callers.told(waiting[1]),
        [News::PassedOn, News::GivenUp { fence: Some(Fence::new(low + 1)) }]
    );
    callers.release(waiting[2]);
    callers.run(10);
    assert_eq!((callers.cluster.keys(), callers.node_was_asked()), (0, (2, 2)));
    assert_eq!(callers.cluster.outcomes, [ReleaseOutcome::Released; 4]);
    assert!(callers.cluster.clients[callers.client].client.is_idle());
}

#[test]
fn the_next_acquisition_has_a_fence_above_the_whole_range() {
    let mut callers = Callers::new();
    let first = callers.ask();
    let waiting = callers.ask_many(5);
    callers.run(5);
    callers.release(first);
    callers.run(5);
    let low = callers.fence(waiting[0]);
    // All others leave: their fences are not used.
    waiting[1..].iter().for_each(|id| callers.abandon(*id));
    callers.release(waiting[0]);
    callers.run(5);
    let mut plain = together();
    plain.cohort = false;
    let other = callers.cluster.acquire(&plain);
    callers.run(5);
    let fence = callers.cluster.standing(other).fence().unwrap().get();
    assert!(fence > low + 4, "{fence} is not above {low} and four more");
}

#[test]
fn whoever_comes_when_the_round_has_begun_waits_for_the_next_one() {
    let mut callers = Callers::new();
    let first = callers.ask();
    let late = callers.ask();
    callers.run(5);
    callers.release(first);
    assert_eq!(callers.holders(), [], "it was not in line when the round of the first began");
    callers.run(3);
    assert_eq!((callers.holders(), callers.node_was_asked()), (vec![late], (2, 1)));
}

/// A client whose second caller holds the lock, with these waiting who may be passed it.
fn held(waiting: u64) -> (Callers, Id, Vec<Id>) {
    let mut callers = Callers::new();
    let first = callers.ask();
    callers.run(5);
    let second = callers.ask();
    let waiting = callers.ask_many(waiting);
    callers.release(first);
    callers.run(3);
    assert_eq!(callers.holders(), [second]);
    (callers, second, waiting)
}

#[test]
fn it_is_passed_on_for_ten_milliseconds_and_then_the_next_one_is_in_line_at_the_nodes() {
    let (mut callers, holder, waiting) = held(3);
    callers.run(8);
    callers.release(holder);
    assert_eq!(callers.holders(), [waiting[0]], "9 ms after the nodes gave it");
    callers.run(10);
    // The second waiter asks for itself and those behind it, while the first one works.
    let lease = callers.cluster.clients[callers.client].client.lease(waiting[1]).unwrap();
    assert!(lease.ticket().is_some());
    callers.release(waiting[0]);
    assert_eq!(callers.holders(), []);
    callers.run(5);
    assert_eq!(callers.holders(), [waiting[1]]);
    callers.release(waiting[1]);
    assert_eq!(callers.holders(), [waiting[2]], "it was in line when that round began");
}

#[test]
fn it_is_passed_on_so_many_times_at_the_most() {
    let passes = u64::from(COHORT_PASSES_MAX);
    let (mut callers, holder, waiting) = held(passes + 5);
    let low = callers.fence(holder);
    callers.release(holder);
    for id in &waiting[..waiting.len() - 5] {
        assert_eq!(callers.holders(), [*id]);
        callers.release(*id);
    }
    assert_eq!(callers.holders(), []);
    callers.run(3);
    assert_eq!(callers.holders(), [waiting[waiting.len() - 5]]);
    assert!(callers.fence(waiting[waiting.len() - 5]) > low + passes);
}

#[test]
fn another_client_that_waits_has_its_turn_before_the_next_range() {
    let (mut callers, holder, waiting) = held(2);
    let late = callers.ask();
    let mut plain = together();
    plain.cohort = false;
    let other = callers.cluster.acquire(&plain);
    callers.run(5);
    [holder, waiting[0], waiting[1]].iter().for_each(|id| callers.release(*id));
    callers.run(5);
    assert_eq!(callers.holders(), []);
    let last = callers.cluster.standing(other).fence().unwrap().get();
    callers.cluster.release(other);
    callers.run(5);
    assert_eq!(callers.holders(), [late]);
    assert!(callers.fence(late) > last);
}

#[test]
fn whoever_gives_up_or_drops_what_it_was_passed_is_skipped() {
    let (mut callers, holder, waiting) = held(4);
    callers.abandon(waiting[0]);
    callers.abandon(holder);
    assert_eq!(callers.holders(), [waiting[1]]);
    callers.abandon(waiting[1]);
    assert_eq!(callers.holders(), [waiting[2]], "its caller was gone when it was passed the lock");
    callers.abandon(waiting[3]);
    callers.release(waiting[2]);
    callers.run(10);
    assert_eq!((callers.holders(), callers.cluster.keys()), (vec![], 0));
    assert!(callers.cluster.clients[callers.client].client.is_idle());
}

#[test]
fn when_the_one_that_asks_gives_up_the_next_one_asks() {
    let mut callers = Callers::new();
    let waiting = callers.ask_many(3);
    callers.abandon(waiting[0]);
    callers.run(3);
    assert_eq!(callers.holders(), [waiting[1]]);
    callers.release(waiting[1]);
    assert_eq!(callers.holders(), [waiting[2]]);
}

#[test]
fn a_lock_whose_token_left_the_guard_is_not_passed_on() {
    let (mut callers, holder, waiting) = held(2);
    // A copy for a child process.
    callers.cluster.resuming(callers.client, holder);
    callers.release(holder);
    assert_eq!(callers.holders(), []);
    callers.run(3);
    assert_eq!(callers.holders(), [waiting[0]], "by a round of its own");
    // Handed over altogether.
    callers.cluster.request(callers.client, Request::HandOver { id: waiting[0] });
    callers.run(3);
    assert_eq!((callers.holders(), callers.cluster.keys()), (vec![], 3));
    callers.run(12_000);
    assert_eq!(callers.holders(), [waiting[1]], "when the term of what was handed over ended");
}

#[test]
fn a_lock_that_is_lost_or_at_risk_is_not_passed_on() {
    let (mut callers, holder, waiting) = held(2);
    (0..3).for_each(|node| callers.cluster.delete(node));
    let term = terms(&together()).term;
    callers.cluster.request(callers.client, Request::Extend { id: holder, term });
    callers.run(3);
    assert!(callers.told(holder).contains(&News::State(HoldState::Lost)));
    callers.release(holder);
    assert_eq!(callers.holders(), []);
    callers.run(5);
    assert_eq!(callers.holders(), [waiting[0]], "by a round of its own");
}

#[test]
fn a_lock_is_not_passed_on_when_its_validity_is_over() {
    let (mut callers, holder, _) = held(2);
    // The client stands still, and hears of the release when the lock is over.
    callers.cluster.now = callers.cluster.now + ms(10_000);
    callers.release(holder);
    assert_eq!(callers.holders(), []);
}

#[test]
fn answers_that_come_when_the_lock_was_passed_on_count_for_who_has_it() {
    let mut callers = Callers::new();
    let first = callers.ask();
    callers.run(5);
    let waiting = callers.ask_many(2);
    callers.cluster.nodes[2].latency = ms(6);
    callers.release(first);
    callers.run(3);
    assert_eq!((callers.holders(), callers.standing(waiting[0]).unwrap().margin()), (vec![waiting[0]], 0));
    let term = terms(&together()).term;
    let end = callers.standing(waiting[0]).unwrap().validity().end();
    callers.cluster.request(callers.client, Request::Extend { id: waiting[0], term });
    callers.release(waiting[0]);
    assert_eq!(callers.holders(), [waiting[1]]);
    callers.run(8);
    let standing = callers.standing(waiting[1]).unwrap();
    assert_eq!(standing.margin(), 1, "the third node has granted it");
    assert!(standing.validity().end() > end, "the extension has come through");
    assert_eq!(callers.told(waiting[1]), [News::PassedOn, News::Extended]);
    callers.release(waiting[1]);
    callers.run(20);
    assert_eq!(callers.cluster.keys(), 0);
    assert!(callers.cluster.clients[callers.client].client.is_idle());
}

#[test]
fn who_was_passed_a_lock_is_renewed_and_hears_of_its_loss() {
    let mut renewed = together();
    (renewed.ttl, renewed.renewal) = (ms(3_000), Renewal::AtThird);
    let mut callers = Callers::new();
    let first = callers.ask_with(&renewed);
    callers.run(5);
    let (second, third) = (callers.ask_with(&renewed), callers.ask_with(&renewed));
    callers.release(first);
    callers.run(3);
    callers.release(second);
    assert_eq!(callers.holders(), [third]);
    callers.run(10_000);
    assert!(callers.told(third).iter().filter(|news| **news == News::Extended).count() >= 9);
    (0..3).for_each(|node| callers.cluster.nodes[node].mode = Behaviour::Silent);
    callers.run(3_000);
    assert_eq!(callers.told(third).last(), Some(&News::State(HoldState::Lost)));
    assert!(matches!(callers.told(second)[..], [News::Acquired, News::GivenUp { fence: Some(_) }]));
}

#[test]
fn a_waiter_asks_the_nodes_once_when_its_time_is_over() {
    let mut callers = Callers::new();
    let mut hasty = together();
    hasty.wait = Wait::AtMost(ms(100));
    let holder = callers.ask_with(&hasty);
    callers.run(5);
    let (first, second) = (callers.ask(), callers.ask_with(&hasty));
    callers.run(90);
    assert_eq!(callers.told(second), []);
    callers.run(20);
    assert!(
        matches!(
            &callers.told(second)[..],
            [News::NotAcquired(NotAcquired { cause: Cause::Contended { .. }, attempts: 1, .. })]
        ),
        "{:?}",
        callers.told(second)
    );
    callers.release(holder);
    callers.run(5);
    assert_eq!(callers.holders(), [first]);
}

#[test]
fn only_those_with_the_same_terms_pass_a_lock_on() {
    let (mut callers, holder, waiting) = held(1);
    let mut longer = together();
    longer.ttl = ms(20_000);
    let mut plain = together();
    plain.cohort = false;
    let others = [callers.ask_with(&longer), callers.ask_with(&plain)];
    callers.run(3);
    let in_line =
        |id: &Id| callers.cluster.clients[callers.client].client.lease(*id).and_then(Lease::ticket).is_some();
    assert!(others.iter().all(in_line) && !in_line(&waiting[0]));
    callers.release(holder);
    callers.release(waiting[0]);
    assert_eq!(callers.holders(), []);
    callers.run(5);
    assert_eq!(callers.holders(), [others[0]], "the first in line at the nodes");
}

#[test]
fn a_shutdown_tells_everybody_who_waits() {
    let (mut callers, holder, waiting) = held(3);
    let asked = callers.node_was_asked();
    let id = Id(99);
    callers.cluster.request(callers.client, Request::Shutdown { id, limit: ms(500), silent_too: false });
    for waiter in &waiting {
        assert_eq!(callers.told(*waiter), [News::ShutDown, News::GivenUp { fence: None }]);
    }
    assert_eq!(callers.holders(), [holder], "it keeps the lock and can release it");
    callers.release(holder);
    callers.run(10);
    assert_eq!((callers.cluster.keys(), callers.node_was_asked().0), (0, asked.0), "nobody asks any more");
    assert!(callers.cluster.clients[callers.client].client.is_idle());
}

#[test]
fn a_range_is_asked_for_only_for_those_who_wait() {
    let mut callers = Callers::new();
    let first = callers.ask();
    callers.run(5);
    callers.release(first);
    callers.run(5);
    let spans = callers.cluster.nodes[0].log.iter().filter_map(|command| match command {
        Command::Acquire { fence, .. } => fence.map(|proposed| proposed.span),
        _ => None,
    });
    assert_eq!(spans.collect::<Vec<_>>(), [0]);
}

/// A client whose tasks never let a lock go does so for a moment every five seconds: a client of
/// another library, which is in no line, finds it free.
#[test]
fn those_outside_the_line_have_their_turns() {
    let mut callers = Callers::new();
    callers.cluster.said = None;
    callers.ask_many(4);
    let (mut turns, mut served) = (vec![], 0);
    for step in 0..20_000_u64 {
        callers.run(1);
        for id in callers.holders() {
            callers.release(id);
            callers.ask();
            served += 1;
        }
        if step.is_multiple_of(100) {
            (0..3).for_each(|node| callers.cluster.occupy(node, token(9), 50));
            let ours = callers.cluster.owners().iter().filter(|owner| **owner == Some(token(9))).count();
            if ours >= 2 {
                turns.push(step);
            }
            // It is done with it, or undoes what it has set.
            let now = callers.cluster.node_time();
            for node in &mut callers.cluster.nodes {
                node.table.execute(now, &Command::Undo { key: key("x"), token: token(9), requeue: None });
            }
        }
    }
    assert!((3..=8).contains(&turns.len()), "turns of the other one: {turns:?}");
    assert!(turns.windows(2).all(|pair| pair[1] - pair[0] <= 5_200), "turns of the other one: {turns:?}");
    assert!(served > 14_000, "it costs the others little: {served}");
}
