//! Replies, as workq writes them.

use std::fmt;
use std::io::Write;

use jobyard_engine::{Counters, JobView, OwnTime, QueueView, Refusal, Reply, StateView, Uuid};

use super::fault::Fault;
use super::values::DAY_MS;
use crate::codec::{Context, Farewell};
use crate::dates::write_utc;
use crate::ids::write_uuid;
use crate::numbers::write_number;
use crate::options::Dialect;

/// Writes a reply of the engine.
pub(super) fn reply(reply: &Reply<'_>, dialect: Dialect, out: &mut Vec<u8>, context: &Context<'_>) {
    let default_lease_ms = context.limits.default_lease_ms;
    match reply {
        Reply::Enqueued { .. } | Reply::Done | Reply::Failed { .. } => out.extend_from_slice(b"+OK\r\n"),
        Reply::Leased { job, .. } => leased(job, dialect, out, default_lease_ms),
        Reply::NoJob | Reply::TimedOut => line(out, format_args!("-TIMEOUT")),
        Reply::Result { uuid, success, result } => finished(*uuid, *success, result, out),
        Reply::Job(job) => jobs(std::slice::from_ref(job), out, default_lease_ms),
        Reply::Jobs(list) => jobs(list, out, default_lease_ms),
        Reply::Queue(queue) => queues(std::slice::from_ref(queue), out),
        Reply::Queues { queues: list, .. } => queues(list, out),
        Reply::Server(counters) => server(counters, out, context),
        Reply::Refused(refusal) | Reply::GroupRefused { refusal, .. } => refused(*refusal, out),
        Reply::Grouped { .. } | Reply::Revived { .. } | Reply::LeaseEnding | Reply::Sum(_) | Reply::Origins(_) => {
            unreachable!("workq asks for no such thing: {reply:?}")
        }
    }
}

/// Writes why the server ends the connection.
pub(super) fn farewell(why: Farewell, out: &mut Vec<u8>) {
    line(out, format_args!("-SERVER-ERROR {}", why.text()));
}

fn refused(refusal: Refusal, out: &mut Vec<u8>) {
    match refusal {
        Refusal::NoSuchJob | Refusal::NoSuchQueue => line(out, format_args!("-NOT-FOUND")),
        Refusal::Finished => Fault::DuplicateResult.write(out),
        Refusal::DuplicateUuid => Fault::DuplicateJob.write(out),
        Refusal::ReservedUuid => Fault::Id.write(out),
        Refusal::LifetimeOver => Fault::Time.write(out),
        Refusal::QueueNameTooLong => Fault::Name.write(out),
        Refusal::TooManyNamed => Fault::TooManyNames.write(out),
        Refusal::TooManyQueues => line(out, format_args!("-SERVER-ERROR Too many queues")),
        Refusal::OutOfMemory => line(out, format_args!("-SERVER-ERROR Out of memory")),
        Refusal::DiskFull => line(out, format_args!("-SERVER-ERROR Disk full")),
        Refusal::Draining => line(out, format_args!("-SERVER-ERROR Draining")),
        Refusal::NotHeld
        | Refusal::WrongState
        | Refusal::TooManyHeld
        | Refusal::BodyUnfit
        | Refusal::NoSuchPrevious
        | Refusal::NoSuchOrigin
        | Refusal::OriginOpen
        | Refusal::OriginNotClaimed
        | Refusal::OriginsClaimed
        | Refusal::InvalidStep
        | Refusal::TooManySteps => unreachable!("workq asks for nothing that is refused so: {refusal:?}"),
    }
}

fn leased(job: &JobView<'_>, dialect: Dialect, out: &mut Vec<u8>, default_lease_ms: u64) {
    out.extend_from_slice(b"+OK 1\r\n");
    write_uuid(out, job.uuid);
    out.push(b' ');
    out.extend_from_slice(job.queue.as_bytes());
    if dialect == Dialect::Original {
        text(out, format_args!(" {}", ttr(job, default_lease_ms)));
    }
    out.push(b' ');
    write_number(out, job.body.len());
    out.extend_from_slice(b"\r\n");
    block(out, job.body);
}

fn finished(uuid: Uuid, success: bool, result: &[u8], out: &mut Vec<u8>) {
    line(out, format_args!("+OK 1"));
    line(out, format_args!("{uuid} {} {}", u8::from(success), result.len()));
    block(out, result);
}

