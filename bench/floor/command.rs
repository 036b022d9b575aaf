//! The two commands, encoded once for all servers.

use std::io::Write as _;
use std::ops::Range;

/// The compare-and-delete of the Redlock page, word for word.
pub(crate) const RELEASE: &str = r#"if redis.call("get",KEYS[1]) == ARGV[1] then
    return redis.call("del",KEYS[1])
else
    return 0
end"#;

/// Locks with a fence each, and nothing else: a second key, which is set with the lock and outlives
/// it. All of a batch at once; what is the same for all is said once.
pub(crate) const ACQUIRE_FENCED: &str = r"local call, count, granted = redis.call, #KEYS / 2, 1
for i = 1, count do
    if call('SET', KEYS[i], ARGV[2 + i], 'NX', 'PX', ARGV[1]) then
        call('SET', KEYS[count + i], ARGV[2 + count + i], 'PX', ARGV[2])
    else
        granted = 0
    end
end
return granted";

/// Their release, if each is still its owner's.
pub(crate) const RELEASE_ALL: &str = r"local owners = redis.call('MGET', unpack(KEYS))
for i = 1, #KEYS do
    if owners[i] ~= ARGV[i] then
        return 0
    end
end
redis.call('DEL', unpack(KEYS))
return 1";

/// Collects the commands of one round.
pub(crate) struct Commands {
    keys: String,
    release: Vec<u8>,
    /// The scripts of locks with fences, if they are to have one.
    fenced: Option<Fenced>,
    /// Makes owner values of cycle numbers.
    seed: u64,
    /// The key of the command that is being encoded: its length comes before it.
    key: Vec<u8>,
    buffer: Vec<u8>,
}

/// The names of [`ACQUIRE_FENCED`] and [`RELEASE_ALL`].
pub(crate) struct Fenced {
    pub(crate) acquire: String,
    pub(crate) release: String,
}

impl Commands {
    pub(crate) fn new(keys: &str, release_sha: &str) -> Self {
        let release = call(release_sha, 1, 1).into_bytes();
        let seed = keys.bytes().fold(0, |seed, byte| mixed(seed ^ u64::from(byte)));
        Self { keys: keys.to_owned(), release, fenced: None, seed, key: vec![], buffer: vec![] }
    }

    /// From now on locks have fences, by these scripts.
    pub(crate) fn fenced(mut self, scripts: Fenced) -> Self {
        self.fenced = Some(scripts);
        self
    }

    pub(crate) fn clear(&mut self) {
        self.buffer.clear();
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.buffer
    }

    /// The acquire of each of these cycles: how many replies that makes.
    pub(crate) fn acquire(&mut self, cycles: Range<u64>) -> usize {
        if let Some(scripts) = &self.fenced {
            let count = cycles.clone().count();
            self.buffer.extend_from_slice(call(&scripts.acquire, 2 * count, 2 + 2 * count).as_bytes());
            cycles.clone().for_each(|cycle| self.key(cycle, ""));
            cycles.clone().for_each(|cycle| self.key(cycle, "fence:"));
            self.buffer.extend_from_slice(b"$5\r\n33000\r\n$8\r\n86400000\r\n");
            cycles.clone().for_each(|cycle| self.owner(cycle));
            for cycle in cycles {
                let _ = write!(self.buffer, "$16\r\n{}\r\n", 1_700_000_000_000_000 + cycle);
            }
            return 1;
        }
        cycles.map(|cycle| self.acquire_one(cycle)).count()
    }

    /// The release of each of these cycles: how many replies that makes.
    pub(crate) fn release(&mut self, cycles: Range<u64>) -> usize {
        if let Some(scripts) = &self.fenced {
            let count = cycles.clone().count();
            self.buffer.extend_from_slice(call(&scripts.release, count, count).as_bytes());
            cycles.clone().for_each(|cycle| self.key(cycle, ""));
            cycles.for_each(|cycle| self.owner(cycle));
            return 1;
        }
        cycles.map(|cycle| self.release_one(cycle)).count()
    }

    /// `SET key value NX PX 33000`: a ttl of 30 s, and the guard band that Tenure adds to it.
    fn acquire_one(&mut self, cycle: u64) {
        self.buffer.extend_from_slice(b"*6\r\n$3\r\nSET\r\n");
        self.key_and_owner(cycle);
        self.buffer.extend_from_slice(b"$2\r\nNX\r\n$2\r\nPX\r\n$5\r\n33000\r\n");
    }

    /// `EVALSHA sha 1 key value`.
    fn release_one(&mut self, cycle: u64) {
        self.buffer.extend_from_slice(&self.release);
        self.key_and_owner(cycle);
    }

    /// `EVALSHA sha count key... value 33000...` for several locks.
    pub(crate) fn extend(&mut self, sha: &str, cycles: Range<u64>) {
        let count = cycles.clone().count();
        self.buffer.extend_from_slice(call(sha, count, 2 * count).as_bytes());
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
fn call(sha: &str, keys: usize, arguments: usize) -> String {
    let (parts, keys) = (3 + keys + arguments, keys.to_string());
    format!("*{parts}\r\n$7\r\nEVALSHA\r\n$40\r\n{sha}\r\n${}\r\n{keys}\r\n", keys.len())
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
        assert_eq!(commands.acquire(7..8), 1);
        let acquire = String::from_utf8(commands.as_bytes().to_vec()).unwrap();
        let parts: Vec<&str> = acquire.split("\r\n").collect();
        assert_eq!(parts[..5], ["*6", "$3", "SET", "$7", "floor:7"]);
        assert_eq!((parts[5], parts[6].len()), ("$40", 40));
        assert_eq!(parts[7..], ["$2", "NX", "$2", "PX", "$5", "33000", ""]);
        commands.clear();
        assert_eq!(commands.release(7..8), 1);
        let release = String::from_utf8(commands.as_bytes().to_vec()).unwrap();
        assert!(release.starts_with("*5\r\n$7\r\nEVALSHA\r\n$40\r\n5555"));
        assert!(release.ends_with(&format!("$1\r\n1\r\n$7\r\nfloor:7\r\n$40\r\n{}\r\n", parts[6])));
        commands.clear();
        let scripts = Fenced { acquire: "4".repeat(40), release: "3".repeat(40) };
        let mut fenced = Commands::new("floor", &"5".repeat(40)).fenced(scripts);
        assert_eq!(fenced.acquire(6..8), 1);
        let acquire = String::from_utf8(fenced.as_bytes().to_vec()).unwrap();
        let words: Vec<&str> = acquire.split("\r\n").skip(2).step_by(2).collect();
        let keys = ["4", "floor:6", "floor:7", "fence:floor:6", "fence:floor:7", "33000", "86400000"];
        assert_eq!((words[0], &words[2..9]), ("EVALSHA", &keys[..]));
        assert_eq!(words[10..], [parts[6], "1700000000000006", "1700000000000007"]);
        commands.extend(&"6".repeat(40), 6..8);
        let extend = String::from_utf8(commands.as_bytes().to_vec()).unwrap();
        let words: Vec<&str> = extend.split("\r\n").collect();
        assert_eq!((words[0], words[6], words[8], words[10]), ("*9", "2", "floor:6", "floor:7"));
        assert_eq!((words[16], words[18], words.len()), (parts[6], "33000", 20));
    }
}
