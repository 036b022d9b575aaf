//! What goes wrong, as RFC 9457 says it: a stable type, a status, a sentence, and the facts.
//!
//! *Contended* (others have the lock) and *unavailable* (the nodes cannot be asked) are never
//! confused.

mod contract;

use std::time::Duration;

use axum::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};
use tenure::{AcquireError, ExtendError, ReleaseError, Votes};

pub(crate) use self::contract::{ANY, Body, OF_BODY, OF_PROBE, OF_RIGHTS, problems, responses};
use crate::form::{kind_word, milliseconds, votes};
use crate::lease_key::SealError;

/// Who is refused new work comes back after this.
const COME_BACK: Duration = Duration::from_secs(1);

/// An answer that is none of what was asked for.
#[derive(Clone, Debug)]
pub struct Problem {
    kind: Kind,
    detail: String,
    facts: Map<String, Value>,
    retry_after: Option<Duration>,
}

/// One table: the type, its name, its status.
macro_rules! kinds {
    ($($kind:ident $name:literal $status:ident,)*) => {
        /// The types. Their names are part of the interface, and stay.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Kind {
            $($kind,)*
        }

        impl Kind {
            const ALL: &[Self] = &[$(Self::$kind,)*];

            pub(crate) const fn name(self) -> &'static str {
                match self { $(Self::$kind => $name,)* }
            }

            const fn status(self) -> StatusCode {
                match self { $(Self::$kind => StatusCode::$status,)* }
            }
        }
    };
}

kinds! {
    BadRequest "bad-request" BAD_REQUEST,
    BadToken "bad-token" BAD_REQUEST,
    Unauthenticated "unauthenticated" UNAUTHORIZED,
    UnknownKey "unknown-key" UNAUTHORIZED,
    Forbidden "forbidden" FORBIDDEN,
    OtherLock "other-lock" FORBIDDEN,
    WebPage "web-page" FORBIDDEN,
    NoSuchCall "no-such-call" NOT_FOUND,
    WrongMethod "wrong-method" METHOD_NOT_ALLOWED,
    SlowRequest "slow-request" REQUEST_TIMEOUT,
    Contended "contended" CONFLICT,
    MaxHold "max-hold" CONFLICT,
    Foreign "foreign" CONFLICT,
    Mismatched "other-kind" CONFLICT,
    StillRunning "still-running" CONFLICT,
    NotHeld "not-held" GONE,
    TooLarge "too-large" PAYLOAD_TOO_LARGE,
    NotJson "not-json" UNSUPPORTED_MEDIA_TYPE,
    OutOfBounds "out-of-bounds" UNPROCESSABLE_ENTITY,
    KeyReused "key-reused" UNPROCESSABLE_ENTITY,
    Rate "rate" TOO_MANY_REQUESTS,
    Unavailable "unavailable" SERVICE_UNAVAILABLE,
    TooLate "too-late" SERVICE_UNAVAILABLE,
    ClocksSetBack "clocks-set-back" SERVICE_UNAVAILABLE,
    Draining "draining" SERVICE_UNAVAILABLE,
    Overloaded "overloaded" SERVICE_UNAVAILABLE,
    NotAudited "not-audited" SERVICE_UNAVAILABLE,
    Internal "internal" INTERNAL_SERVER_ERROR,
}

impl Kind {
    fn urn(self) -> String {
        format!("urn:tenure:{}", self.name())
    }

    /// Whether an answer can say after which time to ask again.
    fn may_be_retried(self) -> bool {
        matches!(self, Self::Contended | Self::StillRunning | Self::Rate)
            || self.status() == StatusCode::SERVICE_UNAVAILABLE
    }
}

impl Problem {
    pub(crate) fn new(kind: Kind, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into(), facts: Map::new(), retry_after: None }
    }

    /// No new work here: this instance is about to end.
    pub(crate) fn draining() -> Self {
        Self::new(Kind::Draining, "this instance is shutting down; use another one")
            .retry_after(Some(COME_BACK))
    }

    /// The same acquire, by its key, is under way.
    pub(crate) fn still_running() -> Self {
        Self::new(
            Kind::StillRunning,
            "the acquire with this Idempotency-Key is still in progress; retry later",
        )
        .retry_after(Some(COME_BACK))
    }

    /// No new work here at present: too much is under way.
    pub(crate) fn overloaded() -> Self {
        let detail = "this instance has reached its limit of acquires in progress; retry later";
        Self::new(Kind::Overloaded, detail).retry_after(Some(COME_BACK))
    }

    /// No new work of this caller at present: it has as much under way as one may have.
    pub(crate) fn rate(caller: &str, most: usize) -> Self {
        let detail =
            format!("caller {caller:?} has reached its limit of {most} acquires in progress; retry later");
        Self::new(Kind::Rate, detail).retry_after(Some(COME_BACK))
    }

    pub(crate) fn fact(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.facts.insert(name.to_owned(), value.into());
        self
    }

    fn votes(self, given: &Votes) -> Self {
        self.fact("votes", json!(votes(given)))
    }

    pub(crate) fn retry_after(mut self, pause: Option<Duration>) -> Self {
        self.retry_after = pause;
        self.fact("retry_after_ms", pause.map(milliseconds))
    }

    pub(crate) const fn kind(&self) -> Kind {
        self.kind
    }

    pub(crate) const fn status(&self) -> StatusCode {
        self.kind.status()
    }

    /// The body.
    pub(crate) fn to_json(&self) -> Value {
        let Self { kind, detail, facts, .. } = self;
        let title = kind.name().replace('-', " ");
        let mut body = json!({
            "type": kind.urn(),
            "title": title,
            "status": kind.status().as_u16(),
            "detail": detail,
        });
        if let Value::Object(body) = &mut body {
            body.extend(facts.clone());
        }
        body
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = (self.status(), self.to_json().to_string()).into_response();
        // For the layers around the call.
        response.extensions_mut().insert(self.kind);
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if self.status() == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"tenure\""));
        }
        if let Some(pause) = self.retry_after {
            // Whole seconds, and not earlier.
            headers.insert(RETRY_AFTER, HeaderValue::from(milliseconds(pause).div_ceil(1_000)));
        }
        response
    }
}

