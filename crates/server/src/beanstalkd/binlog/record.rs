//! One record of a binlog: a tube's name if it is a whole one, what is known of the job, and then its body.

use jobyard_protocols::beanstalkd::{NAME_BYTES_MAX, is_tube};

use super::{Job, Stands};
use crate::beanstalkd::options::JOB_BYTES_MAX;

/// How records are written. Numbers have their lowest byte first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// What the length of a name takes.
    length_bytes: usize,
    /// What is known of a job, the padding of C included.
    fixed_bytes: usize,
    /// So many units of time are a millisecond.
    per_ms: i64,
}

impl Format {
    /// That of this version.
    pub fn of_version(version: i32) -> Option<Format> {
        match version {
            // In microseconds, and not padded.
            5 => Some(Format { length_bytes: 8, fixed_bytes: 77, per_ms: 1_000 }),
            7 => Some(Format { length_bytes: 4, fixed_bytes: 80, per_ms: 1_000_000 }),
            _ => None,
        }
    }
}

/// What happened to a job.
#[derive(Debug, PartialEq, Eq)]
pub struct Record {
    /// Which.
    pub id: u64,
    /// What.
    pub change: Change,
}

/// What a record says.
#[derive(Debug, PartialEq, Eq)]
pub enum Change {
    /// All of the job: it was put, or written once more.
    Put(Job),
    /// It is gone.
    Deleted,
    /// What of it may change.
    Stands {
        /// Its priority.
        priority: u32,
        /// Where it stands.
        stands: Stands,
        /// How long its body is, as ever.
        body_bytes: usize,
    },
}

/// Why there is no record.
#[derive(Debug, PartialEq, Eq)]
pub enum Broken {
    /// It was begun, and zeros follow to the end: it was being written when beanstalkd died.
    Unfinished,
    /// The file ends in it.
    Short,
    /// It cannot be.
    Damaged(String),
}

/// What a disk writes whole or not at all.
const SECTOR_BYTES: usize = 512;
/// A body is kept with the CRLF that came behind it.
const BODY_END: &[u8] = b"\r\n";
const BODY_BYTES_MAX: usize = JOB_BYTES_MAX + BODY_END.len();

/// Where what is known of a job is, behind the tube's name.
mod at {
    pub(super) const ID: usize = 0;
    pub(super) const PRIORITY: usize = 8;
    pub(super) const TTR: usize = 24;
    pub(super) const BODY_SIZE: usize = 32;
    pub(super) const CREATED: usize = 40;
    pub(super) const DEADLINE: usize = 48;
    pub(super) const STATE: usize = 76;
}

/// The record that comes first in what is left of a file, and how long it is. Nothing if only zeros are left.
pub fn next(bytes: &[u8], format: Format) -> Result<Option<(Record, usize)>, Broken> {
    if is_zero(bytes) {
        return Ok(None);
    }
    let (length, rest) = bytes.split_at_checked(format.length_bytes).ok_or(Broken::Short)?;
    let length = length.iter().rev().fold(0, |length, &byte| length << 8 | u64::from(byte));
    let name_bytes = usize::try_from(length).ok().filter(|&bytes| bytes <= NAME_BYTES_MAX);
    let Some(name_bytes) = name_bytes else { return damaged(format!("a tube's name cannot have {length} bytes")) };
    let (name, rest) = rest.split_at_checked(name_bytes).ok_or(Broken::Short)?;
    let (fixed, behind) = rest.split_at_checked(format.fixed_bytes).ok_or(Broken::Short)?;
    let fixed = Fixed::of(fixed, format);
    if fixed.lacks_something() || name.contains(&0) || (name_bytes > 0 && fixed.state == 0) {
        let why = "what is known of a job is not there";
        return if is_zero(behind) { Err(Broken::Unfinished) } else { damaged(why.to_owned()) };
    }
    let (change, body_bytes) = fixed.change(name, behind)?;
    let len = format.length_bytes + name_bytes + format.fixed_bytes + body_bytes;
    Ok(Some((Record { id: fixed.id, change }, len)))
}

