//! A store over boots of the machine, with clocks that are wrong, and with many names.

use std::future::poll_fn;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tenure_core::{
    Answer, ClientId, Command, Fence, FenceBounds, LockKey, Mode, Next, OwnerToken, Prefix, ProposedFence,
    Refusal, Ticket,
};

use super::store::{OpenOptions, Store};
use super::time::Machine;
use super::*;
use crate::Locks;

const HOUR_US: i64 = 3_600_000_000;

/// The wall clock of the first boot.
const WALL_US: i64 = 1_800_000_000_000_000;

fn options(folder: &TempDir, machine: Machine) -> OpenOptions {
    OpenOptions { path: folder.path().join("locks.db").into(), private: false, machine: Some(machine) }
}

fn open(folder: &TempDir, machine: Machine) -> Store {
    Store::open(&options(folder, machine), false).unwrap()
}

fn boot(name: &str, wall_us: i64) -> Machine {
    Machine::Pretended { boot: name.to_owned(), shift_us: 0, wall_us }
}

fn key(name: &str) -> LockKey {
    LockKey::new(&Prefix::default(), name).unwrap()
}

fn run(store: &mut Store, command: &Command) -> tenure_core::Reply {
    let replies = store.execute([command].into_iter(), &|_: Ticket| false, &mut vec![]);
    replies.unwrap_or_else(|not_done| panic!("{:?}", not_done.trouble)).remove(0)
}

fn acquire(store: &mut Store, owner: u8, fence: Option<u64>) -> tenure_core::Reply {
    let bounds = FenceBounds::new(Duration::from_secs(10), Duration::from_secs(24 * 3_600));
    let fence = fence.map(|fence| ProposedFence::new(Fence::new(fence), bounds));
    let token = OwnerToken::from_bytes([owner; 20]);
    run(
        store,
        &Command::Acquire { key: key("x"), token, node_ttl_ms: 60_000, nonce: None, fence, beside: None },
    )
}

#[test]
fn a_reboot_frees_all_locks_and_keeps_the_fences_whatever_the_wall_clock_says() {
    for wall_us in [WALL_US, 0, WALL_US - 1_000 * HOUR_US, WALL_US + HOUR_US] {
        let folder = tempfile::tempdir().unwrap();
        let mut store = open(&folder, boot("one", WALL_US));
        let fence = u64::try_from(WALL_US).unwrap() + 5_000_000;
        let before = acquire(&mut store, 1, Some(fence));
        assert_eq!(before.answer, Answer::Granted);
        assert!(matches!(
            acquire(&mut store, 2, Some(fence + 1)).answer,
            Answer::Refused(Refusal::Held { .. })
        ));
        drop(store);
        let mut store = open(&folder, boot("two", wall_us));
        let refused = acquire(&mut store, 2, Some(fence));
        assert_eq!(refused.answer, Answer::Refused(Refusal::Behind), "the fence is remembered");
        assert!(refused.time > before.time, "time went back");
        let after = acquire(&mut store, 2, Some(fence + 1));
        assert_eq!(after.answer, Answer::Granted, "whoever had it is gone, and the fence is near the clock");
    }
}

/// The clock goes on over a reboot, so what is left of a period can be told.
#[test]
fn a_lock_that_was_released_is_kept_from_others_over_a_reboot() {
    for (after_us, is_over) in
        [(0, false), (45_000_000, false), (HOUR_US / 30, true), (-1_000 * HOUR_US, false)]
    {
        let folder = tempfile::tempdir().unwrap();
        let mut store = open(&folder, boot("one", WALL_US));
        assert_eq!(acquire(&mut store, 1, None).answer, Answer::Granted);
        let token = OwnerToken::from_bytes([1; 20]);
        let next = Next::Nobody { for_ms: 50_000 };
        let released = run(&mut store, &Command::Release { key: key("x"), token, labelled: false, next });
        assert_eq!(released.answer, Answer::Granted);
        drop(store);
        let mut store = open(&folder, boot("two", WALL_US + after_us));
        let answer = acquire(&mut store, 2, None).answer;
        assert_eq!(answer == Answer::Granted, is_over, "after {after_us} us: {answer:?}");
    }
}

#[test]
fn a_process_that_comes_later_in_the_same_boot_goes_on_with_the_same_clock_and_locks() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(&folder, boot("one", WALL_US));
    let before = acquire(&mut store, 1, None);
    // The wall clock was set back; nobody looks at it.
    let mut other = open(&folder, boot("one", 0));
    let after = acquire(&mut other, 2, None);
    assert!(matches!(after.answer, Answer::Refused(Refusal::Held { .. })));
    assert!(after.time.unwrap() >= before.time.unwrap());
    assert!(after.time.unwrap().as_micros() < before.time.unwrap().as_micros() + 10_000_000);
}

