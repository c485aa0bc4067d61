//! Putting jobs, and letting them start: at once, at a date, or when their last blocker is gone.

use std::collections::BTreeSet;

use crate::broken;
use crate::changes::Why;
use crate::command::{Blocker, NewJob, Start};
use crate::delay::Delay;
use crate::engine::{Answers, Engine};
use crate::names::{ClientId, JobNumber, QueueName, Uuid};
use crate::record::Record;
use crate::record_job::Enqueued;
use crate::reply::{Refusal, Reply};
use crate::time::{NEVER_MS, Now};

/// What the steps of a group that were checked so far would do.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    /// How many jobs they would put.
    pub(crate) enqueues: usize,
    /// The UUIDs of these.
    pub(crate) uuids: BTreeSet<Uuid>,
    /// UUIDs that would be free again.
    pub(crate) freed: BTreeSet<Uuid>,
    /// Queues that would come to exist.
    pub(crate) queues: BTreeSet<QueueName>,
    /// Origins that would be open.
    pub(crate) origins: BTreeSet<Box<[u8]>>,
}

impl Engine {
    pub(crate) fn handle_enqueue(&mut self, now: Now, client: ClientId, job: NewJob, answers: &mut Answers<'_>) {
        let claimed = self.check_claimed(client, &job);
        if let Err(refusal) = claimed.and_then(|()| self.check_enqueue(now, &job, &Pending::default())) {
            return answers(client, Reply::Refused(refusal));
        }
        self.store.attending.note_put(client);
        let number = self.enqueue(now, job, &[], false);
        let uuid = self.store.job(number).uuid();
        answers(client, Reply::Enqueued { number, uuid });
    }

    /// Whether a job comes from where this client may bring jobs from.
    pub(crate) fn check_claimed(&self, client: ClientId, job: &NewJob) -> Result<(), Refusal> {
        job.origin.as_deref().map_or(Ok(()), |origin| self.store.claims.check(client, origin))
    }

    /// Whether a job may be put after the pending steps.
    pub(crate) fn check_enqueue(&self, now: Now, job: &NewJob, pending: &Pending) -> Result<(), Refusal> {
        if let (Start::At { wall_ms, .. }, Some(lifetime_ms)) = (job.start, job.lifetime_ms)
            && i128::from(wall_ms) + i128::from(lifetime_ms) <= i128::from(now.wall_ms)
        {
            return Err(Refusal::LifetimeOver);
        }
        if let Some(uuid) = job.uuid {
            let lives = self.store.number_of(uuid).is_some() && !pending.freed.contains(&uuid);
            let lives = lives && !broken("engine-id-given-twice");
            if lives || pending.uuids.contains(&uuid) {
                return Err(Refusal::DuplicateUuid);
            }
            if uuid.number().is_some() {
                return Err(Refusal::ReservedUuid);
            }
        }
        if let Some(origin) = &job.origin
            && (self.store.origins.contains_key(origin) || pending.origins.contains(origin))
            && !broken("engine-origin-forgotten")
        {
            return Err(Refusal::OriginOpen);
        }
        let known = |blocker: &Blocker| match *blocker {
            Blocker::Number(_) => true,
            Blocker::Previous(back) => (1..=pending.enqueues).contains(&back),
        };
        if !job.blockers.iter().all(known) {
            return Err(Refusal::NoSuchPrevious);
        }
        let is_new = !self.store.queues.exists(&job.queue) && !pending.queues.contains(&job.queue);
        if is_new && job.queue.as_bytes().len() > self.limits.queue_name_bytes_max {
            return Err(Refusal::QueueNameTooLong);
        }
        if is_new && self.store.queues.len() + pending.queues.len() >= self.limits.queues_max {
            return Err(Refusal::TooManyQueues);
        }
        Ok(())
    }

