//! The state: jobs, queues, deadlines, and the indexes that follow from them. What is written of it is
//! changed by records alone (`apply.rs`); not written are held marks, and leases and delays that are over.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::admit::COUNT_MAX;
use crate::attend::Attending;
use crate::hash::{ByNumber, Seeded};
use crate::held::Held;
use crate::job::{Due, Job, State};
use crate::jobs::Jobs;
use crate::names::{ClientId, JobNumber, Uuid};
use crate::origin::Claims;
use crate::queue::{DueKey, OrderKey, QueueId, Queues};
use crate::reply::Tally;
use crate::stretch::Stretches;
use crate::timers::{Timer, Timers};

/// The whole state but for who waits for what.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) jobs: Jobs,
    pub(crate) queues: Queues,
    pub(crate) timers: Timers,
    /// Jobs by the UUID that their clients gave them.
    pub(crate) uuids: HashMap<Uuid, JobNumber, Seeded>,
    /// Jobs by where they came from, where that is open.
    pub(crate) origins: BTreeMap<Box<[u8]>, JobNumber>,
    /// Who brings jobs from where.
    pub(crate) claims: Claims,
    /// For each job that blocks others: which, in the order in which they were put.
    pub(crate) blocks: HashMap<JobNumber, BTreeSet<JobNumber>, ByNumber>,
    /// What each client holds.
    pub(crate) held: HashMap<ClientId, Held, ByNumber>,
    /// What each client has to do with which queues; not of those that have to do with none.
    pub(crate) attending: Attending,
    /// Queues that have waiting clients and got a ready job.
    pub(crate) stirred: Vec<QueueId>,
    /// Queues that had no reason to exist any longer.
    pub(crate) idle: Vec<QueueId>,
    pub(crate) next_number: JobNumber,
    /// The next number after a restart: those that a refused group skipped were given to nobody.
    pub(crate) next_number_kept: JobNumber,
    pub(crate) next_place: u64,
    /// What the next job that is buried is ordered by.
    pub(crate) next_burial: u64,
    pub(crate) stretches: Stretches,
}

impl Store {
    pub(crate) fn new(seed: u64) -> Self {
        Store {
            jobs: Jobs::new(),
            queues: Queues::new(Seeded(seed)),
            timers: Timers::default(),
            uuids: HashMap::with_hasher(Seeded(seed)),
            origins: BTreeMap::new(),
            claims: Claims::default(),
            blocks: HashMap::default(),
            held: HashMap::default(),
            attending: Attending::default(),
            stirred: Vec::new(),
            idle: Vec::new(),
            next_number: 1,
            next_number_kept: 1,
            next_place: 1,
            next_burial: 1,
            stretches: Stretches::default(),
        }
    }

    /// Whether nothing has happened yet.
    pub(crate) fn is_new(&self) -> bool {
        self.next_number == 1 && self.next_place == 1 && self.queues.next_ordinal == 1
    }

    /// The next numbers and places are never given.
    pub(crate) fn skip_numbers(&mut self, count: u64) {
        for counter in [&mut self.next_number, &mut self.next_number_kept, &mut self.next_place] {
            *counter = counter.saturating_add(count).min(COUNT_MAX - 1);
        }
    }

    pub(crate) fn job(&self, number: JobNumber) -> &Job {
        self.jobs.get(number).expect("a job that is referred to is there")
    }

    /// The job of that UUID: its own, or made from its number.
    pub(crate) fn number_of(&self, uuid: Uuid) -> Option<JobNumber> {
        match uuid.number() {
            Some(number) => {
                let is_it = |job: &&Job| job.uuid() == uuid && !job.is_over();
                self.jobs.get(number).filter(is_it).map(|job| job.number)
            }
            None => self.uuids.get(&uuid).copied(),
        }
    }

    /// Moves a job from the state it is in to another. But for a change of place, the only way a state changes.
    pub(crate) fn set_state(&mut self, number: JobNumber, state: State) {
        let (jobs, mut indexes) = self.parts();
        jobs.change_state(number, |job| {
            indexes.leave(job);
            job.state = state;
            indexes.enter(job);
        });
    }

    /// Changes what a job's place in the indexes depends on.
    pub(crate) fn rearrange(&mut self, number: JobNumber, change: impl FnOnce(&mut Job)) {
        let (jobs, mut indexes) = self.parts();
        jobs.change(number, |job| {
            indexes.leave(job);
            change(job);
            indexes.enter(job);
        });
    }

    /// Something that is counted happened to a job.
    pub(crate) fn tally(&mut self, number: JobNumber, count: fn(&mut Tally) -> &mut u32) {
        self.jobs.change(number, |job| {
            let count = count(&mut job.rare_mut().tally);
            *count = count.saturating_add(1);
        });
    }

    /// The jobs, and the indexes that follow from them.
    pub(crate) fn parts(&mut self) -> (&mut Jobs, Indexes<'_>) {
        let Store { jobs, queues, timers, held, stirred, .. } = self;
        (jobs, Indexes { queues, timers, held, stirred })
    }

    /// A queue has lost a reason to exist. If it has none left it goes when the call is over.
    pub(crate) fn let_go(&mut self, queue: QueueId) {
        if self.queues.get(queue).is_idle() {
            self.idle.push(queue);
        }
    }

