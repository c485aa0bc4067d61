//! What can be asked of the engine, in no protocol's words.

use crate::names::{JobNumber, QueueName, Uuid};

/// One request of one client.
#[derive(Clone, Debug)]
pub enum Command {
    /// Put a job into its queue.
    Enqueue(Box<NewJob>),
    /// The client has to do with a queue from now on, which exists at least as long.
    Attend {
        /// The queue.
        queue: QueueName,
        /// In which way.
        role: Role,
        /// Whether the queue exists from now on for ever.
        keeps_queue: bool,
    },
    /// The client no longer takes jobs of a queue.
    Leave {
        /// The queue.
        queue: QueueName,
    },
    /// Put a job into its queue, wait for its result, then forget it.
    Run {
        /// The job. It ends with its client.
        job: Box<NewJob>,
        /// How long it may go unleased.
        wait_ms: u64,
    },
    /// Take a job.
    Lease(Box<LeaseRequest>),
    /// Take this job, which is ready, delayed or buried.
    LeaseJob {
        /// Which job.
        job: JobRef,
        /// How long it is taken for.
        hold: Hold,
    },
    /// A job was done.
    Complete {
        /// Which job.
        job: JobRef,
        /// Who may say so.
        by: By,
        /// What came of it; kept while the job's lifetime lasts.
        result: Box<[u8]>,
    },
    /// A job was tried and not done: its own rules say what then.
    Fail {
        /// Which job.
        job: JobRef,
        /// Who may say so.
        by: By,
        /// What came of it; kept if this was the last failure and the job stays.
        result: Box<[u8]>,
    },
    /// Put a held job back. Only its holder may.
    Release {
        /// Which job.
        job: JobRef,
        /// What is to change; else it is ready at once, in its old place.
        again: Option<Again>,
    },
    /// Put a held job aside until it is revived. Only its holder may.
    Bury {
        /// Which job.
        job: JobRef,
        /// Its urgency from now on.
        urgency: i128,
    },
    /// Let buried jobs of a queue be taken again; if it has none, delayed ones.
    Revive {
        /// The queue.
        queue: QueueName,
        /// How many at most.
        count_max: usize,
    },
    /// Let a buried or delayed job be taken again.
    ReviveJob {
        /// Which job.
        job: JobRef,
    },
    /// Let a lease begin anew. Only the job's holder may.
    Extend {
        /// Which job.
        job: JobRef,
    },
    /// For a while nobody is given a job of a queue; only who names a job gets it. A pause that goes on ends.
    Pause {
        /// The queue; refused if it does not exist.
        queue: QueueName,
        /// For so long; 0 only ends what goes on.
        pause_ms: u64,
    },
    /// Remove a job in any state, with its result.
    Remove {
        /// Which job.
        job: JobRef,
        /// Who may.
        by: By,
    },
    /// Ask for a job's result, waiting for it if it is not finished.
    Await {
        /// Which job.
        job: JobRef,
        /// How long to wait.
        wait_ms: u64,
    },
    /// The client brings jobs from origins that begin so, until it is gone or claims others; nobody else may meanwhile.
    ClaimOrigins {
        /// How they begin.
        beginning: Box<[u8]>,
    },
    /// Where a job came from no longer has it: see [`NewJob::origin`].
    CloseOrigin {
        /// As it was said when the job was put.
        origin: Box<[u8]>,
    },
    /// Carry out all steps or none.
    Group(Vec<Step>),
    /// Look, and change nothing.
    Look(Look),
}

impl Command {
    /// Whether carrying this out would add a job.
    #[must_use]
    pub fn enqueues(&self) -> bool {
        match self {
            Command::Enqueue(_) | Command::Run { .. } => true,
            Command::Group(steps) => steps.iter().any(|step| matches!(step, Step::Enqueue(_))),
            _ => false,
        }
    }

    /// What it is called here.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Command::Enqueue(_) => "Enqueue",
            Command::Run { .. } => "Run",
            Command::Lease(_) => "Lease",
            Command::LeaseJob { .. } => "LeaseJob",
            Command::Complete { .. } => "Complete",
            Command::Fail { .. } => "Fail",
            Command::Release { .. } => "Release",
            Command::Bury { .. } => "Bury",
            Command::Revive { .. } => "Revive",
            Command::ReviveJob { .. } => "ReviveJob",
            Command::Extend { .. } => "Extend",
            Command::Attend { .. } => "Attend",
            Command::Leave { .. } => "Leave",
            Command::Pause { .. } => "Pause",
            Command::Remove { .. } => "Remove",
            Command::Await { .. } => "Await",
            Command::ClaimOrigins { .. } => "ClaimOrigins",
            Command::CloseOrigin { .. } => "CloseOrigin",
            Command::Group(_) => "Group",
            Command::Look(_) => "Look",
        }
    }
}

