//! Bytes as the files of a data directory. They are written as `docs/log-format.md` says and not by the code that is tested,
//! with checksums that match wherever the bytes do not ask for others: else a fuzzer would never get past the first.

use std::rc::Rc;

use crc32c::{crc32c, crc32c_append};

use crate::disk::Image;

pub(super) const SALT: u64 = 0x6a6f_6273;
/// All files together are no longer.
const IMAGE_BYTES_MAX: usize = 512 << 10;
const SEGMENT_HEADER_BYTES: usize = 4096;
const FRAME_HEADER_BYTES: usize = 80;
/// 2026-01-01T00:00:00Z.
const WALL_MS: i64 = 1_767_225_600_000;

/// What can come next.
mod kind {
    pub(super) const SEGMENT: u8 = 0;
    pub(super) const SEGMENT_AND_ZEROS: u8 = 1;
    pub(super) const RAW: u8 = 2;
    pub(super) const SPARE: u8 = 3;
    pub(super) const OTHER: u8 = 4;
    pub(super) const FLIP: u8 = 5;
    pub(super) const COUNT: u8 = 7;
}

/// What is otherwise than it should be in a segment's header.
mod header {
    pub(super) const ID: u8 = 1;
    pub(super) const FIRST: u8 = 2;
    pub(super) const SALT: u8 = 4;
    pub(super) const FORMAT: u8 = 8;
    pub(super) const RECYCLED: u8 = 16;
    pub(super) const CHAIN: u8 = 32;
    pub(super) const EPOCH: u8 = 64;
    pub(super) const CRC: u8 = 128;
}

/// What is otherwise than usual in a frame.
mod frame {
    pub(super) const POSITION: u8 = 1;
    pub(super) const EPOCH: u8 = 2;
    pub(super) const PROVEN: u8 = 4;
    pub(super) const CHAIN: u8 = 8;
    pub(super) const CRC: u8 = 16;
    pub(super) const LENGTH: u8 = 32;
    pub(super) const PAYLOAD_CRC: u8 = 64;
    pub(super) const TIME: u8 = 128;
}

/// What is otherwise than usual in a manifest.
mod manifest {
    pub(super) const NONE: u8 = 1;
    pub(super) const NEWEST: u8 = 2;
    pub(super) const NUMBERS: u8 = 4;
    pub(super) const CLEAN: u8 = 8;
    pub(super) const DAMAGED: u8 = 16;
    pub(super) const CRC: u8 = 32;
    pub(super) const RAW: u8 = 64;
}

/// Takes values off the front of bytes; zeros at the end.
pub(super) struct Source<'a>(pub &'a [u8]);

impl<'a> Source<'a> {
    pub fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }

    /// A number: mostly a small one, sometimes one that is almost too large.
    fn number(&mut self) -> u64 {
        const LARGE: [u64; 8] =
            [1 << 16, 1 << 32, (1 << 61) - 1, 1 << 61, (1 << 62) - 2, (1 << 62) - 1, 1 << 62, u64::MAX];
        match self.byte() {
            large @ 248.. => LARGE[usize::from(large - 248)],
            small => u64::from(small),
        }
    }

    fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// Bytes that say in two bytes how many they are.
    fn bytes(&mut self) -> &'a [u8] {
        let count = u16::from_le_bytes([self.byte(), self.byte()]);
        self.take(usize::from(count))
    }
}

/// Makes the files that the bytes ask for.
pub(super) fn image_of(source: &mut Source<'_>) -> Image {
    let manifest_flags = source.byte();
    let mut maker = Maker { image: Image::new(), first_id: source.number().clamp(1, 1 << 61), ..Maker::default() };
    maker.id = maker.first_id;
    maker.position = source.number();
    maker.engine_ms = source.number();
    let manifest = Source(source.take(16));
    while !source.0.is_empty() && maker.bytes < IMAGE_BYTES_MAX {
        maker.file(source);
    }
    maker.manifest(manifest_flags, manifest);
    maker.image
}

