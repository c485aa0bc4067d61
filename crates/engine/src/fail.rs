//! Leases that end without the job being done: failures, releases, lost holders, time.

use crate::changes::Why;
use crate::command::{Again, Backoff, By, JobRef, Parting, UsedUp};
use crate::delay::Delay;
use crate::engine::{Answers, Engine};
use crate::job::State;
use crate::names::{ClientId, JobNumber, LeaseId};
use crate::record::Record;
use crate::reply::Reply;
use crate::time::{NEVER_MS, Now};

impl Engine {
    pub(crate) fn handle_fail(
        &mut self,
        now: Now,
        client: ClientId,
        job: &JobRef,
        by: By,
        result: &[u8],
        answers: &mut Answers<'_>,
    ) {
        match self.find_to_finish(client, job, by) {
            Ok(number) => {
                let finally = self.fail(now, number, result, answers);
                answers(client, Reply::Failed { finally });
            }
            Err(refusal) => answers(client, Reply::Refused(refusal)),
        }
    }

    pub(crate) fn handle_release(
        &mut self,
        now: Now,
        client: ClientId,
        job: &JobRef,
        again: Option<Again>,
        answers: &mut Answers<'_>,
    ) {
        match self.find_held(client, job) {
            Ok(number) => {
                self.tally(number, |tally| &mut tally.releases);
                match again {
                    Some(again) if !self.store.job(number).attempts_used_up() => {
                        self.put_back_as(now, number, again, answers);
                    }
                    _ => self.put_back(now, number, answers),
                }
                answers(client, Reply::Done);
            }
            Err(refusal) => answers(client, Reply::Refused(refusal)),
        }
    }

    /// The lease never reached its client: it is undone, and does not count.
    pub fn undo_lease(&mut self, now: Now, number: JobNumber, lease: LeaseId, answers: &mut Answers<'_>) {
        self.called("undo_lease");
        let Some(job) = self.store.jobs.get(number).filter(|job| job.lease() == Some(lease)) else {
            return;
        };
        let (counts, held) = (job.counts_attempts(), is_held(job.state));
        // A lease from before a restart was not counted since.
        self.counters.leased = self.counters.leased.saturating_sub(1);
        self.store.jobs.change_state(number, |job| job.leases = job.leases.saturating_sub(1));
        if held && !counts {
            self.store.set_state(number, State::Ready);
        } else {
            self.commit(Record::Undone { number });
        }
        self.note(Why::Undone);
        // Nobody had it, so its end means nothing to who waits for the job.
        self.resume_run(now, number, Some(now.engine_ms), answers);
        self.settle(now, answers);
    }

    /// Counts a failure. Says whether it was the last.
    fn fail(&mut self, now: Now, number: JobNumber, result: &[u8], answers: &mut Answers<'_>) -> bool {
        self.counters.failed += 1;
        let job = self.store.job(number);
        let failures = job.rare.as_ref().map_or(0, |rare| rare.failures).saturating_add(1);
        let until_ms = lease_end_ms(job.state);
        let is_apart = matches!(job.state, State::Blocked | State::Buried { .. });
        let Some(rule) = job.failure_rule() else {
            self.commit(Record::Failure { number });
            self.note(Why::Failed);
            self.resume_run(now, number, until_ms, answers);
            return false;
        };
        if job.attempts_used_up()
            || failures > rule.allowed.unwrap_or(0) + u64::from(crate::broken("engine-failures-off-by-one"))
        {
            if rule.used_up == UsedUp::Keep {
                self.commit(Record::Failure { number });
            }
            self.use_up(now, number, result, answers);
            return true;
        }
        let record = match rule.backoff {
            Backoff::Quartic if !is_apart => {
                let (until_ms, due_wall_ms) = quartic(now, failures);
                Record::BackedOff { number, until_ms, due_wall_ms, expires_ms: self.kept_until(now, number) }
            }
            Backoff::None | Backoff::Quartic => Record::Failure { number },
        };
        self.commit(record);
        self.note(Why::Failed);
        self.resume_run(now, number, until_ms, answers);
        false
    }

