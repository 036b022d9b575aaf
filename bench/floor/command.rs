//! The two commands, encoded once for all servers.

use std::io::Write as _;
use std::ops::Range;

/// The compare-and-delete of the Redlock page, word for word.
pub(crate) const RELEASE: &str = r#"if redis.call("get",KEYS[1]) == ARGV[1] then
    return redis.call("del",KEYS[1])
else
    return 0
end"#;

/// A fence and nothing else: a second key, which is set with the lock and outlives it.
pub(crate) const ACQUIRE_FENCED: &str = r"if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
    redis.call('SET', KEYS[2], ARGV[3], 'PX', ARGV[4])
    return 1
else
    return 0
end";

/// Collects the commands of one round.
pub(crate) struct Commands {
    keys: String,
    release: Vec<u8>,
    /// What begins an acquire with a fence, if they are to have one.
    acquire_fenced: Option<Vec<u8>>,
    /// Makes owner values of cycle numbers.
    seed: u64,
    /// The key of the command that is being encoded: its length comes before it.
    key: Vec<u8>,
    buffer: Vec<u8>,
}

impl Commands {
    pub(crate) fn new(keys: &str, release_sha: &str) -> Self {
        let release = call(release_sha, 1, 1);
        let seed = keys.bytes().fold(0, |seed, byte| mixed(seed ^ u64::from(byte)));
        Self { keys: keys.to_owned(), release, acquire_fenced: None, seed, key: vec![], buffer: vec![] }
    }

    /// From now on locks have fences, by the script [`ACQUIRE_FENCED`] of this name.
    pub(crate) fn fenced(mut self, sha: &str) -> Self {
        self.acquire_fenced = Some(call(sha, 2, 4));
        self
    }

    pub(crate) fn clear(&mut self) {
        self.buffer.clear();
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.buffer
    }

    /// `SET key value NX PX 33000`: a ttl of 30 s, and the guard band that Tenure adds to it. With
    /// a fence `EVALSHA sha 2 key fence-key value 33000 fence 86400000`: kept for a day.
    pub(crate) fn acquire(&mut self, cycle: u64) {
        if let Some(head) = &self.acquire_fenced {
            self.buffer.extend_from_slice(head);
            self.key(cycle, "");
            self.key(cycle, "fence:");
            self.owner(cycle);
            let fence = 1_700_000_000_000_000 + cycle;
            let _ = write!(self.buffer, "$5\r\n33000\r\n$16\r\n{fence}\r\n$8\r\n86400000\r\n");
            return;
        }
        self.buffer.extend_from_slice(b"*6\r\n$3\r\nSET\r\n");
        self.key_and_owner(cycle);
        self.buffer.extend_from_slice(b"$2\r\nNX\r\n$2\r\nPX\r\n$5\r\n33000\r\n");
    }

    /// `EVALSHA sha 1 key value`.
    pub(crate) fn release(&mut self, cycle: u64) {
        self.buffer.extend_from_slice(&self.release);
        self.key_and_owner(cycle);
    }

    /// `EVALSHA sha count key... value 33000...` for several locks.
    pub(crate) fn extend(&mut self, sha: &str, cycles: Range<u64>) {
        let count = cycles.end - cycles.start;
        let (parts, digits) = (3 + 3 * count, count.to_string());
        let head = format!("*{parts}\r\n$7\r\nEVALSHA\r\n$40\r\n{sha}\r\n${}\r\n{digits}\r\n", digits.len());
        self.buffer.extend_from_slice(head.as_bytes());
        cycles.clone().for_each(|cycle| self.key(cycle, ""));
        for cycle in cycles {
            self.owner(cycle);
            self.buffer.extend_from_slice(b"$5\r\n33000\r\n");
        }
    }

    fn key_and_owner(&mut self, cycle: u64) {
        self.key(cycle, "");
        self.owner(cycle);
    }

    fn key(&mut self, cycle: u64, kind: &str) {
        self.key.clear();
        let _ = write!(self.key, "{kind}{}:{cycle}", self.keys);
        let _ = write!(self.buffer, "${}\r\n", self.key.len());
        self.buffer.extend_from_slice(&self.key);
        self.buffer.extend_from_slice(b"\r\n");
    }

    fn owner(&mut self, cycle: u64) {
        self.buffer.extend_from_slice(b"$40\r\n");
        let first = mixed(self.seed ^ cycle);
        let second = mixed(first);
        hex(&mut self.buffer, &first.to_be_bytes());
        hex(&mut self.buffer, &second.to_be_bytes());
        hex(&mut self.buffer, &mixed(second).to_be_bytes()[..4]);
        self.buffer.extend_from_slice(b"\r\n");
    }
}

/// Everything of a call up to its keys.
fn call(sha: &str, keys: usize, arguments: usize) -> Vec<u8> {
    format!("*{}\r\n$7\r\nEVALSHA\r\n$40\r\n{sha}\r\n$1\r\n{keys}\r\n", 3 + keys + arguments).into_bytes()
}

fn hex(buffer: &mut Vec<u8>, bytes: &[u8]) {
    let digits = b"0123456789abcdef";
    buffer.extend(bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]).map(|half| digits[usize::from(half)]));
}

/// The step of `SplitMix64`.
const fn mixed(state: u64) -> u64 {
    let state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_what_redis_reads() {
        let mut commands = Commands::new("floor", &"5".repeat(40));
        commands.acquire(7);
        let acquire = String::from_utf8(commands.as_bytes().to_vec()).unwrap();
        let parts: Vec<&str> = acquire.split("\r\n").collect();
        assert_eq!(parts[..5], ["*6", "$3", "SET", "$7", "floor:7"]);
        assert_eq!((parts[5], parts[6].len()), ("$40", 40));
        assert_eq!(parts[7..], ["$2", "NX", "$2", "PX", "$5", "33000", ""]);
        commands.clear();
        commands.release(7);
        let release = String::from_utf8(commands.as_bytes().to_vec()).unwrap();
        assert!(release.starts_with("*5\r\n$7\r\nEVALSHA\r\n$40\r\n5555"));
        assert!(release.ends_with(&format!("$1\r\n1\r\n$7\r\nfloor:7\r\n$40\r\n{}\r\n", parts[6])));
        commands.clear();
        let mut fenced = Commands::new("floor", &"5".repeat(40)).fenced(&"4".repeat(40));
        fenced.acquire(7);
        let acquire = String::from_utf8(fenced.as_bytes().to_vec()).unwrap();
        let words: Vec<&str> = acquire.split("\r\n").skip(2).step_by(2).collect();
        let expected = ["2", "floor:7", "fence:floor:7", parts[6], "33000", "1700000000000007", "86400000"];
        assert_eq!((words[0], &words[2..]), ("EVALSHA", &expected[..]));
        commands.extend(&"6".repeat(40), 6..8);
        let extend = String::from_utf8(commands.as_bytes().to_vec()).unwrap();
        let words: Vec<&str> = extend.split("\r\n").collect();
        assert_eq!((words[0], words[6], words[8], words[10]), ("*9", "2", "floor:6", "floor:7"));
        assert_eq!((words[16], words[18], words.len()), (parts[6], "33000", 20));
    }
}
