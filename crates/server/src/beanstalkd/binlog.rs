//! beanstalkd's own log, read: `binlog.1`, `binlog.2`, … as versions 1.5 and later write them (format 7), and 1.4.6 did
//! (format 5). There is no checksum in it, so whatever cannot be is taken for damage.

mod record;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};

use anyhow::{Context, Result, bail};
use jobyard_log::{ReadDisk, ReadFile};

use record::{Broken, Change, Format, Record, may_be_torn, next};

/// What all files of a binlog say together.
#[derive(Debug, Default)]
pub struct Binlog {
    /// The files, in order.
    pub files: Vec<Facts>,
    /// The jobs that there are, by their ids.
    pub jobs: BTreeMap<u64, Job>,
    /// The largest id that any job had.
    pub last_id: u64,
    /// What is worth telling, in words: where a crash has cut a record off.
    pub notices: Vec<String>,
    /// What the last record seems to have deleted.
    doubtful: Option<Doubtful>,
    /// Jobs to which something has happened, and of which no file says what they are or that they are gone: the first place
    /// where each is spoken of, for people.
    unknown: BTreeMap<u64, String>,
}

/// A job of which nobody can tell whether it was deleted, or something else befell it: the power may have gone before the
/// rest of that was on the disk.
#[derive(Debug)]
struct Doubtful {
    id: u64,
    job: Job,
    /// Where the record is.
    name: String,
    offset: u64,
}

/// What is known of a file, to know it again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Its name.
    pub name: String,
    /// How long it is.
    pub bytes: u64,
    /// A sum of all its bytes.
    pub sum: u64,
}

/// A job, as its last record left it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Its tube.
    pub tube: Box<[u8]>,
    /// The lower, the sooner.
    pub priority: u32,
    /// How long it may be reserved.
    pub ttr_ms: u64,
    /// When it was put, on the wall clock.
    pub created_wall_ms: i64,
    /// Where it stands.
    pub stands: Stands,
    /// What it says.
    pub body: Box<[u8]>,
}

/// Where a job stands. Who is reserved is ready after a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stands {
    /// It can be taken.
    Ready,
    /// It can be taken from this moment on.
    Delayed {
        /// On the wall clock.
        until_wall_ms: i64,
    },
    /// It waits to be kicked.
    Buried,
}

/// How a file ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Behind a whole record; zeros may follow.
    Whole,
    /// In a record of which the rest is zeros.
    Unfinished(u64),
    /// In a record of which the rest is not there.
    Short(u64),
}

/// The number of a file of a binlog. beanstalkd writes it without zeros in front, and opens no other.
fn number_of(name: &str) -> Option<u32> {
    let digits = name.strip_prefix("binlog.")?;
    digits.parse().ok().filter(|number: &u32| number.to_string() == digits)
}

/// The names of a binlog's files, in order.
pub fn names<D: ReadDisk>(disk: &D) -> Result<Vec<String>> {
    let names = disk.names().context("cannot list the directory")?;
    let mut numbered: Vec<_> = names.into_iter().filter_map(|name| Some((number_of(&name)?, name))).collect();
    numbered.sort_unstable();
    Ok(numbered.into_iter().map(|(_, name)| name).collect())
}

/// Reads all files of a binlog.
pub fn read<D: ReadDisk>(disk: &mut D) -> Result<Binlog> {
    let mut binlog = Binlog::default();
    let mut cut: Option<(String, u64)> = None;
    let mut before: Option<u32> = None;
    for name in names(disk)? {
        let number = number_of(&name).context("it was one a moment ago")?;
        if let Some(missing) = before.and_then(|before| before.checked_add(1)).filter(|&next| next != number) {
            bail!("binlog.{missing} is missing between those before it and {name}");
        }
        before = Some(number);
        let bytes = content(disk, &name)?;
        let has_records = bytes.iter().skip(4).any(|&byte| byte != 0);
        if let Some((name, offset)) = cut.take_if(|_| has_records) {
            bail!("{name} ends in the middle of a record, at byte {offset}, and there are more behind it");
        }
        if has_records {
            // beanstalkd went on, and took it for deleted.
            binlog.doubtful = None;
        }
        match binlog.take(&name, &bytes)? {
            End::Whole => {}
            End::Unfinished(offset) => binlog.notices.push(unfinished(&name, offset)),
            End::Short(offset) => {
                binlog.notices.push(unfinished(&name, offset));
                cut = Some((name.clone(), offset));
            }
        }
        binlog.files.push(Facts::of(name, &bytes));
    }
    binlog.settle();
    binlog.tell_unknown();
    Ok(binlog)
}

/// What is known of one file.
pub fn facts<D: ReadDisk>(disk: &mut D, name: &str) -> Result<Facts> {
    Ok(Facts::of(name.to_owned(), &content(disk, name)?))
}

fn unfinished(name: &str, offset: u64) -> String {
    format!("{name} ends at byte {offset} in a record that was never finished: a crash cut it off")
}

