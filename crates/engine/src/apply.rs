//! The one door to durable state: what each record does. Recovery and live requests both pass here.

use crate::admit::COUNT_MAX;
use crate::broken;
use crate::bytes::bytes_len;
use crate::command::{DateRank, UsedUp};
use crate::delay::Delay;
use crate::job::{Due, Job, Rank, Rare, State, dated_rank};
use crate::names::JobNumber;
use crate::queue::QueueId;
use crate::record::Record;
use crate::record_job::Enqueued;
use crate::record_kept::Kept;
use crate::store::Store;
use crate::timers::Timer;

impl Store {
    /// Carries out one record.
    pub(crate) fn apply(&mut self, record: Record<'_>) {
        match record {
            Record::QueueCreated { name, ordinal } => {
                self.apply_queue_created(name, ordinal);
            }
            Record::Enqueued(enqueued) => self.apply_enqueued(enqueued),
            Record::Kept(kept) => self.apply_kept(kept),
            Record::Counters { next_number, next_place, next_ordinal } => {
                self.next_number = self.next_number.max(next_number);
                self.next_number_kept = self.next_number_kept.max(next_number);
                self.next_place = self.next_place.max(next_place);
                self.queues.next_ordinal = self.queues.next_ordinal.max(next_ordinal);
            }
            Record::Leased { number, lease, until_ms } => {
                self.count_attempt(number);
                self.set_state(number, State::Leased { lease, until_ms });
            }
            Record::Counted { number } => self.apply_counted(number),
            Record::Undone { number } => {
                self.uncount_attempt(number);
                self.set_state(number, State::Ready);
            }
            Record::Done { number, expires_ms, result } => self.apply_finished(number, State::Done, expires_ms, result),
            Record::Failed { number, expires_ms, result } => {
                self.apply_finished(number, State::Failed, expires_ms, result);
            }
            Record::Removed { number } => self.apply_removed(number),
            Record::OriginClosed { number } => self.apply_origin_closed(number),
            Record::Failure { number } => self.apply_failure(number),
            Record::BackedOff { number, until_ms, due_wall_ms, expires_ms } => {
                self.apply_backed_off(number, until_ms, due_wall_ms, expires_ms);
            }
            Record::Rested { number, until_ms, shown_wall_ms } => {
                self.set_state(number, State::Delayed { due: Due::Engine(until_ms), shown_wall_ms });
            }
            Record::Released { number, urgency, delay } => self.apply_released(number, urgency, delay),
            Record::Buried { number, urgency, order } => {
                self.rearrange(number, |job| {
                    job.urgency = urgency;
                    job.state = State::Buried { order };
                });
                self.raise_burial(order);
            }
            Record::Revived { number, expires_ms } => {
                self.set_expiry(number, expires_ms);
                if self.job(number).attempts_used_up() && !broken("engine-revived-for-nothing") {
                    // Whoever lets it back in wants it to be tried once more.
                    self.rearrange(number, Job::spare_one_attempt);
                }
                self.set_state(number, State::Ready);
            }
            Record::Moved { number, queue, place, expires_ms } => self.apply_moved(number, queue, place, expires_ms),
            Record::Woke { number, expires_ms } => {
                self.set_expiry(number, expires_ms);
                self.set_state(number, State::Ready);
            }
            Record::Unblocked { number, place, delayed, expires_ms } => {
                self.apply_unblocked(number, place, delayed, expires_ms);
            }
        }
    }

    fn apply_enqueued(&mut self, enqueued: Enqueued<'_>) {
        let queue = self.queues.intern(enqueued.queue);
        let is_blocked = enqueued.place == 0 || !enqueued.blockers.is_empty();
        let state = match enqueued.delay {
            _ if is_blocked => State::Blocked,
            Some(delay) if delay.until_ms > 0 => delay.state(),
            _ => waiting_state(enqueued.date, enqueued.delayed),
        };
        let expires_ms = enqueued.expires_ms;
        let mut job = new_job(enqueued, queue, state);
        if expires_ms.is_some() {
            job.rare_mut().expires_ms = expires_ms;
        }
        self.add(job);
    }

    fn apply_kept(&mut self, kept: Kept<'_>) {
        let Kept { base, state, expires_ms, attempts, failures, result, rank } = kept;
        self.take(base.number);
        let queue = self.queues.intern(base.queue);
        let mut job = new_job(base, queue, state);
        let plain = expires_ms.is_none() && attempts == 0 && failures == 0 && result.is_none() && rank == job.rank();
        if !plain {
            let rare = job.rare_mut();
            rare.expires_ms = expires_ms;
            rare.attempts = attempts;
            rare.failures = failures;
            rare.result = result;
            rare.rank = rank;
        }
        if job.finished() {
            self.unlink_blocked(job.number);
        }
        if let State::Buried { order } = job.state {
            self.raise_burial(order);
        }
        self.add(job);
    }

