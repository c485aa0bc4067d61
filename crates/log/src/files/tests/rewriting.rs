//! Writing a log anew: an older format brought up to date, and what is left of a damaged log.

use std::io::ErrorKind;

use crc32c::crc32c;

use super::*;
use crate::files::segment::{SegmentHeader, damaged_name_of, id_of, name_of};
use crate::files::{Format, Found, Manifest, Reader, salvage};
use crate::frame::{self, Damage, Fields, Frame, Header, NUMBER_MAX};

/// An imagined format from before: salt 8, position 8, CRC of header and payload together 4, length 4. Nothing was proven.
const ZERO_HEADER_BYTES: usize = 24;
static OLDER: &[Format] = &[Format { version: 0, header_bytes: ZERO_HEADER_BYTES, peek, decode }];
const OLD_SALT: u64 = 0x01d_01d_01d;

fn zero_crc(position: Position, payload: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c(&position.to_le_bytes()), payload)
}

fn encode(position: Position, out: &mut Vec<u8>) {
    let payload = payload(position);
    out.extend_from_slice(&OLD_SALT.to_le_bytes());
    out.extend_from_slice(&position.to_le_bytes());
    out.extend_from_slice(&zero_crc(position, &payload).to_le_bytes());
    out.extend_from_slice(&u32::try_from(payload.len()).unwrap().to_le_bytes());
    out.extend_from_slice(&payload);
}

fn peek(bytes: &[u8], salt: u64) -> Option<(Header, usize)> {
    let frame = decode(bytes, salt).ok()?;
    Some((frame.header, frame.len))
}

fn decode(bytes: &[u8], salt: u64) -> Result<Frame<'_>, Damage> {
    let (head, rest) = bytes.split_at_checked(ZERO_HEADER_BYTES).ok_or(Damage::Cut)?;
    let mut fields = Fields(head);
    if fields.u64() != salt {
        return Err(Damage::NoFrame);
    }
    let (position, crc, len) = (fields.u64(), fields.u32(), fields.u32() as usize);
    let payload = rest.get(..len).ok_or(Damage::Cut)?;
    if zero_crc(position, payload) != crc {
        return Err(Damage::Payload);
    }
    let header = Header { epoch: 1, position, proven: 0, previous_crc: 0 };
    let batch = Batch { at: batch(position, b"").at, payload };
    Ok(Frame { header, batch, crc: 0, len: ZERO_HEADER_BYTES + len })
}

fn with_older() -> Options {
    Options { older: OLDER, ..options() }
}

/// A log of format 0: batches 4 to 12 in segments 2 to 4. The last batch is torn.
fn old_log() -> TestDisk {
    let disk = TestDisk::new();
    for (id, positions) in [(2, 4..=6), (3, 7..=9), (4, 10..=12)] {
        let first = *positions.start();
        let header =
            SegmentHeader { format: 0, salt: OLD_SALT, id, first, epoch_before: 1, crc_before: 0, recycled: false };
        let mut bytes = header.to_block();
        positions.for_each(|position| encode(position, &mut bytes));
        disk.put(&name_of(id), &bytes);
    }
    disk.change(&name_of(4), |bytes| bytes.truncate(bytes.len() - 3));
    let manifest =
        Manifest { format: 0, salt: OLD_SALT, epoch: 5, first: 2, newest: 4, proven: 9, ..Manifest::default() };
    disk.put("manifest", manifest.to_text().as_bytes());
    disk
}

fn upgraded(disk: &TestDisk) -> Result<(Claim, Read), LogError> {
    recovered_with(disk, with_older())
}

/// A log of the present format whose segments are twice as long as is asked for. The last batch is torn.
fn longer_log() -> TestDisk {
    let disk = TestDisk::new();
    let (mut log, _) = claimed(&disk, Options { segment_bytes: 2 * SEGMENT_BYTES, ..options() });
    append(&mut log, 1, 1..=85);
    log.truncate_before(60);
    append(&mut log, 1, 86..=90);
    drop(log);
    let newest = disk.names().into_iter().rfind(|name| id_of(name).is_some()).unwrap();
    disk.change(&newest, |bytes| {
        let end = bytes.iter().rposition(|byte| *byte != 0).unwrap();
        bytes[end] ^= 1;
    });
    disk
}

/// A log that has to be written anew, and its first and last whole batch.
type Old = (fn() -> TestDisk, Position, Position);