    /// The call is over: queues that have no reason to exist are forgotten, and their pauses with them.
    pub(crate) fn sweep(&mut self) {
        let mut idle = std::mem::take(&mut self.idle);
        idle.sort_unstable();
        idle.dedup();
        for queue in idle {
            if let Some(pause) = self.queues.forget_idle(queue) {
                self.timers.remove(pause.until_ms, Timer::PauseEnd(queue));
            }
        }
    }

    /// How many jobs a client holds.
    pub(crate) fn held_count(&self, client: ClientId) -> usize {
        self.held.get(&client).map_or(0, Held::len)
    }

    /// All that a job blocks, directly and by way of others, each once, depth first in the order in
    /// which they were put. The job itself is not among them.
    pub(crate) fn blocked_by(&self, number: JobNumber) -> Vec<JobNumber> {
        let mut found = Vec::new();
        let mut seen = BTreeSet::from([number]);
        let mut ahead: Vec<JobNumber> = self.blocks_directly(number).rev().collect();
        while let Some(next) = ahead.pop() {
            if seen.insert(next) {
                found.push(next);
                ahead.extend(self.blocks_directly(next).rev());
            }
        }
        found
    }

    fn blocks_directly(&self, number: JobNumber) -> impl DoubleEndedIterator<Item = JobNumber> {
        self.blocks.get(&number).into_iter().flatten().copied()
    }
}

/// The indexes that a job's state puts it in.
pub(crate) struct Indexes<'a> {
    queues: &'a mut Queues,
    timers: &'a mut Timers,
    held: &'a mut HashMap<ClientId, Held, ByNumber>,
    stirred: &'a mut Vec<QueueId>,
}

impl Indexes<'_> {
    /// Takes a job out of every index that its state puts it in.
    pub(crate) fn leave(&mut self, job: &Job) {
        match job.state {
            State::Ready | State::Delayed { .. } | State::Buried { .. } => self.leave_list(job),
            State::Leased { until_ms, .. } => self.leave_leased(job, until_ms),
            State::Held { until_ms, client, lease, .. } => {
                self.leave_leased(job, until_ms);
                self.held.get_mut(&client).expect("a holder is known").remove(lease);
            }
            State::Blocked | State::Done | State::Failed => {}
        }
    }

    fn leave_leased(&mut self, job: &Job, until_ms: u64) {
        self.queues.get_mut(job.queue).leased -= 1;
        self.timers.remove(until_ms, Timer::LeaseEnd(job.number));
    }

    /// What the queue's lists take changes.
    fn leave_list(&mut self, job: &Job) {
        let (number, queue) = (job.number, self.queues.get_mut(job.queue));
        let before_bytes = queue.lists_bytes();
        match job.state {
            State::Ready => {
                queue.ready.remove(OrderKey::of(job));
            }
            State::Delayed { due, shown_wall_ms } => {
                queue.delayed.remove(DueKey::of(job, shown_wall_ms));
                match due {
                    Due::Engine(at_ms) => {
                        queue.due.remove((at_ms, number));
                        self.timers.remove(at_ms, Timer::DelayEnd(number));
                    }
                    Due::Wall(at_ms) => {
                        queue.dated.remove((at_ms, number));
                        self.timers.remove_date(at_ms, number);
                    }
                }
            }
            State::Buried { order } => {
                queue.buried.remove((order, number));
            }
            State::Blocked | State::Leased { .. } | State::Held { .. } | State::Done | State::Failed => {
                unreachable!("it is in no list")
            }
        }
        self.queues.recount(job.queue, before_bytes);
    }

    /// Puts a job into every index that its state asks for.
    pub(crate) fn enter(&mut self, job: &Job) {
        match job.state {
            State::Ready | State::Delayed { .. } | State::Buried { .. } => self.enter_list(job),
            State::Leased { until_ms, .. } => self.enter_leased(job, until_ms),
            State::Held { until_ms, client, lease, .. } => {
                self.enter_leased(job, until_ms);
                self.held.entry(client).or_default().insert(lease, job.number);
            }
            State::Blocked | State::Done | State::Failed => {}
        }
    }

    fn enter_leased(&mut self, job: &Job, until_ms: u64) {
        self.queues.get_mut(job.queue).leased += 1;
        self.timers.add(until_ms, Timer::LeaseEnd(job.number));
    }

    /// What the queue's lists take changes.
    fn enter_list(&mut self, job: &Job) {
        let (number, queue) = (job.number, self.queues.get_mut(job.queue));
        let before_bytes = queue.lists_bytes();
        match job.state {
            State::Ready => {
                queue.ready.insert(OrderKey::of(job));
                if !queue.waiting.is_empty() {
                    self.stirred.push(job.queue);
                }
            }
            State::Delayed { due, shown_wall_ms } => {
                queue.delayed.insert(DueKey::of(job, shown_wall_ms));
                match due {
                    Due::Engine(at_ms) => {
                        queue.due.insert((at_ms, number));
                        self.timers.add(at_ms, Timer::DelayEnd(number));
                    }
                    Due::Wall(at_ms) => {
                        queue.dated.insert((at_ms, number));
                        self.timers.add_date(at_ms, number);
                    }
                }
            }
            State::Buried { order } => {
                queue.buried.insert((order, number));
            }
            State::Blocked | State::Leased { .. } | State::Held { .. } | State::Done | State::Failed => {
                unreachable!("it is in no list")
            }
        }
        self.queues.recount(job.queue, before_bytes);
    }
}
