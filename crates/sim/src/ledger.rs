//! What clients asked and were told, and what must be so because of it. It knows nothing of the server but that.

mod aside;
mod certain;
mod ids;
mod job;
mod kicks;
mod pauses;
mod rules;
mod tallies;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use jobyard_engine::ClientId;

use crate::clients::{BEANSTALKD, Entry, Put, Speaker};
use crate::world::Wrong;
pub use aside::Aside;
use aside::Rest;
pub use certain::Kept;
pub use ids::Id;
pub use job::Job;
use job::Lease;
pub use kicks::Kick;
use kicks::{Burial, Requests};
use pauses::Pauses;
pub use tallies::Bounds;
use tallies::Tallies;

/// When something was: in which turn, and how much time had passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct When {
    /// The turn.
    pub turn: u64,
    /// The time.
    pub at_ms: u64,
}

/// Who is given a job.
#[derive(Clone, Copy, Debug)]
pub struct Taker<'a> {
    /// Of one of these queues.
    pub queues: &'a [&'static str],
    /// By this name: its number or its UUID.
    pub id: &'a str,
    /// In which turn it asked for the next job; nothing if it asked for this one.
    pub asked_turn: Option<u64>,
    /// Whether someone else may have been given the job before, and has not heard of it.
    pub unclear: bool,
    /// Which client.
    pub client: ClientId,
    /// What it speaks.
    pub speaker: &'static Speaker,
    /// Whether its connection ends with its last answer, or may have ended since.
    pub gone: bool,
}

/// What a deadline may be late, and what a job rests whose holder has vanished.
const SECOND_MS: u64 = 1_000;

/// Jobs that were put together, and what was completed with them.
#[derive(Clone, Debug)]
pub struct Group {
    /// The jobs.
    pub entries: Vec<Entry>,
    /// What was completed.
    pub completes: Option<Entry>,
    /// Whether it was said to be done.
    pub told: bool,
}

/// All jobs there were.
#[derive(Debug, Default)]
pub struct Ledger {
    /// By entry.
    pub jobs: Vec<Job>,
    /// Jobs that were put together.
    pub groups: Vec<Group>,
    /// How often a rule about jobs that are given had something to say.
    pub checked: BTreeMap<&'static str, u64>,
    numbers: BTreeSet<u64>,
    /// What was asked that lets jobs of a queue back in.
    kicks: BTreeMap<&'static str, Requests>,
    /// In which turn the server began to count.
    life_turn: u64,
    /// Of which queues nobody is given a job for a while.
    pauses: Pauses,
    /// What time means is not known for leases, since then.
    time_lost_ms: Option<u64>,
    /// What began before may end later than it should.
    time_stood_ms: Option<u64>,
    /// What dates mean is not known.
    dates_lost_turn: Option<u64>,
}

impl Ledger {
    /// Whether a job must be there at that time.
    #[must_use]
    pub fn must_be_there(&self, entry: Entry, at_ms: u64) -> bool {
        let job = &self.jobs[entry];
        job.put_told.is_some() && job.ends == 0 && !self.may_go(entry, at_ms)
    }

    /// Whether a job may be gone by then although nobody asked for it. What blocks it may take it along.
    fn may_go(&self, entry: Entry, at_ms: u64) -> bool {
        // What time means is not known for lifetimes either, some of which begin at a date.
        let job = &self.jobs[entry];
        let is_lost = self.is_time_lost_since(job.asked.at_ms) || self.is_date_lost(job);
        let at_ms = if is_lost { u64::MAX } else { at_ms };
        self.jobs[entry].is_mortal(at_ms) || self.may_fail_with_others(entry, at_ms)
    }

    /// Whether what blocks a job may have made it fail, directly or by what blocks that.
    fn may_fail_with_others(&self, entry: Entry, at_ms: u64) -> bool {
        let fails = |blocker: Entry| self.may_go(blocker, at_ms) || self.jobs[blocker].may_have_failed();
        self.blockers(entry).into_iter().any(fails)
    }

