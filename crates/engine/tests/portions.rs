//! What time decides is decided in portions, so that no batch is longer than a segment of the log.

use jobyard_engine::{ClientId, Command, DateRank, Engine, Limits, NewJob, Now, QueueName, Start};

const JOBS: usize = 1_000;
const PORTION: usize = 100;
/// A record that removes or wakes a job, and a little.
const RECORD: usize = 40;

fn now(engine_ms: u64) -> Now {
    Now { engine_ms, wall_ms: 1_000_000 + engine_ms.cast_signed(), random: 0 }
}

/// An engine with many jobs that the given change makes fall due at 10 s.
fn engine(change: impl Fn(&mut NewJob)) -> Engine {
    let mut engine = Engine::new(Limits::default(), 1, 0);
    for _ in 0..JOBS {
        let mut job = NewJob::plain(QueueName::new(b"q"), Box::default());
        change(&mut job);
        engine.handle(now(0), ClientId(1), Command::Enqueue(Box::new(job)), &mut |_, _| {});
    }
    engine.clear_records();
    engine.set_portion(PORTION);
    engine
}

/// Calls until all is done. How often that was not so.
fn until_done(engine: &mut Engine, mut call: impl FnMut(&mut Engine) -> bool) -> usize {
    let mut portions = 0;
    while !call(engine) {
        assert!(engine.records().len() <= PORTION + RECORD, "{} bytes", engine.records().len());
        assert!(engine.records().len() >= PORTION, "a portion is not cut short");
        engine.clear_records();
        engine.check();
        portions += 1;
    }
    portions
}

#[test]
fn jobs_that_expire_at_once_go_in_portions() {
    let mut engine = engine(|job| job.lifetime_ms = Some(10_000));
    let portions = until_done(&mut engine, |engine| engine.tick(now(10_000), 10_000, &mut |_, _| {}));
    assert!(portions >= JOBS * 2 / PORTION, "{portions} portions");
    assert_eq!(engine.jobs(), 0);
}

#[test]
fn dates_that_come_at_once_come_in_portions() {
    let start = Start::At { wall_ms: 1_010_000, rank: DateRank::Behind };
    let mut engine = engine(|job| job.start = start);
    let portions = until_done(&mut engine, |engine| engine.tick(now(10_000), 10_000, &mut |_, _| {}));
    assert!(portions >= JOBS * 2 / PORTION, "{portions} portions");
    assert_eq!(engine.next_deadline().wall_ms, None);
}

#[test]
fn what_fell_due_while_the_server_was_down_is_decided_in_portions() {
    let mut engine = engine(|job| job.lifetime_ms = Some(10_000));
    let portions = until_done(&mut engine, |engine| engine.recover(now(20_000)));
    assert!(portions >= JOBS * 2 / PORTION, "{portions} portions");
    assert_eq!(engine.jobs(), 0);
}
