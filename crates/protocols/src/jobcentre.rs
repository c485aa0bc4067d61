//! Job Centre: one JSON object a line, `{"request":"put",…}` → `{"status":"ok",…}`.
//!
//! A bad request is answered with an error and never ends the connection. A job comes back as the
//! text it was sent as.

use jobyard_engine::{
    By, Choice, Command, Hold, JobNumber, JobRef, JobView, LeaseRequest, Limits, NewJob, Parting, QueueName, Refusal,
    Reply, Wait,
};

use crate::codec::{Codec, Context, Farewell, Next};
use crate::input::{Input, Line};
use crate::json::{self, Escapes, Keys, Malformed, NoString};
use crate::numbers::write_number;
use crate::table::Begins;
use crate::views;

/// One connection.
#[derive(Debug, Default)]
pub(crate) struct Jobcentre {
    /// The rest of a line that was too long is being passed over.
    skipping: bool,
}

/// Whether these bytes begin a Job Centre request.
pub(crate) fn begins(bytes: &[u8]) -> Begins {
    match bytes.first() {
        None => Begins::Maybe,
        Some(b'{') => Begins::Yes,
        Some(_) => Begins::No,
    }
}

impl Codec for Jobcentre {
    fn decode(&mut self, input: &mut Input, out: &mut Vec<u8>, context: &Context<'_>) -> Next {
        if self.skipping {
            if !input.skip_line() {
                return Next::More;
            }
            self.skipping = false;
        }
        let line_bytes_max = context.limits.line_bytes_max();
        match input.line(line_bytes_max) {
            Line::More => Next::More,
            Line::TooLong => {
                self.skipping = !input.skip_line();
                write_error(out, &format!("Request is longer than {line_bytes_max} bytes."));
                Next::Answered
            }
            Line::Whole(length) => {
                let request = read_request(&input.bytes()[..length], context.limits);
                input.consume(length + 1);
                answer(request, out)
            }
        }
    }

    fn last_words(&mut self, why: Farewell, out: &mut Vec<u8>) {
        write_error(out, &format!("{}.", why.text()));
    }

    fn encode(&mut self, reply: &Reply<'_>, out: &mut Vec<u8>, context: &Context<'_>) {
        match reply {
            Reply::Enqueued { number, .. } => {
                write_ok_and_id(out, *number);
                out.extend_from_slice(b"}\n");
            }
            Reply::Leased { job, .. } => write_job(out, job),
            Reply::NoJob | Reply::Refused(Refusal::NoSuchJob) => write_no_job(out),
            Reply::Refused(refusal) => write_error(out, &refusal_text(*refusal, context.limits)),
            // The rest of the vocabulary answers commands that this protocol does not have.
            _ => out.extend_from_slice(b"{\"status\":\"ok\"}\n"),
        }
    }
}

/// What a whole line asks for.
enum Request {
    Command(Command),
    /// It names a job by a number that no job can have.
    NoJob,
}

fn answer(request: Result<Request, String>, out: &mut Vec<u8>) -> Next {
    match request {
        Ok(Request::Command(command)) => return Next::Command(command),
        Ok(Request::NoJob) => write_no_job(out),
        Err(text) => write_error(out, &text),
    }
    Next::Answered
}

/// The raw text of all the fields that some request knows.
struct Fields<'a> {
    queue: Option<&'a str>,
    job: Option<&'a str>,
    pri: Option<&'a str>,
    queues: Option<&'a str>,
    wait: Option<&'a str>,
    id: Option<&'a str>,
}

fn read_request(line: &[u8], limits: &Limits) -> Result<Request, String> {
    let names = ["request", "queue", "job", "pri", "queues", "wait", "id"];
    let [request, queue, job, pri, queues, wait, id] = std::str::from_utf8(line)
        .map_err(|_| Malformed::NotJson)
        .and_then(|text| json::fields(text, Keys::Exact, &names))
        .map_err(|malformed| match malformed {
            Malformed::NotJson => "Not valid JSON.",
            Malformed::NotObject => "Not a JSON object.",
        })?;
    let fields = Fields { queue, job, pri, queues, wait, id };
    let request = json::string_lossy(present(request, "request")?).ok_or("Field request must be a string.")?;
    match request.as_ref() {
        "put" => put(&fields, limits).map(Request::Command),
        "get" => get(&fields, limits).map(Request::Command),
        "delete" => Ok(on_job(&fields, |job| Command::Remove { job, by: By::Anyone })?),
        "abort" => Ok(on_job(&fields, |job| Command::Release { job, again: None })?),
        _ => Err("Unrecognised request type.".to_owned()),
    }
}

