//! A line becomes a command, or the beginning of one whose block is still to come.

use jobyard_engine::{
    AttemptRule, Backoff, By, Choice, Command, DateRank, FailureRule, Hold, JobRef, LeaseRequest, Limits, Look, NewJob,
    OwnTime, QueueOrder, Start, UsedUp, Uuid, Wait, Which,
};

use super::fault::Fault;
use super::values::{self, Size};
use super::words::Words;
use crate::dates::parse_utc;

/// What a line says.
#[derive(Debug)]
pub(super) enum Parsed {
    /// All of a command.
    Command(Command),
    /// A command whose block follows.
    Block(Block),
    /// A block over the limit follows: it is not read.
    TooLarge(Fault),
}

/// A block that is to come.
#[derive(Debug)]
pub(super) struct Block {
    /// How many bytes it has, its end not counted.
    pub(super) size: usize,
    /// What it belongs to. What is wrong with that is said only when the block has come: else its
    /// bytes would be run as commands.
    pub(super) draft: Result<Draft, Fault>,
}

/// A command without its block.
#[derive(Debug)]
pub(super) enum Draft {
    Enqueue(Box<NewJob>),
    Run { job: Box<NewJob>, wait_ms: u64 },
    Complete(Uuid),
    Fail(Uuid),
}

impl Draft {
    /// The whole command.
    pub(super) fn with_block(self, bytes: Box<[u8]>) -> Command {
        match self {
            Draft::Enqueue(mut job) => {
                job.body = bytes;
                Command::Enqueue(job)
            }
            Draft::Run { mut job, wait_ms } => {
                job.body = bytes;
                Command::Run { job, wait_ms }
            }
            Draft::Complete(id) => {
                let result = if crate::broken("protocols-result-lost") { Box::default() } else { bytes };
                Command::Complete { job: JobRef::Uuid(id), by: By::Anyone, result }
            }
            Draft::Fail(id) => Command::Fail { job: JobRef::Uuid(id), by: By::Anyone, result: bytes },
        }
    }
}

/// Reads a line, without its CRLF.
pub(super) fn parse(line: &[u8], limits: &Limits) -> Result<Parsed, Fault> {
    let words = Words::split(line)?;
    match words.verb {
        b"add" => add(&words, limits),
        b"schedule" => schedule(&words, limits),
        b"run" => run(&words, limits),
        b"result" => result(&words),
        b"lease" => lease(&words, limits),
        b"complete" => complete(&words, limits),
        b"fail" => fail(&words, limits),
        b"delete" => delete(&words),
        b"inspect" => inspect(&words),
        _ => Err(Fault::Verb),
    }
}

/// `add <id> <name> <ttr> <ttl> <payload-size> [-priority=…] [-max-attempts=…] [-max-fails=…]`
fn add(words: &Words<'_>, limits: &Limits) -> Result<Parsed, Fault> {
    let [id, name, ttr, ttl, size] = words.exactly()?;
    block(size, Fault::PayloadSize, limits, || {
        words.flags_at_most(3)?;
        background_job(words, &JobWords { id, name, ttr, ttl, time: None })
    })
}

/// `schedule <id> <name> <ttr> <ttl> <time> <payload-size> [flags as in add]`
fn schedule(words: &Words<'_>, limits: &Limits) -> Result<Parsed, Fault> {
    let [id, name, ttr, ttl, time, size] = words.exactly()?;
    block(size, Fault::PayloadSize, limits, || {
        words.flags_at_most(3)?;
        background_job(words, &JobWords { id, name, ttr, ttl, time: Some(time) })
    })
}

