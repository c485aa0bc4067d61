//! What waits to be sent to one client: bytes in order, the log position each part depends on, and the leases that
//! are told in it.

use std::collections::VecDeque;

use jobyard_engine::{JobNumber, LeaseId};
use jobyard_log::Position;

/// One client's output. Codecs write to its end; the part whose position is durable is released; the kernel takes
/// from its front. Offsets count from the connection's first byte.
#[derive(Debug, Default)]
pub(crate) struct Output {
    bytes: Vec<u8>,
    /// Bytes at the front of `bytes` that were sent.
    start: usize,
    /// How much was sent in all.
    sent: u64,
    /// Up to where it may be sent.
    released: u64,
    /// Up to where it belongs to a segment.
    sealed: u64,
    /// What is sealed and not released.
    segments: VecDeque<Segment>,
    /// Leases of whose answer no byte was sent.
    leases: VecDeque<ToldLease>,
}

#[derive(Debug)]
struct Segment {
    end: u64,
    position: Position,
    not_before_ms: u64,
}

#[derive(Debug)]
struct ToldLease {
    /// Where its answer begins.
    start: u64,
    number: JobNumber,
    lease: LeaseId,
}

/// An empty buffer larger than this is given back: what a client of small requests needs, and little for one that only
/// stays connected.
const KEPT_BYTES_MAX: usize = 512;

/// The same for lists.
const KEPT_ITEMS_MAX: usize = 8;

impl Output {
    /// Where codecs write. What was sent leaves before it takes much of the memory: there may be as much as the limit of output
    /// allows behind it.
    pub(crate) fn writer(&mut self) -> &mut Vec<u8> {
        if self.start > self.bytes.len() / 8 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        &mut self.bytes
    }

    /// Where the next byte written will be.
    pub(crate) fn end(&self) -> u64 {
        self.sent + (self.bytes.len() - self.start) as u64
    }

    /// The answer that begins at `start` tells of this lease.
    pub(crate) fn tells_lease(&mut self, start: u64, number: JobNumber, lease: LeaseId) {
        self.leases.push_back(ToldLease { start, number, lease });
    }

    /// What was written since the last seal was computed at this position, and may not leave before this engine time.
    pub(crate) fn seal(&mut self, position: Position, not_before_ms: u64) {
        let end = self.end();
        if end == self.sealed {
            return;
        }
        self.sealed = end;
        match self.segments.back_mut() {
            Some(last) if last.position == position && last.not_before_ms == not_before_ms => last.end = end,
            last => {
                let grows = last.is_none_or(|last| last.position <= position);
                debug_assert!(grows || crate::broken("broker-early-look"), "positions only grow");
                self.segments.push_back(Segment { end, position, not_before_ms });
            }
        }
    }

    /// Releases what depends on nothing later than `durable`, in order.
    pub(crate) fn release(&mut self, durable: Position, now_ms: u64) {
        while let Some(first) = self.segments.front() {
            if first.position > durable && !crate::broken("broker-early-answer") || first.not_before_ms > now_ms {
                return;
            }
            self.released = first.end;
            self.segments.pop_front();
        }
    }

    /// Whether something is not released.
    pub(crate) fn withheld(&self) -> bool {
        !self.segments.is_empty()
    }

    /// Until when what comes next is held back, its position apart.
    pub(crate) fn held_back_until_ms(&self) -> Option<u64> {
        self.segments.front().map(|first| first.not_before_ms)
    }

    /// What may be sent now.
    pub(crate) fn sendable(&self) -> &[u8] {
        let count = usize::try_from(self.released - self.sent).expect("what is released is in memory");
        &self.bytes[self.start..self.start + count]
    }

