//! A job as the model keeps it: one flat struct that never forgets anything.

use jobyard_engine::{
    AttemptRule, ClientId, DateRank, Due, FailureRule, JobNumber, JobSnapshot, JobView, LeaseId, NEVER_MS, NewJob, Now,
    OwnTime, Parting, QueueName, Start, StateView, Tally, Uuid,
};

#[derive(Clone, Debug)]
pub(super) struct Job {
    pub number: JobNumber,
    pub uuid: Uuid,
    pub queue: QueueName,
    pub name: Option<Box<str>>,
    pub body: Box<[u8]>,
    pub urgency: i128,
    pub own_time: OwnTime,
    pub start: Start,
    pub lifetime_ms: Option<u64>,
    pub attempt_rule: Option<AttemptRule>,
    pub attempts: u64,
    pub failure_rule: Option<FailureRule>,
    pub failures: u64,
    pub state: State,
    /// Until it is known (its date has not come), it never comes.
    pub expires_ms: u64,
    pub rank: u8,
    pub due_wall_ms: i64,
    /// 0 until it has one.
    pub place: u64,
    /// Unfinished ones, by number. None but a blocked job has any.
    pub blockers: Vec<JobNumber>,
    pub created_wall_ms: i64,
    /// As it was last put or released.
    pub delay_ms: u64,
    /// Put by `Run`.
    pub runs: bool,
    /// Since the last restart.
    pub tally: Tally,
    /// While it is open.
    pub origin: Option<Box<[u8]>>,
}

#[derive(Clone, Debug)]
pub(super) enum State {
    Blocked,
    Delayed {
        until: Due,
        /// The same moment on the wall clock, as seen when the delay began.
        shown_wall_ms: i64,
    },
    Ready,
    /// Leased durably or, with a holder, held.
    Leased(Lease),
    Done(Box<[u8]>),
    Failed(Box<[u8]>),
    /// Put aside, as the how-manieth of all.
    Buried {
        nth: u64,
    },
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Lease {
    pub id: LeaseId,
    pub until_ms: u64,
    pub holder: Option<(ClientId, Parting)>,
}

impl Job {
    /// The job as it is before it is known whether it is blocked, delayed or ready.
    pub fn new(number: JobNumber, new: &NewJob, now: Now) -> Job {
        let (rank, due_wall_ms) = match new.start {
            Start::Now | Start::After(_) | Start::Buried => (1, 0),
            Start::At { wall_ms, rank: DateRank::Ahead } => (0, wall_ms),
            Start::At { wall_ms, rank: DateRank::Behind } => (2, wall_ms),
        };
        let expires_ms = match (new.start, new.lifetime_ms) {
            (Start::Now | Start::After(_) | Start::Buried, Some(lifetime_ms)) => {
                now.engine_ms.saturating_add(lifetime_ms)
            }
            _ => NEVER_MS,
        };
        Job {
            number,
            uuid: new.uuid.unwrap_or(Uuid::of_number(number)),
            queue: new.queue.clone(),
            name: new.name.clone(),
            body: new.body.clone(),
            urgency: new.urgency,
            own_time: new.own_time,
            start: new.start,
            lifetime_ms: new.lifetime_ms,
            attempt_rule: new.attempts,
            attempts: 0,
            failure_rule: new.failures.clone(),
            failures: 0,
            state: State::Blocked,
            expires_ms,
            rank,
            due_wall_ms,
            place: 0,
            blockers: Vec::new(),
            created_wall_ms: now.wall_ms,
            delay_ms: if let Start::After(ms) = new.start { ms } else { 0 },
            runs: false,
            tally: Tally::default(),
            origin: new.origin.clone(),
        }
    }

    /// It cannot be taken for so long.
    pub fn rest_for(&mut self, now: Now, ms: u64) {
        let shown_wall_ms = now.wall_ms.saturating_add_unsigned(ms);
        self.state = State::Delayed { until: Due::Engine(now.engine_ms.saturating_add(ms)), shown_wall_ms };
    }

    pub fn is_ready(&self) -> bool {
        matches!(self.state, State::Ready)
    }

    pub fn is_finished(&self) -> bool {
        matches!(self.state, State::Done(_) | State::Failed(_))
    }

    pub fn lease(&self) -> Option<Lease> {
        match self.state {
            State::Leased(lease) => Some(lease),
            _ => None,
        }
    }

    pub fn is_held_by(&self, client: ClientId) -> bool {
        self.lease().and_then(|lease| lease.holder).is_some_and(|(holder, _)| holder == client)
    }

    /// It was buried or delayed, and is ready. If it was tried as often as it may be, it may be once more.
    pub fn let_back_in(&mut self, now: Now) {
        self.begin_lifetime_before_date(now);
        self.state = State::Ready;
        while self.attempts_reached() && self.attempts > 0 {
            self.attempts -= 1;
        }
    }

