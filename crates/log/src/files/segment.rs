//! A segment's file: what it is called, and its first block, which says where it belongs.

use crc32c::crc32c;

use super::format::CURRENT;
use super::volume::{self, ReadDisk, ReadFile};
use crate::disk::DiskFile;
use crate::error::LogError;
use crate::frame::{Damage, Fields, Header, NUMBER_MAX};
use crate::log::Position;

/// Bytes before a segment's first frame: one block of every disk there is, so that no frame shares it.
pub(crate) const HEADER_BYTES: u64 = 4096;
const HEADER_LEN: usize = 4096;
const CRC_AT: usize = HEADER_LEN - 4;
const MAGIC: [u8; 8] = *b"JYSEG\0\0\0";

/// What a segment's first block says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// The format of its frames.
    pub format: u32,
    /// With what each of its frames begins.
    pub salt: u64,
    /// Its id.
    pub id: u64,
    /// The position of its first batch.
    pub first: Position,
    /// The epoch of the batch before that.
    pub epoch_before: u64,
    /// The header CRC of the batch before that.
    pub crc_before: u32,
    /// Whether its file was one of another segment before, and may hold what that one held.
    pub recycled: bool,
}

impl SegmentHeader {
    /// That of a segment in the present format whose first frame follows `before`.
    pub(crate) fn behind(before: &Header, salt: u64, id: u64, recycled: bool) -> SegmentHeader {
        SegmentHeader {
            format: CURRENT.version,
            salt,
            id,
            first: before.position + 1,
            epoch_before: before.epoch,
            crc_before: before.previous_crc,
            recycled,
        }
    }

    /// Whether the segment begins where the one before it ended, which was with this frame.
    pub(crate) fn follows(&self, last: &Header) -> Result<(), Damage> {
        let expected = last.position + 1;
        if self.first != expected {
            Err(Damage::Position { expected, found: self.first })
        } else if self.crc_before != last.previous_crc {
            Err(Damage::Chain)
        } else if self.epoch_before != last.epoch {
            Err(Damage::Epoch)
        } else {
            Ok(())
        }
    }

    /// What its first frame must follow: as [`crate::frame::follows`] wants it.
    pub(crate) fn before(&self) -> Header {
        let position = self.first - 1;
        Header { epoch: self.epoch_before, position, proven: position, previous_crc: self.crc_before }
    }

    /// The block: magic 8, format 4, recycled 4, salt 8, id 8, first position 8, epoch before 8, CRC before 4, zeros, and in
    /// the last 4 bytes the CRC32C of all before them. All integers are little-endian.
    pub(crate) fn to_block(self) -> Vec<u8> {
        let mut block = Vec::with_capacity(HEADER_LEN);
        block.extend_from_slice(&MAGIC);
        block.extend_from_slice(&self.format.to_le_bytes());
        block.extend_from_slice(&u32::from(self.recycled).to_le_bytes());
        block.extend_from_slice(&self.salt.to_le_bytes());
        block.extend_from_slice(&self.id.to_le_bytes());
        block.extend_from_slice(&self.first.to_le_bytes());
        block.extend_from_slice(&self.epoch_before.to_le_bytes());
        block.extend_from_slice(&self.crc_before.to_le_bytes());
        block.resize(CRC_AT, 0);
        let crc = crc32c(&block);
        block.extend_from_slice(&crc.to_le_bytes());
        block
    }

