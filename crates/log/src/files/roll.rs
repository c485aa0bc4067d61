//! Beginning a new segment, and letting go of old ones.

use super::manifest::Manifest;
use super::segment::{HEADER_BYTES, SegmentHeader, name_of, new_name_of};
use super::spares::Spare;
use super::{FileLog, Segment, volume};
use crate::broken;
use crate::disk::Disk;
use crate::error::LogError;
use crate::log::Position;

impl<D: Disk> FileLog<D> {
    /// Begins a new segment, in which a frame of this length has room.
    pub(super) fn roll(&mut self, frame_bytes: u64, engine_ms: u64) -> Result<(), LogError> {
        // A frame of the new segment proves nothing about the old one; that the new one is there does.
        self.sync()?;
        let (spare, bytes) = self.file_for(frame_bytes, engine_ms)?;
        let Some(held) = &self.held else { return Ok(()) };
        let (manifest, last) = (held.manifest, held.last);
        let id = manifest.newest + 1;
        let header = SegmentHeader::behind(&last, manifest.salt, id, spare.recycled);
        let mut file = volume::open(&mut self.disk, &spare.name)?;
        header.write(&mut file, &spare.name)?;
        volume::sync(&mut file, &spare.name)?;
        // The directory may have to grow for a new name.
        self.in_room_of_spares(|log| volume::rename(&mut log.disk, &spare.name, &name_of(id)))?;
        if !broken("log-no-directory-sync") {
            volume::sync_directory(&mut self.disk)?;
        }
        let manifest = Manifest { newest: id, proven: last.position, ..manifest };
        self.write_manifest(&manifest)?;
        let Some(held) = &mut self.held else { return Ok(()) };
        held.manifest = manifest;
        held.segments.push_back(Segment { header, bytes, used: HEADER_BYTES });
        held.recount();
        held.file = file;
        held.name = name_of(id);
        self.keep_spares(engine_ms);
        Ok(())
    }

    /// A file for a new segment, and its length: a spare, unless the frame is longer than one.
    fn file_for(&mut self, frame_bytes: u64, engine_ms: u64) -> Result<(Spare, u64), LogError> {
        if frame_bytes <= self.spares.capacity() {
            let spare = self.take_spare(engine_ms)?;
            return Ok((spare, self.options.segment_bytes));
        }
        let id = self.held.as_ref().map_or(0, |held| held.manifest.newest + 1);
        let (name, bytes) = (new_name_of(id), HEADER_BYTES + frame_bytes);
        self.in_room_of_spares(|log| log.make_now(&name, bytes))?;
        Ok((Spare::new(name), bytes))
    }

    /// Lets go of segments that hold nothing from this position on. The newest stays.
    pub(super) fn drop_before(&mut self, position: Position) -> Result<(), LogError> {
        let Some(held) = &self.held else { return Ok(()) };
        let count = held.segments.iter().skip(1).take_while(|next| next.header.first <= position).count();
        let more = usize::from(broken("log-drops-too-much") && count > 0 && count + 1 < held.segments.len());
        let count = count + more;
        if count == 0 {
            return Ok(());
        }
        // What is needed of the old segments was written anew to the newest: a power cut must not take both.
        self.sync()?;
        // What the manifest names must be there: it lets go first.
        let Some(held) = &self.held else { return Ok(()) };
        let manifest = Manifest { first: held.manifest.first + count as u64, proven: held.synced, ..held.manifest };
        self.write_manifest(&manifest)?;
        self.cursor = None;
        let Some(held) = &mut self.held else { return Ok(()) };
        held.manifest = manifest;
        let dropped: Vec<Segment> = held.segments.drain(..count).collect();
        held.recount();
        for segment in dropped {
            self.let_go(&name_of(segment.header.id), segment.bytes)?;
        }
        volume::sync_directory(&mut self.disk)
    }

    /// Makes a spare of a file that is no longer part of the log, or removes it.
    pub(super) fn let_go(&mut self, name: &str, bytes: u64) -> Result<(), LogError> {
        if bytes != self.options.segment_bytes || !self.spares.wants_old() {
            return volume::remove(&mut self.disk, name);
        }
        let spare = Spare { name: self.spares.new_name(), recycled: true, stale: false };
        match volume::rename(&mut self.disk, name, &spare.name) {
            Ok(()) => {
                self.spares.add(spare);
                Ok(())
            }
            // There is no room for its new name.
            Err(error) if error.may_try_again() => volume::remove(&mut self.disk, name),
            Err(error) => Err(error),
        }
    }
}
