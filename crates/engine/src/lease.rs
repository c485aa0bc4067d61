//! Taking jobs: choosing one, leasing it, and serving those who wait.

use std::collections::BTreeSet;

use crate::broken;
use crate::changes::Why;
use crate::command::{Choice, Hold, JobRef, LeaseRequest, OwnTime, Wait};
use crate::engine::{Answers, Engine};
use crate::job::State;
use crate::names::{ClientId, JobNumber, QueueName};
use crate::queue::{OrderKey, QueueId};
use crate::record::Record;
use crate::reply::{Refusal, Reply};
use crate::time::{NEVER_MS, Now};
use crate::waiting::{Heed, LeaseWant, Want};

/// How much of a body is looked through in one unit of work.
const BODY_BYTES_PER_WORK: u64 = 64;

/// Each queue beyond the first that a client names is looked up by its name, and costs so much.
const WORK_PER_QUEUE: u64 = 4;

impl Engine {
    pub(crate) fn handle_lease(
        &mut self,
        now: Now,
        client: ClientId,
        request: &LeaseRequest,
        answers: &mut Answers<'_>,
    ) {
        self.work += WORK_PER_QUEUE * request.queues.len().saturating_sub(1) as u64;
        if let Err(refusal) = self.check_lease(client, request) {
            return answers(client, Reply::Refused(refusal));
        }
        self.store.attending.note_asked(client);
        if request.creates_queues {
            for name in &request.queues {
                self.create_queue(name);
            }
        }
        if let Some(number) = self.choose_among(now, request) {
            return self.lease(now, client, number, (request.hold, request.body_without), answers);
        }
        let soon_ms = request.heeds_ms.map_or(NEVER_MS, |left_ms| self.lease_ends_soon_ms(client, left_ms));
        if soon_ms <= now.engine_ms || request.heeds_ms.is_some() && broken("engine-heed-for-nothing") {
            return answers(client, Reply::LeaseEnding);
        }
        let until_ms = match request.wait {
            Wait::No | Wait::Millis(0) => return answers(client, Reply::NoJob),
            Wait::Millis(ms) => now.engine_ms.saturating_add(ms),
            Wait::Forever => NEVER_MS,
        };
        let names = each_once(&request.queues);
        let want = LeaseWant {
            queues: names.iter().map(|name| self.store.queues.intern(name.as_bytes())).collect(),
            choice: request.choice,
            hold: request.hold,
            body_without: request.body_without,
            heed: request.heeds_ms.map(|left_ms| Heed { left_ms, wait_until_ms: until_ms }),
        };
        self.begin_wait(client, until_ms.min(soon_ms), Want::Lease(Box::new(want)));
    }

    fn check_lease(&self, client: ClientId, request: &LeaseRequest) -> Result<(), Refusal> {
        if request.queues.len() > self.limits.queues_named_max {
            return Err(Refusal::TooManyNamed);
        }
        self.check_hold(client, request.hold)?;
        if request.creates_queues {
            let is_new = |name: &&&QueueName| !self.store.queues.exists(name);
            let names = each_once(&request.queues);
            if names.iter().filter(is_new).any(|name| name.as_bytes().len() > self.limits.queue_name_bytes_max) {
                return Err(Refusal::QueueNameTooLong);
            }
            let new = names.iter().filter(is_new).count();
            if new > 0 && self.store.queues.len() + new > self.limits.queues_max {
                return Err(Refusal::TooManyQueues);
            }
        }
        Ok(())
    }

    /// Whether the client may hold one more job, if that is what it wants.
    fn check_hold(&self, client: ClientId, hold: Hold) -> Result<(), Refusal> {
        let is_full = self.store.held_count(client) >= self.limits.held_max;
        if hold.parting().is_some() && is_full { Err(Refusal::TooManyHeld) } else { Ok(()) }
    }

