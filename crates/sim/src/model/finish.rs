//! How a job ends: completed, failed, used up, removed, expired.

use jobyard_engine::{Answers, Backoff, By, ClientId, Due, JobNumber, JobRef, Now, Refusal, Reply, UsedUp, Why};

use super::Model;
use super::job::State;

impl Model {
    pub(super) fn complete(
        &mut self,
        now: Now,
        client: ClientId,
        name: &JobRef,
        by: By,
        result: &[u8],
        answers: &mut Answers<'_>,
    ) {
        match self.check_finish(client, name, by) {
            Err(refusal) => answers(client, Reply::Refused(refusal)),
            Ok(number) => {
                self.completed(now, number, result, answers);
                answers(client, Reply::Done);
            }
        }
    }

    pub(super) fn fail(
        &mut self,
        now: Now,
        client: ClientId,
        name: &JobRef,
        by: By,
        result: &[u8],
        answers: &mut Answers<'_>,
    ) {
        match self.check_finish(client, name, by) {
            Err(refusal) => answers(client, Reply::Refused(refusal)),
            Ok(number) => {
                let finally = self.failed(now, number, result, answers);
                answers(client, Reply::Failed { finally });
            }
        }
    }

    pub(super) fn remove(&mut self, now: Now, client: ClientId, name: &JobRef, by: By, answers: &mut Answers<'_>) {
        match self.find(name) {
            Err(refusal) => answers(client, Reply::Refused(refusal)),
            Ok(number) if !self.may(client, number, by) => answers(client, Reply::Refused(Refusal::NotHeld)),
            Ok(number) => {
                let queue = self.job(number).queue.clone();
                self.totals.entry(queue).or_default().removed += 1;
                self.removed(now, number, Why::Removed, answers);
                answers(client, Reply::Done);
            }
        }
    }

    pub(super) fn check_finish(&self, client: ClientId, name: &JobRef, by: By) -> Result<JobNumber, Refusal> {
        let job = self.job(self.find(name)?);
        if job.is_finished() {
            return Err(Refusal::Finished);
        }
        if self.may(client, job.number, by) { Ok(job.number) } else { Err(Refusal::NotHeld) }
    }

    fn may(&self, client: ClientId, number: JobNumber, by: By) -> bool {
        let job = self.job(number);
        match by {
            By::Anyone => true,
            By::Holder => job.is_held_by(client),
            By::HolderOrNobody => job.is_held_by(client) || job.lease().is_none(),
        }
    }

    pub(super) fn completed(&mut self, now: Now, number: JobNumber, result: &[u8], answers: &mut Answers<'_>) {
        self.counters.completed += 1;
        self.answer_waiting(number, Some((true, result)), answers);
        self.keep_as(now, number, State::Done(result.into()));
        self.note(Why::Completed);
        self.unblock(now, number);
    }

    /// Counts a failure, and says whether it was the last.
    pub(super) fn failed(&mut self, now: Now, number: JobNumber, result: &[u8], answers: &mut Answers<'_>) -> bool {
        self.counters.failed += 1;
        let job = self.job_mut(number);
        job.failures += 1;
        let backoff = match &job.failure_rule {
            None => Backoff::None,
            Some(rule) if job.attempts_reached() || job.failures > rule.allowed.unwrap_or(0) => {
                self.used_up(now, number, result, Why::UsedUp, answers);
                return true;
            }
            Some(rule) => rule.backoff,
        };
        self.end_lease(number);
        if backoff == Backoff::Quartic {
            self.back_off(now, number);
        }
        self.note(Why::Failed);
        self.remove_forsaken_run(now, number, answers);
        false
    }

    fn back_off(&mut self, now: Now, number: JobNumber) {
        let job = self.job_mut(number);
        if matches!(job.state, State::Blocked | State::Buried { .. }) {
            return;
        }
        let rest_ms = i128::from(job.failures).pow(4) * 1_000;
        let due_wall_ms = (i128::from(now.wall_ms) + rest_ms).div_euclid(1_000) * 1_000;
        let delay_ms = due_wall_ms - i128::from(now.wall_ms);
        let due_wall_ms = i64::try_from(due_wall_ms).expect("few failures");
        let delay_ms = u64::try_from(delay_ms).expect("a whole second later is later");
        job.begin_lifetime_before_date(now);
        job.state =
            State::Delayed { until: Due::Engine(now.engine_ms.saturating_add(delay_ms)), shown_wall_ms: due_wall_ms };
        job.rank = 0;
        job.due_wall_ms = due_wall_ms;
    }

    /// Its attempts or failures are used up, or those of one of its blockers.
    pub(super) fn used_up(&mut self, now: Now, number: JobNumber, result: &[u8], why: Why, answers: &mut Answers<'_>) {
        self.counters.dead += 1;
        self.answer_waiting(number, Some((false, result)), answers);
        let job = self.job(number);
        let rule = job.failure_rule.as_ref().map_or(UsedUp::Remove, |rule| rule.used_up.clone());
        match rule {
            _ if job.runs => self.forget(number),
            UsedUp::Remove => self.forget(number),
            UsedUp::MoveTo(queue) => {
                self.create_queue(&queue);
                let place = self.give_place();
                let job = self.job_mut(number);
                job.begin_lifetime_before_date(now);
                job.queue = queue;
                job.state = State::Ready;
                job.blockers.clear();
                job.place = place;
                job.rank = 1;
                job.due_wall_ms = 0;
                job.attempts = 0;
                job.failures = 0;
                job.failure_rule.as_mut().expect("it said where to").used_up = UsedUp::Remove;
            }
            UsedUp::Keep => self.keep_as(now, number, State::Failed(result.into())),
        }
        self.note(why);
        self.use_up_blocked(now, number, answers);
    }

    fn use_up_blocked(&mut self, now: Now, blocker: JobNumber, answers: &mut Answers<'_>) {
        for number in self.blocked_by(blocker) {
            // One that was used up meanwhile, through another blocker, has no blockers any more.
            if self.lives(number) && self.job(number).blockers.contains(&blocker) {
                self.used_up(now, number, &[], Why::BlockerUsedUp, answers);
            }
        }
    }

    /// The job goes, by no doing of its own.
    pub(super) fn removed(&mut self, now: Now, number: JobNumber, why: Why, answers: &mut Answers<'_>) {
        self.answer_waiting(number, None, answers);
        self.forget(number);
        self.note(why);
        self.unblock(now, number);
    }

    pub(super) fn expired(&mut self, now: Now, number: JobNumber, answers: &mut Answers<'_>) {
        self.answer_waiting(number, None, answers);
        if !self.job(number).is_finished() {
            self.counters.evicted += 1;
        }
        self.forget(number);
        self.note(Why::Expired);
        self.use_up_blocked(now, number, answers);
    }

    /// A job with a lifetime stays as finished; another goes.
    fn keep_as(&mut self, now: Now, number: JobNumber, finished: State) {
        let job = self.job_mut(number);
        if job.lifetime_ms.is_none() {
            self.forget(number);
            return;
        }
        job.begin_lifetime_before_date(now);
        job.state = finished;
        job.blockers.clear();
    }

    fn forget(&mut self, number: JobNumber) {
        self.remember_origin(&self.job(number).clone());
        self.jobs.retain(|job| job.number != number);
    }
}
