//! takeanumber's protocol: its own lines, and beside them the arrays that Redis clients send.
//! An answer takes the form of its question.

mod array;
mod line;
mod redis;

use jobyard_engine::{
    Backoff, By, Choice, Command, FailureRule, Hold, JobRef, JobView, LeaseRequest, Limits, Look, NewJob, QueueName,
    Refusal, Reply, UsedUp, Uuid, Wait,
};

use crate::codec::{Codec, Context, Farewell, Next};
use crate::ids::{UUID_LEN, parse_uuid, write_uuid};
use crate::input::{Input, Line};
use crate::numbers::write_number;
use crate::options::{Dialect, Options};
use crate::table::Begins;
use array::{Array, Frame};
use redis::Session;

/// One connection.
#[derive(Debug)]
pub(crate) struct Takeanumber {
    dialect: Dialect,
    lease_ms: Option<u64>,
    frame: Frame,
    session: Session,
    asked: Asked,
    form: Form,
}

/// How a question was put, and so how it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Line,
    Array,
}

/// What the command without a reply was.
#[derive(Clone, Copy, Debug, Default)]
enum Asked {
    #[default]
    Nothing,
    Len,
    Add,
    Reserve,
    Retry,
    Done,
}

/// What a question in either form comes to. All parts are there; what they say is yet to be read.
#[derive(Debug, PartialEq, Eq)]
enum Request<'a> {
    Len {
        queue: &'a [u8],
    },
    Add {
        queue: &'a [u8],
        retries: &'a [u8],
        body: &'a [u8],
    },
    Reserve {
        queue: &'a [u8],
    },
    Retry {
        queue: &'a [u8],
        id: &'a [u8],
    },
    Done {
        queue: &'a [u8],
        id: &'a [u8],
    },
    Close,
    /// It cannot be carried out, for this reason.
    Wrong(&'static str),
}

const UNRECOGNIZED: &str = "Unrecognized command.";
const NO_BODY: &str = "No body provided.";
const NO_RETRIES: &str = "No retries remaining.";
const NO_SUCH_ID: &str = "No such Id.";

/// Whether these bytes begin a connection of this protocol.
pub(crate) fn begins(bytes: &[u8]) -> Begins {
    if bytes.first() == Some(&b'*') {
        return Begins::Yes;
    }
    let words = [b"LEN".as_slice(), b"ADD", b"RESERVE", b"RETRY", b"DONE"];
    words
        .map(|word| begins_word(bytes, word, b" \t"))
        .into_iter()
        .chain([begins_word(bytes, b"CLOSE", b"\r\n")])
        .find(|&begins| begins != Begins::No)
        .unwrap_or(Begins::No)
}

fn begins_word(bytes: &[u8], word: &[u8], followers: &[u8]) -> Begins {
    match bytes.strip_prefix(word) {
        Some([]) => Begins::Maybe,
        Some([next, ..]) if followers.contains(next) => Begins::Yes,
        Some(_) => Begins::No,
        None if word.starts_with(bytes) => Begins::Maybe,
        None => Begins::No,
    }
}

impl Takeanumber {
    pub(crate) fn new(options: &Options) -> Self {
        Takeanumber {
            dialect: options.dialect,
            lease_ms: options.lease_ms,
            frame: Frame::default(),
            session: Session::default(),
            asked: Asked::default(),
            form: Form::Line,
        }
    }
}

impl Codec for Takeanumber {
    fn decode(&mut self, input: &mut Input, out: &mut Vec<u8>, context: &Context<'_>) -> Next {
        self.session.arrive(context.client);
        match input.bytes().first() {
            None => Next::More,
            Some(b'*') => self.decode_array(input, out, context),
            Some(_) => self.decode_line(input, out, context.limits),
        }
    }

    fn last_words(&mut self, why: Farewell, out: &mut Vec<u8>) {
        write_error(&format!("{}.", why.text()), out);
    }

