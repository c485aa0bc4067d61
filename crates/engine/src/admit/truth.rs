//! Records one by one: which can be true, which pass over, and what is made of those that cannot.

use super::*;
use crate::delay::Delay;
use crate::job::{Due, Rank};
use crate::names::{LeaseId, Uuid};
use crate::record::samples::enqueued;

const UUID: Uuid = Uuid(0x6ba7_b810_9dad_41d1_80b4_00c0_4fd4_30c0);
const OTHER_UUID: Uuid = Uuid(UUID.0 + 1);

fn job(number: JobNumber) -> Enqueued<'static> {
    Enqueued { number, place: number, created_wall_ms: 0, body: Box::default(), ..enqueued(|_| {}) }
}

fn blocked(number: JobNumber, blockers: &[JobNumber]) -> Enqueued<'static> {
    Enqueued { place: 0, blockers: blockers.to_vec(), ..job(number) }
}

fn kept(base: Enqueued<'static>, state: State) -> Record<'static> {
    Record::Kept(Kept { base, state, expires_ms: None, attempts: 0, failures: 0, result: None, rank: Rank::Usual })
}

fn leased(number: JobNumber) -> Record<'static> {
    Record::Leased { number, lease: LeaseId(1), until_ms: 9 }
}

fn done(number: JobNumber) -> Record<'static> {
    Record::Done { number, expires_ms: 9, result: Box::default() }
}

fn moved(number: JobNumber, place: u64) -> Record<'static> {
    Record::Moved { number, queue: b"q", place, expires_ms: None }
}

fn unblocked(number: JobNumber, place: u64) -> Record<'static> {
    Record::Unblocked { number, place, delayed: false, expires_ms: None }
}

const READY: JobNumber = 1;
const BLOCKED: JobNumber = 2;
const DONE: JobNumber = 3;
/// What blocked it is done; that it may go was not said yet.
const FREED: JobNumber = 4;
const DELAYED: JobNumber = 5;
const BURIED: JobNumber = 6;
/// Nobody has this number yet, and all below have been given.
const NEXT: JobNumber = 7;

/// Two queues, of which one was never created, and a job in each state.
fn store() -> Store {
    let mut store = Store::new(0);
    let ordinal = store.queues.next_ordinal;
    store.replay(Record::QueueCreated { name: b"q", ordinal }, History::Whole).unwrap();
    for record in [
        Record::Enqueued(Enqueued { uuid: Some(UUID), ..job(READY) }),
        Record::Enqueued(blocked(BLOCKED, &[READY])),
        Record::Enqueued(job(DONE)),
        Record::Enqueued(blocked(FREED, &[DONE])),
        done(DONE),
        Record::Enqueued(job(DELAYED)),
        Record::Rested { number: DELAYED, until_ms: 9, shown_wall_ms: 9 },
        Record::Enqueued(job(BURIED)),
        Record::Buried { number: BURIED, urgency: 0, order: 1 },
    ] {
        store.replay(record.clone(), History::Whole).unwrap_or_else(|_| panic!("{record:?}"));
    }
    store.queues.intern(b"never created");
    assert_eq!((store.next_number, store.next_place), (NEXT, NEXT));
    store
}

/// Whether this can be true after all that, if the log is whole and if only its rest is there.
fn can_be(record: &Record<'static>) -> (bool, bool) {
    let is_taken = |history| store().replay(record.clone(), history).is_ok();
    (is_taken(History::Whole), is_taken(History::Rest))
}

const ALWAYS: (bool, bool) = (true, true);
const NEVER: (bool, bool) = (false, false);
/// Only if the beginning of the log is not there.
const IN_A_REST: (bool, bool) = (false, true);

