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
    "1-5 choose a node   k kill  s stop  c continue  e empty  r restart   ? help  q quit",
    "p pause the holder  u resume it   g restart guard on/off   m empty a majority",
];

pub(crate) const HELP: &str = "\
1 to 5   choose a node; the keys of the next five lines are about it
k        kill it: SIGKILL, and connections are refused
s        stop it: SIGSTOP, it keeps its connections and answers nobody
c        continue it: SIGCONT
e        empty it: FLUSHALL, it forgets every lock
r        restart it; without persistence it comes back empty

p        pause the holder: SIGSTOP. Its lease runs out, and the next in line gets the lock
u        resume it. It notices that it is late, and its write is refused by its fence

g        switch the restart guard off or on. Contenders start again with the other setting
m        empty three of the five nodes while somebody holds the lock for its whole term:
         with the guard nobody else gets it; without it there are two holders at once, and
         only their fences tell them apart

?        this page, and back
q        quit; everything the demo started ends with it";

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
