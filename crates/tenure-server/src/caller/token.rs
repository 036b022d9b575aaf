//! The token of a caller: random, and kept as its SHA-256 alone.

use std::fmt;

use ring::digest::{SHA256, digest};
use subtle::ConstantTimeEq;

use crate::hex::{hex, read_hex};

/// What tokens begin with, so that people and programs that look for leaked secrets know them.
const LEAD: &str = "tenure_";

/// Nobody guesses so many random bytes, so a plain hash is enough to keep them by.
const BYTES: usize = 32;

/// The secret of a caller. It is shown once, to whoever made it.
pub struct CallerToken(String);

/// What a token is recognised by.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TokenHash([u8; 32]);

impl CallerToken {
    /// A new one; `None` if the operating system gives no random numbers.
    #[must_use]
    pub fn generate() -> Option<Self> {
        let mut bytes = [0; BYTES];
        getrandom::fill(&mut bytes).ok()?;
        Some(Self(format!("{LEAD}{}", hex(&bytes))))
    }

    /// The token itself.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// What it is recognised by.
    #[must_use]
    pub fn hash(&self) -> TokenHash {
        TokenHash::of(&self.0)
    }
}

impl TokenHash {
    pub(crate) fn of(token: &str) -> Self {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
        Self(bytes)
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        read_hex(text).map(Self)
    }

    /// Whether they are the same; how long that takes tells nothing about them.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl fmt::Display for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenHash")
    }
}

impl fmt::Debug for CallerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CallerToken")
    }
}
