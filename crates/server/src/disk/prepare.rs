//! Files of zeros, made ahead of need by a thread of their own: the server does not wait for them.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use super::create;

/// How much is written at once, and before the thread looks whether it is still wanted.
const PIECE_BYTES: usize = 1 << 20;

/// The file that is being prepared, if one is.
#[derive(Debug, Default)]
pub struct Preparing {
    thread: Option<io::Result<JoinHandle<io::Result<()>>>>,
    unwanted: Arc<AtomicBool>,
}

impl Preparing {
    /// Begins to prepare a file.
    ///
    /// # Panics
    /// If the outcome of the one before was not asked for.
    pub fn begin(&mut self, directory: &Path, name: &str, bytes: u64) {
        assert!(self.thread.is_none(), "one file is prepared at a time");
        let work = Work {
            path: directory.join(name),
            directory: directory.to_owned(),
            bytes,
            unwanted: Arc::clone(&self.unwanted),
        };
        self.thread = Some(Builder::new().name("prepare".to_owned()).spawn(move || work.run()));
    }

    /// What became of it, once that is known.
    pub fn outcome(&mut self, wait: bool) -> Option<io::Result<()>> {
        match self.thread.take()? {
            Err(error) => Some(Err(error)),
            Ok(thread) if wait || thread.is_finished() => {
                Some(thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread that prepares files panicked"))))
            }
            running => {
                self.thread = Some(running);
                None
            }
        }
    }
}

impl Drop for Preparing {
    fn drop(&mut self) {
        self.unwanted.store(true, Ordering::Relaxed);
        self.outcome(true);
    }
}

struct Work {
    path: PathBuf,
    directory: PathBuf,
    bytes: u64,
    unwanted: Arc<AtomicBool>,
}

impl Work {
    fn run(&self) -> io::Result<()> {
        let made = self.write_zeros().and_then(|()| File::open(&self.directory)?.sync_all());
        if made.is_err() {
            // If even removing fails there is nothing left to try: a start removes what is half made.
            let _ = fs::remove_file(&self.path);
        }
        made
    }

    fn write_zeros(&self) -> io::Result<()> {
        let file = create(&self.path)?;
        // If there is no room this says so at once, and does not fill the disk to the brim first.
        match fallocate(&file, FallocateFlags::empty(), 0, self.bytes) {
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
            Err(error) => return Err(error.into()),
        }
        let zeros = vec![0; PIECE_BYTES];
        let mut written = 0;
        while written < self.bytes {
            if self.unwanted.load(Ordering::Relaxed) {
                return Err(io::Error::other("it is not wanted any more"));
            }
            let piece = usize::try_from(self.bytes - written).map_or(PIECE_BYTES, |rest| rest.min(PIECE_BYTES));
            file.write_all_at(&zeros[..piece], written)?;
            written += piece as u64;
        }
        file.sync_all()
    }
}
