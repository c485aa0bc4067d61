//! What the engine answers, in no protocol's words. Replies borrow from the engine: a codec writes
//! them out at once.

use crate::command::OwnTime;
use crate::job::Due;
use crate::names::{JobNumber, LeaseId, QueueName, Uuid};

/// The answer to one command. Each command gets exactly one, at once or after a wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    /// A job was put.
    Enqueued {
        /// Its number.
        number: JobNumber,
        /// Its UUID: the client's own, or made from the number.
        uuid: Uuid,
    },
    /// A job was taken.
    Leased {
        /// The job, as it is now that it is leased.
        job: JobView<'a>,
        /// The lease.
        lease: LeaseId,
    },
    /// There is no job to take, or none came in time.
    NoJob,
    /// There is no job to take, and the time of one that the asker holds is nearly over.
    LeaseEnding,
    /// It was completed, released, buried, revived, extended or removed; a queue was paused, attended or left; origins were
    /// claimed, or one closed.
    Done,
    /// Jobs of a queue were revived.
    Revived {
        /// How many.
        count: usize,
    },
    /// It was failed.
    Failed {
        /// Whether its failures or attempts are used up.
        finally: bool,
    },
    /// A finished job's result.
    Result {
        /// The job's UUID.
        uuid: Uuid,
        /// Whether it was completed, not failed.
        success: bool,
        /// What came of it.
        result: &'a [u8],
    },
    /// The result did not come in time.
    TimedOut,
    /// All steps of a group were carried out.
    Grouped {
        /// The jobs that were put, in order.
        numbers: &'a [JobNumber],
    },
    /// A group was refused at a step; nothing was changed.
    GroupRefused {
        /// Which step, from 0.
        step: usize,
        /// Why.
        refusal: Refusal,
    },
    /// One job.
    Job(JobView<'a>),
    /// Jobs of a queue.
    Jobs(&'a [JobView<'a>]),
    /// A queue's counts.
    Queue(QueueView<'a>),
    /// Queues and their counts, and the server's counters at the same moment.
    Queues {
        /// The queues asked for.
        queues: &'a [QueueView<'a>],
        /// What [`Reply::Server`] would say.
        counters: Counters,
    },
    /// The server's counters since its start.
    Server(Counters),
    /// All queues together, and the server's counters at the same moment.
    Sum(Sum),
    /// Origins that are open.
    Origins(&'a [&'a [u8]]),
    /// Nothing was changed, and why.
    Refused(Refusal),
}

/// Why something was not done. It carries no text: each codec chooses its own words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No job is called that (in that queue).
    NoSuchJob,
    /// The job exists, but the asker does not hold it.
    NotHeld,
    /// The job has its result already.
    Finished,
    /// The job is in a state in which that cannot be done.
    WrongState,
    /// No queue is called that.
    NoSuchQueue,
    /// No origin that is open is called that.
    NoSuchOrigin,
    /// A job came from that origin, which is open.
    OriginOpen,
    /// The asker has not claimed that origin.
    OriginNotClaimed,
    /// Another client has claimed some of these origins.
    OriginsClaimed,
    /// A living job has that UUID.
    DuplicateUuid,
    /// The UUID looks like one made from a number, and no such job lives.
    ReservedUuid,
    /// The job's whole lifetime is in the past.
    LifetimeOver,
    /// The next job's body cannot be carried by its taker.
    BodyUnfit,
    /// A blocker names no earlier enqueue of its group.
    NoSuchPrevious,
    /// The codec could not make sense of a step.
    InvalidStep,
    /// More steps than a group may have.
    TooManySteps,
    /// A new queue's name is longer than it may be.
    QueueNameTooLong,
    /// More queues named than a command may.
    TooManyNamed,
    /// More queues than the server may have.
    TooManyQueues,
    /// More jobs held than a client may.
    TooManyHeld,
    /// No memory is left for another job.
    OutOfMemory,
    /// There is no room on the disk for what would have to be written.
    DiskFull,
    /// The server takes no more jobs: it is about to stop.
    Draining,
}

