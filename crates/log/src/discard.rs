//! A log that keeps nothing, for a server that is to keep nothing.

use crate::error::LogError;
use crate::log::{Batch, Claim, Completion, Log, Position, Replayed};

/// A log of which every batch is as durable at once as it will ever be.
#[derive(Debug, Default)]
pub struct Discard {
    in_flight: Option<Position>,
}

impl Log for Discard {
    fn claim(&mut self, seen_epoch: u64) -> Result<Claim, LogError> {
        Ok(Claim { epoch: seen_epoch + 1, first: 1, tail: 0, bytes: 0, notices: Vec::new() })
    }

    fn replay(
        &mut self,
        _from: Position,
        _bytes: usize,
        _each: &mut dyn FnMut(Replayed<'_>),
    ) -> Result<Option<Position>, LogError> {
        Ok(None)
    }

    fn submit(&mut self, _epoch: u64, expected_position: Position, _batch: Batch<'_>) {
        self.in_flight = Some(expected_position);
    }

    fn completed(&mut self) -> Option<Completion> {
        self.in_flight.take().map(Completion::Durable)
    }

    fn truncate_before(&mut self, _position: Position) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::Moment;

    #[test]
    fn a_batch_is_durable_at_once_and_never_seen_again() {
        let mut log = Discard::default();
        let claim = log.claim(0).unwrap();
        assert_eq!((claim.epoch, claim.first, claim.tail), (1, 1, 0));
        assert_eq!(log.completed(), None);
        log.submit(claim.epoch, 1, Batch { at: Moment::default(), payload: b"x" });
        assert_eq!(log.completed(), Some(Completion::Durable(1)));
        assert_eq!(log.completed(), None);
        assert_eq!(log.replay(1, usize::MAX, &mut |replayed| panic!("{replayed:?}")), Ok(None));
    }

    #[test]
    fn it_needs_no_room_no_tending_and_has_no_trouble() {
        let mut log = Discard::default();
        assert!(!log.wakes());
        assert_eq!((log.tend(1_000), log.shortage(), log.trouble()), (None, None, None));
        assert_eq!(log.extent(), crate::Extent::BOUNDLESS);
    }
}
