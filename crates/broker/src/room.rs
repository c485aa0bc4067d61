//! What a full disk allows: what would need room that is not there is refused before it is decided.

use jobyard_engine::{Command, Needs};
use jobyard_log::{FRAME_HEADER_BYTES, Log, RESERVE_SEGMENTS};

use crate::Broker;

/// What a turn may decide at most, but for its last command.
const BATCH_BYTES_MAX: usize = 4 << 20;

/// Of the segments kept back from whatever brings something new, so many are kept back from all but what makes room.
const LAST_SEGMENTS: u64 = RESERVE_SEGMENTS - 1;

impl<L: Log> Broker<L> {
    /// Whether the disk has too little room for jobs.
    #[must_use]
    pub fn disk_full(&self) -> bool {
        let extent = self.commit.log.extent();
        extent.short && extent.room < RESERVE_SEGMENTS.saturating_mul(extent.segment_bytes)
    }

    /// Why the log could find no more room, in words.
    #[must_use]
    pub fn shortage(&self) -> Option<String> {
        self.commit.log.shortage()
    }

    /// A turn that decided more than this takes in no more commands before it was submitted. With the last command it still
    /// fits into a segment.
    pub(crate) fn batch_bytes_max(&self) -> usize {
        let quarter = self.commit.log.extent().segment_bytes / 4;
        if quarter == 0 { BATCH_BYTES_MAX } else { BATCH_BYTES_MAX.min(usize::try_from(quarter).unwrap_or(usize::MAX)) }
    }

    /// Whether the disk has too little room for this command. What makes room is never refused: the reserve is for it, and for
    /// what time decides.
    pub(crate) fn disk_refuses(&self, command: &Command) -> bool {
        let extent = self.commit.log.extent();
        if !extent.short {
            return false;
        }
        let reserve = match self.engine.needs(command) {
            Needs::Room => RESERVE_SEGMENTS,
            Needs::Little => LAST_SEGMENTS,
            Needs::Nothing => return false,
        };
        let pending = self.engine.records().len() + FRAME_HEADER_BYTES + command.record_bytes_max();
        extent.room < reserve.saturating_mul(extent.segment_bytes).saturating_add(pending as u64)
    }
}
