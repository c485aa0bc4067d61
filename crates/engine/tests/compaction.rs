//! The log lets go of its beginning: what is left must give the same state, and must not grow beyond its bound.

mod support;

use jobyard_engine::{
    AttemptRule, Backoff, Blocker, By, ClientId, Command, Damaged, DateRank, Engine, FailureRule, Field, Hold, JobRef,
    Look, NewJob, OwnTime, Parting, QueueOrder, RecordView, Refusal, Reply, Start, StateView, UsedUp, Uuid, records,
};
use support::{CLIENT, World, name, plain};

const UUID: Uuid = Uuid(0x6ba7_b810_9dad_41d1_80b4_00c0_4fd4_30c4);

fn blocked_by(blockers: &[u64]) -> NewJob {
    NewJob { blockers: blockers.iter().map(|&number| Blocker::Number(number)).collect(), ..plain("q") }
}

#[test]
fn what_lives_is_moved_and_what_is_gone_is_not() {
    let mut world = World::new();
    for _ in 0..4 {
        world.enqueue(plain("q"));
    }
    world.complete(2);
    world.begin_stretch();
    world.complete(3);
    let moved = world.compact_oldest();
    assert!(world.kinds(moved).eq(["queue_created", "kept", "kept", "counters"]));
    world.drop_oldest();
    assert_eq!(world.numbers(), [1, 4]);
    world.restart();
    assert_eq!(world.numbers(), [1, 4]);
}

#[test]
fn the_newest_stretch_is_never_compacted() {
    let mut world = World::new();
    world.enqueue(plain("q"));
    assert!(!world.engine.compact(usize::MAX));
    assert!(world.engine.records().is_empty());
}

#[test]
fn once_the_oldest_is_not_needed_nothing_more_is_written() {
    let mut world = World::new();
    world.enqueue(plain("q"));
    world.begin_stretch();
    world.compact_oldest();
    assert!(world.engine.compact(usize::MAX));
    assert!(world.engine.records().is_empty());
}

#[test]
fn the_work_of_a_call_is_bounded_for_the_living_and_the_dead() {
    const JOBS: u64 = 10_000;
    for dead in [false, true] {
        let mut world = World::new();
        for number in 1..=JOBS {
            world.enqueue(plain("q"));
            if dead {
                world.complete(number);
            }
        }
        world.begin_stretch();
        let mut calls = 0_u64;
        while !world.engine.compact(1_000) {
            assert!(world.engine.records().len() < 1_100, "{} bytes", world.engine.records().len());
            world.write();
            calls += 1;
        }
        assert!(calls > JOBS * 20 / 1_000, "{calls} calls for {JOBS} jobs");
    }
}

#[test]
fn every_kind_of_job_survives_the_loss_of_its_first_record() {
    let mut world = World::new();
    let rules = FailureRule {
        allowed: Some(3),
        backoff: Backoff::Quartic,
        used_up: UsedUp::MoveTo(name("dead")),
        parting_counts: true,
    };
    world.enqueue(NewJob { urgency: -7, name: Some("named".into()), uuid: Some(UUID), ..plain("q") });
    world.enqueue(NewJob { lifetime_ms: Some(100_000), ..plain("done") });
    world.enqueue(NewJob { start: Start::At { wall_ms: 90_000, rank: DateRank::Behind }, ..plain("dated") });
    world.enqueue(NewJob {
        attempts: Some(AttemptRule { max: Some(9) }),
        own_time: OwnTime::Unlimited,
        ..plain("leased")
    });
    world.enqueue(NewJob { failures: Some(rules), ..plain("backed off") });
    world.enqueue(blocked_by(&[1, 3]));
    let keep = FailureRule { allowed: None, backoff: Backoff::None, used_up: UsedUp::Keep, parting_counts: false };
    world.enqueue(NewJob { lifetime_ms: Some(100_000), failures: Some(keep.clone()), ..plain("failed") });
    world.enqueue(NewJob {
        failures: Some(FailureRule { used_up: UsedUp::MoveTo(name("dead")), ..keep }),
        ..plain("m")
    });
    world.enqueue(plain("vanished"));
    world.command(Command::Complete { job: JobRef::Number(2), by: By::Anyone, result: b"result"[..].into() });
    world.lease("leased", Hold::For(5_000));
    for number in [5, 7, 8] {
        world.command(Command::Fail { job: JobRef::Number(number), by: By::Anyone, result: b"why"[..].into() });
    }
    world.lease_as(ClientId(9), "vanished", Hold::Connection(Parting::Fail));
    world.engine.disconnect(world.now, ClientId(9), &mut |_, _| {});
    world.write();

    let seen: Vec<StateView> = world.engine.snapshot().jobs.iter().map(|job| job.state).collect();
    use StateView::{Blocked, Delayed, Done, Failed, Leased, Ready};
    assert_eq!(seen, [Ready, Done, Delayed, Leased, Delayed, Blocked, Failed, Ready, Delayed]);
    for _ in 0..3 {
        world.begin_stretch();
        world.compact_oldest();
        world.drop_oldest();
        world.restart();
    }
}

