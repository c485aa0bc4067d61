//! Jobs that were put aside, or are delayed, and are let back in: how many must have been, which of them, and which comes first.

use std::collections::BTreeMap;

use super::aside::Rest;
use super::{Job, Ledger, SECOND_MS, When};
use crate::clients::{BEANSTALKD, Entry};
use crate::world::Wrong;

/// Requests of which some are not answered, and the turn in which one last was.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Requests {
    pub(super) open: usize,
    answered_turn: Option<u64>,
}

/// When a job was last put aside, and since when it surely is not.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Burial {
    /// Between these turns it was put aside, if it still is for certain.
    pub(super) turns: (u64, u64),
    /// In this turn it was not put aside, and nobody has asked for that since.
    pub(super) not_in_turn: Option<u64>,
    /// Since this turn it is known that nothing keeps it, if nothing does.
    pub(super) over_turn: u64,
}

/// Someone let jobs of a queue back in.
#[derive(Clone, Copy, Debug)]
pub struct Kick {
    /// The queue.
    pub queue: &'static str,
    /// So many at most.
    pub count: usize,
    /// So many, as was said.
    pub kicked: usize,
    /// When that was asked for.
    pub asked: When,
    /// Up to when the server has seen what ran out then.
    pub seen: When,
    /// Whether someone may have been given jobs of the queue, and nobody knows.
    pub unclear: bool,
}

/// What keeps a job that is let back in, and since when.
#[derive(Clone, Copy, Debug)]
struct Kept {
    entry: Entry,
    /// The first and the last moment at which its place among others may begin.
    from: u64,
    to: u64,
}

/// What a kick may have found in its queue, and what it must have found.
#[derive(Debug)]
struct Found {
    buried: Vec<Kept>,
    may_be_buried: usize,
    delayed: Vec<Kept>,
    may_be_delayed: usize,
}

impl Burial {
    /// Someone asks to put a job that is put aside from the first.
    pub(super) fn of_put(asked: When) -> Self {
        Burial { turns: (asked.turn, u64::MAX), ..Burial::default() }
    }

    /// Such a job was said to be there. It may have been put aside anew before that was heard.
    pub(super) fn put_told(&mut self, when: When) {
        self.turns.1 = self.turns.1.min(when.turn);
    }
}

impl Requests {
    pub(super) fn answered(&mut self, turn: u64) {
        self.open -= 1;
        self.answered_turn = self.answered_turn.max(Some(turn));
    }

    /// Whether one may have been carried out since then.
    pub(super) fn any_since(self, since: When) -> bool {
        self.open > 0 || self.answered_turn.is_some_and(|turn| turn >= since.turn)
    }

    /// Whether none but what was just answered can have been carried out after that turn.
    fn none_after(self, turn: u64) -> bool {
        self.open == 0 && self.answered_turn.is_none_or(|answered| answered <= turn)
    }
}

impl Kept {
    /// How many of these come before it for certain; each has a place of its own.
    fn after(&self, all: &[Kept]) -> usize {
        all.iter().filter(|other| other.is_before(self)).count()
    }

    fn is_before(&self, other: &Kept) -> bool {
        self.entry != other.entry && self.to <= other.from
    }
}

impl Found {
    /// The least and the most that may be let back in of so many.
    fn bounds(&self, count: usize) -> (usize, usize) {
        let (least, most) = if !self.buried.is_empty() {
            (self.buried.len(), self.may_be_buried)
        } else if self.may_be_buried == 0 {
            (self.delayed.len(), self.may_be_delayed)
        } else {
            // If one is put aside, or none, one is let back in.
            (self.delayed.len().min(1), self.may_be_buried.max(self.may_be_delayed))
        };
        (least.min(count), most.min(count))
    }
}

impl Ledger {
    /// Someone asks to let jobs of a queue back in: until it is known which, it may be any.
    pub fn kick_asked(&mut self, queue: &'static str) {
        self.kicks.entry(queue).or_default().open += 1;
    }

    /// It was refused: nothing has changed.
    pub fn kick_refused(&mut self, queue: &'static str) {
        self.kicks.entry(queue).or_default().open -= 1;
    }

