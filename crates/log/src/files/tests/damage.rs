//! What was being written is cut off; what was durable and is damaged is refused.

use super::*;
use crate::disk::Disk;
use crate::files::segment::{HEADER_BYTES, SegmentHeader, name_of};
use crate::files::{Manifest, volume};
use crate::frame::{Damage, FRAME_HEADER_BYTES};

/// A log of two segments that was never closed, where the newest one's last frame begins, and where it ends.
fn two_segments() -> (TestDisk, String, usize, usize) {
    let disk = TestDisk::new();
    let (mut log, _) = claimed(&disk, options());
    append(&mut log, 1, 1..=7);
    let newest = log.held.as_ref().unwrap().newest();
    assert_eq!((newest.header.id, newest.header.first), (2, 5), "the test counts on it");
    let end = usize::try_from(newest.used).unwrap();
    (disk, name_of(2), end - FRAME_HEADER_BYTES - payload(7).len(), end)
}

#[test]
fn a_manifest_that_is_older_than_the_log_is_refused_and_nothing_is_touched() {
    let disk = TestDisk::new();
    let (mut log, _) = claimed(&disk, options());
    append(&mut log, 1, 1..=3);
    let old = disk.contents()["manifest"].clone();
    append(&mut log, 1, 4..=12);
    assert!(log.held.as_ref().unwrap().manifest.newest > 2, "the test counts on it");
    disk.change("manifest", |bytes| *bytes = old);
    let before = disk.contents();
    let error = recovered(&disk).unwrap_err();
    assert!(error.to_string().contains(&format!("{} goes on", name_of(2))), "{error}");
    assert_eq!(disk.contents(), before);
}

#[test]
fn what_others_keep_in_the_directory_is_left_alone() {
    let disk = TestDisk::new();
    let (mut log, _) = claimed(&disk, options());
    append(&mut log, 1, 1..=3);
    drop(log);
    let half_made = [name_of(9).replace(".log", ".new"), "spare-70.new".to_owned()];
    let others = ["config.new", "notes", "spare-x.new", "17.new"];
    for name in half_made.iter().map(String::as_str).chain(others) {
        disk.clone().create(name).unwrap();
    }
    recovered(&disk).unwrap();
    let contents = disk.contents();
    assert!(half_made.iter().all(|name| !contents.contains_key(name.as_str())));
    assert!(others.iter().all(|name| contents.contains_key(*name)));
}

#[test]
fn once_the_log_has_rested_damage_to_its_last_batch_is_refused_too() {
    let (disk, newest, from, _) = two_segments();
    for rests in [false, true] {
        let disk = disk.copy();
        let (mut log, claim) = claimed(&disk, options());
        append(&mut log, claim.epoch, 8..=8);
        let due = log.tend(8).expect("the manifest does not tell of the last batch");
        let at = if rests { due } else { due - 1 };
        let next = log.tend(at);
        assert_eq!(next, (!rests).then_some(due), "it is told once");
        drop(log);
        let end = disk.contents()[&newest].iter().rposition(|byte| *byte != 0).unwrap();
        assert!(end > from);
        disk.change(&newest, |bytes| bytes[end] ^= 1);
        match recovered(&disk) {
            Ok((claim, _)) => assert!(!rests && claim.tail == 7, "{claim:?}"),
            Err(error) => assert!(rests && matches!(error, LogError::Damaged { .. }), "{error}"),
        }
    }
}

#[test]
fn a_torn_tail_is_cut_and_reported_whatever_is_left_of_it() {
    let (whole, newest, from, end) = two_segments();
    for left in from..end {
        for shorter in [true, false] {
            let disk = whole.copy();
            disk.change(&newest, |bytes| {
                if shorter {
                    bytes.truncate(left);
                } else {
                    bytes[left..].fill(0);
                }
            });
            let (claim, seen) = recovered(&disk).unwrap();
            assert_eq!((claim.tail, claim.epoch), (6, 2));
            assert_eq!(seen, expected(1..=6));
            assert_eq!(claim.notices.len(), usize::from(left > from), "{left}: {:?}", claim.notices);
            assert!(claim.notices.iter().all(|notice| notice.contains(&format!("{newest} at byte {from}"))));
            let (mut log, claim) = claimed(&disk, options());
            assert_eq!((claim.tail, claim.notices.len()), (6, 0), "recovering twice equals recovering once");
            append(&mut log, claim.epoch, 7..=9);
            assert_eq!(recovered(&disk).unwrap().1, expected(1..=9));
        }
    }
}