#[test]
fn a_held_job_can_be_moved_and_is_still_held() {
    let mut world = World::new();
    world.enqueue(plain("q"));
    world.lease("q", Hold::Connection(Parting::Release));
    world.begin_stretch();
    world.compact_oldest();
    world.drop_oldest();
    assert_eq!(world.engine.snapshot().jobs[0].held_by, Some(CLIENT));
    world.engine.disconnect(world.now, CLIENT, &mut |_, _| {});
    world.write();
    assert_eq!(world.engine.snapshot().jobs[0].state, StateView::Ready);
    world.restart();
}

#[test]
fn a_run_job_that_was_moved_ends_with_a_restart_and_its_client_is_answered_before() {
    let mut world = World::new();
    world.command(Command::Run { job: Box::new(plain("q")), wait_ms: 50_000 });
    world.enqueue(blocked_by(&[1]));
    world.begin_stretch();
    world.compact_oldest();
    world.drop_oldest();
    let mut again = world.replayed();
    again.recover(world.now);
    assert_eq!(
        again.snapshot().jobs.iter().map(|job| (job.number, job.state)).collect::<Vec<_>>(),
        [(2, StateView::Ready)]
    );

    let mut answered = Vec::new();
    let complete = Command::Complete { job: JobRef::Number(1), by: By::Anyone, result: b"r"[..].into() };
    world.engine.handle(world.now, ClientId(2), complete, &mut |client, reply| {
        answered.push((client, matches!(reply, Reply::Result { success: true, .. })));
    });
    assert_eq!(answered, [(CLIENT, true), (ClientId(2), false)]);
}

#[test]
fn a_blocker_that_is_written_after_what_it_blocks_still_blocks_it() {
    let mut world = World::new();
    world.enqueue(plain("q"));
    world.begin_stretch();
    world.enqueue(blocked_by(&[1]));
    world.begin_stretch();
    // Job 1 now has its newest record after that of job 2.
    world.compact_oldest();
    world.drop_oldest();
    world.restart();
    assert_eq!(world.engine.snapshot().jobs[1].blockers, [1]);
    world.begin_stretch();
    world.complete(1);
    assert_eq!(world.engine.snapshot().jobs[0].state, StateView::Ready);
    world.restart();
}

#[test]
fn a_blocker_that_was_forgotten_unblocks_when_its_removal_is_read() {
    let mut world = World::new();
    world.enqueue(plain("q"));
    world.begin_stretch();
    world.enqueue(blocked_by(&[1]));
    // Its end is written, but by then its beginning is dropped.
    world.complete(1);
    world.begin_stretch();
    world.compact_oldest();
    world.drop_oldest();
    world.restart();
    assert_eq!(world.engine.snapshot().jobs.len(), 1);
    assert_eq!(world.engine.snapshot().jobs[0].state, StateView::Ready);
}

#[test]
fn a_chain_of_blocked_jobs_survives_with_any_part_of_the_log_gone() {
    for dropped in 1..=6 {
        let mut world = World::new();
        world.enqueue(plain("q"));
        for number in 1..=4 {
            world.begin_stretch();
            world.enqueue(blocked_by(&(1..=number).collect::<Vec<_>>()));
        }
        world.complete(1);
        world.begin_stretch();
        world.begin_stretch();
        for _ in 0..dropped {
            world.compact_oldest();
            world.drop_oldest();
            world.begin_stretch();
            world.restart();
        }
        world.complete(2);
        assert_eq!(world.engine.snapshot().jobs[0].blockers, [0_u64; 0]);
        world.restart();
    }
}

#[test]
fn a_uuid_can_be_used_again_when_its_first_job_is_forgotten() {
    let with_uuid = || NewJob { uuid: Some(UUID), ..plain("q") };
    let mut world = World::new();
    world.enqueue(with_uuid());
    world.begin_stretch();
    world.complete(1);
    world.enqueue(with_uuid());
    world.begin_stretch();
    world.compact_oldest();
    world.drop_oldest();
    world.restart();
    assert_eq!(world.numbers(), [2]);
    let mut refusal = None;
    world.engine.handle(world.now, CLIENT, Command::Enqueue(Box::new(with_uuid())), &mut |_, reply| {
        if let Reply::Refused(why) = reply {
            refusal = Some(why);
        }
    });
    assert_eq!(refusal, Some(Refusal::DuplicateUuid));
}

