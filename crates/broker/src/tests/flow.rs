//! Shares, order and back-pressure.

use jobyard_engine::{Again, Change, ClientId, Command, JobRef, Limits, Look, QueueName, Role, Stage, Why};
use jobyard_log::MemoryLog;

use super::world::{LIVELY, PLAIN, World};
use crate::event::{Action, Sleep};

#[test]
fn a_client_gets_so_many_commands_a_turn_and_the_others_theirs() {
    let mut world = World::limited(|limits| limits.turn_commands_max = 2);
    let alice = world.connect(PLAIN);
    let bob = world.connect(PLAIN);
    world.settle();
    world.send(alice, "echo 1\necho 2\necho 3\necho 4\necho 5\n");
    world.send(bob, "echo one\n");
    world.turn();
    assert_eq!(world.turn(), Sleep::No);
    assert_eq!((world.hear(alice), world.hear(bob)), ("1\n2\n".into(), "one\n".into()));
    world.turn();
    assert_eq!(world.hear(alice), "3\n4\n");
    world.settle();
    assert_eq!(world.hear(alice), "5\n");
}

#[test]
fn who_waited_is_written_to_before_the_one_who_put_the_job() {
    let mut world = World::new();
    let (putter, waiting, other) = (world.connect(PLAIN), world.connect(PLAIN), world.connect(PLAIN));
    world.settle();
    world.ask(waiting, "wait q 1000\n");
    world.send(putter, "put q x\n");
    world.send(other, "echo hello\n");
    world.turn();
    world.turn();
    let written = world.actions.iter().filter_map(|action| match action {
        Action::Write(ClientId(id)) => Some(*id),
        _ => None,
    });
    assert_eq!(written.collect::<Vec<_>>(), [waiting, putter, other]);
    assert_eq!(world.hear(waiting), "job 1 x\n");
}

#[test]
fn who_asks_for_much_gets_one_such_command_a_turn_and_the_others_theirs() {
    let mut world = World::limited(|limits| limits.output_bytes_max = usize::MAX);
    let (alice, bob, carol) = (world.connect(PLAIN), world.connect(PLAIN), world.connect(PLAIN));
    world.settle();
    world.send(alice, "fill 7000000\nfill 7000000\n");
    world.send(bob, "fill 7000000\n");
    world.send(carol, "echo hello\n");
    let answered = |world: &World| {
        [alice, bob, carol].map(|id| world.broker.clients.get(ClientId(id)).map_or(0, |client| client.output.end()))
    };
    world.turn();
    for expected in [[7_000_000, 0, 0], [7_000_000, 7_000_000, 0], [14_000_000, 7_000_000, 6]] {
        world.turn();
        assert_eq!(answered(&world), expected, "in turn, and each turn ends soon");
    }
}

#[test]
fn who_is_answered_at_length_gets_so_many_bytes_a_turn_and_the_others_theirs() {
    let mut world = World::limited(|limits| limits.turn_bytes_max = 100);
    let (alice, bob) = (world.connect(PLAIN), world.connect(PLAIN));
    world.settle();
    world.send(alice, "fill 60\nfill 60\nfill 60\nfill 60\nfill 60\n");
    world.send(bob, "echo hello\n");
    let answered = |world: &World| [alice, bob].map(|id| world.broker.clients.get(ClientId(id)).unwrap().output.end());
    world.turn();
    for expected in [[120, 6], [240, 6], [300, 6]] {
        world.turn();
        assert_eq!(answered(&world), expected);
    }
}

#[test]
fn no_lease_ends_before_what_its_holder_sent_in_time_had_its_turn() {
    let mut world = World::limited(|limits| limits.output_bytes_max = usize::MAX);
    let (alice, bob, carol) = (world.connect(PLAIN), world.connect(PLAIN), world.connect(PLAIN));
    world.ask(bob, "put q one\n");
    assert_eq!(world.ask(bob, "lease q 1000\n"), "job 1 one\n");
    world.ask(carol, "await-lease q 60000\n");
    world.send(alice, &"fill 7000000\n".repeat(5));
    world.send(bob, "rm 1\n");
    world.stall(5_000);
    world.settle();
    assert_eq!(world.hear(bob), "done\n");
    assert_eq!(world.hear(carol), "", "the job was not put back before it was removed");
}

