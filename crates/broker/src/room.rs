//! What a full disk allows: what would need room that is not there is refused before it is decided.

use jobyard_engine::{Command, Needs};
use jobyard_log::{Extent, FRAME_HEADER_BYTES, Log, RESERVE_SEGMENTS};

use crate::Broker;

/// What a turn may decide at most, but for its last command.
pub(crate) const BATCH_BYTES_MAX: usize = 4 << 20;

/// Of the segments kept back from whatever brings something new, so many are kept back from all but what makes room.
const LAST_SEGMENTS: u64 = RESERVE_SEGMENTS - 1;

/// The share of a segment that is kept back even from that.
const LAST_PART: u64 = 16;

impl<L: Log> Broker<L> {
    /// Whether the disk has too little room for jobs, or for all but small ones.
    #[must_use]
    pub fn disk_full(&self) -> bool {
        let Extent { segment_bytes, short, room, .. } = self.commit.log.extent();
        short && room < RESERVE_SEGMENTS.saturating_mul(segment_bytes).saturating_add(segment_bytes / LAST_PART)
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

    /// Whether the disk has too little room for this command. The reserve is for what makes room, and for what time decides;
    /// its last part for keeping the log short, without which all else would be in vain.
    pub(crate) fn disk_refuses(&self, command: &Command) -> bool {
        if crate::broken("broker-ignores-full-disk") {
            return false;
        }
        if crate::broken("broker-full-for-nothing") && command.enqueues() && !self.engine.records().is_empty() {
            return true;
        }
        let extent = self.commit.log.extent();
        let record_bytes = self.engine.record_bytes_max(command);
        // With what the turn has decided before, it must fit into a segment.
        let segment_rest = extent.segment_bytes.saturating_sub(self.batch_bytes_max() as u64);
        if extent.segment_bytes > 0 && record_bytes as u64 > segment_rest {
            return true;
        }
        if !extent.short || record_bytes == 0 {
            return false;
        }
        let reserve = match self.engine.needs(command) {
            Needs::Room => RESERVE_SEGMENTS.saturating_mul(extent.segment_bytes),
            Needs::Little => LAST_SEGMENTS.saturating_mul(extent.segment_bytes),
            Needs::Nothing => extent.segment_bytes / LAST_PART,
        };
        let pending = self.engine.records().len() + FRAME_HEADER_BYTES + record_bytes;
        extent.room < reserve.saturating_add(pending as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::told_log::ToldLog;
    use crate::{Clock, Config};
    use jobyard_engine::{By, ClientId, JobRef, Look, NewJob, Now, QueueName};

    const SEGMENT: u64 = 16_000;

    fn broker(short: bool, room: u64) -> Broker<ToldLog> {
        let extent = Extent { segment_bytes: SEGMENT, short, room, ..Extent::BOUNDLESS };
        let log = ToldLog { extent, shortage: short.then_some("no space left"), ..ToldLog::new() };
        Broker::open(Config::default(), log, Clock { monotonic_ms: 0, boot: 0, wall_ms: 0 }).unwrap()
    }

    fn put(body_bytes: usize) -> Command {
        Command::Enqueue(Box::new(NewJob::plain(QueueName::new(b"q"), vec![b'x'; body_bytes].into())))
    }

    /// Puts a job, of which nothing was submitted yet.
    fn decide(broker: &mut Broker<ToldLog>) {
        let now = Now { engine_ms: 0, wall_ms: 0, random: 0 };
        broker.engine.handle(now, ClientId(1), put(10), &mut |_, _| {});
    }

    #[test]
    fn a_disk_is_full_when_its_reserve_is_touched() {
        assert!(broker(true, 2 * SEGMENT + 999).disk_full());
        assert!(!broker(true, 2 * SEGMENT + 1_000).disk_full());
        assert!(!broker(false, 0).disk_full(), "more may be found");
        assert_eq!(broker(true, 0).shortage().as_deref(), Some("no space left"));
        assert_eq!(broker(false, 0).shortage(), None);
    }

    #[test]
    fn what_makes_room_may_take_of_the_reserve_what_brings_something_new_may_not() {
        let remove = Command::Remove { job: JobRef::Number(1), by: By::Anyone };
        for (command, reserve) in [(put(10), 2 * SEGMENT), (remove, SEGMENT / 16)] {
            let mut broker = broker(true, 0);
            decide(&mut broker);
            let pending = broker.engine.records().len() + FRAME_HEADER_BYTES + broker.engine.record_bytes_max(&command);
            broker.commit.log.extent.room = reserve + pending as u64;
            assert!(!broker.disk_refuses(&command), "{command:?}");
            broker.commit.log.extent.room -= 1;
            assert!(broker.disk_refuses(&command), "{command:?}");
            broker.commit.log.extent.short = false;
            assert!(!broker.disk_refuses(&command), "more may be found");
        }
        let look = Command::Look(Look::Queue(QueueName::new(b"q")));
        assert!(!broker(true, 0).disk_refuses(&look), "it takes no room");
    }

    #[test]
    fn what_would_not_fit_into_a_segment_with_a_whole_batch_is_refused() {
        let broker = broker(false, 0);
        let besides = broker.engine.record_bytes_max(&put(0));
        let longest = usize::try_from(SEGMENT).unwrap() - broker.batch_bytes_max() - besides;
        assert!(!broker.disk_refuses(&put(longest)));
        assert!(broker.disk_refuses(&put(longest + 1)));
        let log = ToldLog::new();
        let boundless = Broker::open(Config::default(), log, Clock { monotonic_ms: 0, boot: 0, wall_ms: 0 }).unwrap();
        assert!(!boundless.disk_refuses(&put(longest + 1)), "it has no segments");
    }
}
