//! Jobs, queues, leases, timers and waiting clients: the whole of the queue, as one value.
//!
//! Absent here: clocks, files, sockets, threads, async, and every protocol's words. Time and
//! randomness are arguments ([`Now`]). What each command means is in `docs/engine.md`.

mod admit;
mod apply;
mod attend;
mod bury;
mod bytes;
mod changes;
mod command;
mod compact;
mod delay;
mod engine;
mod enqueue;
mod fail;
mod finish;
mod group;
mod hash;
mod heed;
mod held;
mod index;
mod job;
mod jobs;
mod lease;
mod limits;
mod look;
mod names;
mod needs;
mod origin;
mod pause;
mod queue;
mod record;
mod record_job;
mod record_kept;
mod record_view;
mod reply;
mod results;
mod snapshot;
mod store;
mod stretch;
mod tick;
mod time;
mod timers;
mod waiting;

pub use admit::History;
pub use bytes::Damaged;
pub use changes::{Change, Stage, Why};
pub use command::{
    Again, AttemptRule, Backoff, Blocker, By, Choice, Command, DateRank, FailureRule, Hold, JobRef, LeaseRequest, Look,
    NewJob, OwnTime, Parting, QueueOrder, Role, Start, Step, UsedUp, Wait, Which,
};
pub use engine::{Answers, Engine, Written};
pub use hash::{ByNumber, NumberHasher};
pub use job::Due;
pub use limits::Limits;
pub use names::{ClientId, JobNumber, LeaseId, QueueName, Uuid};
pub use needs::Needs;
pub use record_view::{Field, LiveJob, LiveQueue, RECORD_KINDS, RecordView, records};
pub use reply::{
    Counters, JobView, Pause, QueueCounts, QueueTotals, QueueView, Refusal, Reply, StateView, Sum, Tally, URGENT,
};
pub use snapshot::{JobSnapshot, QueueSnapshot, Snapshot};
pub use time::{NEVER_MS, NextDeadline, Now};

/// Whether this is broken on purpose, for a test that must notice it.
#[cfg(not(feature = "breakages"))]
pub(crate) const fn broken(_what: &str) -> bool {
    false
}
#[cfg(feature = "breakages")]
pub(crate) use jobyard_breakage::broken;
