//! Disks that fail: at every operation, and for want of room, however the log is synced and however late it is.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use jobyard_log::SyncMode;
use jobyard_sim::disk::{Crash, Fault, Operation, SimDisk};
use jobyard_sim::world::Lateness;

use crate::demand;
use crate::long;
use crate::recover::recover;
use crate::truth::Truth;
use crate::workload::Workload;
use crate::world::{World, options};

/// So small that segments begin every few batches, and that many batches need one of their own.
const SEGMENT_BYTES: u64 = 8 << 10;

/// What strikes one operation, and then perhaps the next.
const FAULTS: [(Fault, Option<Fault>); 5] = [
    (Fault::Broken, None),
    (Fault::Full, None),
    (Fault::Short(7), None),
    (Fault::Short(0), None),
    (Fault::Short(100), Some(Fault::Broken)),
];

/// How a server keeps its log, and how much it has to do.
#[derive(Clone, Copy, Debug)]
struct Way {
    sync: SyncMode,
    lateness: Lateness,
    commands: usize,
    /// One operation of so many fails, unless the long tests were asked for.
    step: usize,
}

const USUAL: Way = Way { sync: SyncMode::Always, lateness: Lateness::None, commands: 250, step: 10 };
const WAYS: [Way; 6] = [
    USUAL,
    Way { lateness: Lateness::Polls(2), commands: 100, step: 15, ..USUAL },
    Way { lateness: Lateness::Sleeps(1), commands: 100, step: 15, ..USUAL },
    Way { sync: SyncMode::Interval(300), commands: 150, step: 7, ..USUAL },
    Way { sync: SyncMode::Interval(300), lateness: Lateness::Sleeps(2), commands: 150, step: 11 },
    Way { sync: SyncMode::Never, commands: 150, step: 5, ..USUAL },
];

impl Way {
    /// A server at work on a disk that fails sooner or later. It is told how it ended, if it did.
    fn work_on(self, disk: SimDisk) -> Workload {
        disk.set_prepare_polls(2);
        let mut world = World::late(disk, options(SEGMENT_BYTES, self.sync), self.lateness);
        // Why it did not start, if it did not, is asked later.
        let _ = world.start();
        let mut work = Workload::new(world, 7);
        if work.world.is_running() {
            work.begin();
        }
        while work.commands < self.commands && work.world.is_running() {
            work.round();
        }
        work
    }
}

/// Makes this operation fail, and perhaps the next.
fn strike(disk: &SimDisk, number: u64, (fault, next): (Fault, Option<Fault>)) {
    disk.fail(number, fault);
    next.into_iter().for_each(|next| disk.fail(number + 1, next));
}

/// Whatever happened, all that was told is there: when the process starts again, and then when the power goes out; and when
/// the power goes out at once, up to where it had to be synced.
fn check_what_is_left(work: &Workload) -> Result<(), String> {
    let (disk, options, notes) = (&work.world.disk, work.world.options(), work.world.notes());
    let truth = Truth::of(&notes);
    let (durable, synced) = (notes.durable_at(disk.operations()), notes.synced_at(disk.operations()));
    let when = work.world.when();
    let check = |disk: SimDisk, at_least: u64| {
        let recovered = recover(disk, options)?;
        if recovered.tail() < at_least || truth.digest_at(recovered.tail()) != Some(recovered.digest) {
            return Err(format!("batch {at_least} was durable, and there is {:?}", recovered.claim));
        }
        if at_least >= durable {
            work.ledger.check(&recovered.engine.snapshot(), when)?;
        }
        Ok(recovered)
    };
    for crash in [Crash::Kill, Crash::Lost, Crash::Scattered(1), Crash::Garbage(2), Crash::Names(3)] {
        let at_least = if crash == Crash::Kill { durable } else { synced };
        check(SimDisk::from_image(&disk.crash(crash)), at_least).map_err(|what| format!("{crash:?}: {what}"))?;
    }
    let disk = disk.killed();
    let mut restarted = check(disk.clone(), durable).map_err(|what| format!("started again: {what}"))?;
    let tail = restarted.tail();
    check(SimDisk::from_image(&disk.crash(Crash::Lost)), tail).map_err(|what| format!("and then cut off: {what}"))?;
    restarted.go_on()?;
    let last = recover(SimDisk::from_image(&disk.crash(Crash::Lost)), options)?;
    let kept = if options.sync == SyncMode::Always { tail + 1 } else { tail };
    if last.tail() >= kept { Ok(()) } else { Err(format!("what came then is gone: {:?}", last.claim)) }
}

/// Whether a server has to end when this failed.
fn must_end(struck: &str, fault: Fault) -> bool {
    match fault {
        Fault::Broken => ["create", "write", "sync", "remove", "sync of the directory"].contains(&struck),
        // There may be room to be made; but after a sync that failed nobody knows what is on disk.
        Fault::Full => ["sync", "sync of the directory"].contains(&struck),
        Fault::Short(0) => struck == "write",
        // The rest is written next.
        Fault::Short(_) => false,
    }
}

/// Fails unless an operation of every kind was struck by an error, and by want of room.
fn check_kinds(struck: &BTreeMap<Fault, BTreeSet<&'static str>>) {
    // These two are how others end.
    let can_fail = |kind: &&&str| !["failed sync", "end of prepare"].contains(*kind);
    for fault in [Fault::Broken, Fault::Full] {
        for kind in Operation::KINDS.iter().filter(can_fail) {
            let is_struck = struck.get(&fault).is_some_and(|kinds| kinds.contains(kind));
            demand(is_struck, &format_args!("{fault:?}: never {kind}"));
        }
    }
}

