//! Jobs that were elsewhere before, and may still be there too.

mod support;

use jobyard_engine::{By, ClientId, Command, JobRef, Look, NewJob, Refusal, Reply, Start, Step, Uuid, Which};
use support::{CLIENT, World, name, plain};

const UUID: Uuid = Uuid(0x6ba7_b810_9dad_41d1_80b4_00c0_4fd4_30c0);

fn from(origin: &str) -> NewJob {
    NewJob { origin: Some(origin.as_bytes().into()), keeps_queue: false, ..plain("q") }
}

/// Where all origins are claimed.
fn claimed() -> World {
    let mut world = World::new();
    claim(&mut world);
    world
}

fn claim(world: &mut World) {
    world.command(Command::ClaimOrigins { beginning: Box::default() });
}

/// What a client has claimed is over.
fn restart(world: &mut World) {
    world.restart();
    claim(world);
}

/// Why something is refused; nothing if it is not.
fn refusal(world: &mut World, command: Command) -> Option<Refusal> {
    refusal_to(world, CLIENT, command)
}

fn refusal_to(world: &mut World, client: ClientId, command: Command) -> Option<Refusal> {
    let mut refusal = None;
    world.engine.handle(world.now, client, command, &mut |_, reply| match reply {
        Reply::Refused(why) | Reply::GroupRefused { refusal: why, .. } => refusal = Some(why),
        _ => {}
    });
    world.write();
    refusal
}

fn put(world: &mut World, job: NewJob) -> Option<Refusal> {
    refusal(world, Command::Enqueue(Box::new(job)))
}

fn close(world: &mut World, origin: &str) -> Option<Refusal> {
    refusal(world, Command::CloseOrigin { origin: origin.as_bytes().into() })
}

/// What is open behind this.
fn open(world: &mut World, after: &str, count_max: usize) -> Vec<String> {
    let mut shown = Vec::new();
    let look = Command::Look(Look::Origins { after: after.as_bytes().into(), count_max });
    world.engine.handle(world.now, CLIENT, look, &mut |_, reply| match reply {
        Reply::Origins(origins) => shown = origins.iter().map(|origin| origin.escape_ascii().to_string()).collect(),
        reply => panic!("{reply:?}"),
    });
    shown
}

#[test]
fn nothing_comes_twice_from_an_origin_until_it_is_closed() {
    let mut world = claimed();
    assert_eq!(put(&mut world, from("a")), None);
    assert_eq!(put(&mut world, from("a")), Some(Refusal::OriginOpen));
    assert_eq!(put(&mut world, from("b")), None);
    let both = [from("c"), from("c")].map(|job| Step::Enqueue(Box::new(job)));
    assert_eq!(refusal(&mut world, Command::Group(both.into())), Some(Refusal::OriginOpen));
    assert_eq!(close(&mut world, "a"), None);
    assert_eq!(close(&mut world, "a"), Some(Refusal::NoSuchOrigin));
    assert!(world.exists(1), "its job stays");
    assert_eq!(put(&mut world, from("a")), None);
    assert_eq!(open(&mut world, "", 9), ["a", "b"]);
    restart(&mut world);
    assert_eq!(open(&mut world, "", 9), ["a", "b"]);
}

#[test]
fn an_origin_outlives_its_job_and_is_no_job_to_anybody() {
    let mut world = claimed();
    let uuid = Some(UUID);
    world.enqueue(NewJob { uuid, lifetime_ms: Some(1), ..from("a") });
    world.enqueue(from("b"));
    world.now.engine_ms += 1;
    world.engine.tick(world.now, world.now.engine_ms, &mut |_, _| {});
    world.complete(2);
    for restarted in [false, true] {
        assert_eq!(open(&mut world, "", 9), ["a", "b"], "restarted: {restarted}");
        assert_eq!((world.numbers(), world.engine.jobs()), (vec![], 0));
        for number in [1, 2] {
            let job = JobRef::Number(number);
            assert!(!world.exists(number));
            let remove = Command::Remove { job: job.clone(), by: By::Anyone };
            assert_eq!(refusal(&mut world, remove), Some(Refusal::NoSuchJob));
            assert_eq!(refusal(&mut world, Command::Await { job, wait_ms: 0 }), Some(Refusal::NoSuchJob));
        }
        assert_eq!(put(&mut world, from("b")), Some(Refusal::OriginOpen));
        let its_made_one = NewJob { uuid: Some(Uuid::of_number(2)), ..plain("q") };
        assert_eq!(put(&mut world, its_made_one), Some(Refusal::ReservedUuid));
        restart(&mut world);
    }
    assert_eq!(put(&mut world, NewJob { uuid, ..from("c") }), None, "the UUID is free again");
    assert!(world.engine.has_queue(&name("q")));
    world.complete(3);
    for origin in ["a", "b", "c"] {
        assert_eq!(close(&mut world, origin), None);
    }
    assert_eq!((open(&mut world, "", 9).len(), world.engine.jobs()), (0, 0));
    assert!(!world.engine.has_queue(&name("q")), "nothing is left of it");
    restart(&mut world);
}

