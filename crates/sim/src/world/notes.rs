//! What a log was given and when it said that this was durable, for those who cut its disk off anywhere.

use std::collections::BTreeMap;
use std::rc::Rc;

use jobyard_log::{Batch, FileLog, Log, Position, SyncMode};

use crate::disk::SimDisk;

/// What was submitted as one batch.
#[derive(Debug)]
pub struct Noted {
    engine_ms: u64,
    /// Its records.
    pub payload: Vec<u8>,
}

/// What a log was asked and what it said, where moments are counted by the disk's operations.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    /// All batches that the log should hold, by position; also those of earlier lives.
    pub batches: BTreeMap<Position, Rc<Noted>>,
    /// How often the log was told that its beginning is not needed any more.
    pub truncations: usize,
    /// After how many operations it was told that a position is durable.
    durable: Vec<(usize, Position)>,
    /// After how many operations a position had to be safe from a power cut, by the log's own rule.
    synced: Vec<(usize, Position)>,
}

impl Notes {
    /// Up to where it was told that all is durable, after so many operations.
    #[must_use]
    pub fn durable_at(&self, operations: usize) -> Position {
        last_at(&self.durable, operations)
    }

    /// Up to where all had to be safe from a power cut, after so many operations.
    #[must_use]
    pub fn synced_at(&self, operations: usize) -> Position {
        last_at(&self.synced, operations)
    }

    /// The notes of a life that goes on where this one ends: moments are counted anew.
    #[must_use]
    pub fn of_next_life(&self) -> Notes {
        Notes { batches: self.batches.clone(), ..Notes::default() }
    }

    /// The log was claimed, and this is its last position.
    pub(super) fn claimed(&mut self, operations: usize, tail: Position) {
        // What came after the tail was lost, and nobody was told of it.
        self.batches.split_off(&(tail + 1));
        self.durable.push((operations, tail));
        self.synced.push((operations, tail));
    }

    pub(super) fn submitted(&mut self, position: Position, batch: Batch<'_>) {
        let noted = Noted { engine_ms: batch.at.engine_ms, payload: batch.payload.to_vec() };
        self.batches.insert(position, Rc::new(noted));
    }

    pub(super) fn told_durable(&mut self, operations: usize, position: Position) {
        self.durable.push((operations, position));
    }

    /// Takes note of what must be safe from a power cut at this engine time, if all went well.
    pub(super) fn note_synced(&mut self, log: &FileLog<SimDisk>, sync: SyncMode, engine_ms: u64) {
        if log.trouble().is_some() {
            return;
        }
        let operations = log.disk().operations();
        let is_due = |noted: &Noted| match sync {
            SyncMode::Always => true,
            SyncMode::Interval(ms) => noted.engine_ms + ms <= engine_ms,
            SyncMode::Never => false,
        };
        let due = self.batches.iter().rev().find(|(_, noted)| is_due(noted)).map_or(0, |(position, _)| *position);
        // A segment is synced before the next begins.
        let position = due.max(log.newest_from().saturating_sub(1)).max(self.synced_at(operations));
        self.synced.push((operations, position));
    }
}

fn last_at(told: &[(usize, Position)], operations: usize) -> Position {
    let known = told.partition_point(|(at, _)| *at <= operations);
    told[..known].last().map_or(0, |(_, position)| *position)
}
