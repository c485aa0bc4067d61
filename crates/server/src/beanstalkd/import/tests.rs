//! Imports that are cut off at every operation of their disk, and go on when they are started again.

use std::collections::BTreeMap;
use std::rc::Rc;

use jobyard_engine::{Due, OwnTime, StateView};
use jobyard_sim::disk::{Crash, Fault, Image, SimDisk, Walk};

use super::*;
use crate::beanstalkd::testing::{CREATED_MS, Written, text};

/// When the first start is; each later one is some seconds later.
const NOW: Clock = Clock { monotonic_ms: 1_000, boot: 7, wall_ms: CREATED_MS.cast_signed() + 10_000 };
const JOB_BYTES_MAX: usize = 65_535;

fn later(clock: Clock, ms: u64) -> Clock {
    Clock { monotonic_ms: clock.monotonic_ms + ms, wall_ms: clock.wall_ms.saturating_add_unsigned(ms), ..clock }
}

fn options() -> Options {
    Options { segment_bytes: 64 << 10, ..Options::new(7) }
}

/// What a job is, wherever it is kept.
type Facts = (String, String, i128, OwnTime, StateView, Option<i64>, i64);

/// The jobs of a log, by number, and the number that the next one gets. Looks at a copy.
fn state(disk: &SimDisk) -> (BTreeMap<u64, Facts>, u64) {
    let copy = SimDisk::from_image(&disk.crash(Crash::Lost));
    let importer = Importer::open(FileLog::open(copy, options()), NOW).unwrap();
    importer.engine.check();
    let at = importer.at;
    let jobs = importer.engine.live_jobs().map(|live| {
        let job = live.job;
        // A delay ends at a moment of the wall clock, whenever it was that it came into the log.
        let until = job.until.map(|due| match due {
            Due::Engine(ms) => at.wall_ms + ms.cast_signed() - at.engine_ms.cast_signed(),
            Due::Wall(ms) => ms,
        });
        let (queue, body) = (text(job.queue.as_bytes()), text(job.body));
        (job.number, (queue, body, job.urgency, job.own_time, job.state, until, job.created_wall_ms))
    });
    (jobs.collect(), importer.engine.next_number())
}

fn imported(disk: &SimDisk, clock: Clock) -> Result<Vec<String>> {
    import(&mut disk.clone(), disk.clone(), &options(), JOB_BYTES_MAX, clock)
}

/// Two files: jobs 11 to 60 in three tubes, of which some were buried, delayed or deleted. The last id was 70.
fn binlog() -> Image {
    let (mut one, mut two) = (Written::new(), Written::new());
    let tubes = ["default", "a", "b"].into_iter().cycle().skip(2);
    for ((id, tube), priority) in (11..=60).zip(tubes).zip([1, 2, 3, 4, 0].into_iter().cycle()) {
        let body = format!("{id} ").repeat(200);
        let file = if id < 40 { &mut one } else { &mut two };
        file.put(id, tube, priority, body.as_bytes());
        match id % 7 {
            0 => file.change(id, 3, body.len()),
            1 => file.delay(id, 1_000_000 + id, body.len()),
            2 => file.change(id, 0, body.len()),
            3 => file.delay(id, 10, body.len()),
            _ => {}
        }
    }
    two.put(70, "default", 0, b"gone");
    two.change(70, 0, 4);
    two.bytes.resize(two.bytes.len() + 500, 0);
    image([("binlog.1", one.bytes), ("binlog.2", two.bytes)])
}

fn image<const N: usize>(files: [(&str, Vec<u8>); N]) -> Image {
    files.into_iter().map(|(name, bytes)| (name.to_owned(), Rc::new(bytes))).collect()
}

/// The names that are no log's.
fn names(disk: &SimDisk) -> Vec<String> {
    let mut names = disk.list().unwrap();
    names.retain(|name| name.starts_with("binlog"));
    names.sort();
    names
}

fn check_done(disk: &SimDisk, found: &Image, expected: &(BTreeMap<u64, Facts>, u64), what: &str) {
    assert_eq!(&state(disk), expected, "{what}");
    assert_eq!(names(disk), ["binlog.1.imported", "binlog.2.imported"], "{what}");
    let left = disk.crash(Crash::Lost);
    for name in ["binlog.1", "binlog.2"] {
        assert_eq!(left[&format!("{name}.imported")], found[name], "{what}: {name}");
    }
}