#[test]
fn those_who_were_not_done_go_on_in_turn() {
    let mut world = World::limited(|limits| limits.turn_commands_max = 1);
    let (alice, bob) = (world.connect(PLAIN), world.connect(PLAIN));
    world.settle();
    world.send(alice, "put q a1\nput q a2\nput q a3\n");
    world.send(bob, "put q b1\nput q b2\n");
    world.settle();
    assert_eq!(world.hear(alice), "put 1\nput 3\nput 5\n");
    assert_eq!(world.hear(bob), "put 2\nput 4\n");
}

#[test]
fn a_read_asks_for_one_share() {
    let mut world = World::limited(|limits| limits.turn_bytes_max = 10);
    let alice = world.connect(PLAIN);
    world.settle();
    world.send(alice, "echo a rather long line\n");
    world.turn();
    assert!(matches!(world.actions[..], [Action::Read { at_most: 10, .. }]), "{:?}", world.actions);
    world.settle();
    assert_eq!(world.hear(alice), "a rather long line\n");
}

#[test]
fn many_readers_share_the_room_for_unfinished_input() {
    let mut world = World::limited(|limits| limits.input_bytes_max = 20_000);
    let clients: Vec<u64> = (0..4).map(|_| world.connect(PLAIN)).collect();
    world.settle();
    clients.iter().for_each(|&client| world.send(client, "echo x\n"));
    world.turn();
    assert_eq!(world.actions.len(), 4);
    assert!(world.actions.iter().all(|action| matches!(action, Action::Read { at_most: 5_000, .. })));
}

#[test]
fn a_command_behind_one_that_waits_waits_for_it() {
    let mut world = World::new();
    let (alice, bob) = (world.connect(PLAIN), world.connect(PLAIN));
    assert_eq!(world.ask(alice, "wait q 60000\necho after\n"), "");
    assert_eq!(world.ask(bob, "put q one\n"), "put 1\n");
    assert_eq!(world.hear(alice), "job 1 one\nafter\n");
}

#[test]
fn a_client_that_waits_is_read_a_line_ahead_and_no_further() {
    let mut world = World::limited(|limits| {
        (limits.turn_bytes_max, limits.body_bytes_max, limits.line_extra_bytes_max) = (64, 100, 100);
    });
    let alice = world.connect(PLAIN);
    world.ask(alice, "wait q 60000\n");
    world.ask(alice, &"echo x\n".repeat(100));
    let held = world.broker.clients.counted.input_bytes;
    assert!((200..=264).contains(&held), "{held}");
    world.pass(60_000);
    assert_eq!(world.hear(alice), format!("none\n{}", "x\n".repeat(100)));
}

#[test]
fn who_does_not_take_its_output_is_not_decoded_until_it_does() {
    let mut world = World::limited(|limits| limits.output_bytes_max = 100);
    let alice = world.connect(PLAIN);
    world.settle();
    world.clog(alice, 0);
    let heard = world.ask(alice, "fill 101\nput q one\n");
    assert_eq!(heard, "");
    let bob = world.connect(PLAIN);
    assert_eq!(world.ask(bob, "get q\n"), "none\n", "alice's put was not carried out");
    world.send(alice, "put q two\n");
    assert_eq!(world.settle(), Sleep::Forever);
    assert_eq!(world.socket(alice).unread(), "put q two\n");
    world.unclog(alice);
    world.settle();
    assert_eq!(world.hear(alice), format!("{}put 1\nput 2\n", ".".repeat(101)));
}

