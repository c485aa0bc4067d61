//! Jobs that were put under one UUID, of which clients of workq choose any: there is one of them at a time.

use super::{Job, Ledger};
use crate::clients::{Entry, Put};
use crate::world::Wrong;

/// What is known of the UUID of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Id {
    /// A job has it for certain, or its result does.
    Taken,
    /// No job has it.
    Free,
    /// One job was to be put under it, and nobody has heard of that.
    Open,
    /// Nobody can tell.
    Unclear,
}

impl Ledger {
    /// What is known of the UUID that this entry would choose.
    #[must_use]
    pub fn id(&self, id_of: Entry) -> Id {
        if self.is_taken(id_of) {
            return Id::Taken;
        }
        match &self.under(id_of).collect::<Vec<_>>()[..] {
            jobs if jobs.iter().all(|job| job.is_gone()) => Id::Free,
            [job] if job.put_told.is_none() && job.ended.is_none() && stays(&job.put) => Id::Open,
            _ => Id::Unclear,
        }
    }

    /// Whether a job has this UUID for certain. Nothing but its removal frees it, if it lives for ever.
    pub(super) fn is_taken(&self, id_of: Entry) -> bool {
        let has = |job: &Job| job.put_told.is_some() && !job.may_be_removed && stays(&job.put);
        self.under(id_of).any(has)
    }

    /// Whether another job may have the UUID of this one.
    #[must_use]
    pub fn may_be_duplicate(&self, entry: Entry) -> bool {
        self.namesakes(entry).any(|other| !other.is_gone())
    }

    /// Whether this body is that of another job of the same UUID.
    #[must_use]
    pub fn is_of_namesake(&self, entry: Entry, body: &[u8]) -> bool {
        self.namesakes(entry).any(|other| other.put.body.as_bytes() == body)
    }

    /// The job of this UUID of which that is true, if there is one.
    pub fn find_under(&self, uuid: &str, is_right: impl Fn(Entry) -> bool) -> Option<Entry> {
        let named = self.jobs.iter().filter(|job| job.uuid().as_deref() == Some(uuid));
        named.map(|job| job.put.entry).find(|entry| is_right(*entry))
    }

    /// A job is there. Those of its UUID of which nobody has heard are not, and never will be.
    ///
    /// # Errors
    /// If another one has the UUID.
    pub(super) fn claim_id(&mut self, entry: Entry) -> Result<(), Wrong> {
        let namesakes: Vec<Entry> = self.namesakes(entry).map(|job| job.put.entry).collect();
        for other in namesakes {
            let rival = &mut self.jobs[other];
            if rival.is_gone() {
                continue;
            }
            if rival.put_told.is_some() || rival.ended.is_some() {
                let (job, rival) = (&self.jobs[entry], &self.jobs[other]);
                return Err(format!("jobs {entry} and {other} have the same id: {job:?}, and {rival:?}"));
            }
            rival.refused = true;
            *self.checked.entry("checked: of two under one id one was put").or_default() += 1;
        }
        Ok(())
    }

    /// The jobs that were to be put under this UUID.
    fn under(&self, id_of: Entry) -> impl Iterator<Item = &Job> {
        self.jobs.iter().filter(move |job| job.protocol == "workq" && job.put.id_of == id_of)
    }

    fn namesakes(&self, entry: Entry) -> impl Iterator<Item = &Job> {
        let job = &self.jobs[entry];
        let is_named = job.protocol == "workq";
        self.under(job.put.id_of).filter(move |other| is_named && other.put.entry != entry)
    }
}

/// Whether such a job, or its result, is there until it is removed.
fn stays(put: &Put) -> bool {
    put.lifetime_s.is_none() && !put.runs
}
