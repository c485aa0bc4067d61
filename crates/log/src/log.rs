//! The seam: what the broker asks of a log, wherever it is kept.

use crate::error::LogError;
use crate::frame::FRAME_HEADER_BYTES;

/// Where a batch stands in the log: counted from 1, without gaps. 0 is before the first.
pub type Position = u64;

/// When something was decided, on every clock there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// Engine time.
    pub engine_ms: u64,
    /// The wall clock.
    pub wall_ms: i64,
    /// The machine's own clock, since it was booted.
    pub boot_ms: u64,
    /// Which boot that was; 0 if nobody knows.
    pub boot: u64,
}

/// What one turn or several decided, and when: appended whole or not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch<'a> {
    /// When it was submitted.
    pub at: Moment,
    /// The records. Bytes to the log.
    pub payload: &'a [u8],
}

/// What a claim got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Larger than that of every claim before it. Whoever appends with a smaller one is fenced.
    pub epoch: u64,
    /// The position of the first batch that is kept; 1 if none was ever dropped.
    pub first: Position,
    /// The last batch's position.
    pub tail: Position,
    /// What there is to replay, in bytes.
    pub bytes: u64,
    /// What the log has to tell whoever runs the server, in words: what was cut off its end, what it was upgraded from.
    pub notices: Vec<String>,
}

/// What became of the batch in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// It is durable, at this position.
    Durable(Position),
    /// Someone else has claimed the log. It was not appended.
    Fenced,
    /// It may or may not be durable: only a new claim can tell. [`Log::trouble`] says more.
    Unknown,
}

/// A batch that is read back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replayed<'a> {
    /// Where it stands.
    pub position: Position,
    /// Whether it is the first of a segment.
    pub begins_segment: bool,
    /// The batch.
    pub batch: Batch<'a>,
}

/// So many segments' room a log finds ahead of need: it is the reserve for what must go on when the disk is full. Whoever
/// submits keeps it back from whatever brings something new.
pub const RESERVE_SEGMENTS: u64 = 2;

/// How much there is of a log, and how much more there can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// What is kept, in bytes.
    pub bytes: u64,
    /// What of it is in the oldest segment.
    pub oldest_bytes: u64,
    /// In what portions [`Log::truncate_before`] can let go of it; 0 if the log needs no compaction.
    pub segment_bytes: u64,
    /// Whether no more room could be found when it was last looked for. As long as it was, there is room for a batch of a
    /// segment's length at any time.
    pub short: bool,
    /// How many more bytes are sure to find room, however short it is.
    pub room: u64,
    /// How many of them find it in the newest segment. What a batch does not fit into is lost with the next one.
    pub rest: u64,
    /// How many whole segments are there for certain, also those that are no part of that room: with one of them what lives
    /// of another can be written anew, and that one takes its place.
    pub spares: u64,
}

impl Extent {
    /// That of a log which takes care of itself, or keeps nothing.
    pub const BOUNDLESS: Extent = Extent {
        bytes: 0,
        oldest_bytes: 0,
        segment_bytes: 0,
        short: false,
        room: u64::MAX,
        rest: u64::MAX,
        spares: u64::MAX,
    };

    /// Whether a batch with so long a payload, submitted now, is the first of a segment: it does not fit into what is left
    /// of the newest, or nothing is in that one yet.
    #[must_use]
    pub fn begins_segment(&self, payload_bytes: usize) -> bool {
        self.segment_bytes > 0 && (self.rolls(payload_bytes) || self.rest >= self.segment_bytes)
    }

    /// What is known of the log while such a batch is in flight: no more room than there will be when it is durable, unless
    /// it finds out that room is short. For that there are spares.
    #[must_use]
    pub fn less(self, payload_bytes: usize) -> Extent {
        if self.segment_bytes == 0 {
            return self;
        }
        let frame_bytes = frame_bytes(payload_bytes);
        let (lost, rest, spares) = if self.rolls(payload_bytes) {
            // On a full disk a spare may have to be given up, for the new segment's name or for the manifest.
            let given_up = u64::from(self.short);
            let lost = self.rest.saturating_add(given_up * self.segment_bytes);
            (lost, self.segment_bytes, self.spares.saturating_sub(1 + given_up))
        } else {
            (0, self.rest, self.spares)
        };
        Extent {
            bytes: self.bytes.saturating_add(frame_bytes),
            room: self.room.saturating_sub(lost).saturating_sub(frame_bytes),
            rest: rest.saturating_sub(frame_bytes),
            spares,
            ..self
        }
    }

