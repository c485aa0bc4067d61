//! The one door to durable state: what each record does. Recovery and live requests both pass here.

use crate::command::{Start, UsedUp};
use crate::job::{Due, Job, Rank, Rare, State};
use crate::names::{JobNumber, QueueName};
use crate::record::Record;
use crate::record_job::Enqueued;
use crate::store::Store;
use crate::timers::Timer;
use crate::{DateRank, NewJob};

impl Store {
    /// Whether a record can be carried out: it speaks of jobs that are there, and in a state that allows it.
    pub(crate) fn fits(&self, record: &Record) -> bool {
        let unfinished = |number: JobNumber| self.jobs.get(number).is_some_and(|job| !job.finished());
        let in_queue = |number: JobNumber| unfinished(number) && self.job(number).state != State::Blocked;
        match record {
            Record::QueueCreated(_) => true,
            Record::Enqueued(enqueued) => self.fits_enqueued(enqueued),
            Record::Removed { number } => self.jobs.get(*number).is_some(),
            Record::Failure { number } | Record::Done { number, .. } | Record::Failed { number, .. } => {
                unfinished(*number)
            }
            Record::Moved { number, place, .. } => unfinished(*number) && *place < u64::MAX,
            Record::Leased { number, .. }
            | Record::Counted { number }
            | Record::Undone { number }
            | Record::BackedOff { number, .. }
            | Record::Rested { number, .. } => in_queue(*number),
            Record::Woke { number, .. } => {
                self.jobs.get(*number).is_some_and(|job| matches!(job.state, State::Delayed { .. }))
            }
            Record::Unblocked { number, place, .. } => {
                *place < u64::MAX
                    && self
                        .jobs
                        .get(*number)
                        .is_some_and(|job| job.state == State::Blocked && job.blockers().is_empty())
            }
        }
    }

    fn fits_enqueued(&self, enqueued: &Enqueued) -> bool {
        let Enqueued { number, place, blockers, job, .. } = enqueued;
        let unfinished = |number: &JobNumber| self.jobs.get(*number).is_some_and(|job| !job.finished());
        let uuid_is_free = job.uuid.is_none_or(|uuid| !self.uuids.contains_key(&uuid));
        self.jobs.get(*number).is_none()
            && (1..u64::MAX).contains(number)
            && *place < u64::MAX
            && uuid_is_free
            && blockers.iter().all(unfinished)
            && blockers.is_sorted_by(|a, b| a < b)
    }

    /// Carries out one record.
    pub(crate) fn apply(&mut self, record: Record) {
        match record {
            Record::QueueCreated(name) => {
                self.queues.create(&name);
            }
            Record::Enqueued(enqueued) => self.apply_enqueued(*enqueued),
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
            Record::Failure { number } => self.apply_failure(number),
            Record::BackedOff { number, until_ms, due_wall_ms, expires_ms } => {
                self.apply_backed_off(number, until_ms, due_wall_ms, expires_ms);
            }
            Record::Rested { number, until_ms, shown_wall_ms } => {
                self.set_state(number, State::Delayed { due: Due::Engine(until_ms), shown_wall_ms });
            }
            Record::Moved { number, queue, place, expires_ms } => self.apply_moved(number, &queue, place, expires_ms),
            Record::Woke { number, expires_ms } => {
                self.set_expiry(number, expires_ms);
                self.set_state(number, State::Ready);
            }
            Record::Unblocked { number, place, delayed, expires_ms } => {
                self.apply_unblocked(number, place, delayed, expires_ms);
            }
        }
    }

