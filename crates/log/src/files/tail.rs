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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::format::CURRENT;
    use crate::log::{Batch, Moment};

    const SALT: u64 = 42;

    /// A frame of 180 bytes.
    fn frame(position: Position, proven: Position) -> Vec<u8> {
        let (header, mut bytes) = (Header { epoch: 1, position, proven, previous_crc: 0 }, Vec::new());
        let batch = Batch { at: Moment::default(), payload: &[7; 100] };
        frame::encode(&header, &batch, SALT, &mut bytes);
        bytes
    }

    /// One whose payload is not all there yet.
    fn torn(position: Position, proven: Position) -> Vec<u8> {
        let mut frame = frame(position, proven);
        frame[150..].fill(9);
        frame
    }

    /// Where batch 5 should be.
    fn fifth(recycled: bool, proven: Position) -> Place {
        Place { format: CURRENT, salt: SALT, recycled, expected: 5, proven }
    }

    const NO_FRAME: [u8; 100] = [3; 100];
    const ZEROS: [u8; 50] = [0; 50];

    #[test]
    fn damage_reaches_up_to_the_next_batch_or_to_what_the_manifest_proves() {
        // What is there, up to where the manifest says that all was durable, the last batch lost, and how many bytes.
        let cases = [
            ("the next proves it", [&NO_FRAME[..], &frame(6, 5), &ZEROS].concat(), 0, 5, 100),
            ("one of two proves it", [&NO_FRAME[..], &frame(6, 4), &frame(7, 5)].concat(), 0, 5, 100),
            ("two are lost", [&NO_FRAME[..], &frame(7, 6), &frame(8, 7)].concat(), 0, 6, 100),
            ("a torn one proves it", [&NO_FRAME[..], &torn(6, 5)].concat(), 0, 5, 100),
            ("the manifest proves it", [&NO_FRAME[..], &ZEROS].concat(), 5, 5, 100),
            ("the manifest proves more", [&torn(5, 4)[..], &ZEROS].concat(), 7, 7, 180),
            ("nothing is there", ZEROS.to_vec(), 5, 5, 0),
        ];
        for (what, rest, proven, to, bytes) in cases {
            let Verdict::Damage(loss) = judge(&rest, &fifth(false, proven)) else { panic!("{what}") };
            assert_eq!(loss, Loss { from: 5, to, batches: to - 4, bytes, at_least: false }, "{what}");
        }
    }

    #[test]
    fn what_was_being_written_is_cut_and_what_a_recycled_file_held_is_no_part_of_it() {
        let old = [frame(3, 2), frame(4, 3)].concat();
        let mut no_header = frame(5, 4);
        no_header[9] ^= 1;
        // Whether the file is recycled, what is there, how many bytes of it are cut, and how many whole batches.
        let cases = [
            ("zeros", false, ZEROS.to_vec(), 0, 0),
            ("no frame", false, [&NO_FRAME[..], &ZEROS].concat(), 100, 0),
            ("no payload", false, [&torn(5, 4)[..], &ZEROS].concat(), 180, 0),
            ("one that proves less", false, [&NO_FRAME[..], &frame(6, 4), &ZEROS].concat(), 280, 1),
            ("itself, further on", false, [&NO_FRAME[..], &frame(5, 4)].concat(), 280, 1),
            ("old frames", true, old.clone(), 0, 0),
            ("the rest of an old frame", true, [&NO_FRAME[..], &old].concat(), 0, 0),
            ("no header", true, [&no_header[..], &old].concat(), 80, 0),
            ("half a header", true, no_header[..50].to_vec(), 50, 0),
            ("no payload", true, [&torn(5, 4)[..], &old].concat(), 180, 0),
            ("half a payload", true, frame(5, 4)[..120].to_vec(), 120, 0),
            ("one that proves less", true, [&no_header[..], &frame(6, 4), &old].concat(), 360, 1),
        ];
        for (what, recycled, rest, cut, whole_there) in cases {
            let Verdict::Tail { bytes, whole } = judge(&rest, &fifth(recycled, 4)) else { panic!("{what}") };
            assert_eq!((bytes, whole), (cut, whole_there), "{what}, recycled: {recycled}");
        }
    }

    #[test]
    fn the_first_whole_frame_is_none_that_came_before() {
        let rest = [&NO_FRAME[..], &frame(4, 3), &torn(5, 4), &frame(6, 5), &frame(5, 4)].concat();
        let first = |from| first_whole(&rest, CURRENT, SALT, from).map(|(at, header)| (at, header.position));
        assert_eq!(
            [first(1), first(4), first(5), first(6), first(7)],
            [Some((100, 4)), Some((100, 4)), Some((460, 6)), Some((460, 6)), None]
        );
    }

    #[test]
    fn a_cut_says_how_much_it_takes() {
        let cut = |whole| Cut { file: "a.log".into(), offset: 4096, bytes: 9, damage: Damage::Cut, whole }.to_string();
        let one = "cut 9 bytes off the end of a.log at byte 4096: the batch is cut off; nothing shows that it was ever synced";
        assert_eq!(cut(0), one);
        let more = "; 2 whole batches behind it were cut too, for nothing shows that they were synced either";
        assert_eq!(cut(2), format!("{one}{more}"));
    }
}
