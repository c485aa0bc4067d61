//! A disk in memory that remembers what was done to it, can be cut off at any moment, and fails when told to.

mod crash;
mod history;
mod state;
#[cfg(test)]
mod tests;

use std::cell::{Ref, RefCell, RefMut};
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;

use jobyard_log::{Disk, DiskFile};

pub use crash::{Crash, SECTOR_BYTES};
pub use history::{History, Operation, Walk};
pub use state::{FileId, Image};

use state::State;

/// A disk. Clones are cables to the same one.
#[derive(Clone, Debug, Default)]
pub struct SimDisk(Rc<RefCell<Machine>>);

/// A file of a [`SimDisk`].
#[derive(Clone, Debug)]
pub struct SimFile {
    disk: SimDisk,
    file: FileId,
}

/// How something fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// The device says no: `EIO`. Of a write nothing is done, of a sync anything may be.
    Broken,
    /// There is no room: `ENOSPC`.
    Full,
    /// Of a write only so many bytes are done, and that is said. Anything else is done as always.
    Short(usize),
}

/// The disk itself.
#[derive(Debug, Default)]
struct Machine {
    history: History,
    state: State,
    /// How many operations were tried, and how many things read.
    tried: u64,
    read: u64,
    faults: BTreeMap<u64, Fault>,
    faults_from: Option<(u64, Fault)>,
    read_faults: BTreeMap<u64, Fault>,
    capacity_bytes: Option<u64>,
    prepare_polls: u32,
    preparing: Option<Preparing>,
    struck: Vec<&'static str>,
}

#[derive(Debug)]
struct Preparing {
    name: String,
    file: FileId,
    polls_left: u32,
    fault: Option<Fault>,
}

impl SimDisk {
    /// A disk that holds this, all of it durable.
    #[must_use]
    pub fn from_image(image: &Image) -> Self {
        SimDisk::from_state(State::from_image(image))
    }

    /// What it held at first, and all that was done to it.
    #[must_use]
    pub fn history(&self) -> History {
        self.look().history.clone()
    }

    /// How many operations its history holds.
    #[must_use]
    pub fn operations(&self) -> usize {
        self.look().history.operations.len()
    }

    /// What a crash now would leave.
    #[must_use]
    pub fn crash(&self, crash: Crash) -> Image {
        self.look().state.crash(crash)
    }

    /// A disk of its own, as the next process finds it when this one was killed: all is there, and what was not synced still
    /// is not.
    #[must_use]
    pub fn killed(&self) -> SimDisk {
        SimDisk::from_state(self.look().state.clone())
    }

    /// The same disk after a crash, as the next process finds it: no larger than it was, and as fast.
    #[must_use]
    pub fn after(&self, crash: Crash) -> SimDisk {
        let next = if crash == Crash::Kill { self.killed() } else { SimDisk::from_image(&self.crash(crash)) };
        next.set_capacity(self.look().capacity_bytes);
        next.set_prepare_polls(self.look().prepare_polls);
        next
    }

    /// After how many of its bytes the last write that is not synced may be torn.
    #[must_use]
    pub fn tears(&self) -> Vec<usize> {
        self.look().state.tears()
    }

    /// How many operations were tried: the number that the next one has for [`SimDisk::fail`].
    #[must_use]
    pub fn tried(&self) -> u64 {
        self.look().tried
    }

    /// How many things were read: the number that the next one has for [`SimDisk::fail_read`].
    #[must_use]
    pub fn read(&self) -> u64 {
        self.look().read
    }

