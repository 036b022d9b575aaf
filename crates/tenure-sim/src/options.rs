//! What a history is made of. A seed draws the options themselves (*swarm*): a history in which
//! only two kinds of fault occur finds what one with all of them hides. A history is long, and has
//! a swarm of its own in every epoch.

mod draw;

use std::time::Duration;

use tenure_core::{MaxTtl, Quorum, RestartGuard, Settings};

use crate::dice::Dice;
use crate::mutant::{Extra, Mutant};
use crate::workload::owners::Owners;
use crate::world::strangers::Strangers;

/// How many leases one client has at a time.
const LEASES_MAX: usize = 2;

/// And where they pass locks on among themselves.
const COHORT_LEASES_MAX: usize = 8;

/// How many wait in line, if there are few clients.
const WAITERS_MAX: usize = 14;

/// What is allowed to happen, and what must hold all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Scenario {
    /// Everything that the guarantees allow for. Exclusion and fencing must hold.
    WithinAssumptions,
    /// What breaks exclusion is allowed, what fences rest on is not: fencing must hold.
    FencingOnly,
    /// Every node is restarted empty, one after another, under one lock that is extended regularly.
    RollingRestart,
    /// All nodes are far away, and nobody has set anything for it. A lock that renews itself is
    /// kept.
    Distance,
    /// Callers of one client pass locks on among themselves, beside others who do not. For the rest
    /// everything that the guarantees allow for.
    Cohort,
    /// Some share locks, beside others who do not, and some share what they had alone. For the rest
    /// everything that the guarantees allow for.
    Sharing,
    /// A few owners hold locks again and again, from several clients, beside others who want them
    /// alone or share them. For the rest everything that the guarantees allow for.
    Owning,
    /// Some want several locks at once, in sets that overlap, beside others who want one. For the
    /// rest everything that the guarantees allow for.
    Sets,
    /// Some locks are kept from others for a period, beside others that are not, and some several
    /// at once. For the rest everything that the guarantees allow for.
    Periods,
    /// Many wait in line for one lock; some die, give up, or reach only a minority of nodes. Nobody
    /// is overtaken, and nobody is stuck.
    Waiting,
    /// All nodes lose their memory together.
    AllForget,
    /// Nodes lose their memory, and their clocks step back by more than the quarantine lasts.
    BackAcrossLoss,
    /// Nodes lose their memory, and their clocks step back as far as is allowed. Fencing must hold.
    BackWithLoss,
    /// Clocks step back by more than half of the retention.
    BackAcrossTrim,
    /// Nodes lose their memory, and no restart guard keeps them out.
    Unguarded,
    /// Clocks step forward, and clients that are new have nothing to see it by.
    UnwatchedSteps,
    /// Keys of held locks vanish, on more nodes than the margin allows.
    EvictedBeyondMargin,
}

/// The options of one history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Decides everything.
    pub seed: u64,
    /// What is allowed.
    pub scenario: Scenario,
    /// A known-bad variant of the algorithm, to see that it is caught.
    pub mutant: Option<Mutant>,
    pub(crate) nodes: usize,
    /// Those of the fleet; [`Options::everybody`] counts strangers, too.
    pub(crate) clients: usize,
    pub(crate) names: usize,
    /// How long an epoch is at most, and how many events it has.
    pub(crate) horizon_ns: u64,
    pub(crate) events_max: u64,
    /// A history has at least so many events before its faults end.
    pub(crate) events_min: u64,
    pub(crate) max_ttl_ms: u64,
    pub(crate) retention_ms: u64,
    pub(crate) restart_guard: RestartGuard,
    /// How far the clocks of nodes are apart at first, at most.
    pub(crate) skew_us: u64,
    pub(crate) node_rate_ppm: u64,
    pub(crate) client_rate_ppm: u64,
    /// A message takes up to this long, and now and then far longer.
    pub(crate) delay_us: u64,
    pub(crate) spike_per_mille: u64,
    pub(crate) spike_us: u64,
    pub(crate) breaks: u64,
    pub(crate) partitions: u64,
    /// How often a command arrives twice.
    pub(crate) duplicates_per_mille: u64,
    /// How often a connection takes very long to come about, so that clients see different nodes.
    pub(crate) cut_off_per_mille: u64,
    /// Commands on a broken connection may still arrive.
    pub(crate) strays: bool,
    /// A new connection ends the old one at the server.
    pub(crate) kills: bool,
    pub(crate) pauses: u64,
    pub(crate) client_crashes: u64,
    pub(crate) node_faults: u64,
    pub(crate) kinds: Kinds,
    /// The kinds of all epochs.
    pub(crate) possible: Kinds,
    /// How many nodes keep every acknowledged write over a restart.
    pub(crate) durable: usize,
    pub(crate) fenced: bool,
    /// How many of the locks are waited for in line.
    pub(crate) queued_per_mille: u64,
    /// How many of the locks are passed on inside their client.
    pub(crate) cohort_per_mille: u64,
    /// How many of the locks are shared.
    pub(crate) shared_per_mille: u64,
    /// How often several locks are asked for at once.
    pub(crate) sets_per_mille: u64,
    /// How many of the locks are kept from others for a period.
    pub(crate) periods_per_mille: u64,
    /// Who holds reentrant locks.
    pub(crate) owners: Owners,
    pub(crate) strangers: Strangers,
    /// What only the histories of known-bad variants have.
    pub(crate) extra: Extra,
}