#[test]
fn a_boot_begins_above_every_time_of_the_one_before() {
    let folder = tempfile::tempdir().unwrap();
    let machine = boot("one", WALL_US);
    let mut store = open(&folder, machine);
    acquire(&mut store, 1, None);
    // Hours later in the same boot.
    let shifted = Machine::Pretended { boot: "one".to_owned(), shift_us: 5 * HOUR_US, wall_us: 0 };
    let mut later = open(&folder, shifted);
    let last = acquire(&mut later, 2, None);
    assert_eq!(last.answer, Answer::Granted, "the first one is over");
    drop((store, later));
    let mut next = open(&folder, boot("two", 0));
    assert!(acquire(&mut next, 3, None).time > last.time);
}

/// The ceiling that a transaction wrote goes with it when it is undone: the next one has to write
/// it again.
#[test]
fn a_boot_begins_above_every_time_of_the_one_before_though_a_transaction_failed() {
    let folder = tempfile::tempdir().unwrap();
    drop(open(&folder, boot("one", WALL_US)));
    // More than a step of the ceiling later in the same boot.
    let mut store =
        open(&folder, Machine::Pretended { boot: "one".to_owned(), shift_us: HOUR_US, wall_us: 0 });
    let database = rusqlite::Connection::open(folder.path().join("locks.db")).unwrap();
    let refuse = "CREATE TRIGGER refuse BEFORE INSERT ON names BEGIN SELECT RAISE(ABORT, 'no more'); END";
    database.execute(refuse, []).unwrap();
    let command = Command::plain_acquire(key("x"), OwnerToken::from_bytes([1; 20]), 60_000);
    let failed = store.execute([&command].into_iter(), &|_: Ticket| false, &mut vec![]);
    assert!(failed.is_err(), "the transaction is undone");
    database.execute("DROP TRIGGER refuse", []).unwrap();
    let last = acquire(&mut store, 1, None);
    assert_eq!(last.answer, Answer::Granted);
    drop((store, database));
    let mut next = open(&folder, boot("two", 0));
    assert!(acquire(&mut next, 2, None).time > last.time, "time went back over the reboot");
}

/// As in a container with a boot id of its own.
#[test]
fn another_boot_frees_nothing_while_somebody_has_the_store_open() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(&folder, boot("one", WALL_US));
    let mut second = open(&folder, boot("one", WALL_US));
    assert_eq!(acquire(&mut store, 1, None).answer, Answer::Granted);
    for _ in 0..2 {
        let refused =
            Store::open(&options(&folder, boot("two", WALL_US)), false).err().expect("it is in use");
        assert!(format!("{refused:?}").contains("another boot"), "{refused:?}");
        let held = acquire(&mut second, 2, None).answer;
        assert!(matches!(held, Answer::Refused(Refusal::Held { .. })));
    }
    drop(store);
    assert!(Store::open(&options(&folder, boot("two", WALL_US)), false).is_err(), "one is still there");
    drop(second);
    assert_eq!(acquire(&mut open(&folder, boot("two", WALL_US)), 2, None).answer, Answer::Granted);
}

#[test]
fn a_clock_that_cannot_be_is_refused() {
    for (base_us, ceiling_us, machine) in [(i64::MAX, 0, "one"), (i64::MIN, 0, "one"), (0, i64::MAX, "two")] {
        let folder = tempfile::tempdir().unwrap();
        drop(open(&folder, boot("one", WALL_US)));
        let options = options(&folder, boot(machine, WALL_US));
        let database = rusqlite::Connection::open(&options.path).unwrap();
        database.execute("UPDATE clock SET base_us = ?1, ceiling_us = ?2", [base_us, ceiling_us]).unwrap();
        let refused = Store::open(&options, false).err().expect("no store");
        assert!(format!("{refused:?}").contains("the clock"), "{refused:?}");
    }
}

#[tokio::test]
async fn fences_of_a_manager_grow_over_a_reboot_with_a_wall_clock_in_1970() {
    let folder = tempfile::tempdir().unwrap();
    let mut last = 0;
    for (name, wall_us) in [("one", WALL_US), ("two", 0), ("three", 0)] {
        let mut node = SqliteNode::new(folder.path().join("locks.db"));
        node.options.machine = Some(boot(name, wall_us));
        let locks = Locks::builder().node(node).build().unwrap();
        // Until the program of the boot before is gone.
        let guard = locks.lock("x").wait(Duration::from_secs(5)).acquire().await.unwrap();
        assert!(guard.fence().get() > last);
        last = guard.fence().get();
        // Held until the machine goes down.
        let _ = guard.hand_over();
    }
}

