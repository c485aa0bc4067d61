//! The steps of a reader: from frame to frame, over what is damaged, from segment to segment.

use std::collections::{BTreeSet, VecDeque};

use super::{Entry, Found, Hole, SegmentFacts};
use crate::error::{LogError, Loss};
use crate::files::format::{CURRENT, Format, known};
use crate::files::manifest::Manifest;
use crate::files::scan::Scan;
use crate::files::segment::{self, HEADER_BYTES, SegmentHeader, id_of, is_unused_first, name_of};
use crate::files::tail::{self, Cut, Place, Verdict};
use crate::files::volume::{self, ReadDisk, ReadFile};
use crate::frame::{self, Damage, Frame, Header};
use crate::log::{Batch, Moment, Position};

/// Where a reader is. It knows no disk, so that the disk can be used for something else between two steps.
#[derive(Debug)]
pub(in crate::files) struct Walk<F> {
    older: &'static [Format],
    manifest: Result<Manifest, LogError>,
    /// The salt, if it is known.
    salt: Option<u64>,
    /// The ids of the segments that are still to be read, the next one last.
    ids: Vec<u64>,
    current: Option<Current<F>>,
    /// What the next frame must follow, if that is known.
    previous: Option<Header>,
    /// Damage of which it is not known yet how far it goes.
    hole: Option<OpenHole>,
    /// What was found and not given yet.
    queue: VecDeque<Found<'static>>,
}

/// The segment being read.
#[derive(Debug)]
struct Current<F> {
    id: u64,
    scan: Scan<F>,
    format: Format,
    salt: u64,
    recycled: bool,
    /// The position at which the next segment begins, if there is one and it can tell.
    next_first: Option<Position>,
    /// How much of it was given, but not yet passed.
    given: usize,
    /// Whether what is bad was read anew.
    looked_again: bool,
}

/// Damage of which it is not known yet how far it goes.
#[derive(Debug)]
struct OpenHole {
    file: String,
    offset: u64,
    error: LogError,
    /// The position from which on nothing was read, if that is known.
    from: Option<Position>,
    bytes: u64,
}

/// What a step came to.
enum Step {
    Again,
    Batch(Header, Moment),
    End,
}

impl<F: ReadFile> Walk<F> {
    /// At the beginning of the log that the manifest names, or of all segments that are there.
    pub fn begin<D: ReadDisk<File = F>>(disk: &mut D, older: &'static [Format]) -> Result<Self, LogError> {
        let manifest = match Manifest::read(disk, CURRENT.version) {
            Err(error @ (LogError::FormatNewer { .. } | LogError::Disk { .. })) => return Err(error),
            Ok(None) => Err(LogError::NoLog),
            Ok(Some(manifest)) => Ok(manifest),
            Err(error) => Err(error),
        };
        let mut ids: Vec<u64> = match &manifest {
            Ok(manifest) => ids_to_read(manifest, &volume::names(disk)?),
            Err(_) => volume::names(disk)?.iter().filter_map(|name| id_of(name)).collect(),
        };
        ids.sort_unstable_by(|a, b| b.cmp(a));
        let manifest = match (manifest, ids.last()) {
            (Err(LogError::Manifest { why }), None) => return Err(LogError::NothingLeft { why }),
            (Err(error), None) => return Err(error),
            // A first start that was cut off.
            (Err(error @ LogError::NoLog), Some(id)) if ids.len() == 1 && is_unused_first(disk, &name_of(*id))? => {
                return Err(error);
            }
            (Err(LogError::NoLog), Some(id)) => Err(LogError::MissingManifest { segment: name_of(*id) }),
            (manifest, _) => manifest,
        };
        let salt = match &manifest {
            Ok(manifest) => {
                known(manifest.format, older)?;
                Some(manifest.salt)
            }
            Err(_) => any_salt(disk, &ids)?,
        };
        let (current, previous, hole, queue) = (None, None, None, VecDeque::new());
        Ok(Walk { older, manifest, salt, ids, current, previous, hole, queue })
    }

    /// The manifest, unless it is missing or cannot be trusted.
    pub fn manifest(&self) -> Result<&Manifest, &LogError> {
        self.manifest.as_ref()
    }

