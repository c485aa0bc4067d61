//! The log in files: segments in one directory, a manifest that names them, and spares for those to come.
//!
//! What is where, and what must stay true of it, is said in `docs/log-format.md`.

mod anew;
mod claim;
mod format;
mod manifest;
mod reader;
mod replay;
mod rewrite;
mod roll;
mod salvage;
mod scan;
mod segment;
mod spares;
mod tail;
#[cfg(test)]
mod test_disk;
#[cfg(test)]
mod tests;

mod volume;

use std::collections::VecDeque;

use crate::broken;
use crate::disk::Disk;
use crate::error::LogError;
use crate::frame::{self, FRAME_HEADER_BYTES, Header};
use crate::log::{Batch, Claim, Completion, Extent, Log, Moment, Position, Replayed};
pub use format::Format;
pub use manifest::Manifest;
pub use reader::{Entry, Found, Hole, Reader, SegmentFacts};
use replay::Cursor;
pub use salvage::{Salvaged, salvage};
use segment::HEADER_BYTES;
pub use segment::SegmentHeader;
use spares::Spares;
pub use tail::Cut;
pub use volume::{ReadDisk, ReadFile};

/// When what was written is synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncMode {
    /// Before a batch is told to be durable.
    Always,
    /// So many milliseconds after it was written, at the latest. A power cut may take what was written since.
    Interval(u64),
    /// When a segment is full, and at the end. A power cut may take what was written since.
    Never,
}

/// How a log is kept.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long a segment's file is.
    pub segment_bytes: u64,
    /// When what was written is synced.
    pub sync: SyncMode,
    /// A random number, not 0, that nobody else knows: with it every frame begins if a new log is made.
    pub salt_for_new: u64,
    /// Formats before the present one that can be read.
    pub older: &'static [Format],
}

impl Options {
    /// The usual: segments of 32 MiB, each batch synced.
    #[must_use]
    pub fn new(salt_for_new: u64) -> Self {
        let segment_bytes = 32 * 1024 * 1024;
        Options { segment_bytes, sync: SyncMode::Always, salt_for_new, older: &[] }
    }

    /// The shortest segment: a header and one small frame.
    const SEGMENT_BYTES_MIN: u64 = HEADER_BYTES + 2 * FRAME_HEADER_BYTES as u64;

    fn within_bounds(self) -> Self {
        let segment_bytes = self.segment_bytes.max(Self::SEGMENT_BYTES_MIN);
        Options { segment_bytes, salt_for_new: self.salt_for_new.max(1), ..self }
    }
}

/// A log that was not written to for so long lets its manifest say that all of it is durable.
const PROVE_MS: u64 = 1_000;

/// A log in the files of one directory.
#[derive(Debug)]
pub struct FileLog<D: Disk> {
    disk: D,
    options: Options,
    /// What is known once the log was claimed.
    held: Option<Held<D::File>>,
    spares: Spares,
    in_flight: Option<Completion>,
    /// Where the next replay goes on.
    cursor: Option<Cursor<D::File>>,
    /// What went wrong. It stays: only another claim may find out what is really there.
    trouble: Option<LogError>,
    /// The frame being written.
    buffer: Vec<u8>,
}

/// A log that was claimed.
#[derive(Debug)]
struct Held<F> {
    /// As it is on disk.
    manifest: Manifest,
    /// All segments; the last is the newest.
    segments: VecDeque<Segment>,
    /// What the frames of those before the newest take.
    older_bytes: u64,
    /// The newest segment's file.
    file: F,
    /// That file's name.
    name: String,
    /// What the next frame must follow.
    last: Header,
    /// All up to here is durable.
    synced: Position,
    /// When the first batch after that was written, in engine time.
    unsynced_since: Option<u64>,
    /// When the last batch was written, in engine time.
    appended_ms: u64,
}

/// A segment of the log.
#[derive(Clone, Copy, Debug)]
struct Segment {
    header: SegmentHeader,
    /// How long its file is.
    bytes: u64,
    /// Up to where it holds frames. Of one before the newest its whole length, until it was replayed.
    used: u64,
}

impl Segment {
    /// What its frames take.
    fn frames_bytes(&self) -> u64 {
        self.used.saturating_sub(HEADER_BYTES)
    }
}

impl<F> Held<F> {
    fn newest(&self) -> &Segment {
        self.segments.back().expect("a log has at least one segment")
    }

    /// Segments have come, gone or been read: what they take is counted anew.
    fn recount(&mut self) {
        let older = self.segments.len().saturating_sub(1);
        self.older_bytes = self.segments.iter().take(older).map(Segment::frames_bytes).sum();
    }

    fn newest_mut(&mut self) -> &mut Segment {
        self.segments.back_mut().expect("a log has at least one segment")
    }
}

