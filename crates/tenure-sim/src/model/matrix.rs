//! The fault matrix: what may happen, and which promises hold all the same.
//!
//! Each row is a small world. Where a promise must hold, every state of the world is looked at;
//! where an assumption is dropped, the search must find how the promise breaks.

use tenure_core::RestartGuard;

use super::Sight;
use super::config::{Budget, Config, Want, Writes};

/// A row of the fault matrix.
#[derive(Clone, Debug)]
pub struct Row {
    /// What may happen.
    pub faults: &'static str,
    /// What must become of exclusion.
    pub exclusion: Expected,
    /// What must become of the order of fences.
    pub fences: Expected,
    /// What a complete search must have come across.
    pub sights: &'static [Sight],
    pub(super) config: Config,
}

/// What must become of a promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// It holds in every state.
    Held,
    /// It breaks, because this is dropped.
    Broken(&'static str),
    /// It is not what the row is about.
    Aside,
}

impl Row {
    /// The same in a smaller world, which is searched in seconds. Whatever a complete search must
    /// come across is there, too; a world in which something must break stays as it is.
    #[must_use]
    pub fn small(mut self) -> Self {
        if self.breaks() {
            return self;
        }
        let faults = self.config.faults;
        let config = &mut self.config;
        let only_slow = Budget { holds: 0, ..faults } == Budget::default();
        config.faults.holds = faults.holds.min(if only_slow { 2 } else { 1 });
        if !config.queued {
            config.ticks = config.ticks.div_ceil(2).min(3);
        }
        // These have millions of states otherwise.
        if faults.losses > 1 || (config.cohort && faults.losses > 0) {
            config.faults.holds = 0;
        }
        if config.first_start {
            config.forgetful = &[0];
        }
        self
    }

    const fn breaks(&self) -> bool {
        matches!(self.exclusion, Expected::Broken(_)) || matches!(self.fences, Expected::Broken(_))
    }
}

/// All rows.
#[must_use]
pub fn rows() -> Vec<Row> {
    [within_assumptions(), trust(), waiting(), cohorts(), sharing(), owning(), several(), outside()].concat()
}

const HANDS: &[Sight] = &[Sight::Acquired, Sight::ChangedHands];

fn row(faults: &'static str, sights: &'static [Sight], config: Config) -> Row {
    Row { faults, exclusion: Expected::Held, fences: Expected::Held, sights, config }
}

/// A world whose locks have no fences: nothing but the quarantine keeps nodes out that forgot.
fn unfenced(faults: &'static str, sights: &'static [Sight], mut config: Config) -> Row {
    config.fenced = false;
    Row { fences: Expected::Aside, ..row(faults, sights, config) }
}

fn broken(faults: &'static str, exclusion: Expected, fences: Expected, config: Config) -> Row {
    Row { faults, exclusion, fences, sights: &[], config }
}

/// Messages, connections and clients.
fn within_assumptions() -> Vec<Row> {
    let base = Config::base;
    let faults = Budget::default();
    vec![
        row("all orders of all messages", &[Sight::Acquired], Config { any_time: true, ticks: 0, ..base() }),
        row("slow messages", HANDS, Config { faults: Budget { holds: 3, ..faults }, ..base() }),
        row(
            "slow messages, three clients",
            HANDS,
            Config { clients: 3, ticks: 4, faults: Budget { holds: 2, ..faults }, ..base() },
        ),
        row(
            "slow messages and connections that break, two attempts",
            HANDS,
            Config { ticks: 2, tries: 2, faults: Budget { holds: 2, breaks: 1, ..faults }, ..base() },
        ),
        row(
            "late commands of connections that are gone",
            &[Sight::Acquired, Sight::Stray],
            Config { ticks: 5, faults: Budget { holds: 1, breaks: 1, strays: true, ..faults }, ..base() },
        ),
        row(
            "paused clients, and one that dies",
            &[Sight::ChangedHands, Sight::Lost],
            Config { faults: Budget { holds: 1, pauses: 1, deaths: 1, ..faults }, ..base() },
        ),
        row(
            "two locks whose commands leave together, slow messages and connections that break",
            &[Sight::ChangedHands, Sight::Together],
            Config {
                neighbour: true,
                ticks: 4,
                extends: 1,
                faults: Budget { holds: 1, breaks: 1, strays: true, ..faults },
                ..base()
            },
        ),
        row(
            "slow extensions",
            &[Sight::ChangedHands, Sight::Extended],
            Config { extends: 2, ticks: 5, faults: Budget { holds: 2, ..faults }, ..base() },
        ),
        row(
            "extensions by a paused client",
            &[Sight::ChangedHands, Sight::Extended],
            Config { extends: 1, faults: Budget { holds: 1, pauses: 1, ..faults }, ..base() },
        ),
        row(
            "writes after a pause, where the resource checks the fence",
            &[Sight::Refused],
            Config { writes: Writes::Fenced, faults: Budget { holds: 1, pauses: 1, ..faults }, ..base() },
        ),
    ]
}