/// `run <id> <name> <ttr> <wait-timeout> <payload-size> [-priority=…]`
fn run(words: &Words<'_>, limits: &Limits) -> Result<Parsed, Fault> {
    let [id, name, ttr, wait_timeout, size] = words.exactly()?;
    block(size, Fault::PayloadSize, limits, || {
        words.flags_at_most(1)?;
        let id = values::id_text(id)?;
        let ttr = values::ttr_text(ttr)?;
        let priority = values::priority(words.flag(b"priority"))?;
        let wait_ms = values::wait_timeout(wait_timeout)?;
        let job = Box::new(NewJob {
            urgency: i128::from(priority),
            uuid: Some(values::id_range(id)?),
            attempts: Some(AttemptRule { max: None }),
            failures: Some(failure_rule(0)),
            ..timed_job(name, ttr)?
        });
        Ok(Draft::Run { job, wait_ms })
    })
}

/// `result <id> <wait-timeout>`
fn result(words: &Words<'_>) -> Result<Parsed, Fault> {
    let [id, wait_timeout] = words.exactly()?;
    words.flags_at_most(0)?;
    let job = JobRef::Uuid(values::id(id)?);
    let wait_ms = values::wait_timeout(wait_timeout)?;
    Ok(Parsed::Command(Command::Await { job, wait_ms }))
}

/// `lease <name>... <wait-timeout>`
fn lease(words: &Words<'_>, limits: &Limits) -> Result<Parsed, Fault> {
    let (names, wait_timeout) = words.all_and_last()?;
    words.flags_at_most(0)?;
    let wait_ms = values::wait_timeout(wait_timeout)?;
    if names.len() > limits.queues_named_max {
        return Err(Fault::TooManyNames);
    }
    Ok(Parsed::Command(Command::Lease(Box::new(LeaseRequest {
        queues: names.iter().map(|name| values::name(name)).collect::<Result<_, _>>()?,
        choice: Choice::Random,
        hold: Hold::Timed { honours_unlimited: false },
        wait: Wait::Millis(wait_ms),
        creates_queues: true,
        body_without: None,
        heeds_ms: None,
    }))))
}

/// `complete <id> <result-size>`
fn complete(words: &Words<'_>, limits: &Limits) -> Result<Parsed, Fault> {
    let [id, size] = words.exactly()?;
    // The original speaks of a payload here, and of a result only in fail.
    block(size, Fault::PayloadSize, limits, || {
        words.flags_at_most(0)?;
        Ok(Draft::Complete(values::id(id)?))
    })
}

/// `fail <id> <result-size>`
fn fail(words: &Words<'_>, limits: &Limits) -> Result<Parsed, Fault> {
    let [id, size] = words.exactly()?;
    block(size, Fault::ResultSize, limits, || {
        words.flags_at_most(0)?;
        Ok(Draft::Fail(values::id(id)?))
    })
}

/// `delete <id>`
fn delete(words: &Words<'_>) -> Result<Parsed, Fault> {
    let [id] = words.exactly()?;
    words.flags_at_most(0)?;
    let job = JobRef::Uuid(values::id(id)?);
    Ok(Parsed::Command(Command::Remove { job, by: By::Anyone }))
}

/// `inspect <object> …`
fn inspect(words: &Words<'_>) -> Result<Parsed, Fault> {
    let look = match words.first()? {
        b"job" => inspect_job(words),
        b"jobs" => inspect_jobs(words, Which::Ready),
        b"scheduled-jobs" => inspect_jobs(words, Which::Delayed),
        b"queue" => inspect_queue(words),
        b"queues" => inspect_queues(words),
        b"server" => inspect_server(words),
        _ => Err(Fault::Verb),
    };
    Ok(Parsed::Command(Command::Look(look?)))
}

/// `inspect job <id>`
fn inspect_job(words: &Words<'_>) -> Result<Look, Fault> {
    let [_, id] = words.exactly()?;
    words.flags_at_most(0)?;
    Ok(Look::Job(JobRef::Uuid(values::id(id)?)))
}

