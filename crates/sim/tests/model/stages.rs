//! Whether jobs stand where their changes say.

use std::collections::BTreeMap;

use jobyard_engine::{Change, Due, JobNumber, JobSnapshot, Snapshot, Stage, StateView};

/// Holds what one call has changed against what was there before and after.
pub fn check(changes: &[Change], before: &Snapshot, after: &Snapshot) -> Result<(), String> {
    let mut stages = stages(before);
    for change in changes {
        let was = stages.insert(change.number, change.to).unwrap_or(Stage::None);
        if was != change.from {
            return Err(format!("{change:?}, but it was {was:?}"));
        }
    }
    stages.retain(|_, stage| *stage != Stage::None);
    if stages != self::stages(after) {
        return Err(format!("jobs changed otherwise than by {changes:?}"));
    }
    Ok(())
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
