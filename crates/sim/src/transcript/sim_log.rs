//! Where a simulated server keeps its log, and what is left of it when the server is killed or the power goes out.

use jobyard_log::{Batch, Claim, Completion, Extent, FileLog, Log, LogError, MemoryLog, Options, Position, Replayed};

use crate::disk::{Crash, SimDisk};

const SALT: u64 = 0x6a6f_6273;

/// Where a simulated server keeps its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// In memory. A batch is durable after so many turns.
    Memory {
        /// The turns.
        lateness: u32,
    },
    /// In files on a simulated disk.
    Disk {
        /// What a power cut does to it. The number of a tear counts the places where the last write may be torn.
        crash: Crash,
        /// How long its segments are.
        segment_bytes: u64,
    },
}

/// What outlives a server.
pub(super) enum Kept {
    Memory(MemoryLog),
    Disk(SimDisk),
}

/// A log in use.
pub(super) enum SimLog {
    Memory(MemoryLog),
    Disk {
        log: Box<FileLog<SimDisk>>,
        /// Only the reserve is left.
        full: bool,
    },
}

impl Kept {
    /// Nothing yet.
    pub fn new(storage: Storage) -> Self {
        match storage {
            Storage::Memory { lateness } => Kept::Memory(MemoryLog::new(SALT, lateness)),
            Storage::Disk { .. } => Kept::Disk(SimDisk::default()),
        }
    }

    pub fn open(&self, storage: Storage) -> SimLog {
        let segment_bytes = match storage {
            Storage::Memory { .. } => 0,
            Storage::Disk { segment_bytes, .. } => segment_bytes,
        };
        match self {
            Kept::Memory(log) => SimLog::Memory(log.clone()),
            Kept::Disk(disk) => {
                let options = Options { segment_bytes, ..Options::new(SALT) };
                SimLog::Disk { log: Box::new(FileLog::open(disk.clone(), options)), full: false }
            }
        }
    }

    /// The disk, if there is one.
    pub fn disk(&self) -> Option<&SimDisk> {
        match self {
            Kept::Memory(_) => None,
            Kept::Disk(disk) => Some(disk),
        }
    }
}

/// What a power cut leaves of a disk.
pub(super) fn cut_off(disk: &SimDisk, crash: Crash) -> SimDisk {
    let crash = match crash {
        Crash::Torn(nth) => {
            let tears = disk.tears();
            tears.get(nth % tears.len().max(1)).map_or(Crash::Lost, |bytes| Crash::Torn(*bytes))
        }
        crash => crash,
    };
    SimDisk::from_image(&disk.crash(crash))
}

impl SimLog {
    /// What is left when the server is killed.
    pub fn killed(self) -> Kept {
        match self {
            SimLog::Memory(log) => Kept::Memory(log.crash()),
            SimLog::Disk { log, .. } => Kept::Disk(log.disk().killed()),
        }
    }

    /// From now on there is only the reserve left, or as much room as there is.
    pub fn fill_up(&mut self, fill: bool) {
        match self {
            SimLog::Memory(log) => log.fill_up(fill),
            SimLog::Disk { full, .. } => *full = fill,
        }
    }

    fn log(&self) -> &dyn Log {
        match self {
            SimLog::Memory(log) => log,
            SimLog::Disk { log, .. } => &**log,
        }
    }

    fn log_mut(&mut self) -> &mut dyn Log {
        match self {
            SimLog::Memory(log) => log,
            SimLog::Disk { log, .. } => &mut **log,
        }
    }
}

impl Log for SimLog {
    fn claim(&mut self, seen_epoch: u64) -> Result<Claim, LogError> {
        self.log_mut().claim(seen_epoch)
    }

    fn replay(
        &mut self,
        from: Position,
        bytes: usize,
        each: &mut dyn FnMut(Replayed<'_>),
    ) -> Result<Option<Position>, LogError> {
        self.log_mut().replay(from, bytes, each)
    }

    fn submit(&mut self, epoch: u64, expected_position: Position, batch: Batch<'_>) {
        self.log_mut().submit(epoch, expected_position, batch);
    }

    fn completed(&mut self) -> Option<Completion> {
        self.log_mut().completed()
    }

    fn truncate_before(&mut self, position: Position) {
        self.log_mut().truncate_before(position);
    }

    fn extent(&self) -> Extent {
        let extent = self.log().extent();
        match self {
            SimLog::Disk { full: true, .. } => Extent { short: true, room: extent.segment_bytes * 3 / 2, ..extent },
            _ => extent,
        }
    }

    fn tend(&mut self, engine_ms: u64) -> Option<u64> {
        self.log_mut().tend(engine_ms)
    }

    fn close(&mut self) {
        self.log_mut().close();
    }

    fn shortage(&self) -> Option<String> {
        self.log().shortage()
    }

    fn trouble(&self) -> Option<String> {
        self.log().trouble()
    }
}
