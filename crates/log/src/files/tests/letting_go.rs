//! Beginning segments and letting go of them: what is proven by it, and what a failure leaves.

use std::io::ErrorKind;

use super::*;
use crate::files::segment::{id_of, name_of};
use crate::files::{Reader, salvage};
use crate::frame::Damage;

/// A log of five batches, of which the fifth begins the second segment.
fn five() -> (TestDisk, FileLog<TestDisk>) {
    let disk = TestDisk::new();
    let (mut log, _) = claimed(&disk, options());
    append(&mut log, 1, 1..=5);
    assert_eq!(log.newest_from(), 5, "the test counts on it");
    (disk, log)
}

#[test]
fn that_a_segment_was_begun_proves_all_before_it() {
    let (mut disk, _) = five();
    disk.remove_now(&name_of(1));
    disk.remove_now(&name_of(2));
    let loss = Reader::open(&mut disk, &[]).unwrap().loss().unwrap();
    assert_eq!((loss.to, loss.at_least), (4, true));
    let nothing = Vec::<(Moment, Vec<u8>)>::new();
    assert_eq!(salvage(&mut disk, &options(), nothing).unwrap().first, 5, "no position is used twice");
}

#[test]
fn letting_go_of_a_segment_proves_all_there_is() {
    let (disk, mut log) = five();
    log.truncate_before(5);
    assert!(!disk.names().contains(&name_of(1)));
    drop(log);
    let last = disk.get(&name_of(2)).iter().rposition(|byte| *byte != 0).unwrap();
    disk.change(&name_of(2), |bytes| bytes[last] ^= 1);
    let error = recovered(&disk).unwrap_err();
    assert!(matches!(&error, LogError::Damaged { damage: Damage::Payload, .. }), "{error}");
}

#[test]
fn whatever_fails_while_segments_are_let_go_of_is_trouble() {
    for at in 1.. {
        let disk = TestDisk::new();
        let (mut log, _) = claimed(&disk, options());
        append(&mut log, 1, 1..=20);
        let before = disk.state().operations;
        disk.state().fails_at = Some((before + at, ErrorKind::Other));
        log.truncate_before(10);
        if disk.state().operations < before + at {
            assert!(at > 10, "there were only {at} operations");
            assert_eq!(log.trouble(), None);
            break;
        }
        assert!(log.trouble().is_some(), "operation {at}");
    }
}

#[test]
fn a_manifest_never_names_a_segment_that_a_power_cut_could_take() {
    for at in 1.. {
        let disk = TestDisk::new();
        let (mut log, _) = claimed(&disk, options());
        append(&mut log, 1, 1..=4);
        let before = disk.state().operations;
        disk.state().fails_at = Some((before + at, ErrorKind::Other));
        let done = submit(&mut log, 1, 5, &payload(5)) == Completion::Durable(5);
        let after = disk.power_cut_but_for(&["manifest", "manifest.new"]);
        let (claim, seen) = recovered(&after).unwrap_or_else(|error| panic!("operation {at}: {error}"));
        assert_eq!(seen, expected(1..=claim.tail));
        assert!(claim.tail >= if done { 5 } else { 4 }, "operation {at}: {claim:?}");
        if done {
            assert!(at > 8 && disk.names().iter().filter(|name| id_of(name).is_some()).count() == 2);
            break;
        }
    }
}

#[test]
fn a_segment_for_a_long_batch_is_made_under_its_own_name() {
    let (disk, mut log) = five();
    let at = disk.state().operations + 1;
    disk.state().fails_at = Some((at, ErrorKind::Other));
    assert_eq!(submit(&mut log, 1, 6, &[7; 9000]), Completion::Unknown);
    let trouble = log.trouble().unwrap();
    assert!(trouble.starts_with("could not make 00000000000000000003.new: "), "{trouble}");
}
