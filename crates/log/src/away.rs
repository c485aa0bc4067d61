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
    pub fn come_back(&mut self, log: &mut impl Log) -> Option<u64> {
        if let Some(position) = self.truncate_before.take() {
            log.truncate_before(position);
        }
        let engine_ms = self.tend_ms.take()?;
        log.tend(engine_ms);
        Some(engine_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Batch, MemoryLog, Moment};

    /// A log that holds two batches.
    fn log() -> MemoryLog {
        let mut log = MemoryLog::new(1, 0);
        let claim = log.claim(0).unwrap();
        for position in 1..=2 {
            log.submit(claim.epoch, position, Batch { at: Moment::default(), payload: b"x" });
            log.completed();
        }
        log
    }

    #[test]
    fn what_a_log_is_told_while_it_is_away_it_does_when_it_is_back() {
        let mut log = log();
        let mut away = Away::new(&log, 10);
        assert_eq!(away.come_back(&mut log), None);
        away.truncate_before(1);
        away.truncate_before(2);
        away.tend(7);
        away.tend(8);
        assert_eq!(away.come_back(&mut log), Some(8));
        let mut found = Vec::new();
        log.replay(2, usize::MAX, &mut |replayed| found.push(replayed.position)).unwrap();
        assert_eq!(found, [2]);
        assert_eq!(log.claim(0).unwrap().first, 2);
    }

    #[test]
    fn of_a_log_that_is_away_is_known_what_will_be_left_of_its_room() {
        let mut log = log();
        log.fill_up(true);
        let away = Away::new(&log, 1000);
        assert_eq!(away.extent, log.extent().less(1000));
        assert_eq!((away.extent.rest, away.shortage), (log.extent().rest - 1080, None));
    }
}
