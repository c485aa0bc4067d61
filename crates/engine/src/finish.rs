//! The ends of a job: completed, used up, removed, expired; and what they mean to the jobs it blocks.

use crate::changes::Why;
use crate::command::{By, JobRef, UsedUp};
use crate::engine::{Answers, Engine};
use crate::enqueue::life_end;
use crate::names::{ClientId, JobNumber};
use crate::record::Record;
use crate::reply::{Refusal, Reply};
use crate::time::Now;

impl Engine {
    pub(crate) fn handle_complete(
        &mut self,
        now: Now,
        client: ClientId,
        job: &JobRef,
        by: By,
        result: Box<[u8]>,
        answers: &mut Answers<'_>,
    ) {
        match self.find_to_finish(client, job, by) {
            Ok(number) => {
                self.complete(now, number, result, answers);
                answers(client, Reply::Done);
            }
            Err(refusal) => answers(client, Reply::Refused(refusal)),
        }
    }

    pub(crate) fn handle_remove(
        &mut self,
        now: Now,
        client: ClientId,
        job: &JobRef,
        by: By,
        answers: &mut Answers<'_>,
    ) {
        let found = self.find(job);
        match found.and_then(|job| if job.allows(by, client) { Ok(job.number) } else { Err(Refusal::NotHeld) }) {
            Ok(number) => {
                let queue = self.store.job(number).queue;
                self.store.queues.get_mut(queue).totals.removed +=
                    u64::from(!crate::broken("engine-removals-uncounted"));
                if !crate::broken("engine-removed-is-there") {
                    self.remove(now, number, Why::Removed, answers);
                }
                answers(client, Reply::Done);
            }
            Err(refusal) => answers(client, Reply::Refused(refusal)),
        }
    }

    /// A job was done: its result is kept while its lifetime lasts, and it blocks no more.
    pub(crate) fn complete(&mut self, now: Now, number: JobNumber, result: Box<[u8]>, answers: &mut Answers<'_>) {
        self.counters.completed += 1;
        self.answer_result(number, Some((true, &result)), answers);
        let blocked = self.directly_blocked(number);
        match self.kept_until(now, number) {
            Some(expires_ms) => self.commit(Record::Done { number, expires_ms, result }),
            None => self.commit(Record::Removed { number }),
        }
        self.note(Why::Completed);
        self.unblock_free(now, &blocked);
    }

    /// A job goes, in whatever state it is, and blocks no more.
    pub(crate) fn remove(&mut self, now: Now, number: JobNumber, why: Why, answers: &mut Answers<'_>) {
        self.answer_result(number, None, answers);
        let blocked = self.directly_blocked(number);
        self.commit(Record::Removed { number });
        self.note(why);
        self.unblock_free(now, &blocked);
    }

    /// A job's lifetime is over. What it blocks can never run.
    pub(crate) fn expire(&mut self, now: Now, number: JobNumber, answers: &mut Answers<'_>) {
        let finished = self.store.job(number).finished();
        let taken_along = if finished { Vec::new() } else { self.store.blocked_by(number) };
        self.counters.evicted += u64::from(!finished);
        self.answer_result(number, None, answers);
        self.commit(Record::Removed { number });
        self.note(Why::Expired);
        for blocked in taken_along {
            self.use_up_one(now, blocked, &[], answers);
            self.note(Why::BlockerUsedUp);
        }
    }

    /// A job's attempts or failures are used up. What it blocks can never run.
    pub(crate) fn use_up(&mut self, now: Now, number: JobNumber, result: &[u8], answers: &mut Answers<'_>) {
        let taken_along = self.store.blocked_by(number);
        self.use_up_one(now, number, result, answers);
        self.note(Why::UsedUp);
        for blocked in taken_along {
            self.use_up_one(now, blocked, &[], answers);
            self.note(Why::BlockerUsedUp);
        }
    }

    fn use_up_one(&mut self, now: Now, number: JobNumber, result: &[u8], answers: &mut Answers<'_>) {
        self.counters.dead += 1;
        self.answer_result(number, Some((false, result)), answers);
        let job = self.store.job(number);
        let used_up = job.failure_rule().map_or(&UsedUp::Remove, |rule| &rule.used_up);
        match used_up {
            _ if job.runs() => self.commit(Record::Removed { number }),
            UsedUp::Remove => self.commit(Record::Removed { number }),
            UsedUp::MoveTo(queue) => {
                let queue = queue.clone();
                let expires_ms = self.kept_until(now, number);
                let place = self.store.next_place;
                self.create_queue(&queue);
                self.commit(Record::Moved { number, queue: queue.as_bytes(), place, expires_ms });
            }
            UsedUp::Keep => match self.kept_until(now, number) {
                Some(expires_ms) => self.commit(Record::Failed { number, expires_ms, result: result.into() }),
                None => self.commit(Record::Removed { number }),
            },
        }
    }

    /// When a job that is finished, moved or backed off now expires: as before, or when its lifetime ends that is yet to begin.
    pub(crate) fn kept_until(&self, now: Now, number: JobNumber) -> Option<u64> {
        let rare = self.store.job(number).rare.as_deref()?;
        let lifetime_ms = rare.lifetime_ms?;
        let date = rare.date.map(|(wall_ms, _)| wall_ms);
        Some(rare.expires_ms.unwrap_or_else(|| life_end(now, date, lifetime_ms)))
    }

    fn directly_blocked(&self, number: JobNumber) -> Vec<JobNumber> {
        self.store.blocks.get(&number).map_or_else(Vec::new, |blocked| blocked.iter().copied().collect())
    }

    /// Of jobs that lost a blocker, unblocks those that have none left.
    fn unblock_free(&mut self, now: Now, blocked: &[JobNumber]) {
        for &number in blocked.iter().filter(|_| !crate::broken("engine-blocked-leaks")) {
            if self.store.job(number).blockers().is_empty() {
                self.unblock(now, number);
            }
        }
    }

    /// Tells all who wait for a job's result what came of it; nothing, if it is gone without one.
    fn answer_result(&mut self, number: JobNumber, result: Option<(bool, &[u8])>, answers: &mut Answers<'_>) {
        let waiting = self.waiting.for_result(number);
        let uuid = self.store.job(number).uuid();
        for client in waiting {
            self.end_wait(client);
            answers(
                client,
                match result {
                    Some((success, result)) => Reply::Result { uuid, success, result },
                    None => Reply::Refused(Refusal::NoSuchJob),
                },
            );
        }
    }
}
