//! Moments at which clients are to be looked at, in order of time.

use std::collections::BTreeSet;

use jobyard_engine::ClientId;

/// At most one moment for each client. The client keeps its own (a [`Slot`]), so that it can be moved and taken out.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    moments: BTreeSet<(u64, ClientId)>,
}

/// The moment at which a client is in a [`Timers`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Slot(Option<u64>);

impl Timers {
    /// The client is to be looked at then; or not at all.
    ///
    /// A moment that moves on is left where it was: whoever finds it there sets it again. A heartbeat is put off by
    /// every line and seldom comes, so this saves nearly all the work.
    pub(crate) fn set(&mut self, slot: &mut Slot, client: ClientId, at_ms: Option<u64>) {
        match (slot.0, at_ms) {
            (Some(old), Some(new)) if old <= new => return,
            (None, None) => return,
            _ => {}
        }
        self.replace(slot, client, at_ms);
    }

    /// As [`Timers::set`], but exact.
    pub(crate) fn replace(&mut self, slot: &mut Slot, client: ClientId, at_ms: Option<u64>) {
        if let Some(old) = slot.0 {
            self.moments.remove(&(old, client));
        }
        if let Some(new) = at_ms {
            self.moments.insert((new, client));
        }
        slot.0 = at_ms;
    }

    /// The first moment, and whose it is.
    pub(crate) fn first(&self) -> Option<(u64, ClientId)> {
        self.moments.first().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALICE: ClientId = ClientId(1);
    const BOB: ClientId = ClientId(2);

    #[test]
    fn moments_come_in_order_of_time() {
        let mut timers = Timers::default();
        let (mut alice, mut bob) = (Slot::default(), Slot::default());
        timers.set(&mut alice, ALICE, Some(20));
        timers.set(&mut bob, BOB, Some(10));
        assert_eq!(timers.first(), Some((10, BOB)));
        timers.set(&mut bob, BOB, None);
        assert_eq!(timers.first(), Some((20, ALICE)));
        timers.set(&mut alice, ALICE, None);
        assert_eq!(timers.first(), None);
    }

    #[test]
    fn a_moment_that_moves_on_is_left_until_it_is_replaced() {
        let mut timers = Timers::default();
        let mut alice = Slot::default();
        timers.set(&mut alice, ALICE, Some(20));
        timers.set(&mut alice, ALICE, Some(30));
        assert_eq!(timers.first(), Some((20, ALICE)));
        timers.replace(&mut alice, ALICE, Some(30));
        assert_eq!(timers.first(), Some((30, ALICE)));
        timers.set(&mut alice, ALICE, Some(5));
        assert_eq!(timers.first(), Some((5, ALICE)));
    }
}
