//! What falls due: dates on the wall clock, and everything else on engine time.

use jobyard_engine::{Answers, Due, JobNumber, NEVER_MS, Now, Why};

use super::Model;
use super::job::{Job, State};

impl Model {
    /// Does what fell due: dates up to now, engine deadlines up to `until_ms`.
    pub fn tick(&mut self, now: Now, until_ms: u64, answers: &mut Answers<'_>) {
        self.fall_due(now, until_ms, answers);
        self.forget_idle_queues();
    }

    fn fall_due(&mut self, now: Now, mut until_ms: u64, answers: &mut Answers<'_>) {
        self.wake_dates(now);
        self.serve(now, answers);
        loop {
            let engine_ms = self.next_engine_deadline();
            if engine_ms == NEVER_MS || engine_ms > until_ms {
                return;
            }
            // Who was told of the end of its lease is heard before that.
            until_ms = until_ms.min(self.tick_at(now, engine_ms, answers).saturating_sub(1));
        }
    }

    fn wake_dates(&mut self, now: Now) {
        let mut due: Vec<(i64, JobNumber)> = Vec::new();
        for job in &self.jobs {
            if let State::Delayed { until: Due::Wall(wall_ms), .. } = job.state
                && wall_ms <= now.wall_ms
            {
                due.push((wall_ms, job.number));
            }
        }
        due.sort_unstable();
        for (_, number) in due {
            let job = self.job_mut(number);
            job.state = State::Ready;
            job.begin_lifetime_at_date(now);
        }
        self.note(Why::DateCame);
    }

    /// The earliest moment of engine time that matters to any job or any waiting client.
    pub(super) fn next_engine_deadline(&self) -> u64 {
        let waits = self.waiting.iter().map(|waiting| waiting.until_ms);
        let pauses = self.pauses.values().map(|pause| pause.until_ms);
        self.jobs.iter().map(job_deadline).chain(waits).chain(pauses).min().unwrap_or(NEVER_MS)
    }

    /// What falls due at this moment of engine time: of the jobs all, of the waits one, the first. If there
    /// are more, the next round does them, so that nobody goes away with nothing while there is a job. Returns when a lease
    /// ends of which its holder was told.
    fn tick_at(&mut self, now: Now, at_ms: u64, answers: &mut Answers<'_>) -> u64 {
        self.settle_jobs(now, at_ms, answers);
        let Some(client) = self.first_wait_over(at_ms) else {
            return NEVER_MS;
        };
        let ends_ms = self.wait_falls_due(now, at_ms, client, answers);
        self.settle_jobs(now, at_ms, answers);
        ends_ms
    }

    /// Serves the waiting until no job is due: a lease of no length is over as soon as it is given.
    fn settle_jobs(&mut self, now: Now, at_ms: u64, answers: &mut Answers<'_>) {
        loop {
            self.jobs_fall_due(now, at_ms, answers);
            self.serve(now, answers);
            if self.first(|job| job_deadline(job) <= at_ms).is_none() {
                return;
            }
        }
    }

    fn jobs_fall_due(&mut self, now: Now, at_ms: u64, answers: &mut Answers<'_>) {
        let is_due = |moment_ms: u64| moment_ms <= at_ms;
        loop {
            if let Some(number) = self.first(|job| is_due(job.expires_ms)) {
                self.expired(now, number, answers);
            } else if let Some(number) = self.first(|job| is_due(lease_ends_ms(job))) {
                self.lease_ran_out(now, number, answers);
            } else if let Some(number) = self.first(|job| is_due(delay_ends_ms(job))) {
                self.job_mut(number).state = State::Ready;
                self.note(Why::Rested);
            } else {
                break;
            }
        }
        self.pauses.retain(|_, pause| pause.until_ms == NEVER_MS || !is_due(pause.until_ms));
    }

    fn first(&self, fits: impl Fn(&Job) -> bool) -> Option<JobNumber> {
        self.jobs.iter().find(|job| fits(job)).map(|job| job.number)
    }
}

fn job_deadline(job: &Job) -> u64 {
    job.expires_ms.min(lease_ends_ms(job)).min(delay_ends_ms(job))
}

fn lease_ends_ms(job: &Job) -> u64 {
    job.lease().map_or(NEVER_MS, |lease| lease.until_ms)
}

fn delay_ends_ms(job: &Job) -> u64 {
    match job.state {
        State::Delayed { until: Due::Engine(engine_ms), .. } => engine_ms,
        _ => NEVER_MS,
    }
}
