//! Who holds the lock, and whether two ever held it at once, by the one clock of this machine.
//!
//! A hold lasts from the grant until its holder is done or its lease expires, whichever is first.
//! Reports of different processes may arrive in the wrong order. So two holders count only once the
//! first has had time to report its release; if that turns out to have come first, the verdict is
//! withdrawn.
//!
//! The judge also is the resource behind the lock: everybody writes to it with their fence, at the
//! beginning and at the end, and it refuses a fence below the highest it has seen.

use super::contender::Said;

/// A report on the same machine takes no longer.
const REPORT_MAX_US: u64 = 400_000;

/// A hold that its holder has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hold {
    pub(crate) who: usize,
    pub(crate) fence: u64,
    pub(crate) at_us: u64,
    pub(crate) until_us: u64,
}

/// Two that held the lock at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overlap {
    pub(crate) first: Hold,
    pub(crate) second: Hold,
}

/// What a report means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finding {
    /// `over` held it before, and let its lease run out.
    Acquired {
        who: usize,
        fence: u64,
        over: Option<usize>,
    },
    /// It was done in time; its last write was refused all the same, if there were two holders.
    Released {
        who: usize,
        fence: u64,
        refused_by: Option<u64>,
    },
    /// It was done too late; its write was refused because of this fence, if one was seen.
    Late {
        who: usize,
        fence: u64,
        refused_by: Option<u64>,
    },
    Two(Overlap),
}

#[derive(Debug, Default)]
pub(crate) struct Judge {
    /// In the order of their grants.
    holds: Vec<Hold>,
    overlaps: Vec<Overlap>,
    /// The highest fence that the resource has seen.
    fence: u64,
    refused: u64,
}

impl Judge {
    pub(crate) fn hear(&mut self, who: usize, said: &Said) -> Option<Finding> {
        match *said {
            Said::Acquired { fence, at_us, until_us, .. } => {
                // Whoever let its lease run out is passed over, once.
                let is_over = |hold: &Hold| hold.who != who && hold.until_us <= at_us;
                let over = self.holds.iter().rfind(|hold| is_over(hold)).map(|hold| hold.who);
                self.holds.retain(|hold| !is_over(hold));
                self.holds.push(Hold { who, fence, at_us, until_us });
                let _ = self.write(fence);
                Some(Finding::Acquired { who, fence, over })
            }
            Said::Released { fence, at_us } => {
                self.end(fence, at_us);
                let refused_by = self.write(fence).err();
                Some(Finding::Released { who, fence, refused_by })
            }
            Said::Late { fence, at_us } => {
                self.end(fence, at_us);
                let refused_by = self.write(fence).err();
                Some(Finding::Late { who, fence, refused_by })
            }
            Said::Unavailable => None,
            Said::Ended => {
                self.holds.retain(|hold| hold.who != who);
                None
            }
        }
    }

    /// Two that hold it at once, if that is certain by now and was not said yet.
    pub(crate) fn overlap(&mut self, now_us: u64) -> Option<Finding> {
        for (place, second) in self.holds.iter().enumerate() {
            if now_us < second.at_us + REPORT_MAX_US {
                continue;
            }
            for first in &self.holds[..place] {
                let overlap = Overlap { first: *first, second: *second };
                if first.who != second.who
                    && first.until_us > second.at_us
                    && !self.overlaps.contains(&overlap)
                {
                    self.overlaps.push(overlap);
                    return Some(Finding::Two(overlap));
                }
            }
        }
        None
    }

    /// Who may count on the lock now.
    pub(crate) fn holders(&self, now_us: u64) -> impl Iterator<Item = &Hold> {
        self.holds.iter().filter(move |hold| hold.until_us > now_us)
    }

    pub(crate) fn overlaps(&self) -> &[Overlap] {
        &self.overlaps
    }

    /// How many writes the fence kept out.
    pub(crate) const fn refused(&self) -> u64 {
        self.refused
    }

    /// Other processes contend from now on; what was found stays found.
    pub(crate) fn forget_holds(&mut self) {
        self.holds.clear();
        self.fence = 0;
    }

    /// A hold is over; whoever came later did not meet it.
    fn end(&mut self, fence: u64, at_us: u64) {
        self.holds.retain(|hold| hold.fence != fence);
        self.overlaps.retain(|overlap| overlap.first.fence != fence || overlap.second.at_us < at_us);
    }

    /// Writes to the resource, or learns which fence keeps it out.
    fn write(&mut self, fence: u64) -> Result<(), u64> {
        if fence < self.fence {
            self.refused += 1;
            return Err(self.fence);
        }
        self.fence = fence;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn acquired(fence: u64, at_us: u64, until_us: u64) -> Said {
        Said::Acquired { fence, at_us, until_us, long: false }
    }

    #[test]
    fn two_leases_at_once_are_two_holders_and_the_fence_keeps_the_first_out() {
        let mut judge = Judge::default();
        judge.hear(0, &acquired(10, 0, 6_000_000));
        judge.hear(1, &acquired(20, 4_000_000, 10_000_000));
        assert_eq!(judge.overlap(4_100_000), None, "the first may have ended, and say so late");
        let Some(Finding::Two(two)) = judge.overlap(4_500_000) else { panic!("{judge:?}") };
        assert_eq!((two.first.fence, two.second.fence), (10, 20));
        assert_eq!(judge.overlap(4_600_000), None, "once is enough");
        assert_eq!(judge.holders(4_600_000).count(), 2);
        judge.hear(0, &Said::Released { fence: 10, at_us: 5_700_000 });
        assert_eq!((judge.overlaps().len(), judge.refused()), (1, 1));
    }

    #[test]
    fn a_release_that_is_reported_after_the_next_grant_is_no_overlap() {
        let mut judge = Judge::default();
        judge.hear(0, &acquired(10, 0, 6_000_000));
        judge.hear(1, &acquired(20, 1_600_000, 7_600_000));
        assert!(judge.overlap(2_100_000).is_some(), "nothing was said for half a second");
        judge.hear(0, &Said::Released { fence: 10, at_us: 1_500_000 });
        assert!(judge.overlaps().is_empty(), "{judge:?}");
    }

    #[test]
    fn a_holder_whose_lease_is_over_is_passed_over_and_its_late_write_refused() {
        let mut judge = Judge::default();
        judge.hear(0, &acquired(10, 0, 6_000_000));
        let next = judge.hear(1, &acquired(20, 6_600_000, 12_600_000));
        assert_eq!(next, Some(Finding::Acquired { who: 1, fence: 20, over: Some(0) }));
        assert_eq!(judge.overlap(9_000_000), None);
        let late = judge.hear(0, &Said::Late { fence: 10, at_us: 9_000_000 });
        assert_eq!(late, Some(Finding::Late { who: 0, fence: 10, refused_by: Some(20) }));
    }
}