    /// Of which kinds, by their names in [`Operation::KINDS`], the operations were that failed or were cut short.
    #[must_use]
    pub fn struck(&self) -> Vec<&'static str> {
        self.look().struck.clone()
    }

    /// How much room all files take.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.look().state.bytes()
    }

    /// The operation of this number fails: to create, write, sync, rename, remove, sync the directory or prepare.
    pub fn fail(&self, number: u64, fault: Fault) {
        self.machine().faults.insert(number, fault);
    }

    /// All operations from this number on fail.
    pub fn fail_from(&self, number: u64, fault: Fault) {
        self.machine().faults_from = Some((number, fault));
    }

    /// To list, to open, to tell the length or to read fails, as the one of this number.
    pub fn fail_read(&self, number: u64, fault: Fault) {
        self.machine().read_faults.insert(number, fault);
    }

    /// What was to fail and did not yet, will not.
    pub fn heal(&self) {
        let mut machine = self.machine();
        machine.faults.clear();
        machine.faults_from = None;
        machine.read_faults.clear();
    }

    /// What all files together may take; what is there already is kept.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.machine().capacity_bytes = bytes;
    }

    /// What all files together may take.
    #[must_use]
    pub fn capacity(&self) -> Option<u64> {
        self.look().capacity_bytes
    }

    /// A file is prepared after [`Disk::prepared`] has said nothing so many times.
    pub fn set_prepare_polls(&self, polls: u32) {
        self.machine().prepare_polls = polls;
    }

    fn from_state(state: State) -> Self {
        let history = History { start: state.clone(), operations: Vec::new() };
        SimDisk(Rc::new(RefCell::new(Machine { history, state, ..Machine::default() })))
    }

    fn machine(&self) -> RefMut<'_, Machine> {
        self.0.borrow_mut()
    }

    fn look(&self) -> Ref<'_, Machine> {
        self.0.borrow()
    }
}

impl Machine {
    /// An operation of this kind is tried: whether it fails.
    fn fault(&mut self, kind: &'static str) -> Option<Fault> {
        let number = self.tried;
        self.tried += 1;
        let from = self.faults_from.filter(|(from, _)| number >= *from).map(|(_, fault)| fault);
        let fault = self.faults.get(&number).copied().or(from);
        self.struck.extend(fault.map(|_| kind));
        fault
    }

    /// Something is tried that cannot be done by halves.
    fn attempt(&mut self, kind: &'static str) -> io::Result<()> {
        self.fault(kind).map_or(Ok(()), Fault::error)
    }

    fn attempt_read(&mut self) -> io::Result<()> {
        let number = self.read;
        self.read += 1;
        self.read_faults.get(&number).copied().map_or(Ok(()), Fault::error)
    }

    /// Something happens.
    fn happens(&mut self, operation: Operation) {
        self.state.apply(&operation);
        self.history.operations.push(operation);
    }

    fn find(&self, name: &str) -> io::Result<FileId> {
        self.state.names.get(name).copied().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    }

    fn create(&mut self, name: &str) -> FileId {
        let file = self.state.names.get(name).copied().unwrap_or(self.state.files.len());
        self.happens(Operation::Create { name: name.to_owned(), file });
        file
    }

    /// How much longer files may get.
    fn room(&self) -> u64 {
        self.capacity_bytes.map_or(u64::MAX, |capacity| capacity.saturating_sub(self.state.bytes()))
    }

    /// How many of so many bytes at `offset` find room.
    fn fitting(&self, file: FileId, offset: u64, bytes: usize) -> usize {
        let len = self.state.files[file].bytes.len() as u64;
        let end = len.max(offset).saturating_add(self.room().saturating_sub(offset.saturating_sub(len)));
        usize::try_from(end.saturating_sub(offset)).unwrap_or(usize::MAX).min(bytes)
    }

    fn write(&mut self, file: FileId, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        let fault = self.fault("write");
        let mut count = self.fitting(file, offset, bytes.len());
        if count == 0 && !bytes.is_empty() {
            return Err(no_room());
        }
        match fault {
            Some(Fault::Short(short)) => count = count.min(short),
            Some(fault) => fault.error()?,
            None => {}
        }
        if count > 0 {
            let offset = usize::try_from(offset).map_err(io::Error::other)?;
            self.happens(Operation::Write { file, offset, bytes: bytes[..count].into() });
        }
        Ok(count)
    }

