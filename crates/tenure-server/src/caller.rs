//! Who calls, and what they may do.
//!
//! A caller shows a token (`Authorization: Bearer ...`), a client certificate, or the cookie that
//! the dashboard's log-in gave it (`caller/session.rs`); the list of callers (`caller/list.rs`)
//! says which names each may read, lock or force. Without a list there is nobody to tell apart:
//! whoever reaches the service may do everything but force, because a lock that is taken from its
//! holder needs a name that answers for it.
//!
//! Every call but the probes has a caller, or gets 401 before it is looked at. Each call asks
//! [`Caller::may`] before it asks the nodes: what is refused tells nothing about the lock.

mod list;
mod peer;
mod principal;
mod rights;
pub(crate) mod session;
mod token;

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::{FromRequestParts, Request};
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use jiff::Timestamp;

use self::list::Unknown;
pub use self::list::{Callers, CallersError};
pub(crate) use self::peer::Peer;
pub use self::principal::{Principal, PrincipalError};
pub use self::rights::{Rights, Verb};
use self::session::{Session, Sessions};
pub use self::token::CallerToken;
use self::token::TokenHash;
use crate::log::Record;
use crate::problem::{Kind, Problem};
use crate::{Service, origin, ui};

/// Probes have no token, and these tell nothing about locks. Log-in looks at its token itself.
const OPEN: [&str; 3] = ["/livez", "/readyz", "/v1/log-in"];

/// Whoever calls.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    principal: Arc<Principal>,
    /// What it asks for is noted there.
    record: Record,
    /// If it has logged in instead of showing a token.
    session: Option<(Sessions, Session)>,
}

impl Caller {
    /// How it is called: in logs, and wherever one caller must not be taken for another.
    pub(crate) fn name(&self) -> &str {
        &self.principal.name
    }

    /// Whoever calls a service that tells nobody apart.
    #[cfg(test)]
    pub(crate) fn anybody() -> Self {
        let principal = Callers::default().find(None, &Peer::default(), Timestamp::now());
        Self { principal: principal.unwrap(), record: Record::default(), session: None }
    }

    /// The call as it is logged.
    pub(crate) const fn record(&self) -> &Record {
        &self.record
    }

    /// Who it is, as the list has it.
    pub(crate) fn principal(&self) -> &Principal {
        &self.principal
    }

    /// The session that it has by logging in.
    pub(crate) fn session(&self) -> Option<&Session> {
        self.session.as_ref().map(|(_, session)| session)
    }

    /// Whether it can be told from others.
    pub(crate) fn is_somebody(&self) -> bool {
        self.name() != principal::NOBODY
    }

    /// Makes sure that it may do this with this lock.
    ///
    /// # Errors
    /// The answer if it may not, which is the same whether there is such a lock or not.
    pub(crate) fn may(&self, verb: Verb, name: &str) -> Result<(), Problem> {
        self.record.name(name);
        if self.principal.rights.covers(verb, name) {
            Ok(())
        } else {
            Err(self.refusal(verb, &format!("{name:?}")))
        }
    }

    /// Makes sure that it may do this with some locks, for what is about none of them.
    ///
    /// # Errors
    /// The answer if it may not.
    pub(crate) fn may_in_general(&self, verb: Verb) -> Result<(), Problem> {
        if self.principal.rights.has(verb) { Ok(()) } else { Err(self.refusal(verb, "anything")) }
    }

    /// Whether this lock is shown to it.
    pub(crate) fn sees(&self, name: &str) -> bool {
        self.principal.rights.covers(Verb::Read, name)
    }

    /// Whether it may hear that others wait for this lock, or hold it, because it may do so itself.
    pub(crate) fn knows(&self, name: &str) -> bool {
        self.sees(name) || self.principal.rights.covers(Verb::Lock, name)
    }

    /// Whether all locks are.
    pub(crate) fn sees_all(&self) -> bool {
        self.sees("")
    }