fn content<D: ReadDisk>(disk: &mut D, name: &str) -> Result<Vec<u8>> {
    let content = disk.open_to_read(name).and_then(|file| all_of(&file, u64::MAX));
    content.with_context(|| format!("cannot read {name}"))
}

/// All that a file holds, if that is not more than this.
pub fn all_of(file: &impl ReadFile, bytes_max: u64) -> io::Result<Vec<u8>> {
    let len = Some(file.bytes()?).filter(|&len| len <= bytes_max).and_then(|len| usize::try_from(len).ok());
    let mut bytes = vec![0; len.ok_or(ErrorKind::FileTooLarge)?];
    let mut read = 0;
    while read < bytes.len() {
        match file.read_at(read as u64, &mut bytes[read..])? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            count => read += count,
        }
    }
    Ok(bytes)
}

/// FNV-1a: nobody means to deceive it.
fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, &byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

impl Facts {
    fn of(name: String, bytes: &[u8]) -> Facts {
        Facts { name, bytes: bytes.len() as u64, sum: sum(bytes) }
    }
}

impl Binlog {
    /// Carries out the records of one more file.
    fn take(&mut self, name: &str, bytes: &[u8]) -> Result<End> {
        // A file is made with room for its records, and then its version is written.
        if bytes.iter().all(|&byte| byte == 0) {
            return Ok(End::Whole);
        }
        let Some((version, _)) = bytes.split_first_chunk() else { return Ok(End::Short(0)) };
        let Some(format) = Format::of_version(i32::from_le_bytes(*version)) else {
            let version = i32::from_le_bytes(*version);
            bail!("{name} has version {version}, at byte 0: only 5 and 7 are known");
        };
        let mut at = version.len();
        loop {
            let offset = at as u64;
            match next(&bytes[at..], format) {
                Ok(None) => return Ok(End::Whole),
                Ok(Some((record, len))) => {
                    let id = record.id;
                    if record.change == Change::Deleted && may_be_torn(bytes, at, format) {
                        let doubtful = |job| Doubtful { id, job, name: name.to_owned(), offset };
                        self.doubtful = self.jobs.get(&id).cloned().map(doubtful);
                    }
                    match record.change {
                        Change::Stands { .. } if !self.jobs.contains_key(&id) => {
                            self.unknown.entry(id).or_insert_with(|| format!("in {name}, at byte {offset},"));
                        }
                        Change::Stands { .. } => {}
                        Change::Put(_) | Change::Deleted => drop(self.unknown.remove(&id)),
                    }
                    if let Err(why) = self.apply(record) {
                        bail!("{name} is damaged at byte {offset}: job {id} {why}");
                    }
                    at += len;
                }
                Err(Broken::Unfinished) => return Ok(End::Unfinished(offset)),
                Err(Broken::Short) => return Ok(End::Short(offset)),
                Err(Broken::Damaged(why)) => bail!("{name} is damaged at byte {offset}: {why}"),
            }
        }
    }

    /// All was read: what is in doubt is kept, for a job that comes twice is better than one that is lost.
    fn settle(&mut self) {
        let Some(Doubtful { id, job, name, offset }) = self.doubtful.take() else { return };
        self.notices.push(format!(
            "{name} may end at byte {offset} in a record that was never finished: job {id} is kept as it was before, and it \
             may have been deleted"
        ));
        self.jobs.insert(id, job);
    }

    /// All was read: what was spoken of must be known, unless beanstalkd had let go of it and the power went before it could
    /// say so.
    fn tell_unknown(&mut self) {
        let Some((id, place)) = self.unknown.first_key_value() else { return };
        let (more, first) = (self.unknown.len() - 1, self.files.first().map_or("", |file| &file.name));
        let others = if more == 0 { String::new() } else { format!(", and {more} more") };
        self.notices.push(format!(
            "JOBS MAY BE MISSING: {place} job {id} is spoken of{others}, and no file says what it is; if a file before {first} was \
             lost, so are its jobs"
        ));
    }

    fn apply(&mut self, record: Record) -> Result<(), &'static str> {
        let Record { id, change } = record;
        self.last_id = self.last_id.max(id);
        match change {
            Change::Put(job) => {
                // Written once more it is the same job. Another one with its id is of a beanstalkd that had not seen this one.
                let created_wall_ms = job.created_wall_ms;
                let before = self.jobs.insert(id, job);
                if before.is_some_and(|before| before.created_wall_ms != created_wall_ms) {
                    return Err("is another than before");
                }
            }
            Change::Deleted => {
                self.jobs.remove(&id);
            }
            Change::Stands { priority, stands, body_bytes } => {
                // If its put is not there, that was in a file that beanstalkd has let go of, or it is to be written once more.
                let Some(job) = self.jobs.get_mut(&id) else { return Ok(()) };
                if job.body.len() != body_bytes {
                    return Err("has another size than before");
                }
                (job.priority, job.stands) = (priority, stands);
            }
        }
        Ok(())
    }
}
