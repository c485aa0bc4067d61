//! One job: what it says, its rules, and where it stands.

use crate::command::{AttemptRule, By, DateRank, FailureRule, OwnTime};
use crate::names::{ClientId, JobNumber, LeaseId, Uuid};
use crate::queue::QueueId;
use crate::reply::{StateView, Tally};
use crate::time::NEVER_MS;
use crate::{Parting, UsedUp};

/// A job. What most jobs do not have lives apart in [`Rare`], so that a plain job stays small.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) number: JobNumber,
    /// Its place in the order; 0 while it is blocked and has none.
    pub(crate) place: u64,
    pub(crate) urgency: i128,
    pub(crate) body: Box<[u8]>,
    pub(crate) created_wall_ms: i64,
    pub(crate) own_time: OwnTime,
    pub(crate) state: State,
    pub(crate) queue: QueueId,
    /// What its queue's name takes in its record.
    pub(crate) queue_len: u32,
    /// Which stretch of the log holds its newest full record.
    pub(crate) stretch: u32,
    /// How often it was leased since the server's start.
    pub(crate) leases: u32,
    pub(crate) rare: Option<Box<Rare>>,
}

/// What few jobs have.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rare {
    pub(crate) uuid: Option<Uuid>,
    pub(crate) name: Option<Box<str>>,
    pub(crate) lifetime_ms: Option<u64>,
    /// When it expires, on engine time; not known before its date has come.
    pub(crate) expires_ms: Option<u64>,
    pub(crate) attempts: u64,
    pub(crate) attempt_rule: Option<AttemptRule>,
    pub(crate) failures: u64,
    pub(crate) failure_rule: Option<FailureRule>,
    /// Unfinished jobs that must be completed before this one, in order of number.
    pub(crate) blockers: Vec<JobNumber>,
    pub(crate) result: Option<Box<[u8]>>,
    pub(crate) date: Option<(i64, DateRank)>,
    /// How long it was to wait when it was put, or last released.
    pub(crate) delay_ms: u64,
    pub(crate) rank: Rank,
    /// Whether it was put by [`Command::Run`](crate::Command::Run) and ends with its client.
    pub(crate) runs: bool,
    /// What happened to it since the server's start, but for its leases; not durable.
    pub(crate) tally: Tally,
    /// Where it came from, if that is open.
    pub(crate) origin: Option<Box<[u8]>>,
}

/// Where a job stands among those of its urgency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    /// By due date, before the usual ones.
    Ahead(i64),
    #[default]
    Usual,
    /// By date, after the usual ones.
    Behind(i64),
}

/// Where a job stands. All but [`State::Held`] are durable: after a restart, held means ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Blocked,
    Delayed {
        due: Due,
        /// When that is on the wall clock, as far as one can say; for listings.
        shown_wall_ms: i64,
    },
    Ready,
    /// Leased beyond its taker's connection, until an engine time or for ever.
    Leased {
        lease: LeaseId,
        until_ms: u64,
    },
    /// Ready, but held by a client until its connection ends or its own time is over.
    Held {
        lease: LeaseId,
        client: ClientId,
        until_ms: u64,
        parting: Parting,
    },
    Done,
    Failed,
    /// Put aside; among those of its queue in this order.
    Buried {
        order: u64,
    },
}

/// The rank that a date gives.
pub(crate) fn dated_rank(date: Option<(i64, DateRank)>) -> Rank {
    match date {
        None => Rank::Usual,
        Some((wall_ms, DateRank::Ahead)) => Rank::Ahead(wall_ms),
        Some((wall_ms, DateRank::Behind)) => Rank::Behind(wall_ms),
    }
}

/// When a delay is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// On engine time.
    Engine(u64),
    /// On the wall clock.
    Wall(i64),
}

impl Job {
    pub(crate) fn uuid(&self) -> Uuid {
        self.rare.as_ref().and_then(|rare| rare.uuid).unwrap_or_else(|| Uuid::of_number(self.number))
    }

    pub(crate) fn rank(&self) -> Rank {
        self.rare.as_ref().map_or(Rank::Usual, |rare| rare.rank)
    }

    /// What happened to it since the server's start.
    pub(crate) fn tally(&self) -> Tally {
        Tally { leases: self.leases, ..self.rare.as_ref().map_or_else(Tally::default, |rare| rare.tally) }
    }

