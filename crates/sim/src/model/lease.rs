//! Taking jobs: choosing one, how long a lease lasts, serving those who wait, and how a lease ends.

use jobyard_engine::{
    Again, Answers, Choice, ClientId, Due, Hold, JobNumber, JobRef, LeaseId, LeaseRequest, NEVER_MS, Now, OwnTime,
    Parting, QueueName, Refusal, Reply, Wait, Why,
};

use super::Model;
use super::job::{Job, Lease, State};

impl Model {
    pub(super) fn lease(&mut self, now: Now, client: ClientId, request: LeaseRequest, answers: &mut Answers<'_>) {
        let named = distinct(&request.queues);
        if let Err(refusal) = self.check_lease(client, &request, &named) {
            answers(client, Reply::Refused(refusal));
            return;
        }
        self.note_worker(client);
        if request.creates_queues {
            for queue in &named {
                self.create_queue(queue);
            }
        }
        if self.offer(now, client, &request, answers) {
            return;
        }
        if self.lease_nearly_over_ms(client, &request) <= now.engine_ms {
            return answers(client, Reply::LeaseEnding);
        }
        match request.wait {
            Wait::No | Wait::Millis(0) => answers(client, Reply::NoJob),
            Wait::Millis(wait_ms) => self.wait_for_job(client, request, now.engine_ms.saturating_add(wait_ms)),
            Wait::Forever => self.wait_for_job(client, request, NEVER_MS),
        }
    }

    /// When the first of the jobs that the client holds has as little time left as its request heeds.
    pub(super) fn lease_nearly_over_ms(&self, client: ClientId, request: &LeaseRequest) -> u64 {
        let Some(heeds_ms) = request.heeds_ms else {
            return NEVER_MS;
        };
        match self.first_lease_end_ms(client) {
            NEVER_MS => NEVER_MS,
            ends_ms => ends_ms.saturating_sub(heeds_ms),
        }
    }

    /// When the first of the jobs that the client holds is not its own any more.
    pub(super) fn first_lease_end_ms(&self, client: ClientId) -> u64 {
        let held = self.jobs.iter().filter(|job| job.is_held_by(client)).filter_map(Job::lease);
        held.map(|lease| lease.until_ms).min().unwrap_or(NEVER_MS)
    }

    fn check_lease(&self, client: ClientId, request: &LeaseRequest, named: &[QueueName]) -> Result<(), Refusal> {
        if request.queues.len() > self.limits.queues_named_max {
            return Err(Refusal::TooManyNamed);
        }
        self.check_hold(client, request.hold)?;
        let new: Vec<_> = named.iter().filter(|queue| !self.queues.contains(queue)).collect();
        let is_long = |queue: &&QueueName| queue.as_bytes().len() > self.limits.queue_name_bytes_max;
        if request.creates_queues && new.iter().copied().any(|queue| is_long(&queue)) {
            return Err(Refusal::QueueNameTooLong);
        }
        let new = new.len();
        if request.creates_queues && new > 0 && self.queues.len() + new > self.limits.queues_max {
            return Err(Refusal::TooManyQueues);
        }
        Ok(())
    }

    fn check_hold(&self, client: ClientId, hold: Hold) -> Result<(), Refusal> {
        let held = self.jobs.iter().filter(|job| job.is_held_by(client)).count();
        let ends_with_connection = matches!(hold, Hold::Connection(_) | Hold::ConnectionTimed(_));
        if ends_with_connection && held >= self.limits.held_max { Err(Refusal::TooManyHeld) } else { Ok(()) }
    }

    pub(super) fn lease_job(
        &mut self,
        now: Now,
        client: ClientId,
        name: &JobRef,
        hold: Hold,
        answers: &mut Answers<'_>,
    ) {
        let number = match self.find(name) {
            Err(refusal) => return answers(client, Reply::Refused(refusal)),
            Ok(number) => number,
        };
        let job = self.job(number);
        let is_there = matches!(job.state, State::Ready | State::Delayed { .. } | State::Buried { .. });
        if !is_there || matches!(job.state, State::Ready) && job.attempts_reached() {
            return answers(client, Reply::Refused(Refusal::WrongState));
        }
        if let Err(refusal) = self.check_hold(client, hold) {
            return answers(client, Reply::Refused(refusal));
        }
        self.note_worker(client);
        if !matches!(self.job(number).state, State::Ready) {
            self.job_mut(number).let_back_in(now);
            self.note(Why::Revived);
        }
        self.take(now, client, number, hold);
        let job = self.job(number);
        let lease = job.lease().expect("it was just leased").id;
        answers(client, Reply::Leased { job: job.view(), lease });
    }

