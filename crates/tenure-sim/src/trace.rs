//! The story of a history, written only when somebody wants to read it, and what was seen on the
//! way.

use std::fmt;

/// The lines of a story, and a digest of every event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Trace {
    pub(crate) on: bool,
    pub(crate) lines: Vec<String>,
    pub(crate) digest: u64,
}

impl Trace {
    /// Takes an event into the digest: two histories with the same one had the same events at the
    /// same moments.
    pub(crate) fn digest(&mut self, now_ns: u64, event: &impl fmt::Debug) {
        if self.on {
            // FNV-1a.
            for byte in format!("{now_ns} {event:?}").bytes() {
                self.digest = (self.digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
    }

    pub(crate) fn note(&mut self, now_ns: u64, line: impl FnOnce() -> String) {
        if self.on {
            let millis = now_ns as f64 / 1e6;
            self.lines.push(format!("{millis:>12.3} ms  {}", line()));
        }
    }
}

macro_rules! marks {
    ($($variant:ident $text:literal,)*) => {
        /// Something that must be seen to happen, or else a campaign proves little.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Mark {
            $(#[doc = $text] $variant,)*
        }

        impl Mark {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// What it is called in a summary.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }
    };
}

marks! {
    Attempt "attempts",
    Early "acquires that waited for the nodes to be known",
    Polite "acquires that let the lock be passed on first",
    Acquired "acquisitions",
    Contended "attempts refused by holders",
    PartialGrant "attempts lost with some grants",
    TooLate "majorities that came too late",
    Reproposed "re-proposals with a larger fence",
    Waiting "waits in line",
    PassedOn "locks passed on to a waiter",
    Woken "waiters woken",
    WokenInVain "wake-ups for clients that no longer wait",
    PassedWithin "locks passed on inside a client",
    Shared "locks held by several at once",
    SharedSince "locks shared that were had alone before",
    Reentered "locks held several times by one owner",
    Rejoined "nodes that named the fence of the owner's group",
    Entered "holds that another one of the same owner waits for",
    Several "acquires of several locks at once",
    Kept "locks released and kept from others for their period",
    Waived "locks released before their period was over",
    OtherKind "acquires ended because the name is another kind of lock",
    PassedToNobody "locks passed on inside a client to a caller that had gone",
    CopiedBefore "locks released because their token was known to others",
    Yielded "locks yielded to clients ahead",
    Nudged "locks nudged",
    MinorityOnly "clients that reach only a minority",
    LateGrant "grants that came when the attempt was given up",
    SplitVote "attempts lost with some grants though nobody held the lock",
    Extended "extensions",
    RenewedByTimer "extensions begun by the timer of the lease",
    RenewedTogether "renewals of several locks sent together",
    SentTogether "acquires, extensions or releases sent together",
    Split "renewals sent together that a node did not all grant",
    ReleaseRacedRenewal "releases while an extension was under way",
    HandedOver "locks handed over",
    EarlierCopy "locks handed over by a copy from before the nodes changed",
    Resumed "locks resumed by the client that they were handed over to",
    NotExtended "failed extensions",
    Lost "locks lost to a majority of refusals",
    AtRisk "held locks at risk",
    SafeAgain "locks at risk that were extended after all",
    LossTold "losses told to the holder",
    Healed "keys put back by healing",
    HealedCounted "nodes that counted again a quarantine after healing",
    Trimmed "fences forgotten after the retention",
    Stranger "acquires refused by a strange memory",
    SetElsewhere "keys set in a memory that was not asked",
    Quarantined "quarantines",
    ClockJumped "clock jumps seen",
    ClockApart "clocks seen apart",
    FreshStart "first starts marked",
    Waited "quarantines waited out",
    Returned "records of returned memories",
    Poisoned "fences not believed",
    Ahead "fences too far ahead of a node",
    Behind "fences refused because a larger one was granted",
    Unfit "nodes that refused a client with another list or other settings",
    WrittenBack "records written back by those who were refused",
    Restarted "restarts with memory",
    DurableRestart "restarts of durable nodes",
    MemoryLost "restarts without memory",
    TailLost "restarts with an old snapshot",
    Flushed "flushes",
    Evicted "keys of held locks that vanished within the margin",
    Rolled "restarts under a long-held lock",
    Postponed "restarts that waited for a full margin",
    HealRefused "healing refused by a larger fence",
    SteppedForward "steps forward",
    SteppedBack "steps back",
    Frozen "clocks frozen",
    Slewed "clocks slewed",
    LinkBroken "broken connections",
    RequestsWaited "partitions in which only commands wait",
    RepliesWaited "partitions in which only answers wait",
    Parted "partitions in which both wait",
    PartitionBroke "connections that broke at the end of a partition",
    Duplicated "commands executed twice",
    GhostSet "acquires that were granted when nobody waited for them",
    GhostRefused "acquires of the past that were refused",
    Stray "commands from a broken connection",
    Paused "pauses",
    ExpiredInPause "locks that expired in a pause",
    ClientCrashed "client crashes",
    ClocksSet "clocks that were far apart and were set",
    NearBound "locks got after more than half of the time allowed",
    Forgone "faults forgone to stay within the assumptions",
}

/// How often each mark was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marks([u64; Mark::ALL.len()]);

impl Marks {
    pub(crate) fn see(&mut self, mark: Mark) {
        self.0[mark as usize] += 1;
    }

    /// How often.
    #[must_use]
    pub const fn count(&self, mark: Mark) -> u64 {
        self.0[mark as usize]
    }

    /// Adds those of another history.
    pub fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, count)| *sum += count);
    }
}

impl Default for Marks {
    fn default() -> Self {
        Self([0; Mark::ALL.len()])
    }
}

impl fmt::Display for Marks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for mark in Mark::ALL {
            writeln!(f, "{:>12}  {}", self.count(*mark), mark.name())?;
        }
        Ok(())
    }
}
