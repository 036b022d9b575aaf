//! Drawing the options of a history, and of each epoch in it.

use tenure_core::RestartGuard;

use super::{Kinds, Options, Scenario};
use crate::dice::Dice;
use crate::mutant::Extra;
use crate::workload::owners::Owners;
use crate::world::strangers::Strangers;

/// In so many histories strangers come to the nodes.
const STRANGERS_PER_MILLE: u64 = 150;

impl Options {
    /// The assumption set of both promises. What the world itself keeps in addition, because it
    /// depends on the moment, is in [`crate::world::node`]: not all nodes lose their memory
    /// together; large steps forward happen only while every client watches, and no client is new
    /// for a quarantine after one; no clock goes back by more than half of the retention in all,
    /// nor by more than the quarantine less the slack where memory is lost.
    pub(super) fn within_assumptions(seed: u64, dice: &mut Dice) -> Self {
        let mut options = Self::base(seed, Scenario::WithinAssumptions, dice);
        options.restart_guard = if dice.chance(150) { RestartGuard::Strict } else { RestartGuard::Evidence };
        // Rates and small steps add up, so a history has one kind of them: 8 % of slew and the
        // clients' own rate stay below the 11 % that guard band and drift allow for, and so do
        // steps of 20 ms.
        match dice.below(5) {
            0 => options.kinds.slew = true,
            1 => options.kinds.small_steps = true,
            2 => options.kinds.steps_forward = true,
            _ => {}
        }
        options.kinds.steps_back = dice.chance(300);
        options.kinds.freeze = dice.chance(200);
        options.kinds.evict = dice.chance(300);
        if dice.chance(STRANGERS_PER_MILLE) {
            options.strangers = Strangers::draw(dice, options.nodes, options.max_ttl_ms);
        }
        options
    }

    pub(super) fn fencing_only(seed: u64, dice: &mut Dice) -> Self {
        let mut options = Self::base(seed, Scenario::FencingOnly, dice);
        options.restart_guard =
            dice.pick(&[RestartGuard::Off, RestartGuard::Off, RestartGuard::Evidence, RestartGuard::Strict]);
        options.kinds.steps_forward = dice.chance(500);
        options.kinds.steps_back = dice.chance(500);
        options.kinds.freeze = dice.chance(200);
        options.kinds.slew = dice.chance(200);
        // With dice of its own: the other histories stay as they are.
        let mut cohorts = Dice::new(seed ^ 0x636f_686f_7274_2121);
        options.cohort_per_mille = if cohorts.chance(300) { cohorts.pick(&[500, 1_000]) } else { 0 };
        options
    }

    /// Many callers in few clients.
    pub(super) fn cohort(seed: u64, dice: &mut Dice) -> Self {
        let mut options = Self::within_assumptions(seed, dice);
        options.scenario = Scenario::Cohort;
        (options.names, options.fenced) = (dice.pick(&[1, 1, 2]), true);
        options.clients = options.clients.min(4);
        options.queued_per_mille = 1_000;
        options.cohort_per_mille = dice.pick(&[500, 800, 1_000]);
        options
    }

    /// Many who share locks.
    pub(super) fn sharing(seed: u64, dice: &mut Dice) -> Self {
        let mut options = Self::within_assumptions(seed, dice);
        options.scenario = Scenario::Sharing;
        options.names = dice.pick(&[1, 1, 2]);
        options.shared_per_mille = dice.pick(&[300, 600, 900]);
        options
    }

    /// A few owners of reentrant locks, and many clients for them.
    pub(super) fn owning(seed: u64, dice: &mut Dice) -> Self {
        let mut options = Self::within_assumptions(seed, dice);
        options.scenario = Scenario::Owning;
        (options.names, options.clients) = (dice.pick(&[1, 1, 2, 3]), options.clients.max(3));
        options.owners = Owners::draw(dice, options.names);
        options.shared_per_mille = dice.pick(&[0, 300]);
        options
    }