fn present<'a>(field: Option<&'a str>, name: &str) -> Result<&'a str, String> {
    field.ok_or_else(|| format!("Field {name} is missing."))
}

/// `{"request":"put","queue":"queue1","job":{…},"pri":123}`
fn put(fields: &Fields<'_>, limits: &Limits) -> Result<Command, String> {
    let queue = queue_name(present(fields.queue, "queue")?).map_err(|why| match why {
        NoString::OtherValue => "Field queue must be a string.",
        NoString::HalfPair => "Field queue holds half a surrogate pair, which is no character.",
    })?;
    let job = present(fields.job, "job")?;
    if !job.starts_with('{') {
        return Err("Field job must be an object.".to_owned());
    }
    if job.len() > limits.body_bytes_max {
        return Err(format!("Field job is longer than {} bytes.", limits.body_bytes_max));
    }
    let urgency = priority(present(fields.pri, "pri")?)?;
    Ok(Command::Enqueue(Box::new(NewJob { urgency, ..NewJob::plain(queue, job.as_bytes().into()) })))
}

fn queue_name(field: &str) -> Result<QueueName, NoString> {
    json::string(field).map(|name| QueueName::new(name.as_bytes()))
}

/// The largest priority that is kept exactly.
const PRIORITY_MAX: i128 = 10_i128.pow(38);

/// A priority is written in digits only: what is negative, has a fraction or an exponent, or is no number has
/// something else in it.
fn priority(field: &str) -> Result<i128, String> {
    if !field.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("Field pri must be a non-negative integer.".to_owned());
    }
    let priority = field.parse().ok().filter(|&priority| priority <= PRIORITY_MAX);
    priority.ok_or_else(|| "Field pri must be at most 10^38.".to_owned())
}

/// `{"request":"get","queues":["queue1","queue2"],"wait":true}`
fn get(fields: &Fields<'_>, limits: &Limits) -> Result<Command, String> {
    let queues = json::list(present(fields.queues, "queues")?, limits.queues_named_max, queue_name)
        .unwrap_or(Err(NoString::OtherValue))
        .map_err(|why| match why {
            NoString::OtherValue => "Field queues must be an array of strings.",
            NoString::HalfPair => "Field queues holds half a surrogate pair, which is no character.",
        })?;
    let wait = match fields.wait {
        Some("true") => Wait::Forever,
        Some("false") | None => Wait::No,
        Some(_) => return Err("Field wait must be true or false.".to_owned()),
    };
    Ok(Command::Lease(Box::new(LeaseRequest {
        queues,
        choice: if crate::broken("protocols-best-in-order") { Choice::InOrder } else { Choice::Best },
        hold: Hold::Connection(Parting::Release),
        wait,
        creates_queues: false,
        body_without: None,
        heeds_ms: None,
    })))
}

/// `{"request":"delete","id":12345}`. Any integer is an id; one that no job can have is simply not there.
fn on_job(fields: &Fields<'_>, command: fn(JobRef) -> Command) -> Result<Request, String> {
    let id = present(fields.id, "id")?;
    if let Ok(number) = id.parse::<JobNumber>() {
        return Ok(Request::Command(command(JobRef::Number(number))));
    }
    let digits = id.strip_prefix('-').unwrap_or(id);
    if digits.bytes().all(|byte| byte.is_ascii_digit()) {
        Ok(Request::NoJob)
    } else {
        Err("Field id must be an integer.".to_owned())
    }
}

/// `{"status":"ok","id":12345,"job":{…},"pri":123,"queue":"queue1"}`
fn write_job(out: &mut Vec<u8>, job: &JobView<'_>) {
    write_ok_and_id(out, job.number);
    out.extend_from_slice(b",\"job\":");
    views::write_as_object(out, job.body);
    out.extend_from_slice(b",\"pri\":");
    write_number(out, views::priority_from_zero(job.urgency));
    out.extend_from_slice(b",\"queue\":");
    json::write_string(out, &views::text(job.queue.as_bytes()), Escapes::Fewest);
    out.extend_from_slice(b"}\n");
}

