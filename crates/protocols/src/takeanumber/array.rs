//! The form of Redis clients: an array of bulk strings, each with its length before it.

use std::ops::Range;

use jobyard_engine::Limits;

use super::{Request, body_too_long};

/// More words than any request has.
const WORDS_MAX: usize = 1_024;
/// More bytes than `*` or `$`, a number and CRLF need.
const HEADER_BYTES_MAX: usize = 32;

/// How far the array at the front of the input was read. It stays there until all of it has come.
#[derive(Debug, Default)]
pub(super) struct Frame {
    /// Bytes read.
    read: usize,
    /// Words the array said that it has.
    count: Option<usize>,
    /// Where the words are.
    words: Vec<Range<usize>>,
    /// The length of the word that comes next, if it was read.
    word_length: Option<usize>,
    /// Bytes in all words, that one included.
    words_bytes: usize,
}

/// What came of reading on.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Array {
    Whole,
    More,
    /// It cannot be read, for this reason; nor can anything behind it.
    Broken(String),
}

/// Reads an array as a request, if it is one of takeanumber's own.
pub(super) fn parse<'a>(words: &[&'a [u8]]) -> Option<Request<'a>> {
    const TOO_MANY: Request<'static> = Request::Wrong("Wrong number of parameters.");
    Some(match *words {
        [b"LEN", queue] => Request::Len { queue },
        [b"LEN"] => Request::Wrong("Missing LEN parameters."),
        [b"ADD", queue, retries, body] => Request::Add { queue, retries, body },
        [b"ADD"] | [b"ADD", _] | [b"ADD", _, _] => Request::Wrong("Missing ADD parameters."),
        [b"RESERVE", queue] => Request::Reserve { queue },
        [b"RESERVE"] => Request::Wrong("Missing RESERVE parameters."),
        [b"RETRY", queue, id] => Request::Retry { queue, id },
        [b"RETRY"] | [b"RETRY", _] => Request::Wrong("Missing RETRY parameters."),
        [b"DONE", queue, id] => Request::Done { queue, id },
        [b"DONE"] | [b"DONE", _] => Request::Wrong("Missing DONE parameters."),
        [b"CLOSE"] => Request::Close,
        [b"LEN" | b"ADD" | b"RESERVE" | b"RETRY" | b"DONE" | b"CLOSE", ..] => TOO_MANY,
        _ => return None,
    })
}

impl Frame {
    /// Reads on in `bytes`, which begin with the array.
    pub(super) fn read(&mut self, bytes: &[u8], limits: &Limits) -> Array {
        loop {
            let step = match (self.count, self.word_length) {
                (None, _) => self.read_count(bytes),
                (Some(count), _) if self.words.len() == count => return Array::Whole,
                (Some(_), None) => self.read_length(bytes, limits),
                (Some(_), Some(length)) => self.read_word(bytes, length),
            };
            match step {
                Ok(true) => {}
                Ok(false) => return Array::More,
                Err(text) => return Array::Broken(text),
            }
        }
    }

    /// How many bytes the array takes.
    pub(super) fn len(&self) -> usize {
        self.read
    }