    /// Several locks at once.
    pub(super) fn sets(seed: u64, dice: &mut Dice) -> Self {
        let mut options = Self::within_assumptions(seed, dice);
        options.scenario = Scenario::Sets;
        options.names = dice.pick(&[2, 2, 3, 4]);
        options.sets_per_mille = dice.pick(&[300, 500, 800]);
        options
    }

    /// Locks that are kept from others for a period.
    pub(super) fn periods(seed: u64, dice: &mut Dice) -> Self {
        let mut options = Self::within_assumptions(seed, dice);
        options.scenario = Scenario::Periods;
        options.names = dice.pick(&[1, 1, 2, 3]);
        options.periods_per_mille = dice.pick(&[300, 600, 900]);
        options.sets_per_mille = if options.names > 1 { dice.pick(&[0, 300]) } else { 0 };
        // The margin protects a lock while it is held, and what is kept after that has none.
        options.kinds.evict = false;
        options
    }

    pub(super) fn rolling_restart(seed: u64, dice: &mut Dice) -> Self {
        let mut options = Self::base(seed, Scenario::RollingRestart, dice);
        options.nodes = dice.pick(&[3, 3, 5]);
        options.names = 1;
        options.max_ttl_ms = dice.of_any_size(600, 10_000);
        // Answers come well within the node timeout of 50 ms.
        options.delay_us = dice.of_any_size(100, 5_000);
        options.cut_off_per_mille = 0;
        (options.spike_per_mille, options.breaks, options.pauses, options.client_crashes) = (0, 0, 0, 0);
        (options.partitions, options.duplicates_per_mille) = (0, 0);
        (options.node_faults, options.durable, options.kinds) = (0, 0, Kinds::default());
        options.skew_us = options.skew_us.min(400_000);
        options.horizon_ns = options.nodes as u64 * options.rolling_interval_ns();
        options
    }

    /// Answers take up to a tenth of the ttl, which is far more than the node timeout begins with.
    pub(super) fn distance(seed: u64, dice: &mut Dice) -> Self {
        let mut options = Self::rolling_restart(seed, dice);
        options.scenario = Scenario::Distance;
        options.max_ttl_ms = dice.of_any_size(2_000, 20_000);
        options.delay_us = dice.of_any_size(10_000, options.max_ttl_ms * 1_000 / 22);
        options.horizon_ns = options.max_ttl_ms * 30_000_000;
        options
    }

    pub(super) fn waiting(seed: u64, dice: &mut Dice) -> Self {
        let mut options = Self::base(seed, Scenario::Waiting, dice);
        options.nodes = dice.pick(&[1, 3, 5]);
        options.names = 1;
        options.clients = dice.index(5) + 3;
        options.max_ttl_ms = dice.of_any_size(300, 2_000);
        // Far below a reservation: whoever is woken comes in time.
        options.delay_us = dice.of_any_size(50, 10_000);
        options.cut_off_per_mille = 0;
        (options.spike_per_mille, options.breaks, options.pauses) = (0, 0, 0);
        (options.partitions, options.duplicates_per_mille) = (0, 0);
        options.client_crashes = dice.below(8);
        (options.node_faults, options.durable, options.kinds) = (0, 0, Kinds::default());
        // Clocks stay within the slack of 200 ms at the least; further apart, a fence for all of
        // them is hard to find.
        options.skew_us = options.skew_us.min(90_000);
        options.node_rate_ppm = options.node_rate_ppm.min(100);
        options.queued_per_mille = 1_000;
        options.fenced = true;
        options.horizon_ns = 2 * Self::STUCK_NS;
        options.events_max = 200_000;
        options
    }

