//! Changes of the node list whose messages are executed at once, as far as a test lets them.

use std::collections::BTreeMap;
use std::time::Duration;

use tenure_core::trust::change::{Input, Output, Progress, Refused};
use tenure_core::trust::{ChangeNode, NodeListChange};
use tenure_core::*;

use crate::support::fleets::{QUARANTINE, World, settings};

/// One run of a change, whose messages are executed at once.
pub(crate) struct Run {
    pub(crate) change: NodeListChange,
    pub(crate) nodes: Vec<usize>,
    /// By how much the clock of a node is ahead.
    pub(crate) ahead: BTreeMap<usize, Duration>,
    /// What it told last.
    pub(crate) progress: Option<Progress>,
    pub(crate) ended: Option<Result<(), Refused>>,
    /// It has begun to look for locks, which it removes.
    pub(crate) clears: bool,
}

fn place(list: &[usize], node: usize) -> Option<NodeIndex> {
    let position = list.iter().position(|listed| *listed == node)?;
    Quorum::of(list.len()).unwrap().indexes().nth(position)
}

impl Run {
    pub(crate) fn new(
        world: &World,
        old: &[usize],
        new: &[usize],
        gone: &[usize],
        abort: bool,
        seed: u64,
    ) -> Self {
        Self::with(world, (settings(old), old), (settings(new), new), gone, abort, seed)
    }

    pub(crate) fn with(
        world: &World,
        (from, old): (Settings, &[usize]),
        (to, new): (Settings, &[usize]),
        gone: &[usize],
        abort: bool,
        seed: u64,
    ) -> Self {
        let mut nodes = old.to_vec();
        nodes.extend(new.iter().filter(|node| !old.contains(node)));
        let parts = nodes.iter().map(|node| {
            let part = ChangeNode::new(place(old, *node), place(new, *node));
            if gone.contains(node) { part.gone() } else { part }
        });
        let mut change = NodeListChange::new(from, to, Prefix::default(), parts.collect(), seed);
        if abort {
            change = change.aborting();
        }
        for (index, node) in nodes.iter().enumerate().filter(|(_, node)| !gone.contains(node)) {
            change.handle(world.now, Input::Connected { node: index, facts: world.facts(*node) });
        }
        Self { change, nodes, ahead: BTreeMap::new(), progress: None, ended: None, clears: false }
    }

    /// Executes so many commands at most. Whether there was nothing more to do.
    pub(crate) fn serve(&mut self, world: &mut World, most: usize) -> bool {
        let mut done = 0;
        while self.ended.is_none() {
            if done == most {
                return false;
            }
            match self.change.poll_output() {
                None => return true,
                Some(Output::Send { node, command }) => {
                    done += 1;
                    self.clears |= matches!(command, Command::Clear { .. });
                    let index = self.nodes[node];
                    let ahead = self.ahead.get(&index).copied().unwrap_or_default();
                    let time = NodeTime::from_micros(
                        world.time().as_micros() + u64::try_from(ahead.as_micros()).unwrap(),
                    );
                    let reply = world.nodes[index].table.execute(time, &command);
                    self.change.handle(world.now, Input::Answer { node, answer: Ok(reply) });
                }
                Some(Output::Progress(progress)) => self.progress = Some(progress),
                Some(Output::Done) => self.ended = Some(Ok(())),
                Some(Output::Failed(refused)) => self.ended = Some(Err(refused)),
            }
        }
        true
    }

    /// Goes on for so long, or until it ends.
    pub(crate) fn pass(&mut self, world: &mut World, time: Duration) -> Option<Result<(), Refused>> {
        let end = world.now + time;
        assert!(self.serve(world, 2_000), "it never stops");
        while let Some(next) = self.change.poll_timeout().filter(|next| *next <= end && self.ended.is_none())
        {
            world.now = world.now.max(next);
            self.change.handle(world.now, Input::Timeout);
            assert!(self.serve(world, 2_000), "it never stops");
        }
        self.ended.clone()
    }
}

/// A change that is killed as soon as the nodes that are new are prepared.
pub(crate) fn prepare(world: &mut World, old: &[usize], new: &[usize], seed: u64) {
    let mut run = Run::new(world, old, new, &[], false, seed);
    let is_prepared = |world: &mut World| {
        let mut nodes = new.iter().filter(|node| !old.contains(node));
        nodes.all(|node| world.has_record(*node) && world.record(*node).contains(" phase=prepared:"))
    };
    while !is_prepared(world) {
        assert!(!run.serve(world, 1), "it prepares nothing");
    }
}

pub(crate) fn change(world: &mut World, old: &[usize], new: &[usize], gone: &[usize], seed: u64) {
    let mut run = Run::new(world, old, new, gone, false, seed);
    assert_eq!(run.pass(world, QUARANTINE * 3), Some(Ok(())));
}
