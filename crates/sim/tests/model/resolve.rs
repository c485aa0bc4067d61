//! Turns what a step means into what it is at its moment: numbers, UUIDs, dates.

use jobyard_engine::{
    Blocker, ClientId, Command, Due, JobNumber, JobRef, JobSnapshot, Look, NewJob, QueueName, Snapshot, Start,
    StateView, Uuid,
};

use crate::steps::{Ask, Draft, DraftBlocker, DraftUuid, Form, GroupStep, LookAt, Pick, QUEUES, Target};

/// What a step is resolved against.
pub struct Moment<'a> {
    pub seen: &'a Snapshot,
    pub next_number: JobNumber,
    pub wall_ms: i64,
    pub asker: ClientId,
}

impl Moment<'_> {
    pub fn command(&self, ask: &Ask) -> Command {
        match ask {
            Ask::Enqueue(draft) => Command::Enqueue(Box::new(self.new_job(draft))),
            Ask::Run { draft, wait_ms } => Command::Run { job: Box::new(self.new_job(draft)), wait_ms: *wait_ms },
            Ask::Lease(request) => Command::Lease(Box::new(request.clone())),
            Ask::Complete { target, by, result } => {
                Command::Complete { job: self.job_ref(target), by: *by, result: bytes(*result) }
            }
            Ask::Fail { target, by, result } => {
                Command::Fail { job: self.job_ref(target), by: *by, result: bytes(*result) }
            }
            Ask::Release { target, again } => Command::Release { job: self.job_ref(target), again: *again },
            Ask::Bury { target, urgency } => Command::Bury { job: self.job_ref(target), urgency: *urgency },
            Ask::Revive { queue, count_max } => {
                Command::Revive { queue: QueueName::new(QUEUES[*queue]), count_max: *count_max }
            }
            Ask::ReviveJob(target) => Command::ReviveJob { job: self.job_ref(target) },
            Ask::Pause { queue, pause_ms } => {
                Command::Pause { queue: QueueName::new(QUEUES[*queue]), pause_ms: *pause_ms }
            }
            Ask::Attend { queue, role, keeps_queue } => {
                Command::Attend { queue: queue.clone(), role: *role, keeps_queue: *keeps_queue }
            }
            Ask::Leave(queue) => Command::Leave { queue: queue.clone() },
            Ask::Extend(target) => Command::Extend { job: self.job_ref(target) },
            Ask::Remove { target, by } => Command::Remove { job: self.job_ref(target), by: *by },
            Ask::LeaseJob { target, hold } => Command::LeaseJob { job: self.job_ref(target), hold: *hold },
            Ask::Await { target, wait_ms } => Command::Await { job: self.job_ref(target), wait_ms: *wait_ms },
            Ask::ClaimOrigins(which) => Command::ClaimOrigins { beginning: which.iter().copied().collect() },
            Ask::CloseOrigin(which) => Command::CloseOrigin { origin: [*which].into() },
            Ask::Group(steps) => Command::Group(steps.iter().map(|step| self.group_step(step)).collect()),
            Ask::Look(look) => Command::Look(self.look(look)),
        }
    }

    fn group_step(&self, step: &GroupStep) -> jobyard_engine::Step {
        match step {
            GroupStep::Enqueue(draft) => jobyard_engine::Step::Enqueue(Box::new(self.new_job(draft))),
            GroupStep::Complete(target) => jobyard_engine::Step::Complete(self.job_ref(target)),
            GroupStep::Invalid => jobyard_engine::Step::Invalid,
        }
    }

    fn look(&self, look: &LookAt) -> Look {
        match *look {
            LookAt::Job(ref target) => Look::Job(self.job_ref(target)),
            LookAt::Jobs { queue, which, offset, count_max } => {
                Look::Jobs { queue: QueueName::new(QUEUES[queue]), which, offset, count_max }
            }
            LookAt::Queue(queue) => Look::Queue(QueueName::new(QUEUES[queue])),
            LookAt::Queues { order, all, offset, count_max } => {
                let nameable = if all { |_: &[u8]| true } else { |name: &[u8]| name.is_ascii() && !name.is_empty() };
                Look::Queues { order, nameable, offset, count_max }
            }
            LookAt::Server => Look::Server,
            LookAt::Sum => Look::Sum,
            LookAt::Origins { after, count_max } => Look::Origins { after: [after].into(), count_max },
        }
    }

    fn new_job(&self, draft: &Draft) -> NewJob {
        let uuid = draft.uuid.map(|uuid| match uuid {
            DraftUuid::Own(which) => Uuid(0x6ba7_b810_9dad_41d1_80b4_00c0_4fd4_30c0 + u128::from(which)),
            DraftUuid::OfJob(pick) => Uuid::of_number(self.number(pick)),
        });
        let blockers = draft.blockers.iter().map(|blocker| match *blocker {
            DraftBlocker::Job(pick) => Blocker::Number(self.number(pick)),
            DraftBlocker::Previous(back) => Blocker::Previous(back),
        });
        let start = match draft.rules.start {
            start @ (Start::Now | Start::After(_) | Start::Buried) => start,
            Start::At { wall_ms, rank } => Start::At { wall_ms: self.wall_ms + wall_ms, rank },
        };
        NewJob { uuid, blockers: blockers.collect(), start, ..NewJob::clone(&draft.rules) }
    }

    fn job_ref(&self, target: &Target) -> JobRef {
        let number = self.number(target.pick);
        let job = self.seen.jobs.iter().find(|job| job.number == number);
        let uuid = job.map_or(Uuid::of_number(number), |job| job.uuid);
        match target.form {
            Form::Number => JobRef::Number(number),
            Form::Uuid => JobRef::Uuid(uuid),
            Form::InItsQueue => JobRef::InQueue(uuid, job.map_or(QueueName::new(QUEUES[0]), |job| job.queue.clone())),
            Form::InQueue(queue) => JobRef::InQueue(uuid, QueueName::new(QUEUES[queue])),
        }
    }

    fn number(&self, pick: Pick) -> JobNumber {
        let nth = |index: usize, fits: &dyn Fn(&JobSnapshot) -> bool| {
            let fitting: Vec<JobNumber> = self.seen.jobs.iter().filter(|job| fits(job)).map(|job| job.number).collect();
            fitting.get(index % fitting.len().max(1)).copied().unwrap_or(self.next_number)
        };
        match pick {
            Pick::Held(index) => nth(index, &|job| job.held_by == Some(self.asker)),
            Pick::Leased(index) => nth(index, &|job| job.lease.is_some()),
            Pick::Resting(index) => nth(index, &|job| matches!(job.delay_until, Some(Due::Engine(_)))),
            Pick::Run(index) => nth(index, &|job| job.runs),
            Pick::Buried(index) => nth(index, &|job| job.state == StateView::Buried),
            Pick::Living(index) => nth(index, &|_| true),
            Pick::Recent(ago) => self.next_number.saturating_sub(ago),
            Pick::Future(ahead) => self.next_number + ahead,
        }
    }
}

fn bytes(result: u8) -> Box<[u8]> {
    vec![b'r'; usize::from(result)].into()
}