#[derive(Default)]
struct Maker {
    image: Image,
    first_id: u64,
    /// That of the next segment.
    id: u64,
    /// That of the last frame.
    position: u64,
    epoch: u64,
    crc: u32,
    engine_ms: u64,
    bytes: usize,
}

impl Maker {
    fn put(&mut self, name: String, bytes: Vec<u8>) {
        self.bytes += bytes.len() + 64;
        self.image.insert(name, Rc::new(bytes));
    }

    fn file(&mut self, source: &mut Source<'_>) {
        let kind = source.byte() % kind::COUNT;
        let name = format!("{:020}.log", self.id);
        match kind {
            kind::SEGMENT | kind::SEGMENT_AND_ZEROS => {
                let mut bytes = self.segment(source);
                if kind == kind::SEGMENT_AND_ZEROS {
                    bytes.resize(bytes.len().next_multiple_of(8 << 10), 0);
                }
                self.put(name, bytes);
                self.id += 1;
            }
            kind::RAW => {
                self.put(name, source.bytes().to_vec());
                self.id += 1;
            }
            kind::SPARE => {
                let name = format!("spare-{}.log", source.number());
                let mut bytes = source.bytes().to_vec();
                bytes.resize(8 << 10, 0);
                self.put(name, bytes);
            }
            kind::OTHER => {
                const NAMES: [&str; 6] = [
                    "manifest.new",
                    "00000000000000000002.new",
                    "lock",
                    "spare-1.new",
                    "x",
                    "99999999999999999999.log",
                ];
                let name = NAMES[usize::from(source.byte()) % NAMES.len()];
                self.put(name.to_owned(), source.bytes().to_vec());
            }
            kind::FLIP => self.flip(source),
            // One is missing.
            _ => self.id += 1,
        }
    }

    /// A byte of some file is not what it was.
    fn flip(&mut self, source: &mut Source<'_>) {
        let at = usize::from(u16::from_le_bytes([source.byte(), source.byte()]));
        let (file, bits) = (usize::from(source.byte()), source.byte());
        let count = self.image.len().max(1);
        if let Some(bytes) = self.image.values_mut().nth(file % count)
            && let Some(byte) = Rc::make_mut(bytes).get_mut(at)
        {
            *byte ^= bits;
        }
    }

    fn segment(&mut self, source: &mut Source<'_>) -> Vec<u8> {
        let flags = source.byte();
        let mut other = |flag: u8, usual: u64| if flags & flag == 0 { usual } else { source.number() };
        let (id, first) = (other(header::ID, self.id), other(header::FIRST, self.position.wrapping_add(1)));
        let (salt, epoch) = (other(header::SALT, SALT), other(header::EPOCH, self.epoch));
        let (format, crc) = (other(header::FORMAT, 1), other(header::CHAIN, u64::from(self.crc)));
        self.position = first.wrapping_sub(1);
        let mut block = b"JYSEG\0\0\0".to_vec();
        block.extend_from_slice(&format.to_le_bytes()[..4]);
        block.extend_from_slice(&u32::from(flags & header::RECYCLED != 0).to_le_bytes());
        for number in [salt, id, first, epoch] {
            block.extend_from_slice(&number.to_le_bytes());
        }
        block.extend_from_slice(&crc.to_le_bytes()[..4]);
        block.resize(SEGMENT_HEADER_BYTES - 4, 0);
        let crc = crc32c(&block) ^ u32::from(flags & header::CRC != 0);
        block.extend_from_slice(&crc.to_le_bytes());
        for _ in 0..source.byte() {
            self.frame(source, &mut block);
        }
        block
    }

