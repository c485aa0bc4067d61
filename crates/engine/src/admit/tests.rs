//! Logs that were damaged: whatever can be read is made sense of, and jobs are kept.

use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;
use crate::bytes::Reader;
use crate::command::{AttemptRule, Backoff, DateRank, FailureRule, OwnTime, UsedUp};
use crate::delay::Delay;
use crate::job::{Due, Rank};
use crate::names::{LeaseId, QueueName, Uuid};
use crate::{
    Blocker, By, Choice, ClientId, Command, Engine, Hold, JobRef, LeaseRequest, Limits, NewJob, Now, Start, Wait,
};

const NOW: Now = Now { engine_ms: 100, wall_ms: 100, random: 0 };
const QUEUES: [&[u8]; 3] = [b"", b"q", b"other"];

/// Few enough to meet each other, and the worst.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![20 => 0..8_u64, 1 => Just(BELIEVED_MAX - 1), 1 => Just(COUNT_MAX - 1), 1 => Just(u64::MAX)]
}

fn time() -> impl Strategy<Value = u64> {
    prop_oneof![0..200_u64, Just(u64::MAX)]
}

fn date() -> impl Strategy<Value = i64> {
    prop_oneof![4 => -200..200_i64, 1 => Just(i64::MIN), 1 => Just(i64::MAX)]
}

fn queue() -> impl Strategy<Value = &'static [u8]> {
    (0..QUEUES.len()).prop_map(|index| QUEUES[index])
}

fn bytes() -> impl Strategy<Value = Box<[u8]>> {
    vec(any::<u8>(), 0..4).prop_map(Into::into)
}

fn failure_rule() -> impl Strategy<Value = FailureRule> {
    let used_up = prop_oneof![
        Just(UsedUp::Remove),
        Just(UsedUp::Keep),
        queue().prop_map(|queue| UsedUp::MoveTo(QueueName::new(queue)))
    ];
    (option::of(number()), any::<bool>(), used_up, any::<bool>()).prop_map(
        |(allowed, backs_off, used_up, parting_counts)| {
            let backoff = if backs_off { Backoff::Quartic } else { Backoff::None };
            FailureRule { allowed, backoff, used_up, parting_counts }
        },
    )
}

fn enqueued() -> impl Strategy<Value = Enqueued<'static>> {
    let uuid = prop_oneof![
        4 => (0..4_u128).prop_map(|low| Uuid(0x6ba7_b810_9dad_41d1_80b4_00c0_4fd4_30c0 + low)),
        1 => (0..8_u64).prop_map(Uuid::of_number),
    ];
    let own_time = prop_oneof![Just(OwnTime::None), Just(OwnTime::Unlimited), time().prop_map(OwnTime::Millis)];
    let dated = (date(), any::<bool>())
        .prop_map(|(wall_ms, ahead)| (wall_ms, if ahead { DateRank::Ahead } else { DateRank::Behind }));
    let base = (number(), number(), date(), queue(), bytes(), own_time);
    let rare = (option::of(uuid), option::of(time()), option::of(time()), option::of(option::of(1..3_u32)));
    let blockers = vec(number(), 0..3);
    let origin = option::weighted(0.2, bytes());
    let rest = (
        (option::of(failure_rule()), blockers, option::of(dated), any::<bool>(), option::of(delay()), any::<bool>()),
        origin,
    );
    (base, rare, rest).prop_map(|(base, rare, rest)| {
        let (number, place, created_wall_ms, queue, body, own_time) = base;
        let (uuid, lifetime_ms, expires_ms, attempts) = rare;
        let ((failures, blockers, date, delayed, delay, runs), origin) = rest;
        Enqueued {
            number,
            place,
            created_wall_ms,
            queue,
            body,
            urgency: 0,
            own_time,
            uuid,
            name: None,
            lifetime_ms,
            expires_ms,
            attempts: attempts.map(|max| AttemptRule { max }),
            failures,
            blockers,
            date,
            delayed,
            delay,
            runs,
            origin,
        }
    })
}

fn delay() -> impl Strategy<Value = Delay> {
    (time(), time(), date()).prop_map(|(ms, until_ms, shown_wall_ms)| Delay { ms, until_ms, shown_wall_ms })
}

