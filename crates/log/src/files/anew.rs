//! Bringing a log of an older format up to date, in place: either the old segments are the log, or the new ones are.

use super::format::CURRENT;
use super::reader::{Found, Walk};
use super::rewrite::Rewrite;
use super::{FileLog, Manifest, segment};
use crate::disk::Disk;
use crate::error::LogError;

impl<D: Disk> FileLog<D> {
    /// Writes all batches anew, each with its old position, and switches to them. The old segments are no part of the log
    /// then, and go with what else is none.
    pub(super) fn upgrade(&mut self, old: &Manifest, notices: &mut Vec<String>) -> Result<Manifest, LogError> {
        self.refuse_damage()?;
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
        let manifest = Manifest { epoch: old.epoch.max(new.epoch), damaged: old.damaged, ..new };
        manifest.write(&mut self.disk)?;
        let (from, to) = (old.format, CURRENT.version);
        notices.push(format!("brought the log from format {from} to format {to}: {batches} batches"));
        Ok(manifest)
    }

    /// Reads all of the log before anything is written: a log that cannot be upgraded is left as it is, without half of
    /// another one beside it.
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
