//! The protocol of the Go Job Queue: words that end in NUL, little-endian integers, lengths before data.

use jobyard_engine::{
    By, Choice, Command, Hold, JobNumber, JobRef, JobView, LeaseRequest, Limits, NewJob, OwnTime, QueueName, Refusal,
    Reply, Wait,
};
use memchr::memchr;

use crate::codec::{Codec, Context, Farewell, Next};
use crate::input::Input;
use crate::table::Begins;
use crate::views::priority_from_urgency;

const ID_BYTES: usize = 8;
const INTEGER_BYTES: usize = 4;

/// One connection. A request stays in the input until all of it has come; only how far it was read
/// is kept here, so nothing is read twice and nothing is stored twice.
#[derive(Debug, Default)]
pub(crate) struct Goqueue {
    progress: Progress,
    asked: Asked,
}

/// How far the request at the front of the input was read. Positions count from its first byte.
#[derive(Debug, Default)]
struct Progress {
    /// Where the next NUL is looked for.
    searched: usize,
    /// Where the command word ends.
    word_end: Option<usize>,
    /// Where the queue's name ends.
    name_end: Option<usize>,
}

/// What the command without a reply was.
#[derive(Debug, Default)]
enum Asked {
    #[default]
    Nothing,
    Add,
    Delete(JobNumber),
    Reserve,
}

/// Why a word or a name could not be read.
enum Unread {
    /// Its end has not come yet.
    More,
    /// It has more bytes than so many, which it may have.
    TooLong(usize),
    /// It is no word.
    NoWord,
}

/// Whether these bytes begin a connection of this protocol: a word in capitals, then NUL.
pub(crate) fn begins(bytes: &[u8]) -> Begins {
    match bytes.iter().position(|byte| !byte.is_ascii_uppercase()) {
        None => Begins::Maybe,
        Some(end) if end > 0 && bytes[end] == 0 => Begins::Yes,
        Some(_) => Begins::No,
    }
}

impl Codec for Goqueue {
    fn decode(&mut self, input: &mut Input, out: &mut Vec<u8>, context: &Context<'_>) -> Next {
        let word_end = match self.progress.read_word(input.bytes(), context.limits) {
            Ok(end) => end,
            Err(unread) => return unread.next("Command", out),
        };
        match &input.bytes()[..word_end] {
            b"ADD" => self.add(input, out, context.limits),
            b"CONNECT" => self.connect(input, out),
            b"DELETE" => self.delete(input),
            b"RESERVE" => self.reserve(input, out, context.limits),
            _ => self.unknown(input, out),
        }
    }

    fn last_words(&mut self, why: Farewell, out: &mut Vec<u8>) {
        write_error(why.text(), out);
    }

    fn encode(&mut self, reply: &Reply<'_>, out: &mut Vec<u8>, context: &Context<'_>) {
        match (std::mem::take(&mut self.asked), reply) {
            (Asked::Add, Reply::Enqueued { number, .. }) => write_added(*number, out),
            (Asked::Delete(_), Reply::Done) => out.extend_from_slice(b"OK\0"),
            (Asked::Delete(number), Reply::Refused(Refusal::NoSuchJob)) => {
                write_error(&format!("Job {number} already deleted"), out);
            }
            (Asked::Reserve, Reply::Leased { job, .. }) => write_reserved(job, context.limits, out),
            (Asked::Reserve, Reply::NoJob) => out.extend_from_slice(b"TIMEOUT\0"),
            (_, Reply::Refused(refusal)) => write_error(refusal_text(*refusal), out),
            (asked, reply) => unreachable!("{asked:?} was answered {reply:?}"),
        }
    }

    fn end(&mut self, input: &Input, out: &mut Vec<u8>) {
        let Some(word_end) = self.progress.word_end else {
            return;
        };
        if let Some(text) = self.progress.cut_short_text(&input.bytes()[..word_end], input.len()) {
            write_error(text, out);
        }
    }
}