#[test]
#[allow(clippy::print_stdout)]
fn a_disk_that_fails_ends_the_server_and_takes_nothing_that_was_told() {
    let always = ["Broken None write: ended", "Broken None sync: ended", "Full None sync: ended"];
    let seldom = [
        "Broken None create: ended",
        "Broken None remove: ended",
        "Broken None sync of the directory: ended",
        "Full None sync of the directory: ended",
    ];
    let mut met = BTreeSet::new();
    let mut kinds = BTreeMap::new();
    for way in WAYS {
        let outcomes = fail_every_operation(way, &mut kinds);
        println!("{way:?}: {outcomes:#?}");
        for what in always {
            demand(outcomes.contains_key(what), &format_args!("{way:?}: never {what}"));
        }
        met.extend(outcomes.into_keys());
    }
    for what in seldom.into_iter().filter(|_| long()) {
        demand(met.contains(what), &format_args!("in no way: {what}"));
    }
    println!("{kinds:?}");
    if long() {
        check_kinds(&kinds);
    }
}

/// What was struck, by what, and whether that was the end.
fn fail_every_operation(way: Way, kinds: &mut BTreeMap<Fault, BTreeSet<&'static str>>) -> BTreeMap<String, usize> {
    let whole = way.work_on(SimDisk::default());
    assert_eq!(whole.world.why_ended(), None);
    check_what_is_left(&whole).unwrap_or_else(|what| panic!("{way:?}: {what}"));
    let (tried, step) = (whole.world.disk.tried(), if long() { 1 } else { way.step });
    let mut outcomes: BTreeMap<String, usize> = BTreeMap::new();
    for (nth, (fault, next)) in FAULTS.into_iter().enumerate() {
        for number in (nth as u64 % step as u64..tried).step_by(step) {
            let disk = SimDisk::default();
            strike(&disk, number, (fault, next));
            let work = way.work_on(disk);
            let at = format!("{way:?}, operation {number} of {tried}, {fault:?}");
            let struck = work.world.disk.struck();
            kinds.entry(fault).or_default().extend(struck.first());
            let faults = [Some(fault), next].into_iter().flatten();
            let must_end = faults.zip(&struck).any(|(fault, struck)| must_end(struck, fault));
            let struck = struck.join(", ");
            let ended = work.world.why_ended().is_some();
            assert_eq!(ended, !work.world.is_running(), "{at}: a server ends with a reason");
            *outcomes
                .entry(format!("{fault:?} {next:?} {struck}: {}", if ended { "ended" } else { "went on" }))
                .or_default() += 1;
            assert!(ended || !must_end, "{at}: {struck} failed, and the server went on");
            assert!(
                !ended || fault != Fault::Short(7),
                "{at}: a short write is no reason to end: {:?}",
                work.world.why_ended()
            );
            check_what_is_left(&work).unwrap_or_else(|what| panic!("{at}, {struck}: {what}"));
        }
    }
    outcomes
}

#[test]
#[allow(clippy::print_stdout)]
fn a_start_on_a_disk_that_fails_says_so_and_the_next_one_finds_all() {
    let kinds = RefCell::new(BTreeMap::<Fault, BTreeSet<&'static str>>::new());
    let ways = WAYS.into_iter().filter(|way| way.lateness == Lateness::None);
    for (way, segment_bytes) in ways.flat_map(|way| [(way, SEGMENT_BYTES), (way, 2 * SEGMENT_BYTES)]) {
        let work = way.work_on(SimDisk::default());
        let image = work.world.disk.crash(Crash::Kill);
        let options = &options(segment_bytes, way.sync);
        let whole = recover(SimDisk::from_image(&image), options).unwrap();
        let check = |disk: SimDisk, at: &str| {
            let again = recover(disk, options).unwrap_or_else(|what| panic!("{at}: {what}"));
            assert_eq!((again.tail(), again.digest), (whole.tail(), whole.digest), "{at}");
        };
        // Fails so many times, and returns how many of those starts failed.
        let fail_each = |what: &str, fault: Option<Fault>, count: u64, fail: &dyn Fn(&SimDisk, u64)| {
            let mut failed = 0;
            for number in 0..count {
                let disk = SimDisk::from_image(&image);
                fail(&disk, number);
                let start = recover(disk.clone(), options);
                if let Some(fault) = fault {
                    kinds.borrow_mut().entry(fault).or_default().extend(disk.struck().first());
                }
                let at = format!("{way:?}, after {what} at {number} of {count}");
                match start {
                    Ok(start) => assert_eq!((start.tail(), start.digest), (whole.tail(), whole.digest), "{at}"),
                    Err(_) => failed += 1,
                }
                check(disk.killed(), &at);
                for crash in [Crash::Lost, Crash::Scattered(number), Crash::Garbage(number)] {
                    check(SimDisk::from_image(&disk.crash(crash)), &format!("{at}, {crash:?}"));
                }
            }
            println!("{way:?}, {what}: {failed} of {count} starts failed");
            failed
        };
        let reads = fail_each("a read that failed", None, whole.disk.read(), &|disk, number| {
            disk.fail_read(number, Fault::Broken);
        });
        demand(reads > 5, &format_args!("{way:?}: {reads}"));
        for fault in FAULTS {
            let (what, tried) = (format!("{fault:?}"), whole.disk.tried());
            let failed = fail_each(&what, Some(fault.0), tried, &|disk, number| strike(disk, number, fault));
            match fault {
                (Fault::Short(7), _) => assert_eq!(failed, 0, "{way:?}: a short write is no reason to end"),
                _ => demand(failed > 0, &format_args!("{way:?}: no start failed for {fault:?}")),
            }
        }
    }
    println!("{kinds:?}");
    check_kinds(&kinds.into_inner());
}