/// A question.
#[derive(Clone, Debug)]
pub enum Look {
    /// One job.
    Job(JobRef),
    /// Some jobs of a queue.
    Jobs {
        /// The queue; refused if it does not exist.
        queue: QueueName,
        /// Which of them.
        which: Which,
        /// How many to pass over.
        offset: usize,
        /// How many to show at most.
        count_max: usize,
    },
    /// One queue's counts; refused if it does not exist.
    Queue(QueueName),
    /// Some queues and their counts.
    Queues {
        /// In which order.
        order: QueueOrder,
        /// Queues whose name this denies are passed over.
        nameable: fn(&[u8]) -> bool,
        /// How many to pass over.
        offset: usize,
        /// How many to show at most.
        count_max: usize,
    },
    /// The server's counters.
    Server,
    /// All queues together.
    Sum,
    /// Some of the origins that are open, by their bytes.
    Origins {
        /// Those behind this one.
        after: Box<[u8]>,
        /// How many to show at most.
        count_max: usize,
    },
}

/// Which jobs of a queue to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// Those that are ready, in the order in which they would be leased.
    Ready,
    /// Those that are delayed, the more urgent first, then in the order of the dates that they are shown with.
    Delayed,
    /// Those that are delayed, in the order in which they fall due.
    Due,
    /// Those that are buried, in the order in which they were.
    Buried,
}

/// In which order to list queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueOrder {
    /// The oldest first.
    Created,
    /// By the bytes of their names.
    Name,
}

/// A job to be put, with the rules it carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewJob {
    /// Where it goes.
    pub queue: QueueName,
    /// What it says.
    pub body: Box<[u8]>,
    /// Higher is taken first; 0 is neutral.
    pub urgency: i128,
    /// The client's own UUID, if it gave one.
    pub uuid: Option<Uuid>,
    /// A name beside the queue's.
    pub name: Option<Box<str>>,
    /// How long a lease of it lasts, by its own rule.
    pub own_time: OwnTime,
    /// When it may first be taken.
    pub start: Start,
    /// How long it lives, in any state, from its start. Its result is kept as long.
    pub lifetime_ms: Option<u64>,
    /// Whether its leases are counted, and how many it may have.
    pub attempts: Option<AttemptRule>,
    /// What a failure means to it. Without: it is ready again at once.
    pub failures: Option<FailureRule>,
    /// Jobs that must be completed before this one may be taken. Unknown ones are ignored.
    pub blockers: Vec<Blocker>,
    /// Whether its queue exists from now on for ever; else as long as it has a job, or somebody attends it.
    pub keeps_queue: bool,
    /// Where it was before, if it still may be there too. It is open until it is closed, also when the job is long gone, and
    /// no job comes from an origin that is open.
    pub origin: Option<Box<[u8]>>,
}

impl NewJob {
    /// A job with no rules.
    #[must_use]
    pub fn plain(queue: QueueName, body: Box<[u8]>) -> Self {
        NewJob {
            queue,
            body,
            urgency: 0,
            uuid: None,
            name: None,
            own_time: OwnTime::None,
            start: Start::Now,
            lifetime_ms: None,
            attempts: None,
            failures: None,
            blockers: Vec::new(),
            keeps_queue: true,
            origin: None,
        }
    }
}

/// How long a lease of a job lasts, by the job's own rule. It binds every taker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnTime {
    /// It has no such rule: the taker's holds.
    None,
    /// It asked for a lease without end, which a taker may honour (see [`Hold::Timed`]).
    Unlimited,
    /// So long.
    Millis(u64),
}

/// What a client has to do with a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It puts jobs there. A client puts jobs into one queue; who attends another leaves the one before.
    Putter,
    /// It takes jobs from there, and from others.
    Taker,
    /// Both.
    Both,
}

impl Role {
    /// Whether it puts jobs there.
    #[must_use]
    pub fn puts(self) -> bool {
        matches!(self, Role::Putter | Role::Both)
    }

    /// Whether it takes jobs from there.
    #[must_use]
    pub fn takes(self) -> bool {
        matches!(self, Role::Taker | Role::Both)
    }
}

/// How a job is put back that is to be another than before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Again {
    /// Its urgency from now on.
    pub urgency: i128,
    /// For so long it cannot be taken.
    pub delay_ms: u64,
}