    fn from_block(block: &[u8]) -> Result<SegmentHeader, &'static str> {
        if block.len() < HEADER_LEN {
            return Err("is shorter than a segment's header");
        }
        let mut fields = Fields(block);
        if fields.take() != MAGIC {
            return Err("does not begin as a segment does");
        }
        if Fields(&block[CRC_AT..]).u32() != crc32c(&block[..CRC_AT]) {
            return Err("has a header that does not match its checksum");
        }
        let (format, recycled) = (fields.u32(), fields.u32() != 0);
        let (salt, id, first, epoch_before) = (fields.u64(), fields.u64(), fields.u64(), fields.u64());
        if first == 0 || [id, first, epoch_before].iter().any(|number| *number >= NUMBER_MAX) {
            return Err("has a header that says what cannot be");
        }
        Ok(SegmentHeader { format, salt, id, first, epoch_before, crc_before: fields.u32(), recycled })
    }

    /// Reads a segment's header, whatever segment that is.
    pub(crate) fn read<F: ReadFile>(file: &F, name: &str) -> Result<SegmentHeader, LogError> {
        let mut block = [0; HEADER_LEN];
        let there = volume::read(file, name, 0, &mut block)?;
        SegmentHeader::from_block(&block[..there]).map_err(|why| wrong(name, why))
    }

    /// As [`SegmentHeader::read`], but what the disk cannot read is damage like any other.
    pub(crate) fn read_what_can_be<F: ReadFile>(file: &F, name: &str) -> Result<SegmentHeader, LogError> {
        let mut block = [0; HEADER_LEN];
        let there = volume::read_what_can_be(file, 0, &mut block);
        SegmentHeader::from_block(&block[..there]).map_err(|why| wrong(name, why))
    }

    /// Whether it is the header of this segment of the log.
    pub(crate) fn check(&self, format: u32, salt: u64, id: u64) -> Result<(), LogError> {
        let name = name_of(id);
        if self.id != id {
            return Err(wrong(&name, &format!("has the header of segment {}", self.id)));
        }
        if self.salt != salt {
            return Err(wrong(&name, "belongs to another log"));
        }
        if self.format != format {
            return Err(wrong(&name, &format!("is of format {}, the log of format {format}", self.format)));
        }
        Ok(())
    }

    pub(crate) fn write<F: DiskFile>(self, file: &mut F, name: &str) -> Result<(), LogError> {
        volume::write(file, name, 0, &self.to_block())
    }
}

fn wrong(file: &str, why: &str) -> LogError {
    LogError::SegmentHeader { file: file.into(), why: why.into() }
}

/// Opens a segment's file, whatever it holds.
pub(crate) fn open_file<D: ReadDisk>(disk: &mut D, id: u64) -> Result<D::File, LogError> {
    let file = name_of(id);
    match volume::open_if_there(disk, &file) {
        Ok(there) => there.ok_or(LogError::MissingSegment { file }),
        Err(LogError::Disk { kind: std::io::ErrorKind::IsADirectory, .. }) => Err(wrong(&file, "is a directory")),
        Err(error) => Err(error),
    }
}

/// Opens a segment of the log and checks that it is the right one.
pub(crate) fn open<D: ReadDisk>(
    disk: &mut D,
    (format, salt, id): (u32, u64, u64),
) -> Result<(D::File, SegmentHeader), LogError> {
    let (name, file) = (name_of(id), open_file(disk, id)?);
    let header = SegmentHeader::read(&file, &name)?;
    header.check(format, salt, id)?;
    Ok((file, header))
}

/// Whether this is a log's first segment and no frame was ever written to it: the manifest, which comes last, may be missing.
pub(crate) fn is_unused_first<D: ReadDisk>(disk: &mut D, name: &str) -> Result<bool, LogError> {
    if id_of(name) != Some(1) {
        return Ok(false);
    }
    let file = volume::open(disk, name)?;
    Ok(volume::read_rest(&file, name, HEADER_BYTES)?.iter().all(|byte| *byte == 0))
}

/// Whether a spare can hold nothing but frames from before this segment: its first block is zeros, or the header of a segment
/// of the same log that came before. Those of a later time are there if a backup was restored beside them.
pub(crate) fn is_before<F: ReadFile>(spare: &F, name: &str, newest: &SegmentHeader) -> Result<bool, LogError> {
    let mut block = [0; HEADER_LEN];
    let there = volume::read(spare, name, 0, &mut block)?;
    Ok(match SegmentHeader::from_block(&block[..there]) {
        Ok(header) => header.salt == newest.salt && header.first < newest.first,
        Err(_) => block.iter().all(|byte| *byte == 0),
    })
}

/// The name of a segment's file.
pub(crate) fn name_of(id: u64) -> String {
    format!("{id:020}.log")
}

/// The name under which a segment's file is made.
pub(crate) fn new_name_of(id: u64) -> String {
    format!("{id:020}.new")
}

/// The name of a segment's file that is kept aside.
pub(crate) fn damaged_name_of(id: u64) -> String {
    format!("damaged-{id:020}.log")
}

/// Which segment's file this is, if it is one.
pub(crate) fn id_of(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".log")?;
    let right = digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit());
    if right { digits.parse().ok() } else { None }
}

/// Which spare this is, if it is one.
pub(crate) fn spare_number_of(name: &str) -> Option<u64> {
    let number = name.strip_prefix("spare-")?.strip_suffix(".log")?.parse().ok()?;
    // The next one's number is larger by one. What no server has named is not its spare.
    (number < NUMBER_MAX && spare_name_of(number) == name).then_some(number)
}

