//! `ATOMIC` … `DONE`: a transaction, as it is collected and while the engine has it.

use jobyard_engine::{JobNumber, JobRef, Limits, NewJob, Refusal, Step};

use super::{Verb, replies, requests};

/// A transaction that has not ended yet. Each message is one step, so a step's index is its message's.
#[derive(Debug, Default)]
pub(super) struct Group {
    steps: Vec<Step>,
    /// For each step that is an ACK its task, else 0.
    acked: Vec<JobNumber>,
    bytes: usize,
    fault: Option<Fault>,
}

/// Why a transaction can only be refused. What follows in it is passed over.
#[derive(Debug)]
enum Fault {
    /// Its last step makes no sense. The engine is asked all the same: an earlier step may be refused first.
    Step(String),
    /// It is larger than allowed.
    Size(String),
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
    pub(super) fn add(&mut self, verb: Option<Verb>, word: &[u8], rest: &[u8], limits: &Limits) {
        self.bytes += word.len() + rest.len();
        if let Some(text) = self.size_fault(limits) {
            *self = Group { fault: Some(Fault::Size(text)), ..Group::default() };
            return;
        }
        let index = self.steps.len();
        let step = match verb {
            Some(Verb::Push) => requests::push_in_group(rest, limits)
                .map(|job| (Step::Enqueue(Box::new(job)), 0))
                .map_err(|text| format!("message {index}: PUSH: {text}")),
            Some(Verb::Ack) => requests::task_id(rest)
                .map(|number| (Step::Complete(JobRef::Number(number)), number))
                .map_err(|text| format!("message {index}: ACK: {text}")),
            _ => Err(replies::not_allowed(word)),
        };
        let (step, acked) = step.unwrap_or_else(|text| {
            self.fault = Some(Fault::Step(text));
            (Step::Invalid, 0)
        });
        self.steps.push(step);
        self.acked.push(acked);
    }

    fn size_fault(&self, limits: &Limits) -> Option<String> {
        if self.bytes > limits.group_bytes_max {
            Some(format!("transaction is longer than {} bytes", limits.group_bytes_max))
        } else if self.steps.len() == limits.group_steps_max {
            Some(format!("transaction has more than {} messages", limits.group_steps_max))
        } else {
            None
        }
    }

    /// The steps for the engine and what is to be remembered meanwhile, or the error.
    pub(super) fn finish(self) -> Result<(Vec<Step>, Sent), String> {
        let fault = match self.fault {
            Some(Fault::Size(text)) => return Err(text),
            Some(Fault::Step(text)) => Some(text),
            None => None,
        };
        Ok((self.steps, Sent { acked: self.acked, fault }))
    }

    /// What its messages take, roughly.
    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes + self.steps.len() * size_of::<NewJob>()
    }
}

impl Sent {
    /// The words for the engine's refusal of a step.
    pub(super) fn refusal_text(&self, step: usize, refusal: Refusal, limits: &Limits) -> String {
        match (refusal, &self.fault, self.acked.get(step)) {
            (Refusal::InvalidStep, Some(text), _) => text.clone(),
            (_, _, Some(number @ 1..)) => format!("task {number} not acquired"),
            _ => format!("message {step}: PUSH: {}", replies::refusal_text(refusal, limits)),
        }
    }
}
