//! The whole state laid open, for tests: to compare with a model and with what a restart gives, and
//! to check that every index says what the jobs say.

use std::collections::{BTreeMap, BTreeSet};

use crate::command::OwnTime;
use crate::engine::Engine;
use crate::held::Held;
use crate::job::{Due, Job, Rank, State};
use crate::names::{ClientId, JobNumber, LeaseId, QueueName, Uuid};
use crate::queue::{DueKey, OrderKey, Queue, QueueId};
use crate::record::{Record, put_kept};
use crate::reply::{Pause, QueueCounts, StateView, Tally};
use crate::stretch::Entry;
use crate::timers::Timer;
use crate::waiting::Want;

/// Everything there is, in an order that does not depend on how it came to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// By number.
    pub jobs: Vec<JobSnapshot>,
    /// The oldest first.
    pub queues: Vec<QueueSnapshot>,
    /// In the order in which they began to wait.
    pub waiting: Vec<ClientId>,
    /// The origins that are open: the job that came from there, which may be long gone, and its queue.
    pub origins: Vec<(Vec<u8>, JobNumber, QueueName)>,
}

impl Snapshot {
    /// Without what does not outlive a restart: where queues stand that have no record, and what happened to jobs since
    /// the start.
    #[must_use]
    pub fn durable(mut self) -> Self {
        self.queues.sort_by(|a, b| a.name.cmp(&b.name));
        for job in &mut self.jobs {
            job.tally = Tally::default();
        }
        self
    }
}

/// A job, laid open. The fields are those of [`JobView`](crate::JobView) and what is behind them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct JobSnapshot {
    pub number: JobNumber,
    pub uuid: Uuid,
    pub queue: QueueName,
    pub name: Option<String>,
    pub body: Vec<u8>,
    pub urgency: i128,
    pub own_time: OwnTime,
    pub lifetime_ms: Option<u64>,
    pub attempts: u64,
    pub attempts_max: Option<u32>,
    pub failures: u64,
    pub failures_allowed: Option<u64>,
    pub state: StateView,
    pub lease: Option<LeaseId>,
    /// `None` if the lease has no end.
    pub lease_until_ms: Option<u64>,
    pub held_by: Option<ClientId>,
    pub delay_until: Option<Due>,
    pub expires_ms: Option<u64>,
    pub rank: u8,
    /// 0 for the usual rank.
    pub due_wall_ms: i64,
    pub place: u64,
    pub blockers: Vec<JobNumber>,
    pub result: Option<Vec<u8>>,
    pub created_wall_ms: i64,
    pub date_wall_ms: Option<i64>,
    pub delay_ms: u64,
    pub tally: Tally,
    pub runs: bool,
}

/// A queue, laid open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueSnapshot {
    /// Its name.
    pub name: QueueName,
    /// Its ready jobs, in the order in which they would be leased.
    pub ready: Vec<JobNumber>,
    /// Its buried jobs, in the order in which they would be revived.
    pub buried: Vec<JobNumber>,
    /// Its counts.
    pub counts: QueueCounts,
    /// Whether it is paused.
    pub pause: Option<Pause>,
    /// Clients that put jobs there, and that take jobs from there.
    pub attended: (usize, usize),
}

