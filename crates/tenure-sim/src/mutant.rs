//! Known-bad variants of the algorithm. Each must be caught, or the checkers see too little.
//!
//! They bend what nodes do, what is drawn for an attempt and asked for, and commands and answers on
//! their way, around the production structs; none is in the core. The parts are by theme: fences,
//! keys and owners, extensions, votes, trust in nodes, waiting in line. [`Mutant::ALL`] says of
//! each what it does wrong and which checker must see it, [`Mutant::hunt`] looks for it.

mod extensions;
mod fences;
mod owners;
mod owning;
mod passing;
mod periods;
mod pipeline;
mod queue;
mod sets;
mod sharing;
mod trust;
mod tuning;
mod votes;

use std::collections::{BTreeMap, BTreeSet};

use tenure_core::{
    Answer, Command, Hold, LockKey, NodeTime, OwnerToken, Prefix, Refusal, Reply, RoundNumber, Ticket,
};

pub(crate) use self::extensions::forget_distrust;
pub(crate) use self::pipeline::Effect;
pub(crate) use self::tuning::Extra;
use crate::checker::Violation;
use crate::options::{Options, Scenario};
use crate::trace::Mark;
use crate::world::{World, run};

macro_rules! mutants {
    ($($(#[$doc:meta])* $variant:ident $scenario:ident $checker:literal $source:literal $wrong:literal,)*) => {
        /// What is done wrong.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Mutant {
            $(#[doc = $wrong] $(#[$doc])* $variant,)*
        }

        impl Mutant {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// What is known of it.
            #[must_use]
            pub const fn known(self) -> Known {
                match self {
                    $(Self::$variant => Known {
                        wrong: $wrong,
                        source: $source,
                        scenario: Scenario::$scenario,
                        checker: $checker,
                    },)*
                }
            }
        }
    };
}

mutants! {
    OneOwner WithinAssumptions "exclusion" "S7" "one owner for all attempts: a late release of one deletes the key of the next",
    LateStart WithinAssumptions "exclusion" "S2" "validity is counted from the answers, not from before sending",
    MixedFences FencingOnly "fencing" "2.3 F1" "a larger fence is proposed only where the first was too small",
    MaxOfCounters FencingOnly "fencing" "2.2" "each node counts for itself, and the client takes the largest number",
    ReleaseOnFailedExtend WithinAssumptions "exclusion" "S11" "an extension that fails releases the lock, which its holder still counts on",
    ExtendShortens WithinAssumptions "exclusion" "S11" "an extension for a shorter term shortens the life of the key",
    LateExtend WithinAssumptions "extension" "S10" "extends after the end, and sets the key again with any fence",
    HalfIsEnough WithinAssumptions "exclusion" "3" "half of the nodes are taken for a majority",
    QuarantineIgnored WithinAssumptions "exclusion" "1.4" "a node in quarantine is asked and counted",
    DuplicateNode WithinAssumptions "exclusion" "S15" "two names of the list lead some clients to one server, which votes twice",
    KeyBeforeFence FencingOnly "fencing" "2.3 F7" "the key is set before the fence, which is not written after an error",
    HealCounts WithinAssumptions "extension" "1.4" "a key that an extension puts back counts at once",
    EarlierCopy WithinAssumptions "healing" "ours" "a handover names nodes by their place, and nodes do not record that a key was put back: an earlier copy counts it at once",
    DiscardedSetCounts WithinAssumptions "healing" "ours" "a key without a fence that was set in a new life of the node, its answer discarded, counts with the next extension",
    FloorIgnored FencingOnly "fencing" "2.3 F2" "a node that lost its memory is asked for fences that it may have granted before",
    RecordUnchecked WithinAssumptions "exclusion" "S18" "nodes do not compare their record: a flush goes unseen",
    RecordByName WithinAssumptions "exclusion" "S18" "nodes compare their record only for names that are new to them: swapped databases go unseen",
    NoGuardBand WithinAssumptions "exclusion" "S6" "nodes keep a key only for the ttl, without a guard band",
    NativePipeline WithinAssumptions "exclusion" "6.1" "separate commands instead of one script",
    SameOwnerAnyFence FencingOnly "fencing" "6.2" "a node grants any fence to the client that has the key",
    FollowsAhead FencingOnly "fencing" "ours" "a clock was set back, and a fence just above the stored one is granted, however far ahead",
    RefusedRaise Waiting "liveness" "6.3" "refused attempts raise the fence, and nothing ties it to the nodes' time",
    TrimByClient FencingOnly "fencing" "6.4" "fences are forgotten by a client's clock",
    TrimUnchecked FencingOnly "fencing" "6.4" "a node that has forgotten a fence takes any, however old",
    FreshByMajority WithinAssumptions "exclusion" "6.5" "a majority of new nodes is taken for the first start of a fleet",
    ReturnedUnwritten WithinAssumptions "exclusion" "6.6" "only the client that met an earlier record knows that there was one",
    OtherSettings WithinAssumptions "exclusion" "6.7" "clients with another `max_ttl` share the nodes",
    RefusedTakesOver WithinAssumptions "exclusion" "ours" "a client with another list, refused by a node, writes its own record when that node is emptied",
    PromotionUnseen WithinAssumptions "exclusion" "6.8" "a server that followed another and was promoted is taken for the old one",
    RefusesBehind Waiting "liveness" "6.9" "a node refuses everyone behind a smaller ticket",
    ClockUnwatched WithinAssumptions "exclusion" "S4" "a node whose clock jumped is asked and counted",
    ClockOwnGuard WithinAssumptions "exclusion" "6.12" "a jump of a node's clock is suspect only beyond the guard band of the client's own lock",
    OlderRound WithinAssumptions "exclusion" "ours" "an answer to an earlier attempt is counted in the current one",
    LossAtEnd WithinAssumptions "loss signal" "ours" "a holder learns of the loss when the lock ends, not before",
    FenceRangeOverlap FencingOnly "fencing" "ours" "a node remembers the smallest fence of a range that it grants: the next client gets a fence from that range",
    RangeServesLate FencingOnly "fencing" "ours" "a range of fences serves callers that came after its round began",
    PassedSameFence Cohort "fencing" "ours" "a lock that is passed on inside a client keeps its fence",
    PassedAfterEnd Cohort "exclusion" "ours" "a lock is passed on inside a client without checking its validity",
    PassedAfterCopy Cohort "exclusion" "ours" "a lock is passed on inside a client although others know its token",
    PassedForLong Cohort "passing" "ours" "a lock is passed on inside a client as long as anyone wants it",
    ReadersAside Sharing "exclusion" "kinds" "readers are kept separately, where a writer does not look",
    MarkerOfLast Sharing "exclusion" "kinds" "a shared lock lives as long as its newest hold",
    ReaderFenceUnrecorded Sharing "fencing" "kinds" "a reader is granted any fence, and the node does not store it",
    RenewsEverybody Sharing "ownership" "kinds" "a reader's extension renews all holds: those of dead readers live on",
    DowngradeGap Sharing "extension" "kinds" "a writer becomes a reader by releasing the lock and acquiring it again",
    HoldsWithoutMarker Sharing "exclusion" "kinds" "holds count without the key beside them: they outlive it, and the next hold brings them back",
    WriterInLineRefuses Sharing "liveness" "kinds" "a node refuses every reader while a writer is in line",
    ReadersNeverGiveWay Sharing "liveness" "kinds" "readers never let a writer go first",
    CountsIncremented Owning "exclusion" "kinds" "nodes count the holds of an owner up and down, without knowing which they are",
    CountsAbsolute Owning "exclusion" "kinds" "each process of an owner stores how often it holds the lock itself",
    OwnerIsToken Owning "exclusion" "kinds" "the owner's id is the token of all its attempts: undoing one removes what another holds",
    JoinOwnFence Owning "fencing" "kinds" "an owner that holds a lock again gets a new fence for it",
    JoinerYields Owning "liveness" "kinds" "an owner that holds a lock already gets in line behind others who wait for it",
    SetExtendsPart Sets "exclusion" "kinds" "a node that has only some names of a set extends those",
    SetAcquiresPart Sets "exclusion" "ours" "a node grants a set of names if one of them is free",
    SetPassesBack Sets "liveness" "kinds" "a name that is set aside for a set goes to the next waiter when the other names are not free",
    SlotsMixed Sets "exclusion" "kinds" "a node grants any free slot of a semaphore in place of the requested one",
    CountingSet Sets "exclusion" "kinds" "a node counts the holders of a semaphore instead of locking slots",
    PeriodEndsWithRelease Periods "period" "kinds" "a lock that is released before its period is over is free",
    PeriodSetByRelease Periods "period" "kinds" "nodes learn of a period only when the lock is released",
    PeriodByFence Periods "period" "ours" "the period of a lock that is handed over counts from its fence",
    NoYield Waiting "order of the queue" "ours" "a waiter that is granted the lock does not yield to those ahead",
    RenewalForgotten Distance "continuity" "ours" "grants of renewals that are sent together are dropped after 20 ms",
    TimeoutFixed Distance "continuity" "ours" "the default node timeout does not follow the round trips",
    BatchOvertaken WithinAssumptions "no key left behind" "ours" "an undo is sent at once, before the acquire that waits to leave with others",
    BatchTwice WithinAssumptions "no key left behind" "ours" "a lock may appear twice among commands that leave together, kind by kind",
    BatchAsOne WithinAssumptions "exclusion" "ours" "the answer to the first of several commands that left together is taken for all",
    ReleaseAnybodys WithinAssumptions "ownership" "ours" "a release deletes anyone's key",
    NoCleanUp WithinAssumptions "no key left behind" "ours" "keys that a lost attempt set are left to expire",
}

/// What is known of a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// What is done wrong, in a few words.
    pub wrong: &'static str,
    /// Where it is from: a scenario or section of the notes on safety, or ours.
    pub source: &'static str,
    /// In which scenario it is looked for.
    pub scenario: Scenario,
    /// Which checker must catch it.
    pub checker: &'static str,
}

/// A mutant that was caught.
#[derive(Clone, Debug)]
pub struct Catch {
    /// The history in which it was.
    pub options: Options,
    /// What it broke.
    pub violation: Violation,
    /// How many histories there were, this one included.
    pub histories: u64,
    /// How many events in all of them.
    pub events: u64,
}

/// A mutant that got away, or a checker that sees what is not there.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Missed {
    /// Nothing was broken in so many histories.
    NotCaught(u64),
    /// It was caught by another checker than it should.
    Otherwise(Box<Catch>),
    /// A history in which something is broken without the mutant, too.
    ByAccident(Box<Options>),
}

