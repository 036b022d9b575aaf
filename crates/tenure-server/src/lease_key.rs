//! The keys that lease tokens are sealed with, and the seal.
//!
//! A token carries all that an instance needs to extend or release a lock, the limit on its hold
//! among it, and comes back from the client. The seal makes sure that it is what an instance made,
//! for this lock: `t1.KEY.LOCK.TOKEN.MAC`, where KEY says which key, LOCK is 64 bits of a MAC over
//! the name, TOKEN is the lease token of the library, and MAC is the HMAC-SHA-256 over all before
//! it.
//!
//! All instances must have the same keys. The first seals, each of them opens, so a key can be
//! exchanged without ending a lease: add the new one behind the old everywhere, then put it first,
//! then remove the old one when every lease of it has ended.

mod file;

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use ring::{digest, hmac};
use tenure::LeaseToken;

pub use self::file::LeaseKeyFileError;
use crate::hex::{hex, read_hex};

const LEAD: &str = "t1";

/// Keys have as many bytes as the MAC needs.
const KEY_BYTES: usize = 32;

/// Digits of the parts that are cut short, two a byte.
const KEY_DIGITS: usize = 8;
const NAME_DIGITS: usize = 16;
const MARK_DIGITS: usize = 32;

/// The keys that lease tokens are sealed with. Clones share them.
#[derive(Clone)]
pub struct LeaseKeys(Arc<RwLock<List>>);

type List = Arc<[Arc<LeaseKey>]>;

struct LeaseKey {
    id: String,
    key: hmac::Key,
}

/// Why a text has no lease keys.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LeaseKeyError {
    /// There is none.
    #[error("no lease key in it; create one with `openssl rand -hex 32`, one per line")]
    Missing,
    /// A line is none.
    #[error("line {line} is not a lease key: expected {} hexadecimal digits", KEY_BYTES * 2)]
    #[non_exhaustive]
    Damaged {
        /// Which line, from 1.
        line: usize,
    },
    /// The operating system gave no random numbers to make one of.
    #[error("cannot create a lease key: the operating system provides no random numbers")]
    NoRandomness,
}

/// Why a sealed token is not opened. The token is not repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SealError {
    #[error("the token is damaged; send the one from the latest answer, unchanged")]
    Damaged,
    #[error(
        "the token is sealed with a key this instance does not have; give all instances the same lease_key"
    )]
    UnknownKey,
    #[error("the token belongs to another lock")]
    OtherLock,
}

impl LeaseKeys {
    /// Reads keys, one a line; empty lines and what follows a `#` are passed over.
    ///
    /// # Errors
    /// Which line is wrong. What it says is not repeated.
    pub fn parse(text: &str) -> Result<Self, LeaseKeyError> {
        let mut keys = vec![];
        for (number, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if !line.is_empty() {
                let bytes = read_hex(line).ok_or(LeaseKeyError::Damaged { line: number + 1 })?;
                keys.push(LeaseKey::of(&bytes));
            }
        }
        if keys.is_empty() { Err(LeaseKeyError::Missing) } else { Ok(Self::of(keys)) }
    }

    /// A key that nobody else has, and its text for others to read.
    ///
    /// # Errors
    /// If the operating system gives no random numbers.
    pub fn generate() -> Result<(Self, String), LeaseKeyError> {
        let mut bytes = [0; KEY_BYTES];
        getrandom::fill(&mut bytes).map_err(|_| LeaseKeyError::NoRandomness)?;
        let text = format!("{}\n", hex(&bytes));
        Ok((Self::of(vec![LeaseKey::of(&bytes)]), text))
    }

    fn of(keys: Vec<LeaseKey>) -> Self {
        Self(Arc::new(RwLock::new(keys.into_iter().map(Arc::new).collect())))
    }

    /// Has these keys instead, and so has every clone.
    fn replace(&self, keys: &Self) {
        let keys = keys.now();
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = keys;
    }

