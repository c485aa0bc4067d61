//! A disk without room: known before it is needed, and no reason not to start.

use std::io::ErrorKind;

use super::*;
use crate::disk::Disk;
use crate::files::segment::{HEADER_BYTES, SegmentHeader, name_of, spare_number_of};
use crate::frame::{FRAME_HEADER_BYTES, peek};
use crate::log::RESERVE_SEGMENTS;

const CAPACITY: u64 = SEGMENT_BYTES - HEADER_BYTES;

fn spares(disk: &TestDisk) -> usize {
    disk.names().iter().filter(|name| spare_number_of(name).is_some()).count()
}

/// No more bytes than there are now.
fn fill(disk: &TestDisk) {
    let used: usize = disk.contents().values().map(Vec::len).sum();
    disk.state().room = used;
}

#[test]
fn spares_are_made_ahead_and_count_as_room() {
    let disk = TestDisk::new();
    let (mut log, _) = claimed(&disk, options());
    assert_eq!(spares(&disk), 4);
    assert_eq!(log.extent().room, 5 * CAPACITY);
    for position in 1..=40 {
        append(&mut log, 1, position..=position);
        assert_eq!(spares(&disk), 4);
        assert!(log.extent().room >= 4 * CAPACITY);
    }
}

#[test]
fn a_spare_that_takes_its_time_is_waited_for_when_it_is_needed() {
    let disk = TestDisk::new();
    let (mut log, _) = claimed(&disk, options());
    disk.state().slow = true;
    append(&mut log, 1, 1..=40);
    assert_eq!(log.trouble(), None);
    assert!(log.extent().room >= 3 * CAPACITY, "those to come are as good as there");
    assert_eq!(recovered(&disk.copy()).unwrap().1, expected(1..=40));
}

#[test]
fn a_spare_has_its_name_only_when_it_is_whole() {
    let disk = TestDisk::new();
    disk.state().slow = true;
    let (mut log, _) = claimed(&disk, options());
    // Nothing may be decided before there are two.
    assert!(disk.names().iter().any(|name| name == "spare-3.new"), "{:?}", disk.names());
    assert_eq!(spares(&disk), 2);
    let crashed = disk.copy();
    crashed.put("spare-9.new", &[0; 100]);
    claimed(&crashed, options());
    assert!(crashed.names().iter().all(|name| name == "manifest.new" || !name.ends_with(".new")));
    log.close();
    assert_eq!(spares(&disk), 3);
}

#[test]
fn a_spare_made_in_a_hurry_is_a_segment_or_half_made_and_nothing_else() {
    let one_segment = 2 * usize::try_from(SEGMENT_BYTES).unwrap() - 1;
    for at in 1.. {
        let disk = TestDisk::new();
        disk.state().room = one_segment;
        let (mut log, _) = claimed(&disk, options());
        append(&mut log, 1, 1..=4);
        assert!(log.extent().short && spares(&disk) == 0);
        disk.state().room = usize::MAX;
        let operations = disk.state().operations;
        disk.state().fails_at = Some((operations + at, ErrorKind::Other));
        let done = submit(&mut log, 1, 5, &payload(5)) == Completion::Durable(5);
        assert_eq!(spares(&disk), 0, "{:?}", disk.names());
        if done {
            assert!(at > 5 && disk.names().contains(&name_of(2)));
            break;
        }
    }
}

#[test]
fn when_the_disk_is_full_room_shrinks_until_there_is_some_again() {
    let disk = TestDisk::new();
    let (mut log, _) = claimed(&disk, options());
    fill(&disk);
    let (mut position, mut rooms) = (0, Vec::new());
    while log.extent().room >= 300 {
        position += 1;
        append(&mut log, 1, position..=position);
        rooms.push(log.extent().room);
    }
    assert_eq!(log.trouble(), None);
    assert!(rooms.is_sorted_by(|a, b| a > b), "{rooms:?}");
    let short = log.extent().room;
    disk.state().room = usize::MAX;
    let due = log.tend(1).unwrap();
    assert_eq!(log.extent().room, short, "not tried before it is due");
    log.tend(due);
    assert!(log.extent().room >= 3 * CAPACITY);
    append(&mut log, 1, position + 1..=position + 20);
    assert_eq!(recovered(&disk).unwrap().1, expected(1..=position + 20));
}

