//! A disk in memory for tests: every operation is counted, any may fail, writes may be short, and room may be short.
//!
//! The simulator's disk crashes in more ways, but its crate needs this one: tests in here, which look at what is not public,
//! would get a second copy of all types with it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;

use crate::disk::{Disk, DiskFile};

type Bytes = Rc<RefCell<Vec<u8>>>;
type Files = BTreeMap<String, Bytes>;

#[derive(Debug)]
pub(super) struct State {
    files: Files,
    /// What each file held when it was last synced.
    synced: Vec<(Bytes, Vec<u8>)>,
    /// The directory when it was last synced, and after each change since.
    directories: Vec<Files>,
    /// How many operations there were.
    pub operations: usize,
    /// Which operation fails.
    pub fails_at: Option<(usize, io::ErrorKind)>,
    /// Bytes of a file that cannot be read, from and to.
    pub unreadable: Option<(String, u64, u64)>,
    /// A file that takes nothing more.
    pub unwritable: Option<*const RefCell<Vec<u8>>>,
    /// Whether that operation does its work, a write half of it, before it fails.
    pub fails_late: bool,
    /// At most so many bytes are written at once.
    pub write_bytes_max: usize,
    /// How many bytes there may be in all files together.
    pub room: usize,
    /// Whether others take at once whatever is given back.
    pub greedy: bool,
    /// For how many new names there is no room in the directory.
    pub names_refused: usize,
    /// Syncs of files.
    pub syncs: usize,
    /// How many bytes were read.
    pub read_bytes: usize,
    /// Whether preparing takes until someone waits for it.
    pub slow: bool,
    preparing: Option<(String, u64)>,
}

/// The disk. Clones are the same disk.
#[derive(Clone, Debug)]
pub(super) struct TestDisk(Rc<RefCell<State>>);

#[derive(Clone, Debug)]
pub(super) struct TestFile {
    disk: TestDisk,
    name: String,
    bytes: Bytes,
}

impl TestDisk {
    pub fn new() -> Self {
        TestDisk(Rc::new(RefCell::new(State {
            files: BTreeMap::new(),
            synced: Vec::new(),
            directories: vec![BTreeMap::new()],
            operations: 0,
            fails_at: None,
            fails_late: false,
            unreadable: None,
            unwritable: None,
            write_bytes_max: usize::MAX,
            room: usize::MAX,
            greedy: false,
            names_refused: 0,
            syncs: 0,
            read_bytes: 0,
            slow: false,
            preparing: None,
        })))
    }

