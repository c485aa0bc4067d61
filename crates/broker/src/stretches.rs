//! Keeping the log short: what lives of its oldest segment is written anew, then the segment goes.

use std::collections::VecDeque;

use jobyard_engine::{Engine, Written};
use jobyard_log::{Extent, FRAME_HEADER_BYTES, Log, Position};
use jobyard_protocols::LogView;

use crate::Broker;
use crate::room::BATCH_BYTES_MAX;

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
    /// Until the segment that begins here is the oldest, those who ask for something may have to wait for room to be made.
    awaited: Option<Position>,
    /// How many have begun.
    begun: u64,
    segment_bytes: u64,
}

impl Stretches {
    /// A segment begins with this batch.
    pub(crate) fn begin(&mut self, position: Position, engine: &mut Engine) {
        self.starts.push_back(position);
        self.begun += 1;
        engine.begin_stretch();
    }

    /// All segments have this length.
    pub(crate) fn set_segment_bytes(&mut self, segment_bytes: u64) {
        self.segment_bytes = segment_bytes;
    }

    /// The log as it is shown, with so much written to it.
    pub(crate) fn view(&self, written: Written) -> LogView {
        let &Stretches { begun, segment_bytes, .. } = self;
        let oldest = if begun == 0 { 0 } else { begun + 1 - self.starts.len() as u64 };
        LogView { oldest, newest: begun, segment_bytes, written }
    }

