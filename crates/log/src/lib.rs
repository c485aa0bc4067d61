//! Durable bytes: batches, their frames, and the seam behind which they are kept.
//!
//! Absent here: jobs, and what the bytes of a batch mean.

mod discard;
mod disk;
mod frame;
mod log;
mod memory;

pub use discard::Discard;
pub use disk::{Disk, DiskFile};
pub use frame::{Damage, FRAME_HEADER_BYTES};
pub use log::{Batch, Claim, Completion, Extent, Log, LogError, Moment, Position, Replayed};
pub use memory::MemoryLog;