#[test]
fn a_hundred_thousand_names_make_no_command_slow() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(&folder, boot("one", WALL_US));
    let token = OwnerToken::from_bytes([1; 20]);
    let commands: Vec<Command> =
        (0..100_000).map(|n| Command::plain_acquire(key(&n.to_string()), token, 3_600_000)).collect();
    for some in commands.chunks(1_000) {
        let done = store.execute(some.iter(), &|_: Ticket| false, &mut vec![]);
        assert!(done.is_ok());
    }
    // Beside a store with few names, by turns: what a disk needs for a write differs from machine
    // to machine.
    let few_folder = tempfile::tempdir().unwrap();
    let mut few_store = open(&few_folder, boot("one", WALL_US));
    for n in 0..200 {
        run(&mut few_store, &Command::plain_acquire(key(&(n * 499).to_string()), token, 3_600_000));
    }
    let cycle = |store: &mut Store, n: u32| {
        let (key, start) = (key(&(n * 499).to_string()), Instant::now());
        assert_eq!(
            run(store, &Command::Undo { key: key.clone(), token, requeue: None }).answer,
            Answer::Granted
        );
        assert_eq!(run(store, &Command::plain_acquire(key, token, 60_000)).answer, Answer::Granted);
        start.elapsed()
    };
    let mut cycles: Vec<[Duration; 2]> = vec![];
    for n in 0..200 {
        cycles.push([cycle(&mut few_store, n), cycle(&mut store, n)]);
    }
    let [few, many] = [0, 1].map(|which| {
        let mut times: Vec<Duration> = cycles.iter().map(|cycle| cycle[which]).collect();
        times.sort_unstable();
        times[times.len() / 2]
    });
    println!(
        "{many:?} to release and acquire among 100,000 names, {few:?} among 200, with the writes to disk"
    );
    assert!(many < few * 4, "{many:?} among many, {few:?} among few");
}

/// What the node of a store that cannot be used says to its first command.
async fn complaint(node: &SqliteNode) -> String {
    let mut connection = node.clone().connect(ClientId::new(1));
    loop {
        match poll_fn(|cx| connection.poll_event(cx)).await {
            NodeEvent::Unreachable(Fault::Store { reason, .. }) => return reason.to_string(),
            NodeEvent::Connected(_) => panic!("it opened"),
            _ => {}
        }
    }
}

#[tokio::test]
async fn a_store_of_a_newer_version_and_databases_of_others_are_refused_and_left_alone() {
    for (sql, must_say) in [
        ("PRAGMA application_id = 0x54656e75; PRAGMA user_version = 2", "newer version of Tenure"),
        ("CREATE TABLE users (name TEXT)", "another program"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("locks.db");
        rusqlite::Connection::open(&path).unwrap().execute_batch(sql).unwrap();
        let before = std::fs::read(&path).unwrap();
        let words = complaint(&SqliteNode::new(&path)).await;
        assert!(words.contains(must_say) && words.contains(path.to_str().unwrap()), "{words}");
        assert_eq!(std::fs::read(&path).unwrap(), before);
    }
}

/// Cron starts several jobs in the same second, and the first time there is no store yet.
#[test]
fn a_store_that_is_made_by_several_at_once_is_no_other_programs_database_for_any() {
    for round in 0..150 {
        let folder = tempfile::tempdir().unwrap();
        let start = std::sync::Barrier::new(4);
        std::thread::scope(|scope| {
            for place in 0..4 {
                let (folder, start) = (&folder, &start);
                scope.spawn(move || {
                    start.wait();
                    // So that some look while another one writes.
                    std::thread::sleep(Duration::from_micros(place * (round % 40) * 50));
                    let opened = Store::open(&options(folder, boot("one", WALL_US)), false);
                    assert!(opened.is_ok(), "round {round}: {:?}", opened.err());
                });
            }
        });
    }
}

/// Whether this process has a lock on this file.
fn is_locked(file: &std::fs::File) -> bool {
    use std::os::unix::fs::MetadataExt;
    let inode = format!(":{} ", file.metadata().unwrap().ino());
    let locks = std::fs::read_to_string("/proc/locks").unwrap();
    locks.lines().any(|line| line.contains(" POSIX ") && line.contains(&inode))
}

#[test]
fn making_a_store_costs_nobody_in_this_process_a_lock_on_its_file() {
    for mode in [0o700, 0o770] {
        for round in 0..20 {
            let folder = tempfile::tempdir().unwrap();
            std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(mode))
                .unwrap();
            let path = folder.path().join("locks.db");
            let maker = std::thread::spawn({
                let path = path.clone();
                move || location::prepare(&path, false)
            });
            // As soon as it is there somebody else uses it, as a second manager does.
            let file = loop {
                if let Ok(file) = std::fs::File::open(&path) {
                    break file;
                }
            };
            rustix::fs::fcntl_lock(&file, rustix::fs::FlockOperation::NonBlockingLockShared).unwrap();
            maker.join().unwrap().unwrap();
            assert!(is_locked(&file), "round {round} of mode {mode:o}");
        }
    }
}

