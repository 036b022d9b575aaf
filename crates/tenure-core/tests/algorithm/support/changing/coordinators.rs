//! Those who change the list, and what they may do wrong.

use std::collections::BTreeMap;

use tenure_core::trust::{ChangeNode, NodeListChange, change};
use tenure_core::*;

use super::messages::{Link, To};
use super::{World, place};

/// Coordinators at the same time, where lists wander.
const AT_ONCE: usize = 2;

/// What is wrong on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mistake {
    None,
    /// The new list is opened without waiting for the locks of the old one.
    NoWait,
    /// The locks of the old list are left where they are, so that they can be extended.
    NoClear,
    /// A node of the old list is left out, as if it were switched off.
    OneLeftOut,
}

pub(super) struct Coordinator {
    from: Vec<usize>,
    to: Vec<usize>,
    abort: bool,
    change: NodeListChange,
    nodes: Vec<usize>,
    pub(super) links: BTreeMap<usize, Link>,
    /// It stands still: nothing is sent or heard.
    pub(super) paused: bool,
}

impl World {
    pub(super) fn may_start(&self) -> bool {
        let (running, done) = (self.coordinators.len(), self.seen.done);
        if self.wanders { running < AT_ONCE } else { running == 0 && done < 2 }
    }

    pub(super) fn start_coordinator(&mut self) {
        let (mut from, mut to) = (self.old.clone(), self.new.clone());
        let mut abort = false;
        if self.wanders {
            if !self.calm {
                self.stray(&mut from, &mut to);
            }
            abort = self.below(4) == 0;
        }
        // A node that is switched off is said to be gone; the new list needs all of its own.
        let off = self.off;
        if from == to || off.is_some_and(|off| to.contains(&off)) {
            return;
        }
        let mut nodes = from.clone();
        nodes.extend(to.iter().filter(|node| !from.contains(node)));
        let left_out = nodes.iter().copied().find(|node| !to.contains(node));
        let parts = nodes.iter().map(|node| {
            let part = ChangeNode::new(place(&from, *node), place(&to, *node));
            let gone = self.mistake == Mistake::OneLeftOut && Some(*node) == left_out || Some(*node) == off;
            if gone { part.gone() } else { part }
        });
        let (parts, seed) = (parts.collect(), self.next());
        let (old, new) = (Self::settings(&from), Self::settings(&to));
        let mut change = NodeListChange::new(old, new, Prefix::default(), parts, seed);
        if abort {
            change = change.aborting();
        }
        self.note(&format!("the change from {from:?} to {to:?} is run, abort: {abort}"));
        let links = nodes.iter().map(|node| (*node, Link::default())).collect();
        for (index, node) in nodes.iter().enumerate().filter(|(_, node)| Some(**node) != off) {
            let facts = self.facts(*node);
            change.handle(self.now, change::Input::Connected { node: index, facts });
        }
        self.coordinators.push(Coordinator { from, to, abort, change, nodes, links, paused: false });
        self.drain_change();
    }

    /// Somebody wants another list than the others do, or runs an old command again.
    fn stray(&mut self, from: &mut Vec<usize>, to: &mut Vec<usize>) {
        if self.below(5) == 0 {
            let which = self.below(self.lists.len());
            to.clone_from(&self.lists[which]);
            self.new = if *to == self.old { self.new.clone() } else { to.clone() };
        }
        if self.below(12) == 0 {
            let which = self.below(self.used.len());
            from.clone_from(&self.used[which]);
        }
    }

    pub(super) fn kill_coordinator(&mut self) {
        self.note("a change is killed");
        let which = if self.wanders { self.below(self.coordinators.len()) } else { 0 };
        self.coordinators.remove(which);
        self.seen.resumed += 1;
    }

    /// One of them stands still, or goes on.
    pub(super) fn pause_coordinator(&mut self) {
        let which = self.below(self.coordinators.len());
        let paused = &mut self.coordinators[which].paused;
        *paused = !*paused;
        let news = format!("change {which} stands still: {paused}");
        self.note(&news);
    }

    pub(super) fn disconnect_coordinators(&mut self, node: usize) {
        for Coordinator { change, nodes, links, .. } in &mut self.coordinators {
            if let Some(index) = nodes.iter().position(|listed| *listed == node) {
                links.insert(node, Link::default());
                change.handle(self.now, change::Input::Disconnected { node: index });
            }
        }
    }

    pub(super) fn connect_coordinators(&mut self, node: usize) {
        let facts = self.facts(node);
        for Coordinator { change, nodes, .. } in &mut self.coordinators {
            if let Some(index) = nodes.iter().position(|listed| *listed == node) {
                change.handle(self.now, change::Input::Connected { node: index, facts: facts.clone() });
            }
        }
        self.drain_change();
    }

