//! `jobyard serve --salvage`: what can be read of a damaged log becomes a new one, and the damaged files are kept aside.

use std::path::Path;

use anyhow::{Context, Result, anyhow};
use jobyard_broker::OpenError;
use jobyard_engine::{Engine, History, Now};
use jobyard_log::{Disk, LogError, Moment, Options, salvage as salvage_log};

use super::walk::{MAY_RETURN, find_holes, walk, walk_directory};
use crate::serve::random_seed;

/// So many numbers are skipped beside one for each byte that was lost: it is not always known how many bytes there were.
const NUMBERS_SKIPPED: u64 = 1 << 20;

/// How much of what is kept goes into one batch.
const BATCH_BYTES: usize = 16 << 10;

/// What came of salvage.
#[derive(Debug, PartialEq, Eq)]
pub enum Salvaged {
    /// A log that can be used; what is in it and what was lost, in words.
    Made(String),
    /// Nothing: the log is not damaged.
    Whole,
    /// Nothing: there is no log.
    NoLog,
}

/// Makes the log in this directory one that can be used, if it is damaged.
pub fn salvage<D: Disk>(disk: &mut D, options: &Options) -> Result<Salvaged> {
    match find_holes(disk) {
        // All batches are there; whether their records make sense is still to be seen.
        Ok(holes) if holes.is_empty() => {
            if walk(disk, None, &mut |_, _| Ok(()))?.is_whole() {
                return Ok(Salvaged::Whole);
            }
        }
        Ok(_) => {}
        Err(LogError::NoLog) => return Ok(Salvaged::NoLog),
        Err(error) => return Err(error.into()),
    }
    // With an eye for what can be kept of that which does not fit.
    let mut walked = walk(disk, Some(History::Damaged), &mut |_, _| Ok(()))?;
    let at = walked.last.unwrap_or_default();
    if walked.engine.stretches() == 0 {
        // No segment could be read. What is made of that is written all the same.
        walked.engine.begin_stretch();
    }
    // As of the last batch: how much time has passed since is for the start to find out.
    walked.engine.recover(Now { engine_ms: at.engine_ms, wall_ms: at.wall_ms, random: random_seed() });
    // What was given to jobs of which nothing is left must not be given again. Each took a record of some bytes.
    walked.engine.skip_numbers(walked.lost_bytes().saturating_add(NUMBERS_SKIPPED));
    let (jobs, queues) = walked.counts();
    let loss = walked.loss();
    let salvaged = salvage_log(disk, options, all_of(&mut walked.engine, at)).context("cannot salvage the log")?;
    let kept = salvaged.kept.join(", ");
    let what =
        format!("salvaged {jobs} in {queues}; damaged and lost: {loss}. {MAY_RETURN}. The old files are kept: {kept}");
    Ok(Salvaged::Made(what))
}

/// All that an engine knows, in batches.
fn all_of(engine: &mut Engine, at: Moment) -> impl Iterator<Item = (Moment, Vec<u8>)> {
    engine.begin_keep_all();
    let mut done = false;
    std::iter::from_fn(move || {
        if done {
            return None;
        }
        done = engine.keep_all(BATCH_BYTES);
        let records = engine.records().to_vec();
        engine.clear_records();
        Some((at, records))
    })
}

/// Adds to the reason why a log cannot be used what salvage would make of it.
pub fn with_advice(error: anyhow::Error, path: &Path) -> anyhow::Error {
    let damaged = match error.downcast_ref() {
        Some(OpenError::Log(error)) => is_damage(error),
        Some(OpenError::Records { .. } | OpenError::Short { .. } | OpenError::Counted) => true,
        None => false,
    };
    if !damaged {
        return error;
    }
    match walk_directory(path, || (), |(), _, _| Ok(())) {
        Ok(((), walked)) => anyhow!("{error:#}. {} {}", advised(path), walked.prospect()),
        Err(_) => error,
    }
}

/// The command that salvages a log.
pub fn advised(path: &Path) -> String {
    format!("'jobyard serve --salvage --data {}'", path.display())
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

#[cfg(test)]
mod tests {
    use jobyard_engine::{ClientId, Command, NewJob, QueueName};

    use super::*;
    use crate::disk::OsDisk;
    use crate::log_tools::run;
    use crate::log_tools::testing::{Place, jobs, options};

    #[test]
    fn records_that_make_no_sense_are_lost_and_all_others_kept() {
        let place = Place::new("senseless");
        let mut batches = jobs(100);
        batches[49] = b"no records at all".to_vec();
        // Not damaged, but impossible: job 10 is put once more.
        let again = batches[9].clone();
        batches.push(again);
        place.write(&batches);
        let error = place.verified().unwrap_err().to_string();
        assert!(error.contains("99 jobs in 1 queue") && error.contains("make no sense"), "{error}");

        let mut disk = OsDisk::open(&place.0).unwrap();
        let Salvaged::Made(said) = salvage(&mut disk, &options()).unwrap() else { panic!("it is damaged") };
        assert!(said.contains("salvaged 99 jobs in 1 queue") && said.contains("1 batch with records"), "{said}");
        assert_eq!(salvage(&mut disk, &options()).unwrap(), Salvaged::Whole, "once is enough");
        assert!(place.verified().unwrap().ends_with("99 jobs in 1 queue\n"));
        // What was salvaged can be written to, and the next number is none that was given before.
        let walked = walk(&mut disk, None, &mut |_, _| Ok(())).unwrap();
        let mut engine = walked.engine;
        engine.recover(Now { engine_ms: 0, wall_ms: 0, random: 0 });
        let job = NewJob::plain(QueueName::new(b"q"), Box::from([]));
        let now = Now { engine_ms: 0, wall_ms: 0, random: 0 };
        let mut number = None;
        engine.handle(now, ClientId(1), Command::Enqueue(Box::new(job)), &mut |_, reply| {
            if let jobyard_engine::Reply::Enqueued { number: given, .. } = reply {
                number = Some(given);
            }
        });
        assert!(number.is_some_and(|number| number > 101), "{number:?}");
    }

    #[test]
    fn a_log_whose_segments_are_all_lost_becomes_an_empty_one() {
        for lost in [true, false] {
            let place = Place::new(if lost { "all-lost" } else { "all-garbage" });
            place.write(&jobs(3));
            let segment = place.0.join("00000000000000000001.log");
            if lost {
                std::fs::remove_file(segment).unwrap();
            } else {
                std::fs::write(segment, b"garbage").unwrap();
            }
            let mut disk = OsDisk::open(&place.0).unwrap();
            let Salvaged::Made(said) = salvage(&mut disk, &options()).unwrap() else { panic!("it is damaged") };
            assert!(said.contains("salvaged 0 jobs in 0 queues"), "{said}");
            assert!(place.verified().unwrap().ends_with("0 jobs in 0 queues\n"));
        }
    }

    #[test]
    fn what_is_no_log_is_not_salvaged() {
        let place = Place::new("nothing");
        let mut disk = OsDisk::open(&place.0).unwrap();
        assert_eq!(salvage(&mut disk, &options()).unwrap(), Salvaged::NoLog);
        assert!(place.verified().is_err());
        let directory = place.0.clone();
        assert!(run(&crate::cli::LogCommand::Stats { directory }).is_err());
    }
}
