//! The durable changes. Each is a decision ("job 7 was completed"), applied by the same code when it
//! is made and when it is read back.

use crate::bytes::{Damaged, Reader, put_bytes, put_number, put_signed};
use crate::names::{JobNumber, LeaseId, QueueName};
use crate::record_job::Enqueued;

/// One durable change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    /// A queue came to exist by being named.
    QueueCreated(QueueName),
    /// A job was put.
    Enqueued(Box<Enqueued>),
    /// It was leased beyond its taker's connection.
    Leased { number: JobNumber, lease: LeaseId, until_ms: u64 },
    /// It was taken by a client that holds it, and it counts that.
    Counted { number: JobNumber },
    /// A lease never reached its taker; the attempt is taken back if the job counts.
    Undone { number: JobNumber },
    /// It was completed; its result is kept.
    Done { number: JobNumber, expires_ms: u64, result: Box<[u8]> },
    /// It finally failed; its result is kept.
    Failed { number: JobNumber, expires_ms: u64, result: Box<[u8]> },
    /// It is gone.
    Removed { number: JobNumber },
    /// A failure was counted; the job stays where it is, or is ready if it was leased.
    Failure { number: JobNumber },
    /// A failure was counted; the job rests, then stands ahead of the usual ones.
    BackedOff { number: JobNumber, until_ms: u64, due_wall_ms: i64, expires_ms: Option<u64> },
    /// Its holder vanished: the job rests, then is ready in its old place.
    Rested { number: JobNumber, until_ms: u64, shown_wall_ms: i64 },
    /// Its failures or attempts are used up: it went to another queue, at the back.
    Moved { number: JobNumber, queue: QueueName, place: u64, expires_ms: Option<u64> },
    /// Its date has come.
    Woke { number: JobNumber, expires_ms: Option<u64> },
    /// Its last blocker is gone.
    Unblocked { number: JobNumber, place: u64, delayed: bool, expires_ms: Option<u64> },
}

mod tag {
    pub(super) const QUEUE_CREATED: u8 = 1;
    pub(super) const ENQUEUED: u8 = 2;
    pub(super) const LEASED: u8 = 3;
    pub(super) const COUNTED: u8 = 4;
    pub(super) const UNDONE: u8 = 5;
    pub(super) const DONE: u8 = 6;
    pub(super) const FAILED: u8 = 7;
    pub(super) const REMOVED: u8 = 8;
    pub(super) const FAILURE: u8 = 9;
    pub(super) const BACKED_OFF: u8 = 10;
    pub(super) const RESTED: u8 = 11;
    pub(super) const MOVED: u8 = 12;
    pub(super) const WOKE: u8 = 13;
    pub(super) const UNBLOCKED: u8 = 14;
}

impl Record {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Record::QueueCreated(name) => {
                out.push(tag::QUEUE_CREATED);
                put_bytes(out, name.as_bytes());
            }
            Record::Enqueued(enqueued) => {
                out.push(tag::ENQUEUED);
                enqueued.encode(out);
            }
            Record::Leased { number, lease, until_ms } => {
                put_head(out, tag::LEASED, *number);
                put_number(out, lease.0);
                put_number(out, *until_ms);
            }
            Record::Counted { number } => put_head(out, tag::COUNTED, *number),
            Record::Undone { number } => put_head(out, tag::UNDONE, *number),
            Record::Done { number, expires_ms, result } => put_result(out, tag::DONE, *number, *expires_ms, result),
            Record::Failed { number, expires_ms, result } => put_result(out, tag::FAILED, *number, *expires_ms, result),
            Record::Removed { number } => put_head(out, tag::REMOVED, *number),
            Record::Failure { number } => put_head(out, tag::FAILURE, *number),
            Record::BackedOff { number, until_ms, due_wall_ms, expires_ms } => {
                put_head(out, tag::BACKED_OFF, *number);
                put_number(out, *until_ms);
                put_signed(out, (*due_wall_ms).into());
                put_optional(out, *expires_ms);
            }
            Record::Rested { number, until_ms, shown_wall_ms } => {
                put_head(out, tag::RESTED, *number);
                put_number(out, *until_ms);
                put_signed(out, (*shown_wall_ms).into());
            }
            Record::Moved { number, queue, place, expires_ms } => {
                put_head(out, tag::MOVED, *number);
                put_bytes(out, queue.as_bytes());
                put_number(out, *place);
                put_optional(out, *expires_ms);
            }
            Record::Woke { number, expires_ms } => {
                put_head(out, tag::WOKE, *number);
                put_optional(out, *expires_ms);
            }
            Record::Unblocked { number, place, delayed, expires_ms } => {
                put_head(out, tag::UNBLOCKED, *number);
                put_number(out, *place);
                out.push(u8::from(*delayed));
                put_optional(out, *expires_ms);
            }
        }
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
        let tag = reader.byte()?;
        match tag {
            tag::QUEUE_CREATED => return Ok(Record::QueueCreated(QueueName::new(reader.bytes()?))),
            tag::ENQUEUED => return Ok(Record::Enqueued(Box::new(Enqueued::decode(reader)?))),
            _ => {}
        }
        let number = reader.number()?;
        Ok(match tag {
            tag::LEASED => Record::Leased { number, lease: LeaseId(reader.number()?), until_ms: reader.number()? },
            tag::COUNTED => Record::Counted { number },
            tag::UNDONE => Record::Undone { number },
            tag::DONE => Record::Done { number, expires_ms: reader.number()?, result: reader.bytes()?.into() },
            tag::FAILED => Record::Failed { number, expires_ms: reader.number()?, result: reader.bytes()?.into() },
            tag::REMOVED => Record::Removed { number },
            tag::FAILURE => Record::Failure { number },
            tag::BACKED_OFF => Record::BackedOff {
                number,
                until_ms: reader.number()?,
                due_wall_ms: reader.date()?,
                expires_ms: optional(reader)?,
            },
            tag::RESTED => Record::Rested { number, until_ms: reader.number()?, shown_wall_ms: reader.date()? },
            tag::MOVED => Record::Moved {
                number,
                queue: QueueName::new(reader.bytes()?),
                place: reader.number()?,
                expires_ms: optional(reader)?,
            },
            tag::WOKE => Record::Woke { number, expires_ms: optional(reader)? },
            tag::UNBLOCKED => Record::Unblocked {
                number,
                place: reader.number()?,
                delayed: reader.flag()?,
                expires_ms: optional(reader)?,
            },
            _ => return Err(Damaged),
        })
    }
}

fn put_head(out: &mut Vec<u8>, tag: u8, number: JobNumber) {
    out.push(tag);
    put_number(out, number);
}

fn put_result(out: &mut Vec<u8>, tag: u8, number: JobNumber, expires_ms: u64, result: &[u8]) {
    put_head(out, tag, number);
    put_number(out, expires_ms);
    put_bytes(out, result);
}

/// A number that may be missing.
pub(crate) fn put_optional(out: &mut Vec<u8>, at_ms: Option<u64>) {
    match at_ms {
        None => out.push(0),
        Some(at_ms) => {
            out.push(1);
            put_number(out, at_ms);
        }
    }
}

pub(crate) fn optional(reader: &mut Reader<'_>) -> Result<Option<u64>, Damaged> {
    match reader.byte()? {
        0 => Ok(None),
        1 => reader.number().map(Some),
        _ => Err(Damaged),
    }
}
