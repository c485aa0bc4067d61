//! The engine: one value that holds the whole queue, and the calls it answers.

use crate::admit::History;
use crate::broken;
use crate::bytes::{Damaged, Reader};
use crate::changes::Why;
use crate::command::{By, Command, JobRef};
use crate::job::{Job, State};
use crate::limits::Limits;
use crate::names::{ClientId, JobNumber, LeaseId, QueueName};
use crate::queue::QueueId;
use crate::record::Record;
use crate::reply::{Counters, Refusal, Reply, Tally};
use crate::store::Store;
use crate::time::{NextDeadline, Now};
use crate::timers::Timer;
use crate::waiting::{Waiting, Want};

/// Where replies go: to whom, and what. They borrow from the engine, so they are written out at once.
pub type Answers<'x> = dyn FnMut(ClientId, Reply<'_>) + 'x;

/// How many records were made since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Because something was decided.
    pub decided: u64,
    /// To keep the log short.
    pub anew: u64,
}

/// The whole queue.
#[derive(Debug)]
pub struct Engine {
    pub(crate) store: Store,
    pub(crate) waiting: Waiting,
    pub(crate) limits: Limits,
    pub(crate) counters: Counters,
    pub(crate) written: Written,
    /// Durable changes that the log has not been given yet.
    pub(crate) records: Vec<u8>,
    /// Whether the log that is replayed begins with a state that was written whole.
    begun_anew: bool,
    /// Whether what did not survive a restart is being ended: it is not counted.
    starting: bool,
    epoch: u64,
    last_lease: u64,
    /// See [`Engine::set_portion`].
    portion: usize,
    /// See [`Engine::work`].
    pub(crate) work: u64,
}

/// What a record counts for as [`Engine::work`].
const WORK_PER_RECORD: u64 = 10;

/// How many of a lease id's bits count within one epoch.
const LEASE_BITS: u32 = 40;

impl Engine {
    /// An empty engine. `epoch` is the log's, and greater than any that came before: it makes lease ids
    /// unique for ever. `seed` keeps clients from choosing keys that collide.
    #[must_use]
    pub fn new(limits: Limits, epoch: u64, seed: u64) -> Self {
        Engine {
            store: Store::new(seed),
            waiting: Waiting::default(),
            limits,
            counters: Counters::default(),
            written: Written::default(),
            records: Vec::new(),
            begun_anew: false,
            starting: false,
            epoch,
            last_lease: 0,
            portion: usize::MAX,
            work: 0,
        }
    }

    /// Carries out records that were durable before a restart. They may come in portions, each of whole records.
    ///
    /// # Errors
    /// If they are not what [`Engine::records`] once gave.
    pub fn replay(&mut self, records: &[u8], history: History) -> Result<(), Damaged> {
        let replayed = self.replay_each(records, history);
        // Whatever they are, they are where they were read.
        self.store.stretches.settle();
        self.store.sweep();
        self.forget_changes();
        replayed
    }

    fn replay_each(&mut self, records: &[u8], history: History) -> Result<(), Damaged> {
        let mut reader = Reader(records);
        while !reader.is_empty() {
            let record = Record::decode(&mut reader)?;
            if matches!(record, Record::Counters { .. }) && self.store.is_new() {
                // What begins with counters was written when there had been jobs before.
                self.begun_anew = true;
            }
            let history = if self.begun_anew && history == History::Whole { History::Rest } else { history };
            self.store.replay(record, history)?;
        }
        Ok(())
    }

    /// What time decides is decided in portions of about so many bytes of records: see [`Engine::tick`] and
    /// [`Engine::recover`]. Without this, all at once.
    pub fn set_portion(&mut self, bytes: usize) {
        self.portion = bytes;
    }

    /// When as much was decided as a portion has: the length of the records then.
    pub(crate) fn portion_end(&self) -> usize {
        self.records.len().saturating_add(self.portion)
    }

