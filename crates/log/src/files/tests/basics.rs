//! Appending, reading back, rolling, truncating, restarting.

use super::*;
use crate::files::segment::{HEADER_BYTES, id_of, name_of};
use crate::frame::FRAME_HEADER_BYTES;

#[test]
fn a_fresh_log_is_empty_and_takes_batches() {
    let disk = TestDisk::new();
    let (mut log, claim) = claimed(&disk, options());
    assert_eq!((claim.epoch, claim.first, claim.tail, claim.bytes), (1, 1, 0, 0));
    assert!(claim.notices.is_empty());
    assert_eq!(read(&mut log).unwrap(), []);
    append(&mut log, 1, 1..=3);
    assert_eq!(read(&mut log).unwrap(), expected(1..=3));
    assert_eq!(log.trouble(), None);
}

#[test]
fn many_segments_are_read_back_in_portions() {
    let disk = TestDisk::new();
    let (mut log, _) = claimed(&disk, options());
    append(&mut log, 1, 1..=50);
    let (mut log, claim) = claimed(&disk, options());
    assert_eq!((claim.first, claim.tail), (1, 50));
    let (mut from, mut seen, mut begins) = (1, Vec::new(), Vec::new());
    loop {
        let next = log
            .replay(from, 1, &mut |replayed| {
                assert_eq!(replayed.batch, batch(replayed.position, &payload(replayed.position)));
                seen.push(replayed.position);
                if replayed.begins_segment {
                    begins.push(replayed.position);
                }
            })
            .unwrap();
        match next {
            Some(next) => from = next,
            None => break,
        }
    }
    assert_eq!(seen, (1..=50).collect::<Vec<_>>());
    assert!(begins.len() > 10 && begins[0] == 1, "{begins:?}");
    assert_eq!(*begins.last().unwrap(), log.newest_from());
    let mut late = Vec::new();
    log.replay(48, usize::MAX, &mut |replayed| late.push(replayed.position)).unwrap();
    assert_eq!(late, [48, 49, 50]);
}

#[test]
fn a_batch_longer_than_a_segment_gets_one_of_its_own() {
    for first in [true, false] {
        let disk = TestDisk::new();
        let (mut log, _) = claimed(&disk, options());
        let mut position = 1;
        if !first {
            append(&mut log, 1, 1..=1);
            position = 2;
        }
        let large = vec![7; 5000];
        assert_eq!(submit(&mut log, 1, position, &large), Completion::Durable(position));
        append(&mut log, 1, position + 1..=position + 9);
        let (claim, read) = recovered(&disk).unwrap();
        assert_eq!(claim.tail, position + 9);
        assert_eq!(read[usize::try_from(position).unwrap() - 1], (position, large));
        // Even if spares are wanted.
        remove_spares(&disk);
        disk.state().slow = true;
        let (mut log, _) = claimed(&disk, options());
        let longer = |disk: &TestDisk| disk.contents().values().filter(|bytes| bytes.len() > 5096).count();
        assert_eq!(longer(&disk), 1);
        log.truncate_before(position + 9);
        assert_eq!(longer(&disk), 0, "it is never recycled");
    }
}

#[test]
fn a_long_batch_at_the_very_end_is_there_after_a_restart() {
    let disk = TestDisk::new();
    let (mut log, _) = claimed(&disk, options());
    append(&mut log, 1, 1..=2);
    assert_eq!(submit(&mut log, 1, 3, &[7; 9000]), Completion::Durable(3));
    let (mut log, claim) = claimed(&disk, options());
    assert_eq!(claim.tail, 3);
    append(&mut log, 2, 4..=6);
    assert_eq!(read(&mut log).unwrap().len(), 6);
}

#[test]
fn what_is_needed_no_more_goes_and_its_files_are_used_again() {
    let disk = TestDisk::new();
    let (mut log, _) = claimed(&disk, options());
    append(&mut log, 1, 1..=50);
    let before = log.extent();
    log.truncate_before(30);
    let after = log.extent();
    assert!(after.bytes < before.bytes && after.room == before.room);
    let (claim, seen) = recovered(&disk).unwrap();
    assert!(claim.first <= 30 && claim.first > 20, "{claim:?}");
    assert_eq!(seen, expected(claim.first..=50));
    let (mut log, claim) = claimed(&disk, options());
    for round in 0..20 {
        let from = 51 + round * 10;
        append(&mut log, claim.epoch, from..=from + 9);
        log.truncate_before(from);
        assert!(disk.names().len() < 12, "{:?}", disk.names());
    }
    log.truncate_before(u64::MAX);
    let newest = log.newest_from();
    let (claim, seen) = recovered(&disk).unwrap();
    assert_eq!((claim.first, claim.tail), (newest, 250), "the newest segment stays");
    assert_eq!(seen, expected(newest..=250));
}

