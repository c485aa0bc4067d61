//! `jobyard log dump --jobs`: the jobs that there are, and why each is where it is.

use std::collections::HashMap;
use std::io::Write as _;
use std::path::Path;

use anyhow::{Result, bail};
use jobyard_engine::{Due, JobNumber, JobSnapshot, StateView, records};
use jobyard_log::{Found, Moment, Position};

use super::Out;
use super::text::{Object, count, date};
use super::walk::walk_directory;

/// The record that put a job where it is.
#[derive(Clone, Copy)]
struct Cause {
    kind: &'static str,
    position: Position,
    wall_ms: i64,
}

/// Prints every job there is, in order of number. What a connection holds is ready here: that ends with the connection.
pub fn jobs(path: &Path, out: Out<'_>) -> Result<()> {
    let (causes, walked) = walk_directory(path, HashMap::new, |causes, found, _| {
        if let Found::Batch(entry) = found {
            let (position, wall_ms) = (entry.header.position, entry.batch.at.wall_ms);
            for record in records(entry.batch.payload).map_while(Result::ok) {
                take_note(causes, record.number, Cause { kind: record.kind, position, wall_ms });
            }
        }
        Ok(())
    })?;
    let last = walked.last.unwrap_or_default();
    let mut out = std::io::BufWriter::new(out);
    for job in walked.engine.snapshot().jobs {
        writeln!(out, "{}", line(&job, causes.get(&job.number), last))?;
    }
    out.flush()?;
    if !walked.is_whole() {
        bail!("the log is damaged: 'jobyard log verify {}' says more", path.display());
    }
    Ok(())
}

fn take_note(causes: &mut HashMap<JobNumber, Cause>, number: Option<JobNumber>, cause: Cause) {
    match (number, cause.kind) {
        (None, _) => {}
        (Some(number), "removed") => {
            causes.remove(&number);
        }
        // It repeats what is known, so that older records are not needed any more. It changes nothing.
        (Some(number), "kept" | "origin_closed") => {
            causes.entry(number).or_insert(cause);
        }
        (Some(number), _) => {
            causes.insert(number, cause);
        }
    }
}

fn line(job: &JobSnapshot, cause: Option<&Cause>, last: Moment) -> String {
    let mut line = Object::new();
    line.value("job", job.number);
    line.text("uuid", &job.uuid.to_string());
    line.bytes("queue", job.queue.as_bytes());
    line.text("state", state(job.state));
    line.text("why", &why(job, cause, last));
    if let Some(cause) = cause {
        line.text("record", cause.kind);
        line.value("position", cause.position);
        line.date("time", cause.wall_ms);
    }
    line.date("created", job.created_wall_ms);
    if let Some(name) = &job.name {
        line.text("name", name);
    }
    line.value("urgency", job.urgency);
    line.value("attempts", job.attempts);
    line.value("failures", job.failures);
    if let Some(expires_ms) = job.expires_ms {
        line.date("expires", on_the_wall(expires_ms, last));
    }
    line.bytes("body", &job.body);
    if let Some(result) = &job.result {
        line.bytes("result", result);
    }
    line.finish()
}

fn state(state: StateView) -> &'static str {
    match state {
        StateView::Blocked => "blocked",
        StateView::Delayed => "delayed",
        StateView::Ready => "ready",
        StateView::Leased => "leased",
        StateView::Done => "done",
        StateView::Failed => "failed",
        StateView::Buried => "buried",
    }
}

fn why(job: &JobSnapshot, cause: Option<&Cause>, last: Moment) -> String {
    let kind = cause.map_or("", |cause| cause.kind);
    match job.state {
        StateView::Blocked => {
            let blockers: Vec<_> = job.blockers.iter().map(u64::to_string).collect();
            format!("blocked by {}", blockers.join(", "))
        }
        StateView::Delayed => match job.delay_until {
            Some(Due::Wall(wall_ms)) => format!("delayed: its date is {}", date(wall_ms)),
            Some(Due::Engine(until_ms)) => {
                let until = date(on_the_wall(until_ms, last));
                let reason = match kind {
                    "rested" => "its worker vanished".to_owned(),
                    "released" => "put back for later".to_owned(),
                    "enqueued" => "put for later".to_owned(),
                    _ if job.failures == 0 => "to be taken later".to_owned(),
                    _ => format!("failed {}", count(job.failures, "time")),
                };
                format!("delayed: {reason}, rests until {until}")
            }
            None => "delayed".to_owned(),
        },
        StateView::Leased => match job.lease_until_ms {
            Some(until_ms) => format!("leased until {}", date(on_the_wall(until_ms, last))),
            None => "leased until it is finished or given back".to_owned(),
        },
        StateView::Done => "done: its result is kept until it expires".to_owned(),
        StateView::Failed => "failed for good: its result is kept until it expires".to_owned(),
        StateView::Buried => "buried: put aside until someone revives it".to_owned(),
        StateView::Ready => why_ready(job, cause),
    }
}

fn why_ready(job: &JobSnapshot, cause: Option<&Cause>) -> String {
    let Some(cause) = cause else { return "ready".to_owned() };
    let since = date(cause.wall_ms);
    let reason = match cause.kind {
        "enqueued" => "it was put".to_owned(),
        "counted" => "a connection took it, and may still hold it".to_owned(),
        "undone" => "a lease did not reach its worker".to_owned(),
        "failure" => format!("failed {}", count(job.failures, "time")),
        "moved" => "its failures or attempts were used up in another queue".to_owned(),
        "woke" => "its date has come".to_owned(),
        "released" => "it was put back".to_owned(),
        "revived" => "it was revived".to_owned(),
        "unblocked" => "its last blocker is gone".to_owned(),
        _ => return format!("ready since {since} or before"),
    };
    format!("ready since {since}: {reason}")
}

/// When an engine time is on the wall clock, as far as the last batch can tell.
fn on_the_wall(engine_ms: u64, last: Moment) -> i64 {
    let ahead = i128::from(engine_ms) - i128::from(last.engine_ms);
    let wall_ms = i128::from(last.wall_ms) + ahead;
    i64::try_from(wall_ms).unwrap_or(if ahead < 0 { i64::MIN } else { i64::MAX })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engine_time_is_told_by_the_wall() {
        let last = Moment { engine_ms: 1_000, wall_ms: 50_000, ..Moment::default() };
        assert_eq!(on_the_wall(1_500, last), 50_500);
        assert_eq!(on_the_wall(0, last), 49_000);
        assert_eq!(on_the_wall(u64::MAX, last), i64::MAX);
    }
}
