//! Counts what happened over all runs, so that a test that never comes to the point is noticed.

use std::collections::BTreeMap;

use jobyard_engine::{Due, NextDeadline, Reply, Snapshot};
use jobyard_sim::transitions::Transitions;

#[derive(Default)]
pub struct Tally {
    counts: BTreeMap<String, u64>,
    pub transitions: Transitions,
}

impl Tally {
    pub fn count(&mut self, what: impl Into<String>) {
        *self.counts.entry(what.into()).or_default() += 1;
    }

    pub fn count_jobs(&mut self, seen: &Snapshot, deadline: NextDeadline) {
        for job in &seen.jobs {
            let kind = match (job.held_by, job.delay_until) {
                (Some(_), _) => "held",
                (_, Some(Due::Wall(_))) => "for a date",
                (_, Some(Due::Engine(_))) => "for a time",
                (None, None) => "",
            };
            self.count(format!("job {:?} {kind}", job.state));
            self.count(format!("job rank {}", job.rank));
            if job.runs {
                self.count(format!("run job {:?} {kind}", job.state));
            }
        }
        if deadline.engine_ms.is_some() && deadline.wall_ms.is_some() {
            self.count("deadlines on both clocks");
        }
    }

    /// What of all that should happen has not.
    pub fn missing(&self) -> Vec<&'static str> {
        EXPECTED.iter().copied().filter(|what| !self.counts.contains_key(*what)).collect()
    }

    pub fn lines(&self) -> String {
        self.counts.iter().map(|(what, count)| format!("{count:>9} {what}\n")).collect()
    }
}

/// The name of a reply's kind.
pub fn reply_label(reply: &Reply<'_>) -> String {
    match reply {
        Reply::Enqueued { .. } => "Enqueued".into(),
        Reply::Leased { .. } => "Leased".into(),
        Reply::NoJob => "NoJob".into(),
        Reply::LeaseEnding => "LeaseEnding".into(),
        Reply::Done => "Done".into(),
        Reply::Revived { count } => format!("Revived({})", (*count).min(2)),
        Reply::Failed { finally } => format!("Failed({finally})"),
        Reply::Result { success, .. } => format!("Result({success})"),
        Reply::TimedOut => "TimedOut".into(),
        Reply::Grouped { .. } => "Grouped".into(),
        Reply::GroupRefused { refusal, .. } => format!("GroupRefused({refusal:?})"),
        Reply::Job(_) => "Job".into(),
        Reply::Jobs(_) => "Jobs".into(),
        Reply::Queue(_) => "Queue".into(),
        Reply::Queues { .. } => "Queues".into(),
        Reply::Server(_) => "Server".into(),
        Reply::Sum(_) => "Sum".into(),
        Reply::Origins(open) => format!("Origins({})", open.len().min(2)),
        Reply::Refused(refusal) => format!("Refused({refusal:?})"),
    }
}

