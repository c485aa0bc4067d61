//! Leases of which their client never heard, and groups that put what they make room for.

mod support;

use jobyard_engine::{ClientId, Command, Hold, JobRef, NewJob, Now, OwnTime, Parting, Refusal, Reply, Step, Uuid};
use support::{CLIENT, World, plain};

const UUID: Uuid = Uuid(0x6ba7_b810_9dad_41d1_80b4_00c0_4fd4_30c4);

#[test]
fn a_hold_that_is_undone_was_never_written_and_neither_is_that() {
    for (hold, written) in
        [(Hold::Connection(Parting::Release), false), (Hold::Timed { honours_unlimited: true }, true)]
    {
        let mut world = World::new();
        let number = world.enqueue(NewJob { own_time: OwnTime::Millis(60_000), ..plain("q") });
        world.lease("q", hold);
        let lease = world.last_lease.expect("it was given");
        world.engine.undo_lease(world.now, number, lease, &mut |_, reply| panic!("{reply:?}"));
        assert_eq!(!world.engine.records().is_empty(), written, "{hold:?}");
        world.write();
        world.lease("q", hold);
    }
}

#[test]
fn who_runs_a_job_waits_for_it_as_if_a_lease_that_is_undone_had_never_been() {
    const RUNNER: ClientId = ClientId(9);
    for hold in [Hold::Connection(Parting::Release), Hold::Timed { honours_unlimited: true }] {
        let mut world = World::new();
        let job = Box::new(NewJob { own_time: OwnTime::Millis(86_400_000), ..plain("q") });
        let run = Command::Run { job, wait_ms: 5_000 };
        world.engine.handle(world.now, RUNNER, run, &mut |_, reply| panic!("{reply:?}"));
        world.lease("q", hold);
        let lease = world.last_lease.expect("it was given");
        world.engine.undo_lease(world.now, 1, lease, &mut |_, reply| panic!("{reply:?}"));
        let until_ms = world.now.engine_ms + 5_000;
        assert_eq!(world.engine.next_deadline().engine_ms, Some(until_ms), "{hold:?}");
        let mut heard = Vec::new();
        let now = Now { engine_ms: until_ms, ..world.now };
        let done = world.engine.tick(now, until_ms, &mut |client, reply| heard.push((client, format!("{reply:?}"))));
        assert_eq!((done, &heard[..]), (true, &[(RUNNER, "TimedOut".to_owned())][..]));
        assert_eq!(world.engine.jobs(), 0);
    }
}

#[test]
fn a_group_may_put_again_what_it_completes_unless_that_is_kept() {
    for (lifetime_ms, refused) in [(None, None), (Some(1_000), Some(Refusal::DuplicateUuid))] {
        let mut world = World::new();
        let job = NewJob { uuid: Some(UUID), lifetime_ms, ..plain("q") };
        world.enqueue(job.clone());
        world.lease("q", Hold::Connection(Parting::Release));
        let steps = vec![Step::Complete(JobRef::Uuid(UUID)), Step::Enqueue(Box::new(job))];
        let mut heard = Vec::new();
        let mut hear = |client: ClientId, reply: Reply<'_>| {
            assert_eq!(client, CLIENT);
            heard.push(match reply {
                Reply::Refused(refusal) => Some(refusal),
                Reply::GroupRefused { refusal, .. } => Some(refusal),
                _ => None,
            });
        };
        world.engine.handle(world.now, CLIENT, Command::Group(steps), &mut hear);
        assert_eq!(heard, [refused]);
    }
}
