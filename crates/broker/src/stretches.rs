//! Keeping the log short: what lives of its oldest segment is written anew, then the segment goes.

use std::collections::VecDeque;

use jobyard_engine::Engine;
use jobyard_log::{Extent, FRAME_HEADER_BYTES, Log, Position};

use crate::Broker;

/// What a turn writes anew beside a share of what it appends.
const PORTION_BYTES: usize = 64 << 10;

/// The same while room is short, at least: what is written then is cut to what the newest segment takes.
const SHORT_PORTION_BYTES: usize = 1 << 20;

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

/// What is known of the oldest segment.
#[derive(Clone, Copy)]
struct Oldest {
    /// What would have to be written anew of it.
    live_bytes: u64,
    /// Whether some of it was.
    is_begun: bool,
}

/// Whether the log is longer than it has to be.
///
/// It may grow to one and a half times what lives, and a segment: with two bytes written anew for each that is appended, it
/// then stays below twice what lives and two segments.
///
/// When the disk is short of room, whatever is dead is reclaimed, if what lives of the oldest segment finds room: where all
/// has room, or in one segment that is held back, whose place the oldest takes. What was begun gives room only when it is
/// finished. The frames that writing anew takes must not be taken for dead, or it would never end.
fn too_long(extent: &Extent, live_bytes: u64, oldest: &Oldest) -> bool {
    let Extent { bytes, oldest_bytes, segment_bytes, short, room, spares, .. } = *extent;
    if short {
        let needed_bytes = oldest.live_bytes.saturating_add(segment_bytes / 32);
        let fits = needed_bytes <= room || spares > 0 && needed_bytes <= segment_bytes;
        let oldest_dead_bytes = oldest_bytes.saturating_sub(oldest.live_bytes);
        let dead_bytes = bytes.saturating_sub(live_bytes + live_bytes / 64 + frames_bytes(bytes, segment_bytes));
        let gains = oldest.is_begun || oldest_dead_bytes >= segment_bytes / 4 || dead_bytes > segment_bytes / 2;
        return oldest.live_bytes == 0 || gains && fits;
    }
    bytes > live_bytes.saturating_add(live_bytes / 2).saturating_add(segment_bytes)
}

/// What frames take in a log of this length that was all written anew: a few in each segment, for what is written is cut to
/// what the newest one takes.
fn frames_bytes(bytes: u64, segment_bytes: u64) -> u64 {
    const FRAMES_PER_SEGMENT: u64 = 4;
    let segments = bytes.checked_div(segment_bytes).unwrap_or(0) + 1;
    segments * FRAMES_PER_SEGMENT * FRAME_HEADER_BYTES as u64
}

impl<L: Log> Broker<L> {
    /// Whether there is something to write anew.
    pub(crate) fn compaction_due(&self) -> bool {
        let is_busy = self.stretches.rewritten.is_some() || self.replaying();
        if self.stretches.starts.len() < 2 || is_busy || crate::broken("broker-log-grows") {
            return false;
        }
        let oldest =
            Oldest { live_bytes: self.engine.oldest_stretch_bytes(), is_begun: self.engine.oldest_stretch_is_begun() };
        too_long(&self.commit.log.extent(), self.engine.live_bytes(), &oldest)
    }

    /// Adds to the batch that is about to be submitted what is written anew in this turn, which has decided so much.
    pub(crate) fn compact(&mut self, decided_bytes: usize) {
        if !self.compaction_due() {
            return;
        }
        let extent = self.commit.log.extent();
        let portion = PORTION_BYTES.saturating_add(PER_APPENDED * decided_bytes).min(self.batch_bytes_max());
        // With room in abundance, neither frames nor what is lost at a segment's end matter, if only it fits into one.
        let (portion, within) = if extent.short {
            (portion.max(SHORT_PORTION_BYTES), extent.rest)
        } else {
            (portion, extent.segment_bytes)
        };
        let within = within.saturating_sub(FRAME_HEADER_BYTES as u64);
        if self.engine.compact_within(portion, usize::try_from(within).unwrap_or(usize::MAX)) {
            self.stretches.rewritten = Some(self.commit.position(self.engine.records()));
        }
    }