    pub fn attempts_reached(&self) -> bool {
        self.attempt_rule.and_then(|rule| rule.max).is_some_and(|max| self.attempts >= u64::from(max))
    }

    /// What orders ready jobs, of one queue or of several.
    pub fn order(&self) -> impl Ord + use<> {
        (std::cmp::Reverse(self.urgency), self.rank, self.due_wall_ms, self.place)
    }

    pub fn date_wall_ms(&self) -> Option<i64> {
        match self.start {
            Start::Now | Start::After(_) | Start::Buried => None,
            Start::At { wall_ms, .. } => Some(wall_ms),
        }
    }

    /// The date has come: what is left of the lifetime that began with it runs from now.
    pub fn begin_lifetime_at_date(&mut self, now: Now) {
        if let (Some(date_wall_ms), Some(lifetime_ms)) = (self.date_wall_ms(), self.lifetime_ms) {
            let left_ms = i128::from(date_wall_ms) + i128::from(lifetime_ms) - i128::from(now.wall_ms);
            let left_ms = u64::try_from(left_ms.max(0)).unwrap_or(NEVER_MS);
            self.expires_ms = now.engine_ms.saturating_add(left_ms);
        }
    }

    /// The date is not waited for any more, but a lifetime that was to begin with it still does.
    pub fn begin_lifetime_before_date(&mut self, now: Now) {
        let has_begun = match self.state {
            State::Blocked => self.date_wall_ms().is_none(),
            State::Delayed { until: Due::Wall(_), .. } => false,
            _ => true,
        };
        if !has_begun {
            self.begin_lifetime_at_date(now);
        }
    }

    pub fn state_view(&self) -> StateView {
        match self.state {
            State::Blocked => StateView::Blocked,
            State::Delayed { .. } => StateView::Delayed,
            State::Ready => StateView::Ready,
            State::Leased(_) => StateView::Leased,
            State::Done(_) => StateView::Done,
            State::Failed(_) => StateView::Failed,
            State::Buried { .. } => StateView::Buried,
        }
    }

    pub fn view(&self) -> JobView<'_> {
        JobView {
            number: self.number,
            uuid: self.uuid,
            queue: &self.queue,
            name: self.name.as_deref(),
            body: &self.body,
            urgency: self.urgency,
            own_time: self.own_time,
            lifetime_ms: self.lifetime_ms,
            attempts: self.attempts,
            attempts_max: self.attempt_rule.and_then(|rule| rule.max),
            failures: self.failures,
            failures_allowed: self.failure_rule.as_ref().and_then(|rule| rule.allowed),
            state: self.state_view(),
            created_wall_ms: self.created_wall_ms,
            date_wall_ms: self.date_wall_ms(),
            delay_ms: self.delay_ms,
            until: match self.state {
                State::Leased(lease) => Some(Due::Engine(lease.until_ms)).filter(|_| lease.until_ms != NEVER_MS),
                State::Delayed { until, .. } => Some(until),
                _ => None,
            },
            tally: self.tally,
        }
    }

    pub fn snapshot(&self) -> JobSnapshot {
        let view = self.view();
        let lease = self.lease();
        JobSnapshot {
            number: self.number,
            uuid: self.uuid,
            queue: self.queue.clone(),
            name: self.name.as_deref().map(str::to_owned),
            body: self.body.to_vec(),
            urgency: self.urgency,
            own_time: self.own_time,
            lifetime_ms: self.lifetime_ms,
            attempts: self.attempts,
            attempts_max: view.attempts_max,
            failures: self.failures,
            failures_allowed: view.failures_allowed,
            state: view.state,
            lease: lease.map(|lease| lease.id),
            lease_until_ms: lease.map(|lease| lease.until_ms).filter(|&until_ms| until_ms != NEVER_MS),
            held_by: lease.and_then(|lease| lease.holder).map(|(client, _)| client),
            delay_until: match self.state {
                State::Delayed { until, .. } => Some(until),
                _ => None,
            },
            expires_ms: Some(self.expires_ms).filter(|&expires_ms| expires_ms != NEVER_MS),
            rank: self.rank,
            due_wall_ms: self.due_wall_ms,
            place: self.place,
            blockers: self.blockers.clone(),
            result: match &self.state {
                State::Done(result) | State::Failed(result) => Some(result.to_vec()),
                _ => None,
            },
            created_wall_ms: self.created_wall_ms,
            date_wall_ms: view.date_wall_ms,
            delay_ms: view.delay_ms,
            tally: self.tally,
            runs: self.runs,
        }
    }
}
