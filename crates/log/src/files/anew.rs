//! Writing all of a log anew, in place: in the present format, or in segments of another length. Either the old segments are
//! the log, or the new ones are.

use super::format::CURRENT;
use super::reader::{Found, Walk};
use super::rewrite::Rewrite;
use super::segment::{id_of, name_of, spare_number_of};
use super::{FileLog, Manifest, Options, segment, volume};
use crate::disk::Disk;
use crate::error::LogError;

impl<D: Disk> FileLog<D> {
    /// Brings a log of an older format up to date.
    pub(super) fn upgrade(&mut self, old: &Manifest, notices: &mut Vec<String>) -> Result<Manifest, LogError> {
        self.refuse_damage()?;
        let (new, batches) = self.write_anew(old, notices)?;
        new.write(&mut self.disk)?;
        let (from, to) = (old.format, CURRENT.version);
        notices.push(format!("brought the log from format {from} to format {to}: {batches} batches"));
        Ok(new)
    }

    /// Gives the log segments of the length that was asked for. They all have the same: then the room that one needs can
    /// always be that of another which is let go of. A disk that has no room for both leaves the log as it is.
    pub(super) fn resize(&mut self, old: Manifest, notices: &mut Vec<String>) -> Result<Manifest, LogError> {
        let asked = self.spares.segment_bytes();
        let found = self.segment_bytes_found(&old)?.unwrap_or(asked);
        if found == asked {
            return Ok(old);
        }
        self.refuse_damage()?;
        let mut said = Vec::new();
        match self.write_resized(&old, &mut said) {
            Ok(new) => {
                notices.append(&mut said);
                // Of one segment a start makes a copy as often as not.
                if old.first < old.newest {
                    notices.push(format!("wrote the log anew, in segments of {asked} bytes instead of {found}"));
                }
                Ok(new)
            }
            Err(error) if error.may_try_again() => {
                self.remove_behind(&old)?;
                self.spares.set_segment_bytes(found.max(Options::SEGMENT_BYTES_MIN));
                notices
                    .push(format!("the log keeps its segments of {found} bytes instead of {asked}: {}", error.cause()));
                Ok(old)
            }
            Err(error) => Err(error),
        }
    }

    /// How long the log's segments are: the shortest, for some had to be longer. Of the newest one a backup has only what
    /// was written; if there is no other, spares tell. Nothing if a segment is missing: that is for others to say.
    fn segment_bytes_found(&mut self, manifest: &Manifest) -> Result<Option<u64>, LogError> {
        let mut before_newest = None;
        for id in manifest.first..manifest.newest {
            let Some(bytes) = self.bytes_of(&name_of(id))? else { return Ok(None) };
            before_newest = Some(before_newest.map_or(bytes, |shortest: u64| shortest.min(bytes)));
        }
        if before_newest.is_some() {
            return Ok(before_newest);
        }
        let mut longest = self.bytes_of(&name_of(manifest.newest))?;
        for name in volume::names(&self.disk)?.iter().filter(|name| spare_number_of(name).is_some()) {
            longest = longest.max(self.bytes_of(name).unwrap_or(None));
        }
        Ok(longest)
    }

    fn bytes_of(&mut self, name: &str) -> Result<Option<u64>, LogError> {
        volume::open_if_there(&mut self.disk, name)?.map(|file| volume::bytes(&file, name)).transpose()
    }

    fn write_resized(&mut self, old: &Manifest, notices: &mut Vec<String>) -> Result<Manifest, LogError> {
        let (new, _) = self.write_anew(old, notices)?;
        // The reserve too is there before the old segments go.
        self.make_spares(0);
        if let Some(error) = self.spares.shortage() {
            return Err(error.clone());
        }
        new.write(&mut self.disk)?;
        Ok(new)
    }

    /// Writes all batches anew, each with its old position. Returns the manifest that makes them the log, and how many there
    /// are. The old segments are no part of it, and go with what else is none.
    fn write_anew(&mut self, old: &Manifest, notices: &mut Vec<String>) -> Result<(Manifest, u64), LogError> {
        let mut walk = Walk::begin(&mut self.disk, self.options.older)?;
        let (_, first) = segment::open(&mut self.disk, (old.format, old.salt, old.first))?;
        let sizes = (self.spares.segment_bytes(), self.options.salt_for_new);
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
        Ok((Manifest { epoch: old.epoch.max(new.epoch), damaged: old.damaged, ..new }, batches))
    }

    /// Removes what was written of a log that did not come to be.
    fn remove_behind(&mut self, manifest: &Manifest) -> Result<(), LogError> {
        let names = volume::names(&self.disk)?;
        for name in names.iter().filter(|name| id_of(name).is_some_and(|id| id > manifest.newest)) {
            volume::remove(&mut self.disk, name)?;
        }
        Ok(())
    }

    /// Reads all of the log before anything is written: a log that cannot be read is left as it is, without half of another
    /// one beside it.
    fn refuse_damage(&mut self) -> Result<(), LogError> {
        let mut walk = Walk::begin(&mut self.disk, self.options.older)?;
        while let Some(found) = walk.next(&mut self.disk)? {
            if let Found::Hole(hole) = found {
                return Err(hole.error);
            }
        }
        Ok(())
    }
}