/// When a job may first be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// At once.
    Now,
    /// After so many milliseconds, which begin when nothing blocks it.
    After(u64),
    /// When someone revives it; at once if it is blocked first.
    Buried,
    /// Not before a date of the wall clock.
    At {
        /// The date, milliseconds since 1970 UTC.
        wall_ms: i64,
        /// Where it stands among jobs of its urgency once the date has come.
        rank: DateRank,
    },
}

/// Where a job whose date has come stands among those of its urgency. Equals are ordered by date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DateRank {
    /// Before those that never waited for a date.
    Ahead,
    /// After them.
    Behind,
}

/// How often a job may be leased.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptRule {
    /// So many leases, each counted when it begins; `None` is no limit.
    pub max: Option<u32>,
}

/// What a failure means to a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailureRule {
    /// Failures it survives; `None` means that none was asked for, which is none.
    pub allowed: Option<u64>,
    /// How long it rests after one it survived.
    pub backoff: Backoff,
    /// What happens after the last.
    pub used_up: UsedUp,
    /// Whether losing a holder whose hold says [`Parting::Fail`] counts.
    pub parting_counts: bool,
}

/// How long a job rests after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backoff {
    /// Not at all; it keeps its place.
    None,
    /// The n-th failure: to the whole second of the wall clock, n⁴ seconds on.
    /// Then it stands ahead of those of its urgency that never waited, by due time.
    Quartic,
}

/// What happens to a job whose attempts or failures are used up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UsedUp {
    /// It is removed.
    Remove,
    /// It goes to the back of this queue, ready at once, its failures forgotten, and is removed next time.
    MoveTo(QueueName),
    /// It stays as failed, with its result, until its lifetime ends.
    Keep,
}

/// A job that must be completed first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocker {
    /// By number; ignored if there is no such job, or it is finished.
    Number(JobNumber),
    /// The n-th previous enqueue of the same group, from 1. Outside a group, or with no such
    /// enqueue, it is refused.
    Previous(usize),
}

/// How a job is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobRef {
    /// By number.
    Number(JobNumber),
    /// By UUID.
    Uuid(Uuid),
    /// By UUID, and it must be in this queue.
    InQueue(Uuid, QueueName),
}

/// Who may finish a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Anyone, whether or not it is leased.
    Anyone,
    /// Only the client that holds it.
    Holder,
    /// The client that holds it, or anyone while it is not taken.
    HolderOrNobody,
}

/// How to take a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseRequest {
    /// Where to look.
    pub queues: Vec<QueueName>,
    /// How to choose among them.
    pub choice: Choice,
    /// How long it is taken for.
    pub hold: Hold,
    /// How long to wait if there is none.
    pub wait: Wait,
    /// Whether the queues come to exist by being named.
    pub creates_queues: bool,
    /// A byte that the body must not hold: a job that does is refused and stays where it is.
    pub body_without: Option<u8>,
    /// Whoever would wait is told instead when a job that it holds has no more than so long left.
    pub heeds_ms: Option<u64>,
}

/// How to choose among several queues that have a ready job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The first job in order over all of them.
    Best,
    /// The first queue in the order given.
    InOrder,
    /// Each queue with the same chance.
    Random,
}

/// What ends a lease, beside completing, failing, releasing or removing the job.
/// A job's own time, if it has one, ends it too, whatever the taker asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// The end of the taker's connection.
    Connection(Parting),
    /// The end of the taker's connection, and a time: the job's own, or the default.
    ConnectionTimed(Parting),
    /// A time, which outlives the connection: the job's own, or the default.
    Timed {
        /// Whether a job that asked for a lease without end gets one; else it gets the default.
        honours_unlimited: bool,
    },
    /// This time, which outlives the connection.
    For(u64),
    /// Nothing.
    Endless,
}

impl Hold {
    /// What the end of the taker's connection means, if it ends the lease.
    #[must_use]
    pub fn parting(self) -> Option<Parting> {
        match self {
            Hold::Connection(parting) | Hold::ConnectionTimed(parting) => Some(parting),
            Hold::Timed { .. } | Hold::For(_) | Hold::Endless => None,
        }
    }
}

/// What it means when the connection that holds a job ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parting {
    /// The job is put back.
    Release,
    /// The job failed, if its rules count that; else it is put back, after a rest if it has no rules.
    Fail,
}

/// How long a client waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Not at all.
    No,
    /// So long.
    Millis(u64),
    /// Until there is a job.
    Forever,
}

/// One part of a [`Command::Group`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Put a job.
    Enqueue(Box<NewJob>),
    /// A job that the client holds was done.
    Complete(JobRef),
    /// A step that the codec could not make sense of: the group is refused here, unless an earlier
    /// step is refused first.
    Invalid,
}
