//! How much of the oldest stretch is written anew at once, and writing all of the state anew.

mod support;

use jobyard_engine::{Blocker, By, Command, Damaged, Engine, History, JobRef, Limits, NewJob, Now};
use support::{CLIENT, World, engine, name, plain};

/// What was to be written, and whether that was all.
fn compact_within(world: &mut World, bytes: usize, within: usize) -> (usize, bool) {
    let is_done = world.engine.compact_within(bytes, within);
    let written = world.engine.records().len();
    world.write();
    (written, is_done)
}

#[test]
fn what_is_written_anew_is_cut_to_what_fits() {
    let mut world = World::new();
    for _ in 0..6 {
        world.enqueue(plain("q"));
    }
    // The queue's record first, then the jobs', which are all as long.
    let live_bytes = usize::try_from(world.engine.live_bytes()).unwrap();
    world.begin_stretch();
    assert!(!world.engine.oldest_stretch_is_begun());
    let queue_bytes = compact_within(&mut world, 1, usize::MAX).0;
    let job_bytes = (live_bytes - queue_bytes) / 6;
    assert!(world.engine.oldest_stretch_is_begun());
    assert_eq!(compact_within(&mut world, usize::MAX, 2 * job_bytes), (2 * job_bytes, false), "two fit");
    assert_eq!(compact_within(&mut world, usize::MAX, 2 * job_bytes - 1), (job_bytes, false), "two do not");
    assert_eq!(compact_within(&mut world, usize::MAX, 1), (job_bytes, false), "one that fits nowhere is written");
    assert_eq!(compact_within(&mut world, job_bytes, usize::MAX), (job_bytes, false), "as much as was asked for");
    let job = jobyard_engine::JobRef::Number(6);
    world.engine.handle(world.now, support::CLIENT, Command::Remove { job, by: By::Anyone }, &mut |_, _| {});
    let decided = world.engine.records().len();
    // What is gone takes no room, however little there is; with it goes what was decided before.
    let (written, is_done) = compact_within(&mut world, usize::MAX, decided);
    assert!(is_done && written > decided, "{written}");
    assert_eq!(world.engine.oldest_stretch_bytes(), 0);
    world.drop_oldest();
    world.restart();
    assert_eq!(world.numbers(), [1, 2, 3, 4, 5]);
}

#[test]
fn numbers_that_are_skipped_are_not_given_and_neither_are_more_than_can_be_counted() {
    let mut world = World::new();
    assert_eq!(world.enqueue(plain("q")), 1);
    world.engine.skip_numbers(10);
    assert_eq!(world.enqueue(plain("q")), 12);
    world.restart();
    assert_eq!(world.enqueue(plain("q")), 13);
    world.engine.skip_numbers(u64::MAX);
    assert_eq!(world.enqueue(plain("q")), (1 << 62) - 1, "there is room for what is known to come");
}

#[test]
fn stretches_are_counted() {
    let mut world = World::new();
    assert_eq!(world.engine.stretches(), 1);
    world.begin_stretch();
    world.begin_stretch();
    assert_eq!(world.engine.stretches(), 3);
}

#[test]
fn what_the_oldest_would_take_is_the_sum_of_its_queues_and_jobs() {
    let bytes_of = |jobs: usize| {
        let mut world = World::new();
        for _ in 0..jobs {
            world.enqueue(plain("q"));
        }
        world.begin_stretch();
        world.engine.oldest_stretch_bytes()
    };
    let (one, two, three) = (bytes_of(1), bytes_of(2), bytes_of(3));
    assert_eq!(two - one, three - two, "a job more takes as much");
    assert!(two - one < one, "and a queue takes something too");
}

#[test]
fn a_call_writes_as_much_as_it_may() {
    let mut world = World::new();
    for _ in 0..100 {
        world.enqueue(NewJob::plain(name("q"), [b'x'; 200].into()));
    }
    world.begin_stretch();
    assert!(!world.engine.compact(4_000));
    let written = world.engine.records().len();
    assert!((4_000..4_300).contains(&written), "{written} bytes");
}

#[test]
fn counters_in_the_middle_of_a_log_do_not_excuse_what_is_missing_behind_them() {
    let mut world = World::new();
    world.enqueue(plain("q"));
    world.begin_stretch();
    world.compact_oldest();
    let mut log: Vec<u8> = world.stretches.iter().flatten().copied().collect();
    assert_eq!(engine(2).replay(&log, History::Whole), Ok(()));

    let mut other = World::new();
    for _ in 0..9 {
        other.enqueue(plain("q"));
    }
    let before = other.bytes();
    other.complete(9);
    log.extend_from_slice(&other.stretches[0][before..]);
    assert_eq!(engine(3).replay(&log, History::Whole), Err(Damaged), "job 9 was never put");
}

#[test]
fn a_job_whose_blockers_were_lost_is_there_and_ready_after_a_start() {
    let mut world = World::new();
    let lost = world.enqueue(plain("q"));
    let before = world.bytes();
    let blocked = world.enqueue(NewJob { blockers: vec![Blocker::Number(lost)], ..plain("q") });
    let mut saved = engine(2);
    saved.replay(&world.stretches[0][before..], History::Damaged).expect("what is left is believed");
    assert!(saved.recover(world.now));
    let jobs = saved.snapshot().jobs;
    assert_eq!(jobs.iter().map(|job| job.number).collect::<Vec<_>>(), [blocked]);
    assert!(format!("{:?}", jobs[0]).contains("Ready"), "{:?}", jobs[0]);
}

#[test]
fn a_queue_that_does_not_fit_is_not_written_either() {
    let mut world = World::new();
    let long = "q".repeat(5_000);
    let number = world.enqueue(plain(&long));
    world.begin_stretch();
    // Something is decided in the same turn.
    world.engine.handle(
        world.now,
        CLIENT,
        Command::Complete { job: JobRef::Number(number), by: By::Anyone, result: Box::default() },
        &mut |_, _| {},
    );
    let decided = world.engine.records().len();
    assert!(decided > 0);
    let (written, is_done) = compact_within(&mut world, usize::MAX, 4_000);
    assert_eq!((written, is_done), (decided, false), "its name is longer than what may be written");
    assert!(compact_within(&mut world, usize::MAX, 4_000).0 > 5_000, "alone it is");
}

#[test]
fn nothing_is_written_anew_if_nothing_is_asked_for() {
    let mut world = World::new();
    world.enqueue(plain("q"));
    world.begin_stretch();
    assert_eq!(compact_within(&mut world, 0, usize::MAX), (0, false));
}

#[test]
#[should_panic = "the first stretch begins before the first record"]
fn a_first_stretch_behind_the_first_record_is_a_mistake() {
    let mut engine = Engine::new(Limits::default(), 1, 0);
    let job = Command::Enqueue(Box::new(plain("q")));
    engine.handle(Now { engine_ms: 0, wall_ms: 0, random: 0 }, CLIENT, job, &mut |_, _| {});
    engine.begin_stretch();
}
