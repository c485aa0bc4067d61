//! How often what has befallen a job since the server's start, and how old it is: the least and the most that can be said of it.

use super::{Job, Ledger, Rest, SECOND_MS, When};
use crate::clients::{BEANSTALKD, Entry};

/// What has befallen a job since the server's start, as far as it is known.
#[derive(Clone, Debug, Default)]
pub(super) struct Tallies {
    releases: Times,
    buries: Times,
    kicks: Times,
}

/// How often something was done.
#[derive(Clone, Debug, Default)]
struct Times {
    /// In which turns that was told.
    told: Vec<u64>,
    /// How often it may have been.
    most: usize,
}

/// The least and the most of something.
pub type Bounds = (u64, u64);

impl Times {
    fn bounds(&self, by_turn: u64) -> Bounds {
        (self.told.iter().filter(|turn| **turn <= by_turn).count() as u64, self.most as u64)
    }
}

impl Tallies {
    fn of_aside(&mut self, buries: bool) -> &mut Times {
        if buries { &mut self.buries } else { &mut self.releases }
    }

    pub(super) fn aside_asked(&mut self, buries: bool) {
        self.of_aside(buries).most += 1;
    }

    pub(super) fn aside_done(&mut self, buries: bool, when: When) {
        self.of_aside(buries).told.push(when.turn);
    }

    /// It was let back in.
    pub(super) fn kicked(&mut self, when: When) {
        self.kicks.told.push(when.turn);
        self.kicks.most += 1;
    }

    pub(super) fn may_be_kicked(&mut self) {
        self.kicks.most += 1;
    }
}

impl Ledger {
    /// A server begins to count anew.
    pub(super) fn count_anew(&mut self, when: When) {
        self.life_turn = when.turn;
        for job in &mut self.jobs {
            // What is not answered by now never will be.
            job.tallies = Tallies::default();
        }
    }

    /// What must be said of a job, in numbers, to one who asked and heard then: names, and the least and the most of each. The
    /// server had seen what ran out until `seen_ms`. It is known whether someone may have been given the job who has not heard of it.
    #[must_use]
    pub fn numbers_of(
        &self,
        entry: Entry,
        unclear: bool,
        seen_ms: u64,
        asked: When,
        when: When,
    ) -> Vec<(&'static str, Bounds)> {
        let job = &self.jobs[entry];
        let mut numbers = Vec::new();
        if job.put.dead_queue.is_none() {
            let Tallies { releases, buries, kicks } = &job.tallies;
            let in_the_air = if self.is_being_kicked(job) { u64::MAX } else { 0 };
            let (least, most) = kicks.bounds(asked.turn);
            numbers.push(("kicks", (least, most.saturating_add(in_the_air))));
            numbers.push(("buries", buries.bounds(asked.turn)));
            // Who gives a job back as other protocols do counts too.
            let (least, most) = releases.bounds(asked.turn);
            let others = job.leases.iter().any(|lease| !lease.is_beanstalkds) || job.may_be_taken || unclear;
            numbers.push(("releases", (least, if others { u64::MAX } else { most })));
            numbers.extend(self.leases_of_life(job, unclear, seen_ms, asked));
        }
        numbers.extend(self.age_of(job, asked, when).map(|age| ("age", age)));
        numbers.extend(self.time_left_of(job, asked, when).map(|left| ("time-left", left)));
        numbers.extend(self.delay_of(job, asked).map(|delay_s| ("delay", (delay_s, delay_s))));
        numbers
    }