    /// Whether a job may be done, or have failed for the last time, with a result that says something or not: someone asked
    /// for that, or what blocks it has failed.
    #[must_use]
    pub fn may_have_result(&self, entry: Entry, success: bool, says: bool) -> bool {
        let job = &self.jobs[entry];
        if success && !job.completed[usize::from(says)] {
            return false;
        }
        if !success {
            return job.may_have_failed() || self.may_fail_with_others(entry, u64::MAX);
        }
        let last_failures = if job.fails_at_once() { job.fails } else { 0 };
        job.ends > last_failures && (job.was_taken || job.may_be_taken)
    }

    /// The entry that the next job gets.
    #[must_use]
    pub fn next_entry(&self) -> Entry {
        self.jobs.len()
    }

    /// Someone asks to put a job.
    pub fn put_asked(&mut self, put: &Put, protocol: &'static str, when: When) {
        assert_eq!(put.entry, self.jobs.len(), "jobs are counted");
        let refused = protocol == "workq" && self.is_taken(put.id_of);
        self.jobs.push(Job {
            put: put.clone(),
            protocol,
            number: None,
            asked: when,
            put_told: None,
            refused,
            ends: 0,
            may_be_removed: false,
            completed: [false; 2],
            ended: None,
            fails: 0,
            failures: 0,
            failed: None,
            leases: Vec::new(),
            was_taken: false,
            may_be_taken: false,
            may_have_parted: false,
            unheard_over_ms: 0,
            taken_as: None,
            urgency: Some(Job::urgency_of(protocol, put.urgency)),
            rest: if put.aside { Rest::Buried } else { Rest::AsPut },
            rested_turn: 0,
            asides: 0,
            may_have_been_buried: put.aside,
            kicks: Requests::default(),
            may_be_woken: false,
            burial: if put.aside { Burial::of_put(when) } else { Burial::default() },
            tallies: Tallies::default(),
            said_delay_s: Some(put.delay_s.unwrap_or(0)),
            extending: 0,
            disturbing: 0,
            disturbed: None,
        });
    }

    /// Jobs were said to be there.
    ///
    /// # Errors
    /// If a number was given before, or another job has the UUID.
    pub fn put_told(&mut self, entries: &[Entry], numbers: &[u64], when: When) -> Result<(), Wrong> {
        for (index, entry) in entries.iter().enumerate() {
            self.claim_id(*entry)?;
            self.jobs[*entry].is_there(when);
            if let Some(&number) = numbers.get(index) {
                if !self.numbers.insert(number) {
                    return Err(format!("number {number} was given twice, at last to job {entry}"));
                }
                self.jobs[*entry].number = Some(number);
            }
        }
        Ok(())
    }

    /// A put was refused.
    pub fn put_refused(&mut self, entries: &[Entry]) {
        entries.iter().for_each(|entry| self.jobs[*entry].refused = true);
    }

    /// Someone asks for something that may end a job.
    pub fn end_asked(&mut self, entry: Entry) {
        self.jobs[entry].ends += 1;
        self.jobs[entry].disturb();
    }

    /// Someone asks to have a job completed, with a result or without.
    pub fn complete_asked(&mut self, entry: Entry, with_result: bool) {
        self.jobs[entry].completed[usize::from(with_result)] = true;
        self.end_asked(entry);
    }

    /// Someone asks for something that may leave nothing of a job, besides ending it.
    pub fn removal_asked(&mut self, entry: Entry) {
        self.jobs[entry].may_be_removed = true;
    }

    /// It was refused: that did not end the job.
    pub fn end_refused(&mut self, entry: Entry) {
        self.jobs[entry].ends -= 1;
    }

    /// Someone asks to have a job failed.
    pub fn fail_asked(&mut self, entry: Entry) {
        let job = &mut self.jobs[entry];
        job.fails += 1;
        job.ends += usize::from(job.fails_at_once());
        job.disturb();
    }

