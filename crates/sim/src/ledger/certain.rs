//! What is certain of a job, from all that was asked and told: that it is ready, that someone has it, that it comes in the end.

use jobyard_engine::ClientId;

use super::{Job, Lease, Ledger, Rest, SECOND_MS, When};
use crate::clients::{BEANSTALKD, DAY_MS, Entry};
use crate::world::Wrong;

/// For how long a job may have been kept from being ready: by a lease, or by its date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// Until the time in question: the server has seen that this is over.
    UntilThen,
    /// Never: after a stall, the server sees what is over behind what it was asked meanwhile.
    Never,
}

impl Ledger {
    /// The jobs in this queue that are ready for certain, see [`Ledger::is_ready`].
    pub fn all_ready(&self, queue: &str, told_by_turn: u64, at_ms: u64, kept: Kept) -> impl Iterator<Item = Entry> {
        let entries = 0..self.jobs.len();
        entries.filter(move |&entry| {
            self.jobs[entry].put.queue == queue && self.is_ready(entry, told_by_turn, at_ms, kept)
        })
    }

    /// The jobs that may have been in this queue, for someone who asked and heard then: the server had seen what ran out
    /// until the time of the first.
    pub fn may_be_in(&self, queue: &str, asked: When, heard: When) -> impl Iterator<Item = &Job> {
        let has_ended = move |job: &Job| job.ended.is_some_and(|(when, _)| when.turn < asked.turn);
        let is_over = move |job: &Job| has_ended(job) || self.has_expired(job.put.entry, asked.at_ms);
        self.jobs.iter().filter(move |job| {
            job.put.may_be_in(queue) && job.asked.turn <= heard.turn && !job.refused && !is_over(job)
        })
    }

    /// Whether a job may be delayed at that time, or not be: it has a date, or has failed, or its holder has vanished.
    #[must_use]
    pub fn may_be(&self, entry: Entry, delayed: bool, at_ms: u64) -> bool {
        let job = &self.jobs[entry];
        let is_early = |delay_s: u32| at_ms + 999 < job.asked.at_ms + u64::from(delay_s) * 1_000;
        let must_wait = job.put.delay_s.is_some_and(is_early) && !self.is_date_lost(job) && !self.may_be_woken(job);
        let may_be_dead = job.put.dead_queue.is_some() && self.may_fail_with_others(entry, at_ms);
        if delayed {
            job.put.delay_s.is_some() || job.fails > 0 || job.may_be_taken || !job.leases.is_empty()
        } else {
            !must_wait || may_be_dead
        }
    }

    /// Whether a job was said to be there by that turn, and is ready at that time for certain.
    #[must_use]
    pub fn is_ready(&self, entry: Entry, told_by_turn: u64, at_ms: u64, kept: Kept) -> bool {
        let over_by_ms = if kept == Kept::UntilThen { at_ms } else { 0 };
        let told_by = When { turn: told_by_turn, at_ms: 0 };
        let was_let_in = kept == Kept::Never && self.jobs[entry].kicks.any_since(told_by);
        self.is_free(entry, told_by_turn, at_ms, kept) && self.is_due(entry, over_by_ms) && !was_let_in
    }

    /// Whether a job was said to be there by that turn, nothing blocks it, and nobody has it at that time, all for certain.
    #[must_use]
    pub fn is_free(&self, entry: Entry, told_by_turn: u64, at_ms: u64, kept: Kept) -> bool {
        let job = &self.jobs[entry];
        let over_by_ms = if kept == Kept::UntilThen { at_ms } else { 0 };
        let is_over = |lease: &Lease| {
            let is_known = !self.may_last_since(lease.since.at_ms) || lease.by_connection && !lease.rests;
            kept == Kept::UntilThen && is_known && lease.over_ms.is_some_and(|over_ms| over_ms <= over_by_ms)
        };
        let is_unblocked =
            |blocker: &Entry| self.jobs[*blocker].ended.is_some_and(|(when, _)| when.turn <= told_by_turn);
        job.put_told.is_some_and(|told| told.turn <= told_by_turn)
            && job.fails == 0
            && job.extending == 0
            && (job.rest != Rest::Over || job.burial.over_turn <= told_by_turn)
            && job.unheard_over_ms <= over_by_ms
            && !(self.may_last_since(0) && job.may_be_taken)
            && job.leases.iter().all(is_over)
            && self.blockers(entry).iter().all(is_unblocked)
            && self.must_be_there(entry, at_ms)
    }

