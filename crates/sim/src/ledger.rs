//! What clients asked and were told, and what must be so because of it. It knows nothing of the server but that.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use jobyard_engine::ClientId;

use crate::clients::{Entry, Put, Speaker};
use crate::world::Wrong;

/// When something was: in which turn, and how much time had passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct When {
    /// The turn.
    pub turn: u64,
    /// The time.
    pub at_ms: u64,
}

/// A job, as those who deal with it know it.
#[derive(Clone, Debug)]
pub struct Job {
    /// What was asked to be put.
    pub put: Put,
    /// In which protocol.
    pub protocol: &'static str,
    /// Its number, if anyone was told.
    pub number: Option<u64>,
    asked: When,
    /// When it was said to be there.
    pub put_told: Option<When>,
    refused: bool,
    /// When somebody first asked for something that may end it.
    pub end_asked: Option<When>,
    /// When it was said to be done or removed, and whether a result may be left of it.
    pub ended: Option<(When, bool)>,
    failed: bool,
    leases: Vec<Lease>,
    /// Whether anyone has ever been given it.
    pub was_taken: bool,
    /// Whether someone may have been given it without hearing of it.
    may_be_taken: bool,
    /// What was asked that may end whatever lease there is, and not answered.
    disturbing: usize,
    /// In which turn such a thing was last answered.
    disturbed: Option<u64>,
}

/// Who is given a job.
#[derive(Clone, Copy, Debug)]
pub struct Taker {
    /// Which client.
    pub client: ClientId,
    /// What it speaks.
    pub speaker: &'static Speaker,
    /// Whether its connection ends with its last answer, or may have ended since.
    pub gone: bool,
}

/// A job in someone's hands.
#[derive(Clone, Copy, Debug)]
struct Lease {
    client: ClientId,
    since: When,
    by_connection: bool,
    /// Before this it does not end by itself; nothing if it never does.
    until_ms: Option<u64>,
    /// After this it has ended by itself for certain.
    over_ms: Option<u64>,
    /// Whether it may have ended.
    may_be_over: bool,
}

impl Job {
    /// Whether it may be gone although nobody asked for it.
    fn is_mortal(&self) -> bool {
        self.put.lifetime_s.is_some() || self.may_fail() || self.put.runs
    }

    /// Whether it may have failed so often that it is gone: someone must have had it, and once more in its dead queue, if
    /// it has one. What it waits for may have made it fail before anyone had it.
    fn may_fail(&self) -> bool {
        let takes_min = 1 + usize::from(self.put.dead_queue.is_some()) - usize::from(!self.put.blockers.is_empty());
        self.put.failures.is_some() && (self.may_be_taken || self.leases.len() >= takes_min)
    }

    /// Whether it may have failed for the last time, for those who wait for it: then it is gone, or in its dead queue.
    fn may_have_failed(&self) -> bool {
        let is_dead = self.put.failures.is_some() && (self.may_be_taken || !self.leases.is_empty());
        is_dead || self.failed && self.fails_at_once()
    }

    /// Someone asks for something that may end its lease.
    fn disturb(&mut self) {
        self.disturbing += 1;
        self.leases.iter_mut().for_each(|lease| lease.may_be_over = true);
    }

    /// Whether a failure is its end.
    fn fails_at_once(&self) -> bool {
        self.protocol == "workq" && self.put.failures.is_none_or(|failures| failures == 0)
    }
}

/// All jobs there were.
#[derive(Debug, Default)]
pub struct Ledger {
    /// By entry.
    pub jobs: Vec<Job>,
    /// Jobs that were put together, and whether that was told.
    pub groups: Vec<(Vec<Entry>, bool)>,
    numbers: BTreeSet<u64>,
    /// What time means is not known for leases.
    time_lost: bool,
    /// What dates mean is not known.
    dates_lost: bool,
}

impl Ledger {
    /// Whether a job must be there.
    #[must_use]
    pub fn must_be_there(&self, entry: Entry) -> bool {
        let job = &self.jobs[entry];
        job.put_told.is_some() && job.end_asked.is_none() && !self.may_go(entry)
    }

    /// Whether a job may be gone although nobody asked for it. What blocks it may take it along.
    fn may_go(&self, entry: Entry) -> bool {
        self.jobs[entry].is_mortal() || self.may_fail_with_others(entry)
    }

    /// Whether what blocks a job may have made it fail, directly or by what blocks that.
    fn may_fail_with_others(&self, entry: Entry) -> bool {
        let fails = |blocker: Entry| self.may_go(blocker) || self.jobs[blocker].may_have_failed();
        self.blockers(entry).into_iter().any(fails)
    }

    /// The entry that the next job gets.
    #[must_use]
    pub fn next_entry(&self) -> Entry {
        self.jobs.len()
    }

