//! Tables of what is under way.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Things by the id of a machine. Ids are counted up by ourselves, so nobody can choose them to collide.
pub(super) type Machines<K, V> = HashMap<K, V, BuildHasherDefault<IdHasher>>;

/// Spreads ids that follow each other over the whole range.
#[derive(Default)]
pub(super) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}
