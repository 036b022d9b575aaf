//! A part of a state that is shared between states until it changes, and remembers its hash: a step
//! changes few parts, and most of a search is hashing.

use std::hash::{Hash, Hasher};
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
            let mut hasher = PartHasher::default();
            self.0.value.hash(&mut hasher);
            hash = hasher.finish().max(1);
            self.0.hash.store(hash, Ordering::Relaxed);
        }
        state.write_u64(hash);
    }
}

/// Multiplies and folds, as wyhash does: parts are large, and nobody chooses them to collide.
struct PartHasher(u64);

const FIRST: u64 = 0x9e37_79b9_7f4a_7c15;
const SECOND: u64 = 0xa076_1d64_78bd_642f;

fn fold(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other);
    let (low, high) = (product & u128::from(u64::MAX), product >> u64::BITS);
    u64::try_from(low ^ high).expect("both halves have 64 bits")
}

impl Default for PartHasher {
    fn default() -> Self {
        Self(SECOND)
    }
}

impl Hasher for PartHasher {
    fn finish(&self) -> u64 {
        fold(self.0 ^ FIRST, SECOND)
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
        self.write_usize(bytes.len());
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = fold(self.0 ^ number, FIRST).wrapping_add(number);
    }

    fn write_u8(&mut self, number: u8) {
        self.write_u64(u64::from(number));
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::hash::DefaultHasher;

    use super::*;

    fn hash(value: impl Hash) -> u64 {
        let mut hasher = DefaultHasher::new();
        Shared::new(value).hash(&mut hasher);
        hasher.finish()
    }

    #[test]
    fn parts_that_differ_a_little_have_hashes_of_their_own() {
        let times = (0..300_u64).flat_map(|one| (0..300_u64).map(move |other| (one * 50, other * 50)));
        let hashes: BTreeSet<u64> = times.clone().map(hash).collect();
        assert_eq!(hashes.len(), times.count());
        assert_ne!(hash("ab"), hash("abc"));
        assert_ne!(hash(vec![0_u8; 7]), hash(vec![0_u8; 8]));
        assert_ne!(hash((Some(1_u32), None::<u32>)), hash((None::<u32>, Some(1_u32))));
    }

    #[test]
    fn a_part_that_is_changed_forgets_its_hash_and_leaves_others_as_they_are() {
        let mut part = Shared::new(7_u64);
        let (other, before) = (part.clone(), hash(7_u64));
        let mut hasher = DefaultHasher::new();
        part.hash(&mut hasher);
        *part.change() += 1;
        assert_eq!((*part, *other), (8, 7));
        let mut hasher = DefaultHasher::new();
        part.hash(&mut hasher);
        assert_ne!(hasher.finish(), before);
    }
}