    /// Finishes in this turn what is to be written anew of the oldest segment, if the disk is short of room: half of it takes
    /// room and gives none back, and until it does even what makes room might be refused.
    pub(crate) fn make_room(&mut self) {
        let oldest = self.stretches.starts.front().copied();
        while self.commit.log.extent().short && self.may_submit() && self.compaction_due() {
            self.compact(self.batch_bytes_max());
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

    /// Whether the records that are about to be submitted will begin a segment. It has to be known before: the log may tell
    /// much later what it did.
    pub(crate) fn begins_segment(&self) -> bool {
        self.commit.log.extent().begins_segment(self.engine.records().len())
    }

    /// A batch was submitted that begins a segment: so do its records a stretch.
    pub(crate) fn follow_segment(&mut self) {
        let submitted = self.commit.submitted();
        if self.stretches.starts.back() != Some(&submitted) {
            self.stretches.begin(submitted, &mut self.engine);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT: u64 = 1_000_000;

    fn extent(bytes: u64, short: bool, room: u64) -> Extent {
        Extent { bytes, oldest_bytes: SEGMENT, segment_bytes: SEGMENT, short, room, rest: room, spares: 0 }
    }

    fn oldest(live_bytes: u64) -> Oldest {
        Oldest { live_bytes, is_begun: false }
    }

    #[test]
    fn a_log_may_grow_to_half_as_much_again_as_lives_and_a_segment() {
        assert!(!too_long(&extent(4_000_000, false, 0), 2_000_000, &oldest(0)));
        assert!(too_long(&extent(4_000_001, false, 0), 2_000_000, &oldest(1_000_000)));
        assert!(!too_long(&extent(1_000_000, false, 0), 0, &oldest(0)));
    }

    #[test]
    fn a_log_on_a_full_disk_gives_up_what_it_can() {
        const LIVE: u64 = 10_000_000;
        let full = |bytes, room, oldest: &Oldest| too_long(&extent(bytes, true, room), LIVE, oldest);
        let begun = Oldest { live_bytes: 900_000, is_begun: true };
        assert!(full(LIVE, 781_250, &oldest(750_000)), "a quarter of the oldest is dead");
        assert!(!full(LIVE, 781_249, &oldest(750_000)), "there is no room to write it anew");
        assert!(!full(LIVE, 2_000_000, &oldest(750_001)));
        assert!(full(10_659_771, 1_031_250, &oldest(1_000_000)), "half a segment is dead somewhere");
        assert!(!full(10_659_770, 1_031_250, &oldest(1_000_000)));
        assert!(full(LIVE, 0, &oldest(0)), "nothing is needed of the oldest");
        assert!(full(LIVE, 931_250, &begun));
        assert!(!full(LIVE, 931_249, &begun));
        let held_back = |bytes| Extent { spares: 1, ..extent(bytes, true, 0) };
        assert!(too_long(&held_back(LIVE), LIVE, &begun), "the segment held back is for that");
        assert!(too_long(&held_back(20_000_000), LIVE, &oldest(968_750)));
        assert!(!too_long(&held_back(20_000_000), LIVE, &oldest(968_751)), "it would take two");
    }

    #[test]
    fn writing_anew_comes_to_an_end_however_short_segments_are() {
        for segment_bytes in [4_096, 60_000, 33_000_000] {
            // All of it was just written anew, in four frames a segment.
            let live_bytes = 20 * (segment_bytes - 4 * FRAME_HEADER_BYTES as u64);
            let extent =
                Extent { oldest_bytes: segment_bytes, segment_bytes, ..extent(20 * segment_bytes, true, u64::MAX) };
            let oldest = oldest(live_bytes / 20);
            assert!(!too_long(&extent, live_bytes, &oldest), "{segment_bytes}");
        }
    }
}
