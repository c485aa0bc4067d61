//! The seam: what the broker asks of a log, wherever it is kept.

use std::fmt;

use crate::frame::Damage;

/// Where a batch stands in the log: counted from 1, without gaps. 0 is before the first.
pub type Position = u64;

/// What one turn or several decided, and when: appended whole or not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch<'a> {
    /// Engine time.
    pub engine_ms: u64,
    /// The wall clock.
    pub wall_ms: i64,
    /// The records. Bytes to the log.
    pub payload: &'a [u8],
}

/// What a claim got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Larger than that of every claim before it. Whoever appends with a smaller one is fenced.
    pub epoch: u64,
    /// The last batch's position.
    pub tail: Position,
}

/// What became of the batch in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// It is durable, at this position.
    Durable(Position),
    /// Someone else has claimed the log. It was not appended.
    Fenced,
    /// It may or may not be durable: only a new claim can tell.
    Unknown,
}

/// One machine's, or many machines', memory of what was decided.
///
/// There is at most one batch in flight. After [`Completion::Fenced`] or [`Completion::Unknown`] nothing more may be
/// submitted: what was decided since cannot be relied upon.
pub trait Log {
    /// Takes the log over, from whoever had it. `seen_epoch` is the largest epoch that the caller knows of.
    ///
    /// # Errors
    /// If the log cannot be read, or what it holds cannot be trusted.
    fn claim(&mut self, seen_epoch: u64) -> Result<Claim, LogError>;

    /// Gives every batch from this position on to `each`, in order.
    ///
    /// # Errors
    /// If a batch is damaged or missing. Those before it have been given.
    fn replay(&mut self, from: Position, each: &mut dyn FnMut(Position, Batch<'_>)) -> Result<(), LogError>;

    /// Appends a batch, if the log is still the caller's and the batch gets the position that the caller expects.
    /// Returns at once; [`Log::completed`] tells what became of it.
    fn submit(&mut self, epoch: u64, expected_position: Position, batch: Batch<'_>);

    /// What became of the batch in flight, once that is known; then none is in flight.
    fn completed(&mut self) -> Option<Completion>;

    /// Batches before this position are needed no more.
    fn truncate_before(&mut self, position: Position);
}

/// Why a log cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LogError {
    /// What it holds cannot be trusted.
    Damaged {
        /// Where the damaged batch begins, in bytes.
        offset: u64,
        /// What is wrong with it.
        damage: Damage,
    },
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LogError::Damaged { offset, damage } => write!(f, "the log is damaged at byte {offset}: {damage}"),
        }
    }
}

impl std::error::Error for LogError {}
