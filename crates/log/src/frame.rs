//! A batch as bytes: a header that proves itself, the batch before it and its payload; then the payload.
//!
//! Every frame begins with a salt that only the log knows, so that no payload, which may hold what a client chose, can
//! look like a frame.

use std::fmt;

use crc32c::{crc32c, crc32c_append};

use crate::log::{Batch, Moment, Position};

/// Bytes before a frame's payload.
///
/// All integers are little-endian: salt 8, header CRC 4, payload CRC 4, the previous frame's header CRC 4, payload length 4,
/// position 8, proven position 8, epoch 8, engine time 8, wall clock 8, the machine's own clock 8, which boot 8. The header
/// CRC is that of the salt and of all that follows the CRC itself.
pub const FRAME_HEADER_BYTES: usize = 80;

/// Positions, epochs and segments' ids never come near this: a server that wrote a million batches a second would need a
/// hundred thousand years. What says more was not written by one, and would only overflow something.
pub(crate) const NUMBER_MAX: u64 = 1 << 62;

/// What a frame's header says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// That of the claim under which it was written.
    pub epoch: u64,
    /// The batch's position.
    pub position: Position,
    /// All up to here was durable when this was written.
    pub proven: Position,
    /// The header CRC of the frame before this one. A header holds its payload's CRC, so this stands for all of it.
    pub previous_crc: u32,
}

impl Header {
    /// Whether a server can have written it: a batch comes behind all that it proves.
    fn is_possible(&self) -> bool {
        (1..NUMBER_MAX).contains(&self.position) && self.proven < self.position && self.epoch < NUMBER_MAX
    }
}

/// A frame that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// What its header says.
    pub header: Header,
    /// The batch.
    pub batch: Batch<'a>,
    /// What the next frame's `previous_crc` must be.
    pub crc: u32,
    /// How many bytes it takes.
    pub len: usize,
}

/// What is wrong with a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// The bytes end before it does.
    Cut,
    /// It does not begin as a frame does.
    NoFrame,
    /// Its header's checksum is wrong.
    Header,
    /// Its header says what cannot be.
    Impossible,
    /// Its payload's checksum is wrong.
    Payload,
    /// It is not the next one.
    Position {
        /// The next one's position.
        expected: Position,
        /// Its own.
        found: Position,
    },
    /// It does not follow from the one before it.
    Chain,
    /// It was written by an owner who had lost the log.
    Epoch,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Damage::Cut => write!(f, "the batch is cut off"),
            Damage::NoFrame => write!(f, "no batch begins here"),
            Damage::Header => write!(f, "the batch's header does not match its checksum"),
            Damage::Impossible => write!(f, "the batch's header says what cannot be"),
            Damage::Payload => write!(f, "the batch's payload does not match its checksum"),
            Damage::Position { expected, found } => write!(f, "expected batch {expected}, found batch {found}"),
            Damage::Chain => write!(f, "the batch does not follow from the one before it"),
            Damage::Epoch => write!(f, "the batch was written by a former owner of the log"),
        }
    }
}

/// Appends a batch's frame to `out`. Returns what the next frame's `previous_crc` must be.
///
/// # Panics
/// If the payload is longer than 4 GiB: what a turn may decide is far less.
pub(crate) fn encode(header: &Header, batch: &Batch<'_>, salt: u64, out: &mut Vec<u8>) -> u32 {
    out.reserve(FRAME_HEADER_BYTES + batch.payload.len());
    let crc = encode_header(header, batch, salt, out);
    out.extend_from_slice(batch.payload);
    crc
}