fn old_logs() -> [Old; 2] {
    let longer = Options { segment_bytes: 2 * SEGMENT_BYTES, ..options() };
    let (claim, _) = recovered_with(&longer_log(), longer).unwrap();
    assert!(claim.first > 1 && claim.first < 60 && claim.tail == 89, "{claim:?}");
    [(old_log, 4, 11), (longer_log, claim.first, claim.tail)]
}

#[test]
fn an_older_format_is_brought_up_to_date() {
    let disk = old_log();
    let (claim, seen) = upgraded(&disk).unwrap();
    assert_eq!((claim.epoch, claim.first, claim.tail), (6, 4, 11));
    assert_eq!(seen, expected(4..=11));
    assert!(
        claim.notices.iter().any(|notice| notice.ends_with("from format 0 to format 1: 8 batches")),
        "{:?}",
        claim.notices
    );
    assert!(claim.notices.iter().any(|notice| notice.contains(&name_of(4))), "{:?}", claim.notices);
    assert!(disk.names().iter().all(|name| ![name_of(2), name_of(3), name_of(4)].contains(name)));
    // Now it is a log like any other.
    let (mut log, claim) = claimed(&disk, options());
    assert!(claim.notices.is_empty());
    append(&mut log, claim.epoch, 12..=40);
    assert_eq!(recovered(&disk).unwrap().1, expected(4..=40));
}

#[test]
fn whoever_does_not_know_the_older_format_touches_nothing() {
    let disk = old_log();
    let before = disk.contents();
    assert_eq!(recovered(&disk), Err(LogError::FormatOlder { found: 0, known: 1 }));
    assert_eq!(disk.contents(), before);
    let mut again = disk.clone();
    assert!(matches!(Reader::open(&mut again, &[]), Err(LogError::FormatOlder { .. })));
    let mut reader = Reader::open(&mut again, OLDER).unwrap();
    let mut batches = Vec::new();
    while let Some(found) = reader.next().unwrap() {
        if let Found::Batch(entry) = found {
            batches.push((entry.header.position, entry.batch.payload.to_vec()));
        }
    }
    assert_eq!(batches, expected(4..=11));
}

#[test]
fn a_damaged_log_is_not_upgraded() {
    let disk = old_log();
    disk.change(&name_of(3), |bytes| bytes[4096 + 50] ^= 1);
    disk.put("spare-1.new", b"half made");
    let before = disk.contents();
    let error = upgraded(&disk).unwrap_err();
    assert!(matches!(&error, LogError::Damaged { file, .. } if *file == name_of(3)), "{error}");
    assert!(disk.contents() == before, "nothing is touched");
}

#[test]
fn writing_anew_may_fail_wherever_it_likes() {
    for ((old, first, tail), late) in old_logs().into_iter().flat_map(|old| [(old, false), (old, true)]) {
        let mut at = 0;
        loop {
            at += 1;
            let disk = old();
            disk.state().fails_at = Some((at, ErrorKind::Other));
            disk.state().fails_late = late;
            let failed = upgraded(&disk).is_err();
            if disk.state().operations < at {
                assert!(!failed);
                break;
            }
            disk.state().fails_at = None;
            // Another random number is chosen the next time.
            let mut log = open(&disk, Options { salt_for_new: SALT + at as u64, ..with_older() });
            let claim = log.claim(0).unwrap();
            assert_eq!((claim.first, claim.tail), (first, tail), "operation {at}");
            assert_eq!(read(&mut log).unwrap(), expected(first..=tail));
            append(&mut log, claim.epoch, tail + 1..=tail + 20);
            assert_eq!(upgraded(&disk).unwrap().1, expected(first..=tail + 20));
        }
        assert!(at > 40, "there were only {at} operations");
    }
}

#[test]
fn the_power_may_go_while_a_log_is_written_anew() {
    for ((old, first, tail), late) in old_logs().into_iter().flat_map(|old| [(old, false), (old, true)]) {
        let mut at = 0;
        loop {
            at += 1;
            let disk = old();
            disk.all_synced();
            disk.state().fails_at = Some((at, ErrorKind::Other));
            disk.state().fails_late = late;
            let _ = upgraded(&disk);
            for seed in 0..6 {
                let after = disk.power_cut(random(at as u64 * 100 + seed));
                let mut log = open(&after, Options { salt_for_new: SALT + at as u64, ..with_older() });
                let claim = log.claim(0).unwrap();
                assert_eq!((claim.first, claim.tail), (first, tail), "operation {at}, seed {seed}");
                assert_eq!(read(&mut log).unwrap(), expected(first..=tail));
            }
            if disk.state().operations < at {
                break;
            }
        }
        assert!(at > 40, "there were only {at} operations");
    }
}

