//! Batches and positions: what was submitted, what is durable, and on what an output computed now depends.

use jobyard_log::{Batch, Completion, Log, Moment, Position};

use crate::OpenError;

/// Why the broker had to end: what it decided since cannot be relied upon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The log cannot be read back.
    Open(OpenError),
    /// Someone else has claimed the log.
    Fenced,
    /// Nobody can tell whether the last batch is durable.
    Unknown {
        /// What went wrong, in the log's words.
        trouble: Option<String>,
    },
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Open(error) => error.fmt(f),
            Failure::Fenced => write!(f, "another server has taken over the log"),
            Failure::Unknown { trouble: Some(trouble) } => trouble.fmt(f),
            Failure::Unknown { trouble: None } => {
                write!(f, "it is not known whether the last changes were written to the log")
            }
        }
    }
}

impl std::error::Error for Failure {}

/// The broker's end of the log. One batch is in flight at most; meanwhile the engine's records fill the next.
#[derive(Debug)]
pub(crate) struct Commit<L> {
    pub(crate) log: L,
    epoch: u64,
    submitted: Position,
    durable: Position,
    failure: Option<Failure>,
    /// What the clocks said in the last batch, if there is one.
    last: Option<Moment>,
}

/// The clocks may differ by so much from what the last batch tells of them.
const DRIFT_MS_MAX: u128 = 1_000;

impl<L: Log> Commit<L> {
    pub(crate) fn new(log: L, epoch: u64, tail: Position) -> Self {
        Commit { log, epoch, submitted: tail, durable: tail, failure: None, last: None }
    }

    /// When the last batch was submitted.
    pub(crate) fn set_time(&mut self, last: Option<Moment>) {
        self.last = last;
    }

    /// Whether the last batch tells too little of the clocks, for the next start. If the wall clock was stepped since, a start
    /// after another boot would take the step for time that has passed. If the machine was booted since, so would a start
    /// in this boot, once the wall clock is stepped: it could only tell by a batch of this boot.
    pub(crate) fn clocks_untold(&self, now: Moment) -> bool {
        let is_untold = |last: Moment| now.boot != last.boot || ahead_ms(now).abs_diff(ahead_ms(last)) > DRIFT_MS_MAX;
        self.last.is_some_and(is_untold) && !crate::broken("broker-clocks-untold")
    }

    /// The position on which depends what was computed when the engine had these records.
    pub(crate) fn position(&self, records: &[u8]) -> Position {
        if records.is_empty() { self.submitted } else { self.submitted + 1 }
    }

    /// Everything up to here is durable.
    pub(crate) fn durable(&self) -> Position {
        self.durable
    }

    pub(crate) fn in_flight(&self) -> bool {
        self.submitted > self.durable && self.failure.is_none()
    }

    /// Whether nothing need be done about the batch in flight until its outcome wakes the broker.
    pub(crate) fn wakes(&self) -> bool {
        self.in_flight() && self.log.wakes()
    }

    pub(crate) fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }

    /// Nothing can be relied upon any more.
    pub(crate) fn fail(&mut self, failure: Failure) {
        self.failure.get_or_insert(failure);
    }

    /// The last batch that was submitted.
    pub(crate) fn submitted(&self) -> Position {
        self.submitted
    }

    /// Lets the log do what is due besides appending. Returns when something is due next.
    pub(crate) fn tend(&mut self, engine_ms: u64) -> Option<u64> {
        let next_ms = self.log.tend(engine_ms);
        self.notice_trouble();
        next_ms
    }

    /// Nothing more will be submitted.
    pub(crate) fn close(&mut self) {
        if self.failure.is_none() && !self.in_flight() {
            self.log.close();
            self.notice_trouble();
        }
    }

    /// A log in trouble keeps nothing any more, even if no batch is in flight.
    pub(crate) fn notice_trouble(&mut self) {
        if let Some(trouble) = self.log.trouble() {
            self.fail(Failure::Unknown { trouble: Some(trouble) });
        }
    }

    /// Submits a batch. None may be in flight.
    pub(crate) fn submit(&mut self, batch: Batch<'_>) {
        debug_assert!(!self.in_flight() && self.failure.is_none(), "one batch at a time, and none after a failure");
        self.submitted += 1;
        self.last = Some(batch.at);
        self.log.submit(self.epoch, self.submitted, batch);
    }

    /// Learns what became of the batch in flight. Asked once a turn and after each submit, so that a log which completes k
    /// polls late is k turns late.
    pub(crate) fn poll(&mut self) {
        if !self.in_flight() {
            return;
        }
        match self.log.completed() {
            None => {}
            Some(Completion::Durable(position)) if position == self.submitted => self.durable = position,
            // A position that was not asked for says nothing about ours.
            Some(Completion::Durable(_) | Completion::Unknown) => {
                self.fail(Failure::Unknown { trouble: self.log.trouble() });
            }
            Some(Completion::Fenced) => self.fail(Failure::Fenced),
        }
    }
}

