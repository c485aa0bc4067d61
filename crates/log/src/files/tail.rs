//! Where the log ends: what was being written when the server ended is told from damage.

use std::fmt;

use super::format::Format;
use super::scan::Scan;
use super::segment::{HEADER_BYTES, SegmentHeader, name_of};
use super::volume::ReadFile;
use crate::error::{LogError, Loss};
use crate::frame::{self, Damage, Header};
use crate::log::Position;

/// Where the newest segment's frames end.
pub(crate) struct End<F> {
    pub file: F,
    /// What the next frame must follow.
    pub last: Header,
    /// Up to where the file is used.
    pub used: u64,
    /// How long the file is.
    pub bytes: u64,
    /// What is behind that and was never durable.
    pub cut: Option<Cut>,
}

/// What is cut off the log's end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The newest segment's file.
    pub file: String,
    /// From here on.
    pub offset: u64,
    /// How many bytes.
    pub bytes: u64,
    /// What is wrong with the first batch of it.
    pub damage: Damage,
    /// How many batches behind that one are whole. None of them proves that the first was ever durable.
    pub whole: u64,
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cut { file, offset, bytes, damage, whole } = self;
        write!(
            f,
            "cut {bytes} bytes off the end of {file} at byte {offset}: {damage}; nothing shows that it was ever synced"
        )?;
        if *whole > 0 {
            write!(
                f,
                "; {whole} whole batches behind it were cut too, for nothing shows that they were synced either"
            )?;
        }
        Ok(())
    }
}

/// Walks the newest segment's frames to their end.
///
/// A bad frame is the end if nothing behind it, nor the manifest, says that it was durable; otherwise it is damage.
pub(crate) fn find<F: ReadFile>(
    file: F,
    header: &SegmentHeader,
    format: Format,
    proven: Position,
) -> Result<End<F>, LogError> {
    let name = name_of(header.id);
    let mut scan = Scan::new(file, name, HEADER_BYTES, format, header.salt)?;
    let mut last = header.before();
    let damage = loop {
        let frame = scan.frame()?.and_then(|frame| frame::follows(&frame, &last).map(|()| frame));
        match frame {
            Ok(frame) => {
                last = Header { previous_crc: frame.crc, ..frame.header };
                let len = frame.len;
                scan.pass(len);
            }
            Err(damage) => break damage,
        }
    };
    let (rest, used) = (scan.rest()?, scan.offset());
    let place = Place { format, salt: header.salt, recycled: header.recycled, expected: last.position + 1, proven };
    match judge(&rest, &place) {
        Verdict::Damage(loss) => Err(LogError::Damaged { file: scan.name, offset: used, damage, loss }),
        Verdict::Tail { bytes, whole } => {
            let cut = (bytes > 0).then_some(Cut { file: scan.name, offset: used, bytes, damage, whole });
            Ok(End { file: scan.file, last, used, bytes: scan.bytes, cut })
        }
    }
}

/// Where a bad frame was found, and what is known about it.
pub(crate) struct Place {
    pub format: Format,
    pub salt: u64,
    /// Whether the file may hold what another segment held.
    pub recycled: bool,
    /// The position the frame should have.
    pub expected: Position,
    /// Up to where the manifest says that all was durable.
    pub proven: Position,
}

/// What a bad frame is.
pub(crate) enum Verdict {
    /// It was never durable, nor was anything behind it. So many bytes, and so many whole frames, go with it.
    Tail { bytes: u64, whole: u64 },
    /// It was durable.
    Damage(Loss),
}

/// Judges a bad frame in the newest segment, at the front of these bytes.
pub(crate) fn judge(rest: &[u8], place: &Place) -> Verdict {
    let seen = look_behind(rest, place);
    let proven = (place.proven >= place.expected).then_some(place.proven);
    let broken = (crate::broken("log-tail-is-damage") && !rest.is_empty() && rest[0] != 0).then_some(place.expected);
    match seen.proven.max(proven).max(broken) {
        Some(proven) => Verdict::Damage(loss_of(proven, &seen, rest, place)),
        None => Verdict::Tail { bytes: cut_bytes(rest, &seen, place), whole: seen.whole },
    }
}

/// What is behind the end of the frames.
#[derive(Default)]
struct Behind {
    /// The largest position from the expected one on that some frame says was durable.
    proven: Option<Position>,
    /// The first frame that is later than the expected one: its position and where it begins.
    next: Option<(Position, usize)>,
    /// How many frames from the expected position on are whole.
    whole: u64,
    /// Where the last frame from the expected position on says that it ends.
    end: usize,
}

/// Looks for frames from position `expected` on, wherever they begin.
///
/// What a recycled file held before has positions before `expected`. A header that can be trusted proves what it says even
/// if its payload is torn.
fn look_behind(rest: &[u8], place: &Place) -> Behind {
    let Place { format, salt, expected, .. } = *place;
    let mut behind = Behind::default();
    for at in salts(rest, salt) {
        let Some((header, len)) = (format.peek)(&rest[at..], salt) else { continue };
        if header.position < expected {
            continue;
        }
        if header.proven >= expected {
            behind.proven = behind.proven.max(Some(header.proven));
        }
        if header.position > expected && behind.next.is_none() {
            behind.next = Some((header.position, at));
        }
        if (format.decode)(&rest[at..], salt).is_ok() {
            behind.whole += 1;
        }
        behind.end = behind.end.max(rest.len().min(at + len));
    }
    behind
}

/// Every place at which the salt stands.
fn salts(bytes: &[u8], salt: u64) -> impl Iterator<Item = usize> {
    let salt = salt.to_le_bytes();
    let begins = bytes.iter().enumerate().filter(move |(_, byte)| **byte == salt[0]);
    begins.map(|(at, _)| at).filter(move |at| bytes[*at..].starts_with(&salt))
}

fn loss_of(proven: Position, seen: &Behind, rest: &[u8], place: &Place) -> Loss {
    let from = place.expected;
    let (to, bytes) = match seen.next {
        Some((position, at)) => (position - 1, at),
        None => (proven, written_bytes(rest)),
    };
    Loss { from, to, batches: to - from + 1, bytes: bytes as u64, at_least: false }
}

/// Up to where something was written, if the file held zeros before.
pub(crate) fn written_bytes(rest: &[u8]) -> usize {
    rest.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)
}

/// How many bytes behind the end are no rest of what the file held before, but of what was being written.
fn cut_bytes(rest: &[u8], seen: &Behind, place: &Place) -> u64 {
    let Place { format, salt, expected, .. } = *place;
    let bytes = if place.recycled {
        let old = || (format.peek)(rest, salt).is_some_and(|(header, _)| header.position < expected);
        let begun = rest.starts_with(&salt.to_le_bytes()) && !old();
        if begun { seen.end.max(format.header_bytes.min(rest.len())) } else { seen.end }
    } else {
        written_bytes(rest)
    };
    bytes as u64
}

/// The first whole frame from this position on: where it begins, its header.
pub(crate) fn first_whole(rest: &[u8], format: Format, salt: u64, from: Position) -> Option<(usize, Header)> {
    salts(rest, salt).find_map(|at| {
        let frame = (format.decode)(&rest[at..], salt).ok()?;
        (frame.header.position >= from).then_some((at, frame.header))
    })
}