/// Which faults of nodes occur.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kinds {
    pub(crate) restart: bool,
    pub(crate) loss: bool,
    pub(crate) tail: bool,
    pub(crate) flush: bool,
    /// Databases change places, and nobody is told.
    pub(crate) swap: bool,
    pub(crate) promotion: bool,
    /// A key of a lock that is held vanishes, and nobody can see it.
    pub(crate) evict: bool,
    pub(crate) small_steps: bool,
    pub(crate) steps_forward: bool,
    pub(crate) steps_back: bool,
    pub(crate) freeze: bool,
    pub(crate) slew: bool,
}

impl Scenario {
    /// All of them.
    pub const ALL: [Self; 17] = [
        Self::WithinAssumptions,
        Self::FencingOnly,
        Self::Cohort,
        Self::Sharing,
        Self::Owning,
        Self::Sets,
        Self::Periods,
        Self::RollingRestart,
        Self::Distance,
        Self::Waiting,
        Self::AllForget,
        Self::BackAcrossLoss,
        Self::BackWithLoss,
        Self::BackAcrossTrim,
        Self::Unguarded,
        Self::UnwatchedSteps,
        Self::EvictedBeyondMargin,
    ];

    /// Whether at most one holder is promised.
    #[must_use]
    pub const fn promises_exclusion(self) -> bool {
        !matches!(
            self,
            Self::FencingOnly
                | Self::AllForget
                | Self::BackAcrossLoss
                | Self::BackWithLoss
                | Self::BackAcrossTrim
        )
    }

    /// Whether somebody must get every lock when all faults are over.
    #[must_use]
    pub const fn promises_liveness(self) -> bool {
        self.is_within() || matches!(self, Self::FencingOnly | Self::BackWithLoss | Self::RollingRestart)
    }

    /// Whether the first client means to hold its lock all the time.
    pub(crate) const fn has_long_hold(self) -> bool {
        matches!(self, Self::RollingRestart | Self::Distance)
    }

    const fn is_within(self) -> bool {
        matches!(
            self,
            Self::WithinAssumptions
                | Self::Cohort
                | Self::Sharing
                | Self::Owning
                | Self::Sets
                | Self::Periods
                | Self::Waiting
        )
    }
}

impl Options {
    /// Draws the options of a history.
    #[must_use]
    pub fn draw(seed: u64, scenario: Scenario) -> Self {
        let mut dice = Dice::new(seed ^ 0x6f70_7469_6f6e_7321);
        let mut options = match scenario {
            Scenario::WithinAssumptions => Self::within_assumptions(seed, &mut dice),
            Scenario::FencingOnly => Self::fencing_only(seed, &mut dice),
            Scenario::RollingRestart => Self::rolling_restart(seed, &mut dice),
            Scenario::Distance => Self::distance(seed, &mut dice),
            Scenario::Waiting => Self::waiting(seed, &mut dice),
            Scenario::Cohort => Self::cohort(seed, &mut dice),
            Scenario::Sharing => Self::sharing(seed, &mut dice),
            Scenario::Owning => Self::owning(seed, &mut dice),
            Scenario::Sets => Self::sets(seed, &mut dice),
            Scenario::Periods => Self::periods(seed, &mut dice),
            _ => Self::outside(seed, scenario, &mut dice),
        };
        options.possible = options.kinds;
        options
    }

