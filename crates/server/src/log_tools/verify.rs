//! `jobyard log verify`: is everything there, and does it make sense?

use std::path::Path;

use anyhow::{Result, bail};
use jobyard_log::{Found, Hole, LogError, Position};

use super::Out;
use super::salvage::advised;
use super::text::{count, size};
use super::walk::{Walked, walk_directory};

/// A segment that was read.
struct Segment {
    file: String,
    /// Its first and its last batch.
    batches: Option<(Position, Position)>,
    bytes: u64,
    /// What else there is to say of it.
    notes: Vec<String>,
}

/// Reads all of a log, and says what is wrong with it.
pub fn verify(path: &Path, out: Out<'_>) -> Result<()> {
    let (segments, walked) = walk_directory(path, Vec::new, |segments, found, _| {
        take_note(segments, found);
        Ok(())
    })?;
    match &walked.manifest {
        Some(manifest) => {
            let clean = if manifest.clean { "it was closed" } else { "it was not closed, or is in use" };
            writeln!(out, "manifest: format {}, epoch {}; {clean}", manifest.format, manifest.epoch)?;
        }
        None => writeln!(out, "manifest: missing or damaged")?,
    }
    for segment in &segments {
        writeln!(out, "{}", line(segment))?;
    }
    for (file, offset, position) in &walked.senseless {
        writeln!(out, "{file} at byte {offset}: batch {position} holds records that make no sense")?;
    }
    out.flush()?;
    conclude(path, &segments, &walked, out)
}

fn take_note(segments: &mut Vec<Segment>, found: &Found<'_>) {
    match found {
        Found::Segment(facts) => {
            segments.push(Segment { file: facts.file.clone(), batches: None, bytes: 0, notes: Vec::new() });
        }
        Found::Batch(entry) => {
            let segment = segment(segments, entry.file);
            let position = entry.header.position;
            segment.batches = Some((segment.batches.map_or(position, |(first, _)| first), position));
            segment.bytes += entry.bytes;
        }
        Found::Hole(hole) => segment(segments, &hole.file).notes.push(format!("DAMAGED {}", wrong_with(hole))),
        Found::Tail(cut) => {
            let note =
                format!("the end at byte {} is unfinished ({}): the next start cuts it off", cut.offset, cut.damage);
            segment(segments, &cut.file).notes.push(note);
        }
    }
}

/// What is wrong, in a line that names the file already.
fn wrong_with(hole: &Hole) -> String {
    let what = match &hole.error {
        LogError::Damaged { damage, .. } => damage.to_string(),
        LogError::SegmentHeader { why, .. } => format!("the file {why}"),
        LogError::MissingSegment { .. } => "the file is missing".to_owned(),
        error => error.to_string(),
    };
    format!("at byte {}: {what}; {}", hole.offset, hole.loss)
}

/// The segment in this file. One that has lost its header was not announced.
fn segment<'a>(segments: &'a mut Vec<Segment>, file: &str) -> &'a mut Segment {
    let index = segments.iter().rposition(|segment| segment.file == file).unwrap_or_else(|| {
        segments.push(Segment { file: file.to_owned(), batches: None, bytes: 0, notes: Vec::new() });
        segments.len() - 1
    });
    &mut segments[index]
}

fn line(segment: &Segment) -> String {
    let batches = match segment.batches {
        Some((first, last)) if first == last => format!("batch {first}"),
        Some((first, last)) => format!("batches {first} to {last}"),
        None => "no batches".to_owned(),
    };
    let notes = if segment.notes.is_empty() { "ok".to_owned() } else { segment.notes.join("; ") };
    format!("{}: {batches}, {}: {notes}", segment.file, size(segment.bytes))
}

fn conclude(path: &Path, segments: &[Segment], walked: &Walked, out: Out<'_>) -> Result<()> {
    let batches = segments.iter().filter_map(|segment| segment.batches).map(|(first, last)| last - first + 1).sum();
    let bytes = segments.iter().map(|segment| segment.bytes).sum();
    let (jobs, queues) = walked.counts();
    if !walked.is_whole() {
        bail!("the log is damaged. {} {}", advised(path), walked.prospect());
    }
    writeln!(
        out,
        "ok: {} in {}, {}; {jobs} in {queues}",
        count(batches, "batch"),
        count(segments.len() as u64, "segment"),
        size(bytes),
    )?;
    Ok(())
}