    /// The next thing there is. Nothing at the end.
    pub fn next<D: ReadDisk<File = F>>(&mut self, disk: &mut D) -> Result<Option<Found<'_>>, LogError> {
        let (header, at) = loop {
            if let Some(found) = self.queue.pop_front() {
                return Ok(Some(found));
            }
            match self.step(disk)? {
                Step::Again => {}
                Step::End => return Ok(None),
                Step::Batch(header, at) => break (header, at),
            }
        };
        let current = self.current.as_ref().expect("a batch is in the segment being read");
        let (segment, file, offset) = (current.id, current.scan.name.as_str(), current.scan.offset());
        let frame = current.scan.ahead(current.given);
        let batch = Batch { at, payload: &frame[current.format.header_bytes..] };
        Ok(Some(Found::Batch(Entry { segment, file, offset, bytes: frame.len() as u64, header, batch })))
    }

    fn step<D: ReadDisk<File = F>>(&mut self, disk: &mut D) -> Result<Step, LogError> {
        let expected = self.expected();
        let Some(current) = &mut self.current else {
            return self.begin_segment(disk);
        };
        current.scan.pass(std::mem::take(&mut current.given));
        if expected.is_some() && current.next_first == expected {
            self.current = None;
            return Ok(Step::Again);
        }
        if self.hole.is_some() {
            return self.seek();
        }
        let follows = |frame: &Frame<'_>| match &self.previous {
            Some(previous) => frame::follows(frame, previous),
            None => Ok(()),
        };
        match current.scan.frame()?.and_then(|frame| follows(&frame).map(|()| frame)) {
            Ok(frame) => {
                let (header, at) = (frame.header, frame.batch.at);
                self.previous = Some(Header { previous_crc: frame.crc, ..header });
                current.given = frame.len;
                current.looked_again = false;
                Ok(Step::Batch(header, at))
            }
            Err(damage) => self.bad(disk, damage),
        }
    }

    /// Up to where the manifest says that all was durable.
    fn proven(&self) -> Position {
        self.manifest.as_ref().map_or(0, |manifest| manifest.proven)
    }

    fn expected(&self) -> Option<Position> {
        self.previous.map(|previous| previous.position + 1)
    }

    /// Begins with the next segment.
    fn begin_segment<D: ReadDisk<File = F>>(&mut self, disk: &mut D) -> Result<Step, LogError> {
        let Some(id) = self.ids.pop() else {
            // Damage that nothing behind it bounds.
            let end = self.expected().unwrap_or(1) + 1;
            self.close_hole(end.max(self.proven() + 1), true);
            return Ok(if self.queue.is_empty() { Step::End } else { Step::Again });
        };
        let name = name_of(id);
        let file = match segment::open_file(disk, id) {
            Ok(file) => file,
            Err(error @ (LogError::MissingSegment { .. } | LogError::SegmentHeader { .. })) => {
                self.check_moved_on(disk, id)?;
                self.open_hole(name, 0, error);
                return Ok(Step::Again);
            }
            Err(error) => return Err(error),
        };
        let header = match SegmentHeader::read_what_can_be(&file, &name)
            .and_then(|header| self.check(&header, id).map(|()| header))
        {
            Ok(header) => Some(header),
            Err(error @ LogError::SegmentHeader { .. }) => {
                self.check_moved_on(disk, id)?;
                self.open_hole(name.clone(), 0, error);
                None
            }
            Err(error) => return Err(error),
        };
        let version = header.map_or_else(|| self.manifest.as_ref().map_or(CURRENT.version, |m| m.format), |h| h.format);
        let format = known(version, self.older)?;
        let Some(salt) = self.salt else { return Ok(Step::Again) };
        let scan = Scan::new(file, name, HEADER_BYTES, format, salt)?.forgiving();
        if let Some(header) = header {
            self.join(&scan.name, &header);
            let facts = SegmentFacts { file: scan.name.clone(), bytes: scan.bytes, header };
            self.queue.push_back(Found::Segment(facts));
        }
        let next_first = self.next_first(disk)?;
        let recycled = header.is_some_and(|header| header.recycled);
        let (given, looked_again) = (0, false);
        self.current = Some(Current { id, scan, format, salt, recycled, next_first, given, looked_again });
        Ok(Step::Again)
    }

    /// Whether it is the header of this segment, as far as that is known.
    fn check(&self, header: &SegmentHeader, id: u64) -> Result<(), LogError> {
        match &self.manifest {
            Ok(manifest) => header.check(manifest.format, manifest.salt, id),
            Err(_) => header.check(header.format, self.salt.unwrap_or(header.salt), id),
        }
    }

    /// The position at which the segment after the one that begins now begins.
    fn next_first<D: ReadDisk>(&self, disk: &mut D) -> Result<Option<Position>, LogError> {
        let Some(&id) = self.ids.last() else { return Ok(None) };
        let header = header_if_there(disk, id)?;
        Ok(header.filter(|header| self.check(header, id).is_ok()).map(|header| header.first))
    }

    /// Goes on at a segment's beginning, and finds out what is missing before it.
    fn join(&mut self, name: &str, header: &SegmentHeader) {
        if self.hole.is_some() {
            self.close_hole(header.first, false);
        } else if let Some(previous) = self.previous
            && let Err(damage) = header.follows(&previous)
        {
            self.open_hole(name.into(), 0, damaged(name, 0, damage));
            self.close_hole(header.first, false);
        }
        self.previous = Some(header.before());
    }

    /// A frame that is not what it must be: read anew, in case someone was writing it; then the end of the log, or damage.
    fn bad<D: ReadDisk<File = F>>(&mut self, disk: &mut D, damage: Damage) -> Result<Step, LogError> {
        let expected = self.expected().unwrap_or(1);
        let (proven, newest) = (self.proven(), self.ids.is_empty());
        let Some(current) = &mut self.current else { return Ok(Step::Again) };
        if !current.looked_again {
            current.looked_again = true;
            current.scan.look_again()?;
            return Ok(Step::Again);
        }
        let Current { id, format, salt, recycled, next_first, .. } = *current;
        let (name, offset, rest) = (current.scan.name.clone(), current.scan.offset(), current.scan.rest()?);
        self.check_moved_on(disk, id)?;
        if newest {
            let place = Place { format, salt, recycled, expected, proven };
            if let Verdict::Tail { bytes, whole } = tail::judge(&rest, &place) {
                let cut = Cut { file: name, offset, bytes, damage, whole };
                self.queue.extend((bytes > 0).then_some(Found::Tail(cut)));
                self.current = None;
                return Ok(Step::Again);
            }
        } else if next_first.is_none() && tail::first_whole(&rest, format, salt, expected).is_none() {
            // This is where the segment ends, for all that is known: the next one has lost its header.
            self.current = None;
            return Ok(Step::Again);
        }
        self.open_hole(name.clone(), offset, damaged(&name, offset, damage));
        Ok(Step::Again)
    }

    /// Looks for the next frame that is whole. If there is none in this segment, the hole goes on.
    fn seek(&mut self) -> Result<Step, LogError> {
        let from = self.expected().unwrap_or(1);
        let Some(current) = &mut self.current else { return Ok(Step::Again) };
        let rest = current.scan.rest()?;
        let found = tail::first_whole(&rest, current.format, current.salt, from);
        let passed = found.map_or_else(|| tail::written_bytes(&rest), |(at, _)| at);
        if let Some(hole) = &mut self.hole {
            hole.bytes += passed as u64;
        }
        match found {
            Some((at, header)) => {
                current.scan.pass(at);
                current.looked_again = false;
                // Nothing is known of the one before it but what it says itself.
                self.previous = Some(Header { position: header.position - 1, ..header });
                self.close_hole(header.position, false);
            }
            None => self.current = None,
        }
        Ok(Step::Again)
    }

    /// Damage begins. If it has begun before, that one goes on.
    fn open_hole(&mut self, file: String, offset: u64, error: LogError) {
        let from = self.expected();
        self.hole.get_or_insert(OpenHole { file, offset, error, from, bytes: 0 });
    }

    /// The next position that can be read is this one; or if `is_end` there is none, and this one is the first that need not
    /// have been there.
    fn close_hole(&mut self, next: Position, is_end: bool) {
        let Some(OpenHole { file, offset, mut error, from, bytes }) = self.hole.take() else { return };
        // Of a log whose beginning is unreadable nobody knows where it began.
        let at_least = is_end || from.is_none();
        let from = from.unwrap_or(next.saturating_sub(1)).max(1);
        let batches = next.saturating_sub(from);
        let lost =
            if batches == 0 { Loss::default() } else { Loss { from, to: next - 1, batches, bytes: 0, at_least } };
        let hole_loss = Loss { bytes, ..lost };
        if let LogError::Damaged { loss, .. } = &mut error {
            *loss = hole_loss;
        }
        self.queue.push_back(Found::Hole(Hole { file, offset, error, loss: hole_loss }));
    }

    /// If the server has let go of this segment meanwhile, it is no wonder that it is not what it was.
    fn check_moved_on<D: ReadDisk>(&self, disk: &mut D, id: u64) -> Result<(), LogError> {
        if self.manifest.is_err() {
            return Ok(());
        }
        match Manifest::read(disk, CURRENT.version) {
            Ok(Some(manifest)) if manifest.first > id => Err(LogError::MovedOn { file: name_of(id) }),
            _ => Ok(()),
        }
    }
}

