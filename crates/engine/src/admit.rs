//! What is made of a record that is read back: whether it can be true, and, in a log that was damaged, what of it can
//! be kept.

use crate::bytes::Damaged;
use crate::job::{Job, State};
use crate::names::JobNumber;
use crate::record::Record;
use crate::record_job::Enqueued;
use crate::record_kept::Kept;
use crate::store::Store;

/// How much of what was ever written is read back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum History {
    /// All: whatever does not follow from what came before is damage.
    Whole,
    /// All but a beginning that was not needed any more: records may speak of jobs that are not known any more, or
    /// not yet, because their newest full record is still to come.
    Rest,
    /// What could be saved: records may be missing anywhere. Whatever contradicts itself is resolved so that jobs are kept.
    Damaged,
}

/// Numbers, places and ordinals are below this: nobody will ever have counted so far, and there is room to count on.
pub(crate) const COUNT_MAX: u64 = 1 << 62;

/// Nobody starts from where so much was counted, not even after a log was salvaged: there must be room to count on, or what
/// is written now could not be read again.
const COUNTED_MAX: u64 = COUNT_MAX / 4 * 3;

/// What a damaged log may say is less, so that what is made of it can be written again.
const BELIEVED_MAX: u64 = 1 << 61;

impl Store {
    /// Whether what comes next can be counted, and read back.
    pub(crate) fn can_count_on(&self) -> bool {
        let counted = [self.next_number, self.next_place, self.queues.next_ordinal, self.next_burial];
        counted.into_iter().all(|next| next < COUNTED_MAX)
    }

    /// Carries out a record that was read back.
    pub(crate) fn replay(&mut self, record: Record<'_>, history: History) -> Result<(), Damaged> {
        if history == History::Damaged {
            self.replay_damaged(record);
            return Ok(());
        }
        let is_whole = history == History::Whole;
        if let Some(number) = subject(&record) {
            match self.jobs.get(number) {
                None if is_whole || number >= COUNT_MAX => return Err(Damaged),
                None => {
                    self.pass_over(&record, number);
                    return Ok(());
                }
                Some(job) if !allows(job, &record) => return Err(Damaged),
                Some(_) => {}
            }
        } else if !self.fits(&record, is_whole) {
            return Err(Damaged);
        }
        self.apply(record);
        Ok(())
    }

    /// A record about a job that is not known: it may still mean something to those that the job blocks.
    fn pass_over(&mut self, record: &Record<'_>, number: JobNumber) {
        match *record {
            Record::Removed { .. } | Record::Done { .. } | Record::Failed { .. } => self.unlink_blocked(number),
            Record::Moved { place, .. } => {
                self.unlink_blocked(number);
                self.raise(0, believed(place));
            }
            Record::Unblocked { place, .. } => self.raise(0, believed(place)),
            _ => {}
        }
        self.raise(believed(number), 0);
    }

    /// Whether a record that brings something can be true.
    fn fits(&self, record: &Record<'_>, is_whole: bool) -> bool {
        match record {
            Record::QueueCreated { name, ordinal } => self.fits_queue(name, *ordinal),
            Record::Enqueued(enqueued) => {
                self.jobs.get(enqueued.number).is_none()
                    && self.fits_full(enqueued, is_whole)
                    && (enqueued.place == 0) != enqueued.blockers.is_empty()
            }
            Record::Kept(kept) => {
                (!is_whole || self.jobs.get(kept.base.number).is_some()) && self.fits_full(&kept.base, is_whole)
            }
            Record::Counters { next_number, next_place, next_ordinal } => {
                (self.next_number_kept..COUNT_MAX).contains(next_number)
                    && (self.next_place..COUNT_MAX).contains(next_place)
                    && (self.queues.next_ordinal..COUNT_MAX).contains(next_ordinal)
            }
            _ => false,
        }
    }

    fn fits_queue(&self, name: &[u8], ordinal: u64) -> bool {
        let known = self.queues.id(name).and_then(|id| self.queues.get(id).ordinal);
        match known {
            Some(known) => known == ordinal,
            // It may have existed without a record, and be older than others that have one.
            None => ordinal < COUNT_MAX && self.queues.of_ordinal(ordinal).is_none(),
        }
    }

    fn fits_full(&self, full: &Enqueued<'_>, is_whole: bool) -> bool {
        let Enqueued { number, place, blockers, uuid, origin, .. } = full;
        let may_block = |blocker: &JobNumber| match self.jobs.get(*blocker) {
            None => !is_whole,
            Some(job) => !job.finished(),
        };
        let uuid_is_free = uuid
            .is_none_or(|uuid| uuid.number().is_none() && self.uuids.get(&uuid).is_none_or(|holder| holder == number));
        let origin_is_free =
            origin.as_ref().is_none_or(|origin| self.origins.get(origin).is_none_or(|holder| holder == number));
        (1..COUNT_MAX).contains(number)
            && *place < COUNT_MAX
            && uuid_is_free
            && origin_is_free
            && blockers.iter().all(may_block)
            && blockers.is_sorted_by(|a, b| a < b)
            && blockers.last().is_none_or(|last| last < number)
    }

    fn replay_damaged(&mut self, record: Record<'_>) {
        let record = match record {
            Record::QueueCreated { name, ordinal } => self.mend_queue(name, ordinal),
            Record::Enqueued(enqueued) => self.mend_full(enqueued).map(Record::Enqueued),
            Record::Kept(Kept { base, mut state, expires_ms, attempts, failures, result, rank }) => {
                if let State::Buried { order } = &mut state {
                    self.mend_burial(order);
                }
                let base = self.mend_full(base);
                base.map(|base| Record::Kept(Kept { base, state, expires_ms, attempts, failures, result, rank }))
            }
            Record::Counters { next_number, next_place, next_ordinal } => Some(Record::Counters {
                next_number: believed(next_number),
                next_place: believed(next_place),
                next_ordinal: believed(next_ordinal),
            }),
            record => self.mend_change(record),
        };
        if let Some(record) = record {
            self.apply(record);
        }
    }

