//! What is to go wrong and when: all of it follows from one seed.
//!
//! Two wishes never want the same thing of the same process, connection or clock at one time.
//! Whether a wish is within the assumptions depends on the moment, so `rules.rs` decides that when
//! it comes.

use std::collections::BTreeMap;

use tenure_testkit::{Direction, Mode};

use super::nodes::{Memory, NODES, SIDES, memory};
use super::{Dice, Kind, Options};

/// The pause between two wishes, on average half of it.
const PAUSE_MAX_MS: u64 = 1_200;

/// A slewed clock stays so for this long: 8 % of it is about a guard band.
const SLEW_MS: u64 = 1_200;

/// One thing that goes wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// SIGKILL, and a new start, with the data that is there or without it; or without what was
    /// written in the last moments.
    Restart { nodes: Vec<usize>, empty: bool, tail_ms: Option<u64>, down_ms: u64 },
    /// SIGSTOP, and SIGCONT.
    StopNode { node: usize, for_ms: u64 },
    /// FLUSHALL.
    Flush { nodes: Vec<usize> },
    /// Clocks step forward or back together, as a bad time server makes them, and later to the
    /// right time.
    Step { nodes: Vec<usize>, by_ms: i64, for_ms: u64 },
    /// The clock runs 8 % fast, and then steps back to the right time.
    Slew { node: usize, for_ms: u64 },
    /// Something happens to the bytes of one direction between a half of the clients and a node.
    Link { node: usize, side: usize, direction: Direction, mode: Mode, for_ms: u64 },
    /// Every connection of a half of the clients to a node breaks, and new ones are refused for a
    /// while.
    Break { node: usize, side: usize, for_ms: u64 },
    /// A half of the clients is cut off from some nodes, both ways. They may be flushed at once:
    /// then holders that are cut off cannot see it.
    Partition { nodes: Vec<usize>, side: usize, flush: bool, for_ms: u64 },
    /// SIGSTOP, and SIGCONT.
    StopClient { client: usize, for_ms: u64 },
    /// SIGKILL, and a new start.
    KillClient { client: usize, down_ms: u64 },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wish {
    pub(super) at_ms: u64,
    pub(super) fault: Fault,
}

/// What only one fault may have at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Target {
    Process(usize),
    Clock(usize),
    Link(usize, usize),
    Client(usize),
}

pub(super) fn plan(options: &Options) -> Vec<Wish> {
    let end_ms = u64::try_from(options.duration.as_millis()).unwrap_or(u64::MAX);
    match options.kind {
        Kind::Mixed => mixed(options, end_ms),
        Kind::Rolling => rolling(options, end_ms, true),
        Kind::RollingDurable => rolling(options, end_ms, false),
    }
}

/// One node after another.
fn rolling(options: &Options, end_ms: u64, empty: bool) -> Vec<Wish> {
    let every_ms = usize::try_from(options.every.as_millis()).unwrap_or(usize::MAX).max(1);
    let at = |(index, at_ms): (usize, u64)| Wish {
        at_ms,
        fault: Fault::Restart { nodes: vec![index % NODES], empty, tail_ms: None, down_ms: 10 },
    };
    (every_ms as u64..end_ms).step_by(every_ms).enumerate().map(at).collect()
}

fn mixed(options: &Options, end_ms: u64) -> Vec<Wish> {
    let mut dice = Dice::new(options.seed);
    let mut busy: BTreeMap<Target, u64> = BTreeMap::new();
    let (mut at_ms, mut wishes) = (0, vec![]);
    loop {
        at_ms += dice.between(0, PAUSE_MAX_MS);
        if at_ms >= end_ms {
            return wishes;
        }
        let fault = draw(&mut dice, options);
        let free = |target: &Target| busy.get(target).is_none_or(|until_ms| *until_ms < at_ms);
        if fault.targets().iter().all(free) {
            // A moment between two, so that each is felt by itself.
            busy.extend(fault.targets().into_iter().map(|target| (target, at_ms + fault.lasts_ms() + 300)));
            wishes.push(Wish { at_ms, fault });
        }
    }
}

fn draw(dice: &mut Dice, options: &Options) -> Fault {
    let (node, side) = (dice.index(NODES), dice.index(SIDES));
    let client = dice.index(options.clients);
    let quarantine_ms = options.quarantine_ms();
    // Most faults hit one node, some hit several at once.
    let several = dice.pick(&[1, 1, 1, 2, 3, 3]);
    let keeps = |node: usize| memory(Kind::Mixed, node);
    match dice.below(100) {
        0..12 => {
            let mut nodes = dice.some_of(NODES, several);
            nodes.retain(|node| keeps(*node) != Memory::Always);
            Fault::Restart { nodes, empty: true, tail_ms: None, down_ms: dice.between(5, 400) }
        }
        12..22 => {
            let node = dice.between(2, 4).try_into().unwrap_or(0);
            let loses = keeps(node) == Memory::EverySecond && dice.chance(50);
            let tail_ms = loses.then(|| dice.between(20, 1_500));
            Fault::Restart { nodes: vec![node], empty: false, tail_ms, down_ms: dice.between(5, 400) }
        }
        22..30 => Fault::Flush { nodes: dice.some_of(NODES, several) },
        30..39 => Fault::StopNode { node, for_ms: dice.between(50, 2_000) },
        39..47 => {
            // Kept for longer than any lock that vanished would have lived.
            let by_ms = step_ms(dice, options);
            let for_ms = dice.between(quarantine_ms * 3 / 2, quarantine_ms * 3);
            let nodes = dice.some_of(NODES, several);
            Fault::Step { nodes, by_ms: by_ms.cast_signed(), for_ms }
        }
        47..53 => {
            let by_ms = step_ms(dice, options);
            Fault::Step {
                nodes: vec![node],
                by_ms: -by_ms.cast_signed(),
                for_ms: dice.between(500, quarantine_ms * 2),
            }
        }
        53..57 => Fault::Slew { node, for_ms: SLEW_MS },
        57..72 => {
            let direction = dice.pick(&[Direction::Requests, Direction::Replies]);
            let delay = std::time::Duration::from_millis(dice.between(5, 400));
            let mode = dice.pick(&[Mode::Delay(delay), Mode::Stall, Mode::Swallow]);
            Fault::Link { node, side, direction, mode, for_ms: dice.between(100, 2_500) }
        }
        72..78 => Fault::Break { node, side, for_ms: dice.between(0, 500) },
        78..84 => {
            let flush = dice.chance(50);
            let count = if flush { dice.pick(&[3, 3, 4]) } else { dice.pick(&[2, 3, 4]) };
            let nodes = dice.some_of(NODES, count);
            Fault::Partition { nodes, side, flush, for_ms: dice.between(300, 2_500) }
        }
        84..93 => Fault::StopClient { client, for_ms: dice.between(100, 3_000) },
        _ => Fault::KillClient { client, down_ms: dice.between(5, 500) },
    }
}

