//! What the JSON behind each verb asks for. It is read as Go's decoder does: keys in any case, `null` as
//! nothing, half a surrogate pair as U+FFFD.

use std::borrow::Cow;

use jobyard_engine::{
    Backoff, Blocker, By, Choice, Command, DateRank, FailureRule, Hold, JobNumber, JobRef, LeaseRequest, Limits,
    NewJob, Parting, QueueName, Start, UsedUp, Wait,
};

use super::time::{self, NANOS_PER_MILLI};
use crate::json::{self, Keys, Malformed};

const NAME_BYTES_MAX: usize = 255;
const BLOCKERS_MAX: usize = 255;
const QUEUE_DEFAULT: &str = "default";
const RETRY_DEFAULT: u8 = 20;

/// `PUSH {"name":"send-email","queue":"mail","payload":{…}}`
pub(super) fn push_alone(text: &str, limits: &Limits) -> Result<Option<Command>, String> {
    let (mut job, blockers) = push(text, limits)?;
    if blockers.iter().any(|&id| id <= 0) {
        return Err("cannot use relative blocked by outside of a transaction".to_owned());
    }
    job.blockers = blockers.into_iter().map(blocker).collect();
    Ok(Some(Command::Enqueue(Box::new(job))))
}

/// The same inside a transaction: `"blocked_by":[-1]` is the PUSH before this one.
pub(super) fn push_in_group(text: &str, limits: &Limits) -> Result<NewJob, String> {
    let (mut job, blockers) = push(text, limits)?;
    if blockers.contains(&0) {
        return Err("cannot self reference in blocked by".to_owned());
    }
    job.blockers = blockers.into_iter().map(blocker).collect();
    Ok(job)
}

fn blocker(id: i64) -> Blocker {
    if id > 0 {
        Blocker::Number(id.unsigned_abs())
    } else {
        // A position too large for this machine is as far out of range as the largest.
        Blocker::Previous(usize::try_from(id.unsigned_abs()).unwrap_or(usize::MAX))
    }
}

const CANNOT_UNMARSHAL: &str = "cannot unmarshal payload";

/// The task of a PUSH, and its `blocked_by` as it stands there.
fn push(text: &str, limits: &Limits) -> Result<(NewJob, Vec<i64>), String> {
    let names = ["name", "queue", "deadqueue", "payload", "retry", "execute_at", "blocked_by"];
    let [name, queue, deadqueue, payload, retry, execute_at, blocked_by] =
        fields(text, &names).map_err(|_| CANNOT_UNMARSHAL)?;
    let string_or = |field, default| read_or(field, Cow::Borrowed(default), json::string_lossy);
    let name = string_or(name, "")?;
    let queue = string_or(queue, QUEUE_DEFAULT)?;
    let deadqueue = string_or(deadqueue, "")?;
    let retry = read_or(retry, RETRY_DEFAULT, |text| text.parse().ok())?;
    let date_ms = read_or(execute_at, None, |text| time::parse_date_ms(&json::string_lossy(text)?).map(Some))?;
    let blockers = read_or(blocked_by, Vec::new(), |text| list(text, BLOCKERS_MAX, |id| id.parse().ok()))?;

    check_name("queue", &queue)?;
    if !deadqueue.is_empty() {
        check_name("queue", &deadqueue)?;
    }
    check_name("task", &name)?;
    if blockers.len() > BLOCKERS_MAX {
        return Err(format!("at most {BLOCKERS_MAX} blocked by task IDs can be provided"));
    }
    let payload = payload.unwrap_or_default().as_bytes();
    if payload.len() > limits.body_bytes_max {
        return Err(format!("payload is longer than {} bytes", limits.body_bytes_max));
    }
    let job = NewJob {
        name: Some(name.as_ref().into()),
        start: date_ms.map_or(Start::Now, |wall_ms| Start::At { wall_ms, rank: DateRank::Ahead }),
        failures: Some(failure_rule(retry, &deadqueue)),
        ..NewJob::plain(QueueName::new(queue.as_bytes()), payload.into())
    };
    Ok((job, blockers))
}

fn failure_rule(retry: u8, deadqueue: &str) -> FailureRule {
    let used_up =
        if deadqueue.is_empty() { UsedUp::Remove } else { UsedUp::MoveTo(QueueName::new(deadqueue.as_bytes())) };
    let allowed = u64::from(retry).saturating_sub(crate::broken("protocols-retries-short").into());
    FailureRule { allowed: Some(allowed), backoff: Backoff::Quartic, used_up, parting_counts: true }
}

/// The raw text of the named fields. `null` is an object without any.
fn fields<'a, const N: usize>(text: &'a str, names: &[&str; N]) -> Result<[Option<&'a str>; N], Malformed> {
    if text.trim_ascii() == "null" {
        return Ok([None; N]);
    }
    json::fields(text, Keys::AnyCase, names)
}

/// What `read` makes of a field; if the field is missing or `null`, the default.
fn read_or<'a, T>(field: Option<&'a str>, default: T, read: impl FnOnce(&'a str) -> Option<T>) -> Result<T, String> {
    match field {
        None | Some("null") => Ok(default),
        Some(text) => read(text).ok_or_else(|| CANNOT_UNMARSHAL.to_owned()),
    }
}