/// Nodes that forget, and clocks.
fn trust() -> Vec<Row> {
    let base = Config::base;
    let faults = Budget::default();
    let apart = [0, 0, 120];
    vec![
        row(
            "a node is restarted with its memory",
            &[Sight::ChangedHands, Sight::Quarantined],
            Config { ticks: 4, faults: Budget { holds: 1, restarts: 1, ..faults }, ..base() },
        ),
        row(
            "durable nodes are restarted",
            HANDS,
            Config { durable: true, faults: Budget { restarts: 2, ..faults }, ticks: 3, ..base() },
        ),
        row(
            "a node loses its memory",
            &[Sight::ChangedHands, Sight::Quarantined],
            Config { ticks: 7, ahead_ms: apart, faults: Budget { holds: 1, losses: 1, ..faults }, ..base() },
        ),
        unfenced(
            "a node loses its memory, locks without fences",
            &[Sight::Acquired, Sight::Quarantined],
            Config { ticks: 6, faults: Budget { holds: 1, losses: 1, ..faults }, ..base() },
        ),
        unfenced(
            "two nodes lose their memory, locks without fences",
            &[Sight::Acquired, Sight::Quarantined],
            Config { ticks: 3, faults: Budget { holds: 1, losses: 2, ..faults }, ..base() },
        ),
        unfenced(
            "a node loses the tail of its memory, locks without fences",
            &[Sight::Acquired, Sight::Quarantined],
            Config { ticks: 6, faults: Budget { holds: 1, tails: 1, ..faults }, ..base() },
        ),
        unfenced(
            "a node is emptied, locks without fences",
            &[Sight::Acquired, Sight::Stranger, Sight::Quarantined],
            Config { ticks: 6, faults: Budget { holds: 2, flushes: 1, ..faults }, ..base() },
        ),
        unfenced(
            "extensions of locks without fences, a node is emptied",
            &[Sight::Extended, Sight::Stranger, Sight::Quarantined],
            Config { extends: 1, ticks: 4, faults: Budget { holds: 1, flushes: 1, ..faults }, ..base() },
        ),
        unfenced(
            "a short lock without a fence is extended, a node is emptied",
            &[Sight::Extended, Sight::Stranger],
            set_elsewhere(),
        ),
        row(
            "two nodes lose their memory",
            &[Sight::Acquired, Sight::Quarantined],
            Config { ticks: 4, faults: Budget { losses: 2, ..faults }, ..base() },
        ),
        row(
            "a node loses the tail of its memory",
            &[Sight::ChangedHands, Sight::Quarantined],
            Config { ticks: 5, faults: Budget { holds: 1, tails: 1, ..faults }, ..base() },
        ),
        row(
            "a node is emptied",
            &[Sight::ChangedHands, Sight::Stranger, Sight::Quarantined],
            Config { ticks: 6, faults: Budget { holds: 1, flushes: 2, ..faults }, ..base() },
        ),
        row(
            "nodes lose their memory under a lock that is extended and healed",
            &[Sight::Healed, Sight::Extended],
            Config { extends: 2, ticks: 4, faults: Budget { losses: 1, flushes: 1, ..faults }, ..base() },
        ),
        row(
            "all nodes lose their memory, strict guard",
            &[Sight::Acquired, Sight::Quarantined],
            Config {
                restart_guard: RestartGuard::Strict,
                newcomers: 1,
                once: &[(0, 0), (0, 1), (0, 2)],
                forget_in_hold: true,
                ticks: 2,
                faults: Budget { losses: 3, ..faults },
                ..base()
            },
        ),
        row(
            "a first start, and a node that loses its memory during it",
            HANDS,
            Config { first_start: true, ticks: 1, faults: Budget { losses: 1, ..faults }, ..base() },
        ),
        row(
            "a clock jumps ahead, and clients have seen it before",
            &[Sight::ChangedHands, Sight::ClockJumped],
            Config { jump_ms: 1_000, faults: Budget { holds: 2, jumps: 1, ..faults }, ..base() },
        ),
        row(
            "a clock jumps back",
            &[Sight::ChangedHands, Sight::ClockJumped],
            Config { jump_ms: -1_000, faults: Budget { holds: 2, jumps: 1, ..faults }, ..base() },
        ),
        row(
            "clocks of nodes run fast, within guard band and drift",
            HANDS,
            Config {
                restart_guard: RestartGuard::Off,
                guard_band_ms: 100,
                node_rate_percent: 60,
                faults: Budget { holds: 1, ..faults },
                ..base()
            },
        ),
        row(
            "a lock is healed, and deleted unseen within its margin",
            &[Sight::Healed, Sight::Extended],
            Config {
                extends: 2,
                ticks: 2,
                kept: true,
                one_holds: true,
                late: &[(0, 0)],
                once: &[(1, 0)],
                forgetful: &[0],
                forget_in_hold: true,
                faults: Budget { holds: 2, losses: 1, evictions: 1, within_margin: true, ..faults },
                ..base()
            },
        ),
        row(
            "a lock is deleted unseen, held with margin 1",
            HANDS,
            Config { min_margin: 1, faults: Budget { holds: 2, evictions: 1, ..faults }, ..base() },
        ),
    ]
}