    /// It is not heard of again.
    pub fn kick_lost(&mut self, queue: &'static str, now: When) {
        self.kicks.entry(queue).or_default().answered(now.turn);
        self.jobs.iter_mut().filter(|job| job.put.may_be_in(queue)).for_each(Job::may_wake);
    }

    /// It was done: those that were put aside come first, the one that was so for longest before all others, and only if there
    /// is none of these, the delayed ones.
    ///
    /// # Errors
    /// If that cannot be.
    pub fn kicked(&mut self, kick: &Kick, when: When) -> Result<(), Wrong> {
        let &Kick { queue, count, kicked, asked, .. } = kick;
        let requests = self.kicks.entry(queue).or_default();
        let is_alone = Requests { open: requests.open - 1, ..*requests }.none_after(asked.turn);
        requests.answered(when.turn);
        if kicked > count {
            return Err(format!("{count} jobs of '{queue}' were to be let back in, and {kicked} were"));
        }
        if !is_alone {
            self.jobs.iter_mut().filter(|job| job.put.may_be_in(queue)).for_each(Job::may_wake);
            return Ok(());
        }
        let found = self.found(kick, when);
        let (least, most) = found.bounds(count);
        if kicked < least || kicked > most {
            return Err(format!(
                "{kicked} jobs of '{queue}' were let back in, and it must be {least} to {most}: {found:?}"
            ));
        }
        let is_chosen = !found.buried.is_empty() && !found.delayed.is_empty();
        for (rule, says) in [
            ("checked: as many were let back in as must be", least > 0),
            ("checked: of what could be let back in only so much was", least == count && found.buried.len() > count),
            ("checked: what was put aside is let back in before what is delayed", is_chosen && kicked > 0),
        ] {
            *self.checked.entry(rule).or_default() += u64::from(says);
        }
        self.let_in(kick, &found, when);
        Ok(())
    }

    /// What a kick, and no other, can have found.
    fn found(&self, kick: &Kick, when: When) -> Found {
        let &Kick { queue, asked, seen, unclear, .. } = kick;
        let mut found = Found { buried: Vec::new(), may_be_buried: 0, delayed: Vec::new(), may_be_delayed: 0 };
        for job in self.may_be_in(queue, seen, when) {
            let (entry, is_of_queue) = (job.put.entry, job.put.queue == queue && job.put.dead_queue.is_none());
            let is_known = is_of_queue && job.kicks.none_after(asked.turn);
            found.may_be_buried += usize::from(job.may_have_been_buried_since(asked.turn));
            found.may_be_delayed += usize::from(unclear || self.may_be(entry, true, when.at_ms));
            if is_known && self.stays_buried(entry, asked.turn + 1, when.at_ms) {
                let (from, to) = job.burial.turns;
                found.buried.push(Kept { entry, from, to });
            }
            if let Some((from, to)) = self.due_if_delayed(entry, asked.turn, when.at_ms).filter(|_| is_known) {
                found.delayed.push(Kept { entry, from, to: to + SECOND_MS });
            }
        }
        found
    }

    /// What a kick has changed, as far as anyone can tell.
    fn let_in(&mut self, kick: &Kick, found: &Found, when: When) {
        let &Kick { queue, count, kicked, .. } = kick;
        // With as many as it was to be, there may be more.
        let is_all = kicked < count;
        let took = |kept: &[Kept], may_be: usize| -> BTreeMap<Entry, Option<bool>> {
            let others = may_be - kept.len();
            let is_in = |job: &Kept| {
                let after = kept.iter().filter(|other| job.is_before(other)).count();
                let before_most = others + kept.len() - 1 - after;
                if job.after(kept) >= kicked {
                    Some(false)
                } else if is_all || before_most < kicked {
                    Some(true)
                } else {
                    None
                }
            };
            kept.iter().map(|job| (job.entry, is_in(job))).collect()
        };
        let buried = took(&found.buried, found.may_be_buried);
        let is_delayeds = found.may_be_buried == 0;
        let mut delayed = took(&found.delayed, found.may_be_delayed);
        if !is_delayeds {
            delayed.values_mut().filter(|is_in| **is_in == Some(true)).for_each(|is_in| *is_in = None);
        }
        let may_take_delayed = kicked > 0 && found.buried.is_empty();
        let sorted =
            buried.values().any(|is_in| *is_in == Some(true)) && buried.values().any(|is_in| *is_in == Some(false));
        for job in self.jobs.iter_mut().filter(|job| job.put.may_be_in(queue) && kicked > 0) {
            // One that was let back in may have been given to someone who heard of it sooner.
            let is_buried = job.rest == Rest::Buried
                || job.rest == Rest::Unclear
                || job.may_have_been_buried_since(kick.asked.turn);
            let is_in = match (buried.get(&job.put.entry), delayed.get(&job.put.entry)) {
                (Some(is_in), _) => *is_in,
                _ if is_buried => None,
                (None, Some(is_in)) if may_take_delayed => *is_in,
                (None, None) if may_take_delayed => None,
                (None, _) => Some(false),
            };
            match is_in {
                Some(true) => job.is_let_in(when),
                Some(false) => {}
                None => job.may_wake(),
            }
        }
        *self.checked.entry("checked: a kick took some of those put aside and left others").or_default() +=
            u64::from(sorted);
    }

