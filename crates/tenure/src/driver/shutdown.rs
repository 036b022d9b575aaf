//! Shutdowns under way: no new locks, and an answer when the clean-up is done or the caller's limit is reached.

use tenure_core::{Release, Time};
use tokio::sync::oneshot;

use super::Unfinished;

#[derive(Default)]
pub(super) struct Shutdown {
    begun: bool,
    /// Who waits, each with a limit of its own.
    callers: Vec<(Time, oneshot::Sender<Option<Unfinished>>)>,
}

impl Shutdown {
    pub(super) fn begin(&mut self, limit: Time, reply: oneshot::Sender<Option<Unfinished>>) {
        self.begun = true;
        self.callers.push((limit, reply));
    }

    pub(super) const fn has_begun(&self) -> bool {
        self.begun
    }

    /// When the next caller has to be answered at the latest.
    pub(super) fn next_limit(&self) -> Option<Time> {
        self.callers.iter().map(|(limit, _)| *limit).min()
    }

    /// Answers everybody if no release owes anything any more, or else whose limit has come.
    pub(super) fn answer<'a>(&mut self, now: Time, releases: impl Iterator<Item = &'a Release>) {
        if self.callers.is_empty() {
            return;
        }
        let unfinished = Unfinished::of(now, releases);
        let due = |(limit, _): &mut (Time, _)| unfinished.is_none() || now >= *limit;
        for (_, reply) in self.callers.extract_if(.., due) {
            let _ = reply.send(unfinished);
        }
    }
}

impl Unfinished {
    fn of<'a>(now: Time, releases: impl Iterator<Item = &'a Release>) -> Option<Self> {
        let mut sum = Self::default();
        for release in releases.filter(|release| !release.owed().is_empty()) {
            release.owed().iter().for_each(|node| sum.nodes.insert(node));
            sum.keys += release.owed().len();
            sum.frees_within = sum.frees_within.max(release.give_up_at().since(now));
        }
        (sum.keys > 0).then_some(sum)
    }
}
