//! The list of callers, in a file that can be read again while the service runs.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use jiff::Timestamp;

use super::principal::{NOBODY, Principal, PrincipalError};
use super::token::TokenHash;
use super::{Peer, Rights, Verb};
use crate::problem::{Kind, Problem};

/// Each call is compared with all of them, so that the time it takes tells nothing.
const CALLERS_MAX: usize = 1_000;

/// Whoever may write the list may do everything.
const OTHERS_WRITE: u32 = 0o002;

/// What does no harm to others.
const HARMLESS: [Verb; 3] = [Verb::Read, Verb::Lock, Verb::Metrics];

/// Those who may call. Clones share one list.
#[derive(Clone, Debug, Default)]
pub struct Callers(Arc<RwLock<Option<List>>>);

type List = Arc<[Arc<Principal>]>;

/// Why there is no list.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallersError {
    /// The file cannot be read or written.
    #[error("the list of callers {} cannot be {what}: {error}", path.display())]
    #[non_exhaustive]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What was to be done with it.
        what: &'static str,
        /// Why not.
        #[source]
        error: io::Error,
    },
    /// Others may write it.
    #[error("the list of callers {} is world-writable; run chmod o-w {}", path.display(), path.display())]
    #[non_exhaustive]
    Open {
        /// The file.
        path: PathBuf,
    },
    /// A line is wrong.
    #[error("{}:{line}: {error}", path.display())]
    #[non_exhaustive]
    Line {
        /// The file.
        path: PathBuf,
        /// Which line, from 1.
        line: usize,
        /// What is wrong with it.
        #[source]
        error: PrincipalError,
    },
    /// Two lines are about the same token or certificate.
    #[error("{}:{line}: same token or certificate as an earlier line; remove one of them", path.display())]
    #[non_exhaustive]
    Twice {
        /// The file.
        path: PathBuf,
        /// The second of them, from 1.
        line: usize,
    },
    /// Nobody is in it, or too many are.
    #[error("{} lists {count} callers; expected 1 to {CALLERS_MAX}, created with `tenure token new`", path.display())]
    #[non_exhaustive]
    Count {
        /// The file.
        path: PathBuf,
        /// How many.
        count: usize,
    },
}

/// Why somebody may not call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unknown {
    Nothing,
    Token,
    Session,
    Over(String, Timestamp),
}

impl Callers {
    /// Those whom this file names: a line of JSON each; empty lines and those that begin with `#`
    /// are passed over.
    ///
    /// # Errors
    /// What is wrong with the file, and in which line. Secrets are not repeated.
    pub fn read(path: &Path) -> Result<Self, CallersError> {
        Ok(Self(Arc::new(RwLock::new(Some(read(path)?)))))
    }

    /// Reads the file again. If that fails, those who were named before stay.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn reload(&self, path: &Path) -> Result<(), CallersError> {
        let list = read(path)?;
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(list);
        Ok(())
    }

    /// Puts somebody at the end of a file, which is made if there is none: for its owner alone.
    ///
    /// # Errors
    /// If it cannot be written, or what is in it is wrong.
    pub fn append(path: &Path, principal: &Principal) -> Result<(), CallersError> {
        let unusable = |error| CallersError::Unusable { path: path.into(), what: "written", error };
        let text = match std::fs::read_to_string(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            read => read.map_err(unusable)?,
        };
        // A line that somebody left open must not swallow ours.
        let gap = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        let line = format!("{gap}{}\n", principal.to_line());
        parse(path, &format!("{text}{line}"))?;
        let mut file =
            OpenOptions::new().append(true).create(true).mode(0o600).open(path).map_err(unusable)?;
        file.write_all(line.as_bytes()).and_then(|()| file.sync_all()).map_err(unusable)
    }

    /// Everybody who is in it.
    #[must_use]
    pub fn list(&self) -> Vec<Arc<Principal>> {
        self.now().map(|list| list.to_vec()).unwrap_or_default()
    }

    /// Whether there is a list: without one nobody is told apart.
    #[must_use]
    pub fn are_listed(&self) -> bool {
        self.now().is_some()
    }

    /// Who it is that shows this token, at the other end of this connection.
    pub(crate) fn find(
        &self,
        token: Option<&str>,
        peer: &Peer,
        now: Timestamp,
    ) -> Result<Arc<Principal>, Unknown> {
        let Some(list) = self.now() else { return Ok(unlisted(peer)) };
        let found = match token {
            Some(token) => of_token(&list, &TokenHash::of(token)).ok_or(Unknown::Token)?,
            None => {
                let named = |principal: &&Arc<Principal>| {
                    principal.certificate().is_some_and(|name| peer.names.iter().any(|shown| shown == name))
                };
                list.iter().find(named).ok_or(Unknown::Nothing)?
            }
        };
        in_time(found, now)
    }

    /// Who it is whose token has this hash.
    pub(super) fn find_hash(&self, token: &TokenHash, now: Timestamp) -> Result<Arc<Principal>, Unknown> {
        let list = self.now().ok_or(Unknown::Session)?;
        in_time(of_token(&list, token).ok_or(Unknown::Session)?, now)
    }

    /// Whether this is still somebody who may call.
    pub(super) fn knows(&self, principal: &Principal, now: Timestamp) -> bool {
        let listed = self.now();
        let is_it = |list: List| list.iter().any(|listed| **listed == *principal);
        !principal.is_over(now) && listed.map_or(principal.proof.is_none(), is_it)
    }

    fn now(&self) -> Option<List> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// This one, unless its time is over.
