//! Every operation of the disk may fail. What was told to be durable is there afterwards, and nothing else but one more.

use std::io::ErrorKind;

use super::*;

/// What a server did before its disk failed.
struct Life {
    /// The last batch that was told to be durable.
    durable: Position,
    /// Batches before this one were let go of.
    needed_from: Position,
    /// The last batch when that was done: it may hold what was in those.
    needed_to: Position,
}

/// A whole life of a server: start, batches over many segments, one larger than a segment, letting go, end.
fn live(disk: &TestDisk, from: &Life, sync: SyncMode) -> Life {
    let mut life = Life { ..*from };
    let mut log = open(disk, with_sync(sync));
    let Ok(claim) = log.claim(0) else { return life };
    assert!(claim.tail >= life.durable && claim.tail <= life.durable + 1, "{claim:?} but {}", life.durable);
    life.durable = claim.tail;
    for position in claim.tail + 1..=claim.tail + 20 {
        match submit(&mut log, claim.epoch, position, &long_payload(position)) {
            Completion::Durable(durable) => life.durable = durable,
            Completion::Unknown => {
                assert!(log.trouble().is_some());
                assert_eq!(submit(&mut log, claim.epoch, position, b"again"), Completion::Unknown);
                log.close();
                return life;
            }
            Completion::Fenced => panic!("nobody else is there"),
        }
        log.tend(position);
        if position % 8 == 0 {
            life.needed_from = position - 3;
            log.truncate_before(life.needed_from);
            if log.trouble().is_none() {
                life.needed_to = position;
            }
        }
    }
    log.close();
    life
}

/// Every seventh batch is longer than a segment.
fn long_payload(position: Position) -> Vec<u8> {
    if position % 7 == 6 { payload(position).repeat(12) } else { payload(position) }
}

fn check(disk: &TestDisk, life: &Life) {
    let (claim, seen) = recovered(disk).unwrap();
    assert!(claim.first <= life.needed_from.max(1), "{claim:?}");
    assert!(claim.tail >= life.durable && claim.tail <= life.durable + 1, "{claim:?} but {}", life.durable);
    let expected: Vec<_> = (claim.first..=claim.tail).map(|position| (position, long_payload(position))).collect();
    assert_eq!(seen, expected);
}

#[test]
fn whenever_the_power_goes_what_was_durable_stays() {
    let mut at = 0;
    loop {
        at += 1;
        let disk = TestDisk::new();
        disk.state().fails_at = Some((at, ErrorKind::Other));
        disk.state().fails_late = at % 2 == 0;
        let life = live(&disk, &UNBORN, SyncMode::Always);
        let over = disk.state().operations < at;
        for seed in 0..12 {
            let mut random = random(at as u64 * 100 + seed);
            let after = disk.power_cut(&mut random);
            // It may go again while the server starts.
            after.state().fails_at = Some((random() % 60 + 1, ErrorKind::Other));
            let tail = open(&after, options()).claim(0).map_or(life.durable, |claim| claim.tail);
            let life = Life { durable: life.durable.max(tail), ..life };
            let again = after.power_cut(&mut random);
            check(&again, &life);
            check(&again, &life);
        }
        if over {
            break;
        }
    }
}

#[test]
fn without_syncs_a_power_cut_leaves_a_beginning_of_the_log() {
    for (sync, at) in (0..200).flat_map(|at| [(SyncMode::Never, at), (SyncMode::Interval(4), at)]) {
        let disk = TestDisk::new();
        disk.state().fails_at = Some((at, ErrorKind::Other));
        let life = live(&disk, &UNBORN, sync);
        for seed in 0..6 {
            let after = disk.power_cut(random(at as u64 * 100 + seed));
            let (claim, seen) = recovered(&after).unwrap();
            assert!(claim.tail >= life.needed_to, "{claim:?} but {}", life.needed_to);
            assert!(claim.tail <= life.durable + 1 && claim.first <= life.needed_from.max(1));
            let expected: Vec<_> =
                (claim.first..=claim.tail).map(|position| (position, long_payload(position))).collect();
            assert_eq!(seen, expected);
        }
    }
}

const UNBORN: Life = Life { durable: 0, needed_from: 0, needed_to: 0 };

#[test]
fn whatever_operation_fails_what_was_durable_stays() {
    for (late, sync) in [(false, SyncMode::Always), (true, SyncMode::Always), (true, SyncMode::Interval(3))] {
        let mut at = 0;
        loop {
            at += 1;
            let disk = TestDisk::new();
            disk.state().fails_at = Some((at, ErrorKind::Other));
            disk.state().fails_late = late;
            let life = live(&disk, &UNBORN, sync);
            if disk.state().operations < at {
                break;
            }
            disk.state().fails_at = None;
            check(&disk.copy(), &life);
            let life = live(&disk, &life, sync);
            assert!(life.durable >= 20);
            check(&disk, &life);
        }
        assert!(at > 150, "there were only {at} operations");
    }
}

#[test]
fn recovery_may_fail_wherever_it_likes() {
    for late in [false, true] {
        for died_at in [60, 75, 90, 105, 120, 135, 150] {
            let disk = TestDisk::new();
            disk.state().fails_at = Some((died_at, ErrorKind::Other));
            disk.state().fails_late = late;
            let life = live(&disk, &UNBORN, SyncMode::Always);
            let mut at = 0;
            loop {
                at += 1;
                let disk = disk.copy();
                disk.state().fails_at = Some((at, ErrorKind::Other));
                disk.state().fails_late = late;
                let failed = open(&disk, options()).claim(0).is_err();
                if disk.state().operations < at {
                    assert!(!failed);
                    break;
                }
                disk.state().fails_at = None;
                check(&disk, &life);
            }
            assert!(at > 10);
        }
    }
}

#[test]
fn trouble_says_what_could_not_be_done_with_which_file() {
    let disk = TestDisk::new();
    let (mut log, _) = claimed(&disk, options());
    append(&mut log, 1, 1..=1);
    let at = disk.state().operations + 2;
    disk.state().fails_at = Some((at, ErrorKind::Other));
    assert_eq!(submit(&mut log, 1, 2, b"x"), Completion::Unknown);
    let trouble = log.trouble().unwrap();
    assert!(trouble.starts_with("could not sync 00000000000000000001.log: "), "{trouble}");
    log.truncate_before(2);
    log.close();
    assert_eq!(log.tend(u64::MAX), None);
    assert_eq!(disk.state().operations, at, "nothing more is tried");
}