#[test]
fn output_goes_out_in_the_portions_that_the_kernel_takes() {
    let mut world = World::new();
    let alice = world.connect(PLAIN);
    world.settle();
    world.clog(alice, 4);
    assert_eq!(world.ask(alice, "echo abcdef\n"), "abcd");
    assert_eq!(world.ask(alice, "echo ghi\n"), "");
    world.clog(alice, 3);
    world.tell(crate::Event::Writable(ClientId(alice)));
    world.settle();
    assert_eq!(world.hear(alice), "ef\n");
    world.unclog(alice);
    world.settle();
    assert_eq!(world.hear(alice), "ghi\n");
}

#[test]
fn one_client_too_many_is_told_so_and_closed() {
    let mut world = World::limited(|limits| limits.clients_max = 1);
    let alice = world.connect(PLAIN);
    let bob = world.connect(PLAIN);
    world.settle();
    assert!(world.socket(bob).finished && !world.socket(alice).finished);
    assert_eq!(world.hear(bob), "Too many clients\n");
    world.cut(alice);
    let carol = world.connect(PLAIN);
    world.settle();
    assert!(world.socket(carol).finished, "alice's place is free only in the next turn");
    let dave = world.connect(PLAIN);
    assert_eq!(world.ask(dave, "echo hello\n"), "hello\n");
}

#[test]
fn of_many_clients_too_many_only_some_are_told() {
    let mut world = World::limited(|limits| limits.clients_max = 0);
    let ids: Vec<u64> = (0..40).map(|_| world.connect(PLAIN)).collect();
    world.settle();
    let told = ids.iter().filter(|&&id| !world.hear(id).is_empty()).count();
    assert_eq!(told, 32);
    world.pass(1_000);
    assert!(ids.iter().all(|&id| world.socket(id).closed));
}

#[test]
fn of_too_much_unfinished_input_the_largest_goes() {
    let mut world = World::limited(|limits| limits.input_bytes_max = 1_000);
    let (alice, bob) = (world.connect(PLAIN), world.connect(PLAIN));
    assert_eq!(world.ask(alice, &"a".repeat(400)), "");
    assert_eq!(
        world.ask(bob, &format!("put q one\nget q\n{}", "b".repeat(601))),
        "put 1\njob 1 one\nToo much unfinished input\n"
    );
    assert!(world.socket(bob).finished && !world.socket(alice).finished);
    assert_eq!(world.broker.clients.counted.input_bytes, 400);
    let carol = world.connect(PLAIN);
    assert_eq!(world.ask(carol, "get q\n"), "job 1 one\n", "what bob held ended with his session");
}

#[test]
fn what_a_codec_keeps_of_an_unfinished_request_counts_too() {
    let mut world = World::limited(|limits| limits.input_bytes_max = 1_000);
    let (alice, bob) = (world.connect(PLAIN), world.connect(PLAIN));
    world.ask(alice, &format!("hoard\n{}", "a".repeat(600)));
    assert_eq!(world.broker.clients.counted.input_bytes, 600);
    world.ask(bob, &"b".repeat(401));
    assert!(world.socket(alice).finished && !world.socket(bob).finished);
    assert_eq!(world.broker.clients.counted.input_bytes, 401);
}

#[test]
fn a_batch_that_is_full_is_submitted_before_more_is_carried_out() {
    let mut world = World::open(Limits { turn_bytes_max: 32 << 20, ..Limits::default() }, MemoryLog::new(7, 10));
    let (alice, bob) = (world.connect(PLAIN), world.connect(PLAIN));
    world.settle();
    world.send(bob, "put q small\n");
    world.turn();
    world.turn();
    assert!(world.broker.commit.in_flight());
    world.send(alice, &format!("put q {}\nput q after\n", "x".repeat(17 << 20)));
    world.turn();
    world.turn();
    let full = world.broker.engine.records().len();
    assert!(full > 17 << 20);
    world.send(bob, "put q more\n");
    world.turn();
    world.turn();
    assert_eq!(world.broker.engine.records().len(), full, "nothing more is decided meanwhile");
    world.settle();
    assert_eq!((world.hear(alice), world.hear(bob)), ("put 2\nput 3\n".into(), "put 1\nput 4\n".into()));
}

