//! Queues named in a request: each counts once, and so many may be named, be made, and be held from.

use jobyard_engine::{
    Choice, ClientId, Command, Engine, Hold, LeaseRequest, Limits, NewJob, Now, Parting, QueueName, Refusal, Reply,
    Wait,
};

const NOW: Now = Now { engine_ms: 0, wall_ms: 0, random: 0 };

fn name(text: &str) -> QueueName {
    QueueName::new(text.as_bytes())
}

fn request(queues: &[&str], wait: Wait) -> LeaseRequest {
    LeaseRequest {
        queues: queues.iter().map(|queue| name(queue)).collect(),
        choice: Choice::Best,
        hold: Hold::For(1_000),
        wait,
        creates_queues: true,
        body_without: None,
        heeds_ms: None,
    }
}

/// Who was told what: refused, and why; or nothing, or something.
fn tell(engine: &mut Engine, client: u64, command: Command) -> Vec<(u64, Result<&'static str, Refusal>)> {
    let mut told = Vec::new();
    engine.handle(NOW, ClientId(client), command, &mut |ClientId(to), reply| {
        told.push((
            to,
            match reply {
                Reply::Refused(refusal) => Err(refusal),
                Reply::Leased { .. } => Ok("a job"),
                Reply::NoJob => Ok("nothing"),
                _ => Ok("done"),
            },
        ));
    });
    engine.check();
    told
}

fn put(engine: &mut Engine, client: u64, queue: &str) -> Vec<(u64, Result<&'static str, Refusal>)> {
    tell(engine, client, Command::Enqueue(Box::new(NewJob::plain(name(queue), b"x"[..].into()))))
}

fn lease(engine: &mut Engine, client: u64, request: LeaseRequest) -> Vec<(u64, Result<&'static str, Refusal>)> {
    tell(engine, client, Command::Lease(Box::new(request)))
}

#[test]
fn who_names_a_queue_twice_waits_for_it_once() {
    for names in [&["q", "q"][..], &["q", "q", "q"], &["q", "r", "q"]] {
        let mut engine = Engine::new(Limits::default(), 1, 0);
        assert_eq!(lease(&mut engine, 1, request(names, Wait::Forever)), []);
        assert_eq!(put(&mut engine, 2, "q"), [(2, Ok("done")), (1, Ok("a job"))], "{names:?}");
        assert_eq!(put(&mut engine, 2, "q"), [(2, Ok("done"))], "{names:?}");
    }
}

#[test]
fn a_queue_that_is_named_twice_is_made_once() {
    let limits = Limits { queues_max: 2, ..Limits::default() };
    for (names, expected) in [
        (&["a"][..], Ok("nothing")),
        (&["a", "a"], Ok("nothing")),
        (&["a", "b", "a"], Ok("nothing")),
        (&["a", "b", "c"], Err(Refusal::TooManyQueues)),
    ] {
        let mut engine = Engine::new(limits.clone(), 1, 0);
        assert_eq!(lease(&mut engine, 1, request(names, Wait::No)), [(1, expected)], "{names:?}");
        assert_eq!(engine.has_queue(&name("a")), expected.is_ok(), "{names:?}");
    }
    let mut engine = Engine::new(limits, 1, 0);
    put(&mut engine, 1, "a");
    put(&mut engine, 1, "b");
    assert_eq!(lease(&mut engine, 2, request(&["b", "a"], Wait::No)), [(2, Ok("a job"))], "none is new");
    assert_eq!(lease(&mut engine, 2, request(&["c"], Wait::No)), [(2, Err(Refusal::TooManyQueues))]);
    let looks = LeaseRequest { creates_queues: false, ..request(&["c"], Wait::No) };
    assert_eq!(lease(&mut engine, 2, looks), [(2, Ok("nothing"))]);
}

#[test]
fn so_many_may_be_named_and_names_may_be_so_long() {
    let limits = Limits { queues_named_max: 2, queue_name_bytes_max: 3, ..Limits::default() };
    let mut engine = Engine::new(limits, 1, 0);
    let mut told = |names: &[&str], creates_queues| {
        let told = lease(&mut engine, 1, LeaseRequest { creates_queues, ..request(names, Wait::No) });
        told[0].1
    };
    assert_eq!(told(&["a", "b"], true), Ok("nothing"));
    assert_eq!(told(&["a", "b", "a"], true), Err(Refusal::TooManyNamed));
    assert_eq!(told(&["abc"], true), Ok("nothing"));
    assert_eq!(told(&["abc", "abcd"], true), Err(Refusal::QueueNameTooLong));
    assert_eq!(told(&["abcd"], false), Ok("nothing"));
}

#[test]
fn a_connection_holds_so_many_jobs() {
    let mut engine = Engine::new(Limits { held_max: 2, ..Limits::default() }, 1, 0);
    (0..5).for_each(|_| drop(put(&mut engine, 9, "q")));
    let held = || LeaseRequest { hold: Hold::Connection(Parting::Release), ..request(&["q"], Wait::No) };
    for expected in [Ok("a job"), Ok("a job"), Err(Refusal::TooManyHeld)] {
        assert_eq!(lease(&mut engine, 1, held()), [(1, expected)]);
    }
    assert_eq!(lease(&mut engine, 1, request(&["q"], Wait::No)), [(1, Ok("a job"))], "it does not end with it");
    assert_eq!(lease(&mut engine, 2, held()), [(2, Ok("a job"))], "another has its own");
}
