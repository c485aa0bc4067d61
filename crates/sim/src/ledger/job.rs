//! One job, as those who deal with it know it: what was asked of it, who had it, and what may have become of it.

use jobyard_engine::ClientId;

use super::{Burial, Requests, Rest, SECOND_MS, Tallies, When};
use crate::clients::{BEANSTALKD, DAY_MS, Put, Speaker, URGENCY_MAX, facts_of, uuid_of_number};

/// A job, as those who deal with it know it.
#[derive(Clone, Debug)]
pub struct Job {
    /// What was asked to be put.
    pub put: Put,
    /// In which protocol.
    pub protocol: &'static str,
    /// Its number, if anyone was told.
    pub number: Option<u64>,
    pub(super) asked: When,
    /// When it was said to be there.
    pub put_told: Option<When>,
    /// Whether it was said not to be there.
    pub refused: bool,
    /// How much was asked that may have ended it: all but what was refused.
    pub(super) ends: usize,
    /// Whether anyone asked to remove it, so that nothing is kept of it.
    pub(super) may_be_removed: bool,
    /// Whether anyone asked to complete it with a result, and without one.
    pub(super) completed: [bool; 2],
    /// When it was said to be done or removed, and whether a result may be left of it.
    pub ended: Option<(When, bool)>,
    /// How much was asked that may have made it fail.
    pub(super) fails: usize,
    /// How often it was said to have failed.
    pub(super) failures: u32,
    /// When that was last asked for, and when it was told.
    pub(super) failed: Option<(When, When)>,
    pub(super) leases: Vec<Lease>,
    /// Whether anyone has ever been given it.
    pub was_taken: bool,
    /// Whether someone may have been given it without hearing of it.
    pub may_be_taken: bool,
    /// Whether such a one may have vanished with it, and that may count as a failure.
    pub(super) may_have_parted: bool,
    /// When whoever may have been given it so has it no more for certain.
    pub(super) unheard_over_ms: u64,
    /// The number by which someone was given it.
    pub(super) taken_as: Option<u64>,
    /// How urgent it is, in every protocol's eyes, if nobody has changed that who was not answered.
    pub(super) urgency: Option<i64>,
    /// What keeps it from being taken, if nobody has it.
    pub(super) rest: Rest,
    /// In which turn that was last said.
    pub(super) rested_turn: u64,
    /// What was asked that may change that, and not answered.
    pub(super) asides: usize,
    /// Whether anyone ever asked to put it aside.
    pub(super) may_have_been_buried: bool,
    /// What was asked that lets it back in, and it alone.
    pub(super) kicks: Requests,
    /// Whether it may have been let back in, so that it comes before its time.
    pub(super) may_be_woken: bool,
    /// When it was last put aside.
    pub(super) burial: Burial,
    /// What has befallen it since the server's start.
    pub(super) tallies: Tallies,
    /// For how many seconds it was last said to be delayed, if it is known.
    pub(super) said_delay_s: Option<u32>,
    /// What was asked that may make its lease last longer, and not answered.
    pub(super) extending: usize,
    /// What was asked that may end whatever lease there is, and not answered.
    pub(super) disturbing: usize,
    /// In which turn such a thing was last answered.
    pub(super) disturbed: Option<u64>,
}

/// A job in someone's hands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lease {
    pub(super) client: ClientId,
    pub(super) since: When,
    /// In which turn the client asked for the next job; nothing if it asked for this one.
    pub(super) asked_turn: Option<u64>,
    pub(super) by_connection: bool,
    /// Whether the job is not ready at once if the connection ends.
    pub(super) rests: bool,
    /// Whether its holder speaks beanstalkd.
    pub(super) is_beanstalkds: bool,
    /// Before this it does not end by itself; nothing if it never does.
    pub(super) until_ms: Option<u64>,
    /// After this it has ended for certain, and the job could be ready.
    pub(super) over_ms: Option<u64>,
    /// Whether it may have ended.
    pub(super) may_be_over: bool,
    /// Whether its end may count as a failure, by the job's rules: its connection may have ended.
    pub(super) may_have_parted: bool,
}

