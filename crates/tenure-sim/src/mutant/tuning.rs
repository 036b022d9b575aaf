//! What helps to see each mutant: few nodes, faults at the weak spot, and clients that do what it
//! gets wrong. All of it stays within what the scenario allows, so that nothing breaks without the
//! mutant.

use tenure_core::RestartGuard;

use super::Mutant;
use crate::options::{Kinds, Options};
use crate::workload::owners::Owners;
use crate::world::strangers::Strangers;

/// What happens only in histories of mutants, and in the same histories without them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extra {
    /// Only this checker judges: a mutant may break more than it is looked for, and its histories
    /// strain what other promises rest on.
    pub(crate) judged_by: Option<&'static str>,
    /// Holders extend for shorter terms, too.
    pub(crate) shorter_extends: bool,
    /// Locks that are not released are gone on with by others, at any time.
    pub(crate) resumes: bool,
    /// Most locks are handed over in the end, many by a copy from their beginning.
    pub(crate) copies: bool,
    /// There are six waiters at most.
    pub(crate) few_wait: bool,
    /// Nobody who waits in line is stuck although there are no faults to be over.
    pub(crate) nobody_stuck: bool,
    /// So many clients, the last ones, want the lock alone, and reach one node each once they are
    /// in line.
    pub(crate) in_vain: usize,
    /// The clock of a client stands still while the client does: fences do not rest on it.
    pub(crate) clocks_sleep: bool,
    /// Servers do not say who they are.
    pub(crate) nameless: bool,
    /// By how much clocks step forward, if that is watched: microseconds.
    pub(crate) steps_us: Option<(u64, u64)>,
    /// Whoever asks for a lock asks for all.
    pub(crate) bursts: bool,
    /// All nodes may lose their memory one after another, if at each time another one tells that it
    /// is not new.
    pub(crate) all_lose: bool,
}

impl Options {
    /// The same with a known-bad variant.
    #[must_use]
    pub fn with(mut self, mutant: Mutant) -> Self {
        self.mutant = Some(mutant);
        self.extra.judged_by = Some(mutant.known().checker);
        self.strangers = Strangers::default();
        if !mutant.is_about_passing() {
            self.cohort_per_mille = 0;
        }
        match mutant {
            Mutant::RefusedRaise | Mutant::RefusesBehind | Mutant::NoYield => {}
            Mutant::RenewalForgotten | Mutant::TimeoutFixed => {}
            _ => {
                (self.nodes, self.names, self.durable) = (3, 1, 0);
                (self.events_max, self.horizon_ns) = (5_000, 0);
            }
        }
        match mutant {
            Mutant::MixedFences
            | Mutant::MaxOfCounters
            | Mutant::KeyBeforeFence
            | Mutant::SameOwnerAnyFence
            | Mutant::FloorIgnored
            | Mutant::FollowsAhead
            | Mutant::TrimByClient
            | Mutant::TrimUnchecked => self.differ(mutant),
            Mutant::QuarantineIgnored
            | Mutant::FreshByMajority
            | Mutant::ReturnedUnwritten
            | Mutant::OtherSettings
            | Mutant::RefusedTakesOver
            | Mutant::DuplicateNode
            | Mutant::ClockUnwatched
            | Mutant::ClockOwnGuard
            | Mutant::PromotionUnseen
            | Mutant::HealCounts
            | Mutant::EarlierCopy
            | Mutant::DiscardedSetCounts
            | Mutant::RecordUnchecked
            | Mutant::RecordByName
            | Mutant::NoGuardBand
            | Mutant::NativePipeline => self.forget(mutant),
            _ if mutant.is_about_passing() => self.pass_on(mutant),
            Mutant::RefusedRaise => self.wait(2, 0),
            Mutant::RefusesBehind => self.wait(3, 4),
            Mutant::NoYield | Mutant::RenewalForgotten | Mutant::TimeoutFixed => {}
            Mutant::HoldsWithoutMarker | Mutant::WriterInLineRefuses | Mutant::ReadersNeverGiveWay => {
                self.share(mutant);
            }
            Mutant::CountsIncremented
            | Mutant::CountsAbsolute
            | Mutant::OwnerIsToken
            | Mutant::JoinOwnFence
            | Mutant::JoinerYields => self.own(mutant),
            Mutant::SetExtendsPart
            | Mutant::SetAcquiresPart
            | Mutant::SetPassesBack
            | Mutant::SlotsMixed
            | Mutant::CountingSet => self.lock_several(mutant),
            Mutant::PeriodEndsWithRelease | Mutant::PeriodSetByRelease => self.keep(),
            // Clients that are stopped while answers are on their way know the nodes' clocks badly.
            Mutant::PeriodByFence => {
                self.keep();
                (self.client_crashes, self.partitions, self.pauses) = (0, 30, 200);
            }
            _ => self.contend(mutant),
        }
        if self.horizon_ns == 0 {
            self.horizon_ns = self.quarantine_us() * 8_000;
        }
        // One epoch: how often a mutant shows is a matter of how many histories there are.
        (self.events_min, self.possible) = (0, self.kinds);
        self
    }

