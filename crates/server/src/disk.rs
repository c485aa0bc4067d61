//! The cable to the real disk: one directory of files. [`OsDisk`] is the server's, which it locks; [`OsDirectory`] is for
//! tools that only look.

mod prepare;

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use jobyard_log::{Disk, DiskFile, ReadDisk};
use rustix::fs::{Access, CWD, FlockOperation, RenameFlags, access, fcntl_lock, renameat_with};
use rustix::io::Errno;

use prepare::Preparing;

/// Locked by the one server that may write to the directory; its text is that server's process id.
const LOCK: &str = "lock";
const FILE_MODE: u32 = 0o600;
const DIRECTORY_MODE: u32 = 0o700;

/// A directory that this process has for itself, until this is dropped.
#[derive(Debug)]
pub struct OsDisk {
    // Dropped first: what is being prepared must not be written once the lock is gone.
    preparing: Preparing,
    path: PathBuf,
    directory: File,
    _lock: File,
}

impl OsDisk {
    /// Locks the directory, which is made if only it is missing.
    pub fn open(path: &Path) -> Result<OsDisk> {
        make_directory(path)?;
        let whole = format!("cannot keep jobs in {}", path.display());
        access(path, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK)
            .map_err(|error| anyhow!("this process may not write to it: {error}"))
            .with_context(|| whole.clone())?;
        let directory = File::open(path).with_context(|| whole.clone())?;
        let lock = lock(path, &directory).with_context(|| whole)?;
        let path = path_of(&directory, path);
        Ok(OsDisk { preparing: Preparing::default(), path, directory, _lock: lock })
    }
}

/// A path that means this directory and no other, whatever its name comes to mean while the server runs.
fn path_of(directory: &File, named: &Path) -> PathBuf {
    let path = PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd()));
    if path.is_dir() { path } else { named.to_owned() }
}

/// Makes the directory, if only that is missing, and its name durable.
fn make_directory(path: &Path) -> Result<()> {
    let parent = match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => return Ok(()),
    };
    match DirBuilder::new().mode(DIRECTORY_MODE).create(path) {
        Ok(()) => {
            let synced = File::open(parent).and_then(|parent| parent.sync_all());
            synced.with_context(|| format!("cannot sync {}", parent.display()))
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => bail!("{} is no directory", path.display()),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            bail!("cannot make the directory {}: {} does not exist", path.display(), parent.display())
        }
        Err(error) => Err(error).with_context(|| format!("cannot make the directory {}", path.display())),
    }
}

/// Locks the directory itself, so that removing its file `lock`, which tells who did, lets nobody else in.
fn lock(path: &Path, directory: &File) -> Result<File> {
    let options = || OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(FILE_MODE).clone();
    let file = options().open(path.join(LOCK)).with_context(|| format!("cannot open its file '{LOCK}'"))?;
    match directory.try_lock() {
        Ok(()) => {
            // beanstalkd locks that file, and not the directory.
            if matches!(fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive), Err(Errno::AGAIN | Errno::ACCESS))
            {
                bail!("a beanstalkd is using it");
            }
            // Only for the message of whoever comes second, so a full disk must not keep the server from starting. The
            // old text is not cut off first, so that it need not find new room and is never seen empty.
            let pid = format!("{}\n", std::process::id());
            let _ = file.write_all_at(pid.as_bytes(), 0).and_then(|()| file.set_len(pid.len() as u64));
            Ok(file)
        }
        Err(TryLockError::WouldBlock) => match lock_holder(&file) {
            Some(pid) => bail!("another server is using it: process {pid}"),
            None => bail!("another server is using it"),
        },
        Err(TryLockError::Error(error)) => Err(error).context("cannot lock it"),
    }
}

fn lock_holder(lock: &File) -> Option<u32> {
    let mut text = [0; 16];
    let len = lock.read_at(&mut text, 0).ok()?;
    let text = std::str::from_utf8(&text[..len]).ok()?;
    text.lines().next()?.parse().ok()
}

impl Disk for OsDisk {
    type File = OsFile;

    fn list(&self) -> io::Result<Vec<String>> {
        list(&self.path)
    }

    fn open(&mut self, name: &str) -> io::Result<OsFile> {
        OpenOptions::new().read(true).write(true).open(self.path.join(name)).map(OsFile)
    }

    fn create(&mut self, name: &str) -> io::Result<OsFile> {
        create(&self.path.join(name)).map(OsFile)
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path.join(from), self.path.join(to))
    }

    fn exchange(&mut self, one: &str, other: &str) -> io::Result<()> {
        let (one, other) = (self.path.join(one), self.path.join(other));
        match renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE) {
            Ok(()) => Ok(()),
            // Neither every system nor every file system can.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => fs::rename(one, other),
            Err(error) => Err(error.into()),
        }
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path.join(name))
    }

    fn sync_directory(&mut self) -> io::Result<()> {
        self.directory.sync_all()
    }

    fn prepare(&mut self, name: &str, bytes: u64) {
        self.preparing.begin(&self.path, name, bytes);
    }

    fn prepared(&mut self, wait: bool) -> Option<io::Result<()>> {
        self.preparing.outcome(wait)
    }
}

fn list(path: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        // A name that is no UTF-8 is none that a log gave.
        let Ok(name) = entry.file_name().into_string() else { continue };
        if name != LOCK && !entry.file_type()?.is_dir() {
            names.push(name);
        }
    }
    Ok(names)
}

/// Makes a file that nobody else can read: jobs are private. One that is there is emptied.
pub fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(true).mode(FILE_MODE).open(path)
}

/// A file of the directory.
#[derive(Debug)]
pub struct OsFile(File);

impl DiskFile for OsFile {
    fn bytes(&self) -> io::Result<u64> {
        self.0.metadata().map(|metadata| metadata.len())
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        uninterrupted(|| self.0.read_at(into, offset))
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        uninterrupted(|| self.0.write_at(bytes, offset))
    }

    fn sync(&mut self) -> io::Result<()> {
        uninterrupted(|| self.0.sync_data())
    }
}

/// A signal that came in between says nothing of the disk. It is the only error after which anything is tried again.
fn uninterrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            outcome => return outcome,
        }
    }
}

/// A directory that is only looked at, whoever else writes to it: it is not locked, and nothing in it is changed.
#[derive(Debug)]
pub struct OsDirectory {
    path: PathBuf,
}

impl OsDirectory {
    /// Looks at a directory that is there.
    pub fn open(path: &Path) -> Result<OsDirectory> {
        let metadata = fs::metadata(path).with_context(|| format!("cannot look at {}", path.display()))?;
        if !metadata.is_dir() {
            bail!("{} is no directory", path.display());
        }
        Ok(OsDirectory { path: path.to_owned() })
    }
}

impl ReadDisk for OsDirectory {
    type File = OsFile;

    fn names(&self) -> io::Result<Vec<String>> {
        list(&self.path)
    }

    fn open_to_read(&mut self, name: &str) -> io::Result<OsFile> {
        let file = File::open(self.path.join(name))?;
        // To read from one would be an error of its own, later.
        if file.metadata()?.is_dir() { Err(ErrorKind::IsADirectory.into()) } else { Ok(OsFile(file)) }
    }
}

#[cfg(test)]
mod tests;