    /// Puts a job into the table and all indexes, and notes where its full record is.
    fn add(&mut self, mut job: Job) {
        let number = job.number;
        if let Some(rare) = job.rare.as_deref() {
            if let Some(uuid) = rare.uuid {
                self.uuids.insert(uuid, number);
            }
            if let Some(origin) = &rare.origin {
                self.origins.insert(origin.clone(), number);
            }
            for &blocker in &rare.blockers {
                self.blocks.entry(blocker).or_default().insert(number);
            }
            if let Some(at_ms) = rare.expires_ms {
                self.timers.add(at_ms, Timer::Expiry(number));
            }
        }
        job.stretch = self.stretches.note_job(number);
        self.queues.join(job.queue);
        self.raise(number, job.place);
        let (jobs, mut indexes) = self.parts();
        indexes.enter(&job);
        jobs.insert(job);
    }

    /// Takes a job out of the table and all indexes. What it blocks stays blocked by its number.
    pub(crate) fn take(&mut self, number: JobNumber) -> Option<Job> {
        let (jobs, mut indexes) = self.parts();
        let job = jobs.remove(number)?;
        indexes.leave(&job);
        self.queues.part(job.queue);
        self.let_go(job.queue);
        if let Some(rare) = job.rare.as_deref() {
            if let Some(uuid) = rare.uuid
                && !broken("engine-id-taken-for-ever")
            {
                self.uuids.remove(&uuid);
            }
            if let Some(at_ms) = rare.expires_ms {
                self.timers.remove(at_ms, Timer::Expiry(number));
            }
            if let Some(origin) = &rare.origin {
                self.origins.remove(origin);
            }
            self.unlink_blockers(number, &rare.blockers);
        }
        Some(job)
    }

    /// This number and this place have been given.
    pub(crate) fn raise(&mut self, number: JobNumber, place: u64) {
        self.next_number = self.next_number.max(number + 1);
        self.next_number_kept = self.next_number_kept.max(number + 1);
        self.next_place = self.next_place.max(place + 1);
    }

    /// A job was buried with this order.
    fn raise_burial(&mut self, order: u64) {
        // Nobody has counted so far.
        if order < COUNT_MAX {
            self.next_burial = self.next_burial.max(order + 1);
        }
    }

    fn apply_released(&mut self, number: JobNumber, urgency: i128, delay: Option<Delay>) {
        let delay_ms = delay.map_or(0, |delay| delay.ms);
        self.rearrange(number, |job| {
            job.urgency = urgency;
            job.state = delay.map_or(State::Ready, Delay::state);
            if job.rare.is_some() || delay_ms > 0 {
                job.rare_mut().delay_ms = delay_ms;
            }
        });
    }

    fn apply_finished(&mut self, number: JobNumber, state: State, expires_ms: u64, result: Box<[u8]>) {
        self.unlink(number);
        self.jobs.change(number, |job| job.rare_mut().result = Some(result));
        self.set_expiry(number, Some(expires_ms));
        self.set_state(number, state);
    }

    /// The job need not be there: what it blocks may be known before it is, or after it was forgotten.
    pub(crate) fn apply_removed(&mut self, number: JobNumber) {
        self.unlink_blocked(number);
        if self.jobs.get(number).is_some_and(|job| job.origin().is_some()) && !broken("engine-origin-goes-with-job") {
            self.empty(number);
        } else {
            self.take(number);
        }
    }

    fn apply_counted(&mut self, number: JobNumber) {
        self.count_attempt(number);
        // In recovery: that an earlier lease ran out was not written, and it must not use up this attempt.
        if self.job(number).lease().is_some() {
            self.set_state(number, State::Ready);
        }
    }

    fn apply_failure(&mut self, number: JobNumber) {
        self.jobs.change(number, |job| job.rare_mut().add_failure());
        if self.job(number).lease().is_some() {
            self.set_state(number, State::Ready);
        }
    }

    fn apply_backed_off(&mut self, number: JobNumber, until_ms: u64, due_wall_ms: i64, expires_ms: Option<u64>) {
        self.rearrange(number, |job| {
            let rare = job.rare_mut();
            rare.add_failure();
            rare.rank = Rank::Ahead(due_wall_ms);
            job.state = State::Delayed { due: Due::Engine(until_ms), shown_wall_ms: due_wall_ms };
        });
        self.set_expiry(number, expires_ms);
    }

    fn apply_queue_created(&mut self, name: &[u8], ordinal: u64) {
        let there = self.queues.id(name).map(|id| self.queues.get(id)).filter(|queue| queue.is_kept);
        if let Some(queue) = there {
            self.stretches.forget_queue(queue.stretch, queue.record_bytes());
        }
        let id = self.queues.create(name, ordinal);
        let bytes = self.queues.get(id).record_bytes();
        self.queues.get_mut(id).stretch = self.stretches.note_queue(id, bytes);
    }