impl From<AcquireError> for Problem {
    fn from(error: AcquireError) -> Self {
        let detail = error.to_string();
        match error {
            AcquireError::Contended { votes, retry_after, place, .. } => {
                let place = place.unwrap_or_default();
                Self::new(Kind::Contended, detail)
                    .fact("label", place.holder.as_deref())
                    .fact("ahead", place.ahead)
                    .fact("waiters", place.waiters)
                    .votes(&votes)
                    .retry_after(retry_after)
            }
            AcquireError::Unavailable { votes, retry_after, .. } => {
                Self::new(Kind::Unavailable, detail).votes(&votes).retry_after(retry_after)
            }
            AcquireError::ClocksSetBack { votes, retry_after, .. } => {
                Self::new(Kind::ClocksSetBack, detail).votes(&votes).retry_after(Some(retry_after))
            }
            AcquireError::TooLate { votes, .. } => Self::new(Kind::TooLate, detail).votes(&votes),
            AcquireError::OtherKind { votes, asked, found, .. } => Self::new(Kind::Mismatched, detail)
                .fact("asked", kind_word(asked))
                .fact("found", kind_word(found))
                .votes(&votes),
            AcquireError::InvalidName { .. } | AcquireError::InvalidOption { .. } => {
                Self::new(Kind::OutOfBounds, detail)
            }
            AcquireError::ShutDown { .. } => Self::new(Kind::Draining, detail),
            _ => Self::new(Kind::Internal, detail),
        }
    }
}

impl From<ExtendError> for Problem {
    fn from(error: ExtendError) -> Self {
        let detail = error.to_string();
        match error {
            ExtendError::Lost { votes, .. } => Self::new(Kind::NotHeld, detail).votes(&votes),
            ExtendError::Refused { votes, .. } | ExtendError::Unavailable { votes, .. } => {
                Self::new(Kind::Unavailable, detail).votes(&votes)
            }
            ExtendError::Outdated { .. } | ExtendError::Expired { .. } => Self::new(Kind::NotHeld, detail),
            ExtendError::MaxHold { .. } | ExtendError::RenewalsMax { .. } => Self::new(Kind::MaxHold, detail),
            ExtendError::InvalidName { .. } | ExtendError::InvalidOption { .. } => {
                Self::new(Kind::OutOfBounds, detail)
            }
            ExtendError::ShutDown { .. } => Self::new(Kind::Draining, detail),
            _ => Self::new(Kind::Internal, detail),
        }
    }
}

impl From<ReleaseError> for Problem {
    fn from(error: ReleaseError) -> Self {
        let detail = error.to_string();
        match error {
            ReleaseError::NotHeld { votes, .. } => Self::new(Kind::NotHeld, detail).votes(&votes),
            ReleaseError::Unavailable { votes, frees_within, .. } => Self::new(Kind::Unavailable, detail)
                .votes(&votes)
                .fact("frees_within_ms", milliseconds(frees_within)),
            ReleaseError::InvalidName { .. } | ReleaseError::InvalidOption { .. } => {
                Self::new(Kind::OutOfBounds, detail)
            }
            ReleaseError::Foreign { .. } => Self::new(Kind::Foreign, detail),
            ReleaseError::ShutDown { .. } => Self::new(Kind::Draining, detail),
            _ => Self::new(Kind::Internal, detail),
        }
    }
}

impl From<SealError> for Problem {
    fn from(error: SealError) -> Self {
        let kind = match error {
            SealError::Damaged => Kind::BadToken,
            SealError::UnknownKey => Kind::UnknownKey,
            SealError::OtherLock => Kind::OtherLock,
        };
        Self::new(kind, error.to_string())
    }
}