    /// The kernel took so many bytes.
    ///
    /// # Panics
    /// If they were not sendable.
    pub(crate) fn advance(&mut self, count: usize) {
        assert!(count <= self.sendable().len(), "{count} bytes were taken of {}", self.sendable().len());
        self.start += count;
        self.sent += count as u64;
        while self.leases.front().is_some_and(|told| told.start < self.sent) {
            self.leases.pop_front();
        }
        if self.start == self.bytes.len() {
            self.start = 0;
            self.bytes.clear();
            if self.bytes.capacity() > KEPT_BYTES_MAX {
                self.bytes = Vec::new();
            }
            // All that was written was sent, so there is nothing in these either.
            if self.segments.capacity() > KEPT_ITEMS_MAX {
                self.segments = VecDeque::new();
            }
            if self.leases.capacity() > KEPT_ITEMS_MAX {
                self.leases = VecDeque::new();
            }
        } else if self.start > self.bytes.len() / 2 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
    }

    /// How much waits to be sent.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// Whether nothing waits to be sent.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting_bytes() == 0
    }

    /// Nothing of what waits will be sent. Returns the leases that their client will never hear of.
    pub(crate) fn drop_unsent(&mut self) -> Vec<(JobNumber, LeaseId)> {
        let end = self.end();
        (self.sent, self.released, self.sealed) = (end, end, end);
        (self.bytes, self.start) = (Vec::new(), 0);
        self.segments.clear();
        let count = if crate::broken("broker-undoes-one-lease") { 1 } else { usize::MAX };
        self.leases.drain(..).take(count).map(|told| (told.number, told.lease)).collect()
    }

    /// The memory this takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
            + self.segments.capacity() * size_of::<Segment>()
            + self.leases.capacity() * size_of::<ToldLease>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(parts: &[(&str, Position)]) -> Output {
        let mut output = Output::default();
        for (text, position) in parts {
            output.writer().extend_from_slice(text.as_bytes());
            output.seal(*position, 0);
        }
        output
    }

    #[test]
    fn nothing_is_sendable_before_its_position_is_durable() {
        let mut output = output(&[("one ", 1), ("two ", 2), ("three", 3)]);
        assert_eq!(output.sendable(), b"");
        output.release(2, 0);
        assert_eq!(output.sendable(), b"one two ");
        assert!(output.withheld());
        output.release(3, 0);
        assert_eq!(output.sendable(), b"one two three");
        assert!(!output.withheld());
    }

    #[test]
    fn what_is_written_and_not_sealed_is_never_sendable() {
        let mut output = output(&[("one", 1)]);
        output.writer().extend_from_slice(b"more");
        output.release(9, 0);
        assert_eq!(output.sendable(), b"one");
    }

    #[test]
    fn what_is_held_back_holds_back_what_follows() {
        let mut output = Output::default();
        output.writer().push(b'a');
        output.seal(1, 100);
        output.writer().push(b'b');
        output.seal(2, 0);
        output.release(2, 99);
        assert_eq!((output.sendable(), output.held_back_until_ms()), (&b""[..], Some(100)));
        output.release(2, 100);
        assert_eq!(output.sendable(), b"ab");
    }

    #[test]
    fn the_kernel_takes_from_the_front_in_any_portions() {
        let mut output = output(&[("abcdef", 1)]);
        output.release(1, 0);
        output.advance(1);
        assert_eq!(output.sendable(), b"bcdef");
        output.advance(3);
        assert_eq!(output.sendable(), b"ef");
        output.writer().extend_from_slice(b"gh");
        output.seal(2, 0);
        assert_eq!((output.sendable(), output.waiting_bytes()), (&b"ef"[..], 4));
        output.release(2, 0);
        output.advance(4);
        assert!(output.is_empty());
    }

    #[test]
    fn what_was_sent_takes_little_beside_what_waits() {
        let mut output = Output::default();
        output.writer().extend_from_slice(&[b'x'; 1_000]);
        for _ in 0..1_000 {
            output.seal(1, 0);
            output.release(1, 0);
            output.advance(50);
            output.writer().extend_from_slice(&[b'x'; 50]);
            assert_eq!(output.waiting_bytes(), 1_000);
            assert!(output.bytes.len() <= 1_200, "{}", output.bytes.len());
        }
    }

    #[test]
    fn who_has_taken_all_of_it_costs_little() {
        let mut output = Output::default();
        for number in 0..100 {
            let start = output.end();
            output.writer().extend_from_slice(&[b'x'; 100]);
            output.tells_lease(start, number, LeaseId(number));
            output.seal(number, 0);
        }
        output.release(99, 0);
        output.advance(9_999);
        assert!(output.memory_bytes() > 5_000);
        output.advance(1);
        assert!(output.memory_bytes() <= 1_024, "{}", output.memory_bytes());
        assert!(!output.withheld() && output.drop_unsent().is_empty());
    }

    #[test]
    fn a_lease_is_told_once_a_byte_of_its_answer_was_sent() {
        let mut output = output(&[("ok ", 1)]);
        for (number, text) in [(7, "job 7 "), (8, "job 8 ")] {
            let start = output.end();
            output.writer().extend_from_slice(text.as_bytes());
            output.tells_lease(start, number, LeaseId(number * 10));
            output.seal(1, 0);
        }
        output.release(1, 0);
        output.advance(4);
        assert_eq!(output.drop_unsent(), [(8, LeaseId(80))]);
        assert!(output.is_empty() && !output.withheld());
    }

    #[test]
    fn a_lease_whose_answer_would_be_next_is_not_told() {
        let mut output = output(&[("ok ", 1)]);
        let start = output.end();
        output.writer().extend_from_slice(b"job 7");
        output.tells_lease(start, 7, LeaseId(70));
        output.seal(1, 0);
        output.release(1, 0);
        output.advance(3);
        assert_eq!(output.drop_unsent(), [(7, LeaseId(70))]);
    }

    #[test]
    fn what_was_sent_leaves_the_buffer_when_it_is_much_of_it() {
        let sent = |count: usize| {
            let mut output = output(&[("sixteen letters.", 1)]);
            output.release(1, 0);
            output.advance(count);
            output
        };
        let mut little = sent(2);
        assert_eq!(little.writer().len(), 16, "an eighth");
        let mut much = sent(3);
        assert_eq!((much.bytes.len(), much.writer().len()), (16, 13));
        assert_eq!(sent(8).bytes.len(), 16, "half of it");
        assert_eq!((sent(9).bytes.len(), sent(9).sendable()), (7, &b"etters."[..]));
    }

    #[test]
    fn parts_that_may_leave_at_the_same_time_are_one() {
        let mut output = output(&[("a", 1), ("b", 1), ("c", 2), ("d", 2)]);
        assert_eq!(output.segments.len(), 2);
        output.writer().push(b'e');
        output.seal(2, 100);
        assert_eq!(output.segments.len(), 3);
    }

    #[test]
    fn a_buffer_and_lists_that_are_small_are_kept() {
        let sent = |bytes: usize, items: usize| {
            let mut output = Output {
                bytes: Vec::with_capacity(bytes),
                segments: VecDeque::with_capacity(items),
                leases: VecDeque::with_capacity(items),
                ..Output::default()
            };
            output.writer().push(b'x');
            output.seal(1, 0);
            output.release(1, 0);
            output.advance(1);
            [output.bytes.capacity(), output.segments.capacity(), output.leases.capacity()]
        };
        let (bytes, items) = (KEPT_BYTES_MAX, KEPT_ITEMS_MAX);
        assert_eq!(sent(bytes, items), [bytes, items, items]);
        assert_eq!(sent(bytes + 1, items + 1), [0, 0, 0]);
    }

    #[test]
    fn the_memory_is_that_of_the_buffer_and_of_both_lists() {
        let output = Output {
            bytes: Vec::with_capacity(1_000),
            segments: VecDeque::with_capacity(5),
            leases: VecDeque::with_capacity(7),
            ..Output::default()
        };
        assert_eq!(output.memory_bytes(), 1_000 + 5 * size_of::<Segment>() + 7 * size_of::<ToldLease>());
    }
}
