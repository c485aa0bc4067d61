//! All that was done to a disk, in order, and a walk along it that stops wherever the power may be cut.

use std::fmt;
use std::rc::Rc;

use super::SimDisk;
use super::crash::Crash;
use super::state::{FileId, Image, State};

/// Something that was done to a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A file was made, or emptied.
    Create {
        /// Its name.
        name: String,
        /// The file.
        file: FileId,
    },
    /// Bytes were written.
    Write {
        /// To which file.
        file: FileId,
        /// Where.
        offset: usize,
        /// What.
        bytes: Rc<[u8]>,
    },
    /// A file was synced.
    Sync {
        /// Which.
        file: FileId,
    },
    /// A file should have been synced; nobody knows what of it was.
    SyncFailed {
        /// Which.
        file: FileId,
    },
    /// A file was renamed.
    Rename {
        /// Its old name.
        from: String,
        /// Its new one.
        to: String,
    },
    /// Two files exchanged their names.
    Exchange {
        /// The one name.
        one: String,
        /// The other.
        other: String,
    },
    /// A file was removed.
    Remove {
        /// Its name.
        name: String,
    },
    /// The directory was synced.
    SyncDirectory,
    /// Someone began to prepare a file. Until that is done, any part of it may be there.
    Prepare {
        /// Its name.
        name: String,
        /// The file.
        file: FileId,
        /// How long it will be.
        bytes: usize,
    },
    /// The file is prepared.
    Prepared {
        /// Its name.
        name: String,
        /// The file.
        file: FileId,
    },
}

impl Operation {
    /// What kinds of operations there are, by name, in the order of [`Operation::kind`].
    pub const KINDS: [&str; 10] = [
        "create",
        "write",
        "sync",
        "failed sync",
        "rename",
        "remove",
        "sync of the directory",
        "prepare",
        "end of prepare",
        "exchange",
    ];

    /// Which of [`Operation::KINDS`] this is.
    #[must_use]
    pub fn kind(&self) -> usize {
        match self {
            Operation::Create { .. } => 0,
            Operation::Write { .. } => 1,
            Operation::Sync { .. } => 2,
            Operation::SyncFailed { .. } => 3,
            Operation::Rename { .. } => 4,
            Operation::Exchange { .. } => 9,
            Operation::Remove { .. } => 5,
            Operation::SyncDirectory => 6,
            Operation::Prepare { .. } => 7,
            Operation::Prepared { .. } => 8,
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Operation::KINDS[self.kind()])?;
        match self {
            Operation::Create { name, file }
            | Operation::Prepare { name, file, .. }
            | Operation::Prepared { name, file } => write!(f, " {name}, file {file}"),
            Operation::Write { file, offset, bytes } => {
                write!(f, " to file {file}, {} bytes at {offset}", bytes.len())
            }
            Operation::Sync { file } | Operation::SyncFailed { file } => write!(f, " of file {file}"),
            Operation::Rename { from, to } => write!(f, " {from} to {to}"),
            Operation::Exchange { one, other } => write!(f, " {one} and {other}"),
            Operation::Remove { name } => write!(f, " {name}"),
            Operation::SyncDirectory => Ok(()),
        }
    }
}

/// What a disk held at first, and all that was done to it.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// What it held at first.
    pub(super) start: State,
    /// All that was done.
    pub operations: Vec<Operation>,
}

impl History {
    /// A walk along it, which stands before the first operation.
    #[must_use]
    pub fn walk(&self) -> Walk<'_> {
        Walk { state: self.start.clone(), rest: &self.operations }
    }
}

/// A place in a history: between two operations.
#[derive(Clone, Debug)]
pub struct Walk<'h> {
    state: State,
    rest: &'h [Operation],
}

impl<'h> Walk<'h> {
    /// Goes past the next operation, and says which it was.
    pub fn step(&mut self) -> Option<&'h Operation> {
        let (operation, rest) = self.rest.split_first()?;
        self.state.apply(operation);
        self.rest = rest;
        Some(operation)
    }

    /// What a crash here would leave.
    #[must_use]
    pub fn crash(&self, crash: Crash) -> Image {
        self.state.crash(crash)
    }

    /// A disk of its own that goes on from here: what was not synced here is not synced there.
    #[must_use]
    pub fn disk(&self) -> SimDisk {
        SimDisk::from_state(self.state.clone())
    }

    /// After how many of its bytes the last write that is not synced may be torn.
    #[must_use]
    pub fn tears(&self) -> Vec<usize> {
        self.state.tears()
    }

    /// Whether a power cut here would lose nothing.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.state.is_settled()
    }

    /// Whether a power cut here might lose a name, or bring one back.
    #[must_use]
    pub fn has_unsynced_names(&self) -> bool {
        self.state.has_unsynced_names()
    }
}
