//! What a start keeps, what it removes, and what it refuses.

use std::io::ErrorKind;

use super::*;
use crate::files::Manifest;
use crate::files::segment::{SegmentHeader, name_of, new_name_of, spare_name_of, spare_number_of};
use crate::frame::{self, Header};

/// A log of three batches that was not closed.
fn three() -> TestDisk {
    let disk = TestDisk::new();
    let (mut log, _) = claimed(&disk, options());
    append(&mut log, 1, 1..=3);
    disk
}

/// The same, closed.
fn closed() -> TestDisk {
    let disk = three();
    claimed(&disk, options()).0.close();
    disk
}

fn manifest(disk: &TestDisk) -> Manifest {
    Manifest::parse(&disk.get("manifest")).unwrap()
}

fn longer() -> Options {
    Options { segment_bytes: 2 * SEGMENT_BYTES, ..options() }
}

#[test]
fn a_manifest_that_cannot_be_trusted_is_no_end_as_long_as_there_is_a_segment() {
    let disk = three();
    disk.put("manifest", b"");
    let why = "its last line is not a checksum".to_owned();
    assert_eq!(recovered(&disk).unwrap_err(), LogError::Manifest { why });
}

#[test]
fn one_segment_with_batches_and_no_manifest_is_no_first_start_that_was_cut_off() {
    let disk = three();
    disk.remove_now("manifest");
    let before = disk.contents();
    assert_eq!(recovered(&disk), Err(LogError::MissingManifest { segment: name_of(1) }));
    assert_eq!(disk.contents(), before, "nothing was touched");
}

#[test]
fn who_takes_a_log_over_again_begins_anew() {
    let disk = TestDisk::new();
    let (mut log, _) = claimed(&disk, options());
    append(&mut log, 1, 1..=9);
    assert_eq!(log.replay(1, 1, &mut |_| {}), Ok(Some(2)));
    log.submit(1, 10, batch(10, &payload(10)));
    let claim = log.claim(1).unwrap();
    assert_eq!((claim.epoch, claim.tail), (2, 10));
    assert_eq!(log.completed(), None, "nobody waits for what came before");
    assert_eq!(read(&mut log), Ok(expected(1..=10)));
}

#[test]
fn a_first_start_makes_its_segment_once() {
    let disk = TestDisk::new();
    claimed(&disk, options());
    assert_eq!(disk.state().syncs, 3, "the segment's header, and a manifest before and after the claim");
}

#[test]
fn wherever_a_first_start_was_cut_off_the_next_may_have_segments_of_another_length() {
    for at in 1.. {
        let disk = TestDisk::new();
        disk.state().fails_at = Some((at, ErrorKind::Other));
        let _ = open(&disk, options()).claim(0);
        let is_over = disk.state().operations < at;
        disk.state().fails_at = None;
        claimed(&disk, longer());
        let other = |(name, bytes): &(String, Vec<u8>)| name.ends_with(".log") && bytes.len() != 10_192;
        assert_eq!(disk.contents().into_iter().find(other), None, "operation {at}");
        if is_over {
            break;
        }
    }
}

#[test]
fn a_manifest_tells_how_long_segments_are_even_if_the_one_before_did_not() {
    let disk = closed();
    let unknown = Manifest { segment_bytes: None, ..manifest(&disk) };
    disk.put("manifest", unknown.to_text().as_bytes());
    assert_eq!(recovered(&disk).unwrap().1, expected(1..=3));
    assert_eq!(manifest(&disk).segment_bytes, Some(SEGMENT_BYTES));
    let said = recovered_with(&disk, longer()).unwrap().0.notices;
    assert!(said[0].starts_with("wrote the log anew"), "{said:?}");
}

#[test]
fn what_a_start_has_found_is_proven() {
    let disk = three();
    drop(claimed(&disk, options()));
    let last = disk.get(&name_of(1)).iter().rposition(|byte| *byte != 0).unwrap();
    disk.change(&name_of(1), |bytes| bytes[last] ^= 1);
    let LogError::Damaged { loss, .. } = recovered(&disk).unwrap_err() else { panic!() };
    assert_eq!((loss.from, loss.to), (3, 3));
}

#[test]
fn a_segment_that_the_manifest_does_not_name_is_part_of_the_log_only_if_all_of_it_fits() {
    let disk = TestDisk::new();
    let (mut log, _) = claimed(&disk, options());
    append(&mut log, 1, 1..=3);
    let last = log.held.as_ref().unwrap().last;
    let right = SegmentHeader::behind(&last, SALT, 2, false);
    let segments = [
        ("the next one", right, true),
        ("of another id", SegmentHeader { id: 3, ..right }, false),
        ("of another log", SegmentHeader { salt: SALT + 1, ..right }, false),
        ("of another format", SegmentHeader { format: 0, ..right }, false),
        ("of another position", SegmentHeader { first: 5, ..right }, false),
        ("of another history", SegmentHeader { crc_before: right.crc_before ^ 1, ..right }, false),
        ("of another owner", SegmentHeader { epoch_before: 2, ..right }, false),
    ];
    for (what, header, goes_on) in segments {
        let disk = disk.copy();
        let mut bytes = header.to_block();
        let fourth = Header { position: 4, proven: 3, ..last };
        frame::encode(&fourth, &batch(4, b"one more"), SALT, &mut bytes);
        disk.put(&name_of(2), &bytes);
        match recovered(&disk) {
            Err(LogError::Manifest { .. }) => assert!(goes_on, "{what}"),
            found => assert!(!goes_on && found.unwrap().0.tail == 3 && !disk.names().contains(&name_of(2)), "{what}"),
        }
    }
}