#[test]
fn what_a_recycled_file_held_is_never_read() {
    let disk = TestDisk::new();
    let (mut log, _) = claimed(&disk, options());
    // All frames are equally long, so that old ones begin just where new ones end.
    let same = |position: Position| [position.to_le_bytes(); 15].concat();
    let mut recycled = 0;
    for position in 1..=200 {
        assert_eq!(submit(&mut log, 1, position, &same(position)), Completion::Durable(position));
        log.tend(0);
        log.truncate_before(position.saturating_sub(6));
        let (mut seen, mut log) = (Vec::new(), open(&disk.copy(), options()));
        let claim = log.claim(0).unwrap();
        assert_eq!((claim.tail, claim.notices.len()), (position, 0), "{:?}", claim.notices);
        log.replay(1, usize::MAX, &mut |replayed| {
            assert_eq!(replayed.batch.payload, same(replayed.position));
            seen.push(replayed.position);
        })
        .unwrap();
        assert_eq!(seen, (claim.first..=position).collect::<Vec<_>>());
        recycled += usize::from(disk.get(&name_of(disk_newest(&disk)))[12]);
    }
    assert!(recycled > 100, "only {recycled} times the newest file was a recycled one");
}

/// The newest segment's id.
fn disk_newest(disk: &TestDisk) -> u64 {
    disk.names().iter().filter_map(|name| id_of(name)).max().unwrap()
}

#[test]
fn after_an_unclean_end_the_newest_segment_is_written_anew() {
    let disk = TestDisk::new();
    let (mut log, _) = claimed(&disk, options());
    for position in 1..=30 {
        append(&mut log, 1, position..=position);
        log.truncate_before(position);
    }
    let newest = name_of(disk_newest(&disk));
    let used = usize::try_from(log.held.as_ref().unwrap().newest().used).unwrap();
    assert!(disk.get(&newest)[used..].iter().any(|byte| *byte != 0), "it was recycled");
    for name in disk.names().iter().filter(|name| name.starts_with("spare")) {
        disk.change(name, |bytes| bytes.fill(0xaa));
    }
    let before = disk.identity(&newest);
    let (mut log, claim) = claimed(&disk, options());
    assert!(claim.notices.is_empty());
    assert_ne!(disk.identity(&newest), before);
    let bytes = disk.get(&newest);
    assert_eq!((bytes.len() as u64, bytes[12]), (SEGMENT_BYTES, 0));
    assert!(bytes[used..].iter().all(|byte| *byte == 0));
    log.close();
    let before = disk.identity(&newest);
    claimed(&disk, options());
    assert_eq!(disk.identity(&newest), before, "what was closed is durable");
}

#[test]
fn a_segment_that_was_never_named_is_removed_and_not_used_again() {
    let disk = TestDisk::new();
    let (mut log, _) = claimed(&disk, options());
    append(&mut log, 1, 1..=9);
    remove_spares(&disk);
    let newest = disk_newest(&disk);
    disk.put(&name_of(newest + 1), &disk.get(&name_of(newest)));
    assert_eq!(recovered(&disk).unwrap().1, expected(1..=9));
    for (name, bytes) in disk.contents() {
        assert!(!name.starts_with("spare") || bytes.iter().all(|byte| *byte == 0), "{name}");
    }
    assert_eq!(disk_newest(&disk), newest);
}

#[test]
fn a_clean_end_is_told_from_an_unclean_one() {
    let disk = TestDisk::new();
    let (mut log, _) = claimed(&disk, options());
    append(&mut log, 1, 1..=7);
    assert!(String::from_utf8(disk.get("manifest")).unwrap().contains("clean no\n"));
    log.close();
    assert_eq!(log.trouble(), None);
    assert!(String::from_utf8(disk.get("manifest")).unwrap().contains("proven 7\nclean yes\n"));
    assert_eq!(submit(&mut log, 1, 8, b"after the end"), Completion::Fenced);
    let newest = name_of(2);
    let before = disk.get(&newest);
    for epoch in 2..5 {
        let (claim, seen) = recovered(&disk).unwrap();
        assert_eq!((claim.epoch, claim.tail, claim.notices.len()), (epoch, 7, 0));
        assert_eq!(seen, expected(1..=7));
        assert_eq!(disk.get(&newest), before);
    }
}

