//! What an attempt is to propose: whom to ask, with which fence, and from which place in line.

use std::sync::Arc;

use super::{Distrust, Fleet, Nonce};
use crate::command::Fault;
use crate::fence::{Fence, ProposedFence};
use crate::line::Ticket;
use crate::round::Quorum;
use crate::time::{NodeTime, Time};

/// What an attempt is to propose, and to whom.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Proposal {
    /// A place in line, if one was asked for.
    pub ticket: Option<Ticket>,
    /// The fence, if the lock has one.
    pub fence: Option<ProposedFence>,
    /// For each node the life it may vote in, `None` to ask in any; or why it is not asked.
    pub nodes: Voters,
}

pub(super) type Voters = Arc<[Result<Option<Nonce>, Fault>]>;

impl Proposal {
    /// A proposal to all nodes without fence or record: what any other Redlock client does.
    #[must_use]
    pub fn plain(quorum: Quorum) -> Self {
        Self { ticket: None, fence: None, nodes: vec![Ok(None); quorum.nodes()].into() }
    }
}

impl Fleet {
    /// What to propose in an attempt that begins now.
    pub fn propose(&mut self, now: Time, fenced: bool) -> Proposal {
        self.propose_range(now, fenced, 0)
    }

    /// The same, with up to `span` fences above the one for the attempt itself.
    pub fn propose_range(&mut self, now: Time, fenced: bool, span: u32) -> Proposal {
        let fence = match self.nodes_time(now) {
            Some(time) if fenced => {
                let bounds = self.settings.bounds;
                let (low, span) = self.fences.propose_range(time, bounds, span);
                Some(ProposedFence::range(low, span, bounds))
            }
            None if fenced => {
                let unknown = self.quorum.indexes().map(|node| {
                    let distrust = self.trust(now, node).err().unwrap_or(Distrust::Unknown);
                    Err(self.fault(node, distrust))
                });
                return Proposal { ticket: None, fence: None, nodes: unknown.collect() };
            }
            _ => None,
        };
        if fence.is_some() {
            self.plan_trims(now);
        }
        if let Some((floor, nodes)) = &self.all_trusted
            && fence.is_none_or(|proposed| proposed.fence > *floor)
        {
            return Proposal { ticket: None, fence, nodes: Arc::clone(nodes) };
        }
        let nodes: Voters = self.quorum.indexes().map(|node| self.voter(now, node, fence)).collect();
        if nodes.iter().all(Result::is_ok) {
            let floors = self.quorum.indexes().map(|node| self.floor(node));
            self.all_trusted = Some((floors.max().unwrap_or(Fence::NONE), Arc::clone(&nodes)));
        }
        Proposal { ticket: None, fence, nodes }
    }

    /// What to propose in an attempt that joins the holds of its owner, which have this fence.
    pub fn propose_joining(&mut self, now: Time, fence: Fence) -> Proposal {
        let fence = Some(ProposedFence::new(fence, self.settings.bounds));
        let nodes = self.quorum.indexes().map(|node| self.voter(now, node, fence)).collect();
        Proposal { ticket: None, fence, nodes }
    }

    /// A new place in line, behind all that nodes have shown.
    pub fn draw_ticket(&mut self, now: Time) -> Ticket {
        let time = self.nodes_time(now).unwrap_or(NodeTime::from_micros(0));
        Ticket::exclusive(self.fences.draw(time), self.client)
    }

    fn plan_trims(&mut self, now: Time) {
        let pause = self.trim_pause();
        for node in self.quorum.indexes() {
            let member = &self.members[node.get()];
            if member.record.is_some() && member.trim_at.is_none() {
                self.members[node.get()].trim_at = Some(now + pause);
            }
        }
    }
}
