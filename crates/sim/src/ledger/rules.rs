//! What must hold of a job that a client is given.

use super::{Lease, Ledger, Rest, SECOND_MS, When};
use crate::clients::{BEANSTALKD, Entry};
use crate::world::Wrong;

impl Ledger {
    pub(super) fn check_taken(&self, entry: Entry, taken: &Lease, asked: When) -> Result<(), Wrong> {
        let job = &self.jobs[entry];
        let at_ms = taken.since.at_ms;
        if job.refused {
            return Err(format!("job {entry} was refused, and yet it is there"));
        }
        if let Some((ended, _)) = job.ended
            && ended.turn < asked.turn
        {
            return Err(format!(
                "job {entry} came back: it had ended in turn {}, and was asked for in {}",
                ended.turn, asked.turn
            ));
        }
        // Whoever lets a buried job back in gives it one more.
        if let Some(attempts) = job.put.attempts
            && !job.may_have_been_buried
            && job.leases.len() >= attempts as usize
        {
            return Err(format!("job {entry} was given more often than {attempts} times: {job:?}"));
        }
        // What it waits for may have sent it to its dead queue, where it is ready.
        let is_dead = job.put.dead_queue.is_some() && self.may_fail_with_others(entry, at_ms);
        if let Some(delay_s) = job.put.delay_s
            && !self.is_date_lost(job)
            && !(job.protocol == BEANSTALKD && self.is_time_lost_since(job.asked.at_ms))
            && !self.may_be_woken(job)
            && !is_dead
            && at_ms + 999 < job.asked.at_ms + u64::from(delay_s) * 1_000
        {
            return Err(format!("job {entry} came before its date"));
        }
        self.check_failures(entry, asked, at_ms)?;
        self.check_aside(entry, asked, at_ms)?;
        for blocker in self.blockers(entry) {
            if self.must_be_there(blocker, at_ms) && !is_dead {
                return Err(format!("job {entry} came before job {blocker}, which blocks it, had ended"));
            }
        }
        // Whichever came first, it was not over when the other came.
        let clashes = |other: &&Lease| {
            let lasts = other.until_ms.is_none_or(|until_ms| at_ms < until_ms);
            let taken_lasts = taken.until_ms.is_none_or(|until_ms| other.since.at_ms < until_ms);
            !other.may_be_over && !taken.may_be_over && lasts && taken_lasts
        };
        match job.leases.iter().find(clashes) {
            Some(other) => Err(format!("job {entry} was given twice: {:?} still has it", other.client)),
            None => Ok(()),
        }
    }

    /// A job that has failed comes back if it may, and not too soon. In its dead queue all of that begins anew.
    fn check_failures(&self, entry: Entry, asked: When, at_ms: u64) -> Result<(), Wrong> {
        let job = &self.jobs[entry];
        let Some((last, told)) = job.failed else { return Ok(()) };
        if job.put.dead_queue.is_some() || asked.turn <= told.turn {
            return Ok(());
        }
        let times = job.failures;
        if job.failures_max().is_some_and(|allowed| times > allowed) {
            return Err(format!("job {entry} came back, and has failed {times} times: {job:?}"));
        }
        // masenko's rest until a whole second.
        let rest_ms = if job.protocol == "masenko" { u64::from(times).pow(4) * 1_000 } else { 0 };
        let is_kept = !self.may_be_woken(job) && self.time_lost_ms.is_none() && self.dates_lost_turn.is_none();
        if is_kept && at_ms + SECOND_MS < last.at_ms + rest_ms {
            return Err(format!("job {entry} came back too soon, for the {times} times it has failed: {job:?}"));
        }
        Ok(())
    }

    /// A job that was put aside does not come until it is let back in, and one that was put back for later not too soon. What it
    /// waits for may have sent it to its dead queue.
    fn check_aside(&self, entry: Entry, asked: When, at_ms: u64) -> Result<(), Wrong> {
        let job = &self.jobs[entry];
        if job.asides > 0 || job.rested_turn >= asked.turn || job.put.dead_queue.is_some() {
            return Ok(());
        }
        match self.rest_of(job) {
            Rest::Buried => Err(format!("job {entry} was put aside, and came: {job:?}")),
            Rest::Later { since_ms, until_ms, .. } if at_ms < until_ms && !self.is_time_lost_since(since_ms) => {
                Err(format!("job {entry} was put back for later, and came too soon: {job:?}"))
            }
            _ => Ok(()),
        }
    }

    /// Counts the rules that had something to say about a job that was given rightly.
    pub(super) fn count_checked(&mut self, entry: Entry, taken: &Lease, asked: When) {
        let job = &self.jobs[entry];
        let is_dead = job.put.dead_queue.is_some() && self.may_fail_with_others(entry, taken.since.at_ms);
        let is_held = !taken.may_be_over && job.leases.iter().any(|other| !other.may_be_over);
        let is_dated = job.put.delay_s.is_some() && !self.is_date_lost(job);
        let has_failed = job.failed.is_some_and(|(_, told)| asked.turn > told.turn) && job.put.dead_queue.is_none();
        let is_later = matches!(self.rest_of(job), Rest::Later { until_ms: 1.., .. }) && job.rested_turn < asked.turn;
        let rules = [
            ("checked: a job that was put back came when it may", is_later),
            ("checked: a lease was over before the next", is_held),
            ("checked: a job came after its date", is_dated && !is_dead),
            ("checked: a job came after what blocks it", !is_dead && !self.blockers(entry).is_empty()),
            ("checked: a job that had failed came when it may", has_failed),
            (
                "checked: a job was given as often as it may be",
                job.put.attempts == u32::try_from(job.leases.len() + 1).ok(),
            ),
        ];
        for (rule, _) in rules.into_iter().filter(|(_, says)| *says) {
            *self.checked.entry(rule).or_default() += 1;
        }
    }
}
