//! Jobs that are put aside, let back in, put back for later, kept for longer, or taken by name.

mod support;

use jobyard_engine::{
    Again, AttemptRule, Blocker, By, ClientId, Command, DateRank, Engine, Field, Hold, JobRef, Limits, Look, NewJob,
    OwnTime, Parting, Refusal, Reply, Start, StateView, Which, records,
};
use support::{CLIENT, World, name, plain};

const HELD: Hold = Hold::Connection(Parting::Release);

/// Puts jobs into `q` and holds them, one after the other.
fn held(count: u64) -> World {
    let mut world = World::new();
    for number in 1..=count {
        assert_eq!(world.enqueue(NewJob { own_time: OwnTime::Millis(1_000), ..plain("q") }), number);
        world.lease("q", HELD);
    }
    world
}

fn bury(world: &mut World, number: u64, urgency: i128) {
    world.command(Command::Bury { job: JobRef::Number(number), urgency });
}

/// How many jobs of `q` one command revives.
fn revive(engine: &mut Engine, world_now: jobyard_engine::Now, count_max: usize) -> usize {
    let mut revived = None;
    let command = Command::Revive { queue: name("q"), count_max };
    engine.handle(world_now, CLIENT, command, &mut |_, reply| match reply {
        Reply::Revived { count } => revived = Some(count),
        reply => panic!("{reply:?}"),
    });
    revived.expect("it is answered at once")
}

/// The jobs of `q` that are listed so.
fn listed(world: &mut World, which: Which) -> Vec<u64> {
    let mut numbers = Vec::new();
    let look = Look::Jobs { queue: name("q"), which, offset: 0, count_max: 100 };
    world.engine.handle(world.now, CLIENT, Command::Look(look), &mut |_, reply| match reply {
        Reply::Jobs(jobs) => numbers = jobs.iter().map(|job| job.number).collect(),
        reply => panic!("{reply:?}"),
    });
    numbers
}

#[test]
fn buried_jobs_come_back_in_the_order_in_which_they_were_buried_also_after_a_restart() {
    let mut world = held(4);
    for (number, urgency) in [(3, 0), (1, 9), (4, 0), (2, -9)] {
        bury(&mut world, number, urgency);
    }
    world.restart();
    assert_eq!(listed(&mut world, Which::Buried), [3, 1, 4, 2]);
    assert_eq!(revive(&mut world.engine, world.now, 2), 2);
    world.write();
    assert_eq!(listed(&mut world, Which::Buried), [4, 2]);
    assert_eq!(listed(&mut world, Which::Ready), [1, 3], "by their new urgency");
    world.restart();
    assert_eq!(listed(&mut world, Which::Buried), [4, 2]);
    world.lease("q", HELD);
    bury(&mut world, 1, 0);
    assert_eq!(listed(&mut world, Which::Buried), [4, 2, 1], "the last to be buried is the last");
}

#[test]
fn what_is_buried_is_written_anew_as_such() {
    let mut world = held(3);
    for number in [2, 3, 1] {
        bury(&mut world, number, 0);
    }
    world.begin_stretch();
    world.compact_oldest();
    world.drop_oldest();
    world.restart();
    assert_eq!(listed(&mut world, Which::Buried), [2, 3, 1]);
    assert_eq!(world.engine.snapshot().jobs[0].state, StateView::Buried);
}

#[test]
fn delayed_jobs_are_revived_only_if_none_is_buried_and_who_falls_due_first_comes_first() {
    let mut world = held(1);
    let wall_ms = world.now.wall_ms;
    let at = |ms: i64| Start::At { wall_ms: wall_ms + ms, rank: DateRank::Behind };
    for start in [Start::After(30), at(20), Start::After(10), at(40), Start::After(20)] {
        world.enqueue(NewJob { start, ..plain("q") });
    }
    assert_eq!(listed(&mut world, Which::Due), [4, 6, 3, 2, 5]);
    // A date comes nearer when the wall clock is set; a delay does not.
    world.now.wall_ms += 15;
    assert_eq!(listed(&mut world, Which::Due), [3, 4, 6, 5, 2]);
    bury(&mut world, 1, 0);
    assert_eq!(revive(&mut world.engine, world.now, 9), 1);
    assert_eq!(revive(&mut world.engine, world.now, 2), 2);
    assert_eq!(listed(&mut world, Which::Due), [6, 5, 2]);
    assert_eq!(revive(&mut world.engine, world.now, 0), 0);
    assert_eq!(revive(&mut world.engine, world.now, 9), 3);
    assert_eq!(revive(&mut world.engine, world.now, 9), 0);
}

