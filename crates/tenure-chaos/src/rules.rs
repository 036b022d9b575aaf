//! What may happen at a moment: the assumptions of `docs/guarantees.md` that a fault could break.
//!
//! - **A7**: a node may lose its memory if another one has lost nothing for two quarantines.
//! - **A2**: a large step of a clock forward is seen by whoever knew the clock before. So it
//!   happens only if every running client has seen what the clock showed since its last step, and
//!   nobody new comes for a quarantine after it.
//! - **F2**: across a loss of memory a clock goes back by less than the quarantine less the slack
//!   of fences; not at all without a restart guard.
//!
//! A node is halted or displaced in the middle of anything, so the rules keep what they need to
//! know themselves.

use super::Options;
use super::nodes::NODES;
use crate::history::Ns;

const NS_PER_MS: Ns = 1_000_000;

/// The shortest guard band. A step within it breaks nothing, so nobody has to see it.
const GUARD_BAND_NS: Ns = 100 * NS_PER_MS;

/// How far what a client makes of a step may be from what it was: the time of its messages on a
/// busy machine.
const SEEN_WITHIN_NS: Ns = 60 * NS_PER_MS;

#[derive(Debug)]
pub(super) struct Rules {
    quarantine_ns: Ns,
    back_over_loss_ns: Ns,
    /// Without a restart guard exclusion is broken anyway; only what fences need is kept.
    guarded: bool,
    nodes: [NodeState; NODES],
    /// For each client and node, the last step of the clock that it has seen.
    seen: Vec<[Option<u64>; NODES]>,
    /// When each client was started.
    came: Vec<Ns>,
    /// The last large step forward of any clock.
    forward_at: Option<Ns>,
}

#[derive(Clone, Copy, Debug, Default)]
struct NodeState {
    lost_at: Option<Ns>,
    /// How often its clock was stepped, and by how much the last time.
    steps: u64,
    step_ns: Ns,
    stepped_at: Option<Ns>,
    offset_ns: Ns,
    /// The latest time that it has ever shown, and the latest before it last lost its memory.
    shown_max_ns: Ns,
    shown_before_loss_ns: Ns,
}

impl Rules {
    pub(super) fn new(options: &Options) -> Self {
        let quarantine_ns = options.quarantine_ms().cast_signed() * NS_PER_MS;
        Self {
            quarantine_ns,
            // The slack of fences is half a quarantine here; a little less, because all of this
            // takes time.
            back_over_loss_ns: if options.guarded { quarantine_ns / 2 - 20 * NS_PER_MS } else { 0 },
            guarded: options.guarded,
            nodes: [NodeState::default(); NODES],
            seen: vec![[None; NODES]; options.clients],
            came: vec![0; options.clients],
            forward_at: None,
        }
    }

    /// The node's clock is so far from the right time now.
    pub(super) fn shows(&mut self, now: Ns, node: usize, offset_ns: Ns) {
        let state = &mut self.nodes[node];
        state.offset_ns = offset_ns;
        state.shown_max_ns = state.shown_max_ns.max(now + offset_ns);
    }

    /// Whether these nodes may lose their memory now. `remembers` asks a node whether it can tell
    /// that there was a time before.
    pub(super) fn may_forget(&self, now: Ns, nodes: &[usize], remembers: impl Fn(usize) -> bool) -> bool {
        let lately = |node: usize| {
            self.nodes[node].lost_at.is_some_and(|lost_at| now < lost_at + 2 * self.quarantine_ns)
        };
        let shows_enough = |node: &usize| {
            let state = &self.nodes[*node];
            now + state.offset_ns >= state.shown_max_ns - self.back_over_loss_ns
        };
        let mut others = (0..NODES).filter(|other| !nodes.contains(other) && !lately(*other));
        others.any(remembers) && nodes.iter().all(shows_enough)
    }

    pub(super) fn forgot(&mut self, now: Ns, node: usize) {
        let state = &mut self.nodes[node];
        state.lost_at = Some(now);
        state.shown_before_loss_ns = state.shown_max_ns;
    }

    /// Whether the clock may go back by so much now.
    pub(super) fn may_step_back(&self, now: Ns, node: usize, by_ns: Ns) -> bool {
        let state = &self.nodes[node];
        now + state.offset_ns - by_ns >= state.shown_before_loss_ns - self.back_over_loss_ns
    }

    /// Which of the running clients would not see that the clock steps forward now.
    pub(super) fn blind(&self, node: usize, running: &[usize]) -> Vec<usize> {
        let steps = self.nodes[node].steps;
        let blind = |client: &&usize| self.guarded && self.seen[**client][node] != Some(steps);
        running.iter().filter(blind).copied().collect()
    }

    pub(super) fn stepped(&mut self, now: Ns, node: usize, by_ns: Ns) {
        if by_ns.abs() <= GUARD_BAND_NS {
            return;
        }
        let state = &mut self.nodes[node];
        state.step_ns = by_ns;
        state.steps += 1;
        state.stepped_at = Some(now);
        if by_ns > 0 {
            self.forward_at = Some(now);
        }
    }

