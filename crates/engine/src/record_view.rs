//! Records laid open, for tools that show what is in a log.

use crate::bytes::{Damaged, Reader};
use crate::command::{Backoff, DateRank, FailureRule, OwnTime, UsedUp};
use crate::delay::Delay;
use crate::engine::Engine;
use crate::job::{Due, Rank, State};
use crate::names::{JobNumber, QueueName};
use crate::record::Record;
use crate::record_job::Enqueued;
use crate::record_kept::Kept;
use crate::reply::JobView;

/// One record, to be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordView {
    /// What happened: `enqueued`, `removed`, and so on.
    pub kind: &'static str,
    /// To which job, if to one.
    pub number: Option<JobNumber>,
    /// The queue that it names.
    pub queue: Option<QueueName>,
    /// What else it says, each with its name.
    pub fields: Vec<(&'static str, Field)>,
}

/// One thing that a record says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Field {
    /// A count, a time on engine time, an id.
    Number(u64),
    /// An urgency, or a date in milliseconds since 1970 UTC.
    Signed(i128),
    /// Yes or no.
    Flag(bool),
    /// One of a few words, a name, a UUID.
    Text(String),
    /// A body, a result, another queue's name.
    Bytes(Box<[u8]>),
    /// Numbers of jobs.
    Numbers(Vec<JobNumber>),
}

/// The records in bytes that [`Engine::records`] once gave, in order. After an error there is nothing more.
pub fn records(payload: &[u8]) -> impl Iterator<Item = Result<RecordView, Damaged>> + '_ {
    let mut reader = Reader(payload);
    std::iter::from_fn(move || {
        if reader.is_empty() {
            return None;
        }
        let record = Record::decode(&mut reader);
        if record.is_err() {
            reader = Reader(&[]);
        }
        Some(record.map(|record| RecordView::of(&record)))
    })
}

impl RecordView {
    fn of(record: &Record<'_>) -> Self {
        let mut view = RecordView { kind: kind(record), number: None, queue: None, fields: Vec::new() };
        match record {
            Record::QueueCreated { name, ordinal } => {
                view.queue = Some(QueueName::new(name));
                view.put("ordinal", Field::Number(*ordinal));
            }
            Record::Enqueued(enqueued) => view.put_enqueued(enqueued),
            Record::Kept(kept) => view.put_kept(kept),
            Record::Counters { next_number, next_place, next_ordinal } => {
                view.put("next_number", Field::Number(*next_number));
                view.put("next_place", Field::Number(*next_place));
                view.put("next_ordinal", Field::Number(*next_ordinal));
            }
            Record::Leased { number, lease, until_ms } => {
                view.number = Some(*number);
                view.put("lease", Field::Number(lease.0));
                view.put("until_ms", Field::Number(*until_ms));
            }
            Record::Done { number, expires_ms, result } | Record::Failed { number, expires_ms, result } => {
                view.number = Some(*number);
                view.put("expires_ms", Field::Number(*expires_ms));
                view.put("result", Field::Bytes(result.clone()));
            }
            Record::Counted { number }
            | Record::Undone { number }
            | Record::Removed { number }
            | Record::OriginClosed { number }
            | Record::Failure { number } => view.number = Some(*number),
            Record::BackedOff { number, until_ms, due_wall_ms, expires_ms } => {
                view.number = Some(*number);
                view.put("until_ms", Field::Number(*until_ms));
                view.put("due_wall_ms", Field::Signed((*due_wall_ms).into()));
                view.put_optional("expires_ms", *expires_ms);
            }
            Record::Rested { number, until_ms, shown_wall_ms } => {
                view.number = Some(*number);
                view.put("until_ms", Field::Number(*until_ms));
                view.put("shown_wall_ms", Field::Signed((*shown_wall_ms).into()));
            }
            Record::Released { number, urgency, delay } => {
                view.number = Some(*number);
                view.put("urgency", Field::Signed(*urgency));
                view.put_delay(*delay);
            }
            Record::Buried { number, urgency, order } => {
                view.number = Some(*number);
                view.put("urgency", Field::Signed(*urgency));
                view.put("order", Field::Number(*order));
            }
            Record::Moved { number, queue, place, expires_ms } => {
                view.number = Some(*number);
                view.queue = Some(QueueName::new(queue));
                view.put("place", Field::Number(*place));
                view.put_optional("expires_ms", *expires_ms);
            }
            Record::Woke { number, expires_ms } | Record::Revived { number, expires_ms } => {
                view.number = Some(*number);
                view.put_optional("expires_ms", *expires_ms);
            }
            Record::Unblocked { number, place, delayed, expires_ms } => {
                view.number = Some(*number);
                view.put("place", Field::Number(*place));
                view.put("delayed", Field::Flag(*delayed));
                view.put_optional("expires_ms", *expires_ms);
            }
        }
        view
    }

