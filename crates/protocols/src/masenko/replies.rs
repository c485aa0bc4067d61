//! What the server says: `VERB {json}` lines, compact, with Go's escapes.

use jobyard_engine::{Counters, JobNumber, JobView, Limits, QueueView, Refusal};

use crate::json::{self, Escapes};
use crate::numbers::write_number;
use crate::views;

pub(super) fn ok(out: &mut Vec<u8>) {
    out.extend_from_slice(b"OK {}\n");
}

pub(super) fn pong(out: &mut Vec<u8>) {
    out.extend_from_slice(b"PONG {}\n");
}

pub(super) fn empty(out: &mut Vec<u8>) {
    out.extend_from_slice(b"EMPTY {}\n");
}

/// `ERR {"msg":"missing id"}`
pub(super) fn error(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(b"ERR {\"msg\":");
    json::write_string(out, text, Escapes::Html);
    out.extend_from_slice(b"}\n");
}

/// `OK {"id":1}`
pub(super) fn pushed(out: &mut Vec<u8>, number: JobNumber) {
    out.extend_from_slice(b"OK {\"id\":");
    write_number(out, number);
    out.extend_from_slice(b"}\n");
}

/// Clients keep the failures in a byte. Only a job of another protocol can have more.
const FAILURES_SHOWN_MAX: u64 = 255;

/// `OK {"id":1,"queue":"mail","name":"send-email","payload":{…},"failures":2}`
pub(super) fn fetched(out: &mut Vec<u8>, job: &JobView<'_>) {
    let queue = views::text(job.queue.as_bytes());
    out.extend_from_slice(b"OK {\"id\":");
    write_number(out, job.number);
    out.extend_from_slice(b",\"queue\":");
    json::write_string(out, &queue, Escapes::Html);
    out.extend_from_slice(b",\"name\":");
    json::write_string(out, job.name.unwrap_or(&queue), Escapes::Html);
    if !job.body.is_empty() {
        out.extend_from_slice(b",\"payload\":");
        views::write_as_value(out, job.body);
    }
    if job.failures > 0 {
        out.extend_from_slice(b",\"failures\":");
        write_number(out, job.failures.min(FAILURES_SHOWN_MAX));
    }
    out.extend_from_slice(b"}\n");
}

/// `OK {"queues":[{"name":"mail","ready":1,"delayed":0,"to_ack":0}],"metrics":{…}}`
pub(super) fn info(out: &mut Vec<u8>, queues: &[QueueView<'_>], metrics: Option<(u64, &Counters)>) {
    out.extend_from_slice(b"OK {\"queues\":[");
    for (at, queue) in queues.iter().enumerate() {
        out.extend_from_slice(if at == 0 { b"{\"name\":" } else { b",{\"name\":" });
        json::write_string(out, &views::text(queue.name.as_bytes()), Escapes::Html);
        let counts = &queue.counts;
        let counts = [("ready", counts.ready), ("delayed", counts.delayed), ("to_ack", counts.leased)];
        for (name, count) in counts {
            counted(out, name, count as u64);
        }
        out.push(b'}');
    }
    out.push(b']');
    if let Some((clients, counters)) = metrics {
        out.extend_from_slice(b",\"metrics\":{\"clients\":");
        write_number(out, clients);
        let Counters { enqueued, leased, completed, failed, dead, .. } = *counters;
        for (name, count) in
            [("pushed", enqueued), ("fetched", leased), ("acked", completed), ("nacked", failed), ("dead", dead)]
        {
            counted(out, name, count);
        }
        out.push(b'}');
    }
    out.extend_from_slice(b"}\n");
}

/// `,"name":count`
fn counted(out: &mut Vec<u8>, name: &str, count: u64) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
    write_number(out, count);
}

/// `OK {"ids":[1,2]}`
pub(super) fn grouped(out: &mut Vec<u8>, numbers: &[JobNumber]) {
    let Some((first, others)) = numbers.split_first() else { return ok(out) };
    out.extend_from_slice(b"OK {\"ids\":[");
    write_number(out, *first);
    for &number in others {
        out.push(b',');
        write_number(out, number);
    }
    out.extend_from_slice(b"]}\n");
}

/// How much of an unknown word is repeated to its sender.
const WORD_BYTES_MAX: usize = 255;

pub(super) fn unknown_verb(word: &[u8]) -> String {
    format!("unknown verb {}", views::text(&word[..word.len().min(WORD_BYTES_MAX)]))
}

pub(super) fn not_allowed(word: &[u8]) -> String {
    let word = word[..word.len().min(WORD_BYTES_MAX)].to_ascii_uppercase();
    format!("{} is not allowed in transaction.", views::text(&word))
}

pub(super) fn line_too_long(limits: &Limits) -> String {
    format!("line is longer than {} bytes", limits.line_bytes_max())
}

pub(super) fn refusal_text(refusal: Refusal, limits: &Limits) -> String {
    match refusal {
        Refusal::NoSuchJob | Refusal::NotHeld | Refusal::Finished => "task not acquired".to_owned(),
        Refusal::NoSuchPrevious => "invalid relative task position in blocked by".to_owned(),
        Refusal::TooManySteps => format!("transaction has more than {} messages", limits.group_steps_max),
        Refusal::TooManyNamed => format!("at most {} queues can be fetched from", limits.queues_named_max),
        Refusal::QueueNameTooLong => format!("queue name longer than {} bytes", limits.queue_name_bytes_max),
        Refusal::TooManyQueues => format!("there are {} queues already", limits.queues_max),
        Refusal::TooManyHeld => format!("at most {} tasks can be acquired at once", limits.held_max),
        Refusal::OutOfMemory => "no room for another task".to_owned(),
        Refusal::DiskFull => "no room on the disk".to_owned(),
        Refusal::Draining => "server is about to stop and takes no more tasks".to_owned(),
        Refusal::WrongState
        | Refusal::NoSuchQueue
        | Refusal::DuplicateUuid
        | Refusal::ReservedUuid
        | Refusal::NoSuchOrigin
        | Refusal::OriginOpen
        | Refusal::OriginNotClaimed
        | Refusal::OriginsClaimed
        | Refusal::LifetimeOver
        | Refusal::BodyUnfit
        | Refusal::InvalidStep => "refused".to_owned(),
    }
}