/// The segments to look for: all that are there, and of those that are missing in a row the first.
fn ids_to_read(manifest: &Manifest, names: &[String]) -> Vec<u64> {
    let range = manifest.first..=manifest.newest;
    let there: BTreeSet<u64> = names.iter().filter_map(|name| id_of(name)).filter(|id| range.contains(id)).collect();
    let may_be_missing = std::iter::once(manifest.first).chain(there.iter().map(|id| id + 1));
    let missing: Vec<u64> = may_be_missing.filter(|id| range.contains(id) && !there.contains(id)).collect();
    there.into_iter().chain(missing).collect()
}

fn damaged(file: &str, offset: u64, damage: Damage) -> LogError {
    LogError::Damaged { file: file.into(), offset, damage, loss: Loss::default() }
}

/// The salt of the first segment that can tell. Later ones may be of a log that was still being made.
fn any_salt<D: ReadDisk>(disk: &mut D, ids: &[u64]) -> Result<Option<u64>, LogError> {
    for id in ids.iter().rev() {
        if let Some(header) = header_if_there(disk, *id)? {
            return Ok(Some(header.salt));
        }
    }
    Ok(None)
}

/// The header of a segment, if there is one that can be read.
fn header_if_there<D: ReadDisk>(disk: &mut D, id: u64) -> Result<Option<SegmentHeader>, LogError> {
    let read = segment::open_file(disk, id).and_then(|file| SegmentHeader::read_what_can_be(&file, &name_of(id)));
    match read {
        Ok(header) => Ok(Some(header)),
        Err(LogError::MissingSegment { .. } | LogError::SegmentHeader { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
