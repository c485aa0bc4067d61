//! The engine alone, with 10,000 jobs waiting.

use jobyard_engine::{
    Again, By, Choice, ClientId, Command, Engine, History, Hold, JobRef, LeaseRequest, Limits, NewJob, Now, Parting,
    QueueName, Reply, Wait,
};

use crate::measured;

const CLIENT: ClientId = ClientId(1);
const WAITER: ClientId = ClientId(2);
const NOW: Now = Now { engine_ms: 1, wall_ms: 1, random: 1 };
const WAITING: u64 = 10_000;
const BODY: [u8; 100] = [b'x'; 100];

/// Puts, takes and removes: an operation is one of these.
pub fn plain(count: u64) {
    cycles(count, |_| 0);
}

/// The same, of jobs that are all of another urgency.
pub fn urgent(count: u64) {
    cycles(count, |number| i128::from(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 1_000_000_007));
}

fn cycles(count: u64, urgency: fn(u64) -> i128) {
    let mut engine = filled(urgency);
    for number in 0..count / 3 {
        let (put, take) = (put(urgency(WAITING + number)), take(Wait::No));
        measured(|| engine.handle(NOW, CLIENT, put, &mut |_, _| {}));
        let number = measured(|| leased(&mut engine, take)).expect("there are jobs");
        let remove = Command::Remove { job: JobRef::Number(number), by: By::HolderOrNobody };
        measured(|| engine.handle(NOW, CLIENT, remove, &mut |_, _| {}));
        engine.clear_records();
    }
}

/// Someone waits, and is given the job that another puts, and buries it: an operation is one of the three.
pub fn handover(count: u64) {
    let mut engine = Engine::new(Limits::default(), 1, 0);
    engine.begin_stretch();
    for number in 1..=count / 3 {
        let (take, put) = (take(Wait::Forever), put(0));
        let bury = Command::Bury { job: JobRef::Number(number), urgency: 0 };
        measured(|| engine.handle(NOW, WAITER, take, &mut |_, _| {}));
        let mut given = false;
        measured(|| engine.handle(NOW, CLIENT, put, &mut |_, reply| given |= matches!(reply, Reply::Leased { .. })));
        assert!(given, "who waits is given the job");
        measured(|| engine.handle(NOW, WAITER, bury, &mut |_, _| {}));
        engine.clear_records();
    }
}

/// Reads back what was written of jobs that were put, and then either released with another urgency or removed: an operation is
/// one of two records for each.
pub fn replay(count: u64) {
    let mut engine = Engine::new(Limits::default(), 1, 0);
    engine.begin_stretch();
    for number in 1..=count / 2 {
        engine.handle(NOW, CLIENT, put(0), &mut |_, _| {});
        let job = || JobRef::Number(number);
        if number % 2 == 0 {
            engine.handle(NOW, CLIENT, take(Wait::No), &mut |_, _| {});
            let again = Some(Again { urgency: -1, delay_ms: 0 });
            engine.handle(NOW, CLIENT, Command::Release { job: job(), again }, &mut |_, _| {});
        } else {
            engine.handle(NOW, CLIENT, Command::Remove { job: job(), by: By::Anyone }, &mut |_, _| {});
        }
    }
    let mut other = Engine::new(Limits::default(), 2, 0);
    other.begin_stretch();
    measured(|| other.replay(engine.records(), History::Whole)).expect("they are what was written");
}

fn filled(urgency: fn(u64) -> i128) -> Engine {
    let mut engine = Engine::new(Limits::default(), 1, 0);
    engine.begin_stretch();
    for number in 0..WAITING {
        engine.handle(NOW, CLIENT, put(urgency(number)), &mut |_, _| {});
        engine.clear_records();
    }
    engine
}

fn put(urgency: i128) -> Command {
    let mut job = NewJob::plain(QueueName::new(b"mail"), BODY.into());
    job.urgency = urgency;
    Command::Enqueue(Box::new(job))
}

fn take(wait: Wait) -> Command {
    Command::Lease(Box::new(LeaseRequest {
        queues: vec![QueueName::new(b"mail")],
        choice: Choice::Best,
        hold: Hold::ConnectionTimed(Parting::Release),
        wait,
        creates_queues: false,
        body_without: None,
        heeds_ms: Some(1_000),
    }))
}

fn leased(engine: &mut Engine, take: Command) -> Option<u64> {
    let mut leased = None;
    engine.handle(NOW, CLIENT, take, &mut |_, reply| {
        if let Reply::Leased { job, .. } = reply {
            leased = Some(job.number);
        }
    });
    leased
}