    /// The same history with the right algorithm.
    #[must_use]
    pub fn without_mutant(mut self) -> Self {
        self.mutant = None;
        self
    }

    /// Whether a client will reach only one node, and waits there for a lock of its own.
    pub(crate) const fn asks_in_vain(&self, client: usize) -> bool {
        client < self.clients && client + self.extra.in_vain >= self.clients
    }

    /// Many who share locks, and few who want them alone.
    fn share(&mut self, mutant: Mutant) {
        self.contend(mutant);
        (self.shared_per_mille, self.fenced) = (700, true);
        match mutant {
            Mutant::HoldsWithoutMarker => {
                // Keys vanish while extensions are slow.
                self.kinds = Kinds { evict: true, ..Kinds::default() };
                (self.node_faults, self.clients) = (200, 5);
                (self.spike_per_mille, self.spike_us) = (150, self.max_ttl_ms * 500);
            }
            _ => {
                (self.breaks, self.partitions, self.pauses, self.client_crashes) = (0, 0, 0, 0);
                (self.spike_per_mille, self.duplicates_per_mille) = (0, 0);
                (self.max_ttl_ms, self.queued_per_mille, self.extra.nobody_stuck) = (1_000, 1_000, true);
                (self.horizon_ns, self.events_max) = (2 * Self::STUCK_NS, 2_000_000);
            }
        }
        match mutant {
            Mutant::WriterInLineRefuses => {
                (self.clients, self.extra.in_vain, self.shared_per_mille) = (5, 2, 1_000);
            }
            // So many that there is always somebody who shares it.
            Mutant::ReadersNeverGiveWay => (self.clients, self.shared_per_mille) = (12, 900),
            _ => {}
        }
    }

    /// Two or three names, alone and together.
    fn lock_several(&mut self, mutant: Mutant) {
        self.contend(mutant);
        (self.names, self.clients, self.fenced) = (2, 5, true);
        match mutant {
            Mutant::SetExtendsPart => {
                // One of the names vanishes while the lock is extended again and again.
                self.kinds = Kinds { evict: true, ..Kinds::default() };
                self.node_faults = 200;
            }
            Mutant::SetPassesBack => {
                (self.breaks, self.partitions, self.pauses, self.client_crashes) = (0, 0, 0, 0);
                (self.spike_per_mille, self.duplicates_per_mille) = (0, 0);
                (self.names, self.clients, self.sets_per_mille) = (4, 12, 300);
                (self.max_ttl_ms, self.queued_per_mille, self.extra.nobody_stuck) = (1_000, 1_000, true);
                (self.horizon_ns, self.events_max) = (2 * Self::STUCK_NS, 2_000_000);
            }
            Mutant::SlotsMixed | Mutant::CountingSet => (self.names, self.sets_per_mille) = (3, 0),
            _ => {}
        }
    }

    /// Locks that are kept for periods much longer than their terms, and holders that die.
    fn keep(&mut self) {
        (self.node_faults, self.kinds, self.skew_us) = (0, Kinds::default(), 0);
        (self.clients, self.cut_off_per_mille, self.periods_per_mille) = (4, 0, 900);
        (self.max_ttl_ms, self.client_crashes, self.sets_per_mille) = (5_000, 12, 0);
    }

    /// Two owners that hold one lock again and again.
    fn own(&mut self, mutant: Mutant) {
        self.contend(mutant);
        self.owners = Owners { ids: 2, names: 1, mistaken_per_mille: 0, nested_per_mille: 0 };
        (self.clients, self.fenced) = (5, true);
        match mutant {
            Mutant::CountsIncremented => {
                // Answers to releases get lost.
                (self.breaks, self.strays, self.kills) = (30, true, false);
            }
            Mutant::OwnerIsToken => (self.spike_per_mille, self.spike_us) = (150, self.max_ttl_ms * 300),
            Mutant::JoinerYields => (self.queued_per_mille, self.owners.nested_per_mille) = (1_000, 1_000),
            _ => {}
        }
    }