    pub fn state(&self) -> std::cell::RefMut<'_, State> {
        self.0.borrow_mut()
    }

    /// What is there now, on a disk of its own.
    pub fn copy(&self) -> TestDisk {
        let copy = TestDisk::new();
        for (name, bytes) in &self.0.borrow().files {
            copy.put(name, &bytes.borrow());
        }
        copy
    }

    pub fn put(&self, name: &str, bytes: &[u8]) {
        self.0.borrow_mut().files.insert(name.into(), Rc::new(RefCell::new(bytes.to_vec())));
        self.changed();
    }

    /// The directory is another one now, but not durably.
    fn changed(&self) {
        let files = self.0.borrow().files.clone();
        self.0.borrow_mut().directories.push(files);
    }

    fn directory_synced(&self) {
        self.0.borrow_mut().directories.clear();
        self.changed();
    }

    fn file_synced(&self, file: &Bytes) {
        let mut state = self.0.borrow_mut();
        state.synced.retain(|(other, _)| !Rc::ptr_eq(other, file));
        state.synced.push((Rc::clone(file), file.borrow().clone()));
    }

    /// What a power cut might leave: of the directory some state since it was synced, of each piece of a file either what it
    /// held when that was synced or what it held last.
    pub fn power_cut(&self, mut random: impl FnMut() -> usize) -> TestDisk {
        const PIECE_BYTES: usize = 64;
        let (after, state) = (TestDisk::new(), self.0.borrow());
        let files = &state.directories[random() % state.directories.len()];
        let way = random() % 3;
        for (name, file) in files {
            let mut bytes = file.borrow().clone();
            let synced =
                state.synced.iter().find(|(other, _)| Rc::ptr_eq(other, file)).map(|(_, bytes)| bytes.as_slice());
            let synced = synced.unwrap_or_default();
            if bytes.len() != synced.len() && random().is_multiple_of(2) {
                bytes.resize(synced.len(), 0);
            }
            for (at, piece) in bytes.chunks_mut(PIECE_BYTES).enumerate() {
                if way == 0 || way == 1 && random().is_multiple_of(2) {
                    let old = synced.iter().skip(at * PIECE_BYTES).chain(std::iter::repeat(&0));
                    piece.iter_mut().zip(old).for_each(|(byte, old)| *byte = *old);
                }
            }
            after.put(name, &bytes);
        }
        drop(state);
        after.all_synced();
        after
    }

    /// What a power cut leaves if of all that was done to names since the directory was synced only what was done to these
    /// is durable: a directory keeps no order.
    pub fn power_cut_but_for(&self, names: &[&str]) -> TestDisk {
        let (after, state) = (TestDisk::new(), self.0.borrow());
        let is_kept = |name: &str| names.contains(&name);
        let old = state.directories[0].iter().filter(|(name, _)| !is_kept(name));
        for (name, file) in old.chain(state.files.iter().filter(|(name, _)| is_kept(name))) {
            after.put(name, &file.borrow());
        }
        drop(state);
        after.all_synced();
        after
    }

    /// What is there is durable.
    pub fn all_synced(&self) {
        self.directory_synced();
        let files: Vec<_> = self.0.borrow().files.values().cloned().collect();
        files.iter().for_each(|file| self.file_synced(file));
    }

    pub fn get(&self, name: &str) -> Vec<u8> {
        self.0.borrow().files[name].borrow().clone()
    }

    /// Tells a file from another one that has its name later.
    pub fn identity(&self, name: &str) -> *const RefCell<Vec<u8>> {
        Rc::as_ptr(&self.0.borrow().files[name])
    }

    pub fn names(&self) -> Vec<String> {
        self.0.borrow().files.keys().cloned().collect()
    }

    /// Names and contents.
    pub fn contents(&self) -> BTreeMap<String, Vec<u8>> {
        self.names().into_iter().map(|name| (name.clone(), self.get(&name))).collect()
    }

    pub fn change(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let bytes = Rc::clone(&self.0.borrow().files[name]);
        change(&mut bytes.borrow_mut());
    }

    pub fn remove_now(&self, name: &str) {
        self.0.borrow_mut().files.remove(name);
        self.changed();
    }

    /// Counts an operation: it fails, or is to say this in the end.
    fn step(&self) -> io::Result<io::Result<()>> {
        let mut state = self.0.borrow_mut();
        state.operations += 1;
        match state.fails_at {
            Some((at, kind)) if at == state.operations && state.fails_late => Ok(Err(kind.into())),
            Some((at, kind)) if at == state.operations => Err(kind.into()),
            _ => Ok(Ok(())),
        }
    }

    fn free(&self) -> usize {
        let state = self.0.borrow();
        let used: usize = state.files.values().map(|bytes| bytes.borrow().len()).sum();
        if state.greedy { 0 } else { state.room.saturating_sub(used) }
    }

    fn file(&self, name: &str) -> io::Result<Bytes> {
        self.0.borrow().files.get(name).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Disk for TestDisk {
    type File = TestFile;

    fn list(&self) -> io::Result<Vec<String>> {
        self.step()??;
        Ok(self.names())
    }

    fn open(&mut self, name: &str) -> io::Result<TestFile> {
        self.step()??;
        Ok(TestFile { disk: self.clone(), name: name.into(), bytes: self.file(name)? })
    }

    fn create(&mut self, name: &str) -> io::Result<TestFile> {
        let end = self.step()?;
        self.put(name, &[]);
        end?;
        Ok(TestFile { disk: self.clone(), name: name.into(), bytes: self.file(name)? })
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        let end = self.step()?;
        let bytes = self.file(from)?;
        let mut state = self.0.borrow_mut();
        if state.names_refused > 0 && !state.files.contains_key(to) {
            state.names_refused -= 1;
            return Err(io::ErrorKind::StorageFull.into());
        }
        state.files.remove(from);
        state.files.insert(to.into(), bytes);
        drop(state);
        self.changed();
        end
    }

    fn exchange(&mut self, one: &str, other: &str) -> io::Result<()> {
        let end = self.step()?;
        let (bytes, other_bytes) = (self.file(one)?, self.file(other)?);
        let mut state = self.0.borrow_mut();
        state.files.insert(one.into(), other_bytes);
        state.files.insert(other.into(), bytes);
        drop(state);
        self.changed();
        end
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        let end = self.step()?;
        self.file(name)?;
        self.remove_now(name);
        end
    }

    fn sync_directory(&mut self) -> io::Result<()> {
        let end = self.step()?;
        if end.is_ok() {
            self.directory_synced();
        }
        end
    }

    fn prepare(&mut self, name: &str, bytes: u64) {
        let before = self.0.borrow_mut().preparing.replace((name.into(), bytes));
        assert_eq!(before, None, "one at a time");
        self.put(name, &[]);
    }

    fn prepared(&mut self, wait: bool) -> Option<io::Result<()>> {
        if self.0.borrow().slow && !wait {
            return None;
        }
        let (name, bytes) = self.0.borrow_mut().preparing.take()?;
        let bytes = usize::try_from(bytes).unwrap();
        let done = self.step().flatten().and_then(|()| {
            if bytes > self.free() {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.put(&name, &vec![0; bytes]);
            self.file_synced(&self.file(&name)?);
            self.directory_synced();
            Ok(())
        });
        if done.is_err() {
            self.remove_now(&name);
        }
        Some(done)
    }
}

impl DiskFile for TestFile {
    fn bytes(&self) -> io::Result<u64> {
        self.disk.step()??;
        Ok(self.bytes.borrow().len() as u64)
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        self.disk.step()??;
        if let Some((name, from, to)) = &self.disk.state().unreadable
            && *name == self.name
            && offset < *to
            && offset + into.len() as u64 > *from
        {
            return Err(io::ErrorKind::Other.into());
        }
        let bytes = self.bytes.borrow();
        let from = usize::try_from(offset).unwrap().min(bytes.len());
        let some = into.len().min(bytes.len() - from);
        into[..some].copy_from_slice(&bytes[from..from + some]);
        self.disk.state().read_bytes += some;
        Ok(some)
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        let end = self.disk.step()?;
        if self.disk.state().unwritable == Some(Rc::as_ptr(&self.bytes)) {
            return Err(io::ErrorKind::Other.into());
        }
        let most = if end.is_err() { bytes.len() / 2 } else { self.disk.state().write_bytes_max };
        let some = bytes.len().min(most);
        let offset = usize::try_from(offset).unwrap();
        let growth = (offset + some).saturating_sub(self.bytes.borrow().len());
        if growth > self.disk.free() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let mut file = self.bytes.borrow_mut();
        if file.len() < offset + some {
            file.resize(offset + some, 0);
        }
        file[offset..offset + some].copy_from_slice(&bytes[..some]);
        end.map(|()| some)
    }

    fn sync(&mut self) -> io::Result<()> {
        let end = self.disk.step()?;
        self.disk.state().syncs += 1;
        if end.is_ok() {
            self.disk.file_synced(&self.bytes);
        }
        end
    }
}
