//! A part of a state that is shared between states until it changes, and remembers its hash: a step changes few parts, and
//! most of a search is hashing.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Clone, Debug, Default)]
pub(super) struct Shared<T>(Arc<Part<T>>);

#[derive(Debug, Default)]
struct Part<T> {
    value: T,
    /// Zero if it is not known.
    hash: AtomicU64,
}

impl<T> Shared<T> {
    pub(super) fn new(value: T) -> Self {
        Self(Arc::new(Part { value, hash: AtomicU64::new(0) }))
    }
}

impl<T: Clone> Shared<T> {
    pub(super) fn change(&mut self) -> &mut T {
        let part = Arc::make_mut(&mut self.0);
        *part.hash.get_mut() = 0;
        &mut part.value
    }
}

impl<T: Clone> Clone for Part<T> {
    fn clone(&self) -> Self {
        Self { value: self.value.clone(), hash: AtomicU64::new(0) }
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0.value
    }
}

impl<T: PartialEq> PartialEq for Shared<T> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.value == other.0.value
    }
}

impl<T: Eq> Eq for Shared<T> {}

impl<T: Hash> Hash for Shared<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let mut hash = self.0.hash.load(Ordering::Relaxed);
        if hash == 0 {
            hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(&self.0.value).max(1);
            self.0.hash.store(hash, Ordering::Relaxed);
        }
        state.write_u64(hash);
    }
}
