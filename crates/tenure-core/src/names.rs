//! Lock names and the keys they become on the nodes.
//!
//! A name is any text; it is compared byte by byte and never normalised. On a node it lives under
//! exactly `prefix + name`, so that other Redlock clients can share it. Helper keys begin with a
//! reserved lead; a key of that form is refused as a lock, whichever way prefix and name produce
//! it.

use std::fmt;
use std::sync::Arc;

/// The longest lock name, in bytes: keys stay small on the nodes.
pub const NAME_BYTES_MAX: usize = 1_024;

/// The longest prefix: it is stored once per key, too.
pub const PREFIX_BYTES_MAX: usize = 256;

/// How helper keys begin on the nodes. No lock key may.
pub const KEY_LEAD_RESERVED: &str = "tenure~";

/// What stands before every lock name on the nodes. The default is `tenure:`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix(Arc<str>);

/// The most names that can be locked together: a node checks all of them in one step, and others
/// wait for it.
pub const NAMES_MAX: usize = 32;

/// The key of one lock on every node; or the keys of several that are locked together.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockKey {
    locks: Locks,
    key_bytes: u16,
    prefix_bytes: u16,
    name_start: u16,
}

/// One lock, or several. Every command and every lease has a key, so a set takes no more room in
/// one than a single lock does.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Locks {
    /// The key, and behind it the name if the key does not end with it.
    One(Arc<str>),
    Set(Arc<Set>),
}

/// Several locks.
#[derive(PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Set {
    /// The first key, and behind it all names.
    text: String,
    /// Each by itself, in order.
    each: Vec<LockKey>,
}

/// Why a name or prefix is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NameError {
    /// The name is empty.
    Empty,
    /// The name is longer than [`NAME_BYTES_MAX`].
    TooLong {
        /// Its length in bytes.
        bytes: usize,
    },
    /// The prefix is longer than [`PREFIX_BYTES_MAX`].
    PrefixTooLong {
        /// Its length in bytes.
        bytes: usize,
    },
    /// The name, the prefix or the key they form together begins with [`KEY_LEAD_RESERVED`].
    Reserved,
    /// Too few or too many names to lock together: expected 1 to [`NAMES_MAX`].
    Names {
        /// How many different ones.
        count: usize,
    },
}

impl Prefix {
    /// Checks a prefix. It may be empty: names are then shared with other Redlock clients.
    ///
    /// # Errors
    /// [`NameError`] if it is too long or begins with the reserved lead.
    pub fn new(prefix: &str) -> Result<Self, NameError> {
        if prefix.len() > PREFIX_BYTES_MAX {
            return Err(NameError::PrefixTooLong { bytes: prefix.len() });
        }
        if prefix.starts_with(KEY_LEAD_RESERVED) {
            return Err(NameError::Reserved);
        }
        Ok(Self(prefix.into()))
    }

    /// The prefix as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The lock that has this key on a node, if it is one under this prefix. Its name is what
    /// follows the prefix.
    #[must_use]
    pub fn key_of(&self, key: &str) -> Option<LockKey> {
        LockKey::new(self, key.strip_prefix(self.as_str())?).ok()
    }
}

impl Default for Prefix {
    fn default() -> Self {
        Self("tenure:".into())
    }
}

impl LockKey {
    /// The key of the lock `name` under `prefix`.
    ///
    /// # Errors
    /// [`NameError`] if the name is empty, too long, or would collide with a helper key.
    pub fn new(prefix: &Prefix, name: &str) -> Result<Self, NameError> {
        if name.is_empty() {
            return Err(NameError::Empty);
        }
        if name.len() > NAME_BYTES_MAX {
            return Err(NameError::TooLong { bytes: name.len() });
        }
        let mut key = String::with_capacity(prefix.0.len() + name.len());
        key.push_str(&prefix.0);
        key.push_str(name);
        if name.starts_with(KEY_LEAD_RESERVED) || key.starts_with(KEY_LEAD_RESERVED) {
            return Err(NameError::Reserved);
        }
        let prefix_bytes = bytes(&prefix.0);
        let (key_bytes, name_start) = (bytes(&key), prefix_bytes);
        Ok(Self { key_bytes, prefix_bytes, name_start, locks: Locks::One(key.into()) })
    }

