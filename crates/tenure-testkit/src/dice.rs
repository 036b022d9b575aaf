//! The dice of one run: the same seed, the same throws.

/// `SplitMix64`: small, fast, and every seed gives a sequence of its own.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// Dice that throw what this seed says.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        // Neighbouring seeds must not begin alike.
        let mut dice = Self(seed ^ 0x7465_6e75_7265_2121);
        dice.next();
        dice
    }

    /// Any number.
    #[expect(clippy::should_implement_trait, reason = "it never ends")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 up to, not including, `end`; 0 if `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        let wide = u128::from(self.next()) * u128::from(end);
        u64::try_from(wide >> 64).unwrap_or(0)
    }

    /// A number of `low..=high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low).saturating_add(1))
    }

    /// True in `percent` of a hundred throws.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// An index into something of this length.
    pub fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap_or(0)
    }

    /// One of these.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.index(from.len())]
    }

    /// `count` different indexes into something of this length, in order.
    pub fn some_of(&mut self, len: usize, count: usize) -> Vec<usize> {
        let mut all: Vec<usize> = (0..len).collect();
        while all.len() > count {
            all.remove(self.index(all.len()));
        }
        all
    }
}
