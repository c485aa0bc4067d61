//! What a request asks of the engine.

use jobyard_engine::{
    Again, By, Choice, Command, Hold, JobRef, LeaseRequest, Look, NewJob, OwnTime, Parting, QueueName, QueueOrder,
    Role, Start, Wait, Which,
};

use super::line::{Origin, Put, Request, is_tube};
use super::{Asked, Beanstalkd, DEFAULT_TUBE, stats, write};
use crate::codec::Next;

/// Whoever waits is told when a job that it holds has no more time left than this.
const SAFETY_MARGIN_MS: u64 = 1_000;

/// How many origins are shown at a time.
const ORIGINS_SHOWN_MAX: usize = 1_000;

/// What a job is taken for: its time, and no longer than the connection lasts.
pub const HOLD: Hold = Hold::ConnectionTimed(Parting::Release);

impl Beanstalkd {
    /// Carries out a request that has no body.
    pub(super) fn request(&mut self, request: Request, out: &mut Vec<u8>) -> Next {
        match request {
            Request::Put(_) | Request::PutOrigin(..) => unreachable!("its body comes first"),
            Request::ClaimOrigins(beginning) => self.ask(Asked::Word("CLAIMED"), Command::ClaimOrigins { beginning }),
            Request::CloseOrigin(origin) => self.ask(Asked::Word("CLOSED"), Command::CloseOrigin { origin }),
            Request::ListOrigins(after) => {
                self.look(Asked::Origins, Look::Origins { after, count_max: ORIGINS_SHOWN_MAX })
            }
            Request::Reserve(wait) => self.ask(Asked::Reserve, reserve(self.watched.clone(), wait)),
            Request::ReserveJob(number) => {
                self.ask(Asked::ReserveJob, Command::LeaseJob { job: JobRef::Number(number), hold: HOLD })
            }
            Request::Delete(number) => {
                let (job, by) = (JobRef::Number(number), By::HolderOrNobody);
                self.ask(Asked::Word("DELETED"), Command::Remove { job, by })
            }
            Request::Release { number, priority, delay_s } => {
                let again = Again { urgency: urgency(priority), delay_ms: millis(delay_s) };
                let job = JobRef::Number(number);
                self.ask(Asked::Word("RELEASED"), Command::Release { job, again: Some(again) })
            }
            Request::Bury { number, priority } => {
                let (job, urgency) = (JobRef::Number(number), urgency(priority));
                self.ask(Asked::Word("BURIED"), Command::Bury { job, urgency })
            }
            Request::Touch(number) => self.ask(Asked::Word("TOUCHED"), Command::Extend { job: JobRef::Number(number) }),
            Request::Kick(count) => {
                let (queue, count_max) = (self.used.clone(), count as usize);
                self.ask(Asked::Kick, Command::Revive { queue, count_max })
            }
            Request::KickJob(number) => {
                self.ask(Asked::Word("KICKED"), Command::ReviveJob { job: JobRef::Number(number) })
            }
            Request::Peek(number) => self.look(Asked::Job, Look::Job(JobRef::Number(number))),
            Request::PeekReady => self.peek(Which::Ready),
            Request::PeekDelayed => self.peek(Which::Due),
            Request::PeekBuried => self.peek(Which::Buried),
            Request::Stats => self.look(Asked::Statistics, Look::Sum),
            Request::StatsJob(number) => self.look(Asked::JobStatistics, Look::Job(JobRef::Number(number))),
            Request::StatsTube(tube) => self.look(Asked::TubeStatistics, Look::Queue(tube)),
            Request::ListTubes => self.look(Asked::Tubes, all_tubes()),
            Request::PauseTube { tube, pause_s } => {
                let command = Command::Pause { queue: tube, pause_ms: millis(pause_s) };
                self.ask(Asked::Word("PAUSED"), command)
            }
            Request::Use(tube) => self.attend(Asked::Use(tube.clone()), tube, Role::Putter),
            Request::Watch(tube) => self.attend(Asked::Watch(tube.clone()), tube, Role::Taker),
            Request::Ignore(tube) => self.ignore(tube, out),
            Request::ListTubeUsed => {
                write::named(out, "USING", &self.used);
                Next::Answered
            }
            Request::ListTubesWatched => {
                stats::names(self.watched.iter().map(QueueName::as_bytes), out);
                Next::Answered
            }
            Request::Quit => Next::Close,
        }
    }

