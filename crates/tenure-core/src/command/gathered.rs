//! Commands that wait for each other on their way to a node, to leave as one call a kind.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::{Command, Next};
use crate::fence::ProposedFence;
use crate::names::LockKey;

/// The most commands in one call: a third of a millisecond of a server's time at the most, which
/// others wait for.
const BATCH_MAX: usize = 64;

/// Commands that can be sent together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Batch {
    /// Releases without ticket. The first to leave: they make way for others.
    Releases,
    /// Acquires with one fence, without ticket or label, in one life of the node's memory.
    Acquires,
    /// Extensions.
    Extends,
}

impl Batch {
    /// How many kinds there are.
    pub const COUNT: usize = 3;

    /// All kinds, in the order in which they leave.
    pub const ALL: [Self; Self::COUNT] = [Self::Releases, Self::Acquires, Self::Extends];

    /// Whether a command can be sent together with others, and with which. What is about several
    /// locks at once comes behind everything that waits.
    #[must_use]
    pub fn of(command: &Command) -> Option<Self> {
        match command {
            _ if command.key().is_some_and(LockKey::is_set) => None,
            Command::Release { next: Next::InLine, .. } => Some(Self::Releases),
            Command::Acquire {
                nonce: Some(_),
                fence: Some(ProposedFence { span: 0, .. }),
                beside: None,
                ..
            } => Some(Self::Acquires),
            Command::Extend { .. } => Some(Self::Extends),
            _ => None,
        }
    }
}

/// What waits on a connection for its next write, each command with a `T` that tells whose it is.
///
/// A call costs a server as much as a lock, so those of one kind leave as one. Each is executed as
/// it would be alone, whatever becomes of the others. The order of commands is kept for each lock,
/// and only for each lock: no lock waits twice, so it does not matter in which order the kinds
/// leave; and whatever comes after them is sent behind them.
///
/// ```
/// use tenure_core::{Batch, Command, Gathered, LockKey, Mode, OwnerToken, Prefix};
///
/// let extend = |name, tag| {
///     let key = LockKey::new(&Prefix::default(), name)?;
///     let (token, mode) = (OwnerToken::from_bytes([7; 20]), Mode::Exclusive);
///     Ok((tag, Command::Extend { key, token, node_ttl_ms: 1_000, mode }))
/// };
/// let mut gathered = Gathered::default();
/// gathered.push(Batch::Extends, extend("a", 1)?);
/// assert!(gathered.has_room_for(Batch::Extends, &extend("b", 2)?.1));
/// assert!(!gathered.has_room_for(Batch::Extends, &extend("a", 2)?.1));
/// assert_eq!(gathered.take(Batch::Extends).len(), 1);
/// # Ok::<(), tenure_core::NameError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Gathered<T> {
    batches: [Vec<(T, Command)>; Batch::COUNT],
    /// The locks that they are about: a number each. Two with the same number do not wait together,
    /// which costs no more than a call.
    locks: Vec<u64>,
}

impl<T> Default for Gathered<T> {
    fn default() -> Self {
        Self { batches: [const { vec![] }; Batch::COUNT], locks: vec![] }
    }
}

impl<T> Gathered<T> {
    /// Whether a command can wait with those that are there; else they leave first.
    #[must_use]
    pub fn has_room_for(&self, batch: Batch, command: &Command) -> bool {
        let waiting = &self.batches[batch as usize];
        let same_life = match (command, waiting.first()) {
            (Command::Acquire { nonce, .. }, Some((_, Command::Acquire { nonce: other, .. }))) => {
                nonce == other
            }
            _ => true,
        };
        waiting.len() < BATCH_MAX
            && same_life
            && !command.key().is_some_and(|key| self.locks.contains(&number(key)))
    }

    /// Lets a command wait.
    pub fn push(&mut self, batch: Batch, command: (T, Command)) {
        self.locks.extend(command.1.key().map(number));
        self.batches[batch as usize].push(command);
    }

    /// Those of one kind. All kinds are taken together.
    pub fn take(&mut self, batch: Batch) -> Vec<(T, Command)> {
        self.locks.clear();
        std::mem::take(&mut self.batches[batch as usize])
    }

    /// Takes back room for the next ones.
    pub fn reuse(&mut self, batch: Batch, mut room: Vec<(T, Command)>) {
        let waiting = &mut self.batches[batch as usize];
        if waiting.capacity() == 0 {
            room.clear();
            *waiting = room;
        }
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.batches.iter().all(Vec::is_empty)
    }

    /// All that waits, in the order in which it leaves.
    pub fn iter(&self) -> impl Iterator<Item = &(T, Command)> {
        self.batches.iter().flatten()
    }
}

fn number(key: &LockKey) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.as_str().hash(&mut hasher);
    hasher.finish()
}
