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
    state: watch::Sender<HoldState>,
    token: CancellationToken,
}

impl Watch {
    pub(crate) fn new() -> Arc<Self> {
        let state = watch::Sender::new(HoldState::Held);
        Arc::new(Self { state, token: CancellationToken::new() })
    }

    /// The lock stands like this now. What is lost stays lost.
    pub(crate) fn tell(&self, state: HoldState) {
        self.state.send_if_modified(|told| {
            let news = *told != state && *told != HoldState::Lost;
            if news {
                *told = state;
            }
            news
        });
        if state == HoldState::Lost {
            self.token.cancel();
        }
    }

    pub(crate) fn token(&self) -> CancellationToken {
        self.token.clone()
    }

    pub(crate) fn states(&self) -> GuardStates {
        let mut states = self.state.subscribe();
        states.mark_changed();
        GuardStates { next: Some(Box::pin(next(states))) }
    }
}

/// The states of a held lock, as a stream: the present one first, then every change. It ends after
/// [`HoldState::Lost`], which also comes when the guard is released or dropped. Made by
/// [`Guard::states`](crate::Guard::states).
///
/// A reader that is slower than the changes sees only the latest state.
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

type Next = Pin<Box<dyn Future<Output = (HoldState, watch::Receiver<HoldState>)> + Send + Sync>>;

async fn next(mut states: watch::Receiver<HoldState>) -> (HoldState, watch::Receiver<HoldState>) {
    // Nobody left to tell: the guard is gone, and the lock with it.
    let gone = states.changed().await.is_err();
    let state = if gone { HoldState::Lost } else { *states.borrow_and_update() };
    (state, states)
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
        let (state, states) = std::task::ready!(future.as_mut().poll(cx));
        self.next = (state != HoldState::Lost).then(|| Box::pin(next(states)) as Next);
        Poll::Ready(Some(state))
    }
}

impl std::fmt::Debug for GuardStates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GuardStates").finish_non_exhaustive()
    }
}