#[test]
fn each_job_keeps_its_id_its_place_and_its_times() {
    let found = binlog();
    let disk = SimDisk::from_image(&found);
    let said = imported(&disk, NOW).unwrap();
    assert_eq!(
        said,
        [
            "imported 43 jobs from binlog.1 to binlog.2, each with its id; the files are kept as binlog.1.imported to binlog.2.imported"
        ]
    );
    let (jobs, next) = state(&disk);
    assert_eq!((jobs.len(), next), (43, 71));
    check_done(&disk, &found, &(jobs.clone(), next), "at once");
    let created = CREATED_MS.cast_signed();
    let facts = |id: u64, queue: &str, urgency, state, until| {
        let body = format!("{id} ").repeat(200);
        (queue.to_owned(), body, urgency, OwnTime::Millis(60_000), state, until, created)
    };
    assert_eq!(jobs[&11], facts(11, "b", -1, StateView::Ready, None));
    assert_eq!(jobs[&14], facts(14, "b", -7, StateView::Buried, None));
    assert_eq!(jobs[&15], facts(15, "default", -7, StateView::Delayed, Some(created + 1_000_015)));
    assert_eq!(jobs[&17], facts(17, "b", -7, StateView::Ready, None), "its delay is over");
    assert!(!jobs.contains_key(&16) && !jobs.contains_key(&70));
    assert_eq!(imported(&disk, NOW).unwrap(), Vec::<String>::new(), "once is enough");
}

/// Every way to crash here, and some of those that are left to chance.
fn crashes(walk: &Walk<'_>, seed: u64) -> Vec<Crash> {
    let mut crashes = vec![Crash::Kill];
    if !walk.is_settled() {
        crashes.extend([Crash::Lost, Crash::BytesLost, Crash::NamesLost]);
        crashes.extend(walk.tears().first().map(|&bytes| Crash::Torn(bytes)));
        crashes.extend([
            Crash::Names(2 * seed),
            Crash::Names(2 * seed + 1),
            Crash::Scattered(seed),
            Crash::Garbage(seed),
        ]);
    }
    crashes
}

/// Cuts an import off after each of its operations, starts it again, and lets `check` see what came of that. Returns how
/// often that was.
fn cut_everywhere(disk: &SimDisk, check: &mut dyn FnMut(&SimDisk, &str)) -> u32 {
    let history = disk.history();
    let mut walk = history.walk();
    let mut cuts = 0;
    for operations in 0.. {
        for crash in crashes(&walk, operations) {
            let next = if crash == Crash::Kill { walk.disk() } else { SimDisk::from_image(&walk.crash(crash)) };
            check(&next, &format!("cut off after {operations} operations, {crash:?}"));
            cuts += 1;
        }
        if walk.step().is_none() {
            break;
        }
    }
    cuts
}

#[test]
fn an_import_that_is_cut_off_anywhere_goes_on_and_neither_loses_nor_doubles_a_job() {
    let found = binlog();
    let disk = SimDisk::from_image(&found);
    imported(&disk, NOW).unwrap();
    let expected = state(&disk);
    let cuts = cut_everywhere(&disk, &mut |next, what| {
        imported(next, later(NOW, 3_000)).unwrap_or_else(|error| panic!("{what}: {error:#}"));
        check_done(next, &found, &expected, what);
    });
    assert!(cuts > 300, "{cuts}");
}

#[test]
fn one_that_was_killed_and_then_loses_its_power_goes_on_too() {
    let found = binlog();
    let disk = SimDisk::from_image(&found);
    imported(&disk, NOW).unwrap();
    let expected = state(&disk);
    let history = disk.history();
    let mut walk = history.walk();
    let (mut cuts, mut nth) = (0, 0);
    while walk.step().is_some() {
        nth += 1;
        // What was renamed and is not durable is seen by the second start, and may be taken back under it.
        if !walk.has_unsynced_names() && nth % 10 != 0 {
            continue;
        }
        let second = walk.disk();
        imported(&second, later(NOW, 1_000)).unwrap();
        cuts += cut_everywhere(&second, &mut |third, what| {
            let what = format!("killed after {nth} operations, then {what}");
            imported(third, later(NOW, 3_000)).unwrap_or_else(|error| panic!("{what}: {error:#}"));
            check_done(third, &found, &expected, &what);
        });
    }
    assert!(cuts > 1_000, "{cuts}");
}

