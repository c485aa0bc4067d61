//! Queues that exist as long as they have a reason to, and who has to do with them.

mod support;

use jobyard_engine::{By, ClientId, Command, Hold, JobRef, Look, NewJob, OwnTime, Parting, Reply, Role, Sum, Tally};
use support::{CLIENT, World, name, plain};

const OTHER: ClientId = ClientId(2);
const HELD: Hold = Hold::ConnectionTimed(Parting::Release);

fn passing(queue: &str) -> NewJob {
    NewJob { keeps_queue: false, ..plain(queue) }
}

fn attend(world: &mut World, client: ClientId, queue: &str, role: Role) {
    let command = Command::Attend { queue: name(queue), role, keeps_queue: false };
    world.engine.handle(world.now, client, command, &mut |_, reply| assert_eq!(reply, Reply::Done));
    world.write();
    world.engine.check();
}

fn names(world: &World) -> Vec<String> {
    let queues = world.engine.snapshot().queues;
    queues.iter().map(|queue| String::from_utf8_lossy(queue.name.as_bytes()).into_owned()).collect()
}

fn sum(world: &mut World) -> Sum {
    let mut sum = Sum::default();
    world.engine.handle(world.now, CLIENT, Command::Look(Look::Sum), &mut |_, reply| match reply {
        Reply::Sum(said) => sum = said,
        reply => panic!("{reply:?}"),
    });
    sum
}

fn tally(world: &mut World, number: u64) -> Tally {
    let mut tally = Tally::default();
    let look = Command::Look(Look::Job(JobRef::Number(number)));
    world.engine.handle(world.now, CLIENT, look, &mut |_, reply| match reply {
        Reply::Job(job) => tally = job.tally,
        reply => panic!("{reply:?}"),
    });
    tally
}

#[test]
fn a_queue_that_is_not_kept_goes_with_its_last_job_and_leaves_nothing_in_the_log() {
    let mut world = World::new();
    world.enqueue(passing("passing"));
    world.enqueue(plain("kept"));
    assert_eq!(names(&world), ["passing", "kept"]);
    world.restart();
    assert_eq!(names(&world), ["kept", "passing"], "behind those that have a record");
    world.lease("passing", HELD);
    assert_eq!(names(&world), ["kept", "passing"], "a job that is held is one");
    for number in [1, 2] {
        world.command(Command::Remove { job: JobRef::Number(number), by: By::Anyone });
    }
    assert_eq!(names(&world), ["kept"]);
    world.engine.check();
    world.restart();
    assert_eq!(names(&world), ["kept"]);
    let created = world.kinds(0).filter(|&kind| kind == "queue_created").count();
    assert_eq!(created, 1, "only one was written");
}

#[test]
fn a_queue_that_is_put_into_for_ever_is_kept_from_then_on_in_its_place() {
    let mut world = World::new();
    world.enqueue(passing("a"));
    world.enqueue(passing("b"));
    world.enqueue(plain("a"));
    for number in [1, 2, 3] {
        world.command(Command::Remove { job: JobRef::Number(number), by: By::Anyone });
    }
    assert_eq!(names(&world), ["a"]);
    world.restart();
    assert_eq!(names(&world), ["a"]);
}

#[test]
fn a_queue_exists_as_long_as_somebody_attends_it() {
    let mut world = World::new();
    attend(&mut world, CLIENT, "put into", Role::Putter);
    attend(&mut world, CLIENT, "taken from", Role::Taker);
    attend(&mut world, OTHER, "taken from", Role::Taker);
    attend(&mut world, OTHER, "taken from", Role::Taker);
    assert_eq!(names(&world), ["put into", "taken from"]);
    assert_eq!(world.engine.snapshot().queues[1].attended, (0, 2), "twice counts once");
    attend(&mut world, CLIENT, "put into instead", Role::Putter);
    assert_eq!(names(&world), ["taken from", "put into instead"]);
    world.command(Command::Leave { queue: name("taken from") });
    world.command(Command::Leave { queue: name("unknown") });
    assert_eq!(world.engine.snapshot().queues[0].attended, (0, 1));
    world.engine.disconnect(world.now, OTHER, &mut |_, _| {});
    assert_eq!(names(&world), ["put into instead"]);
    world.engine.disconnect(world.now, CLIENT, &mut |_, _| {});
    world.engine.check();
    assert_eq!(names(&world), [""; 0]);
    assert!(world.engine.records().is_empty(), "nothing of this is written");
}

