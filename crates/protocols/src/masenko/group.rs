//! `ATOMIC` … `DONE`: a transaction, as it is collected and while the engine has it.

use jobyard_engine::{Blocker, JobNumber, JobRef, Limits, NewJob, Refusal, Step, UsedUp};

use super::{Verb, replies, requests};

/// A transaction that has not ended yet. Each message is one step, so a step's index is its message's.
#[derive(Debug, Default)]
pub(super) struct Group {
    steps: Vec<Step>,
    /// For each step that is an ACK its task, else 0.
    acked: Vec<JobNumber>,
    /// The payloads of its tasks.
    payload_bytes: usize,
    /// All that its steps take.
    memory_bytes: usize,
    /// Why it can only be refused, at its last step; what follows is passed over. The engine is asked all the same: an
    /// earlier step may be refused first, and the ids of the tasks before it are skipped.
    fault: Option<String>,
}

/// What is to be remembered of a transaction that the engine has been given.
#[derive(Debug, Default)]
pub(super) struct Sent {
    acked: Vec<JobNumber>,
    /// What is wrong with its last step, if that makes no sense.
    fault: Option<String>,
}

impl Group {
    /// Whether whatever follows is of no use.
    pub(super) fn refused(&self) -> bool {
        self.fault.is_some()
    }

    /// Adds one message.
    pub(super) fn add(&mut self, verb: Option<Verb>, word: &[u8], rest: &str, limits: &Limits) {
        let index = self.steps.len();
        let step = match verb {
            _ if index == limits.group_steps_max => Err(replies::refusal_text(Refusal::TooManySteps, limits)),
            Some(Verb::Push) => requests::push_in_group(rest, limits)
                .map_err(|text| format!("message {index}: PUSH: {text}"))
                .and_then(|job| self.room_for(&job, limits).map(|()| (Step::Enqueue(Box::new(job)), 0))),
            Some(Verb::Ack) => requests::task_id(rest)
                .map(|number| (Step::Complete(JobRef::Number(number)), number))
                .map_err(|text| format!("message {index}: ACK: {text}")),
            _ => Err(replies::not_allowed(word)),
        };
        let (step, acked) = step.unwrap_or_else(|text| {
            self.fault = Some(text);
            (Step::Invalid, 0)
        });
        if let Step::Enqueue(job) = &step {
            self.payload_bytes += job.body.len();
        }
        self.memory_bytes += memory_bytes(&step);
        self.steps.push(step);
        self.acked.push(acked);
    }

    /// A payload that is the only one may be as large as it may be outside a transaction.
    fn room_for(&self, job: &NewJob, limits: &Limits) -> Result<(), String> {
        let only = self.payload_bytes == 0 || job.body.is_empty();
        if !only && self.payload_bytes + job.body.len() > limits.group_bytes_max {
            return Err(format!("transaction has payloads of more than {} bytes", limits.group_bytes_max));
        }
        Ok(())
    }

    /// The steps for the engine, and what is to be remembered meanwhile.
    pub(super) fn finish(self) -> (Vec<Step>, Sent) {
        (self.steps, Sent { acked: self.acked, fault: self.fault })
    }

    /// What its messages take.
    pub(super) fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }
}

/// What one step takes, and what is remembered of it.
fn memory_bytes(step: &Step) -> usize {
    let job_bytes = match step {
        Step::Enqueue(job) => {
            let deadqueue = match job.failures.as_ref().map(|rule| &rule.used_up) {
                Some(UsedUp::MoveTo(queue)) => queue.as_bytes().len(),
                _ => 0,
            };
            let names = job.queue.as_bytes().len() + job.name.as_ref().map_or(0, |name| name.len()) + deadqueue;
            size_of::<NewJob>() + job.body.len() + names + job.blockers.len() * size_of::<Blocker>()
        }
        Step::Complete(_) | Step::Invalid => 0,
    };
    size_of::<Step>() + size_of::<JobNumber>() + job_bytes
}

impl Sent {
    /// The words for the engine's refusal of a step.
    pub(super) fn refusal_text(&self, step: usize, refusal: Refusal, limits: &Limits) -> String {
        match (refusal, &self.fault, self.acked.get(step)) {
            (Refusal::InvalidStep | Refusal::TooManySteps, Some(text), _) => text.clone(),
            (_, _, Some(number @ 1..)) => format!("task {number} not acquired"),
            _ => format!("message {step}: PUSH: {}", replies::refusal_text(refusal, limits)),
        }
    }
}
