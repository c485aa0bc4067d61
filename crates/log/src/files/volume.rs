//! A disk whose errors say what was being done, and with which file; and what a reader needs of a disk.

use std::io;

use crate::disk::{Disk, DiskFile};
use crate::error::{Doing, LogError};

/// A directory to read from, which someone else may be writing to. Every [`Disk`] is one.
pub trait ReadDisk {
    /// A file of it.
    type File: ReadFile;

    /// The names of its files, in any order.
    ///
    /// # Errors
    /// If it cannot be read.
    fn names(&self) -> io::Result<Vec<String>>;

    /// Opens a file that is there, to read.
    ///
    /// # Errors
    /// If it is not there or cannot be opened.
    fn open_to_read(&mut self, name: &str) -> io::Result<Self::File>;
}

/// A file of a [`ReadDisk`]. Every [`DiskFile`] is one.
pub trait ReadFile {
    /// How long it is.
    ///
    /// # Errors
    /// If nobody can tell.
    fn bytes(&self) -> io::Result<u64>;

    /// Reads what is at `offset`, as much as there is room for, or less. Nothing at its end.
    ///
    /// # Errors
    /// If it cannot be read.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize>;
}

impl<D: Disk> ReadDisk for D {
    type File = D::File;

    fn names(&self) -> io::Result<Vec<String>> {
        self.list()
    }

    fn open_to_read(&mut self, name: &str) -> io::Result<D::File> {
        self.open(name)
    }
}

impl<F: DiskFile> ReadFile for F {
    fn bytes(&self) -> io::Result<u64> {
        DiskFile::bytes(self)
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        DiskFile::read_at(self, offset, into)
    }
}

/// How the directory is called in messages.
const DIRECTORY: &str = "the data directory";

pub(crate) fn names<D: ReadDisk>(disk: &D) -> Result<Vec<String>, LogError> {
    let mut names = disk.names().map_err(|error| LogError::disk(Doing::Read, DIRECTORY, &error))?;
    // What is done first must not depend on the order in which a disk keeps names.
    names.sort_unstable();
    Ok(names)
}

pub(crate) fn open<D: ReadDisk>(disk: &mut D, name: &str) -> Result<D::File, LogError> {
    disk.open_to_read(name).map_err(|error| LogError::disk(Doing::Open, name, &error))
}

/// Opens a file, if it is there.
pub(crate) fn open_if_there<D: ReadDisk>(disk: &mut D, name: &str) -> Result<Option<D::File>, LogError> {
    match disk.open_to_read(name) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(LogError::disk(Doing::Open, name, &error)),
    }
}

pub(crate) fn create<D: Disk>(disk: &mut D, name: &str) -> Result<D::File, LogError> {
    disk.create(name).map_err(|error| LogError::disk(Doing::Create, name, &error))
}

pub(crate) fn rename<D: Disk>(disk: &mut D, from: &str, to: &str) -> Result<(), LogError> {
    disk.rename(from, to).map_err(|error| LogError::disk(Doing::Rename { from: from.into() }, to, &error))
}

pub(crate) fn exchange<D: Disk>(disk: &mut D, one: &str, other: &str) -> Result<(), LogError> {
    disk.exchange(one, other).map_err(|error| LogError::disk(Doing::Rename { from: one.into() }, other, &error))
}

pub(crate) fn remove<D: Disk>(disk: &mut D, name: &str) -> Result<(), LogError> {
    disk.remove(name).map_err(|error| LogError::disk(Doing::Remove, name, &error))
}

pub(crate) fn sync_directory<D: Disk>(disk: &mut D) -> Result<(), LogError> {
    disk.sync_directory().map_err(|error| LogError::disk(Doing::Sync, DIRECTORY, &error))
}

pub(crate) fn bytes<F: ReadFile>(file: &F, name: &str) -> Result<u64, LogError> {
    file.bytes().map_err(|error| LogError::disk(Doing::Measure, name, &error))
}

/// Fills `into` from `offset` on, or up to the file's end. Returns how much there was.
pub(crate) fn read<F: ReadFile>(file: &F, name: &str, offset: u64, into: &mut [u8]) -> Result<usize, LogError> {
    let mut filled = 0;
    while filled < into.len() {
        match file.read_at(offset + filled as u64, &mut into[filled..]) {
            Ok(0) => break,
            Ok(some) => filled += some,
            Err(error) => return Err(LogError::disk(Doing::Read, name, &error)),
        }
    }
    Ok(filled)
}

