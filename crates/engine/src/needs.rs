//! What a command asks of the log, so that it can be refused before it is decided when the disk is full.

use crate::command::{Command, FailureRule, JobRef, NewJob, Step, UsedUp};
use crate::engine::Engine;
use crate::job::State;
use crate::record_job::JOB_HEAD_MAX;

/// What a command needs of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Needs {
    /// It writes nothing, or less than what it makes superfluous.
    Nothing,
    /// It writes a little: a lease, a failure.
    Little,
    /// It brings something along that will be kept: a job, a queue, a result.
    Room,
}

/// More than a record takes that has no body, no name and no result in it.
const SMALL_RECORD: usize = 64;

impl Command {
    fn record_bytes_max(&self) -> usize {
        match self {
            Command::Enqueue(job) => new_job_bytes_max(job),
            // It may be leased, and removed, at once.
            Command::Run { job, .. } => new_job_bytes_max(job) + 2 * SMALL_RECORD,
            Command::Lease(request) => {
                let names: usize = request.queues.iter().map(|name| SMALL_RECORD + name.as_bytes().len()).sum();
                if request.creates_queues { names + SMALL_RECORD } else { SMALL_RECORD }
            }
            Command::Complete { result, .. } => SMALL_RECORD + result.len(),
            Command::Fail { result, .. } => 2 * SMALL_RECORD + result.len(),
            // How many it finds is for the engine to say.
            Command::Revive { .. } => 0,
            Command::ReviveJob { .. } | Command::LeaseJob { .. } => 2 * SMALL_RECORD,
            // Who runs the job may be gone.
            Command::Release { .. } | Command::Bury { .. } => 2 * SMALL_RECORD,
            Command::Remove { .. } | Command::CloseOrigin { .. } => SMALL_RECORD,
            Command::Group(steps) => steps.iter().map(step_bytes_max).sum(),
            Command::Attend { queue, keeps_queue: true, .. } => SMALL_RECORD + queue.as_bytes().len(),
            Command::Attend { .. }
            | Command::ClaimOrigins { .. }
            | Command::Leave { .. }
            | Command::Extend { .. }
            | Command::Pause { .. }
            | Command::Await { .. }
            | Command::Look(_) => 0,
        }
    }
}

fn step_bytes_max(step: &Step) -> usize {
    match step {
        Step::Enqueue(job) => new_job_bytes_max(job),
        Step::Complete(_) => SMALL_RECORD,
        Step::Invalid => 0,
    }
}

fn new_job_bytes_max(job: &NewJob) -> usize {
    const BLOCKER: usize = 10;
    let queue = SMALL_RECORD + job.queue.as_bytes().len();
    let moves_to = match &job.failures {
        Some(FailureRule { used_up: UsedUp::MoveTo(queue), .. }) => queue.as_bytes().len(),
        _ => 0,
    };
    let name = job.name.as_ref().map_or(0, |name| name.len());
    let origin = job.origin.as_ref().map_or(0, |origin| origin.len());
    let full = JOB_HEAD_MAX + job.queue.as_bytes().len() + job.body.len() + name + moves_to + origin;
    // Someone may wait for it, or it is buried at once.
    let lease = SMALL_RECORD;
    queue + full + BLOCKER * job.blockers.len() + lease
}

impl Engine {
    /// At most so many bytes does this command add to [`Engine::records`] for itself and what it brings along. What it sets
    /// off beside that is not counted: jobs that it unblocks, takes along or uses up, the queues to which jobs of old move.
    #[must_use]
    pub fn record_bytes_max(&self, command: &Command) -> usize {
        match command {
            // Each may be leased at once.
            Command::Revive { queue, count_max } => self.revivable(queue, *count_max) * 2 * SMALL_RECORD,
            _ => command.record_bytes_max(),
        }
    }

