//! The table of jobs by number.

use std::collections::{HashMap, VecDeque};

use crate::changes::{Changes, Standing};
use crate::hash::InOrder;
use crate::job::Job;
use crate::names::JobNumber;
use crate::record_kept::state_len;

/// Shards keep the pause of a growing table short: each moves only its own part.
const SHARDS: usize = 256;

/// A shard with room for so many is not worth shrinking.
const KEPT_MAX: usize = 64;

/// All jobs.
#[derive(Debug)]
pub(crate) struct Jobs {
    shards: Vec<HashMap<JobNumber, Job, InOrder<SHARDS>>>,
    memory_bytes: usize,
    record_bytes: u64,
    /// The same for each stretch of the log, the oldest first.
    stretch_bytes: VecDeque<u64>,
    /// The index of the oldest stretch.
    first_stretch: u32,
    /// What becomes of jobs, if anyone wants to know.
    pub(crate) changes: Option<Box<Changes>>,
}

impl Jobs {
    pub(crate) fn new() -> Self {
        Jobs {
            shards: vec![HashMap::default(); SHARDS],
            memory_bytes: 0,
            record_bytes: 0,
            stretch_bytes: VecDeque::new(),
            first_stretch: 0,
            changes: None,
        }
    }

    /// A stretch of the log begins.
    pub(crate) fn begin_stretch(&mut self) {
        self.stretch_bytes.push_back(0);
    }

    /// The oldest stretch is gone, and nothing was needed of it.
    pub(crate) fn drop_stretch(&mut self) {
        self.stretch_bytes.pop_front();
        self.first_stretch += 1;
    }

    /// What the full records of jobs would take whose newest one is in the oldest stretch.
    pub(crate) fn oldest_stretch_bytes(&self) -> u64 {
        self.stretch_bytes.front().copied().unwrap_or(0)
    }

    /// A job's record takes so many bytes more, and so many less.
    fn recount(&mut self, stretch: u32, more: u64, less: u64) {
        self.record_bytes = self.record_bytes + more - less;
        let index = stretch.wrapping_sub(self.first_stretch) as usize;
        if let Some(bytes) = self.stretch_bytes.get_mut(index) {
            *bytes = *bytes + more - less;
        }
    }

    fn shard(number: JobNumber) -> usize {
        usize::try_from(number % SHARDS as u64).expect("less than the number of shards")
    }

    pub(crate) fn get(&self, number: JobNumber) -> Option<&Job> {
        self.shards[Self::shard(number)].get(&number)
    }

    /// Changes a job, keeping count of its memory and its record.
    ///
    /// # Panics
    /// If there is no such job.
    pub(crate) fn change<T>(&mut self, number: JobNumber, change: impl FnOnce(&mut Job) -> T) -> T {
        let job = self.shards[Self::shard(number)].get_mut(&number).expect("a job that is changed is there");
        let before = (job.memory_bytes(), job.record_bytes());
        let was = self.changes.is_some().then(|| Standing::of(job));
        let outcome = change(job);
        if let (Some(changes), Some(was)) = (&mut self.changes, was) {
            changes.changed(number, was, Standing::of(job));
        }
        let (stretch, after) = (job.stretch, (job.memory_bytes(), job.record_bytes()));
        self.memory_bytes = self.memory_bytes + after.0 - before.0;
        self.recount(stretch, after.1, before.1);
        outcome
    }

    /// Changes a job's state and nothing else that counts.
    ///
    /// # Panics
    /// If there is no such job.
    pub(crate) fn change_state(&mut self, number: JobNumber, change: impl FnOnce(&mut Job)) {
        let job = self.shards[Self::shard(number)].get_mut(&number).expect("a job that is changed is there");
        let before = job.state;
        let was = self.changes.is_some().then(|| Standing::of(job));
        change(job);
        if let (Some(changes), Some(was)) = (&mut self.changes, was) {
            changes.changed(number, was, Standing::of(job));
        }
        let (stretch, after) = (job.stretch, job.state);
        self.memory_bytes = self.memory_bytes + after.memory_bytes() - before.memory_bytes();
        self.recount(stretch, state_len(after) as u64, state_len(before) as u64);
    }

    /// A job's full record was written to this stretch.
    pub(crate) fn stamp(&mut self, number: JobNumber, stretch: u32) {
        if let Some(job) = self.shards[Self::shard(number)].get_mut(&number) {
            let before = std::mem::replace(&mut job.stretch, stretch);
            let bytes = job.record_bytes();
            self.recount(before, 0, bytes);
            self.recount(stretch, bytes, 0);
        }
    }

