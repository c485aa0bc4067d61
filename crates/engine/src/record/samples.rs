//! Records of every kind, for tests.

use super::Record;
use crate::command::{AttemptRule, Backoff, DateRank, FailureRule, OwnTime, UsedUp};
use crate::delay::Delay;
use crate::job::{Due, Rank, State};
use crate::names::{LeaseId, QueueName, Uuid};
use crate::record_job::Enqueued;
use crate::record_kept::Kept;

/// A plain job that was put, but for what is changed.
pub(crate) fn enqueued(change: impl FnOnce(&mut Enqueued<'_>)) -> Enqueued<'static> {
    let mut enqueued = Enqueued {
        number: 7,
        place: 9,
        created_wall_ms: -5,
        queue: b"q",
        body: b"body"[..].into(),
        urgency: 0,
        own_time: OwnTime::None,
        uuid: None,
        name: None,
        lifetime_ms: None,
        expires_ms: None,
        attempts: None,
        failures: None,
        blockers: Vec::new(),
        date: None,
        delayed: false,
        delay: None,
        runs: false,
        origin: None,
    };
    change(&mut enqueued);
    enqueued
}

fn with_every_part(enqueued: &mut Enqueued<'_>) {
    enqueued.delayed = true;
    enqueued.delay = Some(Delay { ms: u64::MAX, until_ms: u64::MAX, shown_wall_ms: i64::MIN });
    enqueued.blockers = vec![1, 2, 300];
    enqueued.runs = true;
    enqueued.origin = Some(b"from \xff"[..].into());
    enqueued.urgency = i128::MIN;
    enqueued.uuid = Some(Uuid(u128::MAX));
    enqueued.name = Some("näme".into());
    enqueued.own_time = OwnTime::Millis(u64::MAX);
    enqueued.date = Some((i64::MIN, DateRank::Behind));
    enqueued.lifetime_ms = Some(u64::MAX);
    enqueued.attempts = Some(AttemptRule { max: Some(u32::MAX) });
    enqueued.failures = Some(FailureRule {
        allowed: Some(3),
        backoff: Backoff::Quartic,
        used_up: UsedUp::MoveTo(QueueName::new(b"dead\0\n")),
        parting_counts: true,
    });
}

/// Fails as often as it likes, and is tried again at once.
fn lasting(used_up: UsedUp) -> FailureRule {
    FailureRule { allowed: None, backoff: Backoff::None, used_up, parting_counts: false }
}

fn kept(base: Enqueued<'static>, state: State) -> Record<'static> {
    Record::Kept(Kept { base, state, expires_ms: None, attempts: 0, failures: 0, result: None, rank: Rank::Usual })
}

fn kept_with_every_part() -> Record<'static> {
    Record::Kept(Kept {
        base: enqueued(with_every_part),
        state: State::Blocked,
        expires_ms: Some(u64::MAX),
        attempts: u64::MAX,
        failures: 1,
        result: Some(b"result"[..].into()),
        rank: Rank::Ahead(i64::MAX),
    })
}

/// One record of each kind, some with all that can be in them.
pub(crate) fn one_of_each() -> Vec<Record<'static>> {
    let lease = LeaseId(u64::MAX);
    vec![
        Record::QueueCreated { name: b"", ordinal: 200 },
        Record::Enqueued(enqueued(|_| {})),
        Record::Enqueued(enqueued(with_every_part)),
        Record::Enqueued(enqueued(|enqueued| {
            enqueued.lifetime_ms = Some(1);
            enqueued.expires_ms = Some(u64::MAX);
        })),
        Record::Enqueued(enqueued(|enqueued| enqueued.own_time = OwnTime::Unlimited)),
        Record::Enqueued(enqueued(|enqueued| {
            enqueued.date = Some((3, DateRank::Ahead));
            enqueued.attempts = Some(AttemptRule { max: None });
            enqueued.failures = Some(lasting(UsedUp::Keep));
        })),
        Record::Enqueued(enqueued(|enqueued| enqueued.failures = Some(lasting(UsedUp::Remove)))),
        kept(enqueued(|_| {}), State::Ready),
        kept(enqueued(|_| {}), State::Leased { lease, until_ms: u64::MAX }),
        kept(enqueued(|_| {}), State::Delayed { due: Due::Engine(1), shown_wall_ms: -1 }),
        kept(
            enqueued(|enqueued| enqueued.date = Some((3, DateRank::Behind))),
            State::Delayed { due: Due::Wall(3), shown_wall_ms: 3 },
        ),
        kept(enqueued(|_| {}), State::Done),
        kept(enqueued(|_| {}), State::Failed),
        kept(enqueued(|enqueued| enqueued.delay = Delay::of_length(1)), State::Buried { order: 300 }),
        kept_with_every_part(),
        Record::Kept(Kept {
            base: enqueued(|_| {}),
            state: State::Ready,
            expires_ms: None,
            attempts: 0,
            failures: 0,
            result: None,
            rank: Rank::Behind(-1),
        }),
        Record::Counters { next_number: u64::MAX, next_place: 1, next_ordinal: 2 },
        Record::Leased { number: 1, lease, until_ms: u64::MAX },
        Record::Counted { number: 2 },
        Record::Undone { number: 3 },
        Record::Done { number: 4, expires_ms: 5, result: b"out"[..].into() },
        Record::Failed { number: 4, expires_ms: 5, result: Box::default() },
        Record::Removed { number: u64::MAX },
        Record::Failure { number: 6 },
        Record::BackedOff { number: 6, until_ms: 7, due_wall_ms: -8, expires_ms: Some(9) },
        Record::Rested { number: 6, until_ms: 7, shown_wall_ms: i64::MAX },
        Record::Released { number: 6, urgency: i128::MIN, delay: None },
        Record::Released { number: 6, urgency: 1, delay: Some(Delay { ms: 2, until_ms: 3, shown_wall_ms: -4 }) },
        Record::Buried { number: 6, urgency: i128::MAX, order: 1 },
        Record::Revived { number: 6, expires_ms: Some(7) },
        Record::Moved { number: 6, queue: b"x", place: 8, expires_ms: None },
        Record::Woke { number: 6, expires_ms: Some(1) },
        Record::Unblocked { number: 6, place: 10, delayed: true, expires_ms: None },
        Record::OriginClosed { number: 6 },
        Record::Enqueued(enqueued(|enqueued| enqueued.origin = Some(Box::default()))),
    ]
}
