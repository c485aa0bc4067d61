//! beanstalkd: CRLF lines of a verb and its words, and bodies whose size the line before them says.

mod line;
mod requests;
mod stats;
mod write;

#[cfg(test)]
mod tests;

use jobyard_engine::{Command, QueueName, Reply, Role};

use crate::any::begins_with;
use crate::codec::{Codec, Context, Farewell, Next};
use crate::input::{Input, Line};
use crate::table::Begins;

pub(crate) use line::Counted;
use line::{Fault, Origin, Parsed, Put, Request};
pub use line::{NAME_BYTES_MAX, ORIGIN_BYTES_MAX, is_tube};
pub use requests::{HOLD, new_job, urgency};
pub use stats::VERSION;

/// The queue that a client uses and watches before it names another.
pub const DEFAULT_TUBE: &[u8] = b"default";

/// The longest line, its end not counted.
const LINE_BYTES_MAX: usize = 222;

/// What ends a body.
const END: &[u8] = b"\r\n";

/// One connection.
#[derive(Debug)]
pub(crate) struct Beanstalkd {
    /// Whether the engine was told what connecting means.
    opened: bool,
    /// Where jobs are put.
    used: QueueName,
    /// Where jobs are taken from: never none.
    watched: Vec<QueueName>,
    /// What the names of these take.
    watched_bytes: usize,
    /// What comes next.
    expected: Expected,
    /// Where the job was before whose body comes next.
    origin: Option<Origin>,
    /// What the engine was asked last.
    asked: Asked,
}

/// What comes next.
#[derive(Clone, Copy, Debug)]
enum Expected {
    Line,
    /// The rest of a line that is too long.
    RestOfLine,
    Body(Put),
    /// So many bytes of a body that nobody wants, and its end; then it is told.
    Unwanted {
        left: u64,
        fault: Fault,
    },
}

/// What the engine was asked last, as far as the answer depends on it.
#[derive(Debug)]
enum Asked {
    /// Something of which the client hears nothing.
    Quietly,
    Reserve,
    ReserveJob,
    Job,
    JobStatistics,
    Jobs,
    Tubes,
    Origins,
    TubeStatistics,
    Statistics,
    Kick,
    /// Something that is answered with this word if it was done.
    Word(&'static str),
    Use(QueueName),
    Watch(QueueName),
    Ignore(QueueName),
}

impl Default for Beanstalkd {
    fn default() -> Self {
        let default = QueueName::new(DEFAULT_TUBE);
        Beanstalkd {
            opened: false,
            used: default.clone(),
            watched_bytes: requests::name_bytes(&default),
            watched: vec![default],
            expected: Expected::Line,
            origin: None,
            asked: Asked::Quietly,
        }
    }
}

impl Beanstalkd {
    /// Who connects uses and watches the default tube, which exists from then on.
    fn open(&mut self) -> Next {
        self.opened = true;
        let command = Command::Attend { queue: self.used.clone(), role: Role::Both, keeps_queue: true };
        self.ask(Asked::Quietly, command)
    }

    fn ask(&mut self, asked: Asked, command: Command) -> Next {
        self.asked = asked;
        Next::Command(command)
    }

    fn read_line(&mut self, input: &mut Input, out: &mut Vec<u8>, context: &Context<'_>) -> Next {
        let length = match input.line_to_crlf(LINE_BYTES_MAX) {
            Line::More => return Next::More,
            Line::TooLong => {
                self.expected = Expected::RestOfLine;
                return self.skip_line(input, out);
            }
            Line::Whole(length) => length,
        };
        let Parsed { counted, request } = line::parse(&input.bytes()[..length]);
        input.consume(length + END.len());
        if let Some(counted) = counted.filter(|_| !crate::broken("protocols-commands-uncounted")) {
            context.tallies.beanstalkd.count(counted);
        }
        match request {
            Ok(Request::Put(put)) => self.begin_body(put, None, input, out, context),
            Ok(Request::PutOrigin(put, origin)) => self.begin_body(put, Some(origin), input, out, context),
            Ok(request) => self.request(request, out),
            Err(fault) => answer(fault, out),
        }
    }

    fn skip_line(&mut self, input: &mut Input, out: &mut Vec<u8>) -> Next {
        if !input.skip_to_crlf() {
            return Next::More;
        }
        self.expected = Expected::Line;
        answer(Fault::BadFormat, out)
    }

    fn begin_body(
        &mut self,
        put: Put,
        origin: Option<Origin>,
        input: &mut Input,
        out: &mut Vec<u8>,
        context: &Context<'_>,
    ) -> Next {
        if put.size as usize > context.limits.body_bytes_max {
            let left = u64::from(put.size) + END.len() as u64;
            return self.skip_body(left, Fault::JobTooBig, input, out);
        }
        if put.has_more {
            return answer(Fault::BadFormat, out);
        }
        self.origin = origin;
        self.read_body(put, input, out)
    }

    fn read_body(&mut self, put: Put, input: &mut Input, out: &mut Vec<u8>) -> Next {
        let size = put.size as usize;
        let Some(end) = input.bytes().get(size..size + END.len()) else {
            input.expect(size + END.len());
            self.expected = Expected::Body(put);
            return Next::More;
        };
        self.expected = Expected::Line;
        if end != END {
            input.consume(size + END.len());
            return answer(Fault::ExpectedCrlf, out);
        }
        let body = input.take(0, size);
        input.consume(END.len());
        let command = requests::enqueue(put, self.origin.take(), self.used.clone(), body);
        self.ask(Asked::Word("INSERTED"), command)
    }

