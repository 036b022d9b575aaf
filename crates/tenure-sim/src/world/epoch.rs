//! What goes wrong when. A history is made of epochs; each has a swarm of its own, and its faults
//! are planned when it begins.

use super::node::NodeFault;
use super::{Event, World};
use crate::options::{Options, Scenario};

/// What the line of a story begins with that tells of a new epoch.
pub(crate) const EPOCH: &str = "EPOCH";

/// A fault that is planned. It does not happen if its epoch is over before.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Plan {
    BreakLink,
    Part,
    PauseClient,
    CrashClient,
    Fault(NodeFault),
}

/// The present epoch.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Epoch {
    pub(crate) number: u32,
    began_ns: u64,
    began_events: u64,
}

impl World {
    /// Plans the faults of an epoch that begins now.
    pub(crate) fn plan_epoch(&mut self) {
        let epoch = self.epoch.number;
        let Options { breaks, partitions, pauses, client_crashes, node_faults, .. } = self.options;
        let plans = [
            (breaks, Plan::BreakLink),
            (partitions, Plan::Part),
            (pauses, Plan::PauseClient),
            (client_crashes, Plan::CrashClient),
            (node_faults, Plan::Fault(NodeFault::Any)),
        ];
        if self.trace.on {
            let swarm = self.options.swarm();
            self.note(|| format!("{EPOCH} {epoch}: {swarm}"));
        }
        for (count, plan) in plans {
            self.plan(count, plan);
        }
        if self.options.scenario == Scenario::AllForget {
            self.plan(2, Plan::Fault(NodeFault::LoseAllMemory));
        }
    }

    fn plan(&mut self, count: u64, plan: Plan) {
        let epoch = self.epoch.number;
        for _ in 0..count {
            // Much is decided at the first start, so a good part happens then.
            let early = self.dice.chance(300);
            let within_ns = if early { self.options.horizon_ns / 8 } else { self.options.horizon_ns };
            let at_ns = self.now_ns + self.dice.below(within_ns);
            self.at(at_ns, Event::Planned { epoch, plan });
        }
    }

    pub(crate) fn handle_planned(&mut self, epoch: u32, plan: Plan) {
        if epoch != self.epoch.number {
            return;
        }
        match plan {
            Plan::BreakLink => self.break_any_link(),
            Plan::Part => self.part_some(),
            Plan::PauseClient => self.pause_any_client(),
            Plan::CrashClient => self.crash_any_client(),
            Plan::Fault(fault) => self.handle_fault(fault),
        }
    }

    pub(crate) const fn epoch_is_over(&self) -> bool {
        let Epoch { began_ns, began_events, .. } = self.epoch;
        self.now_ns - began_ns >= self.options.horizon_ns
            || self.events - began_events >= self.options.events_max
    }

    pub(crate) fn next_epoch(&mut self) {
        self.epoch =
            Epoch { number: self.epoch.number + 1, began_ns: self.now_ns, began_events: self.events };
        self.options.redraw(&mut self.dice);
        // Otherwise a history whose clocks are far apart would give no lock for the rest of its
        // time.
        let steps = self.options.possible.steps_forward || self.options.possible.steps_back;
        if steps && self.options.scenario.promises_liveness() && self.dice.chance(500) {
            self.set_clocks();
        }
        self.plan_epoch();
    }
}
