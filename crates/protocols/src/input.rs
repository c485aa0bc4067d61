//! The bytes that a client has sent and that no request has used yet.

use memchr::memchr;

/// A client's unused input. It remembers how far it was searched for the end of a line, so that
/// input which comes a byte at a time is not searched again and again.
#[derive(Debug, Default)]
pub struct Input {
    bytes: Vec<u8>,
    start: usize,
    searched: usize,
    ended: bool,
}

/// What [`Input::line`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// The line's end has not come yet.
    More,
    /// The line is longer than allowed, whether or not its end has come.
    TooLong,
    /// A whole line of this length, its LF not counted.
    Whole(usize),
}

/// An empty buffer larger than this is given back: what a client of small requests needs, and little for one that only
/// stays connected.
const KEPT_BYTES_MAX: usize = 512;

/// So many bytes are not copied when they are taken out, if they are most of what is there: they are moved to the front of
/// the memory that they have. New memory costs more than the move: each page of it has to be cleared first.
const MOVED_BYTES_MIN: usize = 64 << 10;

impl Input {
    /// Adds what has arrived.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.start > 0 && self.start >= self.bytes.len() - self.start {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// The request at the front has so many bytes in all. Room for them is made at once when a quarter has come, and not
    /// before: what is only claimed costs nothing.
    pub fn expect(&mut self, count: usize) {
        let missing = count.saturating_sub(self.len());
        if self.len() >= MOVED_BYTES_MIN
            && self.len() >= count / 4
            && self.bytes.capacity() - self.bytes.len() < missing
        {
            self.bytes.reserve_exact(missing);
        }
    }

    /// Nothing more will arrive.
    pub fn end(&mut self) {
        self.ended = true;
    }

    /// Whether nothing more will arrive.
    #[must_use]
    pub fn ended(&self) -> bool {
        self.ended
    }