    /// The array's words.
    pub(super) fn words<'a>(&self, bytes: &'a [u8]) -> Vec<&'a [u8]> {
        self.words.iter().map(|word| &bytes[word.clone()]).collect()
    }

    fn read_count(&mut self, bytes: &[u8]) -> Result<bool, String> {
        let Some(number) = self.read_header(bytes, b'*')? else {
            return Ok(false);
        };
        let count = number.ok_or_else(|| broken("invalid multibulk length"))?;
        if count > WORDS_MAX {
            return Err(format!("Array is longer than {WORDS_MAX} elements."));
        }
        self.count = Some(count);
        Ok(true)
    }

    /// Reads a word's length, and refuses one that is over a limit before any of it is read.
    fn read_length(&mut self, bytes: &[u8], limits: &Limits) -> Result<bool, String> {
        let Some(number) = self.read_header(bytes, b'$')? else {
            return Ok(false);
        };
        let length = number.ok_or_else(|| broken("invalid bulk length"))?;
        if self.body_is_next(bytes) && length > limits.body_bytes_max {
            return Err(body_too_long(limits));
        }
        if length > limits.line_bytes_max() - self.words_bytes {
            return Err(format!("Array is longer than {} bytes.", limits.line_bytes_max()));
        }
        self.words_bytes += length;
        self.word_length = Some(length);
        Ok(true)
    }

    fn body_is_next(&self, bytes: &[u8]) -> bool {
        self.words.len() == 3 && &bytes[self.words[0].clone()] == b"ADD"
    }

    fn read_word(&mut self, bytes: &[u8], length: usize) -> Result<bool, String> {
        let end = self.read + length;
        match bytes.get(end..) {
            None | Some([] | [b'\r']) => Ok(false),
            Some([b'\r', b'\n', ..]) => {
                self.words.push(self.read..end);
                self.word_length = None;
                self.read = end + 2;
                Ok(true)
            }
            Some(_) => Err(broken("expected CRLF after bulk string")),
        }
    }

    /// Reads `kind`, a number and CRLF. Outside: whether all of it has come; inside: the number, if it is one.
    fn read_header(&mut self, bytes: &[u8], kind: u8) -> Result<Option<Option<usize>>, String> {
        let header = &bytes[self.read..];
        match header.first() {
            None => return Ok(None),
            Some(&first) if first != kind => {
                return Err(broken(&format!("expected '{}', got '{}'", char::from(kind), first.escape_ascii())));
            }
            Some(_) => {}
        }
        let within = &header[..header.len().min(HEADER_BYTES_MAX)];
        let Some(end) = memchr::memchr(b'\n', within) else {
            return if within.len() < HEADER_BYTES_MAX { Ok(None) } else { Err(broken("too long a length")) };
        };
        let digits = within[1..end].strip_suffix(b"\r").ok_or_else(|| broken("expected CRLF after a length"))?;
        self.read += end + 1;
        Ok(Some(parse_length(digits)))
    }
}

fn broken(text: &str) -> String {
    format!("Protocol error: {text}")
}