/// The first client has the grant of node 0, which then forgets it, and waits for node 1. The
/// second one gets the lock on all nodes and extends it, in the end without node 1. There the slow
/// command of the first client finds the lock free.
fn set_elsewhere() -> Config {
    Config {
        fenced: false,
        extends: 2,
        ticks: 2,
        shorter: true,
        kept: true,
        cut: &[(0, 2)],
        forgetful: &[0],
        pausing: &[0],
        faults: Budget { holds: 2, pauses: 1, flushes: 1, ..Budget::default() },
        ..Config::base()
    }
}

/// The queue.
fn waiting() -> Vec<Row> {
    let base = || Config { queued: true, tries: 4, ticks: 9, ..Config::base() };
    let faults = Budget::default();
    vec![
        row(
            "waiters in line, slow messages",
            &[Sight::ChangedHands, Sight::Waiting, Sight::PassedOn],
            Config { ticks: 10, faults: Budget { holds: 2, ..faults }, ..base() },
        ),
        row(
            "three in line, one dies",
            &[Sight::ChangedHands, Sight::Waiting, Sight::PassedOn],
            Config { clients: 3, faults: Budget { deaths: 1, ..faults }, ..base() },
        ),
        row(
            "waiters in line, a node loses its memory",
            &[Sight::ChangedHands, Sight::Waiting, Sight::PassedOn, Sight::Quarantined],
            Config { faults: Budget { losses: 1, ..faults }, ..base() },
        ),
    ]
}

/// Locks that are passed on inside a client.
fn cohorts() -> Vec<Row> {
    let base = || Config { queued: true, cohort: true, ticks: 4, ..Config::base() };
    let faults = Budget::default();
    const PASSED: &[Sight] = &[Sight::ChangedHands, Sight::PassedWithin];
    vec![
        row(
            "locks passed on inside clients, slow messages",
            PASSED,
            Config { faults: Budget { holds: 2, ..faults }, ..base() },
        ),
        row(
            "locks passed on inside paused clients, and one that dies",
            PASSED,
            Config { faults: Budget { holds: 1, pauses: 1, deaths: 1, ..faults }, ..base() },
        ),
        row(
            "locks passed on inside clients, a node loses its memory",
            PASSED,
            Config { faults: Budget { holds: 1, losses: 1, ..faults }, ..base() },
        ),
    ]
}