    fn skip_body(&mut self, left: u64, fault: Fault, input: &mut Input, out: &mut Vec<u8>) -> Next {
        let there = usize::try_from(left).map_or(input.len(), |left| left.min(input.len()));
        input.consume(there);
        let left = left - there as u64;
        if left > 0 {
            self.expected = Expected::Unwanted { left, fault };
            return Next::More;
        }
        self.expected = Expected::Line;
        answer(fault, out)
    }
}

fn answer(fault: Fault, out: &mut Vec<u8>) -> Next {
    write::line(out, fault.text());
    Next::Answered
}

impl Codec for Beanstalkd {
    fn decode(&mut self, input: &mut Input, out: &mut Vec<u8>, context: &Context<'_>) -> Next {
        if !self.opened {
            return self.open();
        }
        match self.expected {
            Expected::Line => self.read_line(input, out, context),
            Expected::RestOfLine => self.skip_line(input, out),
            Expected::Body(put) => self.read_body(put, input, out),
            Expected::Unwanted { left, fault } => self.skip_body(left, fault, input, out),
        }
    }

    fn encode(&mut self, reply: &Reply<'_>, out: &mut Vec<u8>, context: &Context<'_>) {
        let asked = std::mem::replace(&mut self.asked, Asked::Quietly);
        match (asked, reply) {
            (Asked::Quietly, _) => {}
            (_, Reply::Refused(refusal)) => write::line(out, write::refusal(*refusal)),
            (Asked::Reserve | Asked::ReserveJob, Reply::Leased { job, .. }) => write::job(out, "RESERVED", job),
            (Asked::Reserve, Reply::NoJob) => write::line(out, "TIMED_OUT"),
            (Asked::Reserve, Reply::LeaseEnding) => write::line(out, "DEADLINE_SOON"),
            // The server is about to stop: the job is there, and can be asked for later.
            (Asked::ReserveJob, Reply::NoJob) => write::line(out, write::OUT_OF_MEMORY),
            (Asked::Job, Reply::Job(job)) => write::found(job, out),
            (Asked::Jobs, Reply::Jobs(jobs)) => match jobs.first() {
                Some(job) => write::found(job, out),
                None => write::line(out, write::NOT_FOUND),
            },
            (Asked::JobStatistics, Reply::Job(job)) => stats::job(job, out, context),
            (Asked::TubeStatistics, Reply::Queue(queue)) => stats::tube(queue, out, context),
            (Asked::Statistics, Reply::Sum(sum)) => stats::server(sum, out, context),
            (Asked::Tubes, Reply::Queues { queues, .. }) => {
                stats::names(queues.iter().map(|queue| queue.name.as_bytes()), out);
            }
            (Asked::Origins, Reply::Origins(open)) => stats::names(open.iter().copied(), out),
            (Asked::Kick, Reply::Revived { count }) => write::counted(out, "KICKED", *count as u64),
            (Asked::Word(word), Reply::Enqueued { number, .. }) => write::counted(out, word, *number),
            (Asked::Word(word), Reply::Done) => write::line(out, word),
            (Asked::Use(tube), Reply::Done) => self.used_now(tube, out),
            (Asked::Watch(tube), Reply::Done) => self.watched_now(tube, out),
            (Asked::Ignore(tube), Reply::Done) => self.ignored_now(&tube, out),
            (asked, reply) => unreachable!("{asked:?} is not answered so: {reply:?}"),
        }
    }

    fn kept_bytes(&self) -> usize {
        self.watched_bytes
    }

    fn last_words(&mut self, why: Farewell, out: &mut Vec<u8>) {
        match why {
            Farewell::TooManyClients | Farewell::TooMuchInput => write::line(out, write::OUT_OF_MEMORY),
        }
    }
}

/// Whether the first bytes are those of beanstalkd.
pub(crate) fn begins(bytes: &[u8]) -> Begins {
    const OPENINGS: [&[u8]; 20] = [
        b"put ",
        b"use ",
        b"watch ",
        b"ignore ",
        b"reserve",
        b"release ",
        b"bury ",
        b"touch ",
        b"peek ",
        b"peek-",
        b"kick ",
        b"kick-job ",
        b"stats",
        b"list-tube",
        b"pause-tube",
        b"quit\r\n",
        b"put-origin ",
        b"claim-origins ",
        b"close-origin ",
        b"list-origins",
    ];
    match bytes.strip_prefix(b"delete ") {
        Some(number) => begins_number(number),
        None => match (begins_with(bytes, &OPENINGS), begins_with(bytes, &[b"delete "])) {
            (Begins::No, delete) => delete,
            (opening, _) => opening,
        },
    }
}

/// Whether what is deleted goes by a number.
fn begins_number(text: &[u8]) -> Begins {
    let blanks = text.iter().take_while(|&&byte| byte == b' ').count();
    let text = &text[blanks..];
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    match &text[digits..] {
        b"" | b"\r" => Begins::Maybe,
        [b'\r', b'\n', ..] if digits > 0 => Begins::Yes,
        _ => Begins::No,
    }
}
