//! Going on after damage: what could be made of the old log becomes a new one, and the old files are kept aside.

use super::reader::{Found, Walk};
use super::rewrite::Rewrite;
use super::segment::{damaged_name_of, id_of};
use super::{Manifest, Options, volume};
use crate::disk::Disk;
use crate::error::LogError;
use crate::frame::{Header, NUMBER_MAX};
use crate::log::{Batch, Moment, Position};

/// No server has counted so far, and whoever goes on from here has room to. What a damaged log says beyond it is not believed:
/// a log that begins behind it could not be read.
const BELIEVED_MAX: u64 = NUMBER_MAX / 2;

/// What a salvaged log is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Salvaged {
    /// The position of its first batch: behind all that the old log can have had.
    pub first: Position,
    /// The position of its last batch.
    pub tail: Position,
    /// The old segments, as they are called now.
    pub kept: Vec<String>,
}

/// Makes a new log of these batches, which someone made from what [`super::Reader::open_damaged`] could read, in place of the
/// one that is there. The old segments are kept as `damaged-….log`. Nobody else may use the directory meanwhile.
///
/// A crash leaves either the old log as it was, or the new one; then the next claim finishes what is left to do.
///
/// # Errors
/// If there is no log, if it is of a newer format, or if the disk fails.
pub fn salvage<D: Disk, P: AsRef<[u8]>>(
    disk: &mut D,
    options: &Options,
    batches: impl IntoIterator<Item = (Moment, P)>,
) -> Result<Salvaged, LogError> {
    let options = options.clone().within_bounds();
    let before = survey(disk, &options)?;
    // As at a start: what is seen may not be durable yet.
    volume::sync_directory(disk)?;
    let old_ids = segment_ids(disk)?;
    let (from, to) = old_ids.iter().copied().fold((u64::MAX, 0), |(from, to), id| (from.min(id), to.max(id)));
    let sizes = (options.segment_bytes, options.salt_for_new);
    let mut rewrite = Rewrite::begin(disk, before.newest + 1, sizes, before.last)?;
    for (at, payload) in batches {
        let batch = Batch { at, payload: payload.as_ref() };
        rewrite.append(disk, (before.last.epoch, before.last.position), &batch)?;
    }
    let manifest = Manifest { damaged: (from <= to).then_some((from, to)), ..rewrite.finish(disk)? };
    manifest.write(disk)?;
    let mut kept = Vec::new();
    for id in old_ids {
        volume::rename(disk, &super::segment::name_of(id), &damaged_name_of(id))?;
        kept.push(damaged_name_of(id));
    }
    volume::sync_directory(disk)?;
    kept.sort();
    Ok(Salvaged { first: before.last.position + 1, tail: manifest.proven, kept })
}

/// Behind what a new log has to begin.
struct Before {
    /// The last segment's id.
    newest: u64,
    /// A position and an epoch that no batch of the old log has exceeded.
    last: Header,
}

/// The segments whose files are there.
fn segment_ids<D: Disk>(disk: &D) -> Result<Vec<u64>, LogError> {
    let names = volume::names(disk)?;
    Ok(names.iter().filter_map(|name| id_of(name)).filter(|id| *id < BELIEVED_MAX).collect())
}

/// Reads the whole log for the largest numbers in it.
fn survey<D: Disk>(disk: &mut D, options: &Options) -> Result<Before, LogError> {
    let mut walk = Walk::begin(disk, options.older)?;
    let (mut newest, mut position, mut epoch) = (0, 0, 0);
    let raise = |number: &mut u64, to: u64| {
        if to < BELIEVED_MAX {
            *number = to.max(*number);
        }
    };
    if let Ok(manifest) = walk.manifest() {
        raise(&mut newest, manifest.newest);
        raise(&mut position, manifest.proven);
        raise(&mut epoch, manifest.epoch);
    }
    // Whatever the manifest says: no file that is there is written over.
    newest = segment_ids(disk)?.into_iter().fold(newest, u64::max);
    while let Some(found) = walk.next(disk)? {
        match found {
            Found::Segment(facts) => {
                raise(&mut position, facts.header.first - 1);
                raise(&mut epoch, facts.header.epoch_before);
            }
            Found::Batch(entry) => {
                raise(&mut position, entry.header.position);
                raise(&mut epoch, entry.header.epoch);
            }
            Found::Hole(hole) => raise(&mut position, hole.loss.to),
            // What was cut may have been told to someone if it was not synced by order.
            Found::Tail(cut) => position += cut.whole + 1,
        }
    }
    Ok(Before { newest, last: Header { epoch: epoch + 1, position, proven: position, previous_crc: 0 } })
}
