//! Jobs that their holders keep for longer, put back for later or put aside, and that are let back in: what is certain of them.

use jobyard_engine::ClientId;

use super::{Job, Kept, Ledger, SECOND_MS, When};
use crate::clients::{Ask, BEANSTALKD, Entry, Speaker};

/// What keeps a job that nobody has from being taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// The time that it was put with, if it has one.
    AsPut,
    /// It was put back, for a while.
    Later {
        /// It begins at this time, at the soonest.
        since_ms: u64,
        /// It is not over before, unless the job was let back in: then this is 0.
        until_ms: u64,
        /// It is over for certain.
        over_ms: u64,
    },
    /// It was put aside.
    Buried,
    /// Nothing.
    Over,
    /// Nobody can tell.
    Unclear,
}

/// A job goes out of its holder's hands, and is not simply ready again.
#[derive(Clone, Copy, Debug)]
pub struct Aside {
    /// The job.
    pub entry: Entry,
    /// Who had it.
    pub client: ClientId,
    /// The larger, the sooner.
    pub urgency: u32,
    /// After so many seconds it is ready; without, when someone lets it back in.
    pub delay_s: Option<u32>,
    /// When that was asked for.
    pub asked: When,
    /// Whether nobody else can have meddled.
    pub alone: bool,
}

impl Ledger {
    /// Someone asks to put a job back for later, or aside.
    pub fn aside_asked(&mut self, entry: Entry, buries: bool) {
        let job = &mut self.jobs[entry];
        job.asides += 1;
        job.tallies.aside_asked(buries);
        if buries {
            job.may_have_been_buried = true;
            job.burial.not_in_turn = None;
        }
        job.disturb();
    }

    /// It was done.
    pub fn aside_done(&mut self, aside: &Aside, when: When) {
        self.released(aside.entry, aside.client, when);
        let is_kicked = self.may_be_kicked_since(aside.entry, aside.asked);
        let job = &mut self.jobs[aside.entry];
        job.asides -= 1;
        job.rested_turn = when.turn;
        job.urgency = aside.alone.then(|| Job::urgency_of(BEANSTALKD, aside.urgency));
        job.rest = match aside.delay_s.map(|delay_s| u64::from(delay_s) * 1_000) {
            _ if !aside.alone => Rest::Unclear,
            Some(0) => Rest::Over,
            Some(delay_ms) => Rest::Later {
                since_ms: aside.asked.at_ms,
                until_ms: if is_kicked { 0 } else { aside.asked.at_ms + delay_ms },
                over_ms: when.at_ms + delay_ms + SECOND_MS,
            },
            None if is_kicked => Rest::Unclear,
            None => Rest::Buried,
        };
        job.tallies.aside_done(aside.delay_s.is_none(), when);
        if aside.delay_s.is_some() {
            job.said_delay_s = aside.delay_s.filter(|_| aside.alone);
        }
        job.burial.turns = (aside.asked.turn, when.turn);
        job.burial.over_turn = when.turn;
        if aside.alone && aside.delay_s.is_some() {
            job.is_not_buried(when.turn);
        }
    }

    /// It was refused.
    pub fn aside_refused(&mut self, entry: Entry) {
        self.jobs[entry].asides -= 1;
    }

    /// It was done by now, or never will be, and nobody hears which.
    pub fn aside_lost(&mut self, entry: Entry, when: When) {
        let job = &mut self.jobs[entry];
        job.asides -= 1;
        job.rested_turn = when.turn;
        (job.urgency, job.rest, job.said_delay_s) = (None, Rest::Unclear, None);
    }

    /// Someone asks for this job, whatever keeps it from being the next: if it is given, that is over.
    pub fn take_this_asked(&mut self, entry: Entry) {
        self.kick_job_asked(entry);
    }

    /// It was given. When whoever has it lets go of it, it is ready.
    pub fn took_this(&mut self, entry: Entry, asked: When, when: When) {
        let job = &mut self.jobs[entry];
        job.kicks.answered(when.turn);
        if job.asides == 0 && job.rested_turn < asked.turn {
            (job.rest, job.may_be_woken) = (Rest::Over, true);
            job.burial.over_turn = when.turn;
            job.is_not_buried(when.turn);
        } else {
            job.may_wake();
        }
    }