    /// Someone asks to let one job back in.
    pub fn kick_job_asked(&mut self, entry: Entry) {
        self.jobs[entry].kicks.open += 1;
    }

    /// It was done.
    pub fn kick_job_done(&mut self, entry: Entry, asked: When, when: When) {
        let job = &mut self.jobs[entry];
        job.kicks.answered(when.turn);
        if job.asides == 0 && job.rested_turn < asked.turn {
            job.is_let_in(when);
            *self.checked.entry("checked: a job was let back in").or_default() += 1;
        } else {
            job.may_wake();
        }
    }

    /// It was refused: nothing has changed. If that is because the job is not there, or neither put aside nor delayed, it was not.
    ///
    /// # Errors
    /// If it was there for certain.
    pub fn kick_job_refused(&mut self, entry: Entry, not_found: bool, asked: When, when: When) -> Result<(), Wrong> {
        let job = &mut self.jobs[entry];
        job.kicks.open -= 1;
        if !not_found || !job.kicks.none_after(asked.turn) || self.any_kick_after(entry, asked.turn) {
            return Ok(());
        }
        let is_kept = self.stays_buried(entry, asked.turn, when.at_ms)
            || self.due_if_delayed(entry, asked.turn, when.at_ms).is_some();
        if is_kept {
            return Err(format!("job {entry} was put aside or delayed, and was not found: {:?}", self.jobs[entry]));
        }
        *self.checked.entry("checked: a job could not be let back in").or_default() += 1;
        Ok(())
    }

    /// It is not heard of again.
    pub fn kick_job_lost(&mut self, entry: Entry, now: When) {
        self.jobs[entry].kicks.answered(now.turn);
        self.jobs[entry].may_wake();
    }

    /// Whether someone may have let this job back in since then.
    pub(super) fn may_be_kicked_since(&self, entry: Entry, since: When) -> bool {
        let job = &self.jobs[entry];
        job.kicks.any_since(since) || self.kicks_of(job).any(|kicks| kicks.any_since(since))
    }

    /// Whether any job of its queue may have been let back in after that turn.
    fn any_kick_after(&self, entry: Entry, turn: u64) -> bool {
        self.kicks_of(&self.jobs[entry]).any(|kicks| !kicks.none_after(turn))
    }

    fn kicks_of(&self, job: &Job) -> impl Iterator<Item = Requests> {
        self.kicks.iter().filter(|(queue, _)| job.put.may_be_in(queue)).map(|(_, kicks)| *kicks)
    }

    /// Whether someone asks to let this job back in, or any of its queue, and was not answered.
    pub(super) fn is_being_kicked(&self, job: &Job) -> bool {
        job.kicks.open > 0 || self.kicks_of(job).any(|kicks| kicks.open > 0)
    }

    /// Whether a job may have been let back in, so that it comes before its time.
    pub(super) fn may_be_woken(&self, job: &Job) -> bool {
        job.may_be_woken || self.is_being_kicked(job)
    }

