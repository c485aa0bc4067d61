//! The cable to a disk: one directory of files, as a log needs it. The server plugs in a real one, the tests one that
//! forgets and fails.

use std::io;

/// One directory that nobody else writes to.
pub trait Disk {
    /// A file of it.
    type File: DiskFile;

    /// The names of its files, in any order.
    ///
    /// # Errors
    /// If it cannot be read.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Opens a file that is there, to read and to write.
    ///
    /// # Errors
    /// If it is not there or cannot be opened.
    fn open(&mut self, name: &str) -> io::Result<Self::File>;

    /// Makes an empty file; one of that name that is there is emptied.
    ///
    /// # Errors
    /// If it cannot be made.
    fn create(&mut self, name: &str) -> io::Result<Self::File>;

    /// Gives a file another name; one that had it is gone.
    ///
    /// # Errors
    /// If it cannot be renamed.
    fn rename(&mut self, from: &str, to: &str) -> io::Result<()>;

    /// Exchanges the names of two files, at once: at every moment, and after a power cut, each name is that of one of the
    /// two. Where a system cannot do that, `one` gets the name `other`, as by [`Disk::rename`].
    ///
    /// # Errors
    /// If neither could be done.
    fn exchange(&mut self, one: &str, other: &str) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// If it cannot be removed.
    fn remove(&mut self, name: &str) -> io::Result<()>;

    /// What was created, renamed and removed before this returns is so after a power cut.
    ///
    /// # Errors
    /// If nobody can tell.
    fn sync_directory(&mut self) -> io::Result<()>;

    /// Begins to make a file of so many zero bytes, under a name that none has, durable with that name when
    /// [`Disk::prepared`] says so. One at a time.
    ///
    /// The name may be there before the file is whole, and a crash may leave it so: whoever could take it for a whole one
    /// names it `….new`, and renames it when it is prepared.
    fn prepare(&mut self, name: &str, bytes: u64);

    /// What became of the file being prepared, once that is known; nothing if none is. If `wait`, waits until it is known.
    /// Of a file that could not be prepared nothing is left.
    fn prepared(&mut self, wait: bool) -> Option<io::Result<()>>;
}

/// A file of a [`Disk`].
pub trait DiskFile {
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

    /// Writes at `offset`, all of it or less; returns how much.
    ///
    /// # Errors
    /// If nothing could be written.
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<usize>;

    /// What was written before this returns is there after a power cut.
    ///
    /// # Errors
    /// If nobody can tell. Asking again would not make it so.
    fn sync(&mut self) -> io::Result<()>;
}