#[test]
fn segments_of_another_length_are_written_anew_and_that_is_said_once() {
    for segment_bytes in [SEGMENT_BYTES, 3 * SEGMENT_BYTES] {
        let disk = longer_log();
        let options = Options { segment_bytes, ..options() };
        let (claim, seen) = recovered_with(&disk, options.clone()).unwrap();
        assert_eq!(seen, expected(claim.first..=89));
        let said = format!("wrote the log anew, in segments of {segment_bytes} bytes instead of {}", 2 * SEGMENT_BYTES);
        assert!(claim.notices.contains(&said) && claim.notices.len() == 2, "{:?}", claim.notices);
        let is_other = |(name, bytes): (String, Vec<u8>)| name.ends_with(".log") && bytes.len() as u64 != segment_bytes;
        assert!(!disk.contents().into_iter().any(is_other), "{:?}", disk.names());
        assert_eq!(recovered_with(&disk, options).unwrap().0.notices, [""; 0]);
    }
}

#[test]
fn a_disk_without_room_for_two_logs_refuses_another_length_and_leaves_all_as_it_was() {
    let before = longer_log();
    let used: usize = before.contents().values().map(Vec::len).sum();
    let old = Options { segment_bytes: 2 * SEGMENT_BYTES, ..options() };
    let (mut refused, mut free) = (0, 0);
    loop {
        let disk = before.copy();
        disk.state().room = used + free;
        free += 500;
        match open(&disk, options()).claim(0) {
            Ok(_) => break,
            Err(LogError::NoRoomForLength { found: 10_192, asked: 5_096, .. }) => refused += 1,
            Err(error) => panic!("{free}: {error}"),
        }
        assert_eq!(disk.contents(), before.contents(), "{free}");
        let (claim, seen) = recovered_with(&disk, old.clone()).unwrap();
        assert_eq!(seen, expected(claim.first..=89));
    }
    assert!(refused > 10, "{refused}");
}

#[test]
fn a_sync_that_finds_no_room_for_another_length_leaves_all_as_it_was() {
    let before = longer_log();
    for at in 1.. {
        let disk = before.copy();
        disk.state().fails_at = Some((at, ErrorKind::StorageFull));
        let claimed = open(&disk, options()).claim(0);
        disk.state().fails_at = None;
        if claimed.is_ok() && disk.state().operations < at {
            break;
        }
        let (claim, seen) = recovered_with(&disk, Options { segment_bytes: 2 * SEGMENT_BYTES, ..options() }).unwrap();
        assert_eq!(seen, expected(claim.first..=89), "operation {at}");
    }
}

#[test]
fn segments_are_not_made_too_short_for_what_they_hold() {
    let disk = TestDisk::new();
    let longer = Options { segment_bytes: 2 * SEGMENT_BYTES, ..options() };
    let (mut log, _) = claimed(&disk, longer.clone());
    assert_eq!(submit(&mut log, 1, 1, &[7; 600]), Completion::Durable(1));
    log.close();
    let before = disk.contents();
    let refused = LogError::LengthTooShort { found: 2 * SEGMENT_BYTES, asked: SEGMENT_BYTES, needed: 4096 + 2 * 680 };
    assert_eq!(recovered(&disk), Err(refused));
    assert_eq!(disk.contents(), before);
    assert!(recovered_with(&disk, Options { segment_bytes: 4096 + 2 * 680, ..options() }).is_ok());
}

#[test]
fn a_log_that_goes_on_behind_its_manifest_is_not_written_anew() {
    let disk = TestDisk::new();
    let (mut log, _) = claimed(&disk, options());
    append(&mut log, 1, 1..=3);
    let old = disk.contents()["manifest"].clone();
    append(&mut log, 1, 4..=12);
    drop(log);
    disk.change("manifest", |bytes| *bytes = old);
    let before = disk.contents();
    let error = recovered_with(&disk, Options { segment_bytes: 3 * SEGMENT_BYTES, ..options() }).unwrap_err();
    assert!(matches!(error, LogError::Manifest { .. }), "{error}");
    assert_eq!(disk.contents(), before);
}

