//! How connections end.

use super::codec::LISTINGS;
use super::world::{PLAIN, World};

#[test]
fn after_the_end_of_input_what_was_received_is_answered_and_the_connection_closed() {
    let mut world = World::limited(|limits| limits.turn_commands_max = 1);
    let alice = world.connect(PLAIN);
    world.send(alice, "put q one\necho a\nget q\nunfinished");
    world.end(alice);
    world.settle();
    assert_eq!(world.hear(alice), "put 1\na\njob 1 one\ncut short\n");
    assert!(world.socket(alice).closed && !world.socket(alice).finished);
    let bob = world.connect(PLAIN);
    assert_eq!(world.ask(bob, "get q\n"), "job 1 one\n", "what alice held ended with her connection");
}

#[test]
fn after_the_end_of_input_nothing_waits() {
    for lateness in [0, 1, 5] {
        let mut world = World::late(lateness);
        let alice = world.connect(PLAIN);
        world.ask(alice, "put other one\nwait q 60000\n");
        world.send(alice, "wait q 60000\nawait 1 60000\nrun q 60000\nwait other 60000\necho last\n");
        world.end(alice);
        world.settle();
        assert_eq!(world.hear(alice), "none\nnone\nlate\nlate\njob 1 one\nlast\n");
        assert!(world.socket(alice).closed);
    }
}

#[test]
fn who_ended_in_the_turn_in_which_a_job_comes_does_not_get_it() {
    let mut world = World::new();
    let (alice, bob, carol) = (world.connect(PLAIN), world.connect(PLAIN), world.connect(PLAIN));
    world.ask(alice, "wait q 60000\n");
    world.ask(bob, "wait q 60000\n");
    world.send(carol, "put q one\n");
    world.turn();
    world.cut(alice);
    world.settle();
    assert_eq!((world.hear(alice), world.hear(bob)), (String::new(), "job 1 one\n".into()));
}

#[test]
fn what_a_client_had_sent_before_it_went_is_carried_out() {
    let mut world = World::new();
    let alice = world.connect(PLAIN);
    world.settle();
    world.send(alice, "put q one\nput q two\nget q\nkeep q\n");
    world.turn();
    world.cut(alice);
    world.settle();
    assert!(world.socket(alice).closed);
    let bob = world.connect(PLAIN);
    assert_eq!(world.ask(bob, "len q\n"), "len 2 0\n", "but it is given no job");
}

#[test]
fn what_a_client_had_sent_is_read_to_its_end_though_nothing_can_be_written_to_it() {
    let mut world = World::limited(|limits| (limits.turn_bytes_max, limits.output_bytes_max) = (10, 0));
    let (alice, bob) = (world.connect(PLAIN), world.connect(PLAIN));
    world.ask(bob, "put other one\n");
    world.hear(bob);
    world.send(alice, "echo a\nput q one\nget other\nwait q 60000\nput q two\nput q cut");
    world.leave(alice);
    world.settle();
    assert!(world.socket(alice).closed);
    assert_eq!(world.ask(bob, "len q\nlen other\n"), "len 2 0\nlen 1 0\n");
}

#[test]
fn whoever_cannot_be_written_to_and_never_ends_is_given_up() {
    let mut world = World::new();
    let alice = world.connect(PLAIN);
    world.settle();
    world.lose(alice);
    world.settle();
    world.pass(29_999);
    assert!(!world.socket(alice).closed);
    world.pass(1);
    assert!(world.socket(alice).closed);
}

#[test]
fn for_who_is_gone_no_listing_is_made() {
    let mut world = World::limited(|limits| limits.output_bytes_max = 100);
    let (alice, bob) = (world.connect(PLAIN), world.connect(PLAIN));
    world.ask(bob, &"put q one\n".repeat(100));
    assert_eq!((world.ask(bob, "jobs q\n").as_str(), LISTINGS.get()), ("100 jobs\n", 1));
    world.clog(alice, 0);
    world.ask(alice, &format!("fill 101\n{}put q last\n", "jobs q\n".repeat(1_000)));
    world.cut(alice);
    world.settle();
    assert_eq!(LISTINGS.get(), 1);
    assert_eq!(world.ask(bob, "len q\n"), "len 101 0\n", "all else that it had sent is carried out");
}

#[test]
fn a_lease_of_which_no_byte_was_sent_is_undone() {
    for lateness in [0, 1, 5] {
        let mut world = World::late(lateness);
        let (alice, bob) = (world.connect(PLAIN), world.connect(PLAIN));
        world.ask(bob, "put q one\n");
        world.clog(alice, 0);
        world.ask(alice, "keep q\n");
        world.ask(bob, "wait q 60000\n");
        world.hear(bob);
        world.cut(alice);
        world.settle();
        assert_eq!(world.hear(bob), "job 1 one\n");
    }
}

