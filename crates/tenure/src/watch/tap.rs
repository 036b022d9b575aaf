//! What this process does itself, for whoever watches: it need not be found by looking.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tenure_core::Fence;
use tokio::sync::Notify;

use crate::event::Event;

/// So many locks are remembered between two looks; what happens to more is found by walking.
const NAMES_MAX: usize = 1_000;

/// Between the driver, which tells every event, and the looker. While nobody watches, it costs the
/// driver one look at a flag.
#[derive(Debug, Default)]
pub(crate) struct Tap {
    open: AtomicBool,
    heard: Mutex<Heard>,
    news: Notify,
}

/// What was heard since the looker asked.
#[derive(Debug, Default)]
pub(super) struct Heard {
    /// Locks to which something happened, and what this process did, if it was that.
    pub(super) names: BTreeMap<String, Option<Deed>>,
    /// Something happened to a node.
    pub(super) nodes: bool,
}

/// What this process did to a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deed {
    /// It has it, with this fence, and so long after the release by the previous holder, if known.
    Acquired(Fence, Option<Duration>),
    /// It has it no more, which had this fence.
    GaveUp(Fence),
}

impl Deed {
    /// The one that tells how it stands now: the end of an earlier hold may be told late.
    fn or_later(self, later: Option<Self>) -> Self {
        match (self, later) {
            (Self::Acquired(fence, _), Some(Self::GaveUp(earlier))) if earlier < fence => self,
            (_, later) => later.unwrap_or(self),
        }
    }
}

impl Tap {
    pub(crate) fn hear(&self, event: &Event<'_>) {
        if self.open.load(Ordering::Relaxed) {
            self.keep(event);
        }
    }

    fn keep(&self, event: &Event<'_>) {
        let (name, deed) = match event {
            Event::Acquired { name, fence, passed_on_after, .. } => {
                (*name, Some(Deed::Acquired(*fence, *passed_on_after)))
            }
            Event::PassedOn { name, fence, .. } => (*name, Some(Deed::Acquired(*fence, None))),
            // What another process acquired, and this one only released, was never held here.
            Event::GivenUp { name, fence, held, .. } if held.is_some() || *fence != Fence::NONE => {
                (*name, Some(Deed::GaveUp(*fence)))
            }
            Event::Lost { name, fence, .. } => (*name, Some(Deed::GaveUp(*fence))),
            // Of an attempt that was not won, or of a lock that has been given up before.
            Event::GivenUp { name, .. }
            | Event::CleanedUp { name }
            | Event::Waiting { name, .. }
            | Event::NotAcquired { name, .. } => (*name, None),
            Event::NodeDistrusted { .. } | Event::NodeTrusted { .. } => {
                self.heard().nodes = true;
                return self.news.notify_one();
            }
            _ => return,
        };
        {
            let mut heard = self.heard();
            let names = &mut heard.names;
            if let Some(known) = names.get_mut(name) {
                *known = known.map(|known| known.or_later(deed)).or(deed);
            } else if names.len() < NAMES_MAX {
                names.insert(name.to_owned(), deed);
            }
        }
        self.news.notify_one();
    }

    pub(super) fn set_open(&self, open: bool) {
        self.open.store(open, Ordering::Relaxed);
        if !open {
            self.take();
        }
    }

    pub(super) fn take(&self) -> Heard {
        std::mem::take(&mut *self.heard())
    }

    /// Resolves when there is something new.
    pub(super) async fn news(&self) {
        self.news.notified().await;
    }

    /// Makes the looker look round.
    pub(super) fn nudge(&self) {
        self.news.notify_one();
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Option<Duration> = Some(Duration::from_secs(1));

    fn told(events: &[Event<'_>]) -> Option<Deed> {
        let tap = Tap::default();
        tap.set_open(true);
        events.iter().for_each(|event| tap.hear(event));
        tap.take().names.remove("x").expect("something happened to it")
    }

    fn acquired(fence: u64) -> Event<'static> {
        let (elapsed, valid_for, fence) = (Duration::ZERO, Duration::ZERO, Fence::new(fence));
        Event::PassedOn { name: "x", elapsed, valid_for, fence }
    }

    fn given_up(fence: u64, held: Option<Duration>) -> Event<'static> {
        Event::GivenUp { name: "x", fence: Fence::new(fence), held }
    }

    #[test]
    fn what_is_told_late_of_an_earlier_hold_is_no_end_of_this_one() {
        let (name, has_it) = ("x", Some(Deed::Acquired(Fence::new(2), None)));
        assert_eq!(told(&[given_up(1, SECOND), acquired(2)]), has_it);
        assert_eq!(told(&[acquired(2), Event::CleanedUp { name }]), has_it);
        assert_eq!(told(&[acquired(2), given_up(0, None)]), has_it, "another caller went away");
        assert_eq!(told(&[acquired(2), given_up(1, SECOND)]), has_it);
        assert_eq!(told(&[acquired(2), given_up(2, SECOND)]), Some(Deed::GaveUp(Fence::new(2))));
        assert_eq!(told(&[acquired(2), given_up(2, None)]), Some(Deed::GaveUp(Fence::new(2))));
        assert_eq!(told(&[Event::CleanedUp { name }]), None);
    }
}