    /// Answers the request if one of its queues has a ready job.
    fn offer(&mut self, now: Now, client: ClientId, request: &LeaseRequest, answers: &mut Answers<'_>) -> bool {
        let Some(job) = self.choose(request, now.random) else {
            return false;
        };
        let number = job.number;
        if request.body_without.is_some_and(|byte| job.body.contains(&byte)) {
            answers(client, Reply::Refused(Refusal::BodyUnfit));
        } else {
            self.take(now, client, number, request.hold);
            let job = self.job(number);
            let lease = job.lease().expect("it was just leased").id;
            answers(client, Reply::Leased { job: job.view(), lease });
        }
        true
    }

    fn choose(&self, request: &LeaseRequest, random: u64) -> Option<&Job> {
        let mut named = distinct(&request.queues);
        named.retain(|queue| !self.pauses.contains_key(queue));
        let firsts: Vec<&Job> = named.iter().filter_map(|queue| self.ready_in_order(queue).first().copied()).collect();
        match request.choice {
            _ if firsts.is_empty() => None,
            Choice::Best => firsts.into_iter().min_by_key(|job| job.order()),
            Choice::InOrder => Some(firsts[0]),
            Choice::Random => {
                let number = random % u64::try_from(firsts.len()).expect("few queues");
                Some(firsts[usize::try_from(number).expect("few queues")])
            }
        }
    }

    fn take(&mut self, now: Now, client: ClientId, number: JobNumber, hold: Hold) {
        self.leases_given += 1;
        self.counters.leased += 1;
        let id = LeaseId(self.epoch << 40 | self.leases_given);
        let length_ms = lease_length_ms(self.job(number).own_time, hold, self.limits.default_lease_ms);
        let until_ms = now.engine_ms.saturating_add(length_ms.unwrap_or(NEVER_MS));
        let holder = match hold {
            Hold::Connection(parting) | Hold::ConnectionTimed(parting) => Some((client, parting)),
            Hold::Timed { .. } | Hold::For(_) | Hold::Endless => None,
        };
        let job = self.job_mut(number);
        job.state = State::Leased(Lease { id, until_ms, holder });
        job.tally.leases += 1;
        if job.attempt_rule.is_some() {
            job.attempts += 1;
        }
        self.note(Why::Taken);
        self.run_is_leased(number, until_ms);
    }

    /// While some waiting client has a ready job in one of its queues, the one that began first gets one.
    pub(super) fn serve(&mut self, now: Now, answers: &mut Answers<'_>) {
        loop {
            let first = self.waiting.iter().position(|waiting| {
                waiting.lease_request().is_some_and(|request| self.choose(request, now.random).is_some())
            });
            let Some(first) = first else {
                return;
            };
            let waiting = self.waiting.remove(first);
            let request = waiting.lease_request().expect("it waits for a job");
            self.offer(now, waiting.client, request, answers);
        }
    }

    pub(super) fn release(
        &mut self,
        now: Now,
        client: ClientId,
        name: &JobRef,
        again: Option<Again>,
        answers: &mut Answers<'_>,
    ) {
        match self.find_held(client, name) {
            Err(refusal) => answers(client, Reply::Refused(refusal)),
            Ok(number) => {
                self.job_mut(number).tally.releases += 1;
                match again {
                    Some(again) if !self.job(number).attempts_reached() => {
                        self.put_back_as(now, number, again, answers);
                    }
                    _ => self.put_back(now, number, answers),
                }
                answers(client, Reply::Done);
            }
        }
    }

    fn put_back_as(&mut self, now: Now, number: JobNumber, again: Again, answers: &mut Answers<'_>) {
        self.end_lease(number);
        let job = self.job_mut(number);
        (job.urgency, job.delay_ms) = (again.urgency, again.delay_ms);
        if again.delay_ms > 0 {
            job.rest_for(now, again.delay_ms);
        }
        self.note(Why::Released);
        self.remove_forsaken_run(now, number, answers);
    }

