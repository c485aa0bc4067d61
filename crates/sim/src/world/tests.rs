use jobyard_broker::Listening;
use jobyard_engine::Limits;
use jobyard_protocols::{Options as ListenerOptions, find};

use super::*;

const PUT: &[u8] = b"{\"request\":\"put\",\"queue\":\"q\",\"job\":{\"is\":\"there\"},\"pri\":1}\n";
const GET: &[u8] = b"{\"request\":\"get\",\"queues\":[\"q\"]}\n";

/// A server that speaks Job Centre and workq.
fn world() -> World {
    let listening = |name| Listening {
        listener: find(name).expect("it is in the table"),
        options: ListenerOptions::parse("", &[]).expect("none is given"),
    };
    let listeners = ["jobcentre", "workq"].map(listening).to_vec();
    let config = Config { limits: Limits::default(), listeners, seed: 1, drain_timeout_ms: 5_000, ..Config::default() };
    let mut world = World::new(Setup { config, log: Options::new(1), lateness: Lateness::None }, 1);
    world.start().expect("the disk is empty");
    world
}

fn heard(world: &mut World, client: ClientId) -> String {
    world.hear(client).iter().map(|chunk| chunk.bytes.escape_ascii().to_string()).collect()
}

#[test]
fn nothing_is_done_during_a_stall_and_all_of_it_afterwards() {
    let mut world = world();
    let slow = Manners { piece_bytes_max: 1, delay: 1_000_000, taken_bytes_max: 0 };
    let client = world.connect(0, slow);
    world.send(client, PUT);
    let (monotonic_ms, wall_ms) = (world.clock.monotonic_ms, world.clock.wall_ms);
    let turns = world.turns();
    world.stall(3_000, false);
    assert_eq!((world.turns(), world.elapsed_ms()), (turns, 3_000));
    assert_eq!((world.clock.monotonic_ms, world.clock.wall_ms), (monotonic_ms + 3_000, wall_ms + 3_000));
    assert_eq!(heard(&mut world, client), "");
    // Slow as it was to send, all of it is there.
    while world.turn() {}
    assert_ne!(heard(&mut world, client), "");
}

#[test]
fn time_that_passes_stops_at_each_deadline() {
    let mut world = world();
    let client = world.connect(1, Manners::PLAIN);
    world.send(client, b"lease q 2000\r\n");
    world.pass(10_000).expect("it comes to rest");
    let chunks = world.hear(client);
    assert_eq!(chunks.len(), 1, "{chunks:?}");
    assert!((2_000..=2_001).contains(&chunks[0].at_ms), "{chunks:?}");
}

#[test]
fn who_closes_with_answers_unread_resets() {
    for (reading, jobs) in [(true, 2), (false, 1)] {
        let mut world = world();
        let client = world.connect(0, Manners::PLAIN);
        world.set_reading(client, reading);
        world.send(client, PUT);
        world.rest().expect("it comes to rest");
        world.send(client, PUT);
        world.part(client, Parting::Close);
        world.rest().expect("it comes to rest");
        assert_eq!(world.clients(), 0);
        let last = world.connect(0, Manners::PLAIN);
        world.send(last, &GET.repeat(3));
        world.rest().expect("it comes to rest");
        let answers = heard(&mut world, last);
        assert_eq!(answers.matches("there").count(), jobs, "what was under way is lost in a reset: {answers}");
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let digest = |seed| {
        let mut world = world();
        world.random = seed;
        let client = world.connect(0, Manners { piece_bytes_max: 3, delay: 2, taken_bytes_max: 2 });
        world.send(client, PUT);
        world.send(client, GET);
        world.rest().expect("it comes to rest");
        world.crash(Crash::Kill);
        world.digest()
    };
    assert_eq!(digest(1), digest(1));
    assert_ne!(digest(1), digest(2));
}
