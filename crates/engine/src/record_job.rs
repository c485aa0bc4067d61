//! The record of a job that was put: everything it brought along.

use crate::bytes::{
    Damaged, Reader, bytes_len, date_len, number_len, put_bytes, put_number, put_signed, put_wide, signed_len, wide_len,
};
use crate::command::{AttemptRule, Backoff, DateRank, FailureRule, OwnTime, UsedUp};
use crate::delay::Delay;
use crate::job::{Due, Job, Rare, State};
use crate::names::{JobNumber, QueueName, Uuid};
use crate::record::{optional, optional_len, put_optional};

/// A job that was put, and what was decided about it then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Enqueued<'a> {
    pub(crate) number: JobNumber,
    /// 0 if it is blocked.
    pub(crate) place: u64,
    pub(crate) created_wall_ms: i64,
    pub(crate) queue: &'a [u8],
    pub(crate) body: Box<[u8]>,
    pub(crate) urgency: i128,
    pub(crate) own_time: OwnTime,
    pub(crate) uuid: Option<Uuid>,
    pub(crate) name: Option<Box<str>>,
    pub(crate) lifetime_ms: Option<u64>,
    pub(crate) expires_ms: Option<u64>,
    pub(crate) attempts: Option<AttemptRule>,
    pub(crate) failures: Option<FailureRule>,
    /// Unfinished jobs, in order of number.
    pub(crate) blockers: Vec<JobNumber>,
    pub(crate) date: Option<(i64, DateRank)>,
    /// Whether it waits for its date, once it is not blocked.
    pub(crate) delayed: bool,
    /// It waits for a while. If it is blocked, that has not begun: only how long is known then.
    pub(crate) delay: Option<Delay>,
    pub(crate) runs: bool,
    /// Where it came from, if that is open.
    pub(crate) origin: Option<Box<[u8]>>,
}

/// The same, as it is written.
pub(crate) struct Full<'a> {
    pub(crate) number: JobNumber,
    pub(crate) place: u64,
    pub(crate) created_wall_ms: i64,
    pub(crate) queue: &'a [u8],
    pub(crate) body: &'a [u8],
    pub(crate) urgency: i128,
    pub(crate) own_time: OwnTime,
    pub(crate) uuid: Option<Uuid>,
    pub(crate) name: Option<&'a str>,
    pub(crate) lifetime_ms: Option<u64>,
    pub(crate) expires_ms: Option<u64>,
    pub(crate) attempts: Option<AttemptRule>,
    pub(crate) failures: Option<&'a FailureRule>,
    pub(crate) blockers: &'a [JobNumber],
    pub(crate) date: Option<(i64, DateRank)>,
    pub(crate) delayed: bool,
    pub(crate) delay: Option<Delay>,
    pub(crate) runs: bool,
    pub(crate) origin: Option<&'a [u8]>,
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

impl Full<'_> {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.reserve(JOB_HEAD_MAX + self.queue.len() + self.body.len());
        out.push(self.parts());
        put_number(out, self.number);
        put_number(out, self.place);
        put_signed(out, self.created_wall_ms.into());
        put_bytes(out, self.queue);
        put_bytes(out, self.body);
        put_signed(out, self.urgency);
        put_own_time(out, self.own_time, self.delay, self.origin);
        if let Some(uuid) = self.uuid {
            put_wide(out, uuid.0);
        }
        if let Some(name) = self.name {
            put_bytes(out, name.as_bytes());
        }
        if let Some(lifetime_ms) = self.lifetime_ms {
            put_number(out, lifetime_ms);
            put_optional(out, self.expires_ms);
        }
        if let Some(rule) = self.attempts {
            put_optional(out, rule.max.map(u64::from));
        }
        if let Some(rule) = self.failures {
            put_failure_rule(out, rule);
        }
        if !self.blockers.is_empty() {
            put_number(out, self.blockers.len() as u64);
            for &blocker in self.blockers {
                put_number(out, blocker);
            }
        }
        if let Some((wall_ms, rank)) = self.date {
            put_signed(out, wall_ms.into());
            out.push(u8::from(rank == DateRank::Behind));
            out.push(u8::from(self.delayed));
        }
    }

    fn parts(&self) -> u8 {
        let part = |there: bool, bit: u8| if there { bit } else { 0 };
        part(self.uuid.is_some(), has::UUID)
            | part(self.name.is_some(), has::NAME)
            | part(self.lifetime_ms.is_some(), has::LIFETIME)
            | part(self.attempts.is_some(), has::ATTEMPTS)
            | part(self.failures.is_some(), has::FAILURES)
            | part(!self.blockers.is_empty(), has::BLOCKERS)
            | part(self.date.is_some(), has::DATE)
            | part(self.runs, has::RUNS)
    }
}