fn in_time(found: &Arc<Principal>, now: Timestamp) -> Result<Arc<Principal>, Unknown> {
    match found.until {
        Some(until) if until <= now => Err(Unknown::Over(found.name.clone(), until)),
        _ => Ok(Arc::clone(found)),
    }
}

/// Whose token it is. All are compared, whichever it is.
fn of_token<'a>(list: &'a List, shown: &TokenHash) -> Option<&'a Arc<Principal>> {
    list.iter().fold(None, |found, principal| {
        let is_it = principal.token().is_some_and(|token| token.is(shown));
        if is_it { Some(principal) } else { found }
    })
}

/// Without a list everybody may do what does no harm to others: a lock is released by whoever has
/// its lease alone. Whoever the system says is the service's own user, or root, could do everything
/// without it, too.
fn unlisted(peer: &Peer) -> Arc<Principal> {
    /// Most calls are such, so it is made once.
    static ANYBODY: LazyLock<Arc<Principal>> = LazyLock::new(|| {
        Arc::new(Principal::unlisted(NOBODY.to_owned(), Rights { may: HARMLESS.to_vec(), prefixes: vec![] }))
    });
    let Some(user) = peer.user else { return Arc::clone(&ANYBODY) };
    let mut may = HARMLESS.to_vec();
    if [0, rustix::process::geteuid().as_raw()].contains(&user) {
        may.push(Verb::Force);
    }
    Arc::new(Principal::unlisted(format!("uid:{user}"), Rights { may, prefixes: vec![] }))
}

fn read(path: &Path) -> Result<List, CallersError> {
    let unusable = |error| CallersError::Unusable { path: path.into(), what: "read", error };
    if path.metadata().map_err(unusable)?.mode() & OTHERS_WRITE != 0 {
        return Err(CallersError::Open { path: path.into() });
    }
    parse(path, &std::fs::read_to_string(path).map_err(unusable)?)
}

fn parse(path: &Path, text: &str) -> Result<List, CallersError> {
    let mut list: Vec<Arc<Principal>> = vec![];
    for (line, text) in (1..).zip(text.lines()) {
        let text = text.trim();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let principal =
            Principal::parse(text).map_err(|error| CallersError::Line { path: path.into(), line, error })?;
        if list.iter().any(|earlier| earlier.proof == principal.proof) {
            return Err(CallersError::Twice { path: path.into(), line });
        }
        list.push(Arc::new(principal));
    }
    match list.len() {
        1..=CALLERS_MAX => Ok(list.into()),
        count => Err(CallersError::Count { path: path.into(), count }),
    }
}

impl From<Unknown> for Problem {
    fn from(unknown: Unknown) -> Self {
        let detail = match unknown {
            Unknown::Nothing => "no caller's token; send one as `Authorization: Bearer TOKEN`".to_owned(),
            Unknown::Token => "unknown caller's token; ask the service's operator for one".to_owned(),
            Unknown::Session => "the session has ended; log in again".to_owned(),
            Unknown::Over(name, until) => {
                format!("the token of caller {name:?} expired at {until}; ask the operator for a new one")
            }
        };
        Self::new(Kind::Unauthenticated, detail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_list_only_the_services_own_user_and_root_may_use_force() {
        let own = rustix::process::geteuid().as_raw();
        for (user, name, force) in [
            (None, "anonymous".to_owned(), false),
            (Some(0), "uid:0".to_owned(), true),
            (Some(own), format!("uid:{own}"), true),
            (Some(own + 1), format!("uid:{}", own + 1), false),
        ] {
            let peer = Peer { user, ..Peer::default() };
            let caller = Callers::default().find(None, &peer, Timestamp::now()).unwrap();
            assert_eq!((&caller.name, caller.rights.covers(Verb::Force, "x")), (&name, force));
            assert!(
                [Verb::Read, Verb::Lock, Verb::Metrics].iter().all(|verb| caller.rights.covers(*verb, "x"))
            );
        }
    }

    #[test]
    fn a_line_that_was_left_open_does_not_swallow_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("callers");
        let rights = || Rights { may: vec![Verb::Lock], prefixes: vec![] };
        std::fs::write(&path, "# ours").unwrap();
        for name in ["a", "b"] {
            let principal = Principal::with_certificate(name, name, rights(), None).unwrap();
            Callers::append(&path, &principal).unwrap();
        }
        let names: Vec<String> =
            Callers::read(&path).unwrap().list().iter().map(|caller| caller.name.clone()).collect();
        assert_eq!(names, ["a", "b"]);
        let again = Principal::with_certificate("c", "a", rights(), None).unwrap();
        let error = Callers::append(&path, &again).unwrap_err().to_string();
        assert!(error.contains("callers:4: ") && error.contains("earlier line"), "{error}");
        assert_eq!(Callers::read(&path).unwrap().list().len(), 2, "it was not written");
    }
}
