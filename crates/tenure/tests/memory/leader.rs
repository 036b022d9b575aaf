//! One leader among many candidates, under paused time.

use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenure::*;
use tokio::time::{Instant, sleep, timeout};

use crate::support::*;

const TTL: Duration = secs(10);

/// When work was dropped.
struct Dropped(Arc<Mutex<Option<Instant>>>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.lock().unwrap().get_or_insert_with(Instant::now);
    }
}

#[tokio::test(start_paused = true)]
async fn candidates_lead_one_at_a_time_in_the_order_in_which_they_came() {
    let nodes = nodes::<5>();
    let log = Arc::new(Mutex::new(vec![]));
    let mut candidates = vec![];
    for number in 0..4 {
        let (locks, log) = (paused(&nodes), log.clone());
        candidates.push(tokio::spawn(async move {
            let work = async |term: Term| {
                log.lock().unwrap().push((number, term.epoch(), true));
                sleep(secs(60)).await;
                assert!(term.guard().is_valid());
                log.lock().unwrap().push((number, term.epoch(), false));
            };
            locks.leader("x").ttl(TTL).run(work).await.unwrap();
        }));
        sleep(secs(1)).await;
    }
    let start = Instant::now();
    for candidate in candidates {
        candidate.await.unwrap();
    }
    assert!(start.elapsed() < secs(4 * 60), "each follows at once: {:?}", start.elapsed());
    let log = log.lock().unwrap();
    let order: Vec<(usize, bool)> = log.iter().map(|(number, _, begins)| (*number, *begins)).collect();
    let expected: Vec<(usize, bool)> = (0..4).flat_map(|number| [(number, true), (number, false)]).collect();
    assert_eq!(order, expected);
    let epochs: Vec<Fence> = log.iter().step_by(2).map(|(_, epoch, _)| *epoch).collect();
    assert!(epochs.is_sorted_by(|one, other| one < other), "{epochs:?}");
}

#[tokio::test(start_paused = true)]
async fn work_is_cancelled_before_the_term_ends_and_begins_again_with_the_next_election() {
    let nodes = nodes::<3>();
    let locks = paused(&nodes);
    let (elected, dropped) = (Arc::new(Mutex::new(vec![])), Arc::<Mutex<_>>::default());
    let (seen, ends) = (elected.clone(), Arc::clone(&dropped));
    let running = tokio::spawn(async move {
        let work = async |term: Term| {
            let _dropped = Dropped(ends.clone());
            seen.lock().unwrap().push((term.epoch(), Instant::now()));
            pending::<()>().await;
        };
        locks.leader("x").ttl(TTL).run(work).await
    });
    sleep(secs(30)).await;
    assert_eq!(elected.lock().unwrap().len(), 1);
    fail(&nodes, &Faults::unreachable());
    let cut = Instant::now();
    sleep(secs(60)).await;
    let cancelled = dropped.lock().unwrap().expect("the work was cancelled");
    assert!(cancelled < cut + TTL, "before its validity could end: {:?}", cancelled - cut);
    assert_eq!(elected.lock().unwrap().len(), 1, "nobody is elected without nodes");
    fail(&nodes, &Faults::none());
    sleep(secs(15)).await;
    {
        let elected = elected.lock().unwrap();
        assert_eq!(elected.len(), 2, "it campaigned all the while");
        assert!(elected[1].0 > elected[0].0 && elected[1].1 > cut + secs(60));
    }
    running.abort();
    assert!(running.await.unwrap_err().is_cancelled());
    let next = paused(&nodes).lock("x").wait(secs(1)).acquire().await;
    assert!(next.is_ok(), "who is dropped has resigned: {next:?}");
}