    fn leases_of_life(&self, job: &Job, unclear: bool, seen_ms: u64, asked: When) -> [(&'static str, Bounds); 2] {
        let of_life = || job.leases.iter().filter(|lease| lease.since.turn > self.life_turn);
        let ran_out = of_life().filter(|lease| {
            let is_over = lease.over_ms.is_some_and(|over_ms| over_ms <= seen_ms);
            is_over && !lease.may_be_over && lease.until_ms.is_some() && !self.may_last_since(lease.since.at_ms)
        });
        let ran_out = if job.put.runs || job.extending > 0 { 0 } else { ran_out.count() as u64 };
        let most = |count: usize| if unclear || job.may_be_taken { u64::MAX } else { count as u64 };
        let told = of_life().filter(|lease| lease.since.turn <= asked.turn).count() as u64;
        [("reserves", (told, most(of_life().count()))), ("timeouts", (ran_out, most(job.leases.len())))]
    }

    /// In whole seconds, as the wall clock has it.
    fn age_of(&self, job: &Job, asked: When, when: When) -> Option<Bounds> {
        let told = job.put_told.filter(|_| !self.is_wall_lost(job))?;
        let least_ms = asked.at_ms.saturating_sub(told.at_ms);
        Some((least_ms / 1_000, when.at_ms.saturating_sub(job.asked.at_ms) / 1_000))
    }

    /// Whether the wall clock was set since this job was to be put.
    fn is_wall_lost(&self, job: &Job) -> bool {
        self.dates_lost_turn.is_some_and(|turn| job.asked.turn <= turn) || self.is_time_lost_since(job.asked.at_ms)
    }

    /// How much of a lease is left, or of a delay: a moment of it is always over.
    fn time_left_of(&self, job: &Job, asked: When, when: When) -> Option<Bounds> {
        let entry = job.put.entry;
        let (from_ms, to_ms) = if self.is_delayed(entry, asked.turn, when.at_ms) {
            self.due_if_delayed(entry, asked.turn, when.at_ms)?
        } else if self.is_held(entry, asked.turn, when.at_ms) && job.extending == 0 {
            let lease = job.leases.last().filter(|lease| !self.may_last_since(lease.since.at_ms))?;
            (lease.until_ms?, lease.over_ms? - 2 * SECOND_MS)
        } else if self.is_buried(entry, asked.turn, when.at_ms) {
            return Some((0, 0));
        } else {
            return None;
        };
        let left_s = |at_ms: u64, until_ms: u64| until_ms.saturating_sub(at_ms).saturating_sub(1) / 1_000;
        // Delays run on either clock.
        (!self.is_wall_lost(job)).then(|| (left_s(when.at_ms, from_ms), left_s(asked.at_ms, to_ms)))
    }

    /// The delay that was said last, in seconds, if it is known.
    fn delay_of(&self, job: &Job, asked: When) -> Option<u64> {
        let is_plain = job.protocol == BEANSTALKD && job.asides == 0 && job.rested_turn <= asked.turn;
        let said_s =
            job.said_delay_s.filter(|_| is_plain && job.tallies.releases.told.len() == job.tallies.releases.most);
        said_s.map(u64::from)
    }

    /// Whether a job of this life of the server was put by then, or may have been.
    pub fn put_since(&self, first: Entry, queue: Option<&str>) -> impl Iterator<Item = &Job> {
        let may_be_in = move |job: &&Job| queue.is_none_or(|queue| job.put.queue == queue);
        self.jobs[first.min(self.jobs.len())..].iter().filter(may_be_in)
    }

    /// Whether a job is in one of the states that are counted for certain: not before what blocks it is done.
    #[must_use]
    pub fn is_counted(&self, entry: Entry, by_turn: u64, at_ms: u64) -> bool {
        let is_told = self.jobs[entry].put_told.is_some_and(|told| told.turn <= by_turn);
        let is_plain = self.jobs[entry].fails == 0 && self.jobs[entry].rest != Rest::Unclear;
        is_told && is_plain && self.blockers(entry).is_empty() && self.must_be_there(entry, at_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Aside;
    use super::super::tests::{A, at, holds, one};
    use super::*;

    /// What is said of the job to one who asked in that turn, and was answered in the next.
    fn said(ledger: &Ledger, name: &str, turn: u64) -> Option<Bounds> {
        let numbers = ledger.numbers_of(0, false, at(turn).at_ms, at(turn), at(turn + 1));
        numbers.into_iter().find(|(known, _)| *known == name).map(|(_, bounds)| bounds)
    }

    fn held() -> Ledger {
        let mut ledger = one(BEANSTALKD);
        holds(&mut ledger, A, BEANSTALKD, 3);
        ledger
    }

    #[test]
    fn what_was_told_is_counted_and_what_was_asked_may_be() {
        let mut ledger = held();
        assert_eq!(said(&ledger, "reserves", 2), Some((0, 1)), "it may have been asked before");
        assert_eq!(said(&ledger, "reserves", 3), Some((1, 1)));
        ledger.aside_asked(0, true);
        assert_eq!(said(&ledger, "buries", 4), Some((0, 1)));
        ledger.settled(0, at(5));
        let aside = Aside { entry: 0, client: A, urgency: 0, delay_s: None, asked: at(4), alone: true };
        ledger.aside_done(&aside, at(5));
        assert_eq!((said(&ledger, "buries", 5), said(&ledger, "releases", 5)), (Some((1, 1)), Some((0, 0))));
        assert_eq!(said(&ledger, "time-left", 6), Some((0, 0)), "it is put aside");
        ledger.kick_job_asked(0);
        assert_eq!(said(&ledger, "kicks", 6), Some((0, u64::MAX)));
        ledger.kick_job_done(0, at(6), at(7));
        assert_eq!(said(&ledger, "kicks", 7), Some((1, 1)));
        ledger.server_gone(at(8));
        for name in ["reserves", "timeouts", "releases", "buries", "kicks"] {
            assert_eq!(said(&ledger, name, 9).map(|(least, _)| least), Some(0), "{name} of another server");
        }
        assert_eq!(said(&ledger, "buries", 9), Some((0, 0)));
    }

    #[test]
    fn times_are_known_to_the_second_unless_a_clock_was_set() {
        let mut ledger = held();
        // It was put between 0 and 1 s, looked at between 9 and 10 s, and has been held for a day since 3 s.
        assert_eq!(said(&ledger, "age", 9), Some((8, 10)));
        assert_eq!(said(&ledger, "time-left", 9), Some((86_400 - 8, 86_400 - 7)));
        assert_eq!(said(&ledger, "delay", 9), Some((0, 0)));
        ledger.dates_lost(10);
        assert_eq!((said(&ledger, "age", 11), said(&ledger, "time-left", 11)), (None, None));
    }

    #[test]
    fn a_time_that_ran_out_is_counted() {
        let mut ledger = held();
        let over = 3 + 86_400 + 2;
        assert_eq!(said(&ledger, "timeouts", over - 1), Some((0, 1)));
        assert_eq!(said(&ledger, "timeouts", over), Some((1, 1)));
        ledger.client_gone(A, 5_000);
        assert_eq!(said(&ledger, "timeouts", over), Some((0, 1)), "its holder may have vanished before");
    }
}
