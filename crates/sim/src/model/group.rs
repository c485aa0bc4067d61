//! All steps or none.

use jobyard_engine::{Answers, By, ClientId, JobNumber, Now, Refusal, Reply, Step};

use super::Model;

impl Model {
    pub(super) fn group(&mut self, now: Now, client: ClientId, steps: &[Step], answers: &mut Answers<'_>) {
        let mut rehearsal = self.clone();
        match rehearsal.steps(now, client, steps, &mut |_, _| {}) {
            Ok(_) => {
                let numbers = self.steps(now, client, steps, answers).expect("it went well before");
                answers(client, Reply::Grouped { numbers: &numbers });
            }
            Err((step, refusal)) => {
                self.next_number = rehearsal.next_number;
                answers(client, Reply::GroupRefused { step, refusal });
            }
        }
    }

    fn steps(
        &mut self,
        now: Now,
        client: ClientId,
        steps: &[Step],
        answers: &mut Answers<'_>,
    ) -> Result<Vec<JobNumber>, (usize, Refusal)> {
        let mut numbers = Vec::new();
        for (index, step) in steps.iter().enumerate() {
            if index == self.limits.group_steps_max {
                return Err((index, Refusal::TooManySteps));
            }
            match step {
                Step::Enqueue(new) => {
                    self.check_claimed(client, new).map_err(|refusal| (index, refusal))?;
                    self.check_enqueue(now, new, &numbers).map_err(|refusal| (index, refusal))?;
                    numbers.push(self.put(now, new, &numbers));
                }
                Step::Complete(name) => {
                    let number = self.check_finish(client, name, By::Holder).map_err(|_| (index, Refusal::NotHeld))?;
                    self.completed(now, number, &[], answers);
                }
                Step::Invalid => return Err((index, Refusal::InvalidStep)),
            }
        }
        Ok(numbers)
    }
}
