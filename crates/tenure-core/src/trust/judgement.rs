//! Judging the nodes: who may vote, for which fence, and what time it is to them.

use std::sync::Arc;
use std::time::Duration;

use super::record::{Phase, State};
use super::{APART, Distrust, Fleet, Known, Member, Nonce, Output, RestartGuard};
use crate::command::Fault;
use crate::fence::{Fence, ProposedFence};
use crate::round::{NODES_MAX, NodeIndex};
use crate::time::{NodeTime, Time};

impl Fleet {
    /// Whether the node may vote at `now`, in which life, and if not, why.
    pub(super) fn trust(&self, now: Time, node: NodeIndex) -> Result<Nonce, Distrust> {
        let member = &self.members[node.get()];
        if let Some(objection) = &member.objection {
            return Err(objection.clone());
        }
        let Some(known) = &member.record else { return Err(Distrust::Unknown) };
        match &known.record.phase {
            Phase::Open => {}
            Phase::Closing(to) | Phase::Closed(to) | Phase::Reclosing(to) => {
                return Err(Distrust::Changing { to: Arc::clone(to) });
            }
            Phase::Prepared(_) | Phase::Vacant | Phase::Disputed => return Err(Distrust::Prepared),
        }
        if !self.is_kept(node, known.record.nonce) {
            return Err(Distrust::Unknown);
        }
        let intact = member.facts.as_ref().is_some_and(|facts| facts.intact);
        let off = self.settings.restart_guard == RestartGuard::Off;
        // Also one that has forgotten nothing: it knows nothing of the locks that the other fleet
        // has on its other nodes.
        if known.record.state == State::New && self.is_barred() {
            return Err(Distrust::Barred);
        }
        if known.record.state == State::New && now < known.trusted_from && !intact && !off {
            return Err(Distrust::Quarantined { left: known.trusted_from.since(now) });
        }
        if let Some((by_us, until)) = member.jumped.filter(|(_, until)| now < *until && !off) {
            return Err(Distrust::ClockJumped { by_us, left: until.since(now) });
        }
        match self.apart(now, member) {
            Some((by_us, left)) if !off => Err(Distrust::ClockApart { by_us, left }),
            _ => Ok(known.record.nonce),
        }
    }

    /// Whether the node may vote for this fence.
    pub(super) fn voter(
        &self,
        now: Time,
        node: NodeIndex,
        fence: Option<ProposedFence>,
    ) -> Result<Option<Nonce>, Fault> {
        let nonce = self.trust(now, node).map_err(|distrust| self.fault(node, distrust))?;
        match fence {
            Some(proposed) if proposed.fence <= self.floor(node) => {
                Err(Fault::Untrusted(match self.record_ahead(now, node) {
                    Some(left) => Distrust::ClockSetBack { left },
                    None => Distrust::FencesAhead,
                }))
            }
            _ => Ok(Some(nonce)),
        }
    }

    /// What to say of a node that may not vote: what is wrong with the connection, if that is why.
    pub(super) fn fault(&self, node: NodeIndex, distrust: Distrust) -> Fault {
        match &self.members[node.get()].fault {
            Some(fault) if distrust == Distrust::Unknown => fault.clone(),
            _ => Fault::Untrusted(distrust),
        }
    }

    /// The highest fence that the node may have granted in an earlier life of its memory.
    pub(super) fn floor(&self, node: NodeIndex) -> Fence {
        let member = &self.members[node.get()];
        let intact = member.facts.as_ref().is_some_and(|facts| facts.intact);
        let Some(Known { record, .. }) = &member.record else { return Fence::NONE };
        let before = match (&record.state, record.created) {
            (State::Fresh(_), Some(created)) if !intact => Fence::new(created.as_micros()),
            (State::New | State::Waited, Some(created)) if !intact => {
                self.settings.floor(created, record.wait)
            }
            _ => Fence::NONE,
        };
        before.max(record.floor)
    }

    /// How far fences of the node are ahead of the present, if its clock was set back: those of
    /// every name, because its record is from the future, or one that it has shown.
    pub(super) fn fences_ahead(&self, now: Time, node: NodeIndex) -> Option<Duration> {
        let shown = self.members[node.get()].shown_ahead;
        self.record_ahead(now, node).max(shown.and_then(|fence| self.ahead(now, fence)))
    }

    fn record_ahead(&self, now: Time, node: NodeIndex) -> Option<Duration> {
        let created = self.members[node.get()].record.as_ref()?.record.created?;
        // A life that has just begun has its fences ahead of it, too; that passes by itself.
        self.ahead(now, Fence::new(created.as_micros()))?;
        self.ahead(now, self.floor(node))
    }