    /// The unused bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// How many bytes are unused.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// Whether no byte is unused.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The memory this takes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// The first `count` unused bytes have been used.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn consume(&mut self, count: usize) {
        assert!(count <= self.len(), "consumed {count} of {} bytes", self.len());
        self.start += count;
        self.searched = self.searched.saturating_sub(count);
        if self.start == self.bytes.len() {
            self.start = 0;
            self.bytes.clear();
            if self.bytes.capacity() > KEPT_BYTES_MAX {
                self.bytes = Vec::new();
            }
        }
    }

    /// Takes `count` bytes out that begin after the first `at` unused ones; these are used with them.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn take(&mut self, at: usize, count: usize) -> Box<[u8]> {
        let used = at + count;
        let others = self.bytes.len() - count;
        if count < MOVED_BYTES_MIN || others > count {
            let taken = self.bytes()[at..used].into();
            self.consume(used);
            return taken;
        }
        let rest = self.bytes.split_off(self.start + used);
        let mut taken = std::mem::replace(&mut self.bytes, rest);
        taken.drain(..self.start + at);
        self.start = 0;
        self.searched = self.searched.saturating_sub(used);
        taken.into_boxed_slice()
    }

    /// Looks for a line of at most `max` bytes, its LF not counted, at the front.
    pub fn line(&mut self, max: usize) -> Line {
        match memchr(b'\n', &self.bytes()[self.searched..]) {
            Some(at) if self.searched + at <= max => Line::Whole(self.searched + at),
            Some(_) => Line::TooLong,
            None => {
                self.searched = self.len();
                if self.searched > max { Line::TooLong } else { Line::More }
            }
        }
    }

    /// Looks for a line of at most `max` bytes at the front that ends with CRLF, which is not counted. A LF alone is a byte
    /// like any other.
    pub fn line_to_crlf(&mut self, max: usize) -> Line {
        while let Some(at) = memchr(b'\n', &self.bytes()[self.searched..]) {
            let end = self.searched + at;
            if end > 0 && self.bytes()[end - 1] == b'\r' {
                return if end - 1 <= max { Line::Whole(end - 1) } else { Line::TooLong };
            }
            self.searched = end + 1;
        }
        self.searched = self.len();
        // A CR at the end may be half of the line's.
        let without_cr = self.len() - usize::from(self.bytes().last() == Some(&b'\r'));
        if without_cr > max { Line::TooLong } else { Line::More }
    }

    /// Drops everything up to and with the next CRLF. Says whether there was one.
    pub fn skip_to_crlf(&mut self) -> bool {
        let Line::Whole(length) = self.line_to_crlf(usize::MAX) else {
            let kept = usize::from(self.bytes().last() == Some(&b'\r'));
            self.consume(self.len() - kept);
            return false;
        };
        self.consume(length + 2);
        true
    }

    /// Drops everything up to and with the next LF. Says whether there was one.
    pub fn skip_line(&mut self) -> bool {
        let end = memchr(b'\n', self.bytes());
        self.consume(end.map_or(self.len(), |at| at + 1));
        end.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(text: &str) -> Input {
        let mut input = Input::default();
        input.push(text.as_bytes());
        input
    }

    #[test]
    fn a_line_is_found_when_its_end_has_come() {
        let mut input = input("ab");
        assert_eq!(input.line(10), Line::More);
        input.push(b"c\nd");
        assert_eq!(input.line(10), Line::Whole(3));
        input.consume(4);
        assert_eq!(input.bytes(), b"d");
        assert_eq!(input.line(10), Line::More);
    }

    #[test]
    fn a_line_over_the_limit_is_known_before_its_end() {
        assert_eq!(input("abc").line(3), Line::More);
        assert_eq!(input("abcd").line(3), Line::TooLong);
        assert_eq!(input("abcd\n").line(3), Line::TooLong);
        assert_eq!(input("abc\n").line(3), Line::Whole(3));
    }

    #[test]
    fn a_line_may_end_with_cr_and_lf_together_only() {
        let mut input = input("a\nb\rc");
        assert_eq!(input.line_to_crlf(5), Line::More);
        input.push(b"\r");
        assert_eq!(input.line_to_crlf(5), Line::More);
        assert_eq!(input.line_to_crlf(4), Line::TooLong);
        input.push(b"\nd\r\n");
        assert_eq!(input.line_to_crlf(5), Line::Whole(5));
        assert_eq!(input.line_to_crlf(4), Line::TooLong);
        input.consume(7);
        assert_eq!(input.line_to_crlf(5), Line::Whole(1));
        input.consume(1);
        assert_eq!(input.line_to_crlf(0), Line::Whole(0));
    }

    #[test]
    fn skipping_to_cr_and_lf_keeps_a_cr_that_may_be_the_first_half() {
        let mut input = input("long\r");
        assert!(!input.skip_to_crlf());
        assert_eq!(input.bytes(), b"\r");
        input.push(b"er\n\r");
        assert!(!input.skip_to_crlf());
        input.push(b"\nnext");
        assert!(input.skip_to_crlf());
        assert_eq!(input.bytes(), b"next");
    }

    #[test]
    fn an_empty_one_keeps_little() {
        let mut input = input(&"x".repeat(2_000));
        assert!(input.memory_bytes() >= 2_000);
        input.consume(2_000);
        assert!(input.memory_bytes() <= 512);
    }

    #[test]
    fn what_is_taken_out_is_used_with_all_before_it_whether_it_is_copied_or_moved() {
        for count in [3, MOVED_BYTES_MIN - 1, MOVED_BYTES_MIN, 3 * MOVED_BYTES_MIN] {
            for (before, behind) in [(0, 0), (5, 7), (0, 2 * MOVED_BYTES_MIN), (2 * MOVED_BYTES_MIN, 0)] {
                let mut input = Input::default();
                input.push(b"used\n");
                input.consume(5);
                input.push(&vec![b'a'; before]);
                input.push(&vec![b'b'; count]);
                input.push(&vec![b'c'; behind]);
                assert_eq!(input.line(usize::MAX), Line::More);
                assert_eq!(input.take(before, count), vec![b'b'; count].into());
                assert_eq!(input.bytes(), vec![b'c'; behind]);
                input.push(b"\n");
                assert_eq!(input.line(usize::MAX), Line::Whole(behind));
            }
        }
    }

    #[test]
    fn room_is_made_for_what_is_expected_once_a_quarter_of_it_has_come() {
        let mut input = input(&"x".repeat(4 * MOVED_BYTES_MIN - 1));
        let before = input.memory_bytes();
        input.expect(16 * MOVED_BYTES_MIN);
        assert_eq!(input.memory_bytes(), before);
        input.push(b"x");
        input.expect(16 * MOVED_BYTES_MIN);
        assert!((16 * MOVED_BYTES_MIN..17 * MOVED_BYTES_MIN).contains(&input.memory_bytes()));
        input.expect(1);
        assert_eq!(input.len(), 4 * MOVED_BYTES_MIN);
    }

    #[test]
    #[should_panic(expected = "")]
    fn more_than_there_is_cannot_be_taken_out() {
        input("abc").take(1, 3);
    }

    #[test]
    fn skipping_drops_what_is_there_and_says_whether_the_end_was() {
        let mut input = input("long");
        assert!(!input.skip_line());
        assert!(input.is_empty());
        input.push(b"er\nnext");
        assert!(input.skip_line());
        assert_eq!(input.bytes(), b"next");
    }
}
