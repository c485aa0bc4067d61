//! How the log lets go of its beginning: what is still needed of it is written anew at its end.

use crate::engine::Engine;
use crate::job::Job;
use crate::names::JobNumber;
use crate::queue::Queue;
use crate::record::{Record, put_kept};
use crate::store::Store;
use crate::stretch::Entry;

/// What passing over an entry that is not needed any more counts for, in bytes: it costs about as much as writing these.
const BYTES_PER_DEAD_ENTRY: usize = 32;

impl Engine {
    /// Records made from now on, and those that were not cleared yet, are in a new stretch of the log. A log of which nothing
    /// is ever dropped needs none; else the first begins before the first record is made or replayed.
    ///
    /// # Panics
    /// If there are jobs or queues of which it is not known where they were written.
    pub fn begin_stretch(&mut self) {
        let is_tracked = self.store.stretches.len() > 0 || self.store.is_new();
        assert!(is_tracked, "the first stretch begins before the first record");
        let before = self.store.stretches.newest();
        let unsettled = self.store.stretches.begin();
        self.store.jobs.begin_stretch();
        for entry in unsettled {
            self.note_anew(entry, before);
        }
    }

    /// The record of an entry that was noted in this stretch is in the newest.
    fn note_anew(&mut self, entry: Entry, before: u32) {
        let Store { stretches, jobs, queues, .. } = &mut self.store;
        match entry {
            Entry::Job(number) => {
                if jobs.get(number).is_some_and(|job| job.stretch == before) {
                    jobs.stamp(number, stretches.note_job(number));
                }
            }
            Entry::Queue(id) => {
                let queue = queues.get_mut(id);
                if queue.stretch == before {
                    stretches.forget_queue(before, queue.record_bytes());
                    queue.stretch = stretches.note_queue(id, queue.record_bytes());
                }
            }
        }
    }

    /// The log has let go of the oldest stretch. To be called when [`Engine::compact`] has said that it is not needed,
    /// and what it wrote is durable.
    ///
    /// # Panics
    /// If there is only one.
    pub fn drop_stretch(&mut self) {
        self.store.stretches.drop_oldest();
        self.store.jobs.drop_stretch();
    }

    /// How many stretches there are.
    #[must_use]
    pub fn stretches(&self) -> usize {
        self.store.stretches.len()
    }

    /// So many numbers and places are never given: they may have been, to jobs of which nothing is known any more.
    pub fn skip_numbers(&mut self, count: u64) {
        self.store.skip_numbers(count);
    }

    /// The number that the next job gets.
    #[must_use]
    pub fn next_number(&self) -> JobNumber {
        self.store.next_number
    }

    /// What the full records of jobs and queues would take whose newest one is in the oldest stretch: so much would have to
    /// be written for the log to let go of it.
    #[must_use]
    pub fn oldest_stretch_bytes(&self) -> u64 {
        self.store.jobs.oldest_stretch_bytes() + self.store.stretches.oldest_queue_bytes()
    }

    /// Whether [`Engine::compact`] has begun with the oldest stretch.
    #[must_use]
    pub fn oldest_stretch_is_begun(&self) -> bool {
        self.store.stretches.oldest_is_begun()
    }

    /// What the full records of all jobs and queues would take in the log.
    #[must_use]
    pub fn live_bytes(&self) -> u64 {
        self.store.jobs.record_bytes() + self.store.queues.record_bytes()
    }

    /// Writes full records of what still lives and has its newest one in the oldest stretch, until about so many bytes
    /// were added; passing over what is gone counts too. True when nothing of the oldest stretch is needed any more,
    /// once the records are durable. Never when there is only one.
    pub fn compact(&mut self, bytes: usize) -> bool {
        self.compact_within(bytes, usize::MAX)
    }

    /// As [`Engine::compact`], but stops before [`Engine::records`] would be longer than `within`, unless there is nothing
    /// else in them.
    pub fn compact_within(&mut self, bytes: usize, within: usize) -> bool {
        if self.store.stretches.len() < 2 {
            return false;
        }
        let mut spent = 0;
        while spent < bytes {
            match self.store.stretches.next_of_oldest() {
                Some(entry) if !self.records.is_empty() && self.records.len() + self.needed(entry) > within => {
                    self.store.stretches.give_again(entry);
                    return false;
                }
                Some(entry) => spent += self.keep(entry),
                None => {
                    if self.store.stretches.finish_oldest() {
                        self.write_counters();
                    }
                    return true;
                }
            }
        }
        false
    }

    /// The whole state is to be written to another log: [`Engine::records`] begins anew, and [`Engine::keep_all`]
    /// goes on with it. The state must be settled: after [`Engine::replay`], [`Engine::recover`] comes first.
    pub fn begin_keep_all(&mut self) {
        self.clear_records();
        self.begin_stretch();
        // At the beginning it says that jobs came before, some of which may be spoken of before they are there.
        self.write_counters();
    }

    /// Writes about so many bytes more of the whole state. True when all of it is written.
    pub fn keep_all(&mut self, bytes: usize) -> bool {
        let end = self.records.len().saturating_add(bytes);
        while self.store.stretches.len() > 1 {
            if !self.compact(end.saturating_sub(self.records.len())) {
                return false;
            }
            self.drop_stretch();
        }
        true
    }

    /// What an entry of the oldest stretch takes, if it is needed.
    fn needed(&self, entry: Entry) -> usize {
        let oldest = self.store.stretches.oldest();
        let bytes = match entry {
            Entry::Job(number) => {
                self.store.jobs.get(number).filter(|job| job.stretch == oldest).map(Job::record_bytes)
            }
            Entry::Queue(id) => {
                Some(self.store.queues.get(id)).filter(|queue| queue.stretch == oldest).map(Queue::record_bytes)
            }
        };
        usize::try_from(bytes.unwrap_or(0)).unwrap_or(usize::MAX)
    }

    /// Writes a full record of an entry of the oldest stretch, if it is needed. What that costs, in bytes.
    fn keep(&mut self, entry: Entry) -> usize {
        let before = self.records.len();
        let stretches = &mut self.store.stretches;
        match entry {
            Entry::Job(number) => {
                if let Some(job) = self.store.jobs.get(number)
                    && job.stretch == stretches.oldest()
                {
                    if !(crate::broken("engine-compaction-forgets") && number.is_multiple_of(7)) {
                        put_kept(&mut self.records, job, self.store.queues.get(job.queue).name.as_bytes());
                    }
                    let stretch = stretches.note_job(number);
                    self.store.jobs.stamp(number, stretch);
                }
            }
            Entry::Queue(id) => {
                let queue = self.store.queues.get_mut(id);
                if let Some(ordinal) = queue.ordinal.filter(|_| queue.stretch == stretches.oldest()) {
                    Record::QueueCreated { name: queue.name.as_bytes(), ordinal }.encode(&mut self.records);
                    stretches.forget_queue(queue.stretch, queue.record_bytes());
                    queue.stretch = stretches.note_queue(id, queue.record_bytes());
                }
            }
        }
        let bytes = self.records.len() - before;
        self.written.anew += u64::from(bytes > 0);
        bytes.max(BYTES_PER_DEAD_ENTRY)
    }

    /// What was given to jobs and queues that are gone is not given again, though nothing tells of them any more.
    fn write_counters(&mut self) {
        let record = Record::Counters {
            next_number: self.store.next_number_kept,
            next_place: self.store.next_place,
            next_ordinal: self.store.queues.next_ordinal,
        };
        record.encode(&mut self.records);
    }
}
