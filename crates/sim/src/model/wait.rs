//! Clients that wait: for a job, for a result, or for the job they run.

use jobyard_engine::{Answers, ClientId, JobNumber, JobRef, LeaseRequest, NEVER_MS, Now, Refusal, Reply, Why};

use super::Model;
use super::job::State;

#[derive(Clone, Debug)]
pub(super) struct Waiting {
    pub client: ClientId,
    pub until_ms: u64,
    what: What,
}

#[derive(Clone, Debug)]
enum What {
    Job {
        request: LeaseRequest,
        /// `until_ms` is earlier if the time of a job that the client holds is nearly over before.
        patient_until_ms: u64,
    },
    Result(JobNumber),
    /// While the job is leased, `until_ms` is the lease's end; that end, not the wait's, is what counts then.
    Run {
        number: JobNumber,
        /// When it should have been leased for the first time.
        unleased_until_ms: u64,
    },
}

impl Waiting {
    /// For a job, for as long as this, whatever the client holds.
    fn patience_ms(&self) -> u64 {
        match self.what {
            What::Job { patient_until_ms, .. } => patient_until_ms,
            What::Result(_) | What::Run { .. } => self.until_ms,
        }
    }

    pub fn lease_request(&self) -> Option<&LeaseRequest> {
        match &self.what {
            What::Job { request, .. } => Some(request),
            What::Result(_) | What::Run { .. } => None,
        }
    }

    fn is_for(&self, number: JobNumber) -> bool {
        match self.what {
            What::Job { .. } => false,
            What::Result(job) | What::Run { number: job, .. } => job == number,
        }
    }

    fn runs(&self) -> Option<JobNumber> {
        match self.what {
            What::Run { number, .. } => Some(number),
            What::Job { .. } | What::Result(_) => None,
        }
    }
}

impl Model {
    /// Whether the client waits for something.
    #[must_use]
    pub fn is_waiting(&self, client: ClientId) -> bool {
        self.waiting.iter().any(|waiting| waiting.client == client)
    }

    pub(super) fn wait_for_job(&mut self, client: ClientId, request: LeaseRequest, patient_until_ms: u64) {
        let until_ms = patient_until_ms.min(self.lease_nearly_over_ms(client, &request));
        self.waiting.push(Waiting { client, until_ms, what: What::Job { request, patient_until_ms } });
    }

    pub(super) fn wait_for_run(&mut self, now: Now, client: ClientId, number: JobNumber, wait_ms: u64) {
        let until_ms = now.engine_ms.saturating_add(wait_ms);
        self.waiting.push(Waiting { client, until_ms, what: What::Run { number, unleased_until_ms: until_ms } });
    }

    pub(super) fn await_result(
        &mut self,
        now: Now,
        client: ClientId,
        name: &JobRef,
        wait_ms: u64,
        answers: &mut Answers<'_>,
    ) {
        let number = match self.find(name) {
            Err(refusal) => return answers(client, Reply::Refused(refusal)),
            Ok(number) => number,
        };
        let job = self.job(number);
        match &job.state {
            State::Done(result) => answers(client, Reply::Result { uuid: job.uuid, success: true, result }),
            State::Failed(result) => answers(client, Reply::Result { uuid: job.uuid, success: false, result }),
            _ if wait_ms == 0 => answers(client, Reply::TimedOut),
            _ => {
                let until_ms = now.engine_ms.saturating_add(wait_ms);
                self.waiting.push(Waiting { client, until_ms, what: What::Result(number) });
            }
        }
    }

    /// Answers all who wait for this job, its runner too: with its result, or that it is gone.
    pub(super) fn answer_waiting(
        &mut self,
        number: JobNumber,
        result: Option<(bool, &[u8])>,
        answers: &mut Answers<'_>,
    ) {
        let uuid = self.job(number).uuid;
        for waiting in self.waiting.extract_if(.., |waiting| waiting.is_for(number)) {
            let reply = match result {
                Some((success, result)) => Reply::Result { uuid, success, result },
                None => Reply::Refused(Refusal::NoSuchJob),
            };
            answers(waiting.client, reply);
        }
    }

