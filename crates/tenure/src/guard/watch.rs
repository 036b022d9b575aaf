//! How a holder learns what becomes of its lock.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;
use tenure_core::HoldState;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Shared by a guard, whose holder looks, and the driver, which tells. Made when somebody looks for
/// the first time.
#[derive(Debug)]
pub(crate) struct Watch {
    told: watch::Sender<Told>,
    token: CancellationToken,
}

/// What was told last.
#[derive(Clone, Copy, Debug)]
struct Told {
    state: HoldState,
    /// How often it was extended since somebody looks.
    extensions: u64,
}

impl Watch {
    pub(crate) fn new() -> Arc<Self> {
        let told = watch::Sender::new(Told { state: HoldState::Held, extensions: 0 });
        Arc::new(Self { told, token: CancellationToken::new() })
    }

    /// The lock stands like this now. What is lost stays lost.
    pub(crate) fn tell(&self, state: HoldState) {
        self.told.send_if_modified(|told| {
            let news = told.state != state && told.state != HoldState::Lost;
            if news {
                told.state = state;
            }
            news
        });
        if state == HoldState::Lost {
            self.token.cancel();
        }
    }

    /// The lock was extended.
    pub(crate) fn tell_extended(&self) {
        self.told.send_modify(|told| told.extensions += 1);
    }

    pub(crate) fn token(&self) -> CancellationToken {
        self.token.clone()
    }

    pub(crate) fn states(&self) -> GuardStates {
        let mut told = self.told.subscribe();
        told.mark_changed();
        GuardStates { next: Some(Box::pin(next(told, None))) }
    }

    pub(crate) fn changes(&self) -> GuardChanges {
        GuardChanges { told: self.told.subscribe() }
    }
}

/// The states of a held lock, as a stream: the current one first, then every change. It ends after
/// [`HoldState::Lost`], which also comes when the guard is released or dropped. Made by
/// [`Guard::states`](crate::Guard::states).
///
/// A slow reader sees only the latest state.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use tenure::{HoldState, Locks};
///
/// let locks = Locks::memory();
/// let guard = locks.lock("import").acquire().await?;
/// let mut states = guard.states();
/// assert_eq!(states.next().await, Some(HoldState::Held));
/// guard.release().await?;
/// assert_eq!(states.next().await, Some(HoldState::Lost));
/// assert_eq!(states.next().await, None);
/// # Ok(()) }
/// ```
#[must_use = "a stream does nothing until it is polled"]
pub struct GuardStates {
    next: Option<Next>,
}

type Next = Pin<Box<dyn Future<Output = (HoldState, watch::Receiver<Told>)> + Send + Sync>>;

/// The first state that differs from the last one.
async fn next(
    mut told: watch::Receiver<Told>,
    last: Option<HoldState>,
) -> (HoldState, watch::Receiver<Told>) {
    loop {
        // Nobody left to tell: the guard is gone, and the lock with it.
        let gone = told.changed().await.is_err();
        let state = if gone { HoldState::Lost } else { told.borrow_and_update().state };
        if last != Some(state) {
            return (state, told);
        }
    }
}

impl GuardStates {
    /// The next state; `None` after [`HoldState::Lost`].
    ///
    /// # Cancel safety
    /// It may be dropped at any time; no change is missed.
    pub async fn next(&mut self) -> Option<HoldState> {
        std::future::poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }
}

impl Stream for GuardStates {
    type Item = HoldState;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<HoldState>> {
        let Some(future) = &mut self.next else { return Poll::Ready(None) };
        let (state, told) = std::task::ready!(future.as_mut().poll(cx));
        self.next = (state != HoldState::Lost).then(|| Box::pin(next(told, Some(state))) as Next);
        Poll::Ready(Some(state))
    }
}

impl std::fmt::Debug for GuardStates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GuardStates").finish_non_exhaustive()
    }
}

/// Signals that a held lock was extended or changed its state. The guard has the details. Made by
/// [`Guard::changes`](crate::Guard::changes).
///
/// A slow reader gets one signal for several changes.
#[derive(Debug)]
pub struct GuardChanges {
    told: watch::Receiver<Told>,
}

impl GuardChanges {
    /// Resolves when something has changed since this was made, or since it last resolved. `false`
    /// if the guard is gone and nothing more can come.
    ///
    /// # Cancel safety
    /// It may be dropped at any time; no change is missed.
    pub async fn next(&mut self) -> bool {
        self.told.changed().await.is_ok()
    }
}