    /// What keeps a job, as far as anyone can tell now.
    pub(super) fn rest_of(&self, job: &Job) -> Rest {
        match job.rest {
            Rest::Buried if self.is_being_kicked(job) => Rest::Unclear,
            Rest::Later { since_ms, over_ms, .. } if self.is_being_kicked(job) => {
                Rest::Later { since_ms, until_ms: 0, over_ms }
            }
            rest => rest,
        }
    }

    /// Whether a job was put aside before that turn, and is so still, for certain, unless it is let back in just now.
    fn stays_buried(&self, entry: Entry, by_turn: u64, at_ms: u64) -> bool {
        let job = &self.jobs[entry];
        job.rest == Rest::Buried && job.asides == 0 && job.rested_turn < by_turn && self.must_be_there(entry, at_ms)
    }

    /// Whether a job was put aside before that turn, and is so still, for certain.
    #[must_use]
    pub fn is_buried(&self, entry: Entry, by_turn: u64, at_ms: u64) -> bool {
        self.stays_buried(entry, by_turn, at_ms) && !self.is_being_kicked(&self.jobs[entry])
    }

    /// Whether a job was delayed by that turn, and is so still, for certain.
    #[must_use]
    pub fn is_delayed(&self, entry: Entry, by_turn: u64, at_ms: u64) -> bool {
        self.due_if_delayed(entry, by_turn, at_ms).is_some() && !self.is_being_kicked(&self.jobs[entry])
    }

    /// Between which times a job falls due that was delayed by that turn and is so still, for certain, unless it is let back in
    /// just now.
    pub(super) fn due_if_delayed(&self, entry: Entry, by_turn: u64, at_ms: u64) -> Option<(u64, u64)> {
        let job = &self.jobs[entry];
        let told = job.put_told.filter(|told| told.turn <= by_turn)?;
        let is_plain = job.asides + job.disturbing + job.fails == 0 && self.blockers(entry).is_empty();
        let due_ms = match job.rest {
            Rest::AsPut => {
                let delay_ms = u64::from(job.put.delay_s?) * 1_000;
                let is_known = job.leases.is_empty() && !job.may_be_woken && !self.is_date_lost(job);
                let due_ms = job.asked.at_ms + delay_ms;
                // A date is in whole seconds.
                let early_ms = if job.protocol == BEANSTALKD { 0 } else { 999 };
                (is_known && !self.is_time_lost_since(job.asked.at_ms))
                    .then_some((due_ms.saturating_sub(early_ms), told.at_ms + delay_ms))
            }
            Rest::Later { since_ms, until_ms, over_ms } => {
                let is_known = until_ms > 0 && job.rested_turn <= by_turn && !self.is_time_lost_since(since_ms);
                is_known.then_some((until_ms, over_ms - SECOND_MS))
            }
            Rest::Buried | Rest::Over | Rest::Unclear => None,
        };
        due_ms.filter(|(from, _)| is_plain && at_ms < *from && self.must_be_there(entry, at_ms))
    }

    /// The jobs of this queue that are put aside for certain, see [`Ledger::is_buried`].
    pub fn all_buried(&self, queue: &str, by_turn: u64, at_ms: u64) -> impl Iterator<Item = Entry> {
        self.plain_of(queue).filter(move |&entry| self.is_buried(entry, by_turn, at_ms))
    }

    /// The jobs of this queue that are delayed for certain, see [`Ledger::is_delayed`].
    pub fn all_delayed(&self, queue: &str, by_turn: u64, at_ms: u64) -> impl Iterator<Item = Entry> {
        self.plain_of(queue).filter(move |&entry| self.is_delayed(entry, by_turn, at_ms))
    }

    /// The jobs that were put into this queue, and can be in no other.
    fn plain_of(&self, queue: &str) -> impl Iterator<Item = Entry> {
        let of_queue = move |job: &&Job| job.put.queue == queue && job.put.dead_queue.is_none();
        self.jobs.iter().filter(of_queue).map(|job| job.put.entry)
    }

    /// A job of this queue that was put aside for certain before this one, which is said to be so for longest.
    #[must_use]
    pub fn buried_before(&self, entry: Entry, queue: &str, by_turn: u64, at_ms: u64) -> Option<Entry> {
        if !self.is_buried(entry, by_turn, at_ms) {
            return None;
        }
        let (asked, _) = self.jobs[entry].burial.turns;
        let mut others = self.all_buried(queue, by_turn, at_ms).filter(|other| *other != entry);
        others.find(|other| self.jobs[*other].burial.turns.1 <= asked)
    }

