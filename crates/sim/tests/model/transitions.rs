//! Every change of a job's state that there is, with what brings it about. One that never happens in a run, and one that
//! happens and is not listed here, fail the test.

use std::collections::BTreeMap;

use jobyard_engine::{Due, JobNumber, JobSnapshot, Snapshot, StateView};
use jobyard_sim::model::{Change, Stage, Why};

/// The call, why, from where, and to where.
type Transition = (&'static str, Why, Stage, Stage);

/// Counts changes over all runs.
#[derive(Default)]
pub struct Transitions {
    counts: BTreeMap<Transition, u64>,
}

impl Transitions {
    /// Counts what one call has changed, and holds it against what was there before and after.
    pub fn count(
        &mut self,
        called: &'static str,
        changes: &[Change],
        before: &Snapshot,
        after: &Snapshot,
    ) -> Result<(), String> {
        let mut stages = stages(before);
        for change in changes {
            let was = stages.insert(change.number, change.to).unwrap_or(Stage::None);
            if was != change.from {
                return Err(format!("{change:?}, but it was {was:?}"));
            }
            let transition = (call(called, change.why), change.why, change.from, change.to);
            if !all().any(|listed| listed == transition) {
                return Err(format!("not listed among the transitions, in {called}: {transition:?}"));
            }
            *self.counts.entry(transition).or_default() += 1;
        }
        stages.retain(|_, stage| *stage != Stage::None);
        if stages != self::stages(after) {
            return Err(format!("jobs changed otherwise than by {changes:?}"));
        }
        Ok(())
    }

    /// What of all that there is has not happened.
    pub fn missing(&self) -> Vec<Transition> {
        all().filter(|transition| !self.counts.contains_key(transition)).collect()
    }

    pub fn lines(&self) -> String {
        self.counts.iter().map(|(what, count)| format!("{count:>9} {what:?}\n")).collect()
    }
}

fn all() -> impl Iterator<Item = Transition> {
    TRANSITIONS.iter().flat_map(|&(call, why, from, to)| to.iter().map(move |&to| (call, why, from, to)))
}

fn stages(snapshot: &Snapshot) -> BTreeMap<JobNumber, Stage> {
    snapshot.jobs.iter().map(|job| (job.number, stage(job))).collect()
}

fn stage(job: &JobSnapshot) -> Stage {
    match (job.state, job.delay_until, job.held_by) {
        (StateView::Blocked, ..) => Stage::Blocked,
        (StateView::Delayed, Some(Due::Wall(_)), _) => Stage::Dated,
        (StateView::Delayed, ..) => Stage::Resting,
        (StateView::Ready, ..) => Stage::Ready,
        (StateView::Leased, _, None) => Stage::Leased,
        (StateView::Leased, _, Some(_)) => Stage::Held,
        (StateView::Done, ..) => Stage::Done,
        (StateView::Failed, ..) => Stage::Failed,
        (StateView::Buried, ..) => Stage::Buried,
    }
}

/// The call that brings about a change. Whatever drags other jobs along does so in the same way: there only those calls
/// are told apart that are asked for it.
fn call(called: &'static str, why: Why) -> &'static str {
    match (why, called) {
        (Why::Taken, "Lease" | "LeaseJob") | (Why::Unblocked, "Complete" | "Group" | "Remove") => called,
        (Why::Taken, _) => "whatever serves those who wait",
        (Why::Unblocked | Why::BlockerUsedUp | Why::Forsaken, _) => "whatever",
        _ => called,
    }
}

/// The call, why it changes a job, where the job stood, and all the places where it may stand then.
type Row = (&'static str, Why, Stage, &'static [Stage]);

/// All that there is.
#[rustfmt::skip]
const TRANSITIONS: &[Row] = &[
    ("Enqueue", Why::Put, Stage::None, &[Stage::Blocked, Stage::Dated, Stage::Resting, Stage::Ready, Stage::Buried]),
    ("Run", Why::Put, Stage::None, &[Stage::Blocked, Stage::Dated, Stage::Resting, Stage::Ready, Stage::Buried]),
    ("Run", Why::RunOver, Stage::Blocked, &[Stage::None]),
    ("Run", Why::RunOver, Stage::Dated, &[Stage::None]),
    ("Run", Why::RunOver, Stage::Resting, &[Stage::None]),
    ("Run", Why::RunOver, Stage::Ready, &[Stage::None]),
    ("Run", Why::RunOver, Stage::Buried, &[Stage::None]),
    ("Group", Why::Put, Stage::None, &[Stage::Blocked, Stage::Dated, Stage::Resting, Stage::Ready, Stage::Buried]),
    ("Group", Why::Completed, Stage::Held, &[Stage::None, Stage::Done]),
    ("Group", Why::Unblocked, Stage::Blocked, &[Stage::Dated, Stage::Resting, Stage::Ready]),
    ("Lease", Why::Taken, Stage::Ready, &[Stage::Leased, Stage::Held]),
    ("LeaseJob", Why::Revived, Stage::Dated, &[Stage::Ready]),
    ("LeaseJob", Why::Revived, Stage::Resting, &[Stage::Ready]),
    ("LeaseJob", Why::Revived, Stage::Buried, &[Stage::Ready]),
    ("LeaseJob", Why::Taken, Stage::Ready, &[Stage::Leased, Stage::Held]),
    ("whatever serves those who wait", Why::Taken, Stage::Ready, &[Stage::Leased, Stage::Held]),
    ("Complete", Why::Completed, Stage::Blocked, &[Stage::None, Stage::Done]),
    ("Complete", Why::Completed, Stage::Dated, &[Stage::None, Stage::Done]),
    ("Complete", Why::Completed, Stage::Resting, &[Stage::None, Stage::Done]),
    ("Complete", Why::Completed, Stage::Ready, &[Stage::None, Stage::Done]),
    ("Complete", Why::Completed, Stage::Leased, &[Stage::None, Stage::Done]),
    ("Complete", Why::Completed, Stage::Held, &[Stage::None, Stage::Done]),
    ("Complete", Why::Completed, Stage::Buried, &[Stage::None, Stage::Done]),
    ("Complete", Why::Unblocked, Stage::Blocked, &[Stage::Dated, Stage::Resting, Stage::Ready]),
    ("Fail", Why::Failed, Stage::Dated, &[Stage::Resting]),
    ("Fail", Why::Failed, Stage::Ready, &[Stage::Resting]),
    ("Fail", Why::Failed, Stage::Leased, &[Stage::Resting, Stage::Ready]),
    ("Fail", Why::Failed, Stage::Held, &[Stage::Resting, Stage::Ready]),
    ("Fail", Why::UsedUp, Stage::Blocked, &[Stage::None, Stage::Ready, Stage::Failed]),
    ("Fail", Why::UsedUp, Stage::Dated, &[Stage::None, Stage::Ready, Stage::Failed]),
    ("Fail", Why::UsedUp, Stage::Resting, &[Stage::None, Stage::Ready, Stage::Failed]),
    ("Fail", Why::UsedUp, Stage::Ready, &[Stage::None, Stage::Ready, Stage::Failed]),
    ("Fail", Why::UsedUp, Stage::Leased, &[Stage::None, Stage::Ready, Stage::Failed]),
    ("Fail", Why::UsedUp, Stage::Held, &[Stage::None, Stage::Ready, Stage::Failed]),
    ("Fail", Why::UsedUp, Stage::Buried, &[Stage::None, Stage::Ready, Stage::Failed]),
    ("Release", Why::UsedUp, Stage::Held, &[Stage::None, Stage::Ready, Stage::Failed]),
    ("Release", Why::PutBack, Stage::Held, &[Stage::Ready]),
    ("Release", Why::Released, Stage::Held, &[Stage::Resting, Stage::Ready]),
    ("Bury", Why::PutAside, Stage::Held, &[Stage::Buried]),
    ("Revive", Why::Revived, Stage::Dated, &[Stage::Ready]),
    ("Revive", Why::Revived, Stage::Resting, &[Stage::Ready]),
    ("Revive", Why::Revived, Stage::Buried, &[Stage::Ready]),
    ("ReviveJob", Why::Revived, Stage::Dated, &[Stage::Ready]),
    ("ReviveJob", Why::Revived, Stage::Resting, &[Stage::Ready]),
    ("ReviveJob", Why::Revived, Stage::Buried, &[Stage::Ready]),
    ("Remove", Why::Removed, Stage::Blocked, &[Stage::None]),
    ("Remove", Why::Removed, Stage::Dated, &[Stage::None]),
    ("Remove", Why::Removed, Stage::Resting, &[Stage::None]),
    ("Remove", Why::Removed, Stage::Ready, &[Stage::None]),
    ("Remove", Why::Removed, Stage::Leased, &[Stage::None]),
    ("Remove", Why::Removed, Stage::Held, &[Stage::None]),
    ("Remove", Why::Removed, Stage::Done, &[Stage::None]),
    ("Remove", Why::Removed, Stage::Failed, &[Stage::None]),
    ("Remove", Why::Removed, Stage::Buried, &[Stage::None]),
    ("Remove", Why::Unblocked, Stage::Blocked, &[Stage::Dated, Stage::Resting, Stage::Ready]),
    ("undo_lease", Why::Undone, Stage::Leased, &[Stage::Ready]),
    ("undo_lease", Why::Undone, Stage::Held, &[Stage::Ready]),
    ("stop_waiting", Why::RunOver, Stage::Blocked, &[Stage::None]),
    ("stop_waiting", Why::RunOver, Stage::Dated, &[Stage::None]),
    ("stop_waiting", Why::RunOver, Stage::Resting, &[Stage::None]),
    ("stop_waiting", Why::RunOver, Stage::Ready, &[Stage::None]),
    ("stop_waiting", Why::RunOver, Stage::Buried, &[Stage::None]),
    ("disconnect", Why::Failed, Stage::Held, &[Stage::Resting, Stage::Ready]),
    ("disconnect", Why::UsedUp, Stage::Held, &[Stage::None, Stage::Ready, Stage::Failed]),
    ("disconnect", Why::PutBack, Stage::Held, &[Stage::Ready]),
    ("disconnect", Why::HolderVanished, Stage::Held, &[Stage::Resting]),
    ("disconnect", Why::RunOver, Stage::Blocked, &[Stage::None]),
    ("disconnect", Why::RunOver, Stage::Dated, &[Stage::None]),
    ("disconnect", Why::RunOver, Stage::Resting, &[Stage::None]),
    ("disconnect", Why::RunOver, Stage::Ready, &[Stage::None]),
    ("disconnect", Why::RunOver, Stage::Buried, &[Stage::None]),
    ("tick", Why::UsedUp, Stage::Leased, &[Stage::None, Stage::Ready, Stage::Failed]),
    ("tick", Why::UsedUp, Stage::Held, &[Stage::None, Stage::Ready, Stage::Failed]),
    ("tick", Why::PutBack, Stage::Leased, &[Stage::Ready]),
    ("tick", Why::PutBack, Stage::Held, &[Stage::Ready]),
    ("tick", Why::DateCame, Stage::Dated, &[Stage::Ready]),
    ("tick", Why::Rested, Stage::Resting, &[Stage::Ready]),
    ("tick", Why::RunOver, Stage::Blocked, &[Stage::None]),
    ("tick", Why::RunOver, Stage::Dated, &[Stage::None]),
    ("tick", Why::RunOver, Stage::Resting, &[Stage::None]),
    ("tick", Why::RunOver, Stage::Ready, &[Stage::None]),
    ("tick", Why::RunOver, Stage::Leased, &[Stage::None]),
    ("tick", Why::RunOver, Stage::Held, &[Stage::None]),
    ("tick", Why::RunOver, Stage::Buried, &[Stage::None]),
    ("tick", Why::Expired, Stage::Blocked, &[Stage::None]),
    ("tick", Why::Expired, Stage::Resting, &[Stage::None]),
    ("tick", Why::Expired, Stage::Ready, &[Stage::None]),
    ("tick", Why::Expired, Stage::Leased, &[Stage::None]),
    ("tick", Why::Expired, Stage::Held, &[Stage::None]),
    ("tick", Why::Expired, Stage::Done, &[Stage::None]),
    ("tick", Why::Expired, Stage::Failed, &[Stage::None]),
    ("tick", Why::Expired, Stage::Buried, &[Stage::None]),
    ("restart", Why::UsedUp, Stage::Ready, &[Stage::None, Stage::Ready, Stage::Failed]),
    ("restart", Why::UsedUp, Stage::Leased, &[Stage::None, Stage::Ready, Stage::Failed]),
    ("restart", Why::PutBack, Stage::Leased, &[Stage::Ready]),
    ("restart", Why::HolderLost, Stage::Held, &[Stage::Ready]),
    ("restart", Why::DateCame, Stage::Dated, &[Stage::Ready]),
    ("restart", Why::Rested, Stage::Resting, &[Stage::Ready]),
    ("restart", Why::RunOver, Stage::Blocked, &[Stage::None]),
    ("restart", Why::RunOver, Stage::Dated, &[Stage::None]),
    ("restart", Why::RunOver, Stage::Resting, &[Stage::None]),
    ("restart", Why::RunOver, Stage::Ready, &[Stage::None]),
    ("restart", Why::RunOver, Stage::Leased, &[Stage::None]),
    ("restart", Why::RunOver, Stage::Buried, &[Stage::None]),
    ("restart", Why::Expired, Stage::Blocked, &[Stage::None]),
    ("restart", Why::Expired, Stage::Resting, &[Stage::None]),
    ("restart", Why::Expired, Stage::Ready, &[Stage::None]),
    ("restart", Why::Expired, Stage::Leased, &[Stage::None]),
    ("restart", Why::Expired, Stage::Done, &[Stage::None]),
    ("restart", Why::Expired, Stage::Failed, &[Stage::None]),
    ("restart", Why::Expired, Stage::Buried, &[Stage::None]),
    ("whatever", Why::Unblocked, Stage::Blocked, &[Stage::Dated, Stage::Resting, Stage::Ready]),
    ("whatever", Why::BlockerUsedUp, Stage::Blocked, &[Stage::None, Stage::Ready, Stage::Failed]),
    ("whatever", Why::Forsaken, Stage::Resting, &[Stage::None]),
    ("whatever", Why::Forsaken, Stage::Ready, &[Stage::None]),
    ("whatever", Why::Forsaken, Stage::Buried, &[Stage::None]),
];