/// `inspect jobs <name> <cursor-offset> <limit>`, or `scheduled-jobs`
fn inspect_jobs(words: &Words<'_>, which: Which) -> Result<Look, Fault> {
    let [_, name, offset, limit] = words.exactly()?;
    words.flags_at_most(0)?;
    Ok(Look::Jobs {
        queue: values::name(name)?,
        which,
        offset: values::cursor_offset(offset)?,
        count_max: values::limit(limit)?,
    })
}

/// `inspect queue <name>`
fn inspect_queue(words: &Words<'_>) -> Result<Look, Fault> {
    let [_, name] = words.exactly()?;
    words.flags_at_most(0)?;
    Ok(Look::Queue(values::name(name)?))
}

/// `inspect queues <cursor-offset> <limit>`
fn inspect_queues(words: &Words<'_>) -> Result<Look, Fault> {
    let [_, offset, limit] = words.exactly()?;
    words.flags_at_most(0)?;
    Ok(Look::Queues {
        order: QueueOrder::Name,
        nameable: values::is_name,
        offset: values::cursor_offset(offset)?,
        count_max: values::limit(limit)?,
    })
}

/// `inspect server`
fn inspect_server(words: &Words<'_>) -> Result<Look, Fault> {
    let [_] = words.exactly()?;
    words.flags_at_most(0)?;
    Ok(Look::Server)
}

/// Reads a block's size, then what it belongs to.
fn block(
    size: &[u8],
    fault: Fault,
    limits: &Limits,
    draft: impl FnOnce() -> Result<Draft, Fault>,
) -> Result<Parsed, Fault> {
    match values::size(size, limits.block_bytes_max.min(limits.body_bytes_max)) {
        Size::Bytes(size) => Ok(Parsed::Block(Block { size, draft: draft() })),
        Size::TooMany => Ok(Parsed::TooLarge(fault)),
        Size::Invalid => Err(fault),
    }
}

/// The words of add and schedule.
struct JobWords<'a> {
    id: &'a [u8],
    name: &'a [u8],
    ttr: &'a [u8],
    ttl: &'a [u8],
    time: Option<&'a [u8]>,
}

/// A job that outlives its client. First every word is read as text, then the ranges are checked.
fn background_job(words: &Words<'_>, job: &JobWords<'_>) -> Result<Draft, Fault> {
    let id = values::id_text(job.id)?;
    let ttr = values::ttr_text(job.ttr)?;
    let ttl = values::ttl_text(job.ttl)?;
    let start = match job.time {
        None => Start::Now,
        Some(time) => Start::At { wall_ms: parse_utc(time).ok_or(Fault::Time)?, rank: DateRank::Behind },
    };
    let attempts_max = values::small(words.flag(b"max-attempts"), Fault::MaxAttempts)?;
    let failures_max = values::small(words.flag(b"max-fails"), Fault::MaxFails)?;
    let priority = values::priority(words.flag(b"priority"))?;
    let uuid = values::id_range(id)?;
    let timed_job = timed_job(job.name, ttr)?;
    let ttl = values::ttl_range(ttl)?;
    Ok(Draft::Enqueue(Box::new(NewJob {
        urgency: i128::from(priority),
        uuid: Some(uuid),
        start,
        lifetime_ms: Some(ttl),
        attempts: Some(AttemptRule { max: (attempts_max > 0).then_some(u32::from(attempts_max)) }),
        failures: Some(failure_rule(failures_max)),
        ..timed_job
    })))
}

/// A job with a name and a time to run, if both are in their range.
fn timed_job(name: &[u8], ttr: u64) -> Result<NewJob, Fault> {
    let queue = values::name(name)?;
    Ok(NewJob { own_time: OwnTime::Millis(values::ttr_range(ttr)?), ..NewJob::plain(queue, Box::default()) })
}

/// A job that may fail so often, the last time for good. 0 and 1 are the same but for how they are shown.
fn failure_rule(failures_max: u8) -> FailureRule {
    FailureRule {
        allowed: failures_max.checked_sub(1).map(u64::from),
        backoff: Backoff::None,
        used_up: UsedUp::Keep,
        parting_counts: false,
    }
}
