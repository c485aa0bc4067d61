//! Everything about an engine that can be seen from outside, as plain values that can be compared.

use jobyard_engine::{ClientId, JobNumber, LeaseId, OwnTime, QueueCounts, QueueName, StateView, Uuid};

/// All of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// All living jobs, by number.
    pub jobs: Vec<JobSnapshot>,
    /// All queues, the oldest first.
    pub queues: Vec<QueueSnapshot>,
    /// Clients that wait, in the order in which they began.
    pub waiting: Vec<ClientId>,
}

/// One job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobSnapshot {
    /// Its number.
    pub number: JobNumber,
    /// Its UUID.
    pub uuid: Uuid,
    /// Its queue.
    pub queue: QueueName,
    /// Its own name.
    pub name: Option<String>,
    /// What it says.
    pub body: Vec<u8>,
    /// Higher is taken first.
    pub urgency: i128,
    /// How long a lease of it lasts, by its own rule.
    pub own_time: OwnTime,
    /// How long it lives.
    pub lifetime_ms: Option<u64>,
    /// Leases counted.
    pub attempts: u64,
    /// Leases allowed.
    pub attempts_max: Option<u32>,
    /// Failures counted.
    pub failures: u64,
    /// Failures it survives.
    pub failures_allowed: Option<u64>,
    /// Where it stands; held is leased.
    pub state: StateView,
    /// Its lease, durable or held.
    pub lease: Option<LeaseId>,
    /// When that lease ends, if it does.
    pub lease_until_ms: Option<u64>,
    /// Who holds it, if it is held.
    pub held_by: Option<ClientId>,
    /// Until when it is delayed.
    pub delay_until: Option<Due>,
    /// When it expires, if that is known and will come.
    pub expires_ms: Option<u64>,
    /// 0 ahead, 1 usual, 2 behind.
    pub rank: u8,
    /// The date that orders it within ranks 0 and 2; 0 for rank 1.
    pub due_wall_ms: i64,
    /// Its place; 0 if it never had one.
    pub place: u64,
    /// Unfinished blockers, by number.
    pub blockers: Vec<JobNumber>,
    /// Its result, once it is finished.
    pub result: Option<Vec<u8>>,
    /// When it was put.
    pub created_wall_ms: i64,
    /// The date it was put for.
    pub date_wall_ms: Option<i64>,
    /// Whether it ends with the client that runs it.
    pub runs: bool,
}

/// A moment, and on which clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// On engine time.
    Engine(u64),
    /// On the wall clock.
    Wall(i64),
}

/// One queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueSnapshot {
    /// Its name.
    pub name: QueueName,
    /// Its ready jobs, in the order in which they would be leased.
    pub ready: Vec<JobNumber>,
    /// Its counts.
    pub counts: QueueCounts,
}
