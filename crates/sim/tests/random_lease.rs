//! workq's lease over several names rolls the dice anew for each command, however many come in one packet: what is left to
//! chance does not depend on how the input is cut.

use jobyard_sim::transcript::{Cut, SimWorld, Transcript, World};

const QUEUES: [&str; 3] = ["a", "b", "c"];
const LEASES: usize = 3_000;
/// So many that none of the queues is ever empty: then each lease has all three to choose from.
const JOBS_EACH: usize = LEASES / 2;

#[test]
fn leases_in_one_packet_are_spread_evenly() {
    check_even(&taken(LEASES, Cut::Whole));
}

#[test]
fn leases_in_packets_of_their_own_are_spread_evenly() {
    check_even(&taken(1, Cut::Whole));
}

/// Turns in which no command comes, or several, leave the dice as they are.
#[test]
fn the_same_leases_take_the_same_jobs_however_they_are_cut() {
    let whole = taken(LEASES, Cut::Whole);
    for (packet, cut) in [(1, Cut::Whole), (30, Cut::Whole), (1, Cut::Bytes), (100, Cut::Random(1))] {
        assert!(taken(packet, cut) == whole, "in packets of {packet}, {cut:?}");
    }
}

/// Each queue comes up as often as the others, and each after each. With five standard deviations, honest dice would be
/// called loaded in one seed of a hundred thousand; the seed of the simulated world is fixed.
#[track_caller]
fn check_even(from: &[usize]) {
    assert_eq!(from.len(), LEASES);
    let singles: Vec<_> = (0..3).map(|queue| from.iter().filter(|&&from| from == queue).count()).collect();
    assert!(singles.iter().all(|count| (870..=1_130).contains(count)), "{singles:?}");
    let pairs: Vec<_> =
        (0..9).map(|pair| from.windows(2).filter(|from| **from == [pair / 3, pair % 3]).count()).collect();
    assert!(pairs.iter().all(|count| (247..=420).contains(count)), "{pairs:?}");
}

/// From which queues the leases took their jobs, if so many come in one packet, and packets are read like this.
fn taken(packet: usize, cut: Cut) -> Vec<usize> {
    let transcript = Transcript::parse("transcripts/workq/x.txt", "# Shows.\nalice> lease a b c 0").unwrap();
    let mut world = SimWorld::new(&transcript.setup, cut, 0);
    world.open("alice", 0).unwrap();
    let jobs: String = (0..JOBS_EACH * QUEUES.len()).map(add).collect();
    let added = talk(&mut world, &jobs);
    assert_eq!(added, "+OK\r\n".repeat(JOBS_EACH * QUEUES.len()));
    let leases = "lease a b c 0\r\n".repeat(packet);
    let heard: String = (0..LEASES / packet).map(|_| talk(&mut world, &leases)).collect();
    heard.lines().filter_map(queue).collect()
}

fn add(number: usize) -> String {
    let queue = QUEUES[number % QUEUES.len()];
    format!("add 6ba7b810-9dad-41d1-80b4-{number:012x} {queue} 60000 60000 0\r\n\r\n")
}

/// The queue that a line `<id> <name> <size>` names.
fn queue(line: &str) -> Option<usize> {
    let name = line.split(' ').nth(1)?;
    QUEUES.iter().position(|&queue| queue == name)
}

fn talk(world: &mut SimWorld, text: &str) -> String {
    world.send("alice", text.as_bytes()).unwrap();
    world.settle().unwrap();
    let mut heard = Vec::new();
    world.hear("alice", &mut heard, 0).unwrap();
    String::from_utf8(heard).unwrap()
}
