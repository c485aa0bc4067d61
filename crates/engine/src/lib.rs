//! Jobs, queues, leases, timers and waiting clients: the whole of the queue, as one value.
//!
//! Absent here: clocks, files, sockets, threads, async, and every protocol's words. Time and
//! randomness are arguments ([`Now`]).

mod command;
mod limits;
mod names;
mod reply;
mod time;

pub use command::{
    AttemptRule, Backoff, Blocker, By, Choice, Command, DateRank, FailureRule, Hold, JobRef, LeaseRequest, Look,
    NewJob, OwnTime, Parting, QueueOrder, Start, Step, UsedUp, Wait, Which,
};
pub use limits::Limits;
pub use names::{ClientId, JobNumber, LeaseId, QueueName, Uuid};
pub use reply::{Counters, JobView, QueueCounts, QueueView, Refusal, Reply, StateView};
pub use time::{NEVER_MS, NextDeadline, Now};
