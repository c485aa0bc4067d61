//! Leases of which their client never heard, and groups that put what they make room for.

mod support;

use jobyard_engine::{ClientId, Command, Hold, JobRef, NewJob, OwnTime, Parting, Refusal, Reply, Step, Uuid};
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