    /// The key of the lock `name` under `prefix` for clients that store it under a digest of the
    /// name.
    ///
    /// # Errors
    /// [`NameError`] if the name is empty or too long.
    pub fn with_digest(prefix: &Prefix, name: &str, digest: &str) -> Result<Self, NameError> {
        Self::new(&Prefix(Arc::default()), name)?;
        let key = Self::new(prefix, digest)?;
        let text = format!("{}{name}", key.as_str()).into();
        Ok(Self { name_start: key.key_bytes, locks: Locks::One(text), ..key })
    }

    /// Several locks as one: all of them are acquired, or none. Their order does not matter, and
    /// one that is named twice is one.
    ///
    /// # Errors
    /// [`NameError::Names`] if there are none, or more than [`NAMES_MAX`].
    ///
    /// ```
    /// use tenure_core::{LockKey, Prefix};
    ///
    /// let key = |name| LockKey::new(&Prefix::default(), name);
    /// let both = LockKey::all_of([key("b")?, key("a")?])?;
    /// assert_eq!(both, LockKey::all_of([key("a")?, key("b")?, key("a")?])?);
    /// assert_eq!(both.each(), [key("a")?, key("b")?]);
    /// assert_eq!(LockKey::all_of([key("a")?])?, key("a")?);
    /// # Ok::<(), tenure_core::NameError>(())
    /// ```
    pub fn all_of(keys: impl IntoIterator<Item = Self>) -> Result<Self, NameError> {
        let mut keys: Vec<Self> = keys.into_iter().flat_map(|key| key.each().to_vec()).collect();
        keys.sort_unstable();
        keys.dedup();
        match &keys[..] {
            [] => Err(NameError::Names { count: 0 }),
            [key] => Ok(key.clone()),
            [first, ..] if keys.len() <= NAMES_MAX => {
                let names: Vec<&str> = keys.iter().map(Self::name).collect();
                let text = format!("{}{}", first.as_str(), names.join(", "));
                let Self { key_bytes, prefix_bytes, .. } = *first;
                let locks = Locks::Set(Arc::new(Set { text, each: keys }));
                Ok(Self { locks, key_bytes, prefix_bytes, name_start: key_bytes })
            }
            _ => Err(NameError::Names { count: keys.len() }),
        }
    }

    /// The locks that it stands for, in order: itself, unless it is several.
    #[must_use]
    pub fn each(&self) -> &[Self] {
        match &self.locks {
            Locks::One(_) => std::slice::from_ref(self),
            Locks::Set(set) => &set.each,
        }
    }

    /// Whether it stands for several locks.
    #[must_use]
    pub const fn is_set(&self) -> bool {
        matches!(self.locks, Locks::Set(_))
    }

    /// The whole key, as the nodes store it; of several the first.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text()[..usize::from(self.key_bytes)]
    }

    /// The prefix of the key.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.text()[..usize::from(self.prefix_bytes)]
    }

    /// The name without the prefix, as the user gave it; of several all of them, to be read.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.text()[usize::from(self.name_start)..]
    }

    fn text(&self) -> &str {
        match &self.locks {
            Locks::One(text) => text,
            Locks::Set(set) => &set.text,
        }
    }
}

fn bytes(text: &str) -> u16 {
    u16::try_from(text.len()).expect("prefix, digest and name together have less than 64 KiB")
}

