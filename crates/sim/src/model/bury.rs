//! Jobs that are put aside, and let back in.

use jobyard_engine::{Answers, ClientId, Due, JobNumber, JobRef, Now, QueueName, Refusal, Reply, Why};

use super::Model;
use super::job::{Job, State};

impl Model {
    pub(super) fn bury(&mut self, now: Now, client: ClientId, name: &JobRef, urgency: i128, answers: &mut Answers<'_>) {
        match self.find_held(client, name) {
            Err(refusal) => answers(client, Reply::Refused(refusal)),
            Ok(number) => {
                self.end_lease(number);
                self.burials += 1;
                let nth = self.burials;
                let job = self.job_mut(number);
                job.urgency = urgency;
                job.tally.burials += 1;
                job.state = State::Buried { nth };
                self.note(Why::PutAside);
                self.remove_forsaken_run(now, number, answers);
                answers(client, Reply::Done);
            }
        }
    }

    pub(super) fn revive_some(
        &mut self,
        now: Now,
        client: ClientId,
        queue: &QueueName,
        count_max: usize,
        answers: &mut Answers<'_>,
    ) {
        let mut jobs = self.buried_in_order(queue);
        if jobs.is_empty() {
            jobs = self.due_in_order(now, queue);
        }
        let count_max = count_max.min(self.limits.revived_max);
        let numbers: Vec<JobNumber> = jobs.into_iter().take(count_max).map(|job| job.number).collect();
        for &number in &numbers {
            self.revived(now, number);
        }
        answers(client, Reply::Revived { count: numbers.len() });
    }

    pub(super) fn revive_job(&mut self, now: Now, client: ClientId, name: &JobRef, answers: &mut Answers<'_>) {
        match self.find(name) {
            Err(refusal) => answers(client, Reply::Refused(refusal)),
            Ok(number) if !matches!(self.job(number).state, State::Buried { .. } | State::Delayed { .. }) => {
                answers(client, Reply::Refused(Refusal::WrongState));
            }
            Ok(number) => {
                self.revived(now, number);
                answers(client, Reply::Done);
            }
        }
    }

    fn revived(&mut self, now: Now, number: JobNumber) {
        let job = self.job_mut(number);
        job.tally.revivals += 1;
        job.let_back_in(now);
        self.note(Why::Revived);
    }

    pub(super) fn buried_in_order(&self, queue: &QueueName) -> Vec<&Job> {
        let mut buried: Vec<(u64, &Job)> = Vec::new();
        for job in self.jobs.iter().filter(|job| job.queue == *queue) {
            if let State::Buried { nth } = job.state {
                buried.push((nth, job));
            }
        }
        buried.sort_by_key(|&(nth, _)| nth);
        buried.into_iter().map(|(_, job)| job).collect()
    }

    /// The delayed jobs of a queue, those first that have the least time left; those of a date come behind the others.
    pub(super) fn due_in_order(&self, now: Now, queue: &QueueName) -> Vec<&Job> {
        let mut due: Vec<(i128, bool, JobNumber, &Job)> = Vec::new();
        for job in self.jobs.iter().filter(|job| job.queue == *queue) {
            match job.state {
                State::Delayed { until: Due::Engine(at_ms), .. } => {
                    due.push((i128::from(at_ms) - i128::from(now.engine_ms), false, job.number, job));
                }
                State::Delayed { until: Due::Wall(at_ms), .. } => {
                    due.push((i128::from(at_ms) - i128::from(now.wall_ms), true, job.number, job));
                }
                _ => {}
            }
        }
        due.sort_by_key(|&(left_ms, dated, number, _)| (left_ms, dated, number));
        due.into_iter().map(|(_, _, _, job)| job).collect()
    }
}