    /// What the present epoch has of each, in one line of a story.
    pub(crate) fn swarm(&self) -> String {
        let Self { delay_us, spike_per_mille, spike_us, duplicates_per_mille, cut_off_per_mille, .. } = self;
        let Self { breaks, partitions, pauses, client_crashes, node_faults, kinds, queued_per_mille, .. } =
            self;
        let kinds: Vec<&str> = [
            (kinds.restart, "restart"),
            (kinds.loss, "loss"),
            (kinds.tail, "tail"),
            (kinds.flush, "flush"),
            (kinds.swap, "swap"),
            (kinds.promotion, "promotion"),
            (kinds.evict, "evict"),
            (kinds.small_steps, "small steps"),
            (kinds.steps_forward, "steps forward"),
            (kinds.steps_back, "steps back"),
            (kinds.freeze, "freeze"),
            (kinds.slew, "slew"),
        ]
        .into_iter()
        .filter_map(|(on, name)| on.then_some(name))
        .collect();
        format!(
            "delay {delay_us} us, spikes {spike_per_mille}/1000 of {spike_us} us, duplicates {duplicates_per_mille}/1000, \
             cut off {cut_off_per_mille}/1000, queued {queued_per_mille}/1000, breaks {breaks}, partitions {partitions}, \
             pauses {pauses}, crashes {client_crashes}, faults of nodes {node_faults} of {kinds:?}"
        )
    }

    /// Whoever has waited for so long is stuck. Some sixteen wait at a time; each costs at most a
    /// term and a guard band if it dies while it holds the lock, and the time after which the next
    /// one asks by itself.
    pub(crate) const STUCK_NS: u64 = 16 * (2_200 + 2_000) * 1_000_000;

    /// How many leases one client has at a time. Where they wait in line, few clients have more
    /// each: some of one client are then in line for a lock that it passes on.
    pub(crate) fn leases_max(&self) -> usize {
        let ordered = self.scenario == Scenario::Waiting && !self.extra.few_wait;
        if self.cohort_per_mille > 0 {
            COHORT_LEASES_MAX
        } else if ordered {
            (WAITERS_MAX / self.clients).max(LEASES_MAX)
        } else {
            LEASES_MAX
        }
    }

    /// How long a node is left alone before the next one is restarted: a few extensions at the
    /// least.
    pub(crate) const fn rolling_interval_ns(&self) -> u64 {
        self.max_ttl_ms * 2_000_000
    }

    /// Whether the world keeps what both promises rest on.
    pub(crate) const fn steps_are_watched(&self) -> bool {
        self.scenario.is_within()
    }

    /// By how much a clock steps back when memory is lost, at least and at most.
    pub(crate) fn back_with_loss_us(&self) -> Option<(u64, u64)> {
        let quarantine_us = self.quarantine_us();
        match self.scenario {
            Scenario::AllForget => Some((quarantine_us / 4, quarantine_us)),
            Scenario::BackWithLoss => Some((1, quarantine_us - self.slack_us())),
            Scenario::BackAcrossLoss => Some((quarantine_us * 3 / 2, quarantine_us * 6)),
            _ => None,
        }
    }

    pub(crate) const fn one_node_remembers(&self) -> bool {
        !matches!(self.scenario, Scenario::AllForget)
            && !matches!(self.restart_guard, RestartGuard::Strict | RestartGuard::Off)
    }

    /// How far a node's clock may fall behind the latest that it has ever shown.
    pub(crate) fn back_max_us(&self) -> u64 {
        let half_retention = self.retention_ms * 500 - 1;
        let with_loss = match self.restart_guard {
            RestartGuard::Off => 0,
            _ => self.quarantine_us() - self.slack_us(),
        };
        match self.scenario {
            Scenario::BackAcrossTrim => u64::MAX,
            _ if self.possible.loss || self.possible.tail || self.possible.flush => {
                half_retention.min(with_loss)
            }
            _ => half_retention,
        }
    }

    /// How far ahead of a node's clock a fence may be.
    pub(crate) fn slack_us(&self) -> u64 {
        self.settings().bounds().slack_us
    }

    pub(crate) fn quarantine_us(&self) -> u64 {
        self.max_ttl_ms * 1_000 + (self.max_ttl_ms * 100).max(100_000)
    }

    pub(crate) fn max_ttl(&self) -> MaxTtl {
        MaxTtl::new(Duration::from_millis(self.max_ttl_ms)).expect("drawn within the limits")
    }

    pub(crate) fn quorum(&self) -> Quorum {
        Quorum::of(self.nodes).expect("drawn within the limits")
    }

    /// The settings of the fleet.
    pub(crate) fn settings(&self) -> Settings {
        self.settings_of(0)
    }
}