#[test]
fn the_room_of_a_segment_that_was_copied_is_kept_if_it_is_a_segments() {
    for (bytes, spares) in [(5096, 4), (5000, 3)] {
        let disk = three();
        disk.change(&name_of(1), |old| old.truncate(bytes));
        disk.state().greedy = true;
        let (log, _) = claimed(&disk, options());
        assert_eq!(log.extent().spares, spares, "{bytes} bytes");
        let kept: Vec<_> = disk.contents().into_iter().filter(|(name, _)| name.starts_with("spare")).collect();
        assert_eq!(kept.len() as u64, spares, "{bytes} bytes");
        assert!(kept.iter().all(|(_, bytes)| bytes.len() == 5096));
    }
}

#[test]
fn of_a_segment_that_was_copied_to_a_new_file_nothing_else_is_left() {
    let disk = three();
    remove_spares(&disk);
    disk.state().slow = true;
    let (log, _) = claimed(&disk, options());
    assert!(!disk.names().contains(&new_name_of(1)), "{:?}", disk.names());
    assert_eq!(log.extent().spares, 2, "those that are waited for");
}

#[test]
fn a_copy_that_fails_for_another_reason_than_room_is_not_made_in_place() {
    let disk = three();
    let spare = spare_name_of(4);
    disk.state().unwritable = Some(disk.identity(&spare));
    let error = recovered(&disk).unwrap_err().to_string();
    assert!(error.starts_with(&format!("could not write to {spare}: ")), "{error}");
}

#[test]
fn whatever_fails_a_start_without_room_leaves_nothing_half_made() {
    for at in 1.. {
        let disk = three();
        remove_spares(&disk);
        disk.state().greedy = true;
        let before = disk.state().operations;
        disk.state().fails_at = Some((before + at, ErrorKind::Other));
        let is_claimed = open(&disk, options()).claim(0).is_ok();
        assert!(!is_claimed || !disk.names().contains(&new_name_of(1)), "operation {at}");
        if disk.state().operations < before + at {
            assert!(is_claimed && at > 20, "operation {at}");
            break;
        }
    }
}

#[test]
fn no_more_spares_are_kept_than_one_over_those_that_are_wanted() {
    let disk = closed();
    for number in 10..20 {
        disk.put(&spare_name_of(number), &[0; 5096]);
    }
    let (log, _) = claimed(&disk, options());
    assert_eq!(log.extent().spares, 5);
    assert_eq!(disk.names().iter().filter(|name| spare_number_of(name).is_some()).count(), 5);
}

#[test]
fn what_was_let_go_of_becomes_a_spare_and_what_was_never_named_does_not() {
    let disk = TestDisk::new();
    let (mut log, _) = claimed(&disk, options());
    append(&mut log, 1, 1..=9);
    log.truncate_before(9);
    log.close();
    assert_eq!(manifest(&disk).first, 3, "the test counts on it");
    remove_spares(&disk);
    disk.state().greedy = true;
    for (id, spares) in [(2, 1), (4, 0)] {
        let disk = disk.copy();
        disk.state().greedy = true;
        disk.put(&name_of(id), &[1; 5096]);
        let (log, _) = claimed(&disk, options());
        assert_eq!(log.extent().spares, spares, "segment {id}");
        assert!(!disk.names().contains(&name_of(id)));
    }
}

#[test]
fn what_was_copied_is_kept_until_the_last_spare_that_is_wanted_is_there() {
    let disk = three();
    let old = disk.identity(&name_of(1));
    disk.state().slow = true;
    let (mut log, _) = claimed(&disk, options());
    let is_there = |disk: &TestDisk| disk.names().iter().any(|name| disk.identity(name) == old);
    assert!(is_there(&disk) && log.extent().spares == 4, "three, and that one");
    disk.state().slow = false;
    log.tend(20);
    assert!(!is_there(&disk) && log.extent().spares == 4, "four others");
}

#[test]
fn a_spare_that_cannot_get_its_name_is_not_left_half_made() {
    let disk = TestDisk::new();
    disk.state().slow = true;
    let (mut log, _) = claimed(&disk, options());
    assert!(disk.names().iter().any(|name| name == "spare-3.new"), "the test counts on it");
    disk.state().slow = false;
    disk.state().names_refused = 1;
    assert_eq!(log.tend(20), Some(1020));
    assert!(!disk.names().iter().any(|name| name == "spare-3.new"), "{:?}", disk.names());
    let why = log.shortage().unwrap();
    assert!(why.starts_with("the disk is full: could not rename spare-3.new to spare-3.log: "), "{why}");
    assert_eq!((log.tend(1020), log.extent().spares, log.shortage()), (None, 4, None));
}

#[test]
fn room_that_was_needed_for_a_moment_is_no_shortage_if_there_are_enough_spares_without_it() {
    let disk = closed();
    disk.put(&spare_name_of(10), &[0; 5096]);
    let (mut log, _) = claimed(&disk, options());
    assert_eq!(log.extent().spares, 5);
    let full = LogError::disk(crate::Doing::Write, "manifest.new", &ErrorKind::StorageFull.into());
    assert_eq!(log.spares.give_up_one(&mut disk.clone(), &full), Ok(true));
    assert!(log.extent().short);
    log.tend(1);
    assert_eq!((log.extent().short, log.extent().spares, log.shortage()), (false, 4, None));
}

#[test]
fn a_long_batch_waits_for_the_spare_that_is_being_made() {
    let disk = TestDisk::new();
    disk.state().slow = true;
    let (mut log, _) = claimed(&disk, options());
    assert!(disk.names().iter().any(|name| name == "spare-3.new"), "the test counts on it");
    assert_eq!(submit(&mut log, 1, 1, &[7; 9000]), Completion::Durable(1));
    assert!(disk.names().iter().any(|name| name == "spare-3.log"), "{:?}", disk.names());
}