impl Goqueue {
    /// `ADD\0<queue>\0<priority><ttp><length><data>`
    fn add(&mut self, input: &mut Input, out: &mut Vec<u8>, limits: &Limits) -> Next {
        let name_end = match self.progress.read_name(input.bytes(), limits) {
            Ok(end) => end,
            Err(unread) => return unread.next("Queue name", out),
        };
        let name = self.progress.name(input.bytes(), name_end);
        let mut rest = &input.bytes()[name_end + 1..];
        let (Some(priority), Some(ttp_s), Some(length)) =
            (take_u32(&mut rest), take_u32(&mut rest), take_u32(&mut rest))
        else {
            return Next::More;
        };
        let length = length as usize;
        if length > limits.body_bytes_max {
            write_error(&format!("Job data is larger than {} bytes", limits.body_bytes_max), out);
            return Next::Close;
        }
        if rest.len() < length {
            input.expect(name_end + 1 + 3 * INTEGER_BYTES + length);
            return Next::More;
        }
        let queue = (!name.is_empty()).then(|| QueueName::new(name));
        let data = input.take(name_end + 1 + 3 * INTEGER_BYTES, length);
        self.progress = Progress::default();
        let Some(queue) = queue else {
            write_error("Error adding new job to queue ", out);
            return Next::Answered;
        };
        self.asked = Asked::Add;
        Next::Command(Command::Enqueue(Box::new(new_job(queue, priority, ttp_s, data))))
    }

    /// `CONNECT\0`
    fn connect(&mut self, input: &mut Input, out: &mut Vec<u8>) -> Next {
        self.finish(input, "CONNECT\0".len());
        out.extend_from_slice(b"OK\0");
        Next::Answered
    }

    /// `DELETE\0<id>`
    fn delete(&mut self, input: &mut Input) -> Next {
        let start = "DELETE\0".len();
        let Some(id) = input.bytes()[start..].first_chunk::<ID_BYTES>() else {
            return Next::More;
        };
        let number = JobNumber::from_le_bytes(*id);
        self.finish(input, start + ID_BYTES);
        self.asked = Asked::Delete(number);
        Next::Command(Command::Remove { job: JobRef::Number(number), by: By::Anyone })
    }

    /// `RESERVE\0<queue>\0<timeout>`
    fn reserve(&mut self, input: &mut Input, out: &mut Vec<u8>, limits: &Limits) -> Next {
        let name_end = match self.progress.read_name(input.bytes(), limits) {
            Ok(end) => end,
            Err(unread) => return unread.next("Queue name", out),
        };
        let Some(timeout_s) = take_u32(&mut &input.bytes()[name_end + 1..]) else {
            return Next::More;
        };
        let queue = QueueName::new(self.progress.name(input.bytes(), name_end));
        self.finish(input, name_end + 1 + INTEGER_BYTES);
        self.asked = Asked::Reserve;
        Next::Command(Command::Lease(Box::new(LeaseRequest {
            queues: vec![queue],
            choice: Choice::Best,
            hold: Hold::Timed { honours_unlimited: true },
            wait: if timeout_s == 0 { Wait::Forever } else { Wait::Millis(u64::from(timeout_s) * 1_000) },
            creates_queues: false,
            body_without: None,
            heeds_ms: None,
        })))
    }

    fn unknown(&mut self, input: &mut Input, out: &mut Vec<u8>) -> Next {
        let word_end = self.progress.word_end.unwrap_or_default();
        out.extend_from_slice(b"ERROR\0Unknown Command ");
        out.extend_from_slice(&input.bytes()[..=word_end]);
        self.finish(input, word_end + 1);
        Next::Answered
    }

    /// The request at the front, of so many bytes, has been read.
    fn finish(&mut self, input: &mut Input, count: usize) {
        input.consume(count);
        self.progress = Progress::default();
    }
}