    fn now(&self) -> List {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Seals the token of this lock.
    pub(crate) fn seal(&self, name: &str, token: &LeaseToken) -> String {
        let key = self.first();
        let sealed = format!("{LEAD}.{}.{}.{token}", key.id, key.lock(name));
        let mac = hex(hmac::sign(&key.key, &signed("lease", &sealed)).as_ref());
        format!("{sealed}.{mac}")
    }

    /// How a holder is called: by all instances alike, and without giving its token away.
    pub(crate) fn holder(&self, owner: &str) -> String {
        self.first().named("holder", owner)
    }

    /// Whether this owner is called so, by this instance or one with another key in front.
    pub(crate) fn is_holder(&self, owner: &str, called: &str) -> bool {
        self.now().iter().any(|key| key.named("holder", owner) == called)
    }

    /// What stands for a client's key for a lock, in the label of that lock: 128 bits.
    pub(crate) fn mark(&self, caller: &str, name: &str, key: &str) -> String {
        self.first().mark(caller, name, key)
    }

    /// Whether this is such a mark, of this instance or one with another key in front.
    pub(crate) fn is_mark(&self, mark: &str, caller: &str, name: &str, key: &str) -> bool {
        self.now().iter().any(|own| own.mark(caller, name, key) == mark)
    }

    /// What stands for a client's key, whatever lock it is for.
    pub(crate) fn key_id(&self, caller: &str, key: &str) -> [u8; 16] {
        let text = format!("{}:{caller}{key}", caller.len());
        let mac = hmac::sign(&self.first().key, &signed("key", &text));
        mac.as_ref()[..16].try_into().expect("16 of 32 bytes")
    }

    /// Signs a text for this purpose, with the id of the key: what it says can be read by anybody.
    pub(crate) fn sign(&self, purpose: &str, text: &str) -> (String, String) {
        let key = self.first();
        let mac = hex(hmac::sign(&key.key, &signed(purpose, text)).as_ref());
        (key.id.clone(), format!("{}.{text}.{mac}", key.id))
    }

    /// The text that was signed for this purpose, by this instance or one with another key first.
    pub(crate) fn signed<'a>(&self, purpose: &str, sealed: &'a str) -> Option<&'a str> {
        let (id, rest) = sealed.split_once('.')?;
        let (text, mac) = rest.rsplit_once('.')?;
        let (keys, mac) = (self.now(), read_hex::<KEY_BYTES>(mac)?);
        let key = keys.iter().find(|key| key.id == id)?;
        hmac::verify(&key.key, &signed(purpose, text), &mac).ok().map(|()| text)
    }

    /// What the keys are called.
    pub(crate) fn ids(&self) -> Vec<String> {
        self.now().iter().map(|key| key.id.clone()).collect()
    }

    fn first(&self) -> Arc<LeaseKey> {
        Arc::clone(self.now().first().expect("there is a key, or these could not have been made"))
    }

    /// The token of this lock that was sealed.
    ///
    /// # Errors
    /// Why it is not opened.
    pub(crate) fn open(&self, name: &str, text: &str) -> Result<LeaseToken, SealError> {
        let (sealed, mac) = text.rsplit_once('.').ok_or(SealError::Damaged)?;
        let mut parts = sealed.splitn(4, '.');
        let (Some(LEAD), Some(id), Some(lock), Some(token)) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(SealError::Damaged);
        };
        let is_id = id.len() == KEY_DIGITS && id.bytes().all(|digit| digit.is_ascii_hexdigit());
        let keys = self.now();
        let key = keys.iter().find(|key| key.id == id);
        let key = key.ok_or(if is_id { SealError::UnknownKey } else { SealError::Damaged })?;
        let mac = read_hex::<KEY_BYTES>(mac).ok_or(SealError::Damaged)?;
        hmac::verify(&key.key, &signed("lease", sealed), &mac).map_err(|_| SealError::Damaged)?;
        if lock != key.lock(name) {
            return Err(SealError::OtherLock);
        }
        token.parse().map_err(|_| SealError::Damaged)
    }
}

impl LeaseKey {
    fn of(bytes: &[u8; KEY_BYTES]) -> Self {
        let mut id = hex(digest::digest(&digest::SHA256, bytes).as_ref());
        id.truncate(KEY_DIGITS);
        Self { id, key: hmac::Key::new(hmac::HMAC_SHA256, bytes) }
    }

    /// What stands for the lock.
    fn lock(&self, name: &str) -> String {
        self.named("lock", name)
    }

    fn mark(&self, caller: &str, name: &str, key: &str) -> String {
        // With their lengths, so that no two sets of texts are the same text.
        let text = format!("{}:{caller}{}:{name}{key}", caller.len(), name.len());
        self.digits("mark", &text, MARK_DIGITS)
    }

