//! A disk that keeps its files in memory and does nothing else, so that what is counted is the log's.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;

use jobyard_log::{Disk, DiskFile};

type Bytes = Rc<RefCell<Vec<u8>>>;

#[derive(Debug, Default)]
pub struct MemoryDisk {
    files: BTreeMap<String, Bytes>,
    prepared: bool,
}

#[derive(Debug)]
pub struct MemoryFile(Bytes);

impl MemoryDisk {
    fn find(&self, name: &str) -> io::Result<Bytes> {
        self.files.get(name).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Disk for MemoryDisk {
    type File = MemoryFile;

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.files.keys().cloned().collect())
    }

    fn open(&mut self, name: &str) -> io::Result<MemoryFile> {
        self.find(name).map(MemoryFile)
    }

    fn create(&mut self, name: &str) -> io::Result<MemoryFile> {
        let file = Bytes::default();
        self.files.insert(name.to_owned(), Rc::clone(&file));
        Ok(MemoryFile(file))
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        let file = self.find(from)?;
        self.files.remove(from);
        self.files.insert(to.to_owned(), file);
        Ok(())
    }

    fn exchange(&mut self, one: &str, other: &str) -> io::Result<()> {
        let files = (self.find(one)?, self.find(other)?);
        self.files.insert(one.to_owned(), files.1);
        self.files.insert(other.to_owned(), files.0);
        Ok(())
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        self.files.remove(name).map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn sync_directory(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn prepare(&mut self, name: &str, bytes: u64) {
        let bytes = usize::try_from(bytes).expect("it fits into memory");
        self.files.insert(name.to_owned(), Rc::new(RefCell::new(vec![0; bytes])));
        self.prepared = true;
    }

    fn prepared(&mut self, _wait: bool) -> Option<io::Result<()>> {
        std::mem::take(&mut self.prepared).then_some(Ok(()))
    }
}

impl DiskFile for MemoryFile {
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.0.borrow().len() as u64)
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        let bytes = self.0.borrow();
        let rest = usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..)).unwrap_or_default();
        let count = rest.len().min(into.len());
        into[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        let mut file = self.0.borrow_mut();
        let start = usize::try_from(offset).expect("it fits into memory");
        let end = start + bytes.len();
        if file.len() < end {
            file.resize(end, 0);
        }
        file[start..end].copy_from_slice(bytes);
        Ok(bytes.len())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}
