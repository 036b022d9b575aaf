//! The statements of `docs/how-to/fence-postgresql.md`, on a real server.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tenure::Fence;
use tenure_testkit::{PostgresServer, blocks};
use tokio::runtime::Runtime;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error, NoTls};

use crate::interleaved::{CLAIM_FIRST, NO_CLAIM, Resource, all_orders_of_two, run};

const PAGE: &str = include_str!("../../../../docs/how-to/fence-postgresql.md");

/// What people write who know of the check but not of the claim.
const WRITE_WITHOUT_CLAIM: &str = "UPDATE document SET body = $3, fence = $2 WHERE id = $1 AND fence <= $2";

/// The statements, as the page has them.
struct Statements {
    table: &'static str,
    claim: &'static str,
    write: &'static str,
}

fn statements() -> Statements {
    let [table, claim, write]: [&str; 3] = blocks(PAGE, "sql").try_into().unwrap();
    Statements { table, claim, write }
}

async fn connect(server: &PostgresServer) -> Client {
    let (client, connection) = tokio_postgres::connect(&server.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// A row, and the statement that writes it.
struct Row<'a> {
    runtime: &'a Runtime,
    client: &'a Client,
    id: i64,
    write: &'static str,
}

impl<'a> Row<'a> {
    /// A new one.
    fn new(runtime: &'a Runtime, client: &'a Client, write: &'static str) -> Self {
        let insert = "INSERT INTO document (id, body) SELECT count(*), '' FROM document RETURNING id";
        let id = runtime.block_on(client.query_one(insert, &[])).unwrap().get(0);
        Self { runtime, client, id, write }
    }
}

impl Resource for Row<'_> {
    fn claim(&mut self, fence: Fence) -> bool {
        let claim = statements().claim;
        let row = self.runtime.block_on(self.client.query_opt(claim, &[&self.id, &fence.as_i64()]));
        row.unwrap().is_some()
    }

    fn read(&mut self, _: Fence) -> Option<String> {
        let read = "SELECT body FROM document WHERE id = $1";
        Some(self.runtime.block_on(self.client.query_one(read, &[&self.id])).unwrap().get(0))
    }

    fn write(&mut self, fence: Fence, body: &str) -> bool {
        let fence = fence.as_i64();
        self.runtime.block_on(self.client.execute(self.write, &[&self.id, &fence, &body])).unwrap() == 1
    }
}

#[test]
fn in_every_order_of_two_holders_only_the_claim_saves_the_updates_of_a_row() {
    let Some(server) = PostgresServer::start() else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let client = runtime.block_on(connect(&server));
    runtime.block_on(client.batch_execute(statements().table)).unwrap();
    for turns in all_orders_of_two(CLAIM_FIRST.len()) {
        let outcome = run(&mut Row::new(&runtime, &client, statements().write), CLAIM_FIRST, &turns);
        assert!(outcome.lost.is_empty() && outcome.is_in_order(), "{turns:?}: {outcome:?}");
    }
    let orders = all_orders_of_two(NO_CLAIM.len());
    let loses = |turns: &&Vec<usize>| {
        !run(&mut Row::new(&runtime, &client, WRITE_WITHOUT_CLAIM), NO_CLAIM, turns).lost.is_empty()
    };
    assert_eq!((orders.iter().filter(loses).count(), orders.len()), (6, 20));
}

/// Several holders at once, each with a connection of its own, as if the lock excluded nobody: what
/// the database accepted is there at the end. Also with transactions that see a snapshot, which
/// fail where the others wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_update_of_holders_at_the_same_time_is_lost_by_the_database() {
    let Some(server) = PostgresServer::start() else { return };
    let first = connect(&server).await;
    first.batch_execute(statements().table).await.unwrap();
    for (id, isolation) in [(1_i64, "READ COMMITTED"), (2, "REPEATABLE READ"), (3, "SERIALIZABLE")] {
        first.execute("INSERT INTO document (id, body) VALUES ($1, '')", &[&id]).await.unwrap();
        let fences: &'static AtomicU64 = Box::leak(Box::new(AtomicU64::new(1_700_000_000_000_000)));
        let mut holders = vec![];
        for _ in 0..6 {
            let client = connect(&server).await;
            holders.push(tokio::spawn(async move {
                let mut accepted = vec![];
                for _ in 0..30 {
                    let fence = fences.fetch_add(1, Relaxed);
                    match update(&client, isolation, id, fence).await {
                        Ok(true) => accepted.push(fence),
                        Ok(false) => {}
                        Err(error) => {
                            assert_eq!(error.code(), Some(&SqlState::T_R_SERIALIZATION_FAILURE), "{error}");
                            client.batch_execute("ROLLBACK").await.unwrap();
                        }
                    }
                }
                accepted
            }));
        }
        let mut accepted = vec![];
        for holder in holders {
            accepted.extend(holder.await.unwrap());
        }
        let row = first.query_one("SELECT body FROM document WHERE id = $1", &[&id]).await.unwrap();
        let body: String = row.get(0);
        let listed: Vec<u64> = body.split_whitespace().map(|fence| fence.parse().unwrap()).collect();
        accepted.sort_unstable();
        assert_eq!(listed, accepted, "{isolation}: in the order of their fences, and none is lost");
        assert!(!accepted.is_empty(), "{isolation}");
    }
}

/// Claim and read in one transaction, write in another: between them anything can happen.
async fn update(client: &Client, isolation: &str, id: i64, fence: u64) -> Result<bool, Error> {
    let Statements { claim, write, .. } = statements();
    let (begin, number) = (format!("BEGIN ISOLATION LEVEL {isolation}"), i64::try_from(fence).unwrap());
    client.batch_execute(&begin).await?;
    let row = client.query_opt(claim, &[&id, &number]).await?;
    client.batch_execute("COMMIT").await?;
    let Some(row) = row else { return Ok(false) };
    let body = format!("{}{fence} ", row.get::<_, String>(0));
    tokio::task::yield_now().await;
    client.batch_execute(&begin).await?;
    let rows = client.execute(write, &[&id, &number, &body]).await?;
    client.batch_execute("COMMIT").await?;
    Ok(rows == 1)
}