/// How many histories a mutant gets.
pub const HISTORIES_MAX: u64 = 20_000;

/// How many of the histories are played again without the mutant, up to the one that broke.
const REPLAYED_MAX: u64 = 100;

/// And at least so many, also if the first one broke: one that is whole by luck proves little.
const REPLAYED_MIN: u64 = 20;

impl Mutant {
    /// Whether it is about locks that are passed on inside a client.
    pub(crate) const fn is_about_passing(self) -> bool {
        matches!(
            self,
            Self::FenceRangeOverlap
                | Self::RangeServesLate
                | Self::PassedSameFence
                | Self::PassedAfterEnd
                | Self::PassedAfterCopy
                | Self::PassedForLong
        )
    }

    /// The history of a seed with this mutant.
    #[must_use]
    pub fn history(self, seed: u64) -> Options {
        Options::draw(seed, self.known().scenario).with(self)
    }

    /// Looks for the first history in which the mutant breaks a promise. The same history without
    /// it, those before, and twenty at the least, must break none: else it was not the mutant.
    ///
    /// # Errors
    /// [`Missed`].
    pub fn hunt(self) -> Result<Catch, Missed> {
        let mut events = 0;
        for seed in 0..HISTORIES_MAX {
            let options = self.history(seed);
            let outcome = run(&options, false);
            events += outcome.events;
            let Some(violation) = outcome.violation else { continue };
            let caught = Catch { options, violation, histories: seed + 1, events };
            if caught.violation.checker() != self.known().checker {
                return Err(Missed::Otherwise(Box::new(caught)));
            }
            for seed in seed.saturating_sub(REPLAYED_MAX)..(seed + 1).max(REPLAYED_MIN) {
                let right = self.history(seed).without_mutant();
                if run(&right, false).violation.is_some() {
                    return Err(Missed::ByAccident(Box::new(right)));
                }
            }
            return Ok(caught);
        }
        Err(Missed::NotCaught(HISTORIES_MAX))
    }
}