fn kept() -> impl Strategy<Value = Kept<'static>> {
    let counts = (prop_oneof![0..3_u64, Just(u64::MAX)], prop_oneof![0..3_u64, Just(u64::MAX)]);
    let rank = prop_oneof![Just(Rank::Usual), date().prop_map(Rank::Ahead), date().prop_map(Rank::Behind)];
    (enqueued(), 0..7_u8, time(), date(), counts, option::of(bytes()), option::of(time()), rank).prop_map(
        |(mut base, state, until_ms, shown_wall_ms, (attempts, failures), result, expires_ms, rank)| {
            base.expires_ms = None;
            let due = base.date.filter(|_| state < 2).map_or(Due::Engine(until_ms), |(wall_ms, _)| Due::Wall(wall_ms));
            let shown_wall_ms = if let Due::Wall(wall_ms) = due { wall_ms } else { shown_wall_ms };
            let state = match state {
                _ if !base.blockers.is_empty() => State::Blocked,
                0..=2 => State::Delayed { due, shown_wall_ms },
                3 => State::Leased { lease: LeaseId(until_ms), until_ms },
                4 => State::Ready,
                5 => State::Buried { order: until_ms },
                _ if until_ms % 2 == 0 => State::Done,
                _ => State::Failed,
            };
            Kept { base, state, expires_ms, attempts, failures, result, rank }
        },
    )
}

fn record() -> impl Strategy<Value = Record<'static>> {
    let lease = || time().prop_map(LeaseId);
    prop_oneof![
        2 => (queue(), number()).prop_map(|(name, ordinal)| Record::QueueCreated { name, ordinal }),
        6 => enqueued().prop_map(Record::Enqueued),
        6 => kept().prop_map(Record::Kept),
        1 => (number(), number(), number()).prop_map(|(next_number, next_place, next_ordinal)| {
            Record::Counters { next_number, next_place, next_ordinal }
        }),
        2 => (number(), lease(), time()).prop_map(|(number, lease, until_ms)| {
            Record::Leased { number, lease, until_ms }
        }),
        1 => number().prop_map(|number| Record::Counted { number }),
        1 => number().prop_map(|number| Record::Undone { number }),
        2 => (number(), time(), bytes()).prop_map(|(number, expires_ms, result)| {
            Record::Done { number, expires_ms, result }
        }),
        2 => (number(), time(), bytes()).prop_map(|(number, expires_ms, result)| {
            Record::Failed { number, expires_ms, result }
        }),
        2 => number().prop_map(|number| Record::Removed { number }),
        1 => number().prop_map(|number| Record::OriginClosed { number }),
        1 => number().prop_map(|number| Record::Failure { number }),
        1 => (number(), time(), date(), option::of(time())).prop_map(|(number, until_ms, due_wall_ms, expires_ms)| {
            Record::BackedOff { number, until_ms, due_wall_ms, expires_ms }
        }),
        1 => (number(), time(), date()).prop_map(|(number, until_ms, shown_wall_ms)| {
            Record::Rested { number, until_ms, shown_wall_ms }
        }),
        2 => (number(), option::of(delay())).prop_map(|(number, delay)| Record::Released { number, urgency: 1, delay }),
        2 => (number(), time()).prop_map(|(number, order)| Record::Buried { number, urgency: -1, order }),
        2 => (number(), option::of(time())).prop_map(|(number, expires_ms)| Record::Revived { number, expires_ms }),
        2 => (number(), queue(), number(), option::of(time())).prop_map(|(number, queue, place, expires_ms)| {
            Record::Moved { number, queue, place, expires_ms }
        }),
        1 => (number(), option::of(time())).prop_map(|(number, expires_ms)| Record::Woke { number, expires_ms }),
        2 => (number(), number(), any::<bool>(), option::of(time())).prop_map(
            |(number, place, delayed, expires_ms)| Record::Unblocked { number, place, delayed, expires_ms },
        ),
    ]
}

fn engine(epoch: u64) -> Engine {
    let mut engine = Engine::new(Limits::default(), epoch, 0);
    engine.begin_stretch();
    engine
}

