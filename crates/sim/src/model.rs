//! A second engine, written from `docs/engine.md` alone: vectors and linear scans, no index, no record, so
//! that it can be seen to be right. It shares the engine's vocabulary and nothing else.

mod attend;
mod bury;
mod change;
mod enqueue;
mod finish;
mod group;
mod job;
mod lease;
mod look;
mod origin;
mod tick;
mod wait;

use std::collections::{BTreeMap, BTreeSet};

use jobyard_engine::{
    Answers, Change, ClientId, Command, Counters, Due, JobNumber, JobRef, LeaseId, Limits, NEVER_MS, NextDeadline, Now,
    Pause, QueueCounts, QueueName, QueueSnapshot, QueueTotals, Refusal, Reply, Snapshot, Stage, Tally, Why,
};

use job::{Job, State};
use origin::Gone;
use wait::Waiting;

/// The whole of the queue, naively.
#[derive(Clone, Debug)]
pub struct Model {
    limits: Limits,
    epoch: u64,
    leases_given: u64,
    next_number: JobNumber,
    /// The next number after a restart: numbers that a refused group skipped were seen by nobody.
    next_number_kept: JobNumber,
    next_place: u64,
    burials: u64,
    /// By number, because that is the order in which they are put.
    jobs: Vec<Job>,
    /// Of jobs that are gone: where they came from, if that is open.
    gone: Vec<Gone>,
    /// Who brings jobs from origins that begin so.
    claims: BTreeMap<ClientId, Box<[u8]>>,
    /// The oldest first.
    queues: Vec<QueueName>,
    /// Those of them that exist for ever.
    kept_queues: BTreeSet<QueueName>,
    /// Who puts jobs into which queue.
    putters: BTreeMap<ClientId, QueueName>,
    /// Who takes jobs from which queues.
    takers: BTreeSet<(ClientId, QueueName)>,
    /// Who has attended a queue.
    attendants: BTreeSet<ClientId>,
    /// Of these, who has put a job, and who has asked for one.
    producers: BTreeSet<ClientId>,
    workers: BTreeSet<ClientId>,
    /// What happened in each queue since it came to exist.
    totals: BTreeMap<QueueName, QueueTotals>,
    /// The pauses that go on.
    pauses: BTreeMap<QueueName, Pause>,
    /// In the order in which they began.
    waiting: Vec<Waiting>,
    counters: Counters,
    /// Where each job stood, and in which queue, when its changes were last noted.
    noted: BTreeMap<JobNumber, (Stage, QueueName)>,
    /// What has changed since someone asked.
    changes: Vec<Change>,
}

impl Model {
    /// A model of a fresh engine.
    #[must_use]
    pub fn new(limits: Limits, epoch: u64) -> Model {
        Model {
            limits,
            epoch,
            leases_given: 0,
            next_number: 1,
            next_number_kept: 1,
            next_place: 1,
            burials: 0,
            jobs: Vec::new(),
            gone: Vec::new(),
            claims: BTreeMap::new(),
            queues: Vec::new(),
            kept_queues: BTreeSet::new(),
            putters: BTreeMap::new(),
            takers: BTreeSet::new(),
            attendants: BTreeSet::new(),
            producers: BTreeSet::new(),
            workers: BTreeSet::new(),
            totals: BTreeMap::new(),
            pauses: BTreeMap::new(),
            waiting: Vec::new(),
            counters: Counters::default(),
            noted: BTreeMap::new(),
            changes: Vec::new(),
        }
    }

