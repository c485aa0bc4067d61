//! What is known of an import that is under way: a small file in the data directory. While it is there, nobody may use the
//! log but an import.

use std::fmt::Write as _;
use std::io;
use std::path::Path;

use anyhow::{Context, Result, bail};
use jobyard_log::{Disk, DiskFile, ReadDisk};

use super::binlog::{Facts, all_of};

/// The file's name, which no binlog has.
const PLAN: &str = "binlog.import";
const PLAN_NEW: &str = "binlog.import.new";
const HEAD: &str = "jobyard imports a binlog of beanstalkd";
/// More than the longest plan that there could be.
const BYTES_MAX: u64 = 1 << 24;

/// An import that was begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// All jobs from this number on came with it.
    pub first: u64,
    /// Whether all are in the log: only the files are left to be renamed.
    pub done: bool,
    /// The files.
    pub files: Vec<Facts>,
}

/// Whether an import was begun in this directory and not ended.
pub fn is_unfinished(directory: &Path) -> bool {
    directory.join(PLAN).exists()
}

impl Plan {
    /// The one that is there.
    pub fn read<D: ReadDisk>(disk: &mut D) -> Result<Option<Plan>> {
        let file = match disk.open_to_read(PLAN) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("cannot open {PLAN}")),
        };
        let bytes = all_of(&file, BYTES_MAX).with_context(|| format!("cannot read {PLAN}"))?;
        let Some(plan) = str::from_utf8(&bytes).ok().and_then(Plan::parse) else {
            bail!("{PLAN}, which tells how far an import has come, makes no sense");
        };
        Ok(Some(plan))
    }

    /// Makes it the one that is there, durably.
    pub fn write<D: Disk>(&self, disk: &mut D) -> Result<()> {
        let written = self.try_write(disk);
        written.with_context(|| format!("cannot write {PLAN}"))
    }

    fn try_write<D: Disk>(&self, disk: &mut D) -> io::Result<()> {
        let text = self.text();
        let mut file = disk.create(PLAN_NEW)?;
        let mut written = 0;
        while written < text.len() {
            match file.write_at(written as u64, &text.as_bytes()[written..])? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                count => written += count,
            }
        }
        file.sync()?;
        disk.rename(PLAN_NEW, PLAN)?;
        disk.sync_directory()
    }

    /// The import is over.
    pub fn remove<D: Disk>(disk: &mut D) -> Result<()> {
        disk.remove(PLAN).and_then(|()| disk.sync_directory()).with_context(|| format!("cannot remove {PLAN}"))
    }

    fn text(&self) -> String {
        let mut text = format!("{HEAD}\nfirst {}\ndone {}\n", self.first, self.done);
        for Facts { name, bytes, sum } in &self.files {
            let _ = writeln!(text, "{name} {bytes} {sum:016x}");
        }
        text
    }

    fn parse(text: &str) -> Option<Plan> {
        let mut lines = text.strip_suffix('\n')?.split('\n');
        if lines.next()? != HEAD {
            return None;
        }
        let first = lines.next()?.strip_prefix("first ")?.parse().ok()?;
        let done = lines.next()?.strip_prefix("done ")?.parse().ok()?;
        let files = lines.map(|line| {
            let mut words = line.split(' ');
            let (name, bytes, sum) = (words.next()?, words.next()?, words.next()?);
            let sum = u64::from_str_radix(sum, 16).ok()?;
            Some(Facts { name: name.to_owned(), bytes: bytes.parse().ok()?, sum })
        });
        Some(Plan { first, done, files: files.collect::<Option<_>>()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_read_as_it_was_written() {
        let file = |name: &str, sum| Facts { name: name.to_owned(), bytes: 4_096, sum };
        let plan = Plan { first: 7, done: false, files: vec![file("binlog.1", u64::MAX), file("binlog.2", 0)] };
        assert_eq!(Plan::parse(&plan.text()), Some(plan.clone()));
        let done = Plan { done: true, files: Vec::new(), ..plan };
        assert_eq!(Plan::parse(&done.text()), Some(done));
    }

    #[test]
    fn what_is_no_plan_is_refused() {
        let head = format!("{HEAD}\nfirst 1\ndone true\n");
        assert!(Plan::parse(&head).is_some());
        for text in [
            String::new(),
            head.trim_end().to_owned(),
            head.replace("first 1", "first -1"),
            head.replace("done true", "done"),
            head.replace("jobyard", "somebody"),
            format!("{head}binlog.1 5\n"),
            format!("{head}binlog.1 5 x\n"),
            format!("{head}\n"),
        ] {
            assert_eq!(Plan::parse(&text), None, "{text:?}");
        }
    }
}
