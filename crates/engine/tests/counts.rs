//! What the engine counts of itself: how much it has done, and what memory it takes.

use jobyard_engine::{
    By, Choice, ClientId, Command, Engine, Hold, JobRef, LeaseRequest, Limits, Look, NewJob, Now, QueueName,
    QueueOrder, Reply, Wait, Which,
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