    /// Carries out one command.
    pub fn handle(&mut self, now: Now, client: ClientId, command: Command, answers: &mut Answers<'_>) {
        match command {
            Command::Enqueue(job) => self.enqueue(now, client, &job, answers),
            Command::Attend { queue, role, keeps_queue } => self.attend(client, &queue, role, keeps_queue, answers),
            Command::Leave { queue } => self.leave(client, &queue, answers),
            Command::Run { job, wait_ms } => self.run(now, client, *job, wait_ms, answers),
            Command::Lease(request) => self.lease(now, client, *request, answers),
            Command::LeaseJob { job, hold } => self.lease_job(now, client, &job, hold, answers),
            Command::Complete { job, by, result } => self.complete(now, client, &job, by, &result, answers),
            Command::Fail { job, by, result } => self.fail(now, client, &job, by, &result, answers),
            Command::Release { job, again } => self.release(now, client, &job, again, answers),
            Command::Bury { job, urgency } => self.bury(now, client, &job, urgency, answers),
            Command::Revive { queue, count_max } => self.revive_some(now, client, &queue, count_max, answers),
            Command::ReviveJob { job } => self.revive_job(now, client, &job, answers),
            Command::Extend { job } => self.extend(now, client, &job, answers),
            Command::Pause { queue, pause_ms } => self.pause(now, client, &queue, pause_ms, answers),
            Command::Remove { job, by } => self.remove(now, client, &job, by, answers),
            Command::Await { job, wait_ms } => self.await_result(now, client, &job, wait_ms, answers),
            Command::ClaimOrigins { beginning } => self.claim_origins(client, &beginning, answers),
            Command::CloseOrigin { origin } => self.close_origin(client, &origin, answers),
            Command::Group(steps) => self.group(now, client, &steps, answers),
            Command::Look(look) => self.look(now, client, &look, answers),
        }
        self.settle(now, answers);
    }

    fn settle(&mut self, now: Now, answers: &mut Answers<'_>) {
        self.serve(now, answers);
        self.forget_idle_queues();
    }

    /// The client's waiting command is answered as if its time had run out.
    pub fn stop_waiting(&mut self, now: Now, client: ClientId, answers: &mut Answers<'_>) {
        if self.is_waiting(client) {
            self.wait_ends(now, client, answers);
        }
        self.settle(now, answers);
    }

    /// The client is gone.
    pub fn disconnect(&mut self, now: Now, client: ClientId, answers: &mut Answers<'_>) {
        let run_job = self.runs_for(client);
        self.waiting.retain(|waiting| waiting.client != client);
        if let Some(number) = run_job {
            self.remove_run_if_not_leased(now, number, answers);
        }
        let mut held: Vec<(LeaseId, JobNumber)> = Vec::new();
        for job in &self.jobs {
            if let (Some(lease), true) = (job.lease(), job.is_held_by(client)) {
                held.push((lease.id, job.number));
            }
        }
        held.sort();
        for (_, number) in held {
            self.holder_gone(now, number, answers);
        }
        self.leave_all(client);
        self.claims.remove(&client);
        self.settle(now, answers);
    }

    /// The lease never reached its client.
    pub fn undo_lease(&mut self, now: Now, number: JobNumber, lease: LeaseId, answers: &mut Answers<'_>) {
        if self.lives(number) && self.job(number).lease().is_some_and(|current| current.id == lease) {
            self.undo(now, number, answers);
        }
        self.settle(now, answers);
    }

    /// What is left after a crash, at `now`, in the next epoch.
    pub fn restart(&mut self, now: Now) {
        self.epoch += 1;
        self.leases_given = 0;
        self.next_number = self.next_number_kept;
        self.waiting.clear();
        self.pauses.clear();
        self.claims.clear();
        self.totals.clear();
        self.forget_attendance();
        for job in &mut self.jobs {
            if job.lease().is_some_and(|lease| lease.holder.is_some()) {
                job.state = State::Ready;
            }
        }
        self.note(Why::HolderLost);
        let run_jobs: Vec<JobNumber> = self.jobs.iter().filter(|job| job.runs).map(|job| job.number).collect();
        let nobody: &mut Answers<'_> = &mut |_, _| unreachable!("nobody is connected yet");
        for number in run_jobs {
            self.removed(now, number, Why::RunOver, nobody);
        }
        self.tick(now, now.engine_ms, nobody);
        let last_attempts = self.jobs.iter().filter(|job| matches!(job.state, State::Ready) && job.attempts_reached());
        for number in last_attempts.map(|job| job.number).collect::<Vec<_>>() {
            self.used_up(now, number, &[], Why::UsedUp, nobody);
        }
        self.counters = Counters::default();
        for job in &mut self.jobs {
            job.tally = Tally::default();
        }
        self.forget_idle_queues();
    }