/// As [`read`], but what the disk cannot read is taken for zeros, block by block.
pub(crate) fn read_what_can_be<F: ReadFile>(file: &F, offset: u64, into: &mut [u8]) -> usize {
    const BLOCK_BYTES: u64 = 4096;
    let Ok(bytes) = file.bytes() else { return 0 };
    let left = usize::try_from(bytes.saturating_sub(offset)).unwrap_or(usize::MAX);
    let wanted = into.len().min(left);
    let mut filled = 0;
    while filled < wanted {
        match file.read_at(offset + filled as u64, &mut into[filled..wanted]) {
            Ok(0) => break,
            Ok(some) => filled += some,
            Err(_) => {
                let at = offset + filled as u64;
                let block = usize::try_from(BLOCK_BYTES - at % BLOCK_BYTES).unwrap_or(1).min(wanted - filled);
                // Of a large read only one block may be bad.
                let one = &mut into[filled..filled + block];
                match file.read_at(at, one) {
                    Ok(some) if some > 0 => filled += some,
                    _ => {
                        one.fill(0);
                        filled += block;
                    }
                }
            }
        }
    }
    filled
}

/// Reads from `offset` on to the file's end.
pub(crate) fn read_rest<F: ReadFile>(file: &F, name: &str, offset: u64) -> Result<Vec<u8>, LogError> {
    let len = usize::try_from(bytes(file, name)?.saturating_sub(offset)).unwrap_or(usize::MAX);
    let mut rest = vec![0; len];
    let there = read(file, name, offset, &mut rest)?;
    rest.truncate(there);
    Ok(rest)
}

/// Writes all of it; a disk that takes nothing has failed.
pub(crate) fn write<F: DiskFile>(file: &mut F, name: &str, offset: u64, bytes: &[u8]) -> Result<(), LogError> {
    let mut written = 0;
    while written < bytes.len() {
        let error = match file.write_at(offset + written as u64, &bytes[written..]) {
            Ok(0) => io::Error::new(io::ErrorKind::WriteZero, "the disk took nothing"),
            Ok(_) if crate::broken("log-short-write") => return Ok(()),
            Ok(some) => {
                written += some;
                continue;
            }
            Err(error) => error,
        };
        return Err(LogError::disk(Doing::Write, name, &error));
    }
    Ok(())
}

/// Writes zeros from `offset` up to `end`.
pub(crate) fn write_zeros<F: DiskFile>(file: &mut F, name: &str, offset: u64, end: u64) -> Result<(), LogError> {
    static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];
    let mut at = offset;
    while at < end {
        let some = usize::try_from(end - at).map_or(ZEROS.len(), |left| left.min(ZEROS.len()));
        write(file, name, at, &ZEROS[..some])?;
        at += some as u64;
    }
    Ok(())
}