    fn rolls(&self, payload_bytes: usize) -> bool {
        frame_bytes(payload_bytes) > self.rest
    }
}

fn frame_bytes(payload_bytes: usize) -> u64 {
    (FRAME_HEADER_BYTES as u64).saturating_add(payload_bytes as u64)
}

/// One machine's, or many machines', memory of what was decided.
///
/// There is at most one batch in flight. After [`Completion::Fenced`] or [`Completion::Unknown`] nothing more may be
/// submitted: what was decided since cannot be relied upon.
pub trait Log {
    /// Takes the log over, from whoever had it. `seen_epoch` is the largest epoch that the caller knows of.
    ///
    /// # Errors
    /// If the log cannot be read, or what it holds cannot be trusted.
    fn claim(&mut self, seen_epoch: u64) -> Result<Claim, LogError>;

    /// Gives batches from this position on to `each`, in order, until they were `bytes` long or the last one was given.
    /// Returns the position to go on from, if there are more.
    ///
    /// # Errors
    /// If a batch is damaged or missing. Those before it have been given.
    fn replay(
        &mut self,
        from: Position,
        bytes: usize,
        each: &mut dyn FnMut(Replayed<'_>),
    ) -> Result<Option<Position>, LogError>;

    /// Appends a batch, if the log is still the caller's and the batch gets the position that the caller expects.
    /// Returns at once; [`Log::completed`] tells what became of it.
    fn submit(&mut self, epoch: u64, expected_position: Position, batch: Batch<'_>);

    /// What became of the batch in flight, once that is known; then none is in flight.
    fn completed(&mut self) -> Option<Completion>;

    /// Whether the caller is woken when that is known; else it has to ask again and again.
    fn wakes(&self) -> bool {
        false
    }

    /// Batches before this position are needed no more.
    fn truncate_before(&mut self, position: Position);

    /// How much there is.
    fn extent(&self) -> Extent {
        Extent::BOUNDLESS
    }

    /// Does what has to be done besides appending, as far as it is due at this engine time. Returns when something is due next.
    fn tend(&mut self, _engine_ms: u64) -> Option<u64> {
        None
    }

    /// Nothing more will be submitted, and nothing is in flight: the end is marked as a clean one.
    fn close(&mut self) {}

    /// Why no more room could be found when it was last looked for ([`Extent::short`]), in words.
    fn shortage(&self) -> Option<String> {
        None
    }

    /// What went wrong, in words, if something did.
    fn trouble(&self) -> Option<String> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEWEST: Extent = Extent {
        bytes: 5_000,
        oldest_bytes: 1_000,
        segment_bytes: 1_000,
        short: true,
        room: 2_300,
        rest: 300,
        spares: 3,
    };

    fn payload(frame_bytes: usize) -> usize {
        frame_bytes - FRAME_HEADER_BYTES
    }

    #[test]
    fn a_segment_begins_with_what_has_no_room_in_the_last_or_is_the_first_in_it() {
        assert!(!NEWEST.begins_segment(payload(300)));
        assert!(NEWEST.begins_segment(payload(301)));
        let empty = Extent { rest: 1_000, ..NEWEST };
        assert!(empty.begins_segment(payload(100)));
        assert!(!Extent { rest: 999, ..NEWEST }.begins_segment(payload(100)));
        assert!(!Extent::BOUNDLESS.begins_segment(usize::MAX));
    }

    #[test]
    fn a_batch_in_flight_takes_its_room_and_what_it_leaves_unused() {
        let fits = NEWEST.less(payload(300));
        assert_eq!(fits, Extent { bytes: 5_300, room: 2_000, rest: 0, ..NEWEST });
        let rolls = NEWEST.less(payload(301));
        assert_eq!(rolls, Extent { bytes: 5_301, room: 699, rest: 699, spares: 1, ..NEWEST }, "one may be given up");
        let ample = Extent { short: false, ..NEWEST };
        assert_eq!(ample.less(payload(301)), Extent { bytes: 5_301, room: 1_699, rest: 699, spares: 2, ..ample });
        assert_eq!(Extent::BOUNDLESS.less(payload(1_000)), Extent::BOUNDLESS);
    }
}
