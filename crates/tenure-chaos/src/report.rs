//! What came of a run, in words.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::time::Duration;

use super::{Kind, Options, picture};
use crate::checker::{Violation, check};
use crate::history::{End, Entry, History, Hold, Miss, Ns, Process};

/// How many violations are told one by one.
const TOLD_MAX: usize = 10;

/// A fault that happened to one server, connection or client. What hits several is as many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Episode {
    /// What it was.
    pub what: What,
    /// To whom.
    pub to: Where,
    /// When it began.
    pub from: Ns,
    /// When it was over.
    pub until: Ns,
}

/// To whom a fault happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Where {
    /// A server.
    Node(usize),
    /// The connections of one half of the clients to a server.
    Link(usize, usize),
    /// A client.
    Client(usize),
}

/// What can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "`label` has the words")]
pub enum What {
    KilledEmpty,
    KilledWithData,
    KilledTail,
    KilledDurable,
    NodeStopped,
    Flushed,
    ClockForward,
    ClockBack,
    ClockForwardLittle,
    ClockBackLittle,
    ClockSlewed,
    RequestsDelayed,
    RepliesDelayed,
    RequestsCut,
    RepliesCut,
    ConnectionsBroken,
    Partitioned,
    ClientStopped,
    ClientKilled,
}

impl What {
    /// In words.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::KilledEmpty => "server killed, started empty",
            Self::KilledWithData => "server killed, started with its data (everysec)",
            Self::KilledTail => "server killed, started without the end of its data (everysec)",
            Self::KilledDurable => "server killed, started with its data (always)",
            Self::NodeStopped => "server halted (SIGSTOP)",
            Self::Flushed => "server flushed (FLUSHALL)",
            Self::ClockForward => "server's clock stepped forward, by more than 3 s",
            Self::ClockBack => "server's clock stepped back, by more than 3 s",
            Self::ClockForwardLittle => "server's clock stepped forward, by 60 ms to 3 s",
            Self::ClockBackLittle => "server's clock stepped back, by 60 ms to 3 s",
            Self::ClockSlewed => "server's clock 8 % fast",
            Self::RequestsDelayed => "requests delayed",
            Self::RepliesDelayed => "replies delayed",
            Self::RequestsCut => "requests stalled or lost",
            Self::RepliesCut => "replies stalled or lost",
            Self::ConnectionsBroken => "connections broken",
            Self::Partitioned => "half of the clients cut off",
            Self::ClientStopped => "client halted (SIGSTOP)",
            Self::ClientKilled => "client killed, restarted",
        }
    }
}

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What it was to be.
    pub options: Options,
    /// What the clients did.
    pub history: History,
    /// Who held which lock from when to when.
    pub holds: Vec<Hold>,
    /// What went wrong with servers, connections and clients.
    pub episodes: Vec<Episode>,
    /// How many faults were left out because an assumption would not have held.
    pub forgone: u64,
    /// What was promised and not kept.
    pub violations: Vec<Violation>,
    /// When the faults began, when all was right again, and when the clients were ended.
    pub times: [Ns; 3],
}

impl Outcome {
    pub(super) fn new(
        options: Options,
        history: History,
        episodes: Vec<Episode>,
        forgone: u64,
        times: [Ns; 3],
    ) -> Self {
        let (holds, violations) = (history.holds(), check(&history));
        Self { options, history, holds, episodes, forgone, violations, times }
    }

    /// How many locks were given while things went wrong.
    #[must_use]
    pub fn acquisitions(&self) -> usize {
        let [began, healed, _] = self.times;
        self.holds.iter().filter(|hold| (began..healed).contains(&hold.returned)).count()
    }

    /// How often a lock was given while another client counted on it.
    #[must_use]
    pub fn overlaps(&self) -> usize {
        self.violations.iter().filter(|violation| matches!(violation, Violation::Overlap { .. })).count()
    }

    /// How many promises about fences were broken.
    #[must_use]
    pub fn fence_violations(&self) -> usize {
        self.violations.iter().filter(|violation| violation.is_of_fencing()).count()
    }

    /// How many client processes ended that nobody had killed: what they would have found is
    /// missing.
    #[must_use]
    pub fn died(&self) -> usize {
        self.history.processes.iter().filter(|process| process.died.is_some()).count()
    }

    /// How long after the last fault the last lock was asked for and given; `None` if one was not.
    #[must_use]
    pub fn healed_after(&self) -> Option<Duration> {
        let [_, healed, _] = self.times;
        let first = |lock: usize| {
            let mut after = self.holds.iter().filter(|hold| hold.lock == lock && hold.invoked > healed);
            after.next().map(|hold| duration(hold.returned - healed))
        };
        let firsts: Option<Vec<Duration>> = (0..self.options.locks).map(first).collect();
        firsts?.into_iter().max()
    }

    /// The longest time in which a lock was held by nobody, while things went wrong.
    #[must_use]
    pub fn longest_gap(&self) -> Duration {
        let [began, healed, _] = self.times;
        let of_lock = |lock: usize| {
            let (mut free_since, mut longest) = (began, 0);
            for hold in self.holds.iter().filter(|hold| hold.lock == lock) {
                longest = longest.max(hold.returned.min(healed) - free_since);
                free_since = free_since.max(hold.end);
            }
            longest.max(healed - free_since)
        };
        duration((0..self.options.locks).map(of_lock).max().unwrap_or(0))
    }

