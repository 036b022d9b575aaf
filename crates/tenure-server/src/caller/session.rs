//! People who log in: a token that was shown once becomes a cookie.
//!
//! The cookie holds no secret of the caller: the hash of its token, as the list has it, and an end,
//! signed with the lease key. So any instance with that key accepts it, also after a restart, and
//! whoever is taken off the list is out at once. Log-out is the one thing that an instance has to
//! remember: it ends the session there, and the browser forgets the cookie.
//!
//! A browser sends cookies by itself, so one counts only in a request that the dashboard's own
//! pages made (`origin.rs`), whatever the browser makes of `SameSite`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::http::HeaderMap;
use axum::http::header::COOKIE;
use jiff::Timestamp;

use super::token::TokenHash;
use crate::hex::{hex, read_hex};
use crate::lease_key::LeaseKeys;

/// A working day: then the token is needed again.
pub(crate) const SESSION_MAX: Duration = Duration::from_secs(12 * 60 * 60);

/// How many sessions are remembered that ended early. Each took a valid token to begin.
const ENDED_MAX: usize = 10_000;

/// What cookies are called. Cookies do not know ports, so the name tells the key, too: two services
/// on one host do not log each other's people out.
const NAME: &str = "tenure-";

/// Browsers take a cookie of such a name over TLS alone, and for no other host.
const HOST_NAME: &str = "__Host-tenure-";

/// The sessions that ended before their time. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sessions(Arc<Mutex<BTreeMap<String, Timestamp>>>);

/// Somebody who has logged in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Session {
    id: String,
    until: Timestamp,
    token: TokenHash,
}

impl Session {
    /// A new one for whoever has this token; `None` if the system gives no random numbers.
    pub(crate) fn begin(token: TokenHash, now: Timestamp) -> Option<Self> {
        let mut id = [0; 16];
        getrandom::fill(&mut id).ok()?;
        // Whole seconds, as the cookie says it.
        let until = Timestamp::from_second(now.as_second()).ok()?.checked_add(SESSION_MAX).ok()?;
        Some(Self { id: hex(&id), until, token })
    }

    pub(super) const fn token(&self) -> &TokenHash {
        &self.token
    }

    /// How much of it is left.
    pub(crate) fn left(&self, now: Timestamp) -> Duration {
        self.until.duration_since(now).try_into().unwrap_or_default()
    }

    /// What the browser keeps. `secure`: it reaches the service by TLS.
    pub(crate) fn cookie(&self, keys: &LeaseKeys, secure: bool) -> String {
        let Self { id, until, token } = self;
        let (key, value) = keys.sign("session", &format!("{}.{id}.{token}", until.as_second()));
        cookie(&key, &value, SESSION_MAX, secure)
    }

    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, '.');
        let until = Timestamp::from_second(parts.next()?.parse().ok()?).ok()?;
        let id = parts.next()?.to_owned();
        read_hex::<16>(&id)?;
        Some(Self { id, until, token: TokenHash::parse(parts.next()?)? })
    }
}

/// A cookie that makes the browser forget the session.
pub(crate) fn forgotten(keys: &LeaseKeys, secure: bool) -> Vec<String> {
    keys.ids().iter().map(|key| cookie(key, "", Duration::ZERO, secure)).collect()
}

/// What came in with a request: the session that its cookie tells of, if it tells of one.
pub(super) fn shown(keys: &LeaseKeys, headers: &HeaderMap) -> Option<Session> {
    let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = cookies.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find_map(|(name, value)| {
        name.strip_prefix(HOST_NAME).or_else(|| name.strip_prefix(NAME))?;
        Session::parse(keys.signed("session", value)?)
    })
}

impl Sessions {
    /// Whether it goes on.
    pub(super) fn has(&self, session: &Session, now: Timestamp) -> bool {
        now < session.until && !self.lock(|ended| ended.contains_key(&session.id))
    }

    /// Ends it, at this instance.
    pub(crate) fn end(&self, session: &Session, now: Timestamp) {
        self.lock(|ended| {
            ended.retain(|_, until| now < *until);
            if ended.len() < ENDED_MAX {
                ended.insert(session.id.clone(), session.until);
            }
        });
    }

    fn lock<T>(&self, work: impl FnOnce(&mut BTreeMap<String, Timestamp>) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn cookie(key: &str, value: &str, age: Duration, secure: bool) -> String {
    let (name, secure) = if secure { (HOST_NAME, "; Secure") } else { (NAME, "") };
    format!("{name}{key}={value}; Path=/; Max-Age={}; HttpOnly; SameSite=Strict{secure}", age.as_secs())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn sent(cookie: &str) -> HeaderMap {
        HeaderMap::from_iter([(COOKIE, HeaderValue::from_str(cookie).unwrap())])
    }

    fn keys(digit: char) -> LeaseKeys {
        LeaseKeys::parse(&digit.to_string().repeat(64)).unwrap()
    }

    #[test]
    fn a_session_is_read_from_its_cookie_and_from_no_other() {
        let (now, keys) = (Timestamp::now(), keys('a'));
        let session = Session::begin(TokenHash::of("t"), now).unwrap();
        for secure in [false, true] {
            let cookie = session.cookie(&keys, secure);
            assert_eq!(cookie.contains("; Secure"), secure);
            assert!(
                cookie.contains("; HttpOnly; SameSite=Strict") && cookie.contains("; Path=/;"),
                "{cookie}"
            );
            let pair = cookie.split(';').next().unwrap();
            assert_eq!(shown(&keys, &sent(&format!("a=b; {pair}; c=d"))), Some(session.clone()));
            assert_eq!(shown(&self::keys('b'), &sent(pair)), None, "sealed with another key");
            for place in pair.find('=').unwrap() + 1..pair.len() {
                let mut changed = pair.to_owned().into_bytes();
                changed[place] = if changed[place] == b'0' { b'1' } else { b'0' };
                assert_eq!(shown(&keys, &sent(&String::from_utf8(changed).unwrap())), None);
            }
        }
        assert_eq!(shown(&keys, &sent("tenure-=; tenure-x=a.b; x")), None);
    }

    #[test]
    fn a_session_ends_with_its_time_or_by_log_out() {
        let (now, sessions) = (Timestamp::now(), Sessions::default());
        let [one, two] = [(); 2].map(|()| Session::begin(TokenHash::of("t"), now).unwrap());
        assert!(sessions.has(&one, now) && !sessions.has(&one, now + SESSION_MAX));
        assert!(
            one.left(now) > SESSION_MAX - Duration::from_secs(2) && one.left(now + SESSION_MAX).is_zero()
        );
        sessions.end(&one, now);
        assert!(!sessions.has(&one, now) && sessions.has(&two, now));
        sessions.end(&two, now + SESSION_MAX);
        assert_eq!(sessions.lock(|ended| ended.len()), 1, "what is over anyway is not remembered");
    }
}
