//! What one client holds.

use std::collections::VecDeque;

use crate::names::{JobNumber, LeaseId};

/// Who holds few keeps room for so many.
const KEPT_MAX: usize = 16;

/// The jobs that a client holds until its connection ends, in the order in which they were leased.
#[derive(Debug, Default)]
pub(crate) struct Held(VecDeque<(LeaseId, JobNumber)>);

impl Held {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn numbers(&self) -> impl Iterator<Item = JobNumber> + '_ {
        self.0.iter().map(|&(_, number)| number)
    }

    pub(crate) fn get(&self, lease: LeaseId) -> Option<JobNumber> {
        self.find(lease).ok().map(|at| self.0[at].1)
    }

    /// Leases are counted, so that a new one is the last; but one that goes on after a touch is not new. That one is known
    /// already is a fault.
    pub(crate) fn insert(&mut self, lease: LeaseId, number: JobNumber) {
        match self.0.back() {
            Some(&(last, _)) if last >= lease => match self.find(lease) {
                Ok(at) => self.0[at].1 = number,
                Err(at) => self.0.insert(at, (lease, number)),
            },
            _ => self.0.push_back((lease, number)),
        }
    }

    pub(crate) fn remove(&mut self, lease: LeaseId) {
        // Mostly they end in the order in which they began.
        if self.0.front().is_some_and(|&(first, _)| first == lease) {
            self.0.pop_front();
        } else if let Ok(at) = self.find(lease) {
            self.0.remove(at);
        }
        // Nobody counts this room as memory.
        if self.0.capacity() > KEPT_MAX && self.0.len() < self.0.capacity() / 4 {
            self.0.shrink_to(KEPT_MAX.max(2 * self.0.len()));
        }
    }

    fn find(&self, lease: LeaseId) -> Result<usize, usize> {
        self.0.binary_search_by_key(&lease, |&(lease, _)| lease)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Choice, ClientId, Command, Engine, Hold, LeaseRequest, Limits, NewJob, Now, Parting, QueueName, Wait};

    #[test]
    fn nothing_is_kept_of_who_has_gone() {
        let (mut engine, client) = (Engine::new(Limits::default(), 1, 0), ClientId(7));
        let now = Now { engine_ms: 1, wall_ms: 1, random: 0 };
        let queue = QueueName::new(b"q");
        let job = NewJob::plain(queue.clone(), Box::default());
        engine.handle(now, client, Command::Enqueue(Box::new(job)), &mut |_, _| {});
        let request = LeaseRequest {
            queues: vec![queue],
            choice: Choice::Best,
            hold: Hold::Connection(Parting::Release),
            wait: Wait::No,
            creates_queues: false,
            body_without: None,
            heeds_ms: None,
        };
        engine.handle(now, client, Command::Lease(Box::new(request)), &mut |_, _| {});
        assert_eq!(engine.store.held.keys().collect::<Vec<_>>(), [&client]);
        engine.disconnect(now, client, &mut |_, _| {});
        assert!(engine.store.held.is_empty());
    }

    #[test]
    fn what_is_held_is_known_by_its_lease_and_told_in_the_order_of_these() {
        let mut held = Held::default();
        for lease in [1, 2, 5, 7] {
            held.insert(LeaseId(lease), 10 * lease);
        }
        held.remove(LeaseId(5));
        held.remove(LeaseId(6));
        held.insert(LeaseId(5), 50);
        held.insert(LeaseId(2), 21);
        assert_eq!(held.numbers().collect::<Vec<_>>(), [10, 21, 50, 70]);
        assert_eq!((held.get(LeaseId(7)), held.get(LeaseId(6)), held.len()), (Some(70), None, 4));
        for lease in [1, 7, 2, 5] {
            assert!(held.len() > 0);
            held.remove(LeaseId(lease));
        }
        assert_eq!(held.len(), 0);
    }

    #[test]
    fn who_has_held_many_and_holds_few_keeps_little_room() {
        let mut held = Held::default();
        for lease in 0..10_000 {
            held.insert(LeaseId(lease), lease);
        }
        for lease in (1..10_000).rev() {
            held.remove(LeaseId(lease));
            assert!(held.0.capacity() <= KEPT_MAX.max(8 * held.len()), "{} for {}", held.0.capacity(), held.len());
        }
        assert_eq!(held.numbers().collect::<Vec<_>>(), [0]);
    }
}