/// An engine whose log was damaged is whole again, and what it writes anew gives the same.
fn check_mended(mut engine: Engine) {
    // What the first ends may expire at once, and what that takes along.
    for _ in 0..4 {
        engine.recover(NOW);
    }
    engine.check();
    engine.begin_keep_all();
    let mut written = Vec::new();
    while !engine.keep_all(50) {
        written.extend_from_slice(engine.records());
        engine.clear_records();
    }
    written.extend_from_slice(engine.records());
    engine.check();
    let mut again = self::engine(2);
    again.replay(&written, History::Whole).expect("what was written of a mended state is sound");
    again.recover(NOW);
    again.check();
    assert_eq!(again.snapshot().durable(), engine.snapshot().durable());
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        cases: 4 * ProptestConfig::default().cases,
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_records_can_be_salvaged(records in vec(record(), 0..60)) {
        let mut bytes = Vec::new();
        for record in &records {
            record.encode(&mut bytes);
        }
        for history in [History::Whole, History::Rest] {
            let mut engine = engine(1);
            if engine.replay(&bytes, history).is_ok() {
                engine.recover(NOW);
                engine.check();
            }
        }
        let mut engine = engine(1);
        engine.replay(&bytes, History::Damaged).expect("every record can be read");
        check_mended(engine);
    }

    #[test]
    fn a_history_with_gaps_keeps_every_job_of_which_enough_is_left(
        seed in any::<u64>(), lost in vec(any::<bool>(), 1..80), rarely in any::<bool>(),
    ) {
        let (truth, bytes) = history(seed);
        let (mut left, mut full) = (Vec::new(), BTreeSet::new());
        for (index, range) in boundaries(&bytes).into_iter().enumerate() {
            let is_lost = lost[index % lost.len()] && !(rarely && index % 7 != 0);
            if is_lost {
                continue;
            }
            match Record::decode(&mut Reader(&bytes[range.clone()])).expect("it was just written") {
                Record::Enqueued(job) | Record::Kept(Kept { base: job, .. }) => drop(full.insert(job.number)),
                _ => {}
            }
            left.extend_from_slice(&bytes[range]);
        }
        let mut engine = engine(1);
        engine.replay(&left, History::Damaged).expect("every record can be read");
        for job in truth.store.jobs.iter().filter(|job| full.contains(&job.number)) {
            prop_assert!(engine.store.jobs.get(job.number).is_some(), "job {} is lost", job.number);
        }
        check_mended(engine);
    }
}

/// Where each record lies.
fn boundaries(bytes: &[u8]) -> Vec<std::ops::Range<usize>> {
    let mut reader = Reader(bytes);
    let mut found = Vec::new();
    while !reader.is_empty() {
        let begin = bytes.len() - reader.0.len();
        Record::decode(&mut reader).expect("it was just written");
        found.push(begin..bytes.len() - reader.0.len());
    }
    found
}

/// An engine that has lived for a while, and all that it wrote.
fn history(seed: u64) -> (Engine, Vec<u8>) {
    let mut engine = engine(1);
    for client in 0..3 {
        let beginning = [u8::try_from(client).unwrap()].into();
        engine.handle(NOW, ClientId(client), Command::ClaimOrigins { beginning }, &mut |_, _| {});
    }
    let mut dice = seed;
    let mut roll = |sides: u64| {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (dice >> 33) % sides
    };
    for step in 0..80 {
        let now = Now { engine_ms: step, wall_ms: 50, random: 0 };
        let client = ClientId(roll(3));
        let some = JobRef::Number(engine.store.next_number.saturating_sub(roll(8)));
        let result: Box<[u8]> = vec![b'r'; usize::try_from(roll(3)).unwrap()].into();
        let command = match roll(10) {
            0..4 => Command::Enqueue(Box::new(some_job(engine.store.next_number, &mut roll))),
            4 | 5 => Command::Lease(Box::new(LeaseRequest {
                queues: QUEUES.map(QueueName::new).to_vec(),
                choice: Choice::Best,
                hold: if roll(2) == 0 { Hold::For(roll(200)) } else { Hold::Connection(crate::Parting::Fail) },
                wait: Wait::No,
                creates_queues: roll(2) == 0,
                body_without: None,
                heeds_ms: None,
            })),
            6 => Command::Complete { job: some, by: By::Anyone, result },
            7 => Command::Fail { job: some, by: By::Anyone, result },
            8 if roll(3) == 0 => Command::CloseOrigin { origin: [u8::try_from(roll(4)).unwrap()].into() },
            8 => Command::Remove { job: some, by: By::Anyone },
            _ if roll(2) == 0 => {
                engine.disconnect(now, client, &mut |_, _| {});
                continue;
            }
            _ => {
                engine.begin_stretch();
                engine.compact(100);
                engine.tick(now, now.engine_ms, &mut |_, _| {});
                continue;
            }
        };
        engine.handle(now, client, command, &mut |_, _| {});
    }
    engine.check();
    let bytes = engine.records().to_vec();
    (engine, bytes)
}