#[test]
fn a_queue_that_goes_takes_its_pause_and_its_totals_along() {
    let mut world = World::new();
    let number = world.enqueue(passing("q"));
    world.command(Command::Pause { queue: name("q"), pause_ms: 5_000 });
    world.command(Command::Remove { job: JobRef::Number(number), by: By::Anyone });
    world.engine.check();
    assert_eq!(world.engine.next_deadline().engine_ms, None, "nothing is to end any more");
    world.enqueue(passing("q"));
    world.engine.handle(world.now, CLIENT, Command::Look(Look::Queue(name("q"))), &mut |_, reply| match reply {
        Reply::Queue(queue) => {
            assert_eq!((queue.pause, queue.totals.pauses, queue.totals.removed), (None, 0, 0));
            assert_eq!(queue.totals.enqueued, 1);
        }
        reply => panic!("{reply:?}"),
    });
}

#[test]
fn what_happens_to_a_job_is_counted_since_the_start() {
    let mut world = World::new();
    let job = JobRef::Number(world.enqueue(NewJob { own_time: OwnTime::Millis(1_000), ..plain("q") }));
    world.lease("q", HELD);
    world.now.engine_ms += 1_000;
    world.engine.tick(world.now, world.now.engine_ms, &mut |_, _| {});
    world.lease("q", HELD);
    world.command(Command::Release { job: job.clone(), again: None });
    world.lease("q", HELD);
    world.command(Command::Bury { job: job.clone(), urgency: 0 });
    world.command(Command::ReviveJob { job });
    let expected = Tally { leases: 3, timeouts: 1, releases: 1, burials: 1, revivals: 1 };
    assert_eq!(tally(&mut world, 1), expected);
    assert_eq!(sum(&mut world).counters.timed_out, 1);
    world.lease("q", HELD);
    let lease = world.last_lease.unwrap();
    world.engine.undo_lease(world.now, 1, lease, &mut |_, _| {});
    assert_eq!(tally(&mut world, 1), expected, "one that never reached its client does not count");
    world.engine = world.replayed();
    world.engine.recover(world.now);
    assert_eq!(tally(&mut world, 1), Tally::default());
}

#[test]
fn all_queues_are_added_up_and_those_who_attend_one_are_counted_by_what_they_do() {
    let mut world = World::new();
    for (queue, urgency) in [("a", 0), ("a", -1_023), ("b", -1_024), ("b", 1)] {
        world.enqueue(NewJob { urgency, ..plain(queue) });
    }
    assert_eq!(sum(&mut world).producers, 0, "it attends nothing");
    attend(&mut world, CLIENT, "a", Role::Putter);
    attend(&mut world, OTHER, "b", Role::Taker);
    world.enqueue(plain("b"));
    world.enqueue(plain("b"));
    world.lease_as(OTHER, "b", HELD);
    let said = sum(&mut world);
    assert_eq!((said.queues, said.producers, said.workers, said.waiting), (2, 1, 1, 0));
    assert_eq!((said.counts.ready, said.counts.leased, said.urgent), (5, 1, 4));
    world.engine.disconnect(world.now, CLIENT, &mut |_, _| {});
    world.engine.disconnect(world.now, OTHER, &mut |_, _| {});
    let said = sum(&mut world);
    assert_eq!((said.producers, said.workers), (0, 0));
}
