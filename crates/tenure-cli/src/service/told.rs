//! A lease as the service told it, on our own clock.

use std::time::Duration;

use serde_json::Value;
use tenure::{Fence, Held};

use super::number;
use crate::ballot::Ballot;
use crate::lease::Lease;
use crate::machine_clock::now;

/// What was told.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    /// The lock, or several that are locked together.
    pub(crate) names: Vec<String>,
    pub(crate) token: String,
    /// How whoever waits for another lock says that it holds this one.
    pub(crate) held: Option<Held>,
    pub(crate) fence: Fence,
    pub(crate) ttl: Duration,
    /// When it was asked for.
    pub(crate) sent: Duration,
    /// Until when it is ours: counted from before the request was sent, because an answer can be
    /// held up on its way.
    pub(crate) until: Duration,
    valid_until_ms: u64,
    margin: usize,
    votes: Ballot,
}

impl Told {
    /// Reads a lease that was asked for at this time; `None` if it is none.
    pub(super) fn read(sent: Duration, lease: &Value) -> Option<Self> {
        let text = |field: &str| lease[field].as_str().map(str::to_owned);
        let milliseconds = |field: &str| number(&lease[field]).map(Duration::from_millis);
        let several = lease["names"].as_array().map(|names| {
            names.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect::<Vec<_>>()
        });
        Some(Self {
            names: several.or_else(|| text("name").map(|name| vec![name]))?,
            token: text("token")?,
            held: text("held").and_then(|held| held.parse().ok()),
            fence: Fence::new(number(&lease["fence"])?),
            ttl: milliseconds("ttl_ms")?,
            sent,
            until: sent + milliseconds("started_after_ms")? + milliseconds("valid_ms")?,
            valid_until_ms: number(&lease["valid_until_ms"])?,
            margin: usize::try_from(number(&lease["margin"])?).ok()?,
            votes: Ballot::read(&lease["votes"]),
        })
    }

    pub(crate) fn valid_for(&self) -> Duration {
        self.until.saturating_sub(now())
    }

    /// How it is spoken of.
    pub(crate) fn name(&self) -> String {
        self.names.join(", ")
    }

    /// For a script, which goes on with it by its token.
    pub(crate) fn lease(self) -> Lease {
        Lease {
            valid_for: self.valid_for(),
            name: self.name(),
            token: self.token,
            fence: self.fence,
            ttl: self.ttl,
            valid_until_ms: self.valid_until_ms,
            margin: self.margin,
            votes: self.votes,
        }
    }
}
