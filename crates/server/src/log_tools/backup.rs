//! `jobyard log backup`: a copy of a log that a server may be writing to.
//!
//! A segment that is closed stays as it is until the server drops it, and it drops the oldest first. So the oldest is copied
//! first, then the copy is read. If a segment was dropped before it was copied, all begins anew.

use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use jobyard_log::{Found, Hole, Manifest, Moment, Position, ReadDisk, Reader};

use super::Out;
use super::text::{count, date, size};
use crate::disk::{self, OsDirectory, OsFile};

/// How often a copy is begun before it is given up.
const ATTEMPTS: u32 = 20;
const PIECE_BYTES: usize = 1 << 20;
const MANIFEST: &str = "manifest";
/// What the manifest is called until all else is there: without one, a copy that was not finished is none.
const UNFINISHED_MANIFEST: &str = "manifest.new";

/// Copies a log to a directory that is not there yet, or empty.
pub fn backup(from: &Path, to: &Path, out: Out<'_>) -> Result<()> {
    OsDirectory::open(from)?;
    make_destination(to)?;
    let contents = match copy_in_attempts(from, to) {
        Ok(contents) => contents,
        Err(error) => {
            // Half a copy is none, and would be in the way of the next.
            remove_all(to)?;
            return Err(error);
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

fn copy_in_attempts(from: &Path, to: &Path) -> Result<Contents> {
    for _ in 0..ATTEMPTS {
        if let Some(contents) = copy(from, to)? {
            return Ok(contents);
        }
    }
    bail!("the server dropped what was to be copied, {ATTEMPTS} times in a row: try again when it does less")
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

/// What a log holds.
#[derive(Default)]
struct Contents {
    /// Its segments' files, and how many of their bytes are used.
    files: Vec<(String, u64)>,
    /// The first and the last batch, and when that was decided.
    batches: Option<(Position, Position, Moment)>,
    /// The first thing that is wrong.
    hole: Option<Hole>,
}

/// Copies a log, unless the server drops something of it meanwhile.
fn copy(from: &Path, to: &Path) -> Result<Option<Contents>> {
    remove_all(to)?;
    let (manifest, text) = read_manifest(from)?;
    for id in manifest.first..=manifest.newest {
        match copy_segment(from, to, id, 0) {
            Err(error) if is_not_found(&error) && has_changed(from, &text) => return Ok(None),
            copied => copied?,
        }
    }
    write_file(&to.join(UNFINISHED_MANIFEST), &text)?;
    let mut attempt = 1;
    let contents = loop {
        let contents = read_copy(to)?;
        match &contents.hole {
            None => break contents,
            // The newest may have been written to between two pieces that were copied: the first of them is old.
            Some(hole) if hole.file == name_of(manifest.newest) && attempt < ATTEMPTS => {
                attempt += 1;
                match copy_segment(from, to, manifest.newest, hole.offset) {
                    Err(error) if is_not_found(&error) && has_changed(from, &text) => return Ok(None),
                    copied => copied?,
                }
            }
            Some(_) if has_changed(from, &text) => return Ok(None),
            Some(hole) => {
                bail!("{}; 'jobyard log verify {}' says more", hole.error, from.display());
            }
        }
    };
    finish(to, &contents)?;
    Ok(Some(contents))
}

/// The manifest, and its text.
fn read_manifest(from: &Path) -> Result<(Manifest, Vec<u8>)> {
    let path = from.join(MANIFEST);
    let mut attempt = 1;
    loop {
        let whole = || format!("in {}", from.display());
        let text = match fs::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                // Whoever names another directory is told so, or that it is damaged.
                Reader::open(&mut OsDirectory::open(from)?, &[]).with_context(whole)?;
                return Err(error).with_context(whole);
            }
            text => text.with_context(|| format!("cannot read {}", path.display()))?,
        };
        match Manifest::parse(&text) {
            // It may have been written over while it was read.
            Err(_) if attempt < ATTEMPTS => attempt += 1,
            manifest => return Ok((manifest.with_context(whole)?, text)),
        }
    }
}

/// Whether the log in this directory is no longer what this manifest says.
fn has_changed(from: &Path, manifest: &[u8]) -> bool {
    fs::read(from.join(MANIFEST)).is_ok_and(|now| now != manifest)
}

fn name_of(segment: u64) -> String {
    format!("{segment:020}.log")
}

/// Copies a segment from this byte on, as much as there is.
fn copy_segment(from: &Path, to: &Path, id: u64, offset: u64) -> Result<()> {
    let (from, to) = (from.join(name_of(id)), to.join(name_of(id)));
    let source = File::open(&from).with_context(|| format!("cannot open {}", from.display()))?;
    let target = if offset == 0 { disk::create(&to) } else { File::options().write(true).open(&to) };
    let target = target.with_context(|| format!("cannot make {}", to.display()))?;
    let mut piece = vec![0; PIECE_BYTES];
    let mut at = offset;
    loop {
        let read = source.read_at(&mut piece, at).with_context(|| format!("cannot read {}", from.display()))?;
        if read == 0 {
            break;
        }
        target.write_all_at(&piece[..read], at).with_context(|| format!("cannot write to {}", to.display()))?;
        at += read as u64;
    }
    Ok(())
}

/// The copy before it is finished.
struct Unfinished(OsDirectory);

impl ReadDisk for Unfinished {
    type File = OsFile;

    fn names(&self) -> io::Result<Vec<String>> {
        self.0.names()
    }

    fn open_to_read(&mut self, name: &str) -> io::Result<OsFile> {
        self.0.open_to_read(if name == MANIFEST { UNFINISHED_MANIFEST } else { name })
    }
}

/// Reads the copy: how far it goes, and whether it is whole.
fn read_copy(to: &Path) -> Result<Contents> {
    let mut directory = Unfinished(OsDirectory::open(to)?);
    let mut reader = Reader::open(&mut directory, &[]).with_context(|| format!("in {}", to.display()))?;
    let mut contents = Contents::default();
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
            Found::Hole(hole) => {
                contents.hole = Some(hole);
                break;
            }
            Found::Tail(_) => {}
        }
    }
    Ok(contents)
}