impl Unread {
    fn next(&self, what: &str, out: &mut Vec<u8>) -> Next {
        match self {
            Unread::More => Next::More,
            Unread::TooLong(bytes_max) => {
                write_error(&format!("{what} is longer than {bytes_max} bytes"), out);
                Next::Close
            }
            Unread::NoWord => Next::Close,
        }
    }
}

impl Progress {
    /// Reads `[A-Z]+` up to its NUL, and says where that is.
    fn read_word(&mut self, bytes: &[u8], limits: &Limits) -> Result<usize, Unread> {
        if let Some(end) = self.word_end {
            return Ok(end);
        }
        let fresh = &bytes[self.searched..];
        let end = self.searched + fresh.iter().position(|byte| !byte.is_ascii_uppercase()).unwrap_or(fresh.len());
        self.searched = end;
        if end > limits.line_extra_bytes_max {
            return Err(Unread::TooLong(limits.line_extra_bytes_max));
        }
        match bytes.get(end) {
            None => Err(Unread::More),
            Some(0) if end > 0 => {
                self.word_end = Some(end);
                self.searched = end + 1;
                Ok(end)
            }
            Some(_) => Err(Unread::NoWord),
        }
    }

    /// Reads a queue's name up to its NUL, and says where that is. It may be as long as one that a line can name.
    fn read_name(&mut self, bytes: &[u8], limits: &Limits) -> Result<usize, Unread> {
        if let Some(end) = self.name_end {
            return Ok(end);
        }
        let found = memchr(0, &bytes[self.searched..]).map(|at| self.searched + at);
        let end = found.unwrap_or(bytes.len());
        self.searched = end;
        if self.name(bytes, end).len() > limits.line_bytes_max() {
            return Err(Unread::TooLong(limits.line_bytes_max()));
        }
        self.name_end = found;
        found.ok_or(Unread::More)
    }

    fn name<'a>(&self, bytes: &'a [u8], name_end: usize) -> &'a [u8] {
        let start = self.word_end.map_or(0, |end| end + 1);
        &bytes[start..name_end]
    }

    /// What is said to a client that stopped sending inside this command. The spelling is the original's.
    fn cut_short_text(&self, word: &[u8], len: usize) -> Option<&'static str> {
        let after_name = self.name_end.map(|end| len - (end + 1));
        match (word, after_name) {
            (b"ADD", None) => Some("Malfromed ADD command: failed to parse queue name"),
            (b"ADD", Some(0..4)) => Some("Malformed ADD command: failed to parse priority"),
            (b"ADD", Some(4..8)) => Some("Malformed ADD command: failed to parse ttp"),
            (b"ADD", Some(_)) => Some("Malformed ADD command: failed to parse job data"),
            (b"DELETE", _) => Some("Malformed DELETE command: failed to parse job ID"),
            (b"RESERVE", None) => Some("Malfromed RESERVE command: failed to parse queue name"),
            (b"RESERVE", Some(_)) => Some("Malformed ADD command: failed to parse timeout"),
            _ => None,
        }
    }
}

fn take_u32(bytes: &mut &[u8]) -> Option<u32> {
    let (taken, rest) = bytes.split_first_chunk::<INTEGER_BYTES>()?;
    *bytes = rest;
    Some(u32::from_le_bytes(*taken))
}

fn new_job(queue: QueueName, priority: u32, ttp_s: u32, data: Box<[u8]>) -> NewJob {
    NewJob {
        urgency: -i128::from(priority),
        own_time: if ttp_s == 0 { OwnTime::Unlimited } else { OwnTime::Millis(u64::from(ttp_s) * 1_000) },
        ..NewJob::plain(queue, data)
    }
}

fn write_added(number: JobNumber, out: &mut Vec<u8>) {
    out.extend_from_slice(b"ADDED\0");
    out.extend_from_slice(&number.to_le_bytes());
}

