//! Any bytes as a binlog, for fuzzing: it comes into a log once and as a whole, or is refused in words and left as it is.

use anyhow::{Context, Result};
use jobyard_broker::Clock;
use jobyard_log::{Disk, DiskFile, Options, ReadDisk};

use super::binlog;
use super::import::{import, look};

/// Another file begins behind these bytes.
pub const NEXT_FILE: [u8; 4] = [0xff, 0xfe, 0xfd, 0xfc];

const JOB_BYTES_MAX: usize = 16 << 10;
const CLOCK: Clock = Clock { monotonic_ms: 1_000, boot: 7, wall_ms: 1_767_225_600_000 };

/// Imports these bytes as the files of a binlog, from an empty disk into a log on it. Copies of the disk are the same disk.
///
/// # Panics
/// If what was imported is not a sound log, or is more than there was, or comes again; if what was refused has changed.
pub fn check_binlog<D: Disk + ReadDisk + Clone>(data: &[u8], disk: &D) {
    let files = files_of(data);
    for (number, file) in files.iter().enumerate() {
        write(&mut disk.clone(), &format!("binlog.{}", number + 1), file).expect("the disk takes all");
    }
    let options = Options { segment_bytes: 64 << 10, ..Options::new(7) };
    let import = || import(&mut disk.clone(), disk.clone(), &options, JOB_BYTES_MAX, CLOCK);
    match import() {
        Err(error) => {
            // Also what is said to a person is made of what a file says.
            drop(format!("{error:#}"));
            assert_eq!(names(disk).len(), files.len(), "what was refused is left as it is");
        }
        Ok(_) => {
            assert_eq!(names(disk), Vec::<String>::new(), "what was imported has other names");
            let (jobs, body_bytes) = look(disk.clone(), &options, CLOCK).expect("the log can be read");
            assert!(body_bytes <= data.len(), "{jobs} jobs have {body_bytes} bytes, and there were {}", data.len());
            let again = import().expect("there is nothing to import any more");
            assert_eq!(again, Vec::<String>::new());
        }
    }
}

/// The files that these bytes are.
fn files_of(data: &[u8]) -> Vec<&[u8]> {
    let (mut files, mut rest) = (Vec::new(), data);
    while let Some(at) = rest.windows(NEXT_FILE.len()).position(|bytes| bytes == NEXT_FILE) {
        files.push(&rest[..at]);
        rest = &rest[at + NEXT_FILE.len()..];
    }
    files.push(rest);
    files
}

fn names<D: ReadDisk>(disk: &D) -> Vec<String> {
    binlog::names(disk).expect("the disk can be read")
}

fn write<D: Disk>(disk: &mut D, name: &str, bytes: &[u8]) -> Result<()> {
    let mut file = disk.create(name)?;
    let mut written = 0;
    while written < bytes.len() {
        written += file.write_at(written as u64, &bytes[written..])?;
    }
    file.sync()?;
    disk.sync_directory().context("the directory")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use jobyard_sim::disk::SimDisk;

    use super::*;

    #[test]
    fn bytes_are_one_file_or_several() {
        assert_eq!(files_of(b""), [b""]);
        assert_eq!(files_of(b"one\xff\xfe\xfd\xfctwo\xff\xfe"), [&b"one"[..], b"two\xff\xfe"]);
    }

    #[test]
    fn every_input_that_was_kept_holds() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/binlog");
        let inputs: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(!inputs.is_empty());
        for input in inputs {
            check_binlog(&std::fs::read(input).unwrap(), &SimDisk::default());
        }
    }
}