#[test]
fn every_flipped_bit_of_the_last_batch_cuts_it_and_every_other_is_refused() {
    let (whole, newest, from, end) = two_segments();
    for (name, bytes) in whole.contents().iter().filter(|(name, _)| name.starts_with('0')) {
        let used = if *name == newest { end } else { bytes.len() - 160 };
        for bit in 0..used * 8 {
            let disk = whole.copy();
            disk.change(name, |bytes| bytes[bit / 8] ^= 1 << (bit % 8));
            let found = recovered(&disk);
            if *name == newest && bit / 8 >= from {
                let (claim, seen) = found.unwrap();
                assert_eq!((claim.tail, claim.notices.len()), (6, 1), "bit {bit}");
                assert_eq!(seen, expected(1..=6));
                continue;
            }
            let error = found.unwrap_err();
            assert!(error.to_string().contains(name), "bit {bit}: {error}");
            match error {
                LogError::SegmentHeader { .. } => assert!(bit / 8 < 4096),
                LogError::Damaged { offset, .. } => assert!(offset <= (bit / 8) as u64 && offset >= HEADER_BYTES),
                error => panic!("{error}"),
            }
        }
    }
}

#[test]
fn a_clean_end_leaves_no_doubt_about_the_last_batch() {
    let disk = TestDisk::new();
    let (mut log, _) = claimed(&disk, options());
    append(&mut log, 1, 1..=2);
    log.close();
    let at = 4096 + FRAME_HEADER_BYTES + payload(1).len();
    disk.change(&name_of(1), |bytes| bytes[at + 100] ^= 1);
    let LogError::Damaged { file, offset, damage, loss } = recovered(&disk).unwrap_err() else { panic!() };
    assert_eq!((file, offset, damage), (name_of(1), at as u64, Damage::Payload));
    assert_eq!((loss.from, loss.to, loss.batches), (2, 2, 1));
}

#[test]
fn what_is_missing_is_named() {
    let disk = TestDisk::new();
    let (mut log, _) = claimed(&disk, options());
    append(&mut log, 1, 1..=20);
    for id in 1..=4 {
        let disk = disk.copy();
        disk.remove_now(&name_of(id));
        assert_eq!(recovered(&disk), Err(LogError::MissingSegment { file: name_of(id) }));
    }
    disk.remove_now("manifest");
    let before = disk.contents();
    assert_eq!(recovered(&disk), Err(LogError::MissingManifest { segment: name_of(1) }));
    assert_eq!(disk.contents(), before);
}

#[test]
fn a_segment_in_the_place_of_another_is_refused() {
    let disk = TestDisk::new();
    let (mut log, _) = claimed(&disk, options());
    append(&mut log, 1, 1..=20);
    disk.put(&name_of(2), &disk.get(&name_of(3)));
    let error = recovered(&disk).unwrap_err().to_string();
    assert!(error.contains(&name_of(2)) && error.contains("segment 3"), "{error}");
}

