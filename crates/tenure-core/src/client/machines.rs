//! Tables of what is under way.
#![expect(clippy::disallowed_types, reason = "wrapped: the order of the table is never seen")]

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};

/// Things by the id of a machine, found as fast as in any table. Ids are counted up by ourselves,
/// so nobody can choose them to collide.
///
/// Two tables with the same contents are equal and have the same hash, however they came about.
/// Whoever goes through one and does something for each entry takes [`Machines::keys`], which are
/// in order.
#[derive(Debug)]
pub(super) struct Machines<K, V>(HashMap<K, V, BuildHasherDefault<IdHasher>>);

/// Leaves ids that follow each other side by side: locks that were acquired together are renewed
/// together, and their entries are found in memory that was just read.
#[derive(Clone, Debug, Default)]
pub(super) struct IdHasher(u64);

/// The table tells entries of one place apart by the highest bits, so the lowest are put there,
/// too.
const HIGHEST_BITS: u32 = 57;

impl<K: Copy + Ord + Hash, V> Machines<K, V> {
    pub(super) fn get(&self, key: K) -> Option<&V> {
        self.0.get(&key)
    }

    pub(super) fn get_mut(&mut self, key: K) -> Option<&mut V> {
        self.0.get_mut(&key)
    }

    pub(super) fn insert(&mut self, key: K, value: V) {
        let before = self.0.insert(key, value);
        assert!(before.is_none(), "an id is used once");
    }

    pub(super) fn remove(&mut self, key: K) -> Option<V> {
        self.0.remove(&key)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The keys, in order.
    pub(super) fn keys(&self) -> Vec<K> {
        let mut keys: Vec<K> = self.0.keys().copied().collect();
        keys.sort_unstable();
        keys
    }

    /// The values in no order: for sums, and for questions that do not depend on it.
    pub(super) fn values(&self) -> impl Iterator<Item = &V> {
        self.0.values()
    }
}

impl<K, V> Default for Machines<K, V> {
    fn default() -> Self {
        Self(HashMap::default())
    }
}

/// Without room for what is no longer there.
impl<K: Copy + Eq + Hash, V: Clone> Clone for Machines<K, V> {
    fn clone(&self) -> Self {
        Self(if self.0.is_empty() { HashMap::default() } else { self.0.clone() })
    }
}

impl<K: Eq + Hash, V: PartialEq> PartialEq for Machines<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<K: Eq + Hash, V: Eq> Eq for Machines<K, V> {}

impl<K: Ord + Hash, V: Hash> Hash for Machines<K, V> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_usize(self.0.len());
        if self.0.len() <= 1 {
            return self.0.iter().for_each(|entry| entry.hash(state));
        }
        let mut entries: Vec<(&K, &V)> = self.0.iter().collect();
        entries.sort_unstable_by_key(|(key, _)| *key);
        entries.iter().for_each(|entry| entry.hash(state));
    }
}

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 << HIGHEST_BITS)
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32(u32::from(*byte)));
    }

    fn write_u32(&mut self, number: u32) {
        self.0 = (self.0.rotate_left(5) ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

#[cfg(test)]
mod tests {
    use std::hash::DefaultHasher;

    use super::*;

    #[test]
    fn equal_tables_have_one_hash_however_they_came_about() {
        let of = |keys: &[u64]| {
            let mut table = Machines::default();
            keys.iter().for_each(|key| table.insert(*key, key * 2));
            table
        };
        let hash = |table: &Machines<u64, u64>| {
            let mut hasher = DefaultHasher::new();
            table.hash(&mut hasher);
            hasher.finish()
        };
        let (one, mut other) = (of(&[1, 2, 3]), of(&[9, 3, 2, 1]));
        assert!(one != other && hash(&one) != hash(&other));
        other.remove(9);
        assert!(one == other && hash(&one) == hash(&other));
        assert_eq!(other.keys(), [1, 2, 3]);
    }
}