#[test]
fn a_job_can_come_that_has_a_new_number_a_place_a_queue_and_older_blockers() {
    let with_uuid = |uuid| Enqueued { uuid: Some(uuid), ..job(NEXT) };
    let in_queue = |queue| Enqueued { queue, ..job(NEXT) };
    let at = |place| Enqueued { place, ..job(NEXT) };
    for (what, job, expected) in [
        ("usual", job(NEXT), ALWAYS),
        ("the least number", job(0), NEVER),
        ("the greatest number", Enqueued { place: 9, ..job(COUNT_MAX - 1) }, ALWAYS),
        ("too great a number", Enqueued { place: 9, ..job(COUNT_MAX) }, NEVER),
        ("a number that was given", job(READY), NEVER),
        ("no place", at(0), NEVER),
        ("the greatest place", at(COUNT_MAX - 1), ALWAYS),
        ("too great a place", at(COUNT_MAX), NEVER),
        ("blocked, and has a place", Enqueued { place: 9, ..blocked(NEXT, &[READY]) }, NEVER),
        ("its own uuid", with_uuid(OTHER_UUID), ALWAYS),
        ("another's uuid", with_uuid(UUID), NEVER),
        ("a number's uuid", with_uuid(Uuid::of_number(NEXT)), NEVER),
        ("a queue that has no record", in_queue(b"unknown"), ALWAYS),
        ("a queue that was not created", in_queue(b"never created"), ALWAYS),
        ("blocked", blocked(NEXT, &[READY, BLOCKED]), ALWAYS),
        ("blocked by what is done", blocked(NEXT, &[DONE]), NEVER),
        ("blocked by what is not known", blocked(9, &[NEXT]), IN_A_REST),
        ("blockers out of order", blocked(NEXT, &[BLOCKED, READY]), NEVER),
        ("a blocker twice", blocked(NEXT, &[READY, READY]), NEVER),
        ("blocked by itself", blocked(NEXT, &[NEXT]), NEVER),
        ("blocked by a later one", blocked(NEXT, &[NEXT + 1]), NEVER),
    ] {
        assert_eq!(can_be(&Record::Enqueued(job)), expected, "{what}");
    }
}

#[test]
fn a_job_whose_delay_has_a_length_and_no_end_is_ready_unless_it_is_blocked() {
    let put = |job: Enqueued<'static>| {
        let mut store = store();
        store.replay(Record::Enqueued(job), History::Whole).unwrap();
        store.job(NEXT).state
    };
    let delay = |until_ms| Some(Delay { ms: 7, until_ms, shown_wall_ms: 9 });
    assert_eq!(put(Enqueued { delay: delay(0), ..job(NEXT) }), State::Ready);
    assert_eq!(
        put(Enqueued { delay: delay(8), ..job(NEXT) }),
        State::Delayed { due: Due::Engine(8), shown_wall_ms: 9 }
    );
    assert_eq!(put(Enqueued { delay: delay(8), ..blocked(NEXT, &[READY]) }), State::Blocked);
}

#[test]
fn a_job_is_kept_that_is_there_or_was_in_a_part_that_is_gone() {
    let own_uuid = || Enqueued { uuid: Some(UUID), ..job(READY) };
    for (what, record, expected) in [
        ("as it is", kept(own_uuid(), State::Ready), ALWAYS),
        ("one that is not known", kept(job(NEXT), State::Ready), IN_A_REST),
        ("another's uuid", kept(Enqueued { uuid: Some(UUID), ..job(DONE) }, State::Ready), NEVER),
        ("too great a place", kept(Enqueued { place: COUNT_MAX, ..own_uuid() }, State::Ready), NEVER),
    ] {
        assert_eq!(can_be(&record), expected, "{what}");
    }
}

#[test]
fn a_queue_has_one_name_and_one_ordinal() {
    let store = store();
    let next = store.queues.next_ordinal;
    let known = store.queues.get(store.queues.id(b"q").unwrap()).ordinal.unwrap();
    for (what, name, ordinal, expected) in [
        ("again", &b"q"[..], known, ALWAYS),
        ("another ordinal", b"q", next, NEVER),
        ("a new one", b"new", next, ALWAYS),
        ("one that had jobs before", b"never created", next, ALWAYS),
        ("after one that has no record", b"new", next + 1, ALWAYS),
        ("another's ordinal", b"new", known, NEVER),
        ("the greatest ordinal", b"new", COUNT_MAX - 1, ALWAYS),
        ("too great an ordinal", b"new", COUNT_MAX, NEVER),
    ] {
        assert_eq!(can_be(&Record::QueueCreated { name, ordinal }), expected, "{what}");
    }
    for (ordinal, expected) in [(COUNT_MAX - 1, true), (COUNT_MAX, false)] {
        let mut store = self::store();
        store.queues.next_ordinal = ordinal;
        let created = store.replay(Record::QueueCreated { name: b"new", ordinal }, History::Whole);
        assert_eq!(created.is_ok(), expected, "{ordinal}");
    }
}

#[test]
fn counters_never_go_back() {
    let store = store();
    let (number, place, ordinal) = (store.next_number_kept, store.next_place, store.queues.next_ordinal);
    for (what, (next_number, next_place, next_ordinal), expected) in [
        ("as they are", (number, place, ordinal), ALWAYS),
        ("as great as can be", (COUNT_MAX - 1, COUNT_MAX - 1, COUNT_MAX - 1), ALWAYS),
        ("a number less", (number - 1, place, ordinal), NEVER),
        ("a place less", (number, place - 1, ordinal), NEVER),
        ("an ordinal less", (number, place, ordinal - 1), NEVER),
        ("too great a number", (COUNT_MAX, place, ordinal), NEVER),
        ("too great a place", (number, COUNT_MAX, ordinal), NEVER),
        ("too great an ordinal", (number, place, COUNT_MAX), NEVER),
    ] {
        assert_eq!(can_be(&Record::Counters { next_number, next_place, next_ordinal }), expected, "{what}");
    }
}

