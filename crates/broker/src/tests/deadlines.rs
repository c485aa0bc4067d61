//! Waits, leases and heartbeats.

use jobyard_engine::ClientId;

use super::codec::Lines;
use super::told_log::ToldLog;
use super::world::{LIVELY, PLAIN, World};
use crate::event::{Clock, Event, Sleep};
use crate::{Broker, Config, Door};

#[test]
fn a_wait_ends_when_its_time_is_over_and_the_broker_sleeps_until_then() {
    let mut world = World::new();
    let alice = world.connect(PLAIN);
    world.send(alice, "wait q 1500\n");
    assert_eq!(world.settle(), Sleep::Millis(1_500));
    world.pass(1_499);
    assert_eq!(world.hear(alice), "");
    world.pass(1);
    assert_eq!(world.hear(alice), "none\n");
    assert_eq!(world.settle(), Sleep::Forever);
}

#[test]
fn who_is_silent_for_too_long_is_told_and_closed_and_what_it_holds_ends() {
    let mut world = World::new();
    let (alice, bob) = (world.connect(LIVELY), world.connect(PLAIN));
    assert_eq!(world.ask(alice, "put q one\nget q\n"), "put 1\njob 1 one\n");
    world.pass(999);
    assert_eq!(world.ask(alice, "echo alive\n"), "alive\n");
    world.pass(999);
    assert_eq!(world.ask(bob, "get q\n"), "none\n");
    world.pass(1);
    assert_eq!(world.hear(alice), "silent\n");
    assert!(world.socket(alice).finished);
    assert_eq!(world.ask(bob, "get q\n"), "job 1 one\n", "although alice's connection lingers");
}

#[test]
fn when_a_wait_and_a_heartbeat_end_together_the_answer_comes_first_and_counts() {
    let mut world = World::new();
    let alice = world.connect(LIVELY);
    world.ask(alice, "wait q 1000\n");
    world.pass(1_000);
    assert_eq!(world.hear(alice), "none\n");
    world.pass(999);
    assert_eq!(world.hear(alice), "");
    world.pass(1);
    assert_eq!(world.hear(alice), "silent\n");
}

#[test]
fn clients_fall_silent_in_order_of_time() {
    let mut world = World::new();
    let alice = world.connect(LIVELY);
    world.settle();
    world.stall(10);
    let bob = world.connect(LIVELY);
    world.settle();
    world.ask(alice, "put q one\nget q\n");
    world.stall(10);
    world.ask(bob, "put q two\nget q\n");
    let carol = world.connect(PLAIN);
    world.ask(carol, "wait q 5000\nwait q 5000\n");
    world.stall(4_000);
    world.settle();
    assert_eq!(world.hear(carol), "job 1 one\njob 2 two\n");
}

#[test]
fn after_a_stall_what_had_arrived_counts_before_what_fell_due() {
    let mut world = World::new();
    let (alice, bob, carol) = (world.connect(LIVELY), world.connect(PLAIN), world.connect(PLAIN));
    world.ask(bob, "put q one\nlease q 500\n");
    world.ask(carol, "wait q 60000\n");
    world.hear(bob);
    // Woken by nothing, as after SIGSTOP: what was sent meanwhile is not known yet.
    world.stall(10_000);
    world.turn();
    world.stall(1);
    world.send(alice, "echo alive\n");
    world.send(bob, "rm 1\n");
    world.settle();
    assert_eq!(world.hear(alice), "alive\n");
    assert_eq!(world.hear(bob), "done\n");
    assert_eq!(world.hear(carol), "", "bob's lease lasted until he was heard");
}

#[test]
fn a_stall_between_a_look_at_the_sockets_and_one_at_the_clock_costs_nobody_a_lease() {
    let mut world = World::new();
    let (alice, bob) = (world.connect(PLAIN), world.connect(LIVELY));
    world.ask(bob, "put q one\nlease q 500\n");
    world.hear(bob);
    world.send(alice, "len q\nlen q\n");
    world.stall(10_000);
    // What bob has sent meanwhile is not known before alice was read and answered.
    world.turn();
    world.turn();
    world.turn();
    assert_eq!(world.hear(alice), "len 0 1\nlen 0 1\n");
    world.send(bob, "rm 1\nlen q\n");
    world.settle();
    assert_eq!(world.hear(bob), "done\nlen 0 0\n");
}

#[test]
fn a_lease_that_ran_out_during_a_stall_ends_once_all_was_heard() {
    let mut world = World::new();
    let bob = world.connect(PLAIN);
    world.ask(bob, "put q one\nlease q 500\n");
    world.hear(bob);
    world.stall(10_000);
    assert_eq!(world.settle(), Sleep::Forever);
    assert_eq!(world.ask(bob, "get q\n"), "job 1 one\n");
}

#[test]
fn those_who_never_stop_sending_do_not_keep_deadlines_from_passing() {
    let mut world = World::limited(|limits| limits.turn_commands_max = 1);
    let (alice, bob) = (world.connect(PLAIN), world.connect(PLAIN));
    world.ask(alice, "wait q 5\n");
    for _ in 0..10 {
        world.send(bob, "echo x\n");
        world.stall(1);
        world.turn();
    }
    assert_eq!(world.hear(alice), "none\n");
}

