//! The record of a job that was put: everything it brought along.

use crate::bytes::{Damaged, Reader, put_bytes, put_number, put_signed, put_wide};
use crate::command::{AttemptRule, Backoff, DateRank, FailureRule, NewJob, OwnTime, Start, UsedUp};
use crate::names::{JobNumber, QueueName, Uuid};
use crate::record::{optional, put_optional};

/// A job that was put, and what was decided about it then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Enqueued {
    pub(crate) number: JobNumber,
    /// 0 if it is blocked.
    pub(crate) place: u64,
    pub(crate) created_wall_ms: i64,
    /// Whether it waits for its date, once it is not blocked.
    pub(crate) delayed: bool,
    pub(crate) expires_ms: Option<u64>,
    /// Unfinished jobs, in order of number.
    pub(crate) blockers: Vec<JobNumber>,
    pub(crate) runs: bool,
    /// Its own blockers are empty: they became the numbers above.
    pub(crate) job: NewJob,
}

/// Which of the rare parts follow.
mod has {
    pub(super) const UUID: u8 = 1;
    pub(super) const NAME: u8 = 2;
    pub(super) const LIFETIME: u8 = 4;
    pub(super) const ATTEMPTS: u8 = 8;
    pub(super) const FAILURES: u8 = 16;
    pub(super) const BLOCKERS: u8 = 32;
    pub(super) const DATE: u8 = 64;
    pub(super) const RUNS: u8 = 128;
}

impl Enqueued {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let job = &self.job;
        out.push(self.parts());
        put_number(out, self.number);
        put_number(out, self.place);
        put_signed(out, self.created_wall_ms.into());
        put_bytes(out, job.queue.as_bytes());
        put_bytes(out, &job.body);
        put_signed(out, job.urgency);
        put_own_time(out, job.own_time);
        if let Some(uuid) = job.uuid {
            put_wide(out, uuid.0);
        }
        if let Some(name) = &job.name {
            put_bytes(out, name.as_bytes());
        }
        if let Some(lifetime_ms) = job.lifetime_ms {
            put_number(out, lifetime_ms);
            put_optional(out, self.expires_ms);
        }
        if let Some(rule) = job.attempts {
            put_optional(out, rule.max.map(u64::from));
        }
        if let Some(rule) = &job.failures {
            put_failure_rule(out, rule);
        }
        if !self.blockers.is_empty() {
            put_number(out, self.blockers.len() as u64);
            for &blocker in &self.blockers {
                put_number(out, blocker);
            }
        }
        if let Start::At { wall_ms, rank } = job.start {
            put_signed(out, wall_ms.into());
            out.push(u8::from(rank == DateRank::Behind));
            out.push(u8::from(self.delayed));
        }
    }

    fn parts(&self) -> u8 {
        let job = &self.job;
        let part = |there: bool, bit: u8| if there { bit } else { 0 };
        part(job.uuid.is_some(), has::UUID)
            | part(job.name.is_some(), has::NAME)
            | part(job.lifetime_ms.is_some(), has::LIFETIME)
            | part(job.attempts.is_some(), has::ATTEMPTS)
            | part(job.failures.is_some(), has::FAILURES)
            | part(!self.blockers.is_empty(), has::BLOCKERS)
            | part(job.start != Start::Now, has::DATE)
            | part(self.runs, has::RUNS)
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
        let parts = reader.byte()?;
        let number = reader.number()?;
        let place = reader.number()?;
        let created_wall_ms = reader.date()?;
        let queue = QueueName::new(reader.bytes()?);
        let mut job = NewJob::plain(queue, reader.bytes()?.into());
        job.urgency = reader.signed()?;
        job.own_time = own_time(reader)?;
        if parts & has::UUID != 0 {
            job.uuid = Some(Uuid(reader.wide()?));
        }
        if parts & has::NAME != 0 {
            job.name = Some(std::str::from_utf8(reader.bytes()?).map_err(|_| Damaged)?.into());
        }
        let mut expires_ms = None;
        if parts & has::LIFETIME != 0 {
            job.lifetime_ms = Some(reader.number()?);
            expires_ms = optional(reader)?;
        }
        if parts & has::ATTEMPTS != 0 {
            let max = optional(reader)?.map(u32::try_from).transpose().map_err(|_| Damaged)?;
            job.attempts = Some(AttemptRule { max });
        }
        if parts & has::FAILURES != 0 {
            job.failures = Some(failure_rule(reader)?);
        }
        let blockers = if parts & has::BLOCKERS == 0 { Vec::new() } else { blockers(reader)? };
        let mut delayed = false;
        if parts & has::DATE != 0 {
            let wall_ms = reader.date()?;
            let rank = if reader.flag()? { DateRank::Behind } else { DateRank::Ahead };
            job.start = Start::At { wall_ms, rank };
            delayed = reader.flag()?;
        }
        let runs = parts & has::RUNS != 0;
        Ok(Enqueued { number, place, created_wall_ms, delayed, expires_ms, blockers, runs, job })
    }
}

fn put_own_time(out: &mut Vec<u8>, own_time: OwnTime) {
    match own_time {
        OwnTime::None => out.push(0),
        OwnTime::Unlimited => out.push(1),
        OwnTime::Millis(ms) => {
            out.push(2);
            put_number(out, ms);
        }
    }
}

fn own_time(reader: &mut Reader<'_>) -> Result<OwnTime, Damaged> {
    match reader.byte()? {
        0 => Ok(OwnTime::None),
        1 => Ok(OwnTime::Unlimited),
        2 => Ok(OwnTime::Millis(reader.number()?)),
        _ => Err(Damaged),
    }
}

fn put_failure_rule(out: &mut Vec<u8>, rule: &FailureRule) {
    let backs_off = u8::from(rule.backoff == Backoff::Quartic);
    let parting_counts = u8::from(rule.parting_counts);
    let (used_up, queue) = match &rule.used_up {
        UsedUp::Remove => (0, None),
        UsedUp::MoveTo(queue) => (1, Some(queue)),
        UsedUp::Keep => (2, None),
    };
    out.push(backs_off | parting_counts << 1 | used_up << 2);
    put_optional(out, rule.allowed);
    if let Some(queue) = queue {
        put_bytes(out, queue.as_bytes());
    }
}

fn failure_rule(reader: &mut Reader<'_>) -> Result<FailureRule, Damaged> {
    let bits = reader.byte()?;
    let allowed = optional(reader)?;
    let used_up = match bits >> 2 {
        0 => UsedUp::Remove,
        1 => UsedUp::MoveTo(QueueName::new(reader.bytes()?)),
        2 => UsedUp::Keep,
        _ => return Err(Damaged),
    };
    let backoff = if bits & 1 == 0 { Backoff::None } else { Backoff::Quartic };
    Ok(FailureRule { allowed, backoff, used_up, parting_counts: bits & 2 != 0 })
}

fn blockers(reader: &mut Reader<'_>) -> Result<Vec<JobNumber>, Damaged> {
    let count = reader.number()?;
    // Not reserved ahead: the count is not to be believed before its numbers are there.
    let mut blockers = Vec::new();
    for _ in 0..count {
        blockers.push(reader.number()?);
    }
    Ok(blockers)
}
