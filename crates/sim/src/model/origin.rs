//! Where jobs came from, until that has them no more.

use jobyard_engine::{Answers, ClientId, JobNumber, QueueName, Refusal, Reply};

use super::Model;
use super::job::Job;

/// A job that is gone, and whose origin is open.
#[derive(Clone, Debug)]
pub(super) struct Gone {
    number: JobNumber,
    pub queue: QueueName,
    origin: Box<[u8]>,
}

impl Model {
    pub(super) fn claim_origins(&mut self, client: ClientId, beginning: &[u8], answers: &mut Answers<'_>) {
        let overlaps = |other: &[u8]| other.starts_with(beginning) || beginning.starts_with(other);
        if self.claims.iter().any(|(&holder, other)| holder != client && overlaps(other)) {
            return answers(client, Reply::Refused(Refusal::OriginsClaimed));
        }
        self.claims.insert(client, beginning.into());
        answers(client, Reply::Done);
    }

    pub(super) fn has_claimed(&self, client: ClientId, origin: &[u8]) -> bool {
        self.claims.get(&client).is_some_and(|beginning| origin.starts_with(beginning))
    }

    pub(super) fn close_origin(&mut self, client: ClientId, origin: &[u8], answers: &mut Answers<'_>) {
        if !self.has_claimed(client, origin) {
            return answers(client, Reply::Refused(Refusal::OriginNotClaimed));
        }
        let before = self.open_origins().len();
        self.gone.retain(|gone| *gone.origin != *origin);
        for job in self.jobs.iter_mut().filter(|job| job.origin.as_deref() == Some(origin)) {
            job.origin = None;
        }
        let is_closed = self.open_origins().len() < before;
        answers(client, if is_closed { Reply::Done } else { Reply::Refused(Refusal::NoSuchOrigin) });
    }

    /// By their bytes: each with the job that came from there, and the queue where that is or last was.
    pub(super) fn open_origins(&self) -> Vec<(Vec<u8>, JobNumber, QueueName)> {
        let living =
            self.jobs.iter().filter_map(|job| Some((job.origin.as_ref()?.to_vec(), job.number, job.queue.clone())));
        let gone = self.gone.iter().map(|gone| (gone.origin.to_vec(), gone.number, gone.queue.clone()));
        let mut open: Vec<_> = living.chain(gone).collect();
        open.sort();
        open
    }

    pub(super) fn is_open(&self, origin: &[u8]) -> bool {
        self.open_origins().iter().any(|(open, ..)| open == origin)
    }

    /// The job goes; where it came from is remembered.
    pub(super) fn remember_origin(&mut self, job: &Job) {
        if let Some(origin) = job.origin.clone() {
            self.gone.push(Gone { number: job.number, queue: job.queue.clone(), origin });
        }
    }
}
