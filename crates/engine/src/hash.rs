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
pub(crate) struct Counted;

impl BuildHasher for Counted {
    type Hasher = CountedHasher;

    fn build_hasher(&self) -> CountedHasher {
        CountedHasher(0)
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct CountedHasher(u64);

impl Hasher for CountedHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        // The golden ratio spreads neighbours over the upper bits, the swap brings these down.
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15).swap_bytes();
    }
}