#[test]
fn queues_keep_their_order_by_age_whichever_was_written_last() {
    let mut world = World::new();
    for queue in ["c", "a", "b"] {
        world.enqueue(plain(queue));
        world.begin_stretch();
    }
    world.enqueue(plain("d"));
    let in_order = |engine: &mut Engine, now| {
        let mut names = Vec::new();
        let look = Look::Queues { order: QueueOrder::Created, nameable: |_| true, offset: 0, count_max: 9 };
        engine.handle(now, CLIENT, Command::Look(look), &mut |_, reply| {
            if let Reply::Queues { queues, .. } = reply {
                names = queues.iter().map(|queue| queue.name.clone()).collect();
            }
        });
        names
    };
    for _ in 0..5 {
        assert_eq!(in_order(&mut world.engine, world.now), ["c", "a", "b", "d"].map(name));
        world.begin_stretch();
        world.compact_oldest();
        world.drop_oldest();
        world.restart();
    }
}

#[test]
fn when_everything_is_gone_no_number_and_no_place_is_given_again() {
    let mut world = World::new();
    for number in 1..=3 {
        world.enqueue(plain("q"));
        world.complete(number);
    }
    for _ in 0..3 {
        world.begin_stretch();
        world.compact_oldest();
        world.drop_oldest();
    }
    world.restart();
    world.enqueue(plain("q"));
    let job = &world.engine.snapshot().jobs[0];
    assert_eq!((job.number, job.place), (4, 4));
}

#[test]
fn a_job_that_moves_to_a_queue_brings_it_into_being() {
    let mut world = World::new();
    let rules = FailureRule {
        allowed: None,
        backoff: Backoff::None,
        used_up: UsedUp::MoveTo(name("dead")),
        parting_counts: false,
    };
    world.enqueue(NewJob { failures: Some(rules), ..plain("q") });
    world.begin_stretch();
    let before = world.stretches.back().unwrap().len();
    world.command(Command::Fail { job: JobRef::Number(1), by: By::Anyone, result: Box::default() });
    assert!(world.kinds(before).eq(["queue_created", "moved"]));
    world.begin_stretch();
    for _ in 0..2 {
        world.compact_oldest();
        world.drop_oldest();
        world.restart();
    }
    assert!(world.engine.has_queue(&name("dead")));
}

#[test]
fn the_whole_history_is_read_strictly_and_the_rest_is_not() {
    let mut world = World::new();
    world.enqueue(plain("q"));
    world.begin_stretch();
    world.complete(1);
    let rest = world.stretches.pop_back().unwrap();
    let mut engine = support::engine(2);
    assert_eq!(engine.replay(&rest, jobyard_engine::History::Whole), Err(Damaged));
    assert_eq!(engine.replay(&rest, jobyard_engine::History::Rest), Ok(()));
}

#[test]
fn what_each_stretch_holds_of_the_living_can_be_listed() {
    let mut world = World::new();
    world.enqueue(plain("q"));
    world.enqueue(NewJob { lifetime_ms: Some(5_000), ..plain("q") });
    world.begin_stretch();
    world.enqueue(plain("other"));
    world.command(Command::Complete { job: JobRef::Number(2), by: By::Anyone, result: b"result"[..].into() });
    let engine = &world.engine;
    let mut jobs: Vec<_> = engine.live_jobs().collect();
    jobs.sort_by_key(|job| job.job.number);
    assert_eq!(jobs.iter().map(|job| job.stretch).collect::<Vec<_>>(), [0, 0, 1]);
    assert_eq!((jobs[1].job.state, jobs[1].result), (StateView::Done, Some(&b"result"[..])));
    let queues: Vec<_> = engine.live_queues().map(|queue| (queue.name.clone(), queue.jobs, queue.stretch)).collect();
    assert_eq!(queues, [(name("q"), 2, 0), (name("other"), 1, 1)]);
    let bytes: u64 = jobs.iter().map(|job| job.record_bytes).sum();
    let queue_bytes: u64 = engine.live_queues().map(|queue| queue.record_bytes).sum();
    assert_eq!(engine.live_bytes(), bytes + queue_bytes);

    let needed = |stretch| {
        let jobs = engine.live_jobs().filter(|job| job.stretch == stretch).map(|job| job.record_bytes);
        let queues = engine.live_queues().filter(|queue| queue.stretch == stretch).map(|queue| queue.record_bytes);
        jobs.chain(queues).sum::<u64>()
    };
    let oldest = needed(0);
    let begin = world.compact_oldest();
    // The counters come last: a tag and three small numbers.
    assert_eq!((world.stretches.back().unwrap().len() - begin) as u64, oldest + 4);
}