    fn apply_moved(&mut self, number: JobNumber, queue: &[u8], place: u64, expires_ms: Option<u64>) {
        self.unlink(number);
        let queue_len = name_len(queue);
        let queue = self.queues.intern(queue);
        let before = self.job(number).queue;
        self.queues.join(queue);
        self.rearrange(number, |job| {
            (job.queue, job.queue_len) = (queue, queue_len);
            job.place = place;
            job.state = State::Ready;
            let rare = job.rare_mut();
            rare.failures = 0;
            rare.attempts = 0;
            rare.rank = Rank::Usual;
            if let Some(rule) = &mut rare.failure_rule {
                rule.used_up = UsedUp::Remove;
            }
        });
        self.queues.part(before);
        self.let_go(before);
        self.set_expiry(number, expires_ms);
        self.next_place = self.next_place.max(place + 1);
    }

    fn apply_unblocked(&mut self, number: JobNumber, place: u64, delayed: bool, expires_ms: Option<u64>) {
        let date = self.jobs.change(number, |job| {
            job.place = place;
            job.rare_mut().date
        });
        self.set_expiry(number, expires_ms);
        self.set_state(number, waiting_state(date, delayed));
        self.next_place = self.next_place.max(place + 1);
    }

    /// The job no longer blocks and is no longer blocked.
    fn unlink(&mut self, number: JobNumber) {
        self.unlink_blocked(number);
        self.unblock_at_once(number);
    }

    /// The job no longer blocks. It need not be there.
    pub(crate) fn unlink_blocked(&mut self, number: JobNumber) {
        for blocked in self.blocks.remove(&number).into_iter().flatten() {
            self.jobs.change(blocked, |job| {
                let blockers = &mut job.rare_mut().blockers;
                if let Ok(at) = blockers.binary_search(&number) {
                    blockers.remove(at);
                }
            });
        }
    }

    /// The job is no longer blocked; its state is as it was.
    pub(crate) fn unblock_at_once(&mut self, number: JobNumber) {
        if !self.job(number).blockers().is_empty() {
            let blockers = self.jobs.change(number, |job| std::mem::take(&mut job.rare_mut().blockers));
            self.unlink_blockers(number, &blockers);
        }
    }

    /// A job's blockers no longer know of it.
    fn unlink_blockers(&mut self, number: JobNumber, blockers: &[JobNumber]) {
        for blocker in blockers {
            let blocks = self.blocks.get_mut(blocker).expect("a blocker knows what it blocks");
            blocks.remove(&number);
            if blocks.is_empty() {
                self.blocks.remove(blocker);
            }
        }
    }

    pub(crate) fn set_expiry(&mut self, number: JobNumber, expires_ms: Option<u64>) {
        let before = self.job(number).expires_ms();
        if before == expires_ms {
            return;
        }
        if let Some(at_ms) = before {
            self.timers.remove(at_ms, Timer::Expiry(number));
        }
        if let Some(at_ms) = expires_ms {
            self.timers.add(at_ms, Timer::Expiry(number));
        }
        self.jobs.change(number, |job| job.rare_mut().expires_ms = expires_ms);
    }

    fn count_attempt(&mut self, number: JobNumber) {
        if self.job(number).counts_attempts() {
            self.jobs.change(number, |job| {
                let rare = job.rare_mut();
                rare.attempts = rare.attempts.saturating_add(1);
            });
        }
    }

    fn uncount_attempt(&mut self, number: JobNumber) {
        if self.job(number).counts_attempts() {
            self.jobs.change(number, |job| job.rare_mut().attempts = job.rare_mut().attempts.saturating_sub(1));
        }
    }
}

/// The state of a job that is not blocked and not leased: delayed until its date, or ready.
fn waiting_state(date: Option<(i64, DateRank)>, delayed: bool) -> State {
    match date {
        Some((wall_ms, _)) if delayed => State::Delayed { due: Due::Wall(wall_ms), shown_wall_ms: wall_ms },
        _ => State::Ready,
    }
}

/// A job as it was put, in this state.
fn new_job(enqueued: Enqueued<'_>, queue: QueueId, state: State) -> Job {
    let Enqueued { number, place, created_wall_ms, body, urgency, own_time, .. } = enqueued;
    let Enqueued { uuid, name, lifetime_ms, attempts, failures, blockers, date, delay, runs, origin, .. } = enqueued;
    let plain = uuid.is_none()
        && name.is_none()
        && lifetime_ms.is_none()
        && attempts.is_none()
        && failures.is_none()
        && blockers.is_empty()
        && date.is_none()
        && delay.is_none()
        && origin.is_none()
        && !runs;
    let rare = (!plain).then(|| {
        Box::new(Rare {
            uuid,
            name,
            lifetime_ms,
            attempt_rule: attempts,
            failure_rule: failures,
            blockers,
            date,
            delay_ms: delay.map_or(0, |delay| delay.ms),
            rank: dated_rank(date),
            runs,
            origin,
            ..Rare::default()
        })
    });
    let queue_len = name_len(enqueued.queue);
    Job {
        number,
        place,
        urgency,
        body,
        created_wall_ms,
        own_time,
        state,
        queue,
        queue_len,
        stretch: 0,
        leases: 0,
        rare,
    }
}

/// What a queue's name takes in a record.
fn name_len(queue: &[u8]) -> u32 {
    u32::try_from(bytes_len(queue)).expect("a name is bounded")
}
