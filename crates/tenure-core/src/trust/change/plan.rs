//! What is to be done next, from what the records of all nodes say.

use std::sync::Arc;
use std::time::Duration;

use super::seen::Seen;
use super::{ChangeNode, NodeListChange, Progress, Refused};
use crate::time::Time;
use crate::trust::Nonce;
use crate::trust::record::{Phase, Record, State};

pub(super) enum Step {
    /// Change these records.
    Swap(Vec<(usize, Record)>),
    /// Read all records once more.
    Confirm,
    /// Remove the locks of these nodes, in these lives.
    Clear(Vec<(usize, Nonce)>),
    /// For so long, for this reason.
    Wait(Duration, Progress),
    Done,
}

impl NodeListChange {
    /// What is to be done, from what the records say.
    pub(super) fn next(&mut self, now: Time, seen: &[Seen]) -> Result<Step, Refused> {
        let epoch = seen.iter().filter_map(Seen::epoch).max().unwrap_or(0);
        let was_closed = |record: &Record| matches!(record.phase, Phase::Closed(_) | Phase::Reclosing(_));
        let closed = seen
            .iter()
            .any(|seen| matches!(seen, Seen::Closing(record) | Seen::Closed(record) if was_closed(record)));
        let opened = seen.iter().any(|seen| matches!(seen, Seen::Opened(_)));
        // Whoever has prepared the new nodes knew the list.
        let known = opened || seen.iter().any(|seen| matches!(seen, Seen::Prepared(_)));
        if let Some(nodes) = self.unused(seen).filter(|_| !known) {
            return Err(Refused::Unused { nodes });
        }
        for (node, seen) in seen.iter().enumerate() {
            match seen {
                Seen::Foreign if self.abort && self.nodes[node].old.is_none() => {}
                Seen::Foreign => return Err(Refused::Foreign { node }),
                // What was begun is taken back all the same: else two changes could be in each
                // other's way for ever.
                Seen::Elsewhere { to, .. } if !self.abort => {
                    return Err(Refused::Other { to: Arc::clone(to) });
                }
                _ => {}
            }
        }
        if self.abort {
            return self.take_back(seen, closed || opened);
        }
        let epoch = epoch.max(1);
        if opened {
            return Ok(self.finish(seen, epoch));
        }
        let mut swaps = vec![];
        for (node, seen) in seen.iter().enumerate() {
            match seen {
                _ if self.nodes[node].old.is_some() => {}
                Seen::InUse => return Err(Refused::InUse { node }),
                Seen::Prepared(_) => {}
                // Its last fleet may still have locks there.
                Seen::Vacant(vacant) => {
                    let prepared = self.prepared(node, epoch);
                    let wait = prepared.wait.max(vacant.wait);
                    swaps.push((node, Record { returned: true, wait, floor: vacant.floor, ..prepared }));
                }
                _ => swaps.push((node, self.prepared(node, epoch))),
            }
        }
        if !swaps.is_empty() {
            return Ok(Step::Swap(swaps));
        }
        self.tell(Progress::Prepared);
        for (node, seen) in seen.iter().enumerate() {
            let phase = Phase::Closing(Arc::clone(self.to.roster().list()));
            match seen {
                _ if self.nodes[node].old.is_none() => {}
                Seen::Gone | Seen::Closing(_) | Seen::Closed(_) => {}
                Seen::Ours(record) => {
                    swaps.push((node, record.renamed(self.draw_nonce(), phase)));
                }
                // It was emptied: what it had is not known, so its locks are waited out.
                _ => swaps.push((node, Record { phase, returned: true, ..self.record(node, false) })),
            }
        }
        if !swaps.is_empty() {
            return Ok(Step::Swap(swaps));
        }
        let is_closing = |(node, seen): (usize, &Seen)| matches!(seen, Seen::Closing(_)).then_some(node);
        let closing: Vec<usize> = seen.iter().enumerate().filter_map(is_closing).collect();
        if !closing.is_empty() {
            self.tell(Progress::Closed);
            let text = |node: &ChangeNode| node.read.as_ref().and_then(|read| read.text.clone());
            if !closed && self.nodes.iter().any(|node| node.before != text(node)) {
                return Ok(Step::Confirm);
            }
            // From here on there is no way back, and whoever would give the change up has to see
            // that before a lock is gone.
            for node in &closing {
                if let Seen::Closing(record) = &seen[*node]
                    && let Phase::Closing(to) = &record.phase
                {
                    let phase = Phase::Reclosing(Arc::clone(to));
                    swaps.push((*node, Record { phase, ..record.clone() }));
                }
            }
            if !swaps.is_empty() {
                return Ok(Step::Swap(swaps));
            }
            let to_clear = closing.iter().filter_map(|node| {
                let Seen::Closing(Record { nonce, .. }) = seen[*node] else { return None };
                let clearing = self.nodes[*node].clearing.as_ref();
                let cleared = clearing.is_some_and(|clearing| clearing.done && clearing.nonce == nonce);
                (!cleared).then_some((*node, nonce))
            });
            let to_clear: Vec<(usize, Nonce)> = to_clear.collect();
            if !to_clear.is_empty() {
                return Ok(Step::Clear(to_clear));
            }
            for node in closing {
                let Seen::Closing(record) = &seen[node] else { continue };
                swaps.push((node, self.closed(record)));
            }
            return Ok(Step::Swap(swaps));
        }
        let (locks, fences) = (self.locks_left(now, seen), self.fences_left(seen));
        if fences > locks {
            return Ok(Step::Wait(fences, Progress::Clocks { left: fences }));
        }
        if !locks.is_zero() {
            return Ok(Step::Wait(locks, Progress::Waiting { left: locks }));
        }
        let floor = self.floor(seen);
        let ready = |seen: &Seen| match seen {
            Seen::Prepared(record) | Seen::Closed(record) => Some(record.nonce),
            _ => None,
        };
        let of_new = seen.iter().zip(&self.nodes).filter(|(_, node)| node.new.is_some());
        let nonces: Vec<Nonce> = of_new.filter_map(|(seen, _)| ready(seen)).collect();
        for (node, seen) in seen.iter().enumerate() {
            if let (Some(place), Seen::Prepared(record) | Seen::Closed(record)) = (self.nodes[node].new, seen)
            {
                swaps.push((node, self.opened(place, record, epoch, floor, &nonces)));
            }
        }
        Ok(Step::Swap(swaps))
    }

