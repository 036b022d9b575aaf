//! Who takes part, and how each is used.

use std::fmt;

/// A library, or a floor.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    /// What `--peer` and the drivers call it.
    pub(crate) name: &'static str,
    /// What the table calls it.
    pub(crate) title: &'static str,
    pub(crate) language: Language,
    pub(crate) stores: Stores,
    pub(crate) tunes: Tunes,
    runtimes: &'static [Runtime],
}

/// Which driver runs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Language {
    /// This program.
    Ours,
    Rust,
    Go,
    Java,
    Node,
    Python,
}

/// What its locks live on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stores {
    /// All Redis servers; a majority decides.
    Quorum,
    /// The first Redis server alone.
    OneServer,
    /// Three members of etcd, which write to disk before they answer.
    Etcd,
}

/// What its tuned settings change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tunes {
    /// It has none.
    Nothing,
    /// How it waits for a lock that is taken, and for a node that is silent.
    Waiting,
    /// Every cycle.
    All,
}

/// Where the tasks of a Rust client run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Runtime {
    /// It does not say.
    Fixed,
    Single,
    Threads1,
    Threads2,
    /// The tasks on a runtime of one thread, the client on a thread of its own.
    Own,
}

/// A peer, used in one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Contender {
    pub(crate) peer: &'static Peer,
    pub(crate) tuned: bool,
    pub(crate) runtime: Runtime,
}

/// Without these a run says little.
pub(crate) const REQUIRED: [&str; 4] = ["redsync", "redisson-redlock", "node-redlock", "rslock"];

const FIXED: &[Runtime] = &[Runtime::Fixed];
const TOKIO: &[Runtime] = &[Runtime::Single, Runtime::Threads1, Runtime::Threads2];
const TENURE: &[Runtime] = &[Runtime::Single, Runtime::Threads1, Runtime::Threads2, Runtime::Own];

const fn peer(
    name: &'static str,
    title: &'static str,
    language: Language,
    stores: Stores,
    tunes: Tunes,
    runtimes: &'static [Runtime],
) -> Peer {
    Peer { name, title, language, stores, tunes, runtimes }
}

pub(crate) const PEERS: &[Peer] = &[
    peer("floor", "floor", Language::Ours, Stores::Quorum, Tunes::Nothing, FIXED),
    peer("floor-batched", "floor batched", Language::Ours, Stores::Quorum, Tunes::Nothing, FIXED),
    peer("floor-fenced", "floor with fences", Language::Ours, Stores::Quorum, Tunes::Nothing, FIXED),
    peer("tenure", "Tenure", Language::Ours, Stores::Quorum, Tunes::Nothing, TENURE),
    peer("tenure-unfenced", "Tenure unfenced", Language::Ours, Stores::Quorum, Tunes::Nothing, TENURE),
    peer("tenure-cohort", "Tenure cohort", Language::Ours, Stores::Quorum, Tunes::Nothing, TENURE),
    peer("rslock", "rslock", Language::Rust, Stores::Quorum, Tunes::Waiting, TOKIO),
    peer("redsync", "redsync", Language::Go, Stores::Quorum, Tunes::All, FIXED),
    peer("redisson-redlock", "Redisson RedLock", Language::Java, Stores::Quorum, Tunes::All, FIXED),
    peer("node-redlock", "node-redlock", Language::Node, Stores::Quorum, Tunes::Waiting, FIXED),
    peer("redlock-universal", "redlock-universal", Language::Node, Stores::Quorum, Tunes::Waiting, FIXED),
    peer("redlock-rs", "redlock (Rust)", Language::Rust, Stores::Quorum, Tunes::Waiting, FIXED),
    peer("pottery", "pottery", Language::Python, Stores::Quorum, Tunes::Waiting, FIXED),
    peer("redlock-py", "redlock-py", Language::Python, Stores::Quorum, Tunes::Waiting, FIXED),
    peer("redisson-rlock", "Redisson RLock", Language::Java, Stores::OneServer, Tunes::All, FIXED),
    peer("rueidislock", "rueidislock", Language::Go, Stores::OneServer, Tunes::All, FIXED),
    peer("etcd", "etcd", Language::Go, Stores::Etcd, Tunes::Waiting, FIXED),
];

impl Peer {
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        PEERS.iter().find(|peer| peer.name == name)
    }

    /// The floors are no library.
    pub(crate) fn is_floor(&self) -> bool {
        self.name.starts_with("floor")
    }

    /// Floors of cycles that nobody competes for are no floors of anything else.
    pub(crate) fn is_for_cycles(&self) -> bool {
        self.is_floor() && self.name != "floor"
    }

    pub(crate) fn is_tenure(&self) -> bool {
        self.name.starts_with("tenure")
    }

    /// Whether it differs from the others only where workers share a lock.
    pub(crate) fn is_for_sharing(&self) -> bool {
        self.name == "tenure-cohort"
    }

    /// As it is used where nobody waits and nothing fails: on every runtime.
    pub(crate) fn everywhere(&'static self) -> impl Iterator<Item = Contender> {
        let settings = [Some(false), (self.tunes == Tunes::All).then_some(true)];
        settings.into_iter().flatten().flat_map(move |tuned| {
            self.runtimes.iter().map(move |runtime| Contender { peer: self, tuned, runtime: *runtime })
        })
    }

    /// As it is used where somebody waits: with both settings, on one runtime.
    pub(crate) fn waiting(&'static self, runtime: Runtime) -> impl Iterator<Item = Contender> {
        let settings = [Some(false), (self.tunes != Tunes::Nothing).then_some(true)];
        settings.into_iter().flatten().map(move |tuned| self.with(tuned, runtime))
    }

    /// As it comes.
    pub(crate) fn plain(&'static self, runtime: Runtime) -> Contender {
        self.with(false, runtime)
    }

    fn with(&'static self, tuned: bool, runtime: Runtime) -> Contender {
        let runtime = if self.runtimes.contains(&runtime) { runtime } else { self.runtimes[0] };
        Contender { peer: self, tuned, runtime }
    }
}

impl Contender {
    pub(crate) fn settings(&self) -> &'static str {
        if self.tuned { "tuned" } else { "default" }
    }
}

impl Runtime {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Fixed => "fixed",
            Self::Single => "single",
            Self::Threads1 => "threads:1",
            Self::Threads2 => "threads:2",
            Self::Own => "own",
        }
    }
}

impl Stores {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Quorum => "quorum",
            Self::OneServer => "one server",
            Self::Etcd => "3 etcd",
        }
    }
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.peer.title)?;
        if self.tuned {
            f.write_str(" tuned")?;
        }
        f.write_str(match self.runtime {
            Runtime::Fixed => "",
            Runtime::Single => ", single",
            Runtime::Threads1 => ", 1 thread",
            Runtime::Threads2 => ", 2 threads",
            Runtime::Own => ", own thread",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_required_peer_exists() {
        for name in REQUIRED {
            assert!(Peer::named(name).is_some(), "{name}");
        }
    }

    #[test]
    fn tuned_settings_are_measured_where_they_matter() {
        let rslock = Peer::named("rslock").unwrap();
        assert_eq!(rslock.everywhere().count(), 3);
        let waiting: Vec<String> = rslock.waiting(Runtime::Single).map(|used| used.to_string()).collect();
        assert_eq!(waiting, ["rslock, single", "rslock tuned, single"]);
        assert_eq!(Peer::named("redsync").unwrap().everywhere().count(), 2);
    }
}
