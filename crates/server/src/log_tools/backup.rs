//! `jobyard log backup`: a copy of a log that a server may be writing to.
//!
//! What was written to a segment stays as it is, until the server drops the segment. So: read the log to see how far it goes,
//! copy so much of every file, and read the copy. If that is not whole, a segment was dropped meanwhile, and all begins anew.

use std::fs::{self, DirBuilder, File};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::Path;

use anyhow::{Context, Result, anyhow, ensure};
use jobyard_log::{Found, Moment, Position, Reader};

use super::Out;
use super::text::{count, date, size};
use super::walk::is_moved_on;
use crate::disk::{self, OsDirectory};

/// How often a copy is begun before it is given up.
const ATTEMPTS: u32 = 10;
const MANIFEST: &str = "manifest";
const PIECE_BYTES: usize = 1 << 20;

/// Copies a log to a directory that is not there yet, or empty.
pub fn backup(from: &Path, to: &Path, out: Out<'_>) -> Result<()> {
    OsDirectory::open(from)?;
    make_destination(to)?;
    let mut attempt = 1;
    let contents = loop {
        match copy(from, to) {
            Ok(contents) => break contents,
            Err(Trouble::MovedOn(_)) if attempt < ATTEMPTS => attempt += 1,
            Err(Trouble::MovedOn(error)) => {
                return Err(
                    error.context(format!("the server changed what was being copied {ATTEMPTS} times: try again"))
                );
            }
            Err(Trouble::Other(error)) => return Err(error),
        }
    };
    let segments = count(contents.files.len() as u64, "segment");
    let bytes = size(contents.files.iter().map(|(_, bytes)| bytes).sum());
    match contents.batches {
        Some((first, last, at)) => {
            let (batches, at) = (count(last - first + 1, "batch"), date(at.wall_ms));
            writeln!(out, "{}: {batches} ({first} to {last}) in {segments}, {bytes}; up to {at}", to.display())?;
        }
        None => writeln!(out, "{}: no batches yet, in {segments}, {bytes}", to.display())?,
    }
    Ok(())
}

fn make_destination(to: &Path) -> Result<()> {
    let cannot = || format!("cannot make the directory {}", to.display());
    match DirBuilder::new().mode(0o700).create(to) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let is_empty = fs::read_dir(to).with_context(cannot)?.next().is_none();
            ensure!(is_empty, "{} is not empty: a backup goes to a directory of its own", to.display());
            Ok(())
        }
        Err(error) => Err(error).with_context(cannot),
    }
}

/// Why a copy did not succeed.
enum Trouble {
    /// The server has dropped what was being copied: another one may.
    MovedOn(anyhow::Error),
    Other(anyhow::Error),
}

impl<E: Into<anyhow::Error>> From<E> for Trouble {
    fn from(error: E) -> Trouble {
        Trouble::Other(error.into())
    }
}

/// What a log holds.
#[derive(Debug, PartialEq, Eq)]
struct Contents {
    /// Its segments' files, and how many of their bytes are used.
    files: Vec<(String, u64)>,
    /// The first and the last batch, and when that was decided.
    batches: Option<(Position, Position, Moment)>,
    /// Whether it is damaged, and how.
    damage: Option<String>,
}

fn copy(from: &Path, to: &Path) -> Result<Contents, Trouble> {
    remove_all(to)?;
    // Read before the segments: what it says is proven is in them.
    let manifest = fs::read(from.join(MANIFEST)).context("cannot read the file 'manifest'")?;
    let source = contents(from)?;
    if let Some(damage) = &source.damage {
        return Err(Trouble::Other(anyhow!("{damage}; 'jobyard log verify {}' says more", from.display())));
    }
    for (name, bytes) in &source.files {
        copy_file(&from.join(name), &to.join(name), *bytes).map_err(|error| match error {
            error if is_not_found(&error) => Trouble::MovedOn(error),
            error => Trouble::Other(error),
        })?;
    }
    write_manifest(to, &manifest)?;
    let copied = contents(to)?;
    if copied != source {
        let why = copied.damage.unwrap_or_else(|| "the copy is not what was read".to_owned());
        return Err(Trouble::MovedOn(anyhow!(why)));
    }
    sync_directories(to)?;
    Ok(source)
}

