//! What must become of jobs in many schedules: each change of state that there is, but for those that no schedule brings about.

use jobyard_engine::Stage::{Blocked, Buried, Dated, Done, Failed, Held, Leased, None as Gone, Ready, Resting};
use jobyard_engine::Why;

use crate::transitions::{Row, Transition, Transitions, all, each};

/// What comes only in very many schedules.
#[rustfmt::skip]
const SELDOM: &[Row] = &[
    ("Group", Why::Unblocked, Blocked, &[Dated]),
    ("Complete", Why::Completed, Resting, &[Gone]),
    ("Complete", Why::Completed, Buried, &[Gone, Done]),
    ("Fail", Why::Failed, Ready, &[Resting]),
    ("Fail", Why::UsedUp, Ready, &[Gone]),
    ("Fail", Why::UsedUp, Buried, &[Failed]),
    ("Release", Why::UsedUp, Held, &[Failed]),
    ("ReviveJob", Why::Revived, Resting, &[Ready]),
    ("stop_waiting", Why::RunOver, Buried, &[Gone]),
    ("disconnect", Why::RunOver, Ready, &[Gone]),
    ("tick", Why::RunOver, Buried, &[Gone]),
    ("tick", Why::Expired, Buried, &[Gone]),
    ("restart", Why::RunOver, Buried, &[Gone]),
    ("restart", Why::Expired, Failed, &[Gone]),
    ("restart", Why::Expired, Buried, &[Gone]),
    ("whatever", Why::BlockerUsedUp, Blocked, &[Gone, Ready]),
    ("whatever", Why::Forsaken, Ready, &[Gone]),
];

/// What schedules could bring about, and do so seldom that not even very many of them need to.
#[rustfmt::skip]
const RARE: &[Row] = &[
    ("Complete", Why::Completed, Resting, &[Done]),
    ("Fail", Why::UsedUp, Resting, &[Gone, Ready, Failed]),
    ("Fail", Why::UsedUp, Ready, &[Ready]),
    ("Fail", Why::UsedUp, Buried, &[Gone, Ready]),
    ("stop_waiting", Why::RunOver, Resting, &[Gone]),
    ("disconnect", Why::RunOver, Resting, &[Gone]),
    ("disconnect", Why::RunOver, Buried, &[Gone]),
    ("tick", Why::RunOver, Resting, &[Gone]),
    ("tick", Why::Expired, Resting, &[Gone]),
    ("restart", Why::RunOver, Resting, &[Gone]),
    ("restart", Why::Expired, Resting, &[Gone]),
    ("whatever", Why::Forsaken, Resting, &[Gone]),
    ("whatever", Why::Forsaken, Buried, &[Gone]),
];