    /// The nodes of the old list that say nothing of it, if they are a majority: then it is not the
    /// one in use.
    fn unused(&self, seen: &[Seen]) -> Option<Vec<usize>> {
        let is_unused = |(node, seen): (usize, &Seen)| {
            let unused = matches!(seen, Seen::Empty | Seen::Vacant(_) | Seen::InUse);
            (unused && self.nodes[node].old.is_some()).then_some(node)
        };
        let unused: Vec<usize> = seen.iter().enumerate().filter_map(is_unused).collect();
        (unused.len() >= self.quorum.majority()).then_some(unused)
    }

    /// Opens the rest of the new list. A node that was there, ready, when the first one was opened
    /// has forgotten nothing since then; any other is a new life like every other of the new list.
    pub(super) fn finish(&mut self, seen: &[Seen], epoch: u64) -> Step {
        let floor = self.floor(seen);
        let nonces = seen.iter().find_map(|seen| match seen {
            Seen::Opened(Record { state: State::Fresh(nonces), .. }) => Some(nonces.clone()),
            _ => None,
        });
        let nonces = nonces.unwrap_or_default();
        let mut swaps = vec![];
        for (node, seen) in seen.iter().enumerate() {
            let Some(place) = self.nodes[node].new else { continue };
            match seen {
                Seen::Prepared(record) | Seen::Closed(record) if nonces.contains(&record.nonce) => {
                    swaps.push((node, self.opened(place, record, epoch, floor, &nonces)));
                }
                Seen::Ours(_) | Seen::Closing(_) | Seen::Prepared(_) | Seen::Closed(_) => {
                    let new = self.record(node, true);
                    swaps.push((node, Record { returned: true, epoch, opened: true, floor, ..new }));
                }
                Seen::Opened(_) | Seen::InUse | Seen::Empty | Seen::Gone => {}
                Seen::Vacant(_) | Seen::Foreign | Seen::Elsewhere { .. } | Seen::Retired { .. } => {}
            }
        }
        if swaps.is_empty() { Step::Done } else { Step::Swap(swaps) }
    }

    pub(super) fn take_back(&mut self, seen: &[Seen], late: bool) -> Result<Step, Refused> {
        if late {
            return Err(Refused::TooLate);
        }
        let mut swaps = vec![];
        for (node, seen) in seen.iter().enumerate() {
            match seen {
                Seen::Closing(record) => {
                    swaps.push((node, record.renamed(self.draw_nonce(), Phase::Open)));
                }
                Seen::Prepared(record) => {
                    let nonce = self.draw_nonce();
                    let vacant = Record::vacant(&record.to_text(), nonce);
                    // Clients have been given the new list: they are to leave the node alone until
                    // it is open.
                    swaps.push((node, Record { terms: Arc::clone(&record.terms), ..vacant }));
                }
                _ => {}
            }
        }
        Ok(if swaps.is_empty() { Step::Done } else { Step::Swap(swaps) })
    }
}
