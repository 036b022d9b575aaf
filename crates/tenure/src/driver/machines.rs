//! Tables of what is under way.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Things by the id of a machine. Ids are counted up by ourselves, so nobody can choose them to collide.
pub(super) type Machines<K, V> = HashMap<K, V, BuildHasherDefault<IdHasher>>;

/// Leaves ids that follow each other side by side: locks that were acquired together are renewed together, and their
/// entries are found in memory that was just read.
#[derive(Default)]
pub(super) struct IdHasher(u64);

/// The table tells entries of one place apart by the highest bits, so the lowest are put there, too.
const HIGHEST_BITS: u32 = 57;

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