impl Job {
    /// How urgent it is, in every protocol's eyes, if anyone can tell.
    #[must_use]
    pub fn urgency(&self) -> Option<i64> {
        self.urgency.filter(|_| self.asides == 0)
    }

    /// How urgent a job is, in every protocol's eyes, if one says so.
    pub(super) fn urgency_of(protocol: &str, urgency: u32) -> i64 {
        let (urgency, most) = (i64::from(urgency), i64::from(URGENCY_MAX));
        // There the smaller is the sooner, and the most is what we say for 0.
        if matches!(protocol, "goqueue" | BEANSTALKD) { urgency.min(most) - most } else { urgency }
    }

    /// Its UUID, if anyone knows it.
    #[must_use]
    pub fn uuid(&self) -> Option<String> {
        match self.number {
            Some(number) => Some(uuid_of_number(number)),
            None => (self.protocol == "workq").then(|| self.put.uuid()),
        }
    }

    /// What workq must say of it, as long as it is there: a name and its value each.
    #[must_use]
    pub fn facts(&self) -> Vec<String> {
        let mut facts = if self.protocol == "workq" && !self.put.runs { facts_of(&self.put) } else { Vec::new() };
        let is_as_put = self.urgency() == Some(i64::from(self.put.urgency));
        facts.retain(|fact| is_as_put || !fact.starts_with("priority "));
        facts
    }

    /// Whether anyone may have ended it.
    #[must_use]
    pub fn may_be_over(&self) -> bool {
        self.ends > 0 || self.ended.is_some() || self.may_be_removed
    }

    /// Whether nothing is left of it for certain: it was never put, or it was removed.
    pub(super) fn is_gone(&self) -> bool {
        self.refused || self.ended.is_some_and(|(_, keeps)| !keeps)
    }

    /// The result that it must have, if any: nothing but that was ever asked, and it was done.
    #[must_use]
    pub fn must_have_result(&self) -> Option<bool> {
        let is_kept = self.protocol == "workq" && self.put.lifetime_s.is_none() && !self.put.runs;
        match (self.ended, self.fails) {
            _ if !is_kept || self.ends != 1 || self.may_be_used_up() => None,
            (Some((_, true)), 0) => Some(true),
            (None, 1) if self.failures == 1 && self.fails_at_once() => Some(false),
            _ => None,
        }
    }

    /// Whether it may be gone by then although nobody asked for it.
    pub(super) fn is_mortal(&self, at_ms: u64) -> bool {
        self.put.lifetime_s.is_some() && self.expires_ms() <= at_ms
            || self.has_limits() && self.may_have_failed()
            || self.put.runs
    }

    /// Before this its lifetime is not over.
    pub(super) fn expires_ms(&self) -> u64 {
        let seconds = self.put.delay_s.unwrap_or(0) + self.put.lifetime_s.unwrap_or(0);
        // A date is in whole seconds.
        (self.asked.at_ms + u64::from(seconds) * 1_000).saturating_sub(if self.put.delay_s.is_some() { 999 } else { 0 })
    }

    /// For how long whoever speaks so has it; without a time, until it is ended, or the connection is.
    pub(super) fn lease_ms(&self, speaker: &Speaker) -> Option<u64> {
        let own_ms = self.put.own_time_s.filter(|seconds| *seconds > 0).map(|seconds| u64::from(seconds) * 1_000);
        // Whoever puts with workq or beanstalkd always says how long a lease lasts.
        let says = matches!(self.protocol, "workq" | BEANSTALKD);
        let own_ms = own_ms.or(if says { Some(DAY_MS) } else { None });
        // Without a time, a job of goqueue's own is goqueue's for ever.
        let is_endless = self.protocol == "goqueue" && speaker.protocol == "goqueue";
        let length_ms = own_ms.or(speaker.lease_ms.filter(|_| !is_endless));
        [length_ms, speaker.lease_ms_max].into_iter().flatten().min()
    }

