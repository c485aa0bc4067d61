//! A log in files that batches reach some polls after they were submitted: until then nothing of them is anywhere but in
//! memory. It also counts what it is given.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use jobyard_engine::records;
use jobyard_log::{Batch, Claim, Completion, Extent, FileLog, Log, LogError, Moment, Position, Replayed};

use crate::disk::SimDisk;

/// How many records of each kind were submitted. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct Seen(Rc<RefCell<BTreeMap<&'static str, u64>>>);

impl Seen {
    /// The counts.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.0.borrow().clone()
    }

    fn note(&self, payload: &[u8]) {
        let mut counts = self.0.borrow_mut();
        for record in records(payload).flatten() {
            *counts.entry(record.kind).or_default() += 1;
        }
    }
}

/// The log.
#[derive(Debug)]
pub struct Late {
    log: FileLog<SimDisk>,
    lateness: u32,
    waiting: Option<Waiting>,
    seen: Seen,
}

/// A batch that has not reached the log.
#[derive(Debug)]
struct Waiting {
    epoch: u64,
    position: Position,
    at: Moment,
    payload: Vec<u8>,
    polls_left: u32,
}

impl Late {
    /// Over this log.
    #[must_use]
    pub fn new(log: FileLog<SimDisk>, lateness: u32, seen: Seen) -> Self {
        Late { log, lateness, waiting: None, seen }
    }
}

impl Log for Late {
    fn claim(&mut self, seen_epoch: u64) -> Result<Claim, LogError> {
        self.log.claim(seen_epoch)
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
        self.seen.note(batch.payload);
        if self.lateness == 0 {
            return self.log.submit(epoch, expected_position, batch);
        }
        let (at, payload) = (batch.at, batch.payload.to_vec());
        let polls_left = self.lateness;
        self.waiting = Some(Waiting { epoch, position: expected_position, at, payload, polls_left });
    }

    fn completed(&mut self) -> Option<Completion> {
        if let Some(waiting) = &mut self.waiting {
            if waiting.polls_left > 0 {
                waiting.polls_left -= 1;
                return None;
            }
            let Waiting { epoch, position, at, payload, .. } = self.waiting.take()?;
            self.log.submit(epoch, position, Batch { at, payload: &payload });
        }
        self.log.completed()
    }

    fn truncate_before(&mut self, position: Position) {
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

    fn shortage(&self) -> Option<String> {
        self.log.shortage()
    }

    fn trouble(&self) -> Option<String> {
        self.log.trouble()
    }
}
