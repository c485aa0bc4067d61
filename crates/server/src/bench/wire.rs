//! Requests and the replies they must have. All their bytes are known before the run but the ids and priorities, so a
//! request is copied and a reply compared: little work, and nothing that a server says wrongly goes unseen.

use std::ops::Range;

/// What is asked of a server in one run, in one queue.
#[derive(Debug)]
pub struct Script {
    /// The queue's name.
    pub queue: String,
    /// The first request of a connection: it shows that the other side speaks the protocol and that the queue is empty.
    pub greet: Exchange,
    /// Whether the greeting names the queue, which no request after it does.
    pub greet_names_queue: bool,
    /// Puts a job: one for each priority that jobs have.
    pub puts: Vec<Exchange>,
    /// Takes a job that is there. Its reply says the job's id.
    pub take: Exchange,
    /// Takes a job as soon as there is one, if the protocol has that.
    pub wait: Option<Exchange>,
    /// Finishes the job of this id.
    pub finish: Exchange,
    /// For a put that brings its own id: the UUID of this run, with room for the job's number at its end.
    pub uuid: [u8; UUID_LEN],
}

/// Length of a UUID as text.
pub const UUID_LEN: usize = 36;

/// Digits of a UUID's last group.
const NUMBER_LEN: usize = 12;

/// A request and its reply.
#[derive(Debug)]
pub struct Exchange {
    /// What is sent.
    pub request: Message,
    /// What comes back.
    pub reply: Message,
}

/// Bytes, with at most one id among them.
#[derive(Debug, Default)]
pub struct Message(Vec<Piece>);

/// A part of a message. What follows a number must not begin with a digit.
#[derive(Debug)]
enum Piece {
    /// Just these.
    Bytes(Vec<u8>),
    /// An id.
    Id(Form),
    /// Something that nobody needs to know.
    Any(Form),
}

/// What a part that is not known looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Decimal digits.
    Number,
    /// 36 letters.
    Uuid,
    /// So many bytes, whatever they are.
    Bytes(usize),
}

/// What the input begins with, compared to an expected message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading {
    /// All of the message, with the id in this place.
    Whole {
        /// The message's length.
        len: usize,
        /// Where the id is; nowhere if there is none.
        id: Range<usize>,
    },
    /// A beginning of it.
    Part,
    /// Something else.
    Other,
}

impl Script {
    /// Writes the request that puts the job of this number.
    pub fn write_put(&self, number: u64, out: &mut Vec<u8>) {
        let mut id = self.uuid;
        let mut rest = number;
        for digit in id[UUID_LEN - NUMBER_LEN..].iter_mut().rev() {
            *digit = b"0123456789abcdef"[(rest % 16) as usize];
            rest /= 16;
        }
        self.puts[chosen(number, self.puts.len())].request.write(&id, out);
    }

    /// The longest reply.
    pub fn reply_len_max(&self) -> usize {
        let others = [&self.greet, &self.take, &self.finish];
        let exchanges = self.puts.iter().chain(others).chain(&self.wait);
        exchanges.map(|exchange| exchange.reply.len_max()).max().unwrap_or(0)
    }
}

/// Which of so many priorities the job of this number has: in no order that one could see, and the same in each run.
fn chosen(number: u64, count: usize) -> usize {
    // Numbers that follow on each other are spread over all of a word, of which the upper half is taken.
    let spread = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    (spread as usize) % count
}

impl Message {
    /// A message without an id.
    pub fn plain(bytes: impl Into<Vec<u8>>) -> Message {
        Message::default().then(bytes)
    }

    /// A message with an id between these bytes.
    pub fn with_id(before: impl Into<Vec<u8>>, id: Form, after: impl Into<Vec<u8>>) -> Message {
        let Message(mut pieces) = Message::plain(before);
        pieces.push(Piece::Id(id));
        Message(pieces).then(after)
    }

    /// The same with something behind it that is not compared.
    pub fn any(mut self, form: Form) -> Message {
        self.0.push(Piece::Any(form));
        self
    }

    /// The same with these bytes behind it.
    pub fn then(mut self, bytes: impl Into<Vec<u8>>) -> Message {
        self.0.push(Piece::Bytes(bytes.into()));
        self
    }

    /// Writes it, with this id if it has one.
    pub fn write(&self, id: &[u8], out: &mut Vec<u8>) {
        for piece in &self.0 {
            match piece {
                Piece::Bytes(bytes) => out.extend_from_slice(bytes),
                Piece::Id(_) => out.extend_from_slice(id),
                Piece::Any(_) => unreachable!("a request is known but for its id"),
            }
        }
    }

