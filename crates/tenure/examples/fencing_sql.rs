//! A database that refuses a holder whose lock is over: `cargo run -p tenure --example
//! fencing_sql`.
//!
//! A process can be paused between its last look at the lock and its write, for longer than the
//! lock lasts. The lock cannot stop that write. The row can: it remembers the largest fence.
#![allow(clippy::print_stdout, reason = "an example talks to its reader")]

use rusqlite::{Connection, OptionalExtension, params};
use tenure::{Fence, Locks};

const TABLE: &str = "CREATE TABLE stock (id INTEGER PRIMARY KEY, pieces INTEGER NOT NULL,
                                         fence INTEGER NOT NULL DEFAULT 1);
                     INSERT INTO stock (id, pieces) VALUES (7, 100);";

/// Claim and read in one statement. It comes first: from here on the row refuses everybody before
/// us.
const CLAIM: &str = "UPDATE stock SET fence = ?2 WHERE id = ?1 AND fence <= ?2 RETURNING pieces";

/// Write, if nobody has claimed the row after us.
const WRITE: &str = "UPDATE stock SET pieces = ?3 WHERE id = ?1 AND fence = ?2";

/// The pieces, or nothing if a later holder has been here.
fn claim(database: &Connection, fence: Fence) -> rusqlite::Result<Option<i64>> {
    database.query_row(CLAIM, params![7, fence.as_i64()], |row| row.get(0)).optional()
}

/// Whether the row took it. The count of rows is the answer, so it must not be ignored.
fn write(database: &Connection, fence: Fence, pieces: i64) -> rusqlite::Result<bool> {
    Ok(database.execute(WRITE, params![7, fence.as_i64(), pieces])? == 1)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let database = Connection::open_in_memory()?;
    database.execute_batch(TABLE)?;
    let locks = Locks::memory();

    // Ann takes one piece out, and is paused before she writes.
    let guard = locks.lock("stock:7").acquire().await?;
    let ann = guard.fence();
    let read_by_ann = claim(&database, ann)?.ok_or("too late")?;
    drop(guard); // Her lock expires while she is paused: to the others it is the same.
    println!("ann reads {read_by_ann} and is paused");

    // While she is paused, Bob takes ten out.
    let guard = locks.lock("stock:7").acquire().await?;
    let read_by_bob = claim(&database, guard.fence())?.ok_or("too late")?;
    println!("bob writes {}: {}", read_by_bob - 10, write(&database, guard.fence(), read_by_bob - 10)?);
    guard.release().await?;

    // Ann goes on where she was. Without the fence this would put Bob's ten pieces back.
    println!("ann writes {}: {}", read_by_ann - 1, write(&database, ann, read_by_ann - 1)?);

    // So she starts again, with the lock.
    let guard = locks.lock("stock:7").acquire().await?;
    let pieces = claim(&database, guard.fence())?.ok_or("too late")?;
    println!("ann writes {}: {}", pieces - 1, write(&database, guard.fence(), pieces - 1)?);
    guard.release().await?;

    let pieces: i64 = database.query_row("SELECT pieces FROM stock WHERE id = 7", [], |row| row.get(0))?;
    println!("{pieces} pieces are left");
    Ok(())
}
