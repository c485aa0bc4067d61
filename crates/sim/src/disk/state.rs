//! What a disk holds at one moment: what everybody sees, what is durable, and the changes between the two.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::history::Operation;

/// A file, whatever its name.
pub type FileId = usize;

/// What a disk holds when nothing is under way: names, and bytes that are shared until they are changed.
pub type Image = BTreeMap<String, Rc<Vec<u8>>>;

/// What a disk holds at one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    pub files: Vec<File>,
    /// As everybody sees them.
    pub names: BTreeMap<String, FileId>,
    /// As they are for certain after a power cut.
    pub synced_names: BTreeMap<String, FileId>,
    /// What lies between the two, in order.
    pub renamings: Vec<Renaming>,
    changes: u64,
}

/// A file's bytes.
#[derive(Clone, Debug, Default)]
pub(super) struct File {
    /// As everybody sees them.
    pub bytes: Rc<Vec<u8>>,
    /// As they are for certain after a power cut.
    pub synced: Rc<Vec<u8>>,
    /// What lies between the two, in order.
    pub changes: Vec<Change>,
}

/// Something that happened to a file's bytes and may be lost.
#[derive(Clone, Debug)]
pub(super) struct Change {
    /// Counted over all files.
    pub number: u64,
    pub what: Changed,
    /// A sync that failed has come since: none will make this durable.
    pub forsaken: bool,
}

#[derive(Clone, Debug)]
pub(super) enum Changed {
    Emptied,
    Written { offset: usize, bytes: Rc<[u8]> },
}

/// Something that happened to names and may be lost.
#[derive(Clone, Debug)]
pub(super) enum Renaming {
    Created { name: String, file: FileId },
    Renamed { from: String, to: String },
    Exchanged { one: String, other: String },
    Removed { name: String },
}

impl State {
    pub fn from_image(image: &Image) -> Self {
        let mut state = State::default();
        for (name, bytes) in image {
            state.names.insert(name.clone(), state.files.len());
            state.files.push(File { bytes: Rc::clone(bytes), synced: Rc::clone(bytes), changes: Vec::new() });
        }
        state.synced_names = state.names.clone();
        state
    }

    /// Carries out what has happened, as far as this state is concerned.
    pub fn apply(&mut self, operation: &Operation) {
        match operation {
            Operation::Create { name, file } => self.create(name, *file),
            Operation::Write { file, offset, bytes } => self.write(*file, *offset, bytes),
            Operation::Sync { file } => self.files[*file].sync(),
            Operation::SyncFailed { file } => self.files[*file].forsake(),
            Operation::Rename { from, to } => {
                self.renamings.push(Renaming::Renamed { from: from.clone(), to: to.clone() });
                rename(&mut self.names, from, to);
            }
            Operation::Exchange { one, other } => {
                self.renamings.push(Renaming::Exchanged { one: one.clone(), other: other.clone() });
                exchange(&mut self.names, one, other);
            }
            Operation::Remove { name } => {
                self.renamings.push(Renaming::Removed { name: name.clone() });
                self.names.remove(name);
            }
            Operation::SyncDirectory => {
                self.renamings.clear();
                self.synced_names = self.names.clone();
            }
            Operation::Prepare { name, file, bytes } => {
                self.create(name, *file);
                self.write(*file, 0, &vec![0; *bytes].into());
            }
            Operation::Prepared { name, file } => {
                self.files[*file].sync();
                self.sync_name(name);
            }
        }
    }

    /// Whether a power cut now would lose nothing.
    pub fn is_settled(&self) -> bool {
        !self.has_unsynced_names() && self.files.iter().all(|file| file.changes.is_empty())
    }

    /// Whether a power cut now might lose a name, or bring one back.
    pub fn has_unsynced_names(&self) -> bool {
        !self.renamings.is_empty()
    }

    /// What all files take that still have a name.
    pub fn bytes(&self) -> u64 {
        self.names.values().map(|&file| self.files[file].bytes.len() as u64).sum()
    }

    /// The last write that may be lost: in which file, and where among its changes.
    pub fn last_write(&self) -> Option<(FileId, usize)> {
        let writes = self.files.iter().enumerate().flat_map(|(id, file)| {
            let written = |change: &Change| matches!(change.what, Changed::Written { .. });
            let last = file.changes.iter().rposition(written)?;
            Some((file.changes[last].number, (id, last)))
        });
        writes.max_by_key(|(number, _)| *number).map(|(_, write)| write)
    }

    /// One that is there is emptied, else `file` is the next new one.
    fn create(&mut self, name: &str, file: FileId) {
        if let Some(&there) = self.names.get(name) {
            self.change(there, Changed::Emptied);
            return;
        }
        assert_eq!(file, self.files.len(), "files are counted");
        self.files.push(File::default());
        self.names.insert(name.to_owned(), file);
        self.renamings.push(Renaming::Created { name: name.to_owned(), file });
    }

