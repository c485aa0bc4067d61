//! Why a log cannot be used, in words for whoever runs the server.

use std::{fmt, io};

use crate::frame::Damage;
use crate::log::Position;

/// What can no longer be read, and would be lost if the log were salvaged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loss {
    /// The first batch that is unreadable.
    pub from: Position,
    /// The last batch that is unreadable.
    pub to: Position,
    /// How many batches are unreadable. Some between the first and the last may be whole.
    pub batches: u64,
    /// How many bytes they take, as far as they are there.
    pub bytes: u64,
    /// Whether there may be more of them than anybody knows.
    pub at_least: bool,
}

impl Loss {
    /// This and another loss together.
    #[must_use]
    pub fn and(self, other: Loss) -> Loss {
        let (bytes, at_least) = (self.bytes + other.bytes, self.at_least || other.at_least);
        if self.batches == 0 {
            return Loss { bytes, at_least, ..other };
        }
        if other.batches == 0 {
            return Loss { bytes, at_least, ..self };
        }
        let (from, to) = (self.from.min(other.from), self.to.max(other.to));
        Loss { from, to, batches: self.batches + other.batches, bytes, at_least }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Loss { from, to, batches, bytes, at_least } = self;
        let more = if *at_least { "at least " } else { "" };
        match batches {
            0 => return write!(f, "no batch is unreadable"),
            1 => write!(f, "{more}batch {from} is unreadable")?,
            _ if to - from + 1 == *batches => write!(f, "{more}batches {from} to {to} are unreadable")?,
            _ => write!(f, "{more}{batches} batches between {from} and {to} are unreadable")?,
        }
        match bytes {
            0 => Ok(()),
            bytes => write!(f, " ({bytes} bytes)"),
        }
    }
}

/// What was being done with a file when the disk would not.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Doing {
    /// It was being read.
    Read,
    /// It was being opened.
    Open,
    /// It was asked how long it is.
    Measure,
    /// It was being made, empty.
    Create,
    /// It was being made as long as it has to be, and durable.
    Prepare,
    /// It was being written to.
    Write,
    /// It was being synced.
    Sync,
    /// It was being given its name.
    Rename {
        /// The name it had before.
        from: String,
    },
    /// It was being removed.
    Remove,
}

impl fmt::Display for Doing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Doing::Read => write!(f, "read"),
            Doing::Open => write!(f, "open"),
            Doing::Measure => write!(f, "tell the size of"),
            Doing::Create => write!(f, "create"),
            Doing::Prepare => write!(f, "make"),
            Doing::Write => write!(f, "write to"),
            Doing::Sync => write!(f, "sync"),
            Doing::Rename { from } => write!(f, "rename {from} to"),
            Doing::Remove => write!(f, "remove"),
        }
    }
}

/// Why a log cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LogError {
    /// A batch cannot be trusted.
    Damaged {
        /// The file it is in; empty if the log is not in files.
        file: String,
        /// Where the damaged batch begins, in bytes.
        offset: u64,
        /// What is wrong with it.
        damage: Damage,
        /// What salvage would lose.
        loss: Loss,
    },
    /// A segment's first bytes do not say what they must.
    SegmentHeader {
        /// The segment's file.
        file: String,
        /// What is wrong with it.
        why: String,
    },
    /// A segment that the manifest names is not there.
    MissingSegment {
        /// The file that should be there.
        file: String,
    },
    /// There is neither a manifest nor a segment.
    NoLog,
    /// There are segments, but no manifest.
    MissingManifest {
        /// One of the segments' files.
        segment: String,
    },
    /// The manifest cannot be trusted.
    Manifest {
        /// What is wrong with it.
        why: String,
    },
    /// The manifest cannot be trusted, and there is no segment: nothing can be read.
    NothingLeft {
        /// What is wrong with the manifest.
        why: String,
    },
    /// The disk has no room to write the log anew with segments of another length. It is as it was.
    NoRoomForLength {
        /// How long they are, in bytes.
        found: u64,
        /// How long they were to be.
        asked: u64,
        /// What found no room.
        why: String,
    },
    /// The log holds batches that are too long for segments of the length that was asked for. It is as it was.
    LengthTooShort {
        /// How long segments are, in bytes.
        found: u64,
        /// How long they were to be.
        asked: u64,
        /// How long they must be.
        needed: u64,
    },
    /// The log was written by a newer version.
    FormatNewer {
        /// Its format.
        found: u32,
        /// The newest format known here.
        known: u32,
    },
    /// The log was written by a version so old that it can no longer be read.
    FormatOlder {
        /// Its format.
        found: u32,
        /// The oldest format known here.
        known: u32,
    },
    /// What was being read was dropped meanwhile by the server that writes the log.
    MovedOn {
        /// The file that is gone.
        file: String,
    },
    /// The disk would not do what was asked of it.
    Disk {
        /// What was being done.
        doing: Doing,
        /// With which file.
        file: String,
        /// What the system said.
        error: String,
        /// What kind of error that is.
        kind: io::ErrorKind,
    },
}