    pub(crate) fn handle_lease_job(
        &mut self,
        now: Now,
        client: ClientId,
        job: &JobRef,
        hold: Hold,
        answers: &mut Answers<'_>,
    ) {
        match self.check_lease_job(client, job, hold) {
            Ok(number) => {
                self.store.attending.note_asked(client);
                if self.store.job(number).state != State::Ready && !broken("engine-job-taken-unwritten") {
                    let expires_ms = self.kept_until(now, number);
                    self.commit(Record::Revived { number, expires_ms });
                    self.note(Why::Revived);
                }
                self.lease(now, client, number, (hold, None), answers);
            }
            Err(refusal) => answers(client, Reply::Refused(refusal)),
        }
    }

    fn check_lease_job(&self, client: ClientId, job: &JobRef, hold: Hold) -> Result<JobNumber, Refusal> {
        let job = self.find(job)?;
        let is_there = match job.state {
            State::Ready => !broken("engine-job-kept-by-pause") || self.store.queues.get(job.queue).pause.is_none(),
            State::Delayed { .. } | State::Buried { .. } => true,
            State::Held { .. } => broken("engine-job-taken-from-holder"),
            State::Done => broken("engine-job-taken-when-over"),
            State::Blocked | State::Leased { .. } | State::Failed => false,
        };
        // One that is not ready is let back in first, and may be tried once more.
        if !is_there || job.state == State::Ready && job.attempts_used_up() {
            return Err(Refusal::WrongState);
        }
        self.check_hold(client, hold).map(|()| job.number)
    }

    /// The job that is next for who asks for this.
    fn choose_among(&self, now: Now, request: &LeaseRequest) -> Option<JobNumber> {
        let id = |name: &QueueName| self.store.queues.id(name.as_bytes());
        match request.choice {
            // A queue that is named twice has two chances.
            Choice::Random if request.queues.len() > 1 => {
                self.choose(now, request.choice, each_once(&request.queues).into_iter().filter_map(id))
            }
            choice => self.choose(now, choice, request.queues.iter().filter_map(id)),
        }
    }

    /// The job that is next for who wants one of these queues.
    fn choose(&self, now: Now, choice: Choice, queues: impl Iterator<Item = QueueId>) -> Option<JobNumber> {
        let leaks = choice == Choice::InOrder && broken("engine-pause-leaks");
        let first = |queue: QueueId| {
            let queue = self.store.queues.get(queue);
            if leaks { queue.first_ready() } else { queue.next() }
        };
        let mut firsts = queues.filter_map(first);
        let key: OrderKey = match choice {
            Choice::Best => firsts.min()?,
            Choice::InOrder => firsts.next()?,
            Choice::Random => {
                let firsts: Vec<OrderKey> = firsts.collect();
                let count = u64::try_from(firsts.len()).ok().filter(|&count| count > 0)?;
                let chosen = usize::try_from(now.random % count).ok()?;
                firsts[chosen]
            }
        };
        Some(key.number)
    }

    /// Leases a job that is ready, or refuses if its taker cannot carry its body.
    fn lease(
        &mut self,
        now: Now,
        client: ClientId,
        number: JobNumber,
        (hold, body_without): (Hold, Option<u8>),
        answers: &mut Answers<'_>,
    ) {
        let job = self.store.job(number);
        self.work += job.body.len() as u64 / BODY_BYTES_PER_WORK;
        if body_without.is_some_and(|byte| job.body.contains(&byte)) {
            return answers(client, Reply::Refused(Refusal::BodyUnfit));
        }
        let (own_time, counts, runs) = (job.own_time, job.counts_attempts(), job.runs());
        let until_ms = self.lease_until(now, hold, own_time);
        let lease = self.next_lease();
        if let Some(parting) = hold.parting() {
            if counts {
                self.commit(Record::Counted { number });
            }
            if !broken("engine-lease-leaves-ready") {
                self.store.set_state(number, State::Held { lease, client, until_ms, parting });
            }
        } else {
            self.commit(Record::Leased { number, lease, until_ms });
        }
        self.note(Why::Taken);
        if runs {
            self.pause_run(number);
        }
        self.counters.leased += u64::from(!broken("engine-leases-uncounted"));
        self.store.jobs.change_state(number, |job| job.leases = job.leases.saturating_add(1));
        answers(client, Reply::Leased { job: self.view(self.store.job(number)), lease });
    }

