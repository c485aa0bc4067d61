//! What a server's state was at every position of its log, told by an engine that saw each record once and in order.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use jobyard_engine::{Engine, History, Limits, Snapshot};
use jobyard_log::Position;
use jobyard_sim::disk::Image;

use jobyard_sim::world::Notes;

/// The state at every position.
#[derive(Debug)]
pub struct Truth {
    /// As a digest, and the largest job number given until then.
    states: BTreeMap<Position, (u64, u64)>,
    live_bytes_max: u64,
}

impl Truth {
    pub fn of(notes: &Notes) -> Truth {
        let mut engine = Engine::new(Limits::default(), 1, 1);
        let (mut number_max, mut live_bytes_max) = (0, 0);
        let mut states = BTreeMap::from([(0, (digest(&engine.snapshot()), 0))]);
        for (position, noted) in &notes.batches {
            engine.replay(&noted.payload, History::Whole).expect("the engine's own records");
            let snapshot = engine.snapshot();
            live_bytes_max = live_bytes_max.max(engine.live_bytes());
            number_max = snapshot.jobs.last().map_or(number_max, |job| number_max.max(job.number));
            states.insert(*position, (digest(&snapshot), number_max));
        }
        let gaps = states.keys().zip(0..).any(|(position, expected)| *position != expected);
        assert!(!gaps, "positions count from 1 without gaps");
        Truth { states, live_bytes_max }
    }

    /// What full records of all that lived at once would have taken, at most.
    pub fn live_bytes_max(&self) -> u64 {
        self.live_bytes_max
    }

    pub fn digest_at(&self, position: Position) -> Option<u64> {
        self.states.get(&position).map(|(digest, _)| *digest)
    }

    pub fn number_max_at(&self, position: Position) -> u64 {
        self.states.get(&position).map_or(0, |(_, number)| *number)
    }
}

/// A number that stands for a state. Bodies are left out of the text: as text they would be long.
pub fn digest(snapshot: &Snapshot) -> u64 {
    let snapshot = snapshot.clone().durable();
    let mut hasher = DefaultHasher::new();
    for job in &snapshot.jobs {
        let mut job = job.clone();
        std::mem::take(&mut job.body).hash(&mut hasher);
        job.result.take().hash(&mut hasher);
        format!("{job:?}").hash(&mut hasher);
    }
    format!("{:?} {:?}", snapshot.queues, snapshot.waiting).hash(&mut hasher);
    hasher.finish()
}

/// A number that stands for what a disk holds.
pub fn digest_of_image(image: &Image) -> u64 {
    let mut hasher = DefaultHasher::new();
    for (name, bytes) in image {
        name.hash(&mut hasher);
        bytes.hash(&mut hasher);
    }
    hasher.finish()
}