    /// It was done: the job has failed.
    pub fn failed(&mut self, entry: Entry, asked: When, when: When) {
        let job = &mut self.jobs[entry];
        job.failures += 1;
        job.failed = job.failed.max(Some((asked, when)));
    }

    /// It was refused: the job did not fail.
    pub fn fail_refused(&mut self, entry: Entry) {
        let job = &mut self.jobs[entry];
        job.fails -= 1;
        job.ends -= usize::from(job.fails_at_once());
    }

    /// Someone asks to have a job put back.
    pub fn release_asked(&mut self, entry: Entry) {
        self.jobs[entry].disturb();
    }

    /// It was done: this client does not have the job any more.
    pub fn released(&mut self, entry: Entry, client: ClientId, when: When) {
        let theirs = self.jobs[entry].leases.iter_mut().rfind(|lease| lease.client == client);
        theirs.into_iter().for_each(|lease| lease.over_ms = Some(when.at_ms));
    }

    /// What was asked that may end a job or its lease was answered.
    pub fn settled(&mut self, entry: Entry, when: When) {
        let job = &mut self.jobs[entry];
        job.disturbing -= 1;
        job.disturbed = job.disturbed.max(Some(when.turn));
        job.leases.iter_mut().filter(|lease| lease.since <= when).for_each(|lease| lease.may_be_over = true);
    }

    /// A job was said to be done (`keeps` that there may be a result) or removed.
    pub fn ended(&mut self, entry: Entry, keeps: bool, when: When) {
        self.jobs[entry].ended.get_or_insert((when, keeps));
    }

    /// Whether nobody knows if a job is there: whoever asked to put it or to end it heard no answer, and never will. What
    /// has failed is another matter.
    #[must_use]
    pub fn is_open(&self, entry: Entry) -> bool {
        let job = &self.jobs[entry];
        !job.refused && job.ended.is_none() && job.fails == 0 && (job.put_told.is_none() || job.ends > 0)
    }

    /// Such a job was seen. What it is now, it stays; and no group was put that would have completed it.
    pub fn found_there(&mut self, entry: Entry, when: When) {
        let job = &mut self.jobs[entry];
        if job.put_told.is_none() {
            job.is_there(when);
        }
        job.ends = 0;
        let undone = self.groups.iter().filter(|group| !group.told && group.completes == Some(entry));
        let entries: Vec<Entry> = undone.flat_map(|group| &group.entries).copied().collect();
        self.put_refused(&entries);
    }

    /// The entry of this body.
    ///
    /// # Errors
    /// If nobody sent it.
    pub fn entry_of(&self, body: &[u8]) -> Result<Entry, Wrong> {
        let text = String::from_utf8_lossy(body);
        let number = text.strip_prefix("{\"j\":").and_then(|rest| rest.split(',').next());
        let entry = number.and_then(|number| number.parse::<Entry>().ok()).filter(|entry| *entry < self.jobs.len());
        match entry {
            Some(entry) if self.jobs[entry].put.body.as_bytes() == body => Ok(entry),
            _ => Err(format!("a body that nobody sent: {}", body.escape_ascii())),
        }
    }