/// A payload up to this is copied behind its header, which costs less than a second write; a longer one is written from
/// where it is.
const COPIED_BYTES_MAX: u64 = 64 * 1024;
/// In small segments, so much of one: whoever keeps these, as tests do, has both kinds of writes too.
const COPIED_SHARE: u64 = 32;

impl<D: Disk> FileLog<D> {
    /// A log in this directory. Nothing is read or written before it is claimed.
    pub fn open(disk: D, options: Options) -> Self {
        let options = options.within_bounds();
        let spares = Spares::new(options.segment_bytes);
        let buffer = Vec::new();
        FileLog { disk, options, held: None, spares, in_flight: None, cursor: None, trouble: None, buffer }
    }

    /// The directory.
    pub fn disk(&self) -> &D {
        &self.disk
    }

    /// The directory, for files beside the log's.
    pub fn disk_mut(&mut self) -> &mut D {
        &mut self.disk
    }

    /// The directory, when nothing more is asked of the log.
    pub fn into_disk(self) -> D {
        self.disk
    }

    /// The position at which the newest segment begins; 0 before the log is claimed.
    pub fn newest_from(&self) -> Position {
        self.held.as_ref().map_or(0, |held| held.newest().header.first)
    }

    /// Says of damage how much cannot be read in all of the log, not only at this place.
    fn with_loss(&mut self, mut error: LogError) -> LogError {
        if let LogError::Damaged { loss, .. } = &mut error
            && let Ok(all) = Reader::open_damaged(&mut self.disk, self.options.older).and_then(Reader::loss)
            && all.batches > 0
        {
            *loss = all;
        }
        error
    }

    /// Runs what may fail, and remembers if it did.
    fn attempt<T>(&mut self, attempt: impl FnOnce(&mut Self) -> Result<T, LogError>) -> Option<T> {
        if self.trouble.is_some() {
            return None;
        }
        match attempt(self) {
            Ok(done) => Some(done),
            Err(error) => {
                self.trouble = Some(error);
                None
            }
        }
    }

    fn append(&mut self, epoch: u64, expected: Position, batch: &Batch<'_>) -> Result<Completion, LogError> {
        let len = FRAME_HEADER_BYTES as u64 + batch.payload.len() as u64;
        match &self.held {
            Some(held) if held.manifest.epoch == epoch && held.last.position + 1 == expected => {
                if held.newest().used + len > held.newest().bytes {
                    self.roll(len, batch.at.engine_ms)?;
                }
            }
            _ => return Ok(Completion::Fenced),
        }
        let held = self.held.as_mut().expect("it was there");
        let previous_crc = held.last.previous_crc;
        let header = Header { epoch, position: expected, proven: held.synced, previous_crc };
        // Before the sync nothing of a frame can be relied upon, so it may as well be two writes.
        let copied_bytes_max = COPIED_BYTES_MAX.min(self.options.segment_bytes / COPIED_SHARE);
        let is_long = batch.payload.len() as u64 > copied_bytes_max;
        let (copied, rest) = if is_long { (&[][..], batch.payload) } else { (batch.payload, &[][..]) };
        self.buffer.clear();
        self.buffer.reserve(FRAME_HEADER_BYTES + copied.len());
        let crc = frame::encode_header(&header, batch, held.manifest.salt, &mut self.buffer);
        self.buffer.extend_from_slice(copied);
        let offset = held.newest().used;
        volume::write(&mut held.file, &held.name, offset, &self.buffer)?;
        volume::write(&mut held.file, &held.name, offset + self.buffer.len() as u64, rest)?;
        held.newest_mut().used += len;
        held.last = Header { previous_crc: crc, ..header };
        held.unsynced_since.get_or_insert(batch.at.engine_ms);
        held.appended_ms = batch.at.engine_ms;
        if self.options.sync == SyncMode::Always {
            self.sync()?;
        } else {
            self.sync_if_due(batch.at)?;
        }
        Ok(Completion::Durable(expected))
    }

    fn sync_if_due(&mut self, at: Moment) -> Result<(), LogError> {
        match self.sync_due() {
            Some(due) if due <= at.engine_ms => self.sync(),
            _ => Ok(()),
        }
    }

    /// When what was written has to be synced.
    fn sync_due(&self) -> Option<u64> {
        let since = self.held.as_ref()?.unsynced_since?;
        match self.options.sync {
            SyncMode::Always => Some(since),
            SyncMode::Interval(ms) => Some(since.saturating_add(ms)),
            SyncMode::Never => None,
        }
    }

    /// Makes all that was written durable.
    fn sync(&mut self) -> Result<(), LogError> {
        let Some(held) = &mut self.held else { return Ok(()) };
        if held.synced < held.last.position {
            if !broken("log-no-sync") {
                volume::sync(&mut held.file, &held.name)?;
            }
            held.synced = held.last.position;
        }
        held.unsynced_since = None;
        Ok(())
    }