#[test]
fn why_no_room_could_be_found_is_said_until_some_is() {
    let says = [
        (ErrorKind::PermissionDenied, "could not make spare-5.log: permission denied"),
        (ErrorKind::Other, "could not make spare-5.log: other error"),
        (ErrorKind::StorageFull, "the disk is full: could not make spare-5.log: no storage space"),
        (ErrorKind::QuotaExceeded, "the disk is full: could not make spare-5.log: quota exceeded"),
    ];
    for (kind, said) in says {
        let disk = TestDisk::new();
        let (mut log, _) = claimed(&disk, options());
        disk.state().slow = true;
        let mut position = 0;
        while disk.names().iter().all(|name| name != "spare-5.new") {
            assert_eq!((log.extent().short, log.shortage()), (false, None));
            position += 1;
            append(&mut log, 1, position..=position);
        }
        disk.state().slow = false;
        let at = disk.state().operations + 1;
        disk.state().fails_at = Some((at, kind));
        let due = log.tend(position).unwrap();
        assert_eq!((log.extent().short, log.shortage().as_deref()), (true, Some(said)));
        log.tend(due);
        assert_eq!((log.extent().short, log.shortage()), (false, None));
        assert_eq!(log.trouble(), None);
    }
}

#[test]
fn a_spare_that_was_given_up_says_for_what() {
    let disk = TestDisk::new();
    let (mut log, _) = claimed(&disk, options());
    append(&mut log, 1, 1..=1);
    // As on a system that cannot exchange names.
    disk.remove_now("manifest.new");
    fill(&disk);
    log.close();
    assert_eq!(log.trouble(), None);
    let why = log.shortage().unwrap();
    assert!(why.starts_with("the disk is full: could not write to manifest.new: "), "{why}");
}

#[test]
fn a_disk_that_others_fill_to_the_last_byte_takes_all_that_was_said_to_have_room() {
    let disk = TestDisk::new();
    let (mut log, _) = claimed(&disk, options());
    disk.state().greedy = true;
    let mut position = 0;
    while log.extent().room >= 300 {
        position += 1;
        append(&mut log, 1, position..=position);
        // Whatever becomes of it now, a start needs no byte more than there is.
        for close in [false, true] {
            let crashed = disk.copy();
            crashed.state().greedy = true;
            let (mut log, claim) = claimed(&crashed, options());
            assert_eq!(claim.tail, position);
            log.tend(10_000);
            if close {
                log.close();
            }
            assert_eq!(log.trouble(), None);
            assert_eq!(recovered(&crashed).unwrap().1, expected(1..=position));
        }
    }
    assert!(position > 9, "{position}");
    log.truncate_before(position);
    append(&mut log, 1, position + 1..=position + 1);
    log.close();
    assert_eq!(log.trouble(), None);
}

#[test]
fn a_directory_without_room_for_a_name_costs_a_spare_and_no_more() {
    let disk = TestDisk::new();
    let (mut log, _) = claimed(&disk, options());
    append(&mut log, 1, 1..=3);
    disk.state().names_refused = 1;
    append(&mut log, 1, 4..=40);
    assert_eq!(disk.state().names_refused, 0);
    assert_eq!(spares(&disk), 4, "a new one was made");
    // What is let go of goes, if it cannot become a spare, or a spare is made if that one cannot get its name.
    let before = disk.names().len();
    disk.state().names_refused = 2;
    log.truncate_before(40);
    append(&mut log, 1, 41..=60);
    assert_eq!((disk.state().names_refused, log.trouble()), (0, None));
    assert!(
        disk.names().len() < before
            && disk.names().iter().all(|name| !name.starts_with("spare") || !name.ends_with(".new"))
    );
    assert_eq!(recovered(&disk).unwrap().0.tail, 60);
}

/// A log of three batches, restored beside spares that hold later ones.
fn restored_beside_later_spares() -> TestDisk {
    let disk = TestDisk::new();
    let (mut log, _) = claimed(&disk, options());
    append(&mut log, 1, 1..=3);
    let backup = disk.copy();
    for position in 4..=40 {
        append(&mut log, 1, position..=position);
        log.truncate_before(position);
    }
    let is_spare = |name: &&String| spare_number_of(name).is_some();
    backup.names().iter().filter(is_spare).for_each(|name| backup.remove_now(name));
    disk.names().iter().filter(is_spare).for_each(|name| backup.put(name, &disk.get(name)));
    let is_later = |frame: &[u8]| peek(frame, SALT).is_some_and(|(header, _)| header.position > 3);
    let holds_later = |(name, bytes): (String, Vec<u8>)| {
        spare_number_of(&name).is_some() && bytes.windows(FRAME_HEADER_BYTES).any(is_later)
    };
    assert!(backup.contents().into_iter().any(holds_later));
    backup
}

