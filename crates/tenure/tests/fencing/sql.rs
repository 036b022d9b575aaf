//! The statements of `docs/how-to/fence-sqlite.md`, on a real database.

use proptest::prelude::*;
use rusqlite::{Connection, OptionalExtension, params};
use tenure::{Fence, Locks};
use tenure_testkit::blocks;

use crate::interleaved::{CLAIM_FIRST, NO_CLAIM, Resource, all_orders_of_two, run};

const PAGE: &str = include_str!("../../../../docs/how-to/fence-sqlite.md");

/// What people write who know of the check but not of the claim.
const WRITE_WITHOUT_CLAIM: &str = "UPDATE document SET body = ?3, fence = ?2 WHERE id = ?1 AND fence <= ?2";

/// Table, claim and write, as the page has them. No real fence is 1, and that of a lock without
/// fencing is 0: such a one is refused also by a new row.
fn statements() -> [&'static str; 3] {
    blocks(PAGE, "sql").try_into().unwrap()
}

fn write_of_the_page() -> &'static str {
    statements()[2]
}

/// The row 42, and the statement that writes it.
struct Row {
    database: Connection,
    write: &'static str,
}

impl Row {
    fn new(write: &'static str) -> Self {
        let database = Connection::open_in_memory().unwrap();
        database.execute(statements()[0], []).unwrap();
        database.execute("INSERT INTO document (id, body) VALUES (42, '')", []).unwrap();
        Self { database, write }
    }

    /// The body, if the row has not seen a larger fence.
    fn claim_and_read(&self, fence: Fence) -> Option<String> {
        let claim = self.database.query_row(statements()[1], params![42, fence.as_i64()], |row| row.get(0));
        claim.optional().unwrap()
    }
}

impl Resource for Row {
    fn claim(&mut self, fence: Fence) -> bool {
        self.claim_and_read(fence).is_some()
    }

    fn read(&mut self, _: Fence) -> Option<String> {
        Some(
            self.database.query_row("SELECT body FROM document WHERE id = 42", [], |row| row.get(0)).unwrap(),
        )
    }

    fn write(&mut self, fence: Fence, body: &str) -> bool {
        self.database.execute(self.write, params![42, fence.as_i64(), body]).unwrap() == 1
    }
}

#[tokio::test]
async fn a_holder_paused_after_its_read_is_refused_by_the_database() {
    let (locks, mut row) = (Locks::memory(), Row::new(write_of_the_page()));
    let old = locks.lock("doc:42").acquire().await.unwrap();
    let (old_fence, read) = (old.fence(), row.claim_and_read(old.fence()).unwrap());
    drop(old); // It ran out while the holder was paused.

    let new = locks.lock("doc:42").acquire().await.unwrap();
    let body = row.claim_and_read(new.fence()).unwrap();
    assert!(!row.write(old_fence, &format!("{read}old ")), "late, and before the new holder has written");
    assert!(row.write(new.fence(), &format!("{body}new ")));
    assert!(row.write(new.fence(), &format!("{body}new, and again ")), "an equal fence is the same holder");
    assert!(!row.write(old_fence, &format!("{read}old ")), "late, and after it");
    assert_eq!(row.claim_and_read(old_fence), None);
    assert_eq!(row.claim_and_read(new.fence()).as_deref(), Some("new, and again "));
}

#[tokio::test]
async fn a_lock_without_fencing_is_refused_by_a_new_row() {
    let guard = Locks::memory().lock("doc:42").unfenced().acquire().await.unwrap();
    let mut row = Row::new(write_of_the_page());
    assert_eq!(row.claim_and_read(guard.fence()), None);
    assert!(!row.write(guard.fence(), "x"));
}

#[test]
fn without_the_claim_before_the_read_an_update_is_lost() {
    let (mut row, old, new) = (Row::new(WRITE_WITHOUT_CLAIM), Fence::new(1_000), Fence::new(1_001));
    let read_by_old = row.read(old).unwrap();
    let read_by_new = row.read(new).unwrap();
    assert!(row.write(old, &format!("{read_by_old}old ")), "nothing newer was seen yet");
    assert!(row.write(new, &format!("{read_by_new}new ")));
    assert_eq!(row.read(new).unwrap(), "new ", "the accepted update of the old holder is gone");
}

#[test]
fn a_write_without_a_claim_is_refused() {
    let mut row = Row::new(write_of_the_page());
    assert!(!row.write(Fence::new(1_000), "x"));
}

/// Without the claim those lose something in which both read before the one with the smaller fence
/// writes, and the other writes last: three for each way round.
#[test]
fn in_every_order_of_two_holders_only_the_claim_saves_the_updates() {
    let orders = all_orders_of_two(CLAIM_FIRST.len());
    assert_eq!(orders.len(), 70);
    for turns in orders {
        let outcome = run(&mut Row::new(write_of_the_page()), CLAIM_FIRST, &turns);
        assert!(outcome.lost.is_empty() && outcome.is_in_order(), "{turns:?}: {outcome:?}");
    }
    let orders = all_orders_of_two(NO_CLAIM.len());
    let loses =
        |turns: &&Vec<usize>| !run(&mut Row::new(WRITE_WITHOUT_CLAIM), NO_CLAIM, turns).lost.is_empty();
    assert_eq!((orders.iter().filter(loses).count(), orders.len()), (6, 20));
}

proptest! {
    #[test]
    fn no_update_of_many_holders_of_a_row_is_lost(turns in prop::collection::vec(0_usize..6, 0..60)) {
        let outcome = run(&mut Row::new(write_of_the_page()), CLAIM_FIRST, &turns);
        prop_assert!(outcome.lost.is_empty() && outcome.is_in_order(), "{:?}", outcome);
    }
}
