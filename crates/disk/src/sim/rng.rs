//! The dice of the simulated disk: SplitMix64, so that a seed tells everything on every platform.

#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Rng(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `end`, which is small: the skew of a remainder does not matter here.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub fn coin(&mut self) -> bool {
        self.below(2) == 0
    }
}

/// What a crash does to a row of changes. Independent coins alone would hardly ever lose or keep all of
/// a long row, and both happen: so each row is thrown a mood first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mood {
    /// Nothing reached the device.
    Lost,
    /// Everything did.
    Kept,
    /// Each change has its own fate.
    Mixed,
}

impl Mood {
    pub fn draw(rng: &mut Rng) -> Self {
        match rng.below(8) {
            0 => Mood::Lost,
            1 => Mood::Kept,
            _ => Mood::Mixed,
        }
    }
}