    /// What a command needs of the log, as things stand.
    #[must_use]
    pub fn needs(&self, command: &Command) -> Needs {
        match command {
            Command::Enqueue(_) | Command::Run { .. } => Needs::Room,
            Command::Group(_) if command.enqueues() => Needs::Room,
            Command::Attend { queue, keeps_queue: true, .. } if !self.store.queues.is_kept(queue) => Needs::Room,
            Command::Lease(request) => {
                let is_new = |name| !self.store.queues.exists(name);
                if request.creates_queues && request.queues.iter().any(is_new) {
                    return Needs::Room;
                }
                // One that ends with its connection is not written, or only counted.
                if request.hold.parting().is_some() { Needs::Nothing } else { Needs::Little }
            }
            Command::Complete { job, result, .. } if !result.is_empty() && self.keeps_result(job) => Needs::Room,
            Command::Fail { job, result, .. } => {
                let keeps =
                    self.find(job).is_ok_and(|job| job.failure_rule().is_some_and(|rule| rule.used_up == UsedUp::Keep));
                if !result.is_empty() && keeps && self.keeps_result(job) { Needs::Room } else { Needs::Little }
            }
            Command::LeaseJob { job, hold } => {
                let is_ready = self.find(job).is_ok_and(|job| job.state == State::Ready);
                if hold.parting().is_some() && is_ready { Needs::Nothing } else { Needs::Little }
            }
            Command::Release { again: Some(_), .. }
            | Command::Bury { .. }
            | Command::Revive { .. }
            | Command::ReviveJob { .. } => Needs::Little,
            Command::Attend { .. }
            | Command::Leave { .. }
            | Command::Complete { .. }
            | Command::Release { again: None, .. }
            | Command::Extend { .. }
            | Command::Pause { .. }
            | Command::Remove { .. }
            | Command::ClaimOrigins { .. }
            | Command::CloseOrigin { .. }
            | Command::Await { .. }
            | Command::Group(_)
            | Command::Look(_) => Needs::Nothing,
        }
    }

