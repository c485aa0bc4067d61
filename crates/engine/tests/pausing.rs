//! Queues that are paused, and waits that end because a job's time does.

mod support;

use jobyard_engine::{
    Choice, ClientId, Command, Hold, JobRef, LeaseRequest, Look, NewJob, OwnTime, Parting, Pause, Refusal, Reply, Wait,
};
use support::{CLIENT, World, name, plain};

const OTHER: ClientId = ClientId(2);
const HELD: Hold = Hold::ConnectionTimed(Parting::Release);

/// What is said to whom.
fn ask(world: &mut World, client: ClientId, command: Command) -> Vec<(u64, String)> {
    let mut said = Vec::new();
    world.engine.handle(world.now, client, command, &mut |client, reply| said.push((client.0, short(&reply))));
    world.write();
    world.engine.check();
    said
}

fn pass(world: &mut World, ms: u64) -> Vec<(u64, String)> {
    let mut said = Vec::new();
    world.now.engine_ms += ms;
    world.engine.tick(world.now, world.now.engine_ms, &mut |client, reply| said.push((client.0, short(&reply))));
    world.write();
    world.engine.check();
    said
}

fn short(reply: &Reply<'_>) -> String {
    match reply {
        Reply::Leased { job, .. } => format!("job {}", job.number),
        Reply::Queue(queue) => format!("{:?}", queue.pause.map(|pause| (pause.ms, pause.until_ms))),
        reply => format!("{reply:?}"),
    }
}

fn pause(queue: &str, pause_ms: u64) -> Command {
    Command::Pause { queue: name(queue), pause_ms }
}

fn lease(queues: &[&str], wait: Wait) -> Command {
    let queues = queues.iter().map(|queue| name(queue)).collect();
    let (choice, hold) = (Choice::Best, HELD);
    let heeds_ms = Some(1_000);
    Command::Lease(Box::new(LeaseRequest {
        queues,
        choice,
        hold,
        wait,
        creates_queues: false,
        body_without: None,
        heeds_ms,
    }))
}

fn said(client: ClientId, reply: &str) -> Vec<(u64, String)> {
    vec![(client.0, reply.to_owned())]
}

#[test]
fn a_paused_queue_gives_no_job_until_its_pause_is_over_and_then_to_who_waits() {
    let mut world = World::new();
    world.enqueue(plain("q"));
    world.enqueue(plain("other"));
    assert_eq!(ask(&mut world, CLIENT, pause("q", 500)), said(CLIENT, "Done"));
    assert_eq!(ask(&mut world, CLIENT, lease(&["q"], Wait::No)), said(CLIENT, "NoJob"));
    assert_eq!(ask(&mut world, CLIENT, lease(&["q", "other"], Wait::No)), said(CLIENT, "job 2"), "another's is given");
    assert_eq!(ask(&mut world, OTHER, lease(&["q"], Wait::Forever)), []);
    assert_eq!(pass(&mut world, 499), []);
    assert_eq!(pass(&mut world, 1), said(OTHER, "job 1"));
}

#[test]
fn a_pause_is_shown_replaced_and_ended() {
    let mut world = World::new();
    world.enqueue(plain("q"));
    let look = || Command::Look(Look::Queue(name("q")));
    assert_eq!(ask(&mut world, CLIENT, look()), said(CLIENT, "None"));
    ask(&mut world, CLIENT, pause("q", 5_000));
    ask(&mut world, CLIENT, pause("q", 700));
    assert_eq!(ask(&mut world, CLIENT, look()), said(CLIENT, "Some((700, 1700))"));
    assert_eq!(ask(&mut world, OTHER, lease(&["q"], Wait::Forever)), []);
    let replies = ask(&mut world, CLIENT, pause("q", 0));
    assert_eq!(replies, [said(CLIENT, "Done"), said(OTHER, "job 1")].concat(), "who waits is served at once");
    assert_eq!(ask(&mut world, CLIENT, look()), said(CLIENT, "None"));
    let refused = format!("{:?}", Reply::Refused(Refusal::NoSuchQueue));
    assert_eq!(ask(&mut world, CLIENT, pause("unknown", 1)), said(CLIENT, &refused));
}