#[test]
fn a_lease_whose_answer_waits_to_be_durable_is_undone() {
    let mut world = World::late(5);
    let (alice, bob) = (world.connect(PLAIN), world.connect(PLAIN));
    world.ask(bob, "put q one\n");
    world.send(alice, "keep q\n");
    world.turn();
    world.turn();
    assert!(world.broker.commit.in_flight());
    world.cut(alice);
    world.settle();
    assert_eq!(world.hear(alice), "");
    world.hear(bob);
    assert_eq!(world.ask(bob, "get q\n"), "job 1 one\n");
}

#[test]
fn a_lease_of_which_a_byte_was_sent_is_not_undone() {
    let mut world = World::new();
    let (alice, bob) = (world.connect(PLAIN), world.connect(PLAIN));
    world.ask(bob, "put q one\nput q two\n");
    world.hear(bob);
    world.clog(alice, 1);
    assert_eq!(world.ask(alice, "keep q\nkeep q\n"), "j");
    world.cut(alice);
    world.settle();
    assert_eq!(world.ask(bob, "get q\nget q\n"), "job 2 two\nnone\n");
}

#[test]
fn a_lease_that_the_dead_connection_refuses_is_undone() {
    let mut world = World::new();
    let (alice, bob) = (world.connect(PLAIN), world.connect(PLAIN));
    world.ask(bob, "put q one\n");
    world.hear(bob);
    world.send(alice, "keep q\n");
    world.turn();
    // The connection breaks, and the write is the first to notice.
    world.turn_with_broken(alice);
    world.settle();
    assert_eq!(world.ask(bob, "get q\n"), "job 1 one\n");
}

#[test]
fn after_the_last_answer_the_client_may_go_on_sending_for_a_while() {
    let mut world = World::new();
    let alice = world.connect(PLAIN);
    assert_eq!(world.ask(alice, "put q one\nget q\nbye\nput q never\n"), "put 1\njob 1 one\nbye\n");
    assert!(world.socket(alice).finished && !world.socket(alice).closed);
    world.ask(alice, "put q never\n");
    let bob = world.connect(PLAIN);
    assert_eq!(world.ask(bob, "len q\n"), "len 1 0\n", "what alice held ended with her session");
    world.pass(999);
    assert!(!world.socket(alice).closed);
    world.pass(1);
    assert!(world.socket(alice).closed);
    assert_eq!(world.broker.clients(), 1);
}

#[test]
fn a_client_that_ends_after_the_last_answer_is_closed_at_once() {
    let mut world = World::new();
    let alice = world.connect(PLAIN);
    world.ask(alice, "bye\n");
    world.end(alice);
    world.settle();
    assert!(world.socket(alice).closed);
}

#[test]
fn a_client_that_sends_without_end_after_the_last_answer_is_closed() {
    let mut world = World::limited(|limits| {
        limits.body_bytes_max = 100;
        limits.line_extra_bytes_max = 0;
    });
    let alice = world.connect(PLAIN);
    world.ask(alice, &format!("bye\n{}", "x".repeat(180)));
    world.ask(alice, &"x".repeat(199));
    assert!(!world.socket(alice).closed);
    world.ask(alice, "x");
    assert!(world.socket(alice).closed);
}

#[test]
fn a_client_that_never_takes_the_last_answer_is_given_up() {
    let mut world = World::new();
    let (alice, bob) = (world.connect(PLAIN), world.connect(PLAIN));
    world.ask(bob, "put q one\n");
    world.clog(alice, 0);
    world.send(alice, "keep q\n");
    world.end(alice);
    world.settle();
    world.pass(29_999);
    assert!(!world.socket(alice).closed);
    world.pass(1);
    assert!(world.socket(alice).closed);
    world.hear(bob);
    assert_eq!(world.ask(bob, "get q\n"), "job 1 one\n", "no byte of alice's answer was sent");
}

#[test]
fn what_was_received_is_carried_out_even_if_its_answers_are_never_taken() {
    let mut world = World::limited(|limits| limits.output_bytes_max = 10);
    let alice = world.connect(PLAIN);
    world.settle();
    world.clog(alice, 0);
    // The end is noticed, because a client that waits is read ahead.
    world.send(alice, "wait q 60000\nfill 20\nput q one\n");
    world.end(alice);
    world.settle();
    world.pass(30_000);
    assert!(world.socket(alice).closed);
    let bob = world.connect(PLAIN);
    assert_eq!(world.ask(bob, "len q\n"), "len 1 0\n");
}
