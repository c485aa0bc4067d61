//! Answers of a line, and jobs.

use jobyard_engine::{JobView, QueueName, Refusal, StateView};

use crate::numbers::write_number;

pub(super) const NOT_FOUND: &str = "NOT_FOUND";
pub(super) const OUT_OF_MEMORY: &str = "OUT_OF_MEMORY";

/// What stands around a body, with the longest word and numbers, has no more.
const AROUND_BODY_BYTES: usize = 64;

/// A line of one word.
pub(super) fn line(out: &mut Vec<u8>, word: &str) {
    out.extend_from_slice(word.as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// A word and a number.
pub(super) fn counted(out: &mut Vec<u8>, word: &str, count: u64) {
    out.extend_from_slice(word.as_bytes());
    out.push(b' ');
    write_number(out, count);
    out.extend_from_slice(b"\r\n");
}

/// A word and a tube.
pub(super) fn named(out: &mut Vec<u8>, word: &str, tube: &QueueName) {
    out.extend_from_slice(word.as_bytes());
    out.push(b' ');
    out.extend_from_slice(tube.as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// A job that was looked for. One that is finished is none here: only its result is kept.
pub(super) fn found(job: &JobView<'_>, out: &mut Vec<u8>) {
    match job.state {
        StateView::Done | StateView::Failed if !crate::broken("protocols-finished-is-shown") => line(out, NOT_FOUND),
        _ => self::job(out, "FOUND", job),
    }
}

/// A job, behind a word.
pub(super) fn job(out: &mut Vec<u8>, word: &str, job: &JobView<'_>) {
    out.reserve(job.body.len() + AROUND_BODY_BYTES);
    out.extend_from_slice(word.as_bytes());
    out.push(b' ');
    write_number(out, job.number);
    out.push(b' ');
    write_number(out, job.body.len());
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(job.body);
    out.extend_from_slice(b"\r\n");
}

/// What is said where something cannot be done.
pub(super) fn refusal(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::Draining => "DRAINING",
        Refusal::OutOfMemory
        | Refusal::DiskFull
        | Refusal::TooManyHeld
        | Refusal::TooManyNamed
        | Refusal::TooManyQueues
        | Refusal::QueueNameTooLong => OUT_OF_MEMORY,
        Refusal::OriginOpen => "OPEN",
        Refusal::OriginNotClaimed => "NOT_CLAIMED",
        Refusal::OriginsClaimed => "TAKEN",
        Refusal::NoSuchJob
        | Refusal::NotHeld
        | Refusal::Finished
        | Refusal::WrongState
        | Refusal::NoSuchQueue
        | Refusal::NoSuchOrigin => NOT_FOUND,
        Refusal::DuplicateUuid
        | Refusal::ReservedUuid
        | Refusal::LifetimeOver
        | Refusal::BodyUnfit
        | Refusal::NoSuchPrevious
        | Refusal::InvalidStep
        | Refusal::TooManySteps => unreachable!("beanstalkd asks for nothing that is refused so: {refusal:?}"),
    }
}