/// Whether the record here, by which a job is deleted, may be another of which only the beginning came to the disk: a sector
/// ends before its state, and from there on all is zero. A state of zero means deleted.
pub fn may_be_torn(bytes: &[u8], at: usize, format: Format) -> bool {
    let next_sector = (at / SECTOR_BYTES + 1) * SECTOR_BYTES;
    next_sector <= at + format.length_bytes + at::STATE && bytes.get(next_sector..).is_some_and(is_zero)
}

fn damaged<T>(why: String) -> Result<T, Broken> {
    Err(Broken::Damaged(why))
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|&byte| byte == 0)
}

/// What is known of a job, as it is written; times in milliseconds.
struct Fixed {
    id: u64,
    priority: u32,
    ttr_ms: i64,
    body_size: u32,
    created_ms: i64,
    deadline_ms: i64,
    state: u8,
}

impl Fixed {
    fn of(bytes: &[u8], format: Format) -> Fixed {
        let wide = |at: usize| bytes[at..at + 8].iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte));
        let narrow = |at: usize| bytes[at..at + 4].iter().rev().fold(0, |number, &byte| number << 8 | u32::from(byte));
        let millis = |at: usize| wide(at).cast_signed() / format.per_ms;
        Fixed {
            id: wide(at::ID),
            priority: narrow(at::PRIORITY),
            ttr_ms: millis(at::TTR),
            body_size: narrow(at::BODY_SIZE),
            created_ms: millis(at::CREATED),
            deadline_ms: millis(at::DEADLINE),
            state: bytes[at::STATE],
        }
    }

    /// No job is without these, not even one that is gone.
    fn lacks_something(&self) -> bool {
        self.id == 0 || self.ttr_ms == 0 || self.body_size == 0 || self.created_ms == 0
    }

    /// What it says, and how long the body behind it is.
    fn change(&self, name: &[u8], behind: &[u8]) -> Result<(Change, usize), Broken> {
        let (id, priority) = (self.id, self.priority);
        let (Ok(ttr_ms), 0..) = (u64::try_from(self.ttr_ms), self.created_ms) else {
            return damaged(format!("job {id} has times that cannot be"));
        };
        let with_end = usize::try_from(self.body_size).ok().filter(|&bytes| bytes <= BODY_BYTES_MAX);
        let Some((with_end, body_bytes)) = with_end.and_then(|bytes| Some((bytes, bytes.checked_sub(BODY_END.len())?)))
        else {
            return damaged(format!("job {id} cannot have {} bytes", self.body_size));
        };
        let stands = match self.state {
            // Reserved means ready: whoever held it is gone.
            1 | 2 => Stands::Ready,
            3 => Stands::Buried,
            4 => Stands::Delayed { until_wall_ms: self.deadline_ms },
            0 => return Ok((Change::Deleted, 0)),
            state => return damaged(format!("job {id} is in a state that there is not: {state}")),
        };
        if name.is_empty() {
            return Ok((Change::Stands { priority, stands, body_bytes }, 0));
        }
        if !is_tube(name) {
            return damaged(format!("job {id} is in a tube of no possible name: {}", name.escape_ascii()));
        }
        let (body, rest) = behind.split_at_checked(with_end).ok_or(Broken::Short)?;
        let Some(text) = body.strip_suffix(BODY_END) else {
            let unfinished = body.last() == Some(&0) && is_zero(rest);
            let why = format!("the body of job {id} does not end as each does");
            return if unfinished { Err(Broken::Unfinished) } else { damaged(why) };
        };
        let (tube, created_wall_ms) = (name.into(), self.created_ms);
        Ok((Change::Put(Job { tube, priority, ttr_ms, created_wall_ms, stands, body: text.into() }), with_end))
    }
}