    /// Compares it with the beginning of the input.
    pub fn read(&self, input: &[u8]) -> Reading {
        let (mut len, mut id) = (0, 0..0);
        for piece in &self.0 {
            let rest = &input[len..];
            match piece {
                Piece::Bytes(bytes) if rest.starts_with(bytes) => len += bytes.len(),
                Piece::Bytes(bytes) if bytes.starts_with(rest) => return Reading::Part,
                Piece::Bytes(_) => return Reading::Other,
                Piece::Id(form) | Piece::Any(form) => {
                    let Some(found) = form.len(rest) else { return Reading::Other };
                    if !form.is_whole(found) {
                        return Reading::Part;
                    }
                    if matches!(piece, Piece::Id(_)) {
                        id = len..len + found;
                    }
                    len += found;
                }
            }
        }
        Reading::Whole { len, id: if id.is_empty() { len..len } else { id } }
    }

    fn len_max(&self) -> usize {
        let of_one = |piece: &Piece| match piece {
            Piece::Bytes(bytes) => bytes.len(),
            Piece::Id(form) | Piece::Any(form) => form.len_max(),
        };
        self.0.iter().map(of_one).sum()
    }
}

impl Form {
    /// How much of it the input begins with, if it begins with it.
    fn len(self, input: &[u8]) -> Option<usize> {
        match self {
            Form::Number => {
                let len = input.iter().take_while(|byte| byte.is_ascii_digit()).count();
                (len <= self.len_max() && (len > 0 || input.is_empty())).then_some(len)
            }
            Form::Uuid => {
                let id = &input[..input.len().min(UUID_LEN)];
                id.iter().all(|byte| byte.is_ascii_hexdigit() || *byte == b'-').then_some(id.len())
            }
            Form::Bytes(len) => Some(input.len().min(len)),
        }
    }

    /// Whether so much of it is all of it.
    fn is_whole(self, len: usize) -> bool {
        match self {
            Form::Number => len > 0,
            Form::Uuid | Form::Bytes(_) => len == self.len_max(),
        }
    }

    fn len_max(self) -> usize {
        match self {
            Form::Number => 20,
            Form::Uuid => UUID_LEN,
            Form::Bytes(len) => len,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages() -> [(Message, &'static [u8], Range<usize>); 5] {
        [
            (Message::plain("+OK\r\n"), b"+OK\r\n", 5..5),
            (Message::with_id("INSERTED ", Form::Number, "\r\n"), b"INSERTED 18446744073709551615\r\n", 9..29),
            (Message::with_id("ADDED\0", Form::Bytes(8), ""), b"ADDED\0\r\n345678", 6..14),
            (Message::with_id("+", Form::Uuid, " x\r\n"), b"+6a6f6279-6172-4640-8000-00000000000f x\r\n", 1..37),
            (Message::with_id("a", Form::Number, "b").any(Form::Number).then("c"), b"a12b345c", 1..3),
        ]
    }

    #[test]
    fn a_reply_is_found_whole_or_cut_anywhere() {
        for (message, bytes, id) in messages() {
            for cut in 0..bytes.len() {
                assert_eq!(message.read(&bytes[..cut]), Reading::Part, "{}", bytes[..cut].escape_ascii());
            }
            let whole = Reading::Whole { len: bytes.len(), id };
            assert_eq!(message.read(bytes), whole);
            assert_eq!(message.read(&[bytes, b"more"].concat()), whole);
            assert!(message.len_max() >= bytes.len());
        }
    }

    #[test]
    fn a_reply_with_one_other_byte_is_another() {
        for (message, bytes, id) in messages() {
            for at in (0..bytes.len()).filter(|at| !(id.contains(at) && id.len() == 8)) {
                let mut other = bytes.to_vec();
                other[at] = b'!';
                assert_eq!(message.read(&other), Reading::Other, "{}", other.escape_ascii());
                // It need not be whole to be known.
                assert_eq!(message.read(&other[..=at]), Reading::Other, "{}", other[..=at].escape_ascii());
            }
        }
    }

    #[test]
    fn a_number_has_digits_but_not_too_many() {
        let message = Message::with_id("id ", Form::Number, "\n");
        assert_eq!(message.read(b"id \n"), Reading::Other);
        assert_eq!(message.read(b"id 123456789012345678901"), Reading::Other);
        assert_eq!(message.read(b"id 1"), Reading::Part);
    }

    #[test]
    fn a_message_with_an_id_is_written_around_it() {
        let mut out = Vec::new();
        Message::with_id("delete ", Form::Number, "\r\n").write(b"42", &mut out);
        Message::plain("lease q 0\r\n").write(b"ignored", &mut out);
        assert_eq!(out, b"delete 42\r\nlease q 0\r\n");
    }

    #[test]
    fn every_priority_is_chosen_about_as_often() {
        let mut counts = [0; 100];
        for number in 0..10_000 {
            counts[chosen(number, counts.len())] += 1;
        }
        assert!(counts.iter().all(|count| (50..200).contains(count)), "{counts:?}");
        let first: Vec<_> = (0..100).map(|number| chosen(number, 100)).collect();
        assert!(!first.is_sorted() && chosen(7, 1) == 0, "{first:?}");
    }
}
