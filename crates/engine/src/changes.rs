//! What becomes of jobs: each change of state, in which call, and why. Noted only for someone who wants to know, so that it can
//! be said which of them a test has seen.

use std::collections::BTreeMap;

use crate::engine::Engine;
use crate::job::{Due, Job, State};
use crate::names::JobNumber;
use crate::queue::QueueId;

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
    /// Where it stands. The same if it has only gone to another queue.
    pub to: Stage,
    /// Why.
    pub why: Why,
}

/// Where a job stands, and in which queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    stage: Stage,
    queue: Option<QueueId>,
}

impl Standing {
    pub(crate) const NOWHERE: Standing = Standing { stage: Stage::None, queue: None };

    pub(crate) fn of(job: &Job) -> Self {
        let stage = match job.state {
            _ if job.is_over() => return Standing::NOWHERE,
            State::Blocked => Stage::Blocked,
            State::Delayed { due: Due::Wall(_), .. } => Stage::Dated,
            State::Delayed { due: Due::Engine(_), .. } => Stage::Resting,
            State::Ready => Stage::Ready,
            State::Leased { .. } => Stage::Leased,
            State::Held { .. } => Stage::Held,
            State::Done => Stage::Done,
            State::Failed => Stage::Failed,
            State::Buried { .. } => Stage::Buried,
        };
        Standing { stage, queue: Some(job.queue) }
    }
}

/// What is noted.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// The call that is under way.
    call: &'static str,
    /// Of which it was not said why: where each job stood, and where it stands.
    unsaid: BTreeMap<JobNumber, (Standing, Standing)>,
    noted: Vec<(&'static str, Change)>,
}

impl Changes {
    /// A job stood there, and now stands here.
    pub(crate) fn changed(&mut self, number: JobNumber, was: Standing, is: Standing) {
        if was != is {
            self.unsaid.entry(number).or_insert((was, was)).1 = is;
        }
    }

    fn note(&mut self, why: Why) {
        for (number, (was, is)) in std::mem::take(&mut self.unsaid) {
            if was != is {
                self.noted.push((self.call, Change { number, from: was.stage, to: is.stage, why }));
            }
        }
    }

    fn check(&self) {
        assert!(self.unsaid.is_empty(), "whatever changes a job's state says why: {}, {:?}", self.call, self.unsaid);
    }
}

impl Engine {
    /// From now on changes are noted for [`Engine::take_changes`].
    pub fn note_changes(&mut self) {
        self.store.jobs.changes = Some(Box::default());
    }

    /// The changes of jobs' states since this was last asked, each with the call that it happened in; none if they are not
    /// noted. What was read back from the log is none of them.
    ///
    /// # Panics
    /// If a job's state was changed and it was not said why.
    pub fn take_changes(&mut self) -> Vec<(&'static str, Change)> {
        let Some(changes) = &mut self.store.jobs.changes else { return Vec::new() };
        changes.check();
        std::mem::take(&mut changes.noted)
    }

    /// What changes from now on does so in this call.
    pub(crate) fn called(&mut self, call: &'static str) {
        if let Some(changes) = &mut self.store.jobs.changes {
            changes.check();
            changes.call = call;
        }
    }

    /// This is why jobs' states have changed since this was last said.
    pub(crate) fn note(&mut self, why: Why) {
        if let Some(changes) = &mut self.store.jobs.changes {
            changes.note(why);
        }
    }

    /// What has changed was so before.
    pub(crate) fn forget_changes(&mut self) {
        if let Some(changes) = &mut self.store.jobs.changes {
            changes.unsaid.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "says why: Enqueue")]
    fn a_change_of_which_nobody_says_why_is_a_fault() {
        let mut changes = Changes { call: "Enqueue", ..Changes::default() };
        changes.changed(7, Standing::NOWHERE, Standing { stage: Stage::Ready, queue: None });
        changes.check();
    }
}
