//! Putting jobs: `Enqueue` and `Run`, and what follows when the last blocker goes.

use jobyard_engine::{Answers, Blocker, ClientId, Due, JobNumber, NewJob, Now, Refusal, Reply, Start, Why};

use super::Model;
use super::job::{Job, State};

impl Model {
    pub(super) fn enqueue(&mut self, now: Now, client: ClientId, new: &NewJob, answers: &mut Answers<'_>) {
        match self.check_claimed(client, new).and_then(|()| self.check_enqueue(now, new, &[])) {
            Err(refusal) => answers(client, Reply::Refused(refusal)),
            Ok(()) => {
                self.note_producer(client);
                let number = self.put(now, new, &[]);
                answers(client, Reply::Enqueued { number, uuid: self.job(number).uuid });
            }
        }
    }

    pub(super) fn run(&mut self, now: Now, client: ClientId, new: NewJob, wait_ms: u64, answers: &mut Answers<'_>) {
        let new = NewJob { lifetime_ms: None, origin: None, ..new };
        if let Err(refusal) = self.check_enqueue(now, &new, &[]) {
            answers(client, Reply::Refused(refusal));
            return;
        }
        let number = self.put(now, &new, &[]);
        self.job_mut(number).runs = true;
        self.wait_for_run(now, client, number, wait_ms);
        self.serve(now, answers);
        if wait_ms == 0 && self.job(number).lease().is_none() {
            self.wait_ends(now, client, answers);
        }
    }

    pub(super) fn check_claimed(&self, client: ClientId, new: &NewJob) -> Result<(), Refusal> {
        match &new.origin {
            Some(origin) if !self.has_claimed(client, origin) => Err(Refusal::OriginNotClaimed),
            _ => Ok(()),
        }
    }

    /// `earlier` are the jobs that the same group put before.
    pub(super) fn check_enqueue(&self, now: Now, new: &NewJob, earlier: &[JobNumber]) -> Result<(), Refusal> {
        if let (Start::At { wall_ms, .. }, Some(lifetime_ms)) = (new.start, new.lifetime_ms)
            && i128::from(wall_ms) + i128::from(lifetime_ms) <= i128::from(now.wall_ms)
        {
            return Err(Refusal::LifetimeOver);
        }
        if let Some(uuid) = new.uuid {
            if self.jobs.iter().any(|job| job.uuid == uuid) {
                return Err(Refusal::DuplicateUuid);
            }
            if uuid.number().is_some() {
                return Err(Refusal::ReservedUuid);
            }
        }
        if new.origin.as_ref().is_some_and(|origin| self.is_open(origin)) {
            return Err(Refusal::OriginOpen);
        }
        for blocker in &new.blockers {
            if let Blocker::Previous(back) = *blocker
                && (back == 0 || back > earlier.len())
            {
                return Err(Refusal::NoSuchPrevious);
            }
        }
        if !self.queues.contains(&new.queue) && new.queue.as_bytes().len() > self.limits.queue_name_bytes_max {
            return Err(Refusal::QueueNameTooLong);
        }
        if !self.queues.contains(&new.queue) && self.queues.len() >= self.limits.queues_max {
            return Err(Refusal::TooManyQueues);
        }
        Ok(())
    }

    /// Puts a job that passed the check.
    pub(super) fn put(&mut self, now: Now, new: &NewJob, earlier: &[JobNumber]) -> JobNumber {
        let number = self.next_number;
        self.next_number = number + 1;
        self.next_number_kept = number + 1;
        self.counters.enqueued += 1;
        if new.keeps_queue {
            self.create_queue(&new.queue);
        }
        self.make_queue(&new.queue);
        self.totals.entry(new.queue.clone()).or_default().enqueued += 1;

        let mut job = Job::new(number, new, now);
        for blocker in &new.blockers {
            let blocker = match *blocker {
                Blocker::Number(blocker) => blocker,
                Blocker::Previous(back) => earlier[earlier.len() - back],
            };
            if self.lives(blocker) && !self.job(blocker).is_finished() {
                job.blockers.push(blocker);
            }
        }
        job.blockers.sort_unstable();
        job.blockers.dedup();

        let is_blocked = !job.blockers.is_empty();
        self.jobs.push(job);
        if !is_blocked {
            self.enter_queue(now, number);
        }
        if !is_blocked && new.start == Start::Buried {
            self.burials += 1;
            self.job_mut(number).state = State::Buried { nth: self.burials };
        }
        self.note(Why::Put);
        number
    }

    /// A blocker was completed or removed.
    pub(super) fn unblock(&mut self, now: Now, blocker: JobNumber) {
        for number in self.blocked_by(blocker) {
            let job = self.job_mut(number);
            job.blockers.retain(|&other| other != blocker);
            if job.blockers.is_empty() {
                self.enter_queue(now, number);
            }
        }
        self.note(Why::Unblocked);
    }

    fn enter_queue(&mut self, now: Now, number: JobNumber) {
        let place = self.give_place();
        let job = self.job_mut(number);
        job.place = place;
        match job.date_wall_ms() {
            Some(wall_ms) if wall_ms > now.wall_ms => {
                job.state = State::Delayed { until: Due::Wall(wall_ms), shown_wall_ms: wall_ms };
            }
            None if job.delay_ms > 0 => job.rest_for(now, job.delay_ms),
            _ => {
                job.state = State::Ready;
                job.begin_lifetime_at_date(now);
            }
        }
    }
}