#[tokio::test(start_paused = true)]
async fn who_resigns_comes_behind_those_who_wait_and_stands_again() {
    let nodes = nodes::<3>();
    let log = Arc::new(Mutex::new(vec![]));
    let mut candidates = vec![];
    for number in 0..2 {
        let (locks, log) = (paused(&nodes), log.clone());
        candidates.push(tokio::spawn(async move {
            let mut terms = 0;
            let work = |term: Term| {
                log.lock().unwrap().push(number);
                terms += 1;
                async move {
                    sleep(secs(5)).await;
                    if terms < 3 {
                        term.resign().await;
                    }
                }
            };
            locks.leader("x").ttl(TTL).run(work).await.unwrap();
        }));
        sleep(secs(1)).await;
    }
    for candidate in candidates {
        candidate.await.unwrap();
    }
    assert_eq!(*log.lock().unwrap(), [0, 1, 0, 1, 0, 1]);
    assert_eq!(keys(&nodes), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn observers_are_told_who_leads_and_who_comes_after() {
    let nodes = nodes::<3>();
    let (locks, watcher) = (paused(&nodes), paused(&nodes));
    let mut incumbents = watcher.leader("x").observe();
    assert_eq!(incumbents.next().await.unwrap(), None);
    let mut told = vec![];
    for label in ["one", "two"] {
        let leader = locks.leader("x").label(label).ttl(TTL);
        let leading = tokio::spawn(leader.run(async |_term| pending::<()>().await));
        told.push(timeout(secs(5), incumbents.next()).await.unwrap().unwrap().unwrap());
        leading.abort();
        assert_eq!(timeout(secs(5), incumbents.next()).await.unwrap().unwrap(), None);
    }
    assert!(told[0].label.as_ref().is_some_and(|label| label.ends_with(" one")), "{told:?}");
    assert!(told[1].epoch > told[0].epoch);
    // While the nodes cannot be asked, nothing is known.
    fail(&nodes, &Faults::unreachable());
    assert!(timeout(secs(30), incumbents.next()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn what_no_waiting_helps_against_is_an_error_at_once() {
    let nodes = nodes::<3>();
    let locks = paused(&nodes);
    let work = async |_: Term| panic!("it is not elected");
    let error = locks.leader("").run(work).await.unwrap_err();
    assert!(matches!(error, AcquireError::InvalidName { .. }), "{error}");
    let error = locks.leader("x").ttl(ms(1)).run(work).await.unwrap_err();
    assert!(matches!(error, AcquireError::InvalidOption { .. }), "{error}");
    let owned = locks.lock("x").owner("job").acquire().await.unwrap();
    let error = locks.leader("x").run(work).await.unwrap_err();
    assert!(matches!(error, AcquireError::OtherKind { .. }), "{error}");
    drop(owned);
}

/// Work that was spawned keeps the term, and resigning is up to it.
#[tokio::test(start_paused = true)]
async fn a_term_that_was_given_to_a_task_of_its_own_ends_when_that_resigns() {
    let nodes = nodes::<3>();
    for returns_at_once in [false, true] {
        let leader = paused(&nodes).leader("x").ttl(TTL);
        let running = tokio::spawn(leader.run(move |term: Term| async move {
            let spawned = tokio::spawn(async move {
                let ended = term.guard().cancellation_token();
                tokio::spawn(async move {
                    sleep(secs(5)).await;
                    term.resign().await;
                });
                ended.cancelled().await;
            });
            if !returns_at_once {
                spawned.await.unwrap();
            }
        }));
        sleep(secs(1)).await;
        let other = paused(&nodes).lock("x").wait_forever();
        assert!(other.try_acquire().await.unwrap().is_none(), "the task leads");
        let begun = Instant::now();
        let next = other.acquire().await.unwrap();
        assert!((secs(3)..secs(5)).contains(&begun.elapsed()), "{:?}", begun.elapsed());
        assert_eq!(running.is_finished(), returns_at_once, "it stands again, unless it is done");
        running.abort();
        next.release().await.unwrap();
        sleep(secs(1)).await;
    }
}

/// The same if the candidate is dropped, before or after that.
#[tokio::test(start_paused = true)]
async fn a_term_that_resigns_ends_although_its_candidate_was_dropped() {
    let nodes = nodes::<3>();
    for (dropped_after, resigns_after) in [(secs(5), secs(2)), (secs(2), secs(5))] {
        let leader = paused(&nodes).leader("x").ttl(TTL);
        // Nobody looks at the candidate for a while: it does not hear that its term has resigned.
        let (asked, mut held) = (Arc::new(Mutex::new(None)), None);
        let given = asked.clone();
        let mut candidate = Box::pin(leader.run(move |term: Term| {
            given.lock().unwrap().replace(term);
            pending::<()>()
        }));
        while held.is_none() {
            let _ = timeout(ms(10), &mut candidate).await;
            held = asked.lock().unwrap().take();
        }
        let term = held.unwrap();
        let begun = Instant::now();
        let resigning = tokio::spawn(async move {
            sleep(resigns_after).await;
            term.resign().await;
        });
        sleep(dropped_after).await;
        drop(candidate);
        let next = paused(&nodes).lock("x").wait(secs(60)).acquire().await.unwrap();
        assert!(begun.elapsed() < secs(6), "{:?}", begun.elapsed());
        next.release().await.unwrap();
        resigning.abort();
    }
}

/// A manager may have defaults that make sense for its locks, and none for an election.
#[tokio::test(start_paused = true)]
async fn an_election_has_one_leader_and_candidates_that_do_not_give_up_whatever_the_defaults() {
    let nodes = nodes::<3>();
    let mut defaults = Options::default();
    (defaults.mode, defaults.retry) = (Mode::Shared, Retry::default().tries_max(1));
    (defaults.fenced, defaults.renewals_max) = (false, Some(1));
    let locks = || builder(&nodes).tokio_time().defaults(defaults.clone()).build().unwrap();
    let work = async |term: Term| {
        assert_ne!(term.epoch(), Fence::NONE);
        sleep(secs(30)).await;
    };
    let leads = |locks: Locks| tokio::spawn(locks.leader("x").ttl(TTL).run(work));
    let candidates = [leads(locks()), leads(locks())];
    let begun = Instant::now();
    for candidate in candidates {
        candidate.await.unwrap().unwrap();
    }
    assert!(begun.elapsed() >= secs(60), "one after the other: {:?}", begun.elapsed());
}
