//! Nothing leaves before what it depends on is durable.

use jobyard_engine::Limits;
use jobyard_log::{Batch, Log, MemoryLog, Moment};

use super::world::{LIVELY, PLAIN, World};
use crate::event::{Action, Clock, Sleep};
use crate::{Broker, Config, Failure, OpenError};

#[test]
fn with_a_prompt_log_an_answer_leaves_in_the_turn_that_decided_it() {
    let mut world = World::new();
    let alice = world.connect(PLAIN);
    world.settle();
    world.send(alice, "put q one\n");
    world.turn();
    world.turn();
    assert_eq!(world.hear(alice), "put 1\n");
}

#[test]
fn with_a_late_log_an_answer_leaves_so_many_turns_later() {
    for lateness in [1, 2, 5] {
        let mut world = World::late(lateness);
        let alice = world.connect(PLAIN);
        world.settle();
        world.send(alice, "put q one\n");
        world.turn();
        for turn in 0..lateness {
            assert_eq!(world.turn(), Sleep::No, "a batch is in flight");
            assert_eq!(world.hear(alice), "", "turn {turn} of {lateness}");
        }
        world.turn();
        assert_eq!(world.hear(alice), "put 1\n");
    }
}

#[test]
fn what_wrote_nothing_leaves_no_sooner_than_what_it_saw() {
    let mut world = World::late(3);
    let alice = world.connect(PLAIN);
    let bob = world.connect(PLAIN);
    world.settle();
    world.send(alice, "put q one\n");
    world.send(bob, "len q\necho hello\n");
    world.turn();
    for _ in 0..3 {
        world.turn();
        assert_eq!(world.hear(bob), "", "a crash could still take back what bob would be told");
    }
    world.turn();
    assert_eq!(world.hear(bob), "len 1 0\nhello\n");
}

#[test]
fn what_was_computed_while_a_batch_was_in_flight_waits_for_the_next() {
    let mut world = World::late(2);
    let alice = world.connect(PLAIN);
    let bob = world.connect(PLAIN);
    world.settle();
    world.send(alice, "put q one\n");
    world.turn();
    world.turn();
    world.send(bob, "put q two\n");
    world.turn();
    world.turn();
    assert_eq!((world.hear(alice), world.hear(bob)), ("put 1\n".into(), String::new()));
    world.settle();
    assert_eq!(world.hear(bob), "put 2\n");
    let mut payloads = 0;
    world.broker.into_log().replay(1, usize::MAX, &mut |_| payloads += 1).unwrap();
    assert_eq!(payloads, 2);
}

#[test]
fn a_turn_that_wrote_nothing_answers_at_once() {
    let mut world = World::late(5);
    let alice = world.connect(PLAIN);
    world.ask(alice, "put q one\n");
    world.send(alice, "len q\n");
    world.turn();
    world.turn();
    assert_eq!(world.hear(alice), "len 1 0\n");
}

#[test]
fn answers_come_in_the_order_asked_whoever_gives_them() {
    for lateness in [0, 1, 5] {
        let mut world = World::late(lateness);
        let alice = world.connect(PLAIN);
        let heard = world.ask(alice, "echo a\nput q one\necho b\nlen q\nget q\nrm 1\nlen q\necho c\n");
        assert_eq!(heard, "a\nput 1\nb\nlen 1 0\njob 1 one\ndone\nlen 0 0\nc\n");
    }
}

#[test]
fn all_that_was_told_survives_a_crash_and_what_was_not_may_not() {
    for lateness in [0, 1, 5] {
        let mut world = World::late(lateness);
        let alice = world.connect(PLAIN);
        assert_eq!(world.ask(alice, "put q one\nput q two\nrm 1\n"), "put 1\nput 2\ndone\n");
        world.send(alice, "rm 2\n");
        world.turn();
        if lateness > 0 {
            world.turn();
            assert_eq!(world.hear(alice), "");
        }
        let mut world = world.restart(Limits::default());
        let bob = world.connect(PLAIN);
        assert_eq!(world.ask(bob, "get q\nget q\n"), "job 2 two\nnone\n");
    }
}

#[test]
fn nobody_is_read_before_what_recovery_decided_is_durable() {
    let mut world = World::late(3);
    let alice = world.connect(PLAIN);
    world.ask(alice, "put q one\nkeep q\n");
    // A run job does not survive: recovery has something to decide.
    world.send(alice, "run q 60000\n");
    world.settle();
    let mut world = world.restart(Limits::default());
    let (bob, carol) = (world.connect(PLAIN), world.connect(LIVELY));
    world.send(bob, "len q\n");
    assert_eq!(world.turn(), Sleep::No);
    assert!(world.actions.is_empty(), "{:?}", world.actions);
    world.stall(5_000);
    world.settle();
    assert_eq!(world.hear(bob), "len 0 1\n");
    world.pass(999);
    assert_eq!(world.hear(carol), "", "her heartbeat stood still meanwhile");
    world.pass(1);
    assert_eq!(world.hear(carol), "silent\n");
}

#[test]
fn after_the_log_was_lost_nothing_leaves_and_the_process_ends() {
    let mut world = World::new();
    let alice = world.connect(PLAIN);
    world.ask(alice, "put q one\n");
    world.broker.commit.log.claim(0).unwrap();
    assert_eq!(world.ask(alice, "put q two\nlen q\n"), "");
    assert!(world.exited);
    assert_eq!(world.broker.failure(), Some(&Failure::Fenced));
    assert_eq!(world.turn(), Sleep::Forever);
    assert_eq!(world.actions, [] as [Action; 0]);
}

/// Why a log of these records cannot be opened.
fn refusal(payload: &[u8]) -> Option<OpenError> {
    let mut log = MemoryLog::new(1, 0);
    let epoch = log.claim(0).unwrap().epoch;
    log.submit(epoch, 1, Batch { at: Moment::default(), payload });
    log.completed().unwrap();
    Broker::open(Config::default(), log, Clock { monotonic_ms: 0, boot: 0, wall_ms: 0 }).err()
}

#[test]
fn a_batch_whose_records_make_no_sense_is_refused() {
    assert_eq!(refusal(b"\xff\xff\xff"), Some(OpenError::Records { position: 1 }));
}

#[test]
fn a_log_that_leaves_no_room_to_count_on_is_refused() {
    let created = |ordinal: &[u8]| [b"\x01\x01q", ordinal].concat();
    assert_eq!(refusal(&created(b"\x07")), None);
    assert_eq!(refusal(&created(b"\xff\xff\xff\xff\xff\xff\xff\xff\x3f")), Some(OpenError::Counted));
}

#[test]
fn a_damaged_log_is_refused() {
    let mut world = World::new();
    let alice = world.connect(PLAIN);
    world.ask(alice, "put q one\n");
    let mut log = world.broker.into_log();
    log.bytes_mut().pop();
    let opened = Broker::open(Config::default(), log, Clock { monotonic_ms: 0, boot: 0, wall_ms: 0 });
    assert!(matches!(opened.err(), Some(OpenError::Log(_))));
}