/// Locks that are shared, or were had alone before.
fn sharing() -> Vec<Row> {
    const TWO_AND_ONE: &[Want] = &[Want::Shared, Want::Shared, Want::Alone];
    const TOGETHER: &[Sight] = &[Sight::ChangedHands, Sight::HeldTogether];
    let base = || Config { clients: 3, wants: TWO_AND_ONE, ticks: 4, ..Config::base() };
    let faults = Budget::default();
    vec![
        row(
            "two readers and a writer, slow messages",
            TOGETHER,
            Config { ticks: 3, faults: Budget { holds: 2, ..faults }, ..base() },
        ),
        row(
            "two readers and a writer, one dies",
            TOGETHER,
            Config { faults: Budget { holds: 1, deaths: 1, ..faults }, ..base() },
        ),
        row(
            "two readers and a writer, a node loses its memory and is healed",
            &[Sight::HeldTogether, Sight::Healed, Sight::Extended, Sight::Quarantined],
            Config {
                extends: 1,
                ticks: 2,
                forgetful: &[0],
                forget_in_hold: true,
                faults: Budget { losses: 1, ..faults },
                ..base()
            },
        ),
        row(
            "a writer that becomes a reader, beside a reader and a writer, slow messages",
            &[Sight::HeldTogether, Sight::SharedSince],
            Config {
                wants: &[Want::AloneThenShared, Want::Shared, Want::Alone],
                ticks: 3,
                faults: Budget { holds: 1, ..faults },
                ..base()
            },
        ),
    ]
}

/// Locks that one owner holds again, from another process.
fn owning() -> Vec<Row> {
    const JOINED: &[Sight] = &[Sight::ChangedHands, Sight::HeldTogether, Sight::Rejoined];
    let wants = &[Want::Owned("a"), Want::Owned("a"), Want::Owned("b")];
    let base = || Config { clients: 3, wants, ticks: 4, ..Config::base() };
    let faults = Budget::default();
    vec![
        row(
            "two processes of one owner and a rival, slow messages",
            JOINED,
            Config { ticks: 3, faults: Budget { holds: 2, ..faults }, ..base() },
        ),
        row(
            "two processes of one owner and a rival, one dies",
            JOINED,
            Config { faults: Budget { holds: 1, deaths: 1, ..faults }, ..base() },
        ),
        row(
            "two processes of one owner and a rival, a node loses its memory and is healed",
            &[Sight::HeldTogether, Sight::Healed, Sight::Rejoined, Sight::Quarantined],
            Config {
                extends: 1,
                ticks: 2,
                forgetful: &[0],
                forget_in_hold: true,
                faults: Budget { losses: 1, ..faults },
                ..base()
            },
        ),
    ]
}

/// Two locks, together and apart.
fn several() -> Vec<Row> {
    let base = || Config { wants: &[Want::Both, Want::Alone], ..Config::base() };
    let faults = Budget::default();
    vec![
        row(
            "two locks together against one of them, slow messages",
            HANDS,
            Config { faults: Budget { holds: 3, ..faults }, ..base() },
        ),
        row(
            "two locks together against one of them, which is deleted unseen within the margin",
            &[Sight::ChangedHands, Sight::Extended],
            Config {
                extends: 1,
                ticks: 4,
                faults: Budget { holds: 1, evictions: 1, within_margin: true, ..faults },
                ..base()
            },
        ),
        row(
            "two locks together against both of them, in line, slow messages",
            HANDS,
            Config {
                clients: 3,
                wants: &[Want::Both, Want::Alone, Want::Other],
                queued: true,
                ticks: 2,
                faults: Budget { holds: 1, ..faults },
                ..base()
            },
        ),
        row(
            "two slots, three clients",
            HANDS,
            Config {
                clients: 3,
                wants: &[Want::Alone, Want::Other, Want::Alone],
                ticks: 3,
                faults: Budget { holds: 2, ..faults },
                ..base()
            },
        ),
    ]
}