    /// A job of this queue that falls due for certain before this one, which is said to be the next.
    #[must_use]
    pub fn due_before(&self, entry: Entry, queue: &str, by_turn: u64, at_ms: u64) -> Option<Entry> {
        let (from_ms, _) =
            self.due_if_delayed(entry, by_turn, at_ms).filter(|_| self.is_delayed(entry, by_turn, at_ms))?;
        let due_ms = |other: Entry| self.due_if_delayed(other, by_turn, at_ms).map(|(_, to_ms)| to_ms + SECOND_MS);
        let mut others = self.all_delayed(queue, by_turn, at_ms).filter(|other| *other != entry);
        others.find(|other| due_ms(*other).is_some_and(|to_ms| to_ms <= from_ms))
    }

    /// Whether a job may be put aside.
    #[must_use]
    pub fn may_be_buried(&self, entry: Entry) -> bool {
        let job = &self.jobs[entry];
        job.may_have_been_buried && (matches!(job.rest, Rest::Buried | Rest::Unclear) || job.asides > 0)
    }
}

impl Job {
    /// It may be let back in, whatever keeps it.
    pub(super) fn may_wake(&mut self) {
        self.may_be_woken = true;
        self.tallies.may_be_kicked();
        match &mut self.rest {
            Rest::Buried => self.rest = Rest::Unclear,
            Rest::Later { until_ms, .. } => *until_ms = 0,
            Rest::AsPut | Rest::Over | Rest::Unclear => {}
        }
    }

    /// It was let back in.
    fn is_let_in(&mut self, when: When) {
        self.may_be_woken = true;
        self.rest = Rest::Over;
        self.tallies.kicked(when);
        self.burial.over_turn = when.turn;
        self.is_not_buried(when.turn);
    }

    /// In that turn it was not put aside. Who heard of that late may have been overtaken.
    pub(super) fn is_not_buried(&mut self, turn: u64) {
        if self.asides == 0 && turn >= self.rested_turn {
            self.burial.not_in_turn = self.burial.not_in_turn.max(Some(turn));
        }
    }

