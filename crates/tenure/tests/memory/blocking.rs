//! The facade for programs without a runtime: what is special about it. That it has everything is
//! shown by `blocking_has_all.rs`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use tenure::blocking::{self, Error};
use tenure::*;

use crate::support::*;

fn locks(nodes: &[MemoryNode]) -> blocking::Locks {
    blocking::Locks::build(builder(nodes)).unwrap()
}

#[test]
fn the_blocking_facade_does_the_same() {
    let nodes = nodes::<5>();
    let locks = locks(&nodes);
    let mut guard = locks.lock("x").acquire().unwrap();
    assert!(locks.lock("x").try_acquire().unwrap().is_none());
    guard.extend().unwrap();
    guard.extend_for(secs(40)).unwrap();
    assert!(guard.valid_for() > secs(39));
    let error = locks.lock("x").wait(ms(50)).acquire().unwrap_err();
    assert!(matches!(error, Error::Operation(AcquireError::Contended { .. })), "{error}");
    assert_eq!(guard.release().unwrap().votes.nodes(), 5);
    drop(locks.lock("x").acquire().unwrap());
    locks.shutdown().unwrap();
    assert_eq!(keys(&nodes), [""; 0]);
}

#[test]
fn inside_a_runtime_it_is_an_error_and_never_a_panic() {
    let nodes = nodes::<3>();
    let outside = locks(&nodes);
    let mut guard = outside.lock("held").acquire().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let locks = locks(&nodes);
        assert!(matches!(locks.lock("x").acquire(), Err(Error::InsideRuntime)));
        assert!(matches!(locks.lock("x").try_acquire(), Err(Error::InsideRuntime)));
        assert!(matches!(locks.lock("x").with(|_| ()), Err(Error::InsideRuntime)));
        assert!(matches!((locks.lock("x").acquire_in_line().0)(), Err(Error::InsideRuntime)));
        assert!(matches!(locks.semaphore("x", 2).acquire(), Err(Error::InsideRuntime)));
        assert!(matches!(locks.leader("x").run(|_| ()), Err(Error::InsideRuntime)));
        assert!(matches!(locks.leader("x").observe().next(), Err(Error::InsideRuntime)));
        assert!(matches!(locks.watch().next(), Err(Error::InsideRuntime)));
        assert!(matches!(locks.nodes(), Err(Error::InsideRuntime)));
        assert!(matches!(locks.list(), Err(Error::InsideRuntime)));
        assert!(matches!(guard.states().next(), Err(Error::InsideRuntime)));
        assert!(matches!(guard.late_votes(ms(1)), Err(Error::InsideRuntime)));
        let same = || builder(&nodes);
        let change = blocking::FleetChange::new(same(), same()).run(|_| ());
        assert!(matches!(change, Err(Error::InsideRuntime)));
        assert!(matches!(blocking::forget_nodes(same()), Err(Error::InsideRuntime)));
        assert!(matches!(guard.extend(), Err(Error::InsideRuntime)));
        assert!(matches!(guard.release(), Err(Error::InsideRuntime)));
        assert!(matches!(locks.shutdown(), Err(Error::InsideRuntime)));
        // Dropping the last handle in here must not panic either.
        drop((locks, outside.lock("y")));
    });
    outside.shutdown().unwrap();
    assert_eq!(keys(&nodes), [""; 0], "the release went on in the background");
}

#[test]
fn work_under_a_lock_that_is_lost_is_told_when_it_ends() {
    let nodes = nodes::<3>();
    let locks = locks(&nodes);
    let lock = locks.lock("x").ttl(ms(500));
    assert!(lock.with(|guard| guard.is_valid()).unwrap());
    assert_eq!(lock.try_with(|_| 7).unwrap(), Some(7));
    let lost = lock.with(|guard| {
        fail(&nodes, &Faults::silent());
        guard.lost().unwrap();
        assert_eq!(guard.state(), HoldState::Lost);
    });
    let Err(Error::Operation(WithError::Outlived { name, .. })) = lost else { panic!("{lost:?}") };
    assert_eq!(name, "x");
    // Nothing was asked for by a call that never began.
    fail(&nodes, &Faults::none());
    let held = locks.lock("y").acquire().unwrap();
    assert_eq!(locks.lock("y").try_with(|_| ()).unwrap(), None);
    drop(held);
}