#[test]
fn one_command_revives_no_more_than_the_limit_says_and_foresees_what_it_writes() {
    let limits = Limits { revived_max: 3, ..Limits::default() };
    let mut engine = Engine::new(limits, 1, 0);
    let now = World::new().now;
    for _ in 0..5 {
        let job = NewJob { start: Start::After(1_000), ..plain("q") };
        engine.handle(now, CLIENT, Command::Enqueue(Box::new(job)), &mut |_, _| {});
    }
    for revived in [3, 2, 0] {
        engine.clear_records();
        let bound = engine.record_bytes_max(&Command::Revive { queue: name("q"), count_max: usize::MAX });
        assert_eq!(revive(&mut engine, now, usize::MAX), revived);
        assert!(engine.records().len() <= bound, "{} bytes, {bound} foreseen", engine.records().len());
        assert_eq!(bound, revived * 128);
    }
}

#[test]
fn a_job_that_is_released_is_as_its_holder_says() {
    let mut world = held(2);
    let release = |number, urgency, delay_ms| Command::Release {
        job: JobRef::Number(number),
        again: Some(Again { urgency, delay_ms }),
    };
    world.command(release(1, -1, 0));
    world.command(release(2, 1, 500));
    world.restart();
    assert_eq!((listed(&mut world, Which::Ready), listed(&mut world, Which::Due)), (vec![1], vec![2]));
    let jobs = world.engine.snapshot().jobs;
    assert_eq!([jobs[0].urgency, jobs[1].urgency], [-1, 1]);
    assert_eq!([jobs[0].delay_ms, jobs[1].delay_ms], [0, 500]);
    assert_eq!(world.engine.next_deadline().engine_ms, Some(world.now.engine_ms + 500));
    world.now.engine_ms += 500;
    world.engine.tick(world.now, world.now.engine_ms, &mut |_, reply| panic!("{reply:?}"));
    assert_eq!(listed(&mut world, Which::Ready), [2, 1]);
}

#[test]
fn a_lease_that_is_extended_begins_anew_and_nothing_is_written() {
    let mut world = held(1);
    let until_ms = |world: &World| world.engine.snapshot().jobs[0].lease_until_ms;
    assert_eq!(until_ms(&world), Some(world.now.engine_ms + 1_000));
    world.now.engine_ms += 700;
    world.appended = 0;
    world.command(Command::Extend { job: JobRef::Number(1) });
    assert_eq!((until_ms(&world), world.appended), (Some(world.now.engine_ms + 1_000), 0));
    let mut refused = 0;
    world.engine.handle(world.now, ClientId(2), Command::Extend { job: JobRef::Number(1) }, &mut |_, reply| {
        assert_eq!(reply, Reply::Refused(Refusal::NotHeld));
        refused += 1;
    });
    assert_eq!(refused, 1);
}

#[test]
fn a_delay_begins_when_nothing_blocks_the_job_any_more() {
    let mut world = World::new();
    world.enqueue(plain("first"));
    let blockers = vec![jobyard_engine::Blocker::Number(1)];
    world.enqueue(NewJob { start: Start::After(500), blockers, ..plain("q") });
    world.restart();
    world.now.engine_ms += 10_000;
    world.now.wall_ms += 10_000;
    world.complete(1);
    assert_eq!(listed(&mut world, Which::Due), [2]);
    assert_eq!(world.engine.next_deadline().engine_ms, Some(world.now.engine_ms + 500));
    world.restart();
}