impl fmt::Debug for LockKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.locks {
            Locks::One(_) => fmt::Debug::fmt(self.as_str(), f),
            Locks::Set(set) => f.debug_set().entries(&set.each).finish(),
        }
    }
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => {
                write!(f, "the lock name is empty; expected 1 to {NAME_BYTES_MAX} bytes of UTF-8")
            }
            Self::TooLong { bytes } => {
                write!(f, "the lock name has {bytes} bytes; expected 1 to {NAME_BYTES_MAX} bytes of UTF-8")
            }
            Self::PrefixTooLong { bytes } => {
                write!(f, "the prefix has {bytes} bytes; expected at most {PREFIX_BYTES_MAX}")
            }
            Self::Reserved => write!(
                f,
                "the lock's name, or its key on the nodes (prefix + name), starts with \
                 {KEY_LEAD_RESERVED:?}, which is reserved for Tenure's own keys; use another name or \
                 prefix"
            ),
            Self::Names { count } => {
                write!(f, "cannot lock {count} names together; expected 1 to {NAMES_MAX} distinct names")
            }
        }
    }
}

impl std::error::Error for NameError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(prefix: &str, name: &str) -> Result<LockKey, NameError> {
        LockKey::new(&Prefix::new(prefix)?, name)
    }

    #[test]
    fn the_key_is_exactly_prefix_and_name() {
        let key = key("app:", "invoice:42").unwrap();
        assert_eq!((key.as_str(), key.name()), ("app:invoice:42", "invoice:42"));
    }

    #[test]
    fn a_key_by_digest_remembers_the_name() {
        let key = LockKey::with_digest(&Prefix::new("app:").unwrap(), "invoice:42", "0f1e").unwrap();
        assert_eq!((key.as_str(), key.name()), ("app:0f1e", "invoice:42"));
        assert!(LockKey::with_digest(&Prefix::default(), "", "0f1e").is_err());
    }

    #[test]
    fn an_empty_name_is_refused() {
        assert_eq!(key("app:", ""), Err(NameError::Empty));
    }

    #[test]
    fn a_name_of_1024_bytes_is_the_longest() {
        assert!(key("app:", &"x".repeat(1_024)).is_ok());
        assert_eq!(key("app:", &"x".repeat(1_025)), Err(NameError::TooLong { bytes: 1_025 }));
        // Bytes count, not characters: 342 times three bytes is 1,026.
        assert_eq!(key("app:", &"€".repeat(342)), Err(NameError::TooLong { bytes: 1_026 }));
    }

    #[test]
    fn any_text_is_a_name() {
        for name in ["\0", "a\0b", "שלום עולם", "🔒👩‍👩‍👧", " ", "\n", "a/b c{d}*?[e]"]
        {
            assert_eq!(key("app:", name).unwrap().name(), name);
        }
    }

    #[test]
    fn names_are_compared_byte_by_byte_without_normalisation() {
        let (composed, decomposed) = ("caf\u{e9}", "cafe\u{301}");
        assert_ne!(key("", composed).unwrap(), key("", decomposed).unwrap());
        assert_ne!(key("", "A").unwrap(), key("", "a").unwrap());
    }

    #[test]
    fn a_key_that_could_be_a_helper_key_is_refused() {
        for (prefix, name) in
            [("", "tenure~queue:{x}"), ("app:", "tenure~x"), ("ten", "ure~x"), ("tenure", "~")]
        {
            assert_eq!(key(prefix, name), Err(NameError::Reserved), "{prefix:?} {name:?}");
        }
        assert_eq!(Prefix::new("tenure~app:"), Err(NameError::Reserved));
        assert!(key("tenure:", "tenure").is_ok());
    }

    #[test]
    fn so_many_names_can_be_locked_together() {
        let all = |count: usize| LockKey::all_of((0..count).map(|name| key("", &name.to_string()).unwrap()));
        assert_eq!(all(NAMES_MAX).unwrap().each().len(), NAMES_MAX);
        for count in [0, NAMES_MAX + 1] {
            assert_eq!(all(count), Err(NameError::Names { count }));
        }
    }

    #[test]
    fn a_prefix_has_a_longest_length_too() {
        assert!(Prefix::new(&"p".repeat(256)).is_ok());
        assert_eq!(Prefix::new(&"p".repeat(257)), Err(NameError::PrefixTooLong { bytes: 257 }));
    }
}
