//! How the server drains and stops.

use jobyard_engine::Limits;

use super::world::{PLAIN, World};
use crate::event::{Action, Event, Sleep};

#[test]
fn when_draining_enqueues_are_refused_and_all_else_goes_on() {
    let mut world = World::new();
    let alice = world.connect(PLAIN);
    assert_eq!(world.ask(alice, "health\nput q one\n"), "Ready\nput 1\n");
    world.tell(Event::Drain);
    assert_eq!(
        world.ask(alice, "put q two\nrun q 1000\nget q\nrm 1\nhealth\n"),
        "Draining\nDraining\njob 1 one\ndone\nDraining\n"
    );
    assert!(world.listening && !world.exited);
}

#[test]
fn a_stop_answers_what_waits_and_what_was_received_and_gives_no_job() {
    for lateness in [0, 1, 5] {
        let mut world = World::late(lateness);
        let (alice, bob) = (world.connect(PLAIN), world.connect(PLAIN));
        world.ask(bob, "put other one\n");
        world.hear(bob);
        world.ask(alice, "wait q 60000\nget other\nput q two\nrun q 1000\nawait 1 1000\nunfinished");
        world.tell(Event::Stop);
        world.settle();
        assert_eq!(world.hear(alice), "none\nnone\nput 2\nlate\nlate\n");
        assert!(!world.listening);
        assert!(world.socket(bob).closed, "nothing was under way with bob");
        assert!(world.socket(alice).finished && !world.socket(alice).closed && !world.exited);
        world.end(alice);
        world.settle();
        assert!(world.socket(alice).closed && world.exited);
        assert_eq!(world.turn(), Sleep::Forever);
        let mut world = world.restart(Limits::default());
        let carol = world.connect(PLAIN);
        assert_eq!(world.ask(carol, "get other\nget q\n"), "job 1 one\njob 2 two\n");
    }
}

#[test]
fn a_stop_with_nobody_there_ends_at_once() {
    let mut world = World::new();
    world.tell(Event::Stop);
    assert!(!world.broker.stopped());
    world.turn();
    assert_eq!(world.actions, [Action::CloseListeners, Action::Exit]);
    assert_eq!(world.broker.failure(), None);
    assert!(world.broker.stopped());
}

#[test]
fn a_stop_takes_in_nobody_and_reads_nothing() {
    let mut world = World::new();
    let alice = world.connect(PLAIN);
    world.settle();
    world.send(alice, "put q one\n");
    world.tell(Event::Stop);
    let bob = world.connect(PLAIN);
    world.settle();
    assert!(world.socket(bob).closed);
    assert_eq!(world.hear(alice), "");
    world.pass(1_000);
    assert!(world.exited);
}

#[test]
fn a_stop_carries_out_what_was_received_and_reads_no_more() {
    let mut world = World::limited(|limits| limits.turn_commands_max = 1);
    let alice = world.connect(PLAIN);
    world.settle();
    world.send(alice, "echo 1\necho 2\necho 3\n");
    world.turn();
    world.turn();
    world.tell(Event::Stop);
    world.send(alice, "put q unread\n");
    world.settle();
    assert_eq!(world.hear(alice), "1\n2\n3\n");
    assert!(!world.exited, "what alice is still sending is dropped before she is closed");
}

#[test]
fn what_clients_hold_when_the_server_stops_ends_as_at_a_crash() {
    let mut world = World::new();
    let (alice, bob) = (world.connect(PLAIN), world.connect(PLAIN));
    world.ask(alice, "put q one\nput q two\nhold q\n");
    world.ask(bob, "hold q\n");
    world.send(alice, "unread");
    world.tell(Event::Stop);
    world.settle();
    world.cut(alice);
    world.cut(bob);
    world.settle();
    assert!(world.exited);
    let mut world = world.restart(Limits::default());
    let carol = world.connect(PLAIN);
    assert_eq!(world.ask(carol, "get q\nget q\n"), "job 1 one\njob 2 two\n", "they need no rest");
}

#[test]
fn a_stop_waits_so_long_for_who_does_not_take_its_answers_and_undoes_their_leases() {
    let mut world = World::new();
    let alice = world.connect(PLAIN);
    world.ask(alice, "put q one\n");
    world.hear(alice);
    world.clog(alice, 0);
    world.ask(alice, "keep q\n");
    world.tell(Event::Stop);
    assert_eq!(world.settle(), Sleep::Millis(5_000));
    world.pass(4_999);
    assert!(!world.exited);
    world.pass(1);
    assert!(world.exited && world.socket(alice).closed);
    let mut world = world.restart(Limits::default());
    let bob = world.connect(PLAIN);
    assert_eq!(world.ask(bob, "get q\n"), "job 1 one\n");
}

#[test]
fn a_second_stop_waits_for_the_batch_in_flight_only() {
    let mut world = World::late(3);
    let alice = world.connect(PLAIN);
    world.settle();
    world.send(alice, "put q one\n");
    world.turn();
    world.turn();
    world.send(alice, "put q two\n");
    world.turn();
    world.tell(Event::Stop);
    world.tell(Event::Stop);
    assert_eq!(world.turn(), Sleep::No);
    assert!(!world.exited);
    world.turn();
    assert!(world.exited);
    let mut world = world.restart(Limits::default());
    let bob = world.connect(PLAIN);
    assert_eq!(world.ask(bob, "get q\nget q\n"), "job 1 one\nnone\n");
}

#[test]
fn a_stop_waits_for_the_batch_in_flight_although_nobody_is_left() {
    let mut world = World::late(5);
    let alice = world.connect(PLAIN);
    world.settle();
    world.send(alice, "put q one\n");
    world.turn();
    world.turn();
    world.cut(alice);
    world.tell(Event::Stop);
    world.turn();
    assert!(!world.exited);
    world.settle();
    assert!(world.exited);
    let mut world = world.restart(Limits::default());
    let bob = world.connect(PLAIN);
    assert_eq!(world.ask(bob, "get q\n"), "job 1 one\n");
}