/// What no schedule brings about, and why.
#[rustfmt::skip]
const NEVER: &[(&str, &[Row])] = &[
    ("workq alone has jobs run, and those can be taken at once", &[
        ("Run", Why::Put, Gone, &[Blocked, Dated, Resting, Buried]),
        ("Run", Why::RunOver, Blocked, &[Gone]),
        ("Run", Why::RunOver, Dated, &[Gone]),
        ("Run", Why::RunOver, Resting, &[Gone]),
        ("Run", Why::RunOver, Buried, &[Gone]),
        ("stop_waiting", Why::RunOver, Blocked, &[Gone]),
        ("stop_waiting", Why::RunOver, Dated, &[Gone]),
        ("disconnect", Why::RunOver, Blocked, &[Gone]),
        ("disconnect", Why::RunOver, Dated, &[Gone]),
        ("tick", Why::RunOver, Blocked, &[Gone]),
        ("tick", Why::RunOver, Dated, &[Gone]),
        ("restart", Why::RunOver, Blocked, &[Gone]),
        ("restart", Why::RunOver, Dated, &[Gone]),
    ]),
    ("who has a job run in a schedule waits for it", &[
        ("Run", Why::RunOver, Ready, &[Gone]),
    ]),
    ("masenko alone has groups, and knows dates, but neither delays nor jobs that are put aside", &[
        ("Group", Why::Put, Gone, &[Resting, Buried]),
    ]),
    ("the first job of a group has no date in schedules", &[
        ("Group", Why::Put, Gone, &[Dated]),
    ]),
    ("what is blocked is masenko's, which has no delays, no lifetimes, and keeps no failures", &[
        ("Group", Why::Unblocked, Blocked, &[Resting]),
        ("Complete", Why::Unblocked, Blocked, &[Resting]),
        ("Remove", Why::Unblocked, Blocked, &[Resting]),
        ("whatever", Why::Unblocked, Blocked, &[Resting]),
        ("whatever", Why::BlockerUsedUp, Blocked, &[Failed]),
        ("tick", Why::Expired, Blocked, &[Gone]),
        ("restart", Why::Expired, Blocked, &[Gone]),
    ]),
    ("beanstalkd's clients alone take a job by its number, and hold it by their connection", &[
        ("LeaseJob", Why::Taken, Ready, &[Leased]),
    ]),
    ("a job is ended, failed or let back in by who took it once, and from then on it waits for no blockers and no date", &[
        ("Complete", Why::Completed, Blocked, &[Gone, Done]),
        ("Complete", Why::Completed, Dated, &[Gone, Done]),
        ("Fail", Why::Failed, Dated, &[Resting]),
        ("Fail", Why::UsedUp, Blocked, &[Gone, Ready, Failed]),
        ("Fail", Why::UsedUp, Dated, &[Gone, Ready, Failed]),
        ("ReviveJob", Why::Revived, Dated, &[Ready]),
        ("Remove", Why::Removed, Blocked, &[Gone]),
        ("Remove", Why::Removed, Dated, &[Gone]),
    ]),
    ("what goes by itself, and blocks others until then, was run for someone, and no job of a schedule waits for such a one", &[
        ("whatever", Why::Unblocked, Blocked, &[Dated, Ready]),
    ]),
    ("how often a job may be taken is said by workq alone, which keeps failures", &[
        ("Release", Why::UsedUp, Held, &[Gone, Ready]),
        ("tick", Why::UsedUp, Leased, &[Gone, Ready]),
        ("tick", Why::UsedUp, Held, &[Gone, Ready]),
        ("restart", Why::UsedUp, Ready, &[Gone, Ready]),
        ("restart", Why::UsedUp, Leased, &[Gone, Ready]),
    ]),
    ("who has lost its holder is ready in the engine that comes next, and the one that knew of the holder is gone", &[
        ("restart", Why::HolderLost, Held, &[Ready]),
    ]),
];

/// How often each change has happened, by name.
pub fn counts(changes: &Transitions) -> Vec<(String, u64)> {
    changes.counts().map(|(transition, count)| (name(transition), count)).collect()
}

/// What has to happen in many schedules, or in very many.
pub fn demanded(very_many: bool) -> impl Iterator<Item = String> {
    let may_be_missing = move |transition: &Transition| {
        let seldom = each(SELDOM).filter(|_| !very_many);
        seldom.chain(each(RARE)).chain(never()).any(|may_be_missing| may_be_missing == *transition)
    };
    all().filter(move |transition| !may_be_missing(transition)).map(name)
}

/// What no schedule brings about.
fn never() -> impl Iterator<Item = Transition> {
    NEVER.iter().flat_map(|(_, rows)| each(rows))
}

fn name((call, why, from, to): Transition) -> String {
    format!("change {why:?} in {call}: {from:?} to {to:?}")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn what_may_be_missing_is_a_change_and_in_one_list() {
        let may_be_missing: Vec<Transition> = each(SELDOM).chain(each(RARE)).chain(never()).collect();
        let listed: BTreeSet<Transition> = all().collect();
        assert!(may_be_missing.iter().all(|transition| listed.contains(transition)));
        let distinct: BTreeSet<&Transition> = may_be_missing.iter().collect();
        assert_eq!(distinct.len(), may_be_missing.len());
        assert_eq!(demanded(true).count(), listed.len() - may_be_missing.len() + each(SELDOM).count());
        assert_eq!(demanded(false).count(), listed.len() - may_be_missing.len());
    }
}