    /// Whether a client may be started now. The margin is for the time that it takes to come.
    pub(super) fn may_come(&self, now: Ns) -> bool {
        let quiet = self.forward_at.is_none_or(|at| now > at + self.quarantine_ns);
        quiet || !self.guarded
    }

    /// A new client knows nothing.
    pub(super) fn came(&mut self, now: Ns, client: usize) {
        self.came[client] = now;
        self.seen[client] = [None; NODES];
    }

    /// It has seen the node's clock for the first time. That may have been before the last step,
    /// unless it was not there then.
    pub(super) fn knows(&mut self, client: usize, node: usize) {
        let state = &self.nodes[node];
        if state.stepped_at.is_none_or(|at| at < self.came[client]) {
            self.seen[client][node] = Some(state.steps);
        }
    }

    /// It has seen the node's clock jump. That may have been another jump than the last; this one
    /// has its size.
    pub(super) fn saw_jump(&mut self, client: usize, node: usize, by_us: i64) {
        let state = &self.nodes[node];
        let differs_ns = (by_us * 1_000 - state.step_ns).abs();
        let same_way = (by_us > 0) == (state.step_ns > 0);
        if same_way && differs_ns < (state.step_ns.abs() / 10).max(SEEN_WITHIN_NS) {
            self.seen[client][node] = Some(state.steps);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Ns = 1_000 * NS_PER_MS;

    fn rules() -> Rules {
        Rules::new(&Options { clients: 2, ..Options::default() })
    }

    #[test]
    fn one_node_remembers_at_all_times() {
        let mut rules = rules();
        assert!(rules.may_forget(10 * SECOND, &[0, 1, 2, 3], |_| true));
        assert!(
            !rules.may_forget(10 * SECOND, &[0, 1, 2, 3], |_| false),
            "it has not heard of the others yet"
        );
        (0..4).for_each(|node| rules.forgot(10 * SECOND, node));
        assert!(!rules.may_forget(11 * SECOND, &[4], |_| true));
        assert!(rules.may_forget(14 * SECOND, &[4], |_| true));
    }

    #[test]
    fn a_clock_goes_forward_only_if_everybody_has_seen_it_since_its_last_step() {
        let mut rules = rules();
        assert_eq!(rules.blind(3, &[0, 1]), [0, 1]);
        rules.knows(0, 3);
        rules.knows(1, 3);
        assert!(rules.blind(3, &[0, 1]).is_empty());
        rules.stepped(SECOND, 3, -4 * SECOND);
        rules.saw_jump(0, 3, -3_990_000);
        rules.saw_jump(1, 3, 2_000_000);
        assert_eq!(rules.blind(3, &[0, 1]), [1]);
        assert!(rules.blind(3, &[0]).is_empty());
        rules.came(2 * SECOND, 0);
        assert_eq!(rules.blind(3, &[0]), [0]);
        rules.knows(0, 3);
        assert!(rules.blind(3, &[0]).is_empty());
        rules.came(2 * SECOND, 1);
        rules.stepped(3 * SECOND, 3, 4 * SECOND);
        rules.knows(1, 3);
        assert_eq!(rules.blind(3, &[1]), [1], "what it saw may have been before the step");
    }

    #[test]
    fn a_step_within_the_guard_band_need_not_be_seen_and_a_little_more_must_be() {
        let mut rules = rules();
        rules.knows(0, 3);
        rules.stepped(SECOND, 3, -90 * NS_PER_MS);
        assert!(rules.blind(3, &[0]).is_empty());
        rules.stepped(SECOND, 3, 150 * NS_PER_MS);
        assert_eq!(rules.blind(3, &[0]), [0]);
        rules.saw_jump(0, 3, -150_000);
        assert_eq!(rules.blind(3, &[0]), [0], "that was another one");
        rules.saw_jump(0, 3, 110_000);
        assert!(rules.blind(3, &[0]).is_empty());
    }

    #[test]
    fn nobody_new_comes_for_a_quarantine_after_a_step_forward() {
        let mut rules = rules();
        rules.stepped(SECOND, 3, 4 * SECOND);
        assert!(!rules.may_come(2 * SECOND));
        assert!(rules.may_come(3 * SECOND));
    }

    #[test]
    fn clocks_do_not_go_back_across_a_loss() {
        let mut rules = rules();
        rules.shows(11 * SECOND, 0, 5 * SECOND);
        rules.forgot(11 * SECOND, 0);
        assert!(!rules.may_step_back(12 * SECOND, 0, 5 * SECOND));
        assert!(rules.may_step_back(16 * SECOND, 0, 5 * SECOND), "time has passed");
        rules.shows(20 * SECOND, 1, 0);
        rules.shows(20 * SECOND, 1, -5 * SECOND);
        assert!(!rules.may_forget(21 * SECOND, &[1], |_| true));
        assert!(rules.may_forget(26 * SECOND, &[1], |_| true));
    }
}
