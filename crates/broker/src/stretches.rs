//! Keeping the log short: what lives of its oldest segment is written anew, then the segment goes.

use std::collections::VecDeque;

use jobyard_engine::Engine;
use jobyard_log::{Extent, Log, Position};

use crate::Broker;

/// What a turn writes anew beside a share of what it appends.
const PORTION_BYTES: usize = 64 << 10;

/// How much is written anew for each byte appended, so that dead bytes do not grow faster than they are reclaimed.
const PER_APPENDED: usize = 2;

/// What the engine calls stretches: where in the log each begins, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Stretches {
    starts: VecDeque<Position>,
    /// When this is durable, the oldest is needed no more.
    rewritten: Option<Position>,
}

impl Stretches {
    /// A segment begins with this batch.
    pub(crate) fn begin(&mut self, position: Position, engine: &mut Engine) {
        self.starts.push_back(position);
        engine.begin_stretch();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }
}

/// Whether the log is longer than it has to be.
///
/// It may grow to one and a half times what lives, and a segment: with two bytes written anew for each that is appended, it
/// then stays below twice what lives and two segments. When the disk is short of room, what can be reclaimed is: first of
/// all an oldest segment of which little lives, but never with room that is not there.
fn too_long(extent: &Extent, live_bytes: u64, oldest_bytes: u64) -> bool {
    let Extent { bytes, segment_bytes, short, room, .. } = *extent;
    if short {
        let fits = oldest_bytes.saturating_add(segment_bytes / 16) <= room;
        let dead_bytes = bytes.saturating_sub(live_bytes.saturating_add(live_bytes / 256));
        return fits && (oldest_bytes <= segment_bytes / 4 * 3 || dead_bytes > segment_bytes / 2);
    }
    bytes > live_bytes.saturating_add(live_bytes / 2).saturating_add(segment_bytes)
}

impl<L: Log> Broker<L> {
    /// Whether there is something to write anew.
    pub(crate) fn compaction_due(&self) -> bool {
        if self.stretches.starts.len() < 2 || self.stretches.rewritten.is_some() || self.replaying() {
            return false;
        }
        too_long(&self.commit.log.extent(), self.engine.live_bytes(), self.engine.oldest_stretch_bytes())
    }

    /// Adds to the batch that is about to be submitted what is written anew in this turn, which has decided so much.
    pub(crate) fn compact(&mut self, decided_bytes: usize) {
        if !self.compaction_due() {
            return;
        }
        let portion = PORTION_BYTES.saturating_add(PER_APPENDED * decided_bytes).min(self.batch_bytes_max());
        if self.engine.compact(portion) {
            self.stretches.rewritten = Some(self.commit.position(self.engine.records()));
        }
    }

    /// Finishes in this turn what is to be written anew of the oldest segment, if the disk is short of room: half of it takes
    /// room and gives none back, and until it does even what makes room might be refused.
    pub(crate) fn make_room(&mut self) {
        let oldest = self.stretches.starts.front().copied();
        while self.commit.log.extent().short && self.may_submit() && self.compaction_due() {
            self.compact(0);
            self.submit();
            self.drop_rewritten();
            if self.stretches.starts.front().copied() != oldest {
                return;
            }
        }
    }

    /// Lets go of the oldest segment, if all that lives of it is durable elsewhere.
    pub(crate) fn drop_rewritten(&mut self) {
        if self.stretches.rewritten.is_none_or(|position| position > self.commit.durable()) {
            return;
        }
        self.stretches.rewritten = None;
        self.stretches.starts.pop_front();
        self.engine.drop_stretch();
        if let Some(&start) = self.stretches.starts.front() {
            self.commit.log.truncate_before(start);
        }
    }

    /// A batch was submitted: if it began a segment, so does a stretch.
    pub(crate) fn follow_segments(&mut self) {
        let extent = self.commit.log.extent();
        let submitted = self.commit.submitted();
        if extent.segment_bytes > 0
            && extent.newest_from == submitted
            && self.stretches.starts.back() != Some(&submitted)
        {
            self.stretches.begin(submitted, &mut self.engine);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT: u64 = 1_000;

    fn extent(bytes: u64, short: bool, room: u64) -> Extent {
        Extent { bytes, segment_bytes: SEGMENT, newest_from: 1, short, room }
    }

    #[test]
    fn a_log_may_grow_to_half_as_much_again_as_lives_and_a_segment() {
        assert!(!too_long(&extent(4_000, false, 0), 2_000, 0));
        assert!(too_long(&extent(4_001, false, 0), 2_000, 1_000));
        assert!(!too_long(&extent(1_000, false, 0), 0, 0));
    }

    #[test]
    fn a_log_on_a_full_disk_gives_up_what_it_can() {
        assert!(too_long(&extent(10_000, true, 1_000), 10_000, 750), "a quarter of the oldest is dead");
        assert!(!too_long(&extent(10_000, true, 1_000), 10_000, 751));
        assert!(too_long(&extent(10_540, true, 1_062), 10_000, 1_000), "half a segment is dead somewhere");
        assert!(!too_long(&extent(10_539, true, 1_062), 10_000, 1_000));
        assert!(!too_long(&extent(10_540, true, 1_061), 10_000, 1_000), "there is no room to write it anew");
    }
}