    /// A client was given a job, of which nothing was decided before `asked`, and of which it began to hear at `when`. The
    /// server decided that at any time between the two.
    ///
    /// # Errors
    /// If that must not be.
    pub fn took(&mut self, body: &[u8], by: &Taker<'_>, asked: When, when: When) -> Result<Entry, Wrong> {
        let entry = self.entry_of(body)?;
        self.check_named(entry, by, when)?;
        let &Taker { client, speaker, gone, .. } = by;
        let job = &self.jobs[entry];
        let length_ms = job.lease_ms(speaker);
        let lease = Lease {
            client,
            since: when,
            asked_turn: by.asked_turn,
            by_connection: speaker.holds_by_connection,
            // Who vanishes shortly before the end makes it rest.
            rests: speaker.heartbeat,
            is_beanstalkds: speaker.protocol == BEANSTALKD,
            until_ms: length_ms.map(|length_ms| asked.at_ms + length_ms),
            over_ms: length_ms.map(|length_ms| when.at_ms + length_ms + 2 * SECOND_MS),
            may_be_over: gone && speaker.holds_by_connection
                || job.disturbing > 0
                || job.disturbed.is_some_and(|turn| turn >= asked.turn),
            may_have_parted: gone && speaker.heartbeat,
        };
        self.check_taken(entry, &lease, asked)?;
        self.count_checked(entry, &lease, asked);
        if self.jobs[entry].put_told.is_none() {
            self.claim_id(entry)?;
        }
        let job = &mut self.jobs[entry];
        // What someone was given is there, whoever else was told.
        job.put_told.get_or_insert(when);
        job.was_taken = true;
        job.taken_as = by.id.parse().ok().or(job.taken_as);
        job.wake(asked, when);
        job.leases.push(lease);
        Ok(entry)
    }

    /// A job has its own name, and comes from its own queue, or from its dead queue if it may have failed.
    fn check_named(&self, entry: Entry, by: &Taker<'_>, when: When) -> Result<(), Wrong> {
        let job = &self.jobs[entry];
        let is_named = match by.id.parse::<u64>() {
            Ok(number) => job.number.is_none_or(|known| known == number),
            Err(_) => job.uuid().is_none_or(|known| known == by.id),
        };
        let may_be_dead = || {
            by.unclear && job.put.failures.is_some()
                || job.may_have_failed()
                || self.may_fail_with_others(entry, when.at_ms)
        };
        let is_dead = |queue: &&str| job.put.dead_queue == Some(*queue) && may_be_dead();
        if is_named && (by.queues.contains(&job.put.queue) || by.queues.iter().any(is_dead)) {
            return Ok(());
        }
        Err(format!("job {entry} was given as '{}' to one who asked for {:?}: {job:?}", by.id, by.queues))
    }

    fn blockers(&self, entry: Entry) -> Vec<Entry> {
        let numbers = &self.jobs[entry].put.blockers;
        let by_number = |number: &u64| self.jobs.iter().position(|job| job.number == Some(*number));
        let mut blockers: Vec<_> = numbers.iter().filter_map(by_number).collect();
        for Group { entries, .. } in &self.groups {
            if let Some(index) = entries.iter().position(|other| *other == entry)
                && index > 0
            {
                blockers.push(entries[index - 1]);
            }
        }
        blockers
    }

    /// Someone who speaks so asked for a job of these queues, and will not hear the answer.
    pub fn take_lost(&mut self, queues: &[&str], speaker: &Speaker, at_ms: u64) {
        let wanted = self.jobs.iter_mut().filter(|job| queues.iter().any(|queue| job.put.may_be_in(queue)));
        wanted.for_each(|job| job.may_be_lost_to(speaker, at_ms));
    }

    /// Someone who speaks so asked for this job, and will not hear the answer.
    pub fn take_this_lost(&mut self, entry: Entry, speaker: &Speaker, at_ms: u64) {
        self.jobs[entry].may_be_lost_to(speaker, at_ms);
    }

    /// Someone asked for a job of these queues, and whatever it was given was taken back when its connection had ended.
    pub fn take_undone(&mut self, queues: &[&str], at_ms: u64) {
        let wanted = self.jobs.iter_mut().filter(|job| queues.iter().any(|queue| job.put.may_be_in(queue)));
        wanted.for_each(|job| job.was_undone(at_ms));
    }

    /// Someone asked for this job, and it was taken back so, if it was given.
    pub fn take_this_undone(&mut self, entry: Entry, at_ms: u64) {
        self.jobs[entry].was_undone(at_ms);
    }