#[test]
fn an_operation_that_fails_ends_the_import_and_the_next_start_finishes_it() {
    let found = binlog();
    let whole = SimDisk::from_image(&found);
    imported(&whole, NOW).unwrap();
    let expected = state(&whole);
    let mut failed = 0;
    for number in 0..whole.tried() {
        for fault in [Fault::Broken, Fault::Full] {
            let disk = SimDisk::from_image(&found);
            disk.fail_from(number, fault);
            failed += u32::from(imported(&disk, NOW).is_err());
            disk.heal();
            let what = format!("{fault:?} from operation {number} on");
            imported(&disk, later(NOW, 2_000)).unwrap_or_else(|error| panic!("{what}: {error:#}"));
            check_done(&disk, &found, &expected, &what);
        }
    }
    assert!(failed > 50, "{failed}");
}

/// A log in which five jobs were put, and a binlog beside it.
fn with_a_log() -> (Image, BTreeMap<u64, Facts>) {
    let found = binlog();
    let disk = SimDisk::from_image(&found);
    let mut importer = Importer::open(FileLog::open(disk.clone(), options()), NOW).unwrap();
    for body in ["v", "w", "x", "y", "z"].repeat(3) {
        let put = NewJob::plain(QueueName::new(b"own"), body.as_bytes().into());
        importer.ask(importer.now(), Command::Enqueue(Box::new(put))).unwrap();
    }
    importer.append().unwrap();
    drop(importer.close().unwrap());
    (disk.crash(Crash::Lost), state(&disk).0)
}

#[test]
fn what_comes_to_a_log_that_has_counted_further_gets_new_numbers() {
    let (found, own) = with_a_log();
    let disk = SimDisk::from_image(&found);
    let said = imported(&disk, NOW).unwrap();
    assert!(said[0].contains("imported 43 jobs from binlog.1 to binlog.2, with new ids from 16 to 58;"), "{said:?}");
    let (jobs, next) = state(&disk);
    assert_eq!((jobs.len(), next), (own.len() + 43, 59));
    assert!(own.iter().all(|(number, facts)| jobs[number] == *facts));
    let fresh = SimDisk::from_image(&binlog());
    imported(&fresh, NOW).unwrap();
    let bodies = |jobs: &BTreeMap<u64, Facts>| jobs.values().map(|job| job.1.clone()).collect::<Vec<_>>();
    let (came, kept) = (jobs.into_iter().filter(|(number, _)| *number > 15).collect(), state(&fresh).0);
    assert_eq!(bodies(&came), bodies(&kept), "in the same order");
    let expected = state(&disk);
    cut_everywhere(&disk, &mut |next, what| {
        imported(next, later(NOW, 3_000)).unwrap_or_else(|error| panic!("{what}: {error:#}"));
        check_done(next, &found, &expected, what);
    });
}

/// What beanstalkd leaves that found these files and went on: it deletes job 13, puts another, and counts on from the last file.
/// If it finds none it begins anew, and knows nothing of job 13.
fn went_on(mut left: Image) -> Image {
    let next =
        [("binlog.2", "binlog.3"), ("binlog.1", "binlog.2")].into_iter().find(|(last, _)| left.contains_key(*last));
    let mut written = Written::new();
    if next.is_some() {
        written.change(13, 0, "13 ".repeat(200).len());
    }
    written.put(71, "default", 0, b"new");
    left.insert(next.map_or("binlog.1", |(_, next)| next).to_owned(), Rc::new(written.bytes));
    left
}

/// All jobs are there once, and so is the one that beanstalkd put.
fn check_went_on(disk: &SimDisk, began_anew: bool, what: &str) {
    let whole = SimDisk::from_image(&binlog());
    imported(&whole, NOW).unwrap();
    let mut expected: Vec<_> = state(&whole).0.into_values().map(|job| (job.1, job.4)).collect();
    expected.retain(|(body, _)| began_anew || !body.starts_with("13 "));
    expected.push(("new".to_owned(), StateView::Ready));
    let found: Vec<_> = state(disk).0.into_values().map(|job| (job.1, job.4)).collect();
    assert_eq!(found, expected, "{what}");
    assert!(names(disk).iter().all(|name| name.contains(".imported")), "{what}: {:?}", names(disk));
}