/// Digits only: no sign, no blank. A number too large to be kept is over every limit, as the largest is.
fn parse_length(digits: &[u8]) -> Option<usize> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let add = |number: usize, digit: &u8| number.saturating_mul(10).saturating_add(usize::from(digit - b'0'));
    Some(digits.iter().fold(0, add))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads `text` whole and a byte at a time, which must come to the same.
    fn read(text: &[u8], limits: &Limits) -> (Array, Vec<Vec<u8>>) {
        let mut whole = Frame::default();
        let result = whole.read(text, limits);
        let mut pieces = Frame::default();
        let last = (1..=text.len()).map(|end| pieces.read(&text[..end], limits)).find(|array| *array != Array::More);
        assert_eq!(last.as_ref().unwrap_or(&Array::More), &result);
        let words = whole.words(text).into_iter().map(<[u8]>::to_vec).collect();
        (result, words)
    }

    fn check_broken(text: &[u8], limits: &Limits, reason: &str) {
        assert_eq!(read(text, limits).0, Array::Broken(reason.to_owned()), "{}", text.escape_ascii());
    }

    #[test]
    fn words_are_bytes_of_any_kind() {
        let (array, words) = read(b"*3\r\n$3\r\nADD\r\n$0\r\n\r\n$4\r\n\0\r\n\xff\r\n", &Limits::default());
        assert_eq!(array, Array::Whole);
        assert_eq!(words, [b"ADD".to_vec(), vec![], b"\0\r\n\xff".to_vec()]);
    }

    #[test]
    fn what_follows_an_array_is_not_its_own() {
        let mut frame = Frame::default();
        assert_eq!(frame.read(b"*1\r\n$4\r\nPING\r\n*1\r\n", &Limits::default()), Array::Whole);
        assert_eq!(frame.len(), 14);
    }

    #[test]
    fn a_broken_array_says_why() {
        let limits = Limits::default();
        for (text, reason) in [
            (&b"*x\r\n"[..], "Protocol error: invalid multibulk length"),
            (b"*-1\r\n", "Protocol error: invalid multibulk length"),
            (b"*+1\r\n", "Protocol error: invalid multibulk length"),
            (b"*\r\n", "Protocol error: invalid multibulk length"),
            (b"*1025\r\n", "Array is longer than 1024 elements."),
            (b"*99999999999999999999999\r\n", "Array is longer than 1024 elements."),
            (b"*1\n", "Protocol error: expected CRLF after a length"),
            (b"*1\r\n:1\r\n", "Protocol error: expected '$', got ':'"),
            (b"*1\r\n\x01", "Protocol error: expected '$', got '\\x01'"),
            (b"*1\r\n$-1\r\n", "Protocol error: invalid bulk length"),
            (b"*1\r\n$1 \r\n", "Protocol error: invalid bulk length"),
            (b"*1\r\n$1\r\nabc", "Protocol error: expected CRLF after bulk string"),
            (b"*1\r\n$1\r\na\rb", "Protocol error: expected CRLF after bulk string"),
            (b"*00000000000000000000000000000001", "Protocol error: too long a length"),
        ] {
            check_broken(text, &limits, reason);
        }
    }

    #[test]
    fn sizes_are_checked_before_they_are_read() {
        let limits = Limits { body_bytes_max: 10, line_extra_bytes_max: 20, ..Limits::default() };
        check_broken(b"*1\r\n$31\r\n", &limits, "Array is longer than 30 bytes.");
        check_broken(b"*1\r\n$99999999999999999999999\r\n", &limits, "Array is longer than 30 bytes.");
        assert_eq!(read(b"*1024\r\n", &limits).0, Array::More);
        check_broken(b"*2\r\n$20\r\n01234567890123456789\r\n$11\r\n", &limits, "Array is longer than 30 bytes.");
        let add = b"*4\r\n$3\r\nADD\r\n$1\r\nq\r\n$1\r\n0\r\n";
        check_broken(&[add, &b"$11\r\n"[..]].concat(), &limits, "Body is longer than 10 bytes.");
        assert_eq!(read(&[add, &b"$10\r\n"[..]].concat(), &limits).0, Array::More);
        assert_eq!(read(b"*1\r\n$30\r\n", &limits).0, Array::More);
    }

    #[test]
    fn a_request_has_as_many_words_as_it_needs() {
        let check = |words: &[&[u8]], text| assert_eq!(parse(words), Some(Request::Wrong(text)), "{words:?}");
        assert_eq!(parse(&[]), None);
        assert_eq!(parse(&[b"add", b"q", b"1", b"x"]), None);
        check(&[b"LEN"], "Missing LEN parameters.");
        check(&[b"LEN", b"q", b"r"], "Wrong number of parameters.");
        check(&[b"ADD", b"q", b"1"], "Missing ADD parameters.");
        check(&[b"ADD", b"q", b"1", b"x", b"y"], "Wrong number of parameters.");
        check(&[b"RESERVE"], "Missing RESERVE parameters.");
        check(&[b"RETRY", b"q"], "Missing RETRY parameters.");
        check(&[b"RETRY", b"q", b"a", b"b"], "Wrong number of parameters.");
        check(&[b"DONE"], "Missing DONE parameters.");
        check(&[b"CLOSE", b"now"], "Wrong number of parameters.");
        assert_eq!(parse(&[b"LEN", b""]), Some(Request::Len { queue: b"" }));
        assert_eq!(parse(&[b"CLOSE"]), Some(Request::Close));
    }
}