/// Without each assumption.
fn outside() -> Vec<Row> {
    use Expected::{Aside, Broken, Held};
    let base = Config::base;
    let faults = Budget::default();
    let apart = [0, 0, 120];
    vec![
        broken(
            "clients have different node lists (A1)",
            Broken("S16"),
            Broken("S16"),
            Config { lists: Some([[0, 1, 2], [2, 3, 4]]), believed: true, ticks: 3, ..base() },
        ),
        broken(
            "clocks of nodes run faster than guard band and drift allow (A2)",
            Broken("S6"),
            Held,
            Config { restart_guard: RestartGuard::Off, node_rate_percent: 50, ..base() },
        ),
        broken(
            "a clock jumps ahead, no one watches (A2)",
            Broken("S4"),
            Held,
            Config {
                restart_guard: RestartGuard::Off,
                jump_ms: 1_000,
                faults: Budget { holds: 1, jumps: 1, ..faults },
                ..base()
            },
        ),
        broken(
            "a clock jumps ahead before a client's first look (A2)",
            Broken("S27"),
            Held,
            Config {
                newcomers: 1,
                cut: &[(1, 1)],
                jump_ms: 1_000,
                ticks: 2,
                faults: Budget { holds: 1, jumps: 1, ..faults },
                ..base()
            },
        ),
        broken(
            "a lock is deleted unseen, held with margin 0 (A3)",
            Broken("S17"),
            Held,
            Config { faults: Budget { holds: 1, evictions: 1, ..faults }, ..base() },
        ),
        broken(
            "a client's clock stops while the client is paused (A4)",
            Broken("S19"),
            Held,
            Config { faults: Budget { holds: 1, pauses: 1, sleeps: true, ..faults }, ..base() },
        ),
        broken(
            "a lock is passed on inside a client whose clock stops (A4)",
            Broken("S19"),
            Held,
            Config {
                queued: true,
                cohort: true,
                faults: Budget { pauses: 1, sleeps: true, ..faults },
                ..base()
            },
        ),
        broken(
            "a node loses its memory, no quarantine (guard off, floors on)",
            Broken("S12"),
            Held,
            Config {
                restart_guard: RestartGuard::Off,
                cut: &[(0, 0)],
                // Otherwise the floor keeps the node out for nearly as long as these short locks
                // live.
                ahead_ms: [0, -60, 0],
                faults: Budget { losses: 1, ..faults },
                ..base()
            },
        ),
        broken(
            "a node loses its memory, no quarantine and no floors",
            Broken("S12"),
            Broken("2.3 F2"),
            Config {
                believed: true,
                ahead_ms: apart,
                faults: Budget { holds: 1, breaks: 1, losses: 1, ..faults },
                ..base()
            },
        ),
        broken(
            "two readers and a writer, a node loses its memory, no quarantine and no floors",
            Broken("kinds"),
            Aside,
            Config {
                clients: 3,
                wants: &[Want::Shared, Want::Shared, Want::Alone],
                believed: true,
                faults: Budget { holds: 1, losses: 1, ..faults },
                ..base()
            },
        ),
        broken(
            "two processes of one owner and a rival, a node loses its memory, no quarantine and no floors",
            Broken("kinds"),
            Aside,
            Config {
                clients: 3,
                wants: &[Want::Owned("a"), Want::Owned("a"), Want::Owned("b")],
                believed: true,
                faults: Budget { holds: 1, losses: 1, ..faults },
                ..base()
            },
        ),
        broken(
            "two slots that are only counted, three clients",
            Broken("kinds"),
            Aside,
            Config {
                clients: 3,
                wants: &[Want::Alone, Want::Other, Want::Alone],
                counting: true,
                ticks: 3,
                faults: Budget { holds: 1, ..faults },
                ..base()
            },
        ),
        broken(
            "all nodes lose their memory and no one remembers (A7)",
            Broken("S28"),
            Broken("S28"),
            Config {
                newcomers: 1,
                cut: &[(0, 0)],
                jump_ms: -200,
                forget_in_hold: true,
                ticks: 2,
                faults: Budget { losses: 3, jump_with_loss: true, ..faults },
                ..base()
            },
        ),
        broken(
            "a first start judged from a majority (A7)",
            Broken("6.5"),
            Aside,
            Config {
                first_start: true,
                fresh_needs: 2,
                cut: &[(0, 2), (1, 1)],
                forget_in_hold: true,
                ticks: 2,
                faults: Budget { losses: 1, ..faults },
                ..base()
            },
        ),
        broken(
            "a clock steps back with a loss of memory by more than the quarantine (F2)",
            Aside,
            Broken("2.3 F2"),
            Config {
                restart_guard: RestartGuard::Off,
                cut: &[(0, 0), (1, 1)],
                jump_ms: -400,
                forget_in_hold: true,
                ticks: 4,
                faults: Budget { losses: 1, jump_with_loss: true, ..faults },
                ..base()
            },
        ),
        broken(
            "a key without a fence, set in a memory that no client asked, counts at once",
            Broken("1.4"),
            Aside,
            Config { discarded_counts: true, slow: &[1], ..set_elsewhere() },
        ),
        broken(
            "writes after a pause, where the resource checks nothing",
            Broken("S1"),
            Held,
            Config { writes: Writes::Unchecked, faults: Budget { holds: 0, pauses: 1, ..faults }, ..base() },
        ),
    ]
}