#[test]
fn a_job_of_a_paused_queue_is_taken_by_name_and_a_pause_does_not_outlive_the_server() {
    let mut world = World::new();
    world.enqueue(plain("q"));
    world.enqueue(plain("q"));
    ask(&mut world, CLIENT, pause("q", u64::MAX));
    let by_name = Command::LeaseJob { job: JobRef::Number(1), hold: HELD };
    assert_eq!(ask(&mut world, CLIENT, by_name), said(CLIENT, "job 1"));
    let shown = world.engine.snapshot().queues[0].pause;
    assert_eq!(shown, Some(Pause { ms: u64::MAX, until_ms: u64::MAX }));
    world.engine.disconnect(world.now, CLIENT, &mut |_, _| {});
    world.engine = world.replayed();
    world.engine.recover(world.now);
    assert_eq!(ask(&mut world, CLIENT, lease(&["q"], Wait::No)), said(CLIENT, "job 1"));
}

#[test]
fn who_holds_a_job_whose_time_is_nearly_over_is_told_instead_of_waiting() {
    let mut world = World::new();
    world.enqueue(NewJob { own_time: OwnTime::Millis(3_000), ..plain("q") });
    world.enqueue(plain("unended"));
    assert_eq!(ask(&mut world, CLIENT, lease(&["q"], Wait::No)), said(CLIENT, "job 1"));
    assert_eq!(ask(&mut world, CLIENT, lease(&["q"], Wait::No)), said(CLIENT, "NoJob"));
    assert_eq!(ask(&mut world, CLIENT, lease(&["q"], Wait::Forever)), []);
    assert_eq!(pass(&mut world, 1_999), []);
    assert_eq!(pass(&mut world, 1), said(CLIENT, "LeaseEnding"));
    assert_eq!(ask(&mut world, CLIENT, lease(&["q"], Wait::No)), said(CLIENT, "LeaseEnding"), "as long as it is so");
    assert_eq!(ask(&mut world, OTHER, lease(&["q"], Wait::No)), said(OTHER, "NoJob"), "nobody else is told");
    assert_eq!(ask(&mut world, CLIENT, lease(&["unended"], Wait::No)), said(CLIENT, "job 2"), "a job comes first");
    ask(&mut world, CLIENT, Command::Extend { job: JobRef::Number(1) });
    assert_eq!(ask(&mut world, CLIENT, lease(&["q"], Wait::Millis(2_000))), []);
    assert_eq!(pass(&mut world, 2_000), said(CLIENT, "LeaseEnding"), "not that it has waited in vain");
}

#[test]
fn who_is_told_late_that_its_time_is_nearly_over_is_heard_before_it_is_over() {
    let mut world = World::new();
    world.enqueue(NewJob { own_time: OwnTime::Millis(3_000), ..plain("q") });
    ask(&mut world, CLIENT, lease(&["q"], Wait::No));
    assert_eq!(ask(&mut world, CLIENT, lease(&["q"], Wait::Forever)), []);
    assert_eq!(ask(&mut world, OTHER, lease(&["q"], Wait::Forever)), []);
    assert_eq!(pass(&mut world, 5_000), said(CLIENT, "LeaseEnding"));
    assert_eq!(world.engine.next_deadline().engine_ms, Some(4_000), "the rest is due at once");
    ask(&mut world, CLIENT, Command::Extend { job: JobRef::Number(1) });
    assert_eq!(pass(&mut world, 2_999), []);
    assert_eq!(pass(&mut world, 1), said(OTHER, "job 1"));
}

#[test]
fn who_no_longer_holds_the_job_that_it_heeded_goes_on_waiting() {
    let mut world = World::new();
    world.enqueue(NewJob { own_time: OwnTime::Millis(3_000), ..plain("q") });
    ask(&mut world, CLIENT, lease(&["q"], Wait::No));
    assert_eq!(ask(&mut world, CLIENT, lease(&["q"], Wait::Millis(9_000))), []);
    world.command(Command::Remove { job: JobRef::Number(1), by: jobyard_engine::By::Anyone });
    assert_eq!(pass(&mut world, 8_999), []);
    assert_eq!(pass(&mut world, 1), said(CLIENT, "NoJob"));
}
