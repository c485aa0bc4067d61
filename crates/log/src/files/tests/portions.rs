//! How much is read and written at once, and what is longer than that.

use super::*;
use crate::FRAME_HEADER_BYTES;
use crate::files::format::CURRENT;
use crate::files::scan::Scan;
use crate::files::segment::{HEADER_BYTES, name_of};
use crate::files::volume;
use crate::files::{Found, Reader};

const SEGMENT: u64 = 4 * 1024 * 1024;
const KIB: usize = 1024;

fn long_segments() -> Options {
    Options { segment_bytes: SEGMENT, ..with_sync(SyncMode::Never) }
}

/// A log of one segment with batches of these lengths.
fn log_of(lengths: impl IntoIterator<Item = usize>) -> TestDisk {
    let disk = TestDisk::new();
    let (mut log, _) = claimed(&disk, long_segments());
    for (position, bytes) in (1..).zip(lengths) {
        let payload = vec![u8::try_from(position % 251).unwrap(); bytes];
        assert_eq!(submit(&mut log, 1, position, &payload), Completion::Durable(position));
    }
    log.close();
    assert_eq!((log.trouble(), disk.names().contains(&name_of(2))), (None, false));
    disk
}

/// One of many small batches, together longer than what is read or written at once.
fn many() -> TestDisk {
    log_of([1000; 2000])
}

/// How many operations of the disk it takes.
fn operations<T>(disk: &TestDisk, what: impl FnOnce() -> T) -> (usize, T) {
    let before = disk.state().operations;
    let done = what();
    (disk.state().operations - before, done)
}

#[test]
fn a_payload_is_written_with_its_header_unless_it_is_long() {
    // 64 KiB are long, and in small segments a 32nd of one.
    for (segment_bytes, limit) in [(SEGMENT, 64 * KIB), (64_000, 2000)] {
        let disk = TestDisk::new();
        let (mut log, _) = claimed(&disk, Options { segment_bytes, ..options() });
        for (position, bytes, writes) in [(1, limit - 1, 1), (2, limit, 1), (3, limit + 1, 2)] {
            let (operations, done) = operations(&disk, || submit(&mut log, 1, position, &vec![1; bytes]));
            assert_eq!((operations, done), (writes + 1, Completion::Durable(position)), "{bytes} bytes and a sync");
        }
    }
}

#[test]
fn many_batches_are_read_back_with_few_reads() {
    let disk = many();
    let (mut log, _) = claimed(&disk, long_segments());
    let (reads, batches) = operations(&disk, || read(&mut log).unwrap());
    assert!(reads < 20, "{reads} operations");
    assert_eq!(batches.len(), 2000);
    for (at, (position, payload)) in (1..).zip(batches) {
        assert_eq!((position, payload), (at, vec![u8::try_from(at % 251).unwrap(); 1000]));
    }
}

#[test]
fn a_start_copies_the_newest_segment_with_few_reads_and_writes() {
    let disk = many();
    // As if it had not been closed.
    drop(claimed(&disk, long_segments()));
    let before = disk.identity(&name_of(1));
    let (operations, claim) = operations(&disk, || open(&disk, long_segments()).claim(0).unwrap());
    assert!(operations < 100, "{operations} operations");
    assert_eq!(claim.tail, 2000);
    assert_ne!(disk.identity(&name_of(1)), before, "it was copied");
}

#[test]
fn a_log_is_written_anew_with_few_reads_and_writes() {
    let disk = many();
    let twice = Options { segment_bytes: 2 * SEGMENT, ..options() };
    let (operations, claim) = operations(&disk, || open(&disk, twice).claim(0).unwrap());
    assert!(operations < 250, "{operations} operations");
    assert_eq!(claim.tail, 2000);
}

#[test]
fn damage_longer_than_what_is_read_at_once_hides_nothing_behind_it() {
    for lengths in [[100, 2 * 1024 * KIB, 100, 100], [600 * KIB, 800 * KIB, 600 * KIB, 100]] {
        let mut disk = log_of(lengths);
        let damaged = 4096 + 80 + lengths[0] + 10;
        disk.change(&name_of(1), |bytes| bytes[damaged] ^= 1);
        let (mut batches, mut lost) = (Vec::new(), Vec::new());
        let mut reader = Reader::open(&mut disk, &[]).unwrap();
        while let Some(found) = reader.next().unwrap() {
            match found {
                Found::Batch(entry) => batches.push((entry.header.position, entry.batch.payload.len())),
                Found::Hole(hole) => lost.push((hole.loss.from, hole.loss.to, hole.loss.bytes)),
                Found::Segment(_) => {}
                Found::Tail(_) => panic!("{found:?}"),
            }
        }
        assert_eq!(batches, [(1, lengths[0]), (3, lengths[2]), (4, lengths[3])]);
        assert_eq!(lost, [(2, 2, 80 + lengths[1] as u64)]);
    }
}

#[test]
fn what_is_passed_over_may_end_just_behind_what_was_read() {
    let mut disk = many();
    let file = volume::open(&mut disk, &name_of(1)).unwrap();
    let mut scan = Scan::new(file, name_of(1), HEADER_BYTES, CURRENT, SALT).unwrap();
    let frame_bytes = FRAME_HEADER_BYTES + 1000;
    assert!(scan.frame().unwrap().is_ok());
    scan.pass(frame_bytes);
    // A window's worth from here ends one frame behind the window.
    let frames = 1024 * KIB / frame_bytes;
    scan.pass(frames * frame_bytes);
    assert_eq!(scan.offset(), HEADER_BYTES + ((frames + 1) * frame_bytes) as u64);
    let position = scan.frame().unwrap().map(|frame| frame.header.position);
    assert_eq!(position, Ok(frames as u64 + 2));
}
