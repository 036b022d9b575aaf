//! Acquires that can be repeated: whoever got no answer sends the same key and body again.
//!
//! Which lease a key led to is remembered, but no answer is ever given from memory: the lease may
//! have been released elsewhere, and a repeated answer would make somebody believe that it has the
//! lock. The nodes are asked to extend it first (`calls/acquire.rs`).
//!
//! Other instances know nothing of the key, nor does this one after a while. So a mark of it stands
//! in the lock's label (`idempotency/claim.rs`), and whoever finds its own mark there knows whose
//! the lock is.

mod claim;

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use ring::digest::{SHA256, digest};
use serde::Serialize;
use tenure::Handover;

pub(crate) use self::claim::Claim;
use crate::Service;
use crate::caller::Caller;
use crate::problem::{Kind, Problem};

/// The header.
pub(crate) const HEADER: &str = "idempotency-key";

/// The most that a key can be.
const KEY_MAX: usize = 255;

/// So many leases are remembered, the latest ones: some megabytes.
const REMEMBERED_MAX: usize = 10_000;

/// And for so long. Whoever still repeats itself then finds its mark.
const REMEMBERED_FOR: Duration = Duration::from_secs(3_600);

/// What the client sent, if it did.
#[derive(Debug)]
pub(crate) struct IdempotencyKey(pub(crate) Option<String>);

impl<S: Sync> FromRequestParts<S> for IdempotencyKey {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let mut sent = parts.headers.get_all(HEADER).iter();
        let (Some(value), next) = (sent.next(), sent.next()) else { return Ok(Self(None)) };
        let key = value.to_str().ok().filter(|key| next.is_none() && (1..=KEY_MAX).contains(&key.len()));
        key.map(|key| Self(Some(key.to_owned()))).ok_or_else(|| {
            Problem::new(
                Kind::BadRequest,
                format!("Idempotency-Key: send it once, with 1 to {KEY_MAX} visible ASCII characters"),
            )
        })
    }
}

/// A key, with whom it is of.
type Id = [u8; 16];

/// What was asked for.
type Digest = [u8; 32];

/// The keys that this instance remembers.
#[derive(Debug, Default)]
pub(crate) struct Memory(Arc<Mutex<Keys>>);

#[derive(Debug, Default)]
struct Keys {
    by_id: HashMap<Id, Entry>,
    /// Those that led to a lease, in this order.
    granted: VecDeque<(Instant, Id)>,
}

#[derive(Debug)]
struct Entry {
    asked: Digest,
    /// `None` while it is acquired.
    lease: Option<Handover>,
}

/// What is known of a key.
#[derive(Debug)]
pub(crate) enum Known {
    /// Nothing: it is to be acquired.
    New(Running),
    /// It led to this lease.
    Before(Box<Handover>),
}

/// An acquire under way. Its key is forgotten with this, unless it has led to a lease.
pub(crate) struct Running {
    keys: Arc<Mutex<Keys>>,
    id: Id,
}

impl Memory {
    /// Looks it up, and takes note of it if it is new.
    ///
    /// # Errors
    /// If the same is under way, or the key belongs to something else.
    pub(crate) fn begin(
        &self,
        service: &Service,
        caller: &Caller,
        key: &str,
        asked: &impl Serialize,
    ) -> Result<Known, Problem> {
        let asked = serde_json::to_vec(asked).expect("it came as JSON");
        let asked = digest(&SHA256, &asked).as_ref().try_into().expect("it has 32 bytes");
        self.look_up(service.keys.key_id(caller.name(), key), asked)
    }

    fn look_up(&self, id: Id, asked: Digest) -> Result<Known, Problem> {
        let mut keys = look(&self.0);
        keys.forget(Instant::now());
        match keys.by_id.get(&id) {
            Some(entry) if entry.asked != asked => Err(Problem::new(
                Kind::KeyReused,
                "this Idempotency-Key was already used with another body; use a new one for every lock",
            )),
            Some(Entry { lease: Some(lease), .. }) => Ok(Known::Before(Box::new(lease.clone()))),
            Some(Entry { lease: None, .. }) => Err(Problem::still_running()),
            None => {
                keys.by_id.insert(id, Entry { asked, lease: None });
                Ok(Known::New(Running { keys: Arc::clone(&self.0), id }))
            }
        }
    }
}

impl Running {
    /// The client has this lease now.
    pub(crate) fn granted(self, lease: Handover) {
        let mut keys = look(&self.keys);
        if let Some(entry) = keys.by_id.get_mut(&self.id) {
            entry.lease = Some(lease);
            keys.granted.push_back((Instant::now(), self.id));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut keys = look(&self.keys);
        if keys.by_id.get(&self.id).is_some_and(|entry| entry.lease.is_none()) {
            keys.by_id.remove(&self.id);
        }
    }
}

impl Keys {
    /// Forgets what is too old or too much.
    fn forget(&mut self, now: Instant) {
        while let Some((since, id)) = self.granted.front()
            && (self.granted.len() > REMEMBERED_MAX || now.duration_since(*since) >= REMEMBERED_FOR)
        {
            self.by_id.remove(id);
            self.granted.pop_front();
        }
    }
}

fn look(keys: &Mutex<Keys>) -> MutexGuard<'_, Keys> {
    keys.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use tenure::OwnerToken;

    use super::*;

    fn lease() -> Handover {
        Handover::new("x", OwnerToken::from_bytes([7; 20]), Duration::from_secs(30))
    }

    fn id(number: u64) -> Id {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&number.to_le_bytes());
        id
    }

    #[test]
    fn a_key_leads_to_one_lease() {
        let memory = Memory::default();
        let Ok(Known::New(running)) = memory.look_up(id(1), [1; 32]) else { panic!("it is new") };
        assert_eq!(memory.look_up(id(1), [1; 32]).unwrap_err().kind(), Kind::StillRunning);
        assert_eq!(memory.look_up(id(1), [2; 32]).unwrap_err().kind(), Kind::KeyReused);
        drop(running);
        let Ok(Known::New(running)) = memory.look_up(id(1), [2; 32]) else { panic!("it came to nothing") };
        running.granted(lease());
        let Ok(Known::Before(before)) = memory.look_up(id(1), [2; 32]) else { panic!("it was granted") };
        assert_eq!(*before, lease());
        assert_eq!(memory.look_up(id(1), [1; 32]).unwrap_err().kind(), Kind::KeyReused);
    }

    #[test]
    fn only_so_many_are_remembered_and_only_for_so_long() {
        let memory = Memory::default();
        let count = u64::try_from(REMEMBERED_MAX).unwrap() + 2;
        for number in 0..count {
            let Ok(Known::New(running)) = memory.look_up(id(number), [1; 32]) else { panic!("it is new") };
            running.granted(lease());
        }
        assert!(matches!(memory.look_up(id(0), [1; 32]), Ok(Known::New(_))), "the first one was forgotten");
        assert!(matches!(memory.look_up(id(count - 1), [1; 32]), Ok(Known::Before(_))));
        assert_eq!(look(&memory.0).by_id.len(), REMEMBERED_MAX);
        look(&memory.0).forget(Instant::now() + REMEMBERED_FOR);
        assert!(look(&memory.0).by_id.is_empty() && look(&memory.0).granted.is_empty());
    }
}