impl LogError {
    pub(crate) fn disk(doing: Doing, file: &str, error: &io::Error) -> Self {
        LogError::Disk { doing, file: file.into(), error: error.to_string(), kind: error.kind() }
    }

    /// Whether there was no room on the disk.
    #[must_use]
    pub fn is_full(&self) -> bool {
        use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        matches!(self, LogError::Disk { kind: StorageFull | QuotaExceeded | FileTooLarge, .. })
    }

    /// What has happened, for something that is tried again without anyone's help: it says nothing of what to do.
    pub(crate) fn cause(&self) -> String {
        let LogError::Disk { doing, file, error, .. } = self else { return self.to_string() };
        let full = if self.is_full() { "the disk is full: " } else { "" };
        format!("{full}{}", could_not(doing, file, error))
    }

    /// Whether the same may be tried again when there is room. After a failed sync nobody knows what is on disk, whatever the
    /// reason was.
    #[must_use]
    pub fn may_try_again(&self) -> bool {
        self.is_full() && !matches!(self, LogError::Disk { doing: Doing::Sync, .. })
    }
}

fn could_not(doing: &Doing, file: &str, error: &str) -> String {
    format!("could not {doing} {file}: {error}")
}

/// What helps against damage.
const RESTORE: &str = "Restore the data directory from a backup, or salvage what can be read";

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LogError::Damaged { file, offset, damage, loss } => {
                write!(f, "the log is damaged")?;
                if !file.is_empty() {
                    write!(f, " in {file}")?;
                }
                write!(f, " at byte {offset}: {damage}; {loss}. {RESTORE}")
            }
            LogError::SegmentHeader { file, why } => write!(f, "the log is damaged: {file} {why}. {RESTORE}"),
            LogError::MissingSegment { file } => {
                write!(f, "the log is damaged: {file} is missing. Put it back. If it is lost: {RESTORE}")
            }
            LogError::NoLog => {
                write!(
                    f,
                    "there is no log here: no file \"manifest\" and no batch. Name the data directory of a server"
                )
            }
            LogError::MissingManifest { segment } => {
                write!(
                    f,
                    "the file \"manifest\" is missing, but {segment} is there. Put it back. If it is lost: {RESTORE}"
                )
            }
            LogError::Manifest { why } => write!(f, "the file \"manifest\" cannot be trusted: {why}. {RESTORE}"),
            LogError::NothingLeft { why } => write!(
                f,
                "the file \"manifest\" cannot be trusted: {why}; and there is no segment, so nothing can be salvaged. Restore \
                 the data directory from a backup, or remove that file to begin with an empty log"
            ),
            LogError::NoRoomForLength { found, asked, why } => write!(
                f,
                "the log cannot be written anew, with segments of {asked} bytes instead of {found}: {why}. Make room on the \
                 disk, or set the segment size back to {found}"
            ),
            LogError::LengthTooShort { found, asked, needed } => write!(
                f,
                "the log cannot be written anew, with segments of {asked} bytes instead of {found}: it holds batches that need \
                 {needed}. Set the segment size to that at least"
            ),
            LogError::FormatNewer { found, known } => write!(
                f,
                "the file \"manifest\" says format {found}, and this version knows formats up to {known}: a newer version \
                 wrote this log. Start that version, or use another data directory"
            ),
            LogError::FormatOlder { found, known } => write!(
                f,
                "the file \"manifest\" says format {found}, and this version knows formats from {known} on. Start a version \
                 between the two once: it brings the log up to date"
            ),
            LogError::MovedOn { file } => {
                write!(f, "{file} was dropped by the server while it was being read. Begin again")
            }
            LogError::Disk { doing, file, error, .. } => {
                write!(f, "{}. ", could_not(doing, file, error))?;
                if self.is_full() {
                    write!(f, "Make room on the disk and start again")
                } else {
                    write!(f, "Check the disk and the permissions of the data directory, then start again")
                }
            }
        }
    }
}