    fn frame(&mut self, source: &mut Source<'_>, out: &mut Vec<u8>) {
        let flags = source.byte();
        let payload = source.bytes();
        let mut other = |flag: u8, usual: u64| if flags & flag == 0 { usual } else { source.number() };
        let position = other(frame::POSITION, self.position.wrapping_add(1));
        let epoch = other(frame::EPOCH, self.epoch.max(1));
        let proven = other(frame::PROVEN, position.wrapping_sub(1));
        let previous = other(frame::CHAIN, u64::from(self.crc));
        let len = payload.len() as u64 + other(frame::LENGTH, 0) % (1 << 32);
        let payload_crc = crc32c(payload) ^ u32::from(flags & frame::PAYLOAD_CRC != 0);
        self.engine_ms = self.engine_ms.saturating_add(other(frame::TIME, 0));
        let wall_ms = WALL_MS.saturating_add_unsigned(self.engine_ms);
        let mut head = SALT.to_le_bytes().to_vec();
        head.extend_from_slice(&[0; 4]);
        head.extend_from_slice(&payload_crc.to_le_bytes());
        head.extend_from_slice(&previous.to_le_bytes()[..4]);
        head.extend_from_slice(&len.to_le_bytes()[..4]);
        for number in [position, proven, epoch, self.engine_ms, wall_ms.cast_unsigned(), self.engine_ms, 1] {
            head.extend_from_slice(&number.to_le_bytes());
        }
        debug_assert_eq!(head.len(), FRAME_HEADER_BYTES);
        let crc = crc32c_append(crc32c(&head[..8]), &head[12..]) ^ u32::from(flags & frame::CRC != 0);
        head[8..12].copy_from_slice(&crc.to_le_bytes());
        out.extend_from_slice(&head);
        out.extend_from_slice(payload);
        (self.position, self.epoch, self.crc) = (position, epoch, crc);
    }

    fn manifest(&mut self, flags: u8, mut source: Source<'_>) {
        if flags & manifest::NONE != 0 {
            return;
        }
        let mut other = |flag: u8, usual: u64| if flags & flag == 0 { usual } else { source.number() };
        let newest = other(manifest::NEWEST, self.id.saturating_sub(1).max(self.first_id));
        let (epoch, proven) = (other(manifest::NUMBERS, self.epoch), other(manifest::NUMBERS, 0));
        let (format, first) = (other(manifest::NUMBERS, 1), self.first_id);
        let clean = if flags & manifest::CLEAN == 0 { "no" } else { "yes" };
        let mut text = format!(
            "jobyard log\nformat {format}\nsalt {SALT:016x}\nepoch {epoch}\nfirst {first}\nnewest {newest}\nproven {proven}\n\
             clean {clean}\n"
        )
        .into_bytes();
        if flags & manifest::DAMAGED != 0 {
            let (from, to) = (other(manifest::DAMAGED, 0), other(manifest::DAMAGED, 0));
            text.extend_from_slice(format!("damaged {from} {to}\n").as_bytes());
        }
        if flags & manifest::RAW != 0 {
            text.extend_from_slice(source.0);
        }
        let crc = crc32c(&text) ^ u32::from(flags & manifest::CRC != 0);
        text.extend_from_slice(format!("crc {crc:08x}\n").as_bytes());
        self.put("manifest".to_owned(), text);
    }
}

/// The bytes of which [`image_of`] makes a log with one segment that holds these batches, the first of them at this position.
pub(super) fn seed_of(first: u64, payloads: &[Vec<u8>]) -> Vec<u8> {
    let before = u8::try_from(first.saturating_sub(1).min(247)).unwrap_or(0);
    let mut seed = vec![0, 1, before, 0];
    seed.extend_from_slice(&[0; 16]);
    seed.extend_from_slice(&[kind::SEGMENT_AND_ZEROS, 0]);
    seed.push(u8::try_from(payloads.len()).unwrap_or(u8::MAX));
    for payload in payloads.iter().take(usize::from(u8::MAX)) {
        seed.push(0);
        seed.extend_from_slice(&u16::try_from(payload.len()).unwrap_or(u16::MAX).to_le_bytes());
        seed.extend_from_slice(&payload[..payload.len().min(usize::from(u16::MAX))]);
    }
    seed
}