    /// Whether a job stays when it is finished.
    fn keeps_result(&self, job: &JobRef) -> bool {
        self.find(job).is_ok_and(|job| job.rare.as_ref().is_some_and(|rare| rare.lifetime_ms.is_some()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{
        Again, AttemptRule, Backoff, Blocker, By, Choice, DateRank, Hold, LeaseRequest, OwnTime, Start, Wait,
    };
    use crate::{ClientId, Limits, Now, QueueName, Uuid};

    const NOW: Now = Now { engine_ms: u64::MAX / 2, wall_ms: i64::MIN, random: 0 };

    fn name(bytes: usize) -> QueueName {
        QueueName::new(&vec![b'q'; bytes])
    }

    /// A job all of whose parts are as long as they get.
    fn large(uuid: u128) -> NewJob {
        NewJob {
            urgency: i128::MIN,
            uuid: Some(Uuid(u128::MAX - uuid)),
            name: Some("n".repeat(300).into()),
            own_time: OwnTime::Millis(u64::MAX),
            start: Start::At { wall_ms: i64::MAX, rank: DateRank::Behind },
            lifetime_ms: Some(u64::MAX),
            attempts: Some(AttemptRule { max: Some(u32::MAX) }),
            failures: Some(FailureRule {
                allowed: Some(u64::MAX),
                backoff: Backoff::Quartic,
                used_up: UsedUp::MoveTo(name(400)),
                parting_counts: true,
            }),
            blockers: vec![Blocker::Number(COUNTED + 1), Blocker::Number(COUNTED + 2)],
            origin: Some(uuid.to_le_bytes().repeat(20).into()),
            ..NewJob::plain(name(200), vec![0; 20_000].into())
        }
    }

    /// So many numbers and places have been given.
    const COUNTED: u64 = (1 << 62) - 1_000;

    fn engine() -> Engine {
        let mut engine = Engine::new(Limits::default(), (1 << 24) - 1, 0);
        engine.store.raise(COUNTED, COUNTED);
        engine.store.queues.next_ordinal = COUNTED;
        let claim = Command::ClaimOrigins { beginning: Box::default() };
        engine.handle(NOW, ClientId(1), claim, &mut |_, _| {});
        for _ in 0..2 {
            let job = NewJob { lifetime_ms: Some(u64::MAX), ..NewJob::plain(name(0), Box::default()) };
            engine.handle(NOW, ClientId(1), Command::Enqueue(Box::new(job)), &mut |_, _| {});
        }
        engine.clear_records();
        engine
    }

    #[track_caller]
    fn check_bound(command: &Command) {
        let mut engine = engine();
        engine.handle(NOW, ClientId(1), command.clone(), &mut |_, _| {});
        let (written, bound) = (engine.records().len(), command.record_bytes_max());
        assert!(written <= bound, "{written} bytes written, at most {bound} foreseen: {command:?}");
        assert!(bound < written * 2 + 1_000, "{written} bytes written, {bound} foreseen");
        assert!(written > 0, "it was carried out: {command:?}");
    }

    fn lease(queues: Vec<QueueName>, creates_queues: bool) -> Command {
        let hold = Hold::For(u64::MAX);
        let request = LeaseRequest {
            queues,
            choice: Choice::Best,
            hold,
            wait: Wait::No,
            creates_queues,
            body_without: None,
            heeds_ms: None,
        };
        Command::Lease(Box::new(request))
    }

    #[test]
    fn no_command_writes_more_than_was_foreseen() {
        let job = JobRef::Number(COUNTED + 1);
        check_bound(&Command::Enqueue(Box::new(large(1))));
        check_bound(&Command::Enqueue(Box::new(NewJob { start: Start::After(u64::MAX), ..large(1) })));
        check_bound(&Command::Enqueue(Box::new(NewJob { start: Start::Buried, blockers: Vec::new(), ..large(1) })));
        check_bound(&Command::Run { job: Box::new(large(1)), wait_ms: 0 });
        check_bound(&Command::Group(vec![Step::Enqueue(Box::new(large(1))), Step::Enqueue(Box::new(large(2)))]));
        check_bound(&lease((0..100).map(name).collect(), true));
        check_bound(&lease(vec![name(0)], false));
        check_bound(&Command::Complete { job: job.clone(), by: By::Anyone, result: vec![0; 5_000].into() });
        check_bound(&Command::Fail { job: job.clone(), by: By::Anyone, result: vec![0; 100].into() });
        check_bound(&Command::Remove { job, by: By::Anyone });
    }

    #[test]
    fn a_command_is_small_unless_it_brings_something_that_stays() {
        let mut engine = engine();
        let kept = JobRef::Number(COUNTED + 1);
        let plain = NewJob::plain(name(0), Box::default());
        engine.handle(NOW, ClientId(1), Command::Enqueue(Box::new(plain)), &mut |_, _| {});
        let forgotten = JobRef::Number(COUNTED + 3);
        let complete =
            |job: &JobRef, result: &[u8]| Command::Complete { job: job.clone(), by: By::Anyone, result: result.into() };
        let fail = Command::Fail { job: kept.clone(), by: By::Anyone, result: b"r"[..].into() };
        for (command, needs) in [
            (Command::Enqueue(Box::new(large(1))), Needs::Room),
            (Command::Group(vec![Step::Enqueue(Box::new(large(1)))]), Needs::Room),
            (Command::Group(vec![Step::Complete(kept.clone())]), Needs::Nothing),
            (Command::Release { job: kept.clone(), again: None }, Needs::Nothing),
            (Command::Release { job: kept.clone(), again: Some(Again { urgency: 1, delay_ms: 1 }) }, Needs::Little),
            (Command::LeaseJob { job: kept.clone(), hold: Hold::Connection(crate::Parting::Release) }, Needs::Nothing),
            (Command::LeaseJob { job: kept.clone(), hold: Hold::Endless }, Needs::Little),
            (Command::Bury { job: kept.clone(), urgency: 1 }, Needs::Little),
            (Command::Revive { queue: name(0), count_max: 1 }, Needs::Little),
            (Command::ReviveJob { job: kept.clone() }, Needs::Little),
            (Command::Extend { job: kept.clone() }, Needs::Nothing),
            (lease(vec![name(0)], true), Needs::Little),
            (lease(vec![name(1)], true), Needs::Room),
            (lease(vec![name(1)], false), Needs::Little),
            (complete(&kept, b"r"), Needs::Room),
            (complete(&kept, b""), Needs::Nothing),
            (complete(&forgotten, b"r"), Needs::Nothing),
            (fail, Needs::Little),
            (Command::Remove { job: kept, by: By::Anyone }, Needs::Nothing),
        ] {
            assert_eq!(engine.needs(&command), needs, "{command:?}");
        }
    }

    #[test]
    fn what_is_foreseen_is_little_more_than_what_is_brought_along() {
        let plain = || NewJob::plain(name(7), vec![0; 100].into());
        let put = |job| Command::Enqueue(Box::new(job));
        // Its queue, itself, and a lease.
        let usual = 64 + 7 + JOB_HEAD_MAX + 7 + 100 + 64;
        let job = JobRef::Number(1);
        let used_up = UsedUp::MoveTo(name(30));
        let moves = FailureRule { allowed: None, backoff: Backoff::None, used_up, parting_counts: false };
        let keeps = FailureRule { used_up: UsedUp::Keep, ..moves.clone() };
        let steps = vec![
            Step::Enqueue(Box::new(plain())),
            Step::Complete(job.clone()),
            Step::Complete(job.clone()),
            Step::Invalid,
        ];
        for (command, bytes) in [
            (put(plain()), usual),
            (put(NewJob { name: Some("named".into()), ..plain() }), usual + 5),
            (put(NewJob { origin: Some([0; 9].into()), ..plain() }), usual + 9),
            (put(NewJob { failures: Some(moves), ..plain() }), usual + 30),
            (put(NewJob { failures: Some(keeps), ..plain() }), usual),
            (put(NewJob { blockers: vec![Blocker::Number(1); 3], ..plain() }), usual + 30),
            (Command::Run { job: Box::new(plain()), wait_ms: 0 }, usual + 128),
            (Command::Group(steps), usual + 128),
            (lease(vec![name(1), name(3)], true), 64 + 1 + 64 + 3 + 64),
            (lease(vec![name(1), name(3)], false), 64),
            (Command::Complete { job: job.clone(), by: By::Anyone, result: vec![0; 10].into() }, 74),
            (Command::Fail { job: job.clone(), by: By::Anyone, result: vec![0; 10].into() }, 138),
            (Command::Release { job: job.clone(), again: None }, 128),
            (Command::Bury { job: job.clone(), urgency: 0 }, 128),
            (Command::ReviveJob { job: job.clone() }, 128),
            (Command::Extend { job: job.clone() }, 0),
            (Command::Remove { job: job.clone(), by: By::Anyone }, 64),
            (Command::CloseOrigin { origin: Box::default() }, 64),
            (Command::Await { job, wait_ms: 1 }, 0),
        ] {
            assert_eq!(command.record_bytes_max(), bytes, "{command:?}");
        }
    }

    #[test]
    fn a_failure_is_small_unless_its_result_is_kept() {
        let mut engine = engine();
        let mut put = |used_up, lifetime_ms| {
            let failures = FailureRule { allowed: None, backoff: Backoff::None, used_up, parting_counts: false };
            let job = NewJob { failures: Some(failures), lifetime_ms, ..NewJob::plain(name(0), Box::default()) };
            engine.handle(NOW, ClientId(1), Command::Enqueue(Box::new(job)), &mut |_, _| {});
            JobRef::Number(engine.store.next_number - 1)
        };
        let kept = put(UsedUp::Keep, Some(1_000));
        let (moved, gone) = (put(UsedUp::MoveTo(name(1)), Some(1_000)), put(UsedUp::Remove, Some(1_000)));
        let forgotten = put(UsedUp::Keep, None);
        let fail =
            |job: &JobRef, result: &[u8]| Command::Fail { job: job.clone(), by: By::Anyone, result: result.into() };
        assert_eq!(engine.needs(&fail(&kept, b"r")), Needs::Room);
        for little in [fail(&kept, b""), fail(&moved, b"r"), fail(&gone, b"r"), fail(&forgotten, b"r")] {
            assert_eq!(engine.needs(&little), Needs::Little, "{little:?}");
        }
        let hold = Hold::Connection(crate::Parting::Release);
        let (queues, choice, wait) = (vec![name(0)], Choice::Best, Wait::No);
        let request =
            LeaseRequest { queues, choice, hold, wait, creates_queues: true, body_without: None, heeds_ms: None };
        assert_eq!(engine.needs(&Command::Lease(Box::new(request))), Needs::Nothing, "it is not written");
    }
}
