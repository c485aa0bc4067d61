//! A log that tells what was submitted to it and when it said that this was durable; and the lives that a server had on it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use jobyard_log::{Batch, Claim, Completion, Extent, FileLog, Log, LogError, Moment, Position, Replayed};
use jobyard_sim::disk::{History, SimDisk};

/// What was submitted as one batch.
#[derive(Debug)]
pub struct Noted {
    pub at: Moment,
    pub payload: Vec<u8>,
}

/// What a log was asked and what it said, where moments are counted by the disk's operations.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    /// All batches that the log should hold, by position; also those of earlier lives.
    pub batches: BTreeMap<Position, Rc<Noted>>,
    /// After how many operations it was told that a position is durable.
    pub durable: Vec<(usize, Position)>,
    /// How much was kept at most.
    pub extent_bytes_max: u64,
    pub truncations: u64,
}

impl Notes {
    /// Up to where it was told that all is durable, after so many operations.
    pub fn durable_at(&self, operations: usize) -> Position {
        let known = self.durable.partition_point(|(at, _)| *at <= operations);
        self.durable[..known].iter().map(|(_, position)| *position).max().unwrap_or(0)
    }
}

/// A log in files that is watched.
pub struct Recorder {
    log: FileLog<SimDisk>,
    notes: Rc<RefCell<Notes>>,
}

impl Recorder {
    pub fn new(log: FileLog<SimDisk>, notes: Rc<RefCell<Notes>>) -> Self {
        Recorder { log, notes }
    }

    fn note_extent(&mut self) {
        let mut notes = self.notes.borrow_mut();
        notes.extent_bytes_max = notes.extent_bytes_max.max(self.log.extent().bytes);
    }
}

impl Log for Recorder {
    fn claim(&mut self, seen_epoch: u64) -> Result<Claim, LogError> {
        let claim = self.log.claim(seen_epoch)?;
        let mut notes = self.notes.borrow_mut();
        // What came after the tail was lost, and nobody was told of it.
        notes.batches.split_off(&(claim.tail + 1));
        notes.durable.push((self.log.disk().operations(), claim.tail));
        Ok(claim)
    }

    fn replay(
        &mut self,
        from: Position,
        bytes: usize,
        each: &mut dyn FnMut(Replayed<'_>),
    ) -> Result<Option<Position>, LogError> {
        self.log.replay(from, bytes, each)
    }

    fn submit(&mut self, epoch: u64, expected_position: Position, batch: Batch<'_>) {
        let noted = Noted { at: batch.at, payload: batch.payload.to_vec() };
        self.notes.borrow_mut().batches.insert(expected_position, Rc::new(noted));
        self.log.submit(epoch, expected_position, batch);
        self.note_extent();
    }

    fn completed(&mut self) -> Option<Completion> {
        let completion = self.log.completed()?;
        if let Completion::Durable(position) = completion {
            self.notes.borrow_mut().durable.push((self.log.disk().operations(), position));
        }
        Some(completion)
    }

    fn truncate_before(&mut self, position: Position) {
        self.notes.borrow_mut().truncations += 1;
        self.log.truncate_before(position);
    }

    fn extent(&self) -> Extent {
        self.log.extent()
    }

    fn tend(&mut self, engine_ms: u64) -> Option<u64> {
        self.log.tend(engine_ms)
    }

    fn close(&mut self) {
        self.log.close();
    }

    fn trouble(&self) -> Option<String> {
        self.log.trouble()
    }
}

/// One life of a server: from its start to its end, clean or not.
#[derive(Clone, Debug)]
pub struct Life {
    pub history: History,
    pub notes: Notes,
}
