//! How frames were written, by each version of the format there was.

use crate::frame::{self, Damage, FRAME_HEADER_BYTES, Frame, Header};

/// A format of frames. Manifest and segment header are the same for all there are.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// Its number: larger than those of all before it.
    pub version: u32,
    /// Bytes before a frame's payload.
    pub header_bytes: usize,
    /// The header at the front of these bytes, if it can be trusted, and how long the frame is. The number is the salt.
    pub peek: Peek,
    /// The frame at the front of these bytes. The number is the salt.
    pub decode: Decode,
}

type Peek = fn(&[u8], u64) -> Option<(Header, usize)>;
type Decode = for<'a> fn(&'a [u8], u64) -> Result<Frame<'a>, Damage>;

/// The format that is written.
pub(crate) const CURRENT: Format =
    Format { version: 1, header_bytes: FRAME_HEADER_BYTES, peek: frame::peek, decode: frame::decode };
