//! `jobyard serve --salvage`: what can be read of a damaged log becomes a new one, and the damaged files are kept aside.

use std::path::Path;

use anyhow::{Context, Result};
use jobyard_broker::OpenError;
use jobyard_engine::{Engine, History};
use jobyard_log::{Disk, LogError, Moment, Options, salvage as salvage_log};

use super::text::count;
use super::walk::{Walked, walk, walk_directory};

/// How much of what is kept goes into one batch.
const BATCH_BYTES: usize = 16 << 10;

/// Makes the log in this directory one that can be used, if it is damaged. Says what became of it, in words; nothing if it
/// is not damaged.
pub fn salvage<D: Disk>(disk: &mut D, options: &Options) -> Result<Option<String>> {
    match walk(disk, None, &mut |_, _| Ok(())) {
        Ok(walked) if walked.is_whole() => return Ok(None),
        Ok(_) => {}
        Err(error) if matches!(error.downcast_ref(), Some(LogError::NoLog)) => return Ok(None),
        Err(error) => return Err(error),
    }
    // Once more, with an eye for what can be kept of that which does not fit.
    let mut walked = walk(disk, Some(History::Damaged), &mut |_, _| Ok(()))?;
    let what = lost(&walked);
    let at = walked.last.unwrap_or_default();
    let salvaged = salvage_log(disk, options, all_of(&mut walked.engine, at)).context("cannot salvage the log")?;
    Ok(Some(format!("salvaged {what}. The damaged files are kept: {}", salvaged.kept.join(", "))))
}

/// What there is of a log, and what there is not.
fn lost(walked: &Walked) -> String {
    let snapshot = walked.engine.snapshot();
    let mut text = format!(
        "{} in {}; {}",
        count(snapshot.jobs.len() as u64, "job"),
        count(snapshot.queues.len() as u64, "queue"),
        walked.loss()
    );
    if !walked.senseless.is_empty() {
        text.push_str(&format!("; {} held records that make no sense", count(walked.senseless.len() as u64, "batch")));
    }
    text
}

/// All that an engine knows, in batches.
fn all_of(engine: &mut Engine, at: Moment) -> impl Iterator<Item = (Moment, Vec<u8>)> {
    // What was read is one stretch, which is written anew as if it were to be dropped.
    engine.begin_stretch();
    let mut done = false;
    std::iter::from_fn(move || {
        if done {
            return None;
        }
        done = engine.compact(BATCH_BYTES);
        let records = engine.records().to_vec();
        engine.clear_records();
        Some((at, records))
    })
}

/// Adds to the reason why a log cannot be used what salvage would make of it.
pub fn with_advice(error: anyhow::Error, path: &Path) -> anyhow::Error {
    let damaged = match error.downcast_ref() {
        Some(OpenError::Log(error)) => is_damage(error),
        Some(OpenError::Records { .. } | OpenError::Short { .. }) => true,
        None => false,
    };
    if !damaged {
        return error;
    }
    match walk_directory(path, || (), |(), _, _| Ok(())) {
        Ok(((), walked)) => error.context(format!("'jobyard serve --salvage' would keep {}", lost(&walked))),
        Err(_) => error,
    }
}

fn is_damage(error: &LogError) -> bool {
    matches!(
        error,
        LogError::Damaged { .. }
            | LogError::SegmentHeader { .. }
            | LogError::MissingSegment { .. }
            | LogError::MissingManifest { .. }
            | LogError::Manifest { .. }
    )
}
