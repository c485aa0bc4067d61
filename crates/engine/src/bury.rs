//! Jobs that are put aside, and let back in.

use crate::changes::Why;
use crate::command::JobRef;
use crate::engine::{Answers, Engine};
use crate::fail::lease_end_ms;
use crate::job::State;
use crate::names::{ClientId, JobNumber, QueueName};
use crate::record::Record;
use crate::reply::{Refusal, Reply};
use crate::time::Now;

impl Engine {
    pub(crate) fn handle_bury(
        &mut self,
        now: Now,
        client: ClientId,
        job: &JobRef,
        urgency: i128,
        answers: &mut Answers<'_>,
    ) {
        match self.find_held(client, job) {
            Ok(number) => {
                let until_ms = lease_end_ms(self.store.job(number).state);
                self.tally(number, |tally| &mut tally.burials);
                self.commit(Record::Buried { number, urgency, order: self.store.next_burial });
                self.note(Why::PutAside);
                self.resume_run(now, number, until_ms, answers);
                answers(client, Reply::Done);
            }
            Err(refusal) => answers(client, Reply::Refused(refusal)),
        }
    }

    pub(crate) fn handle_revive(
        &mut self,
        now: Now,
        client: ClientId,
        queue: &QueueName,
        count_max: usize,
        answers: &mut Answers<'_>,
    ) {
        let numbers = self.to_revive(now, queue, count_max);
        for &number in &numbers {
            self.revive(now, number);
        }
        answers(client, Reply::Revived { count: numbers.len() });
    }

    pub(crate) fn handle_revive_job(&mut self, now: Now, client: ClientId, job: &JobRef, answers: &mut Answers<'_>) {
        let reply = match self.find(job).map(|job| (job.number, job.state)) {
            Ok((number, State::Buried { .. } | State::Delayed { .. }))
                if !crate::broken("engine-revival-not-found") =>
            {
                self.revive(now, number);
                Reply::Done
            }
            Ok(_) => Reply::Refused(Refusal::WrongState),
            Err(refusal) => Reply::Refused(refusal),
        };
        answers(client, reply);
    }

    /// Which jobs of a queue are next to be revived: buried ones, or delayed ones if there are none.
    pub(crate) fn to_revive(&self, now: Now, queue: &QueueName, count_max: usize) -> Vec<JobNumber> {
        let count_max = self.revivable(queue, count_max).saturating_sub(crate::broken("engine-revives-too-few").into());
        let is_unfair = crate::broken("engine-revives-delayed-first");
        match self.store.queues.find(queue) {
            None => Vec::new(),
            Some(queue) if queue.buried.is_empty() || is_unfair && !queue.delayed.is_empty() => {
                queue.by_due(now).take(count_max).collect()
            }
            Some(queue) => {
                let newest = queue.buried.len().saturating_sub(count_max);
                let passed_over = if crate::broken("engine-revives-newest-first") { newest } else { 0 };
                queue.buried.iter_from(passed_over).take(count_max).map(|(_, number)| number).collect()
            }
        }
    }

    /// How many jobs of a queue one command may revive.
    pub(crate) fn revivable(&self, queue: &QueueName, count_max: usize) -> usize {
        let there = self.store.queues.find(queue).map_or(0, |queue| match queue.buried.len() {
            0 => queue.delayed.len(),
            buried => buried,
        });
        there.min(count_max).min(self.limits.revived_max)
    }

    /// A job that is buried or delayed is ready.
    fn revive(&mut self, now: Now, number: JobNumber) {
        if crate::broken("engine-revives-nothing") {
            return;
        }
        let expires_ms = self.kept_until(now, number);
        self.tally(number, |tally| &mut tally.revivals);
        self.commit(Record::Revived { number, expires_ms });
        self.note(Why::Revived);
    }
}