impl std::error::Error for LogError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_add_up() {
        let none = Loss::default();
        let one = Loss { from: 7, to: 7, batches: 1, bytes: 10, at_least: false };
        let two = Loss { from: 3, to: 4, batches: 2, bytes: 5, at_least: false };
        assert_eq!(none.and(one), one);
        assert_eq!(one.and(none), one);
        assert_eq!(one.and(two), Loss { from: 3, to: 7, batches: 3, bytes: 15, at_least: false });
        assert_eq!(one.to_string(), "batch 7 is unreadable (10 bytes)");
        assert_eq!(two.to_string(), "batches 3 to 4 are unreadable (5 bytes)");
        assert_eq!(one.and(two).to_string(), "3 batches between 3 and 7 are unreadable (15 bytes)");
        let missing = Loss { bytes: 0, at_least: true, ..one };
        assert_eq!(missing.to_string(), "at least batch 7 is unreadable");
        assert!(two.and(missing).at_least && missing.and(two).at_least && none.and(missing).at_least);
    }

    #[test]
    fn a_message_names_the_file_and_what_to_do() {
        let file = || "a.log".to_string();
        let full = io::Error::from(io::ErrorKind::StorageFull);
        let loss = Loss { from: 7, to: 7, batches: 1, bytes: 10, at_least: false };
        let errors = [
            LogError::Damaged { file: file(), offset: 4096, damage: Damage::Payload, loss },
            LogError::SegmentHeader { file: file(), why: "does not match its checksum".into() },
            LogError::MissingSegment { file: file() },
            LogError::MissingManifest { segment: file() },
            LogError::MovedOn { file: file() },
            LogError::disk(Doing::Write, "a.log", &full),
        ];
        for error in errors {
            assert!(error.to_string().contains("a.log"), "{error}");
        }
        assert!(LogError::disk(Doing::Write, "a.log", &full).to_string().contains("Make room"));
        assert!(LogError::FormatNewer { found: 3, known: 1 }.to_string().contains("format 3"));
    }

    #[test]
    fn only_what_found_no_room_and_was_no_sync_may_be_tried_again() {
        let (full, broken) = (io::Error::from_raw_os_error(28), io::Error::from_raw_os_error(5));
        let every = [
            Doing::Read,
            Doing::Open,
            Doing::Measure,
            Doing::Create,
            Doing::Prepare,
            Doing::Write,
            Doing::Sync,
            Doing::Rename { from: "b".into() },
            Doing::Remove,
        ];
        for doing in every {
            let (found_full, is_sync) = (LogError::disk(doing.clone(), "a", &full), doing == Doing::Sync);
            assert!(found_full.is_full());
            assert_eq!(found_full.may_try_again(), !is_sync, "{found_full}");
            let found_broken = LogError::disk(doing, "a", &broken);
            assert!(!found_broken.is_full() && !found_broken.may_try_again(), "{found_broken}");
        }
    }

    #[test]
    fn bytes_without_a_batch_are_lost_too() {
        let none = Loss { bytes: 3, at_least: true, ..Loss::default() };
        let some = Loss { from: 7, to: 8, batches: 2, bytes: 10, at_least: false };
        let both = Loss { bytes: 13, at_least: true, ..some };
        assert_eq!((none.and(some), some.and(none)), (both, both));
        assert_eq!(none.to_string(), "no batch is unreadable");
    }
}
