//! Every change of a job's state that there is, with what brings it about. One that happens and is not listed here is wrong;
//! the model's run, and all schedules together but for those of which they say so, must see each.

use std::collections::BTreeMap;

use jobyard_engine::{Change, Stage, Why};

/// The call, why, from where, and to where.
pub type Transition = (&'static str, Why, Stage, Stage);

/// Counts changes.
#[derive(Clone, Debug, Default)]
pub struct Transitions(BTreeMap<Transition, u64>);

impl Transitions {
    /// Counts a change that this call has brought about.
    ///
    /// # Errors
    /// If there is no such change.
    pub fn count(&mut self, called: &'static str, change: &Change) -> Result<(), String> {
        let transition = (call(called, change.why), change.why, change.from, change.to);
        if let Some(count) = self.0.get_mut(&transition) {
            *count += 1;
            return Ok(());
        }
        if !all().any(|listed| listed == transition) {
            return Err(format!("not listed among the transitions, in {called}: {transition:?}"));
        }
        self.0.insert(transition, 1);
        Ok(())
    }

    /// How often each has happened that has.
    pub fn counts(&self) -> impl Iterator<Item = (Transition, u64)> {
        self.0.iter().map(|(transition, count)| (*transition, *count))
    }

    /// What of all that there is has not happened.
    #[must_use]
    pub fn missing(&self) -> Vec<Transition> {
        all().filter(|transition| !self.0.contains_key(transition)).collect()
    }

    /// The counts, to be read by people.
    #[must_use]
    pub fn lines(&self) -> String {
        self.0.iter().map(|(what, count)| format!("{count:>9} {what:?}\n")).collect()
    }
}

/// All changes that there are.
pub fn all() -> impl Iterator<Item = Transition> {
    each(TRANSITIONS)
}

/// The changes in these rows.
pub fn each(rows: &'static [Row]) -> impl Iterator<Item = Transition> {
    rows.iter().flat_map(|&(call, why, from, to)| to.iter().map(move |&to| (call, why, from, to)))
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
pub type Row = (&'static str, Why, Stage, &'static [Stage]);

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_that_there_is_is_counted_and_another_is_refused() {
        let mut seen = Transitions::default();
        let change = |why, from, to| Change { number: 1, from, to, why };
        for _ in 0..2 {
            seen.count("Bury", &change(Why::PutAside, Stage::Held, Stage::Buried)).unwrap();
        }
        assert!(seen.count("Bury", &change(Why::PutAside, Stage::Ready, Stage::Buried)).is_err());
        assert!(seen.count("Remove", &change(Why::PutAside, Stage::Held, Stage::Buried)).is_err());
        let counts: Vec<_> = seen.counts().collect();
        assert_eq!(counts, [(("Bury", Why::PutAside, Stage::Held, Stage::Buried), 2)]);
        assert_eq!(seen.missing().len(), all().count() - 1);
    }

    #[test]
    fn what_is_dragged_along_is_so_in_any_call() {
        let mut seen = Transitions::default();
        for called in ["tick", "disconnect", "Extend"] {
            let change = Change { number: 1, from: Stage::Ready, to: Stage::Held, why: Why::Taken };
            seen.count(called, &change).unwrap();
        }
        assert_eq!(seen.counts().count(), 1);
    }
}