pub(crate) fn sync<F: DiskFile>(file: &mut F, name: &str) -> Result<(), LogError> {
    file.sync().map_err(|error| LogError::disk(Doing::Sync, name, &error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::test_disk::TestDisk;

    /// A file of which some bytes cannot be read, and which gives only so many at once.
    struct Worn {
        bytes: Vec<u8>,
        /// How long it says it is.
        said: u64,
        bad: Vec<u64>,
        at_once: usize,
    }

    impl ReadFile for Worn {
        fn bytes(&self) -> io::Result<u64> {
            Ok(self.said)
        }

        fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
            let some = into.len().min(self.at_once);
            if self.bad.iter().any(|bad| (offset..offset + some as u64).contains(bad)) {
                return Err(io::ErrorKind::Other.into());
            }
            let there = &self.bytes[self.bytes.len().min(usize::try_from(offset).unwrap())..];
            let some = some.min(there.len());
            into[..some].copy_from_slice(&there[..some]);
            Ok(some)
        }
    }

    /// One of so many bytes that are all readable, none of them 0.
    fn file(bytes: usize) -> Worn {
        let bytes: Vec<u8> = (1..=251).cycle().take(bytes).collect();
        Worn { said: bytes.len() as u64, bytes, bad: Vec::new(), at_once: usize::MAX }
    }

    #[test]
    fn what_comes_in_pieces_is_read_whole() {
        let file = Worn { at_once: 7, ..file(100) };
        for (offset, wanted, there) in [(0, 100, 100), (10, 50, 50), (90, 50, 10), (100, 50, 0), (0, 0, 0)] {
            let mut into = vec![0; wanted];
            assert_eq!(read(&file, "a", offset as u64, &mut into), Ok(there));
            assert_eq!(into[..there], file.bytes[offset..offset + there]);
            into.fill(0);
            assert_eq!(read_what_can_be(&file, offset as u64, &mut into), there);
            assert_eq!(into[..there], file.bytes[offset..offset + there]);
            assert_eq!(read_rest(&file, "a", offset as u64), Ok(file.bytes[offset..].to_vec()));
        }
    }

    #[test]
    fn of_a_file_that_has_become_shorter_there_is_what_is_left() {
        let file = Worn { said: 200, ..file(100) };
        assert_eq!(read_rest(&file, "a", 30), Ok(file.bytes[30..].to_vec()));
    }

    #[test]
    fn of_what_cannot_be_read_only_the_blocks_are_zeros_that_it_is_in() {
        // Bytes that cannot be read, and the blocks that they are in.
        let worn: [(&[u64], &[usize]); _] =
            [(&[5000], &[1]), (&[5000, 13_000], &[1, 3]), (&[4095, 4096], &[0, 1]), (&[19_999], &[4])];
        for (bad, blocks) in worn {
            let file = Worn { bad: bad.to_vec(), ..file(20_000) };
            let in_bad_block = |at: usize| blocks.contains(&(at / 4096));
            let left: Vec<u8> =
                file.bytes.iter().enumerate().map(|(at, byte)| if in_bad_block(at) { 0 } else { *byte }).collect();
            for (offset, wanted) in [(0, 20_000), (100, 15_000), (4096, 12_288), (100, 30_000)] {
                let there = wanted.min(20_000 - offset);
                let mut into = vec![0xff; wanted];
                assert_eq!(read_what_can_be(&file, offset as u64, &mut into), there, "{bad:?} from {offset}");
                assert!(into[..there] == left[offset..offset + there], "{bad:?} from {offset}");
            }
        }
    }

    #[test]
    fn of_a_worn_file_that_has_become_shorter_the_rest_is_zeros() {
        let file = Worn { said: 20_000, bad: vec![15_000], ..file(10_000) };
        let mut into = vec![0xff; 20_000];
        let there = read_what_can_be(&file, 0, &mut into);
        assert!(there >= 10_000 && into[..10_000] == file.bytes[..]);
        assert!(into[10_000..there].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn zeros_are_written_from_here_to_there_however_many_they_are() {
        for (offset, end) in [(4096, 70_000), (1, 300_000), (4096, 4096), (0, 1)] {
            let mut disk = TestDisk::new();
            disk.put("a", &[1; 300_001]);
            write_zeros(&mut open(&mut disk, "a").unwrap(), "a", offset, end).unwrap();
            let is_zero = |at: usize| (offset..end).contains(&(at as u64));
            let bytes = disk.get("a");
            assert!(bytes.iter().enumerate().all(|(at, byte)| (*byte == 0) == is_zero(at)), "{offset} to {end}");
            assert_eq!(bytes.len(), 300_001);
        }
    }

    /// A directory that tells its names in the order of their age.
    struct Unsorted;

    impl ReadDisk for Unsorted {
        type File = Worn;

        fn names(&self) -> io::Result<Vec<String>> {
            Ok(["b", "c", "a"].map(String::from).to_vec())
        }

        fn open_to_read(&mut self, name: &str) -> io::Result<Worn> {
            match name {
                "a" => Ok(file(1)),
                "b" => Err(io::ErrorKind::PermissionDenied.into()),
                _ => Err(io::ErrorKind::NotFound.into()),
            }
        }
    }

    #[test]
    fn names_are_in_order_and_only_what_is_missing_is_not_there() {
        assert_eq!(names(&Unsorted).unwrap(), ["a", "b", "c"]);
        assert!(open_if_there(&mut Unsorted, "a").unwrap().is_some());
        assert!(matches!(open_if_there(&mut Unsorted, "b"), Err(LogError::Disk { doing: Doing::Open, .. })));
        assert!(open_if_there(&mut Unsorted, "c").unwrap().is_none());
        assert!(matches!(open(&mut Unsorted, "c"), Err(LogError::Disk { doing: Doing::Open, .. })));
    }
}
