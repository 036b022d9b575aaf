//! What a history is made of. A seed draws the options themselves (*swarm*): a history in which only two kinds of
//! fault occur finds what one with all of them hides.

use std::time::Duration;

use tenure_core::{MaxTtl, Quorum, RestartGuard, Settings};

use crate::dice::Dice;
use crate::mutant::{Extra, Mutant};

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
    /// Many wait in line for one lock; some die, give up, or reach only a minority of nodes. Nobody is overtaken, and
    /// nobody is stuck.
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
    pub(crate) clients: usize,
    pub(crate) names: usize,
    pub(crate) horizon_ns: u64,
    pub(crate) events_max: u64,
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
    /// How many nodes keep every acknowledged write over a restart.
    pub(crate) durable: usize,
    pub(crate) fenced: bool,
    /// How many of the locks are waited for in line.
    pub(crate) queued_per_mille: u64,
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
    pub(crate) promotion: bool,
    pub(crate) small_steps: bool,
    pub(crate) steps_forward: bool,
    pub(crate) steps_back: bool,
    pub(crate) freeze: bool,
    pub(crate) slew: bool,
}

impl Scenario {
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

    const fn is_within(self) -> bool {
        matches!(self, Self::WithinAssumptions | Self::Waiting)
    }
}

impl Options {
    /// Draws the options of a history.
    #[must_use]
    pub fn draw(seed: u64, scenario: Scenario) -> Self {
        let mut dice = Dice::new(seed ^ 0x6f70_7469_6f6e_7321);
        match scenario {
            Scenario::WithinAssumptions => Self::within_assumptions(seed, &mut dice),
            Scenario::FencingOnly => Self::fencing_only(seed, &mut dice),
            Scenario::RollingRestart => Self::rolling_restart(seed, &mut dice),
            Scenario::Waiting => Self::waiting(seed, &mut dice),
            _ => Self::outside(seed, scenario, &mut dice),
        }
    }

    /// The assumption set of both promises. What the world itself keeps in addition, because it depends on the
    /// moment, is in [`crate::node`]: not all nodes lose their memory together; large steps forward happen only
    /// while every client watches, and no client is new for a quarantine after one; no clock goes back by more than half
    /// of the retention in all, nor by more than the quarantine less the slack where memory is lost.
    fn within_assumptions(seed: u64, dice: &mut Dice) -> Self {
        let mut options = Self::base(seed, Scenario::WithinAssumptions, dice);
        options.restart_guard = if dice.chance(150) { RestartGuard::Strict } else { RestartGuard::Evidence };
        // Rates and small steps add up, so a history has one kind of them: 8 % of slew and the clients' own rate
        // stay below the 11 % that guard band and drift allow for, and so do steps of 20 ms.
        match dice.below(5) {
            0 => options.kinds.slew = true,
            1 => options.kinds.small_steps = true,
            2 => options.kinds.steps_forward = true,
            _ => {}
        }
        options.kinds.steps_back = dice.chance(300);
        options.kinds.freeze = dice.chance(200);
        options
    }

    fn fencing_only(seed: u64, dice: &mut Dice) -> Self {
        let mut options = Self::base(seed, Scenario::FencingOnly, dice);
        options.restart_guard =
            dice.pick(&[RestartGuard::Off, RestartGuard::Off, RestartGuard::Evidence, RestartGuard::Strict]);
        options.kinds.steps_forward = dice.chance(500);
        options.kinds.steps_back = dice.chance(500);
        options.kinds.freeze = dice.chance(200);
        options.kinds.slew = dice.chance(200);
        options
    }

    fn rolling_restart(seed: u64, dice: &mut Dice) -> Self {
        let mut options = Self::base(seed, Scenario::RollingRestart, dice);
        options.nodes = dice.pick(&[3, 3, 5]);
        options.names = 1;
        options.max_ttl_ms = dice.of_any_size(600, 10_000);
        // Answers come well within the node timeout of 50 ms.
        options.delay_us = dice.of_any_size(100, 5_000);
        options.cut_off_per_mille = 0;
        (options.spike_per_mille, options.breaks, options.pauses, options.client_crashes) = (0, 0, 0, 0);
        (options.node_faults, options.durable, options.kinds) = (0, 0, Kinds::default());
        options.skew_us = options.skew_us.min(400_000);
        let rounds = options.nodes as u64 + 2;
        options.horizon_ns = rounds * options.rolling_interval_ns();
        options.events_max = 20_000;
        options
    }

    fn waiting(seed: u64, dice: &mut Dice) -> Self {
        let mut options = Self::base(seed, Scenario::Waiting, dice);
        options.nodes = dice.pick(&[1, 3, 5]);
        options.names = 1;
        options.clients = dice.index(5) + 3;
        options.max_ttl_ms = dice.of_any_size(300, 2_000);
        // Far below a reservation: whoever is woken comes in time.
        options.delay_us = dice.of_any_size(50, 10_000);
        options.cut_off_per_mille = 0;
        (options.spike_per_mille, options.breaks, options.pauses) = (0, 0, 0);
        options.client_crashes = dice.below(8);
        (options.node_faults, options.durable, options.kinds) = (0, 0, Kinds::default());
        options.skew_us = options.skew_us.min(90_000);
        options.queued_per_mille = 1_000;
        options.fenced = true;
        options.horizon_ns = 2 * Self::STUCK_NS;
        options.events_max = 200_000;
        options
    }

