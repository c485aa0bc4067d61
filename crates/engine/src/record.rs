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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{AttemptRule, Backoff, DateRank, FailureRule, NewJob, OwnTime, Start, UsedUp};
    use crate::names::Uuid;

    fn enqueued(change: impl FnOnce(&mut Enqueued)) -> Record {
        let job = NewJob::plain(QueueName::new(b"q"), b"body"[..].into());
        let mut enqueued = Enqueued {
            number: 7,
            place: 9,
            created_wall_ms: -5,
            delayed: false,
            expires_ms: None,
            blockers: Vec::new(),
            runs: false,
            job,
        };
        change(&mut enqueued);
        Record::Enqueued(Box::new(enqueued))
    }

    fn with_every_part(enqueued: &mut Enqueued) {
        enqueued.delayed = true;
        enqueued.expires_ms = Some(u64::MAX);
        enqueued.blockers = vec![1, 2, 300];
        enqueued.runs = true;
        enqueued.job.urgency = i128::MIN;
        enqueued.job.uuid = Some(Uuid(u128::MAX));
        enqueued.job.name = Some("näme".into());
        enqueued.job.own_time = OwnTime::Millis(u64::MAX);
        enqueued.job.start = Start::At { wall_ms: i64::MIN, rank: DateRank::Behind };
        enqueued.job.lifetime_ms = Some(u64::MAX);
        enqueued.job.attempts = Some(AttemptRule { max: Some(u32::MAX) });
        enqueued.job.failures = Some(FailureRule {
            allowed: Some(3),
            backoff: Backoff::Quartic,
            used_up: UsedUp::MoveTo(QueueName::new(b"dead\0\n")),
            parting_counts: true,
        });
    }

    fn one_of_each() -> Vec<Record> {
        vec![
            Record::QueueCreated(QueueName::new(b"")),
            enqueued(|_| {}),
            enqueued(with_every_part),
            enqueued(|enqueued| enqueued.job.own_time = OwnTime::Unlimited),
            Record::Leased { number: 1, lease: LeaseId(u64::MAX), until_ms: u64::MAX },
            Record::Counted { number: 2 },
            Record::Undone { number: 3 },
            Record::Done { number: 4, expires_ms: 5, result: b"out"[..].into() },
            Record::Failed { number: 4, expires_ms: 5, result: Box::default() },
            Record::Removed { number: u64::MAX },
            Record::Failure { number: 6 },
            Record::BackedOff { number: 6, until_ms: 7, due_wall_ms: -8, expires_ms: Some(9) },
            Record::Rested { number: 6, until_ms: 7, shown_wall_ms: i64::MAX },
            Record::Moved { number: 6, queue: QueueName::new(b"x"), place: 8, expires_ms: None },
            Record::Woke { number: 6, expires_ms: Some(1) },
            Record::Unblocked { number: 6, place: 10, delayed: true, expires_ms: None },
        ]
    }

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