    fn look(&mut self, asked: Asked, look: Look) -> Next {
        self.ask(asked, Command::Look(look))
    }

    /// The first job of the used tube that stands there.
    fn peek(&mut self, which: Which) -> Next {
        let look = Look::Jobs { queue: self.used.clone(), which, offset: 0, count_max: 1 };
        self.look(Asked::Jobs, look)
    }

    fn attend(&mut self, asked: Asked, tube: QueueName, role: Role) -> Next {
        let keeps_queue = keeps_queue(&tube);
        self.ask(asked, Command::Attend { queue: tube, role, keeps_queue })
    }

    fn ignore(&mut self, tube: QueueName, out: &mut Vec<u8>) -> Next {
        if self.watched == [tube.clone()] {
            write::line(out, "NOT_IGNORED");
            return Next::Answered;
        }
        self.ask(Asked::Ignore(tube.clone()), Command::Leave { queue: tube })
    }

    pub(super) fn used_now(&mut self, tube: QueueName, out: &mut Vec<u8>) {
        write::named(out, "USING", &tube);
        if !crate::broken("protocols-used-tube-forgotten") {
            self.used = tube;
        }
    }

    pub(super) fn watched_now(&mut self, tube: QueueName, out: &mut Vec<u8>) {
        if !self.watched.contains(&tube) {
            self.watched_bytes += name_bytes(&tube);
            self.watched.push(tube);
        }
        let wrong = u64::from(crate::broken("protocols-watched-miscounted"));
        write::counted(out, "WATCHING", self.watched.len() as u64 + wrong);
    }

    /// The last one takes the place of the one that goes: so the original lists them.
    pub(super) fn ignored_now(&mut self, tube: &QueueName, out: &mut Vec<u8>) {
        let at = self.watched.iter().position(|watched| watched == tube);
        if let Some(at) = at.filter(|_| !crate::broken("protocols-ignored-is-watched")) {
            self.watched_bytes -= name_bytes(tube);
            self.watched.swap_remove(at);
        }
        write::counted(out, "WATCHING", self.watched.len() as u64);
    }
}

/// The job that a put is for.
pub(super) fn enqueue(put: Put, origin: Option<Origin>, queue: QueueName, body: Box<[u8]>) -> Command {
    let start = match &origin {
        Some(Origin { is_buried: true, .. }) if !crate::broken("protocols-aside-is-ready") => Start::Buried,
        _ if put.delay_s == 0 => Start::Now,
        _ => Start::After(millis(put.delay_s)),
    };
    Command::Enqueue(Box::new(NewJob {
        start,
        origin: origin.map(|origin| origin.name),
        ..new_job(queue, put.priority, millis(put.ttr_s.max(1)), body)
    }))
}

/// A job as a put makes it, if it is to be ready at once.
#[must_use]
pub fn new_job(queue: QueueName, priority: u32, ttr_ms: u64, body: Box<[u8]>) -> NewJob {
    NewJob {
        urgency: urgency(priority),
        own_time: OwnTime::Millis(ttr_ms),
        keeps_queue: keeps_queue(&queue),
        ..NewJob::plain(queue, body)
    }
}

/// Whether a tube stays when nobody has to do with it any more.
fn keeps_queue(tube: &QueueName) -> bool {
    tube.as_bytes() == DEFAULT_TUBE
}

/// What a name takes that is kept: itself, its place in a list of which half may be free, and what its memory costs.
pub(super) fn name_bytes(tube: &QueueName) -> usize {
    const ALLOCATED: usize = 32;
    tube.as_bytes().len() + 2 * size_of::<QueueName>() + ALLOCATED
}

fn reserve(queues: Vec<QueueName>, wait: Wait) -> Command {
    Command::Lease(Box::new(LeaseRequest {
        queues,
        choice: Choice::Best,
        hold: HOLD,
        wait,
        creates_queues: false,
        body_without: None,
        heeds_ms: Some(SAFETY_MARGIN_MS),
    }))
}

fn all_tubes() -> Look {
    let offset = usize::from(crate::broken("protocols-tube-unlisted"));
    Look::Queues { order: QueueOrder::Created, nameable: is_tube, offset, count_max: usize::MAX }
}

/// The lower the number, the more urgent.
#[must_use]
pub fn urgency(priority: u32) -> i128 {
    if crate::broken("protocols-priority-reversed") { i128::from(priority) } else { -i128::from(priority) }
}

fn millis(seconds: u32) -> u64 {
    u64::from(seconds) * 1_000
}