/// The name of a spare.
pub(crate) fn spare_name_of(number: u64) -> String {
    format!("spare-{number}.log")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::test_disk::TestDisk;

    const HEADER: SegmentHeader =
        SegmentHeader { format: 1, salt: 42, id: 7, first: 100, epoch_before: 3, crc_before: 99, recycled: true };

    #[test]
    fn a_header_comes_back_as_it_was() {
        let block = HEADER.to_block();
        assert_eq!(block.len() as u64, HEADER_BYTES);
        assert_eq!(SegmentHeader::from_block(&block), Ok(HEADER));
        assert_eq!(HEADER.check(1, 42, 7), Ok(()));
        for (format, salt, id) in [(2, 42, 7), (1, 43, 7), (1, 42, 8)] {
            assert!(HEADER.check(format, salt, id).is_err());
        }
    }

    #[test]
    fn a_header_follows_from_what_it_was_made_behind_and_from_nothing_else() {
        let last = Header { epoch: 3, position: 99, proven: 98, previous_crc: 77 };
        let header = SegmentHeader::behind(&last, 42, 7, false);
        assert_eq!(header.follows(&last), Ok(()));
        assert_eq!(header.follows(&header.before()), Ok(()));
        let position = Damage::Position { expected: 99, found: 100 };
        assert_eq!(header.follows(&Header { position: 98, ..last }), Err(position));
        assert_eq!(header.follows(&Header { previous_crc: 78, ..last }), Err(Damage::Chain));
        assert_eq!(header.follows(&Header { epoch: 2, ..last }), Err(Damage::Epoch));
        let first = SegmentHeader::behind(&Header::default(), 42, 1, false);
        assert_eq!((first.first, first.epoch_before, first.crc_before), (1, 0, 0));
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        let block = HEADER.to_block();
        for bit in 0..block.len() * 8 {
            let mut block = block.clone();
            block[bit / 8] ^= 1 << (bit % 8);
            assert!(SegmentHeader::from_block(&block).is_err(), "bit {bit}");
        }
        assert!(SegmentHeader::from_block(&block[..HEADER_LEN - 1]).is_err());
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        assert_eq!(name_of(7), "00000000000000000007.log");
        assert_eq!(id_of(&name_of(u64::MAX)), Some(u64::MAX));
        for other in ["7.log", "0000000000000000000x.log", "99999999999999999999.log", &damaged_name_of(7), "manifest"]
        {
            assert_eq!(id_of(other), None, "{other}");
        }
        assert_eq!(spare_number_of(&spare_name_of(12)), Some(12));
        for other in
            [&name_of(12), &spare_name_of(NUMBER_MAX), &spare_name_of(u64::MAX), "spare-+1.log", "spare-01.log"]
        {
            assert_eq!(spare_number_of(other), None, "{other}");
        }
    }

    #[test]
    fn a_header_that_no_server_writes_is_refused() {
        let most = NUMBER_MAX - 1;
        let possible = [
            SegmentHeader { first: 1, ..HEADER },
            SegmentHeader { id: most, first: most, epoch_before: most, ..HEADER },
        ];
        let impossible = [
            SegmentHeader { first: 0, ..HEADER },
            SegmentHeader { first: NUMBER_MAX, ..HEADER },
            SegmentHeader { id: NUMBER_MAX, ..HEADER },
            SegmentHeader { epoch_before: NUMBER_MAX, ..HEADER },
        ];
        for header in possible {
            assert_eq!(SegmentHeader::from_block(&header.to_block()), Ok(header));
        }
        for header in impossible {
            let refused = Err("has a header that says what cannot be");
            assert_eq!(SegmentHeader::from_block(&header.to_block()), refused, "{header:?}");
        }
    }

    #[test]
    fn a_spare_is_from_before_a_segment_if_it_is_empty_or_says_so() {
        let of = |salt, first| SegmentHeader { salt, first, ..HEADER }.to_block();
        let spares = [
            ("empty", vec![0; 9000], true),
            ("shorter than a header", vec![0; 10], true),
            ("of no segment", vec![1; 9000], false),
            ("of the one before", of(42, 99), true),
            ("of the same", of(42, 100), false),
            ("of the one behind", of(42, 101), false),
            ("of another log", of(43, 99), false),
        ];
        for (what, bytes, before) in spares {
            let mut disk = TestDisk::new();
            disk.put("spare", &bytes);
            let file = volume::open(&mut disk, "spare").unwrap();
            assert_eq!(is_before(&file, "spare", &HEADER), Ok(before), "{what}");
        }
    }

    #[test]
    fn a_segment_is_made_under_a_name_of_its_own() {
        assert_eq!(new_name_of(7), "00000000000000000007.new");
    }
}