    pub(crate) fn insert(&mut self, job: Job) {
        self.memory_bytes += job.memory_bytes();
        self.recount(job.stretch, job.record_bytes(), 0);
        if let Some(changes) = &mut self.changes {
            changes.changed(job.number, Standing::NOWHERE, Standing::of(&job));
        }
        let before = self.shards[Self::shard(job.number)].insert(job.number, job);
        assert!(before.is_none(), "a job's number is given once");
    }

    pub(crate) fn remove(&mut self, number: JobNumber) -> Option<Job> {
        let shard = &mut self.shards[Self::shard(number)];
        let job = shard.remove(&number)?;
        self.memory_bytes -= job.memory_bytes();
        // After a burst the table gives its memory back.
        if shard.len() < shard.capacity() / 4 && shard.capacity() > KEPT_MAX {
            shard.shrink_to(shard.len() * 2);
        }
        self.recount(job.stretch, 0, job.record_bytes());
        if let Some(changes) = &mut self.changes {
            changes.changed(number, Standing::of(&job), Standing::NOWHERE);
        }
        Some(job)
    }

    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(HashMap::len).sum()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Job> {
        self.shards.iter().flat_map(HashMap::values)
    }

    /// What the full records of jobs would take in the log.
    pub(crate) fn record_bytes(&self) -> u64 {
        self.record_bytes
    }

    /// The memory that jobs take.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::OwnTime;
    use crate::hash::Seeded;
    use crate::job::State;
    use crate::queue::Queues;

    fn job(number: JobNumber) -> Job {
        Job {
            number,
            place: number,
            urgency: 0,
            body: Box::default(),
            created_wall_ms: 0,
            own_time: OwnTime::None,
            leases: 0,
            state: State::Ready,
            queue: Queues::new(Seeded(0)).intern(b"q"),
            queue_len: 2,
            stretch: 0,
            rare: None,
        }
    }

    #[test]
    fn jobs_are_spread_over_all_tables() {
        let mut jobs = Jobs::new();
        (0..2 * SHARDS as u64).for_each(|number| jobs.insert(job(number)));
        assert!(jobs.shards.iter().all(|shard| shard.len() == 2));
        assert_eq!(jobs.len(), 2 * SHARDS);
    }

    #[test]
    fn a_table_that_was_large_gives_memory_back_but_not_all_it_may_need() {
        const MANY: u64 = 1_000;
        let mut jobs = Jobs::new();
        let numbers = || (0..MANY).map(|nth| nth * SHARDS as u64);
        numbers().for_each(|number| jobs.insert(job(number)));
        let mut shrunk = 0;
        for number in numbers() {
            let before = jobs.shards[0].capacity();
            assert!(jobs.remove(number).is_some());
            let (len, after) = (jobs.shards[0].len(), jobs.shards[0].capacity());
            // A table may count the place of what was removed as taken.
            if after + 1 < before {
                assert!(len < before / 4 && before > KEPT_MAX, "{len} of {before}");
                assert!(after >= 2 * len, "{len} of {after}");
                shrunk += 1;
            }
        }
        assert!(shrunk > 2, "{shrunk}");
        assert!(jobs.shards[0].capacity() <= KEPT_MAX);
        assert_eq!((jobs.len(), jobs.memory_bytes(), jobs.record_bytes()), (0, 0, 0));
    }

    #[test]
    fn what_jobs_take_is_the_sum_of_what_each_takes() {
        let mut jobs = Jobs::new();
        jobs.begin_stretch();
        jobs.begin_stretch();
        (1..=3).for_each(|number| jobs.insert(job(number)));
        jobs.stamp(2, 1);
        jobs.change(1, |job| job.rare_mut().name = Some("a long name".into()));
        jobs.change(2, |job| job.body = [0; 500].into());
        jobs.change_state(3, |job| job.state = State::Done);
        let sum = |jobs: &Jobs| -> (usize, u64) {
            (jobs.iter().map(Job::memory_bytes).sum(), jobs.iter().map(Job::record_bytes).sum())
        };
        assert_eq!((jobs.memory_bytes(), jobs.record_bytes()), sum(&jobs));
        let in_stretch = |jobs: &Jobs, stretch| -> u64 {
            jobs.iter().filter(|job| job.stretch == stretch).map(Job::record_bytes).sum()
        };
        assert_eq!(jobs.oldest_stretch_bytes(), in_stretch(&jobs, 0));
        jobs.change(2, |job| job.body = Box::default());
        jobs.remove(3);
        assert_eq!((jobs.memory_bytes(), jobs.record_bytes()), sum(&jobs));
        jobs.stamp(1, 1);
        jobs.drop_stretch();
        assert_eq!(jobs.oldest_stretch_bytes(), in_stretch(&jobs, 1));
    }
}
