//! What falls due when, on each clock.

use std::collections::BTreeSet;

use crate::names::JobNumber;
use crate::queue::QueueId;
use crate::time::{NEVER_MS, NextDeadline};

/// Something that falls due on engine time. At one moment they come in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// A job's lifetime ends.
    Expiry(JobNumber),
    /// A lease's time ends.
    LeaseEnd(JobNumber),
    /// A delay is over.
    DelayEnd(JobNumber),
    /// A pause is over.
    PauseEnd(QueueId),
    /// A client has waited long enough; by its ticket.
    WaitEnd(u64),
}

/// All deadlines.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    engine: BTreeSet<(u64, Timer)>,
    wall: BTreeSet<(i64, JobNumber)>,
}

impl Timers {
    /// A moment that never comes is not kept.
    pub(crate) fn add(&mut self, at_ms: u64, timer: Timer) {
        if at_ms != NEVER_MS {
            self.engine.insert((at_ms, timer));
        }
    }

    pub(crate) fn remove(&mut self, at_ms: u64, timer: Timer) {
        self.engine.remove(&(at_ms, timer));
    }

    pub(crate) fn add_date(&mut self, wall_ms: i64, job: JobNumber) {
        self.wall.insert((wall_ms, job));
    }

    pub(crate) fn remove_date(&mut self, wall_ms: i64, job: JobNumber) {
        self.wall.remove(&(wall_ms, job));
    }

    /// The first deadline up to `until_ms`. It stays until it is removed.
    pub(crate) fn due(&self, until_ms: u64) -> Option<(u64, Timer)> {
        self.engine.first().copied().filter(|&(at_ms, _)| at_ms <= until_ms)
    }

    /// The first date up to `until_wall_ms`. It stays until it is removed.
    pub(crate) fn due_date(&self, until_wall_ms: i64) -> Option<JobNumber> {
        self.wall.first().filter(|&&(at_ms, _)| at_ms <= until_wall_ms).map(|&(_, job)| job)
    }

    pub(crate) fn next(&self) -> NextDeadline {
        NextDeadline {
            engine_ms: self.engine.first().map(|&(at_ms, _)| at_ms),
            wall_ms: self.wall.first().map(|&(at_ms, _)| at_ms),
        }
    }

    /// How many deadlines there are, on both clocks.
    pub(crate) fn len(&self) -> usize {
        self.engine.len() + self.wall.len()
    }

    pub(crate) fn contains(&self, at_ms: u64, timer: Timer) -> bool {
        at_ms == NEVER_MS || self.engine.contains(&(at_ms, timer))
    }

    pub(crate) fn contains_date(&self, wall_ms: i64, job: JobNumber) -> bool {
        self.wall.contains(&(wall_ms, job))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_falls_due_at_one_moment_comes_in_its_order_however_it_was_added_and_removed() {
        let mut timers = Timers::default();
        let all = [Timer::Expiry(9), Timer::LeaseEnd(1), Timer::LeaseEnd(2), Timer::DelayEnd(1), Timer::WaitEnd(3)];
        for at in [3, 0, 4, 1, 2, 2, 3] {
            timers.add(7, all[at]);
        }
        timers.add(8, Timer::Expiry(1));
        timers.add(NEVER_MS, Timer::Expiry(2));
        assert_eq!(timers.len(), 6);
        timers.remove(7, all[2]);
        timers.remove(7, all[2]);
        timers.remove(6, all[0]);
        timers.remove(8, all[0]);
        assert!(!timers.contains(7, all[2]) && timers.contains(7, all[1]) && timers.contains(8, Timer::Expiry(1)));
        for timer in [all[0], all[1], all[3], all[4]] {
            assert_eq!(timers.due(8), Some((7, timer)));
            assert_eq!(timers.due(6), None);
            timers.remove(7, timer);
        }
        assert_eq!((timers.due(8), timers.len()), (Some((8, Timer::Expiry(1))), 1));
        timers.remove(8, Timer::Expiry(1));
        assert_eq!((timers.due(u64::MAX), timers.len(), timers.engine.len()), (None, 0, 0));
    }
}
