//! Queues that clients of beanstalkd pause: nobody who asks for the next job is given one of them, whatever they speak, until that
//! is over.

use super::person::Person;
use super::{QUEUES, Schedule};
use crate::clients::{Ask, BEANSTALKD, Counts, Entry, Heard};
use crate::ledger::{Job, Kept, When};
use crate::world::Wrong;

/// What is said of a queue that is not there.
const NOT_FOUND: &str = "NOT_FOUND";
/// A pause that nobody waits for.
const LONG_S: u64 = 600;

impl Schedule {
    /// A client pauses a queue for a while, or ends that; or sees how it is, or does what a pause does not keep it from.
    pub(super) fn pause(&mut self, index: usize) -> Ask {
        let queue = QUEUES[self.below(self.queues)];
        match self.below(5) {
            0 => return Ask::Count(queue),
            1 | 2 => return self.take_this(index),
            _ => {}
        }
        let pause_s = match self.below(6) {
            0 | 1 => 0,
            2 => LONG_S,
            _ => 1 + self.below(6) as u64,
        };
        Ask::Pause { queue, pause_s }
    }

    /// Whether nobody may have been given a job of this queue at some time, for one who asked then.
    pub(super) fn may_be_paused(&self, queue: &str, asked: When) -> bool {
        self.ledger.may_be_paused(queue, self.seen_by(asked))
    }

    /// A job of this queue that is ready for certain, for one who asked then and was not given it up to that time; unless that
    /// may be because of a pause.
    pub(super) fn owed(&mut self, queue: &str, asked: When, at_ms: u64, kept: Kept) -> Option<Entry> {
        let entry = self.ledger.all_ready(queue, asked.turn, at_ms, kept).next()?;
        let is_paused = self.ledger.is_paused(queue, asked, at_ms, None).is_some();
        self.count("checked: nobody is given a job of a paused queue", u64::from(is_paused));
        // At rest, nothing is under way.
        let since = if kept == Kept::UntilThen { When { turn: asked.turn + 1, ..asked } } else { asked };
        (!self.may_be_paused(queue, since)).then_some(entry)
    }

    /// Someone who had asked then for the next job was given this one: its queue was not paused.
    pub(super) fn check_not_paused(
        &mut self,
        index: usize,
        entry: Entry,
        undecided: When,
        when: When,
    ) -> Result<(), Wrong> {
        let put = &self.ledger.jobs[entry].put;
        if put.dead_queue.is_some() {
            return Ok(());
        }
        let queue = put.queue;
        if self.ledger.is_paused(queue, undecided, when.at_ms, Some(entry)).is_some() {
            let (who, job) = (&self.people[index], &self.ledger.jobs[entry]);
            return Err(format!("{who:?} was given job {entry} of '{queue}', which was paused: {job:?}"));
        }
        let was_paused = self.ledger.was_paused(queue, self.seen_by(undecided));
        self.count("checked: a job came when a pause was over", u64::from(was_paused));
        Ok(())
    }

    /// Someone was told that there is no queue to be paused, or no longer to be.
    pub(super) fn check_no_queue(&self, index: usize, ask: &Ask, words: &str, asked: When) -> Result<(), Wrong> {
        let Ask::Pause { queue, .. } = ask else { return Ok(()) };
        let (who, at_ms) = (&self.people[index], self.world.elapsed_ms());
        let is_attended = who.uses == *queue || who.watches.contains(queue);
        let keeps = |entry: &Entry| {
            let job = &self.ledger.jobs[*entry];
            let was_there = job.put_told.is_some_and(|told| told.turn < asked.turn) && job.put.dead_queue.is_none();
            job.put.queue == *queue && was_there && self.ledger.must_be_there(*entry, at_ms)
        };
        let job = (0..self.ledger.jobs.len()).find(keeps);
        if words == NOT_FOUND && (is_attended || job.is_some()) {
            return Err(format!("{who:?} was told that there is no queue '{queue}', and it is: it has job {job:?}"));
        }
        Ok(())
    }

    /// Someone was told for how long a queue is paused.
    pub(super) fn check_pause_said(
        &mut self,
        queue: &str,
        counts: Counts,
        asked: When,
        when: When,
    ) -> Result<(), Wrong> {
        let Some(said) = counts.pause_s else { return Ok(()) };
        let is_paused = self.ledger.is_paused(queue, asked, when.at_ms, None);
        let known = is_paused.or((!self.may_be_paused(queue, asked)).then_some(0));
        if known.is_some_and(|known| known != said) {
            return Err(format!("'{queue}' is said to be paused for {said} s, and it is for {known:?}"));
        }
        self.count("checked: a queue is paused as is said", u64::from(is_paused.is_some()));
        Ok(())
    }

    /// Every queue is paused once more: nobody is given a job of it, but by its number. Then all pauses are over.
    pub(super) fn try_pauses(&mut self) -> Result<(), Wrong> {
        for queue in QUEUES {
            if !self.pauses && !self.may_still_be_paused(queue) {
                continue;
            }
            let index = self.visitor(BEANSTALKD);
            if self.ask_now(index, Ask::Pause { queue, pause_s: LONG_S })? == Heard::Done {
                self.ask_now(index, Ask::Count(queue))?;
                self.nobody_is_given(queue)?;
                self.one_is_taken(index, queue)?;
            }
            self.ask_now(index, Ask::Pause { queue, pause_s: 0 })?;
            if self.may_still_be_paused(queue) {
                return Err(format!("{:?} cannot end the pause of '{queue}'", self.people[index]));
            }
            let visitor = self.people.remove(index);
            self.goes(visitor.client)?;
        }
        Ok(())
    }

    /// A job of this queue is taken by its number, and given back.
    fn one_is_taken(&mut self, index: usize, queue: &str) -> Result<(), Wrong> {
        let now = self.now();
        let is_ready = |job: &Job| {
            job.put.queue == queue && self.ledger.can_be_taken(job.put.entry, now.turn, now.at_ms, Kept::UntilThen)
        };
        let Some(held) = self.numbered(is_ready).into_iter().next() else { return Ok(()) };
        if let Heard::Took { .. } = self.ask_now(index, Ask::TakeThis(held))? {
            let held = self.people[index].give_up().expect("it was just taken");
            self.ask_now(index, Ask::PutBack { held, urgency: 0, delay_s: 0 })?;
        }
        Ok(())
    }

    /// Whether a queue may be paused when all is at rest.
    fn may_still_be_paused(&self, queue: &str) -> bool {
        let now = self.now();
        self.ledger.may_be_paused(queue, When { turn: now.turn + 1, ..now })
    }

    /// Whoever asks for a job of this queue hears that there is none.
    fn nobody_is_given(&mut self, queue: &'static str) -> Result<(), Wrong> {
        for protocol in ["workq", "jobcentre", "takeanumber", BEANSTALKD] {
            let index = self.visitor(protocol);
            let heard = self.ask_now(index, Ask::Take { queues: vec![queue], wait_ms: 0 })?;
            if matches!(heard, Heard::Took { .. }) {
                return Err(format!("{:?} was given a job of '{queue}', which is paused", self.people[index]));
            }
            let now = self.now();
            let is_owed = self.ledger.all_ready(queue, now.turn, now.at_ms, Kept::UntilThen).next().is_some();
            self.count("audit: nobody is given a job of a paused queue", u64::from(is_owed));
            let Person { client, .. } = self.people.remove(index);
            self.goes(client)?;
        }
        Ok(())
    }
}
