//! Promises that hold wherever the locks are: one suite for memory nodes, an embedded store and
//! Redis servers. What is special about one of these has tests of its own beside it.
//!
//! Time is tokio's, so that the memory nodes run through it under a clock that is paused.

#[path = "promises/circles.rs"]
mod circles;

use std::task::Poll;
use std::time::Duration;

use tenure::*;
use tokio::time::{Instant, sleep};

/// Where the locks are.
pub(crate) trait Deployment {
    /// How many nodes there are.
    const NODES: usize;

    /// How late something may be noticed here.
    const SLACK: Duration;

    /// A manager of its own, as another program has it.
    fn client(&self) -> impl Future<Output = Locks> {
        self.client_with(|_| {})
    }

    /// The same, and what it is told of is told to `observer`.
    fn client_with(
        &self,
        observer: impl Fn(&Event<'_>) + Send + Sync + 'static,
    ) -> impl Future<Output = Locks>;
}

/// Runs every promise on this deployment, as tests with this attribute.
macro_rules! promises {
    (#[$test:meta] $deployment:expr) => {
        crate::promises::promises! { #[$test] $deployment =>
            one_client_at_a_time_has_the_lock
            the_validity_is_ttl_less_elapsed_less_drift_and_counts_down
            a_lock_frees_itself_when_its_holder_is_gone
            a_release_after_expiry_does_not_touch_the_next_holder
            whoever_asks_is_told_who_has_the_lock_and_how_many_wait
            many_read_at_once_or_one_writes
            readers_and_writers_take_turns
            a_writer_becomes_a_reader_and_lets_no_other_writer_in_between
            a_reader_that_is_gone_is_in_the_way_for_its_own_term_alone
            a_reader_is_handed_over_and_stays_one
            an_owner_holds_the_lock_again_with_the_same_fence
            an_owner_never_waits_for_those_who_wait_for_it
            a_process_of_an_owner_that_is_gone_leaves_the_lock_to_the_others
            an_owner_hands_over_one_hold_and_keeps_the_other
            a_name_has_one_kind_of_lock
            guards_of_one_hold_release_it_together
            one_candidate_at_a_time_leads_and_the_next_one_follows_at_once
            several_names_are_locked_all_or_none
            sets_that_overlap_do_not_deadlock_and_all_are_served
            several_names_are_handed_over_and_lost_as_one
            at_most_so_many_have_a_permit
            a_semaphore_is_resized_while_permits_are_held
            the_last_free_permit_of_many_is_found_at_once
            whoever_waits_for_a_permit_makes_so_many_tries_and_can_be_watched
            a_lock_is_kept_from_others_for_its_period
            a_period_outlives_its_holder_and_a_hand_over
            a_period_that_is_over_is_not_begun_anew_by_a_release
            a_period_begins_only_for_a_caller_that_hears_of_its_lock
            what_keeps_everyone_out_is_not_shared_halfway
            whoever_asks_is_told_who_waits_in_order
            a_wait_that_closes_a_circle_inside_a_manager_fails_at_once
            a_lock_is_not_waited_for_by_whoever_holds_it
            two_and_three_clients_that_wait_in_a_circle_are_told_who_waits_for_whom
            readers_sets_and_owners_are_part_of_circles
            whoever_goes_on_is_in_no_circle
            a_thousand_waits_that_end_by_themselves_report_nobody
        }
    };
    (#[$test:meta] $deployment:expr => $($promise:ident)*) => {
        $(
            #[$test]
            async fn $promise() {
                crate::promises::$promise(&$deployment).await;
            }
        )*
    };
}
pub(crate) use promises;

pub(crate) use self::circles::*;

pub(crate) async fn one_client_at_a_time_has_the_lock(deployment: &impl Deployment) {
    let (first, second) = (deployment.client().await, deployment.client().await);
    let mut guard = first.lock("x").acquire().await.unwrap();
    assert!(second.lock("x").try_acquire().await.unwrap().is_none());
    assert!(second.lock("y").try_acquire().await.unwrap().is_some(), "another name is another lock");
    guard.extend().await.unwrap();
    let waiting = tokio::spawn(second.lock("x").acquire());
    sleep(Duration::from_millis(120)).await;
    assert!(!waiting.is_finished());
    guard.release().await.unwrap();
    assert!(waiting.await.unwrap().unwrap().is_valid());
    let guard = second.lock("x").acquire().await.unwrap();
    guard.release().await.unwrap();
    assert!(first.lock("x").try_acquire().await.unwrap().is_some());
}

pub(crate) async fn the_validity_is_ttl_less_elapsed_less_drift_and_counts_down(
    deployment: &impl Deployment,
) {
    let locks = deployment.client().await;
    let before = Instant::now();
    let mut guard = locks.lock("x").ttl(Duration::from_secs(10)).acquire().await.unwrap();
    let check = |guard: &Guard, begun: Instant| {
        let left = guard.valid_for();
        // 10 s less 1 % less 2 ms, less what has passed since the round began, which was after
        // `begun`.
        assert!(left <= Duration::from_millis(9_898), "{left:?}");
        assert!(
            left + begun.elapsed() >= Duration::from_millis(9_897),
            "{left:?} after {:?}",
            begun.elapsed()
        );
        left
    };
    let first = check(&guard, before);
    sleep(Duration::from_millis(300)).await;
    assert!(check(&guard, before) <= first - Duration::from_millis(299));
    let before = Instant::now();
    guard.extend().await.unwrap();
    check(&guard, before);
}

pub(crate) async fn a_lock_frees_itself_when_its_holder_is_gone<P: Deployment>(deployment: &P) {
    let (crashed, next) = (deployment.client().await, deployment.client().await);
    let start = Instant::now();
    // The worker lives on here, so it is told to renew nothing.
    let lock = crashed.lock("x").ttl(Duration::from_millis(400)).renewal(Renewal::Off);
    std::mem::forget(lock.acquire().await.unwrap());
    next.lock("x").wait_forever().acquire().await.unwrap().release().await.unwrap();
    let freed = Duration::from_millis(500);
    assert!(start.elapsed() >= freed, "ttl and guard band: {:?}", start.elapsed());
    assert!(start.elapsed() < freed + P::SLACK, "and a retry: {:?}", start.elapsed());
}

pub(crate) async fn a_release_after_expiry_does_not_touch_the_next_holder(deployment: &impl Deployment) {
    let (first, second) = (deployment.client().await, deployment.client().await);
    let lock = first.lock("x").ttl(Duration::from_millis(500)).renewal(Renewal::Off);
    let late = lock.acquire().await.unwrap();
    let guard = second.lock("x").wait_forever().acquire().await.unwrap();
    held_everywhere(&second, &guard, deployment).await;
    let error = late.release().await.unwrap_err();
    assert!(matches!(error, ReleaseError::NotHeld { .. }), "{error}");
    held_everywhere(&second, &guard, deployment).await;
    assert!(guard.is_valid());
    guard.release().await.unwrap();
}

pub(crate) async fn whoever_asks_is_told_who_has_the_lock_and_how_many_wait<P: Deployment>(deployment: &P) {
    let (holder, asker) = (deployment.client().await, deployment.client().await);
    let lock = holder.lock("x").ttl(Duration::from_secs(60)).label("nightly import");
    let guard = lock.acquire().await.unwrap();
    let waiting = tokio::spawn(holder.lock("x").wait_forever().acquire());
    let begun = Instant::now();
    let report = loop {
        let report = asker.inspect("x").await.unwrap();
        if report.waiters == Some(1) && report.agree.len() == P::NODES {
            break report;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{report:?}");
        sleep(Duration::from_millis(5)).await;
    };
    let LockState::Held { owner, label, left, fence, .. } = &report.state else { panic!("{report:?}") };
    assert_eq!(owner.len(), 40);
    let label = label.as_deref().unwrap();
    assert!(label.starts_with(&std::process::id().to_string()), "{label}");
    assert!(label.ends_with(" nightly import"), "{label}");
    assert!(left.unwrap() <= Duration::from_secs(66), "{left:?}");
    assert_eq!((*fence, &*report.name), (Some(guard.fence()), "x"));
    let error = asker.lock("x").wait(Duration::ZERO).acquire().await.unwrap_err();
    assert!(error.to_string().contains("nightly import\", 1 ahead of us, 1 in line)"), "{error}");
    guard.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
    holder.shutdown().await.unwrap();
    assert_eq!(asker.inspect("x").await.unwrap().state, LockState::Free);
}

/// Waits until all nodes say that this guard has the lock.
async fn held_everywhere<P: Deployment>(asker: &Locks, guard: &Guard, _: &P) {
    let begun = Instant::now();
    loop {
        let report = asker.inspect("x").await.unwrap();
        match &report.state {
            LockState::Held { fence, .. } => assert_eq!(*fence, Some(guard.fence()), "{report:?}"),
            // A busy machine did not let enough of them answer.
            LockState::Unknown => {}
            _ => panic!("{report:?}"),
        }
        if report.agree.len() == P::NODES {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{report:?}");
        sleep(Duration::from_millis(5)).await;
    }
}

pub(crate) async fn many_read_at_once_or_one_writes(deployment: &impl Deployment) {
    let (first, second) = (deployment.client().await, deployment.client().await);
    let (table, same) = (first.rwlock("t"), second.rwlock("t"));
    let mut one = table.read().acquire().await.unwrap();
    let two = same.read().acquire().await.unwrap();
    let three = table.read().acquire().await.unwrap();
    assert_eq!((one.mode(), two.mode()), (Mode::Shared, Mode::Shared));
    assert!(same.write().try_acquire().await.unwrap().is_none(), "they read");
    assert!(second.lock("t").try_acquire().await.unwrap().is_none(), "a plain lock is a writer");
    one.extend().await.unwrap();
    two.release().await.unwrap();
    three.release().await.unwrap();
    assert!(same.write().try_acquire().await.unwrap().is_none(), "one still reads");
    let fence = one.fence();
    assert!(one.upgrade().unwrap_err().to_string().contains("write()"));
    one.release().await.unwrap();
    let writer = same.write().acquire().await.unwrap();
    assert!(writer.fence() > fence);
    assert!(table.read().try_acquire().await.unwrap().is_none(), "somebody writes");
    let written = writer.fence();
    writer.release().await.unwrap();
    let reader = table.read().acquire().await.unwrap();
    assert!(reader.fence() > written);
    reader.release().await.unwrap();
    let gone = second.lock("t").try_acquire().await.unwrap();
    assert!(gone.is_some(), "nothing is left of them");
}

pub(crate) async fn readers_and_writers_take_turns(deployment: &impl Deployment) {
    let (first, second) = (deployment.client().await, deployment.client().await);
    let (table, same) = (first.rwlock("t"), second.rwlock("t"));
    let reader = table.read().acquire().await.unwrap();
    let writing = tokio::spawn(same.write().acquire());
    sleep(Duration::from_millis(120)).await;
    assert!(!writing.is_finished());
    assert!(
        table.read().try_acquire().await.unwrap().is_none(),
        "a writer waits: whoever comes now does, too"
    );
    let reading: Vec<_> = (0..4).map(|_| tokio::spawn(table.read().acquire())).collect();
    let late = tokio::spawn(second.rwlock("t").write().acquire());
    sleep(Duration::from_millis(120)).await;
    assert!(reading.iter().all(|reading| !reading.is_finished()));
    reader.release().await.unwrap();
    let writer = writing.await.unwrap().unwrap();
    sleep(Duration::from_millis(50)).await;
    assert!(reading.iter().all(|reading| !reading.is_finished()) && !late.is_finished());
    writer.release().await.unwrap();
    let mut readers = vec![];
    for reading in reading {
        readers.push(reading.await.unwrap().unwrap());
    }
    assert!(!late.is_finished(), "readers first, then the next writer");
    for reader in readers {
        reader.release().await.unwrap();
    }
    assert!(late.await.unwrap().unwrap().is_valid());
}

pub(crate) async fn a_writer_becomes_a_reader_and_lets_no_other_writer_in_between(
    deployment: &impl Deployment,
) {
    let (first, second) = (deployment.client().await, deployment.client().await);
    let (table, same) = (first.rwlock("t"), second.rwlock("t"));
    let mut guard = table.write().acquire().await.unwrap();
    let fence = guard.fence();
    let reading = tokio::spawn(same.read().acquire());
    sleep(Duration::from_millis(120)).await;
    assert!(!reading.is_finished());
    guard.downgrade().await.unwrap();
    assert_eq!((guard.mode(), guard.fence()), (Mode::Shared, fence));
    let reader = reading.await.unwrap().unwrap();
    assert!(reader.fence() > fence && guard.is_valid());
    assert!(same.write().try_acquire().await.unwrap().is_none());
    // Both are extended as what they are.
    guard.extend().await.unwrap();
    guard.release().await.unwrap();
    assert!(same.write().try_acquire().await.unwrap().is_none(), "one still reads");
    reader.release().await.unwrap();
    assert!(same.write().acquire().await.unwrap().fence() > fence);
}

pub(crate) async fn a_reader_that_is_gone_is_in_the_way_for_its_own_term_alone(deployment: &impl Deployment) {
    let (first, second) = (deployment.client().await, deployment.client().await);
    let ttl = Duration::from_millis(800);
    let live = first.rwlock("t").read().ttl(ttl).acquire().await.unwrap();
    let begun = Instant::now();
    let gone = second.rwlock("t").read().ttl(ttl).acquire().await.unwrap().hand_over();
    // The one that lives renews itself meanwhile, and the other does not live by it.
    sleep(3 * ttl / 2).await;
    assert!(live.is_valid());
    live.release().await.unwrap();
    let writer = first.rwlock("t").write().wait(Duration::from_secs(20)).acquire().await.unwrap();
    assert!(begun.elapsed() < 3 * ttl + TTL_SLACK, "{:?}", begun.elapsed());
    let _ = second.release(&gone).await;
    assert!(writer.is_valid());
}

/// What a busy machine may add.
const TTL_SLACK: Duration = Duration::from_secs(6);

pub(crate) async fn a_reader_is_handed_over_and_stays_one(deployment: &impl Deployment) {
    let (first, second) = (deployment.client().await, deployment.client().await);
    let guard = first.rwlock("t").read().acquire().await.unwrap();
    let fence = guard.fence();
    let text = LeaseToken::of(&guard.hand_over()).to_string();
    let token: LeaseToken = text.parse().unwrap();
    let guard = second.resume(&token.handover("t", token.ttl())).await.unwrap();
    assert_eq!((guard.mode(), guard.fence()), (Mode::Shared, fence));
    let other = first.rwlock("t").read().acquire().await.unwrap();
    assert!(first.rwlock("t").write().try_acquire().await.unwrap().is_none());
    let handover = guard.hand_over();
    first.release(&handover).await.unwrap();
    assert!(first.release(&handover).await.is_err(), "it is not held any more");
    other.release().await.unwrap();
    assert!(second.rwlock("t").write().acquire().await.unwrap().is_valid());
}

pub(crate) async fn an_owner_holds_the_lock_again_with_the_same_fence(deployment: &impl Deployment) {
    let (first, second) = (deployment.client().await, deployment.client().await);
    let owner = |locks: &Locks| locks.lock("x").owner("job-1");
    let other = second.lock("x").owner("job-2");
    let before = other.acquire().await.unwrap();
    let earlier = before.fence();
    before.release().await.unwrap();
    let mut outer = owner(&first).acquire().await.unwrap();
    let (inner, third) = (owner(&second).acquire().await.unwrap(), owner(&first).acquire().await.unwrap());
    assert!(outer.fence() > earlier);
    assert_eq!([inner.fence(), third.fence()], [outer.fence(); 2], "one fence for all of them");
    assert!(other.try_acquire().await.unwrap().is_none());
    let report = second.inspect("x").await.unwrap();
    let LockState::Held { kind, sharers, ref owner, .. } = report.state else { panic!("{report:?}") };
    assert_eq!((kind, sharers, &**owner), (Kind::Reentrant, Some(3), "job-1"));
    inner.release().await.unwrap();
    outer.extend().await.unwrap();
    third.release().await.unwrap();
    assert!(other.try_acquire().await.unwrap().is_none(), "one hold is left");
    let fence = outer.fence();
    outer.release().await.unwrap();
    assert!(other.acquire().await.unwrap().fence() > fence);
}

pub(crate) async fn an_owner_never_waits_for_those_who_wait_for_it(deployment: &impl Deployment) {
    let (first, second) = (deployment.client().await, deployment.client().await);
    let outer = first.lock("x").owner("job-1").acquire().await.unwrap();
    let waiting = tokio::spawn(second.lock("x").owner("job-2").wait(Duration::from_secs(30)).acquire());
    sleep(Duration::from_millis(300)).await;
    assert!(!waiting.is_finished());
    let inner = second.lock("x").owner("job-1").acquire().await.unwrap();
    assert_eq!(inner.fence(), outer.fence());
    let fence = outer.fence();
    outer.release().await.unwrap();
    sleep(Duration::from_millis(300)).await;
    assert!(!waiting.is_finished(), "one hold is left");
    inner.release().await.unwrap();
    assert!(waiting.await.unwrap().unwrap().fence() > fence);
}

pub(crate) async fn a_process_of_an_owner_that_is_gone_leaves_the_lock_to_the_others(
    deployment: &impl Deployment,
) {
    let (first, second) = (deployment.client().await, deployment.client().await);
    let ttl = Duration::from_millis(800);
    let owner = |locks: &Locks| locks.lock("x").owner("job-1").ttl(ttl);
    let gone = owner(&first).renewal(Renewal::Off).acquire().await.unwrap();
    let (fence, lives) = (gone.fence(), owner(&second).acquire().await.unwrap());
    std::mem::forget(gone);
    sleep(2 * ttl).await;
    assert!(lives.is_valid() && lives.fence() == fence, "it goes on with the same fence");
    let report = second.inspect("x").await.unwrap();
    assert!(matches!(report.state, LockState::Held { sharers: Some(1), .. }), "{report:?}");
    let again = owner(&first).acquire().await.unwrap();
    assert_eq!(again.fence(), fence, "whoever comes later joins those who are left");
    again.release().await.unwrap();
    lives.release().await.unwrap();
    assert!(first.lock("x").owner("job-2").try_acquire().await.unwrap().is_some());
}

pub(crate) async fn an_owner_hands_over_one_hold_and_keeps_the_other(deployment: &impl Deployment) {
    let (first, second) = (deployment.client().await, deployment.client().await);
    let outer = first.lock("x").owner("job 1".replace(' ', "/")).acquire().await.unwrap();
    let inner = first.lock("x").owner("job/1").acquire().await.unwrap();
    let text = LeaseToken::of(&inner.hand_over()).to_string();
    let token: LeaseToken = text.parse().unwrap();
    let inner = second.resume(&token.handover("x", token.ttl())).await.unwrap();
    assert_eq!((inner.mode(), inner.fence()), (outer.mode(), outer.fence()));
    outer.release().await.unwrap();
    assert!(first.lock("x").owner("job/2").try_acquire().await.unwrap().is_none());
    let handover = inner.hand_over();
    first.release(&handover).await.unwrap();
    assert!(first.release(&handover).await.is_err(), "it is not held any more");
    assert!(first.lock("x").owner("job/2").try_acquire().await.unwrap().is_some());
}

pub(crate) async fn a_name_has_one_kind_of_lock(deployment: &impl Deployment) {
    let locks = deployment.client().await;
    let plain = || locks.lock("x").wait_forever();
    let (shared, owned) = (plain().shared(), plain().owner("job-1"));
    for (holder, others) in [(plain(), vec![&owned]), (shared.clone(), vec![&owned])] {
        let guard = holder.acquire().await.unwrap();
        refused_at_once(&others, Kind::Plain).await;
        assert!(guard.is_valid());
        guard.release().await.unwrap();
    }
    let guard = owned.acquire().await.unwrap();
    refused_at_once(&[&plain(), &shared, &plain().unfenced()], Kind::Reentrant).await;
    guard.release().await.unwrap();
    assert!(plain().acquire().await.unwrap().is_valid(), "it is whatever comes next");
    let bad = locks.lock("x").owner("two words").try_acquire().await.unwrap_err();
    assert!(matches!(bad, AcquireError::InvalidOption { error: OptionError::Owner(_), .. }), "{bad}");
}

async fn refused_at_once(others: &[&Lock], there: Kind) {
    for other in others {
        let refused = tokio::time::timeout(Duration::from_secs(20), other.acquire()).await.unwrap();
        let error = refused.map(|_| ()).unwrap_err();
        let AcquireError::OtherKind { asked, found, .. } = &error else { panic!("{error}") };
        // A server does not say what a key is that is no string, if it is asked for a lock without
        // a fence.
        assert!(asked != found && (*found == there || *found == Kind::Foreign), "{error}");
        assert!(error.to_string().contains(&asked.to_string()), "{error}");
    }
}

pub(crate) async fn guards_of_one_hold_release_it_together(deployment: &impl Deployment) {
    let locks = deployment.client().await;
    for lock in [locks.lock("x"), locks.lock("x").owner("job-1")] {
        let outer = lock.acquire().await.unwrap();
        let (inner, dropped) = (outer.reenter(), outer.reenter());
        assert_eq!((inner.fence(), inner.mode()), (outer.fence(), outer.mode()));
        drop(dropped);
        outer.release().await.unwrap();
        assert!(inner.is_valid());
        let other = locks.lock("x").owner("job-2");
        let taken = other.try_acquire().await;
        assert!(!matches!(taken, Ok(Some(_))), "the inner guard holds it");
        inner.release().await.unwrap();
        other.acquire().await.unwrap().release().await.unwrap();
    }
}

pub(crate) async fn one_candidate_at_a_time_leads_and_the_next_one_follows_at_once(
    deployment: &impl Deployment,
) {
    let (first, second) = (deployment.client().await, deployment.client().await);
    let (resign, resigned) = tokio::sync::oneshot::channel::<()>();
    let (elected, is_elected) = tokio::sync::oneshot::channel();
    let mut start = Some((elected, resigned));
    let leading = tokio::spawn(async move {
        let work = |term: Term| {
            let (elected, resigned) = start.take().expect("it is elected once");
            elected.send(term.epoch()).unwrap();
            async move {
                let _term = term;
                resigned.await.unwrap();
                Instant::now()
            }
        };
        first.leader("x").run(work).await.unwrap()
    });
    let epoch = is_elected.await.unwrap();
    let follower = second.clone();
    let following = tokio::spawn(async move {
        follower.leader("x").run(async |term| (term.epoch(), Instant::now())).await.unwrap()
    });
    sleep(Duration::from_millis(300)).await;
    let incumbent = second.leader("x").observe().next().await.unwrap().unwrap();
    assert_eq!(incumbent.epoch, epoch, "the first leads");
    assert!(!following.is_finished());
    resign.send(()).unwrap();
    let done = leading.await.unwrap();
    let (next, begun) = following.await.unwrap();
    assert!(next > epoch && begun >= done, "{next} after {epoch}");
    // Far sooner than its term would have ended.
    assert!(begun - done < Duration::from_secs(10), "{:?}", begun - done);
}

pub(crate) async fn several_names_are_locked_all_or_none(deployment: &impl Deployment) {
    let (first, second) = (deployment.client().await, deployment.client().await);
    let before = first.lock("b").acquire().await.unwrap();
    let fence = before.fence();
    assert!(second.lock_all(["a", "b"]).try_acquire().await.unwrap().is_none());
    assert!(first.lock("a").try_acquire().await.unwrap().is_some(), "nothing is left of the attempt");
    before.release().await.unwrap();
    let both = second.lock_all(["b", "a", "b"]).acquire().await.unwrap();
    assert_eq!(both.names().collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(both.name(), "a, b");
    assert!(both.fence() > fence, "larger than the last of each");
    for name in ["a", "b"] {
        assert!(first.lock(name).try_acquire().await.unwrap().is_none(), "{name}");
    }
    assert!(first.lock("c").try_acquire().await.unwrap().is_some());
    let waiting = tokio::spawn(first.lock("b").acquire());
    sleep(Duration::from_millis(300)).await;
    assert!(!waiting.is_finished());
    let fence = both.fence();
    both.release().await.unwrap();
    assert!(waiting.await.unwrap().unwrap().fence() > fence);
    for (names, expected) in [(vec![], "0 names"), ((0..33).map(|it| it.to_string()).collect(), "33 names")] {
        let error = first.lock_all(names).acquire().await.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let error = first.lock_all(["a", "b"]).shared().acquire().await.unwrap_err().to_string();
    assert!(error.contains("exclusively"), "{error}");
}

pub(crate) async fn sets_that_overlap_do_not_deadlock_and_all_are_served(deployment: &impl Deployment) {
    let counts = std::sync::Arc::new([const { std::sync::atomic::AtomicU32::new(0) }; 4]);
    let mut workers = vec![];
    for worker in 0..8_usize {
        let (locks, counts) = (deployment.client().await, counts.clone());
        workers.push(tokio::spawn(async move {
            for round in 0..6_usize {
                // Every pair and triple, in every order.
                let size = 1 + (worker + round) % 3;
                let names: Vec<usize> = (0..size).map(|next| (worker + round * next + next) % 4).collect();
                let lock = locks.lock_all(names.iter().map(ToString::to_string));
                let guard = lock.wait(Duration::from_secs(60)).acquire().await.unwrap();
                let names: std::collections::BTreeSet<usize> = names.into_iter().collect();
                for name in &names {
                    let others = counts[*name].fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                    assert_eq!(others, 0, "{name} is held twice");
                }
                sleep(Duration::from_millis(3)).await;
                for name in &names {
                    counts[*name].fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                }
                // On a busy machine a majority may not say in time that it is released.
                let released = guard.release().await;
                assert!(matches!(released, Ok(_) | Err(ReleaseError::Unavailable { .. })), "{released:?}");
            }
        }));
    }
    for worker in workers {
        worker.await.unwrap();
    }
}

pub(crate) async fn several_names_are_handed_over_and_lost_as_one(deployment: &impl Deployment) {
    let (first, second) = (deployment.client().await, deployment.client().await);
    let ttl = Duration::from_secs(2);
    let guard = first.lock_all(["a", "b"]).ttl(ttl).acquire().await.unwrap();
    let (fence, handover) = (guard.fence(), guard.hand_over().to_string());
    let handover: Handover = handover.parse().unwrap();
    let mut guard = second.resume(&handover).await.unwrap();
    assert_eq!((guard.fence(), guard.names().count()), (fence, 2));
    // It is renewed as one.
    sleep(ttl * 2).await;
    assert!(guard.is_valid());
    guard.extend().await.unwrap();
    // Somebody takes one of the names away.
    for owner in first.inspect("b").await.unwrap().owners() {
        first.release_by_force("b", owner).await.unwrap();
    }
    guard.lost().await;
    assert!(guard.extend().await.is_err());
    drop(guard);
    let again = first.lock_all(["a", "b"]).wait(ttl * 4).acquire().await.unwrap();
    assert!(again.fence() > fence);
    assert!(second.release(&handover).await.is_err(), "the old token releases nothing");
    assert!(again.is_valid() && second.lock("a").try_acquire().await.unwrap().is_none());
}

pub(crate) async fn at_most_so_many_have_a_permit(deployment: &impl Deployment) {
    let (first, second) = (deployment.client().await, deployment.client().await);
    let mut held = vec![];
    for locks in [&first, &second, &first] {
        held.push(locks.semaphore("s", 3).acquire().await.unwrap());
    }
    let slots: std::collections::BTreeSet<_> = held.iter().filter_map(Guard::slot).collect();
    assert_eq!(slots.into_iter().collect::<Vec<_>>(), [0, 1, 2]);
    assert!(second.semaphore("s", 3).try_acquire().await.unwrap().is_none());
    assert!(second.lock("s").try_acquire().await.unwrap().is_some(), "the lock is something else");
    let waiting = second.clone();
    let waiting = tokio::spawn(async move {
        waiting.semaphore("s", 3).wait(Duration::from_secs(30)).acquire().await.unwrap()
    });
    sleep(Duration::from_millis(300)).await;
    assert!(!waiting.is_finished());
    let (slot, fence) = (held[1].slot(), held[1].fence());
    held.remove(1).release().await.unwrap();
    let next = waiting.await.unwrap();
    assert_eq!(next.slot(), slot);
    assert!(next.fence() > fence, "a fence orders the holders of one slot");
    for permits in [0, 65] {
        let error = first.semaphore("s", permits).acquire().await.unwrap_err().to_string();
        assert!(error.contains("1 to 64"), "{error}");
    }
}

pub(crate) async fn a_semaphore_is_resized_while_permits_are_held(deployment: &impl Deployment) {
    let locks = deployment.client().await;
    let mut held = vec![];
    for _ in 0..8 {
        held.push(locks.semaphore("s", 8).acquire().await.unwrap());
    }
    assert!(locks.semaphore("s", 3).try_acquire().await.unwrap().is_none(), "all of the three are taken");
    // The higher ones run out.
    held.retain(|guard| guard.slot().is_some_and(|slot| slot < 2));
    sleep(Duration::from_millis(200)).await;
    let third = locks.semaphore("s", 3).wait(Duration::from_secs(10)).acquire().await.unwrap();
    assert_eq!(third.slot(), Some(2));
    assert!(locks.semaphore("s", 3).try_acquire().await.unwrap().is_none());
    for _ in 0..13 {
        held.push(locks.semaphore("s", 16).wait(Duration::from_secs(10)).acquire().await.unwrap());
    }
    assert!(locks.semaphore("s", 16).try_acquire().await.unwrap().is_none());
}

/// Nodes look at thirty-two locks together, and there are up to twice as many slots.
pub(crate) async fn the_last_free_permit_of_many_is_found_at_once(deployment: &impl Deployment) {
    let locks = deployment.client().await;
    let many = locks.semaphore("s", SLOTS_MAX).ttl(Duration::from_secs(60));
    let mut held = vec![];
    for _ in 1..SLOTS_MAX {
        held.push(many.try_acquire().await.unwrap().expect("there is a free one"));
    }
    for _ in 0..20 {
        many.try_acquire().await.unwrap().expect("there is a free one").release().await.unwrap();
    }
    held.push(many.try_acquire().await.unwrap().expect("there is a free one"));
    assert!(many.try_acquire().await.unwrap().is_none());
}

pub(crate) async fn whoever_waits_for_a_permit_makes_so_many_tries_and_can_be_watched(
    deployment: &impl Deployment,
) {
    let locks = deployment.client().await;
    let only = locks.semaphore("s", 1);
    let held = only.acquire().await.unwrap();
    let retry = Retry::default().delay(Duration::from_millis(10)).tries_max(3);
    let tries = only.clone().wait_forever().with(|slot| slot.unqueued().retry(retry));
    let error = tries.acquire().await.unwrap_err();
    assert!(matches!(error, AcquireError::Contended { attempts: 3, .. }), "{error:?}");
    let (acquire, in_line) = only.clone().wait(Duration::from_secs(30)).acquire_in_line();
    let waiting = tokio::spawn(acquire);
    let place = loop {
        match in_line.place() {
            Some(place) => break place,
            None => sleep(Duration::from_millis(2)).await,
        }
    };
    assert_eq!((place.ahead, place.waiters), (0, 1));
    held.release().await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap().slot(), Some(0));
    let error = locks.semaphore("", 2).try_acquire().await.unwrap_err();
    assert!(matches!(error, AcquireError::InvalidName { .. }), "{error}");
}

pub(crate) async fn a_lock_is_kept_from_others_for_its_period(deployment: &impl Deployment) {
    let (first, second) = (deployment.client().await, deployment.client().await);
    let period = Duration::from_secs(3);
    let lock = first.lock("x").ttl(Duration::from_secs(1)).at_least(period);
    let begun = Instant::now();
    let guard = lock.acquire().await.unwrap();
    let (fence, token) = (guard.fence(), guard.to_handover());
    guard.release().await.unwrap();
    assert!(second.lock("x").try_acquire().await.unwrap().is_none(), "it is kept");
    assert!(second.resume(&token).await.is_err(), "by nobody's token");
    let report = second.inspect("x").await.unwrap();
    assert!(matches!(&report.state, LockState::Kept { left: Some(_), .. }), "{report:?}");
    let next = second.lock("x").wait(period * 3).acquire().await.unwrap();
    let took = begun.elapsed();
    assert!(took >= period * 98 / 100, "{took:?}");
    assert!(took <= period + deployment_slack(deployment), "{took:?}");
    assert!(next.fence() > fence);
    next.release().await.unwrap();
    // The work failed: others may try at once.
    lock.acquire().await.unwrap().release_early().await.unwrap();
    // A hold that is longer than the period ends with its release.
    let long = first.lock("x").at_least(Duration::from_millis(100)).acquire().await.unwrap();
    sleep(Duration::from_millis(200)).await;
    long.release().await.unwrap();
    let kept = lock.acquire().await.unwrap();
    kept.release().await.unwrap();
    for owner in second.inspect("x").await.unwrap().owners() {
        second.release_by_force("x", owner).await.unwrap();
    }
    assert!(second.lock("x").try_acquire().await.unwrap().is_some(), "an operator may");
    let error = first.lock("x").at_least(Duration::from_secs(61)).acquire().await.unwrap_err().to_string();
    assert!(error.contains("max_ttl"), "{error}");
    let error = first.lock("x").shared().at_least(period).acquire().await.unwrap_err().to_string();
    assert!(error.contains("exclusive"), "{error}");
}

pub(crate) async fn a_period_outlives_its_holder_and_a_hand_over(deployment: &impl Deployment) {
    let (first, second) = (deployment.client().await, deployment.client().await);
    let period = Duration::from_secs(4);
    let lock = first.lock("x").ttl(Duration::from_millis(500)).at_least(period);
    let begun = Instant::now();
    // Nobody releases it, and nobody renews it.
    let abandoned = lock.acquire().await.unwrap().hand_over();
    sleep(period / 2).await;
    assert!(second.lock("x").try_acquire().await.unwrap().is_none());
    let next = second.lock("x").wait(period * 3).acquire().await.unwrap();
    assert!(begun.elapsed() >= period * 98 / 100, "{:?}", begun.elapsed());
    next.release().await.unwrap();
    assert!(second.resume(&abandoned).await.is_err());
    // Another process goes on with it, and releases it soon.
    let begun = Instant::now();
    let handover = lock.acquire().await.unwrap().hand_over();
    let word = LeaseToken::of(&handover).to_string();
    let token: LeaseToken = word.parse().unwrap();
    let guard = second.resume(&token.handover("x", token.ttl())).await.unwrap();
    guard.release().await.unwrap();
    assert!(first.lock("x").try_acquire().await.unwrap().is_none());
    drop(first.lock("x").wait(period * 3).acquire().await.unwrap());
    assert!(begun.elapsed() >= period * 98 / 100, "{:?}", begun.elapsed());
}

pub(crate) async fn a_period_that_is_over_is_not_begun_anew_by_a_release(deployment: &impl Deployment) {
    let (first, second) = (deployment.client().await, deployment.client().await);
    let period = Duration::from_secs(3);
    let handover = first.lock("x").at_least(period).acquire().await.unwrap().hand_over();
    sleep(period / 2).await;
    let word = LeaseToken::of(&handover).to_string();
    sleep(period).await;
    // The process that releases it knows no more than the word.
    let token: LeaseToken = word.parse().unwrap();
    second.release(&token.handover("x", token.ttl())).await.unwrap();
    assert!(first.lock("x").try_acquire().await.unwrap().is_some());
}

pub(crate) async fn a_period_begins_only_for_a_caller_that_hears_of_its_lock(deployment: &impl Deployment) {
    let (first, second) = (deployment.client().await, deployment.client().await);
    let lock = first.lock("x").ttl(Duration::from_secs(1)).at_least(Duration::from_secs(20));
    // It is granted, but its caller is gone before it looks.
    let mut acquire = Box::pin(lock.acquire());
    let begun = std::future::poll_fn(|cx| Poll::Ready(acquire.as_mut().poll(cx).is_ready())).await;
    assert!(!begun, "the nodes are still to be asked");
    sleep(Duration::from_millis(300)).await;
    assert!(!second.inspect("x").await.unwrap().owners().is_empty(), "it is held");
    drop(acquire);
    let next = second.lock("x").wait(Duration::from_secs(5)).acquire().await.unwrap();
    next.release().await.unwrap();
    // Whoever has heard of it may have begun the work.
    drop(lock.acquire().await.unwrap());
    sleep(Duration::from_millis(300)).await;
    assert!(second.lock("x").try_acquire().await.unwrap().is_none(), "it is kept");
}

/// A set, a lock that is kept for its period, and a permit do not become a reader's.
pub(crate) async fn what_keeps_everyone_out_is_not_shared_halfway(deployment: &impl Deployment) {
    let (first, second) = (deployment.client().await, deployment.client().await);
    let period = Duration::from_secs(2);
    let guards = [
        first.lock_all(["a", "b"]).acquire().await.unwrap(),
        first.lock("c").at_least(period).acquire().await.unwrap(),
        first.semaphore("s", 1).acquire().await.unwrap(),
    ];
    for mut guard in guards {
        let error = guard.downgrade().await.unwrap_err();
        assert!(matches!(error, ExtendError::InvalidOption { .. }), "{error}");
        assert!(error.to_string().contains("only be"), "{error}");
        assert!(guard.mode().is_exclusive() && guard.is_valid());
        guard.extend().await.unwrap();
        for name in guard.names() {
            let reader = second.lock(name).shared().try_acquire().await.unwrap();
            assert!(reader.is_none(), "{name} has a reader");
        }
    }
    // Nor is one asked for.
    let readers = |semaphore: Semaphore| semaphore.with(Lock::shared);
    let owners = |semaphore: Semaphore| semaphore.with(|lock| lock.owner("deploy"));
    for semaphore in [readers(first.semaphore("s", 2)), owners(first.semaphore("s", 2))] {
        let error = semaphore.try_acquire().await.unwrap_err();
        assert!(matches!(error, AcquireError::InvalidOption { .. }), "{error}");
        assert!(semaphore.acquire().await.unwrap_err().to_string().contains("exclusively"));
    }
}

fn deployment_slack<D: Deployment>(_: &D) -> Duration {
    D::SLACK
}