    /// Someone asks to put a job.
    pub fn put_asked(&mut self, put: &Put, protocol: &'static str, when: When) {
        assert_eq!(put.entry, self.jobs.len(), "jobs are counted");
        self.jobs.push(Job {
            put: put.clone(),
            protocol,
            number: None,
            asked: when,
            put_told: None,
            refused: false,
            end_asked: None,
            ended: None,
            failed: false,
            leases: Vec::new(),
            was_taken: false,
            may_be_taken: false,
            disturbing: 0,
            disturbed: None,
        });
    }

    /// Jobs were said to be there.
    ///
    /// # Errors
    /// If a number was given before.
    pub fn put_told(&mut self, entries: &[Entry], numbers: &[u64], when: When) -> Result<(), Wrong> {
        for (index, entry) in entries.iter().enumerate() {
            self.jobs[*entry].put_told = Some(when);
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
    pub fn end_asked(&mut self, entry: Entry, when: When) {
        let job = &mut self.jobs[entry];
        job.end_asked.get_or_insert(when);
        job.disturb();
    }

    /// Someone asks to have a job failed or put back.
    pub fn return_asked(&mut self, entry: Entry, fails: bool, when: When) {
        let job = &mut self.jobs[entry];
        job.failed |= fails;
        if fails && job.fails_at_once() {
            job.end_asked.get_or_insert(when);
        }
        job.disturb();
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

    /// A client was given a job, which it had asked for at `asked`, and of which it began to hear at `when`. The server
    /// decided that at any time between the two.
    ///
    /// # Errors
    /// If that must not be.
    pub fn took(&mut self, body: &[u8], by: &Taker, asked: When, when: When) -> Result<Entry, Wrong> {
        let entry = self.entry_of(body)?;
        let &Taker { client, speaker, gone } = by;
        let job = &self.jobs[entry];
        let own_ms = job.put.own_time_s.filter(|seconds| *seconds > 0).map(|seconds| u64::from(seconds) * 1_000);
        // Whoever puts with workq always says how long a lease lasts.
        let own_ms = own_ms.or(if job.protocol == "workq" { Some(86_400_000) } else { None });
        // Without a time, a job of goqueue's own is goqueue's for ever.
        let is_endless = job.protocol == "goqueue" && speaker.protocol == "goqueue";
        let length_ms = own_ms.or(speaker.lease_ms.filter(|_| !is_endless));
        let lease = Lease {
            client,
            since: when,
            by_connection: speaker.holds_by_connection,
            until_ms: length_ms.map(|length_ms| asked.at_ms + length_ms),
            over_ms: length_ms.map(|length_ms| when.at_ms + length_ms + 1_000),
            may_be_over: gone && speaker.holds_by_connection
                || job.disturbing > 0
                || job.disturbed.is_some_and(|turn| turn >= asked.turn),
        };
        self.check_taken(entry, &lease, asked)?;
        let job = &mut self.jobs[entry];
        job.was_taken = true;
        job.leases.push(lease);
        Ok(entry)
    }

    fn check_taken(&self, entry: Entry, taken: &Lease, asked: When) -> Result<(), Wrong> {
        let job = &self.jobs[entry];
        let at_ms = taken.since.at_ms;
        if job.refused {
            return Err(format!("job {entry} was refused, and yet it is there"));
        }
        if let Some((ended, _)) = job.ended
            && ended.turn < asked.turn
        {
            return Err(format!(
                "job {entry} came back: it had ended in turn {}, and was asked for in {}",
                ended.turn, asked.turn
            ));
        }
        // What it waits for may have sent it to its dead queue, where it is ready.
        let is_dead = job.put.dead_queue.is_some() && self.may_fail_with_others(entry);
        if let Some(delay_s) = job.put.delay_s
            && !self.dates_lost
            && !is_dead
            && at_ms + 999 < job.asked.at_ms + u64::from(delay_s) * 1_000
        {
            return Err(format!("job {entry} came before its date"));
        }
        for blocker in self.blockers(entry) {
            if self.must_be_there(blocker) && !is_dead {
                return Err(format!("job {entry} came before job {blocker}, which blocks it, had ended"));
            }
        }
        // Whichever came first, it was not over when the other came.
        let clashes = |other: &&Lease| {
            let lasts = other.until_ms.is_none_or(|until_ms| at_ms < until_ms);
            let taken_lasts = taken.until_ms.is_none_or(|until_ms| other.since.at_ms < until_ms);
            !other.may_be_over && !taken.may_be_over && lasts && taken_lasts
        };
        match job.leases.iter().find(clashes) {
            Some(other) => Err(format!("job {entry} was given twice: {:?} still has it", other.client)),
            None => Ok(()),
        }
    }

    fn blockers(&self, entry: Entry) -> Vec<Entry> {
        let numbers = &self.jobs[entry].put.blockers;
        let by_number = |number: &u64| self.jobs.iter().position(|job| job.number == Some(*number));
        let mut blockers: Vec<_> = numbers.iter().filter_map(by_number).collect();
        for (group, _) in &self.groups {
            if let Some(index) = group.iter().position(|other| *other == entry)
                && index > 0
            {
                blockers.push(group[index - 1]);
            }
        }
        blockers
    }

    /// Someone asked for a job of these queues, and will not hear the answer.
    pub fn take_lost(&mut self, queues: &[&str]) {
        let jobs = self.jobs.iter_mut().filter(|job| queues.iter().any(|queue| job.put.may_be_in(queue)));
        jobs.for_each(|job| job.may_be_taken = true);
    }

    /// A connection has ended, or may have.
    pub fn client_gone(&mut self, client: ClientId) {
        for job in &mut self.jobs {
            let theirs = job.leases.iter_mut().filter(|lease| lease.client == client && lease.by_connection);
            theirs.for_each(|lease| lease.may_be_over = true);
        }
    }

    /// The server has ended: with it what connections held.
    pub fn server_gone(&mut self) {
        for lease in self.jobs.iter_mut().flat_map(|job| &mut job.leases) {
            lease.may_be_over |= lease.by_connection;
        }
    }

    /// How much time has passed is not what the server thinks: the wall clock was set, and then the power failed.
    pub fn time_lost(&mut self) {
        self.time_lost = true;
        let timed = self.jobs.iter_mut().flat_map(|job| &mut job.leases).filter(|lease| lease.until_ms.is_some());
        timed.for_each(|lease| lease.may_be_over = true);
    }

    /// Dates mean something else now: the wall clock was set.
    pub fn dates_lost(&mut self) {
        self.dates_lost = true;
    }

    /// Whether someone may have a job.
    #[must_use]
    pub fn is_held(&self, entry: Entry) -> bool {
        let job = &self.jobs[entry];
        job.end_asked.is_some() && job.ended.is_none()
            || job.failed
            || job.may_be_taken
            || job.leases.iter().any(|lease| !lease.may_be_over)
            // Where time was lost, a lease may have ended, and may last.
            || self.time_lost && job.leases.iter().any(|lease| !lease.by_connection)
    }

    /// A job in this queue that was said to be there by that turn, and that nobody can have been given but those whose leases
    /// were over by then; never, if no time is said.
    #[must_use]
    pub fn certainly_ready(&self, queue: &str, told_by_turn: u64, over_by_ms: Option<u64>) -> Option<Entry> {
        self.jobs.iter().position(|job| {
            let is_over =
                |over_ms: Option<u64>| over_ms.zip(over_by_ms).is_some_and(|(over_ms, by_ms)| over_ms <= by_ms);
            let free = |lease: &Lease| !lease.by_connection && !lease.may_be_over && is_over(lease.over_ms);
            job.put.queue == queue
                && job.put_told.is_some_and(|told| told.turn <= told_by_turn)
                && self.is_plain(job.put.entry)
                && job.leases.iter().all(free)
        })
    }

    /// Whether a job is there, and nothing but a lease keeps it from being ready.
    fn is_plain(&self, entry: Entry) -> bool {
        let job = &self.jobs[entry];
        let unbound = job.put.delay_s.is_none() && job.put.blockers.is_empty() && self.is_first_of_its_group(entry);
        unbound && !job.failed && !job.may_be_taken && self.must_be_there(entry)
    }

    /// A job that this client has for certain: whatever it asks of it now must be done.
    #[must_use]
    pub fn surely_has(&self, entry: Entry, client: ClientId, at_ms: u64) -> bool {
        let job = &self.jobs[entry];
        let undisturbed = job.disturbing == 0 && job.end_asked.is_none() && job.put.lifetime_s.is_none();
        let has = |lease: &Lease| {
            lease.client == client && !lease.may_be_over && lease.until_ms.is_none_or(|until_ms| at_ms < until_ms)
        };
        undisturbed && !job.put.runs && job.leases.last().is_some_and(has)
    }

    /// Whether of all that may end a job or its lease nothing but one thing was under way since then.
    #[must_use]
    pub fn nobody_else_asked(&self, entry: Entry, since: When) -> bool {
        let job = &self.jobs[entry];
        job.disturbing == 1 && job.disturbed.is_none_or(|turn| turn < since.turn)
    }

    /// Whether whoever takes all that there is must come upon this job, when nobody is connected any more.
    #[must_use]
    pub fn is_owed(&self, entry: Entry, now_ms: u64) -> bool {
        let job = &self.jobs[entry];
        // After a time that grows with each time that its worker has vanished.
        let is_late = |lease: &Lease| lease.by_connection && job.protocol == "masenko";
        let is_over = |lease: &Lease| match lease.over_ms {
            _ if lease.by_connection => !is_late(lease),
            Some(over_ms) => over_ms <= now_ms && !self.time_lost,
            None => false,
        };
        self.is_plain(entry) && job.leases.iter().all(is_over)
    }

    fn is_first_of_its_group(&self, entry: Entry) -> bool {
        self.groups
            .iter()
            .all(|(group, _)| group.iter().position(|other| *other == entry).is_none_or(|index| index == 0))
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
                Job { end_asked: Some(_), .. } => "end asked",
                _ => "there",
            };
            *counts.entry(fate).or_default() += 1;
        }
        counts
    }
}
