//! What the locks protect: numbers on a Redis server that is none of the nodes, and that checks
//! fences.

use tenure::fenced::{REDIS_CLAIM, REDIS_WRITE};

/// A connection to it.
pub(crate) struct Resource {
    connection: redis::Connection,
    claim: redis::Script,
    write: redis::Script,
}

impl Resource {
    pub(crate) fn connect(url: &str) -> Self {
        let connection = redis::Client::open(url).unwrap().get_connection().unwrap();
        Self { connection, claim: redis::Script::new(REDIS_CLAIM), write: redis::Script::new(REDIS_WRITE) }
    }

    /// The number, from now on refused to smaller fences; `None` if this fence is refused.
    pub(crate) fn claim(&mut self, lock: usize, fence: i64) -> Option<i64> {
        let value: redis::RedisResult<Option<i64>> =
            self.claim.key(key(lock)).arg(fence).invoke(&mut self.connection);
        accepted(value).map(|value| value.unwrap_or(0))
    }

    /// Whether the number was replaced.
    pub(crate) fn write(&mut self, lock: usize, fence: i64, value: i64) -> bool {
        let answer: redis::RedisResult<()> =
            self.write.key(key(lock)).arg(fence).arg(value).invoke(&mut self.connection);
        accepted(answer).is_some()
    }
}

fn accepted<T>(answer: redis::RedisResult<T>) -> Option<T> {
    match answer {
        Ok(answer) => Some(answer),
        Err(error) if error.code() == Some("STALE") => None,
        Err(error) => panic!("the resource fails: {error}"),
    }
}

fn key(lock: usize) -> String {
    format!("number-{lock}")
}
