//! Taking the log over: finding its end, making sure of it, and tidying up.

use std::collections::VecDeque;

use super::format::{CURRENT, Format};
use super::manifest::Manifest;
use super::scan::Scan;
use super::segment::{
    self, HEADER_BYTES, SegmentHeader, damaged_name_of, id_of, name_of, new_name_of, spare_number_of,
};
use super::spares::Spare;
use super::tail::{self, End};
use super::{FileLog, Held, Segment, volume};
use crate::broken;
use crate::disk::{Disk, DiskFile};
use crate::error::LogError;
use crate::frame::{self, Header, NUMBER_MAX};
use crate::log::Claim;

/// No log has counted so far, not even one that was salvaged: there must be room to count on, or what is written now could not be read
/// again.
const COUNTED_MAX: u64 = NUMBER_MAX / 4 * 3;

impl<D: Disk> FileLog<D> {
    pub(super) fn take_over(&mut self, seen_epoch: u64) -> Result<Claim, LogError> {
        self.forget();
        let names = volume::names(&self.disk)?;
        let found = match Manifest::read(&mut self.disk, CURRENT.version) {
            Err(LogError::Manifest { why }) if !names.iter().any(|name| id_of(name).is_some()) => {
                return Err(LogError::NothingLeft { why });
            }
            found => found?,
        };
        // What is seen may not be durable: whoever wrote it may have ended before its sync. Nothing is done about a manifest
        // that a power cut could still take back.
        if !broken("log-trusts-names") {
            volume::sync_directory(&mut self.disk)?;
        }
        let mut notices = Vec::new();
        let mut manifest = match found {
            Some(manifest) => manifest,
            None => self.found(&names)?,
        };
        let asked = self.options.segment_bytes;
        if manifest.format < CURRENT.version {
            manifest = self.upgrade(&manifest, &mut notices)?;
        } else if let Some(found) = manifest.segment_bytes.filter(|found| *found != asked) {
            manifest = self.resize(&manifest, found, &mut notices)?;
        }
        self.hold(manifest, seen_epoch, notices)
    }

    /// Nothing that was known counts any more.
    fn forget(&mut self) {
        self.collect_spare(true, 0);
        self.held = None;
        self.cursor = None;
        self.in_flight = None;
        self.trouble = None;
    }

    /// Makes a new log, unless there are segments of one.
    fn found(&mut self, names: &[String]) -> Result<Manifest, LogError> {
        let segments: Vec<_> = names.iter().filter(|name| id_of(name).is_some()).collect();
        match segments[..] {
            [] => {}
            // A crash may come before the manifest, which is made last.
            [name] if segment::is_unused_first(&mut self.disk, name)? => volume::remove(&mut self.disk, name)?,
            [name, ..] => return Err(LogError::MissingManifest { segment: name.clone() }),
        }
        self.remove_half_made()?;
        let (id, salt, format) = (1, self.options.salt_for_new, CURRENT.version);
        let new_name = new_name_of(id);
        self.make_now(&new_name, self.options.segment_bytes)?;
        let mut file = volume::open(&mut self.disk, &new_name)?;
        let header = SegmentHeader::behind(&Header::default(), salt, id, false);
        header.write(&mut file, &new_name)?;
        volume::sync(&mut file, &new_name)?;
        volume::rename(&mut self.disk, &new_name, &name_of(id))?;
        volume::sync_directory(&mut self.disk)?;
        let segment_bytes = Some(self.options.segment_bytes);
        let manifest =
            Manifest { format, salt, first: id, newest: id, clean: true, segment_bytes, ..Manifest::default() };
        self.write_manifest(&manifest)?;
        Ok(manifest)
    }

    /// Takes over the log that this manifest names.
    fn hold(&mut self, found: Manifest, seen_epoch: u64, mut notices: Vec<String>) -> Result<Claim, LogError> {
        let mut segments = self.segments_before_newest(&found)?;
        let (header, end) = self.find_end(&found, CURRENT)?;
        let counted = found.newest.max(found.epoch).max(end.last.epoch).max(end.last.position);
        if counted >= COUNTED_MAX {
            return Err(LogError::Manifest { why: "it says what cannot be".into() });
        }
        // Up to here nothing was touched, so that whoever is refused finds all as it was. What is half made goes before
        // anything needs its room.
        self.remove_half_made()?;
        self.find_spares(&header)?;
        self.tidy(&found)?;
        let (last, used) = (end.last, end.used);
        notices.extend(end.cut.as_ref().map(ToString::to_string));
        let (file, header, bytes) = if found.clean && end.cut.is_none() {
            (end.file, header, end.bytes)
        } else {
            let sure = self.make_sure(&end, header)?;
            // The old file gives back its room, which the manifest may need.
            drop(end);
            sure
        };
        segments.push_back(Segment { header, bytes, used });
        let epoch = found.epoch.max(seen_epoch).max(last.epoch) + 1;
        let segment_bytes = Some(self.options.segment_bytes);
        let manifest = Manifest { epoch, proven: last.position, clean: false, segment_bytes, ..found };
        self.write_manifest(&manifest)?;
        let manifest = Manifest { damaged: None, ..manifest };
        let claim = Claim {
            epoch,
            first: segments[0].header.first,
            tail: if broken("log-reuses-position") { last.position.saturating_sub(1) } else { last.position },
            bytes: segments.iter().map(Segment::frames_bytes).sum(),
            notices,
        };
        let (name, synced) = (name_of(manifest.newest), last.position);
        let mut held =
            Held { manifest, segments, older_bytes: 0, file, name, last, synced, unsynced_since: None, appended_ms: 0 };
        held.recount();
        self.held = Some(held);
        self.keep_spares(0);
        self.wait_for_spares(0);
        Ok(claim)
    }