    /// It was refused: nothing has changed.
    pub fn take_this_refused(&mut self, entry: Entry) {
        self.jobs[entry].kicks.open -= 1;
    }

    /// It was given by now, or never will be, and nobody hears which.
    pub fn take_this_settled(&mut self, entry: Entry, when: When) {
        self.kick_job_lost(entry, when);
    }

    /// Someone asks to keep a job for longer.
    pub fn extend_asked(&mut self, entry: Entry) {
        self.jobs[entry].extending += 1;
    }

    /// It was done, for one who speaks so: its time began anew.
    pub fn extended(&mut self, entry: Entry, client: ClientId, speaker: &Speaker, asked: When, when: When) {
        let job = &mut self.jobs[entry];
        job.extending -= 1;
        let Some(length_ms) = job.lease_ms(speaker) else { return };
        if let Some(lease) = job.leases.iter_mut().rfind(|lease| lease.client == client) {
            lease.until_ms = lease.until_ms.max(Some(asked.at_ms + length_ms));
            lease.over_ms = lease.over_ms.max(Some(when.at_ms + length_ms + 2 * SECOND_MS));
        }
    }

    /// It was refused, or is not heard of again.
    pub fn extend_refused(&mut self, entry: Entry) {
        self.jobs[entry].extending -= 1;
    }

    /// Whether a job that nobody has may be anything but ready because of what its holders did.
    #[must_use]
    pub fn may_be_aside(&self, entry: Entry) -> bool {
        let job = &self.jobs[entry];
        !matches!(job.rest, Rest::AsPut | Rest::Over) || job.asides > 0
    }

    /// By when one who waits must have been told that a job has little time left, which it had for certain at that time.
    #[must_use]
    pub fn soon_by_ms(&self, client: ClientId, at_ms: u64) -> Option<u64> {
        let lease = |job: &Job| {
            let is_plain = job.disturbing + job.extending + job.ends == 0 && job.put.lifetime_s.is_none();
            let lease = job.leases.last().filter(|_| is_plain && !job.put.runs)?;
            let is_theirs = lease.client == client && lease.by_connection && !lease.may_be_over;
            let is_theirs = is_theirs && lease.until_ms.is_some_and(|until_ms| at_ms < until_ms);
            lease.over_ms.filter(|_| is_theirs).map(|over_ms| over_ms - 3 * SECOND_MS)
        };
        self.jobs.iter().filter_map(lease).min()
    }

    /// Whether a client that asked and heard then may have had a job with little time left.
    #[must_use]
    pub fn may_end_soon(&self, client: ClientId, seen_ms: u64, when: When) -> bool {
        let leases = self.jobs.iter().flat_map(|job| job.leases.iter().map(move |lease| (job, lease)));
        leases.filter(|(_, lease)| lease.client == client).any(|(job, lease)| {
            let is_soon = lease.until_ms.is_some_and(|until_ms| until_ms <= when.at_ms + SECOND_MS);
            is_soon && (job.extending > 0 || lease.over_ms.is_none_or(|over_ms| over_ms > seen_ms))
        })
    }

    /// Whether of all that may end a job or its lease nothing was under way since then, if this leaves it to its holder.
    #[must_use]
    pub fn nobody_meddled(&self, ask: &Ask, since: When) -> bool {
        let (Ask::Extend(held) | Ask::TakeThis(held)) = ask else { return false };
        let job = &self.jobs[held.entry];
        job.disturbing == 0 && job.disturbed.is_none_or(|turn| turn < since.turn)
    }

    /// Whether a job can be taken by its number, whatever keeps it from being the next.
    #[must_use]
    pub fn can_be_taken(&self, entry: Entry, by_turn: u64, at_ms: u64, kept: Kept) -> bool {
        let job = &self.jobs[entry];
        self.is_free(entry, by_turn, at_ms, kept) && job.asides == 0 && job.put.attempts.is_none()
    }