#[test]
fn while_a_client_is_not_read_because_of_us_its_heartbeat_stands_still() {
    let mut world = World::limited(|limits| limits.output_bytes_max = 100);
    let alice = world.connect(LIVELY);
    world.settle();
    world.clog(alice, 0);
    world.pass(400);
    world.ask(alice, "fill 101\n");
    world.pass(60_000);
    assert!(!world.socket(alice).finished);
    world.unclog(alice);
    world.settle();
    assert_eq!(world.hear(alice), ".".repeat(101));
    world.pass(999);
    assert_eq!(world.hear(alice), "");
    world.pass(1);
    assert_eq!(world.hear(alice), "silent\n");
}

#[test]
fn while_an_answer_is_not_durable_the_heartbeat_of_who_waits_for_it_stands_still() {
    // With 5 the second line comes when the answer to the first is withheld, with 2 in the turn that releases it.
    for (lateness, left_ms) in [(5, 1_000), (2, 700)] {
        let mut world = World::late(lateness);
        let alice = world.connect(LIVELY);
        world.settle();
        world.send(alice, "put q one\n");
        world.turn();
        world.turn();
        world.stall(5_000);
        world.send(alice, "echo alive\n");
        world.turn();
        world.turn();
        assert_eq!(world.hear(alice).is_empty(), lateness == 5);
        world.stall(300);
        world.settle();
        world.hear(alice);
        world.pass(left_ms - 1);
        assert_eq!(world.hear(alice), "", "{lateness}");
        world.pass(1);
        assert_eq!(world.hear(alice), "silent\n", "{lateness}");
    }
}

#[test]
fn who_is_in_the_middle_of_a_long_line_is_not_silent_until_all_of_it_was_read() {
    let mut world = World::limited(|limits| limits.turn_bytes_max = 10);
    let alice = world.connect(LIVELY);
    world.settle();
    world.send(alice, &format!("echo {}\n", "x".repeat(100)));
    while !world.socket(alice).finished && world.socket(alice).heard.is_empty() {
        world.stall(300);
        world.turn();
    }
    assert_eq!(world.hear(alice), format!("{}\n", "x".repeat(100)));
    world.send(alice, "and now a line without its end");
    world.pass(1_000);
    assert!(world.socket(alice).finished);
}

#[test]
fn a_lease_that_a_date_begins_does_not_begin_in_the_past() {
    let mut world = World::new();
    let (alice, bob) = (world.connect(PLAIN), world.connect(PLAIN));
    world.ask(alice, "await-lease q 1000\n");
    assert_eq!(world.ask(bob, "at 1005000 q\n"), "put 1\n");
    // A deadline that must wait makes the date wait with it.
    world.ask(bob, "wait elsewhere 4900\n");
    world.stall(5_000);
    world.settle();
    assert_eq!((world.hear(alice), world.hear(bob)), ("job 1 \n".into(), "none\n".into()));
    world.pass(999);
    assert_eq!(world.ask(bob, "len q\n"), "len 0 1\n");
    world.pass(1);
    assert_eq!(world.ask(bob, "len q\n"), "len 1 0\n");
}

#[test]
fn a_date_comes_when_the_wall_clock_says_so_though_no_time_has_passed() {
    let mut world = World::new();
    let alice = world.connect(PLAIN);
    world.send(alice, "at 1005000 q\nwait q 60000\n");
    assert_eq!(world.settle(), Sleep::Millis(1_000), "the wall clock may be stepped at any time");
    world.clock.wall_ms += 5_000;
    world.settle();
    assert_eq!(world.hear(alice), "put 1\njob 1 \n");
}

#[test]
fn engine_time_goes_on_after_a_restart_by_the_time_that_the_wall_clock_tells() {
    let mut world = World::new();
    let alice = world.connect(PLAIN);
    world.pass(5_000);
    world.ask(alice, "put q one\nlease q 1000\n");
    world.hear(alice);
    // The new process's wall clock says the time at which the first one began: the lease has its whole time left.
    let mut world = world.restart(jobyard_engine::Limits::default());
    let bob = world.connect(PLAIN);
    assert_eq!(world.ask(bob, "get q\n"), "none\n");
    world.pass(999);
    assert_eq!(world.ask(bob, "get q\n"), "none\n");
    world.pass(1);
    assert_eq!(world.ask(bob, "get q\n"), "job 1 one\n");
}

#[test]
fn a_batch_in_flight_puts_off_no_deadline() {
    let door: Door = Box::new(|now| Box::new(Lines::new(None, now)));
    let log = ToldLog { completions: vec![None; 100].into(), wakes: true, ..ToldLog::new() };
    let clock = |monotonic_ms| Clock { monotonic_ms, boot: 0, wall_ms: 0 };
    let mut broker = Broker::begin_with(Config::default(), vec![door], log, clock(0)).unwrap().opened().unwrap();
    let (client, mut actions) = (ClientId(1), Vec::new());
    let bytes = b"put q x\nlease q 5000\n".to_vec();
    let accepted = Event::Accepted { client, listener: 0 };
    broker.turn(clock(100), &mut vec![accepted], &mut actions);
    let sleep = broker.turn(clock(100), &mut vec![Event::Received { client, bytes, more: false }], &mut actions);
    assert_eq!(broker.log().submitted, [1]);
    assert_eq!((sleep, broker.output(client)), (Sleep::Millis(5_000), &b""[..]));
}
