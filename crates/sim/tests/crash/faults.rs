//! Disks that fail: at every operation, and for want of room.

use std::collections::BTreeMap;

use jobyard_log::SyncMode;
use jobyard_sim::disk::{Crash, Fault, SimDisk};

use crate::long;
use crate::recover::recover;
use crate::truth::Truth;
use crate::workload::Workload;
use crate::world::{World, options};

/// So small that segments begin every few batches, and that many batches need one of their own.
const SEGMENT_BYTES: u64 = 8 << 10;
const COMMANDS: usize = 250;

/// A server at work on a disk that fails sooner or later. It is told how it ended, if it did.
fn work_on(disk: SimDisk) -> Workload {
    disk.set_prepare_polls(2);
    let mut world = World::new(disk, options(SEGMENT_BYTES, SyncMode::Always));
    // Why it did not start, if it did not, is asked later.
    let _ = world.start();
    let mut work = Workload::new(world, 7);
    if work.world.is_running() {
        work.begin();
    }
    while work.commands < COMMANDS && work.world.is_running() {
        work.round();
    }
    work
}

/// Whatever happened, all that was told is there: when the process starts again, and then when the power goes out; and when
/// the power goes out at once.
fn check_what_is_left(work: &Workload) -> Result<(), String> {
    let (disk, options, notes) = (&work.world.disk, work.world.options(), work.world.notes());
    let truth = Truth::of(&notes);
    let durable = notes.durable_at(disk.operations());
    let when = work.world.when();
    let check = |disk: SimDisk, at_least: u64| {
        let recovered = recover(disk, options)?;
        if recovered.tail() < at_least || truth.digest_at(recovered.tail()) != Some(recovered.digest) {
            return Err(format!("batch {at_least} was durable, and there is {:?}", recovered.claim));
        }
        work.ledger.check(&recovered.engine.snapshot(), when)?;
        Ok(recovered)
    };
    for crash in [Crash::Kill, Crash::Lost, Crash::Scattered(1), Crash::Garbage(2), Crash::Names(3)] {
        check(SimDisk::from_image(&disk.crash(crash)), durable).map_err(|what| format!("{crash:?}: {what}"))?;
    }
    let disk = disk.killed();
    let mut restarted = check(disk.clone(), durable).map_err(|what| format!("started again: {what}"))?;
    let tail = restarted.tail();
    check(SimDisk::from_image(&disk.crash(Crash::Lost)), tail).map_err(|what| format!("and then cut off: {what}"))?;
    restarted.go_on()?;
    let last = recover(SimDisk::from_image(&disk.crash(Crash::Lost)), options)?;
    if last.tail() == tail + 1 { Ok(()) } else { Err(format!("what came then is gone: {:?}", last.claim)) }
}

#[test]
#[allow(clippy::print_stdout)]
fn a_disk_that_fails_ends_the_server_and_takes_nothing_that_was_told() {
    let whole = work_on(SimDisk::default());
    assert_eq!(whole.world.why_ended(), None);
    check_what_is_left(&whole).unwrap();
    let (tried, step) = (whole.world.disk.tried(), if long() { 1 } else { 10 });
    let faults = [
        (Fault::Broken, None),
        (Fault::Full, None),
        (Fault::Short(7), None),
        (Fault::Short(0), None),
        (Fault::Short(100), Some(Fault::Broken)),
    ];
    // What was struck, by what, and whether that was the end.
    let mut outcomes: BTreeMap<String, usize> = BTreeMap::new();
    for (nth, (fault, next)) in faults.into_iter().enumerate() {
        for number in (nth as u64..tried).step_by(step) {
            let disk = SimDisk::default();
            disk.fail(number, fault);
            next.into_iter().for_each(|next| disk.fail(number + 1, next));
            let work = work_on(disk);
            let at = format!("operation {number} of {tried}, {fault:?}");
            let struck = work.world.disk.struck().first().copied().unwrap_or("nothing");
            let ended = work.world.why_ended().is_some();
            assert_eq!(ended, !work.world.is_running(), "{at}: a server ends with a reason");
            *outcomes
                .entry(format!("{fault:?} {next:?} {struck}: {}", if ended { "ended" } else { "went on" }))
                .or_default() += 1;
            let must_end = match fault {
                Fault::Broken => ["create", "write", "sync", "remove", "sync of the directory"].contains(&struck),
                // There may be room to be made.
                Fault::Full => false,
                Fault::Short(0) => struck == "write",
                Fault::Short(_) => next.is_some() && struck == "write",
            };
            assert!(ended || !must_end, "{at}: {struck} failed, and the server went on");
            assert!(
                !ended || fault != Fault::Short(7),
                "{at}: a short write is no reason to end: {:?}",
                work.world.why_ended()
            );
            check_what_is_left(&work).unwrap_or_else(|what| panic!("{at}, {struck}: {what}"));
        }
    }
    println!("{outcomes:#?}");
}

#[test]
fn a_start_on_a_disk_that_fails_says_so_and_the_next_one_finds_all() {
    let work = work_on(SimDisk::default());
    let (image, options) = (work.world.disk.crash(Crash::Kill), work.world.options());
    let whole = recover(SimDisk::from_image(&image), options).unwrap();
    let check = |disk: SimDisk, at: &str| {
        let again = recover(disk, options).unwrap_or_else(|what| panic!("{at}: {what}"));
        assert_eq!((again.tail(), again.digest), (whole.tail(), whole.digest), "{at}");
    };
    let fail_read: fn(&SimDisk, u64) = |disk, number| disk.fail_read(number, Fault::Broken);
    let fail: fn(&SimDisk, u64) = |disk, number| disk.fail(number, Fault::Broken);
    for (what, fail, count) in [("read", fail_read, whole.disk.read()), ("operation", fail, whole.disk.tried())] {
        let mut failed = 0;
        for number in 0..count {
            let disk = SimDisk::from_image(&image);
            fail(&disk, number);
            failed += usize::from(recover(disk.clone(), options).is_err());
            let at = format!("after {what} {number} of {count} failed");
            check(disk.killed(), &at);
            for crash in [Crash::Lost, Crash::Scattered(number), Crash::Garbage(number)] {
                check(SimDisk::from_image(&disk.crash(crash)), &format!("{at}, {crash:?}"));
            }
        }
        assert!(failed > 5, "{failed} of {count} starts failed");
    }
}
