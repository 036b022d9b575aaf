//! The dice of one history: the same seed, the same throws.

/// `SplitMix64`: small, fast, and every seed gives a sequence of its own.
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        // Neighbouring seeds must not begin alike.
        let mut dice = Self(seed ^ 0x7465_6e75_7265_2121);
        dice.next();
        dice
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 up to, not including, `end`; 0 if `end` is 0.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        let wide = u128::from(self.next()) * u128::from(end);
        u64::try_from(wide >> 64).unwrap_or(0)
    }

    /// A number of `low..=high`.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low).saturating_add(1))
    }

    /// A number of `-bound..=bound`.
    pub(crate) fn around_zero(&mut self, bound: u64) -> i64 {
        self.between(0, 2 * bound).cast_signed() - bound.cast_signed()
    }

    /// A number of `low..=high`, small ones as likely as large ones.
    pub(crate) fn of_any_size(&mut self, low: u64, high: u64) -> u64 {
        let doublings = (high / low.max(1)).checked_ilog2().unwrap_or(0);
        let top = low.saturating_mul(2 << self.below(u64::from(doublings) + 1)).min(high);
        self.between((top / 2).max(low), top)
    }

    /// True in `per_mille` of a thousand throws.
    pub(crate) fn chance(&mut self, per_mille: u64) -> bool {
        self.below(1_000) < per_mille
    }

    pub(crate) fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap_or(0)
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.index(from.len())]
    }
}