    fn encode(&mut self, reply: &Reply<'_>, out: &mut Vec<u8>, _context: &Context<'_>) {
        match (std::mem::take(&mut self.asked), reply) {
            (Asked::Len, Reply::Queue(queue)) => write_integer(queue.counts.ready + queue.counts.delayed, out),
            (Asked::Len, Reply::Refused(Refusal::NoSuchQueue)) => write_integer(0, out),
            (Asked::Add, Reply::Enqueued { uuid, .. }) => write_id(*uuid, out),
            (Asked::Reserve, Reply::Leased { job, .. }) => write_reserved(job, self.form, out),
            (Asked::Reserve, Reply::NoJob) => write_no_job(self.dialect, out),
            (Asked::Retry, Reply::Failed { finally: false }) | (Asked::Done, Reply::Done) => write_simple(b"OK", out),
            (
                Asked::Retry,
                Reply::Failed { finally: true } | Reply::Refused(Refusal::NoSuchJob | Refusal::Finished),
            ) => write_error(NO_RETRIES, out),
            (Asked::Done, Reply::Refused(Refusal::NoSuchJob | Refusal::Finished)) => write_error(NO_SUCH_ID, out),
            (_, Reply::Refused(refusal)) => write_error(refusal_text(*refusal), out),
            (asked, reply) => unreachable!("{asked:?} was answered {reply:?}"),
        }
    }
}

impl Takeanumber {
    fn decode_line(&mut self, input: &mut Input, out: &mut Vec<u8>, limits: &Limits) -> Next {
        let length = match input.line(limits.line_bytes_max()) {
            Line::Whole(length) => length,
            Line::More => return Next::More,
            Line::TooLong => {
                write_error(&format!("Line is longer than {} bytes.", limits.line_bytes_max()), out);
                return Next::Close;
            }
        };
        self.form = Form::Line;
        let request = line::parse(&input.bytes()[..length]);
        let next = self.carry_out(&request, out, limits);
        input.consume(length + 1);
        next
    }

    fn decode_array(&mut self, input: &mut Input, out: &mut Vec<u8>, context: &Context<'_>) -> Next {
        match self.frame.read(input.bytes(), context.limits) {
            Array::Whole => {}
            Array::More => return Next::More,
            Array::Broken(text) => {
                write_error(&text, out);
                return Next::Close;
            }
        }
        self.form = Form::Array;
        let frame = std::mem::take(&mut self.frame);
        let words = frame.words(input.bytes());
        let next = match array::parse(&words) {
            Some(request) => self.carry_out(&request, out, context.limits),
            None => self.session.answer(&words, out, context),
        };
        input.consume(frame.len());
        next
    }

    fn carry_out(&mut self, request: &Request<'_>, out: &mut Vec<u8>, limits: &Limits) -> Next {
        match *request {
            Request::Len { queue } => self.len(queue),
            Request::Add { queue, retries, body } => self.add(queue, retries, body, out, limits),
            Request::Reserve { queue } => self.reserve(queue),
            Request::Retry { queue, id } => self.retry(queue, id, out),
            Request::Done { queue, id } => self.done(queue, id, out),
            Request::Close => Next::Close,
            Request::Wrong(text) => wrong(text, out),
        }
    }

    fn len(&mut self, queue: &[u8]) -> Next {
        self.asked = Asked::Len;
        Next::Command(Command::Look(Look::Queue(QueueName::new(queue))))
    }

    fn add(&mut self, queue: &[u8], retries: &[u8], body: &[u8], out: &mut Vec<u8>, limits: &Limits) -> Next {
        let Some(retries) = parse_retries(retries) else {
            return wrong("Invalid number of retries.", out);
        };
        if body.is_empty() {
            return wrong(NO_BODY, out);
        }
        if body.len() > limits.body_bytes_max {
            write_error(&body_too_long(limits), out);
            return Next::Close;
        }
        let rule = FailureRule {
            allowed: Some(retries),
            backoff: Backoff::None,
            used_up: UsedUp::Remove,
            parting_counts: true,
        };
        self.asked = Asked::Add;
        Next::Command(Command::Enqueue(Box::new(NewJob {
            failures: Some(rule),
            ..NewJob::plain(QueueName::new(queue), body.into())
        })))
    }

    fn reserve(&mut self, queue: &[u8]) -> Next {
        self.asked = Asked::Reserve;
        Next::Command(Command::Lease(Box::new(LeaseRequest {
            queues: vec![QueueName::new(queue)],
            choice: Choice::Best,
            hold: self.lease_ms.map_or(Hold::Endless, Hold::For),
            wait: Wait::No,
            creates_queues: false,
            body_without: (self.form == Form::Line).then_some(b'\n'),
            heeds_ms: None,
        })))
    }