#[test]
fn a_change_befalls_a_job_in_the_right_state() {
    let backed_off = |number| Record::BackedOff { number, until_ms: 9, due_wall_ms: 9, expires_ms: None };
    let rested = |number| Record::Rested { number, until_ms: 9, shown_wall_ms: 9 };
    let failed = |number| Record::Failed { number, expires_ms: 9, result: Box::default() };
    let woke = |number| Record::Woke { number, expires_ms: None };
    type Change = fn(JobNumber) -> Record<'static>;
    let released = |number| Record::Released { number, urgency: 0, delay: None };
    let buried = |number| Record::Buried { number, urgency: 0, order: 2 };
    let changes: [(Change, &[JobNumber]); 14] = [
        (leased, &[READY, DELAYED]),
        (|number| Record::Counted { number }, &[READY, DELAYED]),
        (|number| Record::Undone { number }, &[READY, DELAYED]),
        (backed_off, &[READY, DELAYED]),
        (rested, &[READY, DELAYED]),
        (released, &[READY, DELAYED]),
        (buried, &[READY, DELAYED]),
        (|number| Record::Revived { number, expires_ms: None }, &[DELAYED, BURIED]),
        (done, &[READY, BLOCKED, FREED, DELAYED, BURIED]),
        (failed, &[READY, BLOCKED, FREED, DELAYED, BURIED]),
        (|number| Record::Failure { number }, &[READY, BLOCKED, FREED, DELAYED, BURIED]),
        (|number| Record::Removed { number }, &[READY, BLOCKED, DONE, FREED, DELAYED, BURIED]),
        (woke, &[DELAYED]),
        (|number| unblocked(number, 9), &[FREED]),
    ];
    for (change, jobs) in changes {
        for number in [READY, BLOCKED, DONE, FREED, DELAYED, BURIED] {
            let expected = if jobs.contains(&number) { ALWAYS } else { NEVER };
            assert_eq!(can_be(&change(number)), expected, "{:?}", change(number));
        }
        assert_eq!(can_be(&change(COUNT_MAX - 1)), IN_A_REST, "{:?}", change(COUNT_MAX - 1));
        assert_eq!(can_be(&change(COUNT_MAX)), NEVER, "{:?}", change(COUNT_MAX));
    }
    for (number, place, expected) in [(READY, COUNT_MAX - 1, ALWAYS), (READY, COUNT_MAX, NEVER), (DONE, 9, NEVER)] {
        assert_eq!(can_be(&moved(number, place)), expected, "moved {number} to {place}");
    }
    assert_eq!(can_be(&unblocked(FREED, COUNT_MAX - 1)), ALWAYS);
    assert_eq!(can_be(&unblocked(FREED, COUNT_MAX)), NEVER);
}

#[test]
fn what_befell_a_job_that_is_not_known_frees_what_it_blocked_and_uses_up_its_number_and_place() {
    const UNKNOWN: JobNumber = 8;
    for history in [History::Rest, History::Damaged] {
        let after = |record: Record<'static>| {
            let mut store = store();
            store.replay(Record::Enqueued(blocked(9, &[UNKNOWN])), history).unwrap();
            assert_eq!(store.job(9).blockers(), [UNKNOWN]);
            store.replay(record, history).unwrap();
            (store.job(9).blockers().to_vec(), store.next_number, store.next_place)
        };
        assert_eq!(after(Record::Removed { number: UNKNOWN }), (vec![], 10, NEXT));
        assert_eq!(after(done(UNKNOWN)), (vec![], 10, NEXT));
        assert_eq!(after(moved(UNKNOWN, 50)), (vec![], 10, 51));
        assert_eq!(after(unblocked(UNKNOWN, 50)), (vec![UNKNOWN], 10, 51));
        assert_eq!(after(leased(UNKNOWN)), (vec![UNKNOWN], 10, NEXT));
        assert_eq!(after(leased(70)), (vec![UNKNOWN], 71, NEXT));
        assert_eq!(after(leased(BELIEVED_MAX - 1)), (vec![UNKNOWN], BELIEVED_MAX, NEXT));
        assert_eq!(after(leased(BELIEVED_MAX)), (vec![UNKNOWN], 10, NEXT), "nobody has counted so far");
    }
}