    /// How often it may have failed at the most, if anyone can tell: whoever vanishes with a job of masenko or takeanumber may
    /// have made it fail.
    #[must_use]
    pub fn failures_most(&self) -> Option<usize> {
        if !matches!(self.protocol, "masenko" | "takeanumber") {
            return Some(self.fails);
        }
        let parted = self.leases.iter().filter(|lease| lease.may_have_parted).count();
        (!self.may_have_parted).then_some(self.fails + parted)
    }

    /// How often it must have failed for one who asked then: in its dead queue that begins anew.
    #[must_use]
    pub fn failures_least(&self, asked: When) -> usize {
        let is_known = self.put.dead_queue.is_none() && self.failed.is_none_or(|(_, told)| told.turn < asked.turn);
        if is_known { self.failures as usize } else { 0 }
    }

    /// Whether it may have failed for the last time: then it is gone, or in its dead queue.
    #[must_use]
    pub fn may_have_failed(&self) -> bool {
        if self.may_be_used_up() {
            return true;
        }
        let is_too_often = |most: usize| self.failures_max().is_some_and(|allowed| most > allowed as usize);
        self.failures_max().is_some() && self.failures_most().is_none_or(is_too_often)
    }

    /// Whether it may fail only so often, or be taken.
    pub(super) fn has_limits(&self) -> bool {
        self.put.failures.is_some() || self.put.attempts.is_some()
    }

    /// Whether it may have been taken as often as it may be: when the last who has it lets go of it, it has failed.
    pub(super) fn may_be_used_up(&self) -> bool {
        let is_last = |attempts: u32| self.may_be_taken || self.leases.len() >= attempts as usize;
        self.put.attempts.is_some_and(is_last)
    }

    /// It was said to be there.
    pub(super) fn is_there(&mut self, when: When) {
        self.put_told = Some(when);
        // Who asked before may have been first.
        if self.put.aside {
            self.rested_turn = self.rested_turn.max(when.turn);
            self.burial.put_told(when);
        }
    }

    /// Someone who speaks so may have been given it by then, and will not hear of it.
    pub(super) fn may_be_lost_to(&mut self, speaker: &Speaker, at_ms: u64) {
        self.may_be_taken = true;
        self.may_have_parted |= speaker.heartbeat;
        let over_ms = match self.lease_ms(speaker) {
            // It rests, nobody knows for how long: less than a day.
            _ if speaker.heartbeat => at_ms + DAY_MS,
            _ if speaker.holds_by_connection => at_ms + 2 * SECOND_MS,
            Some(length_ms) => at_ms + length_ms + 2 * SECOND_MS,
            None => u64::MAX,
        };
        self.unheard_over_ms = self.unheard_over_ms.max(over_ms);
    }

    /// Someone may have been given it, and that was taken back by then.
    pub(super) fn was_undone(&mut self, at_ms: u64) {
        // It was not ready all the time, even if no time has passed.
        self.unheard_over_ms = self.unheard_over_ms.max(at_ms.max(1));
    }

    /// Whether someone may have had it then or later: also one who did not hear of it, and from whom it was taken back since.
    #[must_use]
    pub fn may_have_been_held_since(&self, since: When) -> bool {
        self.was_taken || self.may_be_taken || self.unheard_over_ms >= since.at_ms.max(1)
    }

    /// Someone asks for something that may end its lease.
    pub(super) fn disturb(&mut self) {
        self.disturbing += 1;
        self.leases.iter_mut().for_each(|lease| lease.may_be_over = true);
    }

    /// How often it may fail, if not more often than it ever will.
    #[must_use]
    pub fn failures_max(&self) -> Option<u32> {
        self.put.failures.or((self.protocol == "workq").then_some(0))
    }

    /// Whether a failure is its end.
    pub(super) fn fails_at_once(&self) -> bool {
        self.protocol == "workq" && self.failures_max() == Some(0)
    }
}
