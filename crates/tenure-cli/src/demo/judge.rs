//! Who holds the lock, and whether two ever held it at once, by the one clock of this machine.
//!
//! A hold lasts from the grant until its holder is done or its lease expires, whichever is first.
//! Reports of different processes may arrive in the wrong order. So two holders count only once the
//! first has had time to report its release; if that turns out to have come first, the verdict is
//! withdrawn.
//!
//! The judge also is the resource behind the lock: everybody writes to it with their fence, at the
//! beginning and at the end, and it refuses a fence below the highest it has seen.

use std::collections::VecDeque;

use super::contender::Said;

/// A report on the same machine takes no longer.
const REPORT_MAX_US: u64 = 700_000;
/// Reports that arrive in the wrong order are not further apart.
const ENDED_MAX: usize = 16;

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
    /// The last that ended, and when.
    ended: VecDeque<(Hold, u64)>,
    /// The second came before the first was known to be done.
    suspected: Vec<Overlap>,
    overlaps: Vec<Overlap>,
    /// What is certain, and was not said yet.
    found: Vec<Overlap>,
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
                let second = Hold { who, fence, at_us, until_us };
                let firsts = self.holds.iter().filter(|first| first.who != who);
                self.suspected.extend(firsts.map(|first| Overlap { first: *first, second }));
                let ended = self.ended.iter().filter(|(first, end_us)| {
                    let met = first.at_us..first.until_us.min(*end_us);
                    first.who != who && met.contains(&at_us)
                });
                let met: Vec<Overlap> = ended.map(|(first, _)| Overlap { first: *first, second }).collect();
                met.into_iter().for_each(|overlap| self.confirm(overlap));
                self.holds.push(second);
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
                self.suspected.retain(|overlap| overlap.first.who != who);
                None
            }
        }
    }

    /// Two that held it at once, if that is certain by now and was not said yet.
    pub(crate) fn overlap(&mut self, now_us: u64) -> Option<Finding> {
        let is_due = |overlap: &Overlap| now_us >= overlap.second.at_us + REPORT_MAX_US;
        let due: Vec<Overlap> = self.suspected.iter().copied().filter(is_due).collect();
        due.into_iter().for_each(|overlap| self.confirm(overlap));
        self.found.pop().map(Finding::Two)
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
        self.ended.clear();
        self.suspected.clear();
        self.fence = 0;
    }

    /// A hold is over: now it is certain whom it met.
    fn end(&mut self, fence: u64, at_us: u64) {
        let is_missed = |overlap: &Overlap| overlap.first.fence == fence && overlap.second.at_us >= at_us;
        self.suspected.retain(|overlap| !is_missed(overlap));
        self.overlaps.retain(|overlap| !is_missed(overlap));
        self.found.retain(|overlap| !is_missed(overlap));
        let is_met = |overlap: &Overlap| overlap.first.fence == fence;
        let met: Vec<Overlap> = self.suspected.iter().copied().filter(is_met).collect();
        met.into_iter().for_each(|overlap| self.confirm(overlap));
        if let Some(place) = self.holds.iter().position(|hold| hold.fence == fence) {
            self.ended.push_back((self.holds.remove(place), at_us));
            if self.ended.len() > ENDED_MAX {
                self.ended.pop_front();
            }
        }
    }

    fn confirm(&mut self, overlap: Overlap) {
        self.suspected.retain(|suspected| *suspected != overlap);
        self.overlaps.push(overlap);
        self.found.push(overlap);
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
        let Some(Finding::Two(two)) = judge.overlap(4_800_000) else { panic!("{judge:?}") };
        assert_eq!((two.first.fence, two.second.fence), (10, 20));
        assert_eq!(judge.overlap(4_900_000), None, "once is enough");
        assert_eq!(judge.holders(4_600_000).count(), 2);
        judge.hear(0, &Said::Released { fence: 10, at_us: 5_700_000 });
        assert_eq!((judge.overlaps().len(), judge.refused()), (1, 1));
    }

    #[test]
    fn a_release_that_is_reported_after_the_next_grant_is_no_overlap() {
        let mut judge = Judge::default();
        judge.hear(0, &acquired(10, 0, 6_000_000));
        judge.hear(1, &acquired(20, 1_600_000, 7_600_000));
        assert!(judge.overlap(2_400_000).is_some(), "nothing was said for 0.8 s");
        judge.hear(0, &Said::Released { fence: 10, at_us: 1_500_000 });
        assert!(judge.overlaps().is_empty(), "{judge:?}");
    }

    #[test]
    fn an_overlap_is_found_whichever_report_comes_first() {
        let mut judge = Judge::default();
        judge.hear(0, &acquired(10, 0, 6_000_000));
        judge.hear(0, &Said::Released { fence: 10, at_us: 1_500_000 });
        judge.hear(1, &acquired(20, 1_400_000, 7_400_000));
        assert!(judge.overlap(1_600_000).is_some(), "{judge:?}");
        judge.hear(1, &Said::Released { fence: 20, at_us: 2_900_000 });
        judge.hear(2, &acquired(30, 3_000_000, 9_000_000));
        judge.hear(3, &acquired(40, 4_000_000, 10_000_000));
        judge.hear(2, &Said::Released { fence: 30, at_us: 4_100_000 });
        assert!(judge.overlap(4_100_000).is_some(), "the first was done later: {judge:?}");
        assert_eq!(judge.overlaps().len(), 2);
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