    /// When its lease or its delay ends by itself.
    pub(crate) fn until(&self) -> Option<Due> {
        match self.state {
            State::Leased { until_ms: NEVER_MS, .. } | State::Held { until_ms: NEVER_MS, .. } => None,
            State::Leased { until_ms, .. } | State::Held { until_ms, .. } => Some(Due::Engine(until_ms)),
            State::Delayed { due, .. } => Some(due),
            State::Blocked | State::Ready | State::Done | State::Failed | State::Buried { .. } => None,
        }
    }

    pub(crate) fn runs(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| rare.runs)
    }

    pub(crate) fn expires_ms(&self) -> Option<u64> {
        self.rare.as_ref().and_then(|rare| rare.expires_ms).filter(|&at| at != NEVER_MS)
    }

    pub(crate) fn counts_attempts(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| rare.attempt_rule.is_some())
    }

    /// Whether it has been leased as often as it may.
    pub(crate) fn attempts_used_up(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| {
            let max = rare.attempt_rule.and_then(|rule| rule.max);
            max.is_some_and(|max| rare.attempts >= u64::from(max)) && !crate::broken("engine-attempts-forgotten")
        })
    }

    /// Its attempts are used up, and there is one more.
    pub(crate) fn spare_one_attempt(&mut self) {
        let rare = self.rare_mut();
        if let Some(max) = rare.attempt_rule.and_then(|rule| rule.max) {
            rare.attempts = u64::from(max).saturating_sub(1);
        }
    }

    pub(crate) fn failure_rule(&self) -> Option<&FailureRule> {
        self.rare.as_ref().and_then(|rare| rare.failure_rule.as_ref())
    }

    pub(crate) fn blockers(&self) -> &[JobNumber] {
        self.rare.as_ref().map_or(&[], |rare| &rare.blockers)
    }

    /// Whether it is done or finally failed.
    pub(crate) fn finished(&self) -> bool {
        matches!(self.state, State::Done | State::Failed)
    }

    /// Where it came from, if that is open.
    pub(crate) fn origin(&self) -> Option<&[u8]> {
        self.rare.as_ref().and_then(|rare| rare.origin.as_deref())
    }

    /// Whether it is gone, and only its origin is left.
    pub(crate) fn is_over(&self) -> bool {
        self.state == State::Done
            && self.rare.as_ref().is_some_and(|rare| rare.origin.is_some() && rare.result.is_none())
    }

    /// The lease it is under, if it is under one.
    pub(crate) fn lease(&self) -> Option<LeaseId> {
        match self.state {
            State::Leased { lease, .. } | State::Held { lease, .. } => Some(lease),
            _ => None,
        }
    }

    pub(crate) fn held_by(&self, asker: ClientId) -> bool {
        matches!(self.state, State::Held { client, .. } if client == asker)
    }

    /// Whether this client is among those who may.
    pub(crate) fn allows(&self, by: By, client: ClientId) -> bool {
        match by {
            By::Anyone => true,
            By::Holder => self.held_by(client),
            By::HolderOrNobody => {
                self.lease().is_none() || self.held_by(client) || crate::broken("engine-anyone-removes")
            }
        }
    }

    pub(crate) fn state_view(&self) -> StateView {
        match self.state {
            State::Blocked => StateView::Blocked,
            State::Delayed { .. } => StateView::Delayed,
            State::Ready => StateView::Ready,
            State::Leased { .. } | State::Held { .. } => StateView::Leased,
            State::Done => StateView::Done,
            State::Failed => StateView::Failed,
            State::Buried { .. } => StateView::Buried,
        }
    }

    /// Its rare part, made if it has none.
    pub(crate) fn rare_mut(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    /// The memory it takes, but for its place in a queue's list.
    pub(crate) fn memory_bytes(&self) -> usize {
        // The table of jobs is half full just after it has grown.
        const TABLE: usize = size_of::<Job>() * 2;
        let rare = self.rare.as_ref().map_or(0, |rare| rare.memory_bytes());
        TABLE + allocated(self.body.len()) + self.state.memory_bytes() + rare
    }

    /// What its full record takes in the log.
    pub(crate) fn record_bytes(&self) -> u64 {
        1 + self.kept_len() as u64 + u64::from(self.queue_len)
    }
}