    fn retry(&mut self, queue: &[u8], id: &[u8], out: &mut Vec<u8>) -> Next {
        let Some(job) = parse_job(queue, id) else {
            return wrong(NO_RETRIES, out);
        };
        self.asked = Asked::Retry;
        Next::Command(Command::Fail { job, by: By::Anyone, result: Box::default() })
    }

    fn done(&mut self, queue: &[u8], id: &[u8], out: &mut Vec<u8>) -> Next {
        let Some(job) = parse_job(queue, id) else {
            return wrong(NO_SUCH_ID, out);
        };
        self.asked = Asked::Done;
        Next::Command(Command::Complete { job, by: By::Anyone, result: Box::default() })
    }
}

fn wrong(text: &str, out: &mut Vec<u8>) -> Next {
    write_error(text, out);
    Next::Answered
}

/// Any signed number of 64 bits; fewer than none is none.
fn parse_retries(text: &[u8]) -> Option<u64> {
    let retries: i64 = str::from_utf8(text).ok()?.parse().ok()?;
    Some(u64::try_from(retries).unwrap_or(0))
}

/// A text that is no UUID is nobody's id.
fn parse_job(queue: &[u8], id: &[u8]) -> Option<JobRef> {
    let uuid = parse_uuid(id)?;
    Some(JobRef::InQueue(Uuid(uuid.as_u128()), QueueName::new(queue)))
}

fn body_too_long(limits: &Limits) -> String {
    format!("Body is longer than {} bytes.", limits.body_bytes_max)
}

/// `+<id> <body>`, which cannot hold a line's end: what was asked as an array is then answered as a bulk string.
fn write_reserved(job: &JobView<'_>, form: Form, out: &mut Vec<u8>) {
    out.reserve(UUID_LEN + job.body.len() + 32);
    if form == Form::Array && memchr::memchr2(b'\r', b'\n', job.body).is_some() {
        out.push(b'$');
        write_number(out, UUID_LEN + 1 + job.body.len());
        out.extend_from_slice(b"\r\n");
    } else {
        out.push(b'+');
    }
    write_uuid(out, job.uuid);
    out.push(b' ');
    out.extend_from_slice(job.body);
    out.extend_from_slice(b"\r\n");
}

fn write_no_job(dialect: Dialect, out: &mut Vec<u8>) {
    match dialect {
        Dialect::Document => out.extend_from_slice(b":-1\r\n"),
        Dialect::Original => write_error("No items available to reserve.", out),
    }
}

fn write_integer(number: usize, out: &mut Vec<u8>) {
    out.push(b':');
    write_number(out, number);
    out.extend_from_slice(b"\r\n");
}

fn write_id(id: Uuid, out: &mut Vec<u8>) {
    out.push(b'+');
    write_uuid(out, id);
    out.extend_from_slice(b"\r\n");
}

fn write_simple(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'+');
    out.extend_from_slice(text);
    out.extend_from_slice(b"\r\n");
}

fn write_error(text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"-ERR ");
    out.extend_from_slice(text.as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Refusals that the protocol has no words of its own for.
fn refusal_text(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::BodyUnfit => "Body cannot be sent in a line.",
        Refusal::OutOfMemory => "Out of memory.",
        Refusal::DiskFull => "Disk full.",
        Refusal::Draining => "Server is about to stop and takes no more jobs.",
        Refusal::QueueNameTooLong => "Queue name too long.",
        Refusal::TooManyQueues => "Too many queues.",
        Refusal::TooManyNamed => "Too many queues named.",
        Refusal::TooManyHeld => "Too many jobs reserved.",
        Refusal::NoSuchJob | Refusal::Finished | Refusal::NotHeld => NO_SUCH_ID,
        Refusal::NoSuchQueue => "No such queue.",
        Refusal::DuplicateUuid | Refusal::ReservedUuid => "Id is taken.",
        Refusal::LifetimeOver => "Lifetime is over.",
        Refusal::WrongState
        | Refusal::NoSuchPrevious
        | Refusal::InvalidStep
        | Refusal::TooManySteps
        | Refusal::NoSuchOrigin
        | Refusal::OriginOpen
        | Refusal::OriginNotClaimed
        | Refusal::OriginsClaimed => UNRECOGNIZED,
    }
}

#[cfg(test)]
mod tests;
