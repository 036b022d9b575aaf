//! What goes wrong, as RFC 9457 says it: a stable type, a status, a sentence, and the facts.
//!
//! *Contended* (others have the lock) and *unavailable* (the nodes cannot be asked) are never
//! confused.

use std::time::Duration;

use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};
use tenure::{AcquireError, ExtendError, ReleaseError, Votes};

use crate::form::{milliseconds, votes};
use crate::lease_key::SealError;

/// An answer that is none of what was asked for.
#[derive(Clone, Debug)]
pub struct Problem {
    kind: Kind,
    detail: String,
    facts: Map<String, Value>,
    retry_after: Option<Duration>,
}

/// The types. Their names are part of the interface, and stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    BadRequest,
    BadToken,
    UnknownKey,
    OtherLock,
    WebPage,
    NoSuchCall,
    WrongMethod,
    SlowRequest,
    Contended,
    MaxHold,
    NotHeld,
    TooLarge,
    NotJson,
    OutOfBounds,
    Unavailable,
    TooLate,
    ClocksSetBack,
    Draining,
    Overloaded,
    Internal,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::BadRequest => "bad-request",
            Self::BadToken => "bad-token",
            Self::UnknownKey => "unknown-key",
            Self::OtherLock => "other-lock",
            Self::WebPage => "web-page",
            Self::NoSuchCall => "no-such-call",
            Self::WrongMethod => "wrong-method",
            Self::SlowRequest => "slow-request",
            Self::Contended => "contended",
            Self::MaxHold => "max-hold",
            Self::NotHeld => "not-held",
            Self::TooLarge => "too-large",
            Self::NotJson => "not-json",
            Self::OutOfBounds => "out-of-bounds",
            Self::Unavailable => "unavailable",
            Self::TooLate => "too-late",
            Self::ClocksSetBack => "clocks-set-back",
            Self::Draining => "draining",
            Self::Overloaded => "overloaded",
            Self::Internal => "internal",
        }
    }

    const fn status(self) -> StatusCode {
        match self {
            Self::BadRequest | Self::BadToken => StatusCode::BAD_REQUEST,
            Self::UnknownKey => StatusCode::UNAUTHORIZED,
            Self::OtherLock | Self::WebPage => StatusCode::FORBIDDEN,
            Self::NoSuchCall => StatusCode::NOT_FOUND,
            Self::WrongMethod => StatusCode::METHOD_NOT_ALLOWED,
            Self::SlowRequest => StatusCode::REQUEST_TIMEOUT,
            Self::Contended | Self::MaxHold => StatusCode::CONFLICT,
            Self::NotHeld => StatusCode::GONE,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::NotJson => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::OutOfBounds => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Unavailable | Self::TooLate | Self::ClocksSetBack | Self::Draining | Self::Overloaded => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

impl Problem {
    pub(crate) fn new(kind: Kind, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into(), facts: Map::new(), retry_after: None }
    }

    fn fact(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.facts.insert(name.to_owned(), value.into());
        self
    }

    fn votes(self, given: &Votes) -> Self {
        self.fact("votes", votes(given))
    }

    pub(crate) fn retry_after(mut self, pause: Option<Duration>) -> Self {
        self.retry_after = pause;
        self.fact("retry_after_ms", pause.map(milliseconds))
    }

    pub(crate) const fn status(&self) -> StatusCode {
        self.kind.status()
    }

    /// The body.
    pub(crate) fn to_json(&self) -> Value {
        let Self { kind, detail, facts, .. } = self;
        let title = kind.name().replace('-', " ");
        let mut body = json!({
            "type": format!("urn:tenure:{}", kind.name()),
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
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
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
