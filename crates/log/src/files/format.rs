//! How frames were written, by each version of the format there was.

use crate::error::LogError;
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

/// The format of this number.
pub(crate) fn known(version: u32, older: &[Format]) -> Result<Format, LogError> {
    let formats = || older.iter().chain([&CURRENT]);
    if version > CURRENT.version {
        return Err(LogError::FormatNewer { found: version, known: CURRENT.version });
    }
    formats().find(|format| format.version == version).copied().ok_or_else(|| {
        let oldest = formats().map(|format| format.version).min().unwrap_or(CURRENT.version);
        LogError::FormatOlder { found: version, known: oldest }
    })
}