#[test]
fn spares_of_a_later_time_are_taken_for_nothing_wherever_emptying_them_is_interrupted() {
    let restored = restored_beside_later_spares();
    for at in 0..400 {
        let disk = restored.copy();
        disk.all_synced();
        // They are used up, for there is no room for others; each is emptied in many pieces.
        disk.state().greedy = true;
        disk.state().write_bytes_max = 300;
        if at > 0 {
            disk.state().fails_at = Some((at, ErrorKind::Other));
        }
        let mut log = open(&disk, options());
        let mut durable = 3;
        if let Ok(claim) = log.claim(0) {
            while log.trouble().is_none() && log.extent().room >= 300 {
                let done = submit(&mut log, claim.epoch, durable + 1, &payload(durable + 1));
                durable += u64::from(done == Completion::Durable(durable + 1));
                let (claim, batches) = recovered(&crash_copy(&disk)).unwrap();
                assert!(claim.tail >= durable && batches == expected(1..=claim.tail), "{at}: {claim:?}");
            }
        }
        assert!(at > 0 || durable > 9, "{durable}");
        disk.state().fails_at = None;
        let (claim, batches) = recovered(&disk).unwrap();
        assert!(claim.tail >= durable && batches == expected(1..=claim.tail), "{at}: {claim:?}");
    }
}

/// What a process that starts now finds, on a disk of its own that has no more room than this one.
fn crash_copy(disk: &TestDisk) -> TestDisk {
    let copy = disk.copy();
    copy.state().greedy = disk.state().greedy;
    copy
}

#[test]
fn a_spare_that_cannot_be_read_is_no_reason_not_to_start() {
    let disk = TestDisk::new();
    let (mut log, _) = claimed(&disk, options());
    append(&mut log, 1, 1..=3);
    log.close();
    let spare = disk.names().into_iter().find(|name| spare_number_of(name).is_some()).unwrap();
    disk.state().unreadable = Some((spare.clone(), 0, HEADER_BYTES));
    assert_eq!(recovered(&disk).unwrap().1, expected(1..=3));
    assert!(!disk.names().contains(&spare));
}

#[test]
fn a_segment_that_takes_nothing_more_is_copied_and_not_touched_again() {
    for torn in [false, true] {
        let disk = TestDisk::new();
        let (mut log, _) = claimed(&disk, options());
        append(&mut log, 1, 1..=3);
        drop(log);
        if torn {
            let end = disk.get(&name_of(1)).iter().rposition(|byte| *byte != 0).unwrap() + 1;
            disk.change(&name_of(1), |bytes| bytes[end..end + 50].fill(7));
        }
        disk.state().unwritable = Some(disk.identity(&name_of(1)));
        for start in 0..3 {
            let (mut log, claim) = claimed(&disk, options());
            assert_eq!(read(&mut log).unwrap(), expected(1..=3 + start));
            append(&mut log, claim.epoch, 4 + start..=4 + start);
        }
        let (mut log, claim) = claimed(&disk, options());
        append(&mut log, claim.epoch, 7..=40);
        assert_eq!(log.trouble(), None);
    }
}

#[test]
fn a_segment_shorter_than_others_is_no_spare() {
    let disk = TestDisk::new();
    let (mut log, _) = claimed(&disk, options());
    append(&mut log, 1, 1..=2);
    log.close();
    let longer = Options { segment_bytes: 2 * SEGMENT_BYTES, ..options() };
    drop(claimed(&disk, longer.clone()));
    let (mut log, claim) = claimed(&disk, longer);
    disk.state().greedy = true;
    let mut position = claim.tail;
    while log.extent().room >= 300 {
        position += 1;
        append(&mut log, claim.epoch, position..=position);
    }
    assert_eq!(log.trouble(), None);
}

