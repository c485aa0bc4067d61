//! Durable bytes: batches, their frames, and the seam behind which they are kept.
//!
//! Absent here: jobs, and what the bytes of a batch mean.

mod away;
mod discard;
mod disk;
mod error;
mod files;
mod frame;
mod log;
mod memory;

pub use away::Away;
pub use discard::Discard;
pub use disk::{Disk, DiskFile};
pub use error::{Doing, LogError, Loss};
pub use files::{
    Cut, Entry, FileLog, Format, Found, Hole, Manifest, Options, ReadDisk, ReadFile, Reader, Salvaged, SegmentFacts,
    SegmentHeader, SyncMode, salvage,
};
pub use frame::{Damage, FRAME_HEADER_BYTES, Frame, Header as FrameHeader};
pub use log::{Batch, Claim, Completion, Extent, Log, Moment, Position, RESERVE_SEGMENTS, Replayed};
pub use memory::MemoryLog;

/// Whether this is broken on purpose, for a test that must notice it.
#[cfg(not(feature = "breakages"))]
pub(crate) const fn broken(_what: &str) -> bool {
    false
}
#[cfg(feature = "breakages")]
pub(crate) use jobyard_breakage::broken;