#[test]
fn a_newest_segment_that_does_not_follow_is_refused_before_anything_is_written_behind_it() {
    let (disk, newest, ..) = two_segments();
    let header = SegmentHeader::read(&volume::open(&mut disk.clone(), &newest).unwrap(), &newest).unwrap();
    let before = header.first - 1;
    let manifest = Manifest::read(&mut disk.clone(), 1).unwrap().unwrap();
    disk.put("manifest", Manifest { proven: before, ..manifest }.to_text().as_bytes());
    // It was just begun, and has no batch.
    let put = |header: SegmentHeader| {
        let mut bytes = header.to_block();
        bytes.resize(usize::try_from(SEGMENT_BYTES).unwrap(), 0);
        disk.put(&newest, &bytes);
    };
    put(header);
    assert_eq!(recovered(&disk.copy()).unwrap().1, expected(1..=before));
    for wrong in [
        SegmentHeader { epoch_before: header.epoch_before + 1, ..header },
        SegmentHeader { crc_before: header.crc_before ^ 1, ..header },
    ] {
        put(wrong);
        let error = recovered(&disk.copy()).unwrap_err();
        assert!(matches!(&error, LogError::Damaged { file, offset: 0, .. } if *file == newest), "{error}");
    }
}

#[test]
fn whoever_is_refused_before_replay_finds_all_as_it_was() {
    let (whole, newest, ..) = two_segments();
    // Spares that do not fit, a segment that is none of the log, and what is half made would all go.
    whole.put("spare-7.log", b"too short");
    whole.put("spare-8.new", b"half made");
    whole.put("manifest.new", b"half made");
    let manifest = Manifest::read(&mut whole.clone(), 1).unwrap().unwrap();
    let newer = Manifest { format: 9, ..manifest };
    let tamper = |disk: &TestDisk, way: &str| match way {
        "is missing, but" => disk.remove_now("manifest"),
        "cannot be trusted" => disk.change("manifest", |bytes| bytes[30] ^= 1),
        "format 9" => disk.put("manifest", newer.to_text().as_bytes()),
        "01.log is missing" => disk.remove_now(&name_of(1)),
        "02.log is missing" => disk.remove_now(&newest),
        "01.log has a header" => disk.change(&name_of(1), |bytes| bytes[20] ^= 1),
        "02.log has a header" => disk.change(&newest, |bytes| bytes[20] ^= 1),
        "02.log at byte 4096" => disk.change(&newest, |bytes| bytes[4096 + 90] ^= 1),
        way => panic!("{way}"),
    };
    let ways = [
        "is missing, but",
        "cannot be trusted",
        "format 9",
        "01.log is missing",
        "02.log is missing",
        "01.log has a header",
        "02.log has a header",
        "02.log at byte 4096",
    ];
    for way in ways {
        let disk = whole.copy();
        disk.put(&name_of(3), b"never named");
        tamper(&disk, way);
        let before = disk.contents();
        let error = recovered(&disk).unwrap_err().to_string();
        assert!(error.contains(way), "{error}");
        assert!(disk.contents() == before, "{error}");
    }
    assert_eq!(recovered(&whole).unwrap().1, expected(1..=7));
    let names = whole.names();
    assert!(!names.iter().any(|name| name == "spare-8.new" || name == "spare-7.log"), "{names:?}");
}

#[test]
fn damage_that_replay_finds_leaves_the_segments_as_they_were_and_is_found_again() {
    let (disk, ..) = two_segments();
    disk.change(&name_of(1), |bytes| bytes[4096 + 90] ^= 1);
    let before = disk.contents();
    let error = recovered(&disk).unwrap_err();
    let after = disk.contents();
    for name in [name_of(1), name_of(2)] {
        assert!(after[&name] == before[&name], "{name}");
    }
    assert_ne!(after["manifest"], before["manifest"], "a larger epoch was claimed");
    assert_eq!(recovered(&disk), Err(error));
}

#[test]
fn a_manifest_without_a_segment_that_cannot_be_trusted_says_that_nothing_is_left() {
    let disk = TestDisk::new();
    disk.put("manifest", b"");
    let why = "its last line is not a checksum".to_owned();
    assert_eq!(recovered(&disk).unwrap_err(), LogError::NothingLeft { why });
    let error = crate::files::Reader::open_damaged(&mut disk.clone(), &[]).unwrap_err().to_string();
    assert!(error.contains("nothing can be salvaged") && error.contains("remove that file"), "{error}");
    disk.remove_now("manifest");
    assert_eq!(recovered(&disk).unwrap().0.tail, 0);
}
