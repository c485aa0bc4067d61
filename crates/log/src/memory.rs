//! A log in memory: the same frames as on disk, completions as late as asked, and crashes at will.

use crate::error::{LogError, Loss};
use crate::frame::{self, Header};
use crate::log::{Batch, Claim, Completion, Extent, Log, Position, Replayed};

/// A log that outlives its broker, but not its process.
#[derive(Clone, Debug)]
pub struct MemoryLog {
    bytes: Vec<u8>,
    salt: u64,
    /// The largest epoch claimed. It is durable before the claim is told.
    epoch: u64,
    /// What the first batch kept follows: position, epoch and CRC of the one before it.
    before: Header,
    /// The same, for the next batch to come.
    last: Header,
    /// How often [`Log::completed`] says nothing about a batch before it is durable.
    lateness: u32,
    in_flight: Option<InFlight>,
    full: bool,
}

#[derive(Clone, Debug)]
struct InFlight {
    /// What is to be appended, and what then is last; `None` if the batch was fenced.
    frame: Option<(Vec<u8>, Header)>,
    polls_left: u32,
}

/// What is left on a disk that is full.
const LAST_BYTES: u64 = 1 << 20;

const NOTHING: Header = Header { epoch: 0, position: 0, proven: 0, previous_crc: 0 };

impl MemoryLog {
    /// An empty log, whose batches are durable after [`Log::completed`] has said nothing `lateness` times.
    #[must_use]
    pub fn new(salt: u64, lateness: u32) -> Self {
        MemoryLog {
            bytes: Vec::new(),
            salt,
            epoch: 0,
            before: NOTHING,
            last: NOTHING,
            lateness,
            in_flight: None,
            full: false,
        }
    }

    /// What is left after a crash that took the batch in flight.
    #[must_use]
    pub fn crash(mut self) -> Self {
        self.in_flight = None;
        self
    }

    /// What is left after a crash that came when the batch in flight was durable, but before that was told.
    #[must_use]
    pub fn crash_untold(mut self) -> Self {
        if let Some(InFlight { frame: Some(frame), .. }) = self.in_flight.take() {
            self.append(frame);
        }
        self
    }

    /// From now on there is as much room as on a disk that has only its last reserve left, or as much as one likes.
    pub fn fill_up(&mut self, full: bool) {
        self.full = full;
    }

    /// The durable batches.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The durable batches, to be damaged.
    pub fn bytes_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    fn append(&mut self, (frame, last): (Vec<u8>, Header)) -> Position {
        self.bytes.extend_from_slice(&frame);
        self.last = last;
        last.position
    }
}

/// Reads frames, each of which must follow the one before it, until `each` has had enough.
fn walk<'a>(
    bytes: &'a [u8],
    salt: u64,
    before: Header,
    mut each: impl FnMut(usize, &frame::Frame<'a>) -> bool,
) -> Result<(), LogError> {
    let mut previous = before;
    let mut offset = 0;
    while offset < bytes.len() {
        let frame = frame::decode(&bytes[offset..], salt)
            .and_then(|frame| frame::follows(&frame, &previous).map(|()| frame))
            .map_err(|damage| {
                let from = previous.position + 1;
                let loss = Loss { from, to: from, batches: 1, bytes: (bytes.len() - offset) as u64, at_least: false };
                LogError::Damaged { file: String::new(), offset: offset as u64, damage, loss }
            })?;
        if !each(offset, &frame) {
            return Ok(());
        }
        previous = Header { previous_crc: frame.crc, ..frame.header };
        offset += frame.len;
    }
    Ok(())
}

impl Log for MemoryLog {
    fn claim(&mut self, seen_epoch: u64) -> Result<Claim, LogError> {
        let mut last = self.before;
        walk(&self.bytes, self.salt, self.before, |_, frame| {
            last = Header { previous_crc: frame.crc, ..frame.header };
            true
        })?;
        self.last = last;
        self.epoch = self.epoch.max(seen_epoch).max(last.epoch) + 1;
        Ok(Claim {
            epoch: self.epoch,
            first: self.before.position + 1,
            tail: last.position,
            bytes: self.bytes.len() as u64,
            notices: Vec::new(),
        })
    }