#[test]
fn an_origin_is_one_jobs_and_is_closed_once() {
    let from = |number| Record::Enqueued(Enqueued { origin: Some(b"o"[..].into()), ..job(number) });
    let closed = Record::OriginClosed { number: NEXT };
    let removed = Record::Removed { number: NEXT };
    let kept = || kept(Enqueued { origin: Some(b"o"[..].into()), ..job(NEXT) }, State::Ready);
    for (what, records, fits) in [
        ("once", vec![from(NEXT)], true),
        ("twice", vec![from(NEXT), from(NEXT + 1)], false),
        ("written anew", vec![from(NEXT), kept()], true),
        ("closed", vec![from(NEXT), closed.clone(), from(NEXT + 1)], true),
        ("closed twice", vec![from(NEXT), closed.clone(), closed.clone()], false),
        ("of a job that is gone", vec![from(NEXT), removed.clone(), from(NEXT + 1)], false),
        ("of a job that is gone, closed", vec![from(NEXT), removed.clone(), closed.clone(), from(NEXT + 1)], true),
        ("never open", vec![Record::Enqueued(job(NEXT)), closed.clone()], false),
    ] {
        let mut store = store();
        let replayed = records.into_iter().try_for_each(|record| store.replay(record, History::Whole));
        assert_eq!(replayed.is_ok(), fits, "{what}");
    }
}

#[test]
fn an_origin_of_a_damaged_log_is_that_of_the_newest_job_and_the_older_one_stays() {
    let from = |number| Record::Enqueued(Enqueued { origin: Some(b"o"[..].into()), ..job(number) });
    for is_gone in [false, true] {
        let mut store = store();
        store.replay(from(NEXT), History::Damaged).unwrap();
        if is_gone {
            store.replay(Record::Removed { number: NEXT }, History::Damaged).unwrap();
        }
        store.replay(from(NEXT + 1), History::Damaged).unwrap();
        assert_eq!(store.jobs.get(NEXT).is_some(), !is_gone);
        assert_eq!(store.job(NEXT + 1).origin(), Some(&b"o"[..]));
        assert_eq!(store.origins.len(), 1);
    }
}

/// What is made of a record in a log that was damaged.
fn mended(record: Record<'static>) -> Store {
    let mut store = store();
    store.replay(record, History::Damaged).unwrap();
    store
}

#[test]
fn a_queue_of_a_damaged_log_keeps_its_ordinal_if_it_can() {
    let next = store().queues.next_ordinal;
    let ordinal_of = |name: &'static [u8], ordinal| {
        let store = mended(Record::QueueCreated { name, ordinal });
        store.queues.get(store.queues.id(name).unwrap()).ordinal
    };
    let known = next - 1;
    assert_eq!(ordinal_of(b"new", next + 5), Some(next + 5));
    assert_eq!(ordinal_of(b"new", BELIEVED_MAX - 1), Some(BELIEVED_MAX - 1));
    assert_eq!(ordinal_of(b"new", BELIEVED_MAX), Some(next));
    assert_eq!(ordinal_of(b"new", known), Some(next), "it is another's");
    assert_eq!(ordinal_of(b"q", next + 5), Some(known), "it has one");
    assert_eq!(ordinal_of(b"q", known), Some(known));
    assert_eq!(ordinal_of(b"never created", known), Some(next));
}

#[test]
fn a_job_of_a_damaged_log_comes_without_what_cannot_be_true() {
    let put = |job| mended(Record::Enqueued(job));
    assert!(put(Enqueued { place: 9, ..job(BELIEVED_MAX - 1) }).jobs.get(BELIEVED_MAX - 1).is_some());
    assert!(put(Enqueued { place: 9, ..job(BELIEVED_MAX) }).jobs.get(BELIEVED_MAX).is_none());
    assert!(put(Enqueued { place: 9, ..job(0) }).jobs.get(0).is_none());
    let place_of = |place| put(Enqueued { place, ..job(8) }).job(8).place;
    assert_eq!(place_of(BELIEVED_MAX - 1), BELIEVED_MAX - 1);
    assert_eq!(place_of(BELIEVED_MAX), NEXT, "the next that is free");
    let blockers_of = |blockers: &[JobNumber]| put(blocked(8, blockers)).job(8).blockers().to_vec();
    assert_eq!(blockers_of(&[7, BLOCKED, READY, BLOCKED]), [READY, BLOCKED, 7]);
    assert_eq!(blockers_of(&[0, DONE, 8, 9, READY]), [READY]);
    let with_uuid = |number, uuid| put(Enqueued { uuid: Some(uuid), ..job(number) });
    assert_eq!(with_uuid(8, Uuid::of_number(9)).number_of(Uuid::of_number(8)), Some(8), "it has its number's");
    assert_eq!(with_uuid(8, OTHER_UUID).number_of(OTHER_UUID), Some(8));
    let stolen = with_uuid(8, UUID);
    assert_eq!((stolen.number_of(UUID), stolen.jobs.get(READY).is_some()), (Some(8), false));
    let again = with_uuid(READY, UUID);
    assert_eq!((again.number_of(UUID), again.jobs.get(READY).is_some()), (Some(READY), true));
    assert_eq!(again.job(BLOCKED).blockers(), [READY], "it is still the one that blocks");
}