    pub(crate) fn handle_extend(&mut self, now: Now, client: ClientId, job: &JobRef, answers: &mut Answers<'_>) {
        let reply = match self.find_held(client, job) {
            Ok(number) => {
                if !broken("engine-extend-ignored") {
                    self.extend(now, number);
                }
                Reply::Done
            }
            Err(refusal) => Reply::Refused(refusal),
        };
        answers(client, reply);
    }

    /// What is left of a held job's time begins anew.
    fn extend(&mut self, now: Now, number: JobNumber) {
        let job = self.store.job(number);
        if let State::Held { lease, client, parting, until_ms } = job.state {
            let is_timed = until_ms != NEVER_MS;
            let hold = if is_timed { Hold::ConnectionTimed(parting) } else { Hold::Connection(parting) };
            let until_ms = self.lease_until(now, hold, job.own_time);
            self.store.set_state(number, State::Held { lease, client, until_ms, parting });
        }
    }

    fn lease_until(&self, now: Now, hold: Hold, own_time: OwnTime) -> u64 {
        let own_ms = match own_time {
            OwnTime::Millis(ms) => Some(ms),
            OwnTime::None | OwnTime::Unlimited => None,
        };
        let length_ms = match hold {
            Hold::Connection(_) | Hold::Endless => own_ms,
            Hold::For(ms) => Some(own_ms.map_or(ms, |own_ms| own_ms.min(ms))),
            Hold::Timed { honours_unlimited: true } if own_time == OwnTime::Unlimited => None,
            Hold::Timed { .. } | Hold::ConnectionTimed(_) => Some(own_ms.unwrap_or(self.limits.default_lease_ms)),
        };
        let length_ms = length_ms.map(|ms| if broken("engine-lease-too-short") { ms / 2 } else { ms });
        let length_ms = length_ms.filter(|_| !broken("engine-lease-never-ends"));
        length_ms.map_or(NEVER_MS, |ms| now.engine_ms.saturating_add(ms))
    }

    /// Gives ready jobs to those who wait for them, in the order in which they began to wait.
    pub(crate) fn serve(&mut self, now: Now, answers: &mut Answers<'_>) {
        if broken("engine-forgets-waiter") {
            self.store.stirred.clear();
        }
        if self.store.stirred.is_empty() {
            return;
        }
        let mut ahead = BTreeSet::new();
        for queue in std::mem::take(&mut self.store.stirred) {
            self.line_up(queue, &mut ahead);
        }
        while let Some((ticket, queue)) = ahead.pop_first() {
            let first = self.store.queues.get(queue).waiting.first_key_value();
            let Some((&first, &client)) = first else { continue };
            if first == ticket {
                // Chosen while it still waits: its other queues may exist only as long.
                let number = self.waiting.get(client).and_then(|waiter| match &waiter.want {
                    Want::Lease(want) => self.choose(now, want.choice, want.queues.iter().copied()),
                    Want::Result(_) | Want::Run { .. } => None,
                });
                let (Some(number), Some(Want::Lease(want))) = (number, self.end_wait(client)) else {
                    unreachable!("who is first in the line of a queue with a ready job gets one");
                };
                self.lease(now, client, number, (want.hold, want.body_without), answers);
            }
            self.line_up(queue, &mut ahead);
        }
    }

    /// If a queue has a ready job, notes who is first to wait for it.
    fn line_up(&self, queue: QueueId, ahead: &mut BTreeSet<(u64, QueueId)>) {
        let found = self.store.queues.get(queue);
        if let Some(&ticket) = found.waiting.keys().next()
            && found.next().is_some()
        {
            ahead.insert((ticket, queue));
        }
    }
}

/// The names without repetition, in the order given.
fn each_once(names: &[QueueName]) -> Vec<&QueueName> {
    if names.len() < 2 {
        return names.iter().collect();
    }
    let mut seen = BTreeSet::new();
    names.iter().filter(|name| seen.insert(*name)).collect()
}