/// The items of an array, each read by `item`; `null` is an empty string or 0. Of those beyond `max` one is kept.
fn list<T: Default>(field: &str, max: usize, item: impl Fn(&str) -> Option<T>) -> Option<Vec<T>> {
    let item = |text: &str| if text == "null" { Ok(T::default()) } else { item(text).ok_or(()) };
    json::list(field, max, item)?.ok()
}

fn check_name(kind: &str, name: &str) -> Result<(), String> {
    if name.len() > NAME_BYTES_MAX {
        return Err(format!("{kind} name is longer than {NAME_BYTES_MAX} bytes"));
    }
    if !has_name_character(name.as_bytes()) {
        return Err(format!("invalid {kind} name {}", quoted(name)));
    }
    Ok(())
}

fn has_name_character(name: &[u8]) -> bool {
    name.iter().any(|&byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

/// Whether masenko could have made a queue of this name.
pub(super) fn nameable(name: &[u8]) -> bool {
    name.len() <= NAME_BYTES_MAX && has_name_character(name) && std::str::from_utf8(name).is_ok()
}

/// A name in quotes, what cannot be printed escaped, as Go's `%q` does.
fn quoted(name: &str) -> String {
    let mut text = String::from("\"");
    for c in name.chars() {
        match c {
            '"' | '\\' => text.extend(['\\', c]),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            '\u{7}' => text.push_str("\\a"),
            '\u{8}' => text.push_str("\\b"),
            '\u{b}' => text.push_str("\\v"),
            '\u{c}' => text.push_str("\\f"),
            '\0'..' ' | '\u{7f}' => text.push_str(&format!("\\x{:02x}", u32::from(c))),
            ' '..='~' => text.push(c),
            _ if printable(c) => text.push(c),
            ..='\u{ffff}' => text.push_str(&format!("\\u{:04x}", u32::from(c))),
            _ => text.push_str(&format!("\\U{:08x}", u32::from(c))),
        }
    }
    text.push('"');
    text
}

/// Whether a character beyond ASCII is a letter, a mark, a number, punctuation or a symbol. Those are the ones that
/// the standard library leaves as they are behind another character.
fn printable(c: char) -> bool {
    format!("a{c}").escape_debug().nth(1) == Some(c)
}

/// `FETCH {"queues":["mail","default"],"timeout":"5s"}`. `None` if it names no queue.
pub(super) fn fetch(text: &str, heartbeat_ms: u64, limits: &Limits) -> Result<Option<Command>, String> {
    let text = if text.trim_ascii().is_empty() { "{}" } else { text };
    let [queues, timeout] = fields(text, &["queues", "timeout"]).map_err(|_| CANNOT_UNMARSHAL)?;
    let name = |text: &str| json::string_lossy(text).map(Cow::into_owned);
    let queues = match queues {
        None => vec![QUEUE_DEFAULT.to_owned()],
        // To Go, null is a list as empty as [].
        Some(_) => read_or(queues, Vec::new(), |text| list(text, limits.queues_named_max, name))?,
    };
    let heartbeat_ns = i128::from(heartbeat_ms) * NANOS_PER_MILLI;
    let timeout_ns = match timeout {
        None => heartbeat_ns / 2,
        Some(_) => read_or(timeout, 0, read_timeout_ns)?,
    };
    if timeout_ns <= 0 {
        return Err("timeout must be greater than zero".to_owned());
    }
    if timeout_ns > heartbeat_ns {
        let heartbeat = time::show_duration(heartbeat_ms);
        return Err(format!("timeout must be smaller than the heartbeat frequency {heartbeat}"));
    }
    if queues.is_empty() {
        return Ok(None);
    }
    Ok(Some(Command::Lease(Box::new(LeaseRequest {
        queues: queues.iter().map(|name| QueueName::new(name.as_bytes())).collect(),
        choice: Choice::InOrder,
        hold: Hold::Connection(Parting::Fail),
        wait: Wait::Millis(time::millis_up(timeout_ns).min(heartbeat_ms)),
        creates_queues: false,
        body_without: None,
        heeds_ms: None,
    }))))
}

/// A string is a Go duration, a number is nanoseconds.
fn read_timeout_ns(text: &str) -> Option<i128> {
    match json::string_lossy(text) {
        Some(duration) => time::parse_duration_ns(&duration),
        None => text.parse::<i64>().ok().map(i128::from),
    }
}

/// `ACK {"id":1}`
pub(super) fn ack(text: &str) -> Result<Option<Command>, String> {
    let job = JobRef::Number(task_id(text)?);
    Ok(Some(Command::Complete { job, by: By::Holder, result: Box::default() }))
}

/// `NACK {"id":1}`
pub(super) fn nack(text: &str) -> Result<Option<Command>, String> {
    let job = JobRef::Number(task_id(text)?);
    Ok(Some(Command::Fail { job, by: By::Holder, result: Box::default() }))
}

/// The task that an ACK or a NACK names.
pub(super) fn task_id(text: &str) -> Result<JobNumber, String> {
    let [id] = fields(text, &["id"]).map_err(|malformed| match malformed {
        Malformed::NotJson => "unmarshal payload: not valid JSON",
        Malformed::NotObject => "unmarshal payload: not a JSON object",
    })?;
    let id = match id {
        None | Some("null") => 0,
        Some(text) => text.parse().map_err(|_| "unmarshal payload: id is not an unsigned integer")?,
    };
    if id == 0 { Err("missing id".to_owned()) } else { Ok(id) }
}