    fn replay(
        &mut self,
        from: Position,
        bytes: usize,
        each: &mut dyn FnMut(Replayed<'_>),
    ) -> Result<Option<Position>, LogError> {
        let (mut given, mut next) = (0, None);
        walk(&self.bytes, self.salt, self.before, |_, frame| {
            let position = frame.header.position;
            if position < from {
                return true;
            }
            if given >= bytes {
                next = Some(position);
                return false;
            }
            given += frame.len;
            each(Replayed { position, begins_segment: false, batch: frame.batch });
            true
        })?;
        Ok(next)
    }

    fn submit(&mut self, epoch: u64, expected_position: Position, batch: Batch<'_>) {
        assert!(self.in_flight.is_none(), "a batch is in flight already");
        let ours = epoch == self.epoch && expected_position == self.last.position + 1;
        let frame = ours.then(|| {
            let previous_crc = self.last.previous_crc;
            let header = Header { epoch, position: expected_position, proven: self.last.position, previous_crc };
            let mut bytes = Vec::new();
            let crc = frame::encode(&header, &batch, self.salt, &mut bytes);
            (bytes, Header { previous_crc: crc, ..header })
        });
        self.in_flight = Some(InFlight { frame, polls_left: self.lateness });
    }

    fn completed(&mut self) -> Option<Completion> {
        let in_flight = self.in_flight.as_mut()?;
        if in_flight.polls_left > 0 {
            in_flight.polls_left -= 1;
            return None;
        }
        match self.in_flight.take()?.frame {
            Some(frame) => Some(Completion::Durable(self.append(frame))),
            None => Some(Completion::Fenced),
        }
    }

    fn extent(&self) -> Extent {
        if self.full {
            // Half of the newest segment and one more, if it had any.
            let (rest, room) = (LAST_BYTES / 2, LAST_BYTES + LAST_BYTES / 2);
            Extent { segment_bytes: LAST_BYTES, short: true, room, rest, ..Extent::BOUNDLESS }
        } else {
            Extent::BOUNDLESS
        }
    }

    fn truncate_before(&mut self, position: Position) {
        let mut keep_from = self.bytes.len();
        let mut before = self.last;
        let mut previous = self.before;
        let walked = walk(&self.bytes, self.salt, self.before, |offset, frame| {
            if frame.header.position >= position {
                keep_from = offset;
                before = previous;
                return false;
            }
            previous = Header { previous_crc: frame.crc, ..frame.header };
            true
        });
        if walked.is_ok() {
            self.bytes.drain(..keep_from);
            self.before = before;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Damage, FRAME_HEADER_BYTES};
    use crate::log::Moment;

    fn batch(payload: &[u8]) -> Batch<'_> {
        Batch { at: Moment { engine_ms: 1, wall_ms: 2, boot_ms: 3, boot: 4 }, payload }
    }

    fn append(log: &mut MemoryLog, epoch: u64, position: Position, payload: &[u8]) {
        log.submit(epoch, position, batch(payload));
        assert_eq!(log.completed(), Some(Completion::Durable(position)));
    }

    /// A log of three batches: a, bb, ccc.
    fn three() -> MemoryLog {
        let mut log = MemoryLog::new(9, 0);
        let epoch = log.claim(0).unwrap().epoch;
        append(&mut log, epoch, 1, b"a");
        append(&mut log, epoch, 2, b"bb");
        append(&mut log, epoch, 3, b"ccc");
        log
    }

    fn payloads(log: &mut MemoryLog, from: Position) -> Result<Vec<Vec<u8>>, LogError> {
        let mut payloads = Vec::new();
        let next = log.replay(from, usize::MAX, &mut |replayed| payloads.push(replayed.batch.payload.to_vec()))?;
        assert_eq!(next, None);
        Ok(payloads)
    }

    fn claimed(log: &mut MemoryLog, seen_epoch: u64) -> (u64, Position) {
        let claim = log.claim(seen_epoch).unwrap();
        (claim.epoch, claim.tail)
    }

    fn damage_at(log: &mut MemoryLog) -> (u64, Damage) {
        let error = payloads(log, 1).unwrap_err();
        assert_eq!(log.claim(0), Err(error.clone()), "a claim must see it too");
        let LogError::Damaged { offset, damage, .. } = error else { panic!("{error}") };
        (offset, damage)
    }

    #[test]
    fn what_was_appended_is_replayed_from_where_asked() {
        let mut log = three();
        assert_eq!(payloads(&mut log, 1).unwrap(), [b"a".to_vec(), b"bb".to_vec(), b"ccc".to_vec()]);
        assert_eq!(payloads(&mut log, 3).unwrap(), [b"ccc".to_vec()]);
        assert_eq!(payloads(&mut log, 4).unwrap(), Vec::<Vec<u8>>::new());
    }

    #[test]
    fn a_claim_tells_the_tail_and_an_epoch_never_told_before() {
        let mut log = three();
        assert_eq!(claimed(&mut log, 0), (2, 3));
        assert_eq!(claimed(&mut log, 0), (3, 3));
        assert_eq!(claimed(&mut log, 10), (11, 3));
    }

    #[test]
    fn whoever_lost_the_log_is_fenced() {
        let mut log = three();
        log.claim(0).unwrap();
        log.submit(1, 4, batch(b"too late"));
        assert_eq!(log.completed(), Some(Completion::Fenced));
        assert_eq!(log.completed(), None);
        assert_eq!(payloads(&mut log, 4).unwrap(), Vec::<Vec<u8>>::new());
    }

    #[test]
    fn whoever_expects_another_position_is_fenced() {
        let mut log = three();
        for position in [3, 5] {
            log.submit(1, position, batch(b"elsewhere"));
            assert_eq!(log.completed(), Some(Completion::Fenced));
        }
    }

    #[test]
    fn a_late_batch_is_durable_when_that_is_told_and_not_before() {
        let mut log = MemoryLog::new(9, 2);
        log.claim(0).unwrap();
        log.submit(1, 1, batch(b"a"));
        assert_eq!(log.completed(), None);
        assert_eq!(log.completed(), None);
        assert!(log.bytes().is_empty());
        assert_eq!(log.completed(), Some(Completion::Durable(1)));
        assert_eq!(payloads(&mut log, 1).unwrap(), [b"a".to_vec()]);
    }

    #[test]
    fn a_crash_takes_the_batch_in_flight_or_only_the_news_of_it() {
        let mut log = three();
        log.submit(1, 4, batch(b"dddd"));
        assert_eq!(claimed(&mut log.clone().crash(), 0), (2, 3));
        let mut untold = log.crash_untold();
        assert_eq!(claimed(&mut untold, 0), (2, 4));
        assert_eq!(payloads(&mut untold, 4).unwrap(), [b"dddd".to_vec()]);
        append(&mut untold, 2, 5, b"e");
    }

    #[test]
    fn a_cut_tail_is_damage() {
        let whole = three();
        let two = 2 * FRAME_HEADER_BYTES + 3;
        for len in two + 1..whole.bytes().len() {
            let mut log = whole.clone();
            log.bytes_mut().truncate(len);
            assert_eq!(damage_at(&mut log), (two as u64, Damage::Cut), "{len} bytes");
        }
    }

    #[test]
    fn a_flipped_bit_is_damage_wherever_it_is() {
        let whole = three();
        for bit in 0..whole.bytes().len() * 8 {
            let mut log = whole.clone();
            log.bytes_mut()[bit / 8] ^= 1 << (bit % 8);
            assert!(payloads(&mut log, 1).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_missing_batch_is_damage() {
        let first = FRAME_HEADER_BYTES + 1;
        let second = FRAME_HEADER_BYTES + 2;
        let mut log = three();
        log.bytes_mut().drain(first..first + second);
        assert_eq!(damage_at(&mut log), (first as u64, Damage::Position { expected: 2, found: 3 }));
    }

    #[test]
    fn a_batch_of_another_history_is_damage() {
        let mut other = MemoryLog::new(9, 0);
        other.claim(0).unwrap();
        append(&mut other, 1, 1, b"z");
        append(&mut other, 1, 2, b"bb");
        let first = FRAME_HEADER_BYTES + 1;
        let mut log = three();
        let len = FRAME_HEADER_BYTES + 2;
        log.bytes_mut()[first..first + len].copy_from_slice(&other.bytes()[first..]);
        assert_eq!(damage_at(&mut log), (first as u64, Damage::Chain));
    }

    #[test]
    fn what_is_needed_no_more_goes_and_the_chain_holds() {
        let mut log = three();
        log.truncate_before(3);
        assert_eq!(payloads(&mut log, 1).unwrap(), [b"ccc".to_vec()]);
        assert_eq!(claimed(&mut log, 0), (2, 3));
        append(&mut log, 2, 4, b"d");
        log.truncate_before(100);
        assert!(log.bytes().is_empty());
        assert_eq!(claimed(&mut log, 0), (3, 4));
        append(&mut log, 3, 5, b"e");
        assert_eq!(payloads(&mut log, 1).unwrap(), [b"e".to_vec()]);
    }

    #[test]
    fn a_replay_gives_so_much_and_says_where_to_go_on() {
        let mut log = three();
        let mut given = Vec::new();
        // Two frames are longer than this, one is not.
        let next = log.replay(1, FRAME_HEADER_BYTES + 2, &mut |replayed| given.push(replayed.position));
        assert_eq!((next, given), (Ok(Some(3)), vec![1, 2]));
    }

    #[test]
    fn damage_is_told_with_its_place() {
        let mut log = three();
        let second = FRAME_HEADER_BYTES + 1;
        let bytes = (log.bytes().len() - second) as u64;
        *log.bytes_mut().last_mut().unwrap() ^= 1;
        log.bytes_mut()[second + FRAME_HEADER_BYTES] ^= 1;
        let loss = Loss { from: 2, to: 2, batches: 1, bytes, at_least: false };
        let (file, offset, damage) = (String::new(), second as u64, Damage::Payload);
        assert_eq!(payloads(&mut log, 1), Err(LogError::Damaged { file, offset, damage, loss }));
    }

    #[test]
    fn a_log_can_be_as_good_as_full() {
        let mut log = three();
        assert_eq!(log.extent(), Extent::BOUNDLESS);
        log.fill_up(true);
        let Extent { segment_bytes, short, room, rest, .. } = log.extent();
        assert_eq!((segment_bytes, short, room, rest), (1_048_576, true, 1_572_864, 524_288));
        log.fill_up(false);
        assert_eq!(log.extent(), Extent::BOUNDLESS);
    }
}
