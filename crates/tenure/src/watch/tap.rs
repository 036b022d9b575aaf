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
    /// It has it no more.
    GaveUp,
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
            Event::GivenUp { name, .. } | Event::Lost { name, .. } | Event::CleanedUp { name } => {
                (*name, Some(Deed::GaveUp))
            }
            Event::Waiting { name, .. } | Event::NotAcquired { name, .. } => (*name, None),
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
                *known = deed.or(*known);
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
