//! A disk without room whose oldest segments are all but whole: much is finished at once, and only newer ones are dead.

use jobyard_engine::ClientId;
use jobyard_log::SyncMode;
use jobyard_sim::disk::SimDisk;
use jobyard_sim::world::Lateness;

use crate::speak::Speaks;
use crate::world::{World, options};

const SEGMENT_BYTES: u64 = 128 << 10;
/// So many jobs are put at a time: they fill whole segments with few frames.
const PUT_AT_ONCE: usize = 8;
const CLIENTS: usize = 8;

struct Crowd {
    world: World,
    clients: Vec<ClientId>,
    /// Their ids, the oldest first.
    jobs: Vec<String>,
}

impl Crowd {
    fn new(lateness: Lateness) -> Self {
        let mut world = World::late(SimDisk::default(), options(SEGMENT_BYTES, SyncMode::Always), lateness);
        world.start().expect("there is room for a new log");
        let clients = (0..CLIENTS).map(|_| world.connect(Speaks::Takeanumber.listener())).collect();
        Crowd { world, clients, jobs: Vec::new() }
    }

    /// Puts a few jobs of this length. Says whether there was room for all of them.
    fn put(&mut self, queue: &str, bytes: usize) -> bool {
        let add = format!("ADD {queue} 999 {}\r\n", "x".repeat(bytes));
        self.world.send(self.clients[0], add.repeat(PUT_AT_ONCE).as_bytes());
        self.world.settle();
        let heard = self.world.hear(self.clients[0]);
        let before = self.jobs.len();
        self.jobs.extend(lines(&heard).filter_map(|line| id_of(&line).map(str::to_owned)));
        self.jobs.len() == before + PUT_AT_ONCE
    }

    /// Every client asks so many things at once. Returns what they were told.
    fn ask(&mut self, each: usize, mut next: impl FnMut() -> Option<String>) -> Vec<String> {
        for &client in &self.clients {
            let asked: String = (0..each).map_while(|_| next()).collect();
            self.world.send(client, asked.as_bytes());
        }
        self.world.settle();
        assert!(self.world.is_running(), "a full disk is no reason to end: {:?}", self.world.failure());
        self.clients
            .clone()
            .into_iter()
            .flat_map(|client| lines(&self.world.hear(client)).collect::<Vec<_>>())
            .collect()
    }

    /// Jobs are taken and given back, so many at once, until even that finds no room.
    fn take_and_give_back(&mut self, each: usize) {
        for _ in 0..100 {
            let taken = self.ask(each, || Some("RESERVE full\r\n".to_owned()));
            let mut ids = taken.iter().filter_map(|line| id_of(line));
            let given = self.ask(each, || Some(format!("RETRY full {}\r\n", ids.next()?)));
            if given.iter().chain(&taken).any(|line| line.contains("disk")) {
                return;
            }
        }
    }
}

/// The id with which an answer begins that is a yes.
fn id_of(line: &str) -> Option<&str> {
    line.strip_prefix('+')?.get(..36)
}

fn lines(heard: &[u8]) -> impl Iterator<Item = String> {
    let lines = heard.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| line.escape_ascii().to_string())
}

#[test]
fn what_makes_room_is_never_refused_however_much_of_it_comes_at_once() {
    for lateness in [Lateness::None, Lateness::Polls(2), Lateness::Sleeps(1)] {
        for (segments, each) in [(10, 20), (30, 300), (35, 1_000)] {
            let mut crowd = Crowd::new(lateness);
            while crowd.world.disk.bytes() < segments * SEGMENT_BYTES {
                assert!(crowd.put("kept", 1_000));
            }
            crowd.jobs.clear();
            let disk = crowd.world.disk.clone();
            disk.set_capacity(Some(disk.bytes() + 12 * SEGMENT_BYTES));
            while crowd.put("full", 100) {}
            // Others take at once whatever is given back.
            disk.set_capacity(Some(disk.bytes()));
            crowd.take_and_give_back(each);
            let mut left = std::mem::take(&mut crowd.jobs).into_iter();
            while left.len() > 0 {
                let done = || Some(format!("DONE full {}\r\n", left.next()?));
                let answers = crowd.ask(each, done);
                let refusals: Vec<_> = answers.iter().filter(|line| !line.starts_with('+')).collect();
                assert!(refusals.is_empty(), "{lateness:?}, {segments} whole, {each} at once: {refusals:?}");
            }
            assert!(crowd.put("full", 100), "{lateness:?}, {segments} whole, {each} at once: jobs are still refused");
        }
    }
}