impl Job {
    /// What it was put with, and what has become of it as far as a [`Full`] can say.
    pub(crate) fn full<'a>(&'a self, queue: &'a [u8]) -> Full<'a> {
        let rare = self.rare.as_deref();
        Full {
            number: self.number,
            place: self.place,
            created_wall_ms: self.created_wall_ms,
            queue,
            body: &self.body,
            urgency: self.urgency,
            own_time: self.own_time,
            uuid: rare.and_then(|rare| rare.uuid),
            name: rare.and_then(|rare| rare.name.as_deref()),
            lifetime_ms: rare.and_then(|rare| rare.lifetime_ms),
            expires_ms: None,
            attempts: rare.and_then(|rare| rare.attempt_rule),
            failures: rare.and_then(|rare| rare.failure_rule.as_ref()),
            blockers: self.blockers(),
            date: rare.and_then(|rare| rare.date),
            delayed: matches!(self.state, State::Delayed { due: Due::Wall(_), .. }),
            delay: rare.and_then(|rare| Delay::of_length(rare.delay_ms)),
            runs: self.runs(),
            origin: rare.and_then(|rare| rare.origin.as_deref()),
        }
    }

    /// How long that is when written, but for the queue's name.
    pub(crate) fn full_len(&self) -> usize {
        1 + number_len(self.number)
            + number_len(self.place)
            + date_len(self.created_wall_ms)
            + bytes_len(&self.body)
            + signed_len(self.urgency)
            + own_time_len(self.own_time)
            + self.rare.as_deref().map_or(0, Rare::full_len)
    }
}

impl Rare {
    fn full_len(&self) -> usize {
        let blockers = match &self.blockers[..] {
            [] => 0,
            blockers => {
                let numbers: usize = blockers.iter().map(|&blocker| number_len(blocker)).sum();
                number_len(blockers.len() as u64) + numbers
            }
        };
        self.uuid.map_or(0, |uuid| wide_len(uuid.0))
            + self.name.as_ref().map_or(0, |name| bytes_len(name.as_bytes()))
            + self.lifetime_ms.map_or(0, |lifetime_ms| number_len(lifetime_ms) + optional_len(None))
            + self.attempt_rule.map_or(0, |rule| optional_len(rule.max.map(u64::from)))
            + self.failure_rule.as_ref().map_or(0, failure_rule_len)
            + blockers
            + self.date.map_or(0, |(wall_ms, _)| date_len(wall_ms) + 2)
            + Delay::of_length(self.delay_ms).map_or(0, Delay::len)
            + self.origin.as_ref().map_or(0, |origin| bytes_len(origin))
    }
}

