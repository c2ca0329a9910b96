//! Numbers for property tests: as good as random, and the same in every run.

/// A xorshift generator with 64 bits of state.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// The series of that number.
    pub fn new(series: u64) -> Dice {
        Dice(series.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number from 0 to `sides - 1`.
    pub fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as usize % sides
    }
}