/// Reads a log: how far it goes, and whether it is whole.
fn contents(path: &Path) -> Result<Contents, Trouble> {
    read_contents(path)
        .map_err(|error| if is_moved_on(&error) { Trouble::MovedOn(error) } else { Trouble::Other(error) })
}

fn read_contents(path: &Path) -> Result<Contents> {
    let mut directory = OsDirectory::open(path)?;
    let mut reader = Reader::open(&mut directory, &[]).with_context(|| format!("in {}", path.display()))?;
    let mut contents = Contents { files: Vec::new(), batches: None, damage: None };
    while let Some(found) = reader.next()? {
        match found {
            Found::Segment(facts) => contents.files.push((facts.file, SEGMENT_HEADER_BYTES)),
            Found::Batch(entry) => {
                let position = entry.header.position;
                let first = contents.batches.map_or(position, |(first, ..)| first);
                contents.batches = Some((first, position, entry.batch.at));
                if let Some((_, bytes)) = contents.files.last_mut() {
                    *bytes = entry.offset + entry.bytes;
                }
            }
            Found::Hole(hole) => contents.damage = contents.damage.or(Some(hole.error.to_string())),
            Found::Tail(_) => {}
        }
    }
    Ok(contents)
}

/// Bytes before a segment's first batch.
const SEGMENT_HEADER_BYTES: u64 = 4096;

fn copy_file(from: &Path, to: &Path, bytes: u64) -> Result<()> {
    let source = File::open(from).with_context(|| format!("cannot open {}", from.display()))?;
    let target = disk::create(to).with_context(|| format!("cannot make {}", to.display()))?;
    let mut piece = vec![0; PIECE_BYTES];
    let mut at = 0;
    while at < bytes {
        let len = usize::try_from(bytes - at).map_or(PIECE_BYTES, |rest| rest.min(PIECE_BYTES));
        // A file that has become shorter is no longer what it was; the copy, read back, shows it.
        let read = source.read_at(&mut piece[..len], at).with_context(|| format!("cannot read {}", from.display()))?;
        if read == 0 {
            break;
        }
        target.write_all_at(&piece[..read], at).with_context(|| format!("cannot write to {}", to.display()))?;
        at += read as u64;
    }
    target.sync_all().with_context(|| format!("cannot sync {}", to.display()))
}

/// The manifest comes last: without it a copy that was not finished is none.
fn write_manifest(to: &Path, manifest: &[u8]) -> Result<()> {
    let unfinished = to.join("manifest.new");
    let written = disk::create(&unfinished).and_then(|mut file| {
        file.write_all(manifest)?;
        file.sync_all()?;
        fs::rename(&unfinished, to.join(MANIFEST))
    });
    written.with_context(|| format!("cannot write the file 'manifest' in {}", to.display()))
}

/// The names of the files, and that of the directory itself.
fn sync_directories(to: &Path) -> Result<()> {
    let parent = to.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    for directory in [to, parent] {
        let synced = File::open(directory).and_then(|directory| directory.sync_all());
        synced.with_context(|| format!("cannot sync {}", directory.display()))?;
    }
    Ok(())
}

/// What an attempt before this one has left.
fn remove_all(to: &Path) -> Result<()> {
    let cannot = || format!("cannot begin again in {}", to.display());
    for entry in fs::read_dir(to).with_context(cannot)? {
        fs::remove_file(entry.with_context(cannot)?.path()).with_context(cannot)?;
    }
    Ok(())
}

fn is_not_found(error: &anyhow::Error) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == ErrorKind::NotFound)
}