impl State {
    /// What is remembered elsewhere because of it: a deadline.
    pub(crate) fn memory_bytes(self) -> usize {
        match self {
            State::Delayed { .. } | State::Leased { .. } | State::Held { .. } => ENTRY,
            State::Blocked | State::Ready | State::Done | State::Failed | State::Buried { .. } => 0,
        }
    }
}

const _: () = assert!(size_of::<Job>() <= 128, "there are millions of jobs");

/// What an entry in a tree or a table of small things takes.
const ENTRY: usize = 48;

/// What the allocator takes for so many bytes: its own books, and rounding.
fn allocated(bytes: usize) -> usize {
    (bytes + 8).next_multiple_of(16).max(32)
}

impl Rare {
    pub(crate) fn add_failure(&mut self) {
        self.failures = self.failures.saturating_add(1);
    }

    fn memory_bytes(&self) -> usize {
        // An entry in the table of blockers, and in the set of what that one blocks.
        const BLOCKER: usize = 160;
        let moves_to = match &self.failure_rule {
            Some(FailureRule { used_up: UsedUp::MoveTo(queue), .. }) => allocated(queue.as_bytes().len()),
            _ => 0,
        };
        allocated(size_of::<Rare>())
            + self.name.as_ref().map_or(0, |name| allocated(name.len()))
            + self.result.as_ref().map_or(0, |result| allocated(result.len()))
            + self.origin.as_ref().map_or(0, |origin| 2 * allocated(origin.len()) + ENTRY)
            + moves_to
            + ENTRY * (usize::from(self.uuid.is_some()) + usize::from(self.expires_ms.is_some()))
            + BLOCKER * self.blockers.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Backoff;
    use crate::names::QueueName;

    #[test]
    fn what_the_allocator_takes_is_rounded_up_and_has_its_books() {
        for (bytes, taken) in [(0, 32), (24, 32), (25, 48), (40, 48), (41, 64), (1_000, 1_008)] {
            assert_eq!(allocated(bytes), taken, "{bytes}");
        }
    }

    #[test]
    fn a_job_takes_what_its_parts_take() {
        let rare = || Rare::default();
        let plain = allocated(size_of::<Rare>());
        let used_up = UsedUp::MoveTo(QueueName::new(&[b'q'; 50]));
        let moves = FailureRule { allowed: None, backoff: Backoff::None, used_up, parting_counts: false };
        for (what, rare, more) in [
            ("nothing", rare(), 0),
            ("a name", Rare { name: Some("n".repeat(100).into()), ..rare() }, 112),
            ("a result", Rare { result: Some([0; 200].into()), ..rare() }, 208),
            ("a queue to move to", Rare { failure_rule: Some(moves), ..rare() }, 64),
            ("a uuid", Rare { uuid: Some(Uuid(1)), ..rare() }, 48),
            ("an end", Rare { expires_ms: Some(1), ..rare() }, 48),
            ("both", Rare { uuid: Some(Uuid(1)), expires_ms: Some(1), ..rare() }, 96),
            ("an origin, and the list of them", Rare { origin: Some([0; 60].into()), ..rare() }, 2 * 80 + 48),
            ("two blockers", Rare { blockers: vec![1, 2], ..rare() }, 320),
        ] {
            assert_eq!(rare.memory_bytes(), plain + more, "{what}");
        }
    }

    #[test]
    fn a_plain_job_takes_its_place_in_the_table_twice_and_its_body() {
        let job = Job {
            number: 1,
            place: 1,
            urgency: 0,
            body: [0; 100].into(),
            created_wall_ms: 0,
            own_time: OwnTime::None,
            state: State::Ready,
            queue: QueueId::default(),
            queue_len: 1,
            stretch: 0,
            leases: 0,
            rare: None,
        };
        assert_eq!(job.memory_bytes(), 2 * size_of::<Job>() + 112);
    }

    #[test]
    fn a_deadline_takes_memory_too() {
        let leased = State::Leased { lease: LeaseId(1), until_ms: 1 };
        let delayed = State::Delayed { due: Due::Engine(1), shown_wall_ms: 1 };
        for state in [leased, delayed] {
            assert_eq!(state.memory_bytes(), 48, "{state:?}");
        }
        for state in [State::Ready, State::Blocked, State::Done, State::Failed] {
            assert_eq!(state.memory_bytes(), 0, "{state:?}");
        }
    }
}