fn write_ok_and_id(out: &mut Vec<u8>, number: JobNumber) {
    out.extend_from_slice(b"{\"status\":\"ok\",\"id\":");
    write_number(out, number);
}

fn write_no_job(out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"status\":\"no-job\"}\n");
}

fn write_error(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(b"{\"status\":\"error\",\"error\":");
    json::write_string(out, text, Escapes::Fewest);
    out.extend_from_slice(b"}\n");
}

fn refusal_text(refusal: Refusal, limits: &Limits) -> String {
    match refusal {
        Refusal::NotHeld | Refusal::Finished => "You are not working on that job.".to_owned(),
        Refusal::TooManyNamed => format!("Field queues names more than {} queues.", limits.queues_named_max),
        Refusal::QueueNameTooLong => format!("Field queue is longer than {} bytes.", limits.queue_name_bytes_max),
        Refusal::TooManyQueues => format!("There are {} queues already; no more can be made.", limits.queues_max),
        Refusal::TooManyHeld => format!("You are working on {} jobs already.", limits.held_max),
        Refusal::OutOfMemory => "There is no room for another job.".to_owned(),
        Refusal::DiskFull => "There is no room on the disk.".to_owned(),
        Refusal::Draining => "The server is about to stop and takes no more jobs.".to_owned(),
        Refusal::NoSuchJob
        | Refusal::WrongState
        | Refusal::NoSuchQueue
        | Refusal::DuplicateUuid
        | Refusal::ReservedUuid
        | Refusal::NoSuchOrigin
        | Refusal::OriginOpen
        | Refusal::OriginNotClaimed
        | Refusal::OriginsClaimed
        | Refusal::LifetimeOver
        | Refusal::BodyUnfit
        | Refusal::NoSuchPrevious
        | Refusal::InvalidStep
        | Refusal::TooManySteps => "The request was refused.".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use jobyard_engine::{LeaseId, Uuid};

    use super::*;
    use crate::testing::{context, leased};

    /// What a connection made of some input.
    #[derive(Debug, Default)]
    struct Heard {
        commands: Vec<Command>,
        out: String,
    }

    fn small() -> Limits {
        Limits { body_bytes_max: 40, line_extra_bytes_max: 60, queues_named_max: 2, ..Limits::default() }
    }

    /// Gives a fresh connection `bytes` in pieces of `piece` bytes; each command is answered `NoJob`.
    fn hear(bytes: &[u8], piece: usize) -> Heard {
        let limits = small();
        let (mut codec, mut input, mut out, mut commands) =
            (Jobcentre::default(), Input::default(), Vec::new(), Vec::new());
        for part in bytes.chunks(piece) {
            input.push(part);
            loop {
                match codec.decode(&mut input, &mut out, &context(&limits)) {
                    Next::More => break,
                    Next::Answered => {}
                    Next::Close => panic!("closed"),
                    Next::Command(command) => {
                        commands.push(command);
                        codec.encode(&Reply::NoJob, &mut out, &context(&limits));
                    }
                }
            }
            assert!(input.len() <= limits.line_bytes_max(), "{} bytes kept", input.len());
        }
        Heard { commands, out: String::from_utf8(out).unwrap() }
    }

    fn command(line: &str) -> Command {
        let mut heard = hear(format!("{line}\n").as_bytes(), usize::MAX);
        assert_eq!(heard.commands.len(), 1, "{line}: {}", heard.out);
        heard.commands.remove(0)
    }

    fn put(line: &str) -> NewJob {
        let Command::Enqueue(job) = command(line) else { panic!("{line}") };
        *job
    }

    #[track_caller]
    fn error(line: &str, text: &str) {
        let heard = hear(format!("{line}\n").as_bytes(), usize::MAX);
        assert!(heard.commands.is_empty(), "{line}");
        assert_eq!(heard.out, format!("{{\"status\":\"error\",\"error\":\"{text}\"}}\n"), "{line}");
    }

    #[test]
    fn a_job_is_put_as_its_text() {
        let job = put(r#" {"pri":7,"x":[],"job": {"b" : 1.10, "a":"\ud800"} ,"queue":"q\u00e9\n","request":"put"} "#);
        let expected =
            NewJob::plain(QueueName::new("q\u{e9}\n".as_bytes()), (*br#"{"b" : 1.10, "a":"\ud800"}"#).into());
        assert_eq!(job, NewJob { urgency: 7, ..expected });
    }

    #[test]
    fn priorities_are_exact_up_to_ten_to_the_38th() {
        let line = |pri: &str| format!(r#"{{"request":"put","queue":"","job":{{}},"pri":{pri}}}"#);
        let max = format!("1{}", "0".repeat(38));
        for (text, value) in [("0", 0), ("1000000000000000000000000000001", 10_i128.pow(30) + 1), (&max, PRIORITY_MAX)]
        {
            assert_eq!(put(&line(text)).urgency, value);
        }
        let above = format!("1{}1", "0".repeat(37));
        for text in [above.as_str(), &"9".repeat(39), &"9".repeat(45)] {
            error(&line(text), "Field pri must be at most 10^38.");
        }
        for text in ["-1", "-0", "1.0", "1e2", "\"1\"", "true", "null", "[1]", "{}"] {
            error(&line(text), "Field pri must be a non-negative integer.");
        }
    }

    #[test]
    fn a_get_names_its_queues_and_whether_it_waits() {
        for (wait, expected) in [("", Wait::No), (r#","wait":false"#, Wait::No), (r#","wait":true"#, Wait::Forever)] {
            let Command::Lease(request) = command(&format!(r#"{{"request":"get","queues":["b","\u0000"]{wait}}}"#))
            else {
                panic!("{wait}")
            };
            assert_eq!(request.queues, [QueueName::new(b"b"), QueueName::new(b"\0")]);
            assert_eq!((request.choice, request.wait, request.creates_queues), (Choice::Best, expected, false));
            assert_eq!(request.hold, Hold::Connection(Parting::Release));
        }
        let Command::Lease(request) = command(r#"{"request":"get","queues":[],"wait":true}"#) else { panic!() };
        assert!(request.queues.is_empty());
    }

    #[test]
    fn a_get_keeps_no_more_names_than_the_engine_needs_to_refuse_it() {
        let Command::Lease(request) = command(r#"{"request":"get","queues":["a","b","c","d","e"]}"#) else { panic!() };
        assert_eq!(request.queues.len(), small().queues_named_max + 1);
    }

    #[test]
    fn delete_and_abort_take_any_integer() {
        let id = |line| match command(line) {
            Command::Remove { job: JobRef::Number(number), by: By::Anyone } => ("remove", number),
            Command::Release { job: JobRef::Number(number), again: None } => ("release", number),
            other => panic!("{other:?}"),
        };
        assert_eq!(id(r#"{"request":"delete","id":12345}"#), ("remove", 12_345));
        assert_eq!(id(r#"{"request":"abort","id":18446744073709551615}"#), ("release", u64::MAX));
        for number in ["-1", "-0", "18446744073709551616", "99999999999999999999999999999999999999999999"] {
            let heard = hear(format!("{{\"request\":\"abort\",\"id\":{number}}}\n").as_bytes(), usize::MAX);
            assert_eq!((heard.commands.len(), heard.out.as_str()), (0, "{\"status\":\"no-job\"}\n"), "{number}");
        }
        for number in ["1.0", "1e2", "\"1\"", "null", "true", "[]"] {
            error(&format!("{{\"request\":\"delete\",\"id\":{number}}}"), "Field id must be an integer.");
        }
    }

    #[test]
    fn every_fault_has_its_words() {
        for line in ["", " ", "\r", "hello", "{", "{\"request\":\"get\",}", "{}{}", "{\"\\ud80\":1}"] {
            error(line, "Not valid JSON.");
        }
        for line in ["[]", "null", "\"put\"", "12"] {
            error(line, "Not a JSON object.");
        }
        error("{}", "Field request is missing.");
        error(r#"{"Request":"get"}"#, "Field request is missing.");
        error(r#"{"request":1}"#, "Field request must be a string.");
        error(r#"{"\ud800":1}"#, "Field request is missing.");
        error(r#"{"request":"\ud800"}"#, "Unrecognised request type.");
        error(r#"{"request":"Put"}"#, "Unrecognised request type.");
        error(r#"{"request":"put"}"#, "Field queue is missing.");
        error(r#"{"request":"put","queue":null}"#, "Field queue must be a string.");
        let half = "Field queue holds half a surrogate pair, which is no character.";
        error(r#"{"request":"put","queue":"\udc00"}"#, half);
        error(r#"{"request":"put","queue":"q"}"#, "Field job is missing.");
        error(r#"{"request":"put","queue":"q","job":[],"pri":1}"#, "Field job must be an object.");
        error(r#"{"request":"put","queue":"q","job":{}}"#, "Field pri is missing.");
        let long = format!(r#"{{"request":"put","queue":"q","pri":1,"job":{{"a":"{}"}}}}"#, "x".repeat(33));
        error(&long, "Field job is longer than 40 bytes.");
        error(r#"{"request":"get"}"#, "Field queues is missing.");
        for queues in ["\"q\"", "[1]", "[\"q\",null]", "{}", "null", "[1,\"\\ud800\"]"] {
            let text = "Field queues must be an array of strings.";
            error(&format!("{{\"request\":\"get\",\"queues\":{queues}}}"), text);
        }
        let half = "Field queues holds half a surrogate pair, which is no character.";
        error(r#"{"request":"get","queues":["q","a\ud800",1]}"#, half);
        error(r#"{"request":"get","queues":[],"wait":1}"#, "Field wait must be true or false.");
        error(r#"{"request":"get","queues":[],"wait":null}"#, "Field wait must be true or false.");
        error(r#"{"request":"delete"}"#, "Field id is missing.");
    }

    #[test]
    fn input_that_is_no_text_is_an_error() {
        let heard = hear(b"{\"request\":\"\xff\"}\n", usize::MAX);
        assert_eq!(heard.out, "{\"status\":\"error\",\"error\":\"Not valid JSON.\"}\n");
    }

    #[test]
    fn a_line_over_the_limit_is_passed_over_without_being_kept() {
        let text = format!("{}\n{{\"request\":\"get\",\"queues\":[]}}\n", "x".repeat(5_000));
        for piece in [1, 7, 90] {
            let heard = hear(text.as_bytes(), piece);
            let expected =
                "{\"status\":\"error\",\"error\":\"Request is longer than 100 bytes.\"}\n{\"status\":\"no-job\"}\n";
            assert_eq!((heard.out.as_str(), heard.commands.len()), (expected, 1), "in pieces of {piece}");
        }
    }

    #[test]
    fn replies_have_the_keys_of_the_document_in_its_order() {
        let limits = small();
        let encode = |reply: &Reply<'_>| {
            let mut out = Vec::new();
            Jobcentre::default().encode(reply, &mut out, &context(&limits));
            String::from_utf8(out).unwrap()
        };
        let queue = QueueName::new(b"q\"\n\xff");
        let job = JobView { urgency: -3, ..leased(5, &queue, b"{ \"a\":1E+2 }") };
        assert_eq!(
            encode(&Reply::Leased { job, lease: LeaseId(1) }),
            "{\"status\":\"ok\",\"id\":5,\"job\":{ \"a\":1E+2 },\"pri\":0,\"queue\":\"q\\\"\\n\u{fffd}\"}\n"
        );
        let uuid = Uuid::of_number(6);
        assert_eq!(encode(&Reply::Enqueued { number: 6, uuid }), "{\"status\":\"ok\",\"id\":6}\n");
        assert_eq!(encode(&Reply::Done), "{\"status\":\"ok\"}\n");
        assert_eq!(encode(&Reply::Refused(Refusal::NoSuchJob)), "{\"status\":\"no-job\"}\n");
        let not_held = "{\"status\":\"error\",\"error\":\"You are not working on that job.\"}\n";
        assert_eq!(encode(&Reply::Refused(Refusal::NotHeld)), not_held);
    }

    #[test]
    fn a_brace_begins_it() {
        assert_eq!([&b"{"[..], b"", b"[", b"p"].map(begins), [Begins::Yes, Begins::Maybe, Begins::No, Begins::No]);
    }
}