/// A job as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobView<'a> {
    /// Its number.
    pub number: JobNumber,
    /// Its UUID.
    pub uuid: Uuid,
    /// Its queue.
    pub queue: &'a QueueName,
    /// Its own name, if it has one.
    pub name: Option<&'a str>,
    /// What it says.
    pub body: &'a [u8],
    /// Higher is taken first.
    pub urgency: i128,
    /// How long a lease of it lasts, by its own rule.
    pub own_time: OwnTime,
    /// How long it lives, if that is limited.
    pub lifetime_ms: Option<u64>,
    /// How often it was leased, if it counts that; else 0.
    pub attempts: u64,
    /// How often it may be leased, if that is limited.
    pub attempts_max: Option<u32>,
    /// How often it failed.
    pub failures: u64,
    /// How many failures it survives, if it was put with such a rule.
    pub failures_allowed: Option<u64>,
    /// Where it stands.
    pub state: StateView,
    /// When it was put, on the wall clock.
    pub created_wall_ms: i64,
    /// The date it was put for, if any.
    pub date_wall_ms: Option<i64>,
    /// How long it was to wait when it was put, or last released.
    pub delay_ms: u64,
    /// When its lease or its delay ends by itself, if it does.
    pub until: Option<Due>,
    /// What happened to it since the server's start.
    pub tally: Tally,
}

/// How often something happened to a job since the server's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// It was leased.
    pub leases: u32,
    /// The time of a lease was over.
    pub timeouts: u32,
    /// It was put back by who held it.
    pub releases: u32,
    /// It was buried.
    pub burials: u32,
    /// It was revived.
    pub revivals: u32,
}

/// Where a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StateView {
    /// Until its blockers are done.
    Blocked,
    /// Until a time.
    Delayed,
    /// Waiting to be taken.
    Ready,
    /// Taken.
    Leased,
    /// Completed; its result is kept.
    Done,
    /// Finally failed; its result is kept.
    Failed,
    /// Put aside until someone revives it.
    Buried,
}

/// A queue as it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueView<'a> {
    /// Its name.
    pub name: &'a QueueName,
    /// Its counts.
    pub counts: QueueCounts,
    /// How many of the ready ones have an urgency of at least [`URGENT`].
    pub urgent: usize,
    /// Whether it is paused.
    pub pause: Option<Pause>,
    /// Clients that put jobs there.
    pub putters: usize,
    /// Clients that take jobs from there.
    pub takers: usize,
    /// Clients that wait for a job of it.
    pub waiting: usize,
    /// What happened since it came to exist, or since the server's start.
    pub totals: QueueTotals,
}

/// From this urgency on a job counts as urgent.
pub const URGENT: i128 = -1_023;

/// What happened in a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueTotals {
    /// Jobs put.
    pub enqueued: u64,
    /// Jobs removed because somebody asked for it.
    pub removed: u64,
    /// Pauses.
    pub pauses: u64,
}

impl<'a> QueueView<'a> {
    /// A queue that has these counts and is as usual otherwise.
    #[must_use]
    pub fn plain(name: &'a QueueName, counts: QueueCounts) -> Self {
        let totals = QueueTotals::default();
        QueueView { name, counts, urgent: 0, pause: None, putters: 0, takers: 0, waiting: 0, totals }
    }
}

/// A while in which nobody is given a job of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// For so long, as it was asked for.
    pub ms: u64,
    /// Until then, on engine time.
    pub until_ms: u64,
}

/// How many jobs of a queue stand where. Blocked and finished ones are in no queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounts {
    /// Waiting to be taken.
    pub ready: usize,
    /// Waiting for a time.
    pub delayed: usize,
    /// Taken.
    pub leased: usize,
    /// Put aside.
    pub buried: usize,
}

/// All queues together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// How many queues there are.
    pub queues: usize,
    /// Their counts.
    pub counts: QueueCounts,
    /// How many of the ready jobs have an urgency of at least [`URGENT`].
    pub urgent: usize,
    /// Clients that wait for a job.
    pub waiting: usize,
    /// Clients that attend a queue and have put a job.
    pub producers: usize,
    /// Clients that attend a queue and have asked for the next job of one, or taken one by name.
    pub workers: usize,
    /// What [`Reply::Server`] would say.
    pub counters: Counters,
}

/// What happened since the server's start, over all protocols.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Jobs put.
    pub enqueued: u64,
    /// Leases given.
    pub leased: u64,
    /// Jobs completed.
    pub completed: u64,
    /// Failures counted.
    pub failed: u64,
    /// Jobs whose attempts or failures were used up, or that a blocker's final failure took along.
    pub dead: u64,
    /// Unfinished jobs whose lifetime ended.
    pub evicted: u64,
    /// Leases whose time was over.
    pub timed_out: u64,
}