    /// Of those whose wait is over, the one that began first.
    pub(super) fn first_wait_over(&self, at_ms: u64) -> Option<ClientId> {
        let over = self.waiting.iter().find(|waiting| {
            waiting.until_ms <= at_ms && waiting.runs().is_none_or(|number| self.job(number).lease().is_none())
        });
        over.map(|waiting| waiting.client)
    }

    /// The time has come that was set for a wait. If it was set because of a job that the client held then, and no longer
    /// holds, the wait goes on. Returns when the lease ends of which the client is told.
    pub(super) fn wait_falls_due(&mut self, now: Now, at_ms: u64, client: ClientId, answers: &mut Answers<'_>) -> u64 {
        let waiting = self.waiting.iter().find(|waiting| waiting.client == client).expect("it waits");
        let nearly_over_ms =
            waiting.lease_request().map_or(NEVER_MS, |request| self.lease_nearly_over_ms(client, request));
        let patience_ms = waiting.patience_ms();
        if nearly_over_ms <= at_ms {
            self.waiting.retain(|waiting| waiting.client != client);
            answers(client, Reply::LeaseEnding);
            return self.first_lease_end_ms(client);
        } else if patience_ms <= at_ms {
            self.wait_ends(now, client, answers);
        } else {
            let waiting = self.waiting.iter_mut().find(|waiting| waiting.client == client).expect("it waits");
            waiting.until_ms = patience_ms.min(nearly_over_ms);
        }
        NEVER_MS
    }

    /// The client waits no longer, and is told so.
    pub(super) fn wait_ends(&mut self, now: Now, client: ClientId, answers: &mut Answers<'_>) {
        let position = self.waiting.iter().position(|waiting| waiting.client == client).expect("it waits");
        match self.waiting.remove(position).what {
            What::Job { .. } => answers(client, Reply::NoJob),
            What::Result(_) => answers(client, Reply::TimedOut),
            What::Run { number, .. } => {
                answers(client, Reply::TimedOut);
                self.remove_run_if_not_leased(now, number, answers);
            }
        }
    }

    pub(super) fn runs_for(&self, client: ClientId) -> Option<JobNumber> {
        self.waiting.iter().find(|waiting| waiting.client == client).and_then(Waiting::runs)
    }

    pub(super) fn run_is_leased(&mut self, run_job: JobNumber, lease_until_ms: u64) {
        for waiting in &mut self.waiting {
            if waiting.runs() == Some(run_job) {
                waiting.until_ms = lease_until_ms;
            }
        }
    }

    /// It is waited for until its lease would have ended, or until it should have been leased if that is later.
    pub(super) fn run_is_put_back(&mut self, run_job: JobNumber) {
        for waiting in &mut self.waiting {
            if let What::Run { number, unleased_until_ms } = waiting.what
                && number == run_job
            {
                waiting.until_ms = waiting.until_ms.max(unleased_until_ms);
            }
        }
    }

    /// Nobody had it: it is waited for as if it had never been leased.
    pub(super) fn run_is_undone(&mut self, now: Now, run_job: JobNumber) {
        for waiting in &mut self.waiting {
            if let What::Run { number, unleased_until_ms } = waiting.what
                && number == run_job
            {
                waiting.until_ms = unleased_until_ms.max(now.engine_ms);
            }
        }
    }

    /// A run job whose lease came to its end is removed, waited for or not.
    pub(super) fn run_times_out(&mut self, now: Now, number: JobNumber, answers: &mut Answers<'_>) {
        for waiting in self.waiting.extract_if(.., |waiting| waiting.runs() == Some(number)) {
            answers(waiting.client, Reply::TimedOut);
        }
        self.removed(now, number, Why::RunOver, answers);
    }

    pub(super) fn remove_run_if_not_leased(&mut self, now: Now, number: JobNumber, answers: &mut Answers<'_>) {
        if self.job(number).lease().is_none() {
            self.removed(now, number, Why::RunOver, answers);
        }
    }

    /// A run job that nobody waits for goes when its lease is over.
    pub(super) fn remove_forsaken_run(&mut self, now: Now, number: JobNumber, answers: &mut Answers<'_>) {
        let is_waited_for = self.waiting.iter().any(|waiting| waiting.runs() == Some(number));
        if self.job(number).runs && !is_waited_for {
            self.removed(now, number, Why::Forsaken, answers);
        }
    }
}