    fn write(&mut self, file: FileId, offset: usize, bytes: &Rc<[u8]>) {
        self.change(file, Changed::Written { offset, bytes: Rc::clone(bytes) });
    }

    fn change(&mut self, file: FileId, what: Changed) {
        self.changes += 1;
        let file = &mut self.files[file];
        what.apply(Rc::make_mut(&mut file.bytes));
        file.changes.push(Change { number: self.changes, what, forsaken: false });
    }

    /// The name's last renaming, and all before it that touch its names, are durable. That others are not is the worst case:
    /// whoever prepares a file need not have synced after they came.
    fn sync_name(&mut self, name: &str) {
        let mut names = vec![name.to_owned()];
        let mut kept = Vec::new();
        let mut synced = Vec::new();
        for renaming in std::mem::take(&mut self.renamings).into_iter().rev() {
            if renaming.names().any(|touched| names.iter().any(|name| name == touched)) {
                names.extend(renaming.names().map(str::to_owned));
                synced.push(renaming);
            } else {
                kept.push(renaming);
            }
        }
        for renaming in synced.iter().rev() {
            renaming.apply(&mut self.synced_names);
        }
        kept.reverse();
        self.renamings = kept;
    }
}

impl File {
    fn sync(&mut self) {
        if self.changes.iter().any(|change| change.forsaken) {
            let synced = Rc::make_mut(&mut self.synced);
            self.changes.iter().filter(|change| !change.forsaken).for_each(|change| change.what.apply(synced));
            let changes = std::mem::take(&mut self.changes);
            for (index, change) in changes.iter().enumerate().filter(|(_, change)| change.forsaken) {
                // What was written over and synced since cannot come back.
                let later = changes[index + 1..].iter().filter(|later| !later.forsaken);
                let left = later.fold(vec![change.what.clone()], |left, later| {
                    left.iter().flat_map(|what| what.beside(&later.what)).collect()
                });
                self.changes.extend(left.into_iter().map(|what| Change { what, ..change.clone() }));
            }
        } else {
            self.changes.clear();
            self.synced = Rc::clone(&self.bytes);
        }
    }

    fn forsake(&mut self) {
        self.changes.iter_mut().for_each(|change| change.forsaken = true);
    }
}

impl Changed {
    /// What is left of this change behind a later one.
    fn beside(&self, later: &Changed) -> Vec<Changed> {
        match (self, later) {
            (_, Changed::Emptied) | (Changed::Emptied, _) => Vec::new(),
            (Changed::Written { offset, bytes }, Changed::Written { offset: from, bytes: others }) => {
                let end = offset + bytes.len();
                let (before, after) = ((*offset, end.min(*from)), ((*offset).max(from + others.len()), end));
                let parts = [before, after].into_iter().filter(|(from, to)| from < to);
                parts
                    .map(|(from, to)| Changed::Written {
                        offset: from,
                        bytes: bytes[from - offset..to - offset].into(),
                    })
                    .collect()
            }
        }
    }

    pub fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Changed::Emptied => content.clear(),
            Changed::Written { offset, bytes } => write(content, *offset, bytes),
        }
    }
}

impl Renaming {
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let (one, other) = match self {
            Renaming::Created { name, .. } | Renaming::Removed { name } => (name, None),
            Renaming::Renamed { from, to } => (from, Some(to)),
            Renaming::Exchanged { one, other } => (one, Some(other)),
        };
        std::iter::once(one).chain(other).map(String::as_str)
    }

    pub fn apply(&self, names: &mut BTreeMap<String, FileId>) {
        match self {
            Renaming::Created { name, file } => {
                names.insert(name.clone(), *file);
            }
            Renaming::Renamed { from, to } => rename(names, from, to),
            Renaming::Exchanged { one, other } => exchange(names, one, other),
            Renaming::Removed { name } => {
                names.remove(name);
            }
        }
    }
}

fn rename(names: &mut BTreeMap<String, FileId>, from: &str, to: &str) {
    if let Some(file) = names.remove(from) {
        names.insert(to.to_owned(), file);
    }
}

fn exchange(names: &mut BTreeMap<String, FileId>, one: &str, other: &str) {
    if let (Some(&first), Some(&second)) = (names.get(one), names.get(other)) {
        names.insert(one.to_owned(), second);
        names.insert(other.to_owned(), first);
    }
}

/// Writes into a file's bytes, which grow as far as needed.
pub(super) fn write(content: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if content.len() < end {
        content.resize(end, 0);
    }
    content[offset..end].copy_from_slice(bytes);
}