    /// Whether a job that could be taken then can be still: it is there, and nobody was given it.
    #[must_use]
    pub fn is_free_since(&self, entry: Entry, since: When, at_ms: u64) -> bool {
        let job = &self.jobs[entry];
        let is_given = job.leases.iter().any(|lease| lease.since.turn >= since.turn);
        let may_be_given = job.unheard_over_ms > since.at_ms || job.asides > 0 || job.rested_turn >= since.turn;
        !is_given && !may_be_given && self.must_be_there(entry, at_ms)
    }

    /// Who else than this client has a job for certain.
    #[must_use]
    pub fn surely_anothers(&self, entry: Entry, client: ClientId, at_ms: u64) -> Option<ClientId> {
        let holder = self.jobs[entry].leases.last()?.client;
        (holder != client && self.surely_has(entry, holder, at_ms)).then_some(holder)
    }

    /// Whether the time of whoever was given a job last is not over, if nobody has ended it.
    #[must_use]
    pub fn lasts(&self, entry: Entry, at_ms: u64) -> bool {
        let last = self.jobs[entry].leases.last();
        last.is_some_and(|lease| lease.until_ms.is_none_or(|until_ms| at_ms < until_ms))
    }
}

impl Job {
    /// Someone who had asked then was given it: whatever kept it is over.
    pub(super) fn wake(&mut self, asked: When, when: When) {
        let kept = matches!(self.rest, Rest::Later { .. } | Rest::Buried | Rest::Unclear);
        if kept && self.asides == 0 && self.rested_turn < asked.turn {
            self.rest = Rest::Over;
            self.burial.over_turn = when.turn;
        }
        // Who had asked before it was put aside may have been given it before that, and hear of it now.
        if self.rested_turn < asked.turn {
            self.is_not_buried(when.turn);
        }
    }

    /// Whether someone asked to put it aside, ever.
    #[must_use]
    pub fn may_have_been_buried(&self) -> bool {
        self.may_have_been_buried
    }

    /// How urgent it was all the time since one asked in that turn, if anyone can tell.
    #[must_use]
    pub fn urgency_since(&self, asked_turn: u64) -> Option<i64> {
        self.urgency().filter(|_| self.rested_turn < asked_turn || self.rest == Rest::AsPut)
    }

