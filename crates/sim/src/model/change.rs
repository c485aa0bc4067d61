//! What happened to jobs, one change of state at a time, so that a test can say which changes it has seen.

use jobyard_engine::{Due, JobNumber};

use super::Model;
use super::job::{Job, State};

/// Where a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// There is no such job: not yet, or no more.
    None,
    /// It waits for its blockers.
    Blocked,
    /// It waits for its date.
    Dated,
    /// It waits for a while.
    Resting,
    /// It can be taken.
    Ready,
    /// It was taken, whatever becomes of the taker's connection.
    Leased,
    /// It was taken until its holder's connection ends.
    Held,
    /// It was completed, and its result is kept.
    Done,
    /// It has finally failed, and its result is kept.
    Failed,
    /// It was put aside.
    Buried,
}

/// What changed a job's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// It was put.
    Put,
    /// The last of its blockers was completed or removed.
    Unblocked,
    /// Its date came.
    DateCame,
    /// It has rested.
    Rested,
    /// Someone took it.
    Taken,
    /// It was completed.
    Completed,
    /// It failed, and may be tried again.
    Failed,
    /// It may not be tried again.
    UsedUp,
    /// One of its blockers may not be tried again, or expired.
    BlockerUsedUp,
    /// Its lease ended, and it may be taken again.
    PutBack,
    /// Its holder put it back, perhaps for later.
    Released,
    /// Its holder put it aside.
    PutAside,
    /// It was let back in.
    Revived,
    /// Its holder vanished, and it has no rules for that.
    HolderVanished,
    /// Its lease never reached the taker.
    Undone,
    /// It was removed.
    Removed,
    /// It was run for someone, and the time for that is over.
    RunOver,
    /// It was run for someone who waits no longer, and its lease has ended.
    Forsaken,
    /// Its lifetime is over.
    Expired,
    /// A crash took its holder.
    HolderLost,
}

/// One job's change of state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Which job.
    pub number: JobNumber,
    /// Where it stood.
    pub from: Stage,
    /// Where it stands.
    pub to: Stage,
    /// Why.
    pub why: Why,
}

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