/// `RESERVED\0<id><priority><ttp>reserved\0<length><data>`
fn write_reserved(job: &JobView<'_>, limits: &Limits, out: &mut Vec<u8>) {
    // There is no length for data of 4 GiB, and to cut them short would be to change the job.
    let Ok(length) = u32::try_from(job.body.len()) else {
        return write_error(refusal_text(Refusal::BodyUnfit), out);
    };
    out.reserve(job.body.len() + 64);
    out.extend_from_slice(b"RESERVED\0");
    out.extend_from_slice(&job.number.to_le_bytes());
    out.extend_from_slice(&priority_from_urgency(job.urgency).to_le_bytes());
    out.extend_from_slice(&shown_ttp_s(job.own_time, limits).to_le_bytes());
    out.extend_from_slice(b"reserved\0");
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(job.body);
}

/// Whole seconds, rounded up: 0 would say that the lease never ends.
fn shown_ttp_s(own_time: OwnTime, limits: &Limits) -> u32 {
    let ms = match own_time {
        OwnTime::Unlimited => 0,
        OwnTime::Millis(ms) => ms,
        OwnTime::None => limits.default_lease_ms,
    };
    u32::try_from(ms.div_ceil(1_000)).unwrap_or(u32::MAX)
}

fn write_error(text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"ERROR\0");
    out.extend_from_slice(text.as_bytes());
    out.push(0);
}

/// Refusals that the protocol has no words of its own for.
fn refusal_text(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::OutOfMemory => "The server is out of memory",
        Refusal::DiskFull => "The server's disk is full",
        Refusal::Draining => "The server is about to stop and takes no more jobs",
        Refusal::QueueNameTooLong => "The queue's name is too long",
        Refusal::TooManyQueues => "The server has as many queues as it may have",
        Refusal::TooManyNamed => "Too many queues were named",
        Refusal::TooManyHeld => "This connection holds as many jobs as it may",
        Refusal::NoSuchJob => "There is no such job",
        Refusal::NotHeld => "The job is not reserved by this connection",
        Refusal::Finished => "The job is already finished",
        Refusal::NoSuchQueue => "There is no such queue",
        Refusal::DuplicateUuid | Refusal::ReservedUuid => "The job's UUID is taken",
        Refusal::LifetimeOver => "The job's lifetime is over",
        Refusal::BodyUnfit => "The job's data cannot be sent",
        Refusal::WrongState
        | Refusal::NoSuchPrevious
        | Refusal::InvalidStep
        | Refusal::TooManySteps
        | Refusal::NoSuchOrigin
        | Refusal::OriginOpen
        | Refusal::OriginNotClaimed
        | Refusal::OriginsClaimed => "The command cannot be carried out",
    }
}

#[cfg(test)]
mod tests {
    use jobyard_engine::LeaseId;

    use super::*;
    use crate::testing::{context, leased};

    /// What a fresh connection makes of `bytes`, whole and a byte at a time, which must be the same.
    fn decode(bytes: &[u8], limits: &Limits) -> (Next, Vec<u8>) {
        let mut whole = (Goqueue::default(), Input::default(), Vec::new());
        whole.1.push(bytes);
        let expected = whole.0.decode(&mut whole.1, &mut whole.2, &context(limits));
        let (mut codec, mut input, mut out) = (Goqueue::default(), Input::default(), Vec::new());
        let mut next = Next::More;
        for &byte in bytes {
            input.push(&[byte]);
            next = codec.decode(&mut input, &mut out, &context(limits));
            if !matches!(next, Next::More) {
                break;
            }
        }
        assert_eq!(format!("{next:?}"), format!("{expected:?}"));
        assert_eq!(out, whole.2);
        (expected, out)
    }

    fn cut_short(bytes: &[u8]) -> Vec<u8> {
        let limits = Limits::default();
        let (mut codec, mut input, mut out) = (Goqueue::default(), Input::default(), Vec::new());
        input.push(bytes);
        assert!(matches!(codec.decode(&mut input, &mut out, &context(&limits)), Next::More));
        codec.end(&input, &mut out);
        out
    }