    /// Whether it may have been put aside in that turn or since.
    #[must_use]
    pub fn may_have_been_buried_since(&self, turn: u64) -> bool {
        self.may_have_been_buried && self.burial.not_in_turn.is_none_or(|not_in| not_in > turn)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Aside;
    use super::super::tests::{A, at, ledger_of, plain, take};
    use super::*;
    use crate::clients::Put;

    /// Four jobs of which the first three were put aside, in this order, from turn 3 on; the last is delayed for a while.
    fn three_aside() -> Ledger {
        let delayed = Put { delay_s: Some(1_000), ..plain(3) };
        let mut ledger = ledger_of(BEANSTALKD, [plain(0), plain(1), plain(2), delayed]);
        for (index, entry) in (0..3).enumerate() {
            let turn = 3 + 2 * index as u64;
            take(&mut ledger, entry, A, BEANSTALKD, 2).expect("nobody has it");
            ledger.aside_asked(entry, true);
            ledger.settled(entry, at(turn + 1));
            let aside = Aside { entry, client: A, urgency: 0, delay_s: None, asked: at(turn), alone: true };
            ledger.aside_done(&aside, at(turn + 1));
        }
        ledger
    }

    fn kick(ledger: &mut Ledger, count: usize, kicked: usize) -> Result<(), Wrong> {
        ledger.kick_asked("a");
        let kick = Kick { queue: "a", count, kicked, asked: at(20), seen: at(20), unclear: false };
        ledger.kicked(&kick, at(21))
    }

    fn buried(ledger: &Ledger) -> Vec<Entry> {
        ledger.all_buried("a", 30, 30_000).collect()
    }

    #[test]
    fn as_many_are_let_back_in_as_were_asked_for_and_those_first_that_were_put_aside_first() {
        let mut ledger = three_aside();
        assert_eq!(buried(&ledger), [0, 1, 2]);
        assert_eq!(ledger.buried_before(1, "a", 30, 30_000), Some(0));
        assert_eq!(ledger.buried_before(0, "a", 30, 30_000), None);
        kick(&mut ledger, 2, 2).expect("two are there");
        assert_eq!(buried(&ledger), [2]);
        assert!(ledger.jobs[0].rest == Rest::Over && !ledger.jobs[0].may_have_been_buried_since(30));
        assert!(ledger.is_delayed(3, 30, 30_000), "it is not touched as long as one is put aside");
        kick(&mut three_aside(), 5, 3).expect("all of them");
        for (count, kicked) in [(2, 0), (2, 1), (2, 3), (5, 2), (5, 4)] {
            kick(&mut three_aside(), count, kicked).expect_err("that is too many, or too few");
        }
    }

    #[test]
    fn delayed_jobs_are_let_back_in_if_none_is_put_aside() {
        let second = |kicked| {
            let mut ledger = three_aside();
            kick(&mut ledger, 3, 3).expect("all that were put aside");
            let second = Kick { queue: "a", count: 3, kicked, asked: at(22), seen: at(22), unclear: false };
            ledger.kick_asked("a");
            ledger.kicked(&second, at(23)).map(|()| ledger)
        };
        second(0).expect_err("one is delayed");
        let ledger = second(1).expect("that one");
        assert!(!ledger.is_delayed(3, 30, 30_000) && ledger.jobs[3].rest == Rest::Over);
    }

    #[test]
    fn of_two_who_kick_at_a_time_nobody_can_tell() {
        let mut ledger = three_aside();
        ledger.kick_asked("a");
        kick(&mut ledger, 2, 0).expect("the other may have had them");
        assert_eq!(buried(&ledger), [0; 0]);
        let mut ledger = three_aside();
        ledger.kick_asked("a");
        assert_eq!(buried(&ledger), [0; 0], "until it is answered");
        ledger.kick_refused("a");
        assert_eq!(buried(&ledger), [0, 1, 2]);
        ledger.kick_asked("a");
        ledger.kick_lost("a", at(20));
        assert_eq!(buried(&ledger), [0; 0]);
    }

    #[test]
    fn a_job_that_was_let_back_in_may_be_taken_before_that_is_heard() {
        let mut ledger = three_aside();
        ledger.kick_asked("a");
        assert_eq!(take(&mut ledger, 0, A, BEANSTALKD, 21), Ok(0));
        let kick = Kick { queue: "a", count: 1, kicked: 1, asked: at(20), seen: at(20), unclear: false };
        ledger.kicked(&kick, at(21)).expect("it was this one");
        let kicks = ledger.numbers_of(0, false, 22_000, at(22), at(23)).into_iter().find(|(name, _)| *name == "kicks");
        assert_eq!(kicks, Some(("kicks", (0, 1))));
    }

    #[test]
    fn a_job_that_was_put_aside_is_found() {
        let mut ledger = three_aside();
        for (entry, is_kept) in [(0, true), (3, true)] {
            ledger.kick_job_asked(entry);
            let refused = ledger.kick_job_refused(entry, true, at(20), at(21));
            assert_eq!(refused.is_err(), is_kept);
            ledger.kick_job_asked(entry);
            ledger.kick_job_refused(entry, false, at(20), at(21)).expect("there may be no room");
        }
        ledger.kick_job_asked(0);
        ledger.kick_job_done(0, at(20), at(21));
        ledger.kick_job_asked(0);
        ledger.kick_job_refused(0, true, at(22), at(23)).expect("it is ready");
    }

    #[test]
    fn what_falls_due_first_is_known_with_a_second_to_spare() {
        let delayed = |entry, delay_s| Put { delay_s: Some(delay_s), ..plain(entry) };
        let ledger = ledger_of(BEANSTALKD, [delayed(0, 100), delayed(1, 101), delayed(2, 110)]);
        assert_eq!(ledger.due_before(2, "a", 5, 5_000), Some(0));
        assert_eq!(ledger.due_before(1, "a", 5, 5_000), None, "nobody can tell");
        assert_eq!(ledger.due_before(2, "a", 5, 120_000), None, "it is over");
    }
}