    /// Ends what does not survive a restart, and does what fell due meanwhile. False if a portion of that was done, and
    /// there is more: nobody may be served before it is all done.
    pub fn recover(&mut self, now: Now) -> bool {
        let answers: &mut Answers<'_> = &mut |_, _| {};
        let end = self.portion_end();
        self.starting = true;
        self.called("restart");
        if broken("engine-number-reused") {
            self.store.next_number = self.store.next_number.saturating_sub(1).max(1);
        }
        self.fill_gaps();
        let is_free = |job: &Job| job.state == State::Blocked && job.blockers().is_empty();
        for number in self.numbers(|job| job.runs() || is_free(job)) {
            if is_free(self.store.job(number)) {
                self.unblock(now, number);
            }
            if self.store.job(number).runs() && !broken("engine-run-outlives-server") {
                self.remove(now, number, Why::RunOver, answers);
            }
            if self.records.len() >= end {
                return false;
            }
        }
        if !self.pass(now, now.engine_ms, answers) {
            return false;
        }
        // Who held its last attempt is gone.
        for number in self.numbers(|job| job.state == State::Ready && job.attempts_used_up()) {
            // It may have gone with another.
            if self.store.jobs.get(number).is_some_and(|job| job.state == State::Ready) {
                self.use_up(now, number, &[], answers);
            }
            if self.records.len() >= end {
                return false;
            }
        }
        self.counters = Counters::default();
        self.store.sweep();
        self.starting = false;
        true
    }

    /// Something happened to a job that is counted.
    pub(crate) fn tally(&mut self, number: JobNumber, count: fn(&mut Tally) -> &mut u32) {
        if !self.starting && !broken("engine-tallies-forgotten") {
            self.store.tally(number, count);
        }
    }

    /// Queues that have jobs exist, also those that have no record, or whose record is lost. After a history with gaps
    /// blockers that are lost block no more.
    fn fill_gaps(&mut self) {
        self.store.queues.appear_without_record();
        let lost = self.store.blocks.keys().copied().filter(|&blocker| self.store.jobs.get(blocker).is_none());
        let mut lost: Vec<JobNumber> = lost.collect();
        lost.sort_unstable();
        for number in lost {
            self.commit(Record::Removed { number });
        }
    }

    /// The queue of that name exists from now on, for ever.
    pub(crate) fn create_queue(&mut self, name: &QueueName) {
        let queues = &mut self.store.queues;
        let id = queues.intern(name.as_bytes());
        let queue = queues.get(id);
        if !queue.is_kept {
            let ordinal = queue.ordinal.unwrap_or(queues.next_ordinal);
            self.commit(Record::QueueCreated { name: name.as_bytes(), ordinal });
        }
    }

    /// The queue of that name exists from now on, for as long as it has a reason to.
    pub(crate) fn find_or_make_queue(&mut self, name: &QueueName) -> QueueId {
        let queues = &mut self.store.queues;
        let id = queues.intern(name.as_bytes());
        queues.appear(id, queues.next_ordinal);
        id
    }

    /// The jobs of which this holds, in order of number.
    fn numbers(&self, holds: impl Fn(&Job) -> bool) -> Vec<JobNumber> {
        let jobs = self.store.jobs.iter().filter(|job| holds(job));
        let mut numbers: Vec<JobNumber> = jobs.map(|job| job.number).collect();
        numbers.sort_unstable();
        numbers
    }

    /// Carries out one command. Its reply comes at once, or later if it waits.
    pub fn handle(&mut self, now: Now, client: ClientId, command: Command, answers: &mut Answers<'_>) {
        self.called(command.name());
        match command {
            Command::Enqueue(job) => self.handle_enqueue(now, client, *job, answers),
            Command::Attend { queue, role, keeps_queue } => {
                self.handle_attend(client, &queue, role, keeps_queue, answers);
            }
            Command::Leave { queue } => self.handle_leave(client, &queue, answers),
            Command::Run { job, wait_ms } => self.handle_run(now, client, *job, wait_ms, answers),
            Command::Lease(request) => self.handle_lease(now, client, &request, answers),
            Command::LeaseJob { job, hold } => self.handle_lease_job(now, client, &job, hold, answers),
            Command::Complete { job, by, result } => self.handle_complete(now, client, &job, by, result, answers),
            Command::Fail { job, by, result } => self.handle_fail(now, client, &job, by, &result, answers),
            Command::Release { job, again } => self.handle_release(now, client, &job, again, answers),
            Command::Bury { job, urgency } => self.handle_bury(now, client, &job, urgency, answers),
            Command::Revive { queue, count_max } => self.handle_revive(now, client, &queue, count_max, answers),
            Command::ReviveJob { job } => self.handle_revive_job(now, client, &job, answers),
            Command::Extend { job } => self.handle_extend(now, client, &job, answers),
            Command::Pause { queue, pause_ms } => self.handle_pause(now, client, &queue, pause_ms, answers),
            Command::Remove { job, by } => self.handle_remove(now, client, &job, by, answers),
            Command::Await { job, wait_ms } => self.handle_await(now, client, &job, wait_ms, answers),
            Command::ClaimOrigins { beginning } => self.handle_claim_origins(client, &beginning, answers),
            Command::CloseOrigin { origin } => self.handle_close_origin(client, &origin, answers),
            Command::Group(steps) => self.handle_group(now, client, steps, answers),
            Command::Look(look) => self.handle_look(now, client, &look, answers),
        }
        self.settle(now, answers);
    }

