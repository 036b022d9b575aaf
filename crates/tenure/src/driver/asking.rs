//! Callers who wait for an answer, and when the driver lets them go first.
//!
//! A runtime with several threads runs whoever was woken last before all others. So the driver
//! would run right after each caller that asks something, and every request would leave alone. When
//! several are at work, the driver gives way: all who can run ask, and what they ask leaves
//! together. Somebody who is alone never waits for anybody.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Context;

use super::Driver;

/// How many callers wait for an answer, or have it and did not run yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asking(Arc<AtomicUsize>);

/// One of them, until it is dropped.
pub(crate) struct Asker<'a>(&'a AtomicUsize);

impl Asking {
    pub(crate) fn enter(&self) -> Asker<'_> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Asker(&self.0)
    }
}

impl Drop for Asker<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Driver {
    /// Whether others are let go first: they are when something was asked and more than one is at
    /// work, again for as long as that makes them ask more. Those in line wait for somebody else,
    /// and do not count.
    pub(super) fn gives_way(&mut self, cx: &Context<'_>) -> bool {
        let at_work = self.asking.0.load(Ordering::Relaxed).saturating_sub(self.client.in_line());
        let asked = self.mailbox.len();
        let gives_way = at_work > 1 && asked > self.asked_before && asked < at_work;
        self.asked_before = if gives_way { asked } else { 0 };
        if gives_way {
            // Behind all who can run.
            cx.waker().wake_by_ref();
        }
        gives_way
    }
}
