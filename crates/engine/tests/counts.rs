//! What the engine counts of itself: how much it has done, and what memory it takes.

use jobyard_engine::{
    Again, By, Choice, ClientId, Command, Engine, Hold, JobRef, LeaseRequest, Limits, Look, NewJob, Now, Parting,
    QueueName, QueueOrder, Reply, Role, Wait, Which, Written,
};

fn engine() -> Engine {
    Engine::new(Limits::default(), 1, 0)
}

/// Carries this out, which must not be refused, and says how much was done for it.
fn work_of(engine: &mut Engine, command: Command) -> u64 {
    let before = engine.work();
    let now = Now { engine_ms: 0, wall_ms: 0, random: 0 };
    engine.handle(now, ClientId(1), command, &mut |_, reply| {
        assert!(!matches!(reply, Reply::Refused(_) | Reply::NoJob), "{reply:?}");
    });
    engine.clear_records();
    engine.work() - before
}

fn name(text: &str) -> QueueName {
    QueueName::new(text.as_bytes())
}

fn put(queue: &str, body_bytes: usize) -> Command {
    Command::Enqueue(Box::new(NewJob::plain(name(queue), vec![b'x'; body_bytes].into())))
}

fn lease() -> Command {
    Command::Lease(Box::new(LeaseRequest {
        queues: vec![name("q")],
        choice: Choice::Best,
        hold: Hold::For(1_000),
        wait: Wait::No,
        creates_queues: false,
        body_without: None,
        heeds_ms: None,
    }))
}

#[test]
fn what_is_written_given_and_looked_at_is_counted_as_work() {
    let mut engine = engine();
    assert_eq!(work_of(&mut engine, put("q", 640)), 20, "a queue and a job");
    assert_eq!(work_of(&mut engine, put("q", 64_000)), 10, "a job, however long");
    assert_eq!(work_of(&mut engine, lease()), 10 + 10, "a lease, and a body");
    assert_eq!(work_of(&mut engine, lease()), 10 + 1_000);
    work_of(&mut engine, put("another", 1));
    let look = Look::Queues { order: QueueOrder::Created, nameable: |_| true, offset: 0, count_max: 1 };
    assert_eq!(work_of(&mut engine, Command::Look(look)), 2, "all queues, however few are wanted");
    assert_eq!(work_of(&mut engine, Command::Look(Look::Sum)), 2);
    for (which, work) in [(Which::Ready, 0), (Which::Delayed, 0), (Which::Buried, 0), (Which::Due, 5)] {
        let look = Look::Jobs { queue: name("q"), which, offset: 5, count_max: 1 };
        assert_eq!(work_of(&mut engine, Command::Look(look)), work, "{which:?}: what has to be passed over one by one");
    }
}

#[test]
fn jobs_and_queues_are_counted() {
    let mut engine = engine();
    assert!(!engine.has_queue(&name("q")));
    for jobs in 1..=3 {
        work_of(&mut engine, put("q", 1));
        assert_eq!(engine.jobs(), jobs);
    }
    assert!(engine.has_queue(&name("q")));
    assert!(!engine.has_queue(&name("other")));
}

#[test]
fn memory_grows_by_what_is_put_and_a_burst_of_records_keeps_little() {
    const BODY: usize = 4 << 20;
    let mut engine = engine();
    work_of(&mut engine, put("q", 1));
    let before = engine.memory_bytes();
    work_of(&mut engine, put("q", BODY));
    let grown = engine.memory_bytes() - before;
    assert!((BODY..BODY + (1 << 20) + 1_000).contains(&grown), "{grown}");
    work_of(&mut engine, Command::Remove { job: JobRef::Number(2), by: By::Anyone });
    let left = engine.memory_bytes() - before;
    assert!(left <= (1 << 20) + 1_000, "{left}");
    assert!(left > 1 << 19, "it keeps some, for the next batch: {left}");
}

#[test]
fn where_there_is_little_memory_a_burst_of_records_keeps_a_sixteenth_of_it() {
    const MEMORY: usize = 1 << 20;
    let mut engine = Engine::new(Limits { memory_bytes_max: MEMORY, ..Limits::default() }, 1, 0);
    engine.begin_stretch();
    work_of(&mut engine, put("q", MEMORY / 2));
    work_of(&mut engine, Command::Remove { job: JobRef::Number(1), by: By::Anyone });
    let left = engine.memory_bytes();
    assert!(left <= MEMORY / 16 + 2_000, "{left}");
}

#[test]
fn what_was_written_is_counted_and_what_was_written_anew_apart() {
    let mut engine = engine();
    engine.begin_stretch();
    work_of(&mut engine, put("q", 1));
    work_of(&mut engine, put("q", 1));
    work_of(&mut engine, Command::Remove { job: JobRef::Number(1), by: By::Anyone });
    // The queue, two jobs, and that one is gone.
    assert_eq!(engine.written(), Written { decided: 4, anew: 0 });
    engine.begin_stretch();
    while !engine.compact(1) {}
    assert_eq!(engine.written(), Written { decided: 4, anew: 2 }, "the queue and the job that is left");
}

#[test]
fn who_has_counted_as_far_as_can_be_cannot_count_on() {
    let mut engine = engine();
    assert!(engine.can_count_on());
    engine.skip_numbers(u64::MAX);
    assert!(!engine.can_count_on());
}

#[test]
fn what_is_asked_of_a_job_before_it_is_touched_is_true_of_it() {
    let mut engine = engine();
    work_of(&mut engine, put("q", 12));
    assert_eq!(engine.next_number(), 2);
    let (job, none) = (JobRef::Number(1), JobRef::Number(2));
    assert_eq!((engine.body_bytes(&job), engine.body_bytes(&none)), (12, 0));
    assert!(engine.is_plain(&job) && !engine.is_plain(&none));
    let lease = LeaseRequest {
        queues: vec![name("q")],
        choice: Choice::Best,
        hold: Hold::Connection(Parting::Release),
        wait: Wait::No,
        creates_queues: false,
        body_without: None,
        heeds_ms: None,
    };
    work_of(&mut engine, Command::Lease(Box::new(lease)));
    let again = Some(Again { urgency: 0, delay_ms: 1_000 });
    work_of(&mut engine, Command::Release { job: JobRef::Number(1), again });
    assert!(!engine.is_plain(&job), "how long it is delayed is kept apart");
}

#[test]
fn who_attends_queues_and_claims_origins_takes_memory_until_it_goes() {
    let mut engine = engine();
    let now = Now { engine_ms: 0, wall_ms: 0, random: 0 };
    work_of(&mut engine, put("q", 1));
    let before = engine.memory_bytes();
    let mut taken = Vec::new();
    for client in 2..5 {
        let attend = Command::Attend { queue: name("q"), role: Role::Both, keeps_queue: false };
        engine.handle(now, ClientId(client), attend, &mut |_, _| {});
        taken.push(engine.memory_bytes());
        let beginning = format!("{client}/").repeat(100).into_bytes().into();
        engine.handle(now, ClientId(client), Command::ClaimOrigins { beginning }, &mut |_, _| {});
        taken.push(engine.memory_bytes());
    }
    assert!(taken.is_sorted_by(|one, other| one < other) && taken[0] > before, "{before}, then {taken:?}");
    let claims: Vec<usize> = taken.chunks(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(claims, [256 + 2 * 200; 3], "a claim, and what it begins with, twice");
    for (client, left) in [(4, taken[3]), (3, taken[1]), (2, before)] {
        engine.disconnect(now, ClientId(client), &mut |_, _| {});
        assert_eq!(engine.memory_bytes(), left, "after {client} has gone");
    }
}
