//! What things are called: queues, jobs (by number or UUID), leases, clients.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

/// A queue's name: any bytes, also none. Each protocol narrows this at its edge. Its copies share them: a name may be long.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueueName(Arc<[u8]>);

impl QueueName {
    /// The queue called `name`.
    #[must_use]
    pub fn new(name: &[u8]) -> Self {
        QueueName(name.into())
    }

    /// The name's bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Borrow<[u8]> for QueueName {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for QueueName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

/// A job's number: counted from 1, never given twice once anyone has seen it.
pub type JobNumber = u64;

/// One connection, for as long as it lasts. Never reused within a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientId(pub u64);

/// One lease of one job. Never reused, not even after a restart: its upper bits are the log's epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LeaseId(pub u64);

/// A job's UUID: its client's own, or made from the job's number.
///
/// A made one spells `jobyard` in its first 58 free bits and holds the number in the other 64, with
/// version 4 and the variant where RFC 4122 wants them: `6a6f6279-6172-4640-8000-000000000001` is job 1.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Uuid(pub u128);

const TAG: u128 = 0x6a6f_6279_6172_4640_8000_0000_0000_0000;
const TAG_MASK: u128 = 0xffff_ffff_ffff_fffc_c000_0000_0000_0000;
const LOW_BITS: u32 = 62;

impl Uuid {
    /// The UUID of a job that was put without one.
    #[must_use]
    pub fn of_number(number: JobNumber) -> Self {
        let low = number & ((1 << LOW_BITS) - 1);
        let high = number >> LOW_BITS;
        Uuid(TAG | u128::from(high) << 64 | u128::from(low))
    }

    /// The number that [`Uuid::of_number`] was given, if this is such a UUID.
    #[must_use]
    pub fn number(self) -> Option<JobNumber> {
        if self.0 & TAG_MASK != TAG {
            return None;
        }
        let low = self.0 & ((1 << LOW_BITS) - 1);
        let high = (self.0 >> 64) & 3;
        u64::try_from(high << LOW_BITS | low).ok()
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hex = self.0;
        write!(
            f,
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            hex >> 96,
            hex >> 80 & 0xffff,
            hex >> 64 & 0xffff,
            hex >> 48 & 0xffff,
            hex & 0xffff_ffff_ffff
        )
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_made_uuid_gives_its_number_back() {
        for number in [1, 2, 255, 1 << 61, 1 << 62, 1 << 63, u64::MAX] {
            assert_eq!(Uuid::of_number(number).number(), Some(number));
        }
    }

    #[test]
    fn a_made_uuid_is_version_4_of_the_usual_variant() {
        for number in [1, u64::MAX] {
            let text = Uuid::of_number(number).to_string();
            assert_eq!(&text[14..15], "4", "{text}");
            assert!("89ab".contains(&text[19..20]), "{text}");
        }
    }

    #[test]
    fn another_uuid_has_no_number() {
        assert_eq!(Uuid(0x6ba7_b810_9dad_11d1_80b4_00c0_4fd4_30c4).number(), None);
    }

    #[test]
    fn the_tag_spells_the_name() {
        assert_eq!(Uuid::of_number(1).to_string(), "6a6f6279-6172-4640-8000-000000000001");
    }
}
