//! Clients of beanstalkd that take one job by its number, whatever keeps it from being the next, unless someone has it.

use jobyard_engine::Limits;

use super::Schedule;
use super::person::{Pending, Person, SLACK_MS};
use crate::clients::{Ask, Entry, Heard, Held, Put};
use crate::ledger::{Job, Kept, When};
use crate::world::Wrong;

impl Schedule {
    /// A job to be taken by its number: one that the client has put aside, one of a paused queue, one that is done, or any other.
    pub(super) fn take_this(&mut self, index: usize) -> Ask {
        // A server that stops refuses this in the words in which others are told of too much input.
        if self.lacks_input() {
            return self.take(index);
        }
        let (now, kind) = (self.now(), self.below(4));
        let is_paused = |queue: &str| self.ledger.is_paused(queue, now, now.at_ms, None).is_some();
        let can_be_taken = |job: &Job| self.ledger.can_be_taken(job.put.entry, now.turn, now.at_ms, Kept::UntilThen);
        let some: Vec<Held> = match kind {
            0 => self.people[index].buried.clone(),
            1 => self.numbered(|job| is_paused(job.put.queue) && can_be_taken(job)),
            2 => self.numbered(|job| job.ended.is_some_and(|(_, keeps)| keeps)),
            _ => Vec::new(),
        };
        match self.below(some.len().max(1)) {
            which if which < some.len() => Ask::TakeThis(some[which].clone()),
            _ => self.some_job(index).map_or_else(|| self.take(index), Ask::TakeThis),
        }
    }

    /// The jobs whose numbers are known, of which this holds.
    pub(super) fn numbered(&self, holds: impl Fn(&Job) -> bool) -> Vec<Held> {
        let jobs = self.ledger.jobs.iter().filter(|job| holds(job));
        let held = |job: &Job| {
            let (entry, queue) = (job.put.entry, job.put.queue);
            Some(Held { entry, id: job.known_number()?.to_string(), queue })
        };
        jobs.filter_map(held).collect()
    }

    /// Whether someone asked for a job that may be one of this queue, and was not answered yet.
    pub(super) fn asks_for(&self, person: &Person, queue: &str) -> bool {
        let may_be_in = |entry: Entry| self.ledger.jobs[entry].put.may_be_in(queue);
        person.asks_for(queue) || person.takes_this().any(may_be_in)
    }

    /// The queues of which someone may have been given a job without having read so.
    pub(super) fn may_have_taken(&self, person: &Person, puts_held_back: bool) -> Vec<&'static str> {
        let queues = |ask: &Ask| match ask {
            Ask::Take { queues, .. } => queues.clone(),
            Ask::TakeThis(held) => self.queues_of(held.entry),
            _ => Vec::new(),
        };
        person.unread(puts_held_back).flat_map(queues).collect()
    }

    /// Where a job may be.
    fn queues_of(&self, entry: Entry) -> Vec<&'static str> {
        let Put { queue, dead_queue, .. } = self.ledger.jobs[entry].put;
        [Some(queue), dead_queue].into_iter().flatten().collect()
    }

    /// Whether this is about a job that can be taken by its number, and will be answered at once.
    pub(super) fn can_be_taken(&self, index: usize, entry: Entry) -> bool {
        let (who, now) = (&self.people[index], self.now());
        let is_read_whole = self.world.setup().config.limits.turn_bytes_max >= Limits::default().turn_bytes_max;
        // After a stall, what has run out is seen behind what was asked meanwhile.
        let is_seen = now.at_ms > self.stalled_until_ms + SLACK_MS;
        let kept = if is_seen { Kept::UntilThen } else { Kept::Never };
        let is_free = self.ledger.can_be_taken(entry, now.turn, now.at_ms, kept);
        let is_asked_for = self.queues_of(entry).iter().any(|queue| self.others_ask_for(index, queue));
        who.is_answered() && is_read_whole && is_free && !is_asked_for
    }

    /// Whether nothing that was asked since then can have changed what is asked for here.
    pub(super) fn nobody_meddled(&self, index: usize, ask: &Ask, asked: When, when: When) -> bool {
        let is_free = |held: &Held| {
            let is_asked_for = self.queues_of(held.entry).iter().any(|queue| self.others_ask_for(index, queue));
            self.ledger.is_free_since(held.entry, asked, when.at_ms) && !is_asked_for
        };
        self.ledger.nobody_meddled(ask, asked) && !matches!(ask, Ask::TakeThis(held) if !is_free(held))
    }

    /// Someone was given the job that it asked for, or told that it cannot be had.
    pub(super) fn note_took_this(
        &mut self,
        index: usize,
        pending: &Pending,
        heard: &Heard,
        when: When,
    ) -> Result<(), Wrong> {
        let (Ask::TakeThis(held), Heard::Took { id, body, .. }) = (&pending.ask, heard) else { return Ok(()) };
        let (entry, who) = (self.ledger.entry_of(body)?, &self.people[index]);
        if entry != held.entry || *id != held.id {
            return Err(format!("{who:?} asked for job {}, and was given job {entry} as '{id}'", held.entry));
        }
        let queues = self.queues_of(entry);
        let is_paused = queues.iter().any(|queue| {
            let asked = pending.undecided;
            self.ledger.is_paused(queue, asked, when.at_ms, Some(entry)).is_some()
        });
        self.note_took(index, pending, id, body, &queues, when)?;
        self.check_lives(entry, pending.undecided)?;
        self.ledger.took_this(entry, pending.asked, when);
        self.people[index].buried.retain(|aside| aside.entry != entry);
        self.count("checked: a job was taken by its number", 1);
        self.count("checked: a job of a paused queue was taken by its number", u64::from(is_paused));
        Ok(())
    }

    /// Whoever is not heard of again may have been given the jobs that it asked for by their numbers.
    pub(super) fn lose_these(&mut self, person: &Person) {
        let now_ms = self.world.elapsed_ms();
        person.takes_this().for_each(|entry| self.ledger.take_this_lost(entry, person.speaker, now_ms));
    }
}

impl Person {
    /// The jobs that it asked for by their numbers, and has not heard of.
    pub(super) fn takes_this(&self) -> impl Iterator<Item = Entry> {
        self.pending.iter().filter_map(|pending| match &pending.ask {
            Ask::TakeThis(held) => Some(held.entry),
            _ => None,
        })
    }
}
