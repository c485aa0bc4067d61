//! How keys are hashed: what clients choose meets a seed they cannot know; what we count ourselves
//! needs no more than mixing.

use std::collections::hash_map::DefaultHasher;
use std::hash::{BuildHasher, Hasher};

/// SipHash with a seed that is given, not drawn: randomness is an argument.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seeded(pub(crate) u64);

impl BuildHasher for Seeded {
    type Hasher = DefaultHasher;

    fn build_hasher(&self) -> DefaultHasher {
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(self.0);
        hasher
    }
}

/// For numbers that the server counts itself: one multiplication.
#[derive(Clone, Copy, Debug, Default)]
pub struct ByNumber;

impl BuildHasher for ByNumber {
    type Hasher = NumberHasher;

    fn build_hasher(&self) -> NumberHasher {
        NumberHasher(0)
    }
}

/// The hasher of [`ByNumber`].
#[derive(Clone, Copy, Debug)]
pub struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        // The table takes its buckets from the lower bits and its tags from the upper ones: the two halves of the
        // product are folded, so that both differ for neighbours, and for numbers that are multiples of one another.
        let product = u128::from(self.0 ^ number) * 0x9e37_79b9_7f4a_7c15;
        #[expect(clippy::cast_possible_truncation, reason = "the halves are what is wanted")]
        let folded = (product >> 64) as u64 ^ product as u64;
        self.0 = folded;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn numbers_of_one_shard_differ_in_their_lower_and_upper_bits() {
        let hashes: Vec<u64> = (0..4096_u64).map(|n| ByNumber.hash_one(n * 256)).collect();
        let tags: BTreeSet<u64> = hashes.iter().map(|hash| hash >> 57).collect();
        let buckets: BTreeSet<u64> = hashes.iter().map(|hash| hash & 4095).collect();
        assert_eq!(tags.len(), 128);
        assert!(buckets.len() > 2400, "{} of 4096", buckets.len());
    }
}