/// Random commands with hours between some of them, so that lines, labels and fences are forgotten,
/// too. The table executes each at the time that the store tells, so every answer must be the same.
#[test]
fn over_hours_the_store_says_what_the_lock_table_says() {
    use proptest::prelude::*;
    use tenure_core::{Beside, LockTable, Next, Nonce, PlaceRequest};

    const GAPS_US: [i64; 8] =
        [0, 0, 1_000, 30_000, 210_000, 599_990_000, 600_010_000, 25 * 3_600 * 1_000_000];
    let listening = ClientId::new(7);
    let ticket = |number: u8| {
        let client = if number.is_multiple_of(2) { listening } else { ClientId::new(u64::MAX) };
        Ticket::exclusive(1_000 + u64::from(number), client)
    };
    let step = (0..15_u8, 0..3_u8, 0..6_u8, any::<[bool; 3]>(), 0..30_u64, 0..GAPS_US.len());
    let config = ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(steps in prop::collection::vec(step, 1..60))| {
        let folder = tempfile::tempdir().unwrap();
        let (mut table, mut shift_us) = (LockTable::default(), 0);
        table.listen(listening);
        let mut store = open(&folder, boot("one", WALL_US));
        for (kind, owner, number, [a, b, c], fence_ms, gap) in steps {
            if GAPS_US[gap] > 0 {
                shift_us += GAPS_US[gap];
                drop(store);
                let machine = Machine::Pretended { boot: "one".to_owned(), shift_us, wall_us: 0 };
                store = open(&folder, machine);
            }
            let (key, token) = (key("x"), OwnerToken::from_bytes([owner; 20]));
            let bounds = FenceBounds::new(Duration::from_secs(10), Duration::from_secs(3_600));
            let fence = Fence::new(u64::try_from(WALL_US + shift_us).unwrap() + fence_ms * 1_000);
            let proposed = a.then(|| ProposedFence::new(fence, bounds));
            let ttl_ms = if c { 20 } else { 700_000 };
            let command = match kind {
                0..=4 => {
                    let place = (kind > 1).then(|| PlaceRequest { ticket: ticket(number), fresh: c });
                    let label = b.then(|| Arc::from(format!("owner {owner}")));
                    let nonce = (kind == 4 && c).then(|| Nonce::new(1));
                    let beside = Some(Arc::new(Beside { place, label, ..Beside::default() }));
                    Command::Acquire { key, token, node_ttl_ms: ttl_ms, nonce, fence: proposed, beside }
                }
                5 => Command::Extend { key, token, node_ttl_ms: ttl_ms, mode: Mode::Exclusive },
                6 => Command::Heal {
                    key,
                    token,
                    node_ttl_ms: ttl_ms,
                    fence: a.then_some(fence),
                    quarantine_ms: ttl_ms,
                    mode: Mode::Exclusive,
                },
                7 => Command::Undo { key, token, requeue: None },
                8 => {
                    let next = if b { Next::InLineWith(ticket(number)) } else { Next::InLine };
                    Command::Release { key, token, labelled: a, next }
                }
                9 => Command::Undo { key, token, requeue: Some(ticket(number)) },
                10 => Command::Enqueue { key, ticket: ticket(number) },
                11 => Command::Leave { key, ticket: ticket(number) },
                12 => Command::Nudge { key },
                13 => Command::Release { key, token, labelled: a, next: Next::OutsideLine },
                _ if a => Command::Trim { prefix: Prefix::default() },
                _ => Command::Inspect { key },
            };
            let mut wakes = vec![];
            let listens = |ticket: Ticket| ticket.client == listening;
            let reply = store.execute([&command].into_iter(), &listens, &mut wakes);
            let reply = reply.unwrap_or_else(|not_done| panic!("{:?}", not_done.trouble)).remove(0);
            let expected = table.execute(reply.time.unwrap(), &command);
            if !matches!(command, Command::Trim { .. }) {
                prop_assert_eq!(&reply, &expected, "{:?}", command);
            }
            let woken: Vec<_> = std::iter::from_fn(|| table.poll_wake()).map(|(_, ticket)| ticket).collect();
            prop_assert_eq!(wakes.into_iter().map(|(_, ticket)| ticket).collect::<Vec<_>>(), woken);
        }
    });
}