    pub(super) fn extend(&mut self, now: Now, client: ClientId, name: &JobRef, answers: &mut Answers<'_>) {
        match self.find_held(client, name) {
            Err(refusal) => answers(client, Reply::Refused(refusal)),
            Ok(number) => {
                let lease = self.job(number).lease().expect("it is held");
                let length_ms = match self.job(number).own_time {
                    OwnTime::Millis(own_ms) => own_ms,
                    // One that has an end without such a rule has the default.
                    _ if lease.until_ms == NEVER_MS => NEVER_MS,
                    _ => self.limits.default_lease_ms,
                };
                let until_ms = now.engine_ms.saturating_add(length_ms);
                self.job_mut(number).state = State::Leased(Lease { until_ms, ..lease });
                self.run_is_leased(number, until_ms);
                answers(client, Reply::Done);
            }
        }
    }

    pub(super) fn find_held(&self, client: ClientId, name: &JobRef) -> Result<JobNumber, Refusal> {
        let number = self.find(name)?;
        if self.job(number).is_held_by(client) { Ok(number) } else { Err(Refusal::NotHeld) }
    }

    /// The time of a lease ran out.
    pub(super) fn lease_ran_out(&mut self, now: Now, number: JobNumber, answers: &mut Answers<'_>) {
        if self.job(number).runs {
            self.run_times_out(now, number, answers);
        } else {
            self.counters.timed_out += 1;
            self.job_mut(number).tally.timeouts += 1;
            self.put_back(now, number, answers);
        }
    }

    pub(super) fn holder_gone(&mut self, now: Now, number: JobNumber, answers: &mut Answers<'_>) {
        let (_, parting) = self.job(number).lease().and_then(|lease| lease.holder).expect("it is held");
        let parting_counts = self.job(number).failure_rule.as_ref().map(|rule| rule.parting_counts);
        match (parting, parting_counts) {
            (Parting::Release, _) | (Parting::Fail, Some(false)) => self.put_back(now, number, answers),
            (Parting::Fail, Some(true)) => {
                self.failed(now, number, &[], answers);
            }
            (Parting::Fail, None) => {
                let rest_ms = self.limits.vanished_rest_ms;
                self.end_lease(number);
                self.job_mut(number).state = State::Delayed {
                    until: Due::Engine(now.engine_ms.saturating_add(rest_ms)),
                    shown_wall_ms: now.wall_ms.saturating_add_unsigned(rest_ms),
                };
                self.note(Why::HolderVanished);
                self.remove_forsaken_run(now, number, answers);
            }
        }
    }

    pub(super) fn undo(&mut self, now: Now, number: JobNumber, answers: &mut Answers<'_>) {
        self.counters.leased = self.counters.leased.saturating_sub(1);
        let job = self.job_mut(number);
        job.tally.leases = job.tally.leases.saturating_sub(1);
        if job.attempt_rule.is_some() {
            job.attempts -= 1;
        }
        self.end_lease(number);
        self.run_is_undone(now, number);
        self.note(Why::Undone);
        self.remove_forsaken_run(now, number, answers);
    }

    fn put_back(&mut self, now: Now, number: JobNumber, answers: &mut Answers<'_>) {
        if self.job(number).attempts_reached() {
            self.used_up(now, number, &[], Why::UsedUp, answers);
        } else {
            self.end_lease(number);
            self.note(Why::PutBack);
            self.remove_forsaken_run(now, number, answers);
        }
    }

    /// A leased job is ready in its old place; another stays as it is.
    pub(super) fn end_lease(&mut self, number: JobNumber) {
        let job = self.job_mut(number);
        if job.lease().is_some() {
            job.state = State::Ready;
            self.run_is_put_back(number);
        }
    }
}

fn distinct(queues: &[QueueName]) -> Vec<QueueName> {
    let mut distinct: Vec<QueueName> = Vec::new();
    for queue in queues {
        if !distinct.contains(queue) {
            distinct.push(queue.clone());
        }
    }
    distinct
}

/// `None` is a lease without end.
fn lease_length_ms(own_time: OwnTime, hold: Hold, default_ms: u64) -> Option<u64> {
    match (own_time, hold) {
        (OwnTime::Millis(own_ms), Hold::For(asked_ms)) => Some(own_ms.min(asked_ms)),
        (OwnTime::Millis(own_ms), _) => Some(own_ms),
        (_, Hold::For(asked_ms)) => Some(asked_ms),
        (OwnTime::Unlimited, Hold::Timed { honours_unlimited: true }) => None,
        (_, Hold::Timed { .. } | Hold::ConnectionTimed(_)) => Some(default_ms),
        (_, Hold::Endless | Hold::Connection(_)) => None,
    }
}
