//! What a node keeps beside the locks of one prefix: the record of its memory, and the last fence of every lock.
//!
//! Both outlive the locks. The record tells clients which life of the node's memory this is; a remembered fence keeps a
//! smaller one from being granted after it. The lines and labels that are kept here, too, are the matter of `line.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::LockTable;
use super::line::{Label, Line};
use crate::command::{Answer, Swap};
use crate::fence::{Fence, FenceBounds, FenceClaim};
use crate::names::{LockKey, Prefix};
use crate::time::NodeTime;
use crate::trust::Nonce;

/// What a node keeps beside the locks of one prefix.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Kept {
    pub(super) record: Option<Arc<str>>,
    pub(super) fences: BTreeMap<LockKey, Remembered>,
    pub(super) fence_ends: BTreeSet<(u64, LockKey)>,
    /// Who waits for which lock.
    pub(super) lines: BTreeMap<LockKey, Line>,
    pub(super) labels: BTreeMap<LockKey, Label>,
    /// Locks that nobody in line is given, up to and including this millisecond.
    pub(super) open: BTreeMap<LockKey, u64>,
}

/// The last fence of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Remembered {
    pub(super) fence: Fence,
    /// The last millisecond at which it is remembered.
    pub(super) ends_ms: u64,
    /// Somebody may be in line: whoever is granted the lock is told so. Kept here because this is looked at anyway.
    pub(super) queued: bool,
}

impl LockTable {
    /// How many fences the node remembers under a prefix.
    #[must_use]
    pub fn fences(&self, prefix: &Prefix) -> usize {
        self.prefixes.get(prefix.as_str()).map_or(0, |kept| kept.fences.len())
    }

    pub(super) fn latest_fence(&self, prefix: &Prefix) -> Option<Fence> {
        let kept = self.prefixes.get(prefix.as_str())?;
        kept.fences.values().map(|remembered| remembered.fence).max()
    }

    /// The fence that a new one must exceed.
    pub(super) fn lowest(&self, now: NodeTime, key: &LockKey, bounds: FenceBounds) -> Option<Fence> {
        self.fence(key).max(Some(bounds.lowest(now)))
    }

    pub(super) fn fence(&self, key: &LockKey) -> Option<Fence> {
        self.prefixes.get(key.prefix())?.fences.get(key).map(|remembered| remembered.fence)
    }

    pub(super) fn put_fence(&mut self, key: &LockKey, FenceClaim { fence, ends_ms, .. }: FenceClaim) {
        let kept = self.prefixes.entry(key.prefix().into()).or_default();
        // The mark stays until somebody in line looks.
        let queued = kept.fences.get(key).is_some_and(|remembered| remembered.queued);
        if let Some(old) = kept.fences.insert(key.clone(), Remembered { fence, ends_ms, queued }) {
            kept.fence_ends.remove(&(old.ends_ms, key.clone()));
        }
        kept.fence_ends.insert((ends_ms, key.clone()));
    }

    pub(super) fn has_record(&self, prefix: &str, nonce: Nonce) -> bool {
        let record = self.prefixes.get(prefix).and_then(|kept| kept.record.as_deref());
        record.is_some_and(|record| nonce.begins(record))
    }

    pub(super) fn record(&mut self, now: NodeTime, prefix: &Prefix, swap: Option<&Swap>) -> Answer {
        let kept = self.prefixes.entry(prefix.as_str().into()).or_default();
        if let Some(Swap { expected, text, stamp }) = swap
            && kept.record == *expected
        {
            let stamped = || format!("{text}{}", now.as_micros()).into();
            kept.record = Some(if *stamp { stamped() } else { Arc::clone(text) });
        }
        Answer::Record(kept.record.clone())
    }
}