    fn put(&mut self, name: &'static str, field: Field) {
        self.fields.push((name, field));
    }

    fn put_text(&mut self, name: &'static str, text: impl Into<String>) {
        self.put(name, Field::Text(text.into()));
    }

    fn put_optional(&mut self, name: &'static str, number: Option<u64>) {
        if let Some(number) = number {
            self.put(name, Field::Number(number));
        }
    }

    fn put_delay(&mut self, delay: Option<Delay>) {
        if let Some(Delay { ms, until_ms, shown_wall_ms }) = delay {
            self.put("delay_ms", Field::Number(ms));
            if until_ms > 0 {
                self.put("until_ms", Field::Number(until_ms));
                self.put("shown_wall_ms", Field::Signed(shown_wall_ms.into()));
            }
        }
    }

    fn put_enqueued(&mut self, job: &Enqueued<'_>) {
        self.number = Some(job.number);
        self.queue = Some(QueueName::new(job.queue));
        self.put("place", Field::Number(job.place));
        self.put("created_wall_ms", Field::Signed(job.created_wall_ms.into()));
        self.put("body", Field::Bytes(job.body.clone()));
        if job.urgency != 0 {
            self.put("urgency", Field::Signed(job.urgency));
        }
        match job.own_time {
            OwnTime::None => {}
            OwnTime::Unlimited => self.put_text("own_time", "unlimited"),
            OwnTime::Millis(ms) => self.put("own_time_ms", Field::Number(ms)),
        }
        self.put_delay(job.delay);
        if let Some(origin) = &job.origin {
            self.put("origin", Field::Bytes(origin.clone()));
        }
        if let Some(uuid) = job.uuid {
            self.put_text("uuid", uuid.to_string());
        }
        if let Some(name) = &job.name {
            self.put_text("name", &**name);
        }
        self.put_optional("lifetime_ms", job.lifetime_ms);
        self.put_optional("expires_ms", job.expires_ms);
        if let Some(rule) = job.attempts {
            self.put("counts_attempts", Field::Flag(true));
            self.put_optional("attempts_max", rule.max.map(u64::from));
        }
        if let Some(rule) = &job.failures {
            self.put_failure_rule(rule);
        }
        if !job.blockers.is_empty() {
            self.put("blockers", Field::Numbers(job.blockers.clone()));
        }
        if let Some((wall_ms, rank)) = job.date {
            self.put("date_wall_ms", Field::Signed(wall_ms.into()));
            self.put_text("date_rank", if rank == DateRank::Ahead { "ahead" } else { "behind" });
            self.put("delayed", Field::Flag(job.delayed));
        }
        if job.runs {
            self.put("runs", Field::Flag(true));
        }
    }

    fn put_failure_rule(&mut self, rule: &FailureRule) {
        self.put_optional("failures_allowed", rule.allowed);
        self.put_text("backoff", if rule.backoff == Backoff::None { "none" } else { "quartic" });
        match &rule.used_up {
            UsedUp::Remove => self.put_text("used_up", "remove"),
            UsedUp::Keep => self.put_text("used_up", "keep"),
            UsedUp::MoveTo(queue) => {
                self.put_text("used_up", "move");
                self.put("move_to", Field::Bytes(queue.as_bytes().into()));
            }
        }
        self.put("parting_counts", Field::Flag(rule.parting_counts));
    }

    fn put_kept(&mut self, kept: &Kept<'_>) {
        self.put_enqueued(&kept.base);
        self.put_text("state", state_word(kept.state));
        match kept.state {
            State::Leased { lease, until_ms } => {
                self.put("lease", Field::Number(lease.0));
                self.put("until_ms", Field::Number(until_ms));
            }
            State::Delayed { due: Due::Engine(until_ms), shown_wall_ms } => {
                self.put("until_ms", Field::Number(until_ms));
                self.put("shown_wall_ms", Field::Signed(shown_wall_ms.into()));
            }
            State::Buried { order } => self.put("order", Field::Number(order)),
            _ => {}
        }
        self.put("attempts", Field::Number(kept.attempts));
        self.put("failures", Field::Number(kept.failures));
        if let Some(result) = &kept.result {
            self.put("result", Field::Bytes(result.clone()));
        }
        self.put_optional("expires_ms", kept.expires_ms);
        match kept.rank {
            Rank::Usual => {}
            Rank::Ahead(wall_ms) => self.put("ahead_wall_ms", Field::Signed(wall_ms.into())),
            Rank::Behind(wall_ms) => self.put("behind_wall_ms", Field::Signed(wall_ms.into())),
        }
    }
}