#[test]
fn an_end_that_cannot_be_read_is_not_left_out_when_a_log_is_written_anew() {
    let disk = TestDisk::new();
    let (mut log, _) = claimed(&disk, options());
    append(&mut log, 1, 1..=7);
    let newest = name_of(log.held.as_ref().unwrap().manifest.newest);
    let used = log.held.as_ref().unwrap().newest().used;
    drop(log);
    let before = disk.contents();
    disk.state().unreadable = Some((newest, used - 50, used));
    let error = recovered_with(&disk, Options { segment_bytes: 3 * SEGMENT_BYTES, ..options() }).unwrap_err();
    assert!(matches!(error, LogError::Disk { .. }), "{error}");
    disk.state().unreadable = None;
    assert_eq!(disk.contents(), before);
}

/// A log of 20 batches of which the fifth is damaged.
fn damaged_log() -> TestDisk {
    let disk = TestDisk::new();
    let (mut log, _) = claimed(&disk, options());
    append(&mut log, 1, 1..=20);
    disk.change(&name_of(2), |bytes| bytes[4096 + 100] ^= 1);
    disk
}

/// What someone made of it.
fn remains() -> Vec<(Moment, Vec<u8>)> {
    (21..=35).map(|position| (batch(position, b"").at, payload(position))).collect()
}

fn salvaging() -> Options {
    Options { salt_for_new: SALT + 1, ..options() }
}

#[test]
fn a_damaged_log_is_replaced_and_kept_aside() {
    let mut disk = damaged_log();
    let old: Vec<_> = disk.contents().into_iter().filter(|(name, _)| name.starts_with('0')).collect();
    assert!(recovered(&disk.copy()).is_err());
    let salvaged = salvage(&mut disk, &salvaging(), remains()).unwrap();
    assert_eq!((salvaged.first, salvaged.tail), (21, 35));
    let kept: Vec<_> = (1..=old.len() as u64).map(damaged_name_of).collect();
    assert_eq!(salvaged.kept, kept);
    for ((_, bytes), name) in old.iter().zip(&kept) {
        assert_eq!(disk.get(name), *bytes);
    }
    let (claim, seen) = recovered(&disk).unwrap();
    assert_eq!((claim.first, claim.tail, claim.notices.len()), (21, 35, 0));
    assert!(claim.epoch > 2, "larger than all that was seen");
    assert_eq!(seen, expected(21..=35));
    let (mut log, claim) = claimed(&disk, options());
    append(&mut log, claim.epoch, 36..=90);
    log.truncate_before(80);
    assert_eq!(recovered(&disk).unwrap().0.tail, 90);
    assert!(kept.iter().all(|name| disk.names().contains(name)), "they are never touched");
}

#[test]
fn nothing_may_be_left_of_a_log() {
    let mut disk = damaged_log();
    let salvaged = salvage(&mut disk, &salvaging(), Vec::<(Moment, Vec<u8>)>::new()).unwrap();
    assert_eq!((salvaged.first, salvaged.tail), (21, 20));
    let (mut log, claim) = claimed(&disk, options());
    assert_eq!((claim.first, claim.tail), (21, 20));
    append(&mut log, claim.epoch, 21..=22);
    assert_eq!(recovered(&disk).unwrap().1, expected(21..=22));
}

#[test]
fn without_manifest_or_segments_the_rest_is_salvaged() {
    let mut disk = damaged_log();
    disk.remove_now("manifest");
    disk.remove_now(&name_of(3));
    let salvaged = salvage(&mut disk, &salvaging(), remains()).unwrap();
    assert_eq!((salvaged.first, salvaged.tail), (21, 35));
    assert_eq!(recovered(&disk).unwrap().1, expected(21..=35));
    let mut empty = TestDisk::new();
    assert_eq!(salvage(&mut empty, &salvaging(), remains()), Err(LogError::NoLog));
    assert!(empty.names().is_empty());
}