/// As [`encode`], but without the payload, which has to follow.
pub(crate) fn encode_header(header: &Header, batch: &Batch<'_>, salt: u64, out: &mut Vec<u8>) -> u32 {
    const CRC_AT: usize = 8;
    let start = out.len();
    let payload_len = u32::try_from(batch.payload.len()).expect("a batch is bounded");
    out.extend_from_slice(&salt.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&crc32c(batch.payload).to_le_bytes());
    out.extend_from_slice(&header.previous_crc.to_le_bytes());
    out.extend_from_slice(&payload_len.to_le_bytes());
    out.extend_from_slice(&header.position.to_le_bytes());
    out.extend_from_slice(&header.proven.to_le_bytes());
    out.extend_from_slice(&header.epoch.to_le_bytes());
    out.extend_from_slice(&batch.at.engine_ms.to_le_bytes());
    out.extend_from_slice(&batch.at.wall_ms.to_le_bytes());
    out.extend_from_slice(&batch.at.boot_ms.to_le_bytes());
    out.extend_from_slice(&batch.at.boot.to_le_bytes());
    debug_assert_eq!(out.len() - start, FRAME_HEADER_BYTES);
    let crc = header_crc(&out[start..]);
    out[start + CRC_AT..start + CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
    crc
}

/// The checksum of a header: of all of it but the checksum itself.
fn header_crc(header: &[u8]) -> u32 {
    crc32c_append(crc32c(&header[..8]), &header[12..FRAME_HEADER_BYTES])
}

/// How long the frame at the front of `bytes` says it is, if there is a header there that can be trusted; and that header.
pub(crate) fn peek(bytes: &[u8], salt: u64) -> Option<(Header, usize)> {
    let head = bytes.get(..FRAME_HEADER_BYTES)?;
    let mut fields = Fields(head);
    if fields.u64() != salt || fields.u32() != header_crc(head) {
        return None;
    }
    let (_, previous_crc, payload_len) = (fields.u32(), fields.u32(), fields.u32());
    let header = Header { position: fields.u64(), proven: fields.u64(), epoch: fields.u64(), previous_crc };
    let is_possible = header.is_possible();
    is_possible.then_some((header, FRAME_HEADER_BYTES + payload_len as usize))
}

/// Reads the frame at the front of `bytes`. Whether it is the right one is for [`follows`] to say.
pub(crate) fn decode(bytes: &[u8], salt: u64) -> Result<Frame<'_>, Damage> {
    let Some((head, rest)) = bytes.split_at_checked(FRAME_HEADER_BYTES) else {
        return Err(Damage::Cut);
    };
    let mut fields = Fields(head);
    if fields.u64() != salt {
        return Err(Damage::NoFrame);
    }
    let (crc, payload_crc, previous_crc, payload_len) = (fields.u32(), fields.u32(), fields.u32(), fields.u32());
    if crc != header_crc(head) {
        return Err(Damage::Header);
    }
    let (position, proven, epoch) = (fields.u64(), fields.u64(), fields.u64());
    let header = Header { epoch, position, proven, previous_crc };
    if !header.is_possible() {
        return Err(Damage::Impossible);
    }
    let (engine_ms, wall_ms) = (fields.u64(), fields.u64().cast_signed());
    let at = Moment { engine_ms, wall_ms, boot_ms: fields.u64(), boot: fields.u64() };
    let payload = usize::try_from(payload_len).ok().and_then(|len| rest.get(..len)).ok_or(Damage::Cut)?;
    if payload_crc != crc32c(payload) && !crate::broken("log-no-payload-checksum") {
        return Err(Damage::Payload);
    }
    let batch = Batch { at, payload };
    Ok(Frame { header, batch, crc, len: FRAME_HEADER_BYTES + payload.len() })
}

/// Whether a frame is the one that must come next, where `previous` is the header of the one before it with its
/// `previous_crc` replaced by its own CRC.
pub(crate) fn follows(frame: &Frame<'_>, previous: &Header) -> Result<(), Damage> {
    let expected = previous.position + 1;
    let found = frame.header.position;
    if found != expected {
        return Err(Damage::Position { expected, found });
    }
    if frame.header.previous_crc != previous.previous_crc {
        return Err(Damage::Chain);
    }
    if frame.header.epoch < previous.epoch {
        return Err(Damage::Epoch);
    }
    Ok(())
}

