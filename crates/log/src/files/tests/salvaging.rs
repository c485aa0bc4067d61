//! Where a salvaged log begins, in what segments it is, and that the old one is kept aside whatever comes between.

use std::io::ErrorKind;

use super::*;
use crate::files::segment::{HEADER_BYTES, damaged_name_of, id_of, name_of};
use crate::files::{Manifest, Salvaged, salvage};
use crate::frame::{FRAME_HEADER_BYTES, NUMBER_MAX};

/// A log of five segments, damaged in the second.
fn damaged_log() -> TestDisk {
    let disk = TestDisk::new();
    let (mut log, _) = claimed(&disk, options());
    append(&mut log, 1, 1..=20);
    disk.change(&name_of(2), |bytes| bytes[4096 + 100] ^= 1);
    disk
}

/// Salvages a log, of which only batches of these lengths are left.
fn salvaged(disk: &mut TestDisk, lengths: &[usize]) -> Result<Salvaged, LogError> {
    let batches = lengths.iter().map(|bytes| (Moment::default(), vec![7; *bytes]));
    salvage(disk, &Options { salt_for_new: SALT + 1, ..options() }, batches)
}

#[test]
fn segments_are_filled_to_the_last_byte_and_what_is_longer_than_one_gets_its_own() {
    // How long frames are, and how long the segments' files that they are in, where one has room for 1000 bytes.
    let cases: [(&[usize], &[usize]); _] = [
        (&[], &[5096]),
        (&[500, 500], &[5096]),
        (&[500, 501], &[5096, 5096]),
        (&[1000, 1000], &[5096, 5096]),
        (&[5000, 100], &[9096, 5096]),
        (&[100, 5000, 100], &[5096, 9096, 5096]),
    ];
    for (frames, files) in cases {
        let mut disk = damaged_log();
        let payloads: Vec<usize> = frames.iter().map(|bytes| bytes - FRAME_HEADER_BYTES).collect();
        salvaged(&mut disk, &payloads).unwrap();
        let segments = disk.contents().into_iter().filter(|(name, _)| id_of(name).is_some());
        assert_eq!(segments.map(|(_, bytes)| bytes.len()).collect::<Vec<_>>(), files, "{frames:?}");
        let found = recovered(&disk).unwrap().1.into_iter().map(|(_, payload)| payload.len());
        assert_eq!(found.collect::<Vec<_>>(), payloads);
    }
}

#[test]
fn a_salvaged_log_begins_just_behind_all_that_the_old_one_can_have_had() {
    let frame = |position| FRAME_HEADER_BYTES + payload(position).len();
    let header = usize::try_from(HEADER_BYTES).unwrap();
    let second = header + frame(1);
    let third = second + frame(2);
    // How many batches there were, from where to where zeros are in the newest segment, and where the next log begins.
    let cases = [
        ("a segment that was begun", 5, header, 5096, 5),
        ("a batch that was cut off", 3, third + 90, 5096, 4),
        ("a batch that is missing before a whole one", 3, second, second + 8, 4),
    ];
    for (what, batches, from, to, first) in cases {
        let mut disk = TestDisk::new();
        let (mut log, _) = claimed(&disk, with_sync(SyncMode::Never));
        append(&mut log, 1, 1..=batches);
        let newest = log.held.as_ref().unwrap().name.clone();
        disk.change(&newest, |bytes| bytes[from..to].fill(0));
        assert_eq!(salvaged(&mut disk, &[]).unwrap().first, first, "{what}");
    }
}

#[test]
fn a_segment_with_a_number_that_can_be_is_kept_aside_and_no_other() {
    for (id, is_kept) in [(7, true), (NUMBER_MAX / 2 - 1, true), (NUMBER_MAX / 2, false)] {
        let mut disk = damaged_log();
        disk.put(&name_of(id), b"no segment");
        let salvaged = salvaged(&mut disk, &[100]).unwrap();
        assert_eq!(salvaged.kept.contains(&damaged_name_of(id)), is_kept, "{id}");
        assert_eq!(recovered(&disk).unwrap().0.tail, salvaged.tail);
    }
}

#[test]
fn a_manifest_tells_of_what_is_to_be_kept_aside_until_it_is() {
    let mut disk = damaged_log();
    salvaged(&mut disk, &[100]).unwrap();
    assert_eq!(Manifest::parse(&disk.get("manifest")).unwrap().damaged, Some((1, 5)));
    let (mut log, _) = claimed(&disk, options());
    log.close();
    assert_eq!(Manifest::parse(&disk.get("manifest")).unwrap().damaged, None);
}

#[test]
fn what_was_salvaged_is_kept_aside_even_if_a_start_writes_the_new_log_anew() {
    let mut finished = 0;
    for at in 1.. {
        let mut disk = damaged_log();
        let before = disk.state().operations;
        disk.state().fails_at = Some((before + at, ErrorKind::Other));
        let _ = salvaged(&mut disk, &[100, 200]);
        let is_over = disk.state().operations < before + at;
        disk.state().fails_at = None;
        // Until there is a new manifest the log is the old one, and refused.
        if let Ok((_, batches)) = recovered_with(&disk, Options { segment_bytes: 2 * SEGMENT_BYTES, ..options() }) {
            assert_eq!(batches.len(), 2);
            assert!((1..=5).all(|id| disk.names().contains(&damaged_name_of(id))), "{:?}", disk.names());
            finished += 1;
        }
        if is_over {
            break;
        }
    }
    assert!(finished > 5, "{finished}");
}
