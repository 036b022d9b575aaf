//! What a server says about the commands it has executed.

use std::fmt;

use crate::RedisServer;

/// Counts the commands of one server, without those of whoever counts.
pub struct CommandCount {
    connection: redis::Connection,
    asked: u64,
}

impl CommandCount {
    /// Counts those of this server.
    #[must_use]
    pub fn of(server: &RedisServer) -> Self {
        Self { connection: server.connection(), asked: 0 }
    }

    /// How many it has executed so far, those that scripts call among them.
    pub fn read(&mut self) -> u64 {
        let info: String = redis::cmd("INFO").arg("stats").query(&mut self.connection).unwrap();
        let count = info.lines().find_map(|line| line.strip_prefix("total_commands_processed:"));
        self.asked += 1;
        count.unwrap().trim().parse::<u64>().unwrap() - self.asked
    }
}

impl fmt::Debug for CommandCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommandCount").field("asked", &self.asked).finish_non_exhaustive()
    }
}
