//! What keys do.

/// What is to be done to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Kill,
    Stop,
    GoOn,
    Empty,
    Restart,
}

/// What is to be done now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Do {
    /// Keys for nodes mean this one from now on, counted from zero.
    Choose(usize),
    Node(Act),
    Pause,
    Resume,
    Guard,
    /// Empty a majority of nodes while somebody holds the lock for its whole term.
    EmptyMajority,
    Help,
    Quit,
}

pub(crate) const KEYS: [&str; 2] = [
    "1-5 select a node   k kill  s stop  c continue  e empty  r restart   ? help  q quit",
    "p pause the holder  u resume it   g restart guard on/off   m empty a majority",
];

pub(crate) const HELP: &str = "\
1 to 5   select a node for the next five keys
k        kill it (SIGKILL): connections are refused
s        stop it (SIGSTOP): it keeps its connections but answers nobody
c        continue it (SIGCONT)
e        empty it (FLUSHALL): it forgets every lock
r        restart it; it has no persistence, so it comes back empty

p        pause the holder (SIGSTOP): its lease expires, and the next in line gets the lock
u        resume it: it notices that it is late, and its write is rejected by its fence

g        turn the restart guard on or off; contenders restart with the new setting
m        empty three of the five nodes while a contender holds the lock for its full ttl:
         with the guard, nobody else gets the lock; without it, there are two holders at
         once, and only their fences tell them apart

?        show or hide this help
q        quit, and stop everything the demo started";

/// What a key means.
pub(crate) fn meaning(key: char) -> Option<Do> {
    Some(match key {
        '1'..='9' => Do::Choose(key as usize - '1' as usize),
        'k' => Do::Node(Act::Kill),
        's' => Do::Node(Act::Stop),
        'c' => Do::Node(Act::GoOn),
        'e' => Do::Node(Act::Empty),
        'r' => Do::Node(Act::Restart),
        'p' => Do::Pause,
        'u' => Do::Resume,
        'g' => Do::Guard,
        'm' => Do::EmptyMajority,
        '?' => Do::Help,
        'q' => Do::Quit,
        _ => return None,
    })
}
