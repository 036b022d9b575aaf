//! A lock that is renewed while a connection lives, as the lines that tell its client.
//!
//! ```text
//!   Waiting ─► Granted ─► Held ─► Over
//! ```
//! Each is a stage of one stream, which the connection polls, and drops when it ends. What that
//! does to the lock is decided by the stage: whoever waits leaves the line; a lock whose line was
//! not given to the connection yet is released; one that the client may have been told of is handed
//! over and never released before the last validity that was told is over.

mod held;
mod line;
mod waiting;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Bytes;
use futures_util::Stream;
use futures_util::stream::unfold;
use serde::Deserialize;
use utoipa::ToSchema;

use self::held::Held;
pub(crate) use self::line::Line;
pub(crate) use self::waiting::Waiting;
use crate::Service;
use crate::caller::Caller;
use crate::grant::{Kept, Unheard};
use crate::metrics::Present;

/// A line comes at least so often: proxies cut connections that are silent for a minute.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// What happens to the lock when the connection closes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OnDisconnect {
    /// It stays locked until its validity is over: the client may go on with its token.
    #[default]
    Keep,
    /// It is released when the last validity is over that was told, which are short ones.
    Release,
}

/// One request to hold a lock.
pub(crate) struct Hold {
    pub(crate) service: Arc<Service>,
    pub(crate) caller: Caller,
    pub(crate) received: Instant,
    pub(crate) on_disconnect: OnDisconnect,
    pub(crate) _counted: Present,
}

/// How far it has come.
pub(crate) enum Stage {
    /// The lock is another's.
    Waiting(Box<Waiting>),
    /// The lock is there, and the client cannot know it yet.
    Granted(Unheard),
    /// The client has it from before, and goes on with it here.
    GoingOn(Kept),
    /// The client may count on it.
    Held(Box<Held>),
    /// The last line was given.
    Over,
}

impl Hold {
    /// The lines. Whoever drops them ends the hold.
    pub(crate) fn lines(self, stage: Stage) -> impl Stream<Item = Result<Bytes, Infallible>> + Send {
        unfold((self, stage), async |(hold, stage)| {
            let (line, stage) = stage.next(&hold).await?;
            Some((Ok(line.to_bytes()), (hold, stage)))
        })
    }
}

impl Hold {
    /// A new lock for the client, or back to the nodes if the caller is none any more.
    fn give(&self, unheard: Unheard) -> (Line, Stage) {
        match self.caller.is_still(&self.service.callers) {
            Ok(()) => Held::begin(unheard.tell(), self),
            Err(problem) => (Line::refusal(unheard.guard().name(), &problem), Stage::Over),
        }
    }
}

impl Stage {
    async fn next(self, hold: &Hold) -> Option<(Line, Self)> {
        match self {
            Self::Waiting(waiting) => Some(waiting.next(hold).await),
            Self::Granted(unheard) => Some(hold.give(unheard)),
            Self::Held(held) => Some(held.next(hold).await),
            Self::GoingOn(kept) => Some(Held::begin(kept.take(), hold)),
            Self::Over => None,
        }
    }
}
