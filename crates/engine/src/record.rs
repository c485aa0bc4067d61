//! The durable changes. Each is a decision ("job 7 was completed"), applied by the same code when it
//! is made and when it is read back.

#[cfg(test)]
pub(crate) mod samples;

use crate::bytes::{Damaged, Reader, number_len, put_bytes, put_number, put_signed};
use crate::delay::Delay;
use crate::job::Job;
use crate::names::{JobNumber, LeaseId};
use crate::record_job::Enqueued;
use crate::record_kept::Kept;

/// One durable change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Record<'a> {
    /// A queue came to exist. Comes before the first job that is put into it or moved there. The ordinal says which
    /// queues are older.
    QueueCreated { name: &'a [u8], ordinal: u64 },
    /// A job was put.
    Enqueued(Enqueued<'a>),
    /// All that is known of a job, so that what was written of it before is not needed any more.
    Kept(Kept<'a>),
    /// What the next job, the next place and the next queue get is at least this.
    Counters { next_number: JobNumber, next_place: u64, next_ordinal: u64 },
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
    /// It is gone, but for its origin if that is open.
    Removed { number: JobNumber },
    /// A failure was counted; the job stays where it is, or is ready if it was leased.
    Failure { number: JobNumber },
    /// A failure was counted; the job rests, then stands ahead of the usual ones.
    BackedOff { number: JobNumber, until_ms: u64, due_wall_ms: i64, expires_ms: Option<u64> },
    /// Its holder vanished: the job rests, then is ready in its old place.
    Rested { number: JobNumber, until_ms: u64, shown_wall_ms: i64 },
    /// Its holder put it back, or nothing blocks it any more and its delay begins: ready, or delayed.
    Released { number: JobNumber, urgency: i128, delay: Option<Delay> },
    /// Its holder put it aside.
    Buried { number: JobNumber, urgency: i128, order: u64 },
    /// It was buried or delayed, and is ready.
    Revived { number: JobNumber, expires_ms: Option<u64> },
    /// Its failures or attempts are used up: it went to another queue, at the back.
    Moved { number: JobNumber, queue: &'a [u8], place: u64, expires_ms: Option<u64> },
    /// Its date has come.
    Woke { number: JobNumber, expires_ms: Option<u64> },
    /// Its last blocker is gone.
    Unblocked { number: JobNumber, place: u64, delayed: bool, expires_ms: Option<u64> },
    /// Where it came from no longer has it.
    OriginClosed { number: JobNumber },
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
    pub(super) const KEPT: u8 = 15;
    pub(super) const COUNTERS: u8 = 16;
    pub(super) const RELEASED: u8 = 17;
    pub(super) const BURIED: u8 = 18;
    pub(super) const REVIVED: u8 = 19;
    pub(super) const ORIGIN_CLOSED: u8 = 20;
}

impl<'a> Record<'a> {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Record::QueueCreated { name, ordinal } => {
                out.push(tag::QUEUE_CREATED);
                put_bytes(out, name);
                put_number(out, *ordinal);
            }
            Record::Enqueued(enqueued) => {
                out.push(tag::ENQUEUED);
                enqueued.full().encode(out);
            }
            Record::Kept(kept) => {
                out.push(tag::KEPT);
                kept.full().encode(out);
            }
            Record::Counters { next_number, next_place, next_ordinal } => {
                out.push(tag::COUNTERS);
                put_number(out, *next_number);
                put_number(out, *next_place);
                put_number(out, *next_ordinal);
            }
            change => change.encode_change(out),
        }
    }

    /// Of what befalls a job that is there.
    fn encode_change(&self, out: &mut Vec<u8>) {
        match self {
            Record::QueueCreated { .. } | Record::Enqueued(_) | Record::Kept(_) | Record::Counters { .. } => {
                unreachable!("it befalls no job: {self:?}")
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
            Record::OriginClosed { number } => put_head(out, tag::ORIGIN_CLOSED, *number),
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
            Record::Released { number, urgency, delay } => {
                put_head(out, tag::RELEASED, *number);
                put_signed(out, *urgency);
                Delay::put_optional(out, *delay);
            }
            Record::Buried { number, urgency, order } => {
                put_head(out, tag::BURIED, *number);
                put_signed(out, *urgency);
                put_number(out, *order);
            }
            Record::Revived { number, expires_ms } => {
                put_head(out, tag::REVIVED, *number);
                put_optional(out, *expires_ms);
            }
            Record::Moved { number, queue, place, expires_ms } => {
                put_head(out, tag::MOVED, *number);
                put_bytes(out, queue);
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

    pub(crate) fn decode(reader: &mut Reader<'a>) -> Result<Self, Damaged> {
        let tag = reader.byte()?;
        match tag {
            tag::QUEUE_CREATED => Ok(Record::QueueCreated { name: reader.bytes()?, ordinal: reader.number()? }),
            tag::ENQUEUED => Ok(Record::Enqueued(Enqueued::decode(reader)?)),
            tag::KEPT => Ok(Record::Kept(Kept::decode(reader)?)),
            tag::COUNTERS => Ok(Record::Counters {
                next_number: reader.number()?,
                next_place: reader.number()?,
                next_ordinal: reader.number()?,
            }),
            _ => Record::decode_change(tag, reader),
        }
    }

    /// Of what befalls a job that is there.
    fn decode_change(tag: u8, reader: &mut Reader<'a>) -> Result<Self, Damaged> {
        let number = reader.number()?;
        Ok(match tag {
            tag::LEASED => Record::Leased { number, lease: LeaseId(reader.number()?), until_ms: reader.number()? },
            tag::COUNTED => Record::Counted { number },
            tag::UNDONE => Record::Undone { number },
            tag::DONE => Record::Done { number, expires_ms: reader.number()?, result: reader.bytes()?.into() },
            tag::FAILED => Record::Failed { number, expires_ms: reader.number()?, result: reader.bytes()?.into() },
            tag::REMOVED => Record::Removed { number },
            tag::FAILURE => Record::Failure { number },
            tag::ORIGIN_CLOSED => Record::OriginClosed { number },
            tag::BACKED_OFF => Record::BackedOff {
                number,
                until_ms: reader.number()?,
                due_wall_ms: reader.date()?,
                expires_ms: optional(reader)?,
            },
            tag::RESTED => Record::Rested { number, until_ms: reader.number()?, shown_wall_ms: reader.date()? },
            tag::RELEASED => Record::Released { number, urgency: reader.signed()?, delay: Delay::optional(reader)? },
            tag::BURIED => Record::Buried { number, urgency: reader.signed()?, order: reader.number()? },
            tag::REVIVED => Record::Revived { number, expires_ms: optional(reader)? },
            tag::MOVED => {
                Record::Moved { number, queue: reader.bytes()?, place: reader.number()?, expires_ms: optional(reader)? }
            }
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

/// Writes a [`Record::Kept`] of a job that is there, without a copy of it.
pub(crate) fn put_kept(out: &mut Vec<u8>, job: &Job, queue: &[u8]) {
    out.push(tag::KEPT);
    job.kept(queue).encode(out);
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

/// How many bytes [`put_optional`] takes.
pub(crate) fn optional_len(number: Option<u64>) -> usize {
    1 + number.map_or(0, number_len)
}

pub(crate) fn optional(reader: &mut Reader<'_>) -> Result<Option<u64>, Damaged> {
    match reader.byte()? {
        0 => Ok(None),
        1 => reader.number().map(Some),
        _ => Err(Damaged),
    }
}

#[cfg(test)]
mod tests {
    use super::samples::one_of_each;
    use super::*;

    #[test]
    fn every_record_comes_back_as_it_was_written() {
        let records = one_of_each();
        let mut bytes = Vec::new();
        for record in &records {
            record.encode(&mut bytes);
        }
        let mut reader = Reader(&bytes);
        for record in &records {
            assert_eq!(Record::decode(&mut reader).as_ref(), Ok(record));
        }
        assert!(reader.is_empty());
    }

    #[test]
    fn a_record_cut_short_is_damaged_at_every_length() {
        for record in one_of_each() {
            let mut bytes = Vec::new();
            record.encode(&mut bytes);
            for length in 0..bytes.len() {
                assert_eq!(Record::decode(&mut Reader(&bytes[..length])), Err(Damaged), "{record:?} cut to {length}");
            }
        }
    }
}