    /// Callers that pass a lock on inside their clients.
    fn pass_on(&mut self, mutant: Mutant) {
        (self.node_faults, self.kinds, self.skew_us) = (0, Kinds::default(), 0);
        (self.clients, self.cut_off_per_mille, self.cohort_per_mille) = (3, 0, 1_000);
        (self.queued_per_mille, self.fenced) = (1_000, true);
        self.restart_guard = RestartGuard::Evidence;
        match mutant {
            // A client that is behind is told the fence that it has to exceed.
            Mutant::FenceRangeOverlap => (self.cut_off_per_mille, self.skew_us) = (400, self.slack_us()),
            Mutant::RangeServesLate => {
                // Somebody else had the lock before the rest of the range is used.
                (self.pauses, self.extra.clocks_sleep) = (200, true);
                self.max_ttl_ms = self.max_ttl_ms.min(1_000);
            }
            Mutant::PassedAfterEnd | Mutant::PassedForLong => {
                // A process that stands still while its lock is held.
                (self.pauses, self.max_ttl_ms) = (400, 400);
            }
            _ => {}
        }
    }

    /// Clients that see different nodes, whose clocks differ.
    fn differ(&mut self, mutant: Mutant) {
        (self.cut_off_per_mille, self.skew_us) = (400, self.slack_us());
        match mutant {
            Mutant::TrimByClient => self.retention_ms = self.retention_ms.max(20_000),
            Mutant::MixedFences | Mutant::KeyBeforeFence => self.client_crashes = 12,
            Mutant::FloorIgnored => {
                self.kinds = Kinds { loss: true, ..Kinds::default() };
                (self.restart_guard, self.node_faults, self.client_crashes) = (RestartGuard::Off, 18, 12);
            }
            Mutant::FollowsAhead => {
                // Nodes lose, one after another, what they granted since the clocks were set right.
                self.kinds = Kinds { loss: true, ..Kinds::default() };
                (self.restart_guard, self.node_faults, self.client_crashes) = (RestartGuard::Off, 18, 12);
            }
            Mutant::TrimUnchecked => {
                // Fences are forgotten long before the clocks of all nodes have passed them.
                (self.max_ttl_ms, self.retention_ms) = (20_000, 1_000);
                self.horizon_ns = 120_000_000_000;
                self.restart_guard = RestartGuard::Off;
                (self.skew_us, self.client_crashes, self.clients) = (self.slack_us(), 6, 3);
                (self.kinds, self.node_faults) = (Kinds::default(), 0);
            }
            _ => {}
        }
    }

    /// Nodes that forget, or whose clocks jump.
    fn forget(&mut self, mutant: Mutant) {
        (self.cut_off_per_mille, self.skew_us, self.queued_per_mille) = (400, 0, 0);
        self.kinds = Kinds { loss: true, ..Kinds::default() };
        (self.node_faults, self.clients) = (18, 4);
        self.restart_guard = RestartGuard::Evidence;
        self.fenced = matches!(mutant, Mutant::NativePipeline | Mutant::HealCounts | Mutant::EarlierCopy);
        self.max_ttl_ms = self.max_ttl_ms.max(1_000);
        match mutant {
            Mutant::NativePipeline => {
                // Many short ones: with every flush a node leaves the game for a while.
                self.kinds = Kinds { flush: true, ..Kinds::default() };
                (self.node_faults, self.cut_off_per_mille) = (10, 0);
                (self.events_max, self.horizon_ns) = (1_000, self.quarantine_us() * 3_000);
            }
            Mutant::HealCounts => {
                self.kinds = Kinds { flush: true, ..Kinds::default() };
                (self.node_faults, self.cut_off_per_mille, self.extra.resumes) = (30, 0, true);
            }
            Mutant::EarlierCopy => {
                self.kinds = Kinds { flush: true, ..Kinds::default() };
                (self.node_faults, self.cut_off_per_mille, self.extra.copies) = (30, 0, true);
            }
            Mutant::DiscardedSetCounts => {
                self.kinds = Kinds { flush: true, ..Kinds::default() };
                (self.node_faults, self.cut_off_per_mille, self.extra.copies) = (30, 0, true);
            }
            Mutant::FreshByMajority => {
                // Only at the beginning are all nodes new.
                self.horizon_ns = self.quarantine_us() * 1_500;
                (self.node_faults, self.client_crashes, self.cut_off_per_mille) = (12, 16, 500);
            }
            Mutant::RefusedTakesOver => {
                // One that knows a single node of the three.
                self.strangers = Strangers { clients: 1, nodes: 1, max_ttl_ms: None };
            }
            Mutant::ClockUnwatched => self.kinds = Kinds { steps_forward: true, ..Kinds::default() },
            Mutant::ClockOwnGuard => {
                // Within the guard band of a long lock, but not of a short one; and no round trip
                // hides it.
                self.kinds = Kinds { steps_forward: true, ..Kinds::default() };
                (self.max_ttl_ms, self.extra.steps_us) = (5_000, Some((200_000, 490_000)));
                (self.pauses, self.spike_per_mille, self.cut_off_per_mille) = (0, 0, 200);
                (self.clients, self.node_faults) = (6, 60);
                self.horizon_ns = 60_000_000_000;
            }
            Mutant::RecordByName => {
                // Everybody stays connected, and sees either life.
                self.kinds = Kinds { swap: true, ..Kinds::default() };
                (self.node_faults, self.client_crashes, self.breaks) = (40, 0, 0);
                (self.pauses, self.cut_off_per_mille, self.spike_per_mille) = (0, 0, 0);
                (self.fenced, self.horizon_ns) = (true, self.quarantine_us() * 20_000);
            }
            Mutant::RecordUnchecked => self.kinds = Kinds { flush: true, ..Kinds::default() },
            Mutant::NoGuardBand => {
                self.kinds = Kinds { slew: true, ..Kinds::default() };
                (self.node_faults, self.clients, self.cut_off_per_mille) = (80, 6, 200);
            }
            Mutant::PromotionUnseen => {
                self.kinds = Kinds { promotion: true, ..Kinds::default() };
            }
            Mutant::DuplicateNode => {
                (self.node_faults, self.extra.nameless) = (0, true);
            }
            Mutant::ReturnedUnwritten => {
                (self.node_faults, self.extra.all_lose) = (60, true);
                (self.client_crashes, self.cut_off_per_mille) = (12, 0);
            }
            _ => {}
        }
    }