const EXPECTED: &[&str] = &[
    "Enqueue: Enqueued",
    "Enqueue: Refused(DuplicateUuid)",
    "Enqueue: Refused(ReservedUuid)",
    "Enqueue: Refused(NoSuchPrevious)",
    "Enqueue: Refused(LifetimeOver)",
    "Enqueue: Refused(OriginOpen)",
    "Enqueue: Refused(QueueNameTooLong)",
    "Enqueue: Refused(TooManyQueues)",
    "Run: TimedOut",
    "Run: Refused(DuplicateUuid)",
    "Run, later: Result(true)",
    "Run, later: Result(false)",
    "Run, later: TimedOut",
    "Run, later: Refused(NoSuchJob)",
    "Lease: Leased",
    "Lease: NoJob",
    "Lease: LeaseEnding",
    "Lease: Refused(BodyUnfit)",
    "Lease: Refused(TooManyNamed)",
    "Lease: Refused(TooManyHeld)",
    "Lease: Refused(QueueNameTooLong)",
    "Lease: Refused(TooManyQueues)",
    "LeaseJob: Leased",
    "LeaseJob: Refused(NoSuchJob)",
    "LeaseJob: Refused(WrongState)",
    "LeaseJob: Refused(TooManyHeld)",
    "Lease, later: Leased",
    "Lease, later: NoJob",
    "Lease, later: LeaseEnding",
    "Lease, later: Refused(BodyUnfit)",
    "Complete: Done",
    "Complete: Refused(NoSuchJob)",
    "Complete: Refused(Finished)",
    "Complete: Refused(NotHeld)",
    "Fail: Failed(false)",
    "Fail: Failed(true)",
    "Fail: Refused(NoSuchJob)",
    "Fail: Refused(Finished)",
    "Fail: Refused(NotHeld)",
    "ClaimOrigins: Done",
    "ClaimOrigins: Refused(OriginsClaimed)",
    "Enqueue: Refused(OriginNotClaimed)",
    "Group: GroupRefused(OriginNotClaimed)",
    "CloseOrigin: Refused(OriginNotClaimed)",
    "CloseOrigin: Done",
    "CloseOrigin: Refused(NoSuchOrigin)",
    "Release: Done",
    "Release: Refused(NoSuchJob)",
    "Release: Refused(NotHeld)",
    "Bury: Done",
    "Bury: Refused(NoSuchJob)",
    "Bury: Refused(NotHeld)",
    "Revive: Revived(0)",
    "Revive: Revived(1)",
    "Revive: Revived(2)",
    "ReviveJob: Done",
    "ReviveJob: Refused(NoSuchJob)",
    "ReviveJob: Refused(WrongState)",
    "Extend: Done",
    "Extend: Refused(NoSuchJob)",
    "Extend: Refused(NotHeld)",
    "Attend: Done",
    "Attend: Refused(TooManyNamed)",
    "Attend: Refused(QueueNameTooLong)",
    "Attend: Refused(TooManyQueues)",
    "Leave: Done",
    "Pause: Done",
    "Pause: Refused(NoSuchQueue)",
    "Remove: Done",
    "Remove: Refused(NoSuchJob)",
    "Remove: Refused(NotHeld)",
    "Await: Result(true)",
    "Await: Result(false)",
    "Await: TimedOut",
    "Await: Refused(NoSuchJob)",
    "Await, later: Result(true)",
    "Await, later: Result(false)",
    "Await, later: TimedOut",
    "Await, later: Refused(NoSuchJob)",
    "Group: Grouped",
    "Group: GroupRefused(TooManySteps)",
    "Group: GroupRefused(InvalidStep)",
    "Group: GroupRefused(NotHeld)",
    "Group: GroupRefused(DuplicateUuid)",
    "Group: GroupRefused(ReservedUuid)",
    "Group: GroupRefused(NoSuchPrevious)",
    "Group: GroupRefused(LifetimeOver)",
    "Group: GroupRefused(OriginOpen)",
    "Group: GroupRefused(QueueNameTooLong)",
    "Group: GroupRefused(TooManyQueues)",
    "Look: Job",
    "Look: Jobs",
    "Look: Queue",
    "Look: Queues",
    "Look: Server",
    "Look: Sum",
    "Look: Origins(0)",
    "Look: Origins(1)",
    "Look: Origins(2)",
    "Look: Refused(NoSuchJob)",
    "Look: Refused(NoSuchQueue)",
    "job Blocked ",
    "job Delayed for a date",
    "job Delayed for a time",
    "job Ready ",
    "job Leased ",
    "job Leased held",
    "job Done ",
    "job Failed ",
    "job Buried ",
    "job rank 0",
    "job rank 1",
    "job rank 2",
    "run job Blocked ",
    "run job Delayed for a date",
    "run job Delayed for a time",
    "run job Ready ",
    "run job Buried ",
    "run job Leased ",
    "run job Leased held",
    "deadlines on both clocks",
    "stop_waiting: answered",
    "stop_waiting: nothing",
    "disconnect: waiting",
    "disconnect: holding",
    "disconnect: nothing",
    "undo_lease: held",
    "undo_lease: leased",
    "undo_lease: ignored",
    "tick: changes",
    "tick: some of it",
    "tick: nothing",
    "restart: held marks",
    "restart: leases",
    "restart: run jobs",
    "restart: from the rest",
    "restart: from the whole",
    "stretch: begun",
    "stretch: begun late",
    "stretch: dropped",
    "compact: whole",
    "compact: in part",
    "compact: nothing",
];