    /// When `tick` next has something to do.
    #[must_use]
    pub fn next_deadline(&self) -> NextDeadline {
        let wall_ms = self.jobs.iter().filter_map(|job| match job.state {
            State::Delayed { until: Due::Wall(wall_ms), .. } => Some(wall_ms),
            _ => None,
        });
        NextDeadline {
            engine_ms: Some(self.next_engine_deadline()).filter(|&engine_ms| engine_ms != NEVER_MS),
            wall_ms: wall_ms.min(),
        }
    }

    /// Everything that can be seen.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let queues = self.queues.iter().map(|name| QueueSnapshot {
            name: name.clone(),
            ready: self.ready_in_order(name).iter().map(|job| job.number).collect(),
            buried: self.buried_in_order(name).iter().map(|job| job.number).collect(),
            counts: self.counts(name),
            pause: self.pauses.get(name).copied(),
            attended: self.attended(name),
        });
        Snapshot {
            jobs: self.jobs.iter().map(Job::snapshot).collect(),
            queues: queues.collect(),
            waiting: self.waiting.iter().map(|waiting| waiting.client).collect(),
            origins: self.open_origins(),
        }
    }

    /// The number that the next enqueue gets.
    #[must_use]
    pub fn next_number(&self) -> JobNumber {
        self.next_number
    }

    fn lives(&self, number: JobNumber) -> bool {
        self.jobs.iter().any(|job| job.number == number)
    }

    fn job(&self, number: JobNumber) -> &Job {
        self.jobs.iter().find(|job| job.number == number).expect("the job lives")
    }

    fn job_mut(&mut self, number: JobNumber) -> &mut Job {
        self.jobs.iter_mut().find(|job| job.number == number).expect("the job lives")
    }

    fn find(&self, name: &JobRef) -> Result<JobNumber, Refusal> {
        let called = |job: &&Job| match name {
            JobRef::Number(number) => job.number == *number,
            JobRef::Uuid(uuid) => job.uuid == *uuid,
            JobRef::InQueue(uuid, queue) => job.uuid == *uuid && job.queue == *queue,
        };
        self.jobs.iter().find(called).map(|job| job.number).ok_or(Refusal::NoSuchJob)
    }

    /// Jobs whose blockers include this one, in the order in which they were put.
    fn blocked_by(&self, number: JobNumber) -> Vec<JobNumber> {
        self.jobs.iter().filter(|job| job.blockers.contains(&number)).map(|job| job.number).collect()
    }

    fn ready_in_order(&self, queue: &QueueName) -> Vec<&Job> {
        let mut ready: Vec<&Job> = self.jobs.iter().filter(|job| job.queue == *queue && job.is_ready()).collect();
        ready.sort_by_key(|job| job.order());
        ready
    }

    fn counts(&self, queue: &QueueName) -> QueueCounts {
        let mut counts = QueueCounts::default();
        for job in self.jobs.iter().filter(|job| job.queue == *queue) {
            match job.state {
                State::Ready => counts.ready += 1,
                State::Delayed { .. } => counts.delayed += 1,
                State::Leased(_) => counts.leased += 1,
                State::Buried { .. } => counts.buried += 1,
                State::Blocked | State::Done(_) | State::Failed(_) => {}
            }
        }
        counts
    }

    /// The queue exists for ever.
    fn create_queue(&mut self, queue: &QueueName) {
        self.make_queue(queue);
        self.kept_queues.insert(queue.clone());
    }

    /// The queue exists, for as long as it has a reason to.
    fn make_queue(&mut self, queue: &QueueName) {
        if !self.queues.contains(queue) {
            self.queues.push(queue.clone());
        }
    }

    fn pause(&mut self, now: Now, client: ClientId, queue: &QueueName, pause_ms: u64, answers: &mut Answers<'_>) {
        if !self.queues.contains(queue) {
            return answers(client, Reply::Refused(Refusal::NoSuchQueue));
        }
        self.pauses.remove(queue);
        self.totals.entry(queue.clone()).or_default().pauses += 1;
        if pause_ms > 0 {
            let until_ms = now.engine_ms.saturating_add(pause_ms);
            self.pauses.insert(queue.clone(), Pause { ms: pause_ms, until_ms });
        }
        answers(client, Reply::Done);
    }

    fn give_place(&mut self) -> u64 {
        self.next_place += 1;
        self.next_place - 1
    }
}
