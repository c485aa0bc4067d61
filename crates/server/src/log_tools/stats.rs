//! `jobyard log stats`: how much of a log is still needed, and whether it is as short as it should be.

use std::path::Path;

use anyhow::{Result, bail};
use jobyard_log::{Found, Position};

use super::Out;
use super::text::{count, size};
use super::walk::{Walked, walk_directory};

/// A segment that was read.
struct Segment {
    file: String,
    first: Position,
    last: Position,
    /// What its batches take.
    bytes: u64,
    /// How long its file is.
    file_bytes: u64,
    /// What of its batches is still needed.
    live: u64,
}

/// Prints what each segment holds, and all of them together.
pub fn stats(path: &Path, out: Out<'_>) -> Result<()> {
    let (mut segments, walked) = walk_directory(path, Vec::new, |segments, found, _| {
        take_note(segments, found);
        Ok(())
    })?;
    if !walked.is_whole() {
        bail!("the log is damaged: 'jobyard log verify {}' says more", path.display());
    }
    share_out(&mut segments, &walked);
    writeln!(
        out,
        "{:<24} {:>10} {:>10} {:>11} {:>11} {:>11} {:>6}",
        "segment", "first", "last", "bytes", "live", "dead", "live %"
    )?;
    for Segment { file, first, last, bytes, live, .. } in &segments {
        let dead = bytes.saturating_sub(*live);
        writeln!(
            out,
            "{file:<24} {first:>10} {last:>10} {bytes:>11} {live:>11} {dead:>11} {:>6}",
            percent(*live, *bytes)
        )?;
    }
    summarize(&segments, &walked, out)
}

fn take_note(segments: &mut Vec<Segment>, found: &Found<'_>) {
    match found {
        Found::Segment(facts) => segments.push(Segment {
            file: facts.file.clone(),
            first: facts.header.first,
            last: facts.header.first - 1,
            bytes: 0,
            file_bytes: facts.bytes,
            live: 0,
        }),
        Found::Batch(entry) => {
            if let Some(segment) = segments.last_mut() {
                segment.last = entry.header.position;
                segment.bytes += entry.bytes;
            }
        }
        Found::Hole(_) | Found::Tail(_) => {}
    }
}

/// What is needed is needed where its newest full record is. That record is counted as it would be written today: if it was
/// shorter then, what was added since, such as a result, is in a segment behind it.
fn share_out(segments: &mut [Segment], walked: &Walked) {
    let jobs = walked.engine.live_jobs().map(|job| (job.stretch, job.record_bytes));
    let queues = walked.engine.live_queues().map(|queue| (queue.stretch, queue.record_bytes));
    for (stretch, bytes) in jobs.chain(queues) {
        if let Some(segment) = segments.get_mut(stretch) {
            segment.live += bytes;
        }
    }
    let mut behind = 0;
    for segment in segments {
        let live = segment.live + behind;
        segment.live = live.min(segment.bytes);
        behind = live - segment.live;
    }
}

fn summarize(segments: &[Segment], walked: &Walked, out: Out<'_>) -> Result<()> {
    let bytes: u64 = segments.iter().map(|segment| segment.bytes).sum();
    let live: u64 = segments.iter().map(|segment| segment.live).sum();
    let segment_bytes = segments.last().map_or(0, |segment| segment.file_bytes);
    let at_most = 2 * live + 2 * segment_bytes;
    writeln!(out, "{} in {}, {} of them live", size(bytes), count(segments.len() as u64, "segment"), size(live))?;
    let (jobs, queues) = walked.counts();
    writeln!(out, "{jobs} in {queues}")?;
    writeln!(out, "{}", verdict(bytes, at_most))?;
    Ok(())
}

/// Whether the log is as short as it should be.
fn verdict(bytes: u64, at_most: u64) -> String {
    let limit = format!("at most {}: twice what is live, and two segments", size(at_most));
    if bytes <= at_most {
        format!("the log is as short as it should be ({limit})")
    } else {
        format!("the log is longer than it should be ({limit}): a server that runs will shorten it soon")
    }
}

fn percent(part: u64, whole: u64) -> u64 {
    part.saturating_mul(100).checked_div(whole).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_whether_the_log_is_as_short_as_it_should_be() {
        assert_eq!(
            verdict(3 << 20, 3 << 20),
            "the log is as short as it should be (at most 3.0 MiB: twice what is live, and two segments)"
        );
        assert_eq!(
            verdict((3 << 20) + 1, 3 << 20),
            "the log is longer than it should be (at most 3.0 MiB: twice what is live, and two segments): a server that \
             runs will shorten it soon"
        );
    }
}