/// Damaged logs in which one number, with a checksum that matches, is this one.
fn logs_that_claim(number: u64) -> Vec<(&'static str, TestDisk)> {
    let manifest = Manifest::parse(&damaged_log().get("manifest")).unwrap();
    let with_manifest = |manifest: Manifest| {
        let disk = damaged_log();
        disk.put("manifest", manifest.to_text().as_bytes());
        disk
    };
    let header =
        SegmentHeader { format: 1, salt: SALT, id: 6, first: 21, epoch_before: 1, crc_before: 0, recycled: false };
    let with_segment = |header: SegmentHeader, frame: Option<Header>| {
        let disk = damaged_log();
        let mut bytes = header.to_block();
        if let Some(frame) = frame {
            frame::encode(&frame, &batch(21, b"one more"), SALT, &mut bytes);
        }
        disk.put(&name_of(header.id), &bytes);
        disk
    };
    let frame = Header { epoch: 1, position: 21, proven: 20, previous_crc: 0 };
    vec![
        ("newest", with_manifest(Manifest { newest: number, ..manifest })),
        ("proven", with_manifest(Manifest { proven: number, ..manifest })),
        ("epoch", with_manifest(Manifest { epoch: number, ..manifest })),
        ("a segment's id", with_segment(SegmentHeader { id: number, ..header }, None)),
        ("a segment's first", with_segment(SegmentHeader { first: number, ..header }, None)),
        ("a segment's epoch", with_segment(SegmentHeader { epoch_before: number, ..header }, None)),
        ("a frame's position", with_segment(header, Some(Header { position: number, ..frame }))),
        ("a frame's epoch", with_segment(header, Some(Header { epoch: number, ..frame }))),
    ]
}

#[test]
fn what_is_salvaged_goes_on_from_no_number_that_cannot_be() {
    for number in [NUMBER_MAX / 2, NUMBER_MAX - 2, NUMBER_MAX - 1] {
        for (what, mut disk) in logs_that_claim(number) {
            let salvaged = salvage(&mut disk, &salvaging(), remains()).unwrap();
            let (claim, seen) = recovered(&disk).unwrap_or_else(|error| panic!("{what} is {number}: {error}"));
            assert!(claim.tail < 100 && claim.epoch < 100, "{what} is {number}: {claim:?}");
            assert_eq!((claim.first, claim.tail), (salvaged.first, salvaged.tail));
            let remains: Vec<_> = remains().into_iter().map(|(_, payload)| payload).collect();
            assert_eq!(seen.into_iter().map(|(_, payload)| payload).collect::<Vec<_>>(), remains, "{what} is {number}");
        }
    }
}

#[test]
fn salvage_may_fail_wherever_it_likes() {
    for late in [false, true] {
        let mut at = 0;
        loop {
            at += 1;
            let mut disk = damaged_log();
            let operations = disk.state().operations;
            disk.state().fails_at = Some((operations + at, ErrorKind::Other));
            disk.state().fails_late = late;
            let failed = salvage(&mut disk, &salvaging(), remains()).is_err();
            if disk.state().operations < operations + at {
                assert!(!failed);
                break;
            }
            disk.state().fails_at = None;
            let found = match recovered(&disk) {
                Ok(found) => found,
                Err(_) => {
                    salvage(&mut disk, &Options { salt_for_new: SALT + 2, ..options() }, remains()).unwrap();
                    recovered(&disk).unwrap()
                }
            };
            assert_eq!(found.1, expected(21..=35), "operation {at}");
            let kept = disk.names().iter().filter(|name| name.starts_with("damaged-")).count();
            assert_eq!(kept, 5, "operation {at}: {:?}", disk.names());
        }
        assert!(at > 30, "there were only {at} operations");
    }
}

#[test]
fn the_power_may_go_during_a_salvage() {
    for late in [false, true] {
        let mut at = 0;
        loop {
            at += 1;
            let mut disk = damaged_log();
            disk.all_synced();
            let operations = disk.state().operations;
            let before = disk.contents();
            disk.state().fails_at = Some((operations + at, ErrorKind::Other));
            disk.state().fails_late = late;
            let done = salvage(&mut disk, &salvaging(), remains()).is_ok();
            for seed in 0..6 {
                let mut after = disk.power_cut(random(at as u64 * 100 + seed));
                if recovered(&after).is_err() {
                    assert!(!done, "operation {at}, seed {seed}: what was salvaged stays");
                    salvage(&mut after, &Options { salt_for_new: SALT + 2, ..options() }, remains()).unwrap();
                }
                assert_eq!(recovered(&after).unwrap().1, expected(21..=35), "operation {at}, seed {seed}");
                for id in 1..=5 {
                    assert!(after.get(&damaged_name_of(id)) == before[&name_of(id)], "operation {at}, seed {seed}");
                }
            }
            if disk.state().operations < operations + at {
                break;
            }
        }
        assert!(at > 30, "there were only {at} operations");
    }
}