fn some_job(next: JobNumber, roll: &mut impl FnMut(u64) -> u64) -> NewJob {
    let index = usize::try_from(roll(3)).unwrap();
    let mut job = NewJob::plain(QueueName::new(QUEUES[index]), b"body"[..].into());
    if roll(3) == 0 {
        job.blockers = (0..roll(3)).map(|_| Blocker::Number(next.saturating_sub(roll(6)))).collect();
    }
    if roll(4) == 0 {
        job.uuid = Some(Uuid(0x6ba7_b810_9dad_41d1_80b4_00c0_4fd4_30c0 + u128::from(roll(4))));
    }
    if roll(5) == 0 {
        job.origin = Some([u8::try_from(roll(4)).unwrap()].into());
    }
    if roll(3) == 0 {
        job.lifetime_ms = Some(roll(100));
    }
    if roll(4) == 0 {
        job.start = Start::At { wall_ms: 40 + i64::try_from(roll(100)).unwrap(), rank: DateRank::Behind };
    }
    if roll(2) == 0 {
        let used_up = match roll(3) {
            0 => UsedUp::Remove,
            1 => UsedUp::Keep,
            _ => UsedUp::MoveTo(QueueName::new(b"dead")),
        };
        job.failures =
            Some(FailureRule { allowed: Some(roll(2)), backoff: Backoff::Quartic, used_up, parting_counts: true });
        job.attempts = Some(AttemptRule { max: Some(3) });
    }
    job
}

#[test]
fn of_two_jobs_with_one_uuid_the_older_goes() {
    let uuid = Some(Uuid(0x6ba7_b810_9dad_41d1_80b4_00c0_4fd4_30c0));
    let mut writer = engine(1);
    let job = || NewJob { uuid, ..NewJob::plain(QueueName::new(b"q"), Box::default()) };
    let mut bytes = Vec::new();
    for _ in 0..2 {
        writer.handle(NOW, ClientId(1), Command::Enqueue(Box::new(job())), &mut |_, _| {});
        bytes.extend_from_slice(writer.records());
        let number = writer.store.next_number - 1;
        writer.handle(
            NOW,
            ClientId(1),
            Command::Remove { job: JobRef::Number(number), by: By::Anyone },
            &mut |_, _| {},
        );
        writer.clear_records();
    }
    assert_eq!(engine(1).replay(&bytes, History::Whole), Err(Damaged));
    assert_eq!(engine(1).replay(&bytes, History::Rest), Err(Damaged));
    let mut mended = engine(1);
    mended.replay(&bytes, History::Damaged).unwrap();
    assert_eq!(mended.snapshot().jobs.iter().map(|job| job.number).collect::<Vec<_>>(), [2]);
    check_mended(mended);
}

#[test]
fn a_burial_that_nobody_can_have_counted_to_is_the_next_one() {
    for (order, counted) in [(BELIEVED_MAX - 1, BELIEVED_MAX - 1), (BELIEVED_MAX, 1), (u64::MAX, 1)] {
        let mut engine = Engine::new(Limits::default(), 1, 0);
        engine.begin_stretch();
        let job = NewJob::plain(QueueName::new(b"q"), Box::default());
        engine.handle(NOW, ClientId(1), Command::Enqueue(Box::new(job)), &mut |_, _| {});
        let mut records = engine.records().to_vec();
        Record::Buried { number: 1, urgency: 0, order }.encode(&mut records);
        let mut salvaged = Engine::new(Limits::default(), 2, 0);
        salvaged.begin_stretch();
        salvaged.replay(&records, History::Damaged).unwrap();
        assert_eq!(salvaged.store.job(1).state, State::Buried { order: counted }, "{order}");
        assert_eq!(salvaged.store.next_burial, counted + 1);
    }
}