#[test]
fn whoever_lost_the_log_or_expects_another_position_is_fenced() {
    let disk = TestDisk::new();
    let (mut log, _) = claimed(&disk, options());
    assert_eq!(submit(&mut open(&disk, options()), 0, 1, b"never claimed"), Completion::Fenced);
    append(&mut log, 1, 1..=2);
    assert_eq!(log.claim(0).unwrap().epoch, 2);
    assert_eq!(log.claim(10).unwrap().epoch, 11);
    assert_eq!(submit(&mut log, 1, 3, b"too late"), Completion::Fenced);
    for position in [2, 4] {
        assert_eq!(submit(&mut log, 11, position, b"elsewhere"), Completion::Fenced);
    }
    append(&mut log, 11, 3..=3);
    assert_eq!(recovered(&disk).unwrap().1, expected(1..=3));
}

#[test]
fn short_writes_are_continued() {
    let disk = TestDisk::new();
    disk.state().write_bytes_max = 7;
    let (mut log, _) = claimed(&disk, options());
    append(&mut log, 1, 1..=20);
    assert_eq!(recovered(&disk).unwrap().1, expected(1..=20));
    disk.state().write_bytes_max = 0;
    assert_eq!(submit(&mut log, 1, 21, b"nothing is taken"), Completion::Unknown);
    assert!(log.trouble().unwrap().contains("could not write to 0000"), "{:?}", log.trouble());
}

#[test]
fn each_segment_is_read_once() {
    let disk = TestDisk::new();
    let (mut log, _) = claimed(&disk, options());
    append(&mut log, 1, 1..=100);
    log.close();
    let (mut log, claim) = claimed(&disk, options());
    let before = disk.state().read_bytes;
    let mut next = Some(1);
    while let Some(from) = next {
        next = log.replay(from, 1, &mut |_| ()).unwrap();
    }
    let segments = claim.bytes / (SEGMENT_BYTES - HEADER_BYTES) + 1;
    assert!(disk.state().read_bytes - before <= usize::try_from(segments * SEGMENT_BYTES).unwrap());
}

#[test]
fn a_batch_costs_no_allocation_and_a_huge_one_is_not_kept() {
    let disk = TestDisk::new();
    let (mut log, _) = claimed(&disk, options());
    // Those that are copied, up to the longest.
    append(&mut log, 1, 1..=100);
    let buffer = log.buffer.as_ptr();
    append(&mut log, 1, 101..=200);
    assert_eq!(submit(&mut log, 1, 201, &vec![1; 5 * 1024 * 1024]), Completion::Durable(201));
    append(&mut log, 1, 202..=203);
    assert_eq!(log.buffer.as_ptr(), buffer, "neither grown nor replaced");
    assert!(log.buffer.capacity() < 1024);
}

#[test]
fn a_crash_in_the_very_first_start_is_in_the_way_of_nothing() {
    let disk = TestDisk::new();
    claimed(&disk, options());
    disk.remove_now("manifest");
    assert_eq!(recovered(&disk).unwrap().0.epoch, 1);
    disk.remove_now("manifest");
    disk.put(&name_of(2), &[0; 5096]);
    let before = disk.contents();
    assert_eq!(recovered(&disk), Err(LogError::MissingManifest { segment: name_of(1) }));
    assert_eq!(disk.contents(), before);
}

#[test]
fn a_segment_has_room_for_a_frame_and_a_log_has_a_salt() {
    let least = Options { segment_bytes: 0, salt_for_new: 0, ..options() }.within_bounds();
    let least_bytes = HEADER_BYTES + 2 * crate::FRAME_HEADER_BYTES as u64;
    assert_eq!((least.segment_bytes, least.salt_for_new), (least_bytes, 1));
    let more = options().within_bounds();
    assert_eq!((more.segment_bytes, more.salt_for_new), (SEGMENT_BYTES, SALT));
}

#[test]
fn a_replay_gives_so_much_and_begins_wherever_it_is_asked_to() {
    let disk = TestDisk::new();
    let (mut log, _) = claimed(&disk, options());
    append(&mut log, 1, 1..=9);
    let first = FRAME_HEADER_BYTES + payload(1).len();
    let asked: [(Position, usize, &[Position], Option<Position>); _] = [
        (1, first, &[1], Some(2)),
        (1, first + 1, &[1, 2], Some(3)),
        (2, 1, &[2], Some(3)),
        (8, 1, &[8], Some(9)),
        (8, usize::MAX, &[8, 9], None),
        (1, 1, &[1], Some(2)),
    ];
    for (from, bytes, given, next) in asked {
        let mut seen = Vec::new();
        assert_eq!(log.replay(from, bytes, &mut |replayed| seen.push(replayed.position)), Ok(next), "from {from}");
        assert_eq!(seen, given, "{bytes} bytes from {from}");
    }
}