fn ahead_ms(at: Moment) -> i128 {
    i128::from(at.wall_ms) - i128::from(at.engine_ms)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::told_log::ToldLog;
    use jobyard_log::MemoryLog;

    const BATCH: Batch<'static> = Batch { at: Moment { engine_ms: 0, wall_ms: 0, boot_ms: 0, boot: 0 }, payload: b"x" };

    fn commit(lateness: u32) -> Commit<MemoryLog> {
        let mut log = MemoryLog::new(1, lateness);
        let claim = log.claim(0).unwrap();
        Commit::new(log, claim.epoch, claim.tail)
    }

    #[test]
    fn what_is_computed_depends_on_the_batch_in_flight_or_on_the_one_that_fills() {
        let mut commit = commit(1);
        assert_eq!((commit.position(b""), commit.position(b"r")), (0, 1));
        commit.submit(BATCH);
        assert_eq!((commit.position(b""), commit.position(b"r")), (1, 2));
        commit.poll();
        assert!(commit.in_flight());
        assert_eq!(commit.durable(), 0);
        commit.poll();
        assert!(!commit.in_flight());
        assert_eq!((commit.durable(), commit.position(b"")), (1, 1));
    }

    #[test]
    fn a_lost_log_is_a_failure_and_nothing_is_durable_after_it() {
        let mut commit = commit(0);
        commit.log.claim(0).unwrap();
        commit.submit(BATCH);
        commit.poll();
        assert_eq!((commit.failure(), commit.durable(), commit.in_flight()), (Some(&Failure::Fenced), 0, false));
    }

    #[test]
    fn the_next_start_is_told_of_clocks_that_were_set_and_of_a_machine_that_was_booted() {
        const LAST: Moment = Moment { engine_ms: 100, wall_ms: 5_000, boot_ms: 40, boot: 7 };
        let mut commit = commit(0);
        assert!(!commit.clocks_untold(LAST), "there is no batch");
        commit.set_time(Some(LAST));
        let later = |wall_ms: i64| Moment { engine_ms: 50_100, wall_ms, ..LAST };
        for wall_ms in [54_000, 55_000, 56_000] {
            assert!(!commit.clocks_untold(later(wall_ms)), "it may drift by a second: {wall_ms}");
        }
        for wall_ms in [i64::MIN, 53_999, 56_001, i64::MAX] {
            assert!(commit.clocks_untold(later(wall_ms)), "{wall_ms}");
        }
        assert!(commit.clocks_untold(Moment { boot: 8, ..later(55_000) }));
        commit.submit(Batch { at: later(56_001), ..BATCH });
        assert!(!commit.clocks_untold(later(56_001)));
    }

    #[test]
    fn a_failure_says_what_went_wrong() {
        let said = |trouble: Option<&str>| Failure::Unknown { trouble: trouble.map(str::to_owned) }.to_string();
        assert_eq!(said(Some("the disk is gone")), "the disk is gone");
        assert_eq!(said(None), "it is not known whether the last changes were written to the log");
        assert_eq!(Failure::Fenced.to_string(), "another server has taken over the log");
        let short = OpenError::Short { expected: 5, found: 3 };
        assert_eq!(Failure::Open(short.clone()).to_string(), short.to_string());
    }

    fn told(log: ToldLog) -> Commit<ToldLog> {
        Commit::new(log, 1, 0)
    }

    #[test]
    fn a_position_that_was_not_asked_for_says_nothing_about_ours() {
        let completions = [Some(Completion::Durable(7))].into();
        let mut commit = told(ToldLog { completions, trouble: Some("it is mad"), ..ToldLog::new() });
        commit.submit(BATCH);
        commit.poll();
        assert_eq!((commit.submitted(), commit.durable()), (1, 0));
        assert_eq!(commit.failure(), Some(&Failure::Unknown { trouble: Some("it is mad".to_owned()) }));
    }

    #[test]
    fn trouble_is_noticed_whatever_the_log_is_asked_for() {
        let failure = Some(Failure::Unknown { trouble: Some("no more".to_owned()) });
        let mut tended = told(ToldLog { due_ms: Some(20), ..ToldLog::new() });
        assert_eq!((tended.tend(10), tended.failure()), (Some(20), None));
        tended.log.trouble = Some("no more");
        tended.tend(20);
        assert_eq!(tended.failure(), failure.as_ref());
        let mut closed = told(ToldLog { trouble: Some("no more"), ..ToldLog::new() });
        closed.close();
        assert_eq!((closed.log.closed, closed.failure()), (1, failure.as_ref()));
    }

    #[test]
    fn an_end_is_clean_if_all_is_durable() {
        let mut commit = told(ToldLog { completions: [None].into(), ..ToldLog::new() });
        commit.submit(BATCH);
        commit.poll();
        commit.close();
        assert_eq!(commit.log.closed, 0, "a batch is in flight");
        commit.poll();
        commit.close();
        assert_eq!(commit.log.closed, 1);
        commit.fail(Failure::Fenced);
        commit.close();
        assert_eq!(commit.log.closed, 1, "nothing is known any more");
    }
}