/// The integers of a header, in order. There are as many bytes as are asked for.
pub(crate) struct Fields<'a>(pub &'a [u8]);

impl Fields<'_> {
    pub fn take<const N: usize>(&mut self) -> [u8; N] {
        let (field, rest) = self.0.split_first_chunk().expect("a header holds all its fields");
        self.0 = rest;
        *field
    }

    pub fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }

    pub fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: Header = Header { epoch: 3, position: 7, proven: 6, previous_crc: 99 };
    const AT: Moment = Moment { engine_ms: 11, wall_ms: -12, boot_ms: 13, boot: 14 };
    const BATCH: Batch<'static> = Batch { at: AT, payload: b"payload" };

    fn framed() -> Vec<u8> {
        let mut bytes = Vec::new();
        encode(&HEADER, &BATCH, 42, &mut bytes);
        bytes
    }

    #[test]
    fn a_frame_comes_back_as_it_was() {
        let mut bytes = framed();
        let len = bytes.len();
        bytes.extend_from_slice(b"what follows");
        let frame = decode(&bytes, 42).unwrap();
        assert_eq!((frame.header, frame.batch, frame.len), (HEADER, BATCH, len));
        assert_eq!(peek(&bytes, 42), Some((HEADER, len)));
        assert_eq!(peek(&bytes, 43), None);
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let whole = framed();
        for bit in 0..whole.len() * 8 {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&bytes, 42).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn every_cut_is_noticed() {
        let whole = framed();
        for len in 0..whole.len() {
            assert_eq!(decode(&whole[..len], 42), Err(Damage::Cut), "{len} bytes");
        }
    }

    #[test]
    fn a_frame_of_another_salt_is_none() {
        assert_eq!(decode(&framed(), 43), Err(Damage::NoFrame));
    }

    #[test]
    fn a_length_beyond_what_is_there_allocates_nothing() {
        let mut bytes = framed();
        bytes[20..24].copy_from_slice(&u32::MAX.to_le_bytes());
        let crc = header_crc(&bytes);
        bytes[8..12].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(decode(&bytes, 42), Err(Damage::Cut));
    }

    #[test]
    fn only_the_next_frame_of_the_chain_follows() {
        let bytes = framed();
        let frame = decode(&bytes, 42).unwrap();
        let previous = Header { position: 6, ..HEADER };
        assert_eq!(follows(&frame, &previous), Ok(()));
        let position = Damage::Position { expected: 8, found: 7 };
        assert_eq!(follows(&frame, &Header { position: 7, ..previous }), Err(position));
        assert_eq!(follows(&frame, &Header { previous_crc: 0, ..previous }), Err(Damage::Chain));
        assert_eq!(follows(&frame, &Header { epoch: 4, ..previous }), Err(Damage::Epoch));
    }

    #[test]
    fn a_header_that_no_server_writes_is_refused() {
        let possible = [HEADER, Header { position: 1, proven: 0, ..HEADER }];
        let impossible = [
            Header { position: 0, proven: 0, ..HEADER },
            Header { position: NUMBER_MAX, ..HEADER },
            Header { proven: 7, ..HEADER },
            Header { epoch: NUMBER_MAX, ..HEADER },
        ];
        let decoded = |header: &Header| {
            let mut bytes = Vec::new();
            encode(header, &BATCH, 42, &mut bytes);
            decode(&bytes, 42).map(|frame| frame.header)
        };
        possible.iter().for_each(|header| assert_eq!(decoded(header), Ok(*header)));
        impossible.iter().for_each(|header| assert_eq!(decoded(header), Err(Damage::Impossible), "{header:?}"));
    }

    #[test]
    fn damage_says_what_is_wrong() {
        assert_eq!(Damage::Cut.to_string(), "the batch is cut off");
        assert_eq!(Damage::Position { expected: 7, found: 9 }.to_string(), "expected batch 7, found batch 9");
    }
}