    /// How long it takes the clock of the nodes to reach this fence, if that is further than it may
    /// be ahead.
    fn ahead(&self, now: Time, fence: Fence) -> Option<Duration> {
        let time = self.nodes_time(now)?;
        let left = Duration::from_micros(fence.get().saturating_sub(time.as_micros()));
        (fence > self.settings.bounds.highest(time)).then_some(left)
    }

    /// By how much a node's clock is away from a majority that agree, if it is and we have not
    /// watched it for long enough to know that it did not jump just now.
    pub(super) fn apart(&self, now: Time, member: &Member) -> Option<(i64, Duration)> {
        let watched_until = member.first_seen? + self.settings.quarantine();
        let offset = member.watch.offset_us().filter(|_| now < watched_until)?;
        let apart = i64::try_from(APART.as_micros()).unwrap_or(i64::MAX);
        let offsets = self.offsets_us();
        let agreeing =
            |from: &i64| offsets.iter().filter(|other| (*from..=*from + apart).contains(other)).count();
        let from = offsets.iter().copied().max_by_key(agreeing)?;
        let count = agreeing(&from);
        let middle = offsets.iter().filter(|other| **other >= from).nth(count.saturating_sub(1) / 2)?;
        let by_us = offset - middle;
        // When within the round trip the clock was read is not known.
        let unknown = i64::try_from(member.round_trip.as_micros()).unwrap_or(i64::MAX);
        (count >= self.quorum.majority() && by_us.abs() > apart.saturating_add(unknown))
            .then(|| (by_us, watched_until.since(now)))
    }

    /// The clock of the nodes, by the middle one.
    pub(super) fn nodes_time(&self, now: Time) -> Option<NodeTime> {
        let now_us = i64::try_from(now.as_nanos() / 1_000).ok()?;
        let micros = self.middle_offset_us()?.saturating_add(now_us);
        Some(NodeTime::from_micros(u64::try_from(micros).ok()?))
    }

    /// How long ago it was so late by the clock of the nodes, as well as we know it.
    pub(crate) fn time_since(&self, now: Time, then: NodeTime) -> Option<Duration> {
        let time = self.nodes_time(now)?;
        Some(Duration::from_micros(time.as_micros().saturating_sub(then.as_micros())))
    }

    /// How long ago the clocks of a majority of nodes all showed less than this, at least: whatever
    /// the clocks of other nodes show, and however long an answer took. `None` if less than a
    /// majority has answered.
    pub(crate) fn least_time_since(&self, now: Time, then: NodeTime) -> Option<Duration> {
        let shown = self.members.iter().filter_map(|member| member.watch.shows_at_least(now));
        let (least, count) = shown.fold((i64::MAX, 0), |(least, count), shown| (least.min(shown), count + 1));
        let since = u64::try_from(least).unwrap_or(0).saturating_sub(then.as_micros());
        (count >= self.quorum.majority()).then_some(Duration::from_micros(since))
    }

    pub(super) fn middle_offset_us(&self) -> Option<i64> {
        let (mut offsets, mut count) = ([0; NODES_MAX], 0);
        for member in
            self.members.iter().filter(|member| member.record.is_some() && member.objection.is_none())
        {
            if let Some(offset_us) = member.watch.offset_us() {
                offsets[count] = offset_us;
                count += 1;
            }
        }
        offsets[..count].sort_unstable();
        offsets[..count].get(count.checked_sub(1)? / 2).copied()
    }

    pub(super) fn offsets_us(&self) -> Vec<i64> {
        let known =
            self.members.iter().filter(|member| member.record.is_some() && member.objection.is_none());
        let mut offsets: Vec<i64> = known.filter_map(|member| member.watch.offset_us()).collect();
        offsets.sort_unstable();
        offsets
    }

    pub(super) fn tell(&mut self, now: Time, node: NodeIndex) {
        let distrust = self.trust(now, node).err().filter(|_| self.members[node.get()].facts.is_some());
        let news = match (&self.members[node.get()].told, &distrust) {
            // Not known is the ordinary beginning, and passes.
            (_, Some(Distrust::Unknown)) | (None, None) => false,
            (Some(before), Some(after)) => std::mem::discriminant(before) != std::mem::discriminant(after),
            (Some(_), None) => self.members[node.get()].facts.is_some(),
            (None, Some(_)) => true,
        };
        if news {
            self.members[node.get()].told = distrust.clone();
            self.outputs.push_back(Output::Notice { node, distrust });
        }
    }
}