    /// When the manifest is to say that the last batch is durable: soon after the log has come to rest. Until then only
    /// the batch behind it could show that, and damage to it would look like an end that was never finished.
    fn prove_due(&self) -> Option<u64> {
        let held = self.held.as_ref()?;
        let is_told = held.manifest.proven >= held.last.position || held.synced < held.last.position;
        // A manifest takes room for a moment.
        if is_told || self.spares.short() { None } else { Some(held.appended_ms.saturating_add(PROVE_MS)) }
    }

    fn prove_if_due(&mut self, engine_ms: u64) -> Result<(), LogError> {
        if self.prove_due().is_none_or(|due| due > engine_ms) {
            return Ok(());
        }
        let Some(held) = &self.held else { return Ok(()) };
        let manifest = Manifest { proven: held.synced, ..held.manifest };
        self.write_manifest(&manifest)?;
        if let Some(held) = &mut self.held {
            held.manifest = manifest;
        }
        Ok(())
    }

    fn close_clean(&mut self) -> Result<(), LogError> {
        self.sync()?;
        self.collect_spare(true, 0);
        let Some(held) = &self.held else { return Ok(()) };
        let manifest = Manifest { clean: true, proven: held.last.position, ..held.manifest };
        self.write_manifest(&manifest)?;
        // Whoever goes on writing would write to a log that is marked as ended.
        self.held = None;
        Ok(())
    }

    /// Makes this the manifest, if need be in the room of a spare.
    fn write_manifest(&mut self, manifest: &Manifest) -> Result<(), LogError> {
        self.in_room_of_spares(|log| manifest.write(&mut log.disk))
    }

    /// Does something for which there may be no room; if there is none, once more for each spare that can be given up.
    fn in_room_of_spares<T>(&mut self, mut what: impl FnMut(&mut Self) -> Result<T, LogError>) -> Result<T, LogError> {
        loop {
            match what(self) {
                Err(error) if error.may_try_again() && self.spares.give_up_one(&mut self.disk, &error)? => {}
                done => return done,
            }
        }
    }
}

impl<D: Disk> Log for FileLog<D> {
    fn claim(&mut self, seen_epoch: u64) -> Result<Claim, LogError> {
        self.take_over(seen_epoch).map_err(|error| self.with_loss(error))
    }

    fn replay(
        &mut self,
        from: Position,
        bytes: usize,
        each: &mut dyn FnMut(Replayed<'_>),
    ) -> Result<Option<Position>, LogError> {
        self.read_back(from, bytes, each).map_err(|error| self.with_loss(error))
    }

    fn submit(&mut self, epoch: u64, expected_position: Position, batch: Batch<'_>) {
        assert!(self.in_flight.is_none(), "a batch is in flight already");
        self.cursor = None;
        let done = self.attempt(|log| log.append(epoch, expected_position, &batch));
        self.in_flight = Some(done.unwrap_or(Completion::Unknown));
    }

    fn completed(&mut self) -> Option<Completion> {
        self.in_flight.take()
    }

    fn truncate_before(&mut self, position: Position) {
        self.attempt(|log| log.drop_before(position));
    }

    fn extent(&self) -> Extent {
        // Frames alone are counted: what a segment's header takes can never be let go of by writing less.
        let segment_bytes = self.spares.capacity();
        let Some(held) = &self.held else {
            return Extent { bytes: 0, oldest_bytes: 0, segment_bytes, short: false, room: 0, rest: 0, spares: 0 };
        };
        let newest = held.newest();
        let rest = newest.bytes.saturating_sub(newest.used);
        Extent {
            bytes: held.older_bytes + newest.frames_bytes(),
            oldest_bytes: held.segments.front().map_or(0, Segment::frames_bytes),
            segment_bytes,
            short: self.spares.short(),
            room: rest + self.spares.room(),
            rest,
            spares: self.spares.there(),
        }
    }

    fn tend(&mut self, engine_ms: u64) -> Option<u64> {
        self.held.as_ref()?;
        let at = Moment { engine_ms, ..Moment::default() };
        self.attempt(|log| log.sync_if_due(at).and_then(|()| log.prove_if_due(engine_ms)))?;
        self.keep_spares(engine_ms);
        [self.sync_due(), self.prove_due(), self.spares.due(engine_ms)].into_iter().flatten().min()
    }

    fn close(&mut self) {
        self.attempt(Self::close_clean);
    }

    fn shortage(&self) -> Option<String> {
        self.spares.shortage().map(LogError::cause)
    }

    fn trouble(&self) -> Option<String> {
        self.trouble.as_ref().map(ToString::to_string)
    }
}
