//! When what was written is synced, and what a power cut may then take.

use super::*;
use crate::files::segment::name_of;
use crate::frame::FRAME_HEADER_BYTES;

fn syncs(disk: &TestDisk) -> usize {
    disk.state().syncs
}

#[test]
fn always_syncs_every_batch_once() {
    let disk = TestDisk::new();
    let (mut log, _) = claimed(&disk, options());
    let before = syncs(&disk);
    append(&mut log, 1, 1..=4);
    assert_eq!(syncs(&disk), before + 4);
    assert_eq!(log.tend(1_000_000), None);
    assert_eq!(syncs(&disk), before + 5, "the manifest, when the log has come to rest");
    assert_eq!((log.tend(2_000_000), syncs(&disk)), (None, before + 5));
}

#[test]
fn an_interval_syncs_when_it_is_over() {
    let disk = TestDisk::new();
    let (mut log, _) = claimed(&disk, with_sync(SyncMode::Interval(50)));
    let before = syncs(&disk);
    log.submit(1, 1, batch(1000, b"a"));
    assert_eq!(log.completed(), Some(Completion::Durable(1)));
    assert_eq!(log.tend(1010), Some(1050));
    log.submit(1, 2, batch(1040, b"b"));
    log.completed();
    assert_eq!((log.tend(1049), syncs(&disk)), (Some(1050), before));
    assert_eq!((log.tend(1050), syncs(&disk)), (Some(2040), before + 1));
    log.submit(1, 3, batch(1060, b"c"));
    log.completed();
    log.submit(1, 4, batch(1110, b"d"));
    assert_eq!((log.completed(), syncs(&disk)), (Some(Completion::Durable(4)), before + 2));
    assert_eq!(log.tend(2000), Some(2110));
    assert_eq!((log.tend(2110), syncs(&disk)), (None, before + 3));
}

#[test]
fn never_syncs_when_a_segment_is_full_and_at_the_end() {
    let disk = TestDisk::new();
    let (mut log, _) = claimed(&disk, with_sync(SyncMode::Never));
    let before = syncs(&disk);
    append(&mut log, 1, 1..=4);
    assert_eq!((log.tend(u64::MAX), syncs(&disk)), (None, before));
    append(&mut log, 1, 5..=5);
    assert_eq!(syncs(&disk), before + 3, "the old segment, the new one's header, the manifest");
    log.close();
    assert_eq!(syncs(&disk), before + 5, "the batch and the manifest");
    assert_eq!(recovered(&disk).unwrap().1, expected(1..=5));
}

#[test]
fn whole_batches_behind_a_hole_are_cut_if_nothing_proves_that_the_hole_was_durable() {
    for sync in [SyncMode::Never, SyncMode::Interval(1000)] {
        let disk = TestDisk::new();
        let (mut log, _) = claimed(&disk, with_sync(sync));
        append(&mut log, 1, 1..=4);
        let at = 4096 + FRAME_HEADER_BYTES + payload(1).len();
        disk.change(&name_of(1), |bytes| bytes[at..at + 8].fill(0));
        let (claim, seen) = recovered(&disk).unwrap();
        assert_eq!((claim.tail, claim.notices.len()), (1, 1));
        assert!(claim.notices[0].contains("2 whole batches"), "{:?}", claim.notices);
        assert_eq!(seen, expected(1..=1));
    }
}

#[test]
fn a_hole_in_what_was_synced_is_refused_in_every_mode() {
    for sync in [SyncMode::Always, SyncMode::Never, SyncMode::Interval(3)] {
        let disk = TestDisk::new();
        let (mut log, _) = claimed(&disk, with_sync(sync));
        append(&mut log, 1, 1..=3);
        log.sync().unwrap();
        append(&mut log, 1, 4..=4);
        let at = 4096 + FRAME_HEADER_BYTES + payload(1).len();
        disk.change(&name_of(1), |bytes| bytes[at..at + 8].fill(0));
        let LogError::Damaged { offset, loss, .. } = recovered(&disk).unwrap_err() else { panic!() };
        assert_eq!((offset, loss.from, loss.to), (at as u64, 2, 2));
        assert_eq!(loss.bytes, (FRAME_HEADER_BYTES + payload(2).len()) as u64);
    }
}

#[test]
fn what_is_durable_is_not_synced_again() {
    let disk = TestDisk::new();
    let (mut log, _) = claimed(&disk, options());
    append(&mut log, 1, 1..=2);
    let before = syncs(&disk);
    log.sync().unwrap();
    assert_eq!(syncs(&disk), before);
    log.close();
    assert_eq!(syncs(&disk), before + 1, "the manifest");
}