    fn prepare(&mut self, name: &str, bytes: u64) {
        assert!(self.preparing.is_none(), "one file is prepared at a time");
        let fault = self.fault("prepare").filter(|fault| !matches!(fault, Fault::Short(_)));
        let full = (bytes > self.room()).then_some(Fault::Full);
        // One that a crash left half made is emptied.
        let file = self.state.names.get(name).copied().unwrap_or(self.state.files.len());
        let fault = full.or(fault);
        if fault.is_some() {
            self.create(name);
        } else {
            let bytes = usize::try_from(bytes).expect("what fits a disk in memory fits memory");
            self.happens(Operation::Prepare { name: name.to_owned(), file, bytes });
        }
        self.preparing = Some(Preparing { name: name.to_owned(), file, polls_left: self.prepare_polls, fault });
    }

    fn prepared(&mut self, wait: bool) -> Option<io::Result<()>> {
        let preparing = self.preparing.as_mut()?;
        if preparing.polls_left > 0 && !wait {
            preparing.polls_left -= 1;
            return None;
        }
        let Preparing { name, file, fault, .. } = self.preparing.take()?;
        match fault {
            Some(fault) => {
                self.happens(Operation::Remove { name });
                Some(fault.error())
            }
            None => {
                self.happens(Operation::Prepared { name, file });
                Some(Ok(()))
            }
        }
    }
}

impl Fault {
    /// The error that the system would give; none if this concerns writes only.
    fn error(self) -> io::Result<()> {
        match self {
            Fault::Broken => Err(io::Error::from_raw_os_error(5)),
            Fault::Full => Err(no_room()),
            Fault::Short(_) => Ok(()),
        }
    }
}

fn no_room() -> io::Error {
    io::Error::from_raw_os_error(28)
}

impl Disk for SimDisk {
    type File = SimFile;

    fn list(&self) -> io::Result<Vec<String>> {
        self.machine().attempt_read()?;
        Ok(self.look().state.names.keys().cloned().collect())
    }

    fn open(&mut self, name: &str) -> io::Result<SimFile> {
        self.machine().attempt_read()?;
        let file = self.look().find(name)?;
        Ok(SimFile { disk: self.clone(), file })
    }

    fn create(&mut self, name: &str) -> io::Result<SimFile> {
        self.machine().attempt("create")?;
        let file = self.machine().create(name);
        Ok(SimFile { disk: self.clone(), file })
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        let mut machine = self.machine();
        machine.attempt("rename")?;
        machine.find(from)?;
        machine.happens(Operation::Rename { from: from.to_owned(), to: to.to_owned() });
        Ok(())
    }

    fn exchange(&mut self, one: &str, other: &str) -> io::Result<()> {
        let mut machine = self.machine();
        machine.attempt("exchange")?;
        machine.find(one)?;
        machine.find(other)?;
        machine.happens(Operation::Exchange { one: one.to_owned(), other: other.to_owned() });
        Ok(())
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        let mut machine = self.machine();
        machine.attempt("remove")?;
        machine.find(name)?;
        machine.happens(Operation::Remove { name: name.to_owned() });
        Ok(())
    }

    fn sync_directory(&mut self) -> io::Result<()> {
        let mut machine = self.machine();
        machine.attempt("sync of the directory")?;
        machine.happens(Operation::SyncDirectory);
        Ok(())
    }

    fn prepare(&mut self, name: &str, bytes: u64) {
        self.machine().prepare(name, bytes);
    }

    fn prepared(&mut self, wait: bool) -> Option<io::Result<()>> {
        self.machine().prepared(wait)
    }
}

impl DiskFile for SimFile {
    fn bytes(&self) -> io::Result<u64> {
        self.disk.machine().attempt_read()?;
        Ok(self.disk.look().state.files[self.file].bytes.len() as u64)
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        self.disk.machine().attempt_read()?;
        let machine = self.disk.look();
        let bytes = &machine.state.files[self.file].bytes;
        let rest = usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..)).unwrap_or_default();
        let count = rest.len().min(into.len());
        into[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        self.disk.machine().write(self.file, offset, bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut machine = self.disk.machine();
        let file = self.file;
        let attempt = machine.attempt("sync");
        machine.happens(if attempt.is_ok() { Operation::Sync { file } } else { Operation::SyncFailed { file } });
        attempt
    }
}