    /// Puts a job that was checked. `previous` are the jobs that its group put before it.
    pub(crate) fn enqueue(&mut self, now: Now, job: NewJob, previous: &[JobNumber], runs: bool) -> JobNumber {
        let NewJob { queue, body, urgency, uuid, name, own_time, start, lifetime_ms, attempts, failures, .. } = job;
        let (blockers, keeps_queue, origin) = (job.blockers, job.keeps_queue, job.origin);
        let blockers = if broken("engine-block-ignored") { Vec::new() } else { blockers };
        let late_ms = if broken("engine-lifetime-late") { 60_000 } else { 0 };
        let lifetime_ms =
            lifetime_ms.filter(|_| !broken("engine-lifetime-ignored")).map(|ms| ms.saturating_add(late_ms));
        let blockers = self.unfinished_blockers(blockers, previous);
        let number = self.store.next_number;
        let date = match start {
            Start::Now | Start::After(_) | Start::Buried => None,
            Start::At { .. } if broken("engine-delay-ignored") => None,
            Start::At { wall_ms, rank } => Some((wall_ms, rank)),
        };
        let date_ms = date.map(|(wall_ms, _)| wall_ms);
        let delay_ms = if let Start::After(ms) = start { ms } else { 0 };
        let delay = match delay_ms {
            0 => None,
            _ if blockers.is_empty() => Some(Delay::from_now(now, delay_ms)),
            _ => Delay::of_length(delay_ms),
        };
        let (place, begun) = if blockers.is_empty() {
            (self.store.next_place, begin(now, date_ms, lifetime_ms))
        } else {
            (0, begin_blocked(now, date_ms, lifetime_ms))
        };
        let is_buried = start == Start::Buried && blockers.is_empty();
        self.counters.enqueued += 1;
        if keeps_queue {
            self.create_queue(&queue);
        }
        let id = self.find_or_make_queue(&queue);
        self.store.queues.get_mut(id).totals.enqueued += u64::from(!broken("engine-jobs-of-queue-uncounted"));
        self.commit(Record::Enqueued(Enqueued {
            number,
            place,
            created_wall_ms: now.wall_ms,
            queue: queue.as_bytes(),
            body,
            urgency,
            own_time,
            uuid,
            name,
            lifetime_ms,
            expires_ms: begun.expires_ms,
            attempts,
            failures,
            blockers,
            date,
            delayed: begun.delayed,
            delay,
            runs,
            origin,
        }));
        if is_buried {
            self.commit(Record::Buried { number, urgency, order: self.store.next_burial });
        }
        self.note(Why::Put);
        number
    }

    fn unfinished_blockers(&self, blockers: Vec<Blocker>, previous: &[JobNumber]) -> Vec<JobNumber> {
        let mut numbers: Vec<JobNumber> = blockers
            .into_iter()
            .map(|blocker| match blocker {
                Blocker::Number(number) => number,
                Blocker::Previous(back) => previous[previous.len() - back],
            })
            .filter(|&number| self.store.jobs.get(number).is_some_and(|job| !job.finished()))
            .collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    /// A blocked job's last blocker is gone: it goes to the back of its queue, or waits for its date.
    pub(crate) fn unblock(&mut self, now: Now, number: JobNumber) {
        let rare = self.store.job(number).rare.as_deref();
        let date = rare.and_then(|rare| rare.date).map(|(wall_ms, _)| wall_ms);
        let begun = begin(now, date, rare.and_then(|rare| rare.lifetime_ms));
        // Without a date its lifetime began when it was put.
        let expires_ms = if date.is_none() { rare.and_then(|rare| rare.expires_ms) } else { begun.expires_ms };
        let place = self.store.next_place;
        let delay_ms = rare.map_or(0, |rare| rare.delay_ms);
        self.commit(Record::Unblocked { number, place, delayed: begun.delayed, expires_ms });
        if delay_ms > 0 {
            let (urgency, delay) = (self.store.job(number).urgency, Some(Delay::from_now(now, delay_ms)));
            self.commit(Record::Released { number, urgency, delay });
        }
        self.note(Why::Unblocked);
    }

    /// A delayed job's date has come.
    pub(crate) fn wake(&mut self, now: Now, number: JobNumber) {
        let rare = self.store.job(number).rare.as_deref().expect("a job with a date has a rare part");
        let date = rare.date.map(|(wall_ms, _)| wall_ms);
        let expires_ms = begin(now, date, rare.lifetime_ms).expires_ms;
        self.commit(Record::Woke { number, expires_ms });
        self.note(Why::DateCame);
    }
}

/// How a job begins.
struct Begun {
    delayed: bool,
    expires_ms: Option<u64>,
}

/// How a job that nothing blocks begins.
fn begin(now: Now, date: Option<i64>, lifetime_ms: Option<u64>) -> Begun {
    let delayed = date.is_some_and(|date| date > now.wall_ms);
    let expires_ms = if delayed { None } else { lifetime_ms.map(|ms| life_end(now, date, ms)) };
    Begun { delayed, expires_ms }
}

/// When a lifetime ends, on engine time, that begins at a date, or now.
pub(crate) fn life_end(now: Now, date: Option<i64>, lifetime_ms: u64) -> u64 {
    let begins = i128::from(date.unwrap_or(now.wall_ms));
    let left_ms = (begins + i128::from(lifetime_ms) - i128::from(now.wall_ms)).max(0);
    now.engine_ms.saturating_add(u64::try_from(left_ms).unwrap_or(NEVER_MS))
}

/// How a blocked job begins: its lifetime runs, unless it is to run from a date.
fn begin_blocked(now: Now, date: Option<i64>, lifetime_ms: Option<u64>) -> Begun {
    let expires_ms = if date.is_some() { None } else { begin(now, None, lifetime_ms).expires_ms };
    Begun { delayed: false, expires_ms }
}