impl<'a> Enqueued<'a> {
    pub(crate) fn full(&self) -> Full<'_> {
        Full {
            number: self.number,
            place: self.place,
            created_wall_ms: self.created_wall_ms,
            queue: self.queue,
            body: &self.body,
            urgency: self.urgency,
            own_time: self.own_time,
            uuid: self.uuid,
            name: self.name.as_deref(),
            lifetime_ms: self.lifetime_ms,
            expires_ms: self.expires_ms,
            attempts: self.attempts,
            failures: self.failures.as_ref(),
            blockers: &self.blockers,
            date: self.date,
            delayed: self.delayed,
            delay: self.delay,
            runs: self.runs,
            origin: self.origin.as_deref(),
        }
    }

    pub(crate) fn decode(reader: &mut Reader<'a>) -> Result<Self, Damaged> {
        let parts = reader.byte()?;
        let mut enqueued = Enqueued {
            number: reader.number()?,
            place: reader.number()?,
            created_wall_ms: reader.date()?,
            queue: reader.bytes()?,
            body: reader.bytes()?.into(),
            urgency: reader.signed()?,
            own_time: OwnTime::None,
            uuid: None,
            name: None,
            lifetime_ms: None,
            expires_ms: None,
            attempts: None,
            failures: None,
            blockers: Vec::new(),
            date: None,
            delayed: false,
            delay: None,
            runs: parts & has::RUNS != 0,
            origin: None,
        };
        enqueued.decode_own_time(reader)?;
        if parts & !has::RUNS != 0 {
            enqueued.decode_rare(parts, reader)?;
        }
        Ok(enqueued)
    }

    /// With what else its first byte tells of.
    fn decode_own_time(&mut self, reader: &mut Reader<'_>) -> Result<(), Damaged> {
        let kind = reader.byte()?;
        self.own_time = match kind & !(DELAYED | FROM_ELSEWHERE) {
            0 => OwnTime::None,
            1 => OwnTime::Unlimited,
            2 => OwnTime::Millis(reader.number()?),
            _ => return Err(Damaged),
        };
        if kind & DELAYED != 0 {
            self.delay = Some(Delay::decode(reader)?);
        }
        if kind & FROM_ELSEWHERE != 0 {
            self.origin = Some(reader.bytes()?.into());
        }
        Ok(())
    }

    fn decode_rare(&mut self, parts: u8, reader: &mut Reader<'_>) -> Result<(), Damaged> {
        if parts & has::UUID != 0 {
            self.uuid = Some(Uuid(reader.wide()?));
        }
        if parts & has::NAME != 0 {
            self.name = Some(std::str::from_utf8(reader.bytes()?).map_err(|_| Damaged)?.into());
        }
        if parts & has::LIFETIME != 0 {
            self.lifetime_ms = Some(reader.number()?);
            self.expires_ms = optional(reader)?;
        }
        if parts & has::ATTEMPTS != 0 {
            let max = optional(reader)?.map(u32::try_from).transpose().map_err(|_| Damaged)?;
            self.attempts = Some(AttemptRule { max });
        }
        if parts & has::FAILURES != 0 {
            self.failures = Some(failure_rule(reader)?);
        }
        if parts & has::BLOCKERS != 0 {
            self.blockers = blockers(reader)?;
        }
        if parts & has::DATE != 0 {
            let wall_ms = reader.date()?;
            let rank = if reader.flag()? { DateRank::Behind } else { DateRank::Ahead };
            self.date = Some((wall_ms, rank));
            self.delayed = reader.flag()?;
        }
        Ok(())
    }
}

/// What the record of a job that is put takes beside its body, names and blockers is less than this.
pub(crate) const JOB_HEAD_MAX: usize = 192;

/// Added to the kind of own time of a job that waits for a while.
const DELAYED: u8 = 4;

/// Added to it if where the job came from is open.
const FROM_ELSEWHERE: u8 = 8;

fn put_own_time(out: &mut Vec<u8>, own_time: OwnTime, delay: Option<Delay>, origin: Option<&[u8]>) {
    let delayed = if delay.is_some() { DELAYED } else { 0 };
    let more = delayed | if origin.is_some() { FROM_ELSEWHERE } else { 0 };
    match own_time {
        OwnTime::None => out.push(more),
        OwnTime::Unlimited => out.push(1 | more),
        OwnTime::Millis(ms) => {
            out.push(2 | more);
            put_number(out, ms);
        }
    }
    if let Some(delay) = delay {
        delay.encode(out);
    }
    if let Some(origin) = origin {
        put_bytes(out, origin);
    }
}

fn own_time_len(own_time: OwnTime) -> usize {
    match own_time {
        OwnTime::None | OwnTime::Unlimited => 1,
        OwnTime::Millis(ms) => 1 + number_len(ms),
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

fn failure_rule_len(rule: &FailureRule) -> usize {
    let queue = match &rule.used_up {
        UsedUp::MoveTo(queue) => bytes_len(queue.as_bytes()),
        UsedUp::Remove | UsedUp::Keep => 0,
    };
    1 + optional_len(rule.allowed) + queue
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