    /// A picture of a part of it, as SVG: that many seconds from `from_s` on, or around the first
    /// violation, or where most happened.
    #[must_use]
    pub fn picture(&self, from_s: Option<u64>, seconds: u64) -> String {
        picture::draw(self, from_s, seconds)
    }

    /// All that happened, line by line: the runs of the clients, the faults, and what the clients
    /// said.
    #[must_use]
    pub fn history_text(&self) -> String {
        let mut text = String::new();
        for (number, process) in self.history.processes.iter().enumerate() {
            let Process { client, started, killed, died, halts } = process;
            let _ = writeln!(
                text,
                "run of process {number} client {client} started {started} killed {killed:?} died {died:?} \
                 halts {halts:?}"
            );
        }
        for Episode { what, to, from, until } in &self.episodes {
            let _ = writeln!(text, "fault {from} {until} {to:?}: {}", what.label());
        }
        for (number, entry) in &self.history.entries {
            let client = self.history.processes[*number].client;
            let _ = writeln!(text, "process {number} client {client} {entry}");
        }
        text
    }

    fn count(&self, count: impl Fn(&Entry) -> bool) -> usize {
        self.history.entries.iter().filter(|(_, entry)| count(entry)).count()
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [began, healed, _] = self.times;
        let options = &self.options;
        let kind = match options.kind {
            Kind::Mixed => "mixed",
            Kind::Rolling => "rolling, started empty",
            Kind::RollingDurable => "rolling, appendfsync always, with data",
        };
        let guard = if options.guarded { "on" } else { "off" };
        writeln!(
            f,
            "seed {}, {kind}, restart guard {guard}, {:.1?}",
            options.seed,
            duration(healed - began)
        )?;
        let mut faults: BTreeMap<What, u64> = BTreeMap::new();
        self.episodes.iter().for_each(|episode| *faults.entry(episode.what).or_default() += 1);
        writeln!(f, "faults          {:>7}", self.episodes.len())?;
        for (what, count) in faults {
            writeln!(f, "                {count:>7}  {}", what.label())?;
        }
        writeln!(f, "                {:>7}  left out, an assumption would not have held", self.forgone)?;
        writeln!(f, "acquisitions    {:>7}", self.acquisitions())?;
        let told = |hold: &Hold| hold.told.is_some_and(|told| told < hold.until);
        let ended = |how: End| self.holds.iter().filter(|hold| hold.how == how && !told(hold)).count();
        let killed = self.holds.iter().filter(|hold| hold.how == End::Killed).count();
        let lost = self.holds.iter().filter(|hold| hold.how != End::Killed && told(hold)).count();
        writeln!(f, "  released      {:>7}", ended(End::Released))?;
        writeln!(f, "  lost, told    {lost:>7}")?;
        writeln!(f, "  holder killed {killed:>7}")?;
        writeln!(f, "  ran out       {:>7}  while its holder stood still", ended(End::Expired))?;
        let missed =
            |kind: Miss| self.count(|entry| matches!(entry, Entry::Missed { why, .. } if *why == kind));
        writeln!(f, "not acquired    {:>7}  contended", missed(Miss::Contended))?;
        writeln!(f, "                {:>7}  unavailable", missed(Miss::Unavailable))?;
        writeln!(f, "                {:>7}  too late", missed(Miss::Late))?;
        writeln!(f, "updates taken   {:>7}", self.count(|entry| matches!(entry, Entry::Wrote { .. })))?;
        writeln!(f, "updates refused {:>7}", self.count(|entry| matches!(entry, Entry::Refused { .. })))?;
        writeln!(f, "longest time without a holder of some lock: {:.1?}", self.longest_gap())?;
        match self.healed_after() {
            Some(after) => writeln!(
                f,
                "after the last fault every lock was given within {after:.1?} (bound {:.1?})",
                options.healed_within()
            )?,
            None => writeln!(
                f,
                "NOT EVERY LOCK WAS GIVEN within {:.1?} of the last fault",
                options.healed_within()
            )?,
        }
        if self.died() > 0 {
            writeln!(f, "CLIENTS THAT ENDED BY THEMSELVES: {}", self.died())?;
        }
        writeln!(
            f,
            "violations      {:>7}  ({} overlaps, {} of fences)",
            self.violations.len(),
            self.overlaps(),
            self.fence_violations()
        )?;
        for violation in self.violations.iter().take(TOLD_MAX) {
            writeln!(f, "  {:>8.3} s: {violation}", duration(violation.at() - began).as_secs_f64())?;
        }
        if self.violations.len() > TOLD_MAX {
            writeln!(f, "  ... and {} more", self.violations.len() - TOLD_MAX)?;
        }
        Ok(())
    }
}

fn duration(ns: Ns) -> Duration {
    Duration::from_nanos(u64::try_from(ns).unwrap_or(0))
}