/// Whatever the import had come to: what beanstalkd wrote since counts, nothing is lost, and nothing is there twice.
#[test]
fn a_binlog_that_has_changed_since_is_imported_anew() {
    let disk = SimDisk::from_image(&binlog());
    imported(&disk, NOW).unwrap();
    let history = disk.history();
    let mut walk = history.walk();
    let (mut before_done, mut after, mut half_renamed, mut all_renamed) = (0, 0, 0, 0);
    for operations in 1.. {
        if walk.step().is_none() {
            break;
        }
        let left = walk.crash(Crash::Kill);
        let (one, two) = (left.contains_key("binlog.1"), left.contains_key("binlog.2"));
        *match Plan::read(&mut walk.disk()).unwrap() {
            Some(plan) if plan.done && one => &mut after,
            Some(plan) if plan.done && two => &mut half_renamed,
            None | Some(_) if !two => &mut all_renamed,
            None | Some(_) => &mut before_done,
        } += 1;
        let next = SimDisk::from_image(&went_on(left));
        let what = format!("after {operations} operations");
        let said = imported(&next, later(NOW, 3_000)).unwrap_or_else(|error| panic!("{what}: {error:#}"));
        let expected = if two { "imported 43 jobs from binlog.1 to binlog.3" } else { "imported 1 job from binlog.1" };
        assert!(said[0].starts_with(expected), "{what}: {said:?}");
        check_went_on(&next, !two, &what);
    }
    assert!(before_done > 20 && after > 1, "{before_done} {after}");
    assert!(half_renamed > 1 && all_renamed > 1, "{half_renamed} {all_renamed}");
}

#[test]
fn an_import_that_is_taken_back_can_be_cut_off_anywhere_too() {
    let first = SimDisk::from_image(&binlog());
    imported(&first, NOW).unwrap();
    let history = first.history();
    let mut walk = history.walk();
    // Up to when all is in the log and one file has its new name.
    while walk.crash(Crash::Kill).contains_key("binlog.1") {
        walk.step().unwrap();
    }
    let second = SimDisk::from_image(&went_on(walk.crash(Crash::Kill)));
    imported(&second, later(NOW, 1_000)).unwrap();
    check_went_on(&second, false, "at once");
    let cuts = cut_everywhere(&second, &mut |third, what| {
        imported(third, later(NOW, 3_000)).unwrap_or_else(|error| panic!("{what}: {error:#}"));
        check_went_on(third, false, what);
    });
    assert!(cuts > 200, "{cuts}");
}

/// Whoever takes away what beanstalkd wrote, after some of what was imported was taken back, gets all the rest again.
#[test]
fn what_was_taken_back_comes_anew_even_if_the_files_are_as_they_were() {
    let first = SimDisk::from_image(&binlog());
    imported(&first, NOW).unwrap();
    let bodies = |disk: &SimDisk| state(disk).0.into_values().map(|job| job.1).collect::<Vec<_>>();
    let expected = bodies(&first);
    let history = first.history();
    let mut walk = history.walk();
    while walk.crash(Crash::Kill).contains_key("binlog.1") {
        walk.step().unwrap();
    }
    let second = SimDisk::from_image(&went_on(walk.crash(Crash::Kill)));
    imported(&second, later(NOW, 1_000)).unwrap();
    let history = second.history();
    let mut walk = history.walk();
    let mut cuts = 0;
    while walk.step().is_some() {
        let mut left = walk.crash(Crash::Kill);
        // Once it is imported it is no use to take it away.
        let plan = Plan::read(&mut walk.disk()).unwrap();
        if plan.is_none_or(|plan| plan.files.iter().any(|file| file.name == "binlog.3")) {
            break;
        }
        left.remove("binlog.3").unwrap();
        let third = SimDisk::from_image(&left);
        imported(&third, later(NOW, 3_000)).unwrap();
        assert_eq!(bodies(&third), expected);
        cuts += 1;
    }
    assert!(cuts > 5, "{cuts}");
}

/// A directory in which all was imported, and only the first of three files has its new name.
fn half_renamed() -> Image {
    let mut found = binlog();
    found.insert("binlog.3".to_owned(), Rc::new(Written::new().bytes));
    let disk = SimDisk::from_image(&found);
    imported(&disk, NOW).unwrap();
    let history = disk.history();
    let mut walk = history.walk();
    while walk.crash(Crash::Kill).contains_key("binlog.1") {
        walk.step().unwrap();
    }
    walk.crash(Crash::Kill)
}

