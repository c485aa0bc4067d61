//! Writing all of a log anew, in place: in the present format, or in segments of another length. Either the old segments are
//! the log, or the new ones are.

use std::io;

use super::format::{CURRENT, known};
use super::reader::{Found, Walk};
use super::rewrite::Rewrite;
use super::segment::{HEADER_BYTES, id_of, name_of, spare_number_of};
use super::{FileLog, Manifest, segment, volume};
use crate::disk::Disk;
use crate::error::{Doing, LogError};

impl<D: Disk> FileLog<D> {
    /// Brings a log of an older format up to date.
    pub(super) fn upgrade(&mut self, old: &Manifest, notices: &mut Vec<String>) -> Result<Manifest, LogError> {
        self.longest_frame()?;
        let (new, batches) = self.write_anew(old, notices)?;
        new.write(&mut self.disk)?;
        let (from, to) = (old.format, CURRENT.version);
        notices.push(format!("brought the log from format {from} to format {to}: {batches} batches"));
        Ok(new)
    }

    /// Gives a log whose segments are of the length `found` such of the length that was asked for. They all have the same:
    /// then the room that one needs can always be that of another which is let go of.
    pub(super) fn resize(
        &mut self,
        old: &Manifest,
        found: u64,
        notices: &mut Vec<String>,
    ) -> Result<Manifest, LogError> {
        let asked = self.options.segment_bytes;
        let longest = self.longest_frame()?;
        // Twice, for a job is written anew with its result, which came with another batch.
        let needed = HEADER_BYTES + 2 * longest;
        if asked < needed {
            return Err(LogError::LengthTooShort { found, asked, needed: needed.min(found) });
        }
        let mut said = Vec::new();
        match self.write_resized(old, &mut said) {
            Ok(new) => {
                new.write(&mut self.disk)?;
                notices.append(&mut said);
                notices.push(format!("wrote the log anew, in segments of {asked} bytes instead of {found}"));
                Ok(new)
            }
            Err(error) if error.is_full() => {
                self.remove_behind(old)?;
                self.remove_spares_made()?;
                Err(LogError::NoRoomForLength { found, asked, why: error.cause() })
            }
            Err(error) => Err(error),
        }
    }

    /// Writes the log anew, and its reserve. Nothing counts of it yet.
    fn write_resized(&mut self, old: &Manifest, notices: &mut Vec<String>) -> Result<Manifest, LogError> {
        let (new, _) = self.write_anew(old, notices)?;
        // The reserve too is there before the old segments go, which have one of their own until then.
        let numbers = volume::names(&self.disk)?.iter().filter_map(|name| spare_number_of(name)).max();
        self.spares.reset(numbers.map_or(1, |max| max.saturating_add(1)));
        self.make_spares(0);
        if let Some(error) = self.spares.shortage() {
            return Err(error.clone());
        }
        Ok(new)
    }

    fn remove_spares_made(&mut self) -> Result<(), LogError> {
        while let Some(spare) = self.spares.pop() {
            volume::remove(&mut self.disk, &spare.name)?;
        }
        Ok(())
    }

    /// Writes all batches anew, each with its old position. Returns the manifest that makes them the log, and how many there
    /// are. The old segments are no part of it, and go with what else is none.
    fn write_anew(&mut self, old: &Manifest, notices: &mut Vec<String>) -> Result<(Manifest, u64), LogError> {
        // A log that goes on behind what its manifest says is refused before anything is touched.
        let (_, end) = self.find_end(old, known(old.format, self.options.older)?)?;
        let last = end.last.position;
        drop(end);
        self.remove_behind(old)?;
        let mut walk = Walk::begin(&mut self.disk, self.options.older)?;
        let (_, first) = segment::open(&mut self.disk, (old.format, old.salt, old.first))?;
        let sizes = (self.options.segment_bytes, self.options.salt_for_new);
        let mut rewrite = Rewrite::begin(&mut self.disk, old.newest + 1, sizes, first.before())?;
        let mut batches = 0;
        while let Some(found) = walk.next(&mut self.disk)? {
            match found {
                Found::Segment(_) => {}
                Found::Batch(entry) => {
                    let said = (entry.header.epoch, entry.header.proven);
                    rewrite.append(&mut self.disk, said, &entry.batch)?;
                    batches += 1;
                }
                Found::Hole(hole) => return Err(hole.error),
                Found::Tail(cut) => notices.push(cut.to_string()),
            }
        }
        let new = rewrite.finish(&mut self.disk)?;
        // A reader takes what a disk cannot read for zeros, and these for an end.
        if new.proven != last {
            let error = io::Error::other("it was there a moment ago, and is not read again");
            return Err(LogError::disk(Doing::Read, &name_of(old.newest), &error));
        }
        Ok((Manifest { epoch: old.epoch.max(new.epoch), damaged: old.damaged, ..new }, batches))
    }

    /// Removes what is behind the log, which is no part of it: what was written of one that did not come to be.
    fn remove_behind(&mut self, manifest: &Manifest) -> Result<(), LogError> {
        let names = volume::names(&self.disk)?;
        for name in names.iter().filter(|name| id_of(name).is_some_and(|id| id > manifest.newest)) {
            volume::remove(&mut self.disk, name)?;
        }
        Ok(())
    }

    /// Reads all of the log before anything is written: a log that cannot be read is left as it is, without half of another
    /// one beside it. Returns how long the longest frame is.
    fn longest_frame(&mut self) -> Result<u64, LogError> {
        let mut walk = Walk::begin(&mut self.disk, self.options.older)?;
        let mut longest = 0;
        while let Some(found) = walk.next(&mut self.disk)? {
            match found {
                Found::Hole(hole) => return Err(hole.error),
                Found::Batch(entry) => longest = longest.max(entry.bytes),
                Found::Segment(_) | Found::Tail(_) => {}
            }
        }
        Ok(longest)
    }
}