    /// Ends a call: those who wait are served, and queues go that have no reason to exist.
    pub(crate) fn settle(&mut self, now: Now, answers: &mut Answers<'_>) {
        self.serve(now, answers);
        self.store.sweep();
    }

    /// The client's waiting command, if it has one, is answered as if its time had run out.
    pub fn stop_waiting(&mut self, now: Now, client: ClientId, answers: &mut Answers<'_>) {
        self.called("stop_waiting");
        if let Some(want) = self.end_wait(client) {
            self.time_out(now, client, &want, answers);
        }
        self.settle(now, answers);
    }

    /// The client is gone: its waiting command is dropped, and what it holds ends.
    pub fn disconnect(&mut self, now: Now, client: ClientId, answers: &mut Answers<'_>) {
        self.called("disconnect");
        if let Some(want) = self.end_wait(client) {
            // Others may wait for the job that it ran.
            self.time_out(now, client, &want, &mut |to, reply| {
                if to != client {
                    answers(to, reply);
                }
            });
        }
        let held: Vec<JobNumber> = self.store.held.get(&client).map_or_else(Vec::new, |held| held.numbers().collect());
        for number in held {
            self.part(now, number, answers);
        }
        // All of it has ended, unless that is what is broken.
        if self.store.held.get(&client).is_some_and(|held| held.len() == 0) {
            self.store.held.remove(&client);
        }
        self.leave_all(client);
        self.store.claims.end(client);
        self.settle(now, answers);
    }

    /// When [`Engine::tick`] next has something to do.
    #[must_use]
    pub fn next_deadline(&self) -> NextDeadline {
        self.store.timers.next()
    }

    /// Whether what was read back leaves room to count jobs, places and queues on. Nobody has ever counted so far that it does
    /// not: such a log must not be written to.
    #[must_use]
    pub fn can_count_on(&self) -> bool {
        self.store.can_count_on()
    }

    /// Durable changes that are not in the log yet.
    #[must_use]
    pub fn records(&self) -> &[u8] {
        &self.records
    }

    /// How many records there were since the start.
    #[must_use]
    pub fn written(&self) -> Written {
        self.written
    }

    /// The log has been given [`Engine::records`].
    pub fn clear_records(&mut self) {
        // A burst must not keep its memory for ever, and nobody may be refused for it.
        const KEPT_BYTES_MAX: usize = 1 << 20;
        const KEPT_SHARE: usize = 16;
        self.records.clear();
        self.records.shrink_to(KEPT_BYTES_MAX.min(self.limits.memory_bytes_max / KEPT_SHARE));
        self.store.stretches.settle();
    }