    /// What stands for something whose name is not to be told.
    fn named(&self, purpose: &str, name: &str) -> String {
        self.digits(purpose, name, NAME_DIGITS)
    }

    fn digits(&self, purpose: &str, text: &str, count: usize) -> String {
        let mut digits = hex(hmac::sign(&self.key, &signed(purpose, text)).as_ref());
        digits.truncate(count);
        digits
    }
}

/// What is signed: the signature for one purpose is none for another.
fn signed(purpose: &str, text: &str) -> Vec<u8> {
    [purpose, text].join("\0").into_bytes()
}

impl fmt::Debug for LeaseKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.now().iter().map(|key| &key.id)).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tenure::{Handover, MaxHold, OwnerToken};

    use super::*;

    fn token() -> LeaseToken {
        let mut handover = Handover::new("x", OwnerToken::from_bytes([7; 20]), Duration::from_secs(30));
        handover.max_hold = Some(MaxHold::AtMost(Duration::from_secs(60)));
        LeaseToken::of(&handover)
    }

    fn keys(digits: &[char]) -> LeaseKeys {
        let lines: Vec<String> = digits.iter().map(|digit| digit.to_string().repeat(64)).collect();
        LeaseKeys::parse(&lines.join("\n")).unwrap()
    }

    #[test]
    fn a_sealed_token_is_opened_by_whoever_has_the_key() {
        let token = token();
        let sealed = keys(&['a']).seal("x", &token);
        assert_eq!(keys(&['a']).open("x", &sealed).as_ref(), Ok(&token));
        assert_eq!(keys(&['b', 'a']).open("x", &sealed), Ok(token), "a key that is being exchanged");
        assert_eq!(keys(&['b']).open("x", &sealed), Err(SealError::UnknownKey));
        assert_eq!(keys(&['a']).open("y", &sealed), Err(SealError::OtherLock));
    }

    #[test]
    fn not_one_character_of_it_can_be_changed() {
        let (keys, sealed) = (keys(&['a']), keys(&['a']).seal("x", &token()));
        for place in 0..sealed.len() {
            let mut changed = sealed.clone().into_bytes();
            changed[place] = if changed[place] == b'0' { b'1' } else { b'0' };
            let changed = String::from_utf8(changed).unwrap();
            assert!(keys.open("x", &changed).is_err(), "{changed}");
            assert!(keys.open("x", &sealed[..place]).is_err());
        }
        assert!(keys.open("x", &format!("{sealed}0")).is_err());
        assert!(keys.open("x", &token().to_string()).is_err(), "a bare one is not sealed");
    }

    #[test]
    fn a_mark_is_of_one_caller_one_lock_and_one_key() {
        let (old, both) = (keys(&['a']), keys(&['b', 'a']));
        let mark = old.mark("ann", "x", "k");
        assert_eq!(mark.len(), 32);
        assert!(both.is_mark(&mark, "ann", "x", "k"), "a key that is being exchanged");
        for (caller, name, key) in
            [("bob", "x", "k"), ("ann", "y", "k"), ("ann", "x", "l"), ("annx", "", "k")]
        {
            assert!(!both.is_mark(&mark, caller, name, key), "{caller} {name} {key}");
        }
        assert_ne!(old.key_id("ann", "k"), old.key_id("an", "nk"));
    }

    #[test]
    fn keys_are_read_line_by_line_and_never_shown() {
        let (made, text) = LeaseKeys::generate().unwrap();
        let read = LeaseKeys::parse(&format!("# the present one\n\n  {text}  # since May\n")).unwrap();
        let token = token();
        assert_eq!(read.open("x", &made.seal("x", &token)), Ok(token));
        assert!(!format!("{made:?}").contains(text.trim()));
        assert_eq!(LeaseKeys::parse("# none\n").unwrap_err(), LeaseKeyError::Missing);
        for line in ["abc", &"g".repeat(64), &"é".repeat(32)] {
            let error = LeaseKeys::parse(&format!("\n{line}")).unwrap_err();
            assert_eq!(error, LeaseKeyError::Damaged { line: 2 });
            assert!(!error.to_string().contains(line));
        }
    }
}
