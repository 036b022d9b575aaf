//! Resources that check fences.
//!
//! A lock alone cannot stop a holder that was paused past its term; the resource can, if it
//! remembers the largest [`Fence`](crate::Fence) it has seen and refuses smaller ones. Two mistakes
//! defeat that:
//!
//! 1. *Check, then write, in two steps.* Another holder can come in between. Both must be one
//!    atomic step.
//! 2. *Read, then show the fence.* Until the resource has seen the fence of the new holder, the old
//!    one may still write, and the new one overwrites that with what it read before. The new holder
//!    must **claim** the resource, that is make it remember its fence, before it reads.
//!
//! The types here make both hard: a claim comes first, only it reads and writes, and a write
//! without a claim is refused. `docs/how-to/fencing.md` shows the same for SQL and object stores.
//!
//! - [`FencedFile`]: a file.
//! - [`REDIS_CLAIM`], [`REDIS_WRITE`]: a value on a Redis server, which need not be one of the
//!   nodes.

mod file;

pub use file::{FencedFile, FencedFileClaim, FencedFileError};

/// A Lua script with which a new holder claims a value on a Redis server and reads it.
///
/// The value is a hash with the fields `fence` and `value`, so that it never loses one without the
/// other. `KEYS[1]` is its key, `ARGV[1]` the fence. The answer is the value, nil if there is none
/// yet; an error that begins with `STALE` if a later holder has been there. It works with `EVAL`
/// from any client:
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use redis::Script;
/// use tenure::fenced::{REDIS_CLAIM, REDIS_WRITE};
/// # let server = tenure_testkit::RedisServer::start(&[]);
/// # let mut connection = server.connection();
///
/// let locks = tenure::Locks::memory();
/// let guard = locks.lock("stock:7").acquire().await?;
/// let fence = guard.fence().get();
///
/// let stock: Option<i64> = Script::new(REDIS_CLAIM).key("stock:7").arg(fence).invoke(&mut connection)?;
/// let stock = stock.unwrap_or(100) - 1;
/// let () = Script::new(REDIS_WRITE).key("stock:7").arg(fence).arg(stock).invoke(&mut connection)?;
///
/// // Earlier holders are refused from now on.
/// let late = Script::new(REDIS_WRITE).key("stock:7").arg(fence - 1).arg(0).invoke::<()>(&mut connection);
/// assert_eq!(late.unwrap_err().code(), Some("STALE"));
/// # let now: i64 = redis::cmd("HGET").arg("stock:7").arg("value").query(&mut connection)?;
/// # assert_eq!(now, 99);
/// # Ok(()) }
/// ```
pub const REDIS_CLAIM: &str = include_str!("fenced/claim.lua");

/// A Lua script with which the last claimant writes a value on a Redis server.
///
/// `KEYS[1]` is the key that was claimed with [`REDIS_CLAIM`], `ARGV[1]` the fence, `ARGV[2]` the
/// value. The answer is `OK`; an error that begins with `STALE` if a later holder has claimed the
/// value, or with `UNCLAIMED` if this fence was never shown to the server, or the server has
/// forgotten it: claim and read again then.
pub const REDIS_WRITE: &str = include_str!("fenced/write.lua");