    /// Whether those who ask for something wait for room to be made.
    pub(crate) fn are_awaited(&self) -> bool {
        self.awaited.is_some()
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
/// finished. The frames that writing anew takes must not be taken for dead, or it would never end. A little that is dead is
/// left so, for all that lives might have to be written anew for it; unless room is scarce.
fn too_long(extent: &Extent, live_bytes: u64, oldest: &Oldest) -> bool {
    let Extent { bytes, oldest_bytes, segment_bytes, short, room, spares, .. } = *extent;
    if short {
        let fits = oldest.live_bytes.saturating_add(segment_bytes / 32) <= room
            || spares > 0 && oldest.live_bytes.saturating_add(frames_bytes(0, segment_bytes)) <= segment_bytes;
        let oldest_dead_bytes = oldest_bytes.saturating_sub(oldest.live_bytes);
        let left_bytes = if is_scarce(extent, 0) { 0 } else { live_bytes / 64 };
        let dead_bytes = bytes.saturating_sub(live_bytes + left_bytes + frames_bytes(bytes, segment_bytes));
        let gains = oldest.is_begun || oldest_dead_bytes >= segment_bytes / 4 || dead_bytes > segment_bytes / 2;
        return oldest.live_bytes == 0 || gains && fits;
    }
    bytes > live_bytes.saturating_add(live_bytes / 2).saturating_add(segment_bytes)
}

/// Whether no more room can be found and, with so much that waits to be submitted, so little is left that after another full
/// batch the oldest segment, if all of it lives, might not find room.
fn is_scarce(extent: &Extent, pending_bytes: u64) -> bool {
    let needed_bytes = extent.segment_bytes.saturating_add(extent.segment_bytes / 2);
    extent.short && extent.room < needed_bytes.saturating_add(pending_bytes)
}

/// What frames take in a log of this length that was all written anew: a few in each segment, for what is written is cut to
/// what the newest one takes, and one for each batch of the greatest length.
fn frames_bytes(bytes: u64, segment_bytes: u64) -> u64 {
    let per_segment = 4 + segment_bytes / BATCH_BYTES_MAX as u64;
    let segments = bytes.checked_div(segment_bytes).unwrap_or(0) + 1;
    segments * per_segment * FRAME_HEADER_BYTES as u64
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

    /// Whether those who ask for something have to wait, for room is scarce and more of it is being made: what they ask for
    /// could come faster than room does. They wait at most until all that is there now was written anew.
    pub(crate) fn awaits_room(&mut self) -> bool {
        let is_scarce = is_scarce(&self.commit.log.extent(), self.engine.records().len() as u64);
        // How much room a batch in flight leaves is known only then.
        let is_made = is_scarce && (self.commit.in_flight() || self.compaction_due());
        if crate::broken("broker-makes-no-one-wait") {
            return false;
        }
        let oldest = self.stretches.starts.front().copied();
        let newest = self.stretches.starts.back().copied();
        if !is_made || self.stretches.awaited.is_some_and(|awaited| Some(awaited) <= oldest) {
            self.stretches.awaited = None;
            return false;
        }
        self.stretches.awaited = self.stretches.awaited.or(newest);
        true
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
    use crate::tests::told_log::ToldLog;
    use crate::{Clock, Config};
    use jobyard_engine::{ClientId, Command, NewJob, QueueName};
    use jobyard_log::{Batch, Moment};

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
        assert!(full(10_659_771, 1_500_000, &oldest(1_000_000)), "half a segment is dead somewhere");
        assert!(!full(10_659_770, 1_500_000, &oldest(1_000_000)));
        assert!(full(LIVE, 0, &oldest(0)), "nothing is needed of the oldest");
        assert!(full(LIVE, 931_250, &begun));
        assert!(!full(LIVE, 931_249, &begun));
        let held_back = |bytes| Extent { spares: 1, ..extent(bytes, true, 0) };
        assert!(too_long(&held_back(LIVE), LIVE, &begun), "the segment held back is for that");
        assert!(too_long(&held_back(20_000_000), LIVE, &oldest(999_680)));
        assert!(!too_long(&held_back(20_000_000), LIVE, &oldest(999_681)), "it would take two");
    }

    #[test]
    fn a_little_that_is_dead_is_left_so_until_room_is_scarce() {
        const LIVE: u64 = 640_000_000;
        let full = |bytes, room| too_long(&extent(bytes, true, room), LIVE, &oldest(1_000_000));
        let frames = frames_bytes(LIVE, SEGMENT);
        let (a_little, little) = (LIVE + frames + 510_000, LIVE + frames + 490_000);
        assert!(!full(a_little, 1_500_000));
        assert!(full(a_little, 1_499_999));
        assert!(!full(little, 1_499_999), "less than half a segment is not worth it");
    }

    #[test]
    fn room_is_scarce_when_a_full_batch_might_take_what_the_oldest_segment_needs() {
        assert!(!is_scarce(&extent(0, true, 1_500_000), 0));
        assert!(is_scarce(&extent(0, true, 1_499_999), 0));
        assert!(is_scarce(&extent(0, true, 1_500_000), 1));
        assert!(!is_scarce(&extent(0, false, 0), 0), "more may be found");
    }

    #[test]
    fn the_log_is_shown_by_its_oldest_and_its_newest_segment() {
        let mut engine = Engine::new(jobyard_engine::Limits::default(), 1, 0);
        let mut stretches = Stretches::default();
        let written = Written { decided: 3, anew: 4 };
        let view = |oldest, newest, segment_bytes| LogView { oldest, newest, segment_bytes, written };
        assert_eq!(stretches.view(written), view(0, 0, 0));
        stretches.set_segment_bytes(SEGMENT);
        for position in [1, 5, 9] {
            stretches.begin(position, &mut engine);
        }
        assert_eq!(stretches.view(written), view(1, 3, SEGMENT));
        stretches.starts.pop_front();
        assert_eq!(stretches.view(written), view(2, 3, SEGMENT));
    }

    /// A broker whose log has so many segments, and of whose oldest half is dead; those who ask are waited with.
    fn short_of_room(segments: u64) -> Broker<ToldLog> {
        let extent = Extent { bytes: 9 * SEGMENT, spares: 1, ..extent(0, true, 0) };
        let clock = Clock { monotonic_ms: 0, boot: 0, wall_ms: 0 };
        let mut broker = Broker::open(Config::default(), ToldLog { extent, ..ToldLog::new() }, clock).unwrap();
        for position in 2..=segments {
            broker.stretches.begin(position, &mut broker.engine);
        }
        assert_eq!(broker.stretches.starts.len() as u64, segments);
        broker
    }

    #[test]
    fn the_newest_segment_is_never_written_anew() {
        assert!(short_of_room(2).compaction_due());
        assert!(!short_of_room(1).compaction_due());
    }

    #[test]
    fn each_segment_that_is_read_back_is_a_stretch_and_there_is_always_one() {
        for segments in 0..3 {
            let payloads = vec![Vec::new(); segments];
            let mut log = ToldLog { payloads, extent: extent(0, false, 0), ..ToldLog::new() };
            log.claim.tail = segments as u64;
            let clock = Clock { monotonic_ms: 0, boot: 0, wall_ms: 0 };
            let mut broker = Broker::begin(Config::default(), log, clock).unwrap();
            while broker.replaying() {
                assert!(!broker.compaction_due(), "not all of it is known");
                broker.recover(usize::MAX);
            }
            assert_eq!(broker.stretches.starts.len(), segments.max(1));
        }
    }

    /// One that has put jobs of so many bytes together, all of them in the oldest of two segments, which is too long.
    fn with_jobs(bytes: usize) -> Broker<ToldLog> {
        const BODY_BYTES: usize = 10_000;
        let mut broker = short_of_room(1);
        for _ in 0..bytes / BODY_BYTES {
            let job = NewJob::plain(QueueName::new(b"q"), [0; BODY_BYTES].into());
            broker.engine.handle(broker.now, ClientId(1), Command::Enqueue(Box::new(job)), &mut |_, _| {});
        }
        broker.submit();
        broker.stretches.begin(broker.commit.submitted() + 1, &mut broker.engine);
        broker.commit.log.extent = extent(100 * SEGMENT, false, 0);
        assert!(broker.compaction_due());
        broker
    }

    #[test]
    fn the_oldest_segment_goes_when_what_lives_of_it_is_durable_elsewhere_and_not_before() {
        let mut broker = with_jobs(50_000);
        let newest = broker.stretches.starts[1];
        broker.compact(0);
        assert!(!broker.compaction_due(), "all of it was written anew");
        broker.commit.log.completions = [None].into();
        broker.submit();
        broker.drop_rewritten();
        assert_eq!((&broker.commit.log.truncated[..], broker.stretches.starts.len()), (&[][..], 2));
        assert!(!broker.compaction_due());
        broker.commit.poll();
        broker.drop_rewritten();
        assert_eq!((&broker.commit.log.truncated[..], broker.stretches.starts.len()), (&[newest][..], 1));
    }

    #[test]
    fn while_room_is_short_the_oldest_segment_is_written_anew_within_a_turn_and_no_other_is() {
        let mut broker = with_jobs(900_000);
        broker.stretches.begin(broker.commit.submitted() + 2, &mut broker.engine);
        broker.commit.log.extent = Extent { rest: SEGMENT / 4, ..extent(100 * SEGMENT, true, 10 * SEGMENT) };
        let second = broker.stretches.starts[1];
        broker.commit();
        assert_eq!((&broker.commit.log.truncated[..], broker.stretches.starts.len()), (&[second][..], 2));
        assert!(broker.commit.log.lengths.len() > 3, "in several batches: {:?}", broker.commit.log.lengths);
        // With room in abundance there is time.
        let mut broker = with_jobs(900_000);
        broker.commit();
        assert!(broker.commit.log.truncated.is_empty());
    }

    #[test]
    fn twice_what_is_appended_is_written_anew_and_a_little_more() {
        let mut broker = with_jobs(3_000_000);
        broker.compact(80_000);
        let written = broker.engine.records().len();
        let expected = PORTION_BYTES + 2 * 80_000;
        assert!(written.abs_diff(expected) < 11_000, "{written} instead of {expected}");
    }

    #[test]
    fn what_is_written_anew_goes_along_with_a_short_batch_and_behind_a_long_one() {
        // A quarter of a segment is long.
        for (decided, batches) in [(1_000, 1), (250_000, 1), (250_001, 2)] {
            let mut broker = with_jobs(3_000_000);
            let own_bytes = put(&mut broker, decided);
            assert_eq!(own_bytes, decided);
            let before = broker.commit.log.lengths.len();
            broker.commit();
            let lengths = &broker.commit.log.lengths[before..];
            assert_eq!(lengths.len(), batches, "{decided}: {lengths:?}");
            let along = lengths[0] - own_bytes;
            assert_eq!(along > 0, batches == 1, "{decided}: {lengths:?}");
        }
    }

    /// Puts a job whose records take so many bytes.
    fn put(broker: &mut Broker<ToldLog>, bytes: usize) -> usize {
        let mut body_bytes = bytes - 20;
        loop {
            broker.engine.clear_records();
            let job = NewJob::plain(QueueName::new(b"q"), vec![0; body_bytes].into());
            broker.engine.handle(broker.now, ClientId(1), Command::Enqueue(Box::new(job)), &mut |_, _| {});
            let taken = broker.engine.records().len();
            if taken >= bytes {
                return taken;
            }
            body_bytes += bytes - taken;
        }
    }

    #[test]
    fn who_asks_waits_while_room_is_made_but_for_one_round_at_most() {
        let mut broker = short_of_room(3);
        for dropped in 0..2 {
            assert!(broker.awaits_room(), "{dropped}");
            assert!(broker.stretches.are_awaited());
            broker.stretches.starts.pop_front();
            broker.engine.drop_stretch();
            broker.stretches.begin(4 + dropped, &mut broker.engine);
        }
        assert!(!broker.awaits_room(), "all that was there was written anew");
        assert!(!broker.stretches.are_awaited());
        assert!(broker.awaits_room(), "another round");
        broker.commit.log.extent.room = 2 * SEGMENT;
        assert!(!broker.awaits_room(), "there is room");
        assert!(!broker.stretches.are_awaited());
    }

    #[test]
    fn who_asks_waits_for_the_batch_in_flight_if_room_is_scarce_but_for_nothing_else() {
        let mut broker = short_of_room(1);
        assert!(!broker.awaits_room(), "there is nothing to be written anew");
        broker.commit.log.completions = [None].into();
        broker.commit.submit(Batch { at: Moment::default(), payload: b"x" });
        broker.commit.poll();
        assert!(broker.awaits_room(), "it may leave more room than is known");
        broker.commit.poll();
        assert!(!broker.awaits_room());
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