#[test]
fn a_job_that_is_done_and_has_a_result_is_there_whether_its_origin_is_open_or_not() {
    let mut world = claimed();
    world.enqueue(NewJob { lifetime_ms: Some(1_000), ..from("a") });
    world.complete(1);
    for still_open in [true, false] {
        assert_eq!((world.engine.jobs(), world.exists(1)), (1, true), "still open: {still_open}");
        assert_eq!(close(&mut world, "a").is_none(), still_open);
        restart(&mut world);
    }
}

#[test]
fn an_origin_is_kept_when_the_log_lets_go_of_its_beginning() {
    let mut world = claimed();
    for origin in ["a", "b", "c"] {
        world.enqueue(from(origin));
    }
    world.complete(2);
    world.begin_stretch();
    // Its end is in the new stretch, what it was in the old one.
    world.complete(1);
    assert_eq!(close(&mut world, "c"), None);
    world.compact_oldest();
    world.drop_oldest();
    restart(&mut world);
    assert_eq!(open(&mut world, "", 9), ["a", "b"]);
    assert_eq!(world.numbers(), [3]);
    for origin in ["a", "b"] {
        assert_eq!(close(&mut world, origin), None);
    }
    restart(&mut world);
    assert_eq!(open(&mut world, "", 9).len(), 0);
}

#[test]
fn little_is_kept_of_a_job_for_its_origin() {
    let mut world = claimed();
    world.enqueue(NewJob { body: vec![0; 100_000].into(), name: Some("n".repeat(1_000).into()), ..from("a") });
    assert!(world.engine.memory_bytes() > 100_000 && world.engine.live_bytes() > 101_000);
    let before = world.engine.memory_bytes();
    world.complete(1);
    world.engine.check();
    assert!(world.engine.live_bytes() < 30);
    assert!(world.engine.memory_bytes() + 101_000 < before);
    restart(&mut world);
    assert!(world.engine.memory_bytes() < 3_000, "{}", world.engine.memory_bytes());
}

#[test]
fn origins_are_listed_in_pages() {
    let mut world = claimed();
    for origin in ["b/2", "a/1", "b/10", "c"] {
        world.enqueue(from(origin));
    }
    assert_eq!(open(&mut world, "", 2), ["a/1", "b/10"]);
    assert_eq!(open(&mut world, "b/10", 2), ["b/2", "c"]);
    assert_eq!(open(&mut world, "b/", 1), ["b/10"]);
    assert_eq!(open(&mut world, "c", 2).len(), 0);
}

#[test]
fn a_job_can_be_buried_from_the_start() {
    let mut world = claimed();
    let buried = || NewJob { start: Start::Buried, urgency: -7, ..plain("q") };
    for _ in 0..2 {
        world.enqueue(buried());
    }
    restart(&mut world);
    let look = Command::Look(Look::Jobs { queue: name("q"), which: Which::Buried, offset: 0, count_max: 9 });
    let mut shown = Vec::new();
    world.engine.handle(world.now, CLIENT, look, &mut |_, reply| match reply {
        Reply::Jobs(jobs) => shown = jobs.iter().map(|job| (job.number, job.urgency, job.tally.burials)).collect(),
        reply => panic!("{reply:?}"),
    });
    assert_eq!(shown, [(1, -7, 0), (2, -7, 0)]);
}

#[test]
fn one_client_at_a_time_brings_jobs_from_one_place() {
    const OTHER: ClientId = ClientId(2);
    let mut world = World::new();
    let claim = |beginning: &str| Command::ClaimOrigins { beginning: beginning.as_bytes().into() };
    let put = |origin| Command::Enqueue(Box::new(from(origin)));
    assert_eq!(refusal(&mut world, put("a/1")), Some(Refusal::OriginNotClaimed));
    assert_eq!(refusal(&mut world, claim("a/")), None);
    assert_eq!(refusal(&mut world, put("a/1")), None);
    assert_eq!(refusal(&mut world, put("b/1")), Some(Refusal::OriginNotClaimed));
    for overlapping in ["a/", "a/1", "a", ""] {
        assert_eq!(refusal_to(&mut world, OTHER, claim(overlapping)), Some(Refusal::OriginsClaimed), "{overlapping:?}");
    }
    assert_eq!(refusal_to(&mut world, OTHER, claim("b/")), None);
    assert_eq!(refusal_to(&mut world, OTHER, put("a/2")), Some(Refusal::OriginNotClaimed));
    let close = Command::CloseOrigin { origin: b"a/1"[..].into() };
    assert_eq!(refusal_to(&mut world, OTHER, close), Some(Refusal::OriginNotClaimed));
    assert_eq!(refusal_to(&mut world, OTHER, put("b/1")), None);
    // Who claims something else has let go of what it had before; and so has who is gone.
    assert_eq!(refusal(&mut world, claim("c/")), None);
    assert_eq!(refusal_to(&mut world, OTHER, claim("a/")), None);
    assert_eq!(refusal(&mut world, claim("a/")), Some(Refusal::OriginsClaimed));
    let with_both = world.engine.memory_bytes();
    world.engine.disconnect(world.now, OTHER, &mut |_, _| {});
    assert!(world.engine.memory_bytes() < with_both);
    assert_eq!(refusal(&mut world, claim("a/")), None);
}