/// What a mutant remembers of a lease.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BentLease {
    /// The largest fence that it takes for its own.
    shown: u64,
    /// Owner and round of the present attempt.
    token: Option<OwnerToken>,
    pub(crate) round: Option<RoundNumber>,
    grants: usize,
}

/// What a mutant remembers of a client.
#[derive(Clone, Debug, Default)]
pub(crate) struct BentClient {
    /// The largest fence that it was shown.
    followed: u64,
    /// Rounds of which nothing is undone.
    left: Vec<(u32, RoundNumber)>,
    /// What it makes of the steps of each node's clock.
    clocks: BTreeMap<usize, SeenSteps>,
}

/// How far a node's clock has stepped: as far as a client would see it, and what it overlooks.
/// Microseconds.
#[derive(Clone, Copy, Debug, Default)]
struct SeenSteps {
    seen_us: i64,
    overlooked_us: i64,
}

/// What a node keeps that only mutants do. It is lost with the rest of the memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct BentNode {
    /// Counters or fences.
    numbers: BTreeMap<LockKey, u64>,
    /// Everybody who was ever in line.
    tickets: BTreeSet<Ticket>,
    /// Holds whose key has vanished.
    pub(crate) unmarked: BTreeMap<LockKey, Vec<Hold>>,
    /// Clients that know that its record is not the first, and would have said so.
    pub(crate) returned_to: BTreeSet<(usize, u32)>,
}

