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

/// For numbers that are given in order and spread over so many tables: what follows each other in a table stands beside
/// each other in memory, because jobs are put, read back and mostly taken in this order.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct InOrder<const TABLES: usize>;

impl<const TABLES: usize> BuildHasher for InOrder<TABLES> {
    type Hasher = InOrderHasher<TABLES>;

    fn build_hasher(&self) -> Self::Hasher {
        InOrderHasher(0)
    }
}

/// The hasher of [`InOrder`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct InOrderHasher<const TABLES: usize>(u64);

impl<const TABLES: usize> Hasher for InOrderHasher<TABLES> {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(self.0 << 8 | u64::from(byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        // The table takes its buckets from the lower bits, and its tags, in which neighbours must differ, from the
        // upper seven.
        const BUCKETS: u64 = u64::MAX >> 7;
        let index = number / TABLES as u64;
        self.0 = index & BUCKETS | index.wrapping_mul(0x9e37_79b9_7f4a_7c15) & !BUCKETS;
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

    #[test]
    fn numbers_in_order_have_neighbouring_buckets_and_other_tags() {
        let hashes: Vec<u64> = (1_000..2_000_u64).map(|n| InOrder::<256>.hash_one(n * 256 + 3)).collect();
        for pair in hashes.windows(2) {
            assert_eq!((pair[0] + 1) & 0xffff, pair[1] & 0xffff);
        }
        for group in hashes.chunks(16) {
            let tags: BTreeSet<u64> = group.iter().map(|hash| hash >> 57).collect();
            assert_eq!(tags.len(), group.len());
        }
    }

    #[test]
    fn what_clients_choose_meets_the_seed() {
        assert_ne!(Seeded(1).hash_one("name"), Seeded(2).hash_one("name"));
        assert_eq!(Seeded(1).hash_one("name"), Seeded(1).hash_one("name"));
    }

    #[test]
    fn bytes_are_hashed_one_after_the_other() {
        let by_number = |bytes: &[u8]| {
            let mut hasher = ByNumber.build_hasher();
            hasher.write(bytes);
            hasher.finish()
        };
        let in_order = |bytes: &[u8]| {
            let mut hasher = InOrder::<1>.build_hasher();
            hasher.write(bytes);
            hasher.finish()
        };
        for differs in [&[1, 2][..], &[2, 1], &[1], &[2], &[1, 2, 3], &[1, 3]] {
            assert!(differs == [1, 2] || by_number(differs) != by_number(&[1, 2]), "{differs:?}");
            assert!(differs == [1, 2] || in_order(differs) != in_order(&[1, 2]), "{differs:?}");
        }
    }
}