    /// Its number, if anyone knows: of workq's jobs only those who have taken it by that.
    #[must_use]
    pub fn known_number(&self) -> Option<u64> {
        self.number.or(self.taken_as)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{A, B, at, holds, ledger_of, one, plain, refused, take};
    use super::*;
    use crate::clients::{Put, speaker};
    use crate::ledger::Kept;

    const ALONE: Aside =
        Aside { entry: 0, client: A, urgency: 0, delay_s: None, asked: When { turn: 3, at_ms: 3_000 }, alone: true };

    fn held() -> Ledger {
        let mut ledger = one(BEANSTALKD);
        holds(&mut ledger, A, BEANSTALKD, 2);
        ledger
    }

    /// Someone has put the job aside, or back.
    fn aside(aside: Aside) -> Ledger {
        let mut ledger = held();
        ledger.aside_asked(0, aside.delay_s.is_none());
        ledger.settled(0, at(4));
        ledger.aside_done(&aside, at(4));
        ledger
    }

    fn is_ready(ledger: &Ledger, turn: u64) -> bool {
        ledger.is_ready(0, turn, at(turn).at_ms, Kept::UntilThen)
    }

    #[test]
    fn what_is_put_aside_does_not_come_until_it_is_let_back_in() {
        let mut ledger = aside(ALONE);
        assert!(ledger.is_buried(0, 5, 5_000) && ledger.may_be_buried(0) && !is_ready(&ledger, 100));
        assert_eq!(ledger.all_buried("a", 5, 5_000).collect::<Vec<_>>(), [0]);
        assert!(!ledger.is_buried(0, 4, 4_000), "nobody was told before");
        assert!(ledger.must_be_there(0, 5_000) && ledger.comes_in_the_end(0, 5_000));
        refused(take(&mut ledger, 0, B, "goqueue", 5), "was put aside, and came");

        ledger.kick_job_asked(0);
        assert!(!ledger.is_buried(0, 6, 6_000) && !is_ready(&ledger, 6), "nobody can tell");
        ledger.kick_job_done(0, at(6), at(7));
        assert!(is_ready(&ledger, 7) && !ledger.may_be_buried(0));
        assert_eq!(take(&mut ledger, 0, B, "goqueue", 8), Ok(0));

        let mut ledger = aside(ALONE);
        ledger.kick_job_asked(0);
        ledger.kick_job_lost(0, at(7));
        assert!(!is_ready(&ledger, 7) && ledger.may_be_buried(0), "it may have been refused, or not");
    }

    #[test]
    fn who_asks_for_a_job_by_its_number_is_given_it_whatever_keeps_it() {
        let mut ledger = aside(ALONE);
        assert!(ledger.can_be_taken(0, 5, 5_000, Kept::UntilThen) && ledger.is_free_since(0, at(5), 5_000));
        ledger.take_this_asked(0);
        assert!(!ledger.is_buried(0, 5, 5_000), "nobody can tell");
        assert_eq!(take(&mut ledger, 0, B, BEANSTALKD, 6), Ok(0));
        ledger.took_this(0, at(5), at(6));
        assert!(!ledger.can_be_taken(0, 7, 7_000, Kept::UntilThen) && !ledger.is_free_since(0, at(5), 7_000));
        ledger.client_gone(B, 7_000);
        ledger.client_seen_off(B, 7_000);
        assert!(is_ready(&ledger, 7), "it is not put aside any more");

        let mut ledger = aside(ALONE);
        ledger.take_this_lost(0, speaker(BEANSTALKD, false), 5_000);
        assert!(!ledger.is_free_since(0, at(4), 5_000) && !ledger.can_be_taken(0, 5, 5_000, Kept::UntilThen));
        let mut ledger = aside(ALONE);
        ledger.take_this_undone(0, 5_000);
        assert!(!ledger.is_free_since(0, at(4), 5_000) && ledger.can_be_taken(0, 5, 5_000, Kept::UntilThen));
        assert!(!held().can_be_taken(0, 5, 5_000, Kept::UntilThen), "someone has it");
    }

    #[test]
    fn who_asks_by_its_number_for_a_job_that_may_be_put_aside_just_then_may_have_come_before_or_behind() {
        let mut ledger = aside(ALONE);
        ledger.take_this_asked(0);
        ledger.take_this_refused(0);
        assert!(ledger.is_buried(0, 5, 5_000), "nothing has changed");
        ledger.take_this_asked(0);
        ledger.took_this(0, at(4), at(5));
        assert!(!ledger.is_buried(0, 6, 6_000) && ledger.may_be_buried(0), "it was put aside in that turn");
        let mut ledger = aside(ALONE);
        ledger.take_this_asked(0);
        ledger.take_this_settled(0, at(6));
        assert!(!ledger.is_buried(0, 7, 7_000) && ledger.may_be_buried(0), "it may have been given, or not");
    }

    #[test]
    fn a_job_that_is_put_aside_from_the_first_is_so_once_it_is_there() {
        let mut ledger = ledger_of(BEANSTALKD, []);
        for (entry, turn) in [(0, 2), (1, 3), (2, 5)] {
            ledger.put_asked(&Put { aside: true, ..plain(entry) }, BEANSTALKD, at(turn));
        }
        assert!(!ledger.is_buried(0, 9, 9_000) && ledger.may_be_buried(0));
        ledger.put_told(&[0, 1, 2], &[1, 2, 3], at(5)).expect("they are new");
        assert!(!ledger.is_buried(0, 5, 5_000) && ledger.is_buried(0, 6, 6_000) && !is_ready(&ledger, 6));
        assert_eq!(ledger.buried_before(2, "a", 6, 6_000), Some(0), "it was there before");
        assert_eq!(ledger.buried_before(1, "a", 6, 6_000), None, "they may have come in any order");
        let buries = ledger.numbers_of(0, false, 6_000, at(6), at(7)).into_iter().find(|(name, _)| *name == "buries");
        assert_eq!(buries, Some(("buries", (0, 0))), "nobody has put it aside since");
        ledger.kick_asked("a");
        ledger.kick_lost("a", at(7));
        assert!(!ledger.is_buried(0, 8, 8_000) && ledger.may_be_buried(0));
    }

    #[test]
    fn whoever_lets_some_jobs_of_a_queue_back_in_may_have_meant_this_one() {
        let mut ledger = aside(ALONE);
        ledger.kick_asked("b");
        assert!(ledger.is_buried(0, 5, 5_000), "it is not in that queue");
        ledger.kick_asked("a");
        ledger.kick_lost("a", at(6));
        assert!(!ledger.is_buried(0, 7, 7_000) && !is_ready(&ledger, 7));
        assert_eq!(take(&mut ledger, 0, B, "goqueue", 8), Ok(0));

        // Who is told later that it was put aside may have been the first.
        let mut ledger = held();
        ledger.aside_asked(0, true);
        ledger.kick_asked("a");
        ledger.kick_lost("a", at(4));
        ledger.settled(0, at(5));
        ledger.aside_done(&ALONE, at(5));
        assert!(!ledger.is_buried(0, 6, 6_000) && ledger.may_be_buried(0));
    }

    #[test]
    fn a_job_with_a_date_comes_before_it_if_it_may_have_been_let_in() {
        let put = Put { delay_s: Some(10), ..plain(0) };
        let mut ledger = ledger_of(BEANSTALKD, [put.clone()]);
        refused(take(&mut ledger, 0, A, BEANSTALKD, 5), "before its date");
        ledger.kick_asked("a");
        assert_eq!(take(&mut ledger, 0, A, BEANSTALKD, 5), Ok(0));

        let mut ledger = ledger_of(BEANSTALKD, [put]);
        assert!(!is_ready(&ledger, 11) && is_ready(&ledger, 12), "it began when the job was put");
        ledger.time_stood(1_000);
        assert!(!is_ready(&ledger, 100), "less time may have passed");
    }

    #[test]
    fn what_was_put_aside_elsewhere_is_so_here() {
        let mut ledger = ledger_of(BEANSTALKD, [Put { origin: Some(0), aside: true, ..plain(0) }]);
        assert!(ledger.is_buried(0, 2, 2_000) && ledger.may_be_buried(0) && !is_ready(&ledger, 100));
        assert!(!ledger.is_buried(0, 1, 1_000), "nobody was told before");
        refused(take(&mut ledger, 0, A, "goqueue", 3), "was put aside, and came");
        ledger.kick_job_asked(0);
        ledger.kick_job_done(0, at(3), at(4));
        assert!(is_ready(&ledger, 5));
        let was_ready = |since: u64| ledger.is_ready(0, since, 5_000, Kept::Never);
        assert!(!was_ready(4) && was_ready(5), "it was put aside until then");

        let mut ledger = Ledger::default();
        ledger.kick_asked("a");
        ledger.put_asked(&Put { origin: Some(0), aside: true, ..plain(0) }, BEANSTALKD, at(1));
        assert_eq!(take(&mut ledger, 0, A, "goqueue", 3), Ok(0), "it may have been let in");
    }

    #[test]
    fn what_is_put_back_for_later_comes_then() {
        let later = Aside { delay_s: Some(5), ..ALONE };
        let mut ledger = aside(later);
        assert!(!is_ready(&ledger, 9) && is_ready(&ledger, 10));
        refused(take(&mut ledger, 0, B, "goqueue", 7), "too soon");
        assert_eq!(take(&mut ledger, 0, B, "goqueue", 8), Ok(0));
        let mut ledger = aside(later);
        ledger.kick_asked("a");
        assert_eq!(take(&mut ledger, 0, B, "goqueue", 7), Ok(0), "it may have been let back in");
        assert!(is_ready(&aside(Aside { delay_s: Some(0), ..ALONE }), 4));
    }

    #[test]
    fn what_nobody_heard_of_may_have_been_done_or_not() {
        let mut ledger = held();
        ledger.aside_asked(0, true);
        assert!(!is_ready(&ledger, 100) && ledger.jobs[0].urgency().is_none());
        ledger.settled(0, at(4));
        ledger.aside_lost(0, at(4));
        ledger.client_gone(A, 4_000);
        ledger.client_seen_off(A, 4_000);
        assert!(!is_ready(&ledger, 100) && !ledger.is_buried(0, 5, 5_000) && ledger.may_be_buried(0));
        assert!(ledger.must_be_there(0, 5_000) && ledger.comes_in_the_end(0, 5_000));
        assert_eq!(take(&mut ledger, 0, B, "goqueue", 5), Ok(0));
        assert!(!ledger.may_be_buried(0), "it was not, or was let back in");

        let mut ledger = held();
        ledger.aside_asked(0, true);
        ledger.aside_refused(0);
        assert_eq!(ledger.jobs[0].urgency(), Some(-9), "nothing has changed");
        assert!(!ledger.may_be_buried(0));
        let meddled = aside(Aside { alone: false, ..ALONE });
        assert!(!meddled.is_buried(0, 5, 5_000) && meddled.may_be_buried(0) && meddled.jobs[0].urgency().is_none());
    }

    #[test]
    fn a_job_has_the_urgency_that_was_said_last() {
        assert_eq!(one("goqueue").jobs[0].urgency(), Some(-9));
        assert_eq!(one("jobcentre").jobs[0].urgency(), Some(0));
        let ledger = aside(Aside { urgency: 4, ..ALONE });
        assert_eq!(ledger.jobs[0].urgency(), Some(-5));
        assert_eq!(ledger.jobs[0].urgency_since(4), None, "someone may have looked before");
        assert_eq!(ledger.jobs[0].urgency_since(5), Some(-5));
    }

    #[test]
    fn a_job_that_is_kept_for_longer_has_its_time_anew() {
        let put = Put { own_time_s: Some(10), ..plain(0) };
        let mut ledger = ledger_of(BEANSTALKD, [put]);
        holds(&mut ledger, A, BEANSTALKD, 2);
        ledger.extend_asked(0);
        assert!(!is_ready(&ledger, 100), "its time may have begun anew");
        ledger.extended(0, A, speaker(BEANSTALKD, false), at(5), at(6));
        assert!(!is_ready(&ledger, 17) && is_ready(&ledger, 18));
        refused(take(&mut ledger, 0, B, "goqueue", 14), "given twice");
        assert_eq!(take(&mut ledger, 0, B, "goqueue", 15), Ok(0));
    }

    #[test]
    fn who_waits_is_told_when_a_job_has_a_second_left() {
        let put = Put { own_time_s: Some(10), ..plain(0) };
        let mut ledger = ledger_of(BEANSTALKD, [put]);
        assert_eq!(ledger.soon_by_ms(A, 2_000), None, "it has no job");
        holds(&mut ledger, A, BEANSTALKD, 2);
        assert_eq!((ledger.soon_by_ms(A, 2_000), ledger.soon_by_ms(B, 2_000)), (Some(11_000), None));
        assert_eq!(ledger.soon_by_ms(A, 12_000), None, "its time may be over");
        assert!(!ledger.may_end_soon(A, 10_000, at(10)) && ledger.may_end_soon(A, 11_000, at(11)));
        assert!(!ledger.may_end_soon(A, 14_000, at(14)), "its time is over");
        assert!(!ledger.may_end_soon(B, 11_000, at(11)), "it is not theirs");
        ledger.end_asked(0);
        assert_eq!(ledger.soon_by_ms(A, 2_000), None, "someone may have removed it");
    }

    #[test]
    fn a_job_is_its_holders_alone_for_as_long_as_it_surely_has_it() {
        let mut ledger = held();
        assert_eq!(ledger.surely_anothers(0, B, 3_000), Some(A));
        assert_eq!(ledger.surely_anothers(0, A, 3_000), None, "it is its own");
        assert!(ledger.lasts(0, 3_000) && !ledger.lasts(0, 100_000_000));
        ledger.client_gone(A, 3_000);
        assert_eq!(ledger.surely_anothers(0, B, 3_000), None, "its holder may have vanished");
    }
}