    pub(super) fn answer_coordinator(&mut self, run: usize, node: usize, reply: Reply) {
        let reply = self.mistake.bend(reply);
        let Coordinator { change, nodes, .. } = &mut self.coordinators[run];
        let index = nodes.iter().position(|listed| *listed == node).unwrap();
        change.handle(self.now, change::Input::Answer { node: index, answer: Ok(reply) });
        self.drain_change();
    }

    pub(super) fn fire_coordinators(&mut self) {
        for Coordinator { change, .. } in self.coordinators.iter_mut().filter(|run| !run.paused) {
            if change.poll_timeout().is_some_and(|at| at <= self.now) {
                change.handle(self.now, change::Input::Timeout);
            }
        }
        self.drain_change();
    }

    fn drain_change(&mut self) {
        let (mut run, off) = (0, self.off);
        while run < self.coordinators.len() {
            let Coordinator { to, change, nodes, links, .. } = &mut self.coordinators[run];
            match change.poll_output() {
                None => run += 1,
                Some(change::Output::Send { node, command }) => {
                    let link = links.get_mut(&nodes[node]).unwrap();
                    if Some(nodes[node]) == off {
                        continue;
                    }
                    if self.mistake == Mistake::NoClear && matches!(command, Command::Clear { .. }) {
                        let reply = Reply::new(None, Holdings::default().into());
                        link.replies.push_back((To::Coordinator, reply));
                    } else {
                        link.requests.push_back((To::Coordinator, command));
                    }
                }
                Some(change::Output::Progress(progress)) => self.story.push(format!("  {to:?} {progress:?}")),
                Some(change::Output::Done) => {
                    let run = self.coordinators.remove(run);
                    self.handle_done(run);
                }
                Some(change::Output::Failed(refused)) => {
                    let run = self.coordinators.remove(run);
                    self.handle_failed(&run, &refused);
                }
            }
        }
    }

    fn handle_done(&mut self, Coordinator { from, to, abort, .. }: Coordinator) {
        self.story.push(format!("  the change from {from:?} to {to:?} is done, abort: {abort}"));
        self.seen.done += usize::from(!abort);
        if self.wanders && !abort && from == self.old {
            self.used.push(to.clone());
            self.old = to;
            let others: Vec<Vec<usize>> =
                self.lists.iter().filter(|list| **list != self.old).cloned().collect();
            let other = self.below(others.len());
            self.new.clone_from(&others[other]);
        }
    }

    /// Does what the message says, when nobody else interferes.
    fn handle_failed(&mut self, Coordinator { to, nodes, .. }: &Coordinator, refused: &change::Refused) {
        match refused {
            change::Refused::Foreign { node } | change::Refused::InUse { node } if self.calm => {
                self.forget(nodes[*node]);
            }
            // Who is told of another change finishes that, or gives it up.
            change::Refused::Other { to: list } if self.calm => {
                let numbers = list.split(',').filter_map(|name| name.trim_start_matches('n').parse().ok());
                let list: Vec<usize> = numbers.collect();
                // This change was made long ago: it is the new list that is being left.
                if to.iter().any(|node| self.leaves(*node, to, &list)) {
                    self.old.clone_from(to);
                }
                if list != self.old {
                    self.new = list;
                }
            }
            _ => {}
        }
        self.story.push(format!("  the change to {to:?} fails: {refused:?}"));
    }

    /// Whether a node says that its list is being left for another one.
    fn leaves(&mut self, node: usize, list: &[usize], next: &[usize]) -> bool {
        let words = |list: &[usize]| Self::settings(list).roster().list().to_string();
        let (ours, left) = (format!(" nodes={} ", words(list)), format!("closed:{} ", words(next)));
        matches!(self.record(node), Answer::Record(Some(text)) if text.contains(&ours) && text.contains(&left))
    }

    fn forget(&mut self, node: usize) {
        if let Answer::Record(Some(text)) = self.record(node) {
            let (time, prefix) = (self.time(), Prefix::default());
            let swap = change::vacate(&text, self.random);
            self.nodes[node].table.execute(time, &Command::Record { prefix, swap });
        }
        self.story.push(format!("  node {node} is forgotten"));
    }
}

impl Mistake {
    /// What a coordinator that makes this mistake takes an answer for.
    fn bend(self, mut reply: Reply) -> Reply {
        if let (Self::NoWait, Answer::Record(Some(text))) = (self, &reply.answer)
            && text.contains(" closed=")
        {
            // As if it had been closed a long time ago.
            let long = 60_000_000;
            reply.time = reply.time.map(|time| NodeTime::from_micros(time.as_micros() + long));
        }
        reply
    }
}