/// One name for each kind of record: whoever adds a kind must name it here, and then it is in the list.
macro_rules! kinds {
    ($($record:pat => $name:literal,)*) => {
        /// What the kinds of records are called.
        pub const RECORD_KINDS: &[&str] = &[$($name),*];

        fn kind(record: &Record<'_>) -> &'static str {
            match record {
                $($record => $name,)*
            }
        }
    };
}

kinds! {
    Record::QueueCreated { .. } => "queue_created",
    Record::Enqueued(_) => "enqueued",
    Record::Kept(_) => "kept",
    Record::Counters { .. } => "counters",
    Record::Leased { .. } => "leased",
    Record::Counted { .. } => "counted",
    Record::Undone { .. } => "undone",
    Record::Done { .. } => "done",
    Record::Failed { .. } => "failed",
    Record::Removed { .. } => "removed",
    Record::OriginClosed { .. } => "origin_closed",
    Record::Failure { .. } => "failure",
    Record::BackedOff { .. } => "backed_off",
    Record::Rested { .. } => "rested",
    Record::Released { .. } => "released",
    Record::Buried { .. } => "buried",
    Record::Revived { .. } => "revived",
    Record::Moved { .. } => "moved",
    Record::Woke { .. } => "woke",
    Record::Unblocked { .. } => "unblocked",
}

fn state_word(state: State) -> &'static str {
    match state {
        State::Blocked => "blocked",
        State::Delayed { .. } => "delayed",
        State::Ready | State::Held { .. } => "ready",
        State::Leased { .. } => "leased",
        State::Done => "done",
        State::Failed => "failed",
        State::Buried { .. } => "buried",
    }
}

/// A job that lives, and what of the log it needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveJob<'a> {
    /// The job as it is shown.
    pub job: JobView<'a>,
    /// What came of it, if it is finished.
    pub result: Option<&'a [u8]>,
    /// What its full record takes.
    pub record_bytes: u64,
    /// In which stretch its newest full record is: 0 is the oldest there is.
    pub stretch: usize,
}

/// A queue that exists, and what of the log it needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveQueue<'a> {
    /// Its name.
    pub name: &'a QueueName,
    /// How many jobs are in it, in any state.
    pub jobs: usize,
    /// What its record takes.
    pub record_bytes: u64,
    /// In which stretch its newest record is: 0 is the oldest there is.
    pub stretch: usize,
}

impl Engine {
    /// All jobs, in no order.
    pub fn live_jobs(&self) -> impl Iterator<Item = LiveJob<'_>> {
        self.store.jobs.iter().map(|job| {
            let job_view = self.view(job);
            LiveJob {
                result: job.rare.as_ref().and_then(|rare| rare.result.as_deref()),
                record_bytes: job.record_bytes(),
                stretch: self.store.stretches.since_oldest(job.stretch),
                job: job_view,
            }
        })
    }

    /// All queues, the oldest first.
    pub fn live_queues(&self) -> impl Iterator<Item = LiveQueue<'_>> {
        self.store.queues.by_age().filter(|queue| queue.is_kept).map(|queue| LiveQueue {
            name: &queue.name,
            jobs: queue.jobs,
            record_bytes: queue.record_bytes(),
            stretch: self.store.stretches.since_oldest(queue.stretch),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;
    use crate::record::samples::one_of_each;

    /// A view in one line.
    fn line(view: &RecordView) -> String {
        let mut line = view.kind.to_owned();
        let number = view.number.map(|number| ("number", Field::Number(number)));
        let queue = view.queue.as_ref().map(|queue| ("queue", Field::Bytes(queue.as_bytes().into())));
        for (name, field) in number.iter().chain(&queue).chain(&view.fields) {
            let shown = match field {
                Field::Number(number) => number.to_string(),
                Field::Signed(number) => format!("{number:+}"),
                Field::Flag(flag) => flag.to_string(),
                Field::Text(text) => text.clone(),
                Field::Bytes(bytes) => format!("'{}'", bytes.escape_ascii()),
                Field::Numbers(numbers) => format!("{numbers:?}"),
            };
            write!(line, " {name}={shown}").expect("a text takes all");
        }
        line
    }

    #[test]
    fn every_record_is_shown_with_all_that_it_says() {
        let mut bytes = Vec::new();
        one_of_each().iter().for_each(|record| record.encode(&mut bytes));
        let shown = records(&bytes).map(|view| line(&view.expect("it is whole")));
        let expected = include_str!("record/samples.txt").lines();
        assert_eq!(shown.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    }

    #[test]
    fn behind_a_damaged_record_nothing_is_shown() {
        let mut bytes = Vec::new();
        Record::Removed { number: 1 }.encode(&mut bytes);
        bytes.push(0xff);
        Record::Removed { number: 2 }.encode(&mut bytes);
        let shown: Vec<_> = records(&bytes).collect();
        assert_eq!(shown.len(), 2);
        assert_eq!((shown[0].as_ref().map(line), &shown[1]), (Ok("removed number=1".to_owned()), &Err(Damaged)));
    }
}
