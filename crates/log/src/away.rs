//! A log that cannot be asked while a batch is on its way to it: what is known of it meanwhile, and what it is told then.

use crate::{Extent, Log, Position};

/// Stands for a log that is away with a batch.
#[derive(Clone, Debug)]
pub struct Away {
    /// As it will be when the batch was appended.
    pub extent: Extent,
    /// Why it could find no more room, when it left.
    pub shortage: Option<String>,
    truncate_before: Option<Position>,
    tend_ms: Option<u64>,
}

impl Away {
    /// This log is about to go with a batch of so many bytes.
    pub fn new(log: &impl Log, payload_bytes: usize) -> Self {
        Away {
            extent: log.extent().less(payload_bytes),
            shortage: log.shortage(),
            truncate_before: None,
            tend_ms: None,
        }
    }

    /// What comes before this position is not needed any more.
    pub fn truncate_before(&mut self, position: Position) {
        self.truncate_before = Some(position);
    }

    /// It is to do what is due.
    pub fn tend(&mut self, engine_ms: u64) {
        self.tend_ms = Some(engine_ms);
    }

    /// The log is back: it is told what was put off. Were that left to the next time, a log that is always away would never
    /// do what is due. Says at which engine time it did, if it was to.
    pub fn come_back(self, log: &mut impl Log) -> Option<u64> {
        if let Some(position) = self.truncate_before {
            log.truncate_before(position);
        }
        if let Some(engine_ms) = self.tend_ms {
            log.tend(engine_ms);
        }
        self.tend_ms
    }
}