/// Too much to be hidden by any round trip, or not much more than what a client must see.
fn step_ms(dice: &mut Dice, options: &Options) -> u64 {
    let large = (2 * options.quarantine_ms() + 1_000, options.forward_max_ms());
    let (least, most) = dice.pick(&[large, large, (60, 300), (60, 3_000)]);
    dice.between(least, most)
}

impl Fault {
    fn targets(&self) -> Vec<Target> {
        match self {
            Self::Restart { nodes, .. } | Self::Flush { nodes } => {
                nodes.iter().map(|node| Target::Process(*node)).collect()
            }
            Self::StopNode { node, .. } => vec![Target::Process(*node)],
            Self::Step { nodes, .. } => nodes.iter().map(|node| Target::Clock(*node)).collect(),
            Self::Slew { node, .. } => vec![Target::Clock(*node)],
            Self::Link { node, side, .. } | Self::Break { node, side, .. } => {
                vec![Target::Link(*node, *side)]
            }
            Self::Partition { nodes, side, flush, .. } => {
                let links = nodes.iter().map(|node| Target::Link(*node, *side));
                links.chain(nodes.iter().filter(|_| *flush).map(|node| Target::Process(*node))).collect()
            }
            Self::StopClient { client, .. } | Self::KillClient { client, .. } => {
                vec![Target::Client(*client)]
            }
        }
    }

    /// The servers whose processes it is about.
    pub(super) fn processes(&self) -> &[usize] {
        match self {
            Self::Restart { nodes, .. }
            | Self::Flush { nodes }
            | Self::Partition { nodes, flush: true, .. } => nodes,
            Self::StopNode { node, .. } => std::slice::from_ref(node),
            _ => &[],
        }
    }

    /// How long it goes on, as planned.
    pub(super) fn lasts_ms(&self) -> u64 {
        match self {
            Self::Flush { .. } => 0,
            Self::Restart { down_ms, .. } | Self::KillClient { down_ms, .. } => *down_ms,
            Self::StopNode { for_ms, .. }
            | Self::Step { for_ms, .. }
            | Self::Slew { for_ms, .. }
            | Self::Link { for_ms, .. }
            | Self::Break { for_ms, .. }
            | Self::Partition { for_ms, .. }
            | Self::StopClient { for_ms, .. } => *for_ms,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn options(seed: u64) -> Options {
        Options { seed, duration: Duration::from_secs(600), ..Options::default() }
    }

    #[test]
    fn one_seed_is_one_plan() {
        assert_eq!(plan(&options(7)), plan(&options(7)));
        assert_ne!(plan(&options(7)), plan(&options(8)));
    }

    #[test]
    fn ten_minutes_have_some_of_everything_and_no_two_at_one_target() {
        let wishes = plan(&options(1));
        assert!(wishes.len() > 400, "{}", wishes.len());
        let mut free_at: BTreeMap<Target, u64> = BTreeMap::new();
        for wish in &wishes {
            for target in wish.fault.targets() {
                let before = free_at.insert(target, wish.at_ms + wish.fault.lasts_ms());
                assert!(before.is_none_or(|free_at_ms| free_at_ms <= wish.at_ms), "{wish:?}");
            }
        }
        let any = |found: fn(&Fault) -> bool| assert!(wishes.iter().any(|wish| found(&wish.fault)));
        any(|fault| matches!(fault, Fault::Restart { empty: true, nodes, .. } if nodes.len() == 3));
        any(|fault| matches!(fault, Fault::Restart { empty: false, nodes, .. } if nodes == &[4]));
        any(|fault| matches!(fault, Fault::Step { by_ms: ..0, .. }));
        any(|fault| matches!(fault, Fault::Step { by_ms: 0.., .. }));
        any(|fault| matches!(fault, Fault::Step { by_ms: 60..=300, .. }));
        any(|fault| matches!(fault, Fault::Step { by_ms: -3_000..=-60, .. }));
        any(|fault| matches!(fault, Fault::Restart { tail_ms: Some(_), .. }));
        any(|fault| matches!(fault, Fault::Link { mode: Mode::Stall, direction: Direction::Replies, .. }));
        any(|fault| {
            matches!(fault, Fault::Link { mode: Mode::Delay(_), direction: Direction::Requests, .. })
        });
        any(|fault| matches!(fault, Fault::KillClient { .. }));
        any(|fault| matches!(fault, Fault::Slew { .. }));
    }
}
