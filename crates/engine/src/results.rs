//! Waiting for results: of any job, or of one that is put, run and forgotten.

use crate::changes::Why;
use crate::command::{JobRef, NewJob};
use crate::engine::{Answers, Engine};
use crate::enqueue::Pending;
use crate::job::State;
use crate::names::{ClientId, JobNumber};
use crate::reply::Reply;
use crate::time::{NEVER_MS, Now};
use crate::timers::Timer;
use crate::waiting::Want;

impl Engine {
    pub(crate) fn handle_await(
        &mut self,
        now: Now,
        client: ClientId,
        job: &JobRef,
        wait_ms: u64,
        answers: &mut Answers<'_>,
    ) {
        let job = match self.find(job) {
            Ok(job) => job,
            Err(refusal) => return answers(client, Reply::Refused(refusal)),
        };
        if job.finished() {
            let result = job.rare.as_ref().and_then(|rare| rare.result.as_deref()).unwrap_or(&[]);
            return answers(client, Reply::Result { uuid: job.uuid(), success: job.state == State::Done, result });
        }
        if wait_ms == 0 {
            return answers(client, Reply::TimedOut);
        }
        let number = job.number;
        self.begin_wait(client, now.engine_ms.saturating_add(wait_ms), Want::Result(number));
    }

    pub(crate) fn handle_run(
        &mut self,
        now: Now,
        client: ClientId,
        mut job: NewJob,
        wait_ms: u64,
        answers: &mut Answers<'_>,
    ) {
        job.lifetime_ms = None;
        job.origin = None;
        if let Err(refusal) = self.check_enqueue(now, &job, &Pending::default()) {
            return answers(client, Reply::Refused(refusal));
        }
        let number = self.enqueue(now, job, &[], true);
        let unleased_until_ms = now.engine_ms.saturating_add(wait_ms);
        self.begin_wait(client, unleased_until_ms, Want::Run { number, unleased_until_ms });
        if wait_ms == 0 {
            self.serve(now, answers);
            let leased = self.store.jobs.get(number).is_some_and(|job| job.lease().is_some());
            if !leased && let Some(want) = self.end_wait(client) {
                self.time_out(now, client, &want, answers);
            }
        }
    }

    /// A client waited in vain. A job that it runs goes, if nobody has it.
    pub(crate) fn time_out(&mut self, now: Now, client: ClientId, want: &Want, answers: &mut Answers<'_>) {
        match *want {
            Want::Lease(_) => answers(client, Reply::NoJob),
            Want::Result(_) => answers(client, Reply::TimedOut),
            Want::Run { number, .. } => {
                answers(client, Reply::TimedOut);
                if self.store.job(number).lease().is_none() {
                    self.remove(now, number, Why::RunOver, answers);
                }
            }
        }
    }

    /// A job that is run was leased: the lease's end is what its client waits for.
    pub(crate) fn pause_run(&mut self, number: JobNumber) {
        if let Some(client) = self.waiting.runner(number) {
            self.wait_until(client, NEVER_MS);
        }
    }

    /// A job that is run is no longer leased, and not finished: its client waits until the lease would
    /// have ended, or for as long as the job may go unleased. Without a client the job goes.
    pub(crate) fn resume_run(&mut self, now: Now, number: JobNumber, lease_ms: Option<u64>, answers: &mut Answers<'_>) {
        let Some(lease_ms) = lease_ms.filter(|_| self.store.job(number).runs()) else {
            return;
        };
        let Some(client) = self.waiting.runner(number) else {
            return self.remove(now, number, Why::Forsaken, answers);
        };
        if let Some(Want::Run { unleased_until_ms, .. }) = self.waiting.get(client).map(|waiter| &waiter.want) {
            self.wait_until(client, lease_ms.max(*unleased_until_ms));
        }
    }

    pub(crate) fn wait_until(&mut self, client: ClientId, until_ms: u64) {
        let waiter = self.waiting.get(client).expect("it waits");
        let timer = Timer::WaitEnd(waiter.ticket);
        self.store.timers.remove(waiter.until_ms, timer);
        self.store.timers.add(until_ms, timer);
        self.waiting.set_until(client, until_ms);
    }
}
