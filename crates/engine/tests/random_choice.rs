//! A lease at random over several queues takes each that has a job equally often, and no other.

use jobyard_engine::{
    Choice, ClientId, Command, Engine, Hold, LeaseRequest, Limits, NewJob, Now, QueueName, Reply, Wait,
};

const CLIENT: ClientId = ClientId(1);
const LEASE: Hold = Hold::Timed { honours_unlimited: false };

/// An engine with a job in each of these queues.
fn engine(queues: &[&str]) -> Engine {
    let mut engine = Engine::new(Limits::default(), 1, 0);
    for queue in queues {
        let job = NewJob::plain(QueueName::new(queue.as_bytes()), Box::default());
        engine.handle(now(0), CLIENT, Command::Enqueue(Box::new(job)), &mut |_, _| {});
    }
    engine
}

fn now(random: u64) -> Now {
    Now { engine_ms: 0, wall_ms: 0, random }
}

fn request(named: &[&str], wait: Wait) -> Command {
    Command::Lease(Box::new(LeaseRequest {
        queues: named.iter().map(|name| QueueName::new(name.as_bytes())).collect(),
        choice: Choice::Random,
        hold: LEASE,
        wait,
        creates_queues: true,
        body_without: None,
        heeds_ms: None,
    }))
}

/// From which of `filled` a lease that names `named` takes its job, if the dice show this.
fn taken(filled: &[&str], named: &[&str], random: u64) -> String {
    let mut from = None;
    engine(filled).handle(now(random), CLIENT, request(named, Wait::No), &mut |_, reply| from = queue_of(&reply));
    from.expect("there is a job")
}

fn queue_of(reply: &Reply<'_>) -> Option<String> {
    match reply {
        Reply::Leased { job, .. } => Some(String::from_utf8_lossy(job.queue.as_bytes()).into_owned()),
        _ => None,
    }
}

/// How often each queue is taken from, over so many rolls that follow each other as dice never do: of `n` queues, each
/// comes up once in every `n` rolls, wherever they begin.
#[track_caller]
fn check_uniform(filled: &[&str], named: &[&str]) {
    const ROUNDS: u64 = 5;
    let count = u64::try_from(filled.len()).unwrap();
    for first in [0, 1, u64::MAX / count / 2 * count, u64::MAX - ROUNDS * count] {
        let from: Vec<_> = (0..ROUNDS * count).map(|roll| taken(filled, named, first + roll)).collect();
        for &queue in filled {
            let times = from.iter().filter(|&from| from == queue).count();
            assert_eq!(u64::try_from(times), Ok(ROUNDS), "{queue} of {filled:?}, named {named:?}, from {first}");
        }
    }
}

#[test]
fn each_queue_is_as_likely_as_the_others() {
    const QUEUES: [&str; 7] = ["a", "b", "c", "d", "e", "f", "g"];
    for count in 1..=QUEUES.len() {
        check_uniform(&QUEUES[..count], &QUEUES[..count]);
    }
}

#[test]
fn a_queue_without_a_job_has_no_share() {
    check_uniform(&["b", "d", "e"], &["a", "b", "c", "d", "e", "f"]);
    check_uniform(&["c"], &["a", "b", "c"]);
}

#[test]
fn a_queue_that_is_named_twice_has_one_share() {
    check_uniform(&["a", "b"], &["a", "a", "b", "a"]);
}

#[test]
fn more_jobs_are_no_larger_share_and_more_urgent_ones_none_either() {
    let mut from_a = 0;
    for random in 0..10 {
        let mut engine = engine(&["a", "b", "b", "b"]);
        let urgent = NewJob { urgency: 9, ..NewJob::plain(QueueName::new(b"b"), Box::default()) };
        engine.handle(now(0), CLIENT, Command::Enqueue(Box::new(urgent)), &mut |_, _| {});
        engine.handle(now(random), CLIENT, request(&["a", "b"], Wait::No), &mut |_, reply| {
            from_a += u32::from(queue_of(&reply).as_deref() == Some("a"));
        });
    }
    assert_eq!(from_a, 5);
}
