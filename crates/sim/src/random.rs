//! Repeatable randomness, for whatever a test leaves to chance.

/// Steele, Lea and Flood's generator: every seed is good, and the same seed gives the same.
pub fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// A number below `end`, which is not 0.
pub fn below(state: &mut u64, end: usize) -> usize {
    let wide = u128::from(splitmix(state)) * end as u128;
    usize::try_from(wide >> 64).expect("the product of a fraction and a usize is below it")
}

/// Heads or tails.
pub fn coin(state: &mut u64) -> bool {
    splitmix(state) >> 63 == 1
}

/// A number that is the same whenever all that was added was the same, in the same order.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Digest(u64);

impl Digest {
    /// Adds something of a kind.
    pub fn add(&mut self, kind: u8, bytes: &[u8]) {
        let mut digest = self.0 ^ u64::from(kind);
        for byte in bytes {
            digest = (digest ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
        self.0 = digest.rotate_left(17);
    }

    /// The number.
    pub fn value(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_below_comes_and_no_other() {
        let mut state = 7;
        let mut seen = [0; 5];
        (0..1_000).for_each(|_| seen[below(&mut state, 5)] += 1);
        assert!(seen.iter().all(|&count| (140..=260).contains(&count)), "{seen:?}");
        let heads = (0..1_000).filter(|_| coin(&mut state)).count();
        assert!((430..=570).contains(&heads), "{heads}");
    }
}
