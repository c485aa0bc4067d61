//! Requests and the replies they must have. All their bytes are known before the run but the ids, so a request is
//! copied and a reply compared: little work, and nothing that a server says wrongly goes unseen.

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
    /// Puts a job.
    pub put: Exchange,
    /// Takes a job that is there. Its reply says the job's id.
    pub take: Exchange,
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

/// Bytes, with an id among them or not.
#[derive(Debug)]
pub struct Message {
    before: Vec<u8>,
    id: Option<IdForm>,
    after: Vec<u8>,
}

/// What an id looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdForm {
    /// Decimal digits.
    Number,
    /// 36 letters.
    Uuid,
    /// Eight bytes.
    Word,
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
        let request = &self.put.request;
        if request.id.is_none() {
            return request.write(&[], out);
        }
        let mut id = self.uuid;
        let mut rest = number;
        for digit in id[UUID_LEN - NUMBER_LEN..].iter_mut().rev() {
            *digit = b"0123456789abcdef"[(rest % 16) as usize];
            rest /= 16;
        }
        request.write(&id, out);
    }

    /// The longest reply.
    pub fn reply_len_max(&self) -> usize {
        let exchanges = [&self.greet, &self.put, &self.take, &self.finish];
        exchanges.map(|exchange| exchange.reply.len_max()).into_iter().max().unwrap_or(0)
    }
}

impl Message {
    /// A message without an id.
    pub fn plain(bytes: impl Into<Vec<u8>>) -> Message {
        Message { before: bytes.into(), id: None, after: Vec::new() }
    }

    /// A message with an id between these bytes. What follows a number must not begin with a digit.
    pub fn with_id(before: impl Into<Vec<u8>>, id: IdForm, after: impl Into<Vec<u8>>) -> Message {
        Message { before: before.into(), id: Some(id), after: after.into() }
    }

    /// Writes it, with this id if it has one.
    pub fn write(&self, id: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(&self.before);
        if self.id.is_some() {
            out.extend_from_slice(id);
            out.extend_from_slice(&self.after);
        }
    }

    /// Compares it with the beginning of the input.
    pub fn read(&self, input: &[u8]) -> Reading {
        let Some(rest) = input.strip_prefix(self.before.as_slice()) else {
            return part_or_other(&self.before, input);
        };
        let id_len = match self.id.map(|form| form.len(rest)) {
            None => 0,
            Some(Some(len)) => len,
            Some(None) => return Reading::Other,
        };
        let id = self.before.len()..self.before.len() + id_len;
        match rest[id_len..].starts_with(&self.after) {
            true if self.id.is_none_or(|form| form.is_whole(id_len)) => {
                Reading::Whole { len: id.end + self.after.len(), id }
            }
            true => Reading::Part,
            false => part_or_other(&self.after, &rest[id_len..]),
        }
    }

    fn len_max(&self) -> usize {
        self.before.len() + self.id.map_or(0, IdForm::len_max) + self.after.len()
    }
}

fn part_or_other(expected: &[u8], input: &[u8]) -> Reading {
    if expected.starts_with(input) { Reading::Part } else { Reading::Other }
}

impl IdForm {
    /// How much of an id the input begins with, if it begins with one.
    fn len(self, input: &[u8]) -> Option<usize> {
        match self {
            IdForm::Number => {
                let len = input.iter().take_while(|byte| byte.is_ascii_digit()).count();
                (len <= self.len_max() && (len > 0 || input.is_empty())).then_some(len)
            }
            IdForm::Uuid => {
                let id = &input[..input.len().min(UUID_LEN)];
                id.iter().all(|byte| byte.is_ascii_hexdigit() || *byte == b'-').then_some(id.len())
            }
            IdForm::Word => Some(input.len().min(8)),
        }
    }

    /// Whether so much of an id is all of it.
    fn is_whole(self, len: usize) -> bool {
        match self {
            IdForm::Number => len > 0,
            IdForm::Uuid | IdForm::Word => len == self.len_max(),
        }
    }

    fn len_max(self) -> usize {
        match self {
            IdForm::Number => 20,
            IdForm::Uuid => UUID_LEN,
            IdForm::Word => 8,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages() -> [(Message, &'static [u8], Range<usize>); 4] {
        [
            (Message::plain("+OK\r\n"), b"+OK\r\n", 5..5),
            (Message::with_id("INSERTED ", IdForm::Number, "\r\n"), b"INSERTED 18446744073709551615\r\n", 9..29),
            (Message::with_id("ADDED\0", IdForm::Word, ""), b"ADDED\0\r\n345678", 6..14),
            (Message::with_id("+", IdForm::Uuid, " x\r\n"), b"+6a6f6279-6172-4640-8000-00000000000f x\r\n", 1..37),
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
        let message = Message::with_id("id ", IdForm::Number, "\n");
        assert_eq!(message.read(b"id \n"), Reading::Other);
        assert_eq!(message.read(b"id 123456789012345678901"), Reading::Other);
        assert_eq!(message.read(b"id 1"), Reading::Part);
    }

    #[test]
    fn a_message_with_an_id_is_written_around_it() {
        let mut out = Vec::new();
        Message::with_id("delete ", IdForm::Number, "\r\n").write(b"42", &mut out);
        Message::plain("lease q 0\r\n").write(b"ignored", &mut out);
        assert_eq!(out, b"delete 42\r\nlease q 0\r\n");
    }
}