#[test]
fn a_job_is_taken_by_name_wherever_it_is_and_is_ready_when_that_is_over() {
    let mut world = held(1);
    bury(&mut world, 1, 0);
    world.enqueue(NewJob { start: Start::After(60_000), ..plain("q") });
    world.enqueue(plain("q"));
    for number in [1, 2, 3] {
        world.command(Command::LeaseJob { job: JobRef::Number(number), hold: Hold::ConnectionTimed(Parting::Release) });
    }
    let until_ms =
        |world: &World| world.engine.snapshot().jobs.iter().map(|job| job.lease_until_ms).collect::<Vec<_>>();
    let in_ms = |ms: u64| Some(world.now.engine_ms + ms);
    assert_eq!(until_ms(&world), [in_ms(1_000), in_ms(60_000), in_ms(60_000)], "its own time, or the default");
    let mut refused = Vec::new();
    let again = Command::LeaseJob { job: JobRef::Number(1), hold: HELD };
    world.engine.handle(world.now, CLIENT, again, &mut |_, reply| refused.push(format!("{reply:?}")));
    assert_eq!(refused, ["Refused(WrongState)"]);
    world.engine.disconnect(world.now, CLIENT, &mut |_, reply| panic!("{reply:?}"));
    assert_eq!(listed(&mut world, Which::Ready), [1, 2, 3]);
    world.restart();
}

#[test]
fn whoever_lets_a_job_back_in_after_its_last_attempt_gives_it_one_more() {
    let mut world = World::new();
    world.enqueue(NewJob { attempts: Some(AttemptRule { max: Some(2) }), ..plain("q") });
    world.lease("q", HELD);
    let take = |world: &mut World| {
        world.command(Command::LeaseJob { job: JobRef::Number(1), hold: HELD });
    };
    // The first attempt is over, and the second is the last.
    world.command(Command::Release { job: JobRef::Number(1), again: None });
    take(&mut world);
    for lets_in in [
        |world: &mut World| _ = revive(&mut world.engine, world.now, 1),
        |world: &mut World| world.command(Command::ReviveJob { job: JobRef::Number(1) }),
    ] {
        bury(&mut world, 1, 0);
        lets_in(&mut world);
        world.write();
        world.restart();
        take(&mut world);
    }
    bury(&mut world, 1, 0);
    take(&mut world);
    world.command(Command::Release { job: JobRef::Number(1), again: None });
    assert!(!world.exists(1), "but not two");
}

#[test]
fn what_someone_else_has_can_be_removed_by_anyone_or_by_nobody_else_as_is_said() {
    for (by, refused) in [(By::Anyone, false), (By::HolderOrNobody, true), (By::Holder, true)] {
        for (client, refused) in [(CLIENT, false), (ClientId(2), refused)] {
            let mut world = held(1);
            let remove = Command::Remove { job: JobRef::Number(1), by };
            world.engine.handle(world.now, client, remove, &mut |_, reply| {
                let expected = if refused { Reply::Refused(Refusal::NotHeld) } else { Reply::Done };
                assert_eq!(reply, expected, "{by:?} {client:?}");
            });
            assert_eq!(world.exists(1), refused, "{by:?} {client:?}");
        }
    }
    let mut world = World::new();
    world.enqueue(plain("q"));
    world.command(Command::Remove { job: JobRef::Number(1), by: By::HolderOrNobody });
}

#[test]
fn the_delay_of_a_job_that_is_blocked_is_written_with_its_length_and_no_end() {
    let mut world = World::new();
    let blocker = world.enqueue(plain("q"));
    let start = Start::After(700);
    let begin = world.bytes();
    world.enqueue(NewJob { start, blockers: vec![Blocker::Number(blocker)], ..plain("q") });
    let written = records(&world.stretches[0][begin..]).next().unwrap().unwrap();
    let field = |name| written.fields.iter().find(|field| field.0 == name).map(|field| &field.1);
    assert_eq!(field("delay_ms"), Some(&Field::Number(700)));
    assert_eq!(field("until_ms"), None);
}