/// Bytes before a segment's first batch.
const SEGMENT_HEADER_BYTES: u64 = 4096;

/// Cuts off what is no part of the log, makes all of it durable, and the manifest last.
fn finish(to: &Path, contents: &Contents) -> Result<()> {
    for (index, (name, bytes)) in contents.files.iter().enumerate() {
        let path = to.join(name);
        let is_newest = index + 1 == contents.files.len();
        let synced = File::options().write(true).open(&path).and_then(|file| {
            let whole = file.metadata()?.len();
            file.set_len(*bytes)?;
            // A segment that is let go of can be used again only if it is whole, and its room is there.
            if !is_newest {
                write_zeros(&file, *bytes, whole)?;
            }
            file.sync_all()
        });
        synced.with_context(|| format!("cannot sync {}", path.display()))?;
    }
    sync_directory(to)?;
    fs::rename(to.join(UNFINISHED_MANIFEST), to.join(MANIFEST))
        .with_context(|| format!("cannot name the file '{MANIFEST}' in {}", to.display()))?;
    sync_directory(to)?;
    sync_directory(to.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new(".")))
}

fn write_zeros(file: &File, from: u64, to: u64) -> io::Result<()> {
    let zeros = vec![0; PIECE_BYTES];
    let mut at = from;
    while at < to {
        let some = usize::try_from(to - at).map_or(PIECE_BYTES, |left| left.min(PIECE_BYTES));
        file.write_all_at(&zeros[..some], at)?;
        at += some as u64;
    }
    Ok(())
}

fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    let written = disk::create(path).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    written.with_context(|| format!("cannot write {}", path.display()))
}

fn sync_directory(path: &Path) -> Result<()> {
    let synced = File::open(path).and_then(|directory| directory.sync_all());
    synced.with_context(|| format!("cannot sync {}", path.display()))
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
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == ErrorKind::NotFound)
}