fn jobs(list: &[JobView<'_>], out: &mut Vec<u8>, default_lease_ms: u64) {
    line(out, format_args!("+OK {}", list.len()));
    for job in list {
        job_keys(job, out, default_lease_ms);
    }
}

fn job_keys(job: &JobView<'_>, out: &mut Vec<u8>, default_lease_ms: u64) {
    let keys = if job.date_wall_ms.is_some() { 13 } else { 12 };
    line(out, format_args!("{} {keys}", job.uuid));
    out.extend_from_slice(b"name ");
    name_of_any(job.queue.as_bytes(), out);
    line(out, format_args!("ttr {}", ttr(job, default_lease_ms)));
    line(out, format_args!("ttl {}", job.lifetime_ms.unwrap_or(0)));
    line(out, format_args!("payload-size {}", job.body.len()));
    out.extend_from_slice(b"payload ");
    block(out, job.body);
    line(out, format_args!("max-attempts {}", job.attempts_max.unwrap_or(0).min(255)));
    line(out, format_args!("attempts {}", job.attempts));
    line(
        out,
        format_args!("max-fails {}", job.failures_allowed.map_or(0, |allowed| allowed.saturating_add(1).min(255))),
    );
    line(out, format_args!("fails {}", job.failures));
    let urgency = if crate::broken("protocols-priority-unsaid") { 0 } else { job.urgency };
    line(out, format_args!("priority {}", urgency.clamp(i32::MIN.into(), i32::MAX.into())));
    line(out, format_args!("state {}", state(job)));
    date(out, "created", job.created_wall_ms);
    if let Some(date_wall_ms) = job.date_wall_ms {
        date(out, "time", date_wall_ms);
    }
}

/// A queue's name, whoever named it: what could be taken for the end of the line is escaped.
fn name_of_any(name: &[u8], out: &mut Vec<u8>) {
    for &byte in name {
        match byte {
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\n' => out.extend_from_slice(b"\\n"),
            _ => out.push(byte),
        }
    }
    out.extend_from_slice(b"\r\n");
}

/// The time that a lease lasts, or the longest that can be said here.
fn ttr(job: &JobView<'_>, default_lease_ms: u64) -> u64 {
    let ttr = match job.own_time {
        OwnTime::Millis(ttr) => ttr,
        OwnTime::None | OwnTime::Unlimited => default_lease_ms,
    };
    ttr.min(DAY_MS)
}

fn state(job: &JobView<'_>) -> u8 {
    const NEW: u8 = 0;
    const COMPLETED: u8 = 1;
    const FAILED: u8 = 2;
    const PENDING: u8 = 3;
    const LEASED: u8 = 4;
    match job.state {
        StateView::Blocked | StateView::Delayed => NEW,
        StateView::Ready if job.attempts == 0 && job.failures == 0 => NEW,
        StateView::Ready => PENDING,
        StateView::Leased => LEASED,
        StateView::Done => COMPLETED,
        StateView::Failed | StateView::Buried => FAILED,
    }
}

fn queues(list: &[QueueView<'_>], out: &mut Vec<u8>) {
    line(out, format_args!("+OK {}", list.len()));
    for queue in list {
        out.extend_from_slice(queue.name.as_bytes());
        line(out, format_args!(" 2"));
        line(out, format_args!("ready-len {}", queue.counts.ready));
        line(out, format_args!("scheduled-len {}", queue.counts.delayed));
    }
}

fn server(counters: &Counters, out: &mut Vec<u8>, context: &Context<'_>) {
    line(out, format_args!("+OK 1"));
    line(out, format_args!("server 3"));
    line(out, format_args!("active-clients {}", context.clients));
    line(out, format_args!("evicted-jobs {}", counters.evicted));
    date(out, "started", context.started_wall_ms);
}

fn date(out: &mut Vec<u8>, key: &str, wall_ms: i64) {
    text(out, format_args!("{key} "));
    write_utc(out, wall_ms);
    out.extend_from_slice(b"\r\n");
}

fn line(out: &mut Vec<u8>, words: fmt::Arguments<'_>) {
    text(out, words);
    out.extend_from_slice(b"\r\n");
}

fn text(out: &mut Vec<u8>, words: fmt::Arguments<'_>) {
    out.write_fmt(words).expect("memory takes every write");
}

fn block(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use jobyard_engine::{LeaseId, Limits, QueueCounts, QueueName, Tally};

    use super::*;
    use crate::testing;

    const ID: &str = "6ba7b810-9dad-11d1-80b4-00c04fd430c4";
    const UUID: Uuid = Uuid(0x6ba7_b810_9dad_11d1_80b4_00c0_4fd4_30c4);
    const WALL_MS: i64 = 1_471_830_651_000;

    fn said(reply: &Reply<'_>, dialect: Dialect) -> String {
        let mut out = Vec::new();
        let limits = Limits::default();
        let context = Context { clients: 32, started_wall_ms: WALL_MS, ..testing::context(&limits) };
        super::reply(reply, dialect, &mut out, &context);
        String::from_utf8(out).unwrap()
    }

    fn view(queue: &QueueName) -> JobView<'_> {
        JobView {
            number: 1,
            uuid: UUID,
            queue,
            name: Some("a name that only masenko knows"),
            body: b"pi\r\nng",
            urgency: 0,
            own_time: OwnTime::Millis(1_000),
            lifetime_ms: Some(600_000),
            attempts: 0,
            attempts_max: None,
            failures: 0,
            failures_allowed: None,
            state: StateView::Ready,
            created_wall_ms: WALL_MS,
            date_wall_ms: None,
            delay_ms: 0,
            until: None,
            tally: Tally::default(),
        }
    }

    #[test]
    fn a_leased_job_is_written_in_each_dialect() {
        let queue = QueueName::new(b"ping");
        let reply = Reply::Leased { job: view(&queue), lease: LeaseId(1) };
        assert_eq!(said(&reply, Dialect::Document), format!("+OK 1\r\n{ID} ping 6\r\npi\r\nng\r\n"));
        assert_eq!(said(&reply, Dialect::Original), format!("+OK 1\r\n{ID} ping 1000 6\r\npi\r\nng\r\n"));
        let foreign = JobView { own_time: OwnTime::Unlimited, ..view(&queue) };
        let reply = Reply::Leased { job: foreign, lease: LeaseId(1) };
        assert_eq!(said(&reply, Dialect::Original), format!("+OK 1\r\n{ID} ping 60000 6\r\npi\r\nng\r\n"));
        let long = JobView { own_time: OwnTime::Millis(u64::from(u32::MAX) * 1_000), ..view(&queue) };
        let reply = Reply::Leased { job: long, lease: LeaseId(1) };
        assert_eq!(said(&reply, Dialect::Original), format!("+OK 1\r\n{ID} ping 86400000 6\r\npi\r\nng\r\n"));
    }

    #[test]
    fn a_job_is_shown_with_12_keys() {
        let queue = QueueName::new(b"ping");
        let expected = format!(
            "+OK 1\r\n{ID} 12\r\nname ping\r\nttr 1000\r\nttl 600000\r\npayload-size 6\r\npayload pi\r\nng\r\n\
             max-attempts 0\r\nattempts 0\r\nmax-fails 0\r\nfails 0\r\npriority 0\r\nstate 0\r\n\
             created 2016-08-22T01:50:51Z\r\n"
        );
        assert_eq!(said(&Reply::Job(view(&queue)), Dialect::Document), expected);
        assert_eq!(said(&Reply::Jobs(&[view(&queue)]), Dialect::Document), expected);
        assert_eq!(said(&Reply::Jobs(&[]), Dialect::Document), "+OK 0\r\n");
    }

    #[test]
    fn a_scheduled_job_is_shown_with_13_keys_and_a_foreign_one_as_well_as_can_be() {
        let queue = QueueName::new(b"a b\r\nstate 1");
        let foreign = JobView {
            body: b"",
            urgency: i128::from(i32::MAX) + 1,
            own_time: OwnTime::None,
            lifetime_ms: None,
            attempts: 300,
            attempts_max: Some(300),
            failures: 7,
            failures_allowed: Some(u64::MAX),
            date_wall_ms: Some(WALL_MS + 1_999),
            delay_ms: 0,
            ..view(&queue)
        };
        assert_eq!(
            said(&Reply::Job(foreign), Dialect::Document),
            format!(
                "+OK 1\r\n{ID} 13\r\nname a b\\r\\nstate 1\r\nttr 60000\r\nttl 0\r\npayload-size 0\r\npayload \r\n\
                 max-attempts 255\r\nattempts 300\r\nmax-fails 255\r\nfails 7\r\npriority 2147483647\r\nstate 3\r\n\
                 created 2016-08-22T01:50:51Z\r\ntime 2016-08-22T01:50:52Z\r\n"
            )
        );
    }

    #[test]
    fn states_are_numbers() {
        let queue = QueueName::new(b"ping");
        for (state, attempts, failures, number) in [
            (StateView::Ready, 0, 0, 0),
            (StateView::Ready, 1, 0, 3),
            (StateView::Ready, 0, 1, 3),
            (StateView::Leased, 1, 0, 4),
            (StateView::Done, 1, 0, 1),
            (StateView::Failed, 1, 1, 2),
            (StateView::Delayed, 1, 1, 0),
            (StateView::Blocked, 0, 0, 0),
        ] {
            let text = said(&Reply::Job(JobView { state, attempts, failures, ..view(&queue) }), Dialect::Document);
            assert!(text.contains(&format!("\r\nstate {number}\r\n")), "{state:?}: {text}");
        }
    }

    #[test]
    fn results_queues_and_the_server_are_written() {
        let result = Reply::Result { uuid: UUID, success: true, result: b"po\r\nng" };
        assert_eq!(said(&result, Dialect::Document), format!("+OK 1\r\n{ID} 1 6\r\npo\r\nng\r\n"));
        let failed = Reply::Result { uuid: UUID, success: false, result: b"" };
        assert_eq!(said(&failed, Dialect::Document), format!("+OK 1\r\n{ID} 0 0\r\n\r\n"));
        let name = QueueName::new(b"ping");
        let queue = QueueView::plain(&name, QueueCounts { ready: 3, delayed: 2, leased: 1, buried: 4 });
        let expected = "+OK 1\r\nping 2\r\nready-len 3\r\nscheduled-len 2\r\n";
        assert_eq!(said(&Reply::Queue(queue), Dialect::Document), expected);
        let list = Reply::Queues { queues: &[queue], counters: Counters::default() };
        assert_eq!(said(&list, Dialect::Document), expected);
        let counters = Counters { evicted: 9, ..Counters::default() };
        assert_eq!(
            said(&Reply::Server(counters), Dialect::Document),
            "+OK 1\r\nserver 3\r\nactive-clients 32\r\nevicted-jobs 9\r\nstarted 2016-08-22T01:50:51Z\r\n"
        );
    }

    #[test]
    fn short_replies_and_refusals_have_their_words() {
        for (reply, text) in [
            (Reply::Enqueued { number: 1, uuid: UUID }, "+OK"),
            (Reply::Done, "+OK"),
            (Reply::Failed { finally: true }, "+OK"),
            (Reply::Failed { finally: false }, "+OK"),
            (Reply::NoJob, "-TIMEOUT"),
            (Reply::TimedOut, "-TIMEOUT"),
            (Reply::Refused(Refusal::NoSuchJob), "-NOT-FOUND"),
            (Reply::Refused(Refusal::NoSuchQueue), "-NOT-FOUND"),
            (Reply::Refused(Refusal::Finished), "-CLIENT-ERROR Duplicate result"),
            (Reply::Refused(Refusal::DuplicateUuid), "-CLIENT-ERROR Duplicate job"),
            (Reply::Refused(Refusal::ReservedUuid), "-CLIENT-ERROR Invalid ID"),
            (Reply::Refused(Refusal::LifetimeOver), "-CLIENT-ERROR Invalid Time"),
            (Reply::Refused(Refusal::QueueNameTooLong), "-CLIENT-ERROR Invalid Name"),
            (Reply::Refused(Refusal::TooManyNamed), "-CLIENT-ERROR Too many names"),
            (Reply::Refused(Refusal::TooManyQueues), "-SERVER-ERROR Too many queues"),
            (Reply::Refused(Refusal::OutOfMemory), "-SERVER-ERROR Out of memory"),
            (Reply::Refused(Refusal::DiskFull), "-SERVER-ERROR Disk full"),
            (Reply::Refused(Refusal::Draining), "-SERVER-ERROR Draining"),
        ] {
            assert_eq!(said(&reply, Dialect::Document), format!("{text}\r\n"));
        }
    }
}