    /// Whoever has waited for so long is stuck. Some sixteen wait at a time; each costs at most a term and a guard band if
    /// it dies while it holds the lock, and the time after which the next one asks by itself.
    pub(crate) const STUCK_NS: u64 = 16 * (2_200 + 2_000) * 1_000_000;

    /// One assumption is dropped, and what helps to see it is turned on.
    fn outside(seed: u64, scenario: Scenario, dice: &mut Dice) -> Self {
        let mut options = Self::base(seed, scenario, dice);
        options.kinds = Kinds { loss: true, ..Kinds::default() };
        options.durable = 0;
        options.node_faults = dice.between(2, 8);
        options.names = 1;
        options.nodes = dice.pick(&[3, 5]);
        let quarantine_ms = options.quarantine_us() / 1_000;
        match scenario {
            Scenario::AllForget => options.retention_ms = options.retention_ms.max(2 * quarantine_ms),
            Scenario::BackAcrossLoss | Scenario::BackWithLoss => {
                options.nodes = 3;
                options.client_crashes = dice.between(2, 6);
                options.cut_off_per_mille = 400;
                options.retention_ms = 20 * quarantine_ms;
                options.horizon_ns = quarantine_ms * 1_000 * dice.between(3_000, 6_000);
                options.skew_us = dice.pick(&[0, options.slack_us(), 3 * options.slack_us()]);
            }
            Scenario::BackAcrossTrim => {
                options.kinds = Kinds { steps_back: true, ..Kinds::default() };
                options.retention_ms = 1_000;
                options.horizon_ns = options.horizon_ns.max(6_000_000_000);
                // A lock must be left alone for long enough to be forgotten.
                (options.clients, options.names) = (2, 4);
                options.max_ttl_ms = options.max_ttl_ms.min(300);
                (options.client_crashes, options.events_max) = (4, 6_000);
            }
            Scenario::Unguarded => options.restart_guard = RestartGuard::Off,
            Scenario::UnwatchedSteps => {
                options.kinds = Kinds { steps_forward: true, ..Kinds::default() };
                options.client_crashes = dice.between(2, 6);
            }
            _ => {}
        }
        options
    }

    fn base(seed: u64, scenario: Scenario, dice: &mut Dice) -> Self {
        let nodes = dice.pick(&[1, 3, 3, 3, 5]);
        let max_ttl_ms = dice.of_any_size(100, 20_000);
        let quarantine_ms = max_ttl_ms + (max_ttl_ms / 10).max(100);
        let slack_us = (quarantine_ms / 2).min(10_000) * 1_000;
        let kinds = Kinds {
            restart: dice.chance(500),
            loss: dice.chance(500),
            tail: dice.chance(300),
            flush: dice.chance(300),
            ..Kinds::default()
        };
        Self {
            seed,
            scenario,
            mutant: None,
            nodes,
            clients: dice.index(3) + 2,
            names: dice.pick(&[1, 1, 1, 2, 4]),
            horizon_ns: quarantine_ms * 1_000 * dice.between(1_500, 4_000) + 500_000_000,
            events_max: 1_000,
            max_ttl_ms,
            // Short enough that fences are trimmed, not so short that trimming is all that happens.
            retention_ms: dice.between(quarantine_ms / 2, 4 * quarantine_ms).max(1_000),
            restart_guard: RestartGuard::Evidence,
            skew_us: dice.pick(&[0, 1_000, 100_000, slack_us / 2, slack_us]),
            node_rate_ppm: dice.pick(&[0, 100, 2_000]),
            client_rate_ppm: dice.pick(&[0, 50, 500]),
            delay_us: dice.of_any_size(50, 10_000),
            spike_per_mille: dice.pick(&[0, 5, 50]),
            spike_us: dice.of_any_size(1_000, max_ttl_ms * 1_000),
            breaks: dice.below(6),
            cut_off_per_mille: dice.pick(&[0, 0, 200, 400]),
            strays: dice.chance(500),
            kills: dice.chance(700),
            pauses: dice.below(4),
            client_crashes: dice.below(3),
            node_faults: dice.below(6),
            kinds,
            durable: if dice.chance(200) { dice.index(nodes + 1) } else { 0 },
            fenced: scenario == Scenario::FencingOnly || !dice.chance(100),
            queued_per_mille: dice.pick(&[0, 500, 1_000]),
            extra: Extra::default(),
        }
    }

    /// How long a node is left alone before the next one is restarted: a few extensions at the least.
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
            _ if self.kinds.loss || self.kinds.tail || self.kinds.flush => half_retention.min(with_loss),
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

    pub(crate) fn settings(&self) -> Settings {
        Settings::new(self.max_ttl(), "simulated")
            .restart_guard(self.restart_guard)
            .fence_retention(Duration::from_millis(self.retention_ms))
    }
}