    /// Waiters, not many: those who are stuck ask again and again, and a history must last for long
    /// enough to tell.
    fn wait(&mut self, clients: usize, crashes: u64) {
        (self.nodes, self.clients, self.client_crashes) = (3, clients, crashes);
        self.extra.few_wait = true;
        (self.horizon_ns, self.events_max) = (2 * self.stuck_ns(), 500_000);
    }

    /// Whoever has waited for so long is stuck: in histories of few waiters, that is less than in
    /// others.
    pub(crate) const fn stuck_ns(&self) -> u64 {
        if self.extra.few_wait { Self::STUCK_NS / 2 } else { Self::STUCK_NS }
    }

    /// Clients that want one lock on nodes that work, over connections that may not.
    fn contend(&mut self, mutant: Mutant) {
        (self.node_faults, self.kinds, self.skew_us) = (0, Kinds::default(), 0);
        (self.clients, self.queued_per_mille, self.cut_off_per_mille) = (4, 0, 0);
        self.restart_guard = RestartGuard::Evidence;
        match mutant {
            Mutant::OneOwner => {
                (self.strays, self.kills, self.breaks) = (true, false, 10);
                (self.spike_per_mille, self.spike_us) = (200, 150_000);
                (self.max_ttl_ms, self.cut_off_per_mille) = (500, 300);
            }
            Mutant::LateStart => {
                // A process that stands still between sending and reading.
                (self.pauses, self.spike_per_mille) = (200, 0);
                self.max_ttl_ms = self.max_ttl_ms.max(1_000);
            }
            Mutant::ReleaseOnFailedExtend => {
                (self.spike_per_mille, self.spike_us) = (150, self.max_ttl_ms * 500);
            }
            Mutant::ExtendShortens => {
                (self.extra.shorter_extends, self.max_ttl_ms) = (true, self.max_ttl_ms.max(1_000));
            }
            Mutant::LateExtend => self.extra.resumes = true,
            Mutant::HalfIsEnough => (self.nodes, self.cut_off_per_mille) = (4, 300),
            Mutant::OlderRound => {
                (self.spike_per_mille, self.spike_us) = (200, self.max_ttl_ms * 300);
                (self.fenced, self.cut_off_per_mille) = (false, 200);
            }
            Mutant::BatchOvertaken => {
                (self.fenced, self.clients, self.max_ttl_ms) = (true, 6, self.max_ttl_ms.max(2_000));
            }
            Mutant::BatchTwice | Mutant::BatchAsOne => {
                // Several locks at once.
                (self.names, self.fenced, self.extra.bursts) = (3, true, true);
            }
            _ => {}
        }
    }
}