#[test]
fn files_of_which_nobody_can_tell_what_they_say_now_are_refused_and_stay() {
    for (gone, written, said) in [
        ("binlog.2", "binlog.4", "without binlog.1.imported, and has removed binlog.2"),
        ("binlog.3", "binlog.3", "binlog.3 is not the file that was imported"),
    ] {
        let mut left = half_renamed();
        left.remove(gone).unwrap();
        left.insert(written.to_owned(), Rc::new(b"\x07\0\0\0\0".to_vec()));
        let disk = SimDisk::from_image(&left);
        let before = names(&disk);
        let error = imported(&disk, NOW).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
        assert_eq!(names(&disk), before);
    }
    // As it is told to be done.
    let mut left = half_renamed();
    left.retain(|name, _| name != "binlog.2" && name != "binlog.3");
    let disk = SimDisk::from_image(&left);
    assert_eq!(imported(&disk, NOW).unwrap(), ["finished an import that was interrupted"]);
    assert_eq!(state(&disk).0.len(), 43);
}

#[test]
fn a_log_that_leaves_no_room_to_count_on_is_refused_and_nothing_is_written() {
    let disk = SimDisk::from_image(&binlog());
    let mut log = FileLog::open(disk.clone(), options());
    let epoch = log.claim(0).unwrap().epoch;
    let queue_with_the_last_ordinal = b"\x01\x01q\xff\xff\xff\xff\xff\xff\xff\xff\x3f";
    log.submit(epoch, 1, Batch { at: Moment::default(), payload: queue_with_the_last_ordinal });
    assert_eq!(log.completed(), Some(Completion::Durable(1)));
    log.close();
    let error = imported(&disk, NOW).unwrap_err();
    assert_eq!(error.downcast_ref(), Some(&OpenError::Counted));
    assert_eq!(names(&disk), ["binlog.1", "binlog.2"]);
    let claim = FileLog::open(SimDisk::from_image(&disk.crash(Crash::Lost)), options()).claim(0).unwrap();
    assert_eq!(claim.tail, 1);
}

#[test]
fn files_that_went_away_while_they_were_imported_are_asked_for() {
    let disk = SimDisk::default();
    Plan { first: 1, done: false, files: Vec::new() }.write(&mut disk.clone()).unwrap();
    let error = imported(&disk, NOW).unwrap_err().to_string();
    assert!(error.contains("bring the files binlog.* back"), "{error}");
}

#[test]
fn a_binlog_that_cannot_be_read_leaves_all_as_it_was() {
    let mut found = binlog();
    let mut damaged = found["binlog.2"].to_vec();
    damaged[4] = 255;
    found.insert("binlog.2".to_owned(), Rc::new(damaged));
    let disk = SimDisk::from_image(&found);
    let error = imported(&disk, NOW).unwrap_err().to_string();
    assert_eq!(error, "binlog.2 is damaged at byte 4: a tube's name cannot have 255 bytes");
    assert_eq!(disk.operations(), 0);
}

#[test]
fn a_job_that_is_larger_than_allowed_is_refused_and_nothing_is_done() {
    let disk = SimDisk::from_image(&binlog());
    let import = |bytes_max| import(&mut disk.clone(), disk.clone(), &options(), bytes_max, NOW);
    let error = import(599).unwrap_err().to_string();
    assert!(error.contains("has 600 bytes, and 599 are allowed: say -z 600"), "{error}");
    assert_eq!(disk.operations(), 0);
    import(600).unwrap();
}

#[test]
fn names_of_an_earlier_import_are_left_alone() {
    let mut found = binlog();
    found.insert("binlog.1.imported".to_owned(), Rc::new(b"earlier".to_vec()));
    found.insert("binlog.1.imported.2".to_owned(), Rc::new(b"early".to_vec()));
    let disk = SimDisk::from_image(&found);
    imported(&disk, NOW).unwrap();
    let left = disk.crash(Crash::Lost);
    assert_eq!(left["binlog.1.imported"], found["binlog.1.imported"]);
    assert_eq!(left["binlog.1.imported.2"], found["binlog.1.imported.2"]);
    assert_eq!(left["binlog.1.imported.3"], found["binlog.1"]);
}