#[test]
fn above_four_fifths_of_the_memory_enqueues_are_slowed_and_above_95_percent_refused() {
    const MEMORY: usize = 200_000;
    let mut world = World::limited(|limits| limits.memory_bytes_max = MEMORY);
    let alice = world.connect(PLAIN);
    let body = "x".repeat(200);
    let mut slow = 0;
    // The first makes the queue as well.
    world.ask(alice, &format!("put q {body}\n"));
    let before = world.broker.memory_bytes();
    world.ask(alice, &format!("put q {body}\n"));
    let one_job = world.broker.memory_bytes() - before;
    let mut slowed_at = 0;
    let (refused, refused_at) = loop {
        let used = world.broker.memory_bytes();
        let heard = world.ask(alice, &format!("put q {body}\necho behind\n"));
        if heard.is_empty() {
            slow += 1;
            if slow == 1 {
                slowed_at = used;
                let bob = world.connect(PLAIN);
                assert_eq!(world.ask(bob, "echo free\nwait other 60000\n"), "free\n");
                world.ask(alice, "put other x\n");
                assert!(world.hear(bob).starts_with("job "), "who takes a job is not slowed");
            }
            world.pass(100);
            let heard = world.hear(alice);
            assert!(heard.starts_with("put ") && heard.contains("\nbehind\n"), "{heard}");
        } else if !heard.starts_with("put ") {
            break (heard, used);
        }
    };
    assert!(slow > 0);
    for (used, percent) in [(slowed_at, 80), (refused_at, 95)] {
        let threshold = MEMORY / 100 * percent;
        assert!(used.abs_diff(threshold) <= one_job, "{used} bytes, not {threshold}, and a job takes {one_job}");
    }
    assert_eq!(refused, "OutOfMemory\nbehind\n");
    let freed: String = (1..=600).map(|number| format!("rm {number}\n")).collect();
    world.ask(alice, &freed);
    assert!(world.ask(alice, "put q small\n").starts_with("put "));
}

#[test]
fn who_waits_for_a_queue_that_is_not_there_is_served_although_there_was_no_memory() {
    let mut world = World::limited(|limits| limits.memory_bytes_max = 60_000);
    let (alice, bob, carol) = (world.connect(PLAIN), world.connect(PLAIN), world.connect(PLAIN));
    while world.ask(alice, "put q x\n") != "OutOfMemory\n" {
        world.pass(100);
        world.hear(alice);
    }
    assert_eq!(world.ask(bob, "wait other 60000\n"), "");
    // There is room for a name, and not for any name.
    let long = "n".repeat(1_000);
    assert_eq!(world.ask(carol, &format!("wait {long} 60000\n")), "OutOfMemory\n");
    assert_eq!(world.ask(carol, &format!("get {long}\n")), "none\n");
    let freed: String = (1..=100).map(|number| format!("rm {number}\n")).collect();
    world.ask(alice, &freed);
    world.ask(alice, "put other x\n");
    assert_eq!(world.hear(bob).matches("job ").count(), 1, "it was put, and someone waits for it");
}

#[test]
fn attending_what_is_there_looking_at_a_short_body_and_what_befalls_a_job_again_take_no_memory() {
    let mut world = World::new();
    let alice = world.connect(PLAIN);
    world.ask(alice, &format!("put q short\nput q {}\n", "long".repeat(2_000)));
    // Of which more is kept than of others.
    assert_eq!(world.ask(alice, &format!("at {} q\n", i64::MAX)), "put 3\n");
    // A little, and a byte more. There is no sixth.
    world.ask(alice, &format!("put q {}\nput q {}\n", "x".repeat(4 << 10), "x".repeat((4 << 10) + 1)));
    let attend = |queue: &[u8]| Command::Attend { queue: QueueName::new(queue), role: Role::Taker, keeps_queue: false };
    let look = |number| Command::Look(Look::Job(JobRef::Number(number)));
    let bury = |number| Command::Bury { job: JobRef::Number(number), urgency: 0 };
    let release = |number, again| Command::Release { job: JobRef::Number(number), again };
    let revive = |number| Command::ReviveJob { job: JobRef::Number(number) };
    let again = Some(Again { urgency: 0, delay_ms: 0 });
    let cases = [
        (attend(b"q"), false),
        (attend(b"new"), true),
        (look(1), false),
        (look(2), true),
        (look(4), false),
        (look(5), true),
        (look(6), false),
        (bury(1), true),
        (bury(3), false),
        (bury(6), false),
        (release(1, again), true),
        (release(1, None), false),
        (release(3, again), false),
        (revive(1), true),
        (revive(3), false),
        (Command::Revive { queue: QueueName::new(b"q"), count_max: 1 }, true),
    ];
    for (command, takes_memory) in cases {
        assert_eq!(world.broker.takes_memory(&command), takes_memory, "{command:?}");
    }
}