#[test]
fn records_can_be_read_by_people() {
    let mut world = World::new();
    world.enqueue(NewJob { uuid: Some(UUID), ..plain("q") });
    world.lease("q", Hold::For(7));
    world.begin_stretch();
    world.compact_oldest();
    let views: Vec<RecordView> =
        world.stretches.iter().flat_map(|stretch| records(stretch)).map(Result::unwrap).collect();
    let kinds: Vec<&str> = views.iter().map(|view| view.kind).collect();
    assert_eq!(kinds, ["queue_created", "enqueued", "leased", "queue_created", "kept", "counters"]);
    let kept = &views[4];
    assert_eq!((kept.number, kept.queue.clone()), (Some(1), Some(name("q"))));
    let said = |field: &str| kept.fields.iter().find(|(name, _)| *name == field).map(|(_, field)| field.clone());
    assert_eq!(said("body"), Some(Field::Bytes(b"some body"[..].into())));
    assert_eq!(said("uuid"), Some(Field::Text("6ba7b810-9dad-41d1-80b4-00c04fd430c4".to_owned())));
    assert_eq!(said("state"), Some(Field::Text("leased".to_owned())));
    assert_eq!(said("until_ms"), Some(Field::Number(1_007)));
    let mut broken = records(b"\xff\x01\x01");
    assert_eq!(broken.next(), Some(Err(Damaged)));
    assert_eq!(broken.next(), None);
}

#[test]
fn the_whole_state_can_be_written_to_another_log() {
    let mut world = World::new();
    for number in 1..=50 {
        world.enqueue(if number > 1 { blocked_by(&[number - 1]) } else { plain("q") });
        world.roll(500);
    }
    world.complete(1);
    let before = world.engine.snapshot();
    world.engine.begin_keep_all();
    let mut portions = Vec::new();
    loop {
        let is_done = world.engine.keep_all(300);
        assert!(world.engine.records().len() < 400);
        portions.push(world.engine.records().to_vec());
        world.engine.clear_records();
        if is_done {
            break;
        }
    }
    let mut again = support::engine(7);
    for portion in &portions {
        again.replay(portion, jobyard_engine::History::Whole).unwrap();
    }
    again.check();
    assert_eq!(again.snapshot(), before);
}

/// Drives the engine as a broker would, with stretches of so many bytes. What is left is within the bound.
fn check_bound(stretch_bytes: usize, turns: u64, mut turn: impl FnMut(&mut World, u64)) {
    let mut world = World::new();
    let mut largest = 0;
    for index in 0..turns {
        turn(&mut world, index);
        world.roll(stretch_bytes);
        let live = usize::try_from(world.engine.live_bytes()).unwrap();
        let appended = world.appended;
        if world.bytes() > live * 3 / 2 + stretch_bytes {
            let is_done = world.engine.compact(2 * appended + stretch_bytes / 256);
            world.write();
            if is_done {
                world.drop_oldest();
            }
            world.roll(stretch_bytes);
        }
        world.appended = 0;
        let bound = live * 2 + 2 * stretch_bytes;
        assert!(world.bytes() <= bound, "{} bytes in turn {index}, {live} live, at most {bound}", world.bytes());
        largest = largest.max(world.bytes());
    }
    assert!(largest > stretch_bytes, "it was put to the test");
    world.restart();
}

#[test]
fn a_few_old_jobs_do_not_keep_the_log_of_a_long_flow() {
    check_bound(16 << 10, 20_000, |world, index| {
        let number = world.enqueue(plain("q"));
        if index % 1_000 == 0 {
            return;
        }
        world.lease("q", Hold::For(10_000));
        world.complete(number);
    });
}

#[test]
fn a_standing_crowd_with_a_flow_through_it_stays_within_the_bound() {
    check_bound(16 << 10, 20_000, |world, index| {
        let number = world.enqueue(plain("q"));
        if index >= 2_000 {
            // The crowd is passed through in no order.
            let victim = index.wrapping_mul(7_919) % (number - 1) + 1;
            let gone = if world.exists(victim) { victim } else { number };
            world.complete(gone);
        }
    });
}