    /// Where the log ends that this manifest names.
    pub(super) fn find_end(
        &mut self,
        manifest: &Manifest,
        format: Format,
    ) -> Result<(SegmentHeader, End<D::File>), LogError> {
        let (file, header) = segment::open(&mut self.disk, (format.version, manifest.salt, manifest.newest))?;
        let end = tail::find(file, &header, format, manifest.proven)?;
        self.check_newest(manifest, format, &end.last)?;
        Ok((header, end))
    }

    /// Refuses a manifest that is older than the log: behind the segment that it calls the newest there is one that goes on
    /// where that one ends. A segment that was begun and not named has no batch.
    fn check_newest(&mut self, manifest: &Manifest, format: Format, last: &Header) -> Result<(), LogError> {
        let name = name_of(manifest.newest.saturating_add(1));
        let Some(file) = volume::open_if_there(&mut self.disk, &name)? else { return Ok(()) };
        let follows = SegmentHeader::read(&file, &name).is_ok_and(|header| {
            header.check(format.version, manifest.salt, manifest.newest + 1).is_ok() && header.follows(last).is_ok()
        });
        let mut scan = Scan::new(file, name.clone(), HEADER_BYTES, format, manifest.salt)?;
        if follows && scan.frame()?.is_ok_and(|frame| frame::follows(&frame, last).is_ok()) {
            let why = format!("it says that {} is the newest segment, but {name} goes on", name_of(manifest.newest));
            return Err(LogError::Manifest { why });
        }
        Ok(())
    }

    /// The segments before the newest, as their headers say. What they hold is for replay to check.
    fn segments_before_newest(&mut self, manifest: &Manifest) -> Result<VecDeque<Segment>, LogError> {
        let mut segments = VecDeque::new();
        for id in manifest.first..manifest.newest {
            let (file, header) = segment::open(&mut self.disk, (CURRENT.version, manifest.salt, id))?;
            let bytes = volume::bytes(&file, &name_of(id))?;
            segments.push_back(Segment { header, bytes, used: bytes });
        }
        Ok(segments)
    }

    /// Copies the newest segment's frames to a fresh file that is synced and takes its place: what was read may have been in
    /// the system's memory only, where a failed sync left it.
    fn make_sure(
        &mut self,
        end: &End<D::File>,
        header: SegmentHeader,
    ) -> Result<(D::File, SegmentHeader, u64), LogError> {
        let bytes = end.bytes.max(self.options.segment_bytes);
        let in_place = header;
        let header = SegmentHeader { recycled: false, ..header };
        let spare = if bytes == self.options.segment_bytes { self.spares.pop() } else { None };
        let copied = match spare {
            // A spare's room is there already, even if the disk is full.
            Some(spare) => {
                let file = volume::open(&mut self.disk, &spare.name)?;
                let copied = copy(file, &spare.name, end, header, bytes);
                if copied.is_err() {
                    self.spares.set_aside(Spare { name: spare.name.clone(), recycled: true, stale: true });
                }
                copied.map(|file| (file, spare.name))
            }
            None => self.copy_to_new(end, header, bytes),
        };
        let name = name_of(header.id);
        match copied {
            Ok((file, copy_name)) if spare_number_of(&copy_name).is_some() => {
                volume::exchange(&mut self.disk, &copy_name, &name)?;
                volume::sync_directory(&mut self.disk)?;
                self.keep_room_of(&copy_name, end)?;
                Ok((file, header, bytes))
            }
            Ok((file, copy_name)) => {
                volume::rename(&mut self.disk, &copy_name, &name)?;
                volume::sync_directory(&mut self.disk)?;
                Ok((file, header, bytes))
            }
            // Without any room the same bytes are written once more to the same place: a power cut can tear nothing.
            Err(error) if error.may_try_again() => {
                volume::remove(&mut self.disk, &new_name_of(header.id)).or_else(missing_is_fine)?;
                let file = volume::open(&mut self.disk, &name)?;
                let bytes = end.bytes;
                Ok((copy(file, &name, end, in_place, bytes)?, in_place, bytes))
            }
            Err(error) => Err(error),
        }
    }