#[test]
fn a_lock_that_is_waited_for_inside_its_own_work_is_a_deadlock() {
    let locks = locks(&nodes::<3>());
    let inner = locks.lock("x").with(|_| locks.lock("x").wait(secs(5)).acquire().map(drop)).unwrap();
    assert!(matches!(inner, Err(Error::Operation(AcquireError::Circle { .. }))), "{inner:?}");
}

#[test]
fn a_leader_that_loses_its_term_is_elected_again_and_one_that_resigns_stands_again() {
    let nodes = nodes::<3>();
    let locks = locks(&nodes);
    let mut epochs = vec![];
    let told = locks.leader("x").ttl(ms(500)).run(|term| {
        epochs.push(term.epoch());
        match epochs.len() {
            1 => {
                fail(&nodes, &Faults::silent());
                term.guard().lost().unwrap();
                fail(&nodes, &Faults::none());
                "lost"
            }
            2 => {
                term.resign();
                "resigned"
            }
            _ => "done",
        }
    });
    assert_eq!(told.unwrap(), "done");
    assert!(epochs.len() == 3 && epochs.is_sorted(), "{epochs:?}");
}

#[test]
fn observers_see_who_leads_and_who_comes_after() {
    let locks = locks(&nodes::<3>());
    let done = AtomicBool::new(false);
    let work = |_: &blocking::Term| {
        while !done.load(Ordering::Relaxed) {
            thread::sleep(ms(5));
        }
    };
    thread::scope(|scope| {
        let mut incumbents = locks.leader("x").observe();
        assert_eq!(incumbents.next().unwrap(), None);
        scope.spawn(|| locks.leader("x").label("eu-1").run(work).unwrap());
        let leader = incumbents.next().unwrap().expect("somebody leads");
        assert!(leader.label.is_some_and(|label| label.ends_with("eu-1")));
        done.store(true, Ordering::Relaxed);
        assert_eq!(incumbents.next().unwrap(), None);
    });
}

#[test]
fn permits_are_waited_for_and_late_votes_heard_without_a_runtime() {
    let nodes = nodes::<3>();
    let locks = locks(&nodes);
    let permits = locks.semaphore("x", 1).ttl(secs(5)).wait(secs(5));
    let first = permits.acquire().unwrap();
    nodes[2].set_faults(Faults::none().delay(ms(30)..=ms(30)));
    thread::scope(|scope| {
        let second = scope.spawn(|| permits.acquire().unwrap());
        thread::sleep(ms(50));
        first.release().unwrap();
        let second = second.join().unwrap();
        let begun = Instant::now();
        second.late_votes(secs(5)).unwrap();
        assert!(begun.elapsed() < secs(4), "when the last node has answered");
        assert_eq!(second.votes().granted(), 3);
    });
}

#[test]
fn locks_are_seen_listed_and_taken_by_force() {
    let locks = locks(&nodes::<3>());
    let guard = locks.lock("invoice:1").acquire().unwrap();
    let mut told = 0;
    let list = locks.list_under("invoice:", |_| told += 1).unwrap();
    assert!(list.locks.len() == 1 && told > 0);
    let report = locks.inspect("invoice:1").unwrap();
    assert_eq!(report.held_here, Some(true));
    for owner in report.owners() {
        locks.release_by_force("invoice:1", owner).unwrap();
    }
    assert!(locks.lock("invoice:1").try_acquire().unwrap().is_some());
    assert!(locks.circles(["invoice:1"]).unwrap().is_empty());
    drop(guard);
    let handover = locks.lock("invoice:2").acquire().unwrap().hand_over();
    assert_eq!(locks.release_everywhere(&handover).unwrap().votes.granted(), 3);
}
