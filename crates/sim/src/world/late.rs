//! A log in files that batches reach some polls after they were submitted: until then nothing of them is anywhere but in
//! memory, and nothing else is done to the log. It also counts what it is given, and takes notes if anyone wants them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use jobyard_engine::records;
use jobyard_log::{
    Away, Batch, Claim, Completion, Extent, FileLog, Log, LogError, Moment, Position, Replayed, SyncMode,
};

use super::notes::Notes;
use crate::disk::SimDisk;
use crate::random::Digest;

/// What was submitted: how many records of each kind, and a digest of it all. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct Seen(Rc<RefCell<(BTreeMap<&'static str, u64>, Digest)>>);

impl Seen {
    /// The counts.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.0.borrow().0.clone()
    }

    /// The same whenever the same was submitted.
    #[must_use]
    pub fn digest(&self) -> u64 {
        self.0.borrow().1.value()
    }

    fn note(&self, payload: &[u8]) {
        let (counts, digest) = &mut *self.0.borrow_mut();
        digest.add(0, payload);
        for record in records(payload).flatten() {
            *counts.entry(record.kind).or_default() += 1;
        }
    }
}

/// When batches reach the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lateness {
    /// At once.
    None,
    /// After it was asked so many times what became of them.
    Polls(u32),
    /// After the server has slept so many times; then it is woken.
    Sleeps(u32),
}

impl Lateness {
    fn wakes(self) -> bool {
        matches!(self, Lateness::Sleeps(_))
    }
}

/// The log.
#[derive(Debug)]
pub struct Late {
    log: FileLog<SimDisk>,
    lateness: Lateness,
    waiting: Option<Waiting>,
    seen: Seen,
    notes: Option<(Rc<RefCell<Notes>>, SyncMode)>,
}

/// A batch that has not reached the log.
#[derive(Debug)]
struct Waiting {
    epoch: u64,
    position: Position,
    at: Moment,
    payload: Vec<u8>,
    /// After so many polls, or sleeps, it will.
    left: u32,
    /// The log meanwhile.
    away: Away,
}

impl Late {
    /// Over this log.
    #[must_use]
    pub fn new(log: FileLog<SimDisk>, lateness: Lateness, seen: Seen) -> Self {
        Late { log, lateness, waiting: None, seen, notes: None }
    }

    /// The same, whose notes go there; it is synced like this.
    #[must_use]
    pub fn with_notes(self, notes: Rc<RefCell<Notes>>, sync: SyncMode) -> Self {
        Late { notes: Some((notes, sync)), ..self }
    }

    fn note(&self, what: impl FnOnce(&mut Notes, usize)) {
        if let Some((notes, _)) = &self.notes {
            what(&mut notes.borrow_mut(), self.log.disk().operations());
        }
    }

    fn note_synced(&self, engine_ms: u64) {
        if let Some((notes, sync)) = &self.notes {
            notes.borrow_mut().note_synced(&self.log, *sync, engine_ms);
        }
    }

    /// What became of a batch, if that is known.
    fn outcome(&mut self) -> Option<Completion> {
        let completion = self.log.completed();
        if let Some(Completion::Durable(position)) = completion {
            self.note(|notes, operations| notes.told_durable(operations, position));
        }
        completion
    }

    /// The server sleeps. Whether that lets a batch get on, of which it is woken in the end.
    pub fn server_sleeps(&mut self) -> bool {
        let Some(waiting) = self.waiting.as_mut().filter(|_| self.lateness.wakes()) else { return false };
        waiting.left = waiting.left.saturating_sub(1);
        true
    }

    /// The batch reaches the log. Whether it begins a segment must be as it was foretold.
    fn append(&mut self, epoch: u64, position: Position, batch: Batch<'_>) {
        let foretold = self.log.extent().begins_segment(batch.payload.len());
        self.note(|notes, _| notes.submitted(position, batch));
        self.log.submit(epoch, position, batch);
        self.note_synced(batch.at.engine_ms);
        if self.log.trouble().is_none() {
            let begins = self.log.newest_from() == position;
            assert_eq!(begins, foretold, "batch {position} of {} bytes begins a segment", batch.payload.len());
        }
    }
}

impl Log for Late {
    fn claim(&mut self, seen_epoch: u64) -> Result<Claim, LogError> {
        let claim = self.log.claim(seen_epoch)?;
        self.note(|notes, operations| notes.claimed(operations, claim.tail));
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
        self.seen.note(batch.payload);
        let left = match self.lateness {
            Lateness::None => return self.append(epoch, expected_position, batch),
            Lateness::Polls(polls) => polls,
            Lateness::Sleeps(sleeps) => sleeps,
        };
        self.waiting = Some(Waiting {
            epoch,
            position: expected_position,
            at: batch.at,
            payload: batch.payload.to_vec(),
            left,
            away: Away::new(&self.log, batch.payload.len()),
        });
    }

    fn completed(&mut self) -> Option<Completion> {
        let Some(waiting) = &mut self.waiting else { return self.outcome() };
        if waiting.left > 0 {
            waiting.left -= u32::from(!self.lateness.wakes());
            return None;
        }
        let Waiting { epoch, position, at, payload, mut away, .. } = self.waiting.take()?;
        self.append(epoch, position, Batch { at, payload: &payload });
        let completion = self.outcome();
        let (extent, really) = (away.extent, self.log.extent());
        // That no more room could be found is news; until it is known, a segment's length was promised.
        if really.short == extent.short && self.log.trouble().is_none() {
            assert!(extent.room <= really.room && extent.rest == really.rest, "{extent:?} was told, and is {really:?}");
        }
        if let Some(engine_ms) = away.come_back(&mut self.log) {
            self.note_synced(engine_ms);
        }
        completion
    }

    fn wakes(&self) -> bool {
        self.lateness.wakes()
    }

    fn truncate_before(&mut self, position: Position) {
        self.note(|notes, _| notes.truncations += 1);
        match &mut self.waiting {
            Some(waiting) => waiting.away.truncate_before(position),
            None => self.log.truncate_before(position),
        }
    }

    fn extent(&self) -> Extent {
        self.waiting.as_ref().map_or_else(|| self.log.extent(), |waiting| waiting.away.extent)
    }

    fn tend(&mut self, engine_ms: u64) -> Option<u64> {
        if let Some(waiting) = &mut self.waiting {
            waiting.away.tend(engine_ms);
            return None;
        }
        let next = self.log.tend(engine_ms);
        self.note_synced(engine_ms);
        next
    }

    fn close(&mut self) {
        self.log.close();
    }

    fn shortage(&self) -> Option<String> {
        self.waiting.as_ref().map_or_else(|| self.log.shortage(), |waiting| waiting.away.shortage.clone())
    }

    fn trouble(&self) -> Option<String> {
        self.log.trouble()
    }
}