impl Engine {
    /// The whole state.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let mut jobs: Vec<JobSnapshot> =
            self.store.jobs.iter().filter(|job| !job.is_over()).map(|job| self.snapshot_of(job)).collect();
        jobs.sort_unstable_by_key(|job| job.number);
        let queues = self.store.queues.by_age().map(|queue| QueueSnapshot {
            name: queue.name.clone(),
            ready: queue.ready.iter_from(0).map(|key| key.number).collect(),
            buried: queue.buried.iter_from(0).map(|(_, number)| number).collect(),
            counts: queue.view().counts,
            pause: queue.pause,
            attended: (queue.putters, queue.takers),
        });
        let origins = self.store.origins.iter().map(|(origin, &number)| {
            let queue = self.store.queues.get(self.store.job(number).queue);
            (origin.to_vec(), number, queue.name.clone())
        });
        Snapshot {
            jobs,
            queues: queues.collect(),
            waiting: self.waiting.in_order().map(|(client, _)| client).collect(),
            origins: origins.collect(),
        }
    }

    fn snapshot_of(&self, job: &Job) -> JobSnapshot {
        let view = self.view(job);
        let never = |until_ms: u64| Some(until_ms).filter(|&until_ms| until_ms != crate::NEVER_MS);
        let (lease_until_ms, held_by, delay_until) = match job.state {
            State::Leased { until_ms, .. } => (never(until_ms), None, None),
            State::Held { until_ms, client, .. } => (never(until_ms), Some(client), None),
            State::Delayed { due, .. } => (None, None, Some(due)),
            _ => (None, None, None),
        };
        let (rank, due_wall_ms) = match job.rank() {
            Rank::Ahead(due) => (0, due),
            Rank::Usual => (1, 0),
            Rank::Behind(due) => (2, due),
        };
        let result = job.rare.as_ref().and_then(|rare| rare.result.as_deref());
        JobSnapshot {
            number: view.number,
            uuid: view.uuid,
            queue: view.queue.clone(),
            name: view.name.map(str::to_owned),
            body: view.body.to_vec(),
            urgency: view.urgency,
            own_time: view.own_time,
            lifetime_ms: view.lifetime_ms,
            attempts: view.attempts,
            attempts_max: view.attempts_max,
            failures: view.failures,
            failures_allowed: view.failures_allowed,
            state: view.state,
            lease: job.lease(),
            lease_until_ms,
            held_by,
            delay_until,
            expires_ms: job.expires_ms(),
            rank,
            due_wall_ms,
            place: job.place,
            blockers: job.blockers().to_vec(),
            result: result.map(<[u8]>::to_vec),
            created_wall_ms: view.created_wall_ms,
            date_wall_ms: view.date_wall_ms,
            delay_ms: view.delay_ms,
            tally: view.tally,
            runs: job.runs(),
        }
    }

    /// Checks that every job is in exactly the one place its state names, that the counts add up, and
    /// that no index knows more than the jobs do.
    ///
    /// # Panics
    /// If not.
    pub fn check(&self) {
        let store = &self.store;
        let (mut timers, mut memory_bytes) = (0, 0);
        let (mut ready, mut delayed, mut leased, mut buried) = (0, 0, 0, 0);
        let (mut held, mut uuids, mut links) = (0, 0, 0);
        for job in store.jobs.iter() {
            timers += self.check_timers(job);
            memory_bytes += job.memory_bytes();
            let queue = store.queues.get(job.queue);
            let number = job.number;
            let in_ready = queue.ready.contains(OrderKey::of(job));
            assert_eq!(in_ready, job.state == State::Ready, "job {number} in its queue's order");
            if let State::Delayed { shown_wall_ms: wall_ms, due } = job.state {
                assert!(queue.delayed.contains(DueKey::of(job, wall_ms)), "job {number} among the delayed");
                let is_due = match due {
                    Due::Engine(at_ms) => queue.due.contains((at_ms, number)),
                    Due::Wall(at_ms) => queue.dated.contains((at_ms, number)),
                };
                assert!(is_due, "job {number} among those that fall due");
            }
            if let State::Buried { order } = job.state {
                assert!(queue.buried.contains((order, number)), "job {number} among the buried");
            }
            if let State::Held { client, lease, .. } = job.state {
                assert_eq!(store.held[&client].get(lease), Some(number), "job {number} among the held");
                held += 1;
            }
            assert_eq!(job.blockers().is_empty(), job.state != State::Blocked, "job {number} and its blockers");
            for blocker in job.blockers() {
                assert!(store.blocks[blocker].contains(&number), "job {number} and its blocker {blocker}");
                assert!(!store.job(*blocker).finished(), "job {number} is blocked by {blocker}, which is finished");
                links += 1;
            }
            uuids += usize::from(job.rare.as_ref().is_some_and(|rare| rare.uuid.is_some()));
            ready += usize::from(job.state_view() == StateView::Ready);
            delayed += usize::from(job.state_view() == StateView::Delayed);
            leased += usize::from(job.state_view() == StateView::Leased);
            buried += usize::from(job.state_view() == StateView::Buried);
        }
        let counts = |count: fn(QueueCounts) -> usize| -> usize {
            store.queues.all().map(|queue| count(queue.view().counts)).sum()
        };
        assert_eq!(counts(|counts| counts.ready), ready, "ready jobs in queues");
        assert_eq!(counts(|counts| counts.delayed), delayed, "delayed jobs in queues");
        assert_eq!(counts(|counts| counts.leased), leased, "leased jobs in queues");
        assert_eq!(counts(|counts| counts.buried), buried, "buried jobs in queues");
        let due: usize = store.queues.all().map(|queue| queue.due.len() + queue.dated.len()).sum();
        assert_eq!(due, delayed, "jobs that fall due");
        assert_eq!(store.held.values().map(Held::len).sum::<usize>(), held, "held jobs");
        assert_eq!(store.uuids.len(), uuids, "jobs by UUID");
        assert_eq!(store.blocks.values().map(BTreeSet::len).sum::<usize>(), links, "blocked jobs");
        assert_eq!(store.jobs.memory_bytes(), memory_bytes, "memory of jobs");
        let queues_bytes: usize = store.queues.all().map(Queue::memory_bytes).sum();
        assert_eq!(store.queues.memory_bytes(), queues_bytes, "memory of queues");
        self.check_stretches();
        self.check_origins();
        self.check_attending();
        assert_eq!(store.timers.len(), timers + self.check_waiting() + self.check_pauses(), "deadlines");
        assert!(store.stirred.is_empty(), "the waiting have been served");
        assert!(store.idle.is_empty(), "queues without a reason have gone");
    }

    /// Checks that each origin that is open leads to its job.
    fn check_origins(&self) {
        let mut open = 0;
        for (job, origin) in self.store.jobs.iter().filter_map(|job| Some((job, job.origin()?))) {
            assert_eq!(self.store.origins.get(origin), Some(&job.number), "job {} by its origin", job.number);
            open += 1;
        }
        assert_eq!(self.store.origins.len(), open, "jobs by origin");
    }

    /// Checks what is known of the log: that each job and queue is listed where its newest full record is, and what
    /// these records would take.
    fn check_stretches(&self) {
        let store = &self.store;
        let (mut jobs, mut queues) = (BTreeSet::new(), BTreeSet::new());
        for (stretch, entry) in store.stretches.unread() {
            match entry {
                Entry::Job(number) => drop(jobs.insert((stretch, number))),
                Entry::Queue(queue) => drop(queues.insert((stretch, queue))),
            }
        }
        let mut record = Vec::new();
        let mut bytes = 0;
        let tracked = store.stretches.len() > 0;
        for job in store.jobs.iter() {
            let number = job.number;
            assert!(!tracked || jobs.contains(&(job.stretch, number)), "job {number} in its stretch");
            record.clear();
            put_kept(&mut record, job, store.queues.get(job.queue).name.as_bytes());
            bytes += record.len() as u64;
        }
        for queue in store.queues.by_age().filter(|queue| queue.is_kept) {
            let id = store.queues.id(queue.name.as_bytes()).expect("a queue is found by its name");
            assert!(!tracked || queues.contains(&(queue.stretch, id)), "queue {:?} in its stretch", queue.name);
            record.clear();
            let ordinal = queue.ordinal.expect("a queue that exists has an ordinal");
            Record::QueueCreated { name: queue.name.as_bytes(), ordinal }.encode(&mut record);
            bytes += record.len() as u64;
            assert_eq!(store.queues.of_ordinal(ordinal), Some(id), "queue {:?} by age", queue.name);
        }
        assert_eq!(self.live_bytes(), bytes, "what full records would take");
        let in_oldest = |job: &&Job| job.stretch == store.stretches.oldest();
        let oldest_bytes: u64 = store.jobs.iter().filter(in_oldest).map(Job::record_bytes).sum();
        let is_tracked = store.stretches.len() > 0;
        assert_eq!(store.jobs.oldest_stretch_bytes(), if is_tracked { oldest_bytes } else { 0 }, "the oldest stretch");
        let queues_bytes: u64 = store.queues.all().map(Queue::record_bytes).sum();
        assert_eq!(store.queues.record_bytes(), queues_bytes, "what the records of queues would take");
        let in_oldest = |queue: &&Queue| queue.stretch == store.stretches.oldest();
        let oldest_bytes: u64 = store.queues.by_age().filter(in_oldest).map(Queue::record_bytes).sum();
        let oldest_bytes = if is_tracked { oldest_bytes } else { 0 };
        assert_eq!(store.stretches.oldest_queue_bytes(), oldest_bytes, "queues in the oldest stretch");
        assert_eq!(store.stretches.memory_bytes(), store.stretches.memory_bytes_counted(), "memory of lists");
    }

    /// Checks the deadlines of one job. How many there are.
    fn check_timers(&self, job: &Job) -> usize {
        let timers = &self.store.timers;
        let number = job.number;
        let of_state = match job.state {
            State::Leased { until_ms, .. } | State::Held { until_ms, .. } => {
                assert!(timers.contains(until_ms, Timer::LeaseEnd(number)), "the end of job {number}'s lease");
                usize::from(until_ms != crate::NEVER_MS)
            }
            State::Delayed { due: Due::Engine(until_ms), .. } => {
                assert!(timers.contains(until_ms, Timer::DelayEnd(number)), "the end of job {number}'s delay");
                usize::from(until_ms != crate::NEVER_MS)
            }
            State::Delayed { due: Due::Wall(wall_ms), .. } => {
                assert!(timers.contains_date(wall_ms, number), "the date of job {number}");
                1
            }
            _ => 0,
        };
        let of_life = job.expires_ms().map_or(0, |at_ms| {
            assert!(timers.contains(at_ms, Timer::Expiry(number)), "the end of job {number}");
            1
        });
        of_state + of_life
    }

    /// Checks that each queue that exists has a reason to, and knows how many attend it.
    fn check_attending(&self) {
        let queues = &self.store.queues;
        let mut attended: BTreeMap<QueueId, (usize, usize)> = BTreeMap::new();
        for (queue, role) in self.store.attending.iter() {
            let (putters, takers) = attended.entry(queue).or_default();
            *putters += usize::from(role.puts());
            *takers += usize::from(role.takes());
        }
        for queue in queues.all() {
            let id = queues.id(queue.name.as_bytes()).expect("a queue is found by its name");
            let counted = attended.get(&id).copied().unwrap_or_default();
            assert_eq!((queue.putters, queue.takers), counted, "who attends {:?}", queue.name);
            let has_reason = queue.is_kept || queue.jobs > 0 || counted != (0, 0);
            assert_eq!(queue.ordinal.is_some(), has_reason, "whether {:?} exists", queue.name);
        }
    }

    /// Checks the queues that are paused. How many of these have a deadline.
    fn check_pauses(&self) -> usize {
        let mut deadlines = 0;
        for queue in self.store.queues.all() {
            let Some(pause) = queue.pause else { continue };
            let id = self.store.queues.id(queue.name.as_bytes()).expect("a queue is found by its name");
            let is_kept = self.store.timers.contains(pause.until_ms, Timer::PauseEnd(id));
            assert!(is_kept, "the end of the pause of {:?}", queue.name);
            deadlines += usize::from(pause.until_ms != crate::NEVER_MS);
        }
        deadlines
    }

    /// Checks those who wait. How many of them have a deadline.
    fn check_waiting(&self) -> usize {
        let (mut deadlines, mut places, mut memory_bytes) = (0, 0, 0);
        for (client, waiter) in self.waiting.in_order() {
            let timer = Timer::WaitEnd(waiter.ticket);
            assert!(self.store.timers.contains(waiter.until_ms, timer), "the end of {client:?}'s wait");
            deadlines += usize::from(waiter.until_ms != crate::NEVER_MS);
            memory_bytes += waiter.want.memory_bytes();
            match &waiter.want {
                Want::Lease(want) => {
                    for &queue in &want.queues {
                        let queue = self.store.queues.get(queue);
                        assert_eq!(queue.waiting.get(&waiter.ticket), Some(&client), "{client:?} in line");
                        assert_eq!(queue.next(), None, "{client:?} waits for {:?}, which has a job", queue.name);
                        places += 1;
                    }
                }
                Want::Result(number) | Want::Run { number, .. } => {
                    assert!(!self.store.job(*number).finished(), "{client:?} waits for job {number}");
                }
            }
        }
        let lines: usize = self.store.queues.all().map(|queue| queue.waiting.len()).sum();
        assert_eq!(lines, places, "places in line");
        assert_eq!(self.waiting.memory_bytes(), memory_bytes, "memory of those who wait");
        deadlines
    }
}