#[test]
fn however_segments_have_changed_in_length_a_full_disk_is_given_up_to_nobody() {
    for (before, after) in [(SEGMENT_BYTES, 3 * SEGMENT_BYTES), (3 * SEGMENT_BYTES, SEGMENT_BYTES)] {
        let disk = TestDisk::new();
        let (mut log, _) = claimed(&disk, Options { segment_bytes: before, ..options() });
        append(&mut log, 1, 1..=60);
        drop(log);
        let (mut log, claim) = claimed(&disk, Options { segment_bytes: after, ..options() });
        disk.state().greedy = true;
        let (mut position, mut first) = (claim.tail, claim.tail - 3);
        // The room that is let go of is that of what follows, for as long as anyone likes.
        for _ in 0..200 {
            position += 1;
            append(&mut log, claim.epoch, position..=position);
            first += 1;
            log.truncate_before(first);
            log.tend(position * 10_000);
            assert!(spares(&disk) >= 3, "{before} {after} {:?}", log.extent());
        }
        assert_eq!(log.trouble(), None);
        assert_eq!(recovered_with(&disk, Options { segment_bytes: after, ..options() }).unwrap().0.tail, position);
    }
}

#[test]
fn nothing_is_decided_before_it_is_known_whether_there_will_be_a_spare() {
    let disk = TestDisk::new();
    let (mut log, _) = claimed(&disk, options());
    append(&mut log, 1, 1..=3);
    drop(log);
    remove_spares(&disk);
    fill(&disk);
    disk.state().slow = true;
    let (mut log, claim) = claimed(&disk, options());
    assert!(log.extent().short, "{:?}", log.extent());
    let mut position = 3;
    while log.extent().room >= 300 {
        position += 1;
        append(&mut log, claim.epoch, position..=position);
    }
    assert_eq!(log.trouble(), None);
}

#[test]
fn of_a_disk_found_full_the_reserve_is_left_however_late_that_is_found() {
    for slow in [false, true] {
        let disk = TestDisk::new();
        let (mut log, _) = claimed(&disk, options());
        fill(&disk);
        disk.state().slow = slow;
        let mut position = 0;
        while !log.extent().short {
            position += 1;
            append(&mut log, 1, position..=position);
        }
        // If it is found by a batch that begins a segment, this batch is of the reserve already.
        let room = log.extent().room;
        assert!(room >= RESERVE_SEGMENTS * CAPACITY - 300, "{room}");
        assert!(room < (RESERVE_SEGMENTS + 1) * CAPACITY, "{room}");
    }
}

#[test]
fn the_reserve_is_made_before_anything_is_taken_of_it_however_fast_segments_are_filled() {
    let disk = TestDisk::new();
    disk.state().slow = true;
    let (mut log, _) = claimed(&disk, options());
    let mut position = 0;
    while !disk.names().contains(&name_of(3)) {
        position += 1;
        append(&mut log, 1, position..=position);
        assert!(spares(&disk) >= 3 || !disk.names().contains(&name_of(2)), "{:?}", disk.names());
    }
    fill(&disk);
    while !log.extent().short {
        position += 1;
        append(&mut log, 1, position..=position);
    }
    let room = log.extent().room;
    assert!(room >= RESERVE_SEGMENTS * CAPACITY - 300, "{room}");
    assert_eq!(log.trouble(), None);
}

#[test]
fn a_failure_to_make_a_spare_is_tried_again_every_second() {
    let disk = TestDisk::new();
    disk.state().room = 2 * usize::try_from(SEGMENT_BYTES).unwrap();
    let (mut log, _) = claimed(&disk, options());
    for now in [5000, 6000, 7000] {
        assert_eq!(log.tend(now), Some(now + 1000));
        let operations = disk.state().operations;
        assert_eq!(log.tend(now + 999), Some(now + 1000));
        assert_eq!(disk.state().operations, operations);
    }
}

#[test]
fn a_full_disk_does_not_prevent_a_start() {
    let disk = TestDisk::new();
    let (mut log, _) = claimed(&disk, options());
    fill(&disk);
    let mut position = 0;
    while log.extent().room >= 300 {
        position += 1;
        append(&mut log, 1, position..=position);
        let crashed = disk.copy();
        fill(&crashed);
        let (mut log, claim) = claimed(&crashed, options());
        assert_eq!(claim.tail, position);
        assert_eq!(read(&mut log).unwrap(), expected(1..=position));
        log.close();
        assert_eq!(log.trouble(), None);
    }
    // Even the last spare is used up, if anyone insists; then there is room for the same bytes in the same place only.
    log.truncate_before(3);
    let crashed = disk.copy();
    for name in crashed.names().iter().filter(|name| spare_number_of(name).is_some()) {
        crashed.remove_now(name);
    }
    fill(&crashed);
    let (mut log, claim) = claimed(&crashed, options());
    assert_eq!(claim.tail, position);
    assert_eq!(read(&mut log).unwrap(), expected(claim.first..=position));
}