    /// The memory that jobs, queues, those who wait and records take.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let Store { jobs, queues, stretches, .. } = &self.store;
        let stored = jobs.memory_bytes() + queues.memory_bytes() + stretches.memory_bytes();
        let of_clients = self.store.attending.memory_bytes() + self.store.claims.memory_bytes();
        stored + of_clients + self.waiting.memory_bytes() + self.records.capacity()
    }

    /// How many jobs there are, finished ones that are kept included.
    #[must_use]
    pub fn jobs(&self) -> usize {
        self.store.jobs.len() - self.store.over_count()
    }

    /// Whether a queue of that name exists.
    #[must_use]
    pub fn has_queue(&self, name: &QueueName) -> bool {
        self.store.queues.exists(name)
    }

    /// How long the body of a job is; 0 if there is no such job.
    #[must_use]
    pub fn body_bytes(&self, job: &JobRef) -> usize {
        self.find(job).map_or(0, |job| job.body.len())
    }

    /// Whether more is kept of this job once something unusual has happened to it. If there is no such job, nothing happens.
    #[must_use]
    pub fn is_plain(&self, job: &JobRef) -> bool {
        self.find(job).is_ok_and(|job| job.rare.is_none())
    }

    /// How much has been done since the start, in units of some tens of nanoseconds: so that one who asks for much
    /// can be made to wait for those who ask for little.
    #[must_use]
    pub fn work(&self) -> u64 {
        self.work
    }

    /// Makes a durable change: the record is written, and applied as recovery would.
    pub(crate) fn commit(&mut self, record: Record<'_>) {
        self.work += WORK_PER_RECORD;
        let is_unwritten = match &record {
            Record::Enqueued(_) => broken("engine-enqueue-unwritten"),
            Record::Removed { .. } | Record::Done { .. } => broken("engine-removal-unwritten"),
            Record::Leased { .. } => broken("engine-lease-unwritten"),
            Record::Buried { .. } => broken("engine-burial-unwritten"),
            Record::Revived { .. } => broken("engine-revival-unwritten"),
            Record::OriginClosed { .. } => broken("engine-closing-unwritten"),
            _ => false,
        };
        if !is_unwritten {
            record.encode(&mut self.records);
            self.written.decided += 1;
        }
        self.store.apply(record);
    }

    pub(crate) fn next_lease(&mut self) -> LeaseId {
        self.last_lease += u64::from(!broken("engine-lease-reused") || self.last_lease == 0);
        LeaseId(self.epoch << LEASE_BITS | self.last_lease)
    }

    /// The job of that name.
    pub(crate) fn find(&self, job: &JobRef) -> Result<&Job, Refusal> {
        let number = match job {
            JobRef::Number(number) => Some(*number),
            JobRef::Uuid(uuid) | JobRef::InQueue(uuid, _) => self.store.number_of(*uuid),
        };
        let there = number.and_then(|number| self.store.jobs.get(number));
        let found = there.filter(|job| !job.is_over()).ok_or(Refusal::NoSuchJob)?;
        match job {
            JobRef::InQueue(_, queue) if self.store.queues.get(found.queue).name != *queue => Err(Refusal::NoSuchJob),
            _ => Ok(found),
        }
    }

    /// The job of that name, if it is unfinished and the client may finish it.
    pub(crate) fn find_to_finish(&self, client: ClientId, job: &JobRef, by: By) -> Result<JobNumber, Refusal> {
        let found = self.find(job)?;
        if crate::broken("engine-leased-not-found") && by == By::Anyone && found.lease().is_some() {
            return Err(Refusal::NoSuchJob);
        }
        if found.finished() {
            return Err(Refusal::Finished);
        }
        if found.allows(by, client) { Ok(found.number) } else { Err(Refusal::NotHeld) }
    }

    /// The job of that name, if the client holds it.
    pub(crate) fn find_held(&self, client: ClientId, job: &JobRef) -> Result<JobNumber, Refusal> {
        let found = self.find(job)?;
        if found.held_by(client) { Ok(found.number) } else { Err(Refusal::NotHeld) }
    }

    /// A client begins to wait.
    pub(crate) fn begin_wait(&mut self, client: ClientId, until_ms: u64, want: Want) {
        if let Want::Lease(want) = &want {
            // The ticket is drawn below; every queue is told the same.
            let ticket = self.waiting.next_ticket();
            for &queue in &want.queues {
                self.store.queues.get_mut(queue).waiting.insert(ticket, client);
            }
        }
        let ticket = self.waiting.begin(client, until_ms, want);
        self.store.timers.add(until_ms, Timer::WaitEnd(ticket));
    }

    /// A client no longer waits; what it waited for.
    pub(crate) fn end_wait(&mut self, client: ClientId) -> Option<Want> {
        let waiter = self.waiting.end(client)?;
        self.store.timers.remove(waiter.until_ms, Timer::WaitEnd(waiter.ticket));
        if let Want::Lease(want) = &waiter.want {
            for &queue in &want.queues {
                self.store.queues.get_mut(queue).waiting.remove(&waiter.ticket);
                self.store.queues.forget_unused(queue);
            }
        }
        Some(waiter.want)
    }
}
