//! One client that moves large bodies beside others that move little.

use super::world::{PLAIN, World};
use crate::event::{Action, Event, Sleep};
use jobyard_engine::ClientId;

const BODY_BYTES: usize = 4 << 20;

/// A world with a client that has begun to send a large body.
fn streaming() -> (World, u64, u64) {
    let mut world = World::new();
    let (large, small) = (world.connect(PLAIN), world.connect(PLAIN));
    world.settle();
    world.ask(small, "echo hello\n");
    world.send(large, &format!("put q {}\n", "x".repeat(BODY_BYTES)));
    (world, large, small)
}

/// How long it takes until the client hears something, while another asks each so many milliseconds.
fn answered_after_ms(world: &mut World, large: u64, small: u64, each_ms: u64) -> u64 {
    for ms in 0..10_000 {
        if ms % each_ms == 0 {
            assert_eq!(world.ask(small, "echo hello\n"), "hello\n", "who moves little is answered at once");
        }
        world.settle();
        if !world.hear(large).is_empty() {
            return ms;
        }
        world.stall(1);
    }
    panic!("the large one is never answered");
}

#[test]
fn who_moves_much_gets_its_share_while_others_are_served() {
    let (mut world, large, small) = streaming();
    let ms = answered_after_ms(&mut world, large, small, 5);
    let bytes_per_ms = BODY_BYTES as u64 / ms;
    assert!((32 << 10..64 << 10).contains(&bytes_per_ms), "{bytes_per_ms} bytes a millisecond");
}

#[test]
fn who_moves_much_is_not_slowed_down_when_nobody_else_asks() {
    let mut world = World::new();
    let large = world.connect(PLAIN);
    assert_eq!(world.ask(large, &format!("put q {}\n", "x".repeat(BODY_BYTES))), "put 1\n");
    let heard = world.ask(large, "get q\n");
    assert_eq!(heard.len(), "job 1 \n".len() + BODY_BYTES);
}

#[test]
fn nobody_rests_for_one_whose_request_is_not_whole() {
    let mut world = World::new();
    let (large, small) = (world.connect(PLAIN), world.connect(PLAIN));
    world.ask(small, "unfinished");
    assert_eq!(world.ask(large, &format!("put q {}\n", "x".repeat(BODY_BYTES))), "put 1\n");
}

#[test]
fn when_the_others_have_gone_quiet_who_rests_goes_on_soon() {
    let (mut world, large, small) = streaming();
    let Sleep::Millis(ms) = world.settle() else { panic!("nobody rests") };
    assert!(ms <= 20, "{ms}");
    let ms = answered_after_ms(&mut world, large, small, 1_000);
    assert!(ms <= 25, "{ms}");
}

#[test]
fn a_large_answer_goes_out_in_portions_and_at_its_share() {
    let mut world = World::new();
    let (large, small) = (world.connect(PLAIN), world.connect(PLAIN));
    assert_eq!(world.ask(large, &format!("put q {}\n", "x".repeat(BODY_BYTES))), "put 1\n");
    world.stall(1_000);
    world.ask(small, "echo hello\n");
    world.send(large, "get q\n");
    let (mut heard, mut portion_max) = (0, 0);
    for ms in 0.. {
        if ms % 5 == 0 {
            assert_eq!(world.ask(small, "echo hello\n"), "hello\n");
        }
        loop {
            let sleep = world.turn();
            let portion = world.hear(large).len();
            (heard, portion_max) = (heard + portion, portion_max.max(portion));
            if portion == 0 && sleep != Sleep::No && world.actions.is_empty() {
                break;
            }
        }
        if heard == "job 1 \n".len() + BODY_BYTES {
            assert!((64..=128).contains(&ms), "{ms}");
            break;
        }
        world.stall(1);
    }
    // Two portions, for a turn of its own comes between two looks.
    assert_eq!(portion_max, 256 << 10);
}

#[test]
fn small_requests_of_who_moves_much_do_not_rest() {
    let (mut world, large, small) = streaming();
    answered_after_ms(&mut world, large, small, 5);
    world.ask(small, "echo hello\n");
    assert_eq!(world.ask(large, "echo hello\n"), "hello\n");
}

#[test]
fn a_stop_lets_nobody_rest() {
    let (mut world, large, small) = streaming();
    world.settle();
    world.ask(small, "echo hello\n");
    assert_eq!(world.hear(large), "");
    world.tell(Event::Stop);
    world.turn();
    let reads = |action: &Action| matches!(action, Action::Read { client, .. } if *client == ClientId(large));
    assert!(world.actions.iter().any(reads), "{:?}", world.actions);
}
