//! Atomic groups: all steps or none.

use std::collections::BTreeSet;

use crate::command::{By, JobRef, NewJob, Step};
use crate::engine::{Answers, Engine};
use crate::enqueue::Pending;
use crate::names::{ClientId, JobNumber, Uuid};
use crate::reply::{Refusal, Reply};
use crate::time::Now;

impl Engine {
    pub(crate) fn handle_group(&mut self, now: Now, client: ClientId, steps: Vec<Step>, answers: &mut Answers<'_>) {
        if let Err((step, refusal)) = self.check_group(now, client, &steps) {
            return answers(client, Reply::GroupRefused { step, refusal });
        }
        let mut numbers = Vec::new();
        let last = steps.len().saturating_sub(1);
        for (index, step) in steps.into_iter().enumerate() {
            if index == last && index > 0 && crate::broken("engine-group-by-halves") {
                // As if it were there: its number is said.
                numbers.push(self.store.next_number);
                continue;
            }
            match step {
                Step::Enqueue(job) => {
                    let number = self.enqueue(now, *job, &numbers, false);
                    numbers.push(number);
                }
                Step::Complete(_) if crate::broken("engine-group-completes-nothing") => {}
                Step::Complete(job) => {
                    let number = self.find(&job).expect("checked above").number;
                    self.complete(now, number, Box::default(), answers);
                }
                Step::Invalid => unreachable!("an invalid step is refused"),
            }
        }
        answers(client, Reply::Grouped { numbers: &numbers });
    }

    /// Checks each step as if those before it were carried out. Numbers that a refused group would have
    /// given are skipped.
    fn check_group(&mut self, now: Now, client: ClientId, steps: &[Step]) -> Result<(), (usize, Refusal)> {
        let mut pending = Pending::default();
        let mut completed = BTreeSet::new();
        for (index, step) in steps.iter().enumerate() {
            let checked = match step {
                _ if index >= self.limits.group_steps_max => Err(Refusal::TooManySteps),
                Step::Enqueue(job) => {
                    let claimed = self.check_claimed(client, job);
                    claimed.and_then(|()| self.check_group_enqueue(now, job, &mut pending))
                }
                Step::Complete(job) => self.check_group_complete(client, job, &mut completed, &mut pending),
                Step::Invalid => Err(Refusal::InvalidStep),
            };
            if let Err(refusal) = checked {
                self.store.next_number += pending.enqueues as u64;
                return Err((index, refusal));
            }
        }
        Ok(())
    }

    fn check_group_enqueue(&self, now: Now, job: &NewJob, pending: &mut Pending) -> Result<(), Refusal> {
        self.check_enqueue(now, job, pending)?;
        let number = self.store.next_number + pending.enqueues as u64;
        pending.uuids.insert(job.uuid.unwrap_or_else(|| Uuid::of_number(number)));
        pending.enqueues += 1;
        pending.origins.extend(job.origin.clone());
        if !self.store.queues.exists(&job.queue) {
            pending.queues.insert(job.queue.clone());
        }
        Ok(())
    }

    fn check_group_complete(
        &self,
        client: ClientId,
        job: &JobRef,
        completed: &mut BTreeSet<JobNumber>,
        pending: &mut Pending,
    ) -> Result<(), Refusal> {
        let number = self.find_to_finish(client, job, By::Holder).map_err(|_| Refusal::NotHeld)?;
        if !completed.insert(number) {
            return Err(Refusal::NotHeld);
        }
        let job = self.store.job(number);
        let kept = job.rare.as_ref().is_some_and(|rare| rare.lifetime_ms.is_some());
        if !kept {
            pending.freed.insert(job.uuid());
        }
        Ok(())
    }
}
