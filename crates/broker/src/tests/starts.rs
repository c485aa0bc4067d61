//! Before the log has been read back: who is answered, and with what.

use jobyard_log::{Extent, Log, MemoryLog};

use super::told_log::ToldLog;
use super::world::{PLAIN, World};
use crate::event::{Clock, Event, Sleep};
use crate::{Broker, Config, Failure, OpenError};

const ANY: usize = 0;
const JOBCENTRE: usize = 1;

/// A log of several portions: forty jobs of 100 KiB.
fn long_log() -> MemoryLog {
    let mut world = World::new();
    let alice = world.connect(PLAIN);
    for _ in 0..40 {
        world.ask(alice, &format!("put q {}\n", "x".repeat(100 << 10)));
    }
    world.broker.into_log()
}

fn begin() -> World {
    World::begin(&["any", "jobcentre"], long_log())
}

const PROBE: &str = "GET /healthz HTTP/1.0\r\n\r\n";
const PUT: &str = "{\"request\":\"put\",\"queue\":\"new\",\"job\":{},\"pri\":1}\n";
const PUT_DONE: &str = "{\"status\":\"ok\",\"id\":41}\n";

#[test]
fn the_log_is_read_back_a_portion_a_turn() {
    let mut world = begin();
    let mut turns = 0;
    let mut done_bytes = 0;
    while let Some(progress) = world.broker.progress() {
        assert!(progress.done_bytes >= done_bytes && progress.done_bytes <= progress.bytes, "{progress:?}");
        done_bytes = progress.done_bytes;
        assert_eq!(world.turn(), if world.broker.progress().is_some() { Sleep::No } else { Sleep::Forever });
        turns += 1;
    }
    assert!(turns >= 4, "{turns} turns for 4 MiB");
    assert!(done_bytes > 2 << 20, "{done_bytes}");
    assert_eq!(world.broker.jobs(), 40);
}

#[test]
fn health_is_answered_meanwhile_and_jobs_afterwards() {
    let mut world = begin();
    let (probe, early, ended, other) =
        (world.connect(ANY), world.connect(ANY), world.connect(ANY), world.connect(JOBCENTRE));
    world.send(probe, PROBE);
    world.send(ended, PROBE);
    world.end(ended);
    world.send(early, PUT);
    world.send(other, PUT);
    world.turn();
    world.turn();
    world.turn();
    assert!(world.broker.progress().is_some(), "it is still reading");
    assert!(world.hear(probe).ends_with("\r\n\r\nstarting"));
    assert_eq!(world.socket(other).unread(), PUT, "a client of one protocol is not read");
    assert_eq!(world.hear(early), "");
    assert!(world.hear(ended).ends_with("starting"));
    world.settle();
    assert_eq!(world.hear(early), PUT_DONE);
    assert_eq!(world.hear(other), PUT_DONE.replace("41", "42"));
    let late = world.connect(ANY);
    assert!(world.ask(late, PROBE).ends_with("ok"));
}

#[test]
fn what_was_sent_and_ended_before_the_start_is_carried_out() {
    let mut world = begin();
    let alice = world.connect(ANY);
    world.send(alice, PUT);
    world.end(alice);
    world.settle();
    assert_eq!(world.hear(alice), PUT_DONE);
}

#[test]
fn who_sends_much_before_the_start_is_read_a_little() {
    let mut world = begin();
    let alice = world.connect(ANY);
    world.send(alice, &PUT.repeat(10_000));
    world.turn();
    world.turn();
    world.turn();
    assert!(world.broker.progress().is_some());
    let read = PUT.len() * 10_000 - world.socket(alice).unread().len();
    assert!(read <= 64 << 10, "{read} bytes were read");
    world.settle();
    assert_eq!(world.hear(alice).lines().count(), 10_000);
}

#[test]
fn nothing_falls_due_before_all_was_read_back() {
    // The first job's date has come and the second's lease has run out long before the last job was read.
    let mut world = World::new();
    let alice = world.connect(PLAIN);
    world.ask(alice, "at 1000001 q\nput q lease\nkeep q\n");
    for _ in 0..40 {
        world.ask(alice, &format!("put q {}\n", "x".repeat(100 << 10)));
    }
    let mut world = World::begin(&["any"], world.broker.into_log());
    while world.broker.progress().is_some() {
        assert!(world.broker.engine.records().is_empty(), "decided before all was known");
        world.stall(60_000);
        world.turn();
    }
    world.settle();
    assert_eq!(world.broker.jobs(), 42);
}

#[test]
fn a_stop_before_the_start_ends_the_process_and_leaves_the_log_as_it_is() {
    let mut world = begin();
    world.turn();
    world.tell(Event::Stop);
    world.settle();
    assert!(world.exited && world.broker.failure().is_none());
    let mut positions = 0;
    world.broker.into_log().replay(1, usize::MAX, &mut |_| positions += 1).unwrap();
    assert_eq!(positions, 40);
}

#[test]
fn a_log_that_cannot_be_read_ends_the_process() {
    let mut log = long_log();
    let middle = log.bytes().len() / 2;
    log.bytes_mut()[middle] ^= 1;
    // A claim of this log reads all of it, so the damage is made after that.
    let mut world = begin();
    *world.broker.commit.log.bytes_mut() = log.bytes().to_vec();
    world.settle();
    assert!(world.exited);
    assert!(matches!(world.broker.failure(), Some(Failure::Open(OpenError::Log(_)))));
}

#[test]
fn the_first_start_after_a_boot_leaves_a_batch_that_tells_of_it() {
    let mut world = World::new();
    let alice = world.connect(PLAIN);
    world.ask(alice, "put q x\n");
    let mut log = world.broker.into_log();
    let mut tails = Vec::new();
    for (boot, monotonic_ms) in [(7, 50), (7, 90), (8, 10), (8, 20)] {
        let clock = Clock { monotonic_ms, boot, wall_ms: 1_000_000 };
        let broker = Broker::open(Config::default(), log, clock).unwrap();
        log = broker.into_log();
        tails.push(log.claim(0).unwrap().tail);
    }
    assert_eq!(tails, [2, 2, 3, 3], "once in each boot");
}

#[test]
fn a_log_that_ends_before_its_end_is_refused() {
    let mut log = ToldLog { payloads: vec![Vec::new(); 3], ..ToldLog::new() };
    log.claim.tail = 5;
    let refused = Broker::open(Config::default(), log, Clock { monotonic_ms: 0, boot: 0, wall_ms: 0 });
    assert_eq!(refused.err(), Some(OpenError::Short { expected: 5, found: 3 }));
}

#[test]
fn nothing_is_written_before_all_was_read_back() {
    let mut log = ToldLog { payloads: vec![Vec::new(); 10], ..ToldLog::new() };
    (log.claim.tail, log.claim.bytes, log.claim.notices) = (10, 1_000_000, vec!["it was long".to_owned()]);
    // So long for so little that it is to be written anew.
    log.extent = Extent { bytes: 1_000_000, segment_bytes: 4_000, ..Extent::BOUNDLESS };
    let clock = Clock { monotonic_ms: 0, boot: 0, wall_ms: 0 };
    let mut broker = Broker::begin(Config::default(), log, clock).unwrap();
    assert_eq!(broker.notices(), ["it was long"]);
    let (mut events, mut actions) = (Vec::new(), Vec::new());
    while broker.progress().is_some() {
        assert!(broker.log().submitted.is_empty());
        broker.turn(clock, &mut events, &mut actions);
    }
    assert_eq!(broker.failure(), None);
}