    fn add(queue: &str, priority: u32, ttp_s: u32, data: &[u8]) -> Vec<u8> {
        let length = u32::try_from(data.len()).unwrap();
        let numbers = [priority.to_le_bytes(), ttp_s.to_le_bytes(), length.to_le_bytes()].concat();
        [b"ADD\0", queue.as_bytes(), b"\0", &numbers, data].concat()
    }

    #[test]
    fn first_bytes_tell_the_protocol() {
        for (bytes, expected) in [
            (&b""[..], Begins::Maybe),
            (b"ADD", Begins::Maybe),
            (b"ADD\0", Begins::Yes),
            (b"WHATEVER\0", Begins::Yes),
            (b"\0", Begins::No),
            (b"ADD ", Begins::No),
            (b"add\0", Begins::No),
        ] {
            assert_eq!(begins(bytes), expected, "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn a_job_is_added_with_its_priority_and_ttp() {
        for (ttp_s, own_time) in
            [(0, OwnTime::Unlimited), (3, OwnTime::Millis(3_000)), (u32::MAX, OwnTime::Millis(4_294_967_295_000))]
        {
            let (next, out) = decode(&add("q", u32::MAX, ttp_s, b"\0\xff"), &Limits::default());
            let Next::Command(Command::Enqueue(job)) = next else { panic!("{next:?}") };
            let plain = NewJob::plain(QueueName::new(b"q"), b"\0\xff".as_slice().into());
            assert_eq!(*job, NewJob { urgency: -4_294_967_295, own_time, ..plain });
            assert_eq!(out, b"");
        }
    }

    #[test]
    fn a_timeout_of_none_waits_for_ever() {
        for (timeout_s, wait) in
            [(0, Wait::Forever), (1, Wait::Millis(1_000)), (u32::MAX, Wait::Millis(4_294_967_295_000))]
        {
            let bytes = [b"RESERVE\0q\0".as_slice(), &u32::to_le_bytes(timeout_s)].concat();
            let Next::Command(Command::Lease(request)) = decode(&bytes, &Limits::default()).0 else {
                panic!("not a lease");
            };
            assert_eq!(request.wait, wait);
            assert_eq!(request.hold, Hold::Timed { honours_unlimited: true });
        }
    }

    #[test]
    fn words_that_are_none_end_the_connection() {
        let limits = Limits { line_extra_bytes_max: 8, ..Limits::default() };
        for bytes in [&b"\0"[..], b"add\0", b"ADD q", b"A1\0", b"\xff", b"ABCDEFGHi"] {
            let (next, out) = decode(bytes, &limits);
            assert!(matches!(next, Next::Close), "{} gave {next:?}", bytes.escape_ascii());
            assert_eq!(out, b"");
        }
    }

    #[test]
    fn a_word_or_a_name_over_its_limit_is_told_which() {
        let limits = Limits { body_bytes_max: 2, line_extra_bytes_max: 8, ..Limits::default() };
        for (bytes, text) in [
            (&b"ABCDEFGHI"[..], &b"ERROR\0Command is longer than 8 bytes\0"[..]),
            (b"ABCDEFGHI\0", b"ERROR\0Command is longer than 8 bytes\0"),
            (b"ADD\0abcdefghijk", b"ERROR\0Queue name is longer than 10 bytes\0"),
            (b"RESERVE\0abcdefghijk\0\0\0\0\0", b"ERROR\0Queue name is longer than 10 bytes\0"),
        ] {
            let (next, out) = decode(bytes, &limits);
            assert!(matches!(next, Next::Close), "{} gave {next:?}", bytes.escape_ascii());
            assert_eq!(out, text);
        }
        assert!(matches!(decode(b"ADD\0abcdefghij", &limits).0, Next::More));
        let (next, out) = decode(b"ABCDEFGH\0", &limits);
        assert!(matches!(next, Next::Answered));
        assert_eq!(out, b"ERROR\0Unknown Command ABCDEFGH\0");
    }

    #[test]
    fn data_over_the_limit_is_refused_before_it_comes() {
        let limits = Limits { body_bytes_max: 3, ..Limits::default() };
        let bytes = add("q", 1, 1, b"four");
        let (next, out) = decode(&bytes[..bytes.len() - 4], &limits);
        assert!(matches!(next, Next::Close));
        assert_eq!(out, b"ERROR\0Job data is larger than 3 bytes\0");
        assert!(matches!(decode(&add("q", 1, 1, b"two"), &limits).0, Next::Command(_)));
    }

    #[test]
    fn a_command_cut_short_is_told_where() {
        let whole = add("q", 1, 1, b"data");
        for (length, text) in [
            (4, "Malfromed ADD command: failed to parse queue name"),
            (5, "Malfromed ADD command: failed to parse queue name"),
            (6, "Malformed ADD command: failed to parse priority"),
            (9, "Malformed ADD command: failed to parse priority"),
            (10, "Malformed ADD command: failed to parse ttp"),
            (14, "Malformed ADD command: failed to parse job data"),
            (18, "Malformed ADD command: failed to parse job data"),
            (21, "Malformed ADD command: failed to parse job data"),
        ] {
            assert_eq!(cut_short(&whole[..length]), format!("ERROR\0{text}\0").as_bytes(), "{length}");
        }
        assert_eq!(cut_short(b""), b"");
        assert_eq!(cut_short(b"ADD"), b"");
        assert_eq!(cut_short(b"DELETE\0abcdefg"), b"ERROR\0Malformed DELETE command: failed to parse job ID\0");
        assert_eq!(cut_short(b"RESERVE\0q"), b"ERROR\0Malfromed RESERVE command: failed to parse queue name\0");
        assert_eq!(cut_short(b"RESERVE\0q\0abc"), b"ERROR\0Malformed ADD command: failed to parse timeout\0");
    }

    #[test]
    fn a_job_of_another_protocol_is_shown_as_well_as_can_be() {
        let limits = Limits::default();
        for (own_time, shown) in [
            (OwnTime::None, 60),
            (OwnTime::Unlimited, 0),
            (OwnTime::Millis(1), 1),
            (OwnTime::Millis(1_000), 1),
            (OwnTime::Millis(1_001), 2),
            (OwnTime::Millis(u64::MAX), u32::MAX),
        ] {
            assert_eq!(shown_ttp_s(own_time, &limits), shown, "{own_time:?}");
        }
    }

    #[test]
    fn a_reserved_job_is_written_with_its_status() {
        let queue = QueueName::new(b"q");
        let job = JobView { urgency: -5, own_time: OwnTime::Millis(9_000), ..leased(258, &queue, b"a\0b") };
        let limits = Limits::default();
        let mut codec = Goqueue { asked: Asked::Reserve, ..Goqueue::default() };
        let mut out = Vec::new();
        codec.encode(&Reply::Leased { job, lease: LeaseId(1) }, &mut out, &context(&limits));
        assert_eq!(out, b"RESERVED\0\x02\x01\0\0\0\0\0\0\x05\0\0\0\x09\0\0\0reserved\0\x03\0\0\0a\0b");
    }

    #[test]
    fn refusals_without_words_of_their_own_are_errors() {
        let limits = Limits::default();
        for asked in [Asked::Add, Asked::Delete(1), Asked::Reserve] {
            let mut codec = Goqueue { asked, ..Goqueue::default() };
            let mut out = Vec::new();
            codec.encode(&Reply::Refused(Refusal::OutOfMemory), &mut out, &context(&limits));
            assert_eq!(out, b"ERROR\0The server is out of memory\0");
        }
    }
}