#[test]
fn counters_of_a_damaged_log_are_believed_if_they_can_be() {
    let ordinal = store().queues.next_ordinal;
    let counters = |count| {
        let store = mended(Record::Counters { next_number: count, next_place: count, next_ordinal: count });
        (store.next_number, store.next_place, store.queues.next_ordinal)
    };
    assert_eq!(counters(100), (100, 100, 100));
    assert_eq!(counters(1), (NEXT, NEXT, ordinal));
    assert_eq!(counters(BELIEVED_MAX - 1), (BELIEVED_MAX - 1, BELIEVED_MAX - 1, BELIEVED_MAX - 1));
    assert_eq!(counters(BELIEVED_MAX), (NEXT, NEXT, ordinal));
}

#[test]
fn a_change_of_a_damaged_log_befalls_what_it_can() {
    let state_of = |number, record| mended(record).job(number).state;
    let held = State::Leased { lease: LeaseId(1), until_ms: 9 };
    assert_eq!(state_of(READY, leased(READY)), held);
    assert_eq!(state_of(DONE, leased(DONE)), State::Done, "it is done, whatever befell it before");
    assert_eq!(state_of(READY, Record::Woke { number: READY, expires_ms: Some(7) }), State::Ready);
    assert_eq!(mended(Record::Woke { number: READY, expires_ms: Some(7) }).job(READY).expires_ms(), None);
    // Only a job that is not blocked is leased, so it was unblocked before.
    let store = mended(leased(BLOCKED));
    assert_eq!((store.job(BLOCKED).state, store.job(BLOCKED).blockers()), (held, &[][..]));
    assert_eq!((store.job(BLOCKED).place, store.next_place), (NEXT, NEXT + 1));
    assert!(store.blocked_by(READY).is_empty());
    let store = mended(unblocked(BLOCKED, 20));
    assert_eq!((store.job(BLOCKED).state, store.job(BLOCKED).place), (State::Ready, 20));
    assert_eq!((store.job(BLOCKED).blockers(), store.next_place), (&[][..], 21));
    assert_eq!(state_of(BLOCKED, Record::Woke { number: BLOCKED, expires_ms: None }), State::Ready);
    let place_after = |place| mended(moved(READY, place)).job(READY).place;
    assert_eq!(place_after(BELIEVED_MAX - 1), BELIEVED_MAX - 1);
    assert_eq!(place_after(BELIEVED_MAX), NEXT, "the next that is free");
    let delayed = State::Delayed { due: Due::Engine(9), shown_wall_ms: 9 };
    assert_eq!(state_of(BLOCKED, Record::Rested { number: BLOCKED, until_ms: 9, shown_wall_ms: 9 }), delayed);
}

#[test]
fn a_buried_job_of_which_more_is_told_was_revived() {
    let store = mended(leased(BURIED));
    assert_eq!(store.job(BURIED).state, State::Leased { lease: LeaseId(1), until_ms: 9 });
    assert_eq!(mended(unblocked(BURIED, 9)).job(BURIED).state, State::Buried { order: 1 });
}

#[test]
fn who_has_counted_nearly_as_far_as_can_be_cannot_count_on() {
    let put = |number, place| Record::Enqueued(Enqueued { place, ..job(number) });
    let created = |ordinal| Record::QueueCreated { name: b"new", ordinal };
    let buried = |order| Record::Buried { number: READY, urgency: 0, order };
    let last = COUNTED_MAX - 2;
    for (what, fits, is_over) in [
        ("a number", put(last, 9), put(last + 1, 9)),
        ("a place", put(NEXT, last), put(NEXT, last + 1)),
        ("an ordinal", created(last), created(last + 1)),
        ("an order of burials", buried(last), buried(last + 1)),
    ] {
        for (record, expected) in [(fits, true), (is_over, false)] {
            let mut store = store();
            store.replay(record, History::Whole).unwrap();
            assert_eq!(store.can_count_on(), expected, "{what}");
        }
    }
}
