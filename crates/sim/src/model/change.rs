//! What happened to jobs, one change of state at a time, so that a test can say which changes it has seen.

use jobyard_engine::{Change, Due, Stage, Why};

use super::Model;
use super::job::{Job, State};

impl Model {
    /// What has changed since this was last asked, in the order in which it happened.
    pub fn take_changes(&mut self) -> Vec<Change> {
        assert_eq!(self.changes_since_noted(Why::Put), [], "whatever changes a job's state says why");
        std::mem::take(&mut self.changes)
    }

    /// Notes all that has changed since the last note; this is why.
    pub(super) fn note(&mut self, why: Why) {
        let changes = self.changes_since_noted(why);
        self.changes.extend(changes);
        self.noted = self.jobs.iter().map(|job| (job.number, (stage(job), job.queue.clone()))).collect();
    }

    fn changes_since_noted(&self, why: Why) -> Vec<Change> {
        let mut changes = Vec::new();
        for job in &self.jobs {
            let (number, to) = (job.number, stage(job));
            let (from, moved) = match self.noted.get(&number) {
                Some((from, queue)) => (*from, *queue != job.queue),
                None => (Stage::None, false),
            };
            if from != to || moved {
                changes.push(Change { number, from, to, why });
            }
        }
        for (&number, &(from, _)) in &self.noted {
            if !self.lives(number) {
                changes.push(Change { number, from, to: Stage::None, why });
            }
        }
        changes
    }
}

fn stage(job: &Job) -> Stage {
    match &job.state {
        State::Blocked => Stage::Blocked,
        State::Delayed { until: Due::Wall(_), .. } => Stage::Dated,
        State::Delayed { until: Due::Engine(_), .. } => Stage::Resting,
        State::Ready => Stage::Ready,
        State::Leased(lease) if lease.holder.is_some() => Stage::Held,
        State::Leased(_) => Stage::Leased,
        State::Done(_) => Stage::Done,
        State::Failed(_) => Stage::Failed,
        State::Buried { .. } => Stage::Buried,
    }
}
