//! The scripts, on a real server that is none of the nodes.

use redis::{Connection, RedisResult, Script};
use tenure::fenced::{REDIS_CLAIM, REDIS_WRITE};
use tenure::{Fence, Locks};
use tenure_testkit::RedisServer;

use crate::interleaved::{CLAIM_FIRST, Resource, all_orders_of_two, run};

struct Value {
    connection: Connection,
    key: String,
    /// Ends when it is dropped.
    _server: RedisServer,
}

impl Value {
    fn new() -> Self {
        let server = RedisServer::start(&[]);
        Self { connection: server.connection(), key: "doc:42".to_owned(), _server: server }
    }

    fn claim_and_read(&mut self, fence: Fence) -> RedisResult<Option<String>> {
        Script::new(REDIS_CLAIM).key(&self.key).arg(fence.get()).invoke(&mut self.connection)
    }

    fn replace(&mut self, fence: Fence, value: &str) -> RedisResult<String> {
        Script::new(REDIS_WRITE).key(&self.key).arg(fence.get()).arg(value).invoke(&mut self.connection)
    }
}

impl Resource for Value {
    fn claim(&mut self, fence: Fence) -> bool {
        is_accepted(self.claim_and_read(fence))
    }

    fn read(&mut self, _: Fence) -> Option<String> {
        let value: Option<String> =
            redis::cmd("HGET").arg(&self.key).arg("value").query(&mut self.connection).unwrap();
        Some(value.unwrap_or_default())
    }

    fn write(&mut self, fence: Fence, list: &str) -> bool {
        is_accepted(self.replace(fence, list))
    }
}

fn is_accepted<T: std::fmt::Debug>(answer: RedisResult<T>) -> bool {
    match answer {
        Ok(_) => true,
        Err(error) if error.code() == Some("STALE") => false,
        Err(error) => panic!("{error}"),
    }
}

fn code<T: std::fmt::Debug>(answer: RedisResult<T>) -> String {
    answer.unwrap_err().code().unwrap().to_owned()
}

#[tokio::test]
async fn a_holder_paused_after_its_read_is_refused_by_the_server() {
    let (locks, mut value) = (Locks::memory(), Value::new());
    let old = locks.lock("doc:42").acquire().await.unwrap();
    let old_fence = old.fence();
    assert_eq!(value.claim_and_read(old_fence).unwrap(), None, "there is none yet");
    drop(old); // It ran out while the holder was paused.

    let new = locks.lock("doc:42").acquire().await.unwrap();
    assert_eq!(value.claim_and_read(new.fence()).unwrap(), None);
    assert_eq!(code(value.replace(old_fence, "old")), "STALE", "late, and before the new holder has written");
    assert_eq!(value.replace(new.fence(), "new").unwrap(), "OK");
    assert_eq!(value.replace(new.fence(), "newer").unwrap(), "OK", "an equal fence is the same holder");
    assert_eq!(code(value.claim_and_read(old_fence)), "STALE");
    let message = value.replace(old_fence, "old").unwrap_err().to_string();
    assert!(
        message.contains(&old_fence.to_string()) && message.contains(&new.fence().to_string()),
        "{message}"
    );
    assert_eq!(value.claim_and_read(new.fence()).unwrap().as_deref(), Some("newer"));
}

#[tokio::test]
async fn a_lock_without_fencing_is_refused_by_a_new_value() {
    let guard = Locks::memory().lock("doc:42").unfenced().acquire().await.unwrap();
    let mut value = Value::new();
    assert_eq!(code(value.claim_and_read(guard.fence())), "STALE");
    assert_eq!(code(value.replace(guard.fence(), "x")), "UNCLAIMED");
}

/// It would be larger than every real one, for ever.
#[test]
fn what_is_not_a_fence_is_not_remembered() {
    let mut value = Value::new();
    for text in ["inf", "nan", "1e30", "0x10", "-1", "", "17 ", "9007199254740993000", "x"] {
        let claim: RedisResult<()> =
            Script::new(REDIS_CLAIM).key(&value.key).arg(text).invoke(&mut value.connection);
        assert!(claim.unwrap_err().to_string().contains("is not a fence"), "{text:?}");
        let write: RedisResult<()> =
            Script::new(REDIS_WRITE).key(&value.key).arg(text).arg("x").invoke(&mut value.connection);
        assert_eq!(code(write), "UNCLAIMED", "{text:?}");
    }
    assert_eq!(value.claim_and_read(Fence::new(1_700_000_000_000_000)).unwrap(), None);
}

/// Also when the server lost its memory after the claim: what was read then is no longer what is
/// there.
#[test]
fn a_write_without_a_claim_is_refused_by_the_server() {
    let (mut value, fence) = (Value::new(), Fence::new(1_700_000_000_000_000));
    assert_eq!(code(value.replace(fence, "x")), "UNCLAIMED");
    value.claim_and_read(fence).unwrap();
    let () = redis::cmd("FLUSHALL").query(&mut value.connection).unwrap();
    assert_eq!(code(value.replace(fence, "x")), "UNCLAIMED");
}

/// Neighbouring numbers of the size that fences have, and the largest there can be.
#[test]
fn the_server_tells_neighbouring_fences_apart() {
    for largest in [Fence::new(1_794_744_860_281_853), Fence::new(u64::MAX)] {
        let before = Fence::new(largest.get() - 1);
        let mut value = Value::new();
        value.claim_and_read(before).unwrap();
        value.claim_and_read(largest).unwrap();
        assert_eq!(code(value.replace(before, "x")), "STALE");
        assert_eq!(value.replace(largest, "x").unwrap(), "OK");
    }
}

#[test]
fn in_every_order_of_two_holders_the_server_loses_no_update() {
    let mut value = Value::new();
    for (number, turns) in all_orders_of_two(CLAIM_FIRST.len()).into_iter().enumerate() {
        value.key = format!("doc:{number}");
        let outcome = run(&mut value, CLAIM_FIRST, &turns);
        assert!(outcome.lost.is_empty() && outcome.is_in_order(), "{turns:?}: {outcome:?}");
    }
}