    /// A job of this queue that should have been given instead of this one, which someone asked for in that turn or later and has just been
    /// given: it is more urgent, or as urgent and was there before, and nobody had it all the time.
    #[must_use]
    pub fn overtaken_by(&self, entry: Entry, queue: &str, asked_turn: u64, at_ms: u64) -> Option<Entry> {
        let job = &self.jobs[entry];
        if job.put.runs || job.put.dead_queue.is_some() {
            return None;
        }
        // It has the place of its put, and no other.
        let has_place = |entry: Entry| self.jobs[entry].put.delay_s.is_none() && self.blockers(entry).is_empty();
        let is_first = job.leases.len() == 1 && !job.may_be_taken && job.fails == 0 && has_place(entry);
        let before = |other: &Job| other.put_told.is_some_and(|told| told.turn < job.asked.turn);
        self.all_ready(queue, asked_turn, at_ms, Kept::Never).find(|&other| {
            let (rival, is_placed) = (&self.jobs[other], is_first && has_place(other));
            // An answer may be heard long after it was given, and the job may be another since.
            let urgencies = (job.urgency_since(asked_turn), rival.urgency_since(asked_turn));
            let (Some(urgency), Some(rivals)) = urgencies else { return false };
            rivals > urgency || rivals == urgency && is_placed && before(rival)
        })
    }

    /// A job of this queue that comes before this one, which has been shown as the next to someone who asked in that turn or later.
    #[must_use]
    pub fn ready_before(&self, entry: Entry, queue: &str, asked_turn: u64, at_ms: u64) -> Option<Entry> {
        let job = &self.jobs[entry];
        if job.put.runs || job.put.dead_queue.is_some() {
            return None;
        }
        let has_place = |entry: Entry| self.jobs[entry].put.delay_s.is_none() && self.blockers(entry).is_empty();
        let is_as_put = job.leases.is_empty() && !job.may_be_taken && job.fails == 0 && has_place(entry);
        self.all_ready(queue, asked_turn, at_ms, Kept::Never).filter(|other| *other != entry).find(|&other| {
            let rival = &self.jobs[other];
            let urgencies = (job.urgency_since(asked_turn), rival.urgency_since(asked_turn));
            let (Some(urgency), Some(rivals)) = urgencies else { return false };
            let was_before = rival.put_told.is_some_and(|told| told.turn < job.asked.turn);
            rivals > urgency || rivals == urgency && is_as_put && has_place(other) && was_before
        })
    }

    /// Whether nothing keeps a job that nobody has: it has no date, or it has come, and it was not put aside.
    fn is_due(&self, entry: Entry, at_ms: u64) -> bool {
        let job = &self.jobs[entry];
        // There it is no date, but begins when the job is put, and runs on the server's own time.
        let is_delay = job.protocol == BEANSTALKD;
        let begins_ms = job.put_told.filter(|_| is_delay).unwrap_or(job.asked).at_ms;
        let due_ms = |delay_s: u32| begins_ms + u64::from(delay_s) * 1_000 + SECOND_MS;
        let is_lost = self.is_date_lost(job) || is_delay && self.may_last_since(job.asked.at_ms);
        let is_kept = match job.rest {
            Rest::AsPut => job.put.delay_s.is_some_and(|delay_s| is_lost || due_ms(delay_s) > at_ms),
            Rest::Later { since_ms, over_ms, .. } => over_ms > at_ms || self.may_last_since(since_ms),
            Rest::Over => false,
            Rest::Buried | Rest::Unclear => true,
        };
        job.asides == 0 && !is_kept
    }

    /// Whether a job that is there can be taken when all leases that end have ended, and what blocks it was taken.
    #[must_use]
    pub fn comes_in_the_end(&self, entry: Entry, at_ms: u64) -> bool {
        let job = &self.jobs[entry];
        let is_over = |lease: &Lease| lease.by_connection || lease.over_ms.is_some_and(|over_ms| over_ms <= at_ms);
        // What was put aside is let back in, and with it whatever is delayed.
        let may_be_kept = !matches!(job.rest, Rest::AsPut);
        (may_be_kept || self.is_due(entry, at_ms))
            && job.unheard_over_ms <= at_ms
            && job.leases.iter().all(is_over)
            && self
                .blockers(entry)
                .iter()
                .all(|blocker| self.jobs[*blocker].ended.is_some() || self.comes_in_the_end(*blocker, at_ms))
    }