/// A command that has reached a server.
#[derive(Clone, Copy, Debug)]
struct Asked<'a> {
    client: usize,
    server: usize,
    now: NodeTime,
    command: &'a Command,
}

impl World {
    /// Executes a command, and notes if the node forgot fences on the way.
    pub(crate) fn execute(&mut self, link: usize, command: &Command) -> Reply {
        let server = self.server(link);
        let fences = self.nodes[server].table.fences(&Prefix::default());
        let reply = self.execute_bent(link, command);
        if self.nodes[server].table.fences(&Prefix::default()) < fences {
            self.marks.see(Mark::Trimmed);
        }
        reply
    }

    /// What a node does with a command: what the production struct does, bent by the mutant.
    fn execute_bent(&mut self, link: usize, command: &Command) -> Reply {
        let (client, server) = (self.links[link].client, self.server(link));
        let now = self.nodes[server].clock.read(self.now_ns);
        let asked = Asked { client, server, now, command };
        let bent = self.options.mutant.and_then(|mutant| {
            self.bend_fence(mutant, &asked)
                .or_else(|| self.bend_range(mutant, &asked))
                .or_else(|| self.bend_owner(mutant, &asked))
                .or_else(|| self.bend_sharing(mutant, &asked))
                .or_else(|| self.bend_owning(mutant, &asked))
                .or_else(|| self.bend_sets(mutant, &asked))
                .or_else(|| self.bend_periods(mutant, &asked))
                .or_else(|| self.bend_extension(mutant, &asked))
                .or_else(|| self.bend_record(mutant, &asked))
                .or_else(|| self.bend_line(mutant, &asked))
        });
        let reply = bent.unwrap_or_else(|| self.nodes[server].table.execute_natively(now, command));
        if self.options.mutant.is_some() || self.options.owners.ids > 0 {
            self.note_command(&asked, &reply);
        }
        reply
    }

    /// Writes down what a node did, as far as it has to do with keys: here every step may be the
    /// wrong one.
    fn note_command(&mut self, asked: &Asked<'_>, reply: &Reply) {
        let &Asked { client, server, command, .. } = asked;
        let verb = match command {
            Command::Acquire { .. } => "acquire",
            Command::Heal { .. } => "heal",
            Command::Extend { .. } => "extend",
            Command::Undo { .. } => "undo",
            Command::Release { .. } => "release",
            _ => "command",
        };
        let Some(token) = command.owner() else { return };
        self.note(|| {
            let token = token.to_string();
            let short = token.get(..8).unwrap_or_default();
            format!("node {server}: {verb} of client {client} as {short}: {:?}", reply.answer)
        });
    }

    pub(crate) fn mark_reply(&mut self, reply: &Reply, asked: Option<&Command>) {
        match (&reply.answer, asked) {
            (Answer::Granted, Some(Command::Heal { .. })) => self.marks.see(Mark::Healed),
            (Answer::Refused(Refusal::Behind), Some(Command::Heal { .. })) => {
                self.marks.see(Mark::HealRefused);
            }
            (Answer::Refused(Refusal::Stranger), _) => self.marks.see(Mark::Stranger),
            (Answer::Refused(Refusal::Ahead), _) => self.marks.see(Mark::Ahead),
            (Answer::Record(Some(text)), Some(Command::Record { swap: Some(swap), .. })) => {
                if !text.starts_with(&*swap.text) {
                    return;
                }
                if text.contains(" fresh=") {
                    self.marks.see(Mark::FreshStart);
                } else if text.contains(" waited ") {
                    self.marks.see(Mark::Waited);
                } else if text.contains(" returned=1 ") {
                    self.marks.see(Mark::Returned);
                }
            }
            _ => {}
        }
    }
}