#[test]
fn a_batch_longer_than_a_segment_takes_the_room_of_spares() {
    let disk = TestDisk::new();
    let (mut log, _) = claimed(&disk, options());
    append(&mut log, 1, 1..=1);
    fill(&disk);
    log.tend(1);
    assert_eq!(submit(&mut log, 1, 2, &[7; 6000]), Completion::Durable(2));
    assert!(spares(&disk) < 4);
    assert_eq!(recovered(&disk).unwrap().1.len(), 2);
}

#[test]
fn spares_of_another_size_go() {
    let disk = TestDisk::new();
    let (mut log, _) = claimed(&disk, options());
    append(&mut log, 1, 1..=9);
    let larger = Options { segment_bytes: 9000, ..options() };
    let (mut log, claim) = claimed(&disk, larger);
    append(&mut log, claim.epoch, 10..=30);
    for (name, bytes) in disk.contents() {
        assert!(spare_number_of(&name).is_none() || bytes.len() == 9000, "{name}");
    }
    log.truncate_before(30);
    assert_eq!(spares(&disk), 5, "one more is kept if it need not be made");
    assert_eq!(recovered(&disk).unwrap().0.tail, 30, "and back again");
}

#[test]
fn each_start_may_have_another_segment_size() {
    for clean in [true, false] {
        let disk = TestDisk::new();
        let mut position = 0;
        for segment_bytes in [5096, 9000, 4700, 4700, 20_000, 5096, 9000] {
            let (mut log, claim) = claimed(&disk, Options { segment_bytes, ..options() });
            assert_eq!(claim.tail, position);
            assert_eq!(read(&mut log).unwrap(), expected(1..=position));
            assert_eq!(log.extent().segment_bytes, segment_bytes - HEADER_BYTES);
            for (name, bytes) in disk.contents() {
                assert!(!name.ends_with(".log") || bytes.len() as u64 == segment_bytes, "{name}");
            }
            position += 30;
            append(&mut log, claim.epoch, position - 29..=position);
            if clean {
                log.close();
            }
            assert_eq!(log.trouble(), None);
        }
        let (mut log, claim) = claimed(&disk, options());
        log.truncate_before(position);
        assert_eq!(log.trouble(), None);
        append(&mut log, claim.epoch, position + 1..=position + 30);
        let lengths: Vec<_> = disk.contents().into_iter().filter(|(name, _)| spare_number_of(name).is_some()).collect();
        assert!(lengths.iter().all(|(_, bytes)| bytes.len() as u64 == SEGMENT_BYTES), "none of another length is kept");
        assert_eq!(recovered(&disk).unwrap().0.tail, position + 30);
    }
}

#[test]
fn a_spare_of_a_later_time_is_called_one_until_it_is_empty_for_certain() {
    let restored = restored_beside_later_spares();
    // Those of this time are of a later epoch.
    let is_later = |frame: &[u8]| peek(frame, SALT).is_some_and(|(header, _)| header.position > 3 && header.epoch == 1);
    let mut begun = 0;
    for at in 1.. {
        let disk = restored.copy();
        disk.all_synced();
        disk.state().greedy = true;
        disk.state().fails_at = Some((at, ErrorKind::Other));
        let mut log = open(&disk, options());
        let epoch = log.claim(0).map_or(0, |claim| claim.epoch);
        for position in 4..=18 {
            submit(&mut log, epoch, position, &payload(position));
        }
        if disk.state().operations < at {
            break;
        }
        for seed in 0..40 {
            let after = disk.power_cut(random(at as u64 * 100 + seed));
            for name in after.names().iter().filter(|name| spare_number_of(name).is_some()) {
                let header = SegmentHeader::read(&after.clone().open(name).unwrap(), name);
                let (bytes, before) = (after.get(name), restored.get(name));
                // The first segment's file is a spare too, once it was copied.
                let has_new_header = header.is_ok_and(|header| header.id > 1) && bytes[..4096] != before[..4096];
                if has_new_header || bytes[..4096].iter().all(|byte| *byte == 0) {
                    assert!(!bytes.windows(FRAME_HEADER_BYTES).any(is_later), "operation {at}, seed {seed}: {name}");
                }
                begun += usize::from(has_new_header);
            }
        }
    }
    assert!(begun > 100, "{begun}");
}
