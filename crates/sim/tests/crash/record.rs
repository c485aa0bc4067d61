//! A log that tells what was submitted to it and when it said that this was durable; and the lives that a server had on it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use jobyard_log::{Batch, Claim, Completion, Extent, FileLog, Log, LogError, Position, Replayed, SyncMode};
use jobyard_sim::disk::{History, SimDisk};

/// What was submitted as one batch.
#[derive(Debug)]
pub struct Noted {
    engine_ms: u64,
    pub payload: Vec<u8>,
}

/// What a log was asked and what it said, where moments are counted by the disk's operations.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    /// All batches that the log should hold, by position; also those of earlier lives.
    pub batches: BTreeMap<Position, Rc<Noted>>,
    /// After how many operations it was told that a position is durable.
    pub durable: Vec<(usize, Position)>,
    /// After how many operations a position had to be safe from a power cut, by the log's own rule.
    pub synced: Vec<(usize, Position)>,
    /// How often the log was told that its beginning is not needed any more.
    pub truncations: usize,
}

impl Notes {
    /// Up to where it was told that all is durable, after so many operations.
    pub fn durable_at(&self, operations: usize) -> Position {
        last_at(&self.durable, operations)
    }

    /// Up to where all had to be safe from a power cut, after so many operations.
    pub fn synced_at(&self, operations: usize) -> Position {
        last_at(&self.synced, operations)
    }
}

fn last_at(told: &[(usize, Position)], operations: usize) -> Position {
    let known = told.partition_point(|(at, _)| *at <= operations);
    told[..known].last().map_or(0, |(_, position)| *position)
}

/// A log in files that is watched.
pub struct Recorder {
    log: FileLog<SimDisk>,
    sync: SyncMode,
    notes: Rc<RefCell<Notes>>,
}

impl Recorder {
    pub fn new(log: FileLog<SimDisk>, sync: SyncMode, notes: Rc<RefCell<Notes>>) -> Self {
        Recorder { log, sync, notes }
    }

    /// Takes note of what must be safe from a power cut at this engine time, if it went well.
    fn note_synced(&mut self, engine_ms: u64) {
        if self.log.trouble().is_some() {
            return;
        }
        let operations = self.log.disk().operations();
        let mut notes = self.notes.borrow_mut();
        let is_due = |noted: &Noted| match self.sync {
            SyncMode::Always => true,
            SyncMode::Interval(ms) => noted.engine_ms + ms <= engine_ms,
            SyncMode::Never => false,
        };
        let due = notes.batches.iter().rev().find(|(_, noted)| is_due(noted)).map_or(0, |(position, _)| *position);
        // A segment is synced before the next begins.
        let position = due.max(self.log.newest_from().saturating_sub(1)).max(last_at(&notes.synced, operations));
        notes.synced.push((operations, position));
    }
}

impl Log for Recorder {
    fn claim(&mut self, seen_epoch: u64) -> Result<Claim, LogError> {
        let claim = self.log.claim(seen_epoch)?;
        let mut notes = self.notes.borrow_mut();
        // What came after the tail was lost, and nobody was told of it.
        notes.batches.split_off(&(claim.tail + 1));
        notes.durable.push((self.log.disk().operations(), claim.tail));
        notes.synced.push((self.log.disk().operations(), claim.tail));
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
        let noted = Noted { engine_ms: batch.at.engine_ms, payload: batch.payload.to_vec() };
        self.notes.borrow_mut().batches.insert(expected_position, Rc::new(noted));
        self.log.submit(epoch, expected_position, batch);
        self.note_synced(batch.at.engine_ms);
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
        let next = self.log.tend(engine_ms);
        self.note_synced(engine_ms);
        next
    }

    fn close(&mut self) {
        self.log.close();
    }

    fn shortage(&self) -> Option<String> {
        self.log.shortage()
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