    /// An order among the buried that nobody can have counted to is the next one.
    fn mend_burial(&self, order: &mut u64) {
        if *order >= BELIEVED_MAX {
            *order = self.next_burial;
        }
    }

    fn mend_queue<'a>(&self, name: &'a [u8], ordinal: u64) -> Option<Record<'a>> {
        if ordinal < BELIEVED_MAX && self.fits_queue(name, ordinal) {
            return Some(Record::QueueCreated { name, ordinal });
        }
        let exists = self.queues.id(name).is_some_and(|id| self.queues.get(id).ordinal.is_some());
        (!exists).then_some(Record::QueueCreated { name, ordinal: self.queues.next_ordinal })
    }

    /// Makes room for a job, and takes from it what cannot be true.
    fn mend_full<'a>(&mut self, mut full: Enqueued<'a>) -> Option<Enqueued<'a>> {
        let number = full.number;
        if !(1..BELIEVED_MAX).contains(&number) {
            return None;
        }
        if full.place >= BELIEVED_MAX {
            full.place = self.next_place;
        }
        full.uuid = full.uuid.filter(|uuid| uuid.number().is_none());
        if let Some(&older) = full.uuid.and_then(|uuid| self.uuids.get(&uuid))
            && older != number
        {
            self.apply_removed(older);
        }
        if let Some(&older) = full.origin.as_ref().and_then(|origin| self.origins.get(origin))
            && older != number
        {
            // That it was closed is lost.
            self.apply_origin_closed(older);
        }
        self.take(number);
        full.blockers.sort_unstable();
        full.blockers.dedup();
        let may_block = |blocker: JobNumber| self.jobs.get(blocker).is_none_or(|job| !job.finished());
        full.blockers.retain(|&blocker| (1..number).contains(&blocker) && may_block(blocker));
        Some(full)
    }

    /// A change that the job's state does not allow is passed over, but one that only befalls jobs that are not
    /// blocked says that the job is not.
    fn mend_change<'a>(&mut self, mut record: Record<'a>) -> Option<Record<'a>> {
        if let Record::Moved { place, .. } | Record::Unblocked { place, .. } = &mut record
            && *place >= BELIEVED_MAX
        {
            *place = self.next_place;
        }
        if let Record::Buried { order, .. } = &mut record {
            self.mend_burial(order);
        }
        let number = subject(&record)?;
        let Some(job) = self.jobs.get(number) else {
            self.pass_over(&record, number);
            return None;
        };
        if allows(job, &record) {
            return Some(record);
        }
        if let buried @ State::Buried { .. } = job.state {
            // That it was revived is lost, if this can befall it then.
            self.set_state(number, State::Ready);
            if allows(self.job(number), &record) {
                return Some(record);
            }
            self.set_state(number, buried);
            return None;
        }
        if job.state != State::Blocked || matches!(record, Record::OriginClosed { .. }) {
            return None;
        }
        self.unblock_at_once(number);
        if !matches!(record, Record::Unblocked { .. }) {
            let place = self.next_place;
            self.raise(0, place);
            self.rearrange(number, |job| {
                job.place = place;
                job.state = State::Ready;
            });
        }
        self.jobs.get(number).is_some_and(|job| allows(job, &record)).then_some(record)
    }
}

/// A count, or nothing if it cannot be one.
fn believed(count: u64) -> u64 {
    if count < BELIEVED_MAX { count } else { 0 }
}

/// The job that a change befalls.
fn subject(record: &Record<'_>) -> Option<JobNumber> {
    match *record {
        Record::QueueCreated { .. } | Record::Enqueued(_) | Record::Kept(_) | Record::Counters { .. } => None,
        Record::Leased { number, .. }
        | Record::Counted { number }
        | Record::Undone { number }
        | Record::Done { number, .. }
        | Record::Failed { number, .. }
        | Record::Removed { number }
        | Record::OriginClosed { number }
        | Record::Failure { number }
        | Record::BackedOff { number, .. }
        | Record::Rested { number, .. }
        | Record::Released { number, .. }
        | Record::Buried { number, .. }
        | Record::Revived { number, .. }
        | Record::Moved { number, .. }
        | Record::Woke { number, .. }
        | Record::Unblocked { number, .. } => Some(number),
    }
}

/// Whether a change can befall a job in its state.
fn allows(job: &Job, record: &Record<'_>) -> bool {
    let is_buried = matches!(job.state, State::Buried { .. });
    let in_queue = !job.finished() && job.state != State::Blocked && !is_buried;
    match *record {
        Record::QueueCreated { .. } | Record::Enqueued(_) | Record::Kept(_) | Record::Counters { .. } => false,
        Record::Removed { .. } => true,
        Record::OriginClosed { .. } => job.origin().is_some(),
        Record::Failure { .. } | Record::Done { .. } | Record::Failed { .. } => !job.finished(),
        Record::Moved { place, .. } => !job.finished() && place < COUNT_MAX,
        Record::Leased { .. }
        | Record::Counted { .. }
        | Record::Undone { .. }
        | Record::BackedOff { .. }
        | Record::Rested { .. }
        | Record::Released { .. }
        | Record::Buried { .. } => in_queue,
        Record::Revived { .. } => is_buried || matches!(job.state, State::Delayed { .. }),
        Record::Woke { .. } => matches!(job.state, State::Delayed { .. }),
        Record::Unblocked { place, .. } => {
            job.state == State::Blocked && job.blockers().is_empty() && place < COUNT_MAX
        }
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod truth;