    /// One assumption is dropped, and what helps to see it is turned on.
    pub(super) fn outside(seed: u64, scenario: Scenario, dice: &mut Dice) -> Self {
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
            Scenario::EvictedBeyondMargin => options.kinds = Kinds { evict: true, ..Kinds::default() },
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
        let many = dice.chance(30) && scenario.is_within();
        let mut options = Self {
            seed,
            scenario,
            mutant: None,
            nodes,
            clients: if many { dice.index(9) + 8 } else { dice.index(3) + 2 },
            names: dice.pick(&[1, 1, 1, 2, 4]),
            horizon_ns: 0,
            events_max: 1_000,
            events_min: 20_000,
            max_ttl_ms,
            // Short enough that fences are trimmed, not so short that trimming is all that happens.
            retention_ms: dice.between(quarantine_ms / 2, 4 * quarantine_ms).max(1_000),
            restart_guard: RestartGuard::Evidence,
            skew_us: dice.pick(&[0, 1_000, 100_000, slack_us / 2, slack_us]),
            node_rate_ppm: dice.pick(&[0, 100, 2_000]),
            client_rate_ppm: dice.pick(&[0, 50, 500]),
            delay_us: 0,
            spike_per_mille: 0,
            spike_us: 0,
            breaks: 0,
            partitions: 0,
            duplicates_per_mille: 0,
            cut_off_per_mille: 0,
            strays: dice.chance(500),
            kills: dice.chance(700),
            pauses: 0,
            client_crashes: 0,
            node_faults: 0,
            kinds,
            possible: Kinds::default(),
            durable: if dice.chance(200) { dice.index(nodes + 1) } else { 0 },
            fenced: scenario == Scenario::FencingOnly || !dice.chance(100),
            queued_per_mille: 0,
            cohort_per_mille: 0,
            shared_per_mille: 0,
            sets_per_mille: 0,
            periods_per_mille: 0,
            owners: Owners::default(),
            strangers: Strangers::default(),
            extra: Extra::default(),
        };
        options.draw_swarm(dice);
        options
    }

    /// What may be otherwise in every epoch. The numbers of faults are for one epoch: how many
    /// there are in a term matters, and not how long a history is.
    fn draw_swarm(&mut self, dice: &mut Dice) {
        let quarantine_ms = self.quarantine_us() / 1_000;
        self.horizon_ns = quarantine_ms * 1_000 * dice.between(1_500, 4_000) + 500_000_000;
        self.delay_us = dice.of_any_size(50, 10_000);
        self.spike_per_mille = dice.pick(&[0, 5, 50]);
        self.spike_us = dice.of_any_size(1_000, self.max_ttl_ms * 1_000);
        self.breaks = dice.below(6);
        self.partitions = dice.pick(&[0, 0, 1, 2, 4]);
        self.duplicates_per_mille = dice.pick(&[0, 0, 0, 5, 50]);
        self.cut_off_per_mille = dice.pick(&[0, 0, 200, 400]);
        self.pauses = dice.below(4);
        self.client_crashes = dice.below(3);
        self.node_faults = dice.below(6);
        self.queued_per_mille = dice.pick(&[0, 500, 1_000]);
    }

    /// Draws the next epoch. What a promise rests on over more than one epoch stays: how clocks may
    /// be off, and which faults there are at all. Scenarios that need their faults as they are, and
    /// known-bad variants, keep them.
    pub(crate) fn redraw(&mut self, dice: &mut Dice) {
        if self.mutant.is_some()
            || !matches!(
                self.scenario,
                Scenario::WithinAssumptions
                    | Scenario::FencingOnly
                    | Scenario::Cohort
                    | Scenario::Sharing
                    | Scenario::Owning
                    | Scenario::Sets
                    | Scenario::Periods
            )
        {
            return;
        }
        self.draw_swarm(dice);
        let mut some = |possible: bool| possible && dice.chance(700);
        let all = self.possible;
        self.kinds = Kinds {
            restart: some(all.restart),
            loss: some(all.loss),
            tail: some(all.tail),
            flush: some(all.flush),
            swap: some(all.swap),
            promotion: some(all.promotion),
            evict: some(all.evict),
            small_steps: some(all.small_steps),
            steps_forward: some(all.steps_forward),
            steps_back: some(all.steps_back),
            freeze: some(all.freeze),
            slew: some(all.slew),
        };
    }
}