#[test]
fn the_sums_over_all_clients_return_to_nothing() {
    let mut world = World::new();
    let clients: Vec<u64> = (0..3).map(|_| world.connect(LIVELY)).collect();
    for &client in &clients {
        world.ask(client, "put q one\nunfinished");
        world.cut(client);
    }
    world.settle();
    let counted = world.broker.clients.counted;
    assert_eq!((counted.input_bytes, counted.memory_bytes, world.broker.clients()), (0, 0, 0));
    assert_eq!(world.broker.clients.heartbeats.first(), None);
}

/// Each takes a unit of work, and so does what it writes.
const FILL: &str = "fill 64\n";

/// A world in which nothing but work ends a turn, and so many clients that have sent so much work each.
fn busy_world(clients: usize, fills: usize) -> (World, Vec<u64>) {
    let mut world = World::limited(|limits| {
        (limits.turn_commands_max, limits.turn_bytes_max, limits.output_bytes_max) = (usize::MAX, 8 << 20, 64 << 20);
    });
    let clients: Vec<u64> = (0..clients).map(|_| world.connect(PLAIN)).collect();
    world.ask(clients[0], &"put q x\n".repeat(1_000));
    for &client in &clients {
        world.send(client, &FILL.repeat(fills));
    }
    world.turn();
    (world, clients)
}

/// How much of what these have sent is left to be done.
fn fills_left(world: &World, clients: &[u64]) -> usize {
    let bytes = clients.iter().map(|&client| world.broker.unfinished_bytes(ClientId(client)));
    bytes.sum::<usize>() / FILL.len()
}

#[test]
fn a_turn_does_so_much_whatever_was_done_before() {
    let (mut world, clients) = busy_world(16, 10_000);
    for expected in [110_000, 60_000, 10_000, 0] {
        world.turn();
        assert_eq!(fills_left(&world, &clients), expected);
    }
}

#[test]
fn a_client_has_an_eighth_of_a_turn() {
    let (mut world, clients) = busy_world(1, 15_000);
    for expected in [8_750, 2_500, 0] {
        world.turn();
        assert_eq!(fills_left(&world, &clients), expected);
    }
}

#[test]
fn unfinished_input_may_be_as_long_as_its_limit() {
    let mut world = World::limited(|limits| limits.input_bytes_max = 100_000);
    let limit = world.broker.limits.unfinished_bytes_max();
    let alice = world.connect(PLAIN);
    world.ask(alice, &"x".repeat(limit));
    assert_eq!(world.broker.unfinished_bytes(ClientId(alice)), limit);
    assert!(!world.socket(alice).finished);
    world.ask(alice, "x");
    assert_eq!(world.broker.unfinished_bytes(ClientId(alice)), 0);
    assert!(world.socket(alice).finished);
}

#[test]
fn what_becomes_of_jobs_is_noted_for_who_wants_to_know() {
    let mut world = World::new();
    let alice = world.connect(PLAIN);
    world.settle();
    world.ask(alice, "put q x\n");
    assert_eq!(world.broker.take_changes(), []);
    world.broker.note_changes();
    world.ask(alice, "put q y\n");
    let put = Change { number: 2, from: Stage::None, to: Stage::Ready, why: Why::Put };
    assert_eq!(world.broker.take_changes(), [("Enqueue", put)]);
    assert_eq!(world.broker.take_changes(), []);
}