    /// A lease ends without a failure: the job is ready in its old place, unless its attempts are used up.
    fn put_back(&mut self, now: Now, number: JobNumber, answers: &mut Answers<'_>) {
        let job = self.store.job(number);
        if job.attempts_used_up() {
            return self.use_up(now, number, &[], answers);
        }
        let until_ms = lease_end_ms(job.state);
        self.store.set_state(number, State::Ready);
        self.note(Why::PutBack);
        self.resume_run(now, number, until_ms, answers);
    }

    /// A held job is put back, and is another than before.
    fn put_back_as(&mut self, now: Now, number: JobNumber, again: Again, answers: &mut Answers<'_>) {
        let until_ms = lease_end_ms(self.store.job(number).state);
        let is_delayed = again.delay_ms > 0 && !crate::broken("engine-delay-of-release-ignored");
        let delay = is_delayed.then(|| Delay::from_now(now, again.delay_ms));
        let keeps_urgency = crate::broken("engine-urgency-of-release-ignored");
        let urgency = if keeps_urgency { self.store.job(number).urgency } else { again.urgency };
        self.commit(Record::Released { number, urgency, delay });
        self.note(Why::Released);
        self.resume_run(now, number, until_ms, answers);
    }

    /// The time of a lease is over.
    pub(crate) fn lease_over(&mut self, now: Now, number: JobNumber, answers: &mut Answers<'_>) {
        if self.store.job(number).runs() {
            if let Some(client) = self.waiting.runner(number) {
                self.end_wait(client);
                answers(client, Reply::TimedOut);
            }
            return self.remove(now, number, Why::RunOver, answers);
        }
        self.counters.timed_out += 1;
        self.tally(number, |tally| &mut tally.timeouts);
        self.put_back(now, number, answers);
    }

    /// The connection that holds a job has ended.
    pub(crate) fn part(&mut self, now: Now, number: JobNumber, answers: &mut Answers<'_>) {
        let job = self.store.job(number);
        let State::Held { parting, until_ms, .. } = job.state else {
            return;
        };
        match (parting, job.failure_rule()) {
            _ if until_ms != NEVER_MS && crate::broken("engine-timed-hold-outlives-client") => {}
            (Parting::Fail, Some(rule)) if rule.parting_counts => {
                self.fail(now, number, &[], answers);
            }
            (Parting::Fail, None) => {
                let rest_ms = self.limits.vanished_rest_ms;
                let shown_wall_ms = now.wall_ms.saturating_add_unsigned(rest_ms);
                let rested = now.engine_ms.saturating_add(rest_ms);
                self.commit(Record::Rested { number, until_ms: rested, shown_wall_ms });
                self.note(Why::HolderVanished);
                self.resume_run(now, number, Some(until_ms), answers);
            }
            (Parting::Release, _) | (Parting::Fail, Some(_)) => self.put_back(now, number, answers),
        }
    }
}

/// After the n-th failure: the engine time at which a job has rested, and that date, a whole second.
fn quartic(now: Now, failures: u64) -> (u64, i64) {
    const SECOND_MS: i64 = 1_000;
    let failures = if crate::broken("engine-backoff-off-by-one") { failures - 1 } else { failures };
    let rest_ms = failures.saturating_pow(4).saturating_mul(SECOND_MS.unsigned_abs());
    let due_wall_ms = now.wall_ms.saturating_add_unsigned(rest_ms).div_euclid(SECOND_MS) * SECOND_MS;
    let until_ms = now.engine_ms.saturating_add(due_wall_ms.abs_diff(now.wall_ms));
    (until_ms, due_wall_ms)
}

fn is_held(state: State) -> bool {
    matches!(state, State::Held { .. })
}

/// When a job's lease, if it has one, ends by itself.
pub(crate) fn lease_end_ms(state: State) -> Option<u64> {
    match state {
        State::Leased { until_ms, .. } | State::Held { until_ms, .. } => Some(until_ms),
        _ => None,
    }
}

const _: () = assert!(NEVER_MS == u64::MAX, "a lease without end is later than every other");