    /// The room of a segment that was copied to a spare is kept: were it let go of, others might take it.
    fn keep_room_of(&mut self, name: &str, end: &End<D::File>) -> Result<(), LogError> {
        // Where names cannot be exchanged it is gone.
        if volume::open_if_there(&mut self.disk, name)?.is_none() {
            return Ok(());
        }
        if end.bytes != self.options.segment_bytes {
            return volume::remove(&mut self.disk, name);
        }
        let (name, stale) = (name.to_owned(), end.cut.is_some());
        self.spares.set_aside(Spare { name, recycled: true, stale });
        Ok(())
    }

    fn copy_to_new(
        &mut self,
        end: &End<D::File>,
        header: SegmentHeader,
        bytes: u64,
    ) -> Result<(D::File, String), LogError> {
        let name = new_name_of(header.id);
        let copied = self.in_room_of_spares(|log| {
            volume::create(&mut log.disk, &name).and_then(|file| copy(file, &name, end, header, bytes))
        });
        copied.map(|file| (file, name))
    }

    fn remove_half_made(&mut self) -> Result<(), LogError> {
        for name in volume::names(&self.disk)?.iter().filter(|name| is_half_made(name)) {
            volume::remove(&mut self.disk, name)?;
        }
        Ok(())
    }

    /// Takes note of the spares that are there; those that do not fit go, and those that cannot be read.
    fn find_spares(&mut self, newest: &SegmentHeader) -> Result<(), LogError> {
        let names = volume::names(&self.disk)?;
        let numbers: Vec<u64> = names.iter().filter_map(|name| spare_number_of(name)).collect();
        self.spares.reset(numbers.iter().max().map_or(1, |max| max.saturating_add(1)));
        for name in names.into_iter().filter(|name| spare_number_of(name).is_some()) {
            match self.judge_spare(&name, newest) {
                Ok(Some(stale)) if self.spares.wants_old() => {
                    self.spares.add(Spare { name, recycled: true, stale });
                }
                _ => volume::remove(&mut self.disk, &name)?,
            }
        }
        Ok(())
    }

    /// Whether a spare may hold what is still to come; nothing if it is of another length.
    fn judge_spare(&mut self, name: &str, newest: &SegmentHeader) -> Result<Option<bool>, LogError> {
        let file = volume::open(&mut self.disk, name)?;
        if volume::bytes(&file, name)? != self.options.segment_bytes {
            return Ok(None);
        }
        segment::is_before(&file, name, newest).map(|is_before| Some(!is_before))
    }

    /// Finishes what a crash interrupted: segments that are no part of the log go, or are kept aside if they were salvaged.
    fn tidy(&mut self, manifest: &Manifest) -> Result<(), LogError> {
        let names = volume::names(&self.disk)?;
        let mut tidied = false;
        for (name, id) in names.iter().filter_map(|name| Some((name, id_of(name)?))) {
            if (manifest.first..=manifest.newest).contains(&id) {
                continue;
            }
            tidied = true;
            if manifest.damaged.is_some_and(|(from, to)| (from..=to).contains(&id)) {
                volume::rename(&mut self.disk, name, &damaged_name_of(id))?;
            } else if id < manifest.first {
                let bytes = volume::bytes(&volume::open(&mut self.disk, name)?, name)?;
                self.let_go(name, bytes)?;
            } else {
                // It may hold frames with positions that are still to come: never a spare.
                volume::remove(&mut self.disk, name)?;
            }
        }
        if tidied { volume::sync_directory(&mut self.disk) } else { Ok(()) }
    }
}

/// Whether a file is one that this log was making. What others keep in the directory is not the log's to remove.
fn is_half_made(name: &str) -> bool {
    let Some(stem) = name.strip_suffix(".new") else { return false };
    let whole = format!("{stem}.log");
    id_of(&whole).is_some() || spare_number_of(&whole).is_some()
}

fn missing_is_fine(error: LogError) -> Result<(), LogError> {
    match error {
        LogError::Disk { kind: std::io::ErrorKind::NotFound, .. } => Ok(()),
        error => Err(error),
    }
}

/// Writes a segment's header and frames, and zeros behind them, and syncs all that.
fn copy<F: DiskFile>(mut to: F, name: &str, end: &End<F>, header: SegmentHeader, bytes: u64) -> Result<F, LogError> {
    const PORTION_BYTES: u64 = 1024 * 1024;
    header.write(&mut to, name)?;
    let mut portion = vec![0; usize::try_from(PORTION_BYTES.min(end.used)).unwrap_or(0)];
    let mut at = HEADER_BYTES;
    while at < end.used {
        let some = usize::try_from((end.used - at).min(PORTION_BYTES)).unwrap_or(portion.len());
        let there = volume::read(&end.file, &name_of(header.id), at, &mut portion[..some])?;
        if there == 0 {
            break;
        }
        volume::write(&mut to, name, at, &portion[..there])?;
        at += there as u64;
    }
    volume::write_zeros(&mut to, name, at, bytes)?;
    volume::sync(&mut to, name)?;
    Ok(to)
}