    /// Makes sure that it still is who it was when it called: an answer that takes long asks again
    /// before it gives anything.
    ///
    /// # Errors
    /// The answer if its time is over, or it is no longer in the list.
    pub(crate) fn is_still(&self, callers: &Callers) -> Result<(), Problem> {
        let now = Timestamp::now();
        let logged_in = self.session.as_ref().is_none_or(|(sessions, session)| sessions.has(session, now));
        if logged_in && callers.knows(&self.principal, now) {
            return Ok(());
        }
        let name = self.name();
        Err(Problem::new(Kind::Unauthenticated, format!("caller {name:?} is no longer allowed to call")))
    }

    fn refusal(&self, verb: Verb, what: &str) -> Problem {
        let (name, rights) = (self.name(), &self.principal.rights);
        let advice = match (verb, &self.principal.proof) {
            (Verb::Force, None) => {
                "; to take a lock from its holder, list a caller created with `tenure token new --may force`"
            }
            _ => "",
        };
        Problem::new(
            Kind::Forbidden,
            format!("caller {name:?} may not {verb} {what}: it may {rights}{advice}"),
        )
    }
}

/// Finds out who calls.
pub(crate) fn identify(service: &Service, request: &mut Request) -> Result<(), Problem> {
    let path = request.uri().path();
    if OPEN.contains(&path) || ui::is_at(path) {
        return Ok(());
    }
    let record = request.extensions().get::<Record>().cloned().unwrap_or_default();
    let peer = request.extensions().get::<Peer>().cloned().unwrap_or_default();
    let (token, now) = (shown(request.headers())?, Timestamp::now());
    // What a browser adds by itself counts for the dashboard alone.
    let may_log_in =
        token.is_none() && service.callers.are_listed() && origin::is_own_page(request.headers());
    let session = may_log_in.then(|| session::shown(&service.keys, request.headers())).flatten();
    let (principal, session) = match session {
        Some(session) if service.sessions.has(&session, now) => {
            let principal = service.callers.find_hash(session.token(), now)?;
            (principal, Some((service.sessions.clone(), session)))
        }
        Some(_) => return Err(Unknown::Session.into()),
        None => (service.callers.find(token, &peer, now)?, None),
    };
    let caller = Caller { principal, record, session };
    caller.record.caller(caller.name());
    request.extensions_mut().insert(caller);
    Ok(())
}

/// Finds out whose token this is, and begins a session for it.
///
/// # Errors
/// Why nobody can log in with it.
pub(crate) fn log_in(service: &Service, record: Record, token: &str) -> Result<Caller, Problem> {
    let now = Timestamp::now();
    if !service.callers.are_listed() {
        return Err(Problem::new(
            Kind::BadRequest,
            "token: this service has no list of callers, so there is no login",
        ));
    }
    let principal = service.callers.find(Some(token.trim()), &Peer::default(), now)?;
    let session = Session::begin(TokenHash::of(token.trim()), now).ok_or_else(|| {
        Problem::new(
            Kind::Internal,
            "cannot start a session: the operating system provides no random \
                                      numbers",
        )
    })?;
    record.caller(&principal.name);
    Ok(Caller { principal, record, session: Some((service.sessions.clone(), session)) })
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get::<Self>().cloned().expect("it is found out who calls, around every call"))
    }
}

/// The token that was sent, if there is one.
fn shown(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (Some(value), next) = (values.next(), values.next()) else { return Ok(None) };
    let token = value.to_str().ok().and_then(|value| value.split_once(' ')).filter(|(scheme, token)| {
        next.is_none() && scheme.eq_ignore_ascii_case("bearer") && !token.trim().is_empty()
    });
    let (_, token) = token.ok_or_else(|| {
        Problem::new(
            Kind::Unauthenticated,
            "cannot parse the Authorization header; send it once, as `Authorization: Bearer TOKEN`",
        )
    })?;
    Ok(Some(token.trim()))
}