    /// When whoever was given a job last, which brings its own time, has had that time for certain.
    #[must_use]
    pub fn own_time_over_ms(&self, entry: Entry) -> Option<u64> {
        let Job { put, leases, .. } = &self.jobs[entry];
        let own_ms = put.own_time_s.map_or(DAY_MS, |seconds| u64::from(seconds) * 1_000);
        leases.last().map(|lease| lease.since.at_ms + own_ms + 2 * SECOND_MS)
    }

    /// A job of this queue that was given to someone else than this client who asked for it after that turn.
    #[must_use]
    pub fn given_to_later(&self, queue: &str, client: ClientId, turn: u64) -> Option<Entry> {
        let is_later = |lease: &Lease| lease.client != client && lease.asked_turn.is_some_and(|asked| asked > turn);
        let of_queue = |job: &Job| job.put.queue == queue && job.put.dead_queue.is_none();
        self.jobs.iter().position(|job| of_queue(job) && job.leases.iter().any(is_later))
    }

    /// How many jobs of this queue someone may hold for ever.
    #[must_use]
    pub fn may_be_held_for_ever(&self, queue: &str) -> usize {
        let is_endless = |lease: &Lease| !lease.by_connection && lease.over_ms.is_none();
        let held = |job: &&Job| job.unheard_over_ms == u64::MAX || job.leases.iter().any(is_endless);
        self.jobs.iter().filter(|job| job.put.may_be_in(queue)).filter(held).count()
    }

    /// Whether dates mean something else than when they were said.
    #[must_use]
    pub fn are_dates_lost(&self) -> bool {
        self.dates_lost_turn.is_some()
    }

    /// Whether a job is there unless the one request was carried out that may have completed or removed it.
    #[must_use]
    pub fn hangs_on_one_request(&self, entry: Entry, at_ms: u64) -> bool {
        let job = &self.jobs[entry];
        job.put_told.is_some() && job.ends == 1 && job.fails == 0 && !self.may_go(entry, at_ms)
    }

    /// Whether the lifetime of a job is over, if it was there: whoever put it has waited for less than a day.
    #[must_use]
    pub fn has_expired(&self, entry: Entry, at_ms: u64) -> bool {
        let job = &self.jobs[entry];
        let told_ms = job.put_told.map_or(job.asked.at_ms + DAY_MS, |told| told.at_ms);
        let since_ms = told_ms.max(self.time_lost_ms.unwrap_or(0)).max(self.time_stood_ms.unwrap_or(0));
        let lifetime_ms = u64::from(job.put.lifetime_s.unwrap_or(0) + job.put.delay_s.unwrap_or(0)) * 1_000;
        let is_dated = self.is_date_lost(job);
        job.put.lifetime_s.is_some() && !is_dated && since_ms + lifetime_ms + SECOND_MS <= at_ms
    }

    /// A job that this client has for certain: whatever it asks of it now must be done.
    #[must_use]
    pub fn surely_has(&self, entry: Entry, client: ClientId, at_ms: u64) -> bool {
        let job = &self.jobs[entry];
        let undisturbed = job.disturbing == 0 && job.ends == 0 && job.put.lifetime_s.is_none();
        let has = |lease: &Lease| {
            lease.client == client && !lease.may_be_over && lease.until_ms.is_none_or(|until_ms| at_ms < until_ms)
        };
        undisturbed && !job.put.runs && job.leases.last().is_some_and(has)
    }

    /// Whether someone has had a job since that turn for certain, and has it still.
    #[must_use]
    pub fn is_held(&self, entry: Entry, by_turn: u64, at_ms: u64) -> bool {
        let last = self.jobs[entry].leases.last().filter(|lease| lease.since.turn <= by_turn);
        last.is_some_and(|lease| self.surely_has(entry, lease.client, at_ms))
    }

    /// Someone has seen a job: it is there, whoever else was told.
    ///
    /// # Errors
    /// If another one has its UUID.
    pub fn seen(&mut self, entry: Entry, when: When) -> Result<(), Wrong> {
        if self.jobs[entry].put_told.is_none() {
            self.claim_id(entry)?;
            self.jobs[entry].is_there(when);
        }
        Ok(())
    }

    /// Whether of all that may end a job or its lease nothing but one thing was under way since then.
    #[must_use]
    pub fn nobody_else_asked(&self, entry: Entry, since: When) -> bool {
        let job = &self.jobs[entry];
        job.disturbing == 1 && job.disturbed.is_none_or(|turn| turn < since.turn)
    }
}
