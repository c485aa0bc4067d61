//! Durable bytes: batches, their frames, and the seam behind which they are kept.
//!
//! Absent here: jobs, and what the bytes of a batch mean.

mod discard;
mod frame;
mod log;
mod memory;

pub use discard::Discard;
pub use frame::{Damage, FRAME_HEADER_BYTES};
pub use log::{Batch, Claim, Completion, Log, LogError, Position};
pub use memory::MemoryLog;