    /// A connection has ended, or may have. What it had may rest from now on, even if its time was over: a server that
    /// stood still sees first who has gone.
    pub fn client_gone(&mut self, client: ClientId, at_ms: u64) {
        for lease in self.leases_of(client) {
            lease.may_be_over = true;
            lease.may_have_parted |= lease.rests;
            let rested_ms = if lease.rests { at_ms + 2 * SECOND_MS } else { 0 };
            lease.over_ms = lease.over_ms.map(|over_ms| over_ms.max(rested_ms));
        }
    }

    /// A connection has ended for certain, and the server knows.
    pub fn client_seen_off(&mut self, client: ClientId, at_ms: u64) {
        let at_once = self.leases_of(client).filter(|lease| !lease.rests);
        at_once.for_each(|lease| lease.over_ms = Some(lease.over_ms.map_or(at_ms, |over_ms| over_ms.min(at_ms))));
    }

    fn leases_of(&mut self, client: ClientId) -> impl Iterator<Item = &mut Lease> {
        let leases = self.jobs.iter_mut().flat_map(|job| &mut job.leases);
        leases.filter(move |lease| lease.client == client && lease.by_connection)
    }

    /// The server has ended: with it what connections held, and whatever was to be run for one. What was held until then is
    /// ready at once.
    pub fn server_gone(&mut self, when: When) {
        self.count_anew(when);
        let run = self.jobs.iter_mut().filter(|job| job.put.runs);
        run.for_each(|job| _ = job.ended.get_or_insert((when, false)));
        let held = self.jobs.iter_mut().flat_map(|job| &mut job.leases).filter(|lease| lease.by_connection);
        for lease in held {
            if !lease.may_be_over {
                (lease.over_ms, lease.rests) = (Some(when.at_ms), false);
            }
            lease.may_be_over = true;
        }
    }

    /// How much time has passed is not what the server thinks: the wall clock was set, and then the power failed.
    pub fn time_lost(&mut self, at_ms: u64) {
        self.time_lost_ms = Some(at_ms);
        let timed = self.jobs.iter_mut().flat_map(|job| &mut job.leases).filter(|lease| lease.until_ms.is_some());
        timed.for_each(|lease| lease.may_be_over = true);
    }

    /// Less time has passed than has: the wall clock was set back, and the machine booted. Nothing ends before its time; but it
    /// may end later.
    pub fn time_stood(&mut self, at_ms: u64) {
        self.time_stood_ms = Some(at_ms);
    }

    /// Dates mean something else now: the wall clock was set.
    pub fn dates_lost(&mut self, turn: u64) {
        self.dates_lost_turn = Some(turn);
    }

    /// Whether a job has a date, and that means something else now.
    fn is_date_lost(&self, job: &Job) -> bool {
        job.put.delay_s.is_some() && self.dates_lost_turn.is_some_and(|turn| job.asked.turn <= turn)
    }

    /// Whether what began then may last longer than it should.
    fn may_last_since(&self, began_ms: u64) -> bool {
        self.is_time_lost_since(began_ms) || self.time_stood_ms.is_some_and(|stood_ms| began_ms <= stood_ms)
    }

    /// Whether it is not known how much of what began then is over.
    fn is_time_lost_since(&self, began_ms: u64) -> bool {
        self.time_lost_ms.is_some_and(|lost_ms| began_ms <= lost_ms)
    }

    /// How many jobs there were, by what became of them.
    #[must_use]
    pub fn summary(&self) -> BTreeMap<&'static str, u64> {
        let mut counts = BTreeMap::new();
        for job in &self.jobs {
            let fate = match job {
                Job { ended: Some(_), .. } => "ended",
                Job { refused: true, .. } => "refused",
                Job { put_told: None, .. } => "never told",
                Job { ends: 1.., .. } => "end asked",
                _ => "there",
            };
            *counts.entry(fate).or_default() += 1;
        }
        counts
    }
}
