//! All chance of the simulation: one series of numbers for each seed.

use std::time::Duration;

/// A SplitMix64 generator.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// The series of a seed.
    pub fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform over all of `u32`.
    pub fn number(&mut self) -> u32 {
        (self.next() >> 32) as u32
    }

    /// From `least` to `most`, both included.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.next() % (most - least + 1)
    }

    /// Whether something of so many in a thousand happens.
    pub fn permille(&mut self, chance: u32) -> bool {
        self.between(1, 1000) <= u64::from(chance)
    }

    /// One of these.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.between(0, of.len() as u64 - 1) as usize]
    }

    /// So many milliseconds.
    pub fn ms(&mut self, least: u64, most: u64) -> Duration {
        Duration::from_millis(self.between(least, most))
    }

    /// Short mostly, long at times: from `least` to `most` milliseconds, evenly over the powers of two.
    pub fn skewed_ms(&mut self, least: u64, most: u64) -> Duration {
        let doublings = (most / least).max(1).ilog2();
        let top = least << self.between(0, u64::from(doublings));
        self.ms(least, top.max(least).min(most))
    }
}