    fn apply_enqueued(&mut self, enqueued: Enqueued) {
        let Enqueued { number, place, created_wall_ms, delayed, expires_ms, blockers, runs, job } = enqueued;
        let queue = self.queues.create(&job.queue);
        if let Some(uuid) = job.uuid {
            self.uuids.insert(uuid, number);
        }
        for &blocker in &blockers {
            self.blocks.entry(blocker).or_default().insert(number);
        }
        let NewJob { body, urgency, own_time, uuid, name, start, lifetime_ms, attempts, failures, .. } = job;
        let date = match start {
            Start::Now => None,
            Start::At { wall_ms, rank } => Some((wall_ms, rank)),
        };
        let state = if blockers.is_empty() { waiting_state(date, delayed) } else { State::Blocked };
        let plain = uuid.is_none()
            && name.is_none()
            && lifetime_ms.is_none()
            && attempts.is_none()
            && failures.is_none()
            && blockers.is_empty()
            && date.is_none()
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
                rank: dated_rank(date),
                runs,
                ..Rare::default()
            })
        });
        self.jobs.insert(Job { number, place, urgency, body, created_wall_ms, own_time, state, queue, rare });
        self.enter(number);
        self.set_expiry(number, expires_ms);
        self.next_number = self.next_number.max(number + 1);
        self.next_place = self.next_place.max(place + 1);
    }

    fn apply_finished(&mut self, number: JobNumber, state: State, expires_ms: u64, result: Box<[u8]>) {
        self.unlink(number);
        self.jobs.change(number, |job| job.rare_mut().result = Some(result));
        self.set_expiry(number, Some(expires_ms));
        self.set_state(number, state);
    }

    fn apply_removed(&mut self, number: JobNumber) {
        self.unlink(number);
        self.set_expiry(number, None);
        self.leave(number);
        let job = self.jobs.remove(number).expect("a job that is removed was there");
        if let Some(uuid) = job.rare.and_then(|rare| rare.uuid) {
            self.uuids.remove(&uuid);
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
        self.jobs.change(number, |job| job.rare_mut().failures += 1);
        if self.job(number).lease().is_some() {
            self.set_state(number, State::Ready);
        }
    }

    fn apply_backed_off(&mut self, number: JobNumber, until_ms: u64, due_wall_ms: i64, expires_ms: Option<u64>) {
        self.leave(number);
        self.jobs.change(number, |job| {
            let rare = job.rare_mut();
            rare.failures += 1;
            rare.rank = Rank::Ahead(due_wall_ms);
            job.state = State::Delayed { due: Due::Engine(until_ms), shown_wall_ms: due_wall_ms };
        });
        self.enter(number);
        self.set_expiry(number, expires_ms);
    }

    fn apply_moved(&mut self, number: JobNumber, queue: &QueueName, place: u64, expires_ms: Option<u64>) {
        self.unlink(number);
        self.leave(number);
        let queue = self.queues.create(queue);
        self.jobs.change(number, |job| {
            job.queue = queue;
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
        self.enter(number);
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
        for blocked in self.blocks.remove(&number).into_iter().flatten() {
            self.jobs.change(blocked, |job| {
                let blockers = &mut job.rare_mut().blockers;
                if let Ok(at) = blockers.binary_search(&number) {
                    blockers.remove(at);
                }
            });
        }
        if self.job(number).blockers().is_empty() {
            return;
        }
        let blockers = self.jobs.change(number, |job| std::mem::take(&mut job.rare_mut().blockers));
        for blocker in blockers {
            let blocks = self.blocks.get_mut(&blocker).expect("a blocker knows what it blocks");
            blocks.remove(&number);
            if blocks.is_empty() {
                self.blocks.remove(&blocker);
            }
        }
    }

    fn set_expiry(&mut self, number: JobNumber, expires_ms: Option<u64>) {
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
            self.jobs.change(number, |job| job.rare_mut().attempts += 1);
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

fn dated_rank(date: Option<(i64, DateRank)>) -> Rank {
    match date {
        None => Rank::Usual,
        Some((wall_ms, DateRank::Ahead)) => Rank::Ahead(wall_ms),
        Some((wall_ms, DateRank::Behind)) => Rank::Behind(wall_ms),
    }
}
